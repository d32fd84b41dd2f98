/* A device's place is a number in pinned memory of the host, which the device itself writes: captured steps record no
 * events that the host could ask for.  It is written beside the step, by a stream of its own that waits for what comes
 * before the collective, so that the collective does not wait for the copy of four bytes; and at the step's end behind
 * all else.
 *
 * The other processes are asked by the world's notes, which they answer while they wait themselves: one that does not
 * answer is busy elsewhere, or hangs, and so is missing. */
#include "exec/gpu/place.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/op.h"

enum { PATIENCE = 2 /* seconds for the other processes' answers */ };

/* ---- marks ---- */

Status gpu_place_plan(GpuPart *part)
{
    if (!part->member->comm)
        return ST_OK;
    if (!(part->place = ARENA_NEW(part->gpu->program->arena, const Node *, part->plan->n_step + 1)))
        return FAIL_NOMEM();
    for (int s = 0; s < part->plan->n_step; s++)
        if (part->plan->step[s].collective) {
            part->call[s].place = ++part->n_place;
            part->place[part->n_place] = part->call[s].call->node;
        }
    return ST_OK;
}

size_t gpu_place_bytes(const GpuPart *part)
{
    return part->member->comm ? ((size_t)part->n_place + 2) * sizeof *part->place_table : 0;
}

static Status write_table(GpuPart *part)
{
    size_t n = (size_t)part->n_place + 2;
    uint32_t *number = malloc(gpu_place_bytes(part));
    void *table;
    Status st;

    if (!number)
        return FAIL_NOMEM();
    for (size_t i = 0; i < n; i++)
        number[i] = (uint32_t)i;
    st = memory_open(&table, part->member->device, gpu_place_bytes(part));
    if (!st) {
        part->place_table = table;
        st = memory_write(part->member->device, table, number, gpu_place_bytes(part));
    }
    free(number);
    return st;
}

Status gpu_place_create(GpuPart *part)
{
    const GpuMember *m = part->member;

    if (!m->comm)
        return ST_OK;
    TRY(write_table(part));
    TRY_MEMBER(m, event_create(m->gpu, &part->passed, false));
    for (int k = 0; k < GPU_SLOTS; k++)
        TRY_MEMBER(m, host_alloc(m->gpu, (void **)&part->slot[k].place, sizeof(uint32_t)));
    return ST_OK;
}

void gpu_place_free(GpuPart *part)
{
    const GpuMember *m = part->member;

    for (int k = 0; k < GPU_SLOTS; k++)
        if (part->slot[k].place)
            m->runtime->host_free(m->gpu, part->slot[k].place);
    if (part->passed)
        m->runtime->event_free(part->passed);
    memory_close(m->device, part->place_table, gpu_place_bytes(part));
}

void gpu_place_begin(GpuProgram *g, unsigned k)
{
    pthread_mutex_lock(&g->group->lock);
    FOR_LOCAL(g->program, d)
        if (g->part[d].slot[k].place)
            *(volatile uint32_t *)g->part[d].slot[k].place = 0;
    g->number[k] = ++g->group->n_step;
    pthread_mutex_unlock(&g->group->lock);
}

Status gpu_place_mark(GpuPart *part, int k, int place, GpuStream *s)
{
    const GpuMember *m = part->member;

    if (!part->place_table)
        return ST_OK;
    TRY_MEMBER(m, event_record(part->passed, s));
    TRY_MEMBER(m, event_await(part->passed, m->marks));
    TRY_MEMBER(m, copy(m->marks, part->slot[k].place, part->place_table + place, sizeof(uint32_t)));
    return ST_OK;
}

Status gpu_place_end(GpuPart *part, int k, GpuStream *s)
{
    const GpuMember *m = part->member;

    if (!part->place_table)
        return ST_OK;
    if (part->n_place) {
        TRY_MEMBER(m, event_record(part->passed, m->marks));
        TRY_MEMBER(m, event_await(part->passed, s));
    }
    TRY_MEMBER(m, copy(s, part->slot[k].place, part->place_table + part->n_place + 1, sizeof(uint32_t)));
    return ST_OK;
}

/* ---- where everybody is ---- */

static int place_now(const GpuPart *part, unsigned k) { return (int)*(const volatile uint32_t *)part->slot[k].place; }

/* The first local device of a program. */
static const GpuPart *first_part(const GpuProgram *g) { return &g->part[g->program->opt.first]; }

/* The oldest step that has not ended on all local devices; NULL: all have.  The group is locked. */
static GpuProgram *oldest(const GpuGroup *group, unsigned *slot)
{
    GpuProgram *found = NULL;

    for (GpuProgram *g = group->programs; g; g = g->next)
        for (unsigned k = 0; k < GPU_SLOTS; k++) {
            bool ended = true;

            if (!g->number[k] || !first_part(g)->slot[k].place)
                continue;
            FOR_LOCAL(g->program, d)
                ended = ended && place_now(&g->part[d], k) > g->part[d].n_place;
            if (ended || (found && found->number[*slot] < g->number[k]))
                continue;
            found = g;
            *slot = k;
        }
    return found;
}

