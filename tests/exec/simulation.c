/* The simulation of CUDA devices must itself be worth trusting: mistakes that a GPU would punish now and then are
 * seen. */
#include <stdlib.h>
#include <string.h>

#include "tests/harness/gpu.h"
#include "tests/harness/test.h"

enum { N = 64, TRIALS = 60 };

static const char source[] =
    "#include \"kernels/cuda/device/kernel.cuh\"\n"
    "KERNEL(write, (float *x, i64 at)) { if (!threadIdx.x) x[at] = 7; }\n"
    "KERNEL(some_at_barrier, (float *x)) { if (threadIdx.x < 16) { __syncthreads(); x[threadIdx.x] = 1; } }\n"
    "KERNEL(two_barriers, (float *x)) {\n"
    "    if (threadIdx.x < 16) __syncthreads();\n"
    "    else { __syncthreads(); x[threadIdx.x] = 1; }\n"
    "}\n"
    "KERNEL(turn, (float *x, i64 wait)) {\n"
    "    __shared__ float tile[64];\n"
    "    tile[threadIdx.x] = -1;\n"
    "    __syncthreads();\n"
    "    tile[threadIdx.x] = threadIdx.x;\n"
    "    if (wait) __syncthreads();\n"
    "    x[threadIdx.x] = tile[63 - threadIdx.x];\n"
    "    __syncthreads();\n"
    "}\n"
    "KERNEL(ended_lanes, (float *x)) { if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 16); "
    "}\n"
    "KERNEL(other_lanes, (float *x)) {\n"
    "    if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 16);\n"
    "    else __syncwarp();\n"
    "}\n"
    "KERNEL(not_in_mask, (float *x)) { x[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1); }\n";

/* A device of its own for each test: a failure stays with it. */
typedef struct {
    const CudaDriver *cuda;
    const Runtime *r;
    GpuDevice *device;
    GpuStream *stream, *other;
    GpuModule *module;
    float *x, *host; /* [N] on the device, zeroed; pinned */
} Rig;

#define GOOD(rig, e) CHECK_OK(gpu_check((rig)->cuda, (e)))
#define BAD(rig, code, text, e) CHECK_FAILS(code, text, gpu_check((rig)->cuda, (e)))

static bool open_rig(Rig *g)
{
    const GpuOptions options = { .tf32 = false };

    *g = (Rig){ 0 };
    if (!CHECK_OK(gpu_driver(&g->cuda)))
        return false;
    g->r = &g->cuda->runtime;
    return GOOD(g, g->r->open(&g->device, 0, &options)) && GOOD(g, g->r->stream_create(g->device, &g->stream, false)) &&
           GOOD(g, g->r->stream_create(g->device, &g->other, false)) &&
           GOOD(g, g->cuda->compile(g->device, source, "selftest", &g->module)) &&
           GOOD(g, g->r->alloc(g->device, (void **)&g->x, N * sizeof(float))) &&
           GOOD(g, g->r->host_alloc(g->device, (void **)&g->host, N * sizeof(float)));
}

static void close_rig(Rig *g)
{
    if (!g->device)
        return;
    g->r->free(g->device, g->x);
    g->r->host_free(g->device, g->host);
    g->cuda->module_free(g->module);
    g->r->stream_free(g->stream);
    g->r->stream_free(g->other);
    g->r->close(g->device);
}

static Status launch(Rig *g, const char *name, unsigned threads, int64_t number)
{
    unsigned one[3] = { 1, 1, 1 }, block[3] = { threads, 1, 1 };
    void *args[] = { &g->x, &number };
    GpuKernel *k;

    TRY(g->cuda->module_kernel(g->module, name, &k));
    return g->cuda->launch(g->stream, k, one, block, 0, args);
}

/* What the kernel did is wrong, says the next wait. */
static void check_kernel(const char *name, unsigned threads, int64_t number, const char *text)
{
    Rig g;

    if (open_rig(&g) && GOOD(&g, launch(&g, name, threads, number)))
        BAD(&g, E_INTERNAL, text, g.r->stream_wait(g.stream));
    close_rig(&g);
}

/* ---- events ---- */

/* One stream writes, the other reads what it finds; returns how often that was what had been written. */
static int count_seen(Rig *g, bool ordered)
{
    GpuEvent *written = NULL;
    int seen = 0;

    GOOD(g, g->r->event_create(g->device, &written, false));
    for (int i = 0; i < TRIALS; i++) {
        GOOD(g, g->r->zero(g->stream, g->x, sizeof(float)));
        GOOD(g, g->r->stream_wait(g->stream));
        GOOD(g, launch(g, "write", 1, 0));
        GOOD(g, g->r->event_record(written, g->stream));
        if (ordered)
            GOOD(g, g->r->event_await(written, g->other));
        GOOD(g, g->r->copy(g->other, g->host, g->x, sizeof(float)));
        GOOD(g, g->r->stream_wait(g->other));
        GOOD(g, g->r->stream_wait(g->stream));
        seen += *g->host == 7;
    }
    g->r->event_free(written);
    return seen;
}

static void test_events(void)
{
    Rig g;

    if (open_rig(&g)) {
        int unordered = count_seen(&g, false);

        CU_ASSERT_EQUAL(count_seen(&g, true), TRIALS);
        CU_ASSERT(unordered > 0 && unordered < TRIALS);
    }
    close_rig(&g);
}

