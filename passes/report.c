/* Collecting the passes' notes, and sums over the final graph. */
#include "passes/report.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "passes/plan/plan_memory.h"

Report *report_create(void)
{
    Arena *a = arena_create();
    Report *r = a ? ARENA_NEW(a, Report, 1) : NULL;

    if (!r)
        arena_free(a);
    else
        r->arena = a;
    return r;
}

void report_free(Report *r)
{
    if (r)
        arena_free(r->arena);
}

Status report_note(Report *r, NoteKind kind, const char *subject, const char *fmt, ...)
{
    char text[1024];
    Note note = { .kind = kind }, *grown;
    va_list ap;

    if (!r)
        return ST_OK;
    va_start(ap, fmt);
    text_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    foreign_clean(text);
    note.text = arena_strdup(r->arena, text);
    snprintf(text, sizeof text, "%s", subject);
    foreign_clean(text);
    note.subject = arena_strdup(r->arena, text);
    grown = arena_grow(r->arena, r->note, sizeof *r->note, (size_t)r->n_note, &r->cap_note);
    if (!note.subject || !note.text || !grown)
        return FAIL_NOMEM();
    r->note = grown;
    r->note[r->n_note++] = note;
    return ST_OK;
}

Status report_decision(Report *r, const Value *v, bool trained, bool guess, const char *reason, DecisionKind kind)
{
    Decision d = { .reason = reason, .kind = kind, .trained = trained, .guess = guess }, *grown;

    if (!r)
        return ST_OK;
    d.name = arena_strdup(r->arena, v->name);
    d.shape = shapes_share(&r->shapes, r->arena, v->shape);
    grown = arena_grow(r->arena, r->decision, sizeof *r->decision, (size_t)r->n_decision, &r->cap_decision);
    if (!d.name || !d.shape || !grown)
        return FAIL_NOMEM();
    r->decision = grown;
    r->decision[r->n_decision++] = d;
    return ST_OK;
}

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void report_stage_begin(Stage *s, const Graph *g)
{
    s->before = 0;
    FOR_NODES(g, n)
        s->before++;
    s->seconds = processor_seconds();
}

Status report_stage_end(Report *r, Stage *s, const Graph *g)
{
    Stage *grown;

    if (!r)
        return ST_OK;
    s->seconds = processor_seconds() - s->seconds;
    s->graph_bytes = arena_bytes(g->arena);
    s->nodes = s->values = 0;
    FOR_NODES(g, n) {
        s->nodes++;
        s->values += n->n_out;
    }
    if (!(grown = arena_grow(r->arena, r->stage, sizeof *r->stage, (size_t)r->n_stage, &r->cap_stage)))
        return FAIL_NOMEM();
    r->stage = grown;
    r->stage[r->n_stage++] = *s;
    return ST_OK;
}

Status report_division(Report *r, int replicas, const int64_t *count, int64_t batch)
{
    if (!r)
        return ST_OK;
    r->replicas = replicas;
    r->batch = batch;
    r->count = arena_memdup(r->arena, count, (size_t)replicas * sizeof *count);
    return r->count ? ST_OK : FAIL_NOMEM();
}

/* ---- sums over the final graph ---- */

static int64_t report_bytes_of(const Graph *g, ValueId v)
{
    const Value *x = value(g, v);

    return x && shape_known(x->shape) ? (int64_t)value_bytes(g, v) : 0;
}

int64_t node_flops(const Graph *g, const Node *n)
{
    const bool reads = n->op->flops_of == FLOPS_OF_INPUT;
    const Value *of = reads ? in_value(g, n, 0) : n->n_out && has_value(n->out[0]) ? value(g, n->out[0]) : NULL;

    if (n->op->flops)
        return n->op->flops(g, n);
    if ((!reads && op_only_moves(n->op)) || n->op->flops_of == FLOPS_OF_NOTHING || !of || !shape_known(of->shape))
        return 0;
    return shape_numel(of->shape);
}

static Status make_loads(Report *r, const Graph *g)
{
    int last = 0;

    FOR_NODES(g, n)
        last = n->device > last ? n->device : last;
    for (uint32_t i = 1; i < g->n_value; i++)
        last = g->value[i]->kind == V_STATE && g->value[i]->device > last ? g->value[i]->device : last;
    if (!(r->load = ARENA_NEW(r->arena, DeviceLoad, last + 1)))
        return FAIL_NOMEM();
    r->n_load = last + 1;
    for (int d = 0; d <= last; d++)
        r->load[d].device = d;
    return ST_OK;
}

static DeviceLoad *load_of(Report *r, int device)
{
    return device >= 0 && device < r->n_load ? &r->load[device] : NULL;
}

