/* Which states are cut into a piece for each device, and where.
 *
 * SHARD_OPTIMIZER: what an optimizer keeps beside a parameter.  Such a state is found by its update: the node that
 * gives it its next value gives the parameter its own too.  It is cut element by element, whatever its shape, since
 * updates are: so a parameter of few rows is cut as well as any, all states of a parameter alike, and only single
 * numbers stay whole.
 *
 * Pieces are whole multiples of NORM_PIECE elements, but for the last: a norm over pieces adds what a norm over the
 * whole adds.  What is left when the devices have had equally many goes to the next devices in turn, from parameter to
 * parameter, so that small parameters do not all end up on the first one. */
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
                     shape_eq(&value(g, state)->shape, &value(g, by_node[n->index])->shape))
                owner[state.i] = by_node[n->index];
        }
    return by_node ? owner : NULL;
}

/* The pieces of `numel` elements; *next is the device that gets the first block too many, and moves on. */
static Split *cut(int64_t numel, int devices, int *next, Arena *a)
{
    const int64_t blocks = (numel + NORM_PIECE - 1) / NORM_PIECE;
    const int rest = (int)(blocks % devices);
    int64_t *count = ARENA_NEW(a, int64_t, devices), *offset = ARENA_NEW(a, int64_t, devices), at = 0;
    Split *s = ARENA_NEW(a, Split, 1);

    if (!count || !offset || !s)
        return NULL;
    for (int d = 0; d < devices; d++) {
        int64_t mine = (blocks / devices + ((d - *next + devices) % devices < rest)) * NORM_PIECE;

        offset[d] = at;
        count[d] = mine < numel - at ? mine : numel - at;
        at += count[d];
    }
    *next = (*next + rest) % devices;
    *s = (Split){ .by_device = true, .n = devices, .total = numel, .count = count, .offset = offset };
    return s;
}

Status shard_states(const Split *const **out, const Graph *g, const BuildOptions *opt, int devices, Arena *a,
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
        owns[owner[i].i] = has_value(owner[i]) && value(g, owner[i])->shape.rank && devices > 1;
    for (uint32_t i = 1; i < g->n_value; i++) /* by parameters: in every mode the same */
        if (owns[i] && !(cuts[i] = cut(shape_numel(&g->value[i]->shape), devices, &next, a)))
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
