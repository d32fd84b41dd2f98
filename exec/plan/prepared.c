/* Kernels are chosen and prepared on the thread of the device that will run them, because libraries bake the team's
 * size into their primitives, and before the memory is planned, because they say how much scratch they need: each
 * node's scratch is part of the plan, alive for that node alone. */
#include "exec/plan/prepared.h"

#include <stdlib.h>

#include "exec/plan/equal_calls.h"
#include "exec/plan/memory_report.h"
#include "graph/base/machine.h"

/* ---- kernels ---- */

static bool has_kernel(const Node *n)
{
    return !(n->op->flags & OPF_COLLECTIVE || (n->op->flags & OPF_VIEW && n->n_out == 1));
}

const Runtime *prepared_runtime(const Prepared *p) { return device_runtime(p->device[p->opt.first]); }

/* The device whose thread prepares and runs what is on device d or on its host's side. */
static int driver_of(const Prepared *p, int d) { return d % p->opt.n_device; }

static const Kernel *prepared_choose(const Prepared *p, const Node *n)
{
    const Graph *g = p->graph;
    const CpuKernels cpu = cpu_kernels(p->opt.ways.isa);
    const Kernel *k;

    if (prepared_runtime(p) && n->device < p->opt.n_device)
        return kernel_find(kernels_cuda, kernels_cuda_len, g, n);
    k = kernel_find(cpu.kernel, cpu.n, g, n);
    return k || node_layout(g, n) != LAYOUT_ROWS ? k : kernel_reference(g, n);
}

/* Does it read or make 16-bit floats? */
static bool prepared_narrow(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (has_value(v) && dtype_is_float(value(g, v)->dtype) && dtype_size(value(g, v)->dtype) == 2)
            return true;
    }
    return false;
}

static Status choose_kernels(Prepared *p)
{
    PROBLEMS(missing);

    FOR_NODES(p->graph, n) {
        Call *c = &p->call[n->index];

        c->node = n;
        c->device = n->device < 0 ? 0 : n->device;
        if (!has_kernel(n) || (prepared_runtime(p) && n->op->flags & OPF_TRANSFER) ||
            !prepared_is_local(p, driver_of(p, c->device)))
            continue;
        if (!(c->kernel = prepared_choose(p, n)))
            problems_add(&missing, "%s%s", node_text(p->graph, n),
                         prepared_narrow(p->graph, n) ? " in 16 bits (--dtype float32 computes it)" : "");
    }
    return problems_fail(&missing, E_UNSUPPORTED, "no kernel computes");
}

/* Takes over the prepared state of an equal node, if there is one: the thread of a CPU runs them one after another. */
static bool borrow(Call *c, EqualCalls *alike)
{
    const Call *same = alike && c->kernel->shares && c->kernel->prepare ? equal_calls_find(alike, c) : NULL;

    if (!same)
        return false;
    c->state = same->state;
    c->lent = true;
    c->scratch_bytes = same->scratch_bytes;
    c->table_bytes = same->table_bytes;
    return true;
}

static Status prepare_call(Prepared *p, Call *c, Device *d, EqualCalls *alike)
{
    KernelCtx host = { .n_threads = device_ctx(d)->n_threads };
    KernelCtx *ctx = c->device < p->opt.n_device ? device_ctx(d) : &host;
    Status st;

    if (borrow(c, ctx == &host ? NULL : alike))
        return ST_OK;
    ctx->scratch_bytes = ctx->table_bytes = 0;
    st = c->kernel->prepare ? c->kernel->prepare(&c->state, ctx, p->graph, c->node) : ST_OK;
    if (st) {
        c->kernel = NULL;
        st = status_prefix(st, "%s", node_text(p->graph, c->node));
        return ctx == &host || !device_runtime(d) ? st : status_prefix(st, "%s", device_name(d));
    }
    c->scratch_bytes = ctx->scratch_bytes;
    c->table_bytes = ctx->table_bytes;
    return ST_OK;
}

/* A DeviceJob: prepares what its device runs. */
static Status prepare_device(Device *d, void *arg)
{
    Prepared *p = arg;
    EqualCalls *alike = device_runtime(d) ? NULL : equal_calls_create(p->graph);
    Status st = ST_OK;

    for (uint32_t i = 0; i < p->graph->n_node && !st; i++)
        if (p->call[i].kernel && p->device[driver_of(p, p->call[i].device)] == d)
            st = prepare_call(p, &p->call[i], d, alike);
    equal_calls_free(alike);
    return st;
}

/* ---- devices ---- */

static Status check_devices(const Prepared *p)
{
    const Graph *g = p->graph;

    FOR_NODES(g, n) {
        if (n->op->flags & (OPF_COLLECTIVE | OPF_TRANSFER))
            continue;
        for (int i = 0; i < n->n_in; i++) {
            const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;
            int from = v ? value_device(g, n->in[i]) : 0;

            if (v && v->kind != V_INPUT && v->kind != V_CONST && from != (n->device < 0 ? 0 : n->device))
                return FAIL(E_INTERNAL, "%s on device %d reads '%s' of device %d", node_text(g, n), n->device, v->name,
                            from);
        }
    }
    return ST_OK;
}

/* ---- memory ---- */

