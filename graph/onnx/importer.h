/* What the files of graph/onnx share. */
#ifndef DPX_ONNX_IMPORTER_H
#define DPX_ONNX_IMPORTER_H

#include "graph/base/mapped.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"
#include "onnx_proto.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data is little-endian and copied as it is");

/* ---- wire_scan.c ---- */
/* Checks the wire format of a message without recursion, then unpacks it into `arena`.  `map` is the file that the
 * data are of, whose pages are given up behind them; NULL: none. */
Status onnx_unpack(ProtobufCMessage **out, Arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data,
                   size_t size, const Mapped *map) CHECKED;
enum { KEPT_OF_FILE = 16 << 20 }; /* bytes that are read of files between two times that their pages are given up */

/* ---- external.c ---- */
/* The external data files of one model: opened at first use, mapped until closed. */
typedef struct External External;
External *external_create(Arena *a, const char *model_path); /* NULL when out of memory */
void external_close(External *e);                            /* NULL is legal */
/* The bytes that an EXTERNAL tensor names; exactly `size` of them. */
Status external_bytes(const uint8_t **out, External *e, const Onnx__TensorProto *t, size_t size) CHECKED;

/* ---- tensor_proto.c ---- */
typedef struct {
    Arena *arena;       /* of the tensors made */
    External *external; /* NULL: external data is refused */
    Arena *unpacked;    /* whose large raw data tensors take over; NULL: they copy them */
    int64_t dense_left; /* bytes that sparse tensors may still fill */
    bool texts;         /* tensors of strings are held */
} TensorReader;
/* Why tensors of this type cannot be held, or NULL; `texts`: those of strings can. */
const char *tensor_type_problem(int data_type, bool texts);
Status tensor_decode(Tensor **out, TensorReader *r, const Onnx__TensorProto *t, const char *name) CHECKED;
Status tensor_decode_sparse(Tensor **out, TensorReader *r, const Onnx__SparseTensorProto *t, const char *name) CHECKED;
/* The shape of an input or output; unknown dimensions are -1, those with a name get it in `params` (else left
 * alone). */
Status type_shape_decode(Shape *out, const char ***params, Arena *a, const Onnx__TensorShapeProto *s,
                         const char *name) CHECKED;
Status dims_decode(Shape *out, size_t n, const int64_t *dim, size_t element_size, const char *name) CHECKED;

/* ---- scope.c ---- */
typedef struct Sequence Sequence; /* import_sequence.c */
typedef struct {
    const char *name;
    ValueId value;       /* NO_VALUE: not made yet, or an optional input that the caller left out */
    const char *problem; /* why it cannot be used, or NULL */
    const Sequence
        *sequence; /* what a sequence consists of; its `problem` keeps operators of tensors from reading it */
    bool nothing;  /* an optional that holds nothing; likewise */
    int64_t node;  /* the node of the body that makes it; -1: none */
    bool formal;   /* an input of a function */
    bool computed; /* another name of a value, which the program gave to the result of a call: no parameter's name */
} ScopeEntry;
/* The names of one body: what each stands for. */
typedef struct {
    ScopeEntry *slot;
    size_t n, cap;
    Arena *arena;
} Scope;
ScopeEntry *scope_find(const Scope *s, const char *name); /* NULL when unknown */
ScopeEntry *scope_add(Scope *s, const char *name);        /* the one that is there, or a new one; NULL: no memory */
void scope_clear(Scope *s);
void entry_take(ScopeEntry *to, const ScopeEntry *from); /* stands for the same */
/* Has its node been read?  Then it can be used, or says why not. */
static inline bool entry_made(const ScopeEntry *e) { return has_value(e->value) || e->problem || e->formal; }

/* ---- import.c ---- */
typedef struct Body Body;
typedef struct Probes Probes;
/* A function's attributes as one call gives them. */
typedef struct {
    int n;
    const char **name;
    const Onnx__AttributeProto **attr;
} Bindings;

