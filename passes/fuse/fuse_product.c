/* fuse-product: nodes around a matrix product become part of it, as one Product node (graph/ops/product.c).
 *
 * An accelerator's library adds a bias, applies an activation or its derivative, sums rows and converts the result
 * while it is in registers.  Separate nodes each read and write the result again.  The pass fuses, in this order,
 *
 *   forward    Add of a row; Relu, Gelu by tanh.  Where others read the input of Gelu, it stays a value (aux): its
 *              gradient reads it
 *   backward   ReluGrad and GeluGrad of a product, if the forward product has the activation.  Relu's forward product
 *              then also writes a mask of bits, which the gradient reads instead of the result.  It does so only if a
 *              gradient that reads the mask is fused
 *   Cast       to float32 of a plain product of 16 bits: gradients of weights then lose no bits
 *   Add        last, of a tensor of the result's shape, such as a transformer's residual stream
 *   ReduceSum  of gradients over their rows: the gradients of biases
 *
 * A gradient [rows, n] is read by the product that computes the weight's gradient, which contracts the rows.  The sum
 * is then the sum of that product's operand along the contracted axis ("a", "b").  If there is no such product, the
 * Product that makes the gradient sums its result ("result").  On an H100 that costs 80 us more than the product of
 * GPT-2's GeluGrad alone, and the other way 22 us.  Views of the sum and its conversion to float32 disappear as well:
 * the sum is computed in float32.  A product does not fuse a sum that it would wait for.  A sum that stays a node, such
 * as that of a convolution's bias, still comes in float32 if only its conversion reads it.
 *
 * Legal where nothing else reads the fused values, on one device for one replica, if the device computes such a product
 * of two matrices.  Sums are the same but for their order; a 16-bit result is rounded once instead of after each step.
 * The pass runs behind layout, which decides what is stored by rows, and before fuse-elementwise, which would fuse the
 * epilogues itself. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/reachable.h"
#include "graph/ir/readers.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/product.gen.h"
#include "graph/ops/product.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "graph/ops/view.gen.h"
#include "passes/pass.h"

enum { MOST_LINKS = 4 };

/* A ReduceSum and the chain behind it: views and a Cast, each the only reader of the one before. */
typedef struct Sum {
    Node *link[MOST_LINKS]; /* [0]: the ReduceSum */
    int n;
    ValueId of, end;  /* of: the summed value from before its views; end: the last link's output */
    struct Sum *next; /* another sum of the same value */
} Sum;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Uses uses;
    int n_changed; /* ctx->n_changed when `uses` was found */
    Draft product; /* the product that others are fused into */
    Draft forward; /* the forward product of a gradient */
    Draft other;   /* another node that changes */

    /* while sums are fused */
    Sum **waiting;  /* [value] its sums that no product computes yet, in the order of their nodes */
    uint32_t *gone; /* [value] number of its uses that are removed */
    Reachability paths;
} Fusing;

/* ---- values ---- */

static int64_t columns(const Graph *g, ValueId v) { return shape_columns(value(g, v)->shape); }
static int64_t rows(const Graph *g, ValueId v) { return shape_rows(value(g, v)->shape); }

/* Is v `from` or views of it, and has each of them one reader? */
static bool is_alone(const Fusing *f, ValueId v, ValueId from)
{
    while (uses_count(&f->uses, v) == 1 && !value_eq(v, from))
        v = maker(f->g, v)->in[0];
    return value_eq(v, from) && uses_count(&f->uses, v) == 1;
}

/* Absorbs the views between `from` and v. */
static void absorb_views(Draft *d, ValueId v, ValueId from)
{
    for (; !value_eq(v, from); v = maker(d->g, v)->in[0])
        draft_absorb(d, maker(d->g, v));
}

/* Turns n into a Reshape of `of`. */
static void make_view(Fusing *f, Node *n, ValueId of)
{
    const ValueId y = n->out[0], shape = emit_shape_const(f->g, value(f->g, y)->shape);
    Draft *d = &f->other;

    draft_begin(d, n, &op_Reshape);
    draft_clear(d);
    draft_in(d, 0, of);
    draft_in(d, 1, shape);
    draft_out(d, 0, y);
    draft_attr(d, &(Attr)INT("allowzero", 1));
    draft_apply(d);
}

/* ---- products ---- */

