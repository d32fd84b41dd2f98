/* GridSample: interpolation of x at the positions of a grid; AffineGrid: the grid of an affine map.
 *
 * x[N,C,spatial...], grid[N,out...,axes], y[N,C,out...].  A grid has coordinates -1 to 1 along the axes of x, the last
 * axis first; with dpexec's own attribute "elements" it has element positions, the first axis first.  A position
 * outside is rounded (mode nearest), then moved inside, before its neighbours are taken, as in ONNX.  In mode cubic
 * with padding border each neighbour is moved instead, as in PyTorch and ONNX Runtime but not in onnx.reference. */
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/grid_sample.gen.h"
#include "graph/ops/grid_sample_standard.h"
#include "graph/ops/matmul.gen.h"

enum { AXES_MAX = 3 };

static Status grid_sample_check_inputs(const Graph *g, const Node *n, int at)
{
    const Shape *x = in_value(g, n, at)->shape, *grid = in_value(g, n, at + 1)->shape;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (x->rank < 3 || x->rank > 2 + AXES_MAX)
        return FAIL(E_SHAPE, "%s: input of rank %d, expected [batch, channels] and 1 to %d spatial axes",
                    node_text(g, n), x->rank, AXES_MAX);
    if (grid->rank != x->rank || grid->dim[0] != x->dim[0] || grid->dim[grid->rank - 1] != x->rank - 2)
        return FAIL(E_SHAPE, "%s: grid is %s, expected [%lld, %d spatial axes, %d] for an input %s", node_text(g, n),
                    shape_text(grid, a), (long long)x->dim[0], x->rank - 2, x->rank - 2, shape_text(x, b));
    for (int i = 2; i < x->rank; i++)
        if (!x->dim[i])
            return FAIL(E_SHAPE, "%s: spatial axis %d is empty", node_text(g, n), i);
    if (!dtype_is_float(in_value(g, n, at + 1)->dtype))
        return FAIL(E_MODEL, "%s: the grid must be of floats", node_text(g, n));
    return ST_OK;
}

static Shape sampled(const Shape *x, const Shape *grid)
{
    Shape y = *x;

    for (int i = 2; i < y.rank; i++)
        y.dim[i] = grid->dim[i - 1];
    return y;
}

static Status grid_sample_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y;

    TRY(grid_sample_check_inputs(g, n, 0));
    y = sampled(x->shape, in_value(g, n, 1)->shape);
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

static Status grid_sample_infer_grad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 1), *grid = in_value(g, n, 2);
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    Shape y;

    TRY(infer_same_dtype(g, n, 0, 3));
    TRY(grid_sample_check_inputs(g, n, 1));
    y = sampled(x->shape, grid->shape);
    if (!shape_eq(&y, in_value(g, n, 0)->shape))
        return FAIL(E_SHAPE, "%s: the output gradient is %s, expected %s", node_text(g, n),
                    shape_text(in_value(g, n, 0)->shape, a), shape_text(&y, b));
    set_out(g, n, 0, x->dtype, x->shape);
    set_out(g, n, 1, grid->dtype, grid->shape);
    return g->status;
}

/* Casts a grid to the type of the data. */
static Status grid_sample_lower(Graph *g, Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;

    if (in_value(g, n, 1)->dtype != t)
        node_set_input(g, n, 1, emit_cast(g, n->in[1], t));
    return g->status;
}

static Status grid_sample_grad(Grad *gr)
{
    const Node *n = gr->node;
    const Attr *attrs =
        ATTRS(STRING("mode", node_string(n, "mode")), STRING("padding_mode", node_string(n, "padding_mode")),
              INT("align_corners", node_int(n, "align_corners")), INT("elements", node_int(n, "elements")));
    const bool mixed = grad_in_value(gr, 0)->dtype != grad_in_value(gr, 1)->dtype;
    ValueId grid = mixed ? emit_cast(gr->g, grad_in(gr, 1), grad_in_value(gr, 0)->dtype) : grad_in(gr, 1), d[2];

    EMIT_MULTI(gr->g, GridSampleGrad, attrs, 2, d, grad_dout(gr, 0), grad_in(gr, 0), grid);
    TRY(gr->g->status);
    if (grad_wanted(gr, 0))
        grad_set(gr, 0, d[0]);
    if (grad_wanted(gr, 1))
        grad_set(gr, 1, mixed ? emit_cast(gr->g, d[1], grad_in_value(gr, 1)->dtype) : d[1]);
    return gr->g->status;
}

/* Each sample has its own grid: all inputs are split along the batch, or none is. */
static Status grid_sample_place(Placement *p)
{
    bool split = false;
    Place all;

    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_S && p->in[i].axis == 0)
            split = true;
        else if (p->in[i].kind == PL_S)
            place_mixes(p, "it samples along the split axis");
    all = split ? PLACE_S(0) : place_any(p, PL_L) ? PLACE_L : PLACE_B;
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = all;
    place_set_all(p, all);
    return ST_OK;
}

/* Opset 16 has other names for the modes. */
static Status grid_sample_import(Graph *g, Node *n, int opset)
{
    const Attr *mode = node_attr(n, "mode");

    if (opset >= 20 || !mode || mode->type != A_STRING)
        return ST_OK;
    if (!strcmp(mode->s, "bilinear"))
        node_set_string(g, n, "mode", "linear");
    else if (!strcmp(mode->s, "bicubic"))
        node_set_string(g, n, "mode", "cubic");
    return g->status;
}

