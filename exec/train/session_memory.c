/* The memory that a session's programs take of its devices. */
#include "exec/plan/memory_report.h"
#include "exec/train/internal.h"

Status session_memory(size_t *out, const Session *s)
{
    size_t most = 0;

    for (const Compiled *c = s->compiled; c; c = c->next)
        for (int d = 0; d < s->devices.n && c->program && !c->rest; d++) {
            const Device *device = s->devices.device[d];
            MemoryNeed need;

            TRY(memory_need(&need, program_graph(c->program), program_plan(c->program), d,
                            device && device_info(device)));
            most = memory_total(&need) > most ? memory_total(&need) : most;
        }
    *out = most;
    return ST_OK;
}
