#include "tests/exec/training.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/loss.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/softmax.gen.h"

#include <stdlib.h>
#include <string.h>

#include "graph/recipes/optimizer.h"
#include "graph/ir/autodiff.h"
#include "passes/plan/schedule.h"
#include "passes/build_options.h"
#include "passes/options/replicas.h"
#include "tests/harness/gpu.h"
#include "tests/harness/test.h"

extern const Pass pass_partition;

/* Numbers in [-1, 1) that repeat from run to run. */
static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1;
}

static ValueId parameter(Graph *g, const char *name, Shape shape, uint32_t seed, bool trainable)
{
    Tensor *t = tensor_create(g->arena, DT_FLOAT32, &shape);

    for (int64_t i = 0; i < tensor_numel(t) && trainable; i++)
        ((float *)t->data)[i] = 0.5f * noise(&seed);
    return graph_add_state(g, name, t, trainable);
}

static void add_updates(Graph *g, int n, const ValueId *w, const ValueId *dw, ValueId lr)
{
    const OptimizerStep step = { .g = g, .type = DT_FLOAT32, .lr = lr };
    RecipeSettings settings;
    UpdateRule rule;

    CHECK_OK(recipe_take(&settings, &optimizer_sgd.recipe, "optimizer", NULL, "momentum=0.9", g->arena));
    if (!CHECK_OK(optimizer_formula(&rule, &step, &optimizer_sgd, &settings, false)))
        return;
    for (int i = 0; i < n; i++)
        optimizer_emit(&rule, w[i], dw[i]);
    graph_free(rule.g);
}

void training_partition(Graph *g, int replicas, int devices)
{
    const BuildOptions opt = { .mode = BUILD_TRAIN,
                               .replicas = &(ReplicaOptions){ .replicas = replicas, .devices = devices } };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };

    CHECK_OK(g->status);
    CHECK_OK(graph_sort(g));
    CHECK_OK(pass_partition.run(g, &ctx));
    CHECK_OK(schedule_graph(g, ctx.scratch));
    arena_free(ctx.scratch);
}

Graph *training_mlp(int batch, int replicas, int devices)
{
    Graph *g = graph_create("mlp");
    Shape sx = SHAPE(batch, IN_FEATURES), st = SHAPE(batch), scalar = shape_scalar();
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &sx), t = graph_add_input(g, "target", DT_INT64, &st);
    ValueId lr = graph_add_input(g, IN_LR, DT_FLOAT32, &scalar), w[4], dw[4], h, sums[2], loss;
    Arena *scratch = arena_create();

    w[0] = parameter(g, "w1", SHAPE(IN_FEATURES, HIDDEN), 1, true);
    w[1] = parameter(g, "b1", SHAPE(HIDDEN), 2, true);
    w[2] = parameter(g, "w2", SHAPE(HIDDEN, CLASSES), 3, true);
    w[3] = parameter(g, "b2", SHAPE(CLASSES), 4, true);
    h = EMIT(g, Relu, NULL, EMIT(g, Add, NULL, EMIT(g, MatMul, NULL, x, w[0]), w[1]));
    h = EMIT(g, LogSoftmax, NULL, EMIT(g, Add, NULL, EMIT(g, MatMul, NULL, h, w[2]), w[3]));
    EMIT_MULTI(g, NllSum, NULL, 2, sums, h, t);
    loss = EMIT(g, Div, NULL, sums[0], sums[1]);
    graph_add_output(g, OUT_LOSS, loss);
    CHECK_OK(g->status);
    CHECK_OK(autodiff(g, scratch, loss, 4, w, dw));
    arena_free(scratch);
    add_updates(g, 4, w, dw, lr);
    training_partition(g, replicas, devices);
    return g;
}

NamedTensor *training_batch(Arena *a, int batch, int k)
{
    NamedTensor *in = ARENA_NEW(a, NamedTensor, N_BATCH);
    Shape sx = SHAPE(batch, IN_FEATURES), st = SHAPE(batch), scalar = shape_scalar();
    uint32_t seed = 100 + (uint32_t)k;

    in[0] = (NamedTensor){ "x", *tensor_create(a, DT_FLOAT32, &sx) };
    in[1] = (NamedTensor){ "target", *tensor_create(a, DT_INT64, &st) };
    in[2] = (NamedTensor){ IN_LR, *tensor_create(a, DT_FLOAT32, &scalar) };
    for (int i = 0; i < batch * IN_FEATURES; i++)
        ((float *)in[0].tensor.data)[i] = 2 * noise(&seed);
    for (int i = 0; i < batch; i++)
        ((int64_t *)in[1].tensor.data)[i] = i % CLASSES;
    *(float *)in[2].tensor.data = 0.25f;
    return in;
}

static Status storage(void **data, void *user, const Value *v) { return states_storage(data, user, v); }

static Status open_rig(Rig *r, Graph *g, int n_device, const DeviceSpec *spec, bool uncaptured)
{
    ProgramOptions opt = {
        .device = r->device, .n_device = n_device, .arenas = &r->arenas, .state = storage, .ways.uncaptured = uncaptured
    };
    DeviceSpec own = *spec;

    memset(r, 0, sizeof *r);
    r->arenas.n_device = n_device;
    r->arenas.device = r->device;
    for (; r->n_device < n_device; r->n_device++) {
        own.index = r->n_device;
        TRY(device_open(&r->device[r->n_device], &own, false));
    }
    TRY(states_create(&r->states, r->device, n_device));
    if (spec->cuda)
        TRY(gpu_group_create(&r->group, r->device, n_device, NULL));
    opt.user = r->states;
    opt.group = r->group;
    return program_compile(&r->program, g, &opt);
}

Status rig_open(Rig *r, Graph *g, int n_device, int threads)
{
    return open_rig(r, g, n_device, &(DeviceSpec){ .threads = threads }, false);
}

Status rig_open_cuda(Rig *r, Graph *g, int n_device, bool uncaptured)
{
    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    return open_rig(r, g, n_device, &(DeviceSpec){ .cuda = true, .threads = 1 }, uncaptured);
}

Status rig_begin(Rig *r, const NamedTensor *in, int n)
{
    const Graph *g = program_graph(r->program);
    int *place = calloc((size_t)g->n_input + 1, sizeof *place);
    Status st = place ? program_find_inputs(place, g, in, n) : FAIL_NOMEM();

    st = st ? st : program_begin(r->program, in, place, NULL);
    free(place);
    return st;
}

void rig_close(Rig *r)
{
    program_free(r->program);
    states_free(r->states);
    arenas_close(&r->arenas);
    gpu_group_free(r->group);
    for (int i = 0; i < r->n_device; i++)
        device_close(r->device[i]);
}

const Tensor *rig_output(const Rig *r, const char *name)
{
    int n;
    const NamedTensor *out = program_outputs(r->program, &n);

    for (int i = 0; i < n; i++)
        if (!strcmp(out[i].name, name))
            return &out[i].tensor;
    TEST_FAIL("there is no output '%s'", name);
    return NULL;
}
