/* Products in the making: what can be a Product node, and the step from one node to the other.
 *
 * A node becomes a Product in place.  Until the device has said that it computes such a node nothing changes but for
 * values that nothing defines, which are dead. */
#include <string.h>

#include "graph/emit.h"
#include "passes/fuse/fuse_product.h"

/* ---- the graph ---- */

Status fusing_look(Fusing *f)
{
    const Graph *g = f->g;

    f->n_value = g->n_value;
    f->uses = graph_count_uses(g, f->ctx->scratch);
    f->reader = graph_readers(g, f->ctx->scratch);
    return f->uses && f->reader ? ST_OK : FAIL_NOMEM();
}

Node *fusing_inner(const Fusing *f, ValueId v)
{
    return has_value(v) && v.i < f->n_value && f->uses[v.i] == 1 && f->reader[v.i] ? value(f->g, v)->producer : NULL;
}

static bool is_view(const Node *n) { return n && n->op && n->op->flags & OPF_VIEW && n->n_out == 1; }

ValueId fusing_behind_views(const Fusing *f, ValueId v)
{
    const Graph *g = f->g;
    const int64_t columns = fusing_columns(g, v);
    const Node *n;

    while (columns >= 0 && value(g, v)->layout == LAYOUT_ROWS && is_view(n = value(g, v)->producer) &&
           fusing_columns(g, n->in[0]) == columns)
        v = n->in[0];
    return v;
}

bool fusing_is_alone(const Fusing *f, ValueId v, ValueId from)
{
    while (v.i < f->n_value && f->uses[v.i] == 1 && !value_eq(v, from))
        v = value(f->g, v)->producer->in[0];
    return value_eq(v, from) && v.i < f->n_value && f->uses[v.i] == 1;
}

void fusing_remove_views(Fusing *f, ValueId v, ValueId from)
{
    while (!value_eq(v, from)) {
        Node *n = value(f->g, v)->producer;

        v = n->in[0];
        graph_remove(f->g, n);
    }
}

void fusing_make_view(Fusing *f, Node *n, ValueId of)
{
    Graph *g = f->g;
    const Attr allow = INT("allowzero", 1);
    const ValueId shape = emit_shape_const(g, &value(g, n->out[0])->shape);

    n->op = &op_Reshape;
    n->n_in = n->n_attr = 0;
    node_set_attr(g, n, &allow);
    node_set_input(g, n, 0, of);
    node_set_input(g, n, 1, shape);
}

bool fusing_same_place(const Node *a, const Node *b) { return a->device == b->device && a->replica == b->replica; }

int64_t fusing_columns(const Graph *g, ValueId v)
{
    const Shape *s = &value(g, v)->shape;

    return s->rank > 0 ? s->dim[s->rank - 1] : s->rank ? -1 : 1;
}

int64_t fusing_rows(const Graph *g, ValueId v)
{
    const Shape *s = &value(g, v)->shape;

    if (!shape_known(s))
        return -1;
    return s->rank ? shape_count(s, 0, s->rank - 1) : 1;
}

/* ---- reading ---- */

/* beta = 1 and C a row, or no C. */
static bool read_gemm(Draft *d, const Graph *g, const Node *n)
{
    if (!has_in(n, 2))
        return true;
    d->in[PRODUCT_BIAS] = n->in[2];
    return node_float(n, "beta") == 1 && in_value(g, n, 2)->shape.rank && fusing_rows(g, n->in[2]) == 1 &&
           fusing_columns(g, n->in[2]) == fusing_columns(g, n->out[0]);
}

static void read_again(Draft *d, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        d->in[i] = n->in[i];
    for (int o = 0; o < n->n_out; o++)
        d->out[o] = n->out[o];
    d->wide = node_int(n, "wide");
    d->gradient = node_int(n, "gradient");
    d->wide_sum = node_int(n, "wide_bias_grad");
    d->activation = node_string(n, "activation");
    d->sum = node_string(n, "bias_grad");
}

/* One matrix, or with `axes` one whose rows lie along several. */
static bool is_operand(const Graph *g, ValueId v, bool axes)
{
    const Value *x = value(g, v);

    return dtype_is_float(x->dtype) && x->layout == LAYOUT_ROWS && shape_numel(&x->shape) > 0 &&
           (axes ? x->shape.rank >= 2 : x->shape.rank == 2);
}

