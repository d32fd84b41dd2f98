/* The trainer: its state, and the functions that its files share. */
#ifndef DPX_TRAINER_H
#define DPX_TRAINER_H

#include "exec/api/api.h"
#include "exec/state/checkpoint.h"
#include "exec/train/session.h"
#include "graph/recipes/recipe.h"

enum { MAX_BATCH_TENSORS = 256, MAX_BEGUN = 2 };

/* A training step whose result has not been given out. */
typedef struct {
    SessionStep step;
    bool ended;        /* the result is complete */
    dpx_result result; /* else the fields that are known before the outputs are there */
} BegunStep;

/* Sums of a metric over batches. */
typedef struct {
    Tensor sum;  /* int64 or float64; data NULL: nothing yet */
    size_t room; /* elements of a list that data has room for */
    double weight;
    double *rows; /* [classes, columns] of a metric that has rows, to be filled; NULL: nothing yet */
} MetricSums;

/* Sums of loss and metrics over batches. */
typedef struct {
    MetricSums metric[DPX_MAX_METRICS];
    double loss_sum, loss_weight;
    int64_t samples;
} Measured;

/* A tensor that batches may have: an input of the model, in the graph's order, or behind them the target. */
typedef struct {
    const char *name;
    int axis;             /* along which replicas share it; -1: each has all of it */
    int sequence;         /* the number of its sequence's first member; -1: it is in none */
    int members, present; /* of the first: how many the sequence has, and how many of them the last batch had */
    bool given;           /* by the last batch */
} ExpectedTensor;

/* The outputs of a step that results are read from, as session_number_outputs counts them: behind these come the sum
 * and the weight of each metric; for the run and for each group the norm of its gradients, its loss scale and whether
 * it was applied; the log variables. */
enum { READ_LOSS_SUM, READ_LOSS_WEIGHT, READ_LOSS, READ_GRAD_NORM, READ_METRICS };

/* Log variables: names; values of the result given out last and of results that wait. */
typedef struct {
    const char **output; /* [n] of a step, as far as it has them; the first stands for the total */
    int number;          /* of output[0] for session_output */
    dpx_log_value *value[MAX_BEGUN + 1];
    int n, turn;
    dpx_log_value *all; /* of all evaluations since the metric began */
    int n_all;
    double weight;
} LogValues;

/* The length of each sample along an axis of a tensor. */
typedef struct {
    char *name;
    int axis;
    int64_t least, multiple, n, *length; /* parts are as long as their longest, at least `least`, in multiples */
} SampleLengths;

typedef struct {
    SampleLengths *list;
    int n;
    size_t room;
} Lengths;

typedef struct {
    int64_t positions, computed;
} Padding;

typedef struct Preprocess Preprocess; /* exec/api/preprocess.c */
typedef struct Contexts Contexts;     /* exec/api/replicate.c */

