/* The state of dpexec train, and what its parts do: checks of flags (check_flags.c), preparation (open_run.c), the loop
 * (step_loop.c), evaluations (judge.c), checkpoints and the best model (keep_state.c). */
#ifndef DPX_TOOLS_TRAINING_H
#define DPX_TOOLS_TRAINING_H

#include <signal.h>

#include "tools/commands.h"
#include "tools/evaluate.h"
#include "tools/generate/generator.h"
#include "tools/progress.h"
#include "tools/report/history.h"
#include "tools/tensorboard/events.h"
#include "tools/training/checkpoint_note.h"
#include "tools/training/run_dir.h"
#include "tools/training/steepest_fall.h"
#include "tools/world.h"

/* What the line at the end of an epoch says of its training. */
typedef struct {
    int64_t from;                 /* steps done when it began */
    double loss_sum, loss_weight; /* of the steps that this process ran */
    bool measured;                /* `trained` is of the whole epoch */
    Metrics trained;
    bool ends; /* the evaluation at the epoch's end has no line of its own */
} EpochRow;

typedef struct {
    LrFindStep *step; /* [n], with room for all */
    int64_t n;
    double mean, least; /* the running mean before it is corrected for its start; the least one after */
    bool diverged;
} LrFind;

/* The time of the present step, for --profile. */
typedef struct {
    bool on, leave_out; /* leave_out: an epoch ended within the step */
    double since, paused, data;
} StepClock;

typedef struct {
    const Args *args;
    dpx_model *model;
    dpx_trainer *trainer;
    Feed train, val;
    Strata strata; /* of --balanced */
    int workers;   /* threads of each loader */
    Loader *loader;
    RunDir dir;
    Progress progress;
    bool across_epochs; /* groups of batches */
    int64_t batch_size, accumulate, epochs, steps, eval_every, eval_batches;
    int64_t save_steps, save_epochs; /* --checkpoint-every as N or Ne; 0: not so */
    double save_seconds, time_limit; /* --checkpoint-every as a time, --time-limit; 0: none */
    int64_t keep;                    /* checkpoints besides the best; 0: all */
    int64_t patience;                /* evaluations that may be no better; 0: any number */
    RunFacts facts;
    Position at;
    int64_t begun, step;  /* steps begun; those whose result is known */
    int64_t saved_step;   /* of the checkpoint that holds the present state; -1: none does */
    double saved_at;      /* when the last checkpoint was written, or the run began */
    bool save_due;        /* a checkpoint is to be written after this step, or its epoch */
    bool early, too_long; /* the run ends: by --patience; by --time-limit */
    double since;         /* when the last result was known */
    ToolWorld world;
    int signal;          /* that ends the run, caught by any process; 0: none */
    bool keeps, has_dir; /* there is a folder; this process writes it */
    bool running;        /* the command line and the files were right */
    EvalResult last_eval;
    int64_t eval_step;   /* of last_eval; -1: none yet */
    bool warned_of_eval; /* the loss of an evaluation is not finite, and the user was warned */
    double last_loss;    /* of a step of this run; NaN: none yet */
    bool is_nll;         /* --loss nll, whose loss was not negative so far */
    int64_t first;       /* steps that were done when the run began or was resumed */
    int64_t skipped;     /* steps since then whose gradients were not finite at their loss scale */
    bool warned_of_skipped;
    int64_t positions, computed; /* counted by the trainer before the epoch */
    EpochRow row;
    bool resumed;         /* the bytes read to resume are not logged yet */
    int64_t sample_every; /* steps between texts that the model writes; 0: none */
    Tokenizer *tokenizer; /* of these; NULL: there are none */
    TextGenerator *generator;
    History *history;     /* what the page of the run shows; NULL: it was not written yet */
    Events *events;       /* of --tensorboard; NULL: none */
    int64_t gradients_of; /* the step whose gradients are kept for the events; 0: none */
    int64_t logged;       /* the step whose weights and images they have last; -1: none */
    double report_due;    /* when it may be written again */
    bool finds;           /* --lr-find: nothing of the training is kept */
    LrFind find;
    StepClock clock;
    char *batch_text; /* the number in place of --batch-size auto; NULL: it was not given */
} Run;

/* ---- train.c ---- */

/* A signal before the run has begun ends the process at once, later it asks for a checkpoint. */
void run_has_begun(void);
/* Between two steps, finds out whether any process has caught a signal, and whether on rank 0 the time limit has come
 * or a checkpoint is due by time: all processes stop after the same step.  `over`: this was the last step. */
Status agree_on_end(Run *r, bool over) CHECKED;
/* Whether the run goes on to another step. */
static inline bool run_goes_on(const Run *r) { return !r->signal && !r->early && !r->too_long; }

/* ---- check_flags.c ---- */

/* Reads numbers and times of the flags into the run, and lists all that can be refused before model and data are read.
 */
Status check_flags(Run *r) CHECKED;
/* Checks the list of --augment, and gives the options the graph in it as --augment-graph. */
Status take_augment(const Args *a) CHECKED;
Status check_loss(const Args *a) CHECKED; /* E_INVALID: --loss is not given */
/* Whether the run's schedule, other than those of groups, follows the metric of evaluations. */
bool follows_metric(const Args *a);

/* ---- open_run.c ---- */

/* Loads everything, opens the run's folder and resumes. */
Status open_run(Run *r) CHECKED;
void close_run(Run *r, int failed);

/* ---- run_summary.c ---- */

/* Prints what the run trains, on what, and how. */
void tell_summary(Run *r);

/* ---- step_loop.c ---- */