/* Is v a float matrix stored by rows?  `axes`: its rows may lie along several axes. */
static bool is_operand(const Graph *g, ValueId v, bool axes)
{
    const Value *x = value(g, v);

    return dtype_is_float(x->dtype) && x->layout == LAYOUT_ROWS && shape_numel(x->shape) > 0 &&
           (axes ? x->shape->rank >= 2 : x->shape->rank == 2);
}

/* Drafts n as a Product.  False: n is no product of two matrices, the first perhaps with its rows along several axes. A
 * Gemm must add a row with beta 1, or nothing. */
static bool read_product(Draft *d, Node *n)
{
    const Graph *g = d->g;

    if (!n || (n->op != &op_MatMul && n->op != &op_BatchMatMul && n->op != &op_Gemm && n->op != &op_Product))
        return false;
    draft_begin(d, n, &op_Product);
    if (g->status || n->op == &op_Product)
        return !g->status;
    return is_operand(g, n->in[0], !node_int(&d->node, "transA")) && is_operand(g, n->in[1], false) &&
           is_operand(g, n->out[0], true) &&
           (n->op != &op_Gemm || !has_in(n, 2) ||
            (node_float(n, "beta") == 1 && in_value(g, n, 2)->shape->rank && rows(g, n->in[2]) == 1 &&
             columns(g, n->in[2]) == columns(g, n->out[0])));
}

static bool has_word(const Node *n, const char *attr, const char *what) { return !strcmp(node_string(n, attr), what); }

/* Has the Product nothing fused but a bias? */
static bool is_linear(const Node *n)
{
    return !node_int(n, "gradient") && has_word(n, "activation", "none") && has_word(n, "bias_grad", "none") &&
           !has_in(n, PRODUCT_ADDED);
}

static bool is_plain(const Node *n) { return is_linear(n) && !has_in(n, PRODUCT_BIAS); }

/* ---- forward ---- */

/* Drafts the product that makes v, with the bias row that a following Add adds. */
static bool read_linear(Draft *d, const Fusing *f, ValueId v)
{
    const Graph *g = f->g;
    Node *n = maker(g, v);

    for (int i = 0; n && n->op == &op_Add && i < 2; i++) {
        const ValueId x = n->in[i], row = n->in[1 - i];

        if (read_product(d, inner_maker(&f->uses, x)) && is_plain(&d->node) && same_place(d->of, n) &&
            rows(g, row) == 1 && value(g, row)->shape->rank && columns(g, row) == columns(g, x) &&
            shape_eq(value(g, x)->shape, value(g, n->out[0])->shape)) {
            draft_in(d, PRODUCT_BIAS, row);
            draft_out(d, PRODUCT_Y, n->out[0]);
            draft_absorb(d, n);
            return true;
        }
    }
    return read_product(d, n) && is_linear(&d->node);
}

/* Fuses an activation.  Views between the product and the activation are applied behind the activation instead. */
static Status take_activation(Fusing *f, Node *n)
{
    const char *what = n->op == &op_Relu                                         ? "relu"
                       : n->op == &op_Gelu && has_word(n, "approximate", "tanh") ? "gelu_tanh"
                                                                                 : NULL;
    const ValueId x = what ? skip_views(f->g, n->in[0]) : NO_VALUE;
    const bool alone = what && is_alone(f, n->in[0], x), moved = what && !value_eq(x, n->in[0]);
    Draft *d = &f->product;

    if (!what || (n->op == &op_Relu && !alone) || !read_linear(d, f, x) || !same_place(d->of, n))
        return ST_OK;
    draft_attr(d, &(Attr)STRING("activation", what));
    draft_out(d, PRODUCT_Y, n->out[0]);
    if (moved)
        draft_new_out(d, PRODUCT_Y, n->out[0], ".rows");
    else
        draft_absorb(d, n);
    if (alone)
        absorb_views(d, n->in[0], x);
    else
        draft_out(d, PRODUCT_AUX_OUT, x);
    if (!draft_try_apply(d))
        return f->g->status;
    if (moved)
        make_view(f, n, d->node.out[PRODUCT_Y]);
    f->ctx->n_changed++;
    return f->g->status;
}

static Status take_bias(Fusing *f, Node *add)
{
    if (add->op == &op_Add && read_linear(&f->product, f, add->out[0]))
        f->ctx->n_changed += draft_try_apply(&f->product);
    return f->g->status;
}

/* ---- backward ---- */

