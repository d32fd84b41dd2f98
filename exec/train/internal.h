/* The structs of a session, for the files session*.c. */
#ifndef DPX_SESSION_INTERNAL_H
#define DPX_SESSION_INTERNAL_H

#include "exec/device/device_set.h"
#include "exec/train/replica_reach.h"
#include "exec/train/session.h"
#include "passes/build_parts.h"
#include "passes/options/batch.h"
#include "passes/report.h"
#include "passes/train/class_axis.h"

/* A compiled step: a program, and what follows from data for the interpreter. */
typedef struct Compiled {
    struct Compiled *next;
    BuildMode mode;
    ClassAxis class_axis;    /* that it was built with; axis 0: none */
    int64_t samples_each;    /* of a replica; 0: parts as the options say */
    ReplicaReach reach;      /* of the replicas' parts; nothing: all have the whole's length */
    bool *kept;              /* [reach.replicas] which parts end there; NULL: there is no reach */
    bool means;              /* it reads the means of parameters */
    unsigned keeps;          /* KEEP_: further outputs of a training step */
    Program *program;        /* of all, or of what shapes are known of; NULL: of nothing */
    uint64_t runs;           /* steps that have begun */
    int begun;               /* steps that have not ended, which need it */
    const Graph *graph;      /* of the program, else of the rest: whose inputs are given */
    int *place;              /* [inputs of its graph] where the last list had them; -1: nowhere */
    const char **name;       /* [inputs of its graph] the list's names there */
    const NamedTensor *made; /* [n_made] outputs of the step that ended last */
    int n_made;
    int *output_place; /* [Session.n_output] of the session's list; -1: the graph has none of that name */
    Graph *rest;       /* interpreted behind it; NULL: nothing is */
    Arena *arena;      /* of the last step's values of that */
    NamedTensor *output;
} Compiled;

struct Session {
    Graph *model;
    BuildParts base;
    DeviceSet devices;
    Ways ways;
    States *states;
    bool shares_states;        /* they are another session's */
    Compiled *compiled;        /* those used last first */
    int most_programs;         /* that are kept */
    ReplicaReach reach;        /* of the following steps */
    InputShape *shape;         /* [model->n_input] given most recently; rank -1: never */
    const char *const *output; /* [n_output] that the caller reads by number */
    int n_output;
    unsigned keeps; /* KEEP_: of following training steps */
    Trace *trace;
    bool keeps_programs; /* none is freed, because events of the trace point to their nodes */
    uint64_t forgotten;  /* programs freed while the session lives */
    SessionLog *log;     /* may be NULL */
    void *log_user;
    char summary[REPORT_SUMMARY];           /* of the first program; "": none was made with a log */
    bool notes_logged, accumulation_logged; /* what the passes found, once; what only those for micro-batches do */
    bool padding_logged;                    /* why replicas have the step's length */
    bool interpreted_logged;                /* what is interpreted */
    int64_t window;                         /* session_set_window; 0: not yet */
    ClassAxis class_axis;                   /* in force once it is decided; else what programs were built with */
};

/* The target among the inputs; NULL: it is not given (session_options.c). */
const Tensor *session_given_target(const Session *s, const NamedTensor *in, int n_in);
/* The options of a step for the shapes of the inputs that are given, which `*bound` holds; it is to be freed, on
 * failure too. */
Status session_build_options(BuildParts *opt, InputShape **bound, Session *s, Compiled *c, const NamedTensor *in,
                             int n_in) CHECKED;

/* The options of a step of BUILD_CONTINUE by its inputs (session_tokens.c). */
TokenOptions session_tokens(const Session *s, const NamedTensor *in, int n_in);

#endif
