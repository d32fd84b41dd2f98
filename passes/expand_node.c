/* One node of the partitioned graph: a replica's or device's copy of a node, or a new one between copies of a value. */
#include <string.h>

#include "graph/emit.h"
#include "passes/expand.h"

Shape expand_local_shape(const Expander *x, ValueId v, Place at, int r)
{
    Shape s = value(x->g, v)->shape;

    if (at.kind == PL_S && r >= 0)
        s.dim[at.axis] = part_count(x->p, s.dim[at.axis], r);
    return s;
}

static const char *copy_name(const Expander *x, ValueId v, int r, int d)
{
    const char *base = value_logical_name(value(x->g, v));
    const char *name = r >= 0 ? arena_printf(x->a, "%s@r%d", base, r) : arena_printf(x->a, "%s@d%d", base, d);

    return name ? name : "";
}

static void mark_copy(const Expander *x, ValueId copy, ValueId of, int r, int d)
{
    Value *v = value(x->g, copy);

    v->replica = r;
    v->device = d;
    v->logical = value_logical_name(value(x->g, of));
}

Node *expand_emit(Expander *x, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, ValueId v, int n_out,
                  const int *replica, const int *device)
{
    const char **names = ARENA_NEW(x->a, const char *, n_out);
    Node *n;

    if (x->g->status)
        return NULL;
    if (!names) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int i = 0; i < n_out; i++)
        names[i] = copy_name(x, v, replica ? replica[i] : -1, device[i]);
    if (!(n = graph_add_node(x->g, op, value_logical_name(value(x->g, v)), attrs, n_in, in, n_out, names)))
        return NULL;
    if (!(op->flags & OPF_COLLECTIVE)) {
        n->replica = replica ? replica[0] : -1;
        n->device = device[0];
    }
    for (int i = 0; i < n_out; i++)
        mark_copy(x, n->out[i], v, replica ? replica[i] : -1, device[i]);
    if (!(x->g->status = node_normalise(x->g, n)))
        x->g->status = node_infer(x->g, n);
    return x->g->status ? NULL : n;
}

/* The constant input that holds the output's shape, rewritten to the local size. */
static void set_local_shape(Expander *x, const Node *of, Node *n, int r)
{
    Shape s = expand_local_shape(x, of->out[0], x->t->value[of->out[0].i], r);

    node_set_input(x->g, n, n->op->shape_in - 1, emit_shape_const(x->g, &s));
    if (node_attr(n, "allowzero"))
        node_set_int(x->g, n, "allowzero", 1); /* a part may be empty: 0 means none, not "as the input" */
}

/* Random numbers are keyed by the position in the whole value, wherever the part is computed. */
static Status set_random_key(Expander *x, const Node *of, Node *n, int r)
{
    Place at = x->t->value[of->out[0].i];
    int64_t dim = value(x->g, of->out[0])->shape.dim[at.axis];

    if (!node_attr(n, "split_axis"))
        return FAIL(E_UNSUPPORTED, "%s: its random numbers cannot be drawn in parts", node_text(x->g, of));
    node_set_int(x->g, n, "split_axis", at.axis);
    node_set_int(x->g, n, "split_offset", part_offset(x->p, dim, r));
    node_set_int(x->g, n, "split_dim", dim);
    return x->g->status;
}

static Status check_outputs(const Expander *x, const Node *of, const Node *n, int r)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    for (int i = 0; i < n->n_out; i++) {
        const Value *global, *local;
        Shape expected;

        if (!has_value(of->out[i]))
            continue;
        global = value(x->g, of->out[i]);
        local = value(x->g, n->out[i]);
        expected = expand_local_shape(x, of->out[i], x->t->value[of->out[i].i], r);
        if (local->dtype != global->dtype || !shape_eq(&local->shape, &expected))
            return FAIL(E_UNSUPPORTED, "%s bakes the batch size: replica %d's output %d is %s, expected %s",
                        node_text(x->g, of), r, i, shape_text(&local->shape, a), shape_text(&expected, b));
    }
    return ST_OK;
}

static Node *append_copy(Expander *x, const Node *n, const ValueId *in, int r, int d)
{
    const char **names = ARENA_NEW(x->a, const char *, n->n_out);
    Node *copy;

    if (!names) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int i = 0; i < n->n_out; i++)
        names[i] = has_value(n->out[i]) ? copy_name(x, n->out[i], r, d) : "";
    if (!(copy = graph_add_node(x->g, n->op, n->name, NULL, n->n_in, in, n->n_out, names)))
        return NULL;
    for (int i = 0; i < n->n_attr; i++)
        node_set_attr(x->g, copy, &n->attr[i]);
    copy->replica = r;
    copy->device = d;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]))
            mark_copy(x, copy->out[i], n->out[i], r, d);
    return copy;
}

Node *expand_clone(Expander *x, const Node *n, const ValueId *in, int r, int d)
{
    bool split = r >= 0 && n->n_out && has_value(n->out[0]) && x->t->value[n->out[0].i].kind == PL_S;
    Node *copy = x->g->status ? NULL : append_copy(x, n, in, r, d);

    if (!copy)
        return NULL;
    if (split && n->op->shape_in)
        set_local_shape(x, n, copy, r);
    if (split && (n->op->flags & OPF_RANDOM) && !x->g->status)
        x->g->status = set_random_key(x, n, copy, r);
    if (!x->g->status && (x->g->status = node_infer(x->g, copy)))
        status_prefix(x->g->status, "part of replica %d", r);
    if (!x->g->status)
        x->g->status = check_outputs(x, n, copy, r);
    return x->g->status ? NULL : copy;
}
