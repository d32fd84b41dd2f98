/* Shapes of values that depend on sizes which the file leaves open.  All shapes are inferred twice, with every open
 * size 1 and with every open size 7.  A size that is the same both times is fixed by the file; a shape that cannot be
 * inferred is unknown.  Small tensors computed from sizes alone are computed as well, because shapes are made of them.
 *
 * This starts when a shape is first needed that plain inference leaves open, and then follows the nodes as they are
 * read. */
#include "graph/onnx/importer.h"

enum { PROBES = 2, MAX_COMPUTED = 32 };
static const int64_t open_size[PROBES] = { 1, 7 };

struct Probes {
    Graph *g[PROBES];
    ValueId *copy[PROBES]; /* the value in g, by value of the importer's graph, for those below n_copy */
    uint32_t n_copy[PROBES], n_node;
};

/* Makes sure that g[k] has a copy of value v; false: it has none, and v is neither an input nor a constant. */
static bool probe_value(Probes *p, int k, const Importer *im, ValueId v)
{
    const Value *x = value(im->g, v);
    Shape s = *x->shape;

    if (has_value(p->copy[k][v.i]))
        return true;
    if (x->kind == V_INPUT && s.rank >= 0 && x->dtype != DT_NONE) {
        for (int i = 0; i < s.rank; i++)
            s.dim[i] = s.dim[i] < 0 ? open_size[k] : s.dim[i];
        p->copy[k][v.i] = graph_add_input(p->g[k], "", x->dtype, &s);
    } else if (x->kind == V_CONST && x->init && x->dtype != DT_STRING)
        p->copy[k][v.i] =
            x->next ? graph_add_input(p->g[k], "", x->dtype, &s) : graph_add_const_nocopy(p->g[k], "", x->init);
    return has_value(p->copy[k][v.i]);
}

/* The node's inputs, if all are constants, or if it reads their shapes alone; otherwise NULL. */
static const Tensor **constants(const Graph *g, const Node *n)
{
    const bool shape_only = n->op->flags & OPF_SHAPE_ONLY;
    const Tensor **in = arena_array(g->arena, sizeof *in, n->n_in);
    Tensor *shapes = arena_array(g->arena, sizeof *shapes, n->n_in);

    for (int i = 0; in && shapes && i < n->n_in; i++) {
        in[i] = in_const(g, n, i);
        if (in[i] || !has_in(n, i))
            continue;
        if (!shape_only)
            return NULL;
        shapes[i] = (Tensor){ .dtype = in_value(g, n, i)->dtype, .shape = *in_value(g, n, i)->shape };
        in[i] = &shapes[i];
    }
    return shapes ? in : NULL;
}

/* Is the node deterministic, with small outputs? */
static bool computable(const Graph *g, const Node *n)
{
    if (op_is_impure(n->op))
        return false;
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) &&
            (!shape_known(value(g, n->out[i])->shape) || shape_numel(value(g, n->out[i])->shape) > MAX_COMPUTED))
            return false;
    return true;
}

/* Computes the node, and makes its outputs constants; does nothing if it cannot be computed. */
static void probe_compute(Graph *g, const Importer *im, Node *n)
{
    const Tensor **in = im->eval && computable(g, n) ? constants(g, n) : NULL;
    Tensor **out = in ? arena_array(g->arena, sizeof *out, n->n_out) : NULL;

    if (!out || im->eval(g->arena, g, n, in, out))
        return;
    for (int i = 0; i < n->n_out; i++)
        if (out[i]) {
            Value *v = value(g, n->out[i]);

            v->kind = V_CONST;
            v->producer = NULL;
            v->init = out[i];
        }
    graph_remove(g, n);
}

/* Copies a node into g[k] and infers it.  The copy goes if its inputs or outputs have no shapes. */
static void probe_node(Probes *p, int k, const Importer *im, const Node *n)
{
    Graph *g = p->g[k];
    ValueId *in = arena_array(g->arena, sizeof *in, n->n_in);
    Node *copy;
    bool all = in != NULL;

    for (int i = 0; all && i < n->n_in; i++)
        if (has_in(n, i) && (all = probe_value(p, k, im, n->in[i])))
            in[i] = p->copy[k][n->in[i].i];
    if (!all || !(copy = graph_add_node(g, n->op, NULL, NULL, n->n_in, in, n->n_out, NULL)))
        return;
    node_copy_attrs(g, copy, n);
    if (g->status || node_infer(g, copy)) {
        graph_remove(g, copy);
        return;
    }
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && shape_known(value(g, copy->out[i])->shape) && value(g, copy->out[i])->dtype != DT_NONE)
            p->copy[k][n->out[i].i] = copy->out[i];
    probe_compute(g, im, copy);
}

Shape probed_shape(Importer *im, ValueId v)
{
    Probes *p = im->probes;
    Shape shape[PROBES];

    if (im->problems.n || im->g->status || (!p && !(p = ARENA_NEW(im->scratch, Probes, 1))))
        return shape_unknown();
    im->probes = p;
    for (int k = 0; k < PROBES; k++) {
        if (!p->g[k] && !(p->g[k] = graph_create_within("probe", arena_budget(im->scratch))))
            return shape_unknown();
        p->copy[k] = by_value(im, p->copy[k], sizeof *p->copy[k], &p->n_copy[k]);
        if (!p->copy[k] || p->g[k]->status)
            return shape_unknown();
    }
    for (; p->n_node < im->g->n_node; p->n_node++)
        for (int k = 0; k < PROBES && im->g->node[p->n_node]->op; k++)
            probe_node(p, k, im, im->g->node[p->n_node]);
    for (int k = 0; k < PROBES; k++) {
        if (!has_value(p->copy[k][v.i]))
            return shape_unknown();
        shape[k] = *value(p->g[k], p->copy[k][v.i])->shape;
    }
    if (shape[0].rank != shape[1].rank)
        return shape_unknown();
    for (int i = 0; i < shape[0].rank; i++)
        shape[0].dim[i] = shape[0].dim[i] == shape[1].dim[i] ? shape[0].dim[i] : -1;
    return shape[0];
}

void probes_free(Importer *im)
{
    for (int k = 0; im->probes && k < PROBES; k++)
        graph_free(im->probes->g[k]);
    im->probes = NULL;
}
