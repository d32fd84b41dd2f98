/* Matrix products.
 *
 *   MatMul        as in NumPy: batches broadcast; a 1-D operand is a row or a column, which the result lacks
 *   BatchMatMul   alpha * op(A) op(B) for operands of rank >= 2, op an optional transpose: gradients use it, so no
 *                 transposed copy is made
 *   Gemm          alpha * op(A) op(B) + beta * C for matrices */
#include "graph/ops/matmul.h"

#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/view.gen.h"

/* ---- inference ---- */

void matmul_roles(MatMulRoles *r, const Graph *g, const Node *n)
{
    bool ta, tb;

    r->a = *in_value(g, n, 0)->shape;
    r->b = *in_value(g, n, 1)->shape;
    ta = node_attr(n, "transA") && node_int(n, "transA");
    tb = node_attr(n, "transB") && node_int(n, "transB");
    r->row = r->a.rank < 2 ? -1 : r->a.rank - (ta ? 1 : 2);
    r->k_a = r->a.rank < 2 ? 0 : r->a.rank - (ta ? 2 : 1);
    r->k_b = r->b.rank < 2 ? 0 : r->b.rank - (tb ? 1 : 2);
    r->col = r->b.rank < 2 ? -1 : r->b.rank - (tb ? 2 : 1);
    r->batch_a = r->a.rank < 2 ? 0 : r->a.rank - 2;
    r->batch_b = r->b.rank < 2 ? 0 : r->b.rank - 2;
    r->batch_y = r->batch_a > r->batch_b ? r->batch_a : r->batch_b;
}

void matmul_offsets(int64_t *offset, const Shape *s, int batch, const Shape *y, int batch_y, int64_t size)
{
    for (int64_t i = 0, n = shape_count(y, 0, batch_y); i < n; i++) {
        int64_t rest = i, stride = size;

        offset[i] = 0;
        for (int a = batch_y - 1; a >= 0; a--) {
            int64_t at = rest % y->dim[a], own = a - (batch_y - batch);

            rest /= y->dim[a];
            if (own >= 0) {
                offset[i] += s->dim[own] == 1 ? 0 : at * stride;
                stride *= s->dim[own];
            }
        }
    }
}

/* E_UNSUPPORTED if a factor of integers is no integer. */
static Status check_factor(const Graph *g, const Node *n, const char *name)
{
    double v = node_attr(n, name) ? node_float(n, name) : 1;

    if (!dtype_is_float(in_value(g, n, 0)->dtype) && !(v >= INT32_MIN && v <= INT32_MAX && v == (double)(int32_t)v))
        return FAIL(E_UNSUPPORTED, "%s: %s is %g, expected a whole number for %s data", node_text(g, n), name, v,
                    dtype_name(in_value(g, n, 0)->dtype));
    return ST_OK;
}

static Status infer_product(Graph *g, Node *n)
{
    MatMulRoles r;
    Shape y, a, b;
    char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

    TRY(infer_same_dtype(g, n, 0, n->n_in));
    TRY(check_factor(g, n, "alpha"));
    TRY(check_factor(g, n, "beta"));
    matmul_roles(&r, g, n);
    if (r.a.rank < 1 || r.b.rank < 1 || r.a.dim[r.k_a] != r.b.dim[r.k_b])
        return FAIL(E_SHAPE, "%s: shapes %s and %s do not multiply", node_text(g, n), shape_text(&r.a, ta),
                    shape_text(&r.b, tb));
    a = shape_of(r.batch_a, r.a.dim);
    b = shape_of(r.batch_b, r.b.dim);
    TRY(shape_broadcast(&y, &a, &b, node_text(g, n)));
    if (r.row >= 0)
        y.dim[y.rank++] = r.a.dim[r.row];
    if (r.col >= 0)
        y.dim[y.rank++] = r.b.dim[r.col];
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return ST_OK;
}

static Status check_min_rank(const Graph *g, const Node *n, int min, int max)
{
    for (int i = 0; i < 2; i++)
        if (in_value(g, n, i)->shape->rank < min || in_value(g, n, i)->shape->rank > max)
            return FAIL(E_SHAPE, "%s: input %d has rank %d, expected %d or more", node_text(g, n), i,
                        in_value(g, n, i)->shape->rank, min);
    return ST_OK;
}

static Status infer_batch(Graph *g, Node *n)
{
    TRY(check_min_rank(g, n, 2, MAX_RANK));
    return infer_product(g, n);
}

