/* The opset of a plain export: the lowest, from the file's own on, that can express every node.
 *
 * A runtime may not know an opset newer than the file's.  A model read in one opset can nearly always be written in it
 * again: an operator's `respell` undoes its `import`.  Types need no check: nodes of the file were valid in its opset,
 * and nodes that dpexec added use types that every opset has.  Broadcasting differs before opset 7, the oldest that is
 * written. */
#include <string.h>

#include "graph/onnx/export.h"

enum { OLDEST = 7 };

/* Sets `*out` to the node, or a copy of it, in the spelling of `opset`; NULL: `opset` cannot express it.  A node that
 * is written as another operator (OpDef.plain) has only the newest spelling, because that operator's `respell` reads
 * its own attributes. */
static Status spell(Node **out, Graph *g, Node *n, int opset)
{
    const OpDef *op = n->op->plain ? op_find(NULL, n->op->plain) : n->op;
    ValueId *in;
    Node *copy;

    *out = n;
    if (op->domain || opset >= op_oldest(op))
        return ST_OK;
    *out = NULL;
    if (op != n->op || !op->respell)
        return ST_OK;
    if (!(copy = arena_memdup(g->arena, n, sizeof *n)) || !(in = ARENA_NEW(g->arena, ValueId, (size_t)n->n_in)))
        return FAIL_NOMEM();
    if (n->n_in)
        memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    copy->in = in;
    if (op->respell(g, copy, opset))
        *out = copy;
    return g->status;
}

Status export_respell(Graph *view, int64_t *opset)
{
    Node **node = ARENA_NEW(view->arena, Node *, view->n_node), *spelled;
    int at = *opset < OLDEST ? OLDEST : (int)*opset, before;

    if (!node)
        return FAIL_NOMEM();
    do {
        before = at;
        FOR_NODES(view, n)
            for (spelled = NULL; !spelled; at += !spelled)
                TRY(spell(&spelled, view, n, at));
    } while (at != before);
    for (uint32_t i = 0; i < view->n_node; i++) {
        node[i] = view->node[i];
        if (node[i]->op)
            TRY(spell(&node[i], view, view->node[i], at));
    }
    view->node = node;
    *opset = at;
    return ST_OK;
}