struct dpx_trainer {
    const dpx_model *model;
    Options *options;
    Session *session;
    double rate[1 + MAX_GROUPS]; /* that dpx_trainer_set_lr set; NaN: the schedule's */
    unsigned keeps;              /* KEEP_: of training steps */
    const NamedTensor *kept;     /* [n_kept] outputs of the training step that ended last; NULL: overwritten since */
    int n_kept;
    DType dtype;                /* of parameters and of the learning rate */
    int replicas, devices;      /* in force, of all processes */
    int64_t step;               /* optimizer steps begun */
    BegunStep begun[MAX_BEGUN]; /* the oldest first */
    int n_begun;
    int64_t pending;                                                /* micro-batches in the present group */
    bool closes;                                                    /* the next micro-batch is the group's last */
    double group_norm[1 + MAX_GROUPS], group_scale[1 + MAX_GROUPS]; /* of the last result */
    bool group_skipped[1 + MAX_GROUPS];
    bool has_norms;                       /* there was a result */
    ScheduleState seen[1 + MAX_GROUPS];   /* of the run's schedule and of each group's own */
    int64_t seen_step;                    /* of the last observation; -1: none */
    dpx_result group;                     /* sums over the group */
    NamedTensor shape[MAX_BATCH_TENSORS]; /* of the first micro-batch: what BUILD_APPLY is compiled for */
    int n_shape;
    char *decided;         /* names of the parameters that the resumed run trains, each with its NUL; NULL: not known */
    size_t decided_bytes;  /* of them */
    uint64_t given;        /* digest of the values that resuming and setting gave to states that may be in pieces */
    bool agreed;           /* all processes of the world have rank 0's state, as far as there is any */
    int64_t bytes_resumed; /* that this process has read of checkpoints */
    bool states_known;     /* an update was begun, or the states are foreseen */
    bool resumed;          /* no step has trained since: the first one checks that the checkpoint is of this run */
    bool warned_of_weights;                 /* how batches are weighed whose loss the model computes */
    bool averaged;                          /* running statistics are, since the last batch that was trained */
    int64_t evaluated;                      /* batches since the last that was trained */
    RecipeSettings metric[DPX_MAX_METRICS]; /* settings of the metrics */
    Measured measured;                      /* by evaluations since this began */
    Measured trained;                       /* by training steps */
    int read_groups;                        /* the first of the outputs of groups, counted from READ_LOSS_SUM */
    Preprocess *preprocess;                 /* NULL: none */
    Contexts *contexts;       /* of nodes that a callback on replication was called for; NULL: there is none */
    bool stepped;             /* a step was begun */
    ExpectedTensor *expected; /* [n_expected] */
    int n_expected;
    int last_number[MAX_BATCH_TENSORS]; /* which of them tensor i of the last batch was */
    LogValues log_values;
    Lengths lengths; /* of the next step */
    bool has_reach;  /* the session has replicas' lengths, of the last step that had any */
    Padding padding;
    dpx_tensor *prediction;  /* [outputs of the model] that the last evaluation gave; NULL: there was none */
    int n_resumed;           /* the first states: those that the checkpoint had */
    Trace *trace;            /* NULL: nothing is timed for it */
    struct Profile *profile; /* likewise */
    dpx_log_fn *log;
    void *log_user;
    dpx_progress_fn *progress;
    void *progress_user;
};

/* A batch as the caller gave it. */
typedef struct {
    NamedTensor tensor[MAX_BATCH_TENSORS + MAX_GROUPS]; /* shapes are those of the whole; names are the trainer's */
    int number[MAX_BATCH_TENSORS + MAX_GROUPS];         /* of the tensor that was expected; -1: a learning rate */
    int n;
    int64_t samples; /* of the whole */
    bool partly;     /* this process has only `part` of what is split */
    GivenPart part;
    int axis[MAX_BATCH_TENSORS + MAX_GROUPS]; /* part.axis */
    union {
        float f32;
        double f64;
    } lr[1 + MAX_GROUPS];
} GivenBatch;

/* Resolves all names that batches have.  Once, when the options are complete. */
Status batch_expect(dpx_trainer *t) CHECKED;
/* Takes a batch of the caller.  `samples`: the tensors are this process's part of a batch of so many; NULL: they are
 * the whole batch. */
Status batch_read(GivenBatch *f, dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples,
                  bool training) CHECKED;
/* Does the batch have all inputs of the model and the target of its loss? */
bool batch_is_complete(const GivenBatch *f, const dpx_trainer *t);

/* exec/api/measured.c */
/* Does the trainer only evaluate, keeping the scores of all samples for metrics that need them at once? */
bool scores_exactly(const dpx_trainer *t);
/* Reads the settings of the metrics. */
Status metrics_create(RecipeSettings out[DPX_MAX_METRICS], const Options *o) CHECKED;
void measured_restart(Measured *m);
/* Adds what the step of one batch gave; NULL: it measured nothing. */
Status measured_add(Measured *m, const dpx_trainer *t, const dpx_result *r, const SessionStep *step) CHECKED;
/* The measurements of training in a checkpoint: float64 [4], sums and weight of the loss, samples, weight of the first
 * metric; and the sums of each metric as TRAINED "_metric:" with its text, of several also TRAINED "_weight:". */
