/* The IR: a dataflow graph of nodes over values, static single assignment, with state that outlives a step.
 *
 * Values are named by typed ids; nodes and values are allocated one by one in the graph's arena and never move, so a
 * pointer stays valid as long as the graph.  No use lists are stored: uses are counted when needed, so no pass can
 * leave them stale.  Nodes stand in topological order except between a pass's first change and its graph_sort. */
#ifndef DPX_GRAPH_H
#define DPX_GRAPH_H

#include "graph/base/arena.h"
#include "graph/base/status.h"
#include "graph/tensor/layout.h"
#include "graph/tensor/shape_table.h"
#include "graph/tensor/tensor.h"

typedef struct OpDef OpDef;
typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Rewrite Rewrite;

typedef struct {
    uint32_t i;
} ValueId; /* 0: none */
#define NO_VALUE ((ValueId){ 0 })

enum { MAX_DEVICES = 256, MAX_REPLICAS = 4096 };

typedef enum {
    V_TEMP,  /* computed by a node */
    V_INPUT, /* given by the caller at each step */
    V_STATE, /* outlives the step: parameter, moment, running statistic, counter */
    V_CONST  /* known now: `init` */
} ValueKind;

/* V_CONST of a model: where its file has it. */
typedef enum {
    ORIGIN_NONE, /* nowhere: made here */
    ORIGIN_INITIALIZER,
    ORIGIN_NODE /* the value of a Constant node */
} Origin;

/* What the file itself says of a constant of a model (graph/onnx/parameter_evidence.c). */
typedef enum {
    EVIDENCE_NONE,
    EVIDENCE_TRAINED, /* by training_info, or by an export of ours */
    EVIDENCE_FIXED,
    EVIDENCE_PARAMETER, /* by the exporter: of the framework's module */
    EVIDENCE_BUFFER,    /* likewise: not among its parameters */
    EVIDENCE_GIVEN,     /* by the options: the file has it as an input (--input-value) */
    EVIDENCE_JOINED     /* by nobody: of a graph that was joined to the model, whose constants stay as they are */
} Evidence;

/* Value.batch_axis and Output.batch_axis: 1 + the axis of the batch, or one of these. */
enum { BATCH_NONE = -1, BATCH_UNKNOWN = 0 };

/* Whether it is decided which inputs carry the batch, Value.carries (passes/model/find_batch.c). */
typedef enum {
    BATCH_NOT_FOUND,
    BATCH_FOUND,      /* by the model itself */
    BATCH_FROM_OPTION /* by --batch-input: outputs have their axes, inputs go by the option */
} BatchFound;

/* Elements [from, from + as many as its value has) of a tensor of shape `whole`, in the order of its rows. */
typedef struct {
    Shape whole;
    int64_t from;
} Shard;

/* There may be millions: what is small is stored small. */
typedef struct {
    const char *name;    /* unique in the graph; the user's name where one exists */
    const Shape *shape;  /* shared by the values that have the same; set by value_set_shape */
    Node *producer;      /* V_TEMP: the node; else NULL */
    const Tensor *init;  /* V_CONST: its value; V_STATE: its initial value, zeros where it has no data */
    const char *logical; /* of a partitioned graph: the name of the value this is a copy of ("w" of "w@d0"); or NULL */
    const Shard *shard;  /* V_STATE of a partitioned graph: which elements of the state it holds; NULL: all of it */
    const char *const *dim_param; /* V_INPUT: names of symbolic dimensions, NULL entries for fixed ones; or NULL */
    const Tensor *integers;       /* V_CONST of floats that stand for integers of the file: those; or NULL */
    const char *folded_from;      /* what the exporter computed the constant from: "['fc.weight', 'val_1']"; or NULL */
    const char *next;             /* the graph's output that a training step of the file makes of it; or NULL */
    int out_index;                /* which of the producer's outputs */
    int16_t replica, device;      /* of a partitioned graph; -1: none (a device -1: on the host: inputs, constants) */
    uint8_t kind;                 /* ValueKind */
    DType dtype;
    Layout layout;
    uint8_t origin;    /* Origin */
    uint8_t evidence;  /* Evidence */
    int8_t batch_axis; /* for batches of one sample (passes/model/mark_batch.c): 1 + the axis that grows with the batch,
                          or BATCH_ */
    uint8_t carries;   /* V_INPUT, of a model whose batch is found: bits of the axes along which its samples lie */
    bool may_carry : 1; /* V_INPUT, likewise, with nothing in `carries`: the model computes rows of the batch as well */
    bool ordered : 1;   /* V_INPUT, likewise: its numbers or rows tell which samples, and these keep their order */
    bool trainable : 1; /* V_STATE: a parameter that the optimizer updates */
    bool member : 1;    /* V_INPUT: NAME.0, NAME.1, ... of an input NAME of the file that is a sequence */
    bool transient : 1; /* V_STATE: not part of a checkpoint (gradient accumulators) */
    bool tied : 1;      /* V_CONST of a model: what read it reads another one, which is the same parameter */
    bool idle : 1;      /* V_CONST of a model: nothing in its file reads it */
    bool partial : 1;   /* V_STATE: placed P: each replica keeps its own partial sum from step to step, and nothing is
                         * reduced until a reader needs the total.  Its initial value is zero on every replica, and an
                         * update of it is P, or a B that is zero */
} Value;

