/* The event schedule, checked for races by a model: what surely happens before what is found by walking the waits and
 * records alone, as sets of steps.  Every two accesses of the same bytes from different streams must be ordered, unless
 * both only read, be the bytes of a value, of the next value in its place, of scratch, of state or of the host's side;
 * and whoever reads a value must begin after its producer ended, which the graph's edges tell without any address.  The
 * memory in which a device packs what its collectives send and receive is bytes like any others, of a space of its own.
 * The same model must find a race when any one wait is taken away: so no wait can be missing, and none is there in
 * vain.  And what need not be ordered is not: the backward pass goes on while gradients are reduced. */
#include "passes/plan/plan_streams.h"
#include "graph/ops/collective.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/cross_entropy.gen.h"
#include "graph/ops/product.gen.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "graph/ir/op.h"
#include "passes/build_parts.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"

typedef struct {
    int step;
    bool write;
    char space;
    uint32_t root;
    size_t from, to;
} Touch;
typedef struct {
    int first, second;
} Pair; /* steps of different streams that must not overlap */

typedef struct {
    const Graph *g;
    const MemoryPlan *plan;
    const size_t *scratch;
    const StreamDevice *d;
    int device, n_device, n;
    Touch *touch; /* of all steps, in order */
    int n_touch;
    Pair *pair; /* grown by realloc */
    int n_pair;
    uint64_t *before; /* [n + 1][words] the steps that have ended when a step begins; the last row: at the end */
    int words;
} Model;

/* ---- accesses, read off the memory plan ---- */

static void add_touch(Model *m, int step, const MemRef *r, bool write)
{
    char space = r->kind == MEM_STATE ? 's' : r->device == m->device ? 'd' : 'h';

    if ((r->kind != MEM_ARENA && r->kind != MEM_STATE) || !r->bytes)
        return;
    if (r->device != m->device && r->device != m->n_device + m->device)
        return;
    m->touch[m->n_touch++] =
        (Touch){ step, write, space, r->kind == MEM_STATE ? r->root.i : 0, r->offset, r->offset + r->bytes };
}

/* Does the step pack or unpack what is summed or exchanged (exec/gpu/collective.c)?  A sum does among the replicas of
 * one device too; some need not, which is not known here. */
static bool packs(const StreamStep *s, const Node *n)
{
    return n->op == &op_AllReduce || n->op == &op_ReduceScatter || s->collective;
}

static void list_touches(Model *m)
{
    for (int s = 0; s < m->n; s++) {
        const Node *n = m->g->node[m->d->step[s].node];

        if (packs(&m->d->step[s], n))
            m->touch[m->n_touch++] = (Touch){ s, true, 'b', 0, 0, 1 };

        for (int i = 0; i < n->n_in; i++)
            add_touch(m, s, &m->plan->value[n->in[i].i], false);
        for (int o = 0; o < n->n_out; o++)
            add_touch(m, s, &m->plan->value[n->out[o].i], true);
        if (m->scratch[n->index])
            add_touch(m, s,
                      &(MemRef){ MEM_ARENA, n->device, NO_VALUE, m->plan->scratch[n->index], m->scratch[n->index] },
                      true);
    }
}

static bool races(const Touch *a, const Touch *b)
{
    return (a->write || b->write) && a->space == b->space && a->root == b->root && a->from < b->to && b->from < a->to;
}

static void add_pair(Model *m, int first, int second)
{
    Pair *last = m->n_pair ? &m->pair[m->n_pair - 1] : NULL;

    if (last && last->first == first && last->second == second)
        return;
    if (!(m->n_pair & (m->n_pair - 1))) /* 0 and powers of two: full */
        m->pair = realloc(m->pair, (size_t)(m->n_pair ? 2 * m->n_pair : 1) * sizeof *m->pair);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m->pair);
    m->pair[m->n_pair++] = (Pair){ first, second };
}

static void list_pairs(Model *m)
{
    for (int b = 0; b < m->n_touch; b++)
        for (int a = 0; a < b; a++) {
            int first = m->touch[a].step, second = m->touch[b].step;

            if (m->d->step[first].stream != m->d->step[second].stream && races(&m->touch[a], &m->touch[b]))
                add_pair(m, first, second);
        }
}

/* ---- what happens before what ---- */

static uint64_t *row(const Model *m, int step) { return m->before + (size_t)step * (size_t)m->words; }
static bool ended_before(const Model *m, int a, int step) { return row(m, step)[a / 64] >> (a % 64) & 1; }

