/* What a run has logged so far, as pages show it: metrics.jsonl as series that are thinned to a bounded size, a row for
 * each epoch and evaluation, the newest tables, and the newest texts of a language model. */
#ifndef DPX_TOOLS_HISTORY_H
#define DPX_TOOLS_HISTORY_H

#include <jansson.h>

#include "graph/base/status.h"

enum { MOST_BINS = 600 /* of a series; even */, MOST_TEXTS = 6 };

/* Neighbouring points of a series: the least and the greatest, each with its step. */
typedef struct {
    int64_t min_step, max_step;
    double min, max;
} Bin;

/* A number that is logged again and again: "loss", "lr", "eval_accuracy" ... */
typedef struct {
    char *name;
    Bin bin[MOST_BINS];
    int n;
    int64_t per_bin, in_last; /* points of a full bin, and of the last one */
} Series;

/* Receives each number that is logged, those of earlier steps, too. */
typedef Status HistorySink(void *user, int64_t step, const char *key, double x);

typedef struct {
    char folder[4096];
    long offset; /* bytes of metrics.jsonl that are read */
    Series **series;
    size_t n_series, series_room;
    int64_t step, epoch, steps_read;
    double seconds, lr;   /* of all steps; of the last one */
    json_t *rows;         /* [{"step", "epoch", "seconds", "loss", "samples_per_second", "eval_loss", ...}] */
    json_t *tables;       /* {"eval_confusion-matrix": [[...]], ...}: of the newest row that has one */
    json_t *texts;        /* [{"step", "sample"}]: the newest MOST_TEXTS that the model wrote, in order */
    double loss, samples; /* sums since the last row */
    double row_seconds;
    int64_t row_steps;
    HistorySink *take; /* NULL: none */
    void *user;
} History;

/* Reads the run in the folder, and gives each number to `take`, unless that is NULL.  E_IO: it has no metrics.jsonl
 * that can be read. */
Status history_open(History **out, const char *folder, HistorySink *take, void *user) CHECKED;
/* Reads what was logged since; all again if the file is shorter now, because the run was resumed from before. */
Status history_follow(History *h) CHECKED;
void history_free(History *h);
/* NULL: the run has no such series. */
const Series *history_find(const History *h, const char *name);
/* Writes the rows as RFC 4180 has it, a column for each number that a row has. */
Status history_write_csv(const History *h, const char *path) CHECKED;

#endif
