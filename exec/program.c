/* Compiling: choose kernels, prepare them, plan the memory, bind the addresses.
 *
 * Kernels are prepared on the thread of the device that will run them, because libraries bake the team's size into their
 * primitives, and before the memory is planned, because they say how much scratch they need: each node's scratch is part of
 * the plan, alive for that node alone.  Tensors live in the program; when an arena moves they are bound again. */
#include "exec/program.h"

#include <stdlib.h>
#include <string.h>

#include "exec/gpu/program.h"
#include "exec/memory_report.h"
#include "exec/program_internal.h"
#include "passes/pack.h"

/* ---- kernels ---- */

static bool has_kernel(const Node *n)
{
    return !(n->op->flags & OPF_COLLECTIVE || (n->op->flags & OPF_VIEW && n->n_out == 1));
}

static const Runtime *runtime_of(const Program *p) { return device_runtime(p->device[p->opt.first]); }

/* The device whose thread prepares and runs what is on device d or on its host's side. */
static int driver_of(const Program *p, int d) { return d % p->opt.n_device; }

static bool on_accelerator(const Program *p, const Node *n) { return runtime_of(p) && n->device < p->opt.n_device; }

static const Kernel *choose(const Program *p, const Node *n)
{
    const Graph *g = p->graph;
    const Kernel *k;

    if (on_accelerator(p, n))
        return kernel_find(kernels_cuda, kernels_cuda_len, g, n);
    k = kernel_find(kernels_cpu, kernels_cpu_len, g, n);
    return k ? k : kernel_reference(g, n);
}

static Status choose_kernels(Program *p)
{
    Problems missing = { 0 };

    FOR_NODES(p->graph, n) {
        Call *c = &p->call[n->index];

        c->node = n;
        c->device = n->device < 0 ? 0 : n->device;
        if (!has_kernel(n) || (runtime_of(p) && n->op == &op_Copy) || !program_is_local(p, driver_of(p, c->device)))
            continue;
        if (!(c->kernel = choose(p, n)))
            problems_add(&missing, "%s", node_text(p->graph, n));
    }
    return problems_fail(&missing, E_UNSUPPORTED, "no kernel computes");
}

/* A DeviceJob: prepares what its device runs. */
static Status prepare_device(Device *d, void *arg)
{
    DeviceProgram *part = arg;
    Program *p = part->program;
    KernelCtx host = { .n_threads = device_ctx(d)->n_threads };

    for (uint32_t i = 0; i < p->graph->n_node; i++) {
        Call *c = &p->call[i];
        KernelCtx *ctx = c->device < p->opt.n_device ? device_ctx(d) : &host;
        Status st;

        if (!c->kernel || driver_of(p, c->device) != part->device)
            continue;
        ctx->scratch_bytes = 0;
        st = c->kernel->prepare ? c->kernel->prepare(&c->state, ctx, p->graph, c->node) : ST_OK;
        if (st) {
            c->kernel = NULL;
            st = status_prefix(st, "%s", node_text(p->graph, c->node));
            return ctx == &host || !device_runtime(d) ? st : status_prefix(st, "%s", device_name(d));
        }
        c->scratch_bytes = ctx->scratch_bytes;
    }
    return ST_OK;
}

/* One device after another: libraries initialise themselves when they are first used, and what one device has compiled the
 * next finds in their caches. */
static Status prepare_kernels(Program *p)
{
    FOR_LOCAL(p, d) {
        device_start(p->device[d], prepare_device, &p->part[d]);
        TRY(device_wait(p->device[d]));
    }
    return ST_OK;
}

/* ---- devices ---- */

static Status check_devices(const Program *p)
{
    const Graph *g = p->graph;

    FOR_NODES(g, n) {
        if (n->op->flags & OPF_COLLECTIVE || n->op == &op_Copy)
            continue;
        for (int i = 0; i < n->n_in; i++) {
            const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;
            int from = v ? value_device(g, n->in[i]) : 0;

            if (v && v->kind != V_INPUT && v->kind != V_CONST && from != (n->device < 0 ? 0 : n->device))
                return FAIL(E_INTERNAL, "%s on device %d reads '%s' of device %d", node_text(g, n), n->device, v->name, from);
        }
    }
    return ST_OK;
}

static bool in_device_memory(MemKind kind) { return kind == MEM_ARENA || kind == MEM_STATE; }

/* The device in whose memory a value is, or -1. */
static int holder(const Program *p, ValueId v)
{
    const MemRef *r = &p->plan->value[v.i];

    return in_device_memory(r->kind) ? r->device : -1;
}

