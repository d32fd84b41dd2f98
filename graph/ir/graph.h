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

/* Where a model's file stores a constant. */
typedef enum {
    ORIGIN_NONE, /* not in the file: dpexec made it */
    ORIGIN_INITIALIZER,
    ORIGIN_NODE /* the value of a Constant node */
} Origin;

/* Whether the model's file marks a constant as a parameter (graph/onnx/parameter_evidence.c). */
typedef enum {
    EVIDENCE_NONE,
    EVIDENCE_TRAINED, /* training_info, or an export by dpexec, lists it as trained */
    EVIDENCE_FIXED,
    EVIDENCE_PARAMETER, /* the exporter lists it as a parameter of the framework's module */
    EVIDENCE_BUFFER,    /* the exporter lists it as a buffer of the module */
    EVIDENCE_GIVEN,     /* an input of the file, to which --input-value gives a value */
    EVIDENCE_JOINED,    /* a constant of a graph that was joined to the model; it is never trained */
    EVIDENCE_HEAD       /* new weights of the layer that --head replaces (passes/model/head.c) */
} Evidence;

/* Value.batch_axis and Output.batch_axis: 1 + the axis of the batch, or one of these. */
enum { BATCH_NONE = -1, BATCH_UNKNOWN = 0 };

/* Whether passes/model/find_batch.c has found which inputs carry the batch (Value.carries). */
typedef enum {
    BATCH_NOT_FOUND,
    BATCH_FOUND,      /* by the model itself */
    BATCH_FROM_OPTION /* --batch-input names the inputs; find_batch.c has found the outputs' axes */
} BatchFound;

/* Elements [from, from + numel of the value) of a tensor of shape `whole`, in row-major order. */
typedef struct {
    Shape whole;
    int64_t from;
} Shard;

