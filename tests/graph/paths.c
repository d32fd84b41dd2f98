/* Ways between nodes of random graphs, before and after their order was bent, against what all edges together say. */
#include "graph/ir/reachable.h"
#include "graph/ops/binary.gen.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "tests/harness/test.h"

enum { NODES = 48, GRAPHS = 40, BENDS = 12 };

static uint32_t draw(uint64_t *at, uint32_t below)
{
    *at = *at * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*at >> 33) % below;
}

static Graph *random_graph(uint64_t *at)
{
    const Shape s = SHAPE(2);
    Graph *g = graph_create("g");
    ValueId v[NODES + 1] = { graph_add_input(g, "x", DT_FLOAT32, &s) };

    for (uint32_t i = 0; i < NODES; i++) {
        const ValueId a = v[draw(at, i + 1)];

        v[i + 1] = EMIT(g, Add, NULL, a, v[draw(at, i + 1)]);
    }
    return g;
}

/* lead[i][j]: one from i to j, of one edge or more (Warshall, 1962). */
static void all_ways(const Graph *g, bool lead[NODES][NODES])
{
    memset(lead, 0, sizeof(bool[NODES][NODES]));
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (in_value(g, n, i)->producer)
                lead[in_value(g, n, i)->producer->index][n->index] = true;
    for (int k = 0; k < NODES; k++)
        for (int i = 0; i < NODES; i++)
            for (int j = 0; j < NODES; j++)
                lead[i][j] |= lead[i][k] && lead[k][j];
}

static void compare(Reachability *p, bool lead[NODES][NODES])
{
    int wrong = 0;

    all_ways(p->g, lead);
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j < NODES; j++)
            wrong += i != j && reach_path_exists(p, p->g->node[i], p->g->node[j]) != lead[i][j];
    CU_ASSERT_EQUAL(wrong, 0);
}

static void test_random(void)
{
    static bool lead[NODES][NODES];
    uint64_t at = 7;
    int bent = 0;

    for (int k = 0; k < GRAPHS; k++) {
        Graph *g = random_graph(&at);
        Reachability p;

        if (!CHECK_OK(reach_begin(&p, g, g->arena)))
            return;
        compare(&p, lead);
        for (int i = 0; i < BENDS; i++) {
            Node *from = g->node[draw(&at, NODES)], *reader = g->node[draw(&at, NODES)];

            if (from == reader || lead[reader->index][from->index])
                continue;
            bent += from->index > reader->index;
            node_set_input(g, reader, (int)draw(&at, 2), from->out[0]);
            reach_add_edge(&p, from, reader);
            compare(&p, lead);
        }
        CHECK_OK(graph_sort(g));
        reach_sorted(&p);
        compare(&p, lead);
        graph_free(g);
    }
    CU_ASSERT(bent > GRAPHS);
}

DEFINE_SUITE(paths, { "of random graphs, bent and sorted", test_random });
