/* Why a parameter gets no gradient: the node at which every way from it to the loss ends.
 *
 * Follows the parameter forward through what can be differentiated.  The first node that nothing passes through
 * (integers, ArgMax, Floor ...) is named; where there is none, the first that no other node reads, whose result is an
 * output that the loss is not computed from.  Where no node reads the parameter the forward pass does not use it. */
#include "graph/ir/grad.h"
#include "passes/report.h"

typedef struct {
    const Graph *g;
    bool *from; /* by value id: it follows from the parameter by derivatives */
    bool *read; /* likewise: and something is computed from it */
    const Node *stop, *end;
    bool setting; /* that is what `stop` takes it for */
} Walk;

static bool stops(const Graph *g, const Node *n)
{
    if (n->op->grad == grad_none || n->op->flags & (OPF_ZERO_GRAD | OPF_SHAPE_ONLY))
        return true;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && dtype_is_float(value(g, n->out[i])->dtype))
            return false;
    return true;
}

/* Sets `setting` where all that the node reads of it are its settings. */
static bool follows(const Walk *w, const Node *n, bool *setting)
{
    bool reads = false;

    *setting = true;
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && w->from[n->in[i].i]) {
            reads = w->read[n->in[i].i] = true;
            *setting = *setting && i < 8 && n->op->setting_in >> i & 1;
        }
    return reads;
}

static void no_gradient_follow(Walk *w, ValueId param)
{
    bool setting;

    w->from[param.i] = true;
    FOR_NODES(w->g, n) {
        if (!follows(w, n, &setting))
            continue;
        if (setting || stops(w->g, n)) {
            w->setting = w->stop ? w->setting : setting;
            w->stop = w->stop ? w->stop : n;
            continue;
        }
        for (int i = 0; i < n->n_out; i++)
            w->from[n->out[i].i] = has_value(n->out[i]);
    }
    FOR_NODES(w->g, n) {
        bool last = !w->end;

        for (int i = 0; i < n->n_out; i++)
            last = last && (!has_value(n->out[i]) || (w->from[n->out[i].i] && !w->read[n->out[i].i]));
        w->end = last ? n : w->end;
    }
}

Status report_way_end(WayEnd *out, const Graph *g, ValueId param, Arena *scratch)
{
    Walk w = { .g = g, .from = ARENA_NEW(scratch, bool, g->n_value), .read = ARENA_NEW(scratch, bool, g->n_value) };

    if (!w.from || !w.read)
        return FAIL_NOMEM();
    no_gradient_follow(&w, param);
    *out = (WayEnd){ w.stop ? w.stop : w.end, w.stop != NULL, w.setting };
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
                           "shape %s: its group's loss '%s' does not depend on it: its way ends at %s", shape, loss,
                           node_text(g, end.node));
    if (end.stops)
        return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: the way to the loss ends at %s", shape,
                           node_text(g, end.node));
    if (end.node)
        return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: used, but not for the loss: its way ends at %s",
                           shape, node_text(g, end.node));
    return report_note(r, NOTE_NO_GRADIENT, v->name, "shape %s: the forward pass does not use it", shape);
}
