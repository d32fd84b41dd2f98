/* Which step has not ended is asked of the group's users, and who has not come to its collective of all processes.
 *
 * The other processes are asked by the world's notes, which they answer while they wait themselves: one that does not
 * answer is busy elsewhere, or hangs, and so is missing. */
#include "exec/device/hang_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE = 2 /* seconds for the other processes' answers */ };

/* ---- where everybody is ---- */

/* The oldest step that has not ended on all devices of this process; false: all have.  The group is locked. */
static bool oldest(const GpuGroup *g, GpuLag *out)
{
    GpuLag lag;
    bool found = false;

    for (const GpuUser *u = g->users; u; u = u->next)
        if (u->is->oldest(u, &lag) && (!found || lag.number <= out->number)) {
            *out = lag;
            found = true;
        }
    return found;
}

static int least_mark(const GpuGroup *g, const GpuLag *lag)
{
    int least = lag->n_mark + 1;

    for (int d = 0; d < g->n_device; d++)
        if (g->member[d].device && lag->at[d] < least)
            least = lag->at[d];
    return least;
}

WorldProgress gpu_late_progress(void *arg)
{
    GpuGroup *g = arg;
    WorldProgress here;
    GpuLag lag;

    pthread_mutex_lock(&g->lock);
    here = oldest(g, &lag) ? (WorldProgress){ lag.number, least_mark(g, &lag) } : (WorldProgress){ g->n_step + 1, 0 };
    pthread_mutex_unlock(&g->lock);
    return here;
}

/* ---- the message ---- */

typedef struct {
    const GpuGroup *group;
    GpuLag lag; /* the step that has not ended */
    WorldProgress rank[WORLD_MAX];
    bool told[WORLD_MAX];
    int farthest;              /* the mark to which somebody has come, and not all */
    char missing[GPU_MESSAGE]; /* "cuda:1 (last at ...), rank 2 of 3 (does not answer)" */
    char waiting[GPU_MESSAGE]; /* "cuda:0, rank 1 of 3" */
} Late;

/* How far another process has come within the step that has not ended; -1: it is not at that step yet. */
static int mark_of_rank(const Late *l, int r)
{
    return !l->told[r] || l->rank[r].step < l->lag.number ? -1
           : l->rank[r].step > l->lag.number              ? l->lag.n_mark
                                                          : (int)l->rank[r].at;
}

static void find_farthest(Late *l, const World *w)
{
    int at;

    l->farthest = 0;
    for (int d = 0; d < l->group->n_device; d++) /* 0 of what is another process's */
        l->farthest = l->lag.at[d] > l->farthest ? l->lag.at[d] : l->farthest;
    for (int r = 0; r < world_size(w); r++)
        if (r != world_rank(w) && (at = mark_of_rank(l, r)) > l->farthest)
            l->farthest = at;
    l->farthest = l->farthest < l->lag.n_mark ? l->farthest : l->lag.n_mark;
}

static const char *name_of_mark(const Late *l, int at)
{
    return at > 0 ? l->lag.user->is->mark_name(l->lag.user, at) : NULL;
}

/* Behind what the text holds; what does not fit is cut. */
static void add_to(char text[GPU_MESSAGE], const char *who, const char *where)
{
    const size_t len = strlen(text);

    snprintf(text + len, GPU_MESSAGE - len, "%s%s%s%s%s", len ? ", " : "", who, where ? " (" : "", where ? where : "",
             where ? ")" : "");
}

static void add_missing_at(Late *l, const char *who, int at)
{
    const char *node = name_of_mark(l, at);
    char where[320];

    snprintf(where, sizeof where, "%s%s", node ? "last at " : "has come to no collective", node ? node : "");
    add_to(l->missing, who, at < 0 ? "is at an earlier step" : where);
}

static void find_missing(Late *l, const World *w)
{
    char who[64];

    for (int d = 0; d < l->group->n_device; d++) {
        const Device *device = l->group->member[d].device;

        if (device && l->lag.at[d] < l->farthest)
            add_missing_at(l, device_name(device), l->lag.at[d]);
        else if (device)
            add_to(l->waiting, device_name(device), NULL);
    }
    for (int r = 0; r < world_size(w); r++) {
        if (r == world_rank(w))
            continue;
        snprintf(who, sizeof who, "rank %d of %d", r, world_size(w));
        if (mark_of_rank(l, r) >= l->farthest)
            add_to(l->waiting, who, NULL);
        else if (l->told[r])
            add_missing_at(l, who, mark_of_rank(l, r));
        else
            add_to(l->missing, who, "does not answer");
    }
}

static Status hang_report_tell(const Late *l, int d)
{
    const GpuGroup *g = l->group;
    const char *name = device_name(g->member[d].device), *node = name_of_mark(l, l->farthest);

    if (!node)
        return FAIL(E_DEVICE, "%s: the step has not ended within %g seconds: no device has come to a collective%s%s",
                    name, g->timeout, *l->missing ? "; missing: " : "", l->missing);
    if (*l->missing)
        return FAIL(E_DEVICE, "%s: the step has not ended within %g seconds: %s waits for %s; waiting: %s", name,
                    g->timeout, node, l->missing, l->waiting);
    return FAIL(E_DEVICE,
                "%s: the step has not ended within %g seconds: all devices have come to %s, and it or what follows "
                "does not end",
                name, g->timeout, node);
}

Status gpu_late(GpuGroup *g, int d)
{
    Late *l = calloc(1, sizeof *l);
    Status st = ST_OK;
    bool hangs;

    if (!l)
        return FAIL_NOMEM();
    l->group = g;
    pthread_mutex_lock(&g->lock);
    hangs = oldest(g, &l->lag);
    pthread_mutex_unlock(&g->lock);
    if (hangs && world_size(g->world) > 1)
        st = world_ask_progress(g->world, PATIENCE, l->rank, l->told);
    if (!st && hangs) {
        find_farthest(l, g->world);
        find_missing(l, g->world);
        st = hang_report_tell(l, d);
    } else if (!st) {
        st = FAIL(E_DEVICE, "%s: what was given to it has not ended within %g seconds",
                  device_name(g->member[d].device), g->timeout);
    }
    free(l);
    return st;
}