typedef enum { A_NONE, A_INT, A_FLOAT, A_STRING, A_INTS, A_FLOATS, A_STRINGS, A_TENSOR, A_GRAPH } AttrType;

typedef struct {
    const char *name; /* NULL ends a list */
    AttrType type;
    int n; /* elements of ints, floats, strings */
    int64_t i;
    double f;
    const char *s;
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    const Tensor *tensor;
    const Graph *graph; /* a body (graph/ir/body.h) */
} Attr;

/* What part of a step a node belongs to.  Passes that append one say so of what they make (graph_begin_purpose); of all
 * other nodes it follows from what they read (graph/ir/phase.h). */
typedef enum { PHASE_NONE, PHASE_FORWARD, PHASE_CRITERION, PHASE_BACKWARD, PHASE_UPDATE } Phase;
enum { N_PHASES = PHASE_UPDATE + 1 };

struct Node {
    const OpDef *op;   /* NULL: removed */
    const char *name;  /* the user's name, or what it is for ("gradient of conv1.weight"), or one made from the
                        * operator's; unique not required */
    ValueId *in, *out; /* NO_VALUE: an optional one that is absent */
    const Attr *attr;  /* every declared attribute, defaults filled in (after node_normalise); one list for all nodes of
                        * the graph that have the same */
    const char *call;  /* the call of PyTorch's program that it is a part of (graph/ir/traced_calls.h); NULL: unknown */
    const char *module; /* path of the exporter's module that the node comes from, "" the model itself; NULL: unknown */
    const char *const
        *read_as; /* the names by which the file reads constants that have another (Identity of an initializer),
                   * [n_read_as] by input, NULL for the value's own; of models as imported */
    int n_in, n_out, n_attr, n_read_as;
    uint32_t index;                /* in Graph.node */
    int replica : 13, device : 16; /* set by passes/partition/expand.c; -1: none */
    unsigned phase : 3;            /* Phase */
    unsigned lost_detach : 1;      /* code that it comes from stops gradients; the file does not tell which */
};

typedef struct {
    ValueId state, next;
} Update; /* after the step: state := next */
typedef struct {
    const char *name; /* survives replacement of the value */
    ValueId value;
    const char *const *dim_param; /* as in Value, of the shape that the model's file declares */
    int8_t batch_axis;            /* of a model whose batch is found: 1 + the axis that grows with it, or BATCH_ */
} Output;

struct Graph {
    Arena *arena;
    const char *name;
    const char *producer, *producer_version; /* of the file it was read from; "" when unknown */
    const char
        *signature; /* of the program that PyTorch's exporter wrote to the file (graph/ir/traced_calls.h); NULL: none */
    uint8_t batch_found;  /* BatchFound */
    int64_t only_batch;   /* what it computes for batches of another size is wrong; 0: nothing is known to be */
    bool by_sample;       /* and that is so because samples have a group each, of a convolution */
    const char *only_why; /* what in it, for messages */
    Value **value;        /* [1..n_value); [0] is NULL */
    uint32_t n_value;
    Node **node;
    uint32_t n_node;
    ValueId *input;
    int n_input;
    Output *output;
    int n_output;
    Update *update;
    int n_update;
    Status status; /* sticky: the first failure of emit and the other builders */
    size_t cap_value, cap_node, cap_input, cap_output, cap_update;
    struct NameTable *names;
    struct BodyTable *bodies; /* of its nodes (graph/ir/body.c); NULL: none */
    ShapeTable shapes;        /* of its values */
    struct AttrTable *attrs;  /* of its nodes (graph/ir/attr.c); NULL: none */
    Node *placeholder;        /* stands where a node was that is elsewhere now; NULL: none is */
    const char *purpose;      /* the name of nodes that get none; NULL: made from their operators' */
    Phase phase;              /* of nodes that are added */
    bool is_body;             /* a body: its arena is another graph's */
    Rewrite *rewrite;         /* the one that is open (graph/ir/rewrite.h), or NULL */
};

