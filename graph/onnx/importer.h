/* Declarations that the files of graph/onnx share: the importer's context, and a section for each file. */
#ifndef DPX_ONNX_IMPORTER_H
#define DPX_ONNX_IMPORTER_H

#include "graph/base/mapped.h"
#include "graph/ir/op.h"
#include "graph/onnx/onnx.h"
#include "onnx_proto.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data is little-endian and copied as it is");

/* ---- wire_scan.c ---- */
/* Checks the wire format of a message without recursion, then unpacks it into `arena`.  If the data are a mapped file,
 * `map`, pages that were read are released; NULL: the data are no mapped file. */
Status onnx_unpack(ProtobufCMessage **out, Arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data,
                   size_t size, const Mapped *map) CHECKED;
enum { KEPT_OF_FILE = 16 << 20 }; /* bytes of a file that are read before their pages are released */

/* ---- external.c ---- */
/* The external data files of one model: opened at first use, mapped until closed. */
typedef struct External External;
/* `memory`: whose function reads external data; NULL: they are files beside the model.  NULL when out of memory. */
External *external_create(Arena *a, const char *model_path, const OnnxMemory *memory);
void external_close(External *e); /* NULL is legal */
/* Sets `*out` to the bytes that an EXTERNAL tensor names, valid until the next call; an error unless there are exactly
 * `size` of them. */
Status external_bytes(const uint8_t **out, External *e, const Onnx__TensorProto *t, size_t size) CHECKED;

/* ---- tensor_proto.c ---- */
typedef struct {
    Arena *arena;       /* owns the decoded tensors */
    External *external; /* NULL: external data is refused */
    Arena *unpacked;    /* owns the message: large tensors keep pointing to its raw data; NULL: they copy them */
    int64_t dense_left; /* bytes that sparse tensors may still fill */
    bool texts;         /* tensors of strings are accepted */
} TensorReader;
/* Says why tensors of this type are not supported, or returns NULL; `texts`: tensors of strings are. */
const char *tensor_type_problem(int data_type, bool texts);
/* Decode a tensor into r->arena; `name` stands in messages. */
Status tensor_decode(Tensor **out, TensorReader *r, const Onnx__TensorProto *t, const char *name) CHECKED;
Status tensor_decode_sparse(Tensor **out, TensorReader *r, const Onnx__SparseTensorProto *t, const char *name) CHECKED;
/* Decodes the shape of an input or output.  Unknown dimensions are -1; `*params` gets the names of those that have one,
 * and is left alone if none has. */
Status type_shape_decode(Shape *out, const char ***params, Arena *a, const Onnx__TensorShapeProto *s,
                         const char *name) CHECKED;

/* ---- scope.c ---- */
typedef struct Sequence Sequence; /* import_sequence.c */
typedef struct {
    const char *name;
    ValueId value;            /* NO_VALUE: not made yet, or an optional input that the caller left out */
    const char *problem;      /* why it cannot be used, or NULL */
    const Sequence *sequence; /* the tensors of a sequence; `problem` keeps operators of tensors from reading it */
    bool nothing;             /* an optional that holds nothing; `problem` is set, too */
    int64_t node;             /* the node of the body that makes it; -1: none */
    bool formal;              /* an input of a function */
    bool computed;            /* an alias that the program gave to the result of a call: not a parameter's name */
} ScopeEntry;
/* The names of one body, and the value or problem of each. */
typedef struct {
    ScopeEntry *slot;
    size_t n, cap;
    Arena *arena;
} Scope;
ScopeEntry *scope_find(const Scope *s, const char *name); /* NULL when unknown */
ScopeEntry *scope_add(Scope *s, const char *name);        /* the existing entry, or a new one; NULL: no memory */
void scope_clear(Scope *s);
void entry_copy(ScopeEntry *to, const ScopeEntry *from); /* makes `to` an alias of `from` */
/* Has its node been read?  Then the entry can be used, or has a `problem`. */
static inline bool entry_made(const ScopeEntry *e) { return has_value(e->value) || e->problem || e->formal; }

/* ---- import.c ---- */
typedef struct Body Body;
typedef struct Probes Probes;
/* The attributes that one call gives to a function. */
typedef struct {
    int n;
    const char **name;
    const Onnx__AttributeProto **attr;
} Bindings;

