/* Passes: each is one function that changes a graph by a stated contract, in a file of its own; pipeline.c has the
 * order. */
#ifndef DPX_PASS_H
#define DPX_PASS_H

#include "graph/ir/autodiff.h"
#include "graph/ir/node_draft.h"

/* The graph that is built from an imported model. */
typedef enum {
    BUILD_INFER,   /* forward only, outputs of the model; running statistics, no dropout */
    BUILD_PREDICT, /* BUILD_INFER without the model's own losses and metrics, and without inputs that only these need */
    BUILD_CONTINUE,   /* BUILD_INFER of the next tokens of a text (passes/generate/cache_keys.c) */
    BUILD_EVAL,       /* BUILD_INFER without the model's own losses + criterion and metrics */
    BUILD_TRAIN,      /* a whole optimizer step from one batch */
    BUILD_ACCUMULATE, /* one micro-batch: gradients and loss sums are added to transient state */
    BUILD_APPLY,      /* the optimizer step from the accumulated state */
    BUILD_FINISH      /* the last micro-batch and the step: with --turns, where losses see other players' new values */
} BuildMode;
enum {
    MODES_LEARN = 1u << BUILD_TRAIN | 1u << BUILD_ACCUMULATE | 1u << BUILD_FINISH, /* there are samples to learn from */
    MODES_UPDATE = 1u << BUILD_TRAIN | 1u << BUILD_APPLY | 1u << BUILD_FINISH,     /* parameters change */
    MODES_TRAIN = MODES_LEARN | MODES_UPDATE
};

/* How a graph is built: the mode, and options in parts.  A pass includes the parts that it reads,
 * passes/options/PART.h, and reads them by their accessors, replica_options(ctx->opt)->devices.  Callers who fill the
 * options in include passes/build_options.h. */
typedef struct BuildOptions BuildOptions;

BuildMode build_mode(const BuildOptions *opt);
bool mode_in(const BuildOptions *opt, unsigned modes); /* modes: bits 1 << BuildMode */
int replica_count(const BuildOptions *opt);            /* at least 1 */
int device_count(const BuildOptions *opt);             /* of the graph; at least 1 */
/* Does the model's file describe the step's update (its training_info), rather than an optimizer of ours? */
bool follows_file(const BuildOptions *opt);
/* Does the run's optimizer average the parameters itself?  Does training keep a mean of each (PARAM.ema)? */
bool optimizer_averages(const BuildOptions *opt);
bool keeps_means(const BuildOptions *opt);
bool has_loss(const BuildOptions *opt);
bool loss_has_target(const BuildOptions *opt);       /* the loss compares scores with a target */
bool loss_has_classes(const BuildOptions *opt);      /* ... whose elements are classes */
bool loss_is_output(const BuildOptions *opt);        /* the model computes the loss: it is among its outputs */
const Target *build_target(const BuildOptions *opt); /* the devices' capabilities */

typedef struct Variants Variants; /* passes/partition/variants.h */
typedef struct Report Report;     /* passes/report.h: the passes' results, for --report and the log */

typedef struct {
    Arena *scratch; /* emptied after each pass */
    const BuildOptions *opt;
    Evaluator eval;     /* NULL: nothing is folded */
    Report *report;     /* may be NULL */
    Variants *variants; /* the same graph for replicas whose parts are shorter; NULL: none */
    int n_changed;
} PassCtx;

/* Opens a draft of nodes that the devices of the graph are to compute. */
void pass_draft(Draft *d, Graph *g, const PassCtx *ctx);

typedef struct {
    const char *name, *summary;
    unsigned modes;  /* bits 1 << BuildMode; 0: all */
    bool idempotent; /* changes nothing when it runs again; its golden texts are run twice */
    Status (*run)(Graph *g, PassCtx *ctx);
} Pass;

/* ---- passes/pipeline.c ---- */
extern const Pass *const pipeline[]; /* in order */
extern const int pipeline_len;

