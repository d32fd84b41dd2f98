/* Shared by the files of the C API. */
#ifndef DPX_API_H
#define DPX_API_H

#include "exec/train/options.h"
#include "exec/world/world.h"
#include "graph/onnx/onnx.h"
#include "include/dpexec.h"

struct dpx_model {
    Graph *graph;                           /* as imported, with what is attached to it (exec/train/attach.h) */
    Graph *given;                           /* without that, for export; NULL: nothing is attached */
    char *preprocess, *augment, *criterion; /* the files of what is attached, or NULL */
    char *input_value;                      /* the option's text that it was read with, or NULL */
    Graph *states;                          /* values alone: what is state after prepare-training, without its data */
    DType dtype;                            /* of a run whose options give no other */
    OnnxModel *onnx;
    dpx_operators **operators; /* [n_operators] held: nodes of the graphs are theirs */
    int n_operators;
    _Atomic int users; /* handles and trainers that hold it */
};

/* The purpose of the comparison of processes before they read data and before a trainer is compiled, and the first
 * words of its error. */
#define WORLD_STARTED "comparing how the processes were started"
#define WORLD_UNLIKE "the processes were started with different settings"

struct dpx_world {
    World *world;
    Facts *notes;
    char purpose[128]; /* dpx_world_set_purpose */
};

/* A pointer that a function of dpexec.h cannot do without; `name`: what the header calls it. */
#define NEED(p, name)                                         \
    do {                                                      \
        if (!(p))                                             \
            return (dpx_status)api_missing(__func__, (name)); \
    } while (0)
Status api_missing(const char *function, const char *argument) CHECKED;

/* The size of a struct that may grow, as the caller has it (include/dpexec_sized.h). */
#define NEED_SIZE(size, type)                                        \
    do {                                                             \
        const Status bad_ = api_check_size(__func__, (size), #type); \
        if (bad_)                                                    \
            return (dpx_status)bad_;                                 \
    } while (0)
Status api_check_size(const char *function, size_t size, const char *type) CHECKED;
/* Copies `made` of `own` bytes to the caller's struct of `size` bytes, of which members unknown here become zero. */
void api_give(void *out, size_t size, const void *made, size_t own);
#define GIVE(out, size, made) api_give((out), (size), &(made), sizeof(made))

/* Was the model loaded with the graphs that the options name, and the values that they give inputs? */
Status model_check_attached(const dpx_model *m, const Options *o) CHECKED;
/* Sets the options that model_check_attached asks for, for a caller who gives none. */
Status model_give_attached(Options *o, const dpx_model *m) CHECKED;
const dpx_model *model_keep(const dpx_model *m);
void model_release(const dpx_model *m);

/* Checks a caller's tensor and views it. */
Status api_tensor(Tensor *out, const dpx_tensor *t) CHECKED; /* of numbers */
Status api_tensor_or_text(Tensor *out, const dpx_tensor *t) CHECKED;

#endif
