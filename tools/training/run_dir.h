/* The folder of a run: args.json, metrics.jsonl, checkpoints/, model.onnx, best.onnx. */
#ifndef DPX_TOOLS_RUN_DIR_H
#define DPX_TOOLS_RUN_DIR_H

#include <stdio.h>

#include "graph/base/json_writer.h"
#include "tools/args.h"
#include "tools/feed/batch_loader.h"
#include "tools/metrics.h"

typedef struct {
    char path[4000];
    FILE *metrics;
    int lock;         /* descriptor of the locked file; -1: none */
    long repeated_at; /* where the last line of metrics begins, if it is an evaluation that is repeated; else -1 */
    int64_t best;     /* the step that checkpoints/best names; -1: there is none */
    int64_t *saved;   /* [n_saved] steps whose checkpoints this run wrote, ascending */
    size_t n_saved, saved_room;
    char aside[32]; /* the new name of an earlier attempt's metrics.jsonl; "": there was none */
} RunDir;

/* E_IO when the path is a file. */
Status run_dir_check_folder(const char *path) CHECKED;
/* E_IO when another process has the folder locked, or it holds a run: a checkpoint or a trained model. */
Status run_dir_check_new(const char *path) CHECKED;
/* Makes the folder and locks it until run_dir_close; E_IO names the process that has it locked.  A folder that holds a
 * run, which means a checkpoint or a trained model, is refused unless `resume`.  Files of an attempt that has neither
 * are renamed.  After a failure, too, the caller calls run_dir_close. */
Status run_dir_open(RunDir *out, const char *path, bool resume) CHECKED;
/* Makes and opens the folder of a new run in `folder`: MODEL-N with the model's name and the first N that is free. */
Status run_dir_open_new(RunDir *out, const char *folder, const char *model) CHECKED;
/* Checks that the run in the folder can be resumed.  *kept: from a checkpoint, whole or damaged; false: it ended before
 * its first.  E_IO: the folder cannot be read, or does not exist, or, for the process that `owns` it, holds no run. */
Status run_dir_check_resume(bool *kept, const char *path, bool owns) CHECKED;
/* E_MODEL lists the states whose names are not UTF-8: a checkpoint cannot hold them. */
Status run_dir_check_names(const dpx_model *m) CHECKED;
void run_dir_close(RunDir *r);
const char *run_dir_file(const RunDir *r, const char *name, char buf[4096]);
/* Writes args.json: every flag given, and the value of every option in force. */
Status run_dir_write_args(const RunDir *r, const Args *a) CHECKED;
/* Writes checkpoints/best, which names the step of the best model; -1: removes the file and best.onnx. */
Status run_dir_write_best(RunDir *r, int64_t step) CHECKED;
/* Notes that this run wrote the checkpoint of `step`, and removes older ones that it wrote: all but the newest `keep`
 * and those of the best step, `best` and as checkpoints/best has it.  None is removed unless the checkpoint of `step`
 * verifies; then *damage is its damage, to be freed.  keep 0: none is removed. */
Status run_dir_keep(RunDir *r, int64_t step, int64_t keep, int64_t best, char **damage) CHECKED;
/* Drops the lines of metrics.jsonl of steps after `step`, so that a resumed run writes them once.  With `evaluates`,
 * *evaluated: there is an evaluation at `step`; its line stays until run_dir_log_eval replaces it. */
Status run_dir_rewind(RunDir *r, int64_t step, bool evaluates, bool *evaluated) CHECKED;
/* Counts of an epoch. */
typedef struct {
    LoaderRead all, most;        /* by all processes together; by the one that read most */
    int64_t positions, computed; /* of sequences: without and with padding; 0: there are none */
    bool resumed;                /* a checkpoint was read for the epoch */
    int64_t state, most_state;   /* its bytes, read by all processes together; by the one that read most */
} RunRead;
/* Write a line of metrics.jsonl, for a step and for an evaluation.  Numbers read back to the same bits.  `read` and
 * `trained`, the metrics of its steps, are those of the epoch that ends with the step; NULL: none ends.  `data`
 * has the names of classes.  E_IO when the disk is full. */
Status run_dir_log_step(RunDir *r, const dpx_trainer *t, const dpx_result *result, int64_t epoch, double ms,
                        const RunRead *read, const Metrics *trained, const Dataset *data) CHECKED;
Status run_dir_log_eval(RunDir *r, int64_t step, double loss, const Metrics *measured, const Dataset *data) CHECKED;
/* Writes a line of metrics.jsonl with a text that the model wrote after `step`: {"step":500,"sample":"..."}. */
Status run_dir_log_text(RunDir *r, int64_t step, const char *text) CHECKED;

#endif
