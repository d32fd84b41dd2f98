/* Phases: as passes said, or as follows from what is read. */
#include "graph/ir/phase.h"

const char *phase_name(int phase)
{
    static const char *const names[N_PHASES] = { "none", "forward", "criterion", "backward", "update" };

    return names[phase];
}

static uint8_t latest_read(const Graph *g, const Node *n, const uint8_t *phase)
{
    uint8_t latest = PHASE_NONE;

    for (int i = 0; i < n->n_in; i++) {
        const Node *from = has_value(n->in[i]) ? value(g, n->in[i])->producer : NULL;

        if (from && phase[from->index] > latest)
            latest = phase[from->index];
    }
    return latest;
}

static bool reads_nodes(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && value(g, n->in[i])->producer)
            return true;
    return false;
}

/* Of what reads no node: backwards, as what it is read by may be as unknown. */
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
    bool *early = ARENA_NEW(a, bool, g->n_node);

    if (!phase || !early)
        return NULL;
    FOR_NODES(g, n) {
        early[n->index] = n->phase == PHASE_NONE && !reads_nodes(g, n) && n->n_in;
        phase[n->index] = n->phase ? n->phase : early[n->index] ? PHASE_NONE : latest_read(g, n, phase);
        if (!phase[n->index] && !early[n->index])
            phase[n->index] = PHASE_FORWARD;
    }
    take_from_readers(g, phase, early);
    FOR_NODES(g, n)
        if (!phase[n->index])
            phase[n->index] = PHASE_FORWARD;
    return phase;
}
