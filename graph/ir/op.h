/* All the graph side knows of one operator.  One OpDef per operator, in graph/ops/<family>.c; the build generates the
 * list of them (graph/ops.gen.h) by scanning for DEFINE_OP( in column 0. */
#ifndef DPX_OP_H
#define DPX_OP_H

#include "graph/ir/graph.h"
#include "graph/ir/views.h"

typedef struct Grad Grad;           /* graph/ir/grad.h */
typedef struct Placement Placement; /* graph/ir/placement_rules.h */

/* ATTR_OURS: optional, and not known to ONNX; a node where it does not have its default is exported in our own
 * domain.  ATTR_INNER: of an embedder's operator, and in no file. */
enum { ATTR_OPTIONAL = false, ATTR_REQUIRED = true, ATTR_OURS = 2, ATTR_INNER = 3 };

/* A declared attribute and its default: { "axis", A_INT, .i = -1, .range = R_AXIS }.  A required one has no default.
 * Lists default to empty, tensors to NULL. */
typedef struct {
    const char *name;
    AttrType type;
    int64_t i;
    double f;
    uint8_t rule; /* ATTR_ */
    const char *s;
    uint8_t range;     /* R_ */
    const char *words; /* a string must be one of these, separated by blanks; NULL: any */
} AttrDecl;

/* What a number or the numbers of a list may be, whatever the shapes: checked by node_normalise, so that rules that run
 * where a shape is not known may trust it.  The default is always legal. */
enum {
    R_ANY,
    R_AXIS,    /* -8 to 7; of a list, up to 8 of them, no two the same */
    R_CUT,     /* -8 to 8: between axes */
    R_RANK,    /* 0 to 8 */
    R_PERM,    /* up to 8: 0, 1 ... each once, in any order */
    R_SIZES,   /* up to 8, none negative */
    R_STEPS,   /* up to 8, each 1 to 2^31 - 1 */
    R_PADS,    /* an even number of up to 16, each less than 2^31 either way */
    R_COUNTS,  /* any number, none negative */
    R_DEVICES, /* any number, each -1 (the host) to MAX_DEVICES - 1 */
    R_NATURAL, /* not negative */
    R_POSITIVE,
    R_DTYPE,  /* a type that is computed with, or 0 */
    R_STORED, /* a type that tensors may have, or 0 */
    R_HELD    /* one of these, or strings */
};

enum {
    OPF_RANDOM = 1,      /* draws random numbers: never folded or merged */
    OPF_VIEW = 2,        /* output 0 is input 0's bytes under another shape */
    OPF_COLLECTIVE = 4,  /* inputs and outputs live on several devices */
    OPF_DYNAMIC = 8,     /* the output's shape depends on data: only the interpreter runs it */
    OPF_ZERO_GRAD = 16,  /* piecewise constant (Floor, Sign): gradient exists and is zero */
    OPF_SHAPE_ONLY = 32, /* reads only the shapes of its inputs (Shape, Size): folded as soon as they are known */
    OPF_STACKS_L = 64, /* an input placed L arrives as one row per replica: [1,...] in the unpartitioned graph, [R,...]
                        * in the partitioned one, gathered in replica order (batch-norm statistics) */
    OPF_PARAM_MAYBE = 128, /* a constant at a `param_in` input is a parameter unless it looks like part of a formula */
    OPF_OPTIONAL_INPUTS =
        512,         /* any number of inputs of which some may be absent (else, without a limit, all are required) */
    OPF_NORM = 1024, /* a normalisation: its parameters scale and shift what has mean 0 and deviation 1 */
    OPF_ELEMENTS =
        2048,           /* element by element, as `elementwise`, but of several outputs and with inputs of one number */
    OPF_SUM = 4096,     /* output 0 is the sum of the inputs */
    OPF_SELECTS = 8192, /* outputs are some elements of input 0 along an axis, or are where they stand */
    OPF_TRANSFER = 16384, /* output 0 is input 0 in another memory: for the devices' runtime, and no kernel's work */
    OPF_MANY = 32768,     /* of any number of tensors apiece, all of which it needs before it begins */
    OPF_PIECES = 65536,   /* each input may be a piece, of a split of its own; "from" says what stands in front of it */
    OPF_IMPURE = 131072,  /* does or reads more than its tensors say: never folded, merged or dropped */
    OPF_OWN_SUMS = 262144, /* takes partial sums as each replica has them, which are not reduced for it; "weight" is the
                            * batch's until it is a part's, "parts" the number of parts, or of those that have samples
                            * where "filled" is set */
    OPF_ANSWERS_L = 524288,   /* with OPF_STACKS_L: output 0 has as many rows as have arrived, on every device */
    OPF_NEXT_STATE = 1048576, /* output 0 is what the state at input 0 will be after the step */
    OPF_SHARES = 2097152,     /* what it computes depends on the whole batch, of which its copies tell each other */
    OPF_INPLACE_EACH = 256    /* output i may overwrite input i (instead of `inplace`, for any number of them) */
};

