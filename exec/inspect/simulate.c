/* Simulates training steps on a cluster.  For each number of devices and each level of sharding, the passes of a run
 * build the graph, in which one device of each class of equal ones is shown (passes/partition/divide.c).  Its memory is
 * planned with the scratch of CPU kernels, and its step is timed by simulate_step.c.  So buckets, pieces and the order
 * of collectives are those of a run. */
#include "exec/inspect/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/links.h"
#include "exec/inspect/transform.h"
#include "exec/plan/memory_report.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "graph/ir/data_shapes.h"
#include "passes/build_parts.h"

enum { MOST_EXPANDED = 64, LEVEL_TEXT = 16, MOST_LEVELS = 8 };

typedef struct {
    const Graph *model;
    const Options *o;
    Cluster *c;
    bool expand, shard_given; /* shard_given: --shard chooses the level */
    char level[MOST_LEVELS][LEVEL_TEXT];
    int n_level;
    double slowdown; /* factor of the seconds of each node */
    SumCost cost;    /* of the row's sums, with --links */
} Maker;

/* ---- the graph of one row ---- */

/* The options of a row's build; `level` is that of --shard. */
static void set_options(BuildParts *b, const Maker *m, const Simulated *s, int level)
{
    build_parts_copy(b, &m->o->build);
    b->build.mode = b->recipes.loss ? BUILD_TRAIN : BUILD_INFER;
    b->batch.batch = s->batch;
    b->replicas.replicas = s->devices;
    b->replicas.device_of_replica = NULL;
    if (b->replicas.split == SPLIT_AUTO)
        b->replicas.split = SPLIT_BALANCED; /* equal devices */
    b->collectives.shard = (ShardMode)level;
    b->collectives.sum_cost = m->o->links && s->devices > 1 ? &m->cost : NULL;
    b->replicas.devices = s->devices;
    if (!m->expand && s->devices > REPRESENTATIVES) {
        b->replicas.devices = REPRESENTATIVES;
        b->replicas.world = s->devices;
    }
    b->backend.backend = m->c->accelerator
                             ? cuda_target(b->types.precision, b->backend.tf32)
                             : cpu_target(b->types.precision, b->backend.tf32, b->backend.blocks, b->backend.fuse);
}

static Status simulate_build(Graph **out, const Maker *m, const Simulated *s, int level)
{
    BuildParts b;
    Graph *g;
    Status st;

    set_options(&b, m, s, level);
    TRY(plan_copy(&g, m->model, b.memory.plan_memory));
    st = model_repair(g, &b.build, interp_node, NULL);
    if (!st)
        st = pipeline_run(g, &b.build, interp_node, NULL, NULL);
    if (!st && !all_shapes_known(g))
        st = fail_dynamic(g, "a plan");
    if (st) {
        st = plan_explain(g, st);
        graph_free(g);
        return st;
    }
    *out = g;
    return ST_OK;
}

/* ---- memory ---- */

/* The memory of the device that needs most. */
static Status take_memory(Simulated *s, const Maker *m, const Graph *g, const MemoryPlan *plan)
{
    for (int d = 0; d < s->shown; d++) {
        MemoryNeed need;

        TRY(memory_need(&need, g, plan, d, m->c->accelerator));
        s->arena = fmax(s->arena, (double)need.arena);
        s->states = fmax(s->states, (double)need.states);
        s->constants = fmax(s->constants, (double)need.constants);
    }
    return ST_OK;
}

/* Plans and times the step on CPU devices, whose kernels are prepared as for a run because they ask for scratch.  Frees
 * the graph. */
static Status plan_on_cpus(Simulated *s, const Maker *m, Graph *g)
{
    Device *device[MOST_EXPANDED] = { NULL };
    ProgramOptions opt = { .device = device, .n_device = s->shown, .plan_only = true };
    const int threads = m->o->threads ? m->o->threads : m->c->cores >= 1 ? (int)m->c->cores : 1;
    Program *p = NULL;
    MemoryBudget *b = memory_budget_keep(arena_budget(g->arena));
    Status st = ST_OK;
    int n = 0;

    for (; n < s->shown && !st; n++)
        st = device_open(&device[n], &(DeviceSpec){ .index = n, .threads = threads }, false);
    if (st)
        graph_free(g);
    else
        st = memory_budget_explain(b, program_compile(&p, g, &opt));
    memory_budget_free(b);
    if (!st)
        st = take_memory(s, m, program_graph(p), program_plan(p));
    if (!st)
        st = simulate_step(s, m->c, program_graph(p), m->slowdown, NULL);
    program_free(p);
    for (int d = 0; d < n; d++)
        device_close(device[d]);
    return st;
}

/* Plans and times the step on accelerators, without the scratch of their kernels.  Frees the graph. */
static Status plan_on_gpus(Simulated *s, const Maker *m, Graph *g)
{
    BuildParts b;
    Arena *a = arena_create_beside(g->arena);
    MemoryPlan *plan = NULL;
    Status st;

    set_options(&b, m, s, 0);
    st = a ? plan_memory(&plan, g, NULL, target_align(&b.backend.backend), a) : FAIL_NOMEM();

    if (!st)
        st = take_memory(s, m, g, plan);
    if (!st)
        st = simulate_step(s, m->c, g, m->slowdown, NULL);
    arena_free(a);
    graph_free(g);
    return st;
}

