/* Training in float32 on CUDA devices, simulated ones unless $DPX_TEST_CUDA names the plug-in (then on as many as there
 * are): the losses of the CPU, the same bits captured, uncaptured and without waiting, and on the host's side what has
 * no kernel. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/gpu/part.h"
#include "exec/run/program_internal.h"
#include "graph/ir/op.h"
#include "tests/exec/gpu_training.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/backend.h"
#include "passes/options/batch.h"
#include "passes/options/recipes.h"

static void compare_bits(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, const char *what)
{
    CU_ASSERT(found->bytes == expected->bytes && found->bytes > 1000);
    if (memcmp(found->state, expected->state, found->bytes) ||
        memcmp(found->loss, expected->loss, (size_t)r->steps * sizeof *found->loss))
        TEST_FAIL("%s, %d replicas on %d devices: other bits %s", r->model, r->replicas, r->devices, what);
}

/* A label that is no class is refused before the step, and the next step is none the worse for it. */
static void test_labels(void)
{
    Arena *a = arena_create();
    GpuRun r = { .model = "mlp", .batch = 8, .cuda = true };
    BuildOptions opt = { .mode = BUILD_TRAIN,
                         .batch = &(BatchOptions){ .batch = r.batch },
                         .recipes = &(RecipeOptions){ .loss = &loss_cross_entropy, .settings = "ignore-index=-100" },
                         .backend = &(BackendOptions){ .backend = cuda_target(DT_NONE, false) } };
    Graph *g = gpu_run_build(&r, &opt, 2, 1), *whole = gpu_run_build(&r, &opt, 1, 1);
    Rig rig;

    if (g && whole && CHECK_OK(rig_open_cuda(&rig, g, 1, false))) {
        NamedTensor *in = gpu_run_batch(a, &r, whole, &opt, 0);
        int t = 0;

        while (t < whole->n_input - 1 && strcmp(in[t].name, "target"))
            t++;
        tensor_set_int(&in[t].tensor, 5, 10);
        CHECK_FAILS(E_INVALID, "element 5 of input 'target' is 10, not one of 10 classes",
                    program_run(rig.program, in, whole->n_input));
        tensor_set_int(&in[t].tensor, 5, -1);
        CHECK_FAILS(E_INVALID, "element 5 of input 'target' is -1, not one of 10 classes",
                    program_run(rig.program, in, whole->n_input));
        tensor_set_int(&in[t].tensor, 5, -100);
        CHECK_OK(program_run(rig.program, in, whole->n_input));
    }
    if (g)
        rig_close(&rig);
    graph_free(whole);
    arena_free(a);
}

static void test_mlp(void) { gpu_check_model("mlp", 8, MAX_STEPS, 1); }
static void test_fashion_cnn(void) { gpu_check_model("fashion_cnn", 4, 5, 1); }

/* Relu, and the sum before it, in convolutions; as the library does it, and as the own kernel does. */
static void test_folded(void)
{
    gpu_check_model("exported_folded", 4, 6, 2);
    setenv("DPEXEC_SIM_REFUSE", "relu", 1);
    gpu_check_model("exported_folded", 4, 6, 2);
    gpu_check_run((GpuRun){ .model = "exported_folded",
                            .batch = 4,
                            .steps = 4,
                            .replicas = 1,
                            .devices = 1,
                            .precision = DT_BFLOAT16,
                            .rate = 0.002 });
    unsetenv("DPEXEC_SIM_REFUSE");
}

/* Fewer steps: simulated, one takes seconds. */
static void test_transformer(void) { gpu_check_model("transformer", 2, 3, 2); }

/* A fifth of the operators, by their names, has no kernel. */
static bool most_nodes(const Graph *g, const Node *n)
{
    unsigned h = 0;

    for (const char *c = n->op->name; *c; c++)
        h = h * 31 + (unsigned char)*c;
    return h % 5 != 0 && kernel_find(kernels_cuda, kernels_cuda_len, g, n);
}

static bool no_nodes(const Graph *g, const Node *n)
{
    (void)g, (void)n;
    return false;
}

static void test_on_host(void)
{
    bool (*const which[])(const Graph *, const Node *) = { most_nodes, no_nodes };

    for (size_t i = 0; i < 2; i++) {
        Arena *a = arena_create();
        GpuRun r = { .model = "mlp", .batch = 6, .steps = 6, .replicas = 3, .devices = gpu_devices() > 1 ? 2 : 1 };
        GpuOutcome expected = gpu_train(a, &r), found;

        r.cuda = true;
        r.computes = which[i];
        found = gpu_train(a, &r);
        gpu_compare_losses(&r, &found, &expected);
        arena_free(a);
    }
}