/* One list of nodes being imported: the graph's, a function's for one call, or a subgraph's for one trip. */
struct Body {
    const Body *up;               /* the caller's; NULL for the graph */
    const Body *outer;            /* the body around a subgraph, whose names the subgraph sees; else NULL */
    const Onnx__NodeProto *owner; /* the node whose attribute it becomes (import_subgraph.c), or NULL */
    const Onnx__FunctionProto *function;
    Bindings bindings;
    const char *call;      /* Node.call of the node that calls the function */
    const char *prefix;    /* of the names of nodes and values: "", "call/" or "loop/3/" */
    const char *constants; /* of the names of Constant nodes: `prefix` without the trips of loops */
    bool repeated;         /* within a loop: its constants are the same in each trip */
    int64_t site;          /* number of the call that it belongs to; the same in each trip of a loop */
    Scope scope;
    size_t n_node, n_opset;
    Onnx__NodeProto **node;
    Onnx__OperatorSetIdProto **opset;
};

typedef struct {
    Graph *g;
    Arena *scratch; /* lives until the end of the import */
    const Onnx__ModelProto *model;
    Scope stopped;   /* values that PROP_STOP names */
    Scope functions; /* by domain, name and overload; `node` is the function's number */
    TensorReader tensors;
    Problems problems;
    bool marked;       /* dpexec exported the file: its doc_strings are marks */
    int64_t newest;    /* the newest opset of the default domain among the nodes: a function may have its own */
    size_t n_done;     /* nodes imported so far, those of inlined functions and subgraphs too */
    size_t max_nodes;  /* limit of n_done */
    Scope shared;      /* constants and calls of repeated bodies (shared_entry) */
    const char **call; /* prefixes of the names of nodes that inlined functions made, one for each call */
    size_t n_call, cap_call;
    Evaluator eval;
    const OperatorList *own;
    OnnxMembers *members;
    void *members_user;
    OnnxInputValue *input_value;
    void *input_value_user;
    int n_given;                 /* inputs without a default, read so far */
    bool members_unknown;        /* an input is a sequence or optional, and nobody gave its number of tensors */
    bool training;               /* the model's graph is that of `info` */
    const struct Training *info; /* training.h; NULL: no training_info is read */
    uint64_t seed;
    const struct Known **known; /* known_values.c: by value, for those below n_known */
    uint32_t n_known, n_inferred;
    Probes *probes;            /* open_sizes.c; NULL: not needed so far */
    struct Entering *entering; /* import_branch.c: by value, for those below n_entering */
    uint32_t n_entering, n_traced;
    struct FileRun *run; /* evaluate.c: nodes are computed as they are read; NULL: they are not */
} Importer;

/* Does the work of onnx_import_file.  With `run` the nodes are computed, and the graph is what remains. */
Status import_file(Graph **out, OnnxModel **model, const char *path, const ImportOptions *opt,
                   struct FileRun *run) CHECKED;
/* Imports a model that is part of the importer's file, with the options of the whole. */
Status import_part(Graph **out, const Importer *im, const Onnx__ModelProto *m, struct FileRun *run) CHECKED;
/* Imports the nodes of a body whose inputs and initializers are in its scope. */
Status import_body(Importer *im, Body *b) CHECKED;
/* Adds the initializers of `gp`, the model's graph or a subgraph, to the body's scope. */
Status import_initializers(Importer *im, Body *b, const Onnx__GraphProto *gp) CHECKED;

/* ---- importer.c ---- */
/* Grows an array with an entry of `size` bytes for each value: it has room, zeroed, for all values that the graph has
 * now, and `*n` says for how many.  NULL: no memory, and the old array stays valid. */
void *by_value(const Importer *im, void *array, size_t size, uint32_t *n);
/* Adds the name of an input or initializer (`what`, for messages) to the body's scope. */
Status declare(ScopeEntry **out, Body *b, const char *name, const char *what) CHECKED;
/* For a shared body: the entry that all readings of `part` of the file (a node, an initializer) share, for the calls of
 * `site` or for all calls.  The first reading gets a new entry and fills it.  NULL: no memory. */
