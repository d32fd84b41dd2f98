/* fuse_product: what stands around a matrix product becomes part of it: one Product node (graph/ops/product.c).
 *
 * An accelerator's library adds a bias, applies an activation or its derivative, sums rows and converts the result
 * while it is in registers; as a node of its own each of these reads and writes it all again.  Taken in are, in this
 * order,
 *
 *   forward    Add of a row; Relu, Gelu by tanh.  What came before Gelu stays a value (aux) where others read it: its
 *              gradient does
 *   backward   ReluGrad, GeluGrad of a product, where the forward product has the activation.  Relu's then leaves a
 *              mask of bits instead of a second reading of the result; it is written only when a gradient is taken in
 *              that reads it
 *   Cast       to float32 of a plain product of 16 bits: gradients of weights then lose no bits
 *   Add        of a tensor of the result's shape, as the residual stream of a transformer is; last of all
 *   ReduceSum  of gradients over their rows, by which biases are learned
 *
 * A gradient [rows, n] is read by the product that makes the gradient of the weight, which contracts the rows: there
 * the sum is that of an operand along the contracted axis ("a", "b").  Where there is none, a Product that makes the
 * gradient sums it while that is written ("result"), which costs an H100 80 us more than the product of GPT-2's
 * GeluGrad alone, and the other way 22 us.  Views of the sum and its conversion to float32 go away as well: it is
 * computed in that.  A product that waits for the sum by other nodes does not take it in.  A sum that stays a node, as
 * that of the bias of a convolution does, still comes in float32 where its conversion to that is all that reads it.
 *
 * Legal where nothing else reads what disappears, on one device for one replica, when the product is one of two
 * matrices and the device computes it so.  Sums are the same but for their order; a 16-bit result is rounded once
 * instead of after each step.  Behind layout, which decides what lies by rows; before fuse-elementwise, which would
 * take the epilogues for itself. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/product.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/product.h"
#include "graph/ops/reduce.h"
#include "graph/ir/reachable.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Uses uses;                     /* as the present step found them */
    int n_changed;                 /* when it did */
    Draft product, forward, other; /* what takes in, the forward product of a gradient, another node that changes */
} Fusing;

/* ---- values ---- */

static int64_t columns(const Graph *g, ValueId v) { return shape_columns(value(g, v)->shape); }
static int64_t rows(const Graph *g, ValueId v) { return shape_rows(value(g, v)->shape); }

/* Is `from` read once, for views that are read once, up to v? */
static bool is_alone(const Fusing *f, ValueId v, ValueId from)
{
    while (uses_count(&f->uses, v) == 1 && !value_eq(v, from))
        v = maker(f->g, v)->in[0];
    return value_eq(v, from) && uses_count(&f->uses, v) == 1;
}

static void absorb_views(Draft *d, ValueId v, ValueId from)
{
    for (; !value_eq(v, from); v = maker(d->g, v)->in[0])
        draft_absorb(d, maker(d->g, v));
}

/* n becomes what gives `of` the shape of n's output. */
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

/* beta = 1 and C a row, or no C. */
static bool adds_row(const Graph *g, const Node *n)
{
    return !has_in(n, 2) || (node_float(n, "beta") == 1 && in_value(g, n, 2)->shape->rank && rows(g, n->in[2]) == 1 &&
                             columns(g, n->in[2]) == columns(g, n->out[0]));
}

/* One matrix, or with `axes` one whose rows lie along several. */
static bool is_operand(const Graph *g, ValueId v, bool axes)
{
    const Value *x = value(g, v);

    return dtype_is_float(x->dtype) && x->layout == LAYOUT_ROWS && shape_numel(x->shape) > 0 &&
           (axes ? x->shape->rank >= 2 : x->shape->rank == 2);
}

/* n as a Product; false when it is no product of two matrices, of which the first may have its rows along several
 * axes. */
static bool read_product(Draft *d, Node *n)
{
    const Graph *g = d->g;

    if (!n || (n->op != &op_MatMul && n->op != &op_BatchMatMul && n->op != &op_Gemm && n->op != &op_Product))
        return false;
    draft_begin(d, n, &op_Product);
    if (g->status || n->op == &op_Product)
        return !g->status;
    return is_operand(g, n->in[0], !node_int(&d->node, "transA")) && is_operand(g, n->in[1], false) &&
           is_operand(g, n->out[0], true) && (n->op != &op_Gemm || adds_row(g, n));
}

