/* Operators that rearrange or repeat elements: Transpose, Expand, Tile, Pad, DepthToSpace, SpaceToDepth. */
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/ranges.h"

/* ---- Expand ---- */

static Status infer_expand(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = shape_unknown();

    set_out(g, n, 0, x->dtype, &y);
    if (!value_const(g, n->in[1]))
        return ST_OK;
    TRY(value_const_ints(g, n->in[1], y.dim, MAX_RANK, &y.rank));
    TRY(shape_check(&y, dtype_size(x->dtype)));
    TRY(shape_broadcast(&y, x->shape, &y, node_text(g, n)));
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_expand(Grad *gr)
{
    grad_set_unbroadcast(gr, 0, grad_dout(gr, 0));
    return gr->g->status;
}

DEFINE_OP(Expand, .same = SAME_SPREAD, .layout = LAYOUT_ANY, .since = 13, .from = 8, .in_min = 2, .in_max = 2,
          .out_min = 1, .out_max = 1, .shape_in = 2, .infer = infer_expand, .grad = grad_expand, .place = place_expand,
          .doc = "x broadcast to a shape");

/* ---- Transpose ---- */

static Status infer_transpose(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    int64_t reversed[MAX_RANK];
    const int64_t *perm;
    Shape y = { .rank = x->shape->rank };
    unsigned seen = 0;
    int count;

    perm = node_ints(n, "perm", &count);
    if (!count && y.rank) {
        for (int i = 0; i < y.rank; i++)
            reversed[i] = y.rank - 1 - i;
        node_set_ints(g, n, "perm", y.rank, reversed);
        perm = node_ints(n, "perm", &count);
    }
    for (int i = 0; i < count && i < y.rank; i++)
        if (perm[i] >= 0 && perm[i] < y.rank) {
            seen |= 1u << perm[i];
            y.dim[i] = x->shape->dim[perm[i]];
        }
    if (count != y.rank || seen != (1u << y.rank) - 1)
        return FAIL(E_SHAPE, "%s: perm is not a permutation of %d axes", node_text(g, n), y.rank);
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

static Status grad_transpose(Grad *gr)
{
    int count;
    const int64_t *perm = node_ints(gr->node, "perm", &count);
    int64_t inverse[MAX_RANK];

    for (int i = 0; i < count; i++)
        inverse[perm[i]] = i;
    grad_set(gr, 0, emit_transpose(gr->g, grad_dout(gr, 0), count, inverse));
    return gr->g->status;
}

static Status place_transpose(Placement *p)
{
    int count, to[MAX_RANK] = { 0 };
    const int64_t *perm = node_ints(p->node, "perm", &count);

    for (int i = 0; i < count; i++)
        to[perm[i]] = i;
    return place_moved(p, to, "");
}

static bool strided_transpose(const Graph *g, const Node *n, int o, Strided *s)
{
    int count;

    (void)g, (void)o;
    return strided_permute(s, node_ints(n, "perm", &count));
}

DEFINE_OP(Transpose, .moves = 1, .rows = ROWS_PERMUTED, .blocks = BLOCKS_PASS, .since = 13, .from = 1, .in_min = 1,
          .in_max = 1, .out_min = 1, .out_max = 1,
          .attrs = (const AttrDecl[]){ { "perm", A_INTS, .range = R_PERM }, { 0 } }, .infer = infer_transpose,
          .grad = grad_transpose, .strided = strided_transpose, .place = place_transpose, .doc = "axes permuted");

/* ---- Tile ---- */

static Status infer_tile(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = shape_unknown();
    int64_t repeats[MAX_RANK];
    int count;

    set_out(g, n, 0, x->dtype, &y);
    if (!value_const(g, n->in[1]))
        return ST_OK;
    TRY(value_const_ints(g, n->in[1], repeats, MAX_RANK, &count));
    if (count != x->shape->rank)
        return FAIL(E_SHAPE, "%s: %d repeats for an input of rank %d, expected one for each axis", node_text(g, n),
                    count, x->shape->rank);
    y.rank = count;
    for (int i = 0; i < count; i++)
        if (repeats[i] < 0 || __builtin_mul_overflow(x->shape->dim[i], repeats[i], &y.dim[i]))
            return FAIL(E_SHAPE, "%s: %lld repeats of axis %d, expected 0 or more, and a size that can be counted",
                        node_text(g, n), (long long)repeats[i], i);
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

/* Sums over the copies, axis by axis: [.., r * d, ..] -> [.., r, d, ..] -> sum over r. */
static Status grad_tile(Grad *gr)
{
    Graph *g = gr->g;
    int64_t repeats[MAX_RANK];
    int count;
    ValueId dx = grad_dout(gr, 0);

    TRY(value_const_ints(g, gr->node->in[1], repeats, MAX_RANK, &count));
    for (int i = 0; i < count && !g->status; i++) {
        Shape s = *value(g, dx)->shape;
        int64_t axis = i;

        if (repeats[i] == 1)
            continue;
        if (s.rank == MAX_RANK)
            return FAIL(E_UNSUPPORTED, "%s: the gradient would need more than %d dimensions", node_text(g, gr->node),
                        MAX_RANK);
        for (int j = s.rank++; j > i; j--)
            s.dim[j] = s.dim[j - 1];
        s.dim[i] = repeats[i];
        s.dim[i + 1] = grad_in_value(gr, 0)->shape->dim[i];
        dx = emit_reduce_sum(g, emit_reshape(g, dx, &s), 1, &axis, false);
    }
    grad_set(gr, 0, dx);
    return g->status;
}

static Status place_tile(Placement *p)
{
    int64_t repeats[MAX_RANK];
    int count, to[MAX_RANK];

    TRY(value_const_ints(p->g, p->node->in[1], repeats, MAX_RANK, &count));
    for (int a = 0; a < count; a++)
        to[a] = repeats[a] == 1 ? a : -1;
    return place_moved(p, to, "it repeats the batch");
}

DEFINE_OP(Tile, .moves = 1, .layout = LAYOUT_ANY, .since = 13, .from = 6, .in_min = 2, .in_max = 2, .out_min = 1,
          .out_max = 1, .infer = infer_tile, .grad = grad_tile, .place = place_tile,
          .doc = "x repeated along each axis");

/* ---- Pad ---- */

/* Pads and value were attributes up to opset 10. */
static Status import_pad(Graph *g, Node *n, int opset)
{
    const Attr *value = node_attr(n, "value");
    double v = value ? value->f : 0;

    if (opset >= 11)
        return ST_OK;
    TRY(import_attr_to_input(g, n, opset < 2 ? "paddings" : "pads", 1));
    node_remove_attr(g, n, "value");
    if (v != 0)
        node_set_input(g, n, 2, emit_scalar(g, DT_FLOAT32, v)); /* kernels convert it to the type of x */
    return g->status;
}

/* Opset 11 made pads an input, opset 18 added axes, opset 19 mode wrap. */
static bool respell_pad(Graph *g, Node *n, int opset)
{
    if (!strcmp(node_string(n, "mode"), "wrap") || (opset < 18 && has_in(n, 3)))
        return false;
    return opset >= 11 || (respell_input_to_float(g, n, 2, "value") && respell_input_to_attr(g, n, 1, "pads"));
}

static Status node_pads(PadRange *r, const Graph *g, const Node *n)
{
    const Tensor *pads = value_const(g, n->in[1]);

    if (!pads || (has_in(n, 3) && !value_const(g, n->in[3])))
        return FAIL(E_UNSUPPORTED, "%s: pads and axes must be constant", node_text(g, n));
    return pad_range(r, in_value(g, n, 0)->shape->rank, pads, in_const(g, n, 3), node_text(g, n));
}

static Status infer_pad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = shape_unknown();
    PadRange r;
    PadMode mode;

    TRY(pad_mode(&mode, g, n));
    set_out(g, n, 0, x->dtype, &y);
    if (!value_const(g, n->in[1]) || (has_in(n, 3) && !value_const(g, n->in[3])))
        return ST_OK;
    TRY(node_pads(&r, g, n));
    if (has_in(n, 2) && shape_numel(in_value(g, n, 2)->shape) != 1)
        return FAIL(E_SHAPE, "%s: the value to pad with must be a scalar", node_text(g, n));
    y.rank = x->shape->rank;
    for (int i = 0; i < y.rank; i++) {
        const int64_t d = x->shape->dim[i];

        if (__builtin_add_overflow(r.before[i] + r.after[i], d, &y.dim[i]) || !pad_fits(mode, &r, i, d, y.dim[i]))
            return FAIL(E_SHAPE, "%s: pads %lld and %lld do not fit axis %d of %lld elements", node_text(g, n),
                        (long long)r.before[i], (long long)r.after[i], i, (long long)d);
    }
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static ValueId emit_pads(Graph *g, int rank, const PadRange *r, int64_t sign)
{
    int64_t pads[2 * MAX_RANK];

    for (int i = 0; i < rank; i++) {
        pads[i] = sign * r->before[i];
        pads[rank + i] = sign * r->after[i];
    }
    return emit_ints(g, 2 * rank, pads);
}

/* Mode constant: Pad with negated pads, as added elements are cut off and removed ones get zero.  The other modes add
 * each copy's gradient to its source. */
static Status grad_pad(Grad *gr)
{
    Graph *g = gr->g;
    ValueId dy = grad_dout(gr, 0), dx;
    int rank = grad_in_value(gr, 0)->shape->rank;
    PadMode mode;
    PadRange r;

    TRY(pad_mode(&mode, g, gr->node));
    TRY(node_pads(&r, g, gr->node));
    if (mode != PAD_CONSTANT) {
        dy = grad_dout_wide(gr, 0);
        dx = EMIT(g, PadGrad, ATTRS(STRING("mode", node_string(gr->node, "mode"))), dy, emit_pads(g, rank, &r, 1));
        grad_set_narrow(gr, 0, dx);
        return g->status;
    }
    dx = EMIT(g, Pad, NULL, dy, emit_pads(g, rank, &r, -1));
    grad_set(gr, 0, dx);
    if (grad_wanted(gr, 2)) {
        Shape scalar = shape_scalar();
        ValueId inside = emit_sum_to_shape(g, dx, &scalar), all = emit_sum_to_shape(g, dy, &scalar);

        grad_set(gr, 2, emit_reshape(g, EMIT(g, Sub, NULL, all, inside), grad_in_value(gr, 2)->shape));
    }
    return g->status;
}

/* With a value other than zero the operator is affine, so a partial sum is reduced first. */
static Status place_pad(Placement *p)
{
    int rank = in_value(p->g, p->node, 0)->shape->rank, to[MAX_RANK];
    const Tensor *v = in_const(p->g, p->node, 2);
    PadRange r;

    TRY(node_pads(&r, p->g, p->node));
    for (int a = 0; a < rank; a++)
        to[a] = r.before[a] || r.after[a] ? -1 : a;
    if (p->in[0].kind == PL_P && has_in(p->node, 2) && !(v && tensor_float(v, 0) == 0))
        p->in[0] = PLACE_B;
    return place_moved(p, to, "it pads the batch");
}

static const AttrDecl pad_attrs[] = { { "mode", A_STRING, .s = "constant", .words = "constant reflect edge wrap" },
                                      { 0 } };

DEFINE_OP(Pad, .flops_of = FLOPS_OF_NOTHING, .picks = 5, .tunable_in = 4, .layout = LAYOUT_ANY, .since = 19, .from = 18,
          .in_min = 2, .in_max = 4, .out_min = 1, .out_max = 1, .attrs = pad_attrs, .import = import_pad,
          .respell = respell_pad, .infer = infer_pad, .grad = grad_pad, .place = place_pad,
          .doc = "elements added around, or cut off");

static Status infer_pad_grad(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0);
    Shape dx = *dy->shape;
    PadRange r;
    PadMode mode;

    TRY(pad_mode(&mode, g, n));
    TRY(node_pads(&r, g, n));
    for (int i = 0; i < dx.rank; i++)
        if (__builtin_sub_overflow(dx.dim[i], r.before[i] + r.after[i], &dx.dim[i]) || dx.dim[i] < 0 ||
            !pad_fits(mode, &r, i, dx.dim[i], dy->shape->dim[i]))
            return FAIL(E_SHAPE, "%s: the pads of axis %d do not fit", node_text(g, n), i);
    set_out(g, n, 0, dy->dtype, &dx);
    return ST_OK;
}

/* Adds each position of dy to its source, axis by axis. */
static Status standard_pad_grad(Graph *g, Node *n)
{
    const Shape *dx = value(g, n->out[0])->shape, *dy = in_value(g, n, 0)->shape;
    ValueId d = n->in[0];
    PadRange r;
    PadMode mode;

    TRY(pad_mode(&mode, g, n));
    TRY(node_pads(&r, g, n));
    for (int a = 0; a < dx->rank; a++) {
        const Shape positions = SHAPE(dy->dim[a]);
        Tensor *source;

        if (!r.before[a] && !r.after[a])
            continue;
        if (!(source = tensor_create(g->arena, DT_INT64, &positions)))
            return FAIL_NOMEM();
        for (int64_t i = 0; i < dy->dim[a]; i++)
            tensor_set_int(source, i, pad_source(mode, i - r.before[a], dx->dim[a]));
        d = EMIT(g, GatherGrad, ATTRS(INT("axis", a), INT("dim", dx->dim[a])), d,
                 graph_add_const_nocopy(g, "sources", source));
    }
    graph_replace(g, n->out[0], d);
    return g->status;
}

DEFINE_OP(PadGrad, .flops_of = FLOPS_OF_INPUT, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 2,
          .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_F32_F64, .attrs = pad_attrs,
          .infer = infer_pad_grad, .standard = standard_pad_grad, .place = place_pad,
          .doc = "gradient of Pad that repeats x: dx[source(i)] += dy[i]; inputs dy, pads");

/* ---- DepthToSpace, SpaceToDepth ---- */

static Status infer_blocks(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    int64_t b = node_int(n, "blocksize"), square;
    Shape y = *x->shape;
    char text[SHAPE_TEXT];
    bool fits;

    if (y.rank != 4 || b < 1 || __builtin_mul_overflow(b, b, &square))
        return FAIL(E_SHAPE, "%s: blocks of %lld for an input of rank %d", node_text(g, n), (long long)b, y.rank);
    if (n->op == &op_DepthToSpace) {
        fits = y.dim[1] % square == 0 && !__builtin_mul_overflow(y.dim[2], b, &y.dim[2]) &&
               !__builtin_mul_overflow(y.dim[3], b, &y.dim[3]);
        y.dim[1] /= square;
    } else {
        fits = y.dim[2] % b == 0 && y.dim[3] % b == 0 && !__builtin_mul_overflow(y.dim[1], square, &y.dim[1]);
        y.dim[2] /= b;
        y.dim[3] /= b;
    }
    if (!fits)
        return FAIL(E_SHAPE, "%s: shape %s does not divide into blocks of %lld", node_text(g, n),
                    shape_text(x->shape, text), (long long)b);
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_space_to_depth(Grad *gr)
{
    int64_t b = node_int(gr->node, "blocksize");

    grad_set(gr, 0, EMIT(gr->g, DepthToSpace, ATTRS(INT("blocksize", b)), grad_dout(gr, 0)));
    return gr->g->status;
}

/* The inverse: of mode DCR SpaceToDepth, of mode CRD [N,C,H,b,W,b] -> [N,C,b,b,H,W]. */
static Status grad_depth_to_space(Grad *gr)
{
    Graph *g = gr->g;
    int64_t b = node_int(gr->node, "blocksize");
    const Shape *x = grad_in_value(gr, 0)->shape;
    ValueId dy = grad_dout(gr, 0);
    Shape s;

    if (node_string(gr->node, "mode")[0] == 'D') {
        grad_set(gr, 0, EMIT(g, SpaceToDepth, ATTRS(INT("blocksize", b)), dy));
        return g->status;
    }
    s = SHAPE(x->dim[0], x->dim[1] / (b * b), x->dim[2], b, x->dim[3], b);
    dy = emit_transpose(g, emit_reshape(g, dy, &s), 6, (const int64_t[]){ 0, 1, 3, 5, 2, 4 });
    grad_set(gr, 0, emit_reshape(g, dy, x));
    return g->status;
}

static Status place_blocks(Placement *p)
{
    return place_moved(p, (const int[MAX_RANK]){ 0, -1, -1, -1, -1, -1, -1, -1 }, "it mixes channels and pixels");
}

static Status infer_depth_to_space(Graph *g, Node *n)
{
    const char *mode = node_string(n, "mode");

    if (mode[0] != 'D' && mode[0] != 'C')
        return FAIL(E_MODEL, "%s: mode '%s', expected DCR or CRD", node_text(g, n), mode);
    return infer_blocks(g, n);
}

static bool respell_depth_to_space(Graph *g, Node *n, int opset)
{
    (void)g;
    (void)opset;
    return respell_without(g, n, "mode");
}

DEFINE_OP(DepthToSpace, .moves = 1, .since = 13, .from = 11, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .attrs = (const AttrDecl[]){ { "blocksize", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       { "mode", A_STRING, .s = "DCR", .words = "DCR CRD" },
                                       { 0 } },
          .respell = respell_depth_to_space, .infer = infer_depth_to_space, .grad = grad_depth_to_space,
          .place = place_blocks, .doc = "channels become blocks of pixels");

DEFINE_OP(SpaceToDepth, .moves = 1, .since = 13, .from = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .attrs = (const AttrDecl[]){ { "blocksize", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE }, { 0 } },
          .infer = infer_blocks, .grad = grad_space_to_depth, .place = place_blocks,
          .doc = "blocks of pixels become channels");