#define TRAINED "dpexec.trained"
Status trainer_keep_trained(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n) CHECKED;
Status trainer_resume_trained(dpx_trainer *t, Arena *a, const Checkpoint *c) CHECKED;

/* exec/api/stored_decisions.c: the parameters that a run trains, in its checkpoints */
Status trainer_keep_decisions(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n) CHECKED;
Status trainer_resume_decisions(dpx_trainer *t, const Checkpoint *c) CHECKED;
/* exec/api/input_roles.c: along which axes inputs and target have samples.  E_INVALID: the checkpoint's run had them
 * otherwise.  A checkpoint that does not say is warned of. */
Status trainer_keep_roles(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n) CHECKED;
Status trainer_compare_roles(const dpx_trainer *t, Arena *a, const Checkpoint *c) CHECKED;
/* Lists a state that the checkpoint does not have; one of the checkpoint's that this run does not have; parameters that
 * one of the two runs trains alone. */
bool trainer_was_trained(const dpx_trainer *t, const char *name); /* by the list of the checkpoint */
void trainer_list_missing(Problems *wrong, const State *s);
void trainer_list_foreign(Problems *wrong, const dpx_trainer *t, const char *name);
void trainer_compare_decisions(Problems *wrong, const dpx_trainer *t);

/* exec/api/preprocess.c */
/* Calls the caller's function for the batch, or for this process's `part` of it.  The batch then has the samples of
 * this process's replicas alone. */
Status preprocess_batch(GivenBatch *f, const dpx_trainer *t, bool training, bool part) CHECKED;
void preprocess_free(Preprocess *p); /* NULL is legal */

/* exec/api/replicate.c */
void contexts_free(Contexts *c); /* NULL is legal */
/* Calls the callback, if there is one, for the copies of all nodes.  Once a trainer. */
Status trainer_replicate(dpx_trainer *t, const Replication *r) CHECKED;

/* exec/api/lengths.c */
Status lengths_keep(Lengths *l, const char *name, int axis, int64_t least, int64_t multiple, const int64_t *length,
                    int64_t n) CHECKED;
void lengths_forget(Lengths *l);
/* Gives the session the lengths of this step's replicas, or that there are none; counts the padding, once the step has
 * begun. */
Status trainer_take_lengths(dpx_trainer *t, const GivenBatch *f) CHECKED;
Status trainer_count_padding(dpx_trainer *t, const GivenBatch *f, const SessionStep *step) CHECKED;

/* exec/api/step_results.c */
/* Numbers the outputs of the session that results are read from.  E_INVALID: the model is to compute its loss itself,
 * and none of its outputs is one. */
Status trainer_number_outputs(dpx_trainer *t) CHECKED;
/* Reads loss, metric, norms and log variables of a step that has ended; NULL: it measured nothing. */
void trainer_read_outputs(dpx_trainer *t, dpx_result *r, const SessionStep *step);
void log_values_add(LogValues *l, const dpx_result *r); /* to those of all evaluations */

/* exec/api/evaluate.c */
/* Views the outputs of the model among those of a step, in the model's order. */
Status trainer_view_outputs(dpx_tensor *outputs, const dpx_trainer *t, const NamedTensor *out, int n_out) CHECKED;

/* Views the predictions among the outputs of a step; `measured`: outputs of the criterion are among them. */
Status trainer_give_predictions(dpx_trainer *t, dpx_result *r, const NamedTensor *out, int n, bool measured) CHECKED;

/* exec/api/trainer_step.c */
Status trainer_begin(dpx_trainer *t, BuildMode mode, const GivenBatch *f, SessionStep *step) CHECKED;
/* E_INVALID: results of steps must be taken first, before a step whose result is given at once (`now`), or later. */
Status trainer_check_room(const dpx_trainer *t, bool now) CHECKED;
/* exec/api/trainer_trace.c: tell the profile, which there is, that a program is to run, and that it has run; the first
 * returns the time, in seconds */
