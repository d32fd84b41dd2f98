/* The parts of a step: its phases, its collectives with the reason of each, and the devices of its replicas. */
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"
#include "graph/ir/readers.h"
#include "graph/ops/update.h"
#include "passes/report.h"

static int64_t report_step_bytes_of(const Graph *g, const ValueId *v, int n)
{
    int64_t bytes = 0;

    for (int i = 0; i < n; i++)
        if (has_value(v[i]) && shape_known(value(g, v[i])->shape))
            bytes += (int64_t)value_bytes(g, v[i]);
    return bytes;
}

/* The subject of the note that says that `n`, or what it is a gradient of, mixes samples; or NULL. */
static const char *find_mixed(const Report *r, const Node *n)
{
    static const char gradient[] = "gradient of ";
    const char *name = n->name;

    if (name && !strncmp(name, gradient, sizeof gradient - 1))
        name += sizeof gradient - 1;
    for (int i = 0; name && i < r->n_note; i++)
        if (r->note[i].kind == NOTE_MIXES && !strcmp(r->note[i].subject, name))
            return r->note[i].subject;
    return NULL;
}

/* The reason for a collective in this phase. */
static const char *reason_of(const Graph *g, const Node *n, const Exchange *e, int phase, const Uses *u,
                             const uint8_t *phases)
{
    const Value *first = n->n_in ? in_value(g, n, 0) : NULL;
    bool updates = false, stacked = false; /* is a result read in the update, or by a node that merges statistics? */

    for (int o = 0; o < n->n_out; o++)
        for (uint32_t k = u->first[n->out[o].i]; k < u->first[n->out[o].i + 1]; k++) {
            updates |= phases[u->reader[k].n->index] == PHASE_UPDATE;
            stacked |= (u->reader[k].n->op->flags & OPF_STACKS_L) != 0;
        }
    if (exchange_distributes(e))
        return first && first->kind == V_INPUT ? "what the caller gives" : "what one device has";
    if (stacked)
        return "statistics of the whole batch, or of a group of replicas, merged in their order";
    if (exchange_resplits(e))
        return "parts of the batch are needed in slices of all samples, or again in parts";
    if (e->joined)
        return first && first->kind == V_STATE ? "a parameter kept in pieces is needed whole"
               : phase == PHASE_UPDATE         ? "pieces that were updated are needed whole"
                                               : "parts of the batch are needed whole";
    if (phase == PHASE_BACKWARD && updates)
        return "gradients of parameters are sums over the batch";
    return phase == PHASE_CRITERION ? "the loss is a sum over the batch"
                                    : "partial sums over the batch are needed whole";
}

/* The subject of the note of a node that mixes samples, and reads the collective's results or makes an operand; NULL:
 * there is none. */
static const char *mixed_beside(const Report *r, const Graph *g, const Node *n, const Uses *u)
{
    const char *mixes = NULL;

    for (int o = 0; o < n->n_out && !mixes; o++) /* the last reader of a result */
        for (uint32_t k = u->first[n->out[o].i + 1]; !mixes && k-- > u->first[n->out[o].i];)
            mixes = find_mixed(r, u->reader[k].n);
    for (int i = 0; i < n->n_in && !mixes; i++)
        if (in_value(g, n, i)->producer)
            mixes = find_mixed(r, in_value(g, n, i)->producer);
    return mixes;
}

static Status add_collective(Report *r, const Graph *g, const Node *n, const Uses *u, const uint8_t *phases)
{
    const Exchange e = exchange_of(n);
    const int phase = phases[n->index];
    const char *mixes = mixed_beside(r, g, n, u);
    CollectiveLoad c = { .kind = exchange_verb(&e),
                         .phase = phase,
                         .reason = reason_of(g, n, &e, phase, u, phases),
                         .bytes = report_step_bytes_of(g, n->in, n->n_in),
                         .tensors = e.tensors,
                         .name = arena_strdup(r->arena, n->name) };
    CollectiveLoad *grown =
        arena_grow(r->arena, r->collective, sizeof *r->collective, (size_t)r->collectives, &r->cap_collective);

    c.subject = mixes;
    if (mixes)
        c.reason = arena_printf(r->arena, "%s mixes samples of the batch", mixes);
    if (!c.name || !c.reason || !grown)
        return FAIL_NOMEM();
    if (!(c.of = ARENA_NEW(r->arena, const char *, e.tensors)))
        return FAIL_NOMEM();
    for (int t = 0; t < e.tensors; t++) {
        const Value *v = in_value(g, n, t * e.parts);

        if (!(c.of[t] = arena_strdup(r->arena, v->producer ? v->producer->name : value_logical_name(v))))
            return FAIL_NOMEM();
    }
    r->phase[phase].collectives++;
    r->phase[phase].sent += c.bytes;
    r->collective = grown;
    r->collective[r->collectives++] = c;
    return ST_OK;
}

