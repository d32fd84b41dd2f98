/* Issues one device's step to its streams call by call, to be captured in a graph or to be run at once.
 *
 * The work of a step on all streams begins after that of the compute stream (a fork), and ends before the compute
 * stream goes on (a join).  Inputs are uploaded on the copy stream before the fork, while the step before still
 * computes. */
#include "exec/gpu/issue.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "exec/device/plugin.h"
#include "exec/gpu/progress.h"
#include "exec/plan/trace.h"
#include "graph/ir/op.h"

enum { BLOCK = 1 << 20 };

/* ---- addresses ---- */

/* The address of a value's memory in a slot, on the host or on the device; NULL: in another device's memory. */
static void *address_of(const GpuPart *part, const GpuSlot *slot, const MemRef *ref, bool host)
{
    const Prepared *p = part->gpu->program;
    char *base = NULL;

    for (int i = 0; i < part->n_input && ref->kind == MEM_INPUT; i++)
        if (value_eq(part->input[i].ref.root, ref->root) && part->input[i].ref.offset == ref->offset)
            return (host ? slot->staging : slot->input) + part->input[i].at;
    if (ref->kind == MEM_ARENA && ref->device == part->device)
        base = p->opt.arenas->base[part->device];
    else if (ref->kind == MEM_ARENA && ref->device == part->device + p->opt.n_device)
        base = part->member->host;
    else if (ref->kind == MEM_STATE && ref->device == part->device)
        base = p->storage[ref->root.i];
    else if (ref->kind == MEM_CONST && host)
        base = value(p->graph, ref->root)->init->data;
    else if (ref->kind == MEM_CONST && part->constant_at[ref->root.i])
        base = part->constants + part->constant_at[ref->root.i] - 1;
    return base ? base + ref->offset : NULL;
}

/* Fills the tables of kernels and uploads them on the compute stream, ahead of what is given to it next; so it must not
 * be captured meanwhile. */
static Status fill_tables(GpuPart *part, int k)
{
    const GpuSlot *slot = &part->slot[k];
    const GpuMember *m = part->member;

    if (!part->table_bytes)
        return ST_OK;
    for (int s = 0; s < part->plan->n_step; s++) {
        const GpuCall *c = &part->call[s];

        if (c->call->table_bytes)
            c->call->kernel->tabulate(slot->staging + c->table_at, c->call->state, c->in[k], c->out[k]);
    }
    TRY_MEMBER(m, copy(m->stream[STREAM_COMPUTE], slot->input + part->input_bytes, slot->staging + part->input_bytes,
                       part->table_bytes));
    return ST_OK;
}

Status gpu_part_bind(GpuPart *part, int k)
{
    const Prepared *p = part->gpu->program;
    GpuSlot *slot = &part->slot[k];

    if (slot->bound == gpu_program_epoch(part->gpu))
        return ST_OK;
    for (int s = 0; s < part->plan->n_step; s++) {
        GpuCall *c = &part->call[s];
        const Node *n = p->graph->node[c->step->node];
        char *scratch = c->host ? part->member->host : p->opt.arenas->base[part->device];

        for (int i = 0; i < n->n_in; i++)
            c->in[k][i].data = address_of(part, slot, &p->plan->value[n->in[i].i], c->host != NULL);
        for (int o = 0; o < n->n_out; o++)
            c->out[k][o].data = address_of(part, slot, &p->plan->value[n->out[o].i], c->host != NULL);
        if (c->collective || !c->call->scratch_bytes)
            continue;
        c->scratch = scratch + p->plan->scratch[c->step->node];
        for (int h = 0; h < GPU_SLOTS && c->host; h++)
            c->host[h].ctx.scratch = c->scratch;
    }
    TRY(fill_tables(part, k));
    slot->bound = gpu_program_epoch(part->gpu);
    return ST_OK;
}

/* ---- inputs ---- */

