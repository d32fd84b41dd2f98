/* OpDef: the declaration of an operator, with all facts and rules that the graph and its passes use.  Each operator has
 * one, in graph/ops/FAMILY.c; the build generates the list (graph/ops.gen.h) by scanning for DEFINE_OP( in column 0. */
#ifndef DPX_OP_H
#define DPX_OP_H

#include "graph/ir/graph.h"
#include "graph/ir/views.h"

typedef struct Grad Grad;           /* graph/ir/grad.h */
typedef struct Placement Placement; /* graph/ir/placement_rules.h */

/* ATTR_OURS: optional and unknown to ONNX; a node with another value than the default is exported in dpexec's own
 * domain.  ATTR_INNER: belongs to an embedder's operator and is never written to a file. */
enum { ATTR_OPTIONAL = false, ATTR_REQUIRED = true, ATTR_OURS = 2, ATTR_INNER = 3 };

/* A declared attribute and its default: { "axis", A_INT, .i = -1, .range = R_AXIS }.  A required attribute has no
 * default.  Lists default to empty, tensors to NULL. */
typedef struct {
    const char *name;
    AttrType type;
    int64_t i;
    double f;
    uint8_t rule; /* ATTR_ */
    const char *s;
    uint8_t range;     /* R_ */
    const char *words; /* the allowed strings, separated by blanks; NULL: any */
} AttrDecl;

/* Allowed values of an integer attribute, or of each number of a list, whatever the shapes.  node_normalise checks
 * them, so rules may rely on them before shapes are known.  The default is always legal. */
enum {
    R_ANY,
    R_AXIS,    /* -8 to 7; a list has up to 8, all different */
    R_CUT,     /* -8 to 8: a position between axes */
    R_RANK,    /* 0 to 8 */
    R_PERM,    /* up to 8: 0, 1 ... each once, in any order */
    R_SIZES,   /* up to 8, none negative */
    R_STEPS,   /* up to 8, each 1 to 2^31 - 1 */
    R_PADS,    /* an even number of up to 16, each less than 2^31 either way */
    R_COUNTS,  /* any number, none negative */
    R_DEVICES, /* any number, each -1 (the host) to MAX_DEVICES - 1 */
    R_NATURAL, /* not negative */
    R_POSITIVE,
    R_DTYPE,  /* a type that kernels compute with, or 0 */
    R_STORED, /* a type that tensors may have, or 0 */
    R_HELD    /* R_STORED, or strings */
};

enum {
    OPF_RANDOM = 1,         /* draws random numbers: never folded or merged */
    OPF_VIEW = 2,           /* output 0 is input 0's bytes under another shape */
    OPF_COLLECTIVE = 4,     /* inputs and outputs live on several devices */
    OPF_DYNAMIC = 8,        /* the output's shape depends on data, so only the interpreter runs it */
    OPF_ZERO_GRAD = 16,     /* piecewise constant (Floor, Sign): gradient exists and is zero */
    OPF_SHAPE_ONLY = 32,    /* reads only the shapes of its inputs (Shape, Size): folded as soon as they are known */
    OPF_STACKS_L = 64,      /* an input placed L arrives as one row per replica: [1,...] in the unpartitioned graph,
                             * [R,...] in the partitioned one, in replica order (batch-norm statistics) */
    OPF_PARAM_MAYBE = 128,  /* a constant at a `param_in` input is a parameter unless it looks like part of a formula */
    OPF_INPLACE_EACH = 256, /* output i may overwrite input i (instead of `inplace`, for any number of outputs) */
    OPF_OPTIONAL_INPUTS = 512, /* variadic inputs may be absent (without the flag, all are required) */
    OPF_NORM = 1024,           /* a normalisation: its parameters scale and shift data of mean 0 and deviation 1 */
    OPF_ELEMENTS = 2048,       /* works element by element, but has several outputs, or inputs of one number */
    OPF_SUM = 4096,            /* output 0 is the sum of the inputs */
    OPF_SELECTS = 8192,        /* outputs are some elements of input 0 along an axis, or the indices of such elements */
    OPF_TRANSFER = 16384,      /* copies input 0 to another memory: done by the devices' runtime, not by a kernel */
    OPF_MANY = 32768,          /* takes lists of any number of tensors, and needs all of them before it begins */
    OPF_PIECES = 65536,        /* each input may be a piece of a split of its own; "from" is the piece's offset */
    OPF_IMPURE = 131072,       /* has effects or sources besides its tensors: never folded, merged or dropped */
    OPF_OWN_SUMS = 262144,     /* takes each replica's partial sums unreduced.  Partitioning turns "weight" from the
                                * batch's into the part's, and sets "parts" to the number of parts, or, with "filled",
                                * of those that have samples */
    OPF_ANSWERS_L = 524288,    /* with OPF_STACKS_L: output 0 has as many rows as have arrived, on every device */
    OPF_NEXT_STATE = 1048576,  /* output 0 is the value that the state at input 0 has after the step */
    OPF_SHARES = 2097152       /* its results depend on the whole batch; its copies on the replicas exchange messages */
};

