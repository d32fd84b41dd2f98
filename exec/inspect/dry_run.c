/* Dry runs: compiles the program as for a run, up to the point where memory would be allocated, and prints the plan. */
#include "exec/inspect/dry_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/links.h"
#include "exec/inspect/transform.h"
#include "exec/plan/memory_report.h"
#include "exec/run/interp.h"
#include "exec/train/note_level.h"
#include "graph/base/foreign.h"
#include "graph/base/machine.h"
#include "graph/base/numtext.h"
#include "graph/ir/data_shapes.h"
#include "graph/ir/op.h"
#include "graph/ops/fused.h"
#include "passes/options/update.h"
#include "passes/plan/plan_streams.h"

typedef struct {
    FILE *to; /* NULL: measure_program instead of print_program */
    const Graph *model;
    Options *options; /* its own copy */
    SessionLog *log;
    void *user;
    DeviceList list;
    Device *device[MAX_DEVICES];
    int n_device;
    Problems too_large;       /* devices whose memory does not suffice */
    double host, accelerator; /* the largest shares of memory (plan_shares) */
} DryRun;

/* ---- one step ---- */

/* " arena+4096", " in fc1.weight", ...: where a value lies. */
static void print_memory_ref(FILE *to, const Graph *g, const MemRef *r, int n_device)
{
    switch (r->kind) {
    case MEM_NONE: fputs(" nowhere", to); break;
    case MEM_ARENA: fprintf(to, " %s+%zu", r->device < n_device ? "arena" : "host", r->offset); break;
    case MEM_STATE:
    case MEM_INPUT:
    case MEM_CONST:
        fputs(" in ", to);
        foreign_print(to, value_logical_name(value(g, r->root)));
        if (r->kind != MEM_STATE)
            fprintf(to, "+%zu", r->offset);
        break;
    }
}

static void print_outputs(FILE *to, const Graph *g, const MemoryPlan *plan, const Node *n, int device, int n_device)
{
    char shape[SHAPE_TEXT];
    bool first = true;

    for (int o = 0; o < n->n_out; o++) {
        const Value *v = has_value(n->out[o]) ? value(g, n->out[o]) : NULL;
        const MemRef *r = &plan->value[n->out[o].i];

        if (!v || ((r->kind == MEM_ARENA || r->kind == MEM_STATE) && r->device != device))
            continue;
        fputs(first ? " -> " : ", ", to);
        foreign_print(to, v->name);
        fprintf(to, " %s%s", dtype_name(v->dtype), shape_text(v->shape, shape));
        first = false;
        print_memory_ref(to, g, r, n_device);
    }
}

/* One node: its kernel, name, outputs with their places, and scratch memory. */
static void dry_run_print_node(FILE *to, const Program *p, const Node *n, int device, int n_device)
{
    const MemoryPlan *plan = program_plan(p);
    const char *kernel = program_kernel(p, n->index);
    size_t scratch = plan->scratch_bytes[n->index];
    char label[160], operators[BODY_TEXT];

    if (!kernel)
        kernel = stream_is_view(plan, n) ? "(view)" : n->op->flags & OPF_COLLECTIVE ? "(collective)" : "(copy)";
    fprintf(to, "%-24s ", kernel);
    foreign_print(to, node_label(label, sizeof label, n));
    if (node_attr(n, "program"))
        fprintf(to, " (%s)", fused_operators(operators, n));
    print_outputs(to, program_graph(p), plan, n, device, n_device);
    if (scratch)
        fprintf(to, "; scratch arena+%zu, %zu bytes", plan->scratch[n->index], scratch);
}

/* ---- one device ---- */

static void print_cpu_steps(const DryRun *d, const Program *p, int device)
{
    const Graph *g = program_graph(p);

    FOR_NODES(g, n) {
        if (!(n->op->flags & OPF_COLLECTIVE) && (n->device < 0 ? 0 : n->device) != device)
            continue;
        fprintf(d->to, "%5" PRIu32 "  ", n->index);
        dry_run_print_node(d->to, p, n, device, d->n_device);
        putc('\n', d->to);
    }
}

