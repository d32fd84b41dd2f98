/* How a node that mixes samples of the batch receives them.
 *
 * The mixed inputs can be gathered: every device has all of them, and computes the whole.  If the node is independent
 * along another axis, the parts can be exchanged instead (AllToAll): each replica gets and computes a slice along that
 * axis of all samples.  The node's rule shows whether it is independent along an axis: with that input in slices it
 * then mixes nothing.  So operators need not declare it.
 *
 * The outputs are in slices.  Nodes that read them go on in slices if they can.  A node that cannot sees and gets the
 * value divided along the batch again (Placements.seen), and then so do all nodes that can take it so; a first visit of
 * all nodes finds these.
 *
 * The choice depends on the bytes that a replica receives, the messages and the work.  All of them are functions of the
 * graph, the number of replicas and their parts: bits must not depend on devices, processes or links. */
#include "passes/partition/mixed_samples.h"

#include <math.h>
#include <string.h>

#include "graph/ir/collective.h"

typedef struct {
    Placement *p;
    Placements *t;
    const Partition *part;
    Arena *a;
    Place *have;      /* [n_in] the inputs' placements for rules */
    Placement trial;  /* with lists of its own */
    Placement best;   /* likewise */
    double best_cost; /* in bytes; INFINITY: there is none */
    int best_axis;
    double best_bytes; /* received by a replica for it */
} Mix;

/* ---- slices ---- */

/* Cuts an axis of that size into the replicas' slices: like the batch if possible, so that samples stay in place,
 * otherwise as evenly as possible. */
static const Split *slices_of(Mix *m, int64_t dim)
{
    const Split *batch = &m->part->batch;
    SliceSplit *s = m->t->slices;
    int64_t *count, *offset;

    if (batch->total && dim % batch->total == 0)
        return batch;
    while (s && s->split.total != dim)
        s = s->next;
    if (s)
        return &s->split;
    s = ARENA_NEW(m->a, SliceSplit, 1);
    count = ARENA_NEW(m->a, int64_t, batch->n);
    offset = ARENA_NEW(m->a, int64_t, batch->n);
    if (!s || !count || !offset)
        return NULL;
    for (int r = 0; r < batch->n; r++) {
        offset[r] = dim / batch->n * r + (r < dim % batch->n ? r : dim % batch->n);
        count[r] = dim / batch->n + (r < dim % batch->n);
    }
    *s = (SliceSplit){ { .n = batch->n, .total = dim, .count = count, .offset = offset }, m->t->slices };
    m->t->slices = s;
    return &s->split;
}

/* ---- costs ---- */

/* The largest piece's share of the whole. */
static double largest_share(const Split *s)
{
    int64_t most = 0;

    for (int i = 0; i < s->n; i++)
        most = s->count[i] > most ? s->count[i] : most;
    return s->total ? (double)most / (double)s->total : 0;
}

static double others_share(const Mix *m) { return 1 - 1.0 / m->part->replicas; }

static double whole_bytes(const Mix *m, ValueId v)
{
    return has_value(v) && shape_known(value(m->p->g, v)->shape) ? (double)value_bytes(m->p->g, v) : 0;
}

/* The most bytes that a replica receives to have a value at `want`; 0 if another node has wanted it so before. */
static double received(const Mix *m, ValueId v, Place want)
{
    const Place at = m->t->value[v.i];

    if (!has_value(v) || at.kind != PL_S || place_eq(at, want) || m->t->asked[v.i] & ASKED_WHOLE)
        return 0;
    if (want.kind != PL_S)
        return whole_bytes(m, v) * others_share(m);
    return m->t->asked[v.i] & ASKED_SEEN && place_eq(want, m->t->seen[v.i])
               ? 0
               : whole_bytes(m, v) * largest_share(want.split) * others_share(m);
}

