/* The models of models/ through sessions: the plan is tight for all of them, and steps compute what the interpreter
 * does. */
#include <math.h>
#include <string.h>

#include "exec/run/interp.h"
#include "exec/train/session.h"
#include "exec/inspect/verify_batch.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "passes/build_parts.h"

static const char *const models[] = { "mlp",
                                      "fashion_cnn",
                                      "resnet20",
                                      "transformer",
                                      "unet",
                                      "exported_resnet",
                                      "exported_mobilenet",
                                      "exported_encoder",
                                      "exported_folded" };

static BuildParts options(int batch, int replicas, int devices)
{
    return (BuildParts){ .build.mode = BUILD_TRAIN,
                         .batch.batch = batch,
                         .recipes.loss = &loss_cross_entropy,
                         .recipes.optimizer = &optimizer_sgd,
                         .recipes.settings = "momentum=0.9",
                         .recipes.metric = { { .def = &metric_accuracy } },
                         .replicas.replicas = replicas,
                         .replicas.devices = devices,
                         .step.seed = 1 };
}

/* ---- the plan ---- */

static void check_plan(const char *name, int batch, int replicas, int devices)
{
    BuildParts opt = options(batch, replicas, devices);
    Graph *g = model_import(name);
    Arena *a = arena_create();
    MemoryPlan *plan;

    if (g && CHECK_OK(pipeline_run(g, build_parts(&opt), interp_node, NULL, NULL)) &&
        CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, a))) {
        CU_ASSERT_EQUAL(plan->n_device, devices);
        for (int d = 0; d < plan->n_device; d++)
            if ((double)plan->device[d].arena_bytes > 1.1 * (double)plan->device[d].live_bytes)
                TEST_FAIL("%s, %d replicas: the arena of device %d has %zu bytes for %zu live ones", name, replicas, d,
                          plan->device[d].arena_bytes, plan->device[d].live_bytes);
        for (int i = 0; i < plan->n_copy; i++)
            if (plan->copy[i].to.bytes > 4096)
                TEST_FAIL("%s: %zu bytes of state are copied after the step", name, plan->copy[i].to.bytes);
    }
    arena_free(a);
    graph_free(g);
}

static void test_plans_are_tight(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        check_plan(models[i], 8, 1, 1);
        check_plan(models[i], 8, 4, 2);
    }
}

/* ---- steps ---- */

static double difference(const Tensor *a, const Tensor *b)
{
    double diff = 0, norm = 0;

    for (int64_t i = 0; i < tensor_numel(a); i++) {
        diff += pow(tensor_float(a, i) - tensor_float(b, i), 2);
        norm += pow(tensor_float(b, i), 2);
    }
    return sqrt(diff) / (sqrt(norm) + 1e-4);
}

/* The session's own graph by the interpreter, from the same state; then the session's step. */
static void check_step(Session *s, BuildMode mode, const NamedTensor *in, int n_in, const char *name)
{
    const Graph *g = program_graph(session_program(s, mode));
    Arena *a = arena_create();
    const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value);
    const NamedTensor *out;
    int n_out;

    for (int i = 0; i < n_in; i++)
        if (has_value(graph_find(g, in[i].name)))
            values[graph_find(g, in[i].name).i] = &in[i].tensor;
    for (uint32_t v = 1; v < g->n_value; v++) {
        Tensor t = { g->value[v]->dtype, *g->value[v]->shape, NULL };

        if (g->value[v]->kind == V_STATE && program_plan(session_program(s, mode))->occurs[v] &&
            CHECK_OK(states_storage(&t.data, session_states(s), g->value[v])))
            values[v] = tensor_copy(a, &t);
    }
    if (CHECK_OK(interp_run(a, g, values)) && CHECK_OK(session_step(&out, &n_out, s, mode, in, n_in))) {
        CU_ASSERT_EQUAL(n_out, g->n_output);
        for (int i = 0; i < n_out; i++)
            if (!(difference(&out[i].tensor, values[g->output[i].value.i]) < 1e-4))
                TEST_FAIL("%s: output '%s' differs by %g", name, out[i].name,
                          difference(&out[i].tensor, values[g->output[i].value.i]));
        for (int u = 0; u < g->n_update; u++) {
            const Value *v = value(g, g->update[u].state);
            Tensor t = { v->dtype, *v->shape, NULL };

            CHECK_OK(states_storage(&t.data, session_states(s), v));
            if (!(difference(&t, values[g->update[u].next.i]) < 1e-3))
                TEST_FAIL("%s: state '%s' differs by %g", name, v->name, difference(&t, values[g->update[u].next.i]));
        }
    }
    arena_free(a);
}

static const NamedTensor *random_batch(Arena *a, const Graph *g, const BuildOptions *opt, uint64_t seed)
{
    const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value);
    NamedTensor *in = ARENA_NEW(a, NamedTensor, g->n_input);

    CHECK_OK(verify_batch(a, g, opt, seed, values));
    for (int i = 0; i < g->n_input; i++)
        in[i] = (NamedTensor){ arena_strdup(a, value(g, g->input[i])->name), *values[g->input[i].i] };
    return in;
}

static void check_model(const char *name, int batch, int replicas, int devices)
{
    BuildParts opt = options(batch, replicas, devices);
    Graph *g = model_import(name);
    Arena *a = arena_create();
    Session *s = NULL;
    DeviceList list;
    char text[16];

    snprintf(text, sizeof text, "cpu*%d", devices);
    CHECK_OK(device_list_parse(&list, text, 1));
    if (g && CHECK_OK(session_create(&s, g, build_parts(&opt), &list, NULL, NULL)) &&
        CHECK_OK(session_prepare(s, BUILD_TRAIN, NULL, 0)) && CHECK_OK(session_prepare(s, BUILD_EVAL, NULL, 0))) {
        const Graph *train = program_graph(session_program(s, BUILD_TRAIN));
        int n_in = train->n_input;

        for (uint64_t k = 0; k < 2; k++) {
            const NamedTensor *in = random_batch(a, train, build_parts(&opt), k);

            check_step(s, BUILD_TRAIN, in, n_in, name);
            check_step(s, BUILD_EVAL, in, n_in, name);
            CHECK_OK(states_check_mirrors(session_states(s)));
        }
    }
    session_free(s);
    arena_free(a);
    graph_free(g);
}

static void test_steps(void)
{
    check_model("mlp", 10, 1, 1);
    check_model("mlp", 10, 4, 2);
    check_model("fashion_cnn", 5, 3, 2);
}

DEFINE_SUITE(models, { "plans are tight", test_plans_are_tight }, { "steps agree with the interpreter", test_steps });