/* A stream that has not come back to where the capture began. */
static void test_unjoined(void)
{
    GpuEvent *begun = NULL;
    GpuGraph *graph = NULL;
    Rig g;

    if (open_rig(&g) && GOOD(&g, g.r->event_create(g.device, &begun, false)) &&
        GOOD(&g, g.r->capture_begin(g.stream))) {
        GOOD(&g, g.r->event_record(begun, g.stream));
        GOOD(&g, g.r->event_await(begun, g.other));
        GOOD(&g, g.r->zero(g.other, g.x, sizeof(float)));
        BAD(&g, E_INVALID, "has not joined again", g.r->capture_end(g.stream, &graph));
        CU_ASSERT_PTR_NULL(graph);
    }
    if (begun)
        g.r->event_free(begun);
    close_rig(&g);
}

/* ---- threads of a block ---- */

static void test_barriers(void)
{
    check_kernel("some_at_barrier", 32, 0, "waits at");
    check_kernel("two_barriers", 32, 0, "waits at");
}

/* How many of some launches turned the row round. */
static int count_turned(Rig *g, bool wait)
{
    int good = 0;

    for (int i = 0; i < TRIALS; i++) {
        bool right = true;

        GOOD(g, launch(g, "turn", N, wait));
        GOOD(g, g->r->copy(g->stream, g->host, g->x, N * sizeof(float)));
        GOOD(g, g->r->stream_wait(g->stream));
        for (int k = 0; k < N; k++)
            right = right && g->host[k] == (float)(N - 1 - k);
        good += right;
    }
    return good;
}

static void test_missing_barrier(void)
{
    Rig g;

    if (open_rig(&g)) {
        CU_ASSERT_EQUAL(count_turned(&g, true), TRIALS);
        CU_ASSERT_EQUAL(count_turned(&g, false), 0);
    }
    close_rig(&g);
}

/* What lanes that are not there would give is garbage. */
static void test_shuffles(void)
{
    Rig g;

    if (open_rig(&g) && GOOD(&g, launch(&g, "ended_lanes", 32, 0)) &&
        GOOD(&g, g.r->copy(g.stream, g.host, g.x, N * sizeof(float))) && GOOD(&g, g.r->stream_wait(g.stream)))
        for (int i = 0; i < 16; i++)
            CU_ASSERT(g.host[i] != g.host[i]);
    close_rig(&g);
    check_kernel("other_lanes", 32, 0, "disagree");
    check_kernel("not_in_mask", 32, 0, "is not in its own mask");
}

/* ---- memory and launches ---- */

static void test_guards(void)
{
    check_kernel("write", 1, N, "has written at byte 256 of an allocation of 256 bytes");
    check_kernel("write", 1, -1, "before an allocation of 256 bytes");
    check_kernel("write", 1, N + 40, "has written at byte 416");
}

#ifdef DPX_SIM_ALIGNMENT
/* An own kernel that writes 8 bytes at once, to a float's address. */
static void test_misaligned(void)
{
    unsigned one[3] = { 1, 1, 1 };
    int64_t n = 1;
    uint64_t bits = 0;
    GpuKernel *k;
    Rig g;

    if (open_rig(&g) && GOOD(&g, g.cuda->kernel(g.device, "fill_8", &k))) {
        float *at = g.x + 4;
        void *args[] = { &at, &n, &bits };

        GOOD(&g, g.cuda->launch(g.stream, k, one, one, 0, args));
        GOOD(&g, g.r->stream_wait(g.stream));
        at++;
        GOOD(&g, g.cuda->launch(g.stream, k, one, one, 0, args));
        BAD(&g, E_INTERNAL, "is no multiple of 8", g.r->stream_wait(g.stream));
    }
    close_rig(&g);
}
#endif

static void test_refused(void)
{
    Rig g;

    if (open_rig(&g)) {
        void *kept = g.x;

        BAD(&g, E_INVALID, "blocks of 2048", launch(&g, "write", 2048, 0));
        BAD(&g, E_INVALID, "a block of 288 threads, it is compiled for at most 256", launch(&g, "write", 288, 0));
        GOOD(&g, launch(&g, "write", 256, 0));
        GOOD(&g, g.r->stream_wait(g.stream));
        BAD(&g, E_INVALID, "no memory of a device",
            (g.x = (float *)(uintptr_t)g.host + 100000, launch(&g, "write", 1, 0)));
        g.x = kept;
        g.r->free(g.device, g.x);
        BAD(&g, E_INVALID, "any more", launch(&g, "write", 1, 0));
        BAD(&g, E_INVALID, "any more", g.r->zero(g.stream, g.x, 4));
        g.x = NULL;
        BAD(&g, E_INVALID, "64 bytes", g.r->copy(g.stream, g.host, g.host + N - 1, 64));
    }
    close_rig(&g);
}

#ifdef DPX_SIM_ALIGNMENT
#define ALIGNMENT { "misaligned addresses", test_misaligned },
#else
#define ALIGNMENT
#endif

DEFINE_SUITE(simulation, { "a missing event is seen", test_events }, { "an unjoined stream", test_unjoined },
             { "threads that disagree about a barrier", test_barriers },
             { "a missing barrier is seen", test_missing_barrier },
             ALIGNMENT{ "lanes that are not there", test_shuffles }, { "guards around memory", test_guards },
             { "launches and copies refused", test_refused });