/* The share of the node that the busiest replica computes. */
static double computed_share(const Placement *p)
{
    for (int o = 0; o < p->node->n_out; o++)
        if (has_value(p->node->out[o]) && p->out[o].kind == PL_S)
            return largest_share(p->out[o].split);
    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && p->in[i].kind == PL_S)
            return largest_share(p->in[i].split);
    return 1;
}

/* The placement for rules of output o in slices: divided along the batch like the inputs, if it has their shape. */
static Place seen_of(const Mix *m, const Placement *p, int o)
{
    const Place native = p->out[o];
    Place seen = native;

    for (int i = 0; native.kind == PL_S && i < p->node->n_in; i++) {
        if (!has_value(p->node->in[i]) || !place_by_replica(m->have[i]) ||
            !shape_eq(in_value(p->g, p->node, i)->shape, value(p->g, p->node->out[o])->shape))
            continue;
        if (place_eq(m->have[i], native))
            return native;
        seen = m->have[i];
    }
    return seen;
}

/* The cost in bytes whose transfer takes as long as a replica's waiting and work. */
static double cost_of(const Mix *m, const Placement *p, double *bytes)
{
    double messages = 0, operands = 0;

    *bytes = 0;
    for (int i = 0; i < p->node->n_in; i++) {
        const double one = received(m, p->node->in[i], p->in[i]);

        *bytes += one;
        messages += one > 0;
        operands += whole_bytes(m, p->node->in[i]);
    }
    for (int o = 0; o < p->node->n_out; o++) {
        if (!has_value(p->node->out[o]))
            continue;
        operands += whole_bytes(m, p->node->out[o]);
        if (p->out[o].kind == PL_S && !place_eq(seen_of(m, p, o), p->out[o])) {
            *bytes += whole_bytes(m, p->node->out[o]) * largest_share(p->out[o].split) * others_share(m);
            messages++;
        }
    }
    return *bytes + messages * EXCHANGE_LATENCY + operands * EXCHANGE_ADDED * computed_share(p);
}

/* ---- asking the rule ---- */

static Status apply_rule(Mix *m)
{
    const Node *n = m->p->node;
    Placement *q = &m->trial;

    q->mixes = NULL;
    q->split = &m->part->batch;
    memset(q->out, 0, (size_t)n->n_out * sizeof *q->out);
    return place_by_rule(q);
}

static bool can_be(const Placement *p, ValueId v, Place at)
{
    return !has_value(v) || at.kind == PL_B || (at.kind == PL_P && !at.split) ||
           (place_by_replica(at) && place_can_split(p, value(p->g, v)->shape, at));
}

/* Does the trial mix nothing, with every value in parts or slices of replicas, or whole? */
static bool mixed_samples_fits(const Mix *m)
{
    const Placement *q = &m->trial;
    bool fit = !q->mixes, split = false;

    for (int i = 0; fit && i < q->node->n_in; i++) {
        fit = q->in[i].kind != PL_P && can_be(q, q->node->in[i], q->in[i]);
        split |= q->in[i].kind == PL_S;
    }
    for (int o = 0; fit && o < q->node->n_out; o++)
        fit = can_be(q, q->node->out[o], q->out[o]);
    return fit && split;
}

static bool all_out_split(const Placement *p)
{
    for (int o = 0; o < p->node->n_out; o++)
        if (has_value(p->node->out[o]) && p->out[o].kind != PL_S)
            return false;
    return true;
}

static void mixed_samples_take(Placement *to, const Placement *from)
{
    memcpy(to->in, from->in, (size_t)from->node->n_in * sizeof *from->in);
    memcpy(to->out, from->out, (size_t)from->node->n_out * sizeof *from->out);
    to->split = from->split;
}

static void keep_if_cheaper(Mix *m, int axis)
{
    double bytes, cost;

    if (!mixed_samples_fits(m) || (cost = cost_of(m, &m->trial, &bytes)) >= m->best_cost)
        return;
    mixed_samples_take(&m->best, &m->trial);
    m->best_cost = cost;
    m->best_bytes = bytes;
    m->best_axis = axis;
}