/* What an operator takes and gives of layouts; a backend has to have a kernel for it as well (passes/plan/layout.c). */
enum {
    LAYOUT_FIXED, /* rows alone */
    LAYOUT_ANY,   /* whatever its data has: one layout for all of its tensors that have channels */
    LAYOUT_EACH,  /* whatever they have, each its own */
    LAYOUT_LIKES  /* what the target prefers, where it may choose: convolutions */
};

/* What an operator wants when the model computes in 16-bit floats (passes/train/precision.c). */
enum {
    PREC_FOLLOW, /* 16 bits where a data input has them already: arithmetic in float32, results rounded */
    PREC_LOW,    /* 16 bits always: products, which hardware is made for and adds up in float32 */
    PREC_WIDE,   /* float32 always: sums of many terms, exponentials, losses */
    PREC_OWN     /* as the node itself says */
};

/* What a split in blocks (Place.blocks) is to the rule of placement. */
enum {
    BLOCKS_NONE, /* nothing it knows: such an input is gathered first; an elementwise operator passes it on all the
                  * same */
    BLOCKS_PASS, /* elements along a split axis are a set to it: wherever it has or wants a split, that axis has the
                    same size */
    BLOCKS_OWN   /* the rule itself says what becomes of them */
};

/* What a node is to a branch that data decide (graph/ops/branch.c). */
enum {
    BRANCH_NONE,
    BRANCH_GATE,  /* of a value and a condition: the value, within the branch */
    BRANCH_ENTER, /* of a condition and a value: likewise */
    BRANCH_CHOICE /* of a condition and what two branches return */
};

/* Output 0 has the elements of input 0 in their order; what may differ. */
enum {
    SAME_TENSOR = 1, /* nothing */
    SAME_SHAPED = 2, /* the shape */
    SAME_SPREAD = 4, /* the shape, by repeating it along axes */
    SAME_TYPED = 8,  /* the type */
    SAME_ANY = 15
};

/* Integers in [low, high). */
typedef struct {
    int64_t low, high;
} IntSpan;

/* Which rows along an axis of input 0 a node takes (OpDef.takes_rows). */
typedef struct {
    bool range; /* from, to, by: element `at` of the constants at inputs 1, 2 and (absent: 1) 4, as Slice's are */
    int at;
    int list_rank, width, part; /* else those of the list at input 1: of its axes the first `list_rank` count rows, each
                                 * of `width` integers, of which number `part` is along the axis */
} RowsTaken;

/* "STATISTIC.each": the state of the replicas' own running statistics, a row for each (TrainMode.sets). */
#define STATE_EACH ".each"

/* How the model is used, for operators that training changes (OpDef.train). */
typedef struct {
    bool batch;   /* in training mode: by the statistics of the batch */
    bool updates; /* what a batch changes takes it in; at random is what is then at random */
    bool sync;    /* statistics are those of all replicas */
    int group;    /* statistics are those of so many replicas together; 0: of all, or of one */
    bool unbiased;
    bool clamp;   /* a variance is bounded below by epsilon, which is else added to it */
    int sets;     /* running statistics kept, one of each replica; 0: one of all */
    bool average; /* the running statistics are the mean of those, else the first */
} TrainMode;

