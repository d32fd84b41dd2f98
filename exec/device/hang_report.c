/* Diagnosis of a hung step: which collective it waits for, and which devices and ranks have not come to it.
 *
 * The group's users report the progress of this process's devices.  Other processes report theirs in the world's notes,
 * which they answer while they wait themselves; one that does not answer is busy elsewhere or hangs, and counts as
 * missing. */
#include "exec/device/hang_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_SECONDS = 2 /* for the answers of other processes */ };

/* ---- progress ---- */

/* Finds the oldest step that has not ended on all devices of this process; false: there is none.  The caller holds the
 * group's lock. */
static bool oldest_step(const GpuGroup *g, GpuStepProgress *out)
{
    GpuStepProgress step;
    bool found = false;

    for (const GpuUser *u = g->users; u; u = u->next)
        if (u->is->oldest(u, &step) && (!found || step.number <= out->number)) {
            *out = step;
            found = true;
        }
    return found;
}

WorldProgress hang_report_progress(void *arg)
{
    GpuGroup *g = arg;
    WorldProgress here;
    GpuStepProgress step;

    pthread_mutex_lock(&g->lock);
    here = (WorldProgress){ g->n_step + 1, 0 };
    if (oldest_step(g, &step)) {
        here = (WorldProgress){ step.number, step.n_mark + 1 };
        for (int d = 0; d < g->n_device; d++)
            if (g->member[d].device && step.at[d] < here.at)
                here.at = step.at[d];
    }
    pthread_mutex_unlock(&g->lock);
    return here;
}

/* ---- the message ---- */

typedef struct {
    const GpuGroup *group;
    GpuStepProgress step; /* the step that has not ended */
    WorldProgress rank[WORLD_MAX];
    bool has_progress[WORLD_MAX];
    int farthest;              /* the last mark that a device or another process has reached */
    char missing[GPU_MESSAGE]; /* not there: "cuda:1 (last at ...), rank 2 of 3 (does not answer)" */
    char waiting[GPU_MESSAGE]; /* there: "cuda:0, rank 1 of 3" */
} Hang;

/* The mark that another process has reached in the step that has not ended; -1: it has not reached the step. */
static int mark_of_rank(const Hang *l, int r)
{
    return !l->has_progress[r] || l->rank[r].step < l->step.number ? -1
           : l->rank[r].step > l->step.number                      ? l->step.n_mark
                                                                   : (int)l->rank[r].at;
}

static const char *name_of_mark(const Hang *l, int at)
{
    return at > 0 ? l->step.user->is->mark_name(l->step.user, at) : NULL;
}

/* Appends "WHO (WHERE)" to a list; what does not fit is cut off. */
static void add_to(char text[GPU_MESSAGE], const char *who, const char *where)
{
    const size_t len = strlen(text);

    snprintf(text + len, GPU_MESSAGE - len, "%s%s%s%s%s", len ? ", " : "", who, where ? " (" : "", where ? where : "",
             where ? ")" : "");
}

static void add_missing_at(Hang *l, const char *who, int at)
{
    const char *node = name_of_mark(l, at);
    char where[320];

    snprintf(where, sizeof where, "%s%s", node ? "last at " : "has come to no collective", node ? node : "");
    add_to(l->missing, who, at < 0 ? "is at an earlier step" : where);
}

/* Finds the farthest mark, and sorts devices and ranks into those that have reached it and those that are missing. */
static void find_missing_members(Hang *l, const World *w)
{
    char who[64];

    l->farthest = 0;
    for (int d = 0; d < l->group->n_device; d++) /* at[d] is 0 for devices of other processes */
        l->farthest = l->step.at[d] > l->farthest ? l->step.at[d] : l->farthest;
    for (int r = 0; r < world_size(w); r++)
        if (r != world_rank(w) && mark_of_rank(l, r) > l->farthest)
            l->farthest = mark_of_rank(l, r);
    l->farthest = l->farthest < l->step.n_mark ? l->farthest : l->step.n_mark;

    for (int d = 0; d < l->group->n_device; d++) {
        const Device *device = l->group->member[d].device;

        if (device && l->step.at[d] < l->farthest)
            add_missing_at(l, device_name(device), l->step.at[d]);
        else if (device)
            add_to(l->waiting, device_name(device), NULL);
    }
    for (int r = 0; r < world_size(w); r++) {
        if (r == world_rank(w))
            continue;
        snprintf(who, sizeof who, "rank %d of %d", r, world_size(w));
        if (mark_of_rank(l, r) >= l->farthest)
            add_to(l->waiting, who, NULL);
        else if (l->has_progress[r])
            add_missing_at(l, who, mark_of_rank(l, r));
        else
            add_to(l->missing, who, "does not answer");
    }
}

/* The error of device d. */
static Status describe_hang(const Hang *l, int d)
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

Status hang_report(GpuGroup *g, int d)
{
    Hang *l = calloc(1, sizeof *l);
    Status st = ST_OK;
    bool hangs;

    if (!l)
        return FAIL_NOMEM();
    l->group = g;
    pthread_mutex_lock(&g->lock);
    hangs = oldest_step(g, &l->step);
    pthread_mutex_unlock(&g->lock);
    if (hangs && world_size(g->world) > 1)
        st = world_ask_progress(g->world, ANSWER_SECONDS, l->rank, l->has_progress);
    if (!st && hangs) {
        find_missing_members(l, g->world);
        st = describe_hang(l, d);
    } else if (!st) {
        st = FAIL(E_DEVICE, "%s: its work has not ended within %g seconds", device_name(g->member[d].device),
                  g->timeout);
    }
    free(l);
    return st;
}
