/* p + (q - p) and (p + q) - p: straight-through estimators whose detach() the file lost. */
#include "passes/model/parameters.h"
#include "graph/ops/binary.gen.h"

typedef struct {
    ValueId twice; /* is added and subtracted */
    ValueId stop;  /* what the outer node reads of the detached term */
} Through;

static const Node *made_by(const Graph *g, ValueId v, const OpDef *op)
{
    const Node *n = has_value(v) ? value(g, v)->producer : NULL;

    return n && n->op == op ? n : NULL;
}

/* With the detach() in place one of the two would be a StopGradient of p. */
static bool goes_through(const Graph *g, const Node *n, Through *out)
{
    for (int i = 0; i < 2 && n->op == &op_Add; i++) {
        const Node *sub = made_by(g, n->in[i], &op_Sub);

        if (sub && sub->in[1].i == n->in[1 - i].i) {
            *out = (Through){ sub->in[1], n->in[i] };
            return true;
        }
    }
    if (n->op == &op_Sub) {
        const Node *add = made_by(g, n->in[0], &op_Add);

        if (add && (add->in[0].i == n->in[1].i || add->in[1].i == n->in[1].i)) {
            *out = (Through){ n->in[1], n->in[1] };
            return true;
        }
    }
    return false;
}

Status note_lost_detach(const Graph *g, Report *report)
{
    FOR_NODES(g, n) {
        const Value *p;
        Through t;

        if (!goes_through(g, n, &t))
            continue;
        p = value(g, t.twice);
        if (!dtype_is_float(p->dtype) || (p->kind == V_CONST && !p->trainable))
            continue;
        TRY(report_note(report, NOTE_EXPORTER, *n->name ? n->name : n->op->name,
                        "'%s' is added and subtracted, as in a straight-through estimator whose detach() the file does "
                        "not show; --stop-gradient '%s>%s' stops the gradient of the difference (docs/parameters.md)",
                        p->name, value(g, t.stop)->name, n->name));
    }
    return ST_OK;
}