/* Copies in parallel. */
static void copy_to_staging(char *to, const char *from, size_t bytes, int threads)
{
    if (bytes < 2 * BLOCK) {
        memcpy(to, from, bytes);
        return;
    }
#pragma omp parallel for num_threads(threads)
    for (size_t at = 0; at < bytes; at += BLOCK)
        memcpy(to + at, from + at, bytes - at < BLOCK ? bytes - at : BLOCK);
}

Status gpu_part_upload(GpuPart *part, int k)
{
    const Prepared *p = part->gpu->program;
    GpuSlot *slot = &part->slot[k];
    const GpuMember *m = part->member;

    if (!part->input_bytes)
        return ST_OK;
    for (int i = 0; i < part->n_input; i++) {
        const GpuPiece *piece = &part->input[i];
        const InputPart *w = &p->input_part[piece->ref.root.i];
        const char *from = prepared_input(p, &piece->ref);
        char *to = slot->staging + piece->at;

        if (w->apart && w->bytes < piece->ref.bytes) /* only the part of each row that a Scatter on the device reads */
            input_part_spread(w, to, from, value(p->graph, piece->ref.root));
        else if (from)
            copy_to_staging(to, from, piece->ref.bytes, device_ctx(m->device)->n_threads);
    }
    TRY_MEMBER(m, copy(m->stream[STREAM_COPY], slot->input, slot->staging, part->input_bytes));
    TRY_MEMBER(m, event_record(slot->uploaded, m->stream[STREAM_COPY]));
    TRY_MEMBER(m, event_await(slot->uploaded, m->stream[STREAM_COMPUTE]));
    return ST_OK;
}

/* ---- calls ---- */

/* Computes a node on the host; a thread of the runtime calls this when the stream has come to it.  After the first
 * failure of a step nothing is computed any more, because the inputs of later kernels may be missing. */
static void run_host(void *arg)
{
    HostCall *h = arg;
    Status st;

    if (atomic_load(&h->member->host_status))
        return;
    omp_set_num_threads(h->ctx.n_threads);
    if (!(st = h->call->kernel->run(&h->ctx, h->call->state, h->in, h->out)))
        return;
    snprintf(h->member->host_message, sizeof h->member->host_message, "%s: %s", node_text(h->graph, h->call->node),
             status_message());
    atomic_store(&h->member->host_status, (int)st);
}

static Status run_call(GpuPart *part, KernelCtx *ctx, GpuCall *c, int k)
{
    const GpuMember *m = part->member;

    if (c->host)
        return runtime_check(m->runtime, m->runtime->host_call(ctx->stream, run_host, &c->host[k]));
    if (c->call->node->op->flags & OPF_TRANSFER) {
        size_t bytes = tensor_bytes(c->in[k]);

        return bytes ? runtime_check(m->runtime, m->runtime->copy(ctx->stream, c->out[k]->data, c->in[k]->data, bytes))
                     : ST_OK;
    }
    if (c->collective)
        return gpu_collective_run(c->collective, ctx, c->step->collective ? m->comm : NULL, m->bucket, c->in[k],
                                  c->out[k]);
    ctx->scratch = c->scratch;
    ctx->table = c->call->table_bytes ? part->slot[k].input + c->table_at : NULL;
    return c->call->kernel->run(ctx, c->call->state, c->in[k], c->out[k]);
}

/* Puts the device and the node in front of a call's error.  A call also fails when earlier work has broken the device;
 * then the node is left out. */
static Status prefix_failure(const GpuPart *part, const GpuCall *c, Status st)
{
    const char *device = device_name(part->member->device);
    char message[GPU_MESSAGE];

    snprintf(message, sizeof message, "%s", status_message());
    if (st == E_DEVICE && !part->capturing && !part->gpu->program->opt.ways.check_nodes &&
        gpu_group_faulted(part->gpu->group, part->device))
        return FAIL(st, "%s: %s", device, message);
    return FAIL(st, "%s: %s: %s", device, node_text(part->gpu->program->graph, c->call->node), message);
}