/* A value.  A graph may have millions, so small fields use small types. */
typedef struct {
    const char *name;    /* unique in the graph; the user's name where one exists */
    const Shape *shape;  /* shared by all values of that shape; set by value_set_shape */
    Node *producer;      /* V_TEMP: the node; else NULL */
    const Tensor *init;  /* V_CONST: its value; V_STATE: its initial value, zeros where it has no data */
    const char *logical; /* partitioned graph: the name of the value this is a copy of ("w" of "w@d0"); or NULL */
    const Shard *shard;  /* V_STATE of a partitioned graph: which elements of the state it holds; NULL: all of it */
    const char *const *dim_param; /* V_INPUT: names of symbolic dimensions, NULL entries for fixed ones; or NULL */
    const Tensor *integers;  /* V_CONST of floats: the integers of the file that they were converted from; or NULL */
    const char *folded_from; /* what the exporter computed the constant from: "['fc.weight', 'val_1']"; or NULL */
    const char *next;        /* the output by which the file's own training step updates the constant; or NULL */
    int out_index;           /* which of the producer's outputs */
    int16_t replica, device; /* partitioned graph; replica -1: none, device -1: the host (inputs, constants) */
    uint8_t kind;            /* ValueKind */
    DType dtype;
    Layout layout;
    uint8_t origin;    /* Origin */
    uint8_t evidence;  /* Evidence */
    int8_t batch_axis; /* for batches of one sample (passes/model/mark_batch.c): 1 + the axis that grows with the batch,
                          or BATCH_ */
    uint8_t carries;   /* V_INPUT of a model with batch_found: bit mask of the axes along which samples lie */
    bool may_carry : 1; /* the same, `carries` is 0: the model accepts rows of the batch here, too */
    bool ordered : 1;   /* the same: its numbers or rows refer to samples by position, so samples keep their order */
    bool trainable : 1; /* V_STATE: a parameter that the optimizer updates */
    bool undecayed : 1; /* the same, without weight decay */
    uint8_t matrix : 2; /* the same: MatrixKind (graph/ir/op.h) */
    bool member : 1;    /* V_INPUT: NAME.0, NAME.1, ... of an input NAME of the file that is a sequence */
    bool transient : 1; /* V_STATE: not part of a checkpoint (gradient accumulators) */
    bool tied : 1;      /* V_CONST of a model: the same parameter as another constant, which its readers now read */
    bool idle : 1;      /* V_CONST of a model: nothing in its file reads it */
    bool partial : 1;   /* V_STATE placed P: each replica keeps its own partial sum from step to step, and nothing is
                         * reduced until a reader needs the total.  Its initial value is zero on every replica; its
                         * update is P, or a B that is zero */
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

/* The part of a step that a node belongs to.  Passes set it for nodes that they append (graph_begin_purpose); for all
 * other nodes graph/ir/phase.h derives it from what they read. */
typedef enum { PHASE_NONE, PHASE_FORWARD, PHASE_CRITERION, PHASE_BACKWARD, PHASE_UPDATE } Phase;
enum { N_PHASES = PHASE_UPDATE + 1 };

struct Node {
    const OpDef *op;   /* NULL: removed */
    const char *name;  /* the user's name, its purpose ("gradient of conv1.weight"), or one made from the operator's;
                        * need not be unique */
    ValueId *in, *out; /* NO_VALUE: an absent optional one */
    const Attr *attr;  /* every declared attribute, defaults filled in (after node_normalise); nodes of a graph with
                        * equal lists share one */
    const char *call;  /* the call of PyTorch's program that it is a part of (graph/ir/traced_calls.h); NULL: unknown */
    const char *module; /* path of the exporter's module that the node comes from, "" the model itself; NULL: unknown */
    const char *const
        *read_as; /* imported models, [n_read_as] by input: the name under which the file reads a constant where that
                   * is not the value's own (Identity of an initializer); NULL: the value's own */
    int n_in, n_out, n_attr, n_read_as;
    uint32_t index;                /* in Graph.node */
    int replica : 13, device : 16; /* set by passes/partition/expand.c; -1: none */
    unsigned phase : 3;            /* Phase */
    unsigned lost_detach : 1;      /* the source code stopped a gradient here; the export lost which one */
};

typedef struct {
    ValueId state, next;
} Update; /* after the step: state := next */
typedef struct {
    const char *name; /* survives replacement of the value */
    ValueId value;
    const char *const *dim_param; /* as in Value, of the shape that the model's file declares */
    int8_t batch_axis;            /* of a model whose batch is found: 1 + the axis that grows with it, or BATCH_ */
    int8_t resized;               /* 1 + the axis that has new_size elements, whatever the file declares; 0: none */
    int64_t new_size;
} Output;

struct Graph {
    Arena *arena;
    const char *name;
    const char *producer, *producer_version; /* the exporter of the file; "" when unknown */
    const char *signature; /* signature of the program in PyTorch's metadata (graph/ir/traced_calls.h); NULL: none */
    uint8_t batch_found;   /* BatchFound */
    int64_t only_batch;    /* the only batch size for which the model is right; 0: no limit is known */
    bool by_sample;        /* the reason for only_batch: a convolution has one group for each sample */
    const char *only_why;  /* the cause of only_batch, for messages */
    Value **value;         /* [1..n_value); [0] is NULL */
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
    HashTable bodies;    /* bodies of its nodes (graph/ir/body.c) */
    HashTable shapes;    /* shapes of its values */
    HashTable attrs;     /* attribute lists of its nodes (graph/ir/attr.c) */
    Node *placeholder;   /* a removed node that fills the places of moved nodes; NULL: none moved */
    const char *purpose; /* name of nodes that are added without one; NULL: made from the operator's */
    Phase phase;         /* phase of nodes that are added */
    bool is_body;        /* a body: its arena is another graph's */
    Rewrite *rewrite;    /* the one that is open (graph/ir/rewrite.h), or NULL */
};

Graph *graph_create(const char *name);                         /* NULL when out of memory */
Graph *graph_create_within(const char *name, MemoryBudget *b); /* its memory is charged to the budget */
void graph_free(Graph *g);                                     /* NULL is legal; no effect on a body in a node */
/* A deep copy that shares the data of constants; they live until both graphs are freed.  Charged to g's budget. */
Status graph_clone(Graph **out, const Graph *g) CHECKED;
/* The same, but the data of constants stay g's, which must outlive the copy. */
Status graph_clone_lending(Graph **out, const Graph *g) CHECKED;
/* graph_clone, charged to budget b. */
Status graph_clone_within(Graph **out, const Graph *g, MemoryBudget *b) CHECKED;
/* Copies names of dimensions (Value.dim_param) into the arena of `to`; NULL for NULL. */
const char *const *graph_copy_symbols(Graph *to, const char *const *from);
/* A copy in the arena of `to`, freed with it; NULL on failure, with the reason in to->status. */
Graph *graph_copy_inside(Graph *to, const Graph *g);

/* ---- reading ---- */
/* NO_VALUE, the result of a failure, gives a value without type and shape. */
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
/* Bytes that the value takes in its layout; its shape must be known. */
size_t value_bytes(const Graph *g, ValueId v);
/* Layout of the node's first input or output that is not stored by rows; else LAYOUT_ROWS.  Values whose shape the
 * layout does not suit have the same order in both. */
Layout node_layout(const Graph *g, const Node *n);

/* The name the value has in the unpartitioned graph. */
static inline const char *value_logical_name(const Value *v) { return v->logical ? v->logical : v->name; }
/* Did passes make it a step, or part of one?  Then it has states, devices, layouts or copies, as no model does. */
bool graph_is_step(const Graph *g);
/* The data of a constant; NULL for other values, and for constants that the file's training step updates
 * (Value.next). */
const Tensor *value_const(const Graph *g, ValueId v);
/* Is the value a constant of one number?  Then *out receives it. */
bool value_const_number(const Graph *g, ValueId v, double *out);
/* Reads a constant integer vector or scalar into out[0..*n); E_SHAPE when it has more than `max` elements or is of
 * another kind, E_UNSUPPORTED when it is no constant. */
Status value_const_ints(const Graph *g, ValueId v, int64_t *out, int max, int *n) CHECKED;

/* ---- building; failures are sticky in g->status; a NULL name means that memory ran out for it ---- */
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
/* Makes a state, input or constant a temporary that no node produces: its data and the marks of its kind go. */
void value_make_temp(Value *v);
/* Appends a node with fresh outputs of unknown type (see emit.h for inference on the go).  Attributes are copied.
 * `out_names` may be NULL, or hold NULLs for made-up names; a name in use gets a suffix. */
Node *graph_add_node(Graph *g, const OpDef *op, const char *name, const Attr *attrs, int n_in, const ValueId *in,
                     int n_out, const char *const *out_names);
/* Appends a node with the operator, name, phase and attributes of `of`, a node of the same graph. */
Node *graph_add_node_like(Graph *g, const Node *of, int n_in, const ValueId *in, int n_out,
                          const char *const *out_names);
/* Makes n the newest node of the graph, with n->n_in new inputs.  Its outputs lose type and place and get new names, as
 * graph_add_node gives them.  Attributes and name stay. */
void graph_renew_node(Graph *g, Node *n, const ValueId *in, const char *const *out_names);
/* Nodes added from now on get that phase and, unless they are given a name, `purpose` as their name; it lies in the
 * arena and is shared.  PHASE_NONE and NULL restore the default. */
void graph_begin_purpose(Graph *g, Phase phase, const char *purpose);
/* A name not yet used: `base`, else base_1, base_2 ...  In the arena. */
const char *graph_unique_name(Graph *g, const char *base);
void graph_rename(Graph *g, ValueId v, const char *name); /* made unique */

/* ---- changing ---- */
/* Replaces `old` in every node, output and update; while a rewrite is open, at its end (graph/ir/rewrite.h).
 * E_INTERNAL when known types or shapes differ, since readers were made for old's. */
void graph_replace(Graph *g, ValueId old, ValueId by);
void graph_remove(Graph *g, Node *n); /* its outputs must be unused, or replaced already */
Status graph_sort(Graph *g) CHECKED;  /* stable topological order, drops removed nodes; E_MODEL names a cycle's nodes */

/* ---- attributes ---- */
const Attr *node_attr(const Node *n, const char *name); /* NULL when absent */
/* The value of a declared attribute of that type (asserted). */
int64_t node_int(const Node *n, const char *name);
double node_float(const Node *n, const char *name);
const char *node_string(const Node *n, const char *name); /* may be NULL when it has no default */
const int64_t *node_ints(const Node *n, const char *name, int *count);
const Graph *node_graph(const Node *n, const char *name);
/* Add or replace attributes.  Their data are copied (a body: body_share). */
void node_set_attr(Graph *g, Node *n, const Attr *a);
void node_set_attrs(Graph *g, Node *n, const Attr *list);  /* ends with one without a name; NULL: none */
void node_copy_attrs(Graph *g, Node *n, const Node *from); /* all attributes of `from`, of this or another graph */
void node_set_int(Graph *g, Node *n, const char *name, int64_t v);
void node_set_ints(Graph *g, Node *n, const char *name, int count, const int64_t *v);
void node_set_string(Graph *g, Node *n, const char *name, const char *v);
void node_set_defaults(Graph *g, Node *n); /* adds the declared attributes that the node lacks */
void node_remove_attr(Graph *g, Node *n, const char *name);
bool attr_same(const Attr *a, const Attr *b);             /* equal values; names are not compared */
bool attrs_same(const Node *a, const Node *b);            /* equal names and values, in any order */
uint64_t attr_hash(const Attr *a);                        /* equal attributes have equal hashes */
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
