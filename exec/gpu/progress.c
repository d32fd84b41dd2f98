/* A device writes its progress to a number in pinned memory of the host, because captured steps record no events that
 * the host could query.  A stream beside the step writes it: the stream waits for what comes before a collective, so
 * that the collective does not wait for the copy of four bytes.  At the step's end the number is written after
 * everything else. */
#include "exec/gpu/progress.h"

#include <stdlib.h>

#include "graph/ir/op.h"

Status gpu_progress_plan(GpuPart *part)
{
    if (!part->member->comm)
        return ST_OK;
    if (!(part->marked = ARENA_NEW(part->gpu->program->arena, const Node *, part->plan->n_step + 1)))
        return FAIL_NOMEM();
    for (int s = 0; s < part->plan->n_step; s++)
        if (part->plan->step[s].collective) {
            part->call[s].mark = ++part->n_mark;
            part->marked[part->n_mark] = part->call[s].call->node;
        }
    return ST_OK;
}

size_t gpu_progress_bytes(const GpuPart *part)
{
    return part->member->comm ? ((size_t)part->n_mark + 2) * sizeof *part->mark_table : 0;
}

static Status write_table(GpuPart *part)
{
    size_t n = (size_t)part->n_mark + 2;
    uint32_t *number = malloc(gpu_progress_bytes(part));
    void *table;
    Status st;

    if (!number)
        return FAIL_NOMEM();
    for (size_t i = 0; i < n; i++)
        number[i] = (uint32_t)i;
    st = memory_open(&table, part->member->device, gpu_progress_bytes(part));
    if (!st) {
        part->mark_table = table;
        st = memory_write(part->member->device, table, number, gpu_progress_bytes(part));
    }
    free(number);
    return st;
}

Status gpu_progress_create(GpuPart *part)
{
    const GpuMember *m = part->member;

    if (!m->comm)
        return ST_OK;
    TRY(write_table(part));
    TRY_MEMBER(m, event_create(m->gpu, &part->passed, false));
    for (int k = 0; k < GPU_SLOTS; k++)
        TRY_MEMBER(m, host_alloc(m->gpu, (void **)&part->slot[k].mark, sizeof(uint32_t)));
    return ST_OK;
}

void gpu_progress_free(GpuPart *part)
{
    const GpuMember *m = part->member;

    for (int k = 0; k < GPU_SLOTS; k++)
        if (part->slot[k].mark)
            m->runtime->host_free(m->gpu, part->slot[k].mark);
    if (part->passed)
        m->runtime->event_free(part->passed);
    memory_close(m->device, part->mark_table, gpu_progress_bytes(part));
}

void gpu_progress_begin(GpuProgram *g, unsigned k)
{
    pthread_mutex_lock(&g->group->lock);
    FOR_LOCAL(g->program, d)
        if (g->part[d].slot[k].mark)
            *(volatile uint32_t *)g->part[d].slot[k].mark = 0;
    g->number[k] = ++g->group->n_step;
    pthread_mutex_unlock(&g->group->lock);
}

Status gpu_progress_mark(GpuPart *part, int k, int mark, GpuStream *s)
{
    const GpuMember *m = part->member;

    if (!part->mark_table)
        return ST_OK;
    TRY_MEMBER(m, event_record(part->passed, s));
    TRY_MEMBER(m, event_await(part->passed, m->marks));
    TRY_MEMBER(m, copy(m->marks, part->slot[k].mark, part->mark_table + mark, sizeof(uint32_t)));
    return ST_OK;
}

Status gpu_progress_end(GpuPart *part, int k, GpuStream *s)
{
    const GpuMember *m = part->member;

    if (!part->mark_table)
        return ST_OK;
    if (part->n_mark) {
        TRY_MEMBER(m, event_record(part->passed, m->marks));
        TRY_MEMBER(m, event_await(part->passed, s));
    }
    TRY_MEMBER(m, copy(s, part->slot[k].mark, part->mark_table + part->n_mark + 1, sizeof(uint32_t)));
    return ST_OK;
}

/* ---- reading it on the host ---- */

static int mark_now(const GpuPart *part, unsigned k) { return (int)*(const volatile uint32_t *)part->slot[k].mark; }

bool gpu_progress_oldest(const GpuUser *u, GpuStepProgress *out)
{
    const GpuProgram *g = (const GpuProgram *)u;
    const GpuPart *first = &g->part[g->program->opt.first];
    bool found = false;

    for (unsigned k = 0; k < GPU_SLOTS; k++) {
        GpuStepProgress lag = { u, g->number[k], first->n_mark, { 0 } };
        bool ended = true;

        if (!lag.number || !first->slot[k].mark || (found && out->number < lag.number))
            continue;
        FOR_LOCAL(g->program, d) {
            lag.at[d] = mark_now(&g->part[d], k);
            ended = ended && lag.at[d] > g->part[d].n_mark;
        }
        if (ended)
            continue;
        *out = lag;
        found = true;
    }
    return found;
}

const char *gpu_progress_name(const GpuUser *u, int mark)
{
    const GpuProgram *g = (const GpuProgram *)u;

    return node_text(g->program->graph, g->part[g->program->opt.first].marked[mark]);
}
