/* The states that are cut into pieces, and where (--shard).
 *
 * SHARD_OPTIMIZER cuts the optimizer's states of a parameter.  The update's recipe determines them: an Update node has
 * the states of a parameter side by side.  A state of another shape than its parameter stays whole, and is reported.
 * SHARD_GRADIENTS cuts the updates as well, also where an optimizer keeps nothing: each device gets the sums of its
 * piece of every gradient alone; the gradient is whole until then.  SHARD_PARAMETERS cuts the parameters as well.  They
 * are gathered before a replica uses them, in the forward pass and again in the backward pass, so that none is whole in
 * between (passes/partition/expand.c).
 *
 * Where the first device is the master of all (--strategy master) it has all the pieces, and the others have empty
 * ones: parameters go from it to all once in a step, sums of gradients to it, and it alone updates.
 *
 * A state is cut element by element, whatever its shape, since updates are element by element.  So a parameter of few
 * rows is cut too, all states of a parameter in the same way, and only single numbers stay whole.
 *
 * Pieces are multiples of NORM_PIECE elements, but for the last: a norm over pieces then adds in the order of a norm
 * over the whole.  Pieces are cut for replicas, and a device keeps those of its replicas, one behind the other: a
 * device with three of eight replicas keeps three eighths.  Remaining blocks go to the next replicas in turn, from
 * parameter to parameter, so that small parameters do not all end up on the first device. */
#include <string.h>

#include "graph/ops/concat.gen.h"
#include "graph/ops/update.h"
#include "passes/options/collectives.h"
#include "passes/options/replicas.h"
#include "passes/options/update.h"
#include "passes/partition/place.h"
#include "passes/report.h"
#include "passes/update_groups.h"

static bool is_state(const Graph *g, ValueId v) { return has_value(v) && value(g, v)->kind == V_STATE; }

/* By value id: the parameter beside which an optimizer keeps the state; NO_VALUE: none.  Names what cannot be cut. */
static Status find_owners(ValueId **out, const Graph *g, Arena *a, Report *report)
{
    ValueId *owner = ARENA_NEW(a, ValueId, g->n_value);

    if (!owner)
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        const UpdateForm f = update_is(n) ? update_form(n) : (UpdateForm){ 0 };

        for (int p = 0; p < f.count; p++)
            for (int k = 1; k < f.states; k++) {
                const ValueId param = n->in[update_state(&f, p, 0)], state = n->in[update_state(&f, p, k)];

                if (!is_state(g, param) || !is_state(g, state))
                    continue;
                if (shape_eq(value(g, state)->shape, value(g, param)->shape))
                    owner[state.i] = param;
                else
                    TRY(report_note(report, NOTE_OTHER, value(g, state)->name,
                                    "kept whole on every device: its shape differs from that of '%s'",
                                    value(g, param)->name));
            }
    }
    *out = owner;
    return ST_OK;
}

/* Pieces of `numel` elements.  *next is the replica that gets the first remaining block, and moves on.  `master`: the
 * first device has all of them. */
static Split *shard_cut(int64_t numel, const Partition *p, bool master, int *next, Arena *a)
{
    const int64_t blocks = (numel + NORM_PIECE - 1) / NORM_PIECE;
    const int n = p->replicas, rest = (int)(blocks % n);
    int64_t *count = ARENA_NEW(a, int64_t, p->devices), *offset = ARENA_NEW(a, int64_t, p->devices), at = 0;
    Split *s = ARENA_NEW(a, Split, 1);

    if (!count || !offset || !s)
        return NULL;
    *s = (Split){ .by_device = true, .n = p->devices, .total = numel, .count = count, .offset = offset };
    if (master) {
        count[0] = numel;
        for (int d = 1; d < p->devices; d++)
            offset[d] = numel;
        return s;
    }
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
    return s;
}

/* ---- devices that stand for others ---- */

/* The same pieces, those of devices a and b exchanged. */
static Status exchange_pieces(const Split **s, int a, int b, Arena *arena)
{
    int64_t *count = arena_memdup(arena, (*s)->count, (size_t)(*s)->n * sizeof *count),
            *offset = ARENA_NEW(arena, int64_t, (*s)->n);
    Split *out = arena_memdup(arena, *s, sizeof *out);

    if (!count || !offset || !out)
        return FAIL_NOMEM();
    count[a] = (*s)->count[b];
    count[b] = (*s)->count[a];
    for (int d = 1; d < out->n; d++)
        offset[d] = offset[d - 1] + count[d - 1];
    out->count = count;
    out->offset = offset;
    *s = out;
    return ST_OK;
}

/* No two devices have pieces of the same sizes, so the one that is shown of a class gets those of the device of its
 * class that holds most: what is planned for it is what the fullest one needs. */