static void print_gpu_steps(const DryRun *d, const Program *p, const StreamDevice *s, int device)
{
    static const char *const stream[N_STREAMS] = { "compute", "copy", "comm" };
    const Graph *g = program_graph(p);

    for (int i = 0; i < s->n_step; i++) {
        const StreamStep *step = &s->step[i];
        const Node *n = g->node[step->node];
        bool host = n->device >= d->n_device && program_kernel(p, n->index);

        fprintf(d->to, "%5" PRIu32 "  %-8s ", step->node, host ? "host" : stream[step->stream]);
        dry_run_print_node(d->to, p, n, n->device >= d->n_device ? n->device : device, d->n_device);
        for (int w = 0; w < step->n_wait; w++)
            fprintf(d->to, "%s e%d", w ? "," : "; waits for", step->wait[w]);
        if (step->event >= 0)
            fprintf(d->to, "; records e%d", step->event);
        putc('\n', d->to);
    }
    for (int i = 0; i < N_STREAMS; i++)
        if (s->uses[i] && s->join[i] >= 0)
            fprintf(d->to, "       compute  waits for e%d of the %s stream\n", s->join[i], stream[i]);
}

static void print_line(void *user, const char *line)
{
    const DryRun *d = user;

    fputs("    ", d->to);
    foreign_print(d->to, line);
    putc('\n', d->to);
}

/* Bytes of the model's own tensors, which a process keeps beside its states. */
static size_t model_bytes(const Graph *g)
{
    size_t bytes = 0;

    for (uint32_t i = 1; i < g->n_value; i++)
        bytes += g->value[i]->init ? tensor_bytes(g->value[i]->init) : 0;
    return bytes;
}

/* Prints the memory that the step needs on the device; where each device is a process of its own, also the memory that
 * the process needs beside the plan. */
static Status print_memory(DryRun *d, const Program *p, int device)
{
    const Device *at = d->device[device];
    const MemoryPlan *plan = program_plan(p);
    const int host = device + d->n_device;
    uint64_t available = device_info(at) ? (uint64_t)device_info(at)->memory : machine_memory();
    char total[BYTES_TEXT], arena[BYTES_TEXT], states[BYTES_TEXT], constants[BYTES_TEXT], has[BYTES_TEXT];
    MemoryNeed need;
    size_t staging;

    TRY(memory_need(&need, program_graph(p), plan, device, device_info(at)));
    fprintf(d->to, "  memory: %s: arena %s, states %s, constants %s\n", bytes_text(total, memory_total(&need)),
            bytes_text(arena, need.arena), bytes_text(states, need.states), bytes_text(constants, need.constants));
    if (d->n_device > 1 && !device_info(at)) {
        char model[BYTES_TEXT], staged[BYTES_TEXT];

        TRY(program_staging_bytes(&staging, p, device));
        fprintf(
            d->to,
            "  as a process of its own: %s: with %s of the model's file, and %s that come from the others at once\n",
            bytes_text(total, memory_total(&need) + model_bytes(d->model) + staging),
            bytes_text(model, model_bytes(d->model)), bytes_text(staged, staging));
    }
    if (host < plan->n_device)
        fprintf(d->to, "  memory of the host: arena %s\n", bytes_text(arena, plan->device[host].arena_bytes));
    if (memory_total(&need) > available)
        problems_add(&d->too_large, "%s: a step needs %s, it has %s", device_name(at),
                     bytes_text(total, memory_total(&need)), bytes_text(has, available));
    return memory_table(program_graph(p), plan, device, print_line, d);
}

