/* The opset of a plain export: the lowest from the file's own on in which every node can be said.
 *
 * A runtime may know no newer opset than the file's, and a model that was read in one spelling can nearly always be
 * written in it again: the operators' `respell` undo what their `import` did.  Types are not asked for: what came from
 * the file was valid in its opset, and what else stands in a model are operators on the types that every opset has.
 * Before opset 7 operators broadcast otherwise; no older one is written. */
#include "graph/onnx/export.h"

#include <string.h>

enum { OLDEST = 7 };

/* A node whose lists can be changed without changing `n`. */
static bool respell_copy_node(Node *out, Arena *a, const Node *n)
{
    ValueId *in = ARENA_NEW(a, ValueId, (size_t)n->n_in);

    if (!in)
        return false;
    if (n->n_in)
        memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    *out = *n;
    out->in = in;
    return true;
}

/* `*out`: the node as `opset` spells it; NULL when it has no words for it.  What is written as another operator has but
 * the words of today: that operator's `respell` knows its own attributes. */
static Status spell(Node **out, Graph *g, Node *n, int opset)
{
    const OpDef *op = n->op->plain ? op_find(NULL, n->op->plain) : n->op;
    Node *copy;

    *out = n;
    if (op->domain || opset >= op_oldest(op))
        return ST_OK;
    *out = NULL;
    if (op != n->op || !op->respell)
        return ST_OK;
    if (!(copy = ARENA_NEW(g->arena, Node, 1)) || !respell_copy_node(copy, g->arena, n))
        return FAIL_NOMEM();
    if (op->respell(g, copy, opset))
        *out = copy;
    return g->status;
}

/* The lowest opset from `opset` on that has words for the node. */
static Status lowest(int *out, Graph *g, Node *n, int opset)
{
    Node *spelled = NULL;

    while (!spelled) {
        TRY(spell(&spelled, g, n, opset));
        opset += !spelled;
    }
    *out = opset;
    return ST_OK;
}

Status export_respell(Graph *view, int64_t *opset)
{
    Node **node = ARENA_NEW(view->arena, Node *, view->n_node);
    bool settled = false;
    int at = *opset < OLDEST ? OLDEST : (int)*opset;

    if (!node)
        return FAIL_NOMEM();
    while (!settled) {
        int before = at;

        FOR_NODES(view, n)
            TRY(lowest(&at, view, n, at));
        settled = at == before;
    }
    for (uint32_t i = 0; i < view->n_node; i++) {
        node[i] = view->node[i];
        if (node[i]->op)
            TRY(spell(&node[i], view, view->node[i], at));
    }
    view->node = node;
    *opset = at;
    return ST_OK;
}