/* The layouts that an operator supports; the backend needs a kernel for them, too (passes/plan/layout.c). */
enum {
    LAYOUT_FIXED, /* rows only */
    LAYOUT_ANY,   /* any layout; all its tensors with channels have the same one */
    LAYOUT_EACH,  /* any layout for each tensor */
    LAYOUT_LIKES  /* the one that the target prefers (convolutions) */
};

/* The type of an operator when the model computes in 16-bit floats (passes/train/precision.c). */
enum {
    PREC_FOLLOW, /* 16 bits where a data input has them: arithmetic in float32, results rounded */
    PREC_LOW,    /* always 16 bits: products, which hardware computes in 16 bits and adds up in float32 */
    PREC_WIDE,   /* always float32: sums of many terms, exponentials, losses */
    PREC_OWN     /* an attribute of the node sets it */
};

/* How an operator's placement rule treats an input that is split in blocks (Place.blocks). */
enum {
    BLOCKS_NONE, /* gathers it first; an elementwise operator passes it on all the same */
    BLOCKS_PASS, /* passes it on: the order along a split axis does not matter, and every split axis has one size */
    BLOCKS_OWN   /* the rule handles blocks itself */
};

/* What an operator without OpDef.flops computes an operation for: each element of output 0, of input 0, or nothing. */
enum { FLOPS_OF_OUTPUT, FLOPS_OF_INPUT, FLOPS_OF_NOTHING };

/* The part that a node plays in a branch that data decide (graph/ops/branch.c). */
enum {
    BRANCH_NONE,
    BRANCH_GATE,  /* (value, condition): the value within the branch */
    BRANCH_ENTER, /* (condition, value, 0): the value within the branch */
    BRANCH_CHOICE /* (condition, x, y): the result of the branch that is taken */
};

/* Output 0 has the elements of input 0 in the same order; the bits list what may differ. */
enum {
    SAME_TENSOR = 1, /* nothing */
    SAME_SHAPED = 2, /* the shape */
    SAME_SPREAD = 4, /* the shape, by repetition along axes */
    SAME_TYPED = 8,  /* the type */
    SAME_ANY = 15
};

/* A matrix, or several behind one another, and where its layer's outputs lie. */
typedef enum {
    MATRIX_NONE,   /* no matrix, an embedding, or a weight of the last layer */
    MATRIX_OUT_IN, /* [..., out, in] */
    MATRIX_IN_OUT, /* [..., in, out] */
    MATRIX_FLAT    /* [out, in, spatial...] of a convolution: a matrix [out, all others] */
} MatrixKind;

/* What becomes of the rows and columns of matrices, the last two axes of inputs that output 0 consists of (op_moves).
 */
enum {
    ROWS_LOST,    /* anything else */
    ROWS_KEPT,    /* whole rows or columns, each in its axis */
    ROWS_SHAPED,  /* the same if the last two dimensions are */
    ROWS_PERMUTED /* axes go where the attribute `perm` says */
};

/* Integers in [low, high). */
typedef struct {
    int64_t low, high;
} IntSpan;

/* The rows along an axis of input 0 that a node takes (OpDef.takes_rows). */
typedef struct {
    bool range; /* start, stop and step are element `at` of the constants at inputs 1, 2 and 4 (absent: 1), as in Slice
                 */
    int at;
    int list_rank, width, part; /* no range: input 1 lists them.  Its first `list_rank` axes count the rows taken, each
                                 * a tuple of `width` integers, whose number `part` is the index along the axis */
} RowsTaken;