static Status print_device(DryRun *d, const Program *p, const StreamPlan *streams, int device)
{
    const StreamDevice *s = streams ? &streams->device[device] : NULL;
    const GpuInfo *info = device_info(d->device[device]);
    const MemoryPlan *plan = program_plan(p);
    int used = 0;

    for (int i = 0; s && i < N_STREAMS; i++)
        used += s->uses[i];
    if (!info)
        fprintf(d->to, "\n%s: threads: %d\n", device_name(d->device[device]), d->list.device[device].threads);
    else
        fprintf(d->to, "\n%s: %s%s, compute capability %d.%d; streams: %d, events: %d\n",
                device_name(d->device[device]), info->name, *d->list.device[device].described ? ", described" : "",
                info->capability / 10, info->capability % 10, used, s ? s->n_event : 0);
    if (s)
        print_gpu_steps(d, p, s, device);
    else
        print_cpu_steps(d, p, device);
    for (int i = 0; i < plan->n_copy; i++) {
        if (plan->copy[i].to.device != device)
            continue;
        fputs("       at the end a copy from", d->to);
        print_memory_ref(d->to, program_graph(p), &plan->copy[i].from, d->n_device);
        fputs(" to", d->to);
        print_memory_ref(d->to, program_graph(p), &plan->copy[i].to, d->n_device);
        fprintf(d->to, ", %zu bytes\n", plan->copy[i].to.bytes);
    }
    return print_memory(d, p, device);
}

/* ---- a program ---- */

/* Takes the shares of memory that the program needs. */
static Status measure_program(DryRun *d, const Program *p)
{
    const uint64_t available = machine_memory_free();
    double host = 0;

    for (int i = 0; i < d->n_device; i++) {
        const GpuInfo *info = device_info(d->device[i]);
        MemoryNeed need;

        TRY(memory_need(&need, program_graph(p), program_plan(p), i, info));
        if (info)
            d->accelerator = fmax(d->accelerator, (double)memory_total(&need) / (double)info->memory);
        else
            host += (double)memory_total(&need);
    }
    d->host = available ? fmax(d->host, host / (double)available) : 0;
    return ST_OK;
}

static Status print_program(DryRun *d, const Program *p, const char *what)
{
    Arena *a = arena_create();
    StreamPlan *streams = NULL;
    Status st = a ? ST_OK : FAIL_NOMEM();

    if (!st && device_runtime(d->device[0]))
        st = plan_streams(&streams, program_graph(p), program_plan(p), program_plan(p)->scratch_bytes, d->n_device, a);
    if (!st)
        fprintf(d->to, "%s: %" PRIu32 " node%s\n", what, program_graph(p)->n_node,
                program_graph(p)->n_node == 1 ? "" : "s");
    for (int i = 0; i < d->n_device && !st; i++)
        st = print_device(d, p, streams, i);
    arena_free(a);
    return st;
}

/* Compiles the program of one mode and prints it under the heading `what`. */
static Status plan_mode(DryRun *d, BuildMode mode, const char *what, Report *report)
{
    ProgramOptions opt = { .device = d->device,
                           .n_device = d->n_device,
                           .plan_only = true,
                           .ways = { .library_sums = d->options->ways.library_sums,
                                     .latency_bytes = d->options->ways.latency_bytes,
                                     .isa = d->options->ways.isa } };
    Program *p;
    MemoryBudget *b;
    Graph *g;
    Status st;

    TRY(transform_build(&g, d->model, d->options, mode, report));
    if (!all_shapes_known(g)) {
        st = fail_dynamic(g, "a plan");
        graph_free(g);
        return st;
    }
    b = memory_budget_keep(arena_budget(g->arena));
    st = memory_budget_explain(b, program_compile(&p, g, &opt));
    memory_budget_free(b);
    TRY(st);
    st = d->to ? print_program(d, p, what) : measure_program(d, p);
    program_free(p);
    return st;
}

static Status plan_all(DryRun *d, Report *report)
{
    if (!has_loss(&d->options->build))
        return plan_mode(d, BUILD_INFER, "inference", report);
    if (d->options->accumulate == 1)
        return plan_mode(d, BUILD_TRAIN, "training step", report);
    TRY(plan_mode(d, BUILD_ACCUMULATE, "one of the batches of a step", report));
    if (d->to)
        putc('\n', d->to);
    if (update_options(&d->options->build)->turns)
        return plan_mode(d, BUILD_FINISH, "the last of the batches of a step, and its update", NULL);
    return plan_mode(d, BUILD_APPLY, "the update of a step", NULL);
}

