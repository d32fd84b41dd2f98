/* bench_kernels: how fast the own kernels of a CUDA device move their data, against how fast it copies.
 *
 *     bench_kernels [--trial] FILE        FILE: bench/kernels.txt; --trial: tiny sizes, which prove that it runs
 *
 * The driver is the one of tests/harness/gpu.h.  Counted are the bytes of all inputs and outputs, each once: what a
 * kernel moves at least.  A time is the median of REPEAT launches between two events.  Prints a JSON object a line:
 * first the copy, then each case. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/harness/gpu.h"
#include "tests/ops/case.h"

#define LAST "channels-last "
enum {
    REPEAT = 15,
    WARM = 3,
    TRIAL_REPEAT = 2,
    MAX_PORTS = 32,
    PATTERN = 1 << 16,
    COPY_BYTES = 1 << 29,
    TRIAL_COPY = 1 << 16,
    LINE = 1024
};

typedef struct {
    const TestGpu *gpu;
    GpuEvent *from, *to;
    double copy; /* bytes a second */
    bool trial;
} Bench;

typedef struct {
    const Kernel *kernel;
    KernelCtx ctx;
    void *state;
    Tensor in[MAX_PORTS], out[MAX_PORTS];
    size_t bytes;
    bool last; /* channels last */
} Job;

/* ---- timing ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Seconds of one `launch`, the median. */
static Status time_of(double *out, const Bench *b, Status (*launch)(void *), void *arg)
{
    int repeat = b->trial ? TRIAL_REPEAT : REPEAT;
    double seconds[REPEAT];

    for (int i = b->trial ? 0 : -WARM; i < repeat; i++) {
        TRY_GPU(b->gpu, runtime.event_record(b->from, b->gpu->stream));
        TRY(launch(arg));
        TRY_GPU(b->gpu, runtime.event_record(b->to, b->gpu->stream));
        TRY_GPU(b->gpu, runtime.event_wait(b->to));
        if (i >= 0)
            TRY_GPU(b->gpu, runtime.event_elapsed(b->from, b->to, &seconds[i]));
    }
    qsort(seconds, (size_t)repeat, sizeof *seconds, by_size);
    *out = seconds[repeat / 2];
    return ST_OK;
}

typedef struct {
    const TestGpu *gpu;
    void *to, *from;
    size_t bytes;
} Copy;

static Status launch_copy(void *arg)
{
    const Copy *c = arg;

    return gpu_check(c->gpu->driver, c->gpu->driver->runtime.copy(c->gpu->stream, c->to, c->from, c->bytes));
}

static Status measure_copy(Bench *b)
{
    const Runtime *r = &b->gpu->driver->runtime;
    Copy c = { .gpu = b->gpu, .bytes = b->trial ? TRIAL_COPY : COPY_BYTES };
    double seconds = 0;
    Status st = ST_OK;

    TRY_TO(done, st, gpu_check(b->gpu->driver, r->alloc(b->gpu->device, &c.to, c.bytes)));
    TRY_TO(done, st, gpu_check(b->gpu->driver, r->alloc(b->gpu->device, &c.from, c.bytes)));
    TRY_TO(done, st, time_of(&seconds, b, launch_copy, &c));
    b->copy = 2 * (double)c.bytes / seconds;
    printf("{\"case\":\"copy\",\"us\":%.2f,\"gbs\":%.1f,\"simulated\":%s}\n", seconds * 1e6, b->copy * 1e-9,
           r->simulated ? "true" : "false");
done:
    r->free(b->gpu->device, c.to);
    r->free(b->gpu->device, c.from);
    return st;
}

/* ---- one kernel ---- */

static Status device_tensor(Job *j, const TestGpu *gpu, Tensor *t)
{
    size_t bytes = tensor_bytes(t);

    j->bytes += bytes;
    TRY_GPU(gpu, runtime.alloc(gpu->device, &t->data, bytes ? bytes : 1));
    return ST_OK;
}