/* The Product whose activation n is the gradient of; NULL: none. */
static Node *forward_of(const Fusing *f, const Node *n)
{
    const ValueId v = skip_views(f->g, n->in[1]);
    Node *p = made_by(f->g, v, &op_Product);

    if (!p || node_int(p, "gradient") || !same_place(p, n))
        return NULL;
    if (n->op == &op_ReluGrad)
        return has_word(p, "activation", "relu") && value_eq(p->out[PRODUCT_Y], v) ? p : NULL;
    return has_word(n, "approximate", "tanh") && has_word(p, "activation", "gelu_tanh") &&
                   has_out(p, PRODUCT_AUX_OUT) && value_eq(p->out[PRODUCT_AUX_OUT], v)
               ? p
               : NULL;
}

/* Fuses ReluGrad or GeluGrad.  The forward product becomes one that writes aux, unless it does already. */
static Status take_gradient(Fusing *f, Node *n)
{
    Node *forward = n->op == &op_ReluGrad || n->op == &op_GeluGrad ? forward_of(f, n) : NULL;
    const ValueId dy = forward ? skip_views(f->g, n->in[0]) : NO_VALUE;
    const bool moved = forward && !value_eq(dy, n->in[0]);
    Draft *d = &f->product, *with_aux = &f->forward;

    if (!forward || !is_alone(f, n->in[0], dy) || !read_product(d, maker(f->g, dy)) || !is_plain(&d->node) ||
        !same_place(d->of, n))
        return f->g->status;
    if (read_product(with_aux, forward) && !has_out(forward, PRODUCT_AUX_OUT)) {
        draft_new_out(with_aux, PRODUCT_AUX_OUT, with_aux->node.out[PRODUCT_Y], ".aux");
        if (!draft_is_supported(with_aux))
            return f->g->status;
    }
    if (f->g->status)
        return f->g->status;
    draft_attr(d, &(Attr)INT("gradient", 1));
    draft_attr(d, &(Attr)STRING("activation", node_string(forward, "activation")));
    draft_in(d, PRODUCT_AUX, with_aux->node.out[PRODUCT_AUX_OUT]);
    draft_out(d, PRODUCT_Y, moved ? dy : n->out[0]);
    absorb_views(d, n->in[0], dy);
    if (!moved)
        draft_absorb(d, n);
    if (!draft_is_supported(d))
        return f->g->status;
    if (!has_out(forward, PRODUCT_AUX_OUT))
        draft_apply(with_aux);
    draft_apply(d);
    if (moved)
        make_view(f, n, dy);
    f->ctx->n_changed++;
    return f->g->status;
}

/* ---- 16-bit results that are converted to float32 ---- */

static bool widens(const Graph *g, const Node *n)
{
    return n->op == &op_Cast && node_int(n, "to") == DT_FLOAT32 && dtype_size(in_value(g, n, 0)->dtype) == 2;
}

static Status take_cast(Fusing *f, Node *n)
{
    Draft *d = &f->product;

    if (!widens(f->g, n) || !read_product(d, inner_maker(&f->uses, n->in[0])) || !is_plain(&d->node) ||
        !same_place(d->of, n))
        return f->g->status;
    draft_attr(d, &(Attr)INT("wide", 1));
    draft_out(d, PRODUCT_Y, n->out[0]);
    draft_absorb(d, n);
    f->ctx->n_changed += draft_try_apply(d);
    return f->g->status;
}

/* Lets a 16-bit ReduceSum that only n converts to float32 give float32. */
static Status widen_sum(Fusing *f, Node *n)
{
    const Graph *g = f->g;
    Node *sum = widens(g, n) ? inner_maker(&f->uses, n->in[0]) : NULL;
    Draft *d = &f->other;

    if (!sum || sum->op != &op_ReduceSum || !dtype_is_float(in_value(g, n, 0)->dtype) || !same_place(sum, n) ||
        in_value(g, n, 0)->layout != value(g, n->out[0])->layout)
        return ST_OK;
    draft_begin(d, sum, &op_ReduceSum);
    draft_attr(d, &(Attr)INT("wide", 1));
    draft_out(d, 0, n->out[0]);
    draft_absorb(d, n);
    f->ctx->n_changed += draft_try_apply(d);
    return g->status;
}

/* ---- sums of gradients ---- */

/* *out: does n sum a float matrix over all its rows? */
static Status sums_rows(bool *out, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    unsigned mask;

    *out = false;
    if (!dtype_is_float(x->dtype) || x->shape->rank < 2 || x->layout != LAYOUT_ROWS || shape_numel(x->shape) <= 0 ||
        (has_in(n, 1) && !value_const(g, n->in[1])))
        return ST_OK;
    TRY(reduce_axes(&mask, g, n));
    *out = mask == (1u << (x->shape->rank - 1)) - 1;
    return ST_OK;
}