/* "STATISTIC.each": a state with one row for each replica's own running statistic (TrainMode.sets). */
#define STATE_EACH ".each"

/* The mode of operators that training changes (OpDef.train). */
typedef struct {
    bool batch;   /* training mode: normalise by the statistics of the batch */
    bool updates; /* the step updates running statistics and draws random numbers */
    bool sync;    /* statistics are computed over all replicas */
    int group;    /* statistics are computed over groups of so many replicas; 0: over all, or over one */
    bool unbiased;
    bool clamp;   /* variance = max(variance, epsilon); else variance + epsilon */
    int sets;     /* number of running statistics, one for each replica; 0: one for all */
    bool average; /* with sets: the layer's running statistics are their mean; else the first */
} TrainMode;

struct OpDef {
    const char *name, *domain, *doc;         /* domain NULL: ai.onnx; "dpexec": dpexec's own */
    const char *plain;                       /* dpexec's own: the ONNX operator that computes the same from the inputs
                                              * that are not gradient_only_in; NULL: there is no single one */
    int since;                               /* the opset version that the IR uses */
    int from;                                /* the oldest opset with the same spelling, types aside; 0: `since` */
    int8_t in_min, in_max, out_min, out_max; /* max < 0: variadic */
    unsigned dtypes;                         /* types of input 0 (of output 0 when there are no inputs); 0: any */
    unsigned flags;
    uint8_t blocks;     /* BLOCKS_: how `place` treats a split in blocks (Place.blocks) */
    int8_t shape_in;    /* 1 + index of the input that holds output 0's shape (Reshape: 2); 0: none */
    uint8_t inplace[5]; /* bit j of [i]: output i may overwrite input j when sizes are equal */
    uint8_t branch;     /* BRANCH_ */
    uint8_t same;       /* SAME_: in what output 0 may differ from input 0; 0: it has other elements */
    uint8_t moves;      /* bit i: outputs consist of elements of input i (7: of all from there on), chosen by shapes and
                         * by the inputs that have no bit */
    uint8_t picks; /* bit i: like `moves`, but chosen by the order of the elements, too: an increasing function may be
                    * applied before or behind (max-pooling) */
    uint8_t rows;  /* ROWS_ */
    /* One output, whose elements depend only on the elements of the inputs at the same place, after all inputs are
     * broadcast to the output's shape as in NumPy. */
    bool elementwise;
    uint8_t channel_in;       /* elementwise, bit i: input i is [C] and is broadcast along axis 1 */
    uint8_t param_in;         /* bit i: a float constant at input i is a parameter, to be trained */
    uint8_t running_in;       /* bit i: input i is a running statistic: each step updates it, the optimizer does not */
    int8_t running_out;       /* the first of the outputs with the next values of running statistics, in order */
    uint8_t ratio_in;         /* bit i: a constant at input i is a divisor or an exponent */
    uint8_t setting_in;       /* bit i: a float at input i is a setting without derivative (a ratio, a threshold) */
    uint8_t tunable_in;       /* bit i: a float at input i is a setting with a derivative (a bound, a filling value): a
                               * parameter only where its name, the file or a flag calls it one */
    uint8_t optional_out;     /* bit i: output i may be absent although it is below out_min */
    uint8_t gradient_only_in; /* bit i: input i affects gradients only, not the outputs */
    uint8_t layout;           /* LAYOUT_; elementwise operators take any */
    uint8_t filter_in, filter_out; /* bit i: input or output i is a filter, not data of samples and channels */
    uint8_t precision;             /* PREC_ */
    uint8_t wide_in;               /* bit i: input i stays float32 where the data has 16 bits (statistics, scales) */
    const AttrDecl *attrs;         /* ends with { 0 }; NULL: none */
    /* Optional: turns a node as a file of that opset spells it into the IR's spelling.  May emit nodes. */
    Status (*import)(Graph *, Node *, int opset);
    /* Optional, the inverse of `import`: turns the node into the spelling of an opset before `from`; false: that opset
     * cannot express it.  Changes only the node's inputs and attributes; an input that becomes an attribute must be
     * constant. */
    bool (*respell)(Graph *, Node *, int opset);
    /* Optional, called before inference: the input that output 0 equals, given the constant inputs; -1: not decided.
     * A node whose output keeps an unknown shape though its inputs have one is on a branch that is not taken. */
    int (*selected_input)(const Graph *, const Node *);
    /* Checks the node, normalises attributes (axis >= 0 ...), sets type and shape of every output.  Types and shapes of
     * the inputs are known.  A shape that depends on a non-constant input is left unknown (set_out with
     * shape_unknown). */
    Status (*infer)(Graph *, Node *);
    Status (*grad)(Grad *);           /* emits nodes; grad_none: no gradient exists; NULL: an error by name */
    Status (*lower)(Graph *, Node *); /* optional: rewrite into simpler operators and graph_replace the outputs */
    /* Optional, for dpexec's own operators: like `lower`, into operators of ai.onnx that exist in every opset up to
     * their own `since` (passes/train/standard.c).  Types and shapes are known. */
    Status (*standard)(Graph *, Node *);
    /* How placements B / S(axis) / P / L pass from inputs to outputs; types and shapes of all inputs are known.  NULL:
     * place_all_b. */
    Status (*place)(Placement *);
    /* Optional: floating-point operations, 2 for each multiply-add; products and convolutions have it, for which it is
     * worth to compile a program.  NULL: by `flops_of`, and none where the operator only moves elements. */
    int64_t (*flops)(const Graph *, const Node *);
    uint8_t flops_of; /* FLOPS_OF_ */
    /* Optional: the matrix at input i by which a layer multiplies what comes from the layer before.  NULL: there is
     * none. */
    MatrixKind (*matrix_in)(const Node *, int i);
    /* Optional: sets the node's mode.  The caller cares for running statistics and types. */
    Status (*train)(Graph *, Node *, const TrainMode *);
    /* Is the node in training mode, by its file or by `train`?  NULL: it has no mode. */
    bool (*trains)(const Node *);
    /* Optional, instead of `inplace`: may output o overwrite input j when their sizes are equal? */
    bool (*overwrites)(const Graph *, const Node *, int o, int j);
    const OpDef *applies; /* OPF_RANDOM: output 1 is the random draw, output 0 this operator of input 0 and the draw;
                           * NULL: the operator has no such form */
    /* Optional: the offset in bytes of output o in input 0; -1: it is no piece of input 0.  NULL: by OPF_VIEW. */
    int64_t (*view_of)(const Graph *, const Node *, int o);
    /* Optional, types and shapes are known: turns `s`, a view whose elements are input 0's, into the view of output o;
     * false: digits cannot express it (graph/ir/views.h).  NULL: by OPF_VIEW. */
    bool (*strided)(const Graph *, const Node *, int o, Strided *s);
    /* Optional: the number of entries that the indices at input i select from; -1: input i is no index. */
    int64_t (*index_range)(const Graph *, const Node *, int i);
    /* Optional, where the last axis of input i holds tuples of indices: the number of entries that element k of a tuple
     * selects from; -1: tuples have no element k.  index_range is then the least of these. */
    int64_t (*tuple_range)(const Graph *, const Node *, int i, int k);
    /* Optional, integers: turns `span`, in which output 0 must lie, into the span in which input i must lie for that;
     * false: unknown.  NULL: the spans are equal. */
    bool (*span_in)(const Graph *, const Node *, int i, IntSpan *span);
    /* Optional: does the node take rows along this axis of input 0 by integers?  The bounds of a range are constant. */
    bool (*takes_rows)(const Graph *, const Node *, int axis, RowsTaken *out);
    /* Optional: E_UNSUPPORTED when the node's graph does not apply to the present sizes.  Such a node is kept though
     * nothing reads it. */
    Status (*check_sizes)(const Graph *, const Node *);
    bool index_misses;           /* an index outside of its range is legal and selects nothing */
    const struct Kernel *kernel; /* the kernel of an embedder's operator; NULL: backends list theirs */
};

