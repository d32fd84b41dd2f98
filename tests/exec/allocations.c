/* After the first step a step allocates nothing: this program's malloc counts while it is told to.  What counts is
 * called from this program, which contains all of dpexec; oneDNN allocates a few bytes for each call of a primitive,
 * which no caller can prevent.
 *
 * It can fail too: the n-th allocation of a convolution, for every n, in oneDNN as elsewhere, and of an Update. */
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/train/session.h"
#include "graph/ops/update.gen.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"
#include "kernels/backend.h"
#include "kernels/cpu/onednn.h"
#include "tests/exec/training.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"

#if defined(__GLIBC__) && !defined(DPX_SANITIZED)

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static atomic_int counting, count, until_failure;

extern const char __executable_start[], etext[];

static void note(const void *caller)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed) && (const char *)caller >= __executable_start &&
        (const char *)caller < etext)
        atomic_fetch_add(&count, 1);
}

/* Is this the allocation that is to fail?  All count, whoever asks: C++'s operator new calls malloc too. */
static bool fails(void)
{
    return atomic_load_explicit(&until_failure, memory_order_relaxed) > 0 && atomic_fetch_sub(&until_failure, 1) == 1;
}

#define NOTE() note(__builtin_return_address(0))
#define EXPORTED __attribute__((visibility("default"), noinline)) /* inlined, the caller would be another */
EXPORTED void *malloc(size_t n)
{
    NOTE();
    return fails() ? NULL : __libc_malloc(n);
}
EXPORTED void *calloc(size_t n, size_t size)
{
    NOTE();
    return fails() ? NULL : __libc_calloc(n, size);
}
EXPORTED void *realloc(void *p, size_t n)
{
    NOTE();
    return fails() ? NULL : __libc_realloc(p, n);
}
EXPORTED void *aligned_alloc(size_t align, size_t n)
{
    NOTE();
    return fails() ? NULL : __libc_memalign(align, n);
}
EXPORTED void *memalign(size_t align, size_t n)
{
    NOTE();
    return fails() ? NULL : __libc_memalign(align, n);
}

EXPORTED int posix_memalign(void **p, size_t align, size_t n)
{
    NOTE();
    *p = fails() ? NULL : __libc_memalign(align, n);
    return *p ? 0 : 12;
}

static int allocations_of(int replicas, int devices)
{
    Arena *a = arena_create();
    NamedTensor *in = training_batch(a, 10, 0);
    Rig r;

    atomic_store(&count, 0);
    if (CHECK_OK(rig_open(&r, training_mlp(10, replicas, devices), devices, 1))) {
        CU_ASSERT_EQUAL(program_run(r.program, in, N_BATCH), ST_OK);
        atomic_store(&counting, 1);
        for (int i = 0; i < 5; i++)
            if (program_run(r.program, in, N_BATCH))
                atomic_fetch_add(&count, 1000);
        atomic_store(&counting, 0);
    }
    rig_close(&r);
    arena_free(a);
    return atomic_load(&count);
}

/* The same of a session's whole step on the CNN with synchronised batch-norm. */
static int allocations_of_session(void)
{
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_cross_entropy,
                                                            .metric = { { .def = &metric_accuracy } } },
                               .replicas = &(ReplicaOptions){ .replicas = 3 } };
    Arena *a = arena_create();
    Shape sx = SHAPE(4, 1, 28, 28), st = SHAPE(4), scalar = shape_scalar();
    NamedTensor in[3] = { { "image", *tensor_create(a, DT_FLOAT32, &sx) },
                          { "target", *tensor_create(a, DT_INT64, &st) },
                          { IN_LR, *tensor_create(a, DT_FLOAT32, &scalar) } };
    const NamedTensor *out;
    Session *s = NULL;
    DeviceList list;
    Graph *g = NULL;
    int n;

    atomic_store(&count, 0);
    CHECK_OK(onnx_import_file(&g, NULL, SOURCE_DIR "/models/fashion_cnn.onnx", NULL));
    CHECK_OK(device_list_parse(&list, "cpu*2", 1));
    if (g && CHECK_OK(session_create(&s, g, &opt, &list, NULL, NULL)) &&
        CHECK_OK(session_step(&out, &n, s, BUILD_TRAIN, in, 3))) {
        atomic_store(&counting, 1);
        for (int i = 0; i < 3; i++)
            if (session_step(&out, &n, s, BUILD_TRAIN, in, 3))
                atomic_fetch_add(&count, 1000);
        atomic_store(&counting, 0);
    }
    session_free(s);
    graph_free(g);
    arena_free(a);
    return atomic_load(&count);
}