struct OpDef {
    const char *name, *domain, *doc;         /* domain NULL: ai.onnx; "dpexec": ours */
    const char *plain;                       /* of ours: what ONNX calls what it computes, of the inputs that are not
                                              * `gradient_only_in`; NULL: ONNX has nothing, or nothing that is a node alone */
    int since;                               /* the one opset version the IR speaks */
    int from;                                /* the oldest opset that spells it so, types aside; 0: `since` */
    int8_t in_min, in_max, out_min, out_max; /* max < 0: variadic */
    unsigned dtypes;                         /* of input 0 (of output 0 when there are no inputs); 0: any */
    unsigned flags;
    uint8_t blocks;     /* BLOCKS_: what a split in blocks (Place.blocks) is to the rule `place` */
    int8_t shape_in;    /* 1 + index of the input that holds output 0's shape (Reshape: 2); 0: none */
    uint8_t inplace[5]; /* bit j of [i]: output i may overwrite input j when sizes are equal */
    uint8_t branch;     /* BRANCH_ */
    uint8_t same;       /* SAME_: is output 0 input 0 over again?  0: no */
    uint8_t moves;      /* bit i: outputs consist of elements of input i (7: of all from there on), chosen by shapes and
                         * by the inputs that have no bit */
    uint8_t picks; /* bit i: outputs consist of elements of input i (7: of all from there on), chosen by their order
                    * as well, so that an increasing function may be applied before or behind */
    /* Element by element, of one output: each depends on the elements of the inputs that stand there when all broadcast
     * to the output's shape as numpy does. */
    bool elementwise;
    uint8_t channel_in; /* of an elementwise one, bit i: input i is [C], and stands along axis 1 instead */
    uint8_t param_in;   /* bit i: a float constant at input i is a parameter, to be trained */
    uint8_t running_in; /* bit i: input i is a running statistic, that training updates and the optimizer does not */
    int8_t running_out; /* the first output of those with their next values, one after the other */
    uint8_t ratio_in;   /* bit i: a constant at input i is a divisor or an exponent */
    uint8_t setting_in; /* bit i: a float at input i is a ratio, a threshold ...: it has no derivative */
    uint8_t tunable_in; /* bit i: a float at input i is a setting that has a derivative (a bound, a filling value): a
                         * parameter only where its name, the file or a flag calls it one */
    uint8_t
        gradient_only_in; /* bit i: input i has no part in what the outputs are; it says what becomes of gradients */
    uint8_t layout;       /* LAYOUT_; elementwise ones take any */
    uint8_t filter_in, filter_out; /* inputs and outputs, by bits, that are filters: not data of samples and channels */
    uint8_t precision;             /* PREC_ */
    uint8_t wide_in;               /* bit i: input i stays float32 where the data has 16 bits (statistics, scales) */
    const AttrDecl *attrs;         /* ends with { 0 }; NULL: none */
    /* Optional: any older or newer opset's spelling -> ours.  Sees the node as the file spelled it.  May emit nodes. */
    Status (*import)(Graph *, Node *, int opset);
    /* Optional, the inverse of `import`: ours -> the spelling of an opset before `from`; false: that opset has no words
     * for this node.  Changes the node alone, its list of inputs and its attributes: what becomes an attribute must be
     * constant. */
    bool (*respell)(Graph *, Node *, int opset);
    /* Optional, asked before anything is inferred of it: the input that output 0 is, as constant inputs have it; -1:
     * they do not.  Where such a node has no shape though its inputs do, nothing behind it is needed. */
    int (*selected_input)(const Graph *, const Node *);
    /* Checks, normalises attributes (axis >= 0 ...), sets dtype and shape of every output.  Inputs are of known type
     * and shape.  A shape that depends on the value of a non-constant input is left unknown (set_out with
     * shape_unknown). */
    Status (*infer)(Graph *, Node *);
    Status (*grad)(Grad *);           /* emits nodes; grad_none: no gradient exists; NULL: an error by name */
    Status (*lower)(Graph *, Node *); /* optional: rewrite into simpler operators and graph_replace the outputs */
    /* Optional, of ours: as `lower`, into operators of ai.onnx alone, of any opset up to the one that each is spelt in
     * (passes/train/standard.c).  Types and shapes are known. */
    Status (*standard)(Graph *, Node *);
    /* How B / S(axis) / P / L pass from inputs to outputs, where types and shapes of all inputs are known; NULL:
     * place_all_b. */
    Status (*place)(Placement *);
    int64_t (*flops)(const Graph *,
                     const Node *); /* optional, for reports: 2 per multiply-add; NULL: elements of output 0 */
    /* Optional: sets the node's mode, but for its running statistics and types, which are the caller's concern. */
    Status (*train)(Graph *, Node *, const TrainMode *);
    bool (*trains)(
        const Node *); /* is it in training mode, as its file says or `train` has left it?  NULL: it has none */
    /* Optional, instead of `inplace`: may output o overwrite input j when their sizes are equal? */
    bool (*overwrites)(const Graph *, const Node *, int o, int j);
    const OpDef *applies; /* OPF_RANDOM: what it draws is output 1, and output 0 what this operator makes of input 0 and
                           * that; NULL: another kind */
    /* Optional: the bytes of input 0 before those that output o is; -1: it is no piece of them.  NULL: by OPF_VIEW. */
    int64_t (*view_of)(const Graph *, const Node *, int o);
    /* Optional, of known types and shapes: `s`, which says how input 0 steps through some value, becomes what output o
     * does; false: no digits say that.  NULL: by OPF_VIEW. */
    bool (*strided)(const Graph *, const Node *, int o, Strided *s);
    /* Optional: input i selects among so many entries of something; -1: it is no index. */
    int64_t (*index_range)(const Graph *, const Node *, int i);
    /* Optional, where the last axis of input i holds tuples of indices: number k of each selects among so many entries;
     * -1: tuples have no such number.  index_range is then the least of these. */
    int64_t (*tuple_range)(const Graph *, const Node *, int i, int k);
    /* Optional, of integers: `span`, which output 0 shall lie in, becomes what input i must lie in for that; false: it
     * cannot be said.  NULL: the same. */
    bool (*span_in)(const Graph *, const Node *, int i, IntSpan *span);
    /* Optional: does the node take rows along this axis of input 0, by integers?  Those of a range are constant. */
    bool (*takes_rows)(const Graph *, const Node *, int axis, RowsTaken *out);
    /* Optional: E_UNSUPPORTED when the sizes at hand are none that the node's graph was made for.  Such a node stays
     * though nothing reads it. */
    Status (*check_sizes)(const Graph *, const Node *);
    bool index_misses;           /* an index outside of that range is legal: it selects nothing */
    const struct Kernel *kernel; /* of an embedder's operator: what computes it; NULL: the backends' lists tell */
};

