/* A pass: one function that changes a graph, with a stated contract.  One file per pass; the order is in pipeline.c. */
#ifndef DPX_PASS_H
#define DPX_PASS_H

#include <stdio.h>

#include "graph/ir/autodiff.h"
#include "graph/ir/node_draft.h"
#include "graph/recipes/metric.h"
#include "graph/recipes/optimizer.h"

/* What is built from an imported model. */
typedef enum {
    BUILD_INFER,      /* forward only, outputs of the model; running statistics, no dropout */
    BUILD_PREDICT,    /* BUILD_INFER without what a model measures itself, and without inputs that only that needs */
    BUILD_EVAL,       /* BUILD_INFER without such losses + criterion and metrics */
    BUILD_TRAIN,      /* a whole optimizer step from one batch */
    BUILD_ACCUMULATE, /* one micro-batch: gradients and loss sums are added to transient state */
    BUILD_APPLY,      /* the optimizer step from the accumulated state */
    BUILD_FINISH      /* the last micro-batch and the step: with --turns, where losses of one see what others became */
} BuildMode;
enum {
    MODES_LEARN = 1u << BUILD_TRAIN | 1u << BUILD_ACCUMULATE | 1u << BUILD_FINISH, /* there are samples to learn from */
    MODES_UPDATE = 1u << BUILD_TRAIN | 1u << BUILD_APPLY | 1u << BUILD_FINISH,     /* parameters change */
    MODES_TRAIN = MODES_LEARN | MODES_UPDATE
};

typedef enum {
    SPLIT_BALANCED,
    SPLIT_CHUNK,
    SPLIT_WEIGHTS,
    SPLIT_AUTO /* weights that are still to be found (exec/inspect/replica_weights.h) */
} SplitMode;

/* Along which axis outputs of replicas are put together. */
typedef enum {
    JOIN_PLACED, /* each along its own */
    JOIN_INPUTS, /* along that of the inputs, where they have one */
    JOIN_AXIS
} OutputJoin;
/* Each level with what the one before it has. */
typedef enum { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_PARAMETERS } ShardMode;
/* Which parts the mean of the parts' losses is over: all, or those that have samples. */
typedef enum { MEAN_OVER_ALL, MEAN_OVER_FILLED } MeanOver;
/* Whose statistics a batch-norm takes, and whose its running ones are: those of the whole batch; a part's, and the
 * first replica's; a part's, and the mean of all replicas' (docs/semantics.md). */
typedef enum { BN_SYNC, BN_LOCAL, BN_AVERAGE } BatchNormMode;
typedef enum { SCALE_NONE, SCALE_FIXED, SCALE_DYNAMIC } LossScaling;
/* A dynamic scale begins with `first`; times growth after `interval` updates in a row, times backoff where a step is
 * skipped.  interval 0: the usual rule (loss_scale_rule). */
typedef struct {
    double first, growth, backoff;
    int64_t interval;
} LossScaleRule;

typedef struct {
    const char *name;
    Shape shape;
} InputShape;
typedef struct {
    const char *name;
    int axis; /* negative: from the end */
} BatchInput;

/* Of an input that may carry the batch or not, what its data say: bits of axes as in Value.carries. */
typedef struct {
    const char *name;
    unsigned carries;
} CarryChoice;

typedef struct {
    const char *name;
    int n;
} InputMembers;

/* An input that is a constant of these numbers, "16000" or "1,2,3". */
typedef struct {
    const char *name, *text;
} InputValue;

/* How far along an axis behind the samples each replica's part of an input reaches. */
typedef struct {
    const char *name;
    int axis;
    const int64_t *size; /* [replicas] */
} InputReach;

/* How gradients are bounded. */
typedef struct {
    double norm;  /* the most of the norm of all together; 0: unbounded */
    double power; /* of the norm: 0 stands for 2; INFINITY: the largest element */
    double value; /* the most of each element; 0: unbounded */
} Clip;

/* Parameters that are updated in a way of their own (passes/update_groups.c). */
typedef struct {
    const char *pattern; /* fnmatch, on their names */
    const OptimizerDef *optimizer;
    const char *optimizer_args, *settings; /* as of BuildOptions */
    const Clip *clip;                      /* NULL: with all others that have none of their own */
    const char *loss;                      /* an output that is logged, whose gradient it takes; NULL: the loss's */
} UpdateGroup;

