/* Compiling programs: tensors bound to addresses, and for CPUs collectives and each device's list of calls.  When an
 * arena moves, its tensors are bound again.  exec/gpu/program.c compiles for accelerators; a ProgramKind of
 * exec/run/run.c holds the functions of either. */
#include "exec/run/program.h"

#include <stdlib.h>

#include "exec/run/program_internal.h"
#include "graph/base/host_memory.h"

/* ---- calls ---- */

/* The device in whose memory a value is, or -1. */
static int holder(const Program *p, ValueId v)
{
    const MemRef *r = &p->ready.plan->value[v.i];

    return r->kind == MEM_ARENA || r->kind == MEM_STATE ? r->device : -1;
}

/* Describes a collective's devices, those whose memory it reads or writes; the arrays lie in `a`. */
static Status find_site(Site *site, const Program *p, const Node *n, Arena *a)
{
    const ProgramOptions *opt = &p->ready.opt;
    bool *member = ARENA_NEW(a, bool, opt->n_device);
    int *from = ARENA_NEW(a, int, n->n_in), *to = ARENA_NEW(a, int, n->n_out);

    if (!member || !from || !to)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++) {
        from[i] = holder(p, n->in[i]);
        /* A view of an input is where the caller gave it: in several processes, in that of the view's device. */
        if (from[i] < 0 && value(p->ready.graph, n->in[i])->kind == V_TEMP && opt->n_local < opt->n_device)
            from[i] = value_device(p->ready.graph, n->in[i]);
        if (from[i] >= 0)
            member[from[i]] = true;
    }
    for (int o = 0; o < n->n_out; o++)
        if ((to[o] = holder(p, n->out[o])) >= 0)
            member[to[o]] = true;
    *site = (Site){ .world = opt->world,
                    .n_device = opt->n_device,
                    .first = opt->first,
                    .n_local = opt->n_local,
                    .member = member,
                    .from = from,
                    .to = to,
                    .latency_bytes = opt->ways.latency_bytes,
                    .by_library = opt->ways.library_sums && (!opt->world || world_can_add(opt->world)) };
    return ST_OK;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The most bytes that a collective needs of each kind, where the n_local devices from `first` on are a process. */
static Status most_bytes(SpanBytes *out, const Program *p, int first, int n_local)
{
    Arena *a = arena_create();
    Status st = a ? ST_OK : FAIL_NOMEM();

    *out = (SpanBytes){ 0 };
    FOR_NODES(p->ready.graph, n) {
        SpanBytes own;
        Site site;

        if (st || !(n->op->flags & OPF_COLLECTIVE) || (st = find_site(&site, p, n, a)))
            continue;
        site.first = first;
        site.n_local = n_local;
        if (!(st = span_bytes(&own, p->ready.graph, n, &site)))
            *out = (SpanBytes){ larger(own.staging, out->staging), larger(own.sums, out->sums) };
    }
    arena_free(a);
    return st;
}

Status program_staging_bytes(size_t *out, const Program *p, int device)
{
    SpanBytes most;

    TRY(most_bytes(&most, p, device, 1));
    *out = most.staging + most.sums;
    return ST_OK;
}

/* Makes the collectives that this process takes part in. */
static Status create_collectives(Program *p)
{
    SpanBytes most;

    FOR_NODES(p->ready.graph, n) {
        bool any = false;
        Site site;

        if (!(n->op->flags & OPF_COLLECTIVE))
            continue;
        TRY(find_site(&site, p, n, p->ready.arena));
        FOR_LOCAL(&p->ready, d)
            any |= site.member[d];
        if (any || span_is_needed(n, &site))
            TRY(collective_create(&p->call[n->index].collective, &p->meet, p->ready.graph, n, &site));
    }
    TRY(most_bytes(&most, p, p->ready.opt.first, p->ready.opt.n_local));
    if (most.staging && !(p->staging = host_alloc(64, most.staging)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < p->n_call; i++)
        if (p->call[i].collective)
            collective_set_staging(p->call[i].collective, p->staging);
    return ST_OK;
}

/* Lists the calls of a device in order, and makes room for the copies after them. */
static Status create_part(Program *p, DeviceProgram *part)
{
    Arena *a = p->ready.arena;
    const size_t n_copy = (size_t)p->ready.plan->n_copy;

    part->call = ARENA_NEW(a, CpuCall *, p->n_call);
    part->from = ARENA_NEW(a, void *, n_copy);
    part->to = ARENA_NEW(a, void *, n_copy);
    part->bytes = ARENA_NEW(a, size_t, n_copy);
    if (!part->call || !part->from || !part->to || !part->bytes)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < p->n_call; i++) {
        CpuCall *c = &p->call[i];
        const Call *k = &p->ready.call[i];

        if (c->collective ? collective_has(c->collective, part->device) : k->kernel && k->device == part->device)
            part->call[part->n_call++] = c;
    }
    return ST_OK;
}