static Status show_fullest(const Split **cuts, const Graph *g, const Partition *p, Arena *a)
{
    int64_t *holds = ARENA_NEW(a, int64_t, p->devices);
    int *fullest = ARENA_NEW(a, int, p->devices);

    if (!holds || !fullest)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        for (int d = 0; cuts[i] && d < p->devices; d++)
            holds[d] += cuts[i]->count[d] * (int64_t)dtype_size(g->value[i]->dtype);
    for (int d = 0; d < p->devices; d++) {
        const int shown = p->like[d];

        fullest[shown] = d == shown || holds[d] > holds[fullest[shown]] ? d : fullest[shown];
    }
    for (uint32_t i = 1; i < g->n_value; i++)
        for (int d = 0; cuts[i] && d < p->devices; d++)
            if (p->like[d] == d && fullest[d] != d)
                TRY(exchange_pieces(&cuts[i], d, fullest[d], a));
    return ST_OK;
}

/* ---- entry ---- */

static const char *level_name(const CollectiveOptions *o)
{
    return o->master                     ? "strategy master"
           : o->shard == SHARD_OPTIMIZER ? "shard optimizer"
           : o->shard == SHARD_GRADIENTS ? "shard gradients"
                                         : "shard parameters";
}

/* Cuts the parameters, in every mode the same way, and with each the states that belong to it.  The mean of a parameter
 * that replaces it (passes/train/read_means.c) is cut like an optimizer's state. */
Status shard_states(Partition *p, const Graph *g, const BuildOptions *opt, Arena *a, Report *report)
{
    const CollectiveOptions *o = collective_options(opt);
    const size_t end = strlen("." EMA_SUFFIX);
    const Split **cuts, **shard;
    ValueId *owner;
    bool any = false;
    int next = 0;

    if (o->shard == SHARD_NONE)
        return ST_OK;
    if (build_target(opt)->accelerator)
        return FAIL(E_INVALID, "--%s is for CPU devices, found accelerators", level_name(o));
    cuts = ARENA_NEW(a, const Split *, g->n_value);
    shard = ARENA_NEW(a, const Split *, g->n_value);
    if (!cuts || !shard)
        return FAIL_NOMEM();
    TRY(find_owners(&owner, g, a, report));
    for (uint32_t i = 1; i < g->n_value && p->devices > 1; i++) {
        const Value *v = g->value[i];

        if (v->kind == V_STATE && v->trainable && v->shape->rank > 0 &&
            !(cuts[i] = shard_cut(shape_numel(v->shape), p, o->master, &next, a)))
            return FAIL_NOMEM();
    }
    if (replica_options(opt)->world && !o->master)
        TRY(show_fullest(cuts, g, p, a));
    for (uint32_t i = 1; i < g->n_value; i++) {
        const char *name = g->value[i]->name;
        const size_t n = cuts[i] ? strlen(name) : 0;
        const bool is_mean = update_options(opt)->has_mean && n > end && !strcmp(name + n - end, "." EMA_SUFFIX);

        any |= has_value(owner[i]);
        shard[i] = cuts[i] && (o->shard == SHARD_PARAMETERS || is_mean) ? cuts[i] : cuts[owner[i].i];
    }
    p->shard = shard;
    p->once = o->master;
    p->update = o->shard >= SHARD_GRADIENTS ? cuts : NULL;
    if (o->shard == SHARD_OPTIMIZER && !any && mode_in(opt, MODES_UPDATE))
        return report_note(report, NOTE_OTHER, g->name,
                           "--shard optimizer: this optimizer keeps nothing beside the parameters");
    if (o->shard >= SHARD_GRADIENTS && build_mode(opt) == BUILD_ACCUMULATE)
        return report_note(report, NOTE_OTHER, g->name,
                           "--%s: the sums of --accumulate stay whole: a gradient of the parameters' size for "
                           "each replica",
                           level_name(o));
    return ST_OK;
}

/* ---- behind the losses ---- */

const bool *find_backward(const Graph *g, Arena *a)
{
    bool *backward = ARENA_NEW(a, bool, g->n_node), *forward = ARENA_NEW(a, bool, g->n_value);

    if (!backward || !forward)
        return NULL;
    for (int i = 0; i < g->n_output; i++) {
        const char *name = g->output[i].name;

        forward[g->output[i].value.i] |= strncmp(name, OUT_GRAD_PREFIX, strlen(OUT_GRAD_PREFIX)) &&
                                         !is_group_name(name, OUT_GRAD_NORM) && !is_group_name(name, OUT_LOSS_SCALE) &&
                                         !is_group_name(name, OUT_APPLIED);
    }
    for (int i = 0; i < g->n_update; i++) {
        const char *state = value(g, g->update[i].state)->name;

        forward[g->update[i].next.i] |= !strcmp(state, STATE_LOSS_SUM) || !strcmp(state, STATE_LOSS_WEIGHT) ||
                                        is_group_name(state, STATE_METRIC_SUM) ||
                                        is_group_name(state, STATE_METRIC_WEIGHT);
    }
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        bool needed = false;

        for (int o = 0; n->op && o < n->n_out; o++)
            needed |= has_value(n->out[o]) && forward[n->out[o].i];
        backward[k] = !needed;
        for (int i = 0; needed && i < n->n_in; i++)
            forward[n->in[i].i] = true;
    }
    return backward;
}
