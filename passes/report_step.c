/* The parts of a step: its phases, its collectives with the reason of each, and the devices of its replicas. */
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ops/update.h"
#include "graph/ir/phase.h"
#include "passes/report.h"

static int64_t report_step_bytes_of(const Graph *g, const ValueId *v, int n)
{
    int64_t bytes = 0;

    for (int i = 0; i < n; i++)
        if (has_value(v[i]) && shape_known(value(g, v[i])->shape))
            bytes += (int64_t)value_bytes(g, v[i]);
    return bytes;
}

/* By value, of those that read it: the latest phase, whether one merges rows of statistics, and the name of one that
 * mixes samples of the batch. */
typedef struct {
    uint8_t *latest;
    bool *stacked;
    const char **mixes;
} Readers;

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

static Status find_readers(Readers *out, const Report *r, const Graph *g, const uint8_t *phase, Arena *a)
{
    *out = (Readers){ ARENA_NEW(a, uint8_t, g->n_value), ARENA_NEW(a, bool, g->n_value),
                      ARENA_NEW(a, const char *, g->n_value) };
    if (!out->latest || !out->stacked || !out->mixes)
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        const char *mixes = find_mixed(r, n);

        for (int i = 0; i < n->n_in; i++) {
            const uint32_t v = n->in[i].i;

            out->latest[v] = phase[n->index] > out->latest[v] ? phase[n->index] : out->latest[v];
            out->stacked[v] |= (n->op->flags & OPF_STACKS_L) != 0;
            out->mixes[v] = mixes ? mixes : out->mixes[v];
        }
    }
    return ST_OK;
}

static const char *reason_of(const Graph *g, const Node *n, const Exchange *e, int phase, const Readers *r)
{
    const Value *first = n->n_in ? in_value(g, n, 0) : NULL;
    bool updates = false, stacked = false;

    for (int o = 0; o < n->n_out; o++) {
        updates |= has_value(n->out[o]) && r->latest[n->out[o].i] == PHASE_UPDATE;
        stacked |= has_value(n->out[o]) && r->stacked[n->out[o].i];
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

static Status add_collective(Report *r, const Graph *g, const Node *n, int phase, const Readers *readers)
{
    const Exchange e = exchange_of(n);
    const char *mixes = NULL; /* a node that mixes samples, and reads the results or makes an operand */
    CollectiveLoad c = { .kind = exchange_verb(&e),
                         .phase = phase,
                         .reason = reason_of(g, n, &e, phase, readers),
                         .bytes = report_step_bytes_of(g, n->in, n->n_in),
                         .tensors = e.tensors,
                         .name = arena_strdup(r->arena, n->name) };
    CollectiveLoad *grown =
        arena_grow(r->arena, r->collective, sizeof *r->collective, (size_t)r->collectives, &r->cap_collective);

    for (int o = 0; o < n->n_out && !mixes; o++)
        mixes = has_value(n->out[o]) ? readers->mixes[n->out[o].i] : NULL;
    for (int i = 0; i < n->n_in && !mixes; i++)
        if (in_value(g, n, i)->producer)
            mixes = find_mixed(r, in_value(g, n, i)->producer);
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

typedef struct {
    uint32_t *queue, *stamp; /* nodes to visit; by node index: the last search that met it */
    uint32_t search;
} Search;

static void look_at(Search *s, int *n, const Value *v)
{
    const Node *from = v->producer;

    if (!from || s->stamp[from->index] == s->search)
        return;
    s->stamp[from->index] = s->search;
    s->queue[(*n)++] = from->index;
}

/* The sum over replicas that is fewest nodes before the value, or NULL.  Results of other collectives are no gradients.
 */
static const Node *sum_before(Search *s, const Graph *g, ValueId v)
{
    int n = 0;

    s->search++;
    look_at(s, &n, value(g, v));
    for (int at = 0; at < n; at++) {
        const Node *x = g->node[s->queue[at]];

        if (exchange_of(x).sum)
            return x;
        for (int i = 0; i < x->n_in && !(x->op->flags & OPF_COLLECTIVE); i++)
            if (has_value(x->in[i]))
                look_at(s, &n, in_value(g, x, i));
    }
    return NULL;
}

const Way *report_way(const Report *r, const char *parameter)
{
    for (int i = 0; i < r->n_way; i++)
        if (!strcmp(r->way[i].parameter, parameter))
            return &r->way[i];
    return NULL;
}

static Status add_way(Report *r, const Graph *g, const Node *n, const UpdateForm *form, int p, Search *s)
{
    const char *parameter = value_logical_name(in_value(g, n, update_state(form, p, 0)));
    const Node *from = r->collectives ? sum_before(s, g, n->in[update_grad(form, p)]) : NULL;
    Way w = { .updated_by = arena_strdup(r->arena, n->name) }, *grown;

    if (report_way(r, parameter)) /* a copy of it */
        return ST_OK;
    w.parameter = arena_strdup(r->arena, parameter);
    w.reduced_by = from ? arena_strdup(r->arena, from->name) : NULL;
    grown = arena_grow(r->arena, r->way, sizeof *r->way, (size_t)r->n_way, &r->cap_way);
    if (!w.parameter || !w.updated_by || (from && !w.reduced_by) || !grown)
        return FAIL_NOMEM();
    r->way = grown;
    r->way[r->n_way++] = w;
    return ST_OK;
}

static Status report_step_collect(Report *r, const Graph *g, Arena *a)
{
    const uint8_t *phase = graph_phases(g, a);
    Search s = { ARENA_NEW(a, uint32_t, g->n_node), ARENA_NEW(a, uint32_t, g->n_node), 0 };
    Readers readers;

    if (!phase || !s.queue || !s.stamp)
        return FAIL_NOMEM();
    TRY(find_readers(&readers, r, g, phase, a));
    FOR_NODES(g, n) {
        PhaseLoad *load = &r->phase[phase[n->index]];

        if (n->op->flags & OPF_COLLECTIVE) {
            TRY(add_collective(r, g, n, phase[n->index], &readers));
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

        for (int p = 0; p < form.count; p++)
            TRY(add_way(r, g, n, &form, p, &s));
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