/* How an operator that mixes samples gets those of other replicas (passes/partition/mixed_samples.c). */
typedef enum { MIX_AUTO, MIX_GATHER, MIX_EXCHANGE } MixMode;

/* What a sum of S bytes over all devices costs: seconds + per_byte * S. */
typedef struct {
    double seconds, per_byte;
    double flops; /* that a device does in a second */
    bool beside;  /* sums go on beside what is computed */
} SumCost;

typedef struct {
    BuildMode mode;

    /* shapes and types */
    int64_t batch;                 /* global batch size; 0: as the inputs' shapes say */
    const InputShape *input_shape; /* binds symbolic dimensions */
    int n_input_shape;
    const BatchInput *batch_input; /* which inputs carry the batch; none: found (see passes/partition/place.c) */
    int n_batch_input;
    const CarryChoice *carry_choice; /* likewise, of those that the model leaves open */
    int n_carry_choice;
    const InputMembers *input_members; /* of inputs that are sequences or optional: tensors, -1 where it is absent */
    int n_input_members;
    const InputValue *input_value; /* of inputs of the model, or of what is attached to it */
    int n_input_value;
    int (*members)(void *user, const char *input, int sequence, int optional); /* of others: -2: not known; or NULL */
    void *members_user;
    const InputReach *reach; /* inputs, or targets, whose parts end before the whole does; what is behind is padding */
    int n_reach;
    bool *reach_kept;         /* [replicas] receives which of them end there too where they are computed; may be NULL */
    DType dtype;              /* DT_FLOAT32 / DT_FLOAT64: convert the model's floats; DT_NONE: leave */
    DType precision;          /* DT_FLOAT16 / DT_BFLOAT16: of products and their surroundings; DT_NONE: as dtype */
    LossScaling loss_scaling; /* of the loss that is differentiated (passes/train/scale_loss.c) */
    double loss_scale;        /* SCALE_FIXED: the factor */
    LossScaleRule scale_rule; /* SCALE_DYNAMIC */

    /* criterion */
    const LossDef *loss;     /* NULL: none */
    const char *loss_args;   /* what the loss was given behind its name, "0.5"; NULL: nothing */
    const char *loss_weight; /* TARGET_NONE: the graph output that it weighs in a group of batches; NULL: samples */
    bool loss_is_sum;        /* TARGET_NONE: the loss of a group of batches is the sum of theirs */
    bool mean_of_means;      /* of a training step: the mean of the replicas' means, not of the samples */
    MeanOver mean_over;
    const MetricDef *metric; /* NULL: none */
    const char *metric_args;
    const char *settings;      /* flags of loss, metric and optimizer, "momentum=0.9;nesterov=true" (recipe_read) */
    const char *logits;        /* the graph output the loss is computed from; NULL: the first */
    const char *target;        /* name of the target input that is created; NULL: "target" */
    const Shape *target_shape; /* of targets as batches bring them; NULL: not known yet */
    int class_axis;            /* of the scores, from the end when negative; 0: found (passes/train/class_axis.h) */
    struct ClassAxis *class_axis_found; /* receives what was found or assumed; may be NULL */
    const Tensor *class_weights;        /* [C] float, or NULL */

    /* optimizer */
    const OptimizerDef *optimizer; /* NULL: sgd */
    const char *optimizer_args;
    Clip clip;
    double ema;      /* decay of the mean of each parameter; 0: none */
    bool eval_means; /* outside of training, parameters that have a mean are read as that */
    bool (*has_mean)(const void *states, const char *param); /* are there means, and of this one?  NULL: of none */
    const void *states;
    const UpdateGroup *group; /* the first whose pattern matches has the parameter */
    int n_group;
    bool turns;               /* groups are updated one after another (passes/train/take_turns.c) */
    const char *const *untie; /* fnmatch patterns on names of constants that are untied whatever the file shows */
    int n_untie;
    const char *const *stop; /* names, or patterns of them, that no gradient passes (passes/model/stop_gradient.c) */
    int n_stop;
    bool qat_off;             /* no gradient passes quantisers (passes/model/straight_through.c) */
    const char *const *state; /* "BUFFER=VALUE": what a buffer is after each step (passes/model/buffers.c) */
    int n_state;
    const char *const *freeze, *const *train; /* fnmatch patterns on parameter names (passes/model/parameters_list.c) */
    int n_freeze, n_train;
    const struct ParameterList
        *parameters; /* which are trained, all others are not; NULL: found (passes/model/parameters.c) */

    /* partition */
    int replicas; /* logical; 0 or 1 with one device: the graph stays as it is */
    int devices;
    int world; /* of how many devices the graph shows only REPRESENTATIVES at most, one for each class of equal ones
                * (passes/partition/divide.c); `devices` is then REPRESENTATIVES; 0: it shows all */
    bool loss_gathered; /* the loss is computed there, of all samples' scores, not of each replica's */
    int output_device;  /* that outputs are put together on */
    bool numbers_apart; /* those of one number are a vector of the replicas' own, in inference */
    OutputJoin join;    /* where those are that replicas have, in inference (passes/partition/own_outputs.c) */
    int join_axis;      /* JOIN_AXIS: of each, from its end where it is negative */
    bool outputs_apart; /* they are not: each replica's part of one is an output, NAME@r2 */
    const int *device_of_replica; /* [replicas], non-decreasing; NULL: contiguous, as even as possible */
    SplitMode split;
    const double *weight; /* SPLIT_WEIGHTS: of each device, or of each replica; none negative, not all 0 */
    int n_weight;
    MixMode mix;
    int64_t samples_each; /* every replica has so many samples, until there are none left, whatever `split`; 0: as that
                             says */
    bool master;          /* SHARD_PARAMETERS: all pieces are the first device's */
    ShardMode shard;      /* of what each device has only a piece (passes/partition/shard.c) */
    int64_t bucket_bytes; /* the most of the gradients that go in one collective (passes/partition/bucket_gradients.c);
                             0: its own choice */
    DType reduce;         /* of gradients between devices (passes/partition/narrow_sums.c); DT_NONE: their own */
    const SumCost *sum_cost; /* by which it is chosen; NULL: not known */
    BatchNormMode bn;
    int bn_group;    /* BN_SYNC: statistics of so many replicas; 0: of all */
    int64_t samples; /* of an epoch whose last batch is trained; 0: not known */
    bool bn_unbiased;
    bool bn_clamp;       /* several replicas: max(variance, epsilon) instead of their sum */
    bool file_modes;     /* in inference, operators that training changes are in the mode that the file says */
    bool own_buffers;    /* BN_LOCAL: each replica keeps running statistics of its own */
    Target backend;      /* what the devices can do */
    bool tf32;           /* accelerators: products of float32 may round their inputs to TF32 */
    bool blocks;         /* CPUs: what convolutions of float32 work on is stored in blocks of channels */
    bool keep_gradients; /* outputs "grad:NAME" stay in the graph (--verify) */
    uint64_t seed;
    int64_t chunk_rows;   /* of the scores of a cross-entropy that are computed at once (passes/plan/chunk_loss.c); 0:
                             all;   -1: by their size */
    bool standard;        /* a step in operators of ai.onnx alone (passes/train/standard.c) */
    const char *in_force; /* of options that another system's name stands for, for the report; NULL: none */
    int64_t plan_memory;  /* bytes that planning may take; 0: see exec/plan/plan_budget.h */
    int64_t max_nodes;    /* of a model with functions inlined and loops unrolled or run; 0: ONNX_MAX_NODES */
} BuildOptions;