#define DEFINE_OP(ident, ...) const OpDef op_##ident = { .name = #ident, __VA_ARGS__ }

/* Runs one node whose inputs are all constants: `in[i]` NULL for absent ones; makes `out[i]` in `arena`.  Kernels stand
 * above the graph, so whoever wants something computed here gives it.  E_UNSUPPORTED when there is no kernel. */
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

/* Does what a node computes depend on more than its inputs and attributes, so that it is neither folded nor merged? */
static inline bool op_is_impure(const OpDef *op) { return op->flags & (OPF_RANDOM | OPF_COLLECTIVE | OPF_IMPURE); }

static inline int op_oldest(const OpDef *op) { return op->from ? op->from : op->since; }

/* May output o overwrite input j when their sizes are equal? */
static inline bool node_overwrites(const Graph *g, const Node *n, int o, int j)
{
    const OpDef *op = n->op;

    if (op->overwrites)
        return op->overwrites(g, n, o, j);
    return op->flags & OPF_INPLACE_EACH ? o == j : o < 5 && j < 8 && op->inplace[o] & 1u << j;
}

/* OpDef.view_of of any node. */
static inline int64_t node_view_of(const Graph *g, const Node *n, int o)
{
    return n->op->view_of ? n->op->view_of(g, n, o) : n->op->flags & OPF_VIEW && o == 0 ? 0 : -1;
}

static inline bool op_is_gradient_only(const OpDef *op, int i) { return i < 8 && op->gradient_only_in >> i & 1; }
static inline bool op_moves(const OpDef *op, int i) { return (op->same ? 1 : op->moves) >> (i < 7 ? i : 7) & 1; }
static inline bool op_picks(const OpDef *op, int i) { return op->picks >> (i < 7 ? i : 7) & 1; }
/* Is the output made of all the inputs' elements, however many inputs there are? */
static inline bool op_joins(const OpDef *op) { return op->moves >> 7; }
/* Does input 1 say under what shape output 0 shows input 0? */
static inline bool op_reshapes(const OpDef *op) { return op->flags & OPF_VIEW && op->shape_in; }
/* Does the operator give elements of input 0 other places at most?  Then node_strided may be asked. */
static inline bool op_is_strided(const OpDef *op) { return op->strided || op->flags & OPF_VIEW; }
/* OpDef.strided of any node. */
static inline bool node_strided(const Graph *g, const Node *n, int o, Strided *s)
{
    if (n->op->strided)
        return n->op->strided(g, n, o, s);
    return n->op->flags & OPF_VIEW && o == 0 && strided_reshape(s, value(g, n->out[0])->shape);
}

