/* The event schedule, checked for races by a model: what surely happens before what is found by walking the waits and
 * records alone, as sets of steps, and every two accesses of the same bytes from different streams must be ordered, unless
 * both only read.  The same model must find a race when any one wait is taken away. */
#include "passes/plan_streams.h"

#include <stdlib.h>
#include <string.h>

#include "exec/interp.h"
#include "graph/onnx/onnx.h"
#include "graph/op.h"
#include "passes/pass.h"
#include "tests/harness/test.h"

typedef struct { int step; bool write; char space; uint32_t root; size_t from, to; } Touch;

typedef struct {
    const Graph *g;
    const MemoryPlan *plan;
    const size_t *scratch;
    const StreamDevice *d;
    int device, n_device, n;
    Touch *touch;               /* of all steps, in order */
    int n_touch;
    uint64_t *before;           /* [n + 1][words] the steps that have ended when a step begins; the last row: at the end */
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
    m->touch[m->n_touch++] = (Touch){ step, write, space, r->kind == MEM_STATE ? r->root.i : 0, r->offset, r->offset + r->bytes };
}

static void list_touches(Model *m)
{
    for (int s = 0; s < m->n; s++) {
        const Node *n = m->g->node[m->d->step[s].node];

        for (int i = 0; i < n->n_in; i++)
            add_touch(m, s, &m->plan->value[n->in[i].i], false);
        for (int o = 0; o < n->n_out; o++)
            add_touch(m, s, &m->plan->value[n->out[o].i], true);
        if (m->scratch[n->index])
            add_touch(m, s, &(MemRef){ MEM_ARENA, n->device, NO_VALUE, m->plan->scratch[n->index], m->scratch[n->index] }, true);
    }
}

static bool races(const Touch *a, const Touch *b)
{
    return (a->write || b->write) && a->space == b->space && a->root == b->root && a->from < b->to && b->from < a->to;
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

/* `dropped`: the number of a wait that is left out; -1: none.  Fails the test when a wait names an event that nobody has
 * recorded yet. */
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
            CU_ASSERT_FATAL(step->wait[w] < m->d->n_event && recorded[step->wait[w]] >= 0);
            if (seen != dropped)
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

/* The number of unordered conflicting accesses, and of steps that have not ended with the device's part. */
static int count_races(const Model *m)
{
    int n = 0;

    for (int a = 0; a < m->n_touch; a++)
        for (int b = a + 1; b < m->n_touch; b++) {
            int x = m->touch[a].step, y = m->touch[b].step;

            if (m->d->step[x].stream != m->d->step[y].stream && races(&m->touch[a], &m->touch[b]))
                n += !ended_before(m, x, y);
        }
    for (int s = 0; s < m->n; s++)
        n += !ended_before(m, s, m->n);
    return n;
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

static Graph *build(const char *name, int replicas, int devices, bool (*computes)(const Graph *, const Node *))
{
    BuildOptions opt = { .mode = BUILD_TRAIN, .batch = 6, .loss = LOSS_CROSS_ENTROPY, .replicas = replicas, .devices = devices,
                         .metric_accuracy = true, .momentum = 0.9, .computes = computes };
    Graph *g = NULL;
    char path[512];

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", name);
    if (!CHECK_OK(onnx_import_file(&g, NULL, path)) || !CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL))) {
        graph_free(g);
        return NULL;
    }
    return g;
}

static void open_model(Model *m, Arena *a, const Graph *g, const MemoryPlan *plan, const size_t *scratch, const StreamPlan *streams,
                       int device)
{
    size_t most = 1;

    *m = (Model){ g, plan, scratch, &streams->device[device], device, streams->n_device, streams->device[device].n_step,
                  NULL, 0, NULL, streams->device[device].n_step / 64 + 1 };
    FOR_NODES(g, n)
        most += (size_t)(n->n_in + n->n_out + 1);
    m->touch = ARENA_NEW(a, Touch, most);
    m->before = ARENA_NEW(a, uint64_t, (size_t)(m->n + 1) * (size_t)m->words);
    list_touches(m);
}

static void check_device(const char *what, Model *m, int max_drops)
{
    int waits = count_waits(m), every = waits / max_drops + 1, races;

    run_model(m, -1);
    if ((races = count_races(m)))
        TEST_FAIL("%s: %d races on device %d", what, races, m->device);
    for (int w = 0; w < waits; w += every) {
        run_model(m, w);
        if (!count_races(m))
            TEST_FAIL("%s: device %d could do without wait %d of %d", what, m->device, w, waits);
    }
}

/* Every node is done where it belongs, in order; collectives are the same on all devices. */
static void check_complete(const char *what, const Graph *g, const MemoryPlan *plan, const StreamPlan *streams)
{
    int *seen = calloc(g->n_node, sizeof *seen);

    for (int d = 0; d < streams->n_device; d++)
        for (int s = 0; s < streams->device[d].n_step; s++) {
            const StreamStep *step = &streams->device[d].step[s];

            CU_ASSERT(s == 0 || step[-1].node < step->node);
            CU_ASSERT(g->node[step->node]->op->flags & OPF_COLLECTIVE || g->node[step->node]->device % streams->n_device == d);
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

static void check_graph(const char *what, const Graph *g, int devices, int max_drops)
{
    Arena *a = arena_create();
    size_t *scratch = ARENA_NEW(a, size_t, g->n_node);
    MemoryPlan *plan;
    StreamPlan *streams;

    FOR_NODES(g, n)
        scratch[n->index] = n->op->flags & OPF_COLLECTIVE ? 0 : (n->index * 2654435761u >> 16) % 3 * 1000;
    if (CHECK_OK(plan_memory(&plan, g, scratch, a)) && CHECK_OK(plan_streams(&streams, g, plan, scratch, devices, a))) {
        check_complete(what, g, plan, streams);
        for (int d = 0; d < devices; d++) {
            Model m;

            open_model(&m, a, g, plan, scratch, streams, d);
            check_device(what, &m, max_drops);
        }
    }
    arena_free(a);
}

static const char *const models[] = { "exported_encoder", "exported_folded", "exported_mobilenet", "exported_resnet", "fashion_cnn",
                                      "mlp", "resnet20", "transformer", "unet" };
static const int spreads[][2] = { { 1, 1 }, { 3, 1 }, { 2, 2 }, { 3, 2 }, { 4, 4 } };

static void check_models(bool (*computes)(const Graph *, const Node *), int max_drops)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
            Graph *g = build(models[i], spreads[k][0], spreads[k][1], computes);
            char what[96];

            snprintf(what, sizeof what, "%s with %d replicas on %d devices", models[i], spreads[k][0], spreads[k][1]);
            if (g)
                check_graph(what, g, spreads[k][1], max_drops);
            graph_free(g);
        }
}

static void test_models(void) { check_models(all_nodes, 2); }
static void test_models_partly_on_host(void) { check_models(most_nodes, 2); }

/* The small one in full: no wait at all can be left out. */
static void test_every_wait(void)
{
    for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
        Graph *g = build("mlp", spreads[k][0], spreads[k][1], most_nodes);

        if (g)
            check_graph("mlp", g, spreads[k][1], 1 << 20);
        graph_free(g);
    }
}

DEFINE_SUITE(plan_streams, { "no races in any model", test_models }, { "nor with copies to and from the host", test_models_partly_on_host },
    { "every wait is needed", test_every_wait });
