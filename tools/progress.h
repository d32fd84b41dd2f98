/* Progress of long work on standard error: a line that is redrawn on a terminal, elsewhere a new line every few
 * seconds.
 */
#ifndef DPX_TOOLS_PROGRESS_H
#define DPX_TOOLS_PROGRESS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    bool quiet, terminal;
    bool verbose;        /* details of the library are printed, too */
    double start, shown; /* seconds, monotonic */
    int64_t samples;     /* since the start */
    bool open;           /* a line of progress stands on the terminal */
    FILE *log;           /* takes what is printed, too; NULL: nothing does */
    char *early;         /* [n_early] what was printed before the log had a file */
    size_t n_early;
} Progress;

double seconds_now(void);
/* The number as it is printed: NaN without the sign that 0 / 0 has. */
static inline double shown_number(double x) { return isnan(x) ? (double)NAN : x; }
void progress_start(Progress *p, bool quiet);
/* Shows progress after a step of `samples` samples: `done` of `total` steps.  Prints at most a few times a second. */
void progress_step(Progress *p, int64_t epoch, int64_t epochs, int64_t done, int64_t total, double loss,
                   int64_t samples);
/* Prints a line of its own; the next step redraws the line of progress below it. */
void progress_line(Progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_end(Progress *p);
/* Prints a row of the summary of a run: "data       images:shapes: 640 samples", on a terminal wrapped. */
void progress_fact(Progress *p, const char *label, const char *text);

/* Keeps what is printed from here on, for a log that progress_log_to opens later. */
void progress_begin_log(Progress *p);
/* Appends to the file what was printed, and will be.  false: it cannot be written. */
bool progress_log_to(Progress *p, const char *path);
/* Writes a line to the log alone. */
void progress_log(Progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a part of the result to standard output and to the log. */
void progress_result(Progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_close_log(Progress *p);

#endif
