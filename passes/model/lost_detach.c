/* A warning of values that are added and subtracted again: straight-through estimators whose detach() the file lost, as
 * p + (q - p), (p + q) - p or p - (p - q). */
#include "graph/ops/binary.gen.h"
#include "passes/model/parameters.h"

/* The sign of input i in a sum or difference; 0: the node is neither. */
static int sign_of(const Node *n, int i)
{
    return n && n->op == &op_Sub && i ? -1 : n && (n->op == &op_Add || n->op == &op_Sub);
}

/* Does n combine a value with a node that contains the value with the opposite sign?  *p: that value; *stop: what n
 * reads of the term that was detached.  With the detach() in place, one of the two p would be a StopGradient. */
static bool goes_through(const Graph *g, const Node *n, ValueId *p, ValueId *stop)
{
    for (int i = 0; i < 2 && sign_of(n, i); i++) {
        const Node *inner = in_value(g, n, i)->producer;
        const int sign = sign_of(n, 1 - i);

        for (int k = 0; k < 2 && sign_of(inner, k); k++)
            if (value_eq(inner->in[k], n->in[1 - i]) && sign_of(n, i) * sign_of(inner, k) == -sign) {
                *p = n->in[1 - i];
                *stop = sign < 0 ? *p : n->in[i];
                return true;
            }
    }
    return false;
}

Status note_lost_detach(const Graph *g, Report *report)
{
    FOR_NODES(g, n) {
        ValueId twice, stop;
        const Value *p;

        if (!goes_through(g, n, &twice, &stop))
            continue;
        p = value(g, twice);
        if (!dtype_is_float(p->dtype) || (p->kind == V_CONST && !p->trainable))
            continue;
        TRY(report_note(report, NOTE_EXPORTER, *n->name ? n->name : n->op->name,
                        "'%s' is added and subtracted, as in a straight-through estimator whose detach() the file does "
                        "not show; --stop-gradient '%s>%s' stops the gradient of the difference "
                        "(docs/reference/parameters.md)",
                        p->name, value(g, stop)->name, n->name));
    }
    return ST_OK;
}