LossScaleRule loss_scale_rule(const BuildOptions *opt); /* in force: passes/train/scale_loss.c */
static inline bool mode_in(const BuildOptions *opt, unsigned modes) { return modes >> opt->mode & 1; }

enum { REPRESENTATIVES = 4 };

typedef struct Variants Variants; /* passes/partition/variants.h */
typedef struct Report Report;     /* passes/report.h: what was found, for --report and the log */

typedef struct {
    Arena *scratch; /* emptied after each pass */
    const BuildOptions *opt;
    Evaluator eval;     /* NULL: nothing is folded */
    Report *report;     /* may be NULL */
    Variants *variants; /* the same graph for replicas whose parts are shorter; NULL: none is */
    int n_changed;
} PassCtx;

static inline int replica_count(const BuildOptions *opt)
{
    return opt->replicas > 0 ? opt->replicas : opt->world ? opt->world : opt->devices > 1 ? opt->devices : 1;
}
static inline int device_count(const BuildOptions *opt) { return opt->devices > 1 ? opt->devices : 1; }

/* For nodes that the devices of the graph are to compute. */
static inline void pass_draft(Draft *d, Graph *g, const PassCtx *ctx)
{
    draft_open(d, g, &ctx->opt->backend, device_count(ctx->opt), ctx->scratch);
}