bool draft_read(Draft *d, const Fusing *f, const Node *n)
{
    const Graph *g = f->g;

    if (!n || n->device >= f->n_device ||
        (n->op != &op_MatMul && n->op != &op_BatchMatMul && n->op != &op_Gemm && n->op != &op_Product))
        return false;
    *d = (Draft){ .in = { n->in[0], n->in[1] }, .out = { n->out[0] }, .alpha = 1, .activation = "none", .sum = "none" };
    if (n->op != &op_MatMul) {
        d->trans_a = node_int(n, "transA");
        d->trans_b = node_int(n, "transB");
        d->alpha = node_float(n, "alpha");
    }
    if (n->op == &op_Product) {
        read_again(d, n);
        return true;
    }
    if (!is_operand(g, n->in[0], !d->trans_a) || !is_operand(g, n->in[1], false) || !is_operand(g, n->out[0], true))
        return false;
    return n->op != &op_Gemm || read_gemm(d, g, n);
}

bool draft_is_plain(const Draft *d)
{
    return !has_value(d->in[PRODUCT_BIAS]) && !d->gradient && !strcmp(d->activation, "none") && !strcmp(d->sum, "none");
}

/* ---- writing ---- */

/* "y@r0" and ".aux" make "y.aux@r0", which is "y.aux" in the unpartitioned graph. */
void draft_add_output(Fusing *f, Draft *d, int output, ValueId of, const char *suffix)
{
    Graph *g = f->g;
    const Value *v = value(g, of);
    const char *base = value_logical_name(v),
               *place = v->name + (strncmp(v->name, base, strlen(base)) ? 0 : strlen(base));
    const char *logical = arena_printf(g->arena, "%s%s", base, suffix);
    const char *name = logical ? arena_printf(g->arena, "%s%s", logical, place) : NULL;
    const Shape unknown = shape_unknown();
    Value *made;

    if (!name) {
        graph_fail_nomem(g);
        return;
    }
    d->out[output] = graph_add_value(g, V_TEMP, name, v->dtype, &unknown);
    if (g->status)
        return;
    made = value(g, d->out[output]);
    made->logical = v->logical ? logical : NULL;
    made->device = v->device;
    made->replica = v->replica;
}

static int length(const ValueId *list, int n)
{
    while (n && !has_value(list[n - 1]))
        n--;
    return n;
}

Status draft_fits(bool *out, Fusing *f, Draft *d, const Node *n)
{
    Graph *g = f->g;
    const Attr attrs[] = {
        INT("transA", d->trans_a),   INT("transB", d->trans_b),           FLOAT("alpha", d->alpha),
        INT("wide", d->wide),        STRING("activation", d->activation), INT("gradient", d->gradient),
        STRING("bias_grad", d->sum), INT("wide_bias_grad", d->wide_sum)
    };

    TRY(g->status);
    d->node = *n;
    d->node.cap_attr = 0;
    d->node.op = &op_Product;
    d->node.n_in = length(d->in, PRODUCT_AUX + 1);
    d->node.n_out = length(d->out, PRODUCT_BIAS_GRAD + 1);
    d->node.in = arena_memdup(g->arena, d->in, sizeof d->in);
    d->node.out = arena_memdup(g->arena, d->out, sizeof d->out);
    d->node.attr = arena_memdup(g->arena, attrs, sizeof attrs);
    d->node.n_attr = (int)(sizeof attrs / sizeof *attrs);
    if (!d->node.in || !d->node.out || !d->node.attr)
        return FAIL_NOMEM();
    TRY(node_infer(g, &d->node));
    *out = target_computes(&f->ctx->opt->backend, g, &d->node);
    return ST_OK;
}

void draft_settle(Fusing *f, const Draft *d, Node *n)
{
    *n = d->node;
    for (int o = 0; o < n->n_out; o++)
        if (has_out(n, o)) {
            value(f->g, n->out[o])->producer = n;
            value(f->g, n->out[o])->out_index = o;
        }
    f->ctx->n_changed++;
}