static inline bool op_any_layout(const OpDef *op) { return op->elementwise || op->layout == LAYOUT_ANY; }
static inline bool op_takes_channels(const OpDef *op, int i) { return i < 8 && op->channel_in >> i & 1; }

/* Fills in defaults; E_MODEL for an undeclared attribute, a wrong type, a value that AttrDecl excludes, a missing
 * required one, a wrong input count. */
Status node_normalise(Graph *g, Node *n) CHECKED;
/* E_MODEL (a type that no tensor here has: E_UNSUPPORTED) when the attribute's value is not what the declaration
 * allows. */
Status attr_check(const Graph *g, const Node *n, const AttrDecl *d, const Attr *a) CHECKED;
/* Are type and shape of every input known, as infer and place demand? */
bool node_inputs_known(const Graph *g, const Node *n);
/* node_normalise'd node: checks dtypes of input 0 and runs op->infer if all inputs are known, else leaves outputs
 * unknown. */
Status node_infer(Graph *g, Node *n) CHECKED;
/* "Conv conv1 (output 'y')": how messages call a node.  Of the thread's, until it has called for four others. */
const char *node_text(const Graph *g, const Node *n);

const AttrDecl *op_attr_decl(const OpDef *op, const char *name); /* NULL: it has no such attribute */
bool attr_is_default(const AttrDecl *d, const Attr *a);

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
Status infer_broadcast(Graph *g, Node *n,
                       DType out) CHECKED; /* all inputs broadcast; DT_NONE: type of input 0 (all equal) */
Status infer_same_dtype(const Graph *g, const Node *n, int from,
                        int to) CHECKED; /* inputs [from,to) that are present agree */
/* Inputs [from,to) that are present agree, and have the type of input 0, or float32 where that has 16 bits. */
Status infer_wide_dtype(const Graph *g, const Node *n, int from, int to) CHECKED;
/* Attribute "axis" in [-rank,rank) of input 0 becomes >= 0. */
Status infer_axis(Graph *g, Node *n, int rank) CHECKED;
/* E_SHAPE when input i, which `what` names, is there and of another shape. */
Status infer_expect(const Graph *g, const Node *n, int i, const char *what, Shape shape) CHECKED;

/* ---- for index_range ---- */
/* Number k of each tuple that input i holds, or of an index alone number 0, selects among so many entries; -1: none
 * does. */
int64_t index_range_at(const Graph *g, const Node *n, int i, int k);
int64_t index_range_axis(const Graph *g, const Node *n, int i); /* input 1 selects along attribute "axis" of input 0 */

/* ---- for import functions ---- */
/* Attribute `name` (int, ints) becomes input `i`, a constant int64 vector; nothing when the attribute is absent. */
Status import_attr_to_input(Graph *g, Node *n, const char *name, int i) CHECKED;
/* The output of a new node whose types are found later, as those of any imported node; NO_VALUE when g->status says
 * why. */
ValueId import_emit(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in);
/* Up to opset 6 input 1 stood at `axis` of input 0 where attribute "broadcast" said so: it gets dimensions of 1 behind
 * its own. */
Status import_broadcast(Graph *g, Node *n, int opset) CHECKED;
ValueId import_aligned(Graph *g, ValueId x, ValueId y, int64_t axis);

/* ---- for respell functions ---- */
/* An attribute that the opset does not have: gone if it has its default, else false. */
bool respell_without(Graph *g, Node *n, const char *name);
/* The inverse of import_attr_to_input; true as well when there is no such input. */
bool respell_input_to_attr(Graph *g, Node *n, int i, const char *name);
/* The same for an input that is one number and an attribute that is a float. */
bool respell_input_to_float(Graph *g, Node *n, int i, const char *name);

#endif