/* One list of nodes being imported: the graph's, a function's for one call, or a subgraph's for one trip. */
struct Body {
    const Body *up;            /* the caller's; NULL for the graph */
    const Body *outer;         /* of a subgraph: the body of its node, whose names it sees; else NULL */
    const Onnx__NodeProto *of; /* the node whose attribute it becomes (import_subgraph.c), or NULL */
    const Onnx__FunctionProto *function;
    Bindings bindings;
    const char *call;      /* of a function: Node.call of the node that calls it */
    const char *prefix;    /* of names of nodes and values: "", "call/" or "loop/3/" */
    const char *constants; /* of names of Constant nodes: without the trips of loops */
    bool repeated;         /* within a loop: its constants are the same in each trip */
    int64_t site; /* of the call that it belongs to; calls in one trip of a loop and in another have the same */
    Scope scope;
    size_t n_node, n_opset;
    Onnx__NodeProto **node;
    Onnx__OperatorSetIdProto **opset;
};

typedef struct {
    Graph *g;
    Arena *scratch; /* what lives until the end of the import */
    const Onnx__ModelProto *model;
    Scope stopped;   /* values that PROP_STOP names */
    Scope functions; /* by domain, name and overload; `node` is the function's number */
    TensorReader tensors;
    Problems problems;
    bool marked;       /* the file is an export of ours: its doc_strings are marks */
    int64_t newest;    /* opset of the default domain that a node was spelled in: a function may have its own */
    size_t n_done;     /* nodes imported so far, those of inlined functions and subgraphs too */
    size_t max_nodes;  /* of these */
    Scope shared;      /* constants and calls of repeated bodies (shared_entry) */
    const char **call; /* of functions, by the names that those of their nodes begin with */
    size_t n_call, cap_call;
    Evaluator eval;
    const OperatorList *own;
    OnnxMembers *members;
    void *members_user;
    OnnxInputValue *input_value;
    void *input_value_user;
    int n_given;                 /* inputs without a default, read so far */
    bool unsaid;                 /* of an input what it has */
    bool training;               /* the model's graph is that of `info` */
    const struct Training *info; /* training.h; NULL: no training_info is read */
    uint64_t seed;
    const struct Known **known; /* known_values.c: by value, for those below n_known */
    uint32_t n_known, n_inferred;
    Probes *probes;            /* open_sizes.c; NULL: nothing has been asked of them */
    struct Entering *entering; /* import_branch.c: by value, for those below n_entering */
    uint32_t n_entering, n_traced;
    struct Evaluation *run; /* evaluate.c: nodes are computed as they are read; NULL: they are not */
} Importer;

/* As onnx_import_file; with `run` the graph is what is left of an evaluation. */
Status import_file(Graph **out, OnnxModel **model, const char *path, const ImportOptions *opt,
                   struct Evaluation *run) CHECKED;
/* A model that is part of the importer's file, as ImportOptions said of the whole. */
Status import_part(Graph **out, const Importer *im, const Onnx__ModelProto *m, struct Evaluation *run) CHECKED;
Status import_body(Importer *im, Body *b) CHECKED;
/* The body's initializers, or those of a subgraph. */
Status import_initializers(Importer *im, Body *b, const Onnx__GraphProto *gp) CHECKED;

/* ---- importer.c ---- */
/* An array of objects by value: with room, zeroed, for every value that the graph has now; *n: how many it has room
 * for. NULL: no memory, and it stays where it is. */
void *by_value(const Importer *im, void *array, size_t size, uint32_t *n);
/* A new name of the body: its input, or its initializer. */
Status declare(ScopeEntry **out, Body *b, const char *name, const char *what) CHECKED;
/* Of a shared body: what `part` of the file (a node, an initializer) became when it was first read for the calls of
 * `site`, or for all of them; a new entry then.  NULL: no memory. */
