/* Shapes behind sizes that the file leaves open: inferred twice, with all of these 1 and with all of these 7.  A size
 * that is the same both times is the file's.  What cannot be inferred at either is not known.  What is computed of
 * sizes alone, in few elements, is computed at either, for shapes are made of it.
 *
 * Nodes are followed as they are read, once something is asked for that inference with open sizes does not tell. */
#include "graph/onnx/importer.h"

enum { PROBES = 2, MAX_COMPUTED = 32 };
static const int64_t open_size[PROBES] = { 1, 7 };

struct Probes {
    Graph *g[PROBES];
    ValueId *is[PROBES]; /* by value of the importer's graph, for those below n_is */
    uint32_t n_is[PROBES], n_node;
};

static bool bind_input(Probes *p, int k, const Importer *im, ValueId v)
{
    const Value *x = value(im->g, v);
    Shape s = *x->shape;

    if (s.rank < 0 || x->dtype == DT_NONE)
        return false;
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = s.dim[i] < 0 ? open_size[k] : s.dim[i];
    p->is[k][v.i] = graph_add_input(p->g[k], "", x->dtype, &s);
    return has_value(p->is[k][v.i]);
}

static bool open_sizes_find(Probes *p, int k, const Importer *im, ValueId v)
{
    const Value *x = value(im->g, v);

    if (has_value(p->is[k][v.i]))
        return true;
    if (x->kind == V_INPUT)
        return bind_input(p, k, im, v);
    if (x->kind != V_CONST || !x->init || x->dtype == DT_STRING)
        return false;
    p->is[k][v.i] =
        x->next ? graph_add_input(p->g[k], "", x->dtype, x->shape) : graph_add_const_nocopy(p->g[k], "", x->init);
    return has_value(p->is[k][v.i]);
}

/* What the node reads, where that is constant or by its shape alone; NULL: it is not. */
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

static bool computable(const Graph *g, const Node *n)
{
    if (op_is_unlike(n->op))
        return false;
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) &&
            (!shape_known(value(g, n->out[i])->shape) || shape_numel(value(g, n->out[i])->shape) > MAX_COMPUTED))
            return false;
    return true;
}

/* Its outputs become constants; nothing where it cannot be computed. */
static void open_sizes_compute(Graph *g, const Importer *im, Node *n)
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

static void open_sizes_follow(Probes *p, int k, const Importer *im, const Node *n)
{
    Graph *g = p->g[k];
    ValueId *in = arena_array(g->arena, sizeof *in, n->n_in);
    Node *as;
    bool all = in != NULL;

    for (int i = 0; all && i < n->n_in; i++)
        if (has_in(n, i) && (all = open_sizes_find(p, k, im, n->in[i])))
            in[i] = p->is[k][n->in[i].i];
    if (!all || !(as = graph_add_node(g, n->op, NULL, NULL, n->n_in, in, n->n_out, NULL)))
        return;
    node_copy_attrs(g, as, n);
    if (g->status || node_infer(g, as)) {
        graph_remove(g, as);
        return;
    }
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && shape_known(value(g, as->out[i])->shape) && value(g, as->out[i])->dtype != DT_NONE)
            p->is[k][n->out[i].i] = as->out[i];
    open_sizes_compute(g, im, as);
}

static bool open_sizes_create(Importer *im)
{
    Probes *p = im->probes ? im->probes : ARENA_NEW(im->scratch, Probes, 1);
    bool ok = p != NULL;

    for (int k = 0; ok && k < PROBES; k++) {
        ok = p->g[k] || (p->g[k] = graph_create_within("probe", arena_budget(im->scratch)));
        p->is[k] = ok ? by_value(im, p->is[k], sizeof *p->is[k], &p->n_is[k]) : NULL;
        ok = p->is[k] && !p->g[k]->status;
    }
    im->probes = p;
    return ok;
}

Shape probed_shape(Importer *im, ValueId v)
{
    Shape of[PROBES];

    if (im->problems.n || im->g->status || !open_sizes_create(im))
        return shape_unknown();
    for (Probes *p = im->probes; p->n_node < im->g->n_node; p->n_node++)
        for (int k = 0; k < PROBES && im->g->node[p->n_node]->op; k++)
            open_sizes_follow(p, k, im, im->g->node[p->n_node]);
    for (int k = 0; k < PROBES; k++) {
        if (!has_value(im->probes->is[k][v.i]))
            return shape_unknown();
        of[k] = *value(im->probes->g[k], im->probes->is[k][v.i])->shape;
    }
    if (of[0].rank != of[1].rank)
        return shape_unknown();
    for (int i = 0; i < of[0].rank; i++)
        of[0].dim[i] = of[0].dim[i] == of[1].dim[i] ? of[0].dim[i] : -1;
    return of[0];
}

void probes_free(Importer *im)
{
    for (int k = 0; im->probes && k < PROBES; k++)
        graph_free(im->probes->g[k]);
    im->probes = NULL;
}