#define DEFINE_OP(ident, ...) const OpDef op_##ident = { .name = #ident, __VA_ARGS__ }

/* Computes a node from constant inputs: in[i] is NULL for absent ones, out[i] is made in `arena`.  Kernels belong to
 * the layers above, so a caller passes this function down.  E_UNSUPPORTED when there is no kernel. */
typedef Status (*Evaluator)(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out);

extern const OpDef *const op_list[]; /* generated; ordered by name */
extern const int op_list_len;
const OpDef *op_find(const char *domain, const char *name); /* NULL domain: ai.onnx; NULL when unknown */

/* Operators that an embedder brings to a model (exec/operators). */
typedef struct {
    const OpDef *const *op;
    int n;
} OperatorList;
const OpDef *operator_find(const OperatorList *list, const char *domain, const char *name); /* `list` may be NULL */

/* Do results depend on more than inputs and attributes?  Then a node is neither folded nor merged with another. */
static inline bool op_is_impure(const OpDef *op) { return op->flags & (OPF_RANDOM | OPF_COLLECTIVE | OPF_IMPURE); }

/* Do its outputs consist of elements of the inputs, without arithmetic (Transpose, Concat, Cast, Copy)? */
static inline bool op_only_moves(const OpDef *op)
{
    return op->same || op->moves || op->flags & (OPF_VIEW | OPF_TRANSFER | OPF_SHAPE_ONLY);
}