enum { SITE_EVERY = -1 };
ScopeEntry *shared_entry(Importer *im, int64_t site, const void *part);
/* Is the body read once for each trip of a loop, or once for each call of a function? */
bool body_is_shared(const Body *b);
/* Counts n nodes, or as much work, against max_nodes. */
Status spend_nodes(Importer *im, size_t n) CHECKED;
/* Finds the name in the body or, for a subgraph, in the bodies around it; NULL when unknown. */
ScopeEntry *body_find(const Body *b, const char *name);
/* Sets `*out` to the value of the node's input i, which must be a tensor. */
Status tensor_input(ValueId *out, const Body *b, const Onnx__NodeProto *p, size_t i) CHECKED;
/* The text of node_text, "Conv conv1 (output 'y')", for a node that is not in the graph yet. */
const char *proto_text(const Importer *im, const Onnx__NodeProto *p);
/* The graph's name of a value or node of the body: the body's prefix, and its name in the file. */
const char *body_name(Importer *im, const Body *b, const char *name);
static inline const char *text_or(const char *s, const char *absent) { return s && *s ? s : absent; }
int64_t opset_of(const Body *b, const char *domain);                                    /* 0 when not imported */
const Onnx__AttributeProto *attribute_find(const Onnx__NodeProto *p, const char *name); /* NULL: absent */
bool is_gradient(const Onnx__NodeProto *p); /* Gradient of the domain ai.onnx.preview.training */
bool is_default_domain(const char *domain); /* ai.onnx, which files also write "" or leave out */

/* ---- order.c ---- */
/* Checks single assignment and that every input is defined; `order` gets node numbers in topological order, file order
 * where possible. */
Status body_order(Importer *im, Body *b, size_t *order) CHECKED;

/* ---- attribute.c ---- */
/* Follows a reference to an attribute of the function around; `*out` NULL: absent in this call. */
Status attribute_resolve(const Onnx__AttributeProto **out, const Importer *im, const Body *b, const Onnx__NodeProto *p,
                         const Onnx__AttributeProto *a) CHECKED;
/* attribute_find, then attribute_resolve; E_MODEL unless the attribute has that type. */
Status attribute_given(const Onnx__AttributeProto **out, const Importer *im, const Body *b, const Onnx__NodeProto *p,
                       const char *name, Onnx__AttributeProto__AttributeType type) CHECKED;