static void follow(Model *m, int step, int earlier)
{
    for (int w = 0; w < m->words; w++)
        row(m, step)[w] |= row(m, earlier)[w];
    row(m, step)[earlier / 64] |= (uint64_t)1 << (earlier % 64);
}

/* `dropped`: the number of a wait that is left out; -1: none.  Fails the test when a wait names an event that nobody
 * has recorded yet. */
static void run_model(Model *m, int dropped)
{
    int last[N_STREAMS] = { -1, -1, -1 }, seen = 0, *recorded = malloc((size_t)(m->d->n_event + 1) * sizeof *recorded);

    memset(m->before, 0, (size_t)(m->n + 1) * (size_t)m->words * sizeof *m->before);
    for (int e = 0; e < m->d->n_event; e++)
        recorded[e] = -1;
    for (int s = 0; s < m->n; s++) {
        const StreamStep *step = &m->d->step[s];

        if (last[step->stream] >= 0)
            follow(m, s, last[step->stream]);
        for (int w = 0; w < step->n_wait; w++, seen++) {
            if (step->wait[w] >= m->d->n_event || recorded[step->wait[w]] < 0)
                TEST_FAIL("%s waits for an event that nobody has recorded", node_text(m->g, m->g->node[step->node]));
            else if (seen != dropped)
                follow(m, s, recorded[step->wait[w]]);
        }
        last[step->stream] = s;
        if (step->event >= 0)
            recorded[step->event] = s;
    }
    if (last[STREAM_COMPUTE] >= 0)
        follow(m, m->n, last[STREAM_COMPUTE]);
    for (int t = 0; t < N_STREAMS; t++)
        if (m->d->join[t] >= 0 && seen++ != dropped)
            follow(m, m->n, recorded[m->d->join[t]]);
    free(recorded);
}

static int count_waits(const Model *m)
{
    int n = 0;

    for (int s = 0; s < m->n; s++)
        n += m->d->step[s].n_wait;
    for (int t = 0; t < N_STREAMS; t++)
        n += m->d->join[t] >= 0;
    return n;
}

/* The number of conflicting pairs that are not ordered, and of steps that have not ended with the device's part. */
static int count_races(const Model *m)
{
    int n = 0;

    for (int i = 0; i < m->n_pair; i++)
        n += !ended_before(m, m->pair[i].first, m->pair[i].second);
    for (int s = 0; s < m->n; s++)
        n += !ended_before(m, s, m->n);
    return n;
}

/* ---- what the graph's edges say ---- */

/* Fails the test unless every step that made `v`, or what `v` is a view of, has ended when `reader` begins.  `step_of`:
 * by node; -1: another device's.  Returns the number of steps found. */
static int check_made(const char *what, const Model *m, const int *step_of, ValueId v, int reader)
{
    const Node *n = has_value(v) ? value(m->g, v)->producer : NULL;
    int found = 0;

    if (!n)
        return 0;
    if (!stream_is_view(m->plan, n)) {
        int made = step_of[n->index];

        if (made >= 0 && !ended_before(m, made, reader))
            TEST_FAIL("%s: device %d: %s reads what %s has not made", what, m->device,
                      node_text(m->g, m->g->node[m->d->step[reader].node]), n->name);
        return made >= 0;
    }
    for (int i = 0; i < n->n_in; i++)
        found += check_made(what, m, step_of, n->in[i], reader);
    return found;
}

static void check_edges(const char *what, const Model *m)
{
    int *step_of = malloc((m->g->n_node + 1) * sizeof *step_of), found = 0;

    for (uint32_t i = 0; i < m->g->n_node; i++)
        step_of[i] = -1;
    for (int s = 0; s < m->n; s++)
        step_of[m->d->step[s].node] = s;
    for (int s = 0; s < m->n; s++) {
        const Node *n = m->g->node[m->d->step[s].node];

        for (int i = 0; i < n->n_in; i++)
            found += check_made(what, m, step_of, n->in[i], s);
    }
    CU_ASSERT(found > 0 || m->n < 16);
    free(step_of);
}

/* ---- the tests ---- */

/* A fifth of the operators, by their names, is computed on the host. */
static bool most_nodes(const Graph *g, const Node *n)
{
    unsigned h = 0;

    (void)g;
    for (const char *c = n->op->name; *c; c++)
        h = h * 31 + (unsigned char)*c;
    return h % 5 != 0;
}

static bool all_nodes(const Graph *g, const Node *n)
{
    (void)g, (void)n;
    return true;
}

