/* Why a parameter gets no gradient: the node at which every way from it to the loss ends.
 *
 * Follows the parameter forward through what can be differentiated.  The first node that nothing passes through
 * (integers, ArgMax, Floor ...) is named; where there is none, no output that the loss is computed from reads the
 * parameter. */
#include "graph/grad.h"
#include "passes/report.h"

static bool stops(const Graph *g, const Node *n)
{
    if (n->op->grad == grad_none || (n->op->flags & OPF_ZERO_GRAD))
        return true;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && dtype_is_float(value(g, n->out[i])->dtype))
            return false;
    return true;
}

Status report_unreached(Report *r, const Graph *g, ValueId param, const char *loss)
{
    const Value *v = value(g, param);
    char shape[SHAPE_TEXT];
    bool *from = r ? ARENA_NEW(r->arena, bool, g->n_value) : NULL;
    const Node *end = NULL;

    if (!r)
        return ST_OK;
    if (!from)
        return FAIL_NOMEM();
    from[param.i] = true;
    FOR_NODES(g, n) {
        bool reads = false;

        for (int i = 0; i < n->n_in; i++)
            reads |= has_value(n->in[i]) && from[n->in[i].i];
        if (reads && stops(g, n) && !end)
            end = n;
        for (int i = 0; reads && i < n->n_out && !stops(g, n); i++)
            from[n->out[i].i] = has_value(n->out[i]);
    }
    shape_text(v->shape, shape);
    if (loss)
        return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: its group's loss '%s' does not depend on it", shape,
                           loss);
    if (end)
        return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: the way to the loss ends at %s", shape,
                           node_text(g, end));
    return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: nothing that the loss is computed from reads it",
                       shape);
}