static Status infer_gemm(Graph *g, Node *n)
{
    Shape y, c;

    TRY(check_min_rank(g, n, 2, 2));
    TRY(infer_product(g, n));
    y = *value(g, n->out[0])->shape;
    if (!has_in(n, 2))
        return ST_OK;
    TRY(shape_broadcast(&c, &y, in_value(g, n, 2)->shape, node_text(g, n)));
    if (!shape_eq(&c, &y))
        return FAIL(E_SHAPE, "%s: C does not broadcast to the product", node_text(g, n));
    return ST_OK;
}

/* ---- gradients ---- */

typedef struct {
    ValueId v;
    bool trans;
} Factor;

static Factor flip(Factor a) { return (Factor){ a.v, !a.trans }; }

static ValueId product(Graph *g, double alpha, Factor a, Factor b)
{
    return EMIT(g, BatchMatMul, ATTRS(INT("transA", a.trans), INT("transB", b.trans), FLOAT("alpha", alpha)), a.v, b.v);
}

/* [..., n, k] reshaped to a matrix [-1, k]; with -1 the constant does not fix the batch size. */
static ValueId flatten(Graph *g, ValueId x)
{
    const Shape *s = value(g, x)->shape;

    return s->rank == 2 ? x : EMIT(g, Reshape, NULL, x, emit_ints(g, 2, (int64_t[]){ -1, s->dim[s->rank - 1] }));
}

/* d(op(A)) = dY op(B)^T and d(op(B)) = op(A)^T dY, transposed where the operand was.  The caller sums over batches that
 * an operand was broadcast to.  For a matrix B used by every batch of A, batches and rows are joined to one axis. */
static void grad_operands(Grad *gr, double alpha, Factor a, Factor b, ValueId dy, ValueId *da, ValueId *db)
{
    Graph *g = gr->g;
    Factor d = { dy, false };

    if (grad_wanted(gr, 0))
        *da = a.trans ? product(g, alpha, b, flip(d)) : product(g, alpha, d, flip(b));
    if (!grad_wanted(gr, 1) || g->status)
        return;
    if (!a.trans && value(g, b.v)->shape->rank == 2 && value(g, a.v)->shape->rank > 2 &&
        shape_numel(value(g, a.v)->shape) && shape_numel(value(g, dy)->shape)) {
        a.v = flatten(g, a.v);
        d.v = flatten(g, dy);
    }
    *db = b.trans ? product(g, alpha, flip(d), a) : product(g, alpha, flip(a), d);
}

static Shape promoted(const Shape *s, bool column)
{
    return s->rank >= 2 ? *s : column ? SHAPE(s->dim[0], 1) : SHAPE(1, s->dim[0]);
}

static void set_reduced(Grad *gr, int i, ValueId d, const Shape *promoted)
{
    if (!grad_wanted(gr, i) || gr->g->status)
        return;
    d = emit_sum_to_shape(gr->g, d, promoted);
    grad_set(gr, i, emit_reshape(gr->g, d, grad_in_value(gr, i)->shape));
}

static Status grad_product(Grad *gr)
{
    Graph *g = gr->g;
    MatMulRoles r;
    bool general = gr->node->op == &op_BatchMatMul;
    Factor a = { grad_in(gr, 0), general && node_int(gr->node, "transA") };
    Factor b = { grad_in(gr, 1), general && node_int(gr->node, "transB") };
    ValueId dy = grad_dout(gr, 0), da = NO_VALUE, db = NO_VALUE;
    Shape sa, sb, sy;

    matmul_roles(&r, g, gr->node);
    sa = promoted(&r.a, false);
    sb = promoted(&r.b, true);
    sy = *value(g, dy)->shape;
    if (r.col < 0)
        sy.dim[sy.rank++] = 1;
    if (r.row < 0) {
        memmove(&sy.dim[sy.rank], &sy.dim[sy.rank - 1], sizeof *sy.dim);
        sy.dim[sy.rank++ - 1] = 1;
    }
    a.v = emit_reshape(g, a.v, &sa);
    b.v = emit_reshape(g, b.v, &sb);
    dy = emit_reshape(g, dy, &sy);
    grad_operands(gr, general ? node_float(gr->node, "alpha") : 1, a, b, dy, &da, &db);
    set_reduced(gr, 0, da, &sa);
    set_reduced(gr, 1, db, &sb);
    return g->status;
}

