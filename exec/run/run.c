/* Running a program: one hand-over to every device's thread, then every device walks its list of calls; they meet only
 * in collectives.  A failure on one device cancels the meetings, so that none waits for a device that will not come. */
#include <string.h>

#include "exec/gpu/program.h"
#include "exec/plan/trace.h"
#include "exec/run/program_internal.h"
#include "graph/ir/op.h"

static void trace_call(const DeviceProgram *part, const CpuCall *c, uint64_t start)
{
    const Prepared *p = &part->program->ready;
    const Call *k = c->call;

    trace_add(p->trace, &(TraceEvent){ part->device, p->graph, k->node, k->kernel ? k->kernel->name : NULL,
                                       trace_bytes(k->node, c->in, c->out), start, trace_now() });
}

static Status run_calls(DeviceProgram *part, KernelCtx *ctx)
{
    Trace *trace = part->program->ready.trace;

    for (int i = 0; i < part->n_call; i++) {
        const CpuCall *c = part->call[i];
        const uint64_t start = trace ? trace_now() : 0;
        Status st;

        ctx->scratch = c->scratch;
        st = c->collective ? collective_run(c->collective, part->device, c->in, c->out)
                           : c->call->kernel->run(ctx, c->call->state, c->in, c->out);
        if (st == E_INTERRUPTED)
            return st;
        if (st)
            return status_prefix(st, "%s", node_text(part->program->ready.graph, c->call->node));
        if (trace)
            trace_call(part, c, start);
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

/* Checks an input's type and shape, and that it has data unless `bytes`, which are read, is 0. */
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
    PROBLEMS(missing);

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
    for (uint32_t i = 0; i < p->n_call; i++) {
        CpuCall *c = &p->call[i];
        char *base = p->ready.opt.arenas->base[c->call->device];

        c->scratch = program_place(base ? base + p->ready.plan->scratch[i] : NULL, c->call->scratch_bytes);
    }
    p->bound = p->ready.opt.arenas->generation + 1;
}

/* ---- on CPUs ---- */

static Status cpus_reserve(Program *p) { return prepared_reserve_all(&p->ready); }

static Status cpus_begin(Program *p)
{
    Status st;

    run_bind(p);
    bind_copies(p);
    atomic_store(&p->meet.cancelled, false);
    for (uint32_t i = 0; i < p->n_call; i++)
        if (p->call[i].collective)
            collective_reset(p->call[i].collective);
    FOR_LOCAL(&p->ready, d)
        device_start(p->ready.device[d], run_device, &p->part[d]);
    st = device_wait_all(p->ready.device + p->ready.opt.first, p->ready.opt.n_local);
    /* A device names an index or label by its place in the device's part; the check names its place in the batch. */
    if (st == E_INVALID && index_check_run(p->indices, &p->ready, p->input))
        return E_INVALID;
    TRY(st);
    return p->away ? program_world_outputs(p) : ST_OK;
}

/* A step is over when it has begun. */
static unsigned cpus_turn(const Program *p)
{
    (void)p;
    return 0;
}

static Status cpus_wait(Program *p, unsigned turn)
{
    (void)p;
    (void)turn;
    return ST_OK;
}

static void cpus_release(Program *p) { (void)p; }

const ProgramKind program_on_cpus = {
    cpus_reserve, program_create_parts, cpus_begin, cpus_turn, cpus_wait, cpus_release
};

/* ---- on accelerators ---- */

static Status accelerators_reserve(Program *p)
{
    const ProgramOptions *opt = &p->ready.opt;

    return opt->group ? ST_OK
                      : FAIL(E_INTERNAL, "%s: a program needs the group of its accelerators",
                             device_name(p->ready.device[opt->first]));
}

static Status accelerators_create(Program *p) { return gpu_program_create(&p->gpu, &p->ready); }

static Status accelerators_begin(Program *p)
{
    TRY(index_check_run(p->indices, &p->ready, p->input));
    return gpu_program_begin(p->gpu);
}

static unsigned accelerators_turn(const Program *p) { return gpu_program_turn(p->gpu); }

static Status accelerators_wait(Program *p, unsigned turn)
{
    TRY(gpu_program_wait(p->gpu, turn));
    return p->away ? program_world_outputs(p) : ST_OK;
}

static void accelerators_release(Program *p) { gpu_program_free(p->gpu); }

const ProgramKind program_on_accelerators = { accelerators_reserve, accelerators_create, accelerators_begin,
                                              accelerators_turn,    accelerators_wait,   accelerators_release };

/* ---- either ---- */

Status program_begin(Program *p, const NamedTensor *in, const int *place, const GivenPart *part)
{
    TRY(set_inputs(p, in, place, part));
    return p->kind->begin(p);
}

unsigned program_turn(const Program *p) { return p->kind->turn(p); }

Status program_wait(Program *p, unsigned turn) { return p->kind->wait(p, turn); }

Status program_run(Program *p, const NamedTensor *in, int n)
{
    TRY(program_find_inputs(p->place, p->ready.graph, in, n));
    TRY(program_begin(p, in, p->place, NULL));
    return program_wait(p, program_turn(p));
}
