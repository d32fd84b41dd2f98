/* The table of placements: a walk over the nodes in order, each passing its inputs' placements to its outputs by its
 * operator's rule.
 *
 * Correct because a rule is a statement about one operator: if the inputs have the placements it wants
 * (passes/partition/expand.c makes them so), running the operator on every replica gives outputs of the placement it
 * states.  The rest is induction.
 *
 * The options decide how states begin: as a partial sum, cut into pieces for the devices (passes/partition/shard.c), or
 * whole.
 *
 * A partial sum is reduced when it is made, to all of it or to a device's piece, as its readers want, unless that would
 * be too early.  It stays partial on a path to an addition of two partial sums (a weight used twice is reduced once),
 * to a partial state, to a reader that needs only parts of it (a ReduceScatter is enough then), to a conversion that
 * widens it (sums over replicas are not rounded to 16 bits), to a reader of each replica's own (OPF_OWN_SUMS), or to a
 * node that differs between replicas (passes/partition/variants.h).  Otherwise the scaling, clipping and the update
 * that follow would run once per replica, and a gradient that is read in two ways would be reduced twice. */
#include "passes/partition/place.h"

#include <string.h>

#include "graph/ops/update.h"
#include "passes/partition/mixed_samples.h"
#include "passes/partition/variants.h"
#include "passes/report.h"

static Place first_place(const Graph *g, const Partition *p, uint32_t i)
{
    const Value *v = g->value[i];

    if (v->kind == V_INPUT && p->batch_axis[i] >= 0)
        return (Place){ .kind = PL_S, .axis = p->batch_axis[i], .blocks = 1, .split = &p->batch };
    if (v->kind == V_STATE && p->shard && p->shard[i])
        return PLACE_PIECES(p->shard[i]);
    return v->kind == V_STATE && v->partial ? PLACE_P : PLACE_B;
}

/* Checks that a value is split along an axis whose size the batch divides; other splits are an operator's error. */
static Status check_split(const Placement *p, const char *what, int i, ValueId v, Place at)
{
    const Shape *s;
    char text[SHAPE_TEXT];

    if (at.kind != PL_S || !has_value(v))
        return ST_OK;
    s = value(p->g, v)->shape;
    if (!shape_known(s))
        return FAIL(E_UNSUPPORTED,
                    "%s: the shape of '%s' is not known before the run, so it cannot be split over replicas",
                    node_text(p->g, p->node), value(p->g, v)->name);
    if (!place_can_split(p, s, at))
        return FAIL(E_UNSUPPORTED,
                    "%s: %s %d of shape %s fixes the batch size: axis %d is not a multiple of the batch of %lld",
                    node_text(p->g, p->node), what, i, shape_text(s, text), at.axis, (long long)at.split->total);
    return ST_OK;
}

/* Makes an update compute in the pieces of its gradient. */
static void want_pieces(Placement *p, const Partition *part)
{
    const UpdateForm f = update_form(p->node);

    for (int k = 0; k < f.count; k++) {
        const Split *cut = part->update[p->node->in[update_state(&f, k, 0)].i];

        if (cut && p->in[update_grad(&f, k)].kind != PL_S)
            p->in[update_grad(&f, k)] = PLACE_PIECES(cut);
    }
}

/* ---- a loss of all samples on one device ---- */

/* Finds the nodes that are computed on the loss's device.  The criterion is, and so are its gradient's nodes that read
 * only values there. */
static Status find_there(Placements *out, const Graph *g, Arena *a)
{
    bool *fixed = ARENA_NEW(a, bool, g->n_value); /* by value id: a constant, or computed from constants alone */
    bool *held = ARENA_NEW(a, bool, g->n_value);  /* likewise: computed on that device, or read by the loss there */
    bool *there = ARENA_NEW(a, bool, g->n_node);

    if (!fixed || !held || !there)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        fixed[i] = g->value[i]->kind == V_CONST;
    FOR_NODES(g, n) {
        bool constant = !(n->op->flags & OPF_RANDOM), any = false, all = true;

        for (int i = 0; i < n->n_in; i++) {
            if (!has_value(n->in[i]) || fixed[n->in[i].i])
                continue;
            constant = false;
            any = true;
            all &= held[n->in[i].i];
        }
        there[n->index] = any && (n->phase == PHASE_CRITERION || (n->phase == PHASE_BACKWARD && all));
        for (int i = 0; i < n->n_in && there[n->index] && n->phase == PHASE_CRITERION; i++)
            held[n->in[i].i] |= has_value(n->in[i]);
        for (int o = 0; o < n->n_out; o++) {
            fixed[n->out[o].i] = constant && has_value(n->out[o]);
            held[n->out[o].i] |= there[n->index] && has_value(n->out[o]);
        }
    }
    out->there = there;
    return ST_OK;
}

/* Applies the operator's rule to a node on the loss's device: other nodes see its outputs divided as if it were not
 * there. */
