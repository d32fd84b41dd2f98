/* Lines that are printed and kept in the log. */
#include "tools/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/terminal.h"

double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(Progress *p, bool quiet)
{
    *p = (Progress){ .quiet = quiet,
                     .terminal = terminal_moves(STDERR_FILENO),
                     .colour = terminal_colour(STDERR_FILENO),
                     .utf8 = terminal_utf8(),
                     .start = seconds_now() };
    p->shown = p->start;
}

void progress_end(Progress *p)
{
    const int width = terminal_width(STDERR_FILENO) - 1;

    if (p->drawn) /* a terminal that became narrower has lost the rest */
        fprintf(stderr, "\r%*s\r", p->drawn < width ? p->drawn : width, "");
    p->drawn = 0;
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

void progress_result(Progress *p, const char *line)
{
    enum { INDENT = 2 };

    terminal_wrap(stdout, line, 0, INDENT, terminal_width(STDOUT_FILENO));
    progress_log(p, "%s", line);
}

void progress_line(Progress *p, const char *fmt, ...)
{
    static const char warning[] = "dpexec: warning:";
    size_t skipped = 0;
    va_list ap;

    progress_end(p);
    if (p->colour && !strncmp(fmt, warning, strlen(warning))) {
        fprintf(stderr, "\033[33m%s\033[0m", warning);
        skipped = strlen(warning);
    }
    va_start(ap, fmt);
    vfprintf(stderr, fmt + skipped, ap);
    va_end(ap);
    fputc('\n', stderr);
    va_start(ap, fmt);
    write_log(p, fmt, ap, "\n");
    va_end(ap);
}

void progress_fact(Progress *p, const char *label, const char *text)
{
    enum { FACTS_COLUMN = 11 }; /* where the texts of facts begin */

    if (!p->terminal && !p->quiet) {
        progress_line(p, "%-*s%s", FACTS_COLUMN, label, text);
        return;
    }
    if (!p->quiet) {
        progress_end(p);
        fprintf(stderr, "%s%-*s%s", p->colour ? "\033[1m" : "", FACTS_COLUMN, label, p->colour ? "\033[0m" : "");
        terminal_wrap(stderr, text, FACTS_COLUMN, FACTS_COLUMN, terminal_width(STDERR_FILENO));
    }
    progress_log(p, "%-*s%s", FACTS_COLUMN, label, text);
}