static int least_place(const GpuProgram *g, unsigned k)
{
    int least = first_part(g)->n_place + 1;

    FOR_LOCAL(g->program, d) {
        int at = place_now(&g->part[d], k);

        least = at < least ? at : least;
    }
    return least;
}

WorldPlace gpu_place_of_process(void *arg)
{
    GpuGroup *group = arg;
    WorldPlace here;
    unsigned k = 0;
    const GpuProgram *g;

    pthread_mutex_lock(&group->lock);
    g = oldest(group, &k);
    here = g ? (WorldPlace){ g->number[k], least_place(g, k) } : (WorldPlace){ group->n_step + 1, 0 };
    pthread_mutex_unlock(&group->lock);
    return here;
}

/* ---- the message ---- */

typedef struct {
    const GpuProgram *program; /* whose step has not ended */
    unsigned slot;
    WorldPlace rank[WORLD_MAX];
    bool told[WORLD_MAX];
    int farthest;           /* the place to which somebody has come, and not all */
    char text[GPU_MESSAGE]; /* who is missing */
    size_t len;
} Late;

/* The place of another process within the step that has not ended. */
static int place_of_rank(const Late *l, int r)
{
    int64_t number = l->program->number[l->slot];

    return !l->told[r] || l->rank[r].step < number ? -1
           : l->rank[r].step > number              ? first_part(l->program)->n_place
                                                   : (int)l->rank[r].at;
}

static void find_farthest(Late *l, const World *w)
{
    int most = first_part(l->program)->n_place, at;

    l->farthest = 0;
    FOR_LOCAL(l->program->program, d) {
        at = place_now(&l->program->part[d], l->slot);
        l->farthest = at > l->farthest ? at : l->farthest;
    }
    for (int r = 0; r < world_size(w); r++)
        if (r != world_rank(w) && (at = place_of_rank(l, r)) > l->farthest)
            l->farthest = at;
    l->farthest = l->farthest < most ? l->farthest : most;
}

static const char *name_of_place(const Late *l, int at)
{
    return at > 0 ? node_text(l->program->program->graph, first_part(l->program)->place[at]) : NULL;
}

static void add_missing(Late *l, const char *who, const char *where)
{
    int n = snprintf(l->text + l->len, sizeof l->text - l->len, "%s%s (%s)", l->len ? ", " : "", who, where);

    l->len += n > 0 ? (size_t)n : 0;
    l->len = l->len < sizeof l->text ? l->len : sizeof l->text - 1;
}

static void add_missing_at(Late *l, const char *who, int at)
{
    const char *node = name_of_place(l, at);
    char where[320];

    snprintf(where, sizeof where, "%s%s", node ? "last at " : "has come to no collective", node ? node : "");
    add_missing(l, who, at < 0 ? "is at an earlier step" : where);
}

static void find_missing(Late *l, const World *w)
{
    char who[64];

    FOR_LOCAL(l->program->program, d) {
        int at = place_now(&l->program->part[d], l->slot);

        if (at < l->farthest)
            add_missing_at(l, device_name(l->program->part[d].member->device), at);
    }
    for (int r = 0; r < world_size(w); r++) {
        if (r == world_rank(w) || place_of_rank(l, r) >= l->farthest)
            continue;
        snprintf(who, sizeof who, "rank %d of %d", r, world_size(w));
        if (l->told[r])
            add_missing_at(l, who, place_of_rank(l, r));
        else
            add_missing(l, who, "does not answer");
    }
}

static Status tell(const Late *l, const GpuGroup *g, int d)
{
    const char *name = device_name(g->member[d].device), *node = name_of_place(l, l->farthest);

    if (!node)
        return FAIL(E_DEVICE, "%s: the step has not ended within %g seconds: no device has come to a collective%s%s",
                    name, g->timeout, l->len ? "; missing: " : "", l->text);
    if (l->len)
        return FAIL(E_DEVICE, "%s: the step has not ended within %g seconds: %s waits for %s", name, g->timeout, node,
                    l->text);
    return FAIL(E_DEVICE,
                "%s: the step has not ended within %g seconds: all devices have come to %s, and it or what follows "
                "does not end",
                name, g->timeout, node);
}

Status gpu_place_late(GpuGroup *g, int d)
{
    Late *l = calloc(1, sizeof *l);
    Status st = ST_OK;

    if (!l)
        return FAIL_NOMEM();
    pthread_mutex_lock(&g->lock);
    l->program = oldest(g, &l->slot);
    pthread_mutex_unlock(&g->lock);
    if (l->program && world_size(g->world) > 1)
        st = world_places(g->world, PATIENCE, l->rank, l->told);
    if (!st && l->program) {
        find_farthest(l, g->world);
        find_missing(l, g->world);
        st = tell(l, g, d);
    } else if (!st) {
        st = FAIL(E_DEVICE, "%s: what was given to it has not ended within %g seconds",
                  device_name(g->member[d].device), g->timeout);
    }
    free(l);
    return st;
}