static Status grad_gemm(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    Factor a = { grad_in(gr, 0), node_int(n, "transA") }, b = { grad_in(gr, 1), node_int(n, "transB") };
    ValueId dy = grad_dout(gr, 0), da = NO_VALUE, db = NO_VALUE;
    double beta = node_float(n, "beta");

    grad_operands(gr, node_float(n, "alpha"), a, b, dy, &da, &db);
    grad_set(gr, 0, da);
    grad_set(gr, 1, db);
    if (!grad_wanted(gr, 2) || g->status)
        return g->status;
    dy = emit_sum_to_shape(g, dy, grad_in_value(gr, 2)->shape);
    if (beta != 1 && !g->status)
        dy = EMIT(g, Mul, NULL, dy, emit_scalar(g, value(g, dy)->dtype, beta));
    grad_set(gr, 2, dy);
    return g->status;
}

/* ---- placement ---- */

typedef enum { NOTHING, BATCH, FREE, CONTRACTED } Role;

/* The role of the axis along which input i is split; NOTHING also for a batch axis that is broadcast. */
static Role role_of_split(const Placement *p, const MatMulRoles *r, int i)
{
    Place x = p->in[i];
    const Shape *y = value(p->g, p->node->out[0])->shape;
    int batch = i ? r->batch_b : r->batch_a;

    if (x.kind != PL_S)
        return NOTHING;
    if (x.axis == (i ? r->k_b : r->k_a))
        return CONTRACTED;
    if (x.axis == (i ? r->col : r->row))
        return FREE;
    return (i ? r->b : r->a).dim[x.axis] == y->dim[r->batch_y - batch + x.axis] ? BATCH : NOTHING;
}

/* Places the other input to fit input `lead`, which is split along an axis with that role.  Returns the product's
 * placement. */
static Place place_led(Placement *p, const MatMulRoles *r, int lead, Role role)
{
    const Shape *s = lead ? &r->a : &r->b, *y = value(p->g, p->node->out[0])->shape;
    int other = 1 - lead, axis, own;
    Place before = p->in[other], out;

    if (role == CONTRACTED) {
        p->in[other] = PLACE_S(other ? r->k_b : r->k_a);
        out = PLACE_P;
    } else if (role == FREE) {
        p->in[other] = PLACE_B;
        out = PLACE_S(r->batch_y + (lead && r->row >= 0 ? 1 : 0));
    } else {
        axis = p->in[lead].axis + r->batch_y - (lead ? r->batch_b : r->batch_a);
        own = axis - (r->batch_y - (other ? r->batch_b : r->batch_a));
        p->in[other] = own < 0 || s->dim[own] != y->dim[axis] ? PLACE_B : PLACE_S(own); /* B: it is broadcast */
        out = PLACE_S(axis);
    }
    if (before.kind == PL_S && (p->in[other].kind != PL_S || before.axis != p->in[other].axis))
        place_mixes(p, "its operands are split along axes that do not match");
    return out;
}

/* Places inputs 0 and 1, and returns the product's placement. */
static Place place_operands(Placement *p)
{
    MatMulRoles r;

    matmul_roles(&r, p->g, p->node);
    if ((p->in[0].kind == PL_P && p->in[1].kind == PL_B) || (p->in[0].kind == PL_B && p->in[1].kind == PL_P))
        return PLACE_P;
    for (int i = 0; i < 2; i++) {
        Role role = role_of_split(p, &r, i);

        if (role == NOTHING && p->in[i].kind == PL_S)
            place_mixes(p, "it is broadcast along the split axis");
        if (role == NOTHING && p->in[i].kind != PL_L)
            p->in[i] = PLACE_B;
        else if (role != NOTHING)
            return place_led(p, &r, i, role);
    }
    if (p->in[0].kind == PL_L || p->in[1].kind == PL_L)
        return p->in[0] = p->in[1] = PLACE_L;
    return PLACE_B;
}

static Status place_product(Placement *p)
{
    place_set(p, 0, place_operands(p));
    return ST_OK;
}

/* C is placed like the product: split with it, and added once where the product is a partial sum. */
static Status place_gemm(Placement *p)
{
    Place y = place_operands(p);

    place_set(p, 0, y);
    if (!has_in(p->node, 2))
        return ST_OK;
    if (y.kind == PL_S) {
        const Shape *c = in_value(p->g, p->node, 2)->shape;
        int axis = y.axis - (2 - c->rank);
        bool full = axis >= 0 && c->dim[axis] == value(p->g, p->node->out[0])->shape->dim[y.axis];

        y = full ? PLACE_S(axis) : PLACE_B;
    }
    p->in[2] = y;
    return ST_OK;
}