static bool fuses_products(const Target *t, const OpDef *op)
{
    (void)t;
    return op == &op_Product || op == &op_ConvRelu || op == &op_CrossEntropySum;
}

/* How the graphs are built. */
typedef struct {
    const char *name;
    DType precision;
    bool (*computes)(const Graph *, const Node *); /* NULL: what CUDA devices have kernels for, fused as for them */
    BuildMode mode;
    int64_t bucket_bytes;
} Variant;

static const Variant variants[] = { { "float32", DT_NONE, NULL, BUILD_TRAIN, 0 },
                                    { "bfloat16", DT_BFLOAT16, NULL, BUILD_TRAIN, 0 },
                                    { "a kernel for each node", DT_NONE, all_nodes, BUILD_TRAIN, 0 },
                                    { "partly on the host", DT_NONE, most_nodes, BUILD_TRAIN, 0 },
                                    { "accumulating", DT_BFLOAT16, NULL, BUILD_ACCUMULATE, 0 },
                                    { "applying", DT_NONE, NULL, BUILD_APPLY, 0 } };

static Graph *build(const char *name, int replicas, int devices, const Variant *v)
{
    BuildParts opt = { .build.mode = v->mode,
                       .batch.batch = 6,
                       .recipes.loss = &loss_cross_entropy,
                       .replicas.replicas = replicas,
                       .recipes.metric = { { .def = &metric_accuracy } },
                       .recipes.settings = "momentum=0.9",
                       .types.precision = v->precision,
                       .collectives.bucket_bytes = v->bucket_bytes };

    opt.replicas.devices = devices;
    opt.replicas.replicas = opt.replicas.replicas ? opt.replicas.replicas : devices;
    opt.backend.backend = cuda_target(opt.types.precision, false);
    if (v->computes) {
        opt.backend.backend.computes = v->computes;
        opt.backend.backend.fuses = fuses_products;
    }
    return model_build(name, build_parts(&opt));
}

static void open_model(Model *m, Arena *a, const Graph *g, const MemoryPlan *plan, const size_t *scratch,
                       const StreamPlan *streams, int device)
{
    size_t most = 1;

    *m = (Model){ g,
                  plan,
                  scratch,
                  &streams->device[device],
                  device,
                  streams->n_device,
                  streams->device[device].n_step,
                  NULL,
                  0,
                  NULL,
                  0,
                  NULL,
                  streams->device[device].n_step / 64 + 1 };
    FOR_NODES(g, n)
        most += (size_t)(n->n_in + n->n_out + 2);
    m->touch = ARENA_NEW(a, Touch, most);
    m->before = ARENA_NEW(a, uint64_t, (size_t)(m->n + 1) * (size_t)m->words);
    list_touches(m);
    list_pairs(m);
}

/* Returns the number of waits, each of which was left out once. */
static int check_device(const char *what, Model *m)
{
    int waits = count_waits(m), races;

    run_model(m, -1);
    if ((races = count_races(m)))
        TEST_FAIL("%s: %d races on device %d", what, races, m->device);
    check_edges(what, m);
    for (int w = 0; w < waits; w++) {
        run_model(m, w);
        if (!count_races(m))
            TEST_FAIL("%s: device %d could do without wait %d of %d", what, m->device, w, waits);
    }
    return waits;
}

/* Every node is done where it belongs, in order; collectives are the same on all devices. */
static void check_complete(const char *what, const Graph *g, const MemoryPlan *plan, const StreamPlan *streams)
{
    int *seen = calloc(g->n_node, sizeof *seen);

    for (int d = 0; d < streams->n_device; d++)
        for (int s = 0; s < streams->device[d].n_step; s++) {
            const StreamStep *step = &streams->device[d].step[s];

            CU_ASSERT(s == 0 || step[-1].node < step->node);
            CU_ASSERT(g->node[step->node]->op->flags & OPF_COLLECTIVE ||
                      g->node[step->node]->device % streams->n_device == d);
            CU_ASSERT_EQUAL(step->collective, step->stream == STREAM_COMM);
            seen[step->node]++;
        }
    FOR_NODES(g, n)
        if (stream_is_view(plan, n) ? seen[n->index] != 0 : !seen[n->index])
            TEST_FAIL("%s: %s is done %d times", what, node_text(g, n), seen[n->index]);
    for (int s = 0; s < streams->device[0].n_step; s++)
        if (streams->device[0].step[s].collective)
            CU_ASSERT_EQUAL(seen[streams->device[0].step[s].node], streams->n_device);
    free(seen);
}