static bool grid_sample_respell(Graph *g, Node *n, int opset)
{
    const char *mode = node_string(n, "mode");

    if (opset < 16)
        return false;
    if (strcmp(mode, "nearest"))
        node_set_string(g, n, "mode", strcmp(mode, "linear") ? "bicubic" : "bilinear");
    return true;
}

static int64_t grid_sample_flops(const Graph *g, const Node *n)
{
    const Shape *y = value(g, n->out[0])->shape;
    const char *mode = node_string(n, "mode");

    return shape_numel(y) * 2 << (y->rank - 2) * (!strcmp(mode, "nearest") ? 0 : !strcmp(mode, "linear") ? 1 : 2);
}

#define HOW                                                                                                         \
    { "elements", A_INT, .rule = ATTR_OURS }, { "mode", A_STRING, .s = "linear", .words = "linear nearest cubic" }, \
        { "padding_mode", A_STRING, .s = "zeros", .words = "zeros border reflection" },                             \
    {                                                                                                               \
        "align_corners", A_INT, .i = 0                                                                              \
    }

DEFINE_OP(GridSample, .precision = PREC_WIDE, .since = 22, .from = 20, .in_min = 2, .in_max = 2, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ HOW, { 0 } }, .import = grid_sample_import,
          .respell = grid_sample_respell, .infer = grid_sample_infer, .lower = grid_sample_lower,
          .grad = grid_sample_grad, .standard = grid_sample_standard, .place = grid_sample_place,
          .flops = grid_sample_flops, .doc = "values between elements, at the positions of a grid");

DEFINE_OP(GridSampleGrad, .domain = "dpexec", .precision = PREC_WIDE, .since = 1, .in_min = 3, .in_max = 3,
          .out_min = 1, .out_max = 2, .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ HOW, { 0 } },
          .infer = grid_sample_infer_grad, .standard = grid_sample_standard_grad, .place = grid_sample_place,
          .doc = "gradients of GridSample by x and grid, from (dy, x, grid)");

/* ---- AffineGrid: theta[N,axes,axes+1] applied to the positions of the elements of an array ---- */

/* Reads the grid's shape; *known false: the size depends on data.  The positions [.., axes + 1] do not overflow. */
static Status read_size(const Graph *g, const Node *n, Shape *y, bool *known)
{
    const Shape *theta = in_value(g, n, 0)->shape;
    int64_t size[MAX_RANK];
    char text[SHAPE_TEXT];
    int count;

    *known = value_const(g, n->in[1]) != NULL;
    if (!*known)
        return ST_OK;
    TRY(value_const_ints(g, n->in[1], size, MAX_RANK, &count));
    if (count < 4 || count > 5)
        return FAIL(E_SHAPE, "%s: %d sizes, expected 4 or 5", node_text(g, n), count);
    if (theta->rank != 3 || theta->dim[0] != size[0] || theta->dim[1] != count - 2 || theta->dim[2] != count - 1)
        return FAIL(E_SHAPE, "%s: theta is %s, expected [%lld,%d,%d]", node_text(g, n), shape_text(theta, text),
                    (long long)size[0], count - 2, count - 1);
    *y = SHAPE(size[0]);
    y->rank = count;
    for (int i = 2; i < count; i++) {
        if (size[i] < 0)
            return FAIL(E_SHAPE, "%s: a negative size", node_text(g, n));
        y->dim[i - 1] = size[i];
    }
    y->dim[count - 1] = count - 1;
    TRY(shape_check(y, sizeof(double)));
    y->dim[count - 1] = count - 2;
    return ST_OK;
}

static Status infer_affine(Graph *g, Node *n)
{
    Shape y = shape_unknown();
    bool known;

    TRY(read_size(g, n, &y, &known));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

/* [elements, axes + 1]: the coordinates of each element, the last axis first, and 1. */
static ValueId emit_positions(Graph *g, DType t, const Shape *y, bool align)
{
    const int axes = y->rank - 2;
    const Shape shape = SHAPE(shape_count(y, 1, y->rank - 1), axes + 1);
    Tensor *all = tensor_create(g->arena, t, &shape);

    if (!all) {
        (void)(g->status = FAIL_NOMEM());
        return NO_VALUE;
    }
    for (int64_t i = 0; i < shape.dim[0]; i++) {
        int64_t rest = i;

        for (int a = 0; a < axes; a++) {
            const int64_t dim = y->dim[axes - a], at = rest % dim;
            const double end = align ? (double)(dim - 1) : (double)dim, twice = 2 * (double)at + (align ? 0 : 1);

            tensor_set_float(all, i * (axes + 1) + a, end > 0 ? twice / end - 1 : 0);
            rest /= dim;
        }
        tensor_set_float(all, i * (axes + 1) + axes, 1);
    }
    return graph_add_const_nocopy(g, "positions", all);
}

static Status lower_affine(Graph *g, Node *n)
{
    Shape y;
    ValueId grid, theta;
    bool known;

    TRY(read_size(g, n, &y, &known));
    if (!known)
        return FAIL(E_UNSUPPORTED, "%s: the size depends on data, expected a constant", node_text(g, n));
    grid = emit_positions(g, in_value(g, n, 0)->dtype, &y, node_int(n, "align_corners") != 0);
    theta = emit_transpose(g, n->in[0], 3, (int64_t[]){ 0, 2, 1 });
    grid = EMIT(g, MatMul, NULL, grid, theta);
    grid = emit_reshape(g, grid, &y);
    if (!g->status)
        graph_replace(g, n->out[0], grid);
    return g->status;
}

DEFINE_OP(AffineGrid, .since = 20, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "align_corners", A_INT, .i = 0 }, { 0 } }, .infer = infer_affine,
          .lower = lower_affine, .doc = "the grid of an affine map of positions");
