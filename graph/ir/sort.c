/* Topological order that keeps what is in order: Kahn's algorithm, taking the ready node of lowest index. */
#include <string.h>

#include "graph/base/arena.h"
#include "graph/ir/op.h"

static void heap_push(uint32_t *heap, uint32_t *n, uint32_t x)
{
    uint32_t i = (*n)++;

    for (; i && heap[(i - 1) / 2] > x; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

static uint32_t heap_pop(uint32_t *heap, uint32_t *n)
{
    uint32_t top = heap[0], x = heap[--*n], i = 0;

    for (uint32_t c; (c = 2 * i + 1) < *n; i = c) {
        if (c + 1 < *n && heap[c + 1] < heap[c])
            c++;
        if (heap[c] >= x)
            break;
        heap[i] = heap[c];
    }
    heap[i] = x;
    return top;
}

/* Kahn's algorithm; taking the ready node of lowest index leaves a sorted graph as it is. */
static Status sort_into(Node **sorted, uint32_t *n_sorted, Graph *g, Arena *scratch)
{
    uint32_t n_edge = 0, n_ready = 0, *missing, *first, *edge, *heap;
    PROBLEMS(cycle);

    FOR_NODES(g, n)
        n_edge += (uint32_t)n->n_in;
    missing = ARENA_NEW(scratch, uint32_t, g->n_node);
    first = ARENA_NEW(scratch, uint32_t, g->n_node + 2);
    edge = ARENA_NEW(scratch, uint32_t, n_edge);
    heap = ARENA_NEW(scratch, uint32_t, g->n_node + 1);
    if (!missing || !first || !edge || !heap)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < g->n_node; i++)
        g->node[i]->index = i;
#define FOR_EDGES(n, p)                    \
    for (int e_ = 0; e_ < (n)->n_in; e_++) \
        for (Node *p = has_value((n)->in[e_]) ? value(g, (n)->in[e_])->producer : NULL; p && p->op; p = NULL)
    FOR_NODES(g, n)
        FOR_EDGES(n, p) {
            first[p->index + 2]++;
            missing[n->index]++;
        }
    for (uint32_t i = 2; i < g->n_node + 2; i++)
        first[i] += first[i - 1];
    FOR_NODES(g, n)
        FOR_EDGES(n, p)
            edge[first[p->index + 1]++] = n->index;
    FOR_NODES(g, n)
        if (!missing[n->index])
            heap_push(heap, &n_ready, n->index);
    while (n_ready) {
        uint32_t i = heap_pop(heap, &n_ready);

        sorted[(*n_sorted)++] = g->node[i];
        for (uint32_t e = first[i]; e < first[i + 1]; e++)
            if (!--missing[edge[e]])
                heap_push(heap, &n_ready, edge[e]);
    }
    FOR_NODES(g, n)
        if (missing[n->index])
            problems_add(&cycle, "%s", node_text(g, n));
    return problems_fail(&cycle, E_MODEL, "the graph has a cycle through or before");
#undef FOR_EDGES
}

Status graph_sort(Graph *g)
{
    Arena *scratch;
    Node **sorted;
    uint32_t n = 0;
    Status st = g->status;

    if (st)
        return st;
    if (!(scratch = arena_create_beside(g->arena)) || !(sorted = ARENA_NEW(scratch, Node *, g->n_node)))
        TRY_TO(done, st, FAIL_NOMEM());
    TRY_TO(done, st, sort_into(sorted, &n, g, scratch));
    if (n)
        memcpy(g->node, sorted, n * sizeof *sorted);
    g->n_node = n;
    for (uint32_t i = 0; i < n; i++)
        g->node[i]->index = i;
done:
    arena_free(scratch);
    return st;
}