/* ---- log lines ---- */

static void log_notes(const DryRun *d, const Report *r)
{
    char line[1200], summary[REPORT_SUMMARY];

    report_summary(summary, r);
    if (has_loss(&d->options->build))
        d->log(d->user, LINE_INFO, summary);
    for (int i = 0; i < r->n_note; i++) {
        snprintf(line, sizeof line, "%s: %s", r->note[i].subject, r->note[i].text);
        d->log(d->user, note_level(&r->note[i]), line);
    }
}

/* Logs how much of the plan for a described device the plug-in's libraries confirm. */
static void log_confirmed(const DryRun *d, int device)
{
    static const char *const what[N_DESCRIBED] = { "plans of library calls", "generated kernels", "own kernels" };
    const char *name = device_name(d->device[device]);
    Described c;
    char line[1024], most[BYTES_TEXT], epilogue[BYTES_TEXT];
    bool all = true;
    int n;

    described_count(&c, device_gpu(d->device[device]));
    n = snprintf(line, sizeof line, c.asked ? "%s: the libraries confirm" : "%s: no plug-in confirms what is planned",
                 name);
    for (int i = 0; c.asked && i < N_DESCRIBED; i++) {
        n += snprintf(line + n, sizeof line - (size_t)n, "%s %d of %d %s", i ? "," : "", c.confirmed[i], c.wanted[i],
                      what[i]);
        all = all && c.confirmed[i] == c.wanted[i];
    }
    if (c.asked)
        n += snprintf(line + n, sizeof line - (size_t)n, "; they ask for up to %s of workspace, which is not counted",
                      bytes_text(most, c.workspace));
    if (c.epilogue)
        n += snprintf(line + n, sizeof line - (size_t)n,
                      "; where cublasLt lacks an epilogue, products take up to %s of scratch, %s",
                      bytes_text(epilogue, c.epilogue), "which is not counted");
    if (*c.refusal)
        snprintf(line + n, sizeof line - (size_t)n, "%s: %s", c.asked ? "; the first refusal" : "", c.refusal);
    d->log(d->user, all ? LINE_INFO : LINE_WARNING, line);
}

/* ---- entry ---- */

static Status compile_and_print(DryRun *d)
{
    Report *report;
    Status st;

    TRY(options_check(d->options));
    TRY(options_devices(&d->list, d->options));
    TRY(links_settle(d->options, &d->list));
    for (; d->n_device < d->list.n; d->n_device++)
        TRY(device_open(&d->device[d->n_device], &d->list.device[d->n_device], false));
    if (!(report = report_create()))
        return FAIL_NOMEM();
    st = plan_all(d, report);
    if (d->log)
        log_notes(d, report);
    report_free(report);
    for (int i = 0; i < d->n_device && !st && d->log; i++)
        if (*d->list.device[i].described)
            log_confirmed(d, i);
    return st ? st : problems_fail(&d->too_large, E_NOMEM, "out of memory");
}

static Status run_dry(DryRun *d, const Options *o)
{
    Status st = options_copy(&d->options, o);

    if (!st)
        st = compile_and_print(d);
    options_free(d->options);
    problems_free(&d->too_large);
    for (int i = 0; i < d->n_device; i++)
        device_close(d->device[i]);
    return st;
}

Status dry_run(FILE *to, const Graph *model, const Options *o, SessionLog *log, void *user)
{
    DryRun *d = calloc(1, sizeof *d);
    Status st;

    if (!d)
        return FAIL_NOMEM();
    *d = (DryRun){ .to = to, .model = model, .log = log, .user = user };
    st = run_dry(d, o);
    free(d);
    return st;
}

Status plan_shares(double *host, double *accelerator, const Graph *model, const Options *o)
{
    DryRun *d = calloc(1, sizeof *d);
    Status st;

    if (!d)
        return FAIL_NOMEM();
    d->model = model;
    st = run_dry(d, o);
    if (!st) {
        *host = d->host;
        *accelerator = d->accelerator;
    }
    free(d);
    return st;
}