static Status apply_there(Placement *p)
{
    const Node *n = p->node;

    TRY(place_by_rule(p));
    p->mixes = NULL;
    for (int i = 0; i < n->n_in; i++)
        p->in[i] = PLACE_B;
    for (int i = 0; i < n->n_out; i++)
        if (p->out[i].kind != PL_S || p->out[i].blocks != 1 || place_by_device(p->out[i]))
            p->out[i] = PLACE_B;
    return ST_OK;
}

static Status place_node(Placement *p, Placements *t, const Partition *part, Arena *a)
{
    const int only_on = t->only_on[p->node->index] = part_replica_find(t, p, part);

    if (!only_on && !(t->there && t->there[p->node->index]))
        return mix_place(p, t, part, a);
    if (only_on)
        part_replica_place(t, p, part, only_on);
    else
        TRY(apply_there(p));
    for (int i = 0; i < p->node->n_out; i++)
        if (has_value(p->node->out[i]))
            t->seen[p->node->out[i].i] = p->out[i];
    return ST_OK;
}

/* The placement that the node sees of its input.  A parameter in pieces is whole for all nodes but its update, so that
 * sums are where they are when every device keeps all of it. */
static Place seen_by(const Node *n, const Placements *t, const Graph *g, ValueId v)
{
    if (n->phase != PHASE_UPDATE && has_value(v) && value(g, v)->kind == V_STATE && place_by_device(t->seen[v.i]))
        return PLACE_B;
    return t->early[v.i] ? place_early(t, v) : t->seen[v.i];
}

static Status place_apply(Placement *p, Placements *t, const Partition *part, Arena *a)
{
    const Node *n = p->node;

    for (int i = 0; i < n->n_in; i++)
        p->in[i] = seen_by(n, t, p->g, n->in[i]);
    if (part->update && update_is(n))
        want_pieces(p, part);
    TRY(place_node(p, t, part, a));
    for (int i = 0; i < n->n_in; i++)
        TRY(check_split(p, "input", i, n->in[i], p->in[i]));
    for (int i = 0; i < n->n_out; i++) {
        TRY(check_split(p, "output", i, n->out[i], p->out[i]));
        if (has_value(n->out[i]))
            t->value[n->out[i].i] = p->out[i];
    }
    return ST_OK;
}

static int most_outputs(const Graph *g)
{
    int most = 0;

    FOR_NODES(g, n)
        most = n->n_out > most ? n->n_out : most;
    return most;
}

static Status place_nodes(Placements *t, const Graph *g, const Partition *part, Arena *a, Report *report)
{
    Place *out = ARENA_NEW(a, Place, most_outputs(g));

    if (!out)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++) {
        t->value[i] = t->seen[i] = first_place(g, part, i);
        t->value_only_on[i] = 0;
        t->asked[i] = t->asked[i] & (ASKED_SEEN | ASKED_BEFORE) ? ASKED_BEFORE : 0;
    }
    FOR_NODES(g, n) {
        Placement p = { .g = g, .node = n, .split = &part->batch };

        if (!t->want[n->index])
            t->want[n->index] = ARENA_NEW(a, Place, n->n_in);
        p.in = t->want[n->index];
        p.out = out;
        if (!p.in)
            return FAIL_NOMEM();
        memset(out, 0, (size_t)n->n_out * sizeof *out);
        TRY(place_apply(&p, t, part, a));
        if (p.mixes)
            TRY(report_note(report, NOTE_MIXES, n->name, "%s mixes samples of the batch: %s%s%s", node_text(g, n),
                            p.mixes, t->how[n->index] ? "; " : "", t->how[n->index] ? t->how[n->index] : ""));
    }
    return ST_OK;
}

/* Notes states that an operator writes on each replica and for which no mode makes one of the whole batch. */
static Status note_states(const Placements *t, const Graph *g, Report *report)
{
    for (int i = 0; i < g->n_update; i++) {
        const Node *n = value(g, g->update[i].next)->producer;

        if (n && n->op->running_in && !n->op->trains && t->value[g->update[i].next.i].kind == PL_L)
            TRY(report_note(report, NOTE_NUMBERS, value(g, g->update[i].state)->name,
                            "%s writes this state on each replica; the state of the first replica is kept",
                            node_text(g, n)));
    }
    return ST_OK;
}

static int partial_inputs(const Placements *t, const Node *n)
{
    int count = 0;

    for (int i = 0; i < n->n_in; i++)
        count += has_value(n->in[i]) && t->want[n->index][i].kind == PL_P;
    return count;
}

/* Does the node convert floats to a wider type? */
static bool widens(const Graph *g, const Node *n)
{
    return n->n_in == 1 && n->n_out == 1 && dtype_is_float(in_value(g, n, 0)->dtype) &&
           dtype_is_float(value(g, n->out[0])->dtype) &&
           dtype_size(value(g, n->out[0])->dtype) > dtype_size(in_value(g, n, 0)->dtype);
}

/* Notes that input i, a partial sum, is wanted in pieces and so is reduced to them, through element-wise operators too.
 */