static int check_graph(const char *what, const Graph *g, int devices)
{
    Arena *a = arena_create();
    size_t *scratch = ARENA_NEW(a, size_t, g->n_node);
    MemoryPlan *plan;
    StreamPlan *streams;
    int waits = 0;

    FOR_NODES(g, n)
        scratch[n->index] = n->op->flags & OPF_COLLECTIVE ? 0 : (n->index * 2654435761u >> 16) % 3 * 1000;
    if (CHECK_OK(plan_memory(&plan, g, scratch, TARGET_ALIGN, a)) &&
        CHECK_OK(plan_streams(&streams, g, plan, scratch, devices, a))) {
        check_complete(what, g, plan, streams);
        for (int d = 0; d < devices; d++) {
            Model m;

            open_model(&m, a, g, plan, scratch, streams, d);
            waits += check_device(what, &m);
            free(m.pair);
        }
    }
    arena_free(a);
    return waits;
}

static const char *const models[] = { "exported_encoder", "exported_folded", "exported_mobilenet",
                                      "exported_resnet",  "fashion_cnn",     "mlp",
                                      "resnet20",         "transformer",     "unet" };
static const int spreads[][2] = { { 1, 1 }, { 4, 1 }, { 2, 2 }, { 3, 2 }, { 4, 2 }, { 4, 4 } };

/* ---- overlap ---- */

/* The first sum of several gradients, which unlike counts are floats; -1: there is none. */
static int first_bucket(const Model *m)
{
    for (int s = 0; s < m->n; s++) {
        const Node *n = m->g->node[m->d->step[s].node];

        if (m->d->step[s].collective && n->op == &op_AllReduce && node_int(n, "tensors") > 1 &&
            dtype_is_float(in_value(m->g, n, 0)->dtype))
            return s;
    }
    return -1;
}

/* Steps of replicas' own computation that are ordered neither before nor after `step`. */
static int count_beside(const Model *m, int step)
{
    int found = 0;

    for (int s = 0; s < m->n; s++)
        found += m->d->step[s].stream == STREAM_COMPUTE && m->g->node[m->d->step[s].node]->replica >= 0 &&
                 !ended_before(m, s, step) && !ended_before(m, step, s);
    return found;
}

static void check_overlap(const char *what, const Graph *g, int devices)
{
    Arena *a = arena_create();
    MemoryPlan *plan;
    StreamPlan *streams;
    size_t *scratch = ARENA_NEW(a, size_t, g->n_node);

    if (CHECK_OK(plan_memory(&plan, g, scratch, TARGET_ALIGN, a)) &&
        CHECK_OK(plan_streams(&streams, g, plan, scratch, devices, a)))
        for (int d = 0; d < devices; d++) {
            Model m;
            int bucket;

            open_model(&m, a, g, plan, scratch, streams, d);
            run_model(&m, -1);
            if ((bucket = first_bucket(&m)) < 0)
                TEST_FAIL("%s: no gradients are reduced together on device %d", what, d);
            else if (!count_beside(&m, bucket))
                TEST_FAIL("%s: on device %d nothing is computed while the first gradients are reduced", what, d);
            free(m.pair);
        }
    arena_free(a);
}

/* With buckets of which there are several in a small network. */
static void test_overlap(void)
{
    static const char *const names[] = { "transformer", "resnet20" };
    static const Variant overlapping = { .name = "overlap", .mode = BUILD_TRAIN, .bucket_bytes = 1 << 18 };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Graph *g = build(names[i], 2, 2, &overlapping);

        if (g)
            check_overlap(names[i], g, 2);
        graph_free(g);
    }
}

/* The test's name is the variant's. */
static void test_variant(void)
{
    const Variant *v = variants;

    while (strcmp(v->name, CU_get_current_test()->pName))
        v++;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k += v->computes ? 2 : 1) {
            Graph *g = build(models[i], spreads[k][0], spreads[k][1], v);
            char what[96];
            int waits;

            snprintf(what, sizeof what, "%s with %d replicas on %d devices", models[i], spreads[k][0], spreads[k][1]);
            waits = g ? check_graph(what, g, spreads[k][1]) : 0;
            if (g && spreads[k][1] > 1 && v->mode != BUILD_ACCUMULATE)
                CU_ASSERT(waits > 0);
            graph_free(g);
        }
}

DEFINE_SUITE(plan_streams, { "float32", test_variant }, { "bfloat16", test_variant },
             { "a kernel for each node", test_variant }, { "partly on the host", test_variant },
             { "accumulating", test_variant }, { "applying", test_variant },
             { "computes while it reduces", test_overlap });