double trainer_profile_begin(dpx_trainer *t);
Status trainer_profile_run(dpx_trainer *t, BuildMode mode, const SessionStep *step, double begun) CHECKED;
/* exec/api/rates.c */
/* The learning rate of a group in a step, counted from 0. */
double trainer_rate(const dpx_trainer *t, int group, int64_t step);
/* float64 [groups + 1], beside the state of a trainer some of whose rates are set; NaN: the schedule's. */
#define RATES "dpexec.rates"
Status trainer_keep_rates(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n) CHECKED;
Status trainer_read_rates(double rate[1 + MAX_GROUPS], const dpx_trainer *t, const Checkpoint *c) CHECKED;

/* exec/api/trainer.c */
/* A trainer for inference that reads the states of another, of equal model and options, which must outlive it; NULL: it
 * has its own. */
Status trainer_create_beside(dpx_trainer **out, const dpx_model *model, const Options *o,
                             const dpx_trainer *beside) CHECKED;
/* The model as dpx_trainer_export writes it, and how; `out` NULL: another process writes it. */
Status trainer_export_graph(Graph **out, ExportOptions *how, dpx_trainer *t) CHECKED;
/* Warns once that batches are weighed by their samples, where the model computes its loss itself; `what` adds them up.
 */
void trainer_warn_of_weights(dpx_trainer *t, const char *what);
/* Replicas go on with the mean of their running statistics. */
Status trainer_average(dpx_trainer *t) CHECKED;

/* The world of the trainer's process; NULL: this process alone. */
static inline World *trainer_world(const dpx_trainer *t)
{
    return t->options && t->options->world ? t->options->world->world : NULL;
}
/* Returns `st`.  A failure ends the other processes with its reason, so that none waits for this one. */
CHECKED static inline Status trainer_share_failure(const dpx_trainer *t, Status st)
{
    if (st)
        world_abort(trainer_world(t), status_message());
    return st;
}
/* Every process of the trainer's world calls it, before it exchanges more, with its own status: if one cannot go on,
 * none does, and the world lives.  The others get the first such rank's status, and a message that names `what` and the
 * rank. */
Status trainer_agree(const dpx_trainer *t, Status st, const char *what) CHECKED;
/* Are there other processes, which need this one to take part in steps that it has no use for? */
bool trainer_has_peers(const dpx_trainer *t);

/* exec/api/observe.c */
/* float64 [schedules + 1, 4], beside the state of a trainer whose schedules observe; the last row has the step. */
#define OBSERVED "dpexec.observed"
void trainer_forget_observed(dpx_trainer *t);
/* Adds the observations to the list of a checkpoint; nothing where no schedule observes. */
Status trainer_keep_observed(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n) CHECKED;
Status trainer_resume_observed(dpx_trainer *t, const Checkpoint *c) CHECKED;
/* Adds the observations, which must be the same in all processes. */
Status trainer_agree_observed(Facts *f, const dpx_trainer *t) CHECKED;

/* exec/api/trainer_state.c */
/* Lists the states before the first step has compiled them.  E_INVALID: that cannot be done without the sizes of a
 * batch. */
Status trainer_know_states(dpx_trainer *t) CHECKED;
/* Writes a checkpoint to a folder, or to a stream; both NULL: takes part in reading what another process writes. */
Status trainer_save(dpx_trainer *t, Arena *a, const char *directory, FILE *to, const char *note) CHECKED;
/* Before the first step, and the first after the state was set or programs have more of it: all processes get rank 0's.
 * E_INVALID lists how the steps done, the names, types and shapes of the states, and the constants differ. */
Status trainer_agree_states(dpx_trainer *t) CHECKED;
/* Before the first step of a trainer that has resumed: E_IO lists what the checkpoint lacks of its state and, before
 * training, what it has besides. */
Status trainer_check_resumed(dpx_trainer *t, BuildMode mode, const NamedTensor *in, int n_in) CHECKED;

#endif
