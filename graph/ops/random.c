/* Operators that draw random numbers.
 *
 * Models have ONNX's operators.  dpexec's own (RandomDropout, Random) draw from Philox by (seed, step, node, global
 * element).  For training random_make_keyed replaces every drawing node by one of them, with the step from a state.
 * Elsewhere `lower` makes them with step 0; Dropout outside of training is the identity. */
#include "graph/ops/random.h"

#include <math.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/arg.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/random.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

/* ---- RandomDropout, DropoutGrad, Random ---- */

#define KEYED                                                                                               \
    { "seed", A_INT, .i = 0 }, { "key", A_INT, .i = 0 }, { "split_axis", A_INT, .i = -1, .range = R_AXIS }, \
        { "split_offset", A_INT, .range = R_NATURAL },                                                      \
    {                                                                                                       \
        "split_dim", A_INT, .range = R_NATURAL                                                              \
    }

/* E_MODEL unless the part given by split_* lies in the whole. */
static Status check_split(const Graph *g, const Node *n, const Shape *s)
{
    int64_t axis = node_int(n, "split_axis"), offset = node_int(n, "split_offset"), dim = node_int(n, "split_dim");

    if (axis < -1 || axis >= s->rank || (axis >= 0 && (offset < 0 || offset > dim - s->dim[axis])))
        return FAIL(E_MODEL, "%s: split_axis %lld, split_offset %lld and split_dim %lld do not fit the shape",
                    node_text(g, n), (long long)axis, (long long)offset, (long long)dim);
    return ST_OK;
}

static Status check_draw(const Graph *g, const Node *n, int i)
{
    const Value *draw = in_value(g, n, i);

    if (draw->dtype != DT_INT64 || draw->shape->rank != 0)
        return FAIL(E_SHAPE, "%s: the draw counter must be an int64 scalar", node_text(g, n));
    return ST_OK;
}

static Status check_ratio(const Graph *g, const Node *n, double ratio)
{
    if (!(ratio >= 0 && ratio <= 1))
        return FAIL(E_MODEL, "%s: ratio %g, expected 0 to 1", node_text(g, n), ratio);
    return ST_OK;
}

static Status infer_random_dropout(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;

    TRY(check_draw(g, n, 1));
    TRY(check_split(g, n, x));
    TRY(check_ratio(g, n, node_float(n, "ratio")));
    set_out(g, n, 1, DT_BOOL, x);
    return infer_like(g, n, 0);
}

static Status grad_random_dropout(Grad *gr)
{
    const Attr *ratio = ATTRS(FLOAT("ratio", node_float(gr->node, "ratio")));

    if (has_value(grad_dout(gr, 0)))
        grad_set(gr, 0, EMIT(gr->g, DropoutGrad, ratio, grad_dout(gr, 0), grad_out(gr, 1)));
    return gr->g->status;
}

/* ---- Philox (graph/base/philox.h) in ONNX's operators: 32-bit words in int64, whose products stay below 2^63 ---- */

static ValueId word_const(Graph *g, uint32_t v) { return emit_scalar(g, DT_INT64, v); }

/* The 64 bits of x * by: with x = h 2^16 + l the upper word is (by h + by l / 2^16) / 2^16. */
static void word_product(Graph *g, ValueId x, uint32_t by, ValueId *upper, ValueId *lower)
{
    const ValueId half = word_const(g, 1u << 16), low = word_const(g, 0xffff), factor = word_const(g, by);
    ValueId h = EMIT(g, Mul, NULL, EMIT(g, Div, NULL, x, half), factor);
    ValueId l = EMIT(g, Mul, NULL, EMIT(g, BitwiseAnd, NULL, x, low), factor);

    *upper = EMIT(g, Add, NULL, h, EMIT(g, Div, NULL, l, half));
    *upper = EMIT(g, Div, NULL, *upper, half);
    *lower = EMIT(g, Mul, NULL, EMIT(g, BitwiseAnd, NULL, h, low), half);
    *lower = EMIT(g, Add, NULL, *lower, l);
    *lower = EMIT(g, BitwiseAnd, NULL, *lower, word_const(g, UINT32_MAX));
}