/* ---- alternatives ---- */

/* Does the node want input i in another placement than its division? */
static bool is_disputed(const Mix *m, int i)
{
    return has_value(m->p->node->in[i]) && place_by_replica(m->have[i]) && !place_eq(m->p->in[i], m->have[i]);
}

/* Input `only`, or all that are disputed (-1), in slices along `axis`. */
static Status try_axis(Mix *m, int only, int axis)
{
    const Node *n = m->p->node;

    for (int i = 0; i < n->n_in; i++) {
        m->trial.in[i] = m->have[i];
        if (only < 0 ? is_disputed(m, i) : i == only) {
            const Shape *s = in_value(m->p->g, n, i)->shape;
            const Split *cut;

            if (axis >= s->rank || s->dim[axis] < 2)
                return ST_OK;
            if (!(cut = slices_of(m, s->dim[axis])))
                return FAIL_NOMEM();
            m->trial.in[i] = (Place){ .kind = PL_S, .axis = axis, .blocks = 1, .split = cut };
        }
    }
    TRY(apply_rule(m));
    keep_if_cheaper(m, axis);
    return ST_OK;
}

enum { FEW = 4 }; /* disputed inputs that are tried one by one */

static Status try_axes(Mix *m)
{
    const Node *n = m->p->node;
    int disputed = 0;

    for (int i = 0; i < n->n_in; i++)
        disputed += is_disputed(m, i);
    for (int axis = 0; disputed && axis < MAX_RANK; axis++) {
        TRY(try_axis(m, -1, axis));
        for (int i = 0; disputed > 1 && disputed <= FEW && i < n->n_in; i++)
            if (is_disputed(m, i))
                TRY(try_axis(m, i, axis));
    }
    return ST_OK;
}

/* Tries the inputs in the placements in which they were produced. */
static Status try_native(Mix *m)
{
    for (int i = 0; i < m->p->node->n_in; i++) {
        const ValueId v = m->p->node->in[i];

        m->trial.in[i] = has_value(v) && !m->t->early[v.i] ? m->t->value[v.i] : m->have[i];
    }
    return apply_rule(m);
}

/* Is an input produced elsewhere than rules see it?  `anew`: and has no node wanted it there before? */
static bool any_elsewhere(const Mix *m, bool anew)
{
    for (int i = 0; i < m->p->node->n_in; i++) {
        const ValueId v = m->p->node->in[i];

        if (has_value(v) && !m->t->early[v.i] && !place_eq(m->t->seen[v.i], m->t->value[v.i]) &&
            !(anew && m->t->asked[v.i] & (ASKED_SEEN | ASKED_BEFORE)))
            return true;
    }
    return false;
}

/* ---- the choice ---- */

static Status open_mix(Mix *m)
{
    const Node *n = m->p->node;
    Place *lists = ARENA_NEW(m->a, Place, 3 * n->n_in + 2 * n->n_out + 1);

    if (!lists)
        return FAIL_NOMEM();
    m->have = lists;
    m->trial = m->best = *m->p;
    m->trial.in = lists + n->n_in;
    m->best.in = lists + 2 * n->n_in;
    m->trial.out = lists + 3 * n->n_in;
    m->best.out = m->trial.out + n->n_out;
    m->best_cost = INFINITY;
    memcpy(m->have, m->p->in, (size_t)n->n_in * sizeof *m->have);
    return ST_OK;
}

/* Does the rule want a divided input whole? */
static bool gathers(const Mix *m)
{
    for (int i = 0; i < m->p->node->n_in; i++)
        if (is_disputed(m, i) && m->p->in[i].kind != PL_S)
            return true;
    return false;
}

