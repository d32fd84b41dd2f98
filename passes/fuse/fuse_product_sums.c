/* Sums of gradients over their rows, by which a bias is learned, as outputs of products.
 *
 * A gradient [rows, n] that a Product makes is summed while that writes it ("result").  Any other is read by the
 * product that makes the gradient of the weight, which contracts the rows: there the sum is that of an operand along
 * the contracted axis ("a", "b"). Views of the sum and its conversion to float32 go away as well: it is computed in
 * that.  Legal for a product that does not wait for the sum by other nodes.
 *
 * A sum that stays a node, as that of the bias of a convolution does, still comes in float32 where its conversion to
 * that is all that reads it. */
#include <string.h>

#include "graph/ops/reduce.h"
#include "passes/fuse/fuse_product.h"

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
    Sum **waiting;          /* [value] those of it that no product has taken yet, in the order of their nodes */
    uint32_t *seen, *stack; /* [node] */
    uint32_t walk;
} Sums;

/* ---- reading ---- */

/* Does n sum something of several rows over all of them? */
static Status sums_rows(bool *out, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    unsigned mask;

    *out = false;
    if (!dtype_is_float(x->dtype) || x->shape.rank < 2 || x->layout != LAYOUT_ROWS || shape_numel(&x->shape) <= 0 ||
        (has_in(n, 1) && !value_const(g, n->in[1])))
        return ST_OK;
    TRY(reduce_axes(&mask, g, n));
    *out = mask == (1u << (x->shape.rank - 1)) - 1;
    return ST_OK;
}

/* What is left out when the sum comes in another shape or in float32. */
static bool is_link(const Graph *g, const Node *n, ValueId v)
{
    if (!value_eq(n->in[0], v))
        return false;
    return (n->op && n->op->flags & OPF_VIEW && n->n_out == 1) ||
           (n->op == &op_Cast && node_int(n, "to") == DT_FLOAT32 && dtype_size(value(g, v)->dtype) == 2);
}

static Status read_sum(Sum *s, const Fusing *f, Node *n)
{
    const Graph *g = f->g;
    bool fits = false;

    *s = (Sum){ .n = 0 };
    if (n->op == &op_ReduceSum)
        TRY(sums_rows(&fits, g, n));
    if (!fits)
        return ST_OK;
    s->of = fusing_behind_views(f, n->in[0]);
    s->end = n->out[0];
    s->link[s->n++] = n;
    while (s->n < MOST_LINKS && f->uses[s->end.i] == 1 && (n = f->reader[s->end.i]) && is_link(g, n, s->end) &&
           fusing_same_place(n, s->link[0])) {
        s->link[s->n++] = n;
        s->end = n->out[0];
    }
    return ST_OK;
}

/* ---- would a product that makes the sum wait for it? ---- */

static void visit(Sums *s, const Node *n, uint32_t *n_stack)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *p = has_in(n, i) ? in_value(s->f->g, n, i)->producer : NULL;

        if (p && s->seen[p->index] != s->walk) {
            s->seen[p->index] = s->walk;
            s->stack[(*n_stack)++] = p->index;
        }
    }
}

/* Does a way lead from `from` to n? */
static bool waits_for(Sums *s, const Node *n, const Node *from)
{
    uint32_t n_stack = 0;

    s->walk++;
    visit(s, n, &n_stack);
    while (n_stack && s->seen[from->index] != s->walk)
        visit(s, s->f->g->node[s->stack[--n_stack]], &n_stack);
    return s->seen[from->index] == s->walk;
}

/* ---- writing ---- */

/* Views of what was summed that the ReduceSum alone still read. */
static void remove_views(Fusing *f, ValueId v, ValueId of)
{
    while (!value_eq(v, of) && !--f->uses[v.i]) {
        Node *n = value(f->g, v)->producer;

        v = n->in[0];
        graph_remove(f->g, n);
    }
}

/* n, a Product or to become one, makes the sum of `what` as well.  A sum that is not flat gets its shape from the last
 * of the nodes that are left out. */