/* The first PATTERN bytes are `data`; they are doubled until the tensor is full. */
static Status fill(const TestGpu *gpu, const Tensor *t, const Tensor *data)
{
    size_t bytes = tensor_bytes(t), done = tensor_bytes(data);

    if (!bytes)
        return ST_OK;
    TRY(gpu_copy(gpu, t->data, data->data, done));
    for (; done < bytes; done *= 2)
        TRY(gpu_copy(gpu, (char *)t->data + done, t->data, done < bytes - done ? done : bytes - done));
    return ST_OK;
}

/* Data of every input in the type and range that the case says, at most PATTERN elements. */
static Status patterns(Tensor **in, Arena *a, const Case *c)
{
    Case *small = ARENA_NEW(a, Case, 1);

    if (!small)
        return FAIL_NOMEM();
    *small = *c;
    for (int i = 0; i < c->n_arg; i++) {
        int64_t n = shape_numel(&c->arg[i].shape);

        if (!c->arg[i].n_value)
            small->arg[i].shape = SHAPE(n < PATTERN ? n : PATTERN);
    }
    return case_inputs(in, a, small, DT_FLOAT32);
}

static Status place(Job *j, const Bench *b, Arena *a, const Case *c, const Graph *g)
{
    const Node *n = g->node[0];
    Tensor *data[CASE_ARGS] = { NULL };

    TRY(patterns(data, a, c));
    for (int i = 0; i < n->n_in; i++) {
        const Tensor *constant = in_const(g, n, i);

        j->in[i] = (Tensor){ .shape = shape_unknown() };
        if (!has_in(n, i))
            continue;
        j->in[i] = (Tensor){ in_value(g, n, i)->dtype, *in_value(g, n, i)->shape, NULL };
        TRY(device_tensor(j, b->gpu, &j->in[i]));
        TRY(fill(b->gpu, &j->in[i], constant ? constant : data[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
        const Value *v = has_out(n, i) ? value(g, n->out[i]) : NULL;

        j->out[i] = v ? (Tensor){ v->dtype, *v->shape, NULL } : (Tensor){ .shape = shape_unknown() };
        if (v)
            TRY(device_tensor(j, b->gpu, &j->out[i]));
    }
    return ST_OK;
}

static Status fill_table(Job *j, const TestGpu *gpu)
{
    const size_t bytes = j->ctx.table_bytes;
    void *table = bytes ? malloc(bytes) : NULL;
    Status st;

    if (!bytes)
        return ST_OK;
    if (!table)
        return FAIL_NOMEM();
    j->kernel->tabulate(table, j->state, j->in, j->out);
    if (!(st = gpu_check(gpu->driver, gpu->driver->runtime.alloc(gpu->device, &j->ctx.table, bytes))))
        st = gpu_copy(gpu, j->ctx.table, table, bytes);
    free(table);
    return st;
}

static Status launch_job(void *arg)
{
    Job *j = arg;

    return j->kernel->run(&j->ctx, j->state, j->in, j->out);
}

static void job_free(Job *j, const TestGpu *gpu)
{
    if (j->kernel && j->kernel->release && j->state)
        j->kernel->release(j->state);
    for (int i = 0; i < MAX_PORTS; i++) {
        gpu->driver->runtime.free(gpu->device, j->in[i].data);
        gpu->driver->runtime.free(gpu->device, j->out[i].data);
    }
    gpu->driver->runtime.free(gpu->device, j->ctx.scratch);
    gpu->driver->runtime.free(gpu->device, j->ctx.table);
}

/* The case without its attributes, which have quotes. */
static void print_result(const Bench *b, const Job *j, const Case *c, double seconds)
{
    double rate = (double)j->bytes / seconds;

    printf("{\"case\":\"%s%.*s\",\"kernel\":\"%s\",\"bytes\":%zu,\"us\":%.2f,\"gbs\":%.1f,\"share\":%.3f}\n",
           j->last ? LAST : "", (int)strcspn(c->line, "{|\""), c->line, j->kernel->name, j->bytes, seconds * 1e6,
           rate * 1e-9, rate / b->copy);
}

static Status run_job(Job *j, const Bench *b, Arena *a, const Case *c, const Graph *g)
{
    const Node *n = g->node[0];
    double seconds;

    if (n->n_in > MAX_PORTS || n->n_out > MAX_PORTS)
        return FAIL(E_INVALID, "more than %d inputs or outputs", MAX_PORTS);
    if (!(j->kernel = kernel_find(kernels_cuda, kernels_cuda_len, g, n)))
        return FAIL(E_UNSUPPORTED, "no CUDA kernel");
    if (j->kernel->prepare)
        TRY(j->kernel->prepare(&j->state, &j->ctx, g, n));
    TRY(place(j, b, a, c, g));
    TRY_GPU(b->gpu, runtime.alloc(b->gpu->device, &j->ctx.scratch, j->ctx.scratch_bytes + 1));
    TRY(fill_table(j, b->gpu));
    j->ctx.stream = b->gpu->stream;
    TRY(time_of(&seconds, b, launch_job, j));
    print_result(b, j, c, seconds);
    return ST_OK;
}

static Status measure_case(const Bench *b, const char *text)
{
    bool last = !strncmp(text, LAST, strlen(LAST));
    const char *line = text + (last ? strlen(LAST) : 0);
    Case *c = calloc(1, sizeof *c);
    Job *j = calloc(1, sizeof *j);
    Arena *a = arena_create();
    Graph *g = NULL;
    Status st = c && j && a ? ST_OK : FAIL_NOMEM();

    if (st)
        goto done;
    j->ctx = (KernelCtx){ .n_threads = 1, .runtime = &b->gpu->driver->runtime, .gpu = b->gpu->device };
    TRY_TO(done, st, case_parse(c, line));
    TRY_TO(done, st, case_graph(&g, c, DT_FLOAT32));
    if (last)
        case_set_layouts(g, g->node[0], LAYOUT_CHANNELS_LAST);
    j->last = last;
    TRY_TO(done, st, run_job(j, b, a, c, g));
done:
    if (j)
        job_free(j, b->gpu);
    graph_free(g);
    arena_free(a);
    free(j);
    free(c);
    return st;
}

/* ---- the file ---- */

/* Replaces every N that stands alone. */
static void with_size(char *to, size_t room, const char *from, long size)
{
    size_t n = 0;

    for (const char *c = from; *c && n + 24 < room; c++) {
        bool alone = *c == 'N' && (c == from || !isalnum((unsigned char)c[-1])) && !isalnum((unsigned char)c[1]);

        n += (size_t)(alone ? snprintf(to + n, room - n, "%ld", size) : snprintf(to + n, room - n, "%c", *c));
    }
}

/* Measures every case; counts those that fail and says why. */
static int measure_all(const Bench *b, FILE *f)
{
    char line[LINE], text[2 * LINE];
    int failed = 0;

    while (fgets(line, sizeof line, f)) {
        long full, trial;
        int at = 0;

        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%ld %ld %n", &full, &trial, &at) != 2 || !at)
            continue;
        with_size(text, sizeof text, line + at, b->trial ? trial : full);
        if (measure_case(b, text)) {
            fprintf(stderr, "%s: %s\n", text, status_message());
            failed++;
        }
        fflush(stdout);
    }
    return failed;
}

static Status bench_open(Bench *b)
{
    TRY(gpu_get(&b->gpu));
    TRY_GPU(b->gpu, runtime.event_create(b->gpu->device, &b->from, true));
    TRY_GPU(b->gpu, runtime.event_create(b->gpu->device, &b->to, true));
    return measure_copy(b);
}

int main(int argc, char **argv)
{
    Bench b = { .trial = argc == 3 && !strcmp(argv[1], "--trial") };
    FILE *f = argc == 2 + b.trial ? fopen(argv[argc - 1], "r") : NULL;
    int failed;

    if (!f) {
        fprintf(stderr, "usage: bench_kernels [--trial] FILE\n");
        return 2;
    }
    if (bench_open(&b)) {
        fprintf(stderr, "%s\n", status_message());
        fclose(f);
        return 1;
    }
    failed = measure_all(&b, f);
    fclose(f);
    return failed != 0;
}
