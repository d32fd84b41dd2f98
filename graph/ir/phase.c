/* Phases of nodes: those that passes set, and for other nodes those that follow from their inputs and readers. */
#include "graph/ir/phase.h"

const char *phase_name(int phase)
{
    static const char *const names[N_PHASES] = { "none", "forward", "criterion", "backward", "update" };

    return names[phase];
}

/* Gives each early node the earliest phase of its readers; backwards, since readers may be early nodes, too. */
static void take_from_readers(const Graph *g, uint8_t *phase, const bool *early)
{
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];

        for (int i = 0; n && n->op && i < n->n_in; i++) {
            const Node *from = has_value(n->in[i]) ? value(g, n->in[i])->producer : NULL;

            if (from && early[from->index] && (!phase[from->index] || phase[k] < phase[from->index]) && phase[k])
                phase[from->index] = phase[k];
        }
    }
}

uint8_t *graph_phases(const Graph *g, Arena *a)
{
    uint8_t *phase = ARENA_NEW(a, uint8_t, g->n_node);
    bool *early = ARENA_NEW(a, bool, g->n_node); /* has no phase of its own and reads only inputs and states */

    if (!phase || !early)
        return NULL;
    FOR_NODES(g, n) {
        uint8_t latest = PHASE_NONE;
        bool reads_nodes = false;

        for (int i = 0; i < n->n_in; i++) {
            const Node *from = has_value(n->in[i]) ? value(g, n->in[i])->producer : NULL;

            reads_nodes |= from != NULL;
            if (from && phase[from->index] > latest)
                latest = phase[from->index];
        }
        early[n->index] = n->phase == PHASE_NONE && !reads_nodes && n->n_in;
        phase[n->index] = n->phase ? n->phase : latest;
        if (!phase[n->index] && !early[n->index])
            phase[n->index] = PHASE_FORWARD;
    }
    take_from_readers(g, phase, early);
    FOR_NODES(g, n)
        if (!phase[n->index])
            phase[n->index] = PHASE_FORWARD;
    return phase;
}