static void check_bits(const GpuRun *r)
{
    Arena *a = arena_create();
    GpuRun other = *r;
    GpuOutcome captured = gpu_train(a, r), found;

    other.uncaptured = true;
    found = gpu_train(a, &other);
    compare_bits(r, &found, &captured, "uncaptured");
    other = *r;
    other.begun = true;
    found = gpu_train(a, &other);
    compare_bits(r, &found, &captured, "without waiting");
    arena_free(a);
}

static void test_same_bits(void)
{
    int devices = gpu_devices() > 1 ? 2 : 1;

    check_bits(&(GpuRun){ .model = "mlp", .batch = 6, .steps = 8, .replicas = 3, .devices = devices, .cuda = true });
    check_bits(&(GpuRun){
        .model = "mlp", .batch = 6, .steps = 6, .replicas = 2, .devices = 1, .cuda = true, .computes = most_nodes });
    check_bits(
        &(GpuRun){ .model = "fashion_cnn", .batch = 3, .steps = 5, .replicas = 2, .devices = devices, .cuda = true });
}

/* The bytes of the host that the last of the step's work writes. */
static float loss_now(const Rig *rig, int slot)
{
    const GpuPart *part = &rig->program->gpu->part[0];

    return *(const float *)(part->slot[slot].output + part->output[0].at);
}

/* Simulated devices work only while the host waits for them: so what is not there when two steps have been begun was
 * not waited for.  Waiting for the first leaves the second to be waited for. */
static void test_not_waited_for(void)
{
    Arena *a = arena_create();
    float expected[2] = { 0 };
    Rig rig;

    if (CHECK_OK(rig_open_cuda(&rig, training_mlp(8, 1, 1), 1, false)))
        for (int k = 0; k < 2; k++)
            if (CHECK_OK(program_run(rig.program, training_batch(a, 8, k), N_BATCH)))
                expected[k] = *(float *)rig_output(&rig, OUT_LOSS)->data;
    rig_close(&rig);
    if (CHECK_OK(rig_open_cuda(&rig, training_mlp(8, 1, 1), 1, false)) &&
        CHECK_OK(rig_begin(&rig, training_batch(a, 8, 0), N_BATCH)) &&
        CHECK_OK(rig_begin(&rig, training_batch(a, 8, 1), N_BATCH))) {
        CU_ASSERT(!rig.group->member[0].runtime->simulated || (loss_now(&rig, 0) == 0 && loss_now(&rig, 1) == 0));
        CHECK_OK(program_wait(rig.program, 1));
        CU_ASSERT(expected[0] != 0 && *(float *)rig_output(&rig, OUT_LOSS)->data == expected[0]);
        CHECK_OK(program_wait(rig.program, 2));
        CU_ASSERT(expected[1] != 0 && *(float *)rig_output(&rig, OUT_LOSS)->data == expected[1]);
        CHECK_OK(program_run(rig.program, training_batch(a, 8, 2), N_BATCH));
        CHECK_FAILS(E_INTERNAL, "the outputs of step 1 are asked for after step 3", program_wait(rig.program, 1));
    }
    rig_close(&rig);
    arena_free(a);
}

static void nap(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
}

/* A single device waits for nobody: however long its work takes, whoever asks for state waits that long. */
static void test_alone(void)
{
    Rig rig;

    setenv("DPEXEC_GPU_TIMEOUT", "0.2", 1);
    if (CHECK_OK(rig_open_cuda(&rig, training_mlp(8, 1, 1), 1, false))) {
        const GpuMember *m = &rig.group->member[0];

        for (int i = 0; i < 12; i++)
            CU_ASSERT(!m->runtime->host_call(m->stream[STREAM_COMPUTE], nap, NULL));
        CHECK_OK(device_sync(rig.device[0]));
        CHECK_OK(gpu_group_check(rig.group));
    }
    rig_close(&rig);
    unsetenv("DPEXEC_GPU_TIMEOUT");
}

DEFINE_SUITE(gpu, { "mlp as on the CPU", test_mlp }, { "labels that are no classes", test_labels },
             { "what has no kernel runs on the host", test_on_host },
             { "captured, uncaptured, not waited for", test_same_bits },
             { "fashion_cnn as on the CPU", test_fashion_cnn }, { "convolutions with Relu as on the CPU", test_folded },
             { "a step begun is not waited for", test_not_waited_for },
             { "a single device is waited for", test_alone });

DEFINE_SUITE(gpu_transformer, { "losses of the CPU", test_transformer });