typedef struct {
    const char *after; /* begin behind the pass of this name; NULL: with the first */
    const char *until; /* stop after the pass of this name; NULL: all */
} PipelineOptions;

/* Runs the pipeline in place.  In debug builds the graph is verified after each pass. */
Status pipeline_run(Graph *g, const BuildOptions *opt, Evaluator eval, Report *report,
                    const PipelineOptions *how) CHECKED;

/* The model passes: they undo exporters' changes, once between import and the pipeline, in place.  Their result is the
 * model that is trained, run and exported.  `report` may be NULL. */
extern const Pass *const model_passes[]; /* in order */
extern const int model_passes_len;
Status model_repair(Graph *g, const BuildOptions *opt, Evaluator eval, Report *report) CHECKED;

/* Decides which inputs carry the batch, before data are read; later passes keep to that. */
Status model_find_batch(Graph *g, const BuildOptions *opt, Evaluator eval) CHECKED;

/* ---- names that passes agree on ---- */
/* Outputs of a training or evaluation graph. */
#define OUT_LOSS "loss"         /* the loss of the whole batch */
#define OUT_LOSS_SUM "loss_sum" /* its numerator and denominator, so that evaluations add up exactly */
#define OUT_LOSS_WEIGHT "loss_weight"
#define OUT_LOG_PREFIX "log:"       /* log:NAME, a log variable times the loss's denominator */
#define OUT_MODEL_PREFIX "model:"   /* model:NAME, an output of the model in an evaluation, called like one of ours */
#define OUT_METRIC_SUM "metric_sum" /* the same of the metric */
#define OUT_METRIC_WEIGHT "metric_weight"
#define OUT_GRAD_NORM "grad_norm" /* before clipping; of group k that has a clip of its own "grad_norm.k" */
/* With --turns there is a pair of these two for each player (group_name). */
#define OUT_LOSS_SCALE "loss_scale" /* SCALE_DYNAMIC: that this step used */
#define OUT_APPLIED \
    "applied" /* with a scale: bool: all gradients were finite; if not, the step changed only a dynamic scale */
#define OUT_SCALED_LOSS "scaled_loss" /* differentiated instead of the loss; removed by passes/train/autodiff.c */
#define OUT_OWN_LOSS_PREFIX \
    "loss:"                     /* loss:NAME, differentiated for groups whose loss is output NAME; removed by it, too */
#define OUT_GRAD_PREFIX "grad:" /* grad:NAME, the gradient by parameter NAME */
/* Prefixes of nodes' names that state their purpose (graph_begin_purpose); GRADIENT_OF is graph/ir/autodiff.h's. */
#define UPDATE_OF "update of "
/* Inputs made by passes. */
#define IN_LR "learning_rate" /* 0-d, of the parameters' type; of group k, counted from 1, "learning_rate.k" */
/* State made by passes; parameters and running statistics keep the user's names. */
/* With --turns and a loss scale there is a set of the first three for each player (group_name). */
#define STATE_STEP "dpexec.step"             /* int64 0-d: updates of the parameters done */
#define STATE_LOSS_SCALE "dpexec.loss_scale" /* float32 0-d */
#define STATE_GOOD_STEPS "dpexec.good_steps" /* int64 0-d: updates since the scale changed */
#define STATE_DRAW "dpexec.draw"             /* int64 0-d: batches drawn for, keys random numbers */
/* "PARAM.grad_sum", and the optimizer's states: "PARAM.momentum", "PARAM.exp_avg" ... */
/* Transient sums over the micro-batches of one step, made by passes/train/add_optimizer.c. */
#define STATE_LOSS_SUM "dpexec.loss_sum"
#define STATE_LOSS_WEIGHT "dpexec.loss_weight"
#define STATE_LOG_PREFIX "dpexec.log:"
#define STATE_METRIC_SUM "dpexec.metric_sum"
#define STATE_METRIC_WEIGHT "dpexec.metric_weight"

#endif
