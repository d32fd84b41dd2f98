/* The order of a body's nodes.  ONNX demands topological order; dpexec sorts files that break it, and lists the nodes
 * of a cycle.  The walk keeps its own stack, because a chain may be as long as the file. */
#include "graph/onnx/importer.h"

/* Enters the names of all outputs, with the number of their node, into the body's scope. */
static Status declare_outputs(Importer *im, Body *b)
{
    for (size_t i = 0; i < b->n_node; i++)
        for (size_t o = 0; o < b->node[i]->n_output; o++) {
            const char *name = b->node[i]->output[o];
            const ScopeEntry *outer;
            ScopeEntry *e;

            if (!*name)
                continue;
            if (!(e = scope_find(&b->scope, name)) && !(e = scope_add(&b->scope, name)))
                return FAIL_NOMEM();
            else if (e->node >= 0 || entry_made(e))
                return FAIL(E_MODEL, "%s: '%s' is defined already", proto_text(im, b->node[i]), name);
            if (b->outer && (outer = body_find(b->outer, name)) && entry_made(outer))
                return FAIL(E_MODEL, "%s: '%s' is defined already outside of the subgraph", proto_text(im, b->node[i]),
                            name);
            e->node = (int64_t)i;
        }
    return ST_OK;
}

/* Checks that every input is defined.  *sorted: the file's order is topological. */
static Status order_check_inputs(Importer *im, const Body *b, bool *sorted)
{
    *sorted = true;
    for (size_t i = 0; i < b->n_node; i++)
        for (size_t k = 0; k < b->node[i]->n_input; k++) {
            const char *name = b->node[i]->input[k];
            const ScopeEntry *e = *name ? scope_find(&b->scope, name) : NULL, *outer;

            if (e && e->node >= (int64_t)i)
                *sorted = false;
            if (e || !*name)
                continue;
            if (!(outer = b->outer ? body_find(b->outer, name) : NULL))
                return FAIL(E_MODEL, "%s: input '%s' is defined nowhere", proto_text(im, b->node[i]), name);
            if (!entry_made(outer))
                return FAIL(E_MODEL, "%s: input '%s' is made only after the node whose subgraph reads it",
                            proto_text(im, b->node[i]), name);
        }
    return ST_OK;
}

/* Fails with the nodes on the stack from the top down to `back_to`, which reads the output of the top. */
static Status fail_cycle(Importer *im, const Body *b, const size_t *stack, size_t depth, size_t back_to)
{
    PROBLEMS(p);
    size_t from = depth;

    while (from > 1 && stack[from - 1] != back_to)
        from--;
    for (size_t i = from - 1; i < depth; i++)
        problems_add(&p, "%s", proto_text(im, b->node[stack[i]]));
    return problems_fail(&p, E_MODEL, "the graph has a cycle through");
}

/* Walks depth first from each node in turn, so that a node follows all nodes that it reads. */
static Status order_walk(Importer *im, const Body *b, size_t *order)
{
    enum { NEW, OPEN, DONE };
    char *state = arena_alloc(im->scratch, b->n_node);
    size_t *stack = ARENA_NEW(im->scratch, size_t, b->n_node);
    size_t *followed = ARENA_NEW(im->scratch, size_t, b->n_node); /* by node: inputs that were looked at */
    size_t n = 0, depth = 0;

    if (!state || !stack || !followed)
        return FAIL_NOMEM();
    for (size_t root = 0; root < b->n_node; root++) {
        if (state[root] == NEW)
            stack[depth++] = root;
        state[root] = state[root] == NEW ? OPEN : state[root];
        while (depth) {
            const size_t top = stack[depth - 1];
            const Onnx__NodeProto *p = b->node[top];

            if (followed[top] == p->n_input) {
                state[top] = DONE;
                order[n++] = top;
                depth--;
            } else {
                const char *name = p->input[followed[top]++];
                const ScopeEntry *e = *name ? scope_find(&b->scope, name) : NULL;
                int64_t next = e ? e->node : -1;

                if (next >= 0 && state[next] == OPEN)
                    return fail_cycle(im, b, stack, depth, (size_t)next);
                if (next >= 0 && state[next] == NEW) {
                    state[next] = OPEN;
                    stack[depth++] = (size_t)next;
                }
            }
        }
    }
    return ST_OK;
}

Status body_order(Importer *im, Body *b, size_t *order)
{
    bool sorted;

    TRY(declare_outputs(im, b));
    TRY(order_check_inputs(im, b, &sorted));
    if (!sorted)
        return order_walk(im, b, order);
    for (size_t i = 0; i < b->n_node; i++)
        order[i] = i;
    return ST_OK;
}
