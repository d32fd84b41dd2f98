/* A runtime for devices that are only described: programs are planned for them, and nothing runs.
 *
 * Whatever a program needs before its first step is answered here, the same on every machine: own kernels exist,
 * library calls can be planned and need no workspace.  Where the plug-in can be loaded its libraries are asked about
 * each plan and each generated kernel too, for the same description; what they answer changes no plan, it is counted
 * (backend.h). */
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cuda/driver.h"

struct GpuDevice {
    GpuInfo info;
    const CudaDriver *library; /* NULL: no library confirms */
    GpuDevice *at_library;
    Described count;
};

struct GpuModule {
    const CudaDriver *library;
    GpuModule *at_library;
};
struct GpuPlan {
    const CudaDriver *library;
    GpuPlan *at_library;
};

/* The address that stands for a stream, an event, a kernel ...; nothing reads it. */
static const char placeholder;
#define PLACEHOLDER(type) ((type *)(uintptr_t)&placeholder)

static Status no_device(void) { return FAIL(E_DEVICE, "the device is only described: nothing can run on it"); }
static void ignore(void *p) { (void)p; }

/* ---- devices ---- */

static Status count_none(int *out)
{
    *out = 0;
    return ST_OK;
}

static Status info_none(GpuInfo *out, int index)
{
    (void)out;
    (void)index;
    return no_device();
}

static void keep_refusal(GpuDevice *d, const CudaDriver *library)
{
    if (!*d->count.refusal)
        strncpy(d->count.refusal, library->runtime.message(), sizeof d->count.refusal - 1);
}

/* Libraries that cannot be had for this device confirm nothing. */
static void open_library(GpuDevice *d, int index, const GpuOptions *opt)
{
    const CudaDriver *library = (const CudaDriver *)opt->confirm;

    if (!library)
        return;
    if (library->runtime.open(&d->at_library, index, opt))
        keep_refusal(d, library);
    else
        d->library = library;
}

static Status open_described(GpuDevice **out, int index, const GpuOptions *opt)
{
    GpuDevice *d = calloc(1, sizeof *d);

    if (!d)
        return FAIL_NOMEM();
    d->info = *opt->described;
    open_library(d, index, opt);
    d->count.asked = d->library;
    *out = d;
    return ST_OK;
}

static void abandon_none(GpuDevice *d) { ignore(d); }

static void close_described(GpuDevice *d)
{
    if (d && d->library)
        d->library->runtime.close(d->at_library);
    free(d);
}

static Status free_memory(GpuDevice *d, int64_t *out)
{
    *out = d->info.memory;
    return ST_OK;
}

void described_count(Described *out, const GpuDevice *d) { *out = d->count; }

/* Counts the library's answer, with its message when it refused. */
static void count(GpuDevice *d, DescribedKind kind, Status st, size_t workspace)
{
    Described *c = &d->count;

    c->wanted[kind]++;
    if (!d->library)
        return;
    c->confirmed[kind] += !st;
    c->workspace = !st && workspace > c->workspace ? workspace : c->workspace;
    if (st)
        keep_refusal(d, d->library);
}

/* ---- memory, streams, events, captured steps: there to be asked for, not to be used ---- */

static Status alloc_none(GpuDevice *d, void **out, size_t bytes)
{
    (void)d;
    (void)out;
    (void)bytes;
    return no_device();
}

static void free_none(GpuDevice *d, void *p)
{
    (void)d;
    (void)p;
}

static Status stream_create(GpuDevice *d, GpuStream **out, bool urgent)
{
    (void)d;
    (void)urgent;
    *out = PLACEHOLDER(GpuStream);
    return ST_OK;
}

static void stream_free(GpuStream *s) { ignore(s); }
static Status stream_wait(GpuStream *s)
{
    ignore(s);
    return no_device();
}

static Status event_create(GpuDevice *d, GpuEvent **out, bool timed)
{
    (void)d;
    (void)timed;
    *out = PLACEHOLDER(GpuEvent);
    return ST_OK;
}

static void event_free(GpuEvent *e) { ignore(e); }

static Status event_use(GpuEvent *e, GpuStream *s)
{
    ignore(e);
    ignore(s);
    return no_device();
}

static Status event_wait(GpuEvent *e)
{
    ignore(e);
    return no_device();
}

static Status event_query(GpuEvent *e, bool *done)
{
    ignore(e);
    ignore(done);
    return no_device();
}