/* Counts the parts of a device's piece along one axis that belong to other devices' pieces along the other axis. */
static void count_turned(Report *r, const Graph *g, const Node *n, const Exchange *e)
{
    for (int i = 0; i < n->n_in; i++) {
        DeviceLoad *from = load_of(r, value(g, n->in[i])->device);
        const int64_t whole = in_value(g, n, i)->shape->dim[e->cut];
        int64_t others = 0;

        for (int o = 0; from && o < n->n_out; o++)
            others += exchange_device(e, o) == from->device ? 0 : value(g, n->out[o])->shape->dim[e->cut];
        if (from && whole)
            from->sent_bytes += report_bytes_of(g, n->in[i]) / whole * others;
    }
}

/* Counts the bytes that each device sends: a ring for AllReduce and ReduceScatter, a ring for AllGather, a star for
 * Broadcast. Data from the caller (Scatter and Broadcast of graph inputs) cross no link between devices. */
static void count_traffic(Report *r, const Graph *g, const Node *n)
{
    const Exchange e = exchange_of(n);
    int64_t total = 0;
    int d = r->n_load;

    if (exchange_resplits(&e))
        count_turned(r, g, n, &e);
    for (int i = 0; !e.sum && !e.split && i < n->n_in; i++) {
        DeviceLoad *from = load_of(r, value(g, n->in[i])->device);

        if (from)
            from->sent_bytes += report_bytes_of(g, n->in[i]) * (e.copies - 1);
    }
    if (!e.sum)
        return;
    for (int o = 0; o < n->n_out; o++)
        total += report_bytes_of(g, n->out[o]);
    total /= e.split ? 1 : d;
    for (int i = 0; i < d; i++)
        r->load[i].sent_bytes += total * (d - 1) / d * (e.split ? 1 : 2);
}

/* Notes values with samples that are put together on every device, which splitting was to avoid.  Rows of statistics,
 * which their reader wants stacked, and pieces of parameters, which belong to devices and not to replicas, are meant to
 * be whole. */
static Status note_gathered(Report *r, const Graph *g)
{
    bool *meant = ARENA_NEW(r->arena, bool, g->n_value);
    char shape[SHAPE_TEXT];

    if (!meant)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            meant[n->in[i].i] |= (n->op->flags & OPF_STACKS_L) != 0;
    FOR_NODES(g, n)
        if (n->op->flags & OPF_TRANSFER)
            meant[n->in[0].i] |= meant[n->out[0].i];
    FOR_NODES(g, n) {
        const Exchange e = exchange_of(n);
        const Value *v =
            exchange_gathers(&e) && n->n_out > 1 && in_value(g, n, 0)->replica >= 0 ? value(g, n->out[0]) : NULL;

        if (v && !meant[n->out[0].i])
            TRY(report_note(r, NOTE_REPLICATED, value_logical_name(v), "shape %s, %lld bytes",
                            shape_text(v->shape, shape), (long long)report_bytes_of(g, n->out[0])));
    }
    return ST_OK;
}

/* Sets the peak bytes of the step's values on each device, without kernels' scratch; does nothing if shapes depend on
 * data. */
static Status find_peaks(Report *r, const Graph *g, size_t align)
{
    Stage stage = { .pass = STAGE_PLAN };
    MemoryPlan *plan;
    Arena *scratch;
    Status st;

    FOR_NODES(g, n)
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]) && !shape_known(value(g, n->out[o])->shape))
                return ST_OK;
    if (!(scratch = arena_create_beside(g->arena)))
        return FAIL_NOMEM();
    report_stage_begin(&stage, g);
    st = plan_memory(&plan, g, NULL, align, scratch);
    for (int d = 0; !st && d < plan->n_device && d < r->n_load; d++)
        r->load[d].peak_bytes = (int64_t)plan->device[d].arena_bytes;
    stage.scratch_bytes = arena_bytes(scratch);
    arena_free(scratch);
    return st ? st : report_stage_end(r, &stage, g);
}

Status report_graph(Report *r, const Graph *g, const Target *t)
{
    if (!r)
        return ST_OK;
    TRY(make_loads(r, g));
    FOR_NODES(g, n) {
        DeviceLoad *load = load_of(r, n->device);

        if (n->op->flags & OPF_COLLECTIVE)
            count_traffic(r, g, n);
        else if (load) {
            load->nodes++;
            load->flops += node_flops(g, n);
        }
    }
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];
        DeviceLoad *load = v->kind == V_STATE ? load_of(r, v->device < 0 ? 0 : v->device) : NULL;

        if (!load)
            continue;
        load->state_bytes += report_bytes_of(g, (ValueId){ i });
        load->parameters += v->trainable ? shape_numel(v->shape) : 0;
    }
    TRY(note_gathered(r, g));
    TRY(report_step(r, g));
    return find_peaks(r, g, target_align(t));
}