/* *s: the sum that n is, with its links; s->n 0: n sums no rows. */
static Status read_sum_of_rows(Sum *s, const Fusing *f, Node *n)
{
    const Graph *g = f->g;
    bool fits = false;

    *s = (Sum){ .n = 0 };
    if (n->op == &op_ReduceSum)
        TRY(sums_rows(&fits, g, n));
    if (!fits)
        return ST_OK;
    s->of = skip_views(g, n->in[0]);
    s->end = n->out[0];
    s->link[s->n++] = n;
    while (s->n < MOST_LINKS && (n = only_reader(&f->uses, s->end)) && n->op && value_eq(n->in[0], s->end) &&
           (is_view(n) || widens(g, n)) && same_place(n, s->link[0])) {
        s->link[s->n++] = n;
        s->end = n->out[0];
    }
    return ST_OK;
}

/* ---- products that compute sums ---- */

/* Lets the drafted product compute the sum as well; `what`: "a", "b" or "result".  A sum of several axes gets its shape
 * from its last link, which becomes a Reshape.  *out: the device computes such a product. */
static Status take_sum(bool *out, Fusing *f, const Sum *s, const char *what)
{
    Draft *d = &f->product;
    const DType y = value(f->g, d->node.out[PRODUCT_Y])->dtype, end = value(f->g, s->end)->dtype;
    const bool flat = value(f->g, s->end)->shape->rank == 1, wide = dtype_size(y) == 2 && end == DT_FLOAT32;

    *out = false;
    if (end != y && !wide)
        return ST_OK;
    draft_attr(d, &(Attr)STRING("bias_grad", what));
    draft_attr(d, &(Attr)INT("wide_bias_grad", wide));
    if (flat)
        draft_out(d, PRODUCT_BIAS_GRAD, s->end);
    else
        draft_new_out(d, PRODUCT_BIAS_GRAD, s->end, ".sum");
    for (int i = 0; i < s->n - !flat; i++)
        draft_absorb(d, s->link[i]);
    if (!(*out = draft_is_supported(d)))
        return f->g->status;
    /* Removes the views of the summed value that only the ReduceSum still read. */
    for (ValueId v = s->link[0]->in[0]; !value_eq(v, s->of) && ++f->gone[v.i] == uses_count(&f->uses, v);) {
        Node *view = maker(f->g, v);

        v = view->in[0];
        graph_remove(f->g, view);
    }
    draft_apply(d);
    if (!flat)
        make_view(f, s->link[s->n - 1], d->node.out[PRODUCT_BIAS_GRAD]);
    f->ctx->n_changed++;
    return f->g->status;
}

/* Lets the product n sum the operand whose rows it contracts, for the first sum of it that does not wait for n. */
static Status by_operand(Fusing *f, Node *n, int operand)
{
    Draft *d = &f->product;
    const Uses *u = &f->uses;
    ValueId v;
    bool done;

    if (!n->op || !read_product(d, n) || !is_plain(&d->node) ||
        (operand == PRODUCT_A ? !node_int(&d->node, "transA") : node_int(&d->node, "transB")))
        return f->g->status;
    v = skip_views(f->g, d->node.in[operand]);
    for (Sum **s = v.i < f->uses.n_value ? &f->waiting[v.i] : NULL; s && *s; s = &(*s)->next) {
        if (!same_place(n, (*s)->link[0]) || reach_path_exists(&f->paths, (*s)->link[0], n))
            continue;
        draft_begin(d, n, &op_Product);
        TRY(take_sum(&done, f, *s, operand == PRODUCT_A ? "a" : "b"));
        if (!done)
            continue;
        for (int i = 0; i < (*s)->n; i++) /* n now computes the sum for its links and readers */
            if ((*s)->link[i]->op)
                reach_add_edge(&f->paths, n, (*s)->link[i]);
        for (uint32_t i = u->first[(*s)->end.i]; i < u->first[(*s)->end.i + 1]; i++)
            if (u->reader[i].n->op)
                reach_add_edge(&f->paths, n, u->reader[i].n);
        *s = (*s)->next;
        return ST_OK;
    }
    return ST_OK;
}