static inline int op_oldest(const OpDef *op) { return op->from ? op->from : op->since; }

/* May output o overwrite input j when their sizes are equal? */
static inline bool node_overwrites(const Graph *g, const Node *n, int o, int j)
{
    const OpDef *op = n->op;

    if (op->overwrites)
        return op->overwrites(g, n, o, j);
    return op->flags & OPF_INPLACE_EACH ? o == j : o < 5 && j < 8 && op->inplace[o] & 1u << j;
}

/* OpDef.view_of, with its default. */
static inline int64_t node_view_of(const Graph *g, const Node *n, int o)
{
    return n->op->view_of ? n->op->view_of(g, n, o) : n->op->flags & OPF_VIEW && o == 0 ? 0 : -1;
}

static inline bool op_is_gradient_only(const OpDef *op, int i) { return i < 8 && op->gradient_only_in >> i & 1; }
/* Must the output be present?  Any output of a list may be absent. */
static inline bool op_requires_output(const OpDef *op, int i)
{
    return op->out_max >= 0 && i < op->out_min && !(i < 8 && op->optional_out >> i & 1);
}
static inline bool op_moves(const OpDef *op, int i) { return (op->same ? 1 : op->moves) >> (i < 7 ? i : 7) & 1; }
static inline bool op_picks(const OpDef *op, int i) { return op->picks >> (i < 7 ? i : 7) & 1; }
/* Is the output made of all the inputs' elements, however many inputs there are? */
static inline bool op_joins(const OpDef *op) { return op->moves >> 7; }
/* Is output 0 input 0 under a shape that input 1 gives? */
static inline bool op_reshapes(const OpDef *op) { return op->flags & OPF_VIEW && op->shape_in; }
/* Does the operator only move elements of input 0?  Then node_strided may be called. */
static inline bool op_is_strided(const OpDef *op) { return op->strided || op->flags & OPF_VIEW; }
/* OpDef.strided, with its default. */
static inline bool node_strided(const Graph *g, const Node *n, int o, Strided *s)
{
    if (n->op->strided)
        return n->op->strided(g, n, o, s);
    return n->op->flags & OPF_VIEW && o == 0 && strided_reshape(s, value(g, n->out[0])->shape);
}

static inline bool op_any_layout(const OpDef *op) { return op->elementwise || op->layout == LAYOUT_ANY; }
static inline bool op_takes_channels(const OpDef *op, int i) { return i < 8 && op->channel_in >> i & 1; }

/* Drops absent inputs and outputs at the end and fills in default attributes.  E_MODEL for an undeclared attribute, a
 * wrong type, a value that AttrDecl excludes, a missing required attribute, a wrong number of inputs or outputs. */
