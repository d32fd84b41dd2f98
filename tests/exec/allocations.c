/* After the first step a step allocates nothing: this program's malloc counts while it is told to.  What counts is called
 * from this program, which contains all of dpexec; oneDNN allocates a few bytes for each call of a primitive, which no
 * caller can prevent. */
#include <stdatomic.h>
#include <stdlib.h>

#include "exec/session.h"
#include "graph/onnx/onnx.h"
#include "tests/exec/training.h"
#include "tests/harness/test.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static atomic_int counting, count;

extern const char __executable_start[], etext[];

static void note(const void *caller)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed) && (const char *)caller >= __executable_start && (const char *)caller < etext)
        atomic_fetch_add(&count, 1);
}

#define NOTE() note(__builtin_return_address(0))
#define EXPORTED __attribute__((visibility("default"), noinline))     /* inlined, the caller would be another */
EXPORTED void *malloc(size_t n) { NOTE(); return __libc_malloc(n); }
EXPORTED void *calloc(size_t n, size_t size) { NOTE(); return __libc_calloc(n, size); }
EXPORTED void *realloc(void *p, size_t n) { NOTE(); return __libc_realloc(p, n); }
EXPORTED void *aligned_alloc(size_t align, size_t n) { NOTE(); return __libc_memalign(align, n); }
EXPORTED void *memalign(size_t align, size_t n) { NOTE(); return __libc_memalign(align, n); }

EXPORTED int posix_memalign(void **p, size_t align, size_t n)
{
    NOTE();
    *p = __libc_memalign(align, n);
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
    static const BuildOptions opt = { .loss = LOSS_CROSS_ENTROPY, .replicas = 3, .metric_accuracy = true };
    Arena *a = arena_create();
    Shape sx = SHAPE(4, 1, 28, 28), st = SHAPE(4), scalar = shape_scalar();
    NamedTensor in[3] = { { "image", *tensor_create(a, DT_FLOAT32, &sx) }, { "target", *tensor_create(a, DT_INT64, &st) },
                          { IN_LR, *tensor_create(a, DT_FLOAT32, &scalar) } };
    const NamedTensor *out;
    Session *s = NULL;
    DeviceList list;
    Graph *g = NULL;
    int n;

    atomic_store(&count, 0);
    CHECK_OK(onnx_import_file(&g, NULL, SOURCE_DIR "/models/fashion_cnn.onnx"));
    CHECK_OK(device_list_parse(&list, "cpu*2", 1));
    if (g && CHECK_OK(session_create(&s, g, &opt, &list, NULL, NULL)) && CHECK_OK(session_step(&out, &n, s, BUILD_TRAIN, in, 3))) {
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
    CU_ASSERT_EQUAL(atomic_load(&count), 1);        /* the counter counts */
}

#else

static void test_steps_allocate_nothing(void)
{
    CU_PASS("sanitizers bring their own malloc");
}

#endif

DEFINE_SUITE(allocations, { "steps allocate nothing", test_steps_allocate_nothing });
