/* Running a program: one hand-over to every device's thread, then every device walks its list of calls; they meet only
 * in collectives.  A failure on one device cancels the meetings, so that none waits for a device that will not come. */
#include <string.h>

#include "exec/gpu/program.h"
#include "exec/run/program_internal.h"
#include "exec/plan/trace.h"
#include "graph/ir/op.h"

static Status run_call(DeviceProgram *part, KernelCtx *ctx, const CpuCall *c)
{
    Status st;

    ctx->scratch = c->scratch;
    st = c->collective ? collective_run(c->collective, part->device, c->in, c->out)
                       : c->call->kernel->run(ctx, c->call->state, c->in, c->out);
    return st && st != E_INTERRUPTED ? status_prefix(st, "%s", node_text(part->program->ready.graph, c->call->node))
                                     : st;
}

static void trace_call(Trace *t, int device, const CpuCall *c, uint64_t start)
{
    const Call *k = c->call;

    trace_add(t, &(TraceEvent){ device, k->node, k->kernel ? k->kernel->name : NULL,
                                trace_bytes(k->node, c->in, c->out), start, trace_now() });
}

static Status run_calls(DeviceProgram *part, KernelCtx *ctx)
{
    Trace *trace = part->program->ready.trace;

    for (int i = 0; i < part->n_call; i++) {
        uint64_t start = trace ? trace_now() : 0;
        Status st = run_call(part, ctx, part->call[i]);

        if (st)
            return st;
        if (trace)
            trace_call(trace, part->device, part->call[i], start);
    }
    for (int i = 0; i < part->n_copy; i++)
        memcpy(part->to[i], part->from[i], part->bytes[i]);
    return ST_OK;
}

/* A DeviceJob: one step of its device. */
static Status run_device(Device *d, void *arg)
{
    DeviceProgram *part = arg;

    part->status = run_calls(part, device_ctx(d));
    if (part->status && part->status != E_INTERRUPTED)
        rendezvous_cancel(&part->program->meet);
    return part->status;
}

/* ---- inputs ---- */

/* `bytes`: so many are read. */
static Status run_check_input(const Value *v, const Tensor *t, size_t bytes)
{
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    if (t->dtype != v->dtype)
        return FAIL(E_SHAPE, "input '%s' has type %s, expected %s", v->name, dtype_name(t->dtype),
                    dtype_name(v->dtype));
    if (!shape_eq(&t->shape, v->shape))
        return FAIL(E_SHAPE, "input '%s' has shape %s, expected %s", v->name, shape_text(&t->shape, have),
                    shape_text(v->shape, want));
    if (!t->data && bytes)
        return FAIL(E_INVALID, "input '%s' has no data", v->name);
    return ST_OK;
}

Status program_find_inputs(int *place, const Graph *g, const NamedTensor *in, int n)
{
    Problems missing = { 0 };

    for (int i = 0; i < g->n_input; i++) {
        const char *name = value(g, g->input[i])->name;

        if ((place[i] = named_place(in, n, name)) < 0)
            problems_add(&missing, "input '%s' is missing", name);
    }
    return problems_fail(&missing, E_INVALID, "a step of this model");
}

static Status set_inputs(Program *p, const NamedTensor *in, const int *place, const GivenPart *part)
{
    const Graph *g = p->ready.graph;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        const Tensor *given = &in[place[i]].tensor;
        InputPart *w = &p->ready.input_part[g->input[i].i];

        TRY(input_part_give(w, v, part, place[i]));
        TRY(run_check_input(v, given, w->bytes));
        p->input[i] = (Tensor){ v->dtype, w->given, given->data };
        p->ready.storage[g->input[i].i] = given->data;
    }
    for (int i = 0; i < p->n_input_binding; i++) {
        const Binding *b = &p->input_binding[i];
        const InputPart *w = &p->ready.input_part[b->ref.root.i];

        b->tensor->data = program_place(prepared_input(&p->ready, &b->ref), b->ref.bytes);
        if (w->apart) /* a Scatter that copies reads rows of the part, which are shorter than the whole's */
            b->tensor->shape = w->given;
    }
    return ST_OK;
}

/* ---- addresses ---- */

static void bind_copies(Program *p)
{
    FOR_LOCAL(&p->ready, d)
        p->part[d].n_copy = 0;
    for (int i = 0; i < p->ready.plan->n_copy; i++) {
        const MemCopy *c = &p->ready.plan->copy[i];
        DeviceProgram *part = &p->part[c->to.device];

        if (!prepared_is_local(&p->ready, c->to.device))
            continue;
        part->from[part->n_copy] =
            c->from.kind == MEM_INPUT ? prepared_input(&p->ready, &c->from) : program_address(p, &c->from);
        part->to[part->n_copy] = program_address(p, &c->to);
        part->bytes[part->n_copy++] = c->to.bytes;
    }
}

static void run_bind(Program *p)
{
    if (p->bound == p->ready.opt.arenas->generation + 1)
        return;
    for (int i = 0; i < p->n_binding; i++)
        p->binding[i].tensor->data = program_address(p, &p->binding[i].ref);
    for (uint32_t i = 0; i < p->ready.graph->n_node; i++) {
        CpuCall *c = &p->call[i];
        char *base = p->ready.opt.arenas->base[c->call->device];

        c->scratch = program_place(base ? base + p->ready.plan->scratch[i] : NULL, c->call->scratch_bytes);
    }
    p->bound = p->ready.opt.arenas->generation + 1;
}

/* A device counts within its part: where an input's index or label is to blame, it is told as the whole batch counts
 * it. */
static Status explain(const Program *p, Status st)
{
    return st == E_INVALID && index_check_run(p->indices, &p->ready, p->input) ? E_INVALID : st;
}

static Status run_on_cpus(Program *p)
{
    bind_copies(p);
    atomic_store(&p->meet.cancelled, false);
    for (uint32_t i = 0; i < p->ready.graph->n_node; i++)
        if (p->call[i].collective)
            collective_reset(p->call[i].collective);
    FOR_LOCAL(&p->ready, d)
        device_start(p->ready.device[d], run_device, &p->part[d]);
    TRY(explain(p, device_wait_all(p->ready.device + p->ready.opt.first, p->ready.opt.n_local)));
    return p->away ? program_world_outputs(p) : ST_OK;
}

Status program_begin(Program *p, const NamedTensor *in, const int *place, const GivenPart *part)
{
    if (!p->gpu)
        run_bind(p);
    TRY(set_inputs(p, in, place, part));
    if (!p->gpu)
        return run_on_cpus(p);
    TRY(index_check_run(p->indices, &p->ready, p->input));
    return gpu_program_begin(p->gpu);
}

unsigned program_turn(const Program *p) { return p->gpu ? gpu_program_turn(p->gpu) : 0; }

Status program_wait(Program *p, unsigned turn)
{
    if (!p->gpu)
        return ST_OK;
    TRY(gpu_program_wait(p->gpu, turn));
    return p->away ? program_world_outputs(p) : ST_OK;
}

Status program_run(Program *p, const NamedTensor *in, int n)
{
    TRY(program_find_inputs(p->place, p->ready.graph, in, n));
    TRY(program_begin(p, in, p->place, NULL));
    return program_wait(p, program_turn(p));
}