/* Trains on the rest of the present epoch.  Stops between two steps when the last step is done, or the run ends
 * early. */
Status run_epoch(Run *r) CHECKED;
/* Warns, once, at the end of an epoch or the run, that a fixed loss scale is too large. */
void warn_of_skipped(Run *r);

/* ---- batch_auto.c ---- */

bool batch_is_auto(const Args *a);              /* --batch-size auto */
Status batch_check_auto(const Args *a) CHECKED; /* E_INVALID: it does not go with other flags */
/* Chooses the batch size by the memory of its step, the same in all processes, or takes it from the checkpoint that the
 * run resumes from, and puts the number in place of `auto`. */
Status batch_choose(Run *r, Progress *log) CHECKED;

/* ---- profile_run.c ---- */

/* Begins a profile, if --profile is given.  All processes call it. */
Status profile_open(Run *r) CHECKED;
/* Begins the time of a step: what was before belongs to none. */
void profile_restart(Run *r);
/* loader_next, and counts the time that it takes. */
const Batch *profile_next_batch(Run *r);
/* Ends a step, and begins the time of the next. */
Status profile_step(Run *r) CHECKED;
/* Prints the profile, if there is one, and writes profile.json into the run's folder. */
Status profile_finish(Run *r) CHECKED;

/* ---- lr_find.c ---- */

/* Checks the flags beside --lr-find, if that is given, and sets r->finds, the steps and the options of the rate. */
Status lr_find_check(Run *r) CHECKED;
/* Takes the result of a step; ends the run early when the loss has diverged.  All processes call it. */
Status lr_find_take(Run *r, const dpx_result *result) CHECKED;
/* Writes the curve and prints the rate at which the loss falls fastest.  E_INVALID: there is none. */
Status lr_find_finish(Run *r) CHECKED;

/* ---- epoch_row.c ---- */

/* Begins the row of the present epoch. */
void begin_epoch(Run *r);
/* Prints the row of the epoch that has ended. */
void tell_epoch(Run *r);

/* ---- run_events.c ---- */

/* With --tensorboard: begins the event file, with the model's graph, unless it has begun. */
Status run_events_open(Run *r) CHECKED;
/* A HistorySink, whose `user` is the Events: "train_loss" becomes "train/loss", as TensorBoard groups tags. */
Status run_events_scalar(void *user, int64_t step, const char *key, double x) CHECKED;
/* With --tensorboard, before each batch: whether the gradients of the step that begins are `due` to be logged. */
Status run_events_keep(Run *r, bool due) CHECKED;
/* Logs the gradients of the step whose result was taken, if they were due; with --shard the weights, too.  All
 * processes call it. */
Status run_events_gradients(Run *r) CHECKED;
/* Logs the weights after an evaluation and at the `end`, unless --shard is given, and the worst images of the
 * evaluation. */
Status run_events_write(Run *r, bool end) CHECKED;

/* ---- write_report.c ---- */

/* Before and after an evaluation, whose samples are judged for the page unless that is not written then; *out: NULL.
 * All processes call them.  The second frees `m`, and returns `st` or a failure to write evaluation.json, on rank 0. */
Status report_begin_evaluation(Mistakes **out, Run *r) CHECKED;
Status report_end_evaluation(Mistakes *m, const Run *r, Status st) CHECKED;
/* Writes report.html and metrics.csv, unless they were written a moment ago and this is not the `end` of the run. */
Status write_report(Run *r, bool end) CHECKED;

/* ---- write_sample.c ---- */

/* Prepares --sample-every, if it is given.  E_INVALID: the model takes no tokens, or gives no scores of them. */
Status open_sampler(Run *r) CHECKED;
/* Logs and prints a text that the model writes behind --sample-prompt; where it cannot, warns and writes none from here
 * on. */
void write_sample(Run *r);

/* ---- judge.c ---- */

/* Whether the loss of the last evaluation is not finite.  The model is written all the same. */
bool lacks_loss(const Run *r);
/* Warns of such a loss.  Bad evaluation data need not stop a run, so it is a warning at the first evaluation, and with
 * `ends` an error that goes with the exit status of the run. */
void warn_of_eval(Run *r, bool ends);
/* Evaluates the model, unless this step was evaluated. */
Status evaluate_now(Run *r) CHECKED;
/* Evaluates, and counts the evaluation: it may be the best, or the last one that patience allows.  `within`: in the
 * middle of an accumulated group, where there can be no checkpoint. */
Status judge_now(Run *r, bool within) CHECKED;
/* judge_now where the run's schedule asks for an evaluation: learning-rate schedules may follow it. */
Status judge_and_observe(Run *r, bool within) CHECKED;
/* Writes what was the best to `text`: "best epoch 8: eval accuracy 0.9867 -> runs/x/best.onnx". */
void describe_best(char text[4400], const Run *r);

/* ---- keep_state.c ---- */

/* Writes a checkpoint, unless there is one of the present state.  The other processes contribute the parts of the state
 * that they hold. */
Status save(Run *r) CHECKED;
/* Writes the present model as the best one. */
Status write_best(Run *r) CHECKED;
/* Continues from the newest checkpoint of the run in the folder `from`; `same`: which is the folder of this run. */
Status resume(Run *r, const char *from, bool same) CHECKED;
/* Makes the folder what it was at the checkpoint: drops the lines of later steps from metrics.jsonl, and makes
 * best.onnx the model of the best step until then.  An evaluation of this step is repeated, because the data may have
 * changed, and replaces its line. */
Status rewind_run(Run *r, const char *from, bool same) CHECKED;

#endif
