/* Which states are cut into pieces, and where.
 *
 * SHARD_OPTIMIZER: what an optimizer keeps beside a parameter.  Such a state is found by its update: the node that
 * gives it its next value gives the parameter its own too.  It is cut element by element, whatever its shape, since
 * updates are: so a parameter of few rows is cut as well as any, all states of a parameter alike, and only single
 * numbers stay whole.
 *
 * Pieces are whole multiples of NORM_PIECE elements, but for the last: a norm over pieces adds what a norm over the
 * whole adds.  They are cut for replicas, of which a device keeps all of its own's, one behind the other: a device with
 * three of eight replicas keeps three eighths.  What is left when the replicas have had equally many goes to the next
 * ones in turn, from parameter to parameter, so that small parameters do not all end up on the first device. */
#include "graph/ops/update.h"
#include "passes/partition/place.h"
#include "passes/report.h"

/* By value id: the parameter that is updated together with the state; NO_VALUE: none. */
static ValueId *find_owners(const Graph *g, Arena *a)
{
    ValueId *by_node = ARENA_NEW(a, ValueId, g->n_node), *owner = ARENA_NEW(a, ValueId, g->n_value);

    for (int pass = 0; by_node && owner && pass < 2; pass++)
        for (int i = 0; i < g->n_update; i++) {
            ValueId state = g->update[i].state;
            const Node *n = value(g, g->update[i].next)->producer;

            if (!n || !(n->op->flags & OPF_ELEMENTS))
                continue;
            if (pass == 0 && value(g, state)->trainable)
                by_node[n->index] = state;
            else if (pass == 1 && has_value(by_node[n->index]) && !value(g, state)->trainable &&
                     shape_eq(value(g, state)->shape, value(g, by_node[n->index])->shape))
                owner[state.i] = by_node[n->index];
        }
    return by_node ? owner : NULL;
}

/* The pieces of `numel` elements; *next is the replica that gets the first block too many, and moves on. */
static Split *cut(int64_t numel, const Partition *p, int *next, Arena *a)
{
    const int64_t blocks = (numel + NORM_PIECE - 1) / NORM_PIECE;
    const int n = p->replicas, rest = (int)(blocks % n);
    int64_t *count = ARENA_NEW(a, int64_t, p->devices), *offset = ARENA_NEW(a, int64_t, p->devices), at = 0;
    Split *s = ARENA_NEW(a, Split, 1);

    if (!count || !offset || !s)
        return NULL;
    for (int r = 0; r < n; r++) {
        const int d = p->device_of[r];
        int64_t mine = (blocks / n + ((r - *next + n) % n < rest)) * NORM_PIECE;

        mine = mine < numel - at ? mine : numel - at;
        if (r == p->first_replica[d])
            offset[d] = at;
        count[d] += mine;
        at += mine;
    }
    *next = (*next + rest) % n;
    *s = (Split){ .by_device = true, .n = p->devices, .total = numel, .count = count, .offset = offset };
    return s;
}

Status shard_states(const Split *const **out, const Graph *g, const BuildOptions *opt, const Partition *p, Arena *a,
                    Report *report)
{
    const Split **cuts = ARENA_NEW(a, const Split *, g->n_value), **shard = ARENA_NEW(a, const Split *, g->n_value);
    const ValueId *owner = find_owners(g, a);
    bool *owns = ARENA_NEW(a, bool, g->n_value), any = false;
    int next = 0;

    *out = NULL;
    if (opt->shard == SHARD_NONE || (opt->mode != BUILD_TRAIN && opt->mode != BUILD_APPLY))
        return ST_OK;
    if (opt->backend.accelerator)
        return FAIL(E_INVALID, "--shard optimizer: only CPU devices can, and these are accelerators");
    if (!cuts || !shard || !owner || !owns)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        owns[owner[i].i] = has_value(owner[i]) && value(g, owner[i])->shape->rank && p->devices > 1;
    for (uint32_t i = 1; i < g->n_value; i++) /* by parameters: in every mode the same */
        if (owns[i] && !(cuts[i] = cut(shape_numel(g->value[i]->shape), p, &next, a)))
            return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++) {
        any |= has_value(owner[i]);
        shard[i] = cuts[owner[i].i];
    }
    *out = shard;
    return any ? ST_OK
               : report_note(report, NOTE_OTHER, g->name,
                             "--shard optimizer: this optimizer keeps nothing beside the parameters");
}