typedef struct {
    const char *name, *summary;
    unsigned modes; /* bits 1 << BuildMode; 0: all */
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

/* Is a step's update what the model's file says of it, and not one of a gradient? */
static inline bool follows_file(const BuildOptions *opt) { return opt->optimizer && opt->optimizer->of_file; }

/* The model passes: they mend what exporters did to the model, once between import and the pipeline, in place.  What
 * they make is the model that is trained, run and exported.  `report` may be NULL. */
extern const Pass *const model_passes[]; /* in order */
extern const int model_passes_len;
Status model_repair(Graph *g, const BuildOptions *opt, Evaluator eval, Report *report) CHECKED;

/* The one that decides which inputs carry the batch, before data are read; later ones keep to that. */
Status model_find_batch(Graph *g, const BuildOptions *opt, Evaluator eval) CHECKED;

/* ---- names that passes agree on ---- */
/* Outputs of a training or evaluation graph. */
#define OUT_LOSS "loss"         /* the loss of the whole batch */
#define OUT_LOSS_SUM "loss_sum" /* its numerator and denominator, so that evaluations add up exactly */
#define OUT_LOSS_WEIGHT "loss_weight"
#define OUT_LOG_PREFIX "log:"       /* log:NAME, a log variable times the loss's denominator */
#define OUT_MODEL_PREFIX "model:"   /* model:NAME, an output of the model in an evaluation, called like one of ours */
#define OUT_METRIC_SUM "metric_sum" /* of the metric alike */
#define OUT_METRIC_WEIGHT "metric_weight"
#define OUT_GRAD_NORM "grad_norm" /* before clipping; of group k that has a clip of its own "grad_norm.k" */
/* With --turns each player has these two of its own (group_name). */
#define OUT_LOSS_SCALE "loss_scale" /* SCALE_DYNAMIC: that this step used */
#define OUT_APPLIED \
    "applied" /* with a scale: bool: all gradients were finite; else the step changed nothing but a dynamic scale */
#define OUT_SCALED_LOSS \
    "scaled_loss" /* what is differentiated instead of the loss; gone after passes/train/autodiff.c */
#define OUT_OWN_LOSS_PREFIX \
    "loss:" /* loss:NAME, what is differentiated for groups whose loss is output NAME; gone likewise */
#define OUT_GRAD_PREFIX "grad:" /* grad:NAME, the gradient by parameter NAME */
/* Names of nodes that say what they are for (graph_begin_purpose); GRADIENT_OF is graph/ir/autodiff.h's. */
#define UPDATE_OF "update of "
/* Inputs made by passes. */
#define IN_LR "learning_rate" /* 0-d, of the parameters' type; of group k, counted from 1, "learning_rate.k" */
/* State made by passes; parameters and running statistics keep the user's names. */
/* With --turns and a loss scale each player has the first three of its own (group_name). */
#define STATE_STEP "dpexec.step"             /* int64 0-d: updates of the parameters done */
#define STATE_LOSS_SCALE "dpexec.loss_scale" /* float32 0-d */
#define STATE_GOOD_STEPS "dpexec.good_steps" /* int64 0-d: updates since the scale changed */
#define STATE_DRAW "dpexec.draw"             /* int64 0-d: batches drawn for, keys random numbers */
/* "PARAM.grad_sum", and what the optimizer keeps: "PARAM.momentum", "PARAM.exp_avg" ... */
/* Transient sums over the micro-batches of one step, made by passes/train/add_optimizer.c. */
#define STATE_LOSS_SUM "dpexec.loss_sum"
#define STATE_LOSS_WEIGHT "dpexec.loss_weight"
#define STATE_LOG_PREFIX "dpexec.log:"
#define STATE_METRIC_SUM "dpexec.metric_sum"
#define STATE_METRIC_WEIGHT "dpexec.metric_weight"

#endif