enum { SITE_EVERY = -1 };
ScopeEntry *shared_entry(Importer *im, int64_t site, const void *part);
/* Is the body read once for each trip of a loop, or once for each call of a function? */
bool body_is_shared(const Body *b);
/* Counts nodes, or work of that order, against the limit. */
Status spend_nodes(Importer *im, size_t n) CHECKED;
/* The name in the body or, of a subgraph, in those around it; NULL when unknown. */
ScopeEntry *body_find(const Body *b, const char *name);
/* The value of a node's input. */
Status tensor_input(ValueId *out, const Body *b, const Onnx__NodeProto *p, size_t i) CHECKED;
/* "Conv conv1 (output 'y')", as node_text calls it, for a node that is not in the graph yet. */
const char *proto_text(const Importer *im, const Onnx__NodeProto *p);
/* The name that the graph gives to a body's value or node: with the body's prefix. */
const char *body_name(Importer *im, const Body *b, const char *name);
static inline const char *text_or(const char *s, const char *absent) { return s && *s ? s : absent; }
int64_t opset_of(const Body *b, const char *domain); /* 0 when not imported */
bool is_gradient(const Onnx__NodeProto *p);          /* the operator of ai.onnx.preview.training */
bool is_default_domain(const char *domain);          /* ai.onnx, which files also call "" */

/* ---- order.c ---- */
/* Checks single assignment and that every input is defined; `order` gets node numbers in topological order, file order
 * where possible. */
Status body_order(Importer *im, Body *b, size_t *order) CHECKED;

/* ---- attribute.c ---- */
/* The attribute with references to the function's attributes followed; NULL: absent in this call. */
Status attribute_resolve(const Onnx__AttributeProto **out, const Importer *im, const Body *b, const Onnx__NodeProto *p,
                         const Onnx__AttributeProto *a) CHECKED;
const Onnx__AttributeProto *attribute_find(const Onnx__NodeProto *p, const char *name); /* NULL: absent */
/* Both, of that type. */
Status attribute_given(const Onnx__AttributeProto **out, const Importer *im, const Body *b, const Onnx__NodeProto *p,
                       const char *name, Onnx__AttributeProto__AttributeType type) CHECKED;