static Status event_elapsed(GpuEvent *from, GpuEvent *to, double *seconds)
{
    ignore(from);
    ignore(to);
    ignore(seconds);
    return no_device();
}

static Status zero(GpuStream *s, void *p, size_t bytes)
{
    ignore(s);
    ignore(p);
    (void)bytes;
    return no_device();
}

static Status copy(GpuStream *s, void *to, const void *from, size_t bytes)
{
    (void)from;
    return zero(s, to, bytes);
}

static Status copy_rows(GpuStream *s, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                        size_t rows)
{
    (void)from;
    (void)to_pitch;
    (void)from_pitch;
    (void)width;
    return zero(s, to, rows);
}

static Status host_call(GpuStream *s, void (*fn)(void *), void *arg)
{
    (void)fn;
    return zero(s, arg, 0);
}

static Status capture_begin(GpuStream *s)
{
    ignore(s);
    return no_device();
}

static Status capture_end(GpuStream *s, GpuGraph **out)
{
    ignore(s);
    ignore(out);
    return no_device();
}

static Status graph_launch(GpuGraph *g, GpuStream *s)
{
    ignore(g);
    ignore(s);
    return no_device();
}

static void graph_free_none(GpuGraph *g) { ignore(g); }

/* ---- collectives ---- */

static Status comm_id(GpuCommId *out)
{
    memset(out, 0, sizeof *out);
    return ST_OK;
}

static Status comm_create(GpuComm **out, GpuDevice *d, const GpuCommId *id, int rank, int n_rank,
                          const GpuCommWait *wait)
{
    (void)d;
    (void)id;
    (void)rank;
    (void)n_rank;
    (void)wait;
    *out = PLACEHOLDER(GpuComm);
    return ST_OK;
}

static void comm_abort(GpuComm *c) { (void)c; }
static bool comm_abort_end(GpuComm *c)
{
    ignore(c);
    return true;
}

static bool comm_free(GpuComm *c, const GpuCommWait *wait)
{
    (void)wait;
    ignore(c);
    return true;
}

static Status comm_poll(GpuComm *c)
{
    ignore(c);
    return ST_OK;
}

static void comm_release(GpuDevice *d, GpuComm *c, void *p)
{
    ignore(c);
    free_none(d, p);
}

static Status comm_register(GpuComm *c, void *p, size_t bytes)
{
    ignore(c);
    ignore(p);
    (void)bytes;
    return no_device();
}

static Status reduce(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype)
{
    ignore(c);
    (void)send;
    (void)dtype;
    return zero(s, recv, n);
}

static Status described_gather(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes)
{
    ignore(c);
    (void)send;
    return zero(s, recv, bytes);
}

static Status broadcast(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes, int root)
{
    (void)root;
    return described_gather(c, s, send, recv, bytes);
}

/* ---- kernels ---- */

static Status kernel(GpuDevice *d, const char *name, GpuKernel **out)
{
    GpuKernel *at_library;

    count(d, DESCRIBED_OWN, d->library ? d->library->kernel(d->at_library, name, &at_library) : ST_OK, 0);
    *out = PLACEHOLDER(GpuKernel);
    return ST_OK;
}

static Status described_compile(GpuDevice *d, const char *source, const char *name, GpuModule **out)
{
    GpuModule *m = calloc(1, sizeof *m);
    Status st = ST_OK;

    if (!m)
        return FAIL_NOMEM();
    m->library = d->library;
    if (m->library && (st = m->library->compile(d->at_library, source, name, &m->at_library)))
        m->library = NULL;
    count(d, DESCRIBED_GENERATED, st, 0);
    *out = m;
    return ST_OK;
}

static Status module_kernel(GpuModule *m, const char *name, GpuKernel **out)
{
    (void)m;
    (void)name;
    *out = PLACEHOLDER(GpuKernel);
    return ST_OK;
}

static void module_free(GpuModule *m)
{
    if (m && m->library)
        m->library->module_free(m->at_library);
    free(m);
}

static Status kernel_shared(GpuKernel *k, size_t bytes)
{
    ignore(k);
    (void)bytes;
    return ST_OK;
}

static Status described_launch(GpuStream *s, GpuKernel *k, const unsigned grid[3], const unsigned block[3],
                               size_t shared, void *const *args)
{
    ignore(s);
    ignore(k);
    (void)grid;
    (void)block;
    (void)shared;
    (void)args;
    return no_device();
}

/* ---- libraries ---- */

