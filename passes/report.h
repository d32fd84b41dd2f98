/* The passes' results for the user; --report, the log of a run and tests read this struct. */
#ifndef DPX_REPORT_H
#define DPX_REPORT_H

#include <stdio.h>

#include "graph/base/json_writer.h"
#include "graph/ir/graph.h"
#include "graph/ir/target.h"

typedef enum {
    NOTE_INPUT,        /* an input was split, or given to every device */
    NOTE_MIXES,        /* an operator mixes samples of the batch */
    NOTE_NO_GRADIENT,  /* a parameter that the loss does not reach */
    NOTE_REPLICATED,   /* a large value that every device holds in full */
    NOTE_HOST,         /* an operator without a kernel for the accelerator */
    NOTE_GUESS,        /* a decision without evidence: which constants are parameters, whose rows are meant */
    NOTE_EXPORTER,     /* a change that the exporter made to the model, or may have made */
    NOTE_ACCUMULATION, /* a reason why micro-batches are not exactly one batch */
    NOTE_NUMBERS,      /* an output that is not of the whole batch */
    NOTE_PADDING,      /* replicas whose samples are padded beyond their own longest */
    NOTE_OTHER         /* anything else worth a line: a frozen pattern, a folded BatchNormalization ... */
} NoteKind;

typedef struct {
    NoteKind kind;
    const char *subject; /* name of the input, node or parameter */
    const char *text;    /* the message */
} Note;

static inline bool note_is_warning(const Note *n)
{
    return n->kind == NOTE_MIXES || n->kind == NOTE_NO_GRADIENT || n->kind == NOTE_HOST || n->kind == NOTE_GUESS ||
           n->kind == NOTE_EXPORTER || n->kind == NOTE_ACCUMULATION || n->kind == NOTE_NUMBERS ||
           n->kind == NOTE_PADDING;
}

/* Lines that tell how the model is divided, which every run has. */
static inline bool note_is_detail(const Note *n) { return n->kind == NOTE_INPUT || n->kind == NOTE_REPLICATED; }

typedef enum { DECISION_DATA, DECISION_STATISTIC, DECISION_UNUSED } DecisionKind;

#define REASON_FIXED_BY_FILE "the file says that it is not trained"

/* Whether a float constant of the model is trained (passes/model/parameters.c). */
typedef struct {
    const char *name, *reason;
    const Shape *shape;
    DecisionKind kind; /* DECISION_UNUSED: no output depends on it by a derivative */
    bool trained, guess;
} Decision;

/* The name of the last stage: planning does not change the graph, but users can select it by name. */
#define STAGE_PLAN "plan-memory"

/* A pass that ran: the graph's size before and after it, and its cost. */
typedef struct {
    const char *pass;
    int before, nodes, values, changed; /* `before`, `nodes`: nodes of the graph, `values`: their outputs */
    double seconds;                     /* the processor's, in this thread */
    size_t graph_bytes, scratch_bytes;  /* the graph's arena after the pass, the pass's own arena */
} Stage;

typedef struct {
    int device;
    int64_t parameters;  /* elements of trainable state */
    int64_t state_bytes; /* all state held there */
    int64_t flops;       /* of one step; multiply and add count as two */
    int64_t sent_bytes;  /* of one step: that the device sends to others in collectives (ring all-reduce) */
    int64_t peak_bytes;  /* of the memory plan, kernels' scratch aside; 0 when shapes depend on data */
    int nodes;
} DeviceLoad;

/* A collective of the final graph. */
typedef struct {
    const char *name, *kind; /* kind: exchange_verb */
    const char *reason;
    const char *subject; /* the operator that mixes samples and needs it, or NULL */
    const char **of; /* [tensors]: each one's purpose, "gradient of conv1.weight", or the name of the input or state */
    int phase, tensors;
    int64_t bytes;  /* of all its inputs */
    double seconds; /* as below */
} CollectiveLoad;

/* The nodes of a phase, of all devices. */
typedef struct {
    int nodes, collectives;
    int64_t flops, bytes; /* bytes: that they read and write */
    int64_t sent;         /* bytes that go into collectives */
    double seconds, wire; /* as below: nodes of the busiest device; its collectives */
} PhaseLoad;

