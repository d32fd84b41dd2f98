/* Collectives of every kind on one to four GPUs, simulated ones unless $DPX_TEST_CUDA names the plug-in (then on as
 * many of these as there are): training that needs them gives the CPU's numbers, and each operation of the runtime the
 * result of its definition. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "exec/gpu/part.h"
#include "graph/ops/collective.gen.h"
#include "exec/run/program_internal.h"
#include "exec/train/session.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "tests/exec/training.h"
#include "tests/harness/gpu.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/collectives.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"

enum { BATCH = 11, FEATURES = 4, STEPS = 4, N = 24, MOST = 4 };

/* Each sample is compared with all: what was split is gathered, and its gradient is summed and split again. */
static const char mixing[] =
    "graph \"mixing\" {\n"
    "  input %x : float32[11,4]\n"
    "  state %w trainable : float32[4,3] = {0.1, -0.2, 0.3, 0.4, 0.15, -0.6, 0.7, 0.8, -0.9, 1, 0.11, 0.12}\n"
    "  %h = MatMul(%x, %w)\n"
    "  %over = Softmax(%h) {axis=0}\n"
    "  %turned = Transpose(%h) {perm=[1,0]}\n"
    "  %pairs = MatMul(%h, %turned)\n"
    "  %alike = Tanh(%pairs)\n"
    "  %a = ReduceSum(%alike) {keepdims=0}\n"
    "  %sq = Mul(%over, %over)\n"
    "  %b = ReduceSum(%sq) {keepdims=0}\n"
    "  %loss = Add(%a, %b)\n"
    "  output \"loss\" = %loss\n"
    "}\n";

typedef struct {
    float loss[STEPS], w[12];
    int reduced, gathered, scattered, exchanged;
} Outcome;

static void fill(Arena *a, NamedTensor in[2], int k)
{
    Shape x = SHAPE(BATCH, FEATURES), scalar = shape_scalar();

    in[0] = (NamedTensor){ "x", *tensor_create(a, DT_FLOAT32, &x) };
    in[1] = (NamedTensor){ IN_LR, *tensor_create(a, DT_FLOAT32, &scalar) };
    for (int i = 0; i < BATCH * FEATURES; i++)
        ((float *)in[0].tensor.data)[i] = (float)((i * 37 + k * 11) % 23) / 23 - 0.5f;
    *(float *)in[1].tensor.data = 0.05f;
}

static Status step(Outcome *o, Session *s, int k)
{
    Arena *a = arena_create();
    NamedTensor in[2];
    const NamedTensor *out;
    int n;
    Status st;

    fill(a, in, k);
    if (!(st = session_step(&out, &n, s, BUILD_TRAIN, in, 2)))
        o->loss[k] = *(float *)named_find(out, n, OUT_LOSS)->data;
    arena_free(a);
    return st;
}

static void count(Outcome *o, const Graph *g)
{
    FOR_NODES(g, n) {
        o->reduced += n->op == &op_AllReduce;
        o->gathered += n->op == &op_AllGather;
        o->scattered += n->op == &op_ReduceScatter;
        o->exchanged += n->op == &op_AllToAll;
    }
}

static Status train_by(Outcome *o, const char *devices, int replicas, bool reproducible, DType reduce, MixMode mix)
{
    const BuildOptions opt = { .batch = &(BatchOptions){ .batch = BATCH },
                               .recipes = &(RecipeOptions){ .loss = &loss_output, .loss_args = "loss" },
                               .replicas = &(ReplicaOptions){ .replicas = replicas },
                               .collectives = &(CollectiveOptions){ .reduce = reduce, .mix = mix } };
    Shape shape = SHAPE(4, 3);
    Tensor w = { DT_FLOAT32, shape, o->w };
    Session *s = NULL;
    DeviceList list;
    Graph *g;
    Status st;

    TRY(graph_parse(&g, mixing, strlen(mixing)));
    st = device_list_parse(&list, devices, 1);
    if (!st)
        st = session_create(&s, g, &opt, &list, NULL, NULL);
    if (!st)
        session_set_ways(s, &(Ways){ .reproducible = reproducible });
    for (int k = 0; k < STEPS && !st; k++)
        st = step(o, s, k);
    if (!st)
        count(o, program_graph(session_program(s, BUILD_TRAIN)));
    if (!st && !(st = states_check_mirrors(session_states(s))))
        st = states_get(session_states(s), "w", &w);
    session_free(s);
    graph_free(g);
    return st;
}