/* Gives a call to its stream, with the events that it waits for and records. */
static Status issue_call(GpuPart *part, KernelCtx *ctx, GpuCall *c, int k)
{
    const GpuMember *m = part->member;
    Status st;

    ctx->stream = m->stream[c->step->stream];
    for (int w = 0; w < c->step->n_wait; w++)
        TRY_MEMBER(m, event_await(part->event[c->step->wait[w]], ctx->stream));
    if (c->mark)
        TRY(gpu_progress_mark(part, k, c->mark, ctx->stream));
    if ((st = run_call(part, ctx, c, k)))
        return prefix_failure(part, c, st);
    if (c->step->event >= 0)
        TRY_MEMBER(m, event_record(part->event[c->step->event], ctx->stream));
    return ST_OK;
}

/* Waits until the call has ended; its failure is the node's. */
static Status await_call(GpuPart *part, const KernelCtx *ctx, const GpuCall *c)
{
    Status st;

    TRY_MEMBER(part->member, event_record(part->timed[1], ctx->stream));
    st = gpu_group_wait(part->gpu->group, part->device, part->timed[1]);
    return st && st != E_INTERRUPTED ? status_prefix(st, "%s", node_text(part->gpu->program->graph, c->call->node))
                                     : st;
}

/* Issues a call, waits for it and adds its seconds on the device to the trace. */
static Status trace_call(GpuPart *part, KernelCtx *ctx, GpuCall *c, int k)
{
    TraceEvent e = { .device = part->device,
                     .graph = part->gpu->program->graph,
                     .node = c->call->node,
                     .kernel = c->call->kernel ? c->call->kernel->name : NULL };
    double seconds;

    ctx->stream = part->member->stream[c->step->stream];
    e.bytes = trace_bytes(e.node, c->in[k], c->out[k]);
    e.start = trace_now();
    TRY_MEMBER(part->member, event_record(part->timed[0], ctx->stream));
    TRY(issue_call(part, ctx, c, k));
    TRY(await_call(part, ctx, c));
    TRY_MEMBER(part->member, event_elapsed(part->timed[0], part->timed[1], &seconds));
    e.end = e.start + (uint64_t)(seconds * 1e9);
    trace_add(part->gpu->program->trace, &e);
    return ST_OK;
}

/* Ends the step on the compute stream: joins the other streams, updates states that could not be computed in place, and
 * copies outputs to the host. */
static Status issue_end(GpuPart *part, int k)
{
    const GpuMember *m = part->member;
    const GpuSlot *slot = &part->slot[k];
    const MemoryPlan *plan = part->gpu->program->plan;
    GpuStream *s = m->stream[STREAM_COMPUTE];

    for (int t = 0; t < N_STREAMS; t++)
        if (part->plan->join[t] >= 0)
            TRY_MEMBER(m, event_await(part->event[part->plan->join[t]], s));
    for (int i = 0; i < plan->n_copy; i++)
        if (plan->copy[i].to.device == part->device)
            TRY_MEMBER(m, copy(s, address_of(part, slot, &plan->copy[i].to, false),
                               address_of(part, slot, &plan->copy[i].from, false), plan->copy[i].to.bytes));
    for (int i = 0; i < part->n_output; i++)
        TRY_MEMBER(m, copy(s, slot->output + part->output[i].at, address_of(part, slot, &part->output[i].ref, false),
                           part->output[i].ref.bytes));
    return gpu_progress_end(part, k, s);
}

Status gpu_part_issue(GpuPart *part, int k)
{
    const Prepared *p = part->gpu->program;
    const GpuMember *m = part->member;
    KernelCtx ctx = *device_ctx(m->device);

    TRY_MEMBER(m, event_record(part->begin, m->stream[STREAM_COMPUTE]));
    for (int t = 0; t < N_STREAMS; t++)
        if (t != STREAM_COMPUTE && part->plan->uses[t])
            TRY_MEMBER(m, event_await(part->begin, m->stream[t]));
    for (int s = 0; s < part->plan->n_step; s++) {
        TRY(p->trace ? trace_call(part, &ctx, &part->call[s], k) : issue_call(part, &ctx, &part->call[s], k));
        if (!p->trace && p->opt.ways.check_nodes)
            TRY(await_call(part, &ctx, &part->call[s]));
    }
    return issue_end(part, k);
}