static Status note_choice(const Mix *m, bool chosen, double gathered)
{
    const char **how = &m->t->how[m->p->node->index];
    long long all = (long long)gathered, best = (long long)m->best_bytes;

    if (!gathers(m))
        *how = arena_printf(m->a, "exchanged: a replica receives %lld bytes", chosen ? best : all);
    else
        *how = chosen ? arena_printf(m->a,
                                     "exchanged for slices along axis %d: a replica receives %lld bytes, gathered it "
                                     "would be %lld",
                                     m->best_axis, best, all)
                      : arena_printf(m->a,
                                     "gathered: a replica receives %lld bytes, exchanged for slices along axis %d it "
                                     "would be %lld",
                                     all, m->best_axis, best);
    return *how ? ST_OK : FAIL_NOMEM();
}

/* Chooses between gathering and slices for a node that mixes samples. */
static Status mixed_samples_choose(Mix *m)
{
    double gathered, cost = cost_of(m, m->p, &gathered);
    bool better;

    TRY(try_axes(m));
    if (isinf(m->best_cost) && gathers(m))
        return ST_OK;
    better = m->best_cost < cost || (m->part->mix == MIX_EXCHANGE && gathers(m));
    TRY(note_choice(m, better, gathered));
    if (better)
        mixed_samples_take(m->p, &m->best);
    return ST_OK;
}

static bool takes_part(const Mix *m)
{
    const Node *n = m->p->node;

    return m->part->mix != MIX_GATHER && n->op->place && n->phase != PHASE_UPDATE && node_inputs_known(m->p->g, n) &&
           !(n->op->flags & (OPF_RANDOM | OPF_SHARES | OPF_STACKS_L | OPF_OWN_SUMS | OPF_PIECES | OPF_IMPURE)) &&
           !place_any(m->p, PL_L) && place_any(m->p, PL_S);
}

/* Places the node by its rule or in slices; `seen`: the outputs' placements for rules. */
static Status place_one(Mix *m, Place *seen)
{
    Placement *p = m->p;
    bool in_slices = false;

    if (!takes_part(m)) {
        TRY(place_by_rule(p));
    } else {
        TRY(open_mix(m));
        TRY(place_by_rule(p));
        if (any_elsewhere(m, !p->mixes)) {
            TRY(try_native(m));
            in_slices = mixed_samples_fits(m) && all_out_split(&m->trial);
        }
        if (in_slices) {
            const bool mixed = p->mixes != NULL;

            memcpy(seen, p->out, (size_t)p->node->n_out * sizeof *seen);
            mixed_samples_take(p, &m->trial);
            p->mixes = NULL;
            for (int o = 0; o < p->node->n_out; o++)
                if (mixed || seen[o].kind != PL_S)
                    seen[o] = p->out[o];
            return ST_OK;
        }
        if (p->mixes)
            TRY(mixed_samples_choose(m));
    }
    for (int o = 0; o < p->node->n_out; o++)
        seen[o] = has_value(p->node->out[o]) && m->have && p->mixes ? seen_of(m, p, o) : p->out[o];
    return ST_OK;
}

static void note_asked(const Mix *m)
{
    for (int i = 0; i < m->p->node->n_in; i++) {
        const ValueId v = m->p->node->in[i];

        if (!has_value(v) || m->t->value[v.i].kind != PL_S || place_eq(m->t->value[v.i], m->p->in[i]))
            continue;
        if (m->p->in[i].kind == PL_B)
            m->t->asked[v.i] |= ASKED_WHOLE;
        else if (place_eq(m->p->in[i], m->t->seen[v.i]))
            m->t->asked[v.i] |= ASKED_SEEN;
    }
}

Status mix_place(Placement *p, Placements *t, const Partition *part, Arena *a)
{
    Mix m = { .p = p, .t = t, .part = part, .a = a };
    Place *seen = ARENA_NEW(a, Place, p->node->n_out);

    t->how[p->node->index] = NULL;
    if (!seen)
        return FAIL_NOMEM();
    TRY(place_one(&m, seen));
    for (int o = 0; o < p->node->n_out; o++)
        if (has_value(p->node->out[o]))
            t->seen[p->node->out[o].i] = seen[o];
    note_asked(&m);
    return ST_OK;
}
