/* What the files of the trainer share. */
#ifndef DPX_TRAINER_H
#define DPX_TRAINER_H

#include "exec/api.h"
#include "exec/session.h"

enum { MAX_BATCH_TENSORS = 256 };

struct dpx_trainer {
    const dpx_model *model;
    Options *options;
    Session *session;
    DType dtype;                        /* of parameters and of the learning rate */
    int64_t step;                       /* optimizer steps done */
    int64_t pending;                    /* micro-batches in the present group */
    dpx_result group;                   /* sums over the group */
    NamedTensor shape[MAX_BATCH_TENSORS];   /* of the first micro-batch: what BUILD_APPLY is compiled for */
    int n_shape;
    Trace *trace;                       /* NULL: nothing is timed */
    dpx_log_fn *log;
    void *log_user;
    dpx_progress_fn *progress;
    void *progress_user;
};

/* Compiles what the run will need, if all shapes are known before the first batch, so that errors come early. */
Status trainer_prepare(dpx_trainer *t) CHECKED;

#endif
