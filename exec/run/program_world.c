/* Sends the outputs of a step to all processes.  The loss and the metrics lie on one device, whose process sends them,
 * so all processes make the same decisions from them. */
#include <stdlib.h>

#include "exec/run/program_internal.h"

struct WorldOutputs {
    void **staged; /* [n_output] of those that another process holds */
    int n_output;
    int *owner; /* [n_output] -1: every process has it */
    bool any;   /* an output has an owner */
    Parcel *send, *recv;
    struct iovec *pieces;
};

static Status create(WorldOutputs *w, const Program *p)
{
    int n = p->ready.graph->n_output, size = world_size(p->ready.opt.world), rank = world_rank(p->ready.opt.world);

    w->n_output = n;
    w->staged = calloc((size_t)n + 1, sizeof *w->staged);
    w->owner = calloc((size_t)n + 1, sizeof *w->owner);
    w->send = calloc((size_t)size, sizeof *w->send);
    w->recv = calloc((size_t)size, sizeof *w->recv);
    w->pieces = calloc(2 * (size_t)size * ((size_t)n + 1), sizeof *w->pieces);
    if (!w->staged || !w->owner || !w->send || !w->recv || !w->pieces)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        const MemRef *ref = &p->ready.plan->output[i];
        bool held = ref->kind == MEM_ARENA || ref->kind == MEM_STATE;

        w->owner[i] = held ? ref->device % p->ready.opt.n_device / p->ready.opt.n_local : -1;
        w->any |= held;
        if (held && w->owner[i] != rank && !(w->staged[i] = malloc(tensor_bytes(&p->ready.output[i].tensor) + 1)))
            return FAIL_NOMEM();
    }
    for (int r = 0; r < size; r++) {
        w->send[r].piece = w->pieces + (size_t)r * (size_t)n;
        w->recv[r].piece = w->pieces + (size_t)(size + r) * (size_t)n;
    }
    return ST_OK;
}

Status program_world_create(Program *p)
{
    WorldOutputs *w;
    Status st;

    if (world_size(p->ready.opt.world) == 1)
        return ST_OK;
    if (!(w = calloc(1, sizeof *w)))
        return FAIL_NOMEM();
    if ((st = create(w, p))) {
        program_world_free(w);
        return st;
    }
    p->away = w;
    return ST_OK;
}

void program_world_free(WorldOutputs *w)
{
    if (!w)
        return;
    for (int i = 0; w->staged && i < w->n_output; i++)
        free(w->staged[i]);
    free(w->staged);
    free(w->owner);
    free(w->send);
    free(w->recv);
    free(w->pieces);
    free(w);
}

Status program_world_outputs(Program *p)
{
    WorldOutputs *w = p->away;
    int size = world_size(p->ready.opt.world), rank = world_rank(p->ready.opt.world);

    if (!w->any)
        return ST_OK;
    for (int r = 0; r < size; r++)
        w->send[r].n = w->recv[r].n = 0;
    for (int i = 0; i < w->n_output; i++) {
        Tensor *t = &p->ready.output[i].tensor;
        struct iovec piece = { w->staged[i] ? w->staged[i] : t->data, tensor_bytes(t) };

        if (w->staged[i])
            t->data = w->staged[i];
        for (int r = 0; r < size && w->owner[i] >= 0; r++)
            if (r != rank && w->owner[i] == rank)
                w->send[r].piece[w->send[r].n++] = piece;
            else if (r != rank && w->owner[i] == r)
                w->recv[r].piece[w->recv[r].n++] = piece;
    }
    world_set_purpose(p->ready.opt.world, "the outputs of a step");
    return world_exchange(p->ready.opt.world, w->send, w->recv, NULL);
}
