/* fuse_product: what stands around a matrix product becomes part of it: one Product node (graph/ops/product.c).
 *
 * An accelerator's library adds a bias, applies an activation or its derivative, sums rows and converts the result
 * while it is in registers; as a node of its own each of these reads and writes it all again.  Taken in are, in this
 * order,
 *
 *   forward    Add of a row; Relu, Gelu by tanh.  What came before Gelu stays a value (aux) where others read it: its
 * gradient does backward   ReluGrad, GeluGrad of a product, where the forward product has the activation.  Relu's then
 * leaves a mask of bits instead of a second reading of the result; it is written only when a gradient is taken in that
 * reads it Cast       to float32 of a plain product of 16 bits: gradients of weights then lose no bits ReduceSum  of
 * gradients over their rows, as biases have it (passes/fuse/fuse_product_sums.c).  Others take in their Cast to float32
 *
 * Legal where nothing else reads what disappears, on one device for one replica, when the product is one of two
 * matrices and the device computes it so.  Sums are the same but for their order; a 16-bit result is rounded once
 * instead of after each step. Behind layout, which decides what lies by rows; before fuse-elementwise, which would take
 * the epilogues for itself. */
#include "passes/fuse/fuse_product.h"

#include <string.h>

/* ---- forward ---- */

typedef struct {
    Node *product, *add;
} Linear; /* add: NULL when there is none */

/* A product at input i of `add` that the other input is a row for. */
static bool read_sum(Draft *d, const Fusing *f, const Node *add, int i)
{
    const Graph *g = f->g;
    ValueId x = add->in[i], row = add->in[1 - i];

    return draft_read(d, f, fusing_inner(f, x)) && draft_is_plain(d) && fusing_same_place(value(g, x)->producer, add) &&
           fusing_rows(g, row) == 1 && value(g, row)->shape.rank && fusing_columns(g, row) == fusing_columns(g, x) &&
           shape_eq(&value(g, x)->shape, &value(g, add->out[0])->shape);
}

/* The product, perhaps with a bias, that makes v. */
static bool read_linear(Draft *d, Linear *l, const Fusing *f, ValueId v)
{
    Node *n = value(f->g, v)->producer;

    *l = (Linear){ .product = n };
    if (n && n->op == &op_Add)
        for (int i = 0; i < 2; i++)
            if (read_sum(d, f, n, i)) {
                *l = (Linear){ value(f->g, n->in[i])->producer, n };
                d->in[PRODUCT_BIAS] = n->in[1 - i];
                d->out[PRODUCT_Y] = n->out[0];
                return true;
            }
    return draft_read(d, f, n) && !strcmp(d->activation, "none") && !d->gradient && !strcmp(d->sum, "none");
}

/* What the Product says of an activation node; NULL: nothing. */
static const char *activation_of(const Node *n)
{
    if (n->op == &op_Relu)
        return "relu";
    return n->op == &op_Gelu && !strcmp(node_string(n, "approximate"), "tanh") ? "gelu_tanh" : NULL;
}

/* The activation may stand behind views, which then follow it. */
static Status take_activation(Fusing *f, Node *n)
{
    const ValueId x = activation_of(n) ? fusing_behind_views(f, n->in[0]) : NO_VALUE;
    Linear l;
    Draft d;
    bool alone, moved, fits;

    if (!has_value(x) || !read_linear(&d, &l, f, x) || !fusing_same_place(l.product, n))
        return ST_OK;
    alone = fusing_is_alone(f, n->in[0], x);
    moved = !value_eq(x, n->in[0]);
    if (n->op == &op_Relu && !alone)
        return ST_OK;
    d.activation = activation_of(n);
    d.out[PRODUCT_Y] = n->out[0];
    if (moved)
        draft_add_output(f, &d, PRODUCT_Y, n->out[0], ".rows");
    if (!alone)
        d.out[PRODUCT_AUX_OUT] = x;
    TRY(draft_fits(&fits, f, &d, l.product));
    if (!fits)
        return ST_OK;
    if (alone)
        fusing_remove_views(f, n->in[0], x);
    if (l.add)
        graph_remove(f->g, l.add);
    moved ? fusing_make_view(f, n, d.out[PRODUCT_Y]) : graph_remove(f->g, n);
    draft_settle(f, &d, l.product);
    return f->g->status;
}

static Status take_bias(Fusing *f, Node *add)
{
    Linear l;
    Draft d;
    bool fits;

    if (add->op != &op_Add || !read_linear(&d, &l, f, add->out[0]))
        return ST_OK;
    TRY(draft_fits(&fits, f, &d, l.product));
    if (!fits)
        return ST_OK;
    graph_remove(f->g, add);
    draft_settle(f, &d, l.product);
    return ST_OK;
}