int attribute_type(const Onnx__AttributeProto *a); /* inferred where the file, of IR version 1, does not give it */
/* Decodes all attributes of the node into a `list` in `scratch`, which a nameless one ends. */
Status attributes_decode(Attr **list, Importer *im, const Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- import_subgraph.c ---- */
#define BODY_SEPARATOR "//" /* in exports, between the name of a node's output and a name in the node's body */
/* E_MODEL when bodies nest too deep. */
Status body_check_depth(const Body *b) CHECKED;
/* Decodes the subgraph of a node of dpexec's own domain into the graph's arena.  It may be incomplete where problems
 * were noted. */
Status body_decode(const Graph **out, Importer *im, const Body *up, const Onnx__NodeProto *p,
                   const Onnx__GraphProto *gp) CHECKED;

/* ---- import_constant.c ---- */
Status import_constant(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- clamp.c ---- */
/* Gives clamp the gradient that PyTorch gives it: a Clip that stands for clamp with tensors becomes Max and Min, a Max
 * or Min that stands for clamp with numbers becomes Clip.  `n` is in the newest spelling; its outputs keep their names.
 */
Status import_clamp(Importer *im, const Onnx__NodeProto *p, Node *n) CHECKED;

/* ---- known_values.c ---- */
/* Computes v, an integer or bool of one element, from constants of the file and declared sizes; false: v depends on
 * more. */
bool known_number(int64_t *out, Importer *im, ValueId v);
/* After known_number found v: does v depend on sizes of inputs? */
bool known_by_size(const Importer *im, ValueId v);
/* Does v depend on sizes and constants alone, some of which the file leaves open? */
bool known_by_open_sizes(const Importer *im, ValueId v);
/* Sets `*out` to the size along an axis, which may count from the end; -1: not fixed.  E_MODEL: no such axis. */
Status known_size(int64_t *out, Importer *im, ValueId v, int64_t axis) CHECKED;
/* The element type of a value of floats; DT_NONE: not known. */
DType known_float(Importer *im, ValueId v);

/* Resets the shapes of inner values that these functions inferred: a run may ask for other sizes. */
void known_forget(Importer *im);

/* ---- decided_sizes.c ---- */
/* Record in the graph that the nodes which were made depend on the number v, or on the size of x along the axis, being
 * `is`.  A run with another size fails with a message that contains `what` (NULL: no memory). */
Status decided_number(Importer *im, ValueId v, int64_t is, const char *what) CHECKED;
Status decided_size(Importer *im, ValueId x, int64_t axis, int64_t is, const char *what) CHECKED;

/* ---- import_branch.c ---- */
/* Nodes that take effect only where a condition on data holds: those read between branch_begin and branch_end. */
typedef struct {
    Importer *im;
    ValueId condition;    /* a scalar */
    uint32_t value, node; /* the first value and node of the branch */
} Branch;
/* Makes a condition of a number: number != 0, and also `and` unless that is NO_VALUE. */
ValueId branch_condition(Importer *im, ValueId number, ValueId and);
Branch branch_begin(Importer *im, ValueId condition);
/* Routes the values that enter the branch through Gate and Enter nodes (graph/ops/branch.c). */
Status branch_end(const Branch *b) CHECKED;
/* `e`, a tensor, becomes a choice: itself where the condition holds, else `other`.  `node` and `output` name the node
 * that chooses and its output; either may be NULL. */
Status branch_choose(ScopeEntry *e, Importer *im, ValueId condition, const ScopeEntry *other, const char *node,
                     const char *output) CHECKED;

/* ---- evaluate.c ---- */
/* Computes the nodes that were read since the last call; the last of them is of body b. */
Status evaluate_read(Importer *im, const Body *b) CHECKED;
/* Can node p of the body, which is read next, be computed later with others?  So if it becomes the same nodes whatever
 * values its inputs have. */
bool evaluate_waits(const Importer *im, const Body *b, const Onnx__NodeProto *p);
/* Asks the caller for the value of a model's input. */
Status evaluate_input(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p) CHECKED;
/* Computes and copies the model's outputs, after all nodes have been read. */
Status evaluate_outputs(Importer *im, const Body *b) CHECKED;

/* ---- open_sizes.c ---- */
/* The shape of v as far as the file fixes it: -1 for open sizes; rank -1: nothing is known. */
Shape probed_shape(Importer *im, ValueId v);
void probes_free(Importer *im);

/* ---- flow.c ---- */
bool is_flow_operator(const char *name);
/* Inlines If and unrolls Loop, Scan and SequenceMap. */
Status import_flow(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;
/* Replaces `*x` by the output of the node's subgraph `name`, of one input and one output, for it.  Nothing happens if
 * the node has no such attribute. */
Status import_applied(ValueId *x, Importer *im, Body *b, const Onnx__NodeProto *p, const char *name) CHECKED;

/* ---- import_flex_attention.c ---- */
bool is_flex_attention(const Onnx__NodeProto *p);
Status import_flex_attention(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- input_structure.c ---- */
/* Fills `out` except for its shape.  Returns the type of the tensors; NULL: it is no type of tensors. */
const Onnx__TypeProto__Tensor *input_type(OnnxType *out, const Onnx__TypeProto *type);
/* Imports a model's input that is a sequence or optional. */
Status import_structured(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p) CHECKED;

/* ---- input_value.c ---- */
/* Do the options give the input a value? */
bool input_is_given(const Importer *im, const char *name);
/* The input becomes a constant of that value. */
Status import_given_input(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p) CHECKED;
/* Replaces the value of an input's initializer where the options give the input a value. */
Status import_given_default(Importer *im, const ScopeEntry *e) CHECKED;
/* Marks such constants as not trained.  To be called after parameter_evidence_read. */
void given_inputs_fix(const Importer *im, const Body *b);

/* ---- import_gradient.c ---- */
Status import_gradient(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- import_sequence.c ---- */
bool is_sequence_operator(const char *name);
Status import_sequence(Importer *im, Body *b, const Onnx__NodeProto *p) CHECKED;
/* Makes the entry a sequence of `n` tensors. */
Status sequence_set(ScopeEntry *e, Importer *im, int n, const ValueId *item) CHECKED;
/* Lists the tensors of a sequence; E_UNSUPPORTED: their number is not known.  `what` (NULL: no memory) names that
 * number in messages. */
Status sequence_items(const ValueId **item, int *n, Importer *im, const Sequence *s, const char *what) CHECKED;
/* Adds outputs NAME.0, NAME.1, ... to the graph; E_UNSUPPORTED: their number is not known. */
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
/* The string in field `tag`; "" when absent. */
const char *newer_string(const ProtobufCMessage *m, unsigned tag, Arena *a);
/* The messages of a repeated field: an upper bound of their number, and the i-th; NULL where unknown field i is another
 * field.  Messages that the definition at hand does not know are unpacked into the arena. */
size_t newer_count(const ProtobufCMessage *m, unsigned tag);
Status newer_message(ProtobufCMessage **out, Arena *a, const ProtobufCMessage *m, unsigned tag,
                     const ProtobufCMessageDescriptor *type, size_t i) CHECKED;
/* Calls `take` for each entry of a list of metadata; the texts are lent for the call.  `keep`: the arena of the graph,
 * for what is copied. */
typedef Status MetadataEntry(void *user, Arena *keep, const char *key, const char *text);
Status metadata_entries(MetadataEntry *take, void *user, const Importer *im, const ProtobufCMessage *m,
                        unsigned tag) CHECKED;
/* Calls `take` for each entry of the node's metadata. */
Status node_metadata_entries(MetadataEntry *take, void *user, const Importer *im, const Onnx__NodeProto *p) CHECKED;
/* Sets Node.module, call and lost_detach, the node's origin in the traced program, from the exporter's metadata.  A
 * node of a function that has no metadata gets the origin of the node that calls the function. */
Status node_source_decode(Node *n, Importer *im, const Body *b, const Onnx__NodeProto *p) CHECKED;

/* ---- traced_program.c ---- */
/* Applies what the metadata record of the traced program besides its nodes: buffers get updates, and gradients stop
 * where the program stops them.  To be called after all nodes were read. */
Status traced_program_apply(Importer *im, const Body *b) CHECKED;

/* ---- model.c ---- */
/* Copies everything of the file that its graph does not hold; `opset`: the newest of the default domain. */
Status model_remember(OnnxModel **out, const Importer *im, int64_t opset) CHECKED;
/* Metadata that dpexec writes: states and updates of a graph that was exported between passes. */
#define PROP_PREFIX "dpexec."
#define PROP_STATE                                                                                                  \
    PROP_PREFIX "state:" /* + name: "trainable", "transient", "partial", "transient partial", "plain", or of a copy \
                          * that holds a piece "plain from FROM of DIM,DIM,..." */
#define PROP_UPDATE PROP_PREFIX "update:" /* + name of a state: name of its next value */
#define PROP_MARKS \
    PROP_PREFIX "marks" /* MARKS_VERSION: doc_strings are marks (doc_string.c); otherwise they are plain text */
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
/* Restores states, updates and marks from dpexec's metadata.  To be called after all nodes were read. */
Status model_restore(Importer *im, const Body *b) CHECKED;

/* ---- parameter_evidence.c ---- */
/* Collects the values that PROP_STOP names in Importer.stopped, before nodes are read. */
Status stopped_read(Importer *im) CHECKED;
/* Reads the producer, and marks constants that the file itself calls trained or fixed.  To be called after all nodes
 * were read. */
Status parameter_evidence_read(Importer *im, const Body *b) CHECKED;

/* ---- doc_string.c ---- */
/* Decode the doc_string that an export of dpexec writes for a node or a value.  Text that is no mark, and any text in a
 * file of another producer (PROP_MARKS), changes nothing; a wrong mark is E_MODEL. */
Status place_decode(int16_t *device, int16_t *replica, const Importer *im, const char *doc) CHECKED;
Status mark_decode(const Importer *im, ValueId v, const char *doc) CHECKED;

#endif
