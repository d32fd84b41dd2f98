/* Progress of long work on standard error: on a terminal a bar that is redrawn and a table with a row for each epoch,
 * elsewhere plain lines, which the log gets in any case. */
#ifndef DPX_TOOLS_PROGRESS_H
#define DPX_TOOLS_PROGRESS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { HEADING_TEXT = 512 };

typedef struct {
    bool quiet, verbose; /* verbose: details of the library are printed, too */
    bool terminal;       /* standard error is a terminal whose cursor moves */
    bool colour, utf8;
    double start, shown; /* seconds, monotonic; shown: when the bar was drawn last */
    /* The training of an epoch: since `epoch_start`, `samples` were trained on, without the seconds `paused`. */
    int64_t epoch, epochs, samples;
    double epoch_start, paused, pause_start;
    double paused_ever;         /* in all epochs */
    int pauses;                 /* that have begun and not ended */
    int64_t first;              /* steps that were done when training began */
    double first_start;         /* when it began; 0: not yet */
    int drawn;                  /* columns of the bar that stands on the terminal */
    bool evaluates;             /* the bar is an evaluation's */
    char heading[HEADING_TEXT]; /* of the table's last row */
    FILE *log;                  /* takes what is printed, too; NULL: nothing does */
    char *early;                /* [n_early] what was printed before the log had a file */
    size_t n_early;
} Progress;

double seconds_now(void);
/* The number as it is printed: NaN without the sign that 0 / 0 has. */
static inline double shown_number(double x) { return isnan(x) ? (double)NAN : x; }
void progress_start(Progress *p, bool quiet);
/* Prints a line of its own; the bar is drawn again below it. */
void progress_line(Progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a row of the summary of a run: "data       images:shapes: 640 samples", on a terminal wrapped; if it
 * is quiet it goes to the log alone. */
void progress_fact(Progress *p, const char *label, const char *text);
/* Removes the bar. */
void progress_end(Progress *p);

/* ---- tools/progress_bar.c ---- */

/* Begins an epoch, counted from 1, when `done` steps are done. */
void progress_epoch(Progress *p, int64_t epoch, int64_t epochs, int64_t done);
/* Shows progress after a step of `samples` samples: `done` of `total` steps.  Prints at most a few times a second. */
void progress_step(Progress *p, int64_t done, int64_t total, double loss, int64_t samples);
/* Shows progress of an evaluation: `done` of `total` batches. */
void progress_evaluation(Progress *p, int64_t done, int64_t total);
/* What is between these two is no training: an evaluation, a checkpoint.  They may be nested. */
void progress_pause(Progress *p);
void progress_resume(Progress *p);
double progress_rate(const Progress *p); /* samples that a second of this epoch's training takes; 0: none yet */
/* "1.3 s", "2:05" or "1:02:05" */
const char *progress_time(char text[32], double seconds);

/* ---- tools/progress_table.c ---- */

typedef struct {
    char name[64], text[32]; /* "eval loss", "0.4312" */
    int rank;                /* where there is no room, columns of the greatest rank go first */
} ProgressCell;

/* Prints a row on the terminal alone, below the headings, which are printed where they change. */
void progress_row(Progress *p, const ProgressCell *cell, int n, bool best);

/* ---- the log ---- */

/* Keeps what is printed from here on, for a log that progress_log_to opens later. */
void progress_begin_log(Progress *p);
/* Appends to the file what was printed, and will be.  false: it cannot be written. */
bool progress_log_to(Progress *p, const char *path);
/* Writes a line to the log alone. */
void progress_log(Progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line of the result to standard output, on a terminal wrapped, and to the log. */
void progress_result(Progress *p, const char *line);
void progress_close_log(Progress *p);

#endif