/* ---- backward ---- */

/* The Product whose activation's derivative n multiplies by, or NULL. */
static Node *forward_of(const Fusing *f, const Node *n)
{
    const ValueId v = fusing_behind_views(f, n->in[1]);
    Node *p = value(f->g, v)->producer;

    if (!p || p->op != &op_Product || node_int(p, "gradient") || !fusing_same_place(p, n))
        return NULL;
    if (n->op == &op_ReluGrad)
        return !strcmp(node_string(p, "activation"), "relu") && value_eq(p->out[PRODUCT_Y], v) ? p : NULL;
    return !strcmp(node_string(n, "approximate"), "tanh") && !strcmp(node_string(p, "activation"), "gelu_tanh") &&
                   has_out(p, PRODUCT_AUX_OUT) && value_eq(p->out[PRODUCT_AUX_OUT], v)
               ? p
               : NULL;
}

/* What the forward product would be that makes what its gradient reads; it may be that already. */
static Status read_forward(bool *out, Fusing *f, Draft *d, const Node *forward)
{
    *out = draft_read(d, f, forward);
    if (!*out || has_value(d->out[PRODUCT_AUX_OUT]))
        return ST_OK;
    draft_add_output(f, d, PRODUCT_AUX_OUT, d->out[PRODUCT_Y], ".aux");
    return draft_fits(out, f, d, forward);
}

/* The forward product makes a mask only when the gradient is taken in. */
static Status take_gradient(Fusing *f, Node *n)
{
    const bool asks = n->op == &op_ReluGrad || n->op == &op_GeluGrad;
    Node *forward = asks ? forward_of(f, n) : NULL, *p;
    const ValueId dy = forward ? fusing_behind_views(f, n->in[0]) : NO_VALUE;
    const bool moved = !value_eq(dy, n->in[0]);
    Draft d, with_aux;
    bool fits;

    p = forward && fusing_is_alone(f, n->in[0], dy) ? value(f->g, dy)->producer : NULL;
    if (!draft_read(&d, f, p) || !draft_is_plain(&d) || !fusing_same_place(p, n))
        return ST_OK;
    TRY(read_forward(&fits, f, &with_aux, forward));
    if (!fits)
        return ST_OK;
    d.gradient = true;
    d.activation = node_string(forward, "activation");
    d.in[PRODUCT_AUX] = with_aux.out[PRODUCT_AUX_OUT];
    d.out[PRODUCT_Y] = moved ? dy : n->out[0];
    TRY(draft_fits(&fits, f, &d, p));
    if (!fits)
        return ST_OK;
    if (!has_out(forward, PRODUCT_AUX_OUT))
        draft_settle(f, &with_aux, forward);
    fusing_remove_views(f, n->in[0], dy);
    moved ? fusing_make_view(f, n, dy) : graph_remove(f->g, n);
    draft_settle(f, &d, p);
    return f->g->status;
}

/* ---- results of 16 bits that are needed as float32 ---- */

static Status take_cast(Fusing *f, Node *n)
{
    Node *p;
    Draft d;
    bool fits;

    if (n->op != &op_Cast || node_int(n, "to") != DT_FLOAT32 || dtype_size(in_value(f->g, n, 0)->dtype) != 2)
        return ST_OK;
    p = fusing_inner(f, n->in[0]);
    if (!draft_read(&d, f, p) || !draft_is_plain(&d) || !fusing_same_place(p, n))
        return ST_OK;
    d.wide = true;
    d.out[PRODUCT_Y] = n->out[0];
    TRY(draft_fits(&fits, f, &d, p));
    if (!fits)
        return ST_OK;
    graph_remove(f->g, n);
    draft_settle(f, &d, p);
    return ST_OK;
}

/* ---- entry ---- */

static Status run(Graph *g, PassCtx *ctx)
{
    static Status (*const steps[])(Fusing *, Node *) = { take_activation, take_bias, take_gradient, take_cast };
    Fusing f = { .g = g, .ctx = ctx, .n_device = ctx->opt->devices > 1 ? ctx->opt->devices : 1 };

    if (!target_fuses(&ctx->opt->backend, &op_Product))
        return ST_OK;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        TRY(fusing_look(&f));
        FOR_NODES(g, n)
            TRY(steps[i](&f, n));
    }
    TRY(fuse_product_sums(&f));
    return ctx->n_changed ? graph_sort(g) : g->status;
}

const Pass pass_fuse_product = { .name = "fuse-product",
                                 .summary = "make what stands around a matrix product part of it",
                                 .run = run };