static int64_t matmul_flops(const Graph *g, const Node *n)
{
    MatMulRoles r;

    matmul_roles(&r, g, n);
    return 2 * shape_numel(value(g, n->out[0])->shape) * r.a.dim[r.k_a];
}

/* ---- in ONNX's operators ---- */

static ValueId transposed(Graph *g, ValueId x, bool trans)
{
    const int rank = value(g, x)->shape->rank;
    int64_t perm[MAX_RANK];

    if (!trans || rank < 2)
        return x;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return emit_transpose(g, x, rank, perm);
}

static Status matmul_standard(Graph *g, Node *n)
{
    const bool ta = node_int(n, "transA"), tb = node_int(n, "transB");
    const Value *a = in_value(g, n, 0), *b = in_value(g, n, 1);
    const double alpha = node_float(n, "alpha");
    ValueId y;

    if (a->shape->rank == 2 && b->shape->rank == 2) {
        y = EMIT(g, Gemm, ATTRS(INT("transA", ta), INT("transB", tb), FLOAT("alpha", alpha)), n->in[0], n->in[1]);
    } else {
        ValueId left = transposed(g, n->in[0], ta), right = transposed(g, n->in[1], tb);

        y = EMIT(g, MatMul, NULL, left, right);
        if (alpha != 1)
            y = EMIT(g, Mul, NULL, y, emit_scalar(g, a->dtype, alpha));
    }
    graph_replace(g, n->out[0], y);
    return g->status;
}

#define TRANS_ATTRS \
    { "transA", A_INT, .i = 0 }, { "transB", A_INT, .i = 0 }, { "alpha", A_FLOAT, .f = 1 }
#define DTYPES_PRODUCT \
    (DTYPES_FLOAT | DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64) | DTYPE_BIT(DT_UINT32) | DTYPE_BIT(DT_UINT64))

static MatrixKind product_matrix(const Node *n, int i)
{
    (void)n;
    return i ? MATRIX_IN_OUT : MATRIX_OUT_IN;
}

DEFINE_OP(MatMul, .blocks = BLOCKS_PASS, .precision = PREC_LOW, .param_in = 3, .since = 13, .from = 1, .in_min = 2,
          .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_PRODUCT, .doc = "matrix product of numpy",
          .infer = infer_product, .grad = grad_product, .place = place_product, .flops = matmul_flops,
          .matrix_in = product_matrix);

DEFINE_OP(BatchMatMul, .blocks = BLOCKS_PASS, .precision = PREC_LOW, .domain = "dpexec", .since = 1, .in_min = 2,
          .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_PRODUCT,
          .attrs = (const AttrDecl[]){ TRANS_ATTRS, { 0 } }, .doc = "alpha * op(A) op(B)", .infer = infer_batch,
          .standard = matmul_standard, .grad = grad_product, .place = place_product, .flops = matmul_flops);

/* Before opset 11 C was required. */
static bool respell_gemm(Graph *g, Node *n, int opset)
{
    (void)g;
    (void)opset;
    return has_in(n, 2);
}

/* Up to opset 6 an attribute set whether C is broadcast; its shape shows that. */
static Status import_gemm(Graph *g, Node *n, int opset)
{
    if (opset < 7)
        node_remove_attr(g, n, "broadcast");
    return g->status;
}

static MatrixKind gemm_matrix(const Node *n, int i)
{
    if (i > 1)
        return MATRIX_NONE;
    return (node_int(n, i ? "transB" : "transA") != 0) == (i == 1) ? MATRIX_OUT_IN : MATRIX_IN_OUT;
}

DEFINE_OP(Gemm, .blocks = BLOCKS_PASS, .precision = PREC_LOW, .param_in = 7, .since = 13, .from = 11, .in_min = 2,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_PRODUCT,
          .attrs = (const AttrDecl[]){ TRANS_ATTRS, { "beta", A_FLOAT, .f = 1 }, { 0 } },
          .doc = "alpha * op(A) op(B) + beta * C", .import = import_gemm, .respell = respell_gemm, .infer = infer_gemm,
          .grad = grad_gemm, .place = place_gemm, .flops = matmul_flops, .matrix_in = gemm_matrix);
