/* The thread's error message and its trace: the library's only mutable globals, and thread-local. */
#include "graph/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"
#include "graph/base/numtext.h"

enum { MESSAGE_MAX = 16384, TRACE_MAX = 512 };

static _Thread_local char message[MESSAGE_MAX];
static _Thread_local char trace[TRACE_MAX];
static _Thread_local const void *element;
static _Thread_local char element_text[TRACE_MAX];

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

Status fail_at(const char *file, int line, Status s, const char *fmt, ...)
{
    char text[MESSAGE_MAX]; /* the arguments may point into `message` */
    va_list ap;

    va_start(ap, fmt);
    text_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    foreign_clean(text);
    memcpy(message, text, strlen(text) + 1);
    element = NULL;
    snprintf(trace, sizeof trace, "%s:%d", base_name(file), line);
    return s;
}

void fail_trace(const char *file, int line)
{
    size_t len = strlen(trace);

    if (len + 32 < sizeof trace)
        snprintf(trace + len, sizeof trace - len, " < %s:%d", base_name(file), line);
}

const char *status_message(void) { return message; }

const char *status_trace(void) { return trace; }

void status_clear(void)
{
    message[0] = trace[0] = '\0';
    element = NULL;
}

void status_set_element(const void *at, const char *text)
{
    element = at;
    snprintf(element_text, sizeof element_text, "%s", text);
    foreign_clean(element_text);
}

const void *status_element(void) { return element; }
const char *status_element_text(void) { return element ? element_text : ""; }

const char *status_name(Status s)
{
    static const char *const names[] = {
        "ok",           "out of memory", "invalid argument", "malformed model", "unsupported", "shape mismatch",
        "device error", "i/o error",     "internal error",   "interrupted"
    };

    return s <= 0 && s > -(int)(sizeof names / sizeof *names) ? names[-s] : "unknown status";
}

Status status_prefix(Status s, const char *fmt, ...)
{
    char text[MESSAGE_MAX];
    size_t len;
    va_list ap;

    if (!s)
        return s;
    va_start(ap, fmt);
    text_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    foreign_clean(text);
    len = strlen(text);
    if (!strncmp(message, text, len) && message[len] == ':')
        return s; /* a deeper layer added it */
    snprintf(text + len, sizeof text - len, ": %s", message);
    memcpy(message, text, strlen(text) + 1);
    return s;
}

void problems_add(Problems *p, const char *fmt, ...)
{
    char text[1024], *grown;
    size_t len;
    va_list ap;

    va_start(ap, fmt);
    text_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    len = strlen(text);
    p->n++;
    if (p->len + len + 3 > MESSAGE_MAX * 2 || !(grown = heap_reserve(p->text, 1, p->len + len + 3, &p->cap)))
        return; /* p->n still counts it */
    p->text = grown;
    p->len += (size_t)sprintf(p->text + p->len, "%s%s", p->len ? "; " : "", text);
}

Status problems_fail(Problems *p, Status s, const char *fmt, ...)
{
    char header[1024];
    va_list ap;

    if (!p->n)
        return ST_OK;
    va_start(ap, fmt);
    text_vformat(header, sizeof header, fmt, ap);
    va_end(ap);
    s = FAIL(s, "%s%s%s", header, *header ? ": " : "", p->text ? p->text : "(no memory to list them)");
    problems_free(p);
    return s;
}

void problems_free(Problems *p)
{
    free(p->text);
    *p = (Problems){ 0 };
}