static void test_steps_allocate_nothing(void)
{
    void *volatile p;

    CU_ASSERT_EQUAL(allocations_of_session(), 0);
    CU_ASSERT_EQUAL(allocations_of(1, 1), 0);
    CU_ASSERT_EQUAL(allocations_of(4, 2), 0);
    CU_ASSERT_EQUAL(allocations_of(3, 3), 0);
    atomic_store(&count, 0);
    atomic_store(&counting, 1);
    p = malloc(10);
    atomic_store(&counting, 0);
    free(p);
    CU_ASSERT_EQUAL(atomic_load(&count), 1); /* the counter counts */
}

/* ---- failures while an Update is prepared ---- */

/* The node on numbers of its own, with what was prepared; outputs are put one behind the other into `to`, which has
 * room. */
static size_t update_of(const Kernel *k, void *state, KernelCtx *ctx, const Graph *g, const Node *n, char *to)
{
    Arena *a = arena_create();
    Tensor *in = ARENA_NEW(a, Tensor, n->n_in), *out = ARENA_NEW(a, Tensor, n->n_out);
    size_t bytes = 0;

    for (int i = 0; i < n->n_in; i++) {
        in[i] = *tensor_create(a, in_value(g, n, i)->dtype, in_value(g, n, i)->shape);
        for (int64_t e = 0; e < tensor_numel(&in[i]) && in[i].dtype == DT_FLOAT32; e++)
            tensor_set_float(&in[i], e, (double)((e * 7 + i) % 13) - 5.5);
    }
    for (int i = 0; i < n->n_out; i++)
        out[i] = *tensor_create(a, value(g, n->out[i])->dtype, value(g, n->out[i])->shape);
    ctx->scratch = aligned_alloc(64, ctx->scratch_bytes + 64);
    CHECK_OK(k->run(ctx, state, in, out));
    free(ctx->scratch);
    for (int i = 0; i < n->n_out; i++) {
        memcpy(to + bytes, out[i].data, tensor_bytes(&out[i]));
        bytes += tensor_bytes(&out[i]);
    }
    arena_free(a);
    return bytes;
}

/* Chosen and prepared while the n-th allocation fails: the kernel is the one that it is with memory, and does all or
 * is not there.  Returns whether so many were made. */
static bool prepare_without(int n_th, const Graph *g, const Node *n, const char *expected, size_t bytes, char *found)
{
    const CpuKernels cpu = cpu_kernels(NULL);
    KernelCtx ctx = { .n_threads = 1 };
    void *state = NULL;
    const Kernel *k;
    bool reached;
    Status st;

    atomic_store(&until_failure, n_th);
    k = kernel_find(cpu.kernel, cpu.n, g, n);
    st = k ? k->prepare(&state, &ctx, g, n) : ST_OK;
    reached = atomic_exchange(&until_failure, 0) <= 0;
    if (!k)
        TEST_FAIL("allocation %d fails: there is no kernel", n_th);
    CU_ASSERT(!st || (st == E_NOMEM && !state));
    if (k && !st) {
        update_of(k, state, &ctx, g, n, found);
        if (memcmp(found, expected, bytes))
            TEST_FAIL("allocation %d fails: other numbers", n_th);
        k->release(state);
    }
    return reached;
}

static void test_update_out_of_memory(void)
{
    static char expected[1 << 16], found[1 << 16];
    Graph *g = training_mlp(10, 1, 1);
    const CpuKernels cpu = cpu_kernels(NULL);
    KernelCtx ctx = { .n_threads = 1 };
    void *state;
    int tried = 0, nodes = 0;

    FOR_NODES(g, n) {
        const Kernel *k = n->op == &op_Update ? kernel_find(cpu.kernel, cpu.n, g, n) : NULL;
        size_t bytes;

        if (!k || nodes++ || !CHECK_OK(k->prepare(&state, &ctx, g, n)))
            continue;
        bytes = update_of(k, state, &ctx, g, n, expected);
        k->release(state);
        while (prepare_without(tried + 1, g, n, expected, bytes, found))
            tried++;
    }
    CU_ASSERT(nodes > 0 && tried > 5);
    graph_free(g);
}

/* ---- failures in oneDNN ---- */