static bool says(const Node *n, const char *attr, const char *what) { return !strcmp(node_string(n, attr), what); }

/* Nothing behind the product but a bias. */
static bool is_linear(const Node *n)
{
    return !node_int(n, "gradient") && says(n, "activation", "none") && says(n, "bias_grad", "none") &&
           !has_in(n, PRODUCT_ADDED);
}

static bool is_plain(const Node *n) { return is_linear(n) && !has_in(n, PRODUCT_BIAS); }

/* ---- forward ---- */

/* A product at input i of `add` that the other input is a row for. */
static bool read_sum(Draft *d, const Fusing *f, const Node *add, int i)
{
    const Graph *g = f->g;
    const ValueId x = add->in[i], row = add->in[1 - i];

    return read_product(d, inner_maker(&f->uses, x)) && is_plain(&d->node) && same_place(d->of, add) &&
           rows(g, row) == 1 && value(g, row)->shape->rank && columns(g, row) == columns(g, x) &&
           shape_eq(value(g, x)->shape, value(g, add->out[0])->shape);
}

/* The product, perhaps with a bias that is still added to it, that makes v. */
static bool read_linear(Draft *d, const Fusing *f, ValueId v)
{
    Node *n = maker(f->g, v);

    for (int i = 0; n && n->op == &op_Add && i < 2; i++)
        if (read_sum(d, f, n, i)) {
            draft_in(d, PRODUCT_BIAS, n->in[1 - i]);
            draft_out(d, PRODUCT_Y, n->out[0]);
            draft_absorb(d, n);
            return true;
        }
    return read_product(d, n) && is_linear(&d->node);
}

/* What the Product says of an activation node; NULL: nothing. */
static const char *activation_of(const Node *n)
{
    if (n->op == &op_Relu)
        return "relu";
    return n->op == &op_Gelu && says(n, "approximate", "tanh") ? "gelu_tanh" : NULL;
}