/* ---- rows ---- */

/* Simulates one row.  The graph shows the devices up to the last one that computes or keeps something. */
static Status make_row(Simulated *s, Maker *m, int devices, int level)
{
    const int most = m->expand || devices <= REPRESENTATIVES ? devices : REPRESENTATIVES;
    Graph *g;
    Status st;
    int last = 0;

    *s = (Simulated){ .devices = devices, .batch = batch_options(&m->o->build)->batch };
    snprintf(s->shard, sizeof s->shard, "%s", m->level[level]);
    if (m->o->links && devices > 1) {
        m->cost = links_cost(m->c, devices);
        s->latency_bytes = links_latency_bytes(&m->cost, devices);
    }
    if (!m->c->strong)
        s->batch *= devices;
    if ((st = simulate_build(&g, m, s, level)))
        return status_prefix(st, "%d devices, --shard %s", devices, m->level[level]);
    FOR_NODES(g, n)
        last = n->device < most && n->device > last ? n->device : last;
    for (uint32_t i = 1; i < g->n_value; i++)
        last = g->value[i]->kind == V_STATE && g->value[i]->device > last ? g->value[i]->device : last;
    s->shown = last + 1;
    return m->c->accelerator ? plan_on_gpus(s, m, g) : plan_on_cpus(s, m, g);
}

/* Splits the choices of --shard, "none|state|..." */
static void list_levels(Maker *m)
{
    const char *at = options_choices("shard");

    while (*at && m->n_level < MOST_LEVELS) {
        size_t n = strcspn(at, "|");

        snprintf(m->level[m->n_level++], LEVEL_TEXT, "%.*s", (int)n, at);
        at += n + (at[n] == '|');
    }
}

/* The factor by which the measured step of one device is slower than its rates say; 1 where no step was measured. */
static Status find_slowdown(Maker *m)
{
    Simulated one;

    if (!(m->c->samples_per_second > 0))
        return ST_OK;
    TRY(make_row(&one, m, 1, 0));
    m->slowdown = one.seconds > 0 ? (double)one.batch / m->c->samples_per_second / one.seconds : 1;
    return ST_OK;
}

Status simulate_slowdown(double *out, const Graph *model, const Options *o, Cluster *c)
{
    Maker m = { .model = model, .o = o, .c = c, .slowdown = 1 };

    list_levels(&m);
    TRY(find_slowdown(&m));
    *out = m.slowdown;
    return ST_OK;
}

static Status read_rates(Maker *m, const char *path)
{
    Simulated one = { .devices = 1, .batch = batch_options(&m->o->build)->batch };
    Graph *g;
    Status st;

    TRY(simulate_build(&g, m, &one, 0));
    st = simulate_read_rates(m->c, g, path);
    graph_free(g);
    return st;
}

static Status make_rows(Simulation *out, Maker *m)
{
    for (int i = 0; i < m->c->n_count; i++)
        for (int level = 0; level < m->n_level; level++) {
            Status st;

            if (m->shard_given ? level != (int)collective_options(&m->o->build)->shard : m->c->count[i] == 1 && level)
                continue;
            st = make_row(&out->row[out->n_row], m, m->c->count[i], level);
            if (st == E_INVALID && level && !m->shard_given)
                continue; /* this level does not suit the model */
            TRY(st);
            out->n_row++;
        }
    return ST_OK;
}

static Status simulate_check(const Maker *m)
{
    static const char *const others[] = { "devices", "replicas", NULL };
    PROBLEMS(wrong);

    TRY(options_check(m->o));
    TRY(transform_check_model(m->model));
    for (int i = 0; others[i]; i++)
        if (options_given(m->o, others[i]))
            problems_add(&wrong, "--%s", others[i]);
    TRY(problems_fail(&wrong, E_INVALID,
                      "--simulate has one replica on each device of the cluster: it does not go with"));
    if (batch_options(&m->o->build)->batch < 1)
        return FAIL(E_INVALID, "--simulate: expected --batch-size, the samples of %s",
                    m->c->strong ? "all devices" : "one device");
    for (int i = 0; i < m->c->n_count; i++)
        if (m->expand && m->c->count[i] > MOST_EXPANDED)
            return FAIL(E_INVALID, "--expand: at most %d devices can be planned one by one, found %d", MOST_EXPANDED,
                        m->c->count[i]);
    return ST_OK;
}

Status simulate(Simulation *out, const Graph *model, const Options *o, Cluster *cluster, const char *rates, bool expand)
{
    Maker m = {
        .model = model, .o = o, .c = cluster, .expand = expand, .shard_given = options_given(o, "shard"), .slowdown = 1
    };
    Simulation s = { .cluster = cluster };
    Status st;

    list_levels(&m);
    TRY(simulate_check(&m));
    if (rates)
        TRY(read_rates(&m, rates));
    TRY(find_slowdown(&m));
    if (!(s.row = calloc((size_t)cluster->n_count * (size_t)m.n_level, sizeof *s.row)))
        return FAIL_NOMEM();
    if ((st = make_rows(&s, &m))) {
        free(s.row);
        return st;
    }
    *out = s;
    return ST_OK;
}
