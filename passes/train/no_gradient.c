/* Why a parameter gets no gradient: the node at which every way from it to the loss ends.
 *
 * Follows the parameter forward through what can be differentiated.  The first node that nothing passes through
 * (integers, ArgMax, Floor ...) is named; where there is none, the first that no other node reads, whose result is an
 * output that the loss is not computed from.  Where no node reads the parameter the forward pass does not use it. */
#include "graph/ir/grad.h"
#include "passes/report.h"

static bool stops(const Graph *g, const Node *n)
{
    if (n->op->grad == grad_none || n->op->flags & (OPF_ZERO_GRAD | OPF_SHAPE_ONLY))
        return true;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && dtype_is_float(value(g, n->out[i])->dtype))
            return false;
    return true;
}

/* Does the node read a value that follows from the parameter (`from`)?  Marks what it reads in `read`.  *setting: it
 * takes all of them as its settings. */
static bool follows(const Node *n, const bool *from, bool *read, bool *setting)
{
    bool reads = false;

    *setting = true;
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && from[n->in[i].i]) {
            reads = read[n->in[i].i] = true;
            *setting = *setting && i < 8 && n->op->setting_in >> i & 1;
        }
    return reads;
}

Status report_way_end(WayEnd *out, const Graph *g, ValueId param, Arena *scratch)
{
    bool *from = ARENA_NEW(scratch, bool, g->n_value); /* by value id: it follows from the parameter by derivatives */
    bool *read = ARENA_NEW(scratch, bool, g->n_value); /* likewise: and something is computed from it */
    bool setting;

    if (!from || !read)
        return FAIL_NOMEM();
    *out = (WayEnd){ 0 };
    from[param.i] = true;
    FOR_NODES(g, n) {
        if (!follows(n, from, read, &setting))
            continue;
        if (!setting && !stops(g, n)) {
            for (int i = 0; i < n->n_out; i++)
                from[n->out[i].i] = has_value(n->out[i]);
        } else if (!out->stops) {
            *out = (WayEnd){ n, true, setting };
        }
    }
    FOR_NODES(g, n) { /* without a node that stops: the first that no other reads */
        bool last = !out->node;

        for (int i = 0; i < n->n_out; i++)
            last = last && (!has_value(n->out[i]) || (from[n->out[i].i] && !read[n->out[i].i]));
        out->node = last ? n : out->node;
    }
    return ST_OK;
}

Status report_unreached(Report *r, const Graph *g, ValueId param, const char *loss)
{
    const Value *v = value(g, param);
    char shape[SHAPE_TEXT];
    WayEnd end;

    if (!r)
        return ST_OK;
    TRY(report_way_end(&end, g, param, r->arena));
    shape_text(v->shape, shape);
    if (loss && end.node)
        return report_note(r, NOTE_NO_GRADIENT, v->name,
                           "shape %s: its group's loss '%s' does not depend on it: its path ends at %s", shape, loss,
                           node_text(g, end.node));
    if (end.stops)
        return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: the path to the loss ends at %s", shape,
                           node_text(g, end.node));
    if (end.node)
        return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: used, but not for the loss: its path ends at %s",
                           shape, node_text(g, end.node));
    return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: the forward pass does not use it", shape);
}