/* A collective's devices are those whose memory it reads or writes. */
static Status create_collective(Program *p, Call *c)
{
    const Node *n = c->node;
    bool *member = ARENA_NEW(p->arena, bool, p->opt.n_device), any = false;
    int *from = ARENA_NEW(p->arena, int, n->n_in), *to = ARENA_NEW(p->arena, int, n->n_out);
    Site site = { p->opt.world, p->opt.n_device, p->opt.first, p->opt.n_local, member, from, to };

    if (!member || !from || !to)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        if ((from[i] = holder(p, n->in[i])) >= 0)
            member[from[i]] = true;
    for (int o = 0; o < n->n_out; o++)
        if ((to[o] = holder(p, n->out[o])) >= 0)
            member[to[o]] = true;
    FOR_LOCAL(p, d)
        any |= member[d];
    return any || span_is_needed(n, &site) ? collective_create(&c->collective, &p->meet, p->graph, n, &site) : ST_OK;
}

static Status create_collectives(Program *p)
{
    FOR_NODES(p->graph, n)
        if (n->op->flags & OPF_COLLECTIVE)
            TRY(create_collective(p, &p->call[n->index]));
    return ST_OK;
}

static Status list_calls(Program *p, DeviceProgram *part)
{
    if (!(part->call = ARENA_NEW(p->arena, Call *, p->graph->n_node)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < p->graph->n_node; i++) {
        Call *c = &p->call[i];

        if (c->collective ? collective_has(c->collective, part->device) : c->kernel && c->device == part->device)
            part->call[part->n_call++] = c;
    }
    return ST_OK;
}

/* ---- addresses ---- */

void *program_address(const Program *p, const MemRef *ref)
{
    char *base = NULL;

    if (ref->kind == MEM_ARENA)
        base = p->opt.arenas->base[ref->device];
    else if (ref->kind == MEM_STATE)
        base = p->storage[ref->root.i];
    else if (ref->kind == MEM_CONST)
        base = value(p->graph, ref->root)->init->data;
    return base ? base + ref->offset : NULL;
}

static void add_binding(Program *p, Tensor *t, const MemRef *ref)
{
    if (ref->kind == MEM_INPUT)
        p->input_binding[p->n_input_binding++] = (Binding){ t, *ref };
    else if (ref->kind != MEM_NONE)
        p->binding[p->n_binding++] = (Binding){ t, *ref };
}

static Tensor *tensors_of(Program *p, int n, const ValueId *v)
{
    Tensor *t = ARENA_NEW(p->arena, Tensor, n);

    for (int i = 0; t && i < n; i++) {
        t[i].shape.rank = -1;
        if (!has_value(v[i]))
            continue;
        t[i] = (Tensor){ value(p->graph, v[i])->dtype, value(p->graph, v[i])->shape, NULL };
        add_binding(p, &t[i], &p->plan->value[v[i].i]);
    }
    return t;
}

/* Of one device. */
static Status find_states(Program *p, int device)
{
    for (uint32_t i = 1; i < p->graph->n_value; i++)
        if (p->graph->value[i]->kind == V_STATE && p->plan->occurs[i] && value_device(p->graph, (ValueId){ i }) == device)
            TRY(p->opt.state(p->opt.user, p->graph->value[i], &p->storage[i]));
    return ST_OK;
}

/* All memory that the steps will use, so that what does not fit shows before the first of them. */
static Status reserve(Program *p)
{
    if (!(p->storage = ARENA_NEW(p->arena, void *, p->graph->n_value)))
        return FAIL_NOMEM();
    FOR_LOCAL(p, d) {
        Status st;

        if (p->opt.group)
            TRY(gpu_group_drain(p->opt.group, d));  /* arenas may move */
        if (d >= p->plan->n_device)
            continue;
        st = find_states(p, d);
        if (!st)
            st = arenas_reserve(p->opt.arenas, d, p->plan->device[d].arena_bytes);
        if (!st)
            st = memory_check_rest(p->device[d], p->graph, p->plan, d);
        if (st == E_NOMEM)
            return memory_short(p->device[d], p->graph, p->plan, d, p->opt.log, p->opt.log_user);
        TRY(st);
    }
    for (int d = p->opt.n_device; d < p->plan->n_device; d++)
        if (program_is_local(p, driver_of(p, d)))
            TRY(gpu_group_host_arena(p->opt.group, driver_of(p, d), p->plan->device[d].arena_bytes));
    return ST_OK;
}

static Status create_tensors(Program *p)
{
    Graph *g = p->graph;
    size_t n = (size_t)g->n_output;

    FOR_NODES(g, x)
        n += (size_t)x->n_in + (size_t)x->n_out;
    p->binding = ARENA_NEW(p->arena, Binding, n);
    p->input_binding = ARENA_NEW(p->arena, Binding, n);
    p->input = ARENA_NEW(p->arena, Tensor, g->n_input);
    p->output = ARENA_NEW(p->arena, NamedTensor, g->n_output);
    if (!p->binding || !p->input_binding || !p->input || !p->output)
        return FAIL_NOMEM();
    FOR_NODES(g, x) {
        p->call[x->index].in = tensors_of(p, x->n_in, x->in);
        p->call[x->index].out = tensors_of(p, x->n_out, x->out);
        if (!p->call[x->index].in || !p->call[x->index].out)
            return FAIL_NOMEM();
    }
    for (int i = 0; i < g->n_output; i++) {
        const Value *v = value(g, g->output[i].value);

        p->output[i] = (NamedTensor){ g->output[i].name, { v->dtype, v->shape, NULL } };
        add_binding(p, &p->output[i].tensor, &p->plan->output[i]);
    }
    return ST_OK;
}

static Status create_copies(Program *p, DeviceProgram *part)
{
    size_t n = (size_t)p->plan->n_copy;

    part->from = ARENA_NEW(p->arena, void *, n);
    part->to = ARENA_NEW(p->arena, void *, n);
    part->bytes = ARENA_NEW(p->arena, size_t, n);
    return part->from && part->to && part->bytes ? ST_OK : FAIL_NOMEM();
}

/* ---- entry ---- */

static Status plan(Program *p, size_t *scratch)
{
    int most = p->opt.n_device * (runtime_of(p) ? 2 : 1);

    for (uint32_t i = 0; i < p->graph->n_node; i++) {
        scratch[i] = p->call[i].scratch_bytes;
        if (scratch[i] && on_accelerator(p, p->graph->node[i]))
            scratch[i] += GPU_SCRATCH_ALIGN - PACK_ALIGN;       /* room to align its address */
    }
    TRY(plan_memory(&p->plan, p->graph, scratch, p->arena));
    if (p->plan->n_device > most)
        return FAIL(E_INVALID, "the graph uses %d devices, there are %d", p->plan->n_device, most);
    return ST_OK;
}

/* What only a CPU device's thread walks. */
static Status list_work(Program *p)
{
    TRY(create_collectives(p));
    FOR_LOCAL(p, d) {
        TRY(list_calls(p, &p->part[d]));
        TRY(create_copies(p, &p->part[d]));
    }
    return ST_OK;
}

static Status compile(Program *p)
{
    int most;
    size_t *scratch;

    p->call = ARENA_NEW(p->arena, Call, p->graph->n_node);
    p->part = ARENA_NEW(p->arena, DeviceProgram, p->opt.n_device);
    p->device = arena_memdup(p->arena, p->opt.device, (size_t)p->opt.n_device * sizeof *p->device);
    scratch = ARENA_NEW(p->arena, size_t, p->graph->n_node);
    if (!p->call || !p->part || !p->device || !scratch)
        return FAIL_NOMEM();
    most = p->opt.n_device * (runtime_of(p) ? 2 : 1);
    for (int d = 0; d < p->opt.n_device; d++)
        p->part[d] = (DeviceProgram){ .program = p, .device = d };
    FOR_NODES(p->graph, n)
        if (n->device >= most)
            return FAIL(E_INVALID, "%s is on device %d of %d", node_text(p->graph, n), n->device, p->opt.n_device);
    TRY(choose_kernels(p));
    TRY(check_devices(p));
    TRY(prepare_kernels(p));
    TRY(plan(p, scratch));
    if (p->opt.plan_only)
        return ST_OK;
    if (runtime_of(p) && !p->opt.group)
        return FAIL(E_INTERNAL, "%s: a program needs the group of its accelerators", device_name(p->device[p->opt.first]));
    TRY(reserve(p));
    TRY(create_tensors(p));
    TRY(program_world_create(p));
    if (!runtime_of(p))
        return list_work(p);
    TRY(index_check_create(&p->indices, p->arena, p->graph));
    return gpu_program_create(&p->gpu, p, scratch);
}

Status program_compile(Program **out, Graph *g, const ProgramOptions *opt)
{
    Program *p = calloc(1, sizeof *p);
    Status st;

    if (!p || !(p->arena = arena_create())) {
        free(p);
        graph_free(g);
        return FAIL_NOMEM();
    }
    p->graph = g;
    p->opt = *opt;
    p->opt.n_local = opt->n_local ? opt->n_local : opt->n_device;
    rendezvous_init(&p->meet, opt->spin);
    if ((st = compile(p))) {
        fail_trace(__FILE__, __LINE__);
        program_free(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void program_free(Program *p)
{
    if (!p)
        return;
    gpu_program_free(p->gpu);
    program_world_free(p->away);
    for (uint32_t i = 0; p->call && i < p->graph->n_node; i++) {
        collective_free(p->call[i].collective);
        if (p->call[i].kernel && p->call[i].kernel->release)
            p->call[i].kernel->release(p->call[i].state);
    }
    rendezvous_destroy(&p->meet);
    graph_free(p->graph);
    arena_free(p->arena);
    free(p);
}

const NamedTensor *program_outputs(const Program *p, int *n)
{
    *n = p->graph->n_output;
    return p->output;
}

const Graph *program_graph(const Program *p) { return p->graph; }
const MemoryPlan *program_plan(const Program *p) { return p->plan; }
void program_set_trace(Program *p, Trace *t) { p->trace = t; }

const char *program_kernel(const Program *p, uint32_t node)
{
    return p->call[node].kernel ? p->call[node].kernel->name : NULL;
}