/* A plan of ours, which holds the library's when that is not NULL. */
static Status add_plan(GpuDevice *d, Status st, GpuPlan *at_library, size_t needs, GpuPlan **out, size_t *workspace)
{
    GpuPlan *p = calloc(1, sizeof *p);

    count(d, DESCRIBED_PLAN, st, needs);
    if (!p) {
        if (at_library)
            d->library->plan_free(at_library);
        return FAIL_NOMEM();
    }
    *p = (GpuPlan){ d->library, at_library };
    *out = p;
    *workspace = 0;
    return ST_OK;
}

/* Without its epilogue a product that ends in 16 bits is left in float32 first (cuda_product.c). */
static void note_epilogue(GpuDevice *d, const GpuGemm *desc)
{
    size_t bytes =
        dtype_size(desc->dtype_c) == 2 && !gemm_plain(desc) ? sizeof(float) * (size_t)(desc->m * desc->n) : 0;

    d->count.epilogue = bytes > d->count.epilogue ? bytes : d->count.epilogue;
}

static Status gemm(GpuDevice *d, const GpuGemm *desc, GpuPlan **out, size_t *workspace)
{
    GpuPlan *p = NULL;
    size_t needs = 0;
    Status st = d->library ? d->library->gemm(d->at_library, desc, &p, &needs) : ST_OK;

    note_epilogue(d, desc);
    return add_plan(d, st, st ? NULL : p, needs, out, workspace);
}

static Status conv(GpuDevice *d, const GpuConv *desc, GpuPlan **out, size_t *workspace)
{
    GpuPlan *p = NULL;
    size_t needs = 0;
    Status st = d->library ? d->library->conv(d->at_library, desc, &p, &needs) : ST_OK;

    return add_plan(d, st, st ? NULL : p, needs, out, workspace);
}

static Status attention(GpuDevice *d, const GpuAttention *desc, GpuPlan **out, size_t *workspace)
{
    GpuPlan *p = NULL;
    size_t needs = 0;
    Status st = d->library ? d->library->attention(d->at_library, desc, &p, &needs) : ST_OK;

    return add_plan(d, st, st ? NULL : p, needs, out, workspace);
}

static Status plan_run(GpuStream *s, GpuPlan *p, void *const *buffers, void *workspace)
{
    ignore(p);
    (void)buffers;
    return zero(s, workspace, 0);
}

static void plan_free(GpuPlan *p)
{
    if (p && p->at_library)
        p->library->plan_free(p->at_library);
    free(p);
}

static const CudaDriver driver = {
    .runtime = { .abi = RUNTIME_ABI,
                 .name = "cuda",
                 .message = status_message,
                 .count = count_none,
                 .info = info_none,
                 .open = open_described,
                 .close = close_described,
                 .abandon = abandon_none,
                 .free_memory = free_memory,
                 .alloc = alloc_none,
                 .free = free_none,
                 .host_alloc = alloc_none,
                 .host_free = free_none,
                 .stream_create = stream_create,
                 .stream_free = stream_free,
                 .stream_wait = stream_wait,
                 .event_create = event_create,
                 .event_free = event_free,
                 .event_record = event_use,
                 .event_await = event_use,
                 .event_wait = event_wait,
                 .event_query = event_query,
                 .event_elapsed = event_elapsed,
                 .zero = zero,
                 .copy = copy,
                 .copy_rows = copy_rows,
                 .host_call = host_call,
                 .capture_begin = capture_begin,
                 .capture_end = capture_end,
                 .graph_launch = graph_launch,
                 .graph_free = graph_free_none,
                 .comm_id = comm_id,
                 .comm_create = comm_create,
                 .comm_free = comm_free,
                 .comm_abort = comm_abort,
                 .comm_abort_end = comm_abort_end,
                 .comm_poll = comm_poll,
                 .comm_alloc = alloc_none,
                 .comm_release = comm_release,
                 .comm_register = comm_register,
                 .all_reduce_sum = reduce,
                 .reduce_scatter_sum = reduce,
                 .all_gather = described_gather,
                 .all_to_all = described_gather,
                 .broadcast = broadcast },
    .kernel = kernel,
    .compile = described_compile,
    .module_kernel = module_kernel,
    .module_free = module_free,
    .kernel_shared = kernel_shared,
    .launch = described_launch,
    .gemm = gemm,
    .conv = conv,
    .attention = attention,
    .plan_run = plan_run,
    .plan_free = plan_free,
};

const Runtime *described_runtime(void) { return &driver.runtime; }