/* `most`: devices and their hosts' sides. */
static Status prepared_plan(Prepared *p, int most)
{
    size_t *scratch = ARENA_NEW(p->arena, size_t, p->graph->n_node);

    if (!scratch)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < p->graph->n_node; i++)
        scratch[i] = p->call[i].scratch_bytes;
    TRY(plan_memory(&p->plan, p->graph, scratch, device_align(p->device[p->opt.first]), p->arena));
    if (p->plan->n_device > most)
        return FAIL(E_INVALID, "the graph uses %d devices, and the run has %d", p->plan->n_device, most);
    return ST_OK;
}

static bool holds_state(const Prepared *p, int d, uint32_t v)
{
    return p->graph->value[v]->kind == V_STATE && p->plan->occurs[v] && value_device(p->graph, (ValueId){ v }) == d;
}

static Status reserve_states(const Prepared *p, int d)
{
    const Value **list = malloc(p->graph->n_value * sizeof *list);
    int n = 0;
    Status st;

    if (!list)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < p->graph->n_value; i++)
        if (holds_state(p, d, i))
            list[n++] = p->graph->value[i];
    st = p->opt.reserve(p->opt.user, list, n);
    free(list);
    return st;
}

Status prepared_reserve(Prepared *p, int d)
{
    if (d >= p->plan->n_device)
        return ST_OK;
    if (p->opt.reserve)
        TRY(reserve_states(p, d));
    for (uint32_t i = 1; i < p->graph->n_value; i++)
        if (holds_state(p, d, i))
            TRY(p->opt.state(&p->storage[i], p->opt.user, p->graph->value[i]));
    return arenas_reserve(p->opt.arenas, d, p->plan->device[d].arena_bytes);
}

/* The system gives out memory that it does not have, and ends the process that uses it.  So what the CPU devices of
 * this process need together is compared first: E_NOMEM. */
static Status check_host(const Prepared *p, int *largest)
{
    size_t all = 0, most = 0;
    MemoryNeed need;

    FOR_LOCAL(p, d) {
        TRY(memory_need(&need, p->graph, p->plan, d, false));
        all += memory_total(&need);
        if (memory_total(&need) > most) {
            most = memory_total(&need);
            *largest = d;
        }
    }
    return machine_memory() && all > machine_memory()
               ? FAIL(E_NOMEM, "the step needs more memory than this process may have")
               : ST_OK;
}

Status prepared_reserve_all(Prepared *p)
{
    int largest = 0;

    if (check_host(p, &largest)) {
        MemoryNeed need;

        TRY(memory_need(&need, p->graph, p->plan, largest, false));
        return memory_short(p->device[largest], p->graph, p->plan, largest, &need, p->opt.log, p->opt.log_user);
    }
    FOR_LOCAL(p, d) {
        Status st = prepared_reserve(p, d);
        MemoryNeed need;

        if (st != E_NOMEM) {
            TRY(st);
            continue;
        }
        TRY(memory_need(&need, p->graph, p->plan, d, false));
        return memory_short(p->device[d], p->graph, p->plan, d, &need, p->opt.log, p->opt.log_user);
    }
    return ST_OK;
}

/* ---- entry ---- */

static Status prepared_prepare(Prepared *p)
{
    const int most = p->opt.n_device * (prepared_runtime(p) ? 2 : 1);

    p->call = ARENA_NEW(p->arena, Call, p->graph->n_node);
    if (!p->call)
        return FAIL_NOMEM();
    FOR_NODES(p->graph, n)
        if (n->device >= most)
            return FAIL(E_INVALID, "%s is on device %d of %d", node_text(p->graph, n), n->device, p->opt.n_device);
    TRY(choose_kernels(p));
    TRY(check_devices(p));
    /* One device after another: libraries initialise themselves when they are first used, and the next device finds in
     * their caches what the one before has compiled. */
    FOR_LOCAL(p, d) {
        device_start(p->device[d], prepare_device, p);
        TRY(device_wait(p->device[d]));
    }
    TRY(prepared_plan(p, most));
    if (p->opt.plan_only)
        return ST_OK;
    if (!(p->storage = ARENA_NEW(p->arena, void *, p->graph->n_value)))
        return FAIL_NOMEM();
    return input_parts_find(&p->input_part, p->arena, p->graph, p->opt.n_device, p->opt.first, p->opt.n_local);
}

Status prepared_create(Prepared *p, Graph *g, const ProgramOptions *opt)
{
    *p = (Prepared){ .graph = g, .opt = *opt, .arena = arena_create_beside(g->arena) };
    p->opt.n_local = opt->n_local ? opt->n_local : opt->n_device;
    if (!p->arena || !(p->device = arena_memdup(p->arena, opt->device, (size_t)opt->n_device * sizeof *p->device)))
        return FAIL_NOMEM();
    return prepared_prepare(p);
}

void prepared_free(Prepared *p)
{
    for (uint32_t i = 0; p->call && i < p->graph->n_node; i++)
        if (p->call[i].kernel && p->call[i].kernel->release && p->call[i].state && !p->call[i].lent)
            p->call[i].kernel->release(p->call[i].state);
    graph_free(p->graph);
    if (p->arena)
        arena_free(p->arena);
    *p = (Prepared){ 0 };
}
