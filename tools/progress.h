/* Progress of long work on standard error: one moving line on a terminal, a plain line every few seconds elsewhere. */
#ifndef DPX_TOOLS_PROGRESS_H
#define DPX_TOOLS_PROGRESS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool quiet, terminal;
    double start, shown; /* seconds, monotonic */
    int64_t samples;     /* since the start */
    bool open;           /* a moving line stands on the terminal */
} Progress;

double seconds_now(void);
/* As it is shown: 0 / 0 has a sign that says nothing. */
static inline double shown_number(double x) { return isnan(x) ? (double)NAN : x; }
void progress_start(Progress *p, bool quiet);
/* After each step: `done` of `total` steps; samples of this step.  Shows at most a few times a second. */
void progress_step(Progress *p, int64_t epoch, int64_t epochs, int64_t done, int64_t total, double loss,
                   int64_t samples);
/* A line of its own; the moving line is put back behind it by the next step. */
void progress_line(Progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_end(Progress *p);

#endif
