/* How far replicas' parts of inputs reach.  Programs are distinguished by this and by the shapes of the whole. */
#include "exec/train/replica_reach.h"

#include <stdlib.h>
#include <string.h>

#include "passes/options/inputs.h"

Status reach_copy(ReplicaReach *out, const ReplicaReach *from)
{
    *out = (ReplicaReach){ .replicas = from->replicas };
    if (from->n && !(out->list = calloc((size_t)from->n, sizeof *out->list)))
        return FAIL_NOMEM();
    for (; out->n < from->n; out->n++) {
        const InputReach *x = &from->list[out->n];
        const size_t bytes = (size_t)from->replicas * sizeof *x->size;
        int64_t *size = malloc(bytes + 1);
        char *name = strdup(x->name);

        out->list[out->n] = (InputReach){ name, x->axis, size };
        if (!size || !name) {
            out->n++;
            return FAIL_NOMEM();
        }
        memcpy(size, x->size, bytes);
    }
    return ST_OK;
}

void reach_free(ReplicaReach *r)
{
    for (int i = 0; i < r->n; i++) {
        free((void *)(uintptr_t)r->list[i].name);
        free((void *)(uintptr_t)r->list[i].size);
    }
    free(r->list);
    *r = (ReplicaReach){ 0 };
}

bool reach_equal(const ReplicaReach *a, const ReplicaReach *b)
{
    bool same = a->n == b->n && (!a->n || a->replicas == b->replicas);

    for (int i = 0; same && i < a->n; i++)
        same = a->list[i].axis == b->list[i].axis && !strcmp(a->list[i].name, b->list[i].name) &&
               !memcmp(a->list[i].size, b->list[i].size, (size_t)a->replicas * sizeof *a->list[i].size);
    return same;
}