static ValueId word_xor(Graph *g, ValueId a, ValueId b, uint32_t key)
{
    const ValueId both = EMIT(g, BitwiseXor, NULL, a, b);

    return EMIT(g, BitwiseXor, NULL, both, word_const(g, key));
}

/* Number of blocks for `count` elements; more than needed if `count` is no multiple of 4, so that the number stays
 * proportional to the batch size. */
static int64_t count_blocks(int64_t count) { return count % 4 == 0 ? count / 4 : count % 2 == 0 ? count / 2 : count; }

/* Word i of blocks 0, 1 ... in w[i], [blocks,1]. */
static void philox_blocks(Graph *g, const Node *n, ValueId draw, int64_t count, ValueId w[4])
{
    const uint64_t seed = (uint64_t)node_int(n, "seed");
    const ValueId one = emit_ints(g, 1, (int64_t[]){ 1 });
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    ValueId upper[2], lower[2], from, to;

    from = word_const(g, 0);
    to = emit_scalar(g, DT_INT64, (double)count_blocks(count));
    w[0] = EMIT(g, Range, NULL, from, to, word_const(g, 1));
    w[1] = word_const(g, 0);
    w[2] = EMIT(g, BitwiseAnd, NULL, draw, word_const(g, UINT32_MAX));
    w[3] = word_const(g, (uint32_t)node_int(n, "key"));
    for (int round = 0; round < 10; round++) {
        word_product(g, w[0], 0xD2511F53u, &upper[0], &lower[0]);
        word_product(g, w[2], 0xCD9E8D57u, &upper[1], &lower[1]);
        w[0] = word_xor(g, upper[1], w[1], key[0]);
        w[1] = lower[1];
        w[2] = word_xor(g, upper[0], w[3], key[1]);
        w[3] = lower[0];
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        w[i] = EMIT(g, Unsqueeze, NULL, w[i], one);
}

/* The first `count` elements, four from each block. */
static ValueId philox_elements(Graph *g, const ValueId w[4], int64_t count)
{
    const ValueId zero = emit_ints(g, 1, (int64_t[]){ 0 });
    const ValueId rows = EMIT(g, Concat, ATTRS(INT("axis", 1)), w[0], w[1], w[2], w[3]);
    const ValueId all = EMIT(g, Reshape, NULL, rows, emit_ints(g, 1, (int64_t[]){ -1 }));

    return EMIT(g, Slice, NULL, all, zero, emit_ints(g, 1, &count), zero);
}

static Status standard_random_dropout(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const double ratio = node_float(n, "ratio");
    const int64_t count = shape_numel(x->shape);
    ValueId w[4], mask, kept;

    if (node_int(n, "split_axis") >= 0 || count / 4 >= UINT32_MAX)
        return ST_OK;
    philox_blocks(g, n, n->in[1], count, w);
    mask = philox_elements(g, w, count);
    mask = EMIT(g, GreaterOrEqual, NULL, mask, emit_scalar(g, DT_INT64, floor(ratio * 4294967296.0)));
    mask = emit_reshape(g, mask, x->shape);
    kept = EMIT(g, Mul, NULL, n->in[0], emit_scalar(g, x->dtype, ratio < 1 ? 1 / (1 - ratio) : 0));
    graph_replace(g, n->out[0], EMIT(g, Where, NULL, mask, kept, emit_scalar(g, x->dtype, 0)));
    if (has_out(n, 1))
        graph_replace(g, n->out[1], mask);
    return g->status;
}

DEFINE_OP(RandomDropout, .applies = &op_DropoutGrad, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2,
          .out_min = 2, .out_max = 2, .dtypes = DTYPES_FLOAT, .flags = OPF_RANDOM, .inplace = { 1 },
          .attrs = (const AttrDecl[]){ { "ratio", A_FLOAT, .f = 0.5 }, KEYED, { 0 } }, .infer = infer_random_dropout,
          .standard = standard_random_dropout, .grad = grad_random_dropout, .place = place_elementwise,
          .doc = "(x, draw): x / (1 - ratio) where the mask holds, else 0; and the mask");

static Status infer_dropout_grad(Graph *g, Node *n)
{
    if (in_value(g, n, 1)->dtype != DT_BOOL || !shape_eq(in_value(g, n, 0)->shape, in_value(g, n, 1)->shape))
        return FAIL(E_SHAPE, "%s: the mask must be bool and of dy's shape", node_text(g, n));
    TRY(check_ratio(g, n, node_float(n, "ratio")));
    return infer_like(g, n, 0);
}

static Status grad_dropout_grad(Grad *gr)
{
    const Attr *ratio = ATTRS(FLOAT("ratio", node_float(gr->node, "ratio")));

    grad_set(gr, 0, EMIT(gr->g, DropoutGrad, ratio, grad_dout(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

static Status standard_dropout_grad(Graph *g, Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;
    ValueId kept = EMIT(g, Mul, NULL, n->in[0], emit_scalar(g, t, 1 / (1 - node_float(n, "ratio"))));

    graph_replace(g, n->out[0], EMIT(g, Where, NULL, n->in[1], kept, emit_scalar(g, t, 0)));
    return g->status;
}

DEFINE_OP(DropoutGrad, .elementwise = true, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .inplace = { 1 },
          .attrs = (const AttrDecl[]){ { "ratio", A_FLOAT, .f = 0.5 }, { 0 } }, .infer = infer_dropout_grad,
          .standard = standard_dropout_grad, .grad = grad_dropout_grad, .place = place_mul,
          .doc = "(dy, mask): dy / (1 - ratio) where the mask holds, else 0");

static Status float_type(const Graph *g, const Node *n, DType t)
{
    if (!dtype_is_float(t))
        return FAIL(E_UNSUPPORTED, "%s: dtype %s, expected a float type", node_text(g, n), dtype_name(t));
    return ST_OK;
}

static Status infer_random(Graph *g, Node *n)
{
    DType t = (DType)node_int(n, "dtype");
    Shape s;
    int rank;
    const int64_t *dim = node_ints(n, "shape", &rank);

    TRY(check_draw(g, n, 0));
    TRY(float_type(g, n, t));
    if (rank > MAX_RANK)
        return FAIL(E_SHAPE, "%s: rank %d: at most %d dimensions are supported", node_text(g, n), rank, MAX_RANK);
    s = has_in(n, 1) ? *in_value(g, n, 1)->shape : shape_of(rank, dim);
    TRY(check_split(g, n, &s));
    set_out(g, n, 0, t, &s);
    return ST_OK;
}

/* Split like the tensor that gives the shape; without one every replica draws the whole. */
static Status place_random(Placement *p)
{
    if (has_in(p->node, 1) && p->in[1].kind == PL_P)
        p->in[1] = PLACE_B;
    p->in[0] = PLACE_B;
    place_set_all(p, place_in(p, 1));
    return ST_OK;
}

/* Uniform in (0, 1), like philox_uniform. */
static ValueId uniform_of(Graph *g, ValueId word, DType t)
{
    word = emit_cast(g, word, t);
    word = EMIT(g, Add, NULL, word, emit_scalar(g, t, 0.5));
    return EMIT(g, Mul, NULL, word, emit_scalar(g, t, 0x1p-32));
}

/* Box-Muller: two normal numbers from each pair of a block's words.  The radius is computed in float64, which resolves
 * uniform numbers near 1. */
static ValueId normal_elements(Graph *g, const ValueId w[4], DType t, int64_t count)
{
    ValueId y[4];

    for (int i = 0; i < 4; i += 2) {
        ValueId radius = EMIT(g, Log, NULL, uniform_of(g, w[i], DT_FLOAT64)), angle;

        radius = EMIT(g, Sqrt, NULL, EMIT(g, Mul, NULL, radius, emit_scalar(g, DT_FLOAT64, -2)));
        angle = uniform_of(g, w[i + 1], DT_FLOAT64);
        angle = EMIT(g, Mul, NULL, angle, emit_scalar(g, DT_FLOAT64, 6.283185307179586476925));
        radius = emit_cast(g, radius, t);
        angle = emit_cast(g, angle, t);
        y[i] = EMIT(g, Mul, NULL, radius, EMIT(g, Cos, NULL, angle));
        y[i + 1] = EMIT(g, Mul, NULL, radius, EMIT(g, Sin, NULL, angle));
    }
    return philox_elements(g, y, count);
}

static Status standard_random(Graph *g, Node *n)
{
    const Value *out = value(g, n->out[0]);
    const DType t = out->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32; /* 16-bit results are rounded from float32 */
    const int64_t count = shape_numel(out->shape);
    const double a = node_float(n, "a"), b = node_float(n, "b");
    const bool normal = node_int(n, "normal") != 0;
    ValueId w[4], y;

    if (node_int(n, "split_axis") >= 0 || count / 4 >= UINT32_MAX)
        return ST_OK;
    philox_blocks(g, n, n->in[0], count, w);
    if (normal)
        y = normal_elements(g, w, t, count);
    else if (t == DT_FLOAT64)
        y = uniform_of(g, philox_elements(g, w, count), t);
    else {
        y = philox_elements(g, w, count);
        y = EMIT(g, Div, NULL, y, word_const(g, 256));
        y = emit_cast(g, y, t);
        y = EMIT(g, Mul, NULL, y, emit_scalar(g, t, 0x1p-24));
    }
    y = EMIT(g, Mul, NULL, y, emit_scalar(g, t, normal ? b : b - a));
    y = emit_cast(g, EMIT(g, Add, NULL, y, emit_scalar(g, t, a)), value(g, n->out[0])->dtype);
    graph_replace(g, n->out[0], EMIT(g, Reshape, NULL, y, emit_shape_const(g, value(g, n->out[0])->shape)));
    return g->status;
}

DEFINE_OP(Random, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 2, .out_min = 1, .out_max = 1,
          .flags = OPF_RANDOM,
          .attrs = (const AttrDecl[]){ { "normal", A_INT, .i = 0 },
                                       { "a", A_FLOAT, .f = 0 },
                                       { "b", A_FLOAT, .f = 1 },
                                       { "dtype", A_INT, .i = DT_FLOAT32, .range = R_DTYPE },
                                       { "shape", A_INTS, .range = R_SIZES },
                                       KEYED,
                                       { 0 } },
          .infer = infer_random, .standard = standard_random, .grad = grad_none, .place = place_random,
          .doc = "(draw, like?): uniform in [a, b), or normal with mean a and deviation b, in like's shape or `shape`");

/* ---- Dropout ---- */

/* Up to opset 11 the ratio was an attribute and the runtime chose the mode; up to opset 6 is_test = 1 turned dropout
 * off. */
static Status import_dropout(Graph *g, Node *n, int opset)
{
    const Attr *ratio = node_attr(n, "ratio");

    const Attr *is_test = opset < 7 ? node_attr(n, "is_test") : NULL;
    bool keep = is_test && is_test->type == A_INT && is_test->i;

    if (opset >= 12)
        return ST_OK;
    if (ratio && ratio->type != A_FLOAT)
        return FAIL(E_MODEL, "%s: attribute 'ratio' must be a number", node_text(g, n));
    node_set_input(g, n, 1, emit_scalar(g, DT_FLOAT32, keep ? 0 : ratio ? ratio->f : 0.5));
    node_remove_attr(g, n, "ratio");
    if (is_test)
        node_remove_attr(g, n, "is_test");
    return g->status;
}

static bool respell_dropout(Graph *g, Node *n, int opset)
{
    (void)opset;
    return !has_in(n, 2) && respell_without(g, n, "seed") && respell_input_to_float(g, n, 1, "ratio");
}

static Status infer_dropout(Graph *g, Node *n)
{
    const Value *ratio = has_in(n, 1) ? in_value(g, n, 1) : NULL, *mode = has_in(n, 2) ? in_value(g, n, 2) : NULL;

    if (ratio && (!dtype_is_float(ratio->dtype) || shape_numel(ratio->shape) != 1))
        return FAIL(E_SHAPE, "%s: the ratio must be one float", node_text(g, n));
    if (ratio && ratio->kind == V_CONST)
        TRY(check_ratio(g, n, tensor_float(ratio->init, 0)));
    if (mode && (mode->dtype != DT_BOOL || shape_numel(mode->shape) != 1))
        return FAIL(E_SHAPE, "%s: training_mode must be one bool", node_text(g, n));
    set_out(g, n, 1, DT_BOOL, in_value(g, n, 0)->shape);
    return infer_like(g, n, 0);
}

static ValueId all_true(Graph *g, const Shape *s) { return emit_full(g, DT_BOOL, s, 1); }

bool dropout_keeps_all(const Graph *g, const Node *n)
{
    const Tensor *ratio = n->op == &op_Dropout ? in_const(g, n, 1) : NULL;

    return ratio && tensor_float(ratio, 0) == 0;
}

/* Outside of training, or with ratio 0: the identity, and a mask that is true everywhere.  A mode that only the run
 * knows leaves the node as it is. */
static Status lower_dropout(Graph *g, Node *n)
{
    const Tensor *mode = in_const(g, n, 2);

    if (has_in(n, 2) && (!mode || tensor_int(mode, 0)) && !dropout_keeps_all(g, n))
        return ST_OK;
    if (has_out(n, 1) && !shape_known(in_value(g, n, 0)->shape))
        return ST_OK;
    if (has_out(n, 1))
        graph_replace(g, n->out[1], all_true(g, in_value(g, n, 0)->shape));
    graph_replace(g, n->out[0], n->in[0]);
    return g->status;
}

static Status place_dropout(Placement *p)
{
    if (p->in[0].kind == PL_S && has_in(p->node, 2))
        return place_all_b(p);
    place_need(p, 1, PLACE_B);
    place_need(p, 2, PLACE_B);
    return place_elementwise(p);
}

/* Without the input training_mode the node is the identity, but keeps its ratio; passes/train/key_random.c turns it on.
 */
static Status train_dropout(Graph *g, Node *n, const TrainMode *mode)
{
    if (!mode->updates && n->n_in > 2)
        n->n_in = 2;
    return g->status;
}

DEFINE_OP(Dropout, .setting_in = 6, .since = 13, .from = 12, .in_min = 1, .in_max = 3, .out_min = 1, .out_max = 2,
          .dtypes = DTYPES_FLOAT, .flags = OPF_RANDOM, .attrs = (const AttrDecl[]){ { "seed", A_INT, .i = 0 }, { 0 } },
          .import = import_dropout, .respell = respell_dropout, .infer = infer_dropout, .lower = lower_dropout,
          .place = place_dropout, .train = train_dropout,
          .doc = "in training x / (1 - ratio) or 0 at random, else x; and which were kept");

/* ---- ONNX's generators ---- */

static Status infer_generator(Graph *g, Node *n)
{
    Shape s;
    int rank;
    const int64_t *dim = node_ints(n, "shape", &rank);
    DType t = (DType)node_int(n, "dtype");

    TRY(float_type(g, n, t));
    if (rank > MAX_RANK)
        return FAIL(E_SHAPE, "%s: rank %d: at most %d dimensions are supported", node_text(g, n), rank, MAX_RANK);
    s = shape_of(rank, dim);
    set_out(g, n, 0, t, &s);
    return ST_OK;
}

/* The type in attribute dtype, or else the input's. */
static DType like_type(const Graph *g, const Node *n)
{
    return node_int(n, "dtype") ? (DType)node_int(n, "dtype") : in_value(g, n, 0)->dtype;
}

static Status infer_generator_like(Graph *g, Node *n)
{
    TRY(float_type(g, n, like_type(g, n)));
    set_out(g, n, 0, like_type(g, n), in_value(g, n, 0)->shape);
    return ST_OK;
}

static ValueId emit_generator(Graph *g, const Node *n, ValueId draw, int64_t seed, int64_t key)
{
    const bool like = n->n_in > 0, normal = n->op == &op_RandomNormal || n->op == &op_RandomNormalLike;
    int rank = 0;
    const int64_t *dim = like ? NULL : node_ints(n, "shape", &rank);
    const Attr *attrs = ATTRS(INT("normal", normal), FLOAT("a", node_float(n, normal ? "mean" : "low")),
                              FLOAT("b", node_float(n, normal ? "scale" : "high")),
                              INT("dtype", like ? like_type(g, n) : node_int(n, "dtype")), INTS("shape", rank, dim),
                              INT("seed", seed), INT("key", key));

    return emit(g, &op_Random, attrs, like ? 2 : 1, (ValueId[]){ draw, like ? n->in[0] : NO_VALUE });
}

/* The Gumbel trick: argmax(log p - log(-log u)) is a draw from p, with one u for each batch, sample and class. */
static ValueId emit_multinomial(Graph *g, const Node *n, ValueId draw, int64_t seed, int64_t key)
{
    DType t = in_value(g, n, 0)->dtype;
    Shape x = *in_value(g, n, 0)->shape, row = SHAPE(x.dim[0], 1, x.dim[1]);
    int64_t whole[3] = { x.dim[0], node_int(n, "sample_size"), x.dim[1] };
    const Attr *attrs =
        ATTRS(INT("dtype", t), FLOAT("a", 1e-7), INTS("shape", 3, whole), INT("seed", seed), INT("key", key));
    ValueId u = EMIT(g, Random, attrs, draw);
    ValueId spread = EMIT(g, Log, NULL, EMIT(g, Neg, NULL, EMIT(g, Log, NULL, u)));
    ValueId score = EMIT(g, Sub, NULL, emit_reshape(g, n->in[0], &row), spread);
    ValueId choice = EMIT(g, ArgMax, ATTRS(INT("axis", 2), INT("keepdims", 0)), score);

    return emit_cast(g, choice, (DType)node_int(n, "dtype"));
}

static Status infer_bernoulli(Graph *g, Node *n)
{
    DType t = like_type(g, n);

    if (!dtype_size(t) || t == DT_STRING)
        return FAIL(E_UNSUPPORTED, "%s: dtype %s is not supported", node_text(g, n), dtype_name(t));
    set_out(g, n, 0, t, in_value(g, n, 0)->shape);
    return ST_OK;
}

static Status infer_multinomial(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t t = node_int(n, "dtype"), samples = node_int(n, "sample_size");
    Shape y;

    if (x->rank != 2 || x->dim[1] == 0 || samples < 1 || (t != DT_INT32 && t != DT_INT64))
        return FAIL(E_SHAPE, "%s: expected [batch, classes], sample_size >= 1 and dtype int32 or int64",
                    node_text(g, n));
    y = SHAPE(x->dim[0], samples);
    set_out(g, n, 0, (DType)t, &y);
    return ST_OK;
}

/* The node's own seed; `otherwise` if it has none. */
static int64_t seed_of(const Node *n, uint64_t otherwise)
{
    double own = n->op == &op_Dropout ? (double)node_int(n, "seed") : node_float(n, "seed");

    return own == 0 || !(fabs(own) <= 1e18) ? (int64_t)otherwise : (int64_t)own;
}

/* Emits the node's draws: `seed` and `key` name them, `draw` counts them. */
static ValueId emit_keyed(Graph *g, const Node *n, ValueId draw, int64_t seed, int64_t key)
{
    if (n->op == &op_Bernoulli) { /* is a uniform number below p? */
        const Attr *attrs = ATTRS(INT("dtype", in_value(g, n, 0)->dtype), INT("seed", seed), INT("key", key));
        ValueId u = EMIT(g, Random, attrs, draw, n->in[0]);

        return emit_cast(g, EMIT(g, Less, NULL, u, n->in[0]), like_type(g, n));
    }
    return n->op == &op_Multinomial ? emit_multinomial(g, n, draw, seed, key) : emit_generator(g, n, draw, seed, key);
}

/* Outside of training: the draws of step 0. */
static Status lower_generator(Graph *g, Node *n)
{
    ValueId draw;

    if (n->n_in && !shape_known(in_value(g, n, 0)->shape))
        return ST_OK;
    draw = emit_scalar(g, DT_INT64, 0);
    graph_replace(g, n->out[0], emit_keyed(g, n, draw, seed_of(n, 0), n->index));
    return g->status;
}

#define GENERATOR(version, first, types)                                                                     \
    .since = (version), .from = (first), .out_min = 1, .out_max = 1, .dtypes = (types), .flags = OPF_RANDOM, \
    .grad = grad_none, .lower = lower_generator
#define LIKE .in_min = 1, .in_max = 1
#define SEED                    \
    {                           \
        "seed", A_FLOAT, .f = 0 \
    }
#define UNIFORM { "low", A_FLOAT, .f = 0 }, { "high", A_FLOAT, .f = 1 }, SEED
#define NORMAL { "mean", A_FLOAT, .f = 0 }, { "scale", A_FLOAT, .f = 1 }, SEED
#define SHAPED \
    { "shape", A_INTS, .rule = ATTR_REQUIRED, .range = R_SIZES }, { "dtype", A_INT, .i = DT_FLOAT32, .range = R_DTYPE }
#define TYPED                            \
    {                                    \
        "dtype", A_INT, .range = R_DTYPE \
    }

DEFINE_OP(RandomUniform, GENERATOR(22, 1, 0), .attrs = (const AttrDecl[]){ SHAPED, UNIFORM, { 0 } },
          .infer = infer_generator, .doc = "uniform in [low, high)");
DEFINE_OP(RandomNormal, GENERATOR(22, 1, 0), .attrs = (const AttrDecl[]){ SHAPED, NORMAL, { 0 } },
          .infer = infer_generator, .doc = "normal with mean and scale");
DEFINE_OP(RandomUniformLike, GENERATOR(22, 1, 0), LIKE, .attrs = (const AttrDecl[]){ TYPED, UNIFORM, { 0 } },
          .infer = infer_generator_like, .doc = "uniform in [low, high), in x's shape");
DEFINE_OP(RandomNormalLike, GENERATOR(22, 1, 0), LIKE, .attrs = (const AttrDecl[]){ TYPED, NORMAL, { 0 } },
          .infer = infer_generator_like, .doc = "normal with mean and scale, in x's shape");
DEFINE_OP(Bernoulli, GENERATOR(22, 15, DTYPES_FLOAT), LIKE, .attrs = (const AttrDecl[]){ TYPED, SEED, { 0 } },
          .infer = infer_bernoulli, .doc = "1 with probability x, else 0");
DEFINE_OP(Multinomial, GENERATOR(22, 7, DTYPES_FLOAT), LIKE, .infer = infer_multinomial,
          .attrs = (const AttrDecl[]){ { "sample_size", A_INT, .i = 1, .range = R_POSITIVE },
                                       { "dtype", A_INT, .i = DT_INT32, .range = R_DTYPE },
                                       SEED,
                                       { 0 } },
          .doc = "samples of the classes with log-probabilities x");

/* ---- training ---- */

Status random_make_keyed(Graph *g, Node *n, ValueId draw, uint64_t seed, int64_t key)
{
    const Tensor *ratio = in_const(g, n, 1);
    ValueId out[2];
    int64_t own;

    if (!(n->op->flags & OPF_RANDOM) || n->op->domain)
        return ST_OK;
    own = seed_of(n, seed);
    if (n->op != &op_Dropout) {
        graph_replace(g, n->out[0], emit_keyed(g, n, draw, own, key));
        return g->status;
    }
    if (has_in(n, 1) && !ratio)
        return FAIL(E_UNSUPPORTED, "%s: the ratio must be a constant", node_text(g, n));
    EMIT_MULTI(g, RandomDropout,
               ATTRS(FLOAT("ratio", ratio ? tensor_float(ratio, 0) : 0.5), INT("seed", own), INT("key", key)), 2, out,
               n->in[0], draw);
    graph_replace(g, n->out[0], out[0]);
    if (has_out(n, 1))
        graph_replace(g, n->out[1], out[1]);
    return g->status;
}
