/* The memory plan as text. */
#include "graph/op.h"
#include "passes/plan_memory.h"

/* A position at which the most bytes of the device are alive. */
static uint32_t peak_position(const MemoryPlan *plan, int device)
{
    uint32_t peak = 0;
    size_t most = 0;

    for (uint32_t i = 0; i < plan->n_buffer; i++) {
        uint32_t at = plan->buffer[i].first;
        size_t live = 0;

        for (uint32_t j = 0; j < plan->n_buffer; j++)
            if (plan->buffer[j].device == device && plan->buffer[j].first <= at && plan->buffer[j].last >= at)
                live += plan->buffer[j].bytes;
        if (live > most) {
            most = live;
            peak = at;
        }
    }
    return peak;
}

static const MemBuffer *largest_below(const MemoryPlan *plan, int device, uint32_t at, const MemBuffer *below)
{
    const MemBuffer *best = NULL;

    for (const MemBuffer *b = plan->buffer; b < plan->buffer + plan->n_buffer; b++) {
        bool smaller = !below || b->bytes < below->bytes || (b->bytes == below->bytes && b > below);

        if (b->device == device && b->first <= at && b->last >= at && smaller && (!best || b->bytes > best->bytes))
            best = b;
    }
    return best;
}

void plan_memory_print(FILE *to, const Graph *g, const MemoryPlan *plan, int n_largest)
{
    for (int d = 0; d < plan->n_device; d++) {
        const MemDevice *m = &plan->device[d];
        uint32_t at = peak_position(plan, d);
        const MemBuffer *b = NULL;

        fprintf(to, "device %d: arena %zu bytes, largest sum of live buffers %zu, state %zu\n", d, m->arena_bytes, m->live_bytes,
                m->state_bytes);
        if (n_largest && at < g->n_node)
            fprintf(to, "  the peak is at %s:\n", node_text(g, g->node[at]));
        for (int i = 0; i < n_largest && (b = largest_below(plan, d, at, b)); i++)
            fprintf(to, "  %12zu bytes  %s\n", b->bytes, has_value(b->value) ? value(g, b->value)->name : "(scratch)");
    }
}