static Status train(Outcome *o, const char *devices, int replicas, bool reproducible)
{
    return train_by(o, devices, replicas, reproducible, DT_NONE, MIX_GATHER);
}

/* ||a - b|| / ||b|| */
static double apart(const float *a, const float *b, int n)
{
    double far = 0, size = 0;

    for (int i = 0; i < n; i++) {
        far += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(far / size);
}

static bool close_to(const float *a, const float *b, int n) { return apart(a, b, n) <= 1e-5; }

/* How many GPUs there are; 0 when that fails, which the test then does. */
static int gpus(const CudaDriver **cuda)
{
    int n = 0;

    return CHECK_OK(gpu_driver(cuda)) && CHECK_OK(gpu_check(*cuda, (*cuda)->runtime.count(&n))) ? n : 0;
}

static void test_training(void)
{
    static const char *const devices[] = { "cuda", "cuda*2", "cuda*3", "cuda*4" };
    static const int replicas[] = { 5, 5, 8, 5 };
    const CudaDriver *cuda;
    int there = gpus(&cuda);

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    for (int i = 0; i < 4 && i < there; i++) {
        Outcome cpu = { .reduced = 0 }, gpu = { .reduced = 0 };

        if (!CHECK_OK(train(&cpu, "cpu", replicas[i], false)) || !CHECK_OK(train(&gpu, devices[i], replicas[i], false)))
            continue;
        CU_ASSERT(!i || (gpu.reduced > 0 && gpu.gathered > 0 && gpu.scattered > 0));
        if (!close_to(gpu.loss, cpu.loss, STEPS) || !close_to(gpu.w, cpu.w, 12))
            TEST_FAIL("%s: the last loss is %.7g, on the CPU %.7g", devices[i], (double)gpu.loss[STEPS - 1],
                      (double)cpu.loss[STEPS - 1]);
    }
}

/* Slices of all samples instead of all of them: of 11 samples and 3 columns, so that parts and slices are uneven or
 * empty. */
static void test_exchanged(void)
{
    static const char *const devices[] = { "cuda", "cuda*2", "cuda*3", "cuda*4" };
    static const int replicas[] = { 5, 3, 8, 5 };
    const CudaDriver *cuda;
    int there = gpus(&cuda);
    Outcome cpu = { .reduced = 0 };

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    if (!CHECK_OK(train(&cpu, "cpu", 1, false)))
        return;
    for (int i = 0; i < 4 && i < there; i++) {
        Outcome gpu = { .reduced = 0 };

        if (!CHECK_OK(train_by(&gpu, devices[i], replicas[i], false, DT_NONE, MIX_EXCHANGE)))
            continue;
        CU_ASSERT(gpu.exchanged > 1);
        if (!close_to(gpu.loss, cpu.loss, STEPS) || !close_to(gpu.w, cpu.w, 12))
            TEST_FAIL("%s: the last loss is %.7g, on the CPU %.7g", devices[i], (double)gpu.loss[STEPS - 1],
                      (double)cpu.loss[STEPS - 1]);
    }
}

/* Reproducible: the same replicas on any number of devices give the same bits; else they do not, or this test shows
 * nothing. */
static void test_reproducible(void)
{
    static const char *const devices[] = { "cuda", "cuda*2", "cuda*3", "cuda*4" };
    const CudaDriver *cuda;
    int there = gpus(&cuda), other = 0;

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    for (int replicas = 7; replicas < 9; replicas++) {
        Outcome first = { .reduced = 0 };

        for (int i = 0; i < 4 && i < there; i++) {
            Outcome now = { .reduced = 0 }, quick = { .reduced = 0 };

            if (!CHECK_OK(train(i ? &now : &first, devices[i], replicas, true)) || !i ||
                !CHECK_OK(train(&quick, devices[i], replicas, false)))
                continue;
            CU_ASSERT(now.reduced > 0 && now.scattered > 0);
            if (memcmp(now.loss, first.loss, sizeof now.loss) || memcmp(now.w, first.w, sizeof now.w))
                TEST_FAIL("%d replicas on %s: the last loss is %.9g, on one device %.9g", replicas, devices[i],
                          (double)now.loss[STEPS - 1], (double)first.loss[STEPS - 1]);
            other += memcmp(quick.loss, first.loss, sizeof quick.loss) || memcmp(quick.w, first.w, sizeof quick.w);
        }
    }
    CU_ASSERT(there < 4 || !cuda->runtime.simulated || other > 0);
}

/* Gradients that cross devices in 16 bits are those of 32 within the rounding of a part and of a sum, and not the same;
 * by the tree as by the library. */
static void test_narrow(void)
{
    static const DType type[] = { DT_BFLOAT16, DT_FLOAT16 };
    static const double unit[] = { 0x1p-8, 0x1p-11 };
    Outcome wide = { .reduced = 0 };
    const CudaDriver *cuda;

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    if (gpus(&cuda) < 2 || !CHECK_OK(train(&wide, "cpu", 4, false)))
        return;
    for (int i = 0; i < 2; i++)
        for (int reproducible = 0; reproducible < 2; reproducible++) {
            Outcome narrow = { .reduced = 0 };
            double far;

            if (!CHECK_OK(train_by(&narrow, "cuda*2", 4, reproducible, type[i], MIX_GATHER)))
                continue;
            far = apart(narrow.w, wide.w, 12);
            if (!(far > 1e-5 && far <= 2 * unit[i]))
                TEST_FAIL("%s: the weights are %.3g apart", dtype_name(type[i]), far);
        }
}

static void losses_of(float loss[STEPS], bool cuda)
{
    Arena *a = arena_create();
    Rig rig;

    if (CHECK_OK(cuda ? rig_open_cuda(&rig, training_mlp(16, 8, 3), 3, false)
                      : rig_open(&rig, training_mlp(16, 8, 3), 3, 1)))
        for (int k = 0; k < STEPS; k++)
            if (CHECK_OK(program_run(rig.program, training_batch(a, 16, k), N_BATCH)))
                loss[k] = *(float *)rig_output(&rig, OUT_LOSS)->data;
    rig_close(&rig);
    arena_free(a);
}

/* Sums of one tensor each, of which two devices hold two parts, the third one. */
static void test_uneven(void)
{
    float expected[STEPS] = { 0 }, found[STEPS] = { 0 };
    const CudaDriver *cuda;

    if (gpus(&cuda) < 3)
        return;
    losses_of(expected, false);
    losses_of(found, true);
    CU_ASSERT(expected[0] != 0 && expected[0] != expected[STEPS - 1]);
    if (!close_to(found, expected, STEPS))
        TEST_FAIL("the last loss is %.7g, on the CPU %.7g", (double)found[STEPS - 1], (double)expected[STEPS - 1]);
}

/* A bucket that grows is registered no longer when its memory is freed, which the simulation checks, and the steps
 * captured with it are captured anew. */
static void test_grown(void)
{
    Arena *a = arena_create();
    float expected[STEPS] = { 0 };
    const CudaDriver *cuda;
    Rig rig;

    if (gpus(&cuda) < 3) {
        arena_free(a);
        return;
    }
    losses_of(expected, true);
    if (CHECK_OK(rig_open_cuda(&rig, training_mlp(16, 8, 3), 3, false)))
        for (int k = 0; k < STEPS; k++) {
            for (int d = 0; d < 3 && k; d++)
                CHECK_OK(gpu_group_bucket(rig.group, d, (size_t)k << 20));
            if (CHECK_OK(program_run(rig.program, training_batch(a, 16, k), N_BATCH)))
                CU_ASSERT(*(float *)rig_output(&rig, OUT_LOSS)->data == expected[k] && expected[k] != 0);
        }
    rig_close(&rig);
    arena_free(a);
}

/* Real devices cannot be made to hang. */
static bool can_hang(void)
{
    const CudaDriver *cuda;

    return CHECK_OK(gpu_driver(&cuda)) && cuda->runtime.simulated;
}

/* Two devices, and one step that has ended well. */
static bool two_at_work(Rig *rig, Arena *a)
{
    return CHECK_OK(rig_open_cuda(rig, training_mlp(8, 2, 2), 2, false)) &&
           CHECK_OK(program_run(rig->program, training_batch(a, 8, 0), N_BATCH));
}

/* A program compiled while a step cannot end: that step's failure, and not the simulation's word about work that never
 * ends, which comes later. */
static void test_compiled_beside(void)
{
    Arena *a = arena_create();
    Program *other = NULL;
    Rig rig;

    if (!can_hang()) {
        arena_free(a);
        return;
    }
    setenv("DPEXEC_GPU_TIMEOUT", "3", 1);
    if (two_at_work(&rig, a)) {
        setenv("DPEXEC_SIM_FAIL", "all_reduce_sum@1:1:hang", 1);
        CHECK_OK(rig_begin(&rig, training_batch(a, 8, 1), N_BATCH));
        unsetenv("DPEXEC_SIM_FAIL");
        CHECK_FAILS(E_DEVICE, "the step has not ended within 3 seconds",
                    program_compile(&other, training_mlp(4, 2, 2), &rig.program->ready.opt));
        CHECK_FAILS(E_DEVICE, "an earlier step failed", program_run(rig.program, training_batch(a, 8, 2), N_BATCH));
    }
    rig_close(&rig);
    unsetenv("DPEXEC_GPU_TIMEOUT");
    arena_free(a);
}

/* State asked for while a step cannot end: no blind wait either. */
static void test_read_beside(void)
{
    Arena *a = arena_create();
    const State *s;
    Tensor *t;
    Rig rig;

    if (!can_hang()) {
        arena_free(a);
        return;
    }
    setenv("DPEXEC_GPU_TIMEOUT", "3", 1);
    for (int write = 0; write < 2; write++) {
        if (two_at_work(&rig, a)) {
            s = states_at(rig.states, 0);
            t = tensor_create(a, s->dtype, &s->shape);
            setenv("DPEXEC_SIM_FAIL", "all_reduce_sum@1:1:hang", 1);
            CHECK_OK(rig_begin(&rig, training_batch(a, 8, 1), N_BATCH));
            unsetenv("DPEXEC_SIM_FAIL");
            CHECK_FAILS(E_DEVICE, "the step has not ended within 3 seconds: all devices have come to AllReduce",
                        write ? states_set(rig.states, s->name, t) : states_get(rig.states, s->name, t));
            CHECK_FAILS(E_DEVICE, "an earlier step failed", program_run(rig.program, training_batch(a, 8, 2), N_BATCH));
        }
        rig_close(&rig);
    }
    unsetenv("DPEXEC_GPU_TIMEOUT");
    arena_free(a);
}

/* An abort that does not end: the device is left to it, and nobody waits. */
static void test_abort_hangs(void)
{
    Arena *a = arena_create();
    Rig rig;

    if (!can_hang()) {
        arena_free(a);
        return;
    }
    setenv("DPEXEC_GPU_TIMEOUT", "3", 1);
    if (two_at_work(&rig, a)) {
        setenv("DPEXEC_SIM_FAIL", "all_reduce_sum@1:1:hang,comm_abort@0:1:hang", 1);
        CHECK_FAILS(E_DEVICE, "the step has not ended within 3 seconds",
                    program_run(rig.program, training_batch(a, 8, 1), N_BATCH));
        unsetenv("DPEXEC_SIM_FAIL");
        CU_ASSERT(rig.group->member[0].left && !rig.group->member[1].left);
        CHECK_FAILS(E_DEVICE, "an earlier step failed", program_run(rig.program, training_batch(a, 8, 2), N_BATCH));
    }
    rig_close(&rig);
    unsetenv("DPEXEC_GPU_TIMEOUT");
    arena_free(a);
}

/* ---- the runtime's operations ---- */

typedef struct {
    const CudaDriver *cuda;
    GpuCommId id;
    int rank, size;
    Status status;
    float out[5][N * MOST]; /* all_reduce_sum, reduce_scatter_sum, all_gather, broadcast, all_to_all */
} Member;

/* Rank r gives 100 r + i at place i. */
static Status operate(Member *m, GpuDevice *d, GpuStream *s, GpuComm *c, float *send, float *recv)
{
    const Runtime *r = &m->cuda->runtime;
    float given[N * MOST];
    size_t part = (size_t)N * sizeof(float), all = part * (size_t)m->size;

    (void)d;
    for (int i = 0; i < N * MOST; i++)
        given[i] = (float)(100 * m->rank + i);
    TRY(r->copy(s, send, given, sizeof given));
    TRY(r->all_reduce_sum(c, s, send, recv, N, DT_FLOAT32));
    TRY(r->copy(s, m->out[0], recv, part));
    TRY(r->reduce_scatter_sum(c, s, send, recv, N, DT_FLOAT32));
    TRY(r->copy(s, m->out[1], recv, part));
    TRY(r->all_gather(c, s, send, recv, part));
    TRY(r->copy(s, m->out[2], recv, all));
    TRY(r->broadcast(c, s, send, recv, part, m->size - 1));
    TRY(r->copy(s, m->out[3], recv, part));
    TRY(r->all_to_all(c, s, send, recv, part));
    TRY(r->copy(s, m->out[4], recv, all));
    TRY(r->all_reduce_sum(c, s, send, send, N, DT_FLOAT32)); /* in place */
    TRY(r->copy(s, m->out[0] + N, send, part));
    return r->stream_wait(s);
}

static Status take_part(Member *m)
{
    const Runtime *r = &m->cuda->runtime;
    const GpuOptions options = { .tf32 = false };
    const GpuCommWait wait = { .timeout = 10 };
    GpuDevice *d;
    GpuStream *s;
    GpuComm *c;
    void *send, *recv;
    Status st;

    TRY(r->open(&d, m->rank, &options));
    TRY(r->stream_create(d, &s, false));
    TRY(r->comm_create(&c, d, &m->id, m->rank, m->size, &wait));
    TRY(r->comm_alloc(d, &send, sizeof m->out[0]));
    TRY(r->comm_alloc(d, &recv, sizeof m->out[0]));
    TRY(r->comm_register(c, send, sizeof m->out[0]));
    TRY(r->comm_register(c, recv, sizeof m->out[0]));
    st = operate(m, d, s, c, send, recv);
    r->comm_release(d, c, send);
    r->comm_release(d, c, recv);
    r->comm_free(c, &wait);
    r->stream_free(s);
    r->close(d);
    return st;
}

static void *run(void *arg)
{
    Member *m = arg;

    m->status = take_part(m);
    return NULL;
}

static void check_member(const Member *m)
{
    int n = m->size, ranks = 100 * n * (n - 1) / 2; /* the sum of what ranks add */
    bool good = true;

    for (int i = 0; i < N; i++) {
        good = good && m->out[0][i] == (float)(ranks + n * i) && m->out[0][N + i] == (float)(ranks + n * i);
        good = good && m->out[1][i] == (float)(ranks + n * (m->rank * N + i));
        good = good && m->out[3][i] == (float)(100 * (n - 1) + i);
        for (int r = 0; r < n; r++)
            good = good && m->out[2][r * N + i] == (float)(100 * r + i) &&
                   m->out[4][r * N + i] == (float)(100 * r + m->rank * N + i);
    }
    if (m->status || !good)
        TEST_FAIL("rank %d of %d: %s", m->rank, n, m->status ? "failed" : "another result");
}

static void test_runtime(void)
{
    const CudaDriver *cuda;
    int there = gpus(&cuda);

    for (int n = 1; n <= MOST && n <= there; n *= 2) {
        Member *m = calloc((size_t)n, sizeof *m);
        pthread_t thread[MOST];
        GpuCommId id;

        CU_ASSERT_FATAL(m && !cuda->runtime.comm_id(&id));
        for (int r = 0; r < n; r++) {
            m[r] = (Member){ .cuda = cuda, .id = id, .rank = r, .size = n };
            CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &m[r]));
        }
        for (int r = 0; r < n; r++)
            pthread_join(thread[r], NULL);
        for (int r = 0; r < n; r++)
            check_member(&m[r]);
        free(m);
    }
}

DEFINE_SUITE(gpu_collective, { "training on one to four GPUs", test_training },
             { "slices of all samples", test_exchanged }, { "sums of 16 bits", test_narrow },
             { "parts that differ between devices", test_uneven },
             { "reproducible on any number of devices", test_reproducible }, { "a bucket that grows", test_grown },
             { "the runtime's operations", test_runtime }, { "an abort that does not end", test_abort_hangs },
             { "a program compiled beside a step that cannot end", test_compiled_beside },
             { "state read and written beside one", test_read_beside });