Status program_create_parts(Program *p)
{
    if (!(p->part = ARENA_NEW(p->ready.arena, DeviceProgram, p->ready.opt.n_device)))
        return FAIL_NOMEM();
    TRY(create_collectives(p));
    FOR_LOCAL(&p->ready, d) {
        p->part[d] = (DeviceProgram){ .program = p, .device = d };
        TRY(create_part(p, &p->part[d]));
    }
    return ST_OK;
}

/* ---- addresses ---- */

void *program_address(const Program *p, const MemRef *ref)
{
    char *base = NULL;

    if (ref->kind == MEM_ARENA)
        base = p->ready.opt.arenas->base[ref->device];
    else if (ref->kind == MEM_STATE)
        base = p->ready.storage[ref->root.i];
    else if (ref->kind == MEM_CONST)
        base = value(p->ready.graph, ref->root)->init->data;
    else
        return NULL;
    return program_place(base ? base + ref->offset : NULL, ref->bytes);
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
    Tensor *t = ARENA_NEW(p->ready.arena, Tensor, n);

    for (int i = 0; t && i < n; i++) {
        t[i].shape.rank = -1;
        if (!has_value(v[i]))
            continue;
        t[i] = (Tensor){ value(p->ready.graph, v[i])->dtype, *value(p->ready.graph, v[i])->shape, NULL };
        t[i].data = program_place(NULL, tensor_bytes(&t[i]));
        add_binding(p, &t[i], &p->ready.plan->value[v[i].i]);
    }
    return t;
}

/* The tensors of the nodes that CPUs run, of the inputs and of the outputs. */
static Status create_tensors(Program *p)
{
    Graph *g = p->ready.graph;
    size_t n = (size_t)g->n_output;

    for (uint32_t i = 0; i < p->n_call; i++)
        n += (size_t)g->node[i]->n_in + (size_t)g->node[i]->n_out;
    p->call = ARENA_NEW(p->ready.arena, CpuCall, p->n_call);
    p->binding = ARENA_NEW(p->ready.arena, Binding, n);
    p->input_binding = ARENA_NEW(p->ready.arena, Binding, n);
    p->input = ARENA_NEW(p->ready.arena, Tensor, g->n_input);
    p->place = ARENA_NEW(p->ready.arena, int, g->n_input);
    p->ready.output = ARENA_NEW(p->ready.arena, NamedTensor, g->n_output);
    if (!p->call || !p->binding || !p->input_binding || !p->input || !p->place || !p->ready.output)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < p->n_call; i++) {
        CpuCall *c = &p->call[i];

        c->call = &p->ready.call[i];
        c->in = tensors_of(p, g->node[i]->n_in, g->node[i]->in);
        c->out = tensors_of(p, g->node[i]->n_out, g->node[i]->out);
        if (!c->in || !c->out)
            return FAIL_NOMEM();
    }
    for (int i = 0; i < g->n_output; i++) {
        const Value *v = value(g, g->output[i].value);

        p->ready.output[i] = (NamedTensor){ g->output[i].name, { v->dtype, *v->shape, NULL } };
        add_binding(p, &p->ready.output[i].tensor, &p->ready.plan->output[i]);
    }
    return ST_OK;
}

/* ---- entry ---- */

static Status compile(Program *p, Graph *g, const ProgramOptions *opt)
{
    Prepared *r = &p->ready;

    TRY(prepared_create(r, g, opt));
    if (opt->plan_only)
        return ST_OK;
    p->kind = prepared_runtime(r) ? &program_on_accelerators : &program_on_cpus;
    p->n_call = p->kind == &program_on_cpus ? g->n_node : 0;
    TRY(p->kind->reserve(p));
    TRY(create_tensors(p));
    TRY(program_world_create(p));
    TRY(index_check_create(&p->indices, r->arena, r->graph));
    return p->kind->create(p);
}

Status program_compile(Program **out, Graph *g, const ProgramOptions *opt)
{
    Program *p = calloc(1, sizeof *p);
    Status st;

    if (!p) {
        graph_free(g);
        return FAIL_NOMEM();
    }
    rendezvous_init(&p->meet, opt->spin);
    if ((st = compile(p, g, opt))) {
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
    if (p->kind)
        p->kind->release(p);
    program_world_free(p->away);
    for (uint32_t i = 0; p->call && i < p->n_call; i++)
        collective_free(p->call[i].collective);
    host_free(p->staging);
    rendezvous_destroy(&p->meet);
    prepared_free(&p->ready);
    free(p);
}

const NamedTensor *program_outputs(const Program *p, int *n)
{
    *n = p->ready.graph->n_output;
    return p->ready.output;
}

const Graph *program_graph(const Program *p) { return p->ready.graph; }
const MemoryPlan *program_plan(const Program *p) { return p->ready.plan; }
void program_set_trace(Program *p, Trace *t) { p->ready.trace = t; }

const char *program_kernel(const Program *p, uint32_t node)
{
    return p->ready.call[node].kernel ? p->ready.call[node].kernel->name : NULL;
}