Status node_normalise(Graph *g, Node *n) CHECKED;
/* E_MODEL when the declaration excludes the attribute's value; E_UNSUPPORTED for an element type that dpexec lacks. */
Status attr_check(const Graph *g, const Node *n, const AttrDecl *d, const Attr *a) CHECKED;
/* Are type and shape of every input known, as infer and place demand? */
bool node_inputs_known(const Graph *g, const Node *n);
/* Infers the outputs of a normalised node: checks the type of input 0 and runs op->infer if all inputs are known.
 * Otherwise outputs stay unknown, except for a reshape to a constant shape. */
Status node_infer(Graph *g, Node *n) CHECKED;
/* "Conv conv1 (output 'y')": the node's name in messages.  The text is the thread's; the fourth call after it
 * overwrites it. */
const char *node_text(const Graph *g, const Node *n);

const AttrDecl *op_attr_decl(const OpDef *op, const char *name); /* NULL: it has no such attribute */
bool attr_is_default(const AttrDecl *d, const Attr *a);

/* OpDef.train of operators that matter only in training: otherwise the node is replaced by its input 0. */
Status train_alone(Graph *g, Node *n, const TrainMode *mode) CHECKED;

/* ---- for infer functions ---- */
void set_out(Graph *g, Node *n, int i, DType dtype, const Shape *shape); /* a no-op for an absent output */
static inline const Value *in_value(const Graph *g, const Node *n, int i) { return value(g, n->in[i]); }
static inline bool has_in(const Node *n, int i) { return i < n->n_in && has_value(n->in[i]); }
/* The input's data if it is there and a constant; else NULL. */
static inline const Tensor *in_const(const Graph *g, const Node *n, int i)
{
    return has_in(n, i) ? value_const(g, n->in[i]) : NULL;
}
static inline bool has_out(const Node *n, int i) { return i < n->n_out && has_value(n->out[i]); }
Status infer_like(Graph *g, Node *n, int i) CHECKED; /* output 0 has type and shape of input i */
/* Output 0 has the broadcast shape of all inputs and type `out`; DT_NONE: the inputs' type, which must be one. */
Status infer_broadcast(Graph *g, Node *n, DType out) CHECKED;
/* E_SHAPE unless the inputs [from,to) that are present have one type. */
Status infer_same_dtype(const Graph *g, const Node *n, int from, int to) CHECKED;
/* E_SHAPE unless those inputs have one type: input 0's, or float32 where input 0 has 16 bits. */
Status infer_wide_dtype(const Graph *g, const Node *n, int from, int to) CHECKED;
/* Attribute "axis" in [-rank,rank) of input 0 becomes >= 0. */
Status infer_axis(Graph *g, Node *n, int rank) CHECKED;
/* E_SHAPE when input i, which `what` names, is there and of another shape. */
Status infer_expect(const Graph *g, const Node *n, int i, const char *what, Shape shape) CHECKED;

/* ---- for index_range ---- */
/* The number of entries that element k of the tuples at input i selects from (a plain index is element 0); -1: it is no
 * index. */
int64_t index_range_at(const Graph *g, const Node *n, int i, int k);
int64_t index_range_axis(const Graph *g, const Node *n, int i); /* input 1 selects along attribute "axis" of input 0 */

/* ---- for import functions ---- */
/* Attribute `name` (int, ints) becomes input `i`, a constant int64 vector; nothing when the attribute is absent. */
Status import_attr_to_input(Graph *g, Node *n, const char *name, int i) CHECKED;
/* Appends a node whose types are inferred later, like those of every imported node, and returns its output; NO_VALUE on
 * failure (g->status). */
ValueId import_emit(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in);
/* Up to opset 6, attribute "broadcast" aligns input 1 with input 0 at `axis`: it gets trailing dimensions of 1. */
Status import_broadcast(Graph *g, Node *n, int opset) CHECKED;
ValueId import_aligned(Graph *g, ValueId x, ValueId y, int64_t axis);

/* ---- for respell functions ---- */
/* Removes an attribute that the opset lacks; false if it does not have its default. */
bool respell_without(Graph *g, Node *n, const char *name);
/* The inverse of import_attr_to_input; true also when there is no such input. */
bool respell_input_to_attr(Graph *g, Node *n, int i, const char *name);
/* The same for an input that is one number and an attribute that is a float. */
bool respell_input_to_float(Graph *g, Node *n, int i, const char *name);

#endif