static Status take_sums(Fusing *f)
{
    Arena *a = f->ctx->scratch;
    Sum s;
    bool done;

    f->waiting = ARENA_NEW(a, Sum *, f->uses.n_value);
    f->gone = ARENA_NEW(a, uint32_t, f->uses.n_value);
    if (!f->waiting || !f->gone)
        return FAIL_NOMEM();
    FOR_NODES(f->g, n) {
        Sum **end, *kept;

        TRY(read_sum_of_rows(&s, f, n));
        if (!s.n)
            continue;
        if (!(kept = ARENA_NEW(a, Sum, 1)))
            return FAIL_NOMEM();
        *kept = s;
        for (end = &f->waiting[s.of.i]; *end; end = &(*end)->next)
            ;
        *end = kept;
    }
    TRY(reach_begin(&f->paths, f->g, a));
    FOR_NODES(f->g, n)
        for (int operand = PRODUCT_A; operand <= PRODUCT_B; operand++)
            TRY(by_operand(f, n, operand));
    for (uint32_t v = 0; v < f->uses.n_value; v++)
        for (const Sum *left = f->waiting[v]; left; left = left->next) {
            const Node *p = &f->product.node; /* the gradient's own product sums its result */

            if (read_product(&f->product, maker(f->g, left->of)) && node_int(p, "gradient") &&
                value_eq(p->out[PRODUCT_Y], left->of) && has_word(p, "bias_grad", "none") &&
                same_place(p, left->link[0]))
                TRY(take_sum(&done, f, left, "result"));
            TRY(f->g->status);
        }
    return f->g->status;
}

/* ---- entry ---- */

/* Finds the uses again if the graph has changed. */
static Status fuse_product_find_uses(Fusing *f)
{
    if (f->uses.g && f->n_changed == f->ctx->n_changed)
        return ST_OK;
    f->n_changed = f->ctx->n_changed;
    uses_forget(&f->uses, f->ctx->scratch);
    return uses_find(&f->uses, f->g, f->ctx->scratch);
}

static Status each(Fusing *f, Status (*step)(Fusing *, Node *))
{
    TRY(fuse_product_find_uses(f));
    FOR_NODES(f->g, n)
        TRY(step(f, n));
    return f->g->status;
}

/* ---- tensors that are added ---- */

/* Fuses Adds of a tensor of the result's shape and type, if the tensor is there when the product is computed.  A
 * product that waited for it would keep its operands in memory. */
static Status take_added(Fusing *f)
{
    Draft *d = &f->product;
    Reachability paths;

    TRY(graph_sort(f->g));
    TRY(reach_begin(&paths, f->g, f->ctx->scratch));
    TRY(fuse_product_find_uses(f));
    FOR_NODES(f->g, add)
        for (int i = 0; add->op == &op_Add && i < 2; i++) {
            const Graph *g = f->g;
            const Value *x = in_value(g, add, i), *other = in_value(g, add, 1 - i), *y = value(g, add->out[0]);
            const Node *by = maker(g, add->in[1 - i]);

            if (!read_product(d, inner_maker(&f->uses, add->in[i])) || !is_linear(&d->node) ||
                !same_place(d->of, add) || !shape_eq(x->shape, y->shape) || !shape_eq(other->shape, y->shape) ||
                other->dtype != x->dtype || other->layout != LAYOUT_ROWS || y->layout != LAYOUT_ROWS ||
                !reach_is_available(&paths, add->in[1 - i], d->of))
                continue;
            draft_in(d, PRODUCT_ADDED, add->in[1 - i]);
            draft_out(d, PRODUCT_Y, add->out[0]);
            draft_absorb(d, add);
            if (draft_try_apply(d)) {
                f->ctx->n_changed++;
                if (by)
                    reach_add_edge(&paths, by, d->of);
            }
            break;
        }
    return f->g->status;
}

static Status fuse_product_run(Graph *g, PassCtx *ctx)
{
    Fusing f = { .g = g, .ctx = ctx };

    if (!target_fuses(build_target(ctx->opt), &op_Product))
        return ST_OK;
    pass_draft(&f.product, g, ctx);
    pass_draft(&f.forward, g, ctx);
    pass_draft(&f.other, g, ctx);
    TRY(each(&f, take_activation));
    TRY(each(&f, take_bias));
    TRY(each(&f, take_gradient));
    TRY(each(&f, take_cast));
    TRY(fuse_product_find_uses(&f));
    TRY(take_sums(&f));
    TRY(each(&f, widen_sum));
    TRY(take_added(&f));
    return ctx->n_changed ? graph_sort(g) : g->status;
}

const Pass pass_fuse_product = { .name = "fuse-product",
                                 .summary = "merge biases, activations and sums into matrix products",
                                 .run = fuse_product_run };