/* ---- ways of parameters ---- */

/* Appends the node that makes v to the queue of n nodes, unless this search has met it.  Returns the new number. */
static int look_at(const Value *v, uint32_t *queue, int n, uint32_t *stamp, uint32_t search)
{
    const Node *from = v->producer;

    if (!from || stamp[from->index] == search)
        return n;
    stamp[from->index] = search;
    queue[n] = from->index;
    return n + 1;
}

/* The sum over replicas that is fewest nodes before the value, or NULL.  Results of other collectives are no gradients.
 * `queue`: room for all nodes; `stamp`: by node index, the number of the last search that met it; `search`: this one's.
 */
static const Node *sum_before(const Graph *g, ValueId v, uint32_t *queue, uint32_t *stamp, uint32_t search)
{
    int n = look_at(value(g, v), queue, 0, stamp, search);

    for (int at = 0; at < n; at++) {
        const Node *x = g->node[queue[at]];

        if (exchange_of(x).sum)
            return x;
        for (int i = 0; i < x->n_in && !(x->op->flags & OPF_COLLECTIVE); i++)
            if (has_value(x->in[i]))
                n = look_at(in_value(g, x, i), queue, n, stamp, search);
    }
    return NULL;
}

static bool is_way_of(const void *item, const void *key) { return !strcmp(((const Way *)item)->parameter, key); }

const Way *report_way(const Report *r, const char *parameter)
{
    return r->ways.n ? hash_table_find(&r->ways, hash_text(HASH_BEGIN, parameter), is_way_of, parameter) : NULL;
}

/* Notes that node n updates the parameter, whose gradient the collective `sum` reduces; NULL: none does. */
static Status add_way(Report *r, const char *parameter, const Node *n, const Node *sum)
{
    Way *w = ARENA_NEW(r->arena, Way, 1);

    if (!w || !hash_table_reserve(&r->ways, r->arena))
        return FAIL_NOMEM();
    *w = (Way){ .parameter = arena_strdup(r->arena, parameter),
                .updated_by = arena_strdup(r->arena, n->name),
                .reduced_by = sum ? arena_strdup(r->arena, sum->name) : NULL };
    if (!w->parameter || !w->updated_by || (sum && !w->reduced_by))
        return FAIL_NOMEM();
    hash_table_add(&r->ways, hash_text(HASH_BEGIN, parameter), w);
    return ST_OK;
}

static Status report_step_collect(Report *r, const Graph *g, Arena *a)
{
    const uint8_t *phase = graph_phases(g, a);
    uint32_t *queue = ARENA_NEW(a, uint32_t, g->n_node), *stamp = ARENA_NEW(a, uint32_t, g->n_node), searches = 0;
    Uses uses;

    if (!phase || !queue || !stamp)
        return FAIL_NOMEM();
    TRY(uses_find(&uses, g, a));
    FOR_NODES(g, n) {
        PhaseLoad *load = &r->phase[phase[n->index]];

        if (n->op->flags & OPF_COLLECTIVE) {
            TRY(add_collective(r, g, n, &uses, phase));
            continue;
        }
        load->nodes++;
        load->flops += node_flops(g, n);
        load->bytes += n->op->flags & OPF_VIEW
                           ? 0
                           : report_step_bytes_of(g, n->in, n->n_in) + report_step_bytes_of(g, n->out, n->n_out);
    }
    FOR_NODES(g, n) {
        const UpdateForm form = update_is(n) ? update_form(n) : (UpdateForm){ 0 };

        for (int p = 0; p < form.count; p++) {
            const char *parameter = value_logical_name(in_value(g, n, update_state(&form, p, 0)));

            if (!report_way(r, parameter)) /* once for all copies */
                TRY(add_way(r, parameter, n,
                            r->collectives ? sum_before(g, n->in[update_grad(&form, p)], queue, stamp, ++searches)
                                           : NULL));
        }
    }
    if (r->replicas && !(r->device_of = ARENA_NEW(r->arena, int, r->replicas)))
        return FAIL_NOMEM();
    for (int i = 0; i < r->replicas; i++)
        r->device_of[i] = -1;
    FOR_NODES(g, n)
        if (n->replica >= 0 && n->replica < r->replicas && r->device_of[n->replica] < 0)
            r->device_of[n->replica] = n->device;
    return ST_OK;
}

Status report_step(Report *r, const Graph *g)
{
    Arena *a = arena_create_beside(g->arena);
    Status st = a ? report_step_collect(r, g, a) : FAIL_NOMEM();

    arena_free(a);
    return st;
}