Graph *graph_create(const char *name);                         /* NULL when out of memory */
Graph *graph_create_within(const char *name, MemoryBudget *b); /* its memory is taken of the budget */
void graph_free(Graph *g);                                     /* NULL is legal; nothing for a body in a node */
/* Deep but for the data of constants, which live as long as one of both. */
Status graph_clone(Graph **out, const Graph *g) CHECKED;
Status graph_clone_lending(Graph **out,
                           const Graph *g) CHECKED; /* as graph_clone, but the data stay g's, which must outlive it */
/* The copy's memory is taken of the budget; graph_clone's of the budget of the graph. */
Status graph_clone_within(Graph **out, const Graph *g, MemoryBudget *b) CHECKED;
/* Names of dimensions (Value.dim_param) in the arena of `to`; NULL for NULL. */
const char *const *graph_copy_symbols(Graph *to, const char *const *from);
/* A copy in the arena of `to`, with which it is freed; NULL when to->status says why. */
Graph *graph_copy_inside(Graph *to, const Graph *g);

/* ---- reading ---- */
/* Of NO_VALUE, which a failure leaves, one of no type nor shape. */
static inline Value *value(const Graph *g, ValueId v) { return g->value[v.i]; }
static inline bool has_value(ValueId v) { return v.i != 0; }
static inline bool value_eq(ValueId a, ValueId b) { return a.i == b.i; }
ValueId graph_find(const Graph *g, const char *name);   /* NO_VALUE when there is none */
ValueId graph_output(const Graph *g, const char *name); /* the value behind a named output, or NO_VALUE */
/* Visits live nodes by increasing index; nodes appended during the walk are visited too. */
#define FOR_NODES(g, n)                                    \
    for (uint32_t i_##n = 0; i_##n < (g)->n_node; i_##n++) \
        for (Node *n = (g)->node[i_##n]; n && n->op; n = NULL)
/* Uses of each value by nodes, outputs and updates; array of n_value in `a`.  NULL when out of memory. */
uint32_t *graph_count_uses(const Graph *g, Arena *a);
/* What it takes in memory, as it is stored; its shape is known. */
size_t value_bytes(const Graph *g, ValueId v);
/* Of all that the node reads and writes, the layout of the first that is not stored by rows.  What it does not suit has
 * the same order in both. */
Layout node_layout(const Graph *g, const Node *n);

/* The name the value has in the unpartitioned graph. */
static inline const char *value_logical_name(const Value *v) { return v->logical ? v->logical : v->name; }
/* Passes have made a step of it, or a part: it has state, or something that has a place, a layout or is a copy, as no
 * model does. */
bool graph_is_step(const Graph *g);
/* The value's data if it is a constant, and none that a training step of the file changes (Value.next); else NULL. */
const Tensor *value_const(const Graph *g, ValueId v);
/* Is the value a constant of one number?  Then *out is that. */
bool value_const_number(const Graph *g, ValueId v, double *out);
/* Constant int64/int32 vector (or scalar) into `out` of at most `max`; E_SHAPE when longer, E_UNSUPPORTED when not
 * constant. */
Status value_const_ints(const Graph *g, ValueId v, int64_t *out, int max, int *n) CHECKED;

/* ---- building; failures are sticky in g->status, and a name that is NULL is one that memory ran out for ---- */
Status graph_fail_nomem(Graph *g); /* records that memory ran out, unless something failed before */
ValueId graph_add_value(Graph *g, ValueKind kind, const char *name, DType dtype, const Shape *shape);
ValueId graph_add_input(Graph *g, const char *name, DType dtype, const Shape *shape);
ValueId graph_add_const(Graph *g, const char *name, const Tensor *t);        /* copies the data */
ValueId graph_add_const_nocopy(Graph *g, const char *name, const Tensor *t); /* the data lives in the arena */
ValueId graph_add_state(Graph *g, const char *name, const Tensor *init, bool trainable);
void graph_add_output(Graph *g, const char *name, ValueId v);
void graph_remove_output(Graph *g, const char *name); /* nothing when there is none */
void graph_add_update(Graph *g, ValueId state, ValueId next);
void value_set_shape(Graph *g, Value *v, const Shape *s);
/* Appends a node with fresh outputs of unknown type (see emit.h for inference on the go).  Attributes are copied.
 * `out_names` may be NULL, or hold NULLs for made-up names; a name in use gets a suffix. */
Node *graph_add_node(Graph *g, const OpDef *op, const char *name, const Attr *attrs, int n_in, const ValueId *in,
                     int n_out, const char *const *out_names);
/* As `of`, a node of the same graph, whose name and attributes it shares. */
Node *graph_add_node_like(Graph *g, const Node *of, int n_in, const ValueId *in, int n_out,
                          const char *const *out_names);
/* n, which reads as many inputs and has the same outputs as before, as the newest node of the graph: its outputs, of
 * unknown type, get names as graph_add_node gives them.  Attributes and name stay. */
void graph_renew_node(Graph *g, Node *n, const ValueId *in, const char *const *out_names);
/* Nodes added from here on belong to that phase, and have the purpose as their name unless they are given one: it is in
 * the arena, and shared.  PHASE_NONE, NULL: as ever. */
void graph_begin_purpose(Graph *g, Phase phase, const char *purpose);
/* A name not yet used: `base`, else base_1, base_2 ...  In the arena. */
const char *graph_unique_name(Graph *g, const char *base);
void graph_rename(Graph *g, ValueId v, const char *name); /* made unique */

/* ---- changing ---- */
/* In every node, output and update; while a rewrite is open, at its end (graph/ir/rewrite.h).  E_INTERNAL when their
 * types or shapes are known to be unlike: readers were made for old's. */
void graph_replace(Graph *g, ValueId old, ValueId by);
void graph_remove(Graph *g, Node *n); /* its outputs must be unused, or replaced already */
Status graph_sort(Graph *g) CHECKED;  /* stable topological order, drops removed nodes; E_MODEL names a cycle's nodes */

/* ---- attributes ---- */
const Attr *node_attr(const Node *n, const char *name); /* NULL when absent */
/* Of a declared attribute (asserted). */
int64_t node_int(const Node *n, const char *name);
double node_float(const Node *n, const char *name);
const char *node_string(const Node *n, const char *name); /* may be NULL when it has no default */
const int64_t *node_ints(const Node *n, const char *name, int *count);
const Graph *node_graph(const Node *n, const char *name);
/* Add or replace; what they are given is copied (a body: body_share). */
void node_set_attr(Graph *g, Node *n, const Attr *a);
void node_set_attrs(Graph *g, Node *n, const Attr *list);  /* which ends with one without a name; NULL: none */
void node_copy_attrs(Graph *g, Node *n, const Node *from); /* all that the other has, which may be of another graph */
void node_set_int(Graph *g, Node *n, const char *name, int64_t v);
void node_set_ints(Graph *g, Node *n, const char *name, int count, const int64_t *v);
void node_set_string(Graph *g, Node *n, const char *name, const char *v);
void node_set_defaults(Graph *g, Node *n); /* of all that the operator declares and the node lacks */
void node_remove_attr(Graph *g, Node *n, const char *name);
bool attr_same(const Attr *a, const Attr *b);             /* of one name */
bool attrs_same(const Node *a, const Node *b);            /* in any order */
uint64_t attr_hash(const Attr *a);                        /* the same for those that are the same */
void node_set_input(Graph *g, Node *n, int i, ValueId v); /* grows the list as needed */

#define INT(key, v)                            \
    {                                          \
        .name = (key), .type = A_INT, .i = (v) \
    }
#define FLOAT(key, v)                            \
    {                                            \
        .name = (key), .type = A_FLOAT, .f = (v) \
    }
#define STRING(key, v)                            \
    {                                             \
        .name = (key), .type = A_STRING, .s = (v) \
    }
#define INTS(key, count, v)                                      \
    {                                                            \
        .name = (key), .type = A_INTS, .n = (count), .ints = (v) \
    }
#define GRAPH(key, v)                                \
    {                                                \
        .name = (key), .type = A_GRAPH, .graph = (v) \
    }
#define ATTRS(...) ((const Attr[]){ __VA_ARGS__, { .name = NULL } })

#endif
