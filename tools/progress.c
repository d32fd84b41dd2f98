/* The line of progress is redrawn a few times a second; a step between two redraws costs one look at the clock. */
#include "tools/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/terminal.h"

static const double TERMINAL_SECONDS = 0.2, PLAIN_SECONDS = 5;

double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(Progress *p, bool quiet)
{
    *p = (Progress){ .quiet = quiet, .terminal = isatty(STDERR_FILENO), .start = seconds_now() };
    p->shown = p->start;
}

static void format_time(double s, char buf[32])
{
    int64_t t = (int64_t)(s + 0.5);

    if (t >= 3600)
        snprintf(buf, 32, "%lld:%02lld:%02lld", (long long)(t / 3600), (long long)(t / 60 % 60), (long long)(t % 60));
    else
        snprintf(buf, 32, "%lld:%02lld", (long long)(t / 60), (long long)(t % 60));
}

void progress_step(Progress *p, int64_t epoch, int64_t epochs, int64_t done, int64_t total, double loss,
                   int64_t samples)
{
    double now = seconds_now(), spent = now - p->start;
    char left[32], of[32] = "";

    p->samples += samples;
    if (p->quiet || now - p->shown < (p->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS))
        return;
    p->shown = now;
    format_time(done && p->samples ? spent / (double)done * (double)(total - done) : 0, left);
    if (epochs > 0)
        snprintf(of, sizeof of, "/%lld", (long long)epochs);
    fprintf(stderr, "%sepoch %lld%s  step %lld/%lld  loss %.4f  %.0f samples/s  ETA %s%s", p->terminal ? "\r" : "",
            (long long)epoch, of, (long long)done, (long long)total, shown_number(loss), (double)p->samples / spent,
            left, p->terminal ? "\033[K" : "\n");
    p->open = p->terminal;
    fflush(stderr);
    if (!p->terminal)
        progress_log(p, "epoch %lld%s  step %lld/%lld  loss %.4f  %.0f samples/s  ETA %s", (long long)epoch, of,
                     (long long)done, (long long)total, shown_number(loss), (double)p->samples / spent, left);
}

void progress_end(Progress *p)
{
    if (p->open)
        fputs("\r\033[K", stderr);
    p->open = false;
}

/* ---- the log ---- */

void progress_begin_log(Progress *p) { p->log = open_memstream(&p->early, &p->n_early); }

bool progress_log_to(Progress *p, const char *path)
{
    FILE *file = fopen(path, "a");

    progress_close_log(p);
    p->log = file;
    if (file && p->n_early)
        fwrite(p->early, 1, p->n_early, file);
    free(p->early);
    p->early = NULL;
    p->n_early = 0;
    return file && !fflush(file);
}

void progress_close_log(Progress *p)
{
    if (p->log)
        fclose(p->log);
    p->log = NULL;
}

static void write_log(Progress *p, const char *fmt, va_list ap, const char *end)
{
    if (!p->log)
        return;
    vfprintf(p->log, fmt, ap);
    fputs(end, p->log);
    fflush(p->log);
}

void progress_log(Progress *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_log(p, fmt, ap, "\n");
    va_end(ap);
}

/* ---- what is printed ---- */

void progress_result(Progress *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    va_start(ap, fmt);
    write_log(p, fmt, ap, "");
    va_end(ap);
}

void progress_line(Progress *p, const char *fmt, ...)
{
    va_list ap;

    progress_end(p);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    va_start(ap, fmt);
    write_log(p, fmt, ap, "\n");
    va_end(ap);
}

enum { FACTS_COLUMN = 11 }; /* where the texts of facts begin */

/* Prints words from the column of facts on, wrapped to the terminal. */
static void print_wrapped(const char *text)
{
    const int width = terminal_width(STDERR_FILENO);

    for (int at = FACTS_COLUMN; *text;) {
        const int n = (int)strcspn(text, " ");

        if (at > FACTS_COLUMN && at + 1 + n > width)
            at = fprintf(stderr, "\n%*s", FACTS_COLUMN, "") - 1;
        else if (at > FACTS_COLUMN)
            at += fprintf(stderr, " ");
        at += fprintf(stderr, "%.*s", n, text);
        text += n + (text[n] == ' ');
    }
    fputc('\n', stderr);
}

void progress_fact(Progress *p, const char *label, const char *text)
{
    const bool bold = terminal_colour(STDERR_FILENO);

    if (!p->terminal) {
        progress_line(p, "%-*s%s", FACTS_COLUMN, label, text);
        return;
    }
    progress_end(p);
    fprintf(stderr, "%s%-*s%s", bold ? "\033[1m" : "", FACTS_COLUMN, label, bold ? "\033[0m" : "");
    print_wrapped(text);
    progress_log(p, "%-*s%s", FACTS_COLUMN, label, text);
}