int attribute_type(const Onnx__AttributeProto *a); /* files of IR version 1 do not say it */
/* `list` gets all attributes of the node in `scratch`, ended by a nameless one. */
Status attributes_decode(Attr **list, Importer *im, const Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- import_subgraph.c ---- */
#define BODY_SEPARATOR "//" /* between what an export calls a node's output and a name in the node's body */
/* The body of a node of ours, in the graph's arena; where problems are noted it may be incomplete. */
/* E_MODEL: bodies nest deeper than any that means something. */
Status body_check_depth(const Body *b) CHECKED;
Status body_decode(const Graph **out, Importer *im, const Body *up, const Onnx__NodeProto *p,
                   const Onnx__GraphProto *gp) CHECKED;

/* ---- import_constant.c ---- */
Status import_constant(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- clamp.c ---- */
/* A Clip that the exporter made of clamp by tensors becomes Max and Min; a Max or Min of clamp by numbers Clip.  n is
 * of our spelling, and its outputs keep their names. */
Status import_clamp(Importer *im, const Onnx__NodeProto *p, Node *n) CHECKED;

/* ---- known_values.c ---- */
/* The integer or bool, one element, that constants of the file and declared sizes give; false: it depends on more. */
bool known_number(int64_t *out, Importer *im, ValueId v);
/* Of what known_number found: do sizes of inputs have a part in it? */
bool known_by_size(const Importer *im, ValueId v);
/* Does it follow from sizes and constants alone, of which the file leaves some open? */
bool known_by_open_sizes(const Importer *im, ValueId v);
/* The size along an axis, which may count from the end; -1: not fixed.  E_MODEL when there is no such axis. */
Status known_size(int64_t *out, Importer *im, ValueId v, int64_t axis) CHECKED;
/* The type of a value that is of floats; DT_NONE: not known. */
DType known_float(Importer *im, ValueId v);

/* Shapes of inner values that were inferred to that end are unknown again: other sizes may be asked for. */
void known_forget(Importer *im);

/* ---- decided_sizes.c ---- */
/* The number that was known, or the size of x along the axis, decided what nodes there are: `what` (NULL: no memory)
 * says so in the message to a run of other sizes. */
Status decided_number(Importer *im, ValueId v, int64_t is, const char *what) CHECKED;
Status decided_size(Importer *im, ValueId x, int64_t axis, int64_t is, const char *what) CHECKED;

/* ---- import_branch.c ---- */
/* Nodes that count only where a condition holds, which data decide: those read between branch_begin and branch_end. */
typedef struct {
    Importer *im;
    ValueId condition;    /* a scalar */
    uint32_t value, node; /* the first of its own */
} Branch;
/* The number that decides, as a condition; with `and` (NO_VALUE: without) only where that holds too. */
ValueId branch_condition(Importer *im, ValueId number, ValueId and);
Branch branch_begin(Importer *im, ValueId condition);
/* What enters the branch is led in (graph/ops/branch.c). */
Status branch_end(const Branch *b) CHECKED;
/* `e` becomes what it is where the condition holds, else `other`, which are tensors; the names are those of the node
 * and of its output, which may be NULL. */
Status branch_choose(ScopeEntry *e, Importer *im, ValueId condition, const ScopeEntry *other, const char *node,
                     const char *output) CHECKED;

/* ---- evaluate.c ---- */
/* Computes what was read since the last call, the last of it of the body. */
Status evaluate_read(Importer *im, const Body *b) CHECKED;
/* Node p of the body, which is read next, need not be computed before others are read: all that it becomes is nodes, of
 * whatever values its inputs have. */
bool evaluate_waits(const Importer *im, const Body *b, const Onnx__NodeProto *p);
/* The model's input, whose value is given. */
Status evaluate_input(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p) CHECKED;
/* What the model's outputs are, when all nodes have been read. */
Status evaluate_outputs(Importer *im, const Body *b) CHECKED;

/* ---- open_sizes.c ---- */
/* -1 for sizes that are open; rank -1: nothing is known. */
Shape probed_shape(Importer *im, ValueId v);
void probes_free(Importer *im);

/* ---- flow.c ---- */
bool is_flow_operator(const char *name);
/* If, Loop, Scan and SequenceMap, inlined and unrolled. */
Status import_flow(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;
/* What the node's subgraph `name`, of one input and one output, makes of `*x`; nothing where it has no such one. */
Status import_applied(ValueId *x, Importer *im, Body *b, const Onnx__NodeProto *p, const char *name) CHECKED;

/* ---- import_flex_attention.c ---- */
bool is_flex_attention(const Onnx__NodeProto *p);
Status import_flex_attention(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- structure.c ---- */
/* What the type says, but for the shape: the type of the tensors; NULL: it is not of tensors. */
const Onnx__TypeProto__Tensor *input_type(OnnxType *out, const Onnx__TypeProto *type);
/* The model's input that is no tensor. */
Status import_structured(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p) CHECKED;

/* ---- input_value.c ---- */
/* Do the options give the input a value? */
bool input_is_given(const Importer *im, const char *name);
/* The input becomes a constant of that value. */
Status import_given_input(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p) CHECKED;
/* Of an input that has an initializer, where the options give it a value. */
Status import_given_default(Importer *im, const ScopeEntry *e) CHECKED;
/* Such constants are not trained.  Behind model_said. */
void inputs_say_given(const Importer *im, const Body *b);

/* ---- import_gradient.c ---- */
Status import_gradient(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- import_sequence.c ---- */
bool is_sequence_operator(const char *name);
Status import_sequence(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;
/* The entry stands for a sequence of `n` tensors. */
Status sequence_set(ScopeEntry *e, Importer *im, int n, const ValueId *item) CHECKED;
/* The tensors of a sequence; E_UNSUPPORTED: how many there are is not known.  `what` (NULL: no memory) says in messages
 * that it is how many. */
Status sequence_items(const ValueId **item, int *n, Importer *im, const Sequence *s, const char *what) CHECKED;
/* Outputs NAME.0, NAME.1, ... of the graph; E_UNSUPPORTED: how many there are is not known. */
Status import_sequence_output(Importer *im, const char *name, const Sequence *s) CHECKED;

/* ---- optional.c ---- */
bool is_optional_operator(const char *name);
Status import_optional(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;
void optional_set_nothing(ScopeEntry *e);

/* ---- function.c ---- */
Status functions_index(Importer *im) CHECKED;
/* The local function that a node calls, or NULL. */
Status function_find(const Onnx__FunctionProto **out, const Importer *im, const Onnx__NodeProto *p) CHECKED;
Status import_call(Importer *im, Body *b, const Onnx__NodeProto *p, const Onnx__FunctionProto *f) CHECKED;

/* ---- newer_fields.c ---- */
/* A string; "" when absent. */
const char *late_string(const ProtobufCMessage *m, unsigned tag, Arena *a);
/* Messages of a repeated field: their number at most, and the i-th, NULL where unknown field i is another one.  The
 * arena is for those that the definition at hand does not know. */
size_t late_count(const ProtobufCMessage *m, unsigned tag);
Status late_message(ProtobufCMessage **out, Arena *a, const ProtobufCMessage *m, unsigned tag,
                    const ProtobufCMessageDescriptor *type, size_t i) CHECKED;
/* Calls `take` for each entry of a list of metadata; the texts are lent for the call. */
typedef Status LateEntry(void *user, const char *key, const char *text);
Status late_entries(LateEntry *take, void *user, const ProtobufCMessage *m, unsigned tag) CHECKED;
/* Likewise of the node's metadata. */
Status late_node_entries(LateEntry *take, void *user, const Importer *im, const Onnx__NodeProto *p) CHECKED;
/* Where the exporter's metadata say that the node comes from (Node.module, call, lost_detach); a node of a function
 * without metadata comes from the call of the function. */
Status late_source(Node *n, Importer *im, const Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- traced_program.c ---- */
/* What the metadata say of the program beyond nodes: buffers get updates, gradients that it stops are stopped.  Once
 * all nodes are there. */
Status program_obey(Importer *im, const Body *b) CHECKED;

/* ---- model.c ---- */
Status model_remember(OnnxModel **out, const Importer *im, int64_t opset) CHECKED;
/* Metadata of our own: state and updates of a graph that was exported half way. */
#define PROP_PREFIX "dpexec."
#define PROP_STATE                                                                                                  \
    PROP_PREFIX "state:" /* + name: "trainable", "transient", "partial", "transient partial", "plain", or of a copy \
                          * that holds a piece "plain from FROM of DIM,DIM,..." */
#define PROP_UPDATE PROP_PREFIX "update:" /* + name of a state: name of its next value */
#define PROP_MARKS \
    PROP_PREFIX "marks" /* MARKS_VERSION: doc_strings are marks (doc_string.c); else they are somebody's text */
#define MARKS_VERSION "1"
#define ALIAS_NODE "another name of a value" /* doc_string of an Identity: the graph has one value with two names */
#define PROP_PARAMETER \
    PROP_PREFIX "parameter:" /* + name of an initializer, in any export: PARAMETER_TRAINED or PARAMETER_FIXED */
#define PROP_DECIDED \
    PROP_PREFIX "decided:" /* + name of what an Identity makes, in a plain export: "VALUE WHAT" of a Decided node */
#define PROP_NEXT \
    PROP_PREFIX "next:" /* + name of an initializer, in a plain export: name of its value after a step of training */
#define PROP_STOP \
    PROP_PREFIX "stop-gradient:" /* + name of what an Identity makes, in a plain export: of a StopGradient node */
#define PARAMETER_TRAINED "trained"
#define PARAMETER_FIXED "fixed"
bool model_is_marked(const Onnx__ModelProto *m);
/* When all nodes are there. */
Status model_restore(Importer *im, const Body *b) CHECKED;

/* ---- parameter_evidence.c ---- */
/* What stops gradients, before nodes are read (Importer.stopped). */
Status model_stopped(Importer *im) CHECKED;
/* The producer, and what the file says of its constants, when all nodes are there. */
Status model_said(Importer *im, const Body *b) CHECKED;

/* ---- doc_string.c ---- */
/* Read what export writes as a node's or a value's doc_string.  A text that is none, and any text in a file that is no
 * export of ours (PROP_MARKS), changes nothing; a wrong mark is E_MODEL. */
Status place_decode(int16_t *device, int16_t *replica, const Importer *im, const char *doc) CHECKED;
Status mark_decode(const Importer *im, ValueId v, const char *doc) CHECKED;

#endif