/* How a parameter gets its next value in a step. */
typedef struct {
    const char *parameter;
    const char *reduced_by; /* the sum over replicas that its gradient comes from last, or NULL */
    const char *updated_by;
} Way;

/* The predicted time of a step on devices that were described or measured (exec/inspect/step_times.c). */
typedef struct {
    const char *devices; /* their name; NULL: no prediction */
    double seconds;
    double compute, wire; /* parts of it: nodes of the busiest device; collectives, which may overlap with them */
} StepTime;

struct Report {
    Arena *arena;
    int replicas;
    int64_t batch;
    const int64_t *count; /* [replicas] samples */
    Note *note;
    int n_note;
    Decision *decision;
    int n_decision;
    Stage *stage;
    int n_stage;
    DeviceLoad *load; /* [n_load], by device */
    int n_load;
    CollectiveLoad *collective; /* [collectives], in the order of the final graph */
    int collectives;
    PhaseLoad phase[N_PHASES];
    StepTime time;
    double *node_seconds; /* predicted, by node index of the graph; NULL: there is no prediction */
    int *device_of;       /* [replicas]; -1: it has no node */
    size_t cap_note, cap_stage, cap_decision, cap_collective;
    HashTable shapes; /* of decisions */
    HashTable ways;   /* by their parameters */
};
typedef struct Report Report;

Report *report_create(void); /* NULL when out of memory */
void report_free(Report *r); /* NULL is legal */

/* All of these do nothing for a NULL report; E_NOMEM is the only failure. */
Status report_note(Report *r, NoteKind kind, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 4, 5))) CHECKED;
/* `reason` is not copied. */
Status report_decision(Report *r, const Value *v, bool trained, bool guess, const char *reason,
                       DecisionKind kind) CHECKED;
/* "trains 81,226 numbers in 152 tensors; 7 constants are fixed" */
enum { REPORT_SUMMARY = 256 };
void report_summary(char text[REPORT_SUMMARY], const Report *r);
/* Starts and ends the measurement of a pass; `s` has its name, its number of changes and its scratch. */
void report_stage_begin(Stage *s, const Graph *g);
Status report_stage_end(Report *r, Stage *s, const Graph *g) CHECKED;
/* How the batch is divided: count[r] samples for replica r. */
Status report_division(Report *r, int replicas, const int64_t *count, int64_t batch) CHECKED;
/* Where the paths from a parameter to the loss end. */
typedef struct {
    const Node *node; /* NULL: nothing reads it */
    bool stops;       /* no derivative passes the node; false: no node reads its outputs */
    bool setting;     /* the node reads it as a setting, for which it has no derivative */
} WayEnd;
Status report_way_end(WayEnd *out, const Graph *g, ValueId param, Arena *scratch) CHECKED;
/* Notes that a parameter gets no gradient, and where its path to the loss ends; `loss`: the output that is its group's
 * loss, NULL: the run's. */
Status report_unreached(Report *r, const Graph *g, ValueId param, const char *loss) CHECKED;
/* Fills `load`, `collective`, `way`, `phase` and `device_of` from a final graph, and notes the computed values that
 * every device holds in full.  Call after the pipeline. */
Status report_graph(Report *r, const Graph *g, const Target *t) CHECKED;
/* Its part about the step (passes/report_step.c): `collective`, `way`, `phase` and `device_of`. */
Status report_step(Report *r, const Graph *g) CHECKED;
/* The parameter's Way; NULL: it is not updated, or report_graph saw no step. */
const Way *report_way(const Report *r, const char *parameter);

/* Operations of one run of the node; multiply and add count as two.  Without a formula each element of output 0 counts
 * one. */
int64_t node_flops(const Graph *g, const Node *n);

Status report_print(const Report *r, FILE *to) CHECKED; /* E_IO when writing failed */
/* Print only the decisions: a line each, trained ones first; as JSON, "parameters": [...]; the third in either format.
 */
void report_print_decisions(const Report *r, FILE *to);
void report_json_decisions(const Report *r, JsonWriter *w);
Status report_print_parameters(const Report *r, FILE *to, bool json) CHECKED;
Status report_print_json(const Report *r, FILE *to) CHECKED;

#endif
