/* Operators that the embedder brings (dpx_operator of include/dpexec.h): each is an OpDef and a Kernel, as a built-in
 * one is, whose functions call the embedder's.  Its gradient's kernel is an operator of its own, NAMEGradient.
 *
 * One whose copies share information is lowered as batch-norm is, and what the nodes do follows from their placements:
 *
 *   message = NAMECollect(inputs)                        [1, M], each replica's own
 *   answer = NAMECombine(message)                        all messages, a row below the other; [copies, A]
 *   outputs = NAMEShared(inputs, answer)
 *   message = NAMEGradientCollect(..., answer)           what NAMEGradient reads as well
 *   answer = NAMEGradientCombine(message)
 *   gradients = NAMEGradient(..., answer, answer of the gradient)
 *
 * Messages and answers are float64 whatever the type, so ATTR_DTYPE says whose functions a node calls. */
#ifndef DPX_OPERATORS_H
#define DPX_OPERATORS_H

#include "include/dpexec.h"
#include "kernels/backend.h"

/* The part of an embedder's operator that a node computes. */
typedef enum {
    ROLE_APPLY,
    ROLE_COLLECT,
    ROLE_COMBINE,
    ROLE_SHARED,
    ROLE_GRADIENT_COLLECT,
    ROLE_GRADIENT_COMBINE,
    ROLE_GRADIENT,
    N_ROLES
} Role;

typedef struct Operator Operator;

/* The definition that Node.op of its nodes points to. */
typedef struct {
    OpDef op; /* first */
    Kernel kernel;
    const Operator *of;
    Role role;
} RoleDef;

struct Operator {
    dpx_operator def;             /* what it points to is in the set's arena */
    dpx_kernels float32, float64; /* all NULL: none */
    bool shares, gradient_shares; /* between the copies of a node */
    const dpx_operators *set;     /* that it is in */
    RoleDef role[N_ROLES];
};

static inline bool role_is_gradient(Role r) { return r == ROLE_GRADIENT || r == ROLE_GRADIENT_COLLECT; }
static inline bool role_combines(Role r) { return r == ROLE_COMBINE || r == ROLE_GRADIENT_COMBINE; }
static inline bool role_collects(Role r) { return r == ROLE_COLLECT || r == ROLE_GRADIENT_COLLECT; }

struct dpx_operators {
    Arena *arena;
    Operator **op;
    OperatorList list; /* all roles of all */
    int n;
    size_t cap;
    _Atomic int users;  /* handles, options and models that hold it */
    _Atomic bool given; /* to options: it does not change any more */
};

void operators_keep(dpx_operators *o);
void operators_release(dpx_operators *o); /* NULL is legal */

/* Writes operator i's name, and its declaration without the functions as a line, for comparing sets. */
enum { OPERATOR_TEXT = 320 };
void operator_text(char name[OPERATOR_TEXT], char says[OPERATOR_TEXT], const dpx_operators *o, int i);

static inline const RoleDef *node_role(const Node *n) { return (const RoleDef *)(const void *)n->op; }

/* Bits that stand for inputs or outputs: bit 31 for all from there on. */
static inline bool bit_of(uint32_t bits, int i) { return bits >> (i < 31 ? i : 31) & 1; }
static inline bool carries_samples(uint32_t bits, int i) { return !bits || bit_of(bits, i); }

/* Where the operator's own inputs and outputs stand among what a node of some role reads.  A gradient reads its inputs,
 * its outputs, of each what it needs, and the gradients by the outputs; it makes those by the inputs.  Answers stand
 * behind all that. */
typedef struct {
    int n_in, n_out;             /* of the operator */
    int out, dout;               /* where they begin; -1: the role reads none */
    int answer, gradient_answer; /* -1: likewise */
} Slots;
Slots node_slots(const Node *n);

/* Attributes of roles, beside the operator's. */
#define ATTR_OF_ROLES "dpexec."
#define ATTR_INPUTS "dpexec.inputs"
#define ATTR_OUTPUTS "dpexec.outputs"
#define ATTR_SHAPES "dpexec.shapes"   /* of the inputs: rank and dimensions of one after the other */
#define ATTR_SAMPLES "dpexec.samples" /* how many these shapes have along the axis of samples */
#define ATTR_MESSAGE "dpexec.message" /* numbers in a copy's message */
#define ATTR_ANSWER "dpexec.answer"   /* and in the answer to a copy */
#define ATTR_DTYPE "dpexec.dtype"     /* the operator's */

/* The functions of OpDef and Kernel, for every role. */
Status own_infer(Graph *g, Node *n) CHECKED;
Status own_place(Placement *p) CHECKED;
Status own_lower(Graph *g, Node *n) CHECKED;         /* of ROLE_APPLY where copies share */
Status own_infer_message(Graph *g, Node *n) CHECKED; /* of roles that collect or combine */
Status own_grad_kernel(Grad *gr) CHECKED;            /* a node of ROLE_GRADIENT, with what it shares */
Status own_grad_nodes(Grad *gr) CHECKED;             /* what make_gradient emits */
extern const Kernel own_kernel;                      /* op and name are to be filled in */

/* For operators with state, which see by their outputs that they train. */
Status own_train(Graph *g, Node *n, const TrainMode *mode) CHECKED;
/* E_UNSUPPORTED: a gradient comes through an output that carries no samples. */
Status own_check_flow(const Grad *gr) CHECKED;

/* Copies a structure of the caller, which has the size of the header that the caller was compiled with, into ours. */
Status operators_take_sized(void *out, size_t own, const void *from, size_t size, const char *what) CHECKED;
Status operators_take(void *out, size_t own, const void *from, const char *what) CHECKED;
AttrType operators_attr_type(dpx_attribute_type t); /* A_NONE: none that there is */

/* ---- dpx_node ---- */

/* Numbers in a copy's message and in the answer to it; 0: none. */
typedef struct {
    int64_t message, answer;
} Sizes;

typedef struct {
    Sizes forward, gradient;
} SharedSizes;

typedef struct Building Building; /* exec/operators/gradient.c */

struct dpx_node {
    const Graph *g;
    const Node *n;
    const RoleDef *role;
    Graph *infers;    /* `shape` is called: whose outputs it sets; else NULL */
    bool *set;        /* [n_out] it has */
    Building *builds; /* `make_gradient` is called; else NULL */
    SharedSizes sizes;
    Slots at;
    dpx_tensor *in, *out; /* [n_in], [n_out]: what the role reads and makes; rank -1: absent */
    int n_in, n_out;
    char why[512];
};

/* Calls one of the operator's functions; `what` it is, for messages. */
Status node_call(dpx_node *node, dpx_node_fn *fn, const char *what) CHECKED;
void node_tensor(dpx_tensor *out, const Graph *g, ValueId v); /* without data, but that of a constant */
/* Calls the operator's shape function for a node and sets its outputs; `sizes` may be NULL. */
Status node_shape(SharedSizes *sizes, Graph *g, Node *n) CHECKED;
DType node_type(const Graph *g, const Node *n); /* for which the operator's kernels are chosen */
/* The operator's attributes of a node, and `more`, which a nameless one ends; NULL: no memory. */
Attr *node_attrs_with(Graph *g, const Node *n, const Attr *more);
/* Exchanges messages between the copies of a node: `collect` makes each copy's message of `in` [n_in], and every copy
 * gets the answers of `combine`.  `more` are attributes as above. */
ValueId node_share(Graph *g, const Node *n, Role collect, Role combine, const Attr *more, Sizes s, int n_in,
                   const ValueId *in);

#endif
