/* The folder of a run: args.json, metrics.jsonl, checkpoints/, model.onnx. */
#ifndef DPX_TOOLS_RUN_DIR_H
#define DPX_TOOLS_RUN_DIR_H

#include <stdio.h>

#include "tools/args.h"
#include "tools/batch_loader.h"

typedef struct {
    char path[4000];
    FILE *metrics;
    int lock;       /* descriptor of the locked file; -1: none */
    long again;     /* where the last line of metrics begins, an evaluation that is written again; -1: none is */
    char aside[32]; /* what metrics.jsonl of an earlier attempt is called now; "": there was none */
} RunDir;

/* E_IO: the path is a file. */
Status run_dir_check_folder(const char *path) CHECKED;
/* Makes the folder and locks it until run_dir_close: E_IO names the process that has it.  One that holds a run, which
 * is a checkpoint or a trained model, is refused unless `resume`; what an attempt without either left is kept aside.
 * After a failure run_dir_close. */
Status run_dir_open(RunDir *out, const char *path, bool resume) CHECKED;
/* Can the run in the folder go on?  `*kept`: from a checkpoint, whole or damaged; else it has begun and ended before
 * its first.  E_IO: that cannot be told, or there is no such folder, or, for who `owns` it, no run in it. */
Status run_dir_check_resume(bool *kept, const char *path, bool owns) CHECKED;
/* Can a checkpoint hold the model's state?  E_MODEL lists what has a name that is not UTF-8. */
Status run_dir_check_names(const dpx_model *m) CHECKED;
void run_dir_close(RunDir *r);
const char *run_dir_file(const RunDir *r, const char *name, char buf[4096]);
/* args.json: every flag given and every option's value in force. */
Status run_dir_write_args(const RunDir *r, const Args *a) CHECKED;
/* Drops the lines of metrics.jsonl that belong to steps after `step`, so that a resumed run writes them once.  With
 * `evaluates` `*evaluated` tells that there is an evaluation at `step`: its line stays until run_dir_log_eval writes it
 * again. */
Status run_dir_rewind(RunDir *r, int64_t step, bool evaluates, bool *evaluated) CHECKED;
/* One line a step, one an evaluation; numbers read back to the same bits.  E_IO when the disk is full. */
typedef struct {
    LoaderRead all, most;        /* of all processes together; of the one that read most */
    int64_t positions, computed; /* of sequences; 0: there are none */
    bool resumed;                /* a checkpoint was read since the last of these: */
    int64_t state, most_state;   /* its bytes, by all processes together; by the one that read most */
} RunRead;
/* Of the epoch that ends with the step `read`, and what its steps measured of the metric, else NULL. */
Status run_dir_log_step(RunDir *r, const dpx_trainer *t, const dpx_result *result, int64_t epoch, double ms,
                        const RunRead *read, const char *metric, const dpx_metric *trained) CHECKED;
Status run_dir_log_eval(RunDir *r, int64_t step, double loss, const char *metric, const dpx_metric *measured) CHECKED;

/* As JSON, which has no NaN and no infinity: those are null. */
const char *json_number(double v, char buf[32]);
/* `,"KEY":{"NAME":VALUE,...}` of log variables but the first, the total; of none nothing. */
Status json_write_log(FILE *f, const char *key, const dpx_log_value *log, int n) CHECKED;
/* The number, or the table as a list of its rows. */
void json_write_metric(FILE *f, const dpx_metric *m);

#endif