static Status take_sum(bool *out, Fusing *f, Draft *d, Node *n, const Sum *s, const char *what)
{
    Graph *g = f->g;
    const DType y = value(g, d->out[PRODUCT_Y])->dtype, end = value(g, s->end)->dtype;
    const bool flat = value(g, s->end)->shape.rank == 1;

    *out = false;
    d->sum = what;
    d->wide_sum = dtype_size(y) == 2 && end == DT_FLOAT32;
    if (end != y && !d->wide_sum)
        return ST_OK;
    d->out[PRODUCT_BIAS_GRAD] = s->end;
    if (!flat)
        draft_add_output(f, d, PRODUCT_BIAS_GRAD, s->end, ".sum");
    TRY(draft_fits(out, f, d, n));
    if (!*out)
        return ST_OK;
    remove_views(f, s->link[0]->in[0], s->of);
    for (int i = 0; i < s->n - !flat; i++)
        graph_remove(g, s->link[i]);
    if (!flat)
        fusing_make_view(f, s->link[s->n - 1], d->out[PRODUCT_BIAS_GRAD]);
    draft_settle(f, d, n);
    return g->status;
}

static Status by_result(bool *out, Sums *all, const Sum *s)
{
    Node *p = value(all->f->g, s->of)->producer;
    Draft d;

    *out = false;
    if (!draft_read(&d, all->f, p) || !d.gradient || !value_eq(d.out[PRODUCT_Y], s->of) || strcmp(d.sum, "none") ||
        !fusing_same_place(p, s->link[0]))
        return ST_OK;
    return take_sum(out, all->f, &d, p, s, "result");
}

/* Of the operand whose rows n contracts. */
static Status by_operand(Sums *all, Node *n, int operand)
{
    Fusing *f = all->f;
    ValueId v;
    Draft d;
    bool done;

    if (!n->op || !draft_read(&d, f, n) || !draft_is_plain(&d) || (operand == PRODUCT_A ? !d.trans_a : d.trans_b))
        return ST_OK;
    v = fusing_behind_views(f, d.in[operand]);
    for (Sum **s = v.i < f->n_value ? &all->waiting[v.i] : NULL; s && *s; s = &(*s)->next) {
        Draft with = d;

        if (!fusing_same_place(n, (*s)->link[0]) || waits_for(all, n, (*s)->link[0]))
            continue;
        TRY(take_sum(&done, f, &with, n, *s, operand == PRODUCT_A ? "a" : "b"));
        if (done) {
            *s = (*s)->next;
            return ST_OK;
        }
    }
    return ST_OK;
}

/* The ReduceSum of 16 bits that nothing but n, a Cast to float32, reads; else NULL. */
static Node *widened_sum(const Fusing *f, const Node *n)
{
    Node *sum = n->op == &op_Cast && node_int(n, "to") == DT_FLOAT32 ? fusing_inner(f, n->in[0]) : NULL;
    const Value *y = sum ? value(f->g, n->in[0]) : NULL;

    return sum && sum->op == &op_ReduceSum && dtype_is_float(y->dtype) && dtype_size(y->dtype) == 2 &&
                   sum->device < f->n_device && fusing_same_place(sum, n) && y->layout == value(f->g, n->out[0])->layout
               ? sum
               : NULL;
}

static Status widen_sum(Fusing *f, Node *cast)
{
    Graph *g = f->g;
    Node *sum = widened_sum(f, cast);
    ValueId narrow, y;

    if (!sum)
        return ST_OK;
    narrow = sum->out[0];
    y = cast->out[0];
    node_set_int(g, sum, "wide", 1);
    sum->out[0] = y;
    TRY(g->status);
    if (!target_computes(&f->ctx->opt->backend, g, sum)) {
        node_set_int(g, sum, "wide", 0);
        sum->out[0] = narrow;
        return g->status;
    }
    graph_remove(g, cast);
    value(g, y)->producer = sum;
    value(g, y)->out_index = 0;
    f->ctx->n_changed++;
    return g->status;
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

Status fuse_product_sums(Fusing *f)
{
    Arena *a = f->ctx->scratch;
    Sums all = { .f = f };
    Sum s;
    bool done;

    TRY(fusing_look(f));
    all.waiting = ARENA_NEW(a, Sum *, f->n_value);
    all.seen = ARENA_NEW(a, uint32_t, f->g->n_node);
    all.stack = ARENA_NEW(a, uint32_t, f->g->n_node);
    if (!all.waiting || !all.seen || !all.stack)
        return FAIL_NOMEM();
    FOR_NODES(f->g, n) {
        TRY(read_sum(&s, f, n));
        if (!s.n)
            continue;
        TRY(by_result(&done, &all, &s));
        if (!done)
            TRY(wait(&all, &s));
    }
    FOR_NODES(f->g, n)
        for (int operand = PRODUCT_A; operand <= PRODUCT_B; operand++)
            TRY(by_operand(&all, n, operand));
    TRY(fusing_look(f));
    FOR_NODES(f->g, n)
        TRY(widen_sum(f, n));
    return f->g->status;
}