enum { PATIENCE = 30 };                                                            /* seconds of one trial */
enum { DONE = 40, OUT_OF_MEMORY, OTHER, NOT_REACHED, MOST_ALLOCATIONS = 1 << 20 }; /* unlike what others exit with */

/* A convolution with a layout of oneDNN's own and a matrix product, planned and run, and the n-th allocation failing.
 * The status of the process that tries it. */
static int convolve(int n)
{
    static float x[2 * 16 * 16 * 16], w[32 * 16 * 9], b[32], y[2 * 32 * 16 * 16], c[64 * 64];
    OnednnConvShape s = { .batch = 2, .group = 1, .in_channels = 16, .out_channels = 32, .bias = true };
    KernelCtx ctx = { .n_threads = 1 };
    Onednn *d = NULL;
    Status st;

    s.win = (Window){ .rank = 2 };
    for (int i = 0; i < WINDOW_AXES; i++) {
        bool used = i >= WINDOW_AXES - 2;

        s.win.in[i] = s.win.out[i] = used ? 16 : 1;
        s.win.kernel[i] = used ? 3 : 1;
        s.win.stride[i] = s.win.dilation[i] = 1;
        s.win.pad[i] = used;
    }
    omp_set_num_threads(1); /* and begins OpenMP, which waits for ever or exits where its own allocations fail */
    atomic_store(&until_failure, n);
    st = onednn_conv(&d, &ctx, ONEDNN_CONV_FORWARD, &s);
    if (!st)
        st = (ctx.scratch = aligned_alloc(64, ctx.scratch_bytes + 64)) ? ST_OK : FAIL_NOMEM();
    if (!st)
        st = onednn_conv_run(d, &ctx, x, w, b, y);
    if (!st)
        st = onednn_sgemm(&ctx, false, false, 64, 64, 64, 1, x, 64, w, 64, 0, c, 64);
    onednn_free(d);
    free(ctx.scratch);
    if (st)
        return st == E_NOMEM && strstr(status_message(), "out of memory") ? OUT_OF_MEMORY : OTHER;
    return atomic_exchange(&until_failure, 0) > 0 ? NOT_REACHED : DONE;
}

/* In a process of its own, which may not survive it: minus the signal. */
static int convolve_apart(int n)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* for what std::terminate says */
        alarm(PATIENCE);
        _exit(convolve(n));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return OTHER;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* What oneDNN throws is caught, unless it throws in a parallel region of several threads (it calls terminate then).
 * That it does not look at some of its own allocations (memory of primitives and descriptions, before their
 * constructors run) no caller can mend: a fault inside of it. */
static void test_onednn_out_of_memory(void)
{
    int tried = 0, survived = 0, aborted = 0, faults = 0, code = DONE;

    for (int n = 1; n < MOST_ALLOCATIONS && code != NOT_REACHED; n += 1 + n / 64, tried++) {
        code = convolve_apart(n);
        survived += code == DONE || code == OUT_OF_MEMORY || code == NOT_REACHED;
        aborted += code == -SIGABRT;
        faults += code == -SIGSEGV;
        if (code != DONE && code != OUT_OF_MEMORY && code != NOT_REACHED && code != -SIGABRT && code != -SIGSEGV)
            TEST_FAIL("allocation %d fails: %s %d", n, code < 0 ? "signal" : "status", code < 0 ? -code : code);
    }
    printf("[%d failures: %d survived, %d aborted, %d faults inside oneDNN] ", tried, survived, aborted, faults);
    CU_ASSERT_EQUAL(tried, survived + aborted + faults);
    CU_ASSERT(tried > 100 && code == NOT_REACHED);
#ifdef __clang__ /* LLVM's OpenMP calls a region's body from a frame that nothing passes, with one thread, too */
    CU_ASSERT(aborted * 20 <= tried && faults * 4 <= tried);
#else
    CU_ASSERT(!aborted && faults * 4 <= tried); /* one thread: it has no parallel region to throw in */
#endif
}

#define CASES                                                                                                        \
    { "an Update out of memory", test_update_out_of_memory }, { "oneDNN out of memory", test_onednn_out_of_memory }, \
    {                                                                                                                \
        "steps allocate nothing", test_steps_allocate_nothing                                                        \
    }

#else /* sanitizers bring their own malloc */

#define CASES      \
    {              \
        NULL, NULL \
    }

#endif

/* Among the first to run: what oneDNN keeps of others' convolutions would leave few allocations to fail. */
DEFINE_SUITE(allocations, CASES);
