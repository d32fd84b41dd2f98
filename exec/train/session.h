/* A model on its devices, its state, and the most recently used programs, one for each mode and set of input shapes. */
#ifndef DPX_SESSION_H
#define DPX_SESSION_H

#include "exec/run/program.h"
#include "exec/state/state.h"
#include "passes/pass.h"

struct InputReach; /* passes/options/inputs.h */

typedef struct Session Session;
typedef ProgramLog SessionLog;

/* How many programs are kept by default; and the fewest: those of a step that accumulates, of its update and of an
 * evaluation, and one whose step is under way. */
enum { SESSION_PROGRAMS = 32, SESSION_LEAST_PROGRAMS = 4 };

/* `model` is the logical graph as imported, copied.  The data that `base` points to must outlive the session; its mode,
 * devices and input shapes are set for each program.  `log` receives what the passes found, and warnings about the
 * devices; may be NULL. */
Status session_create(Session **out, const Graph *model, const BuildOptions *base, const DeviceList *devices,
                      SessionLog *log, void *user) CHECKED;
void session_free(Session *s); /* NULL is legal */

/* One step of the graph built for `mode` and the shapes of `in`, which are read in place; inputs that the graph does
 * not have are passed over.  The outputs are readable until the next step.  A first step of new shapes compiles.
 *
 * The session remembers where a list has each input, by the address of the name: a name must keep its characters while
 * the session lives.  A list with the names of the step before, in the same order, is then read without comparing any.
 */
Status session_step(const NamedTensor **out, int *n_out, Session *s, BuildMode mode, const NamedTensor *in,
                    int n_in) CHECKED;
/* The same, on accelerators without waiting for its end: the inputs have been taken over on return, and a failure may
 * show in a later step or in session_end. */
typedef struct {
    struct Compiled *compiled;
    unsigned turn;
} SessionStep;
/* `part`: what is given of the inputs, as for program_begin. */
Status session_begin(SessionStep *step, Session *s, BuildMode mode, const NamedTensor *in, int n_in,
                     const GivenPart *part) CHECKED;
/* Waits for the step's end.  Its outputs are readable until the next step begins.  On accelerators one other step may
 * have begun since session_begin, elsewhere none. */
Status session_end(const NamedTensor **out, int *n_out, const SessionStep *step) CHECKED;
/* Numbers the outputs that the caller reads: name[i], lent, is number i for session_output.  Before anything is
 * compiled. */
void session_number_outputs(Session *s, const char *const *name, int n);
/* The output of that number, of a step that session_end has ended; NULL: its graph has none of that name, or `step` is
 * NULL. */
const Tensor *session_output(const SessionStep *step, int number);
/* In place of session_end: nobody waits for this step nor reads its outputs. */
void session_let_go(const SessionStep *step);
bool session_runs_ahead(const Session *s); /* session_begin does not wait */
/* Compiles without running, so that errors, state and plan are there before the first step.  Only shapes are read;
 * inputs that passes add (the target, the learning rate) may be missing. */
Status session_prepare(Session *s, BuildMode mode, const NamedTensor *in, int n_in) CHECKED;
const Program *session_program(const Session *s,
                               BuildMode mode); /* the last one of this mode; NULL: none, or interpreted */

/* What is trained, as report_summary has it; "": nothing was compiled, or there is no log. */
const char *session_summary(const Session *s);
/* Bytes that a step of the programs kept takes of the fullest device; 0: all are interpreted. */
Status session_memory(size_t *out, const Session *s) CHECKED;

/* The axis of the logits that counts the classes, as it was decided where there is a choice; else 0. */
int session_class_axis(const Session *s);
/* Sets the axis that a checkpoint holds; 0: none.  E_INVALID: another one was decided. */
Status session_keep_class_axis(Session *s, int axis) CHECKED;

States *session_states(Session *s);
/* Steps run in the thread that begins them, where the session has one CPU device of one thread. */
void session_run_directly(Session *s);
/* Gives it the states of another session, of equal devices, which must outlive it: before anything is compiled.
 * Sessions that share states may compile and run at the same time, as long as no step changes them. */
void session_share_states(Session *s, const Session *with);
/* Do inference and evaluation read the means of parameters in place of the parameters? */
bool session_reads_means(const Session *s);
/* Adds the states that programs of this mode will have, with the values that they begin with, to session_states (those
 * that are there stay).  Needs no shapes: it fails where no size that is tried for the open ones suits the model. */
Status session_know_states(Session *s, BuildMode mode) CHECKED;
/* The model as imported, with the present values of its parameters and statistics, for export; with `suffix`, of those
 * that have a state NAME.suffix, the values of that.  `given`: another model whose parameters are the session's, to be
 * filled instead; or NULL.  All processes call it; `out` NULL: this one has no use for it.  Lent from the states, until
 * they next change. */
Status session_model(Graph **out, Session *s, const Graph *given, const char *suffix) CHECKED;
/* Before anything is compiled. */
void session_set_ways(Session *s, const Ways *ways);
/* The tokens of a text at most, for BUILD_CONTINUE.  E_INVALID: it was set to another number, with which states were
 * made. */
Status session_set_window(Session *s, int64_t window) CHECKED;
/* At most so many programs: the ones that were not used for longest go, and are compiled again when their shapes come
 * back. */
void session_keep_programs(Session *s, int most);
int session_count_programs(const Session *s);
/* Further outputs of the following training steps: predictions (passes/train/criterion.h), and gradients as "grad:NAME"
 * of steps that update. */
enum { KEEP_OUTPUTS = 1, KEEP_GRADIENTS = 2 };
void session_set_keeps(Session *s, unsigned keeps);
/* Gives every replica so many samples in the following steps, until none are left; 0: as the options say. */
int64_t session_samples_each(const Session *s);
void session_set_samples_each(Session *s, int64_t samples);
/* In the following steps replicas' parts of these inputs and targets end before the whole does, and what is behind is
 * left out of what they compute; n 0: they do not. */
Status session_set_reach(Session *s, const struct InputReach *list, int n) CHECKED;
/* [replicas] Whose parts ended before the whole, in a step that has begun; NULL: no part did. */
const bool *session_reach_kept(const SessionStep *step);
/* Times the following steps; NULL: no more.  With `keeps` no program is freed meanwhile, because events point to nodes.
 */
void session_set_trace(Session *s, Trace *t, bool keeps);
/* How many programs were freed so far, each with its graph. */
uint64_t session_forgotten(const Session *s);
/* How often the program of this step has run; of a step whose rest is interpreted, too. */
uint64_t session_step_runs(const SessionStep *step);

#endif