static void note_pieces(Placements *t, const Graph *g, const Node *n, int i)
{
    Place want = t->want[n->index][i];
    ValueId v = n->in[i], y = n->out[0];

    if (want.kind == PL_S && place_by_device(want))
        t->pieces[v.i] = want.split;
    else if (want.kind == PL_P && n->op->elementwise && partial_inputs(t, n) == 1 && t->pieces[y.i] &&
             !t->pieces[v.i] && shape_eq(value(g, v)->shape, value(g, y)->shape))
        t->pieces[v.i] = t->pieces[y.i];
}

/* Decides which partial sums are reduced when made, in reverse order: a node's outputs show whether its inputs are on a
 * path to an addition.  Keeping all or a piece of a state on a device must not move a sum, which would change rounding.
 * Only a view moves it, which rounds nothing. */
static Status decide_early(Placements *t, const Graph *g, Arena *a)
{
    /* by value id: the partial sum is on a path to an addition, or to another reader for which a later sum is better;
     * a node reads it that needs it whole on each replica; it is on a path to a node that wants each replica's own */
    bool *leads = ARENA_NEW(a, bool, g->n_value), *read = ARENA_NEW(a, bool, g->n_value),
         *own = ARENA_NEW(a, bool, g->n_value);
    /* a view of it is reduced to pieces, so the sum can wait for the view ...; unless another node reads it */
    bool *shown = ARENA_NEW(a, bool, g->n_value), *plain = ARENA_NEW(a, bool, g->n_value);

    if (!leads || !read || !own || !shown || !plain)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_update; i++)
        leads[g->update[i].next.i] |= t->value[g->update[i].state.i].kind == PL_P;
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        int sums = n->op ? partial_inputs(t, n) : 0;
        bool on_way = sums > 1 || (sums == 1 && widens(g, n)), by_itself = sums && n->op->flags & OPF_OWN_SUMS,
             shows = sums == 1 && n->op->flags & OPF_VIEW && (t->pieces[n->out[0].i] || shown[n->out[0].i]);

        on_way |= n->op && sums && t->own && t->own[n->index];
        for (int o = 0; n->op && o < n->n_out; o++) {
            on_way |= leads[n->out[o].i];
            by_itself |= own[n->out[o].i];
        }
        for (int i = 0; n->op && i < n->n_in; i++) {
            Place want = t->want[n->index][i];

            if (!has_value(n->in[i]) || t->value[n->in[i].i].kind != PL_P)
                continue;
            own[n->in[i].i] |= want.kind == PL_P && by_itself;
            leads[n->in[i].i] |= want.kind == PL_P ? on_way : want.kind == PL_S && !place_by_device(want);
            read[n->in[i].i] |= want.kind == PL_L;
            shown[n->in[i].i] |= want.kind == PL_P && shows;
            plain[n->in[i].i] |= want.kind != PL_P || !shows;
            note_pieces(t, g, n, i);
        }
    }
    for (uint32_t i = 1; i < g->n_value; i++) {
        const bool later = leads[i] || (shown[i] && !plain[i]);

        t->early[i] = t->value[i].kind == PL_P && !own[i] && (read[i] || !later) && !(t->varies && t->varies[i]);
    }
    return ST_OK;
}

static bool *find_given(const Graph *g, Arena *a)
{
    bool *given = ARENA_NEW(a, bool, g->n_value);

    for (int i = 0; given && i < g->n_output; i++)
        given[g->output[i].value.i] = true;
    for (int i = 0; given && i < g->n_update; i++)
        given[g->update[i].next.i] = true;
    return given;
}

Status place_graph(Placements *out, const Graph *g, const Partition *part, Arena *a, Report *report)
{
    Placements t = { .value = ARENA_NEW(a, Place, g->n_value),
                     .seen = ARENA_NEW(a, Place, g->n_value),
                     .asked = ARENA_NEW(a, uint8_t, g->n_value),
                     .how = ARENA_NEW(a, const char *, g->n_node),
                     .want = ARENA_NEW(a, Place *, g->n_node),
                     .early = ARENA_NEW(a, bool, g->n_value),
                     .pieces = ARENA_NEW(a, const Split *, g->n_value),
                     .only_on = ARENA_NEW(a, int, g->n_node),
                     .value_only_on = ARENA_NEW(a, int, g->n_value),
                     .given = find_given(g, a) };

    if (!t.value || !t.seen || !t.asked || !t.how || !t.want || !t.early || !t.pieces || !t.only_on ||
        !t.value_only_on || !t.given)
        return FAIL_NOMEM();
    if (part->loss_device >= 0)
        TRY(find_there(&t, g, a));
    TRY(place_nodes(&t, g, part, a, NULL));
    TRY(variants_spread(&t, g, part, a));
    TRY(decide_early(&t, g, a));
    TRY(place_nodes(&t, g, part, a, report));
    TRY(variants_spread(&t, g, part, a));
    *out = t;
    return note_states(&t, g, report);
}