/* The activation may stand behind views, which then follow it. */
static Status take_activation(Fusing *f, Node *n)
{
    const char *what = activation_of(n);
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

/* The Product whose activation's derivative n multiplies by, or NULL. */
static Node *forward_of(const Fusing *f, const Node *n)
{
    const ValueId v = skip_views(f->g, n->in[1]);
    Node *p = made_by(f->g, v, &op_Product);

    if (!p || node_int(p, "gradient") || !same_place(p, n))
        return NULL;
    if (n->op == &op_ReluGrad)
        return says(p, "activation", "relu") && value_eq(p->out[PRODUCT_Y], v) ? p : NULL;
    return says(n, "approximate", "tanh") && says(p, "activation", "gelu_tanh") && has_out(p, PRODUCT_AUX_OUT) &&
                   value_eq(p->out[PRODUCT_AUX_OUT], v)
               ? p
               : NULL;
}

/* What the forward product would be that makes what its gradient reads; it may be that already. */
static bool read_forward(Draft *d, Node *forward)
{
    if (!read_product(d, forward) || has_out(forward, PRODUCT_AUX_OUT))
        return !d->g->status;
    draft_new_out(d, PRODUCT_AUX_OUT, d->node.out[PRODUCT_Y], ".aux");
    return draft_is_supported(d);
}

/* The forward product makes a mask only when the gradient is taken in. */
static Status take_gradient(Fusing *f, Node *n)
{
    Node *forward = n->op == &op_ReluGrad || n->op == &op_GeluGrad ? forward_of(f, n) : NULL;
    const ValueId dy = forward ? skip_views(f->g, n->in[0]) : NO_VALUE;
    const bool moved = forward && !value_eq(dy, n->in[0]);
    Draft *d = &f->product, *with_aux = &f->forward;

    if (!forward || !is_alone(f, n->in[0], dy) || !read_product(d, maker(f->g, dy)) || !is_plain(&d->node) ||
        !same_place(d->of, n) || !read_forward(with_aux, forward))
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

/* ---- results of 16 bits that are needed as float32 ---- */

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

/* A ReduceSum of 16 bits that nothing but n reads. */
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

enum { MOST_LINKS = 4 };

/* A ReduceSum and what stands behind it: views and a Cast, each the only reader of the one before. */
typedef struct Sum {
    Node *link[MOST_LINKS]; /* [0]: the ReduceSum */
    int n;
    ValueId of, end;  /* of: what is summed, from before views of it */
    struct Sum *next; /* of the same value */
} Sum;

typedef struct {
    Fusing *f;
    Sum **waiting;  /* [value] those of it that no product has taken yet, in the order of their nodes */
    uint32_t *gone; /* [value] of its uses */
    Reachability paths;
} Sums;

/* Does n sum something of several rows over all of them? */
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

/* Nodes that are left out when the sum comes in another shape or in float32. */
static bool is_link(const Graph *g, const Node *n, ValueId v)
{
    return n->op && value_eq(n->in[0], v) && (is_view(n) || widens(g, n));
}

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
    while (s->n < MOST_LINKS && (n = only_reader(&f->uses, s->end)) && is_link(g, n, s->end) &&
           same_place(n, s->link[0])) {
        s->link[s->n++] = n;
        s->end = n->out[0];
    }
    return ST_OK;
}

/* ---- who makes the sum ---- */

/* Views of what was summed that the ReduceSum alone still read. */
static void remove_views(Sums *all, ValueId v, ValueId of)
{
    while (!value_eq(v, of) && ++all->gone[v.i] == uses_count(&all->f->uses, v)) {
        Node *n = maker(all->f->g, v);

        v = n->in[0];
        graph_remove(all->f->g, n);
    }
}

/* The product that f->product holds makes the sum of `what` as well.  A sum that is not flat gets its shape from the
 * last of the nodes that are left out. */
static Status take_sum(bool *out, Sums *all, const Sum *s, const char *what)
{
    Fusing *f = all->f;
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
    remove_views(all, s->link[0]->in[0], s->of);
    draft_apply(d);
    if (!flat)
        make_view(f, s->link[s->n - 1], d->node.out[PRODUCT_BIAS_GRAD]);
    f->ctx->n_changed++;
    return f->g->status;
}

/* The product that makes the gradient sums its result. */
static Status by_result(Sums *all, const Sum *s)
{
    const Node *p = &all->f->product.node;
    bool done;

    if (!read_product(&all->f->product, maker(all->f->g, s->of)) || !node_int(p, "gradient") ||
        !value_eq(p->out[PRODUCT_Y], s->of) || !says(p, "bias_grad", "none") || !same_place(p, s->link[0]))
        return all->f->g->status;
    return take_sum(&done, all, s, "result");
}

/* n computes now what is read at the end of a sum, or in its last link. */
static void note_readers(Sums *all, const Node *n, const Sum *s)
{
    const Uses *u = &all->f->uses;

    for (int i = 0; i < s->n; i++)
        if (s->link[i]->op)
            reach_add_edge(&all->paths, n, s->link[i]);
    for (uint32_t i = u->first[s->end.i]; i < u->first[s->end.i + 1]; i++)
        if (u->reader[i].n->op)
            reach_add_edge(&all->paths, n, u->reader[i].n);
}

/* The product n sums the operand whose rows it contracts. */
static Status by_operand(Sums *all, Node *n, int operand)
{
    Draft *d = &all->f->product;
    ValueId v;
    bool done;

    if (!n->op || !read_product(d, n) || !is_plain(&d->node) ||
        (operand == PRODUCT_A ? !node_int(&d->node, "transA") : node_int(&d->node, "transB")))
        return all->f->g->status;
    v = skip_views(all->f->g, d->node.in[operand]);
    for (Sum **s = v.i < all->f->uses.n_value ? &all->waiting[v.i] : NULL; s && *s; s = &(*s)->next) {
        if (!same_place(n, (*s)->link[0]) || reach_path_exists(&all->paths, (*s)->link[0], n))
            continue;
        draft_begin(d, n, &op_Product);
        TRY(take_sum(&done, all, *s, operand == PRODUCT_A ? "a" : "b"));
        if (done) {
            note_readers(all, n, *s);
            *s = (*s)->next;
            return ST_OK;
        }
    }
    return ST_OK;
}

static Status wait(Sums *all, const Sum *s)
{
    Sum **end = &all->waiting[s->of.i], *kept = ARENA_NEW(all->f->ctx->scratch, Sum, 1);

    if (!kept)
        return FAIL_NOMEM();
    *kept = *s;
    while (*end)
        end = &(*end)->next;
    *end = kept;
    return ST_OK;
}

static Status take_sums(Fusing *f)
{
    Arena *a = f->ctx->scratch;
    Sums all = { .f = f,
                 .waiting = ARENA_NEW(a, Sum *, f->uses.n_value),
                 .gone = ARENA_NEW(a, uint32_t, f->uses.n_value) };
    Sum s;

    if (!all.waiting || !all.gone)
        return FAIL_NOMEM();
    FOR_NODES(f->g, n) {
        TRY(read_sum_of_rows(&s, f, n));
        if (s.n)
            TRY(wait(&all, &s));
    }
    TRY(reach_begin(&all.paths, f->g, a));
    FOR_NODES(f->g, n)
        for (int operand = PRODUCT_A; operand <= PRODUCT_B; operand++)
            TRY(by_operand(&all, n, operand));
    for (uint32_t v = 0; v < f->uses.n_value; v++)
        for (const Sum *left = all.waiting[v]; left; left = left->next)
            TRY(by_result(&all, left));
    return f->g->status;
}

/* ---- entry ---- */

/* Lists uses anew, where anything has changed. */
static Status fuse_product_look(Fusing *f)
{
    if (f->uses.g && f->n_changed == f->ctx->n_changed)
        return ST_OK;
    f->n_changed = f->ctx->n_changed;
    uses_forget(&f->uses, f->ctx->scratch);
    return uses_find(&f->uses, f->g, f->ctx->scratch);
}

static Status each(Fusing *f, Status (*step)(Fusing *, Node *))
{
    TRY(fuse_product_look(f));
    FOR_NODES(f->g, n)
        TRY(step(f, n));
    return f->g->status;
}

/* ---- tensors that are added ---- */

/* Input i of `add`, made by a product, with another input that is a tensor of its shape and type. */
static bool read_added(Draft *d, const Fusing *f, const Node *add, int i)
{
    const Value *x = in_value(f->g, add, i), *other = in_value(f->g, add, 1 - i), *y = value(f->g, add->out[0]);

    return read_product(d, inner_maker(&f->uses, add->in[i])) && is_linear(&d->node) && same_place(d->of, add) &&
           shape_eq(x->shape, y->shape) && shape_eq(other->shape, y->shape) && other->dtype == x->dtype &&
           other->layout == LAYOUT_ROWS && y->layout == LAYOUT_ROWS;
}

static void take_other(Fusing *f, Reachability *paths, Node *add, int i)
{
    const Node *by = maker(f->g, add->in[i]);
    Draft *d = &f->product;

    draft_in(d, PRODUCT_ADDED, add->in[i]);
    draft_out(d, PRODUCT_Y, add->out[0]);
    draft_absorb(d, add);
    if (!draft_try_apply(d))
        return;
    f->ctx->n_changed++;
    if (by)
        reach_add_edge(paths, by, d->of);
}

/* Not taken in is what would make the product wait: its operands would take memory until then. */
static Status take_added(Fusing *f)
{
    Draft *d = &f->product;
    Reachability paths;

    TRY(graph_sort(f->g));
    TRY(reach_begin(&paths, f->g, f->ctx->scratch));
    TRY(fuse_product_look(f));
    FOR_NODES(f->g, add)
        for (int i = 0; add->op == &op_Add && i < 2; i++)
            if (read_added(d, f, add, i) && reach_is_available(&paths, add->in[1 - i], d->of)) {
                take_other(f, &paths, add, 1 - i);
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
    TRY(fuse_product_look(&f));
    TRY(take_sums(&f));
    TRY(each(&f, widen_sum));
    TRY(take_added(&f));
    return ctx->n_changed ? graph_sort(g) : g->status;
}

const Pass pass_fuse_product = { .name = "fuse-product",
                                 .summary = "make what stands around a matrix product part of it",
                                 .run = fuse_product_run };
