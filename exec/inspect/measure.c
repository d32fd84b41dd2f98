/* Measures devices and links for --links auto.  A device runs small graphs with the kernels that training uses.  Links
 * are measured by exchanges of few and of many bytes, first between all processes of a machine, then between those of
 * different machines, as collectives make them. */
#include "exec/inspect/measure.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/session.h"
#include "exec/world/world.h"
#include "graph/base/json_writer.h"
#include "graph/base/machine.h"
#include "graph/base/order.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"

enum {
    CHAIN = 2,
    LONG_CHAIN = 40,
    CPU_SIZE = 512,
    GPU_SIZE = 2048,
    LEAST_RUNS = 5,
    ROUNDS = 15,
    THREAD_NUMBERS = 4096,
    COLLECTIVES = 401
};
enum { COPY_BYTES = 64 << 20, FEW_BYTES = 64, MANY_BYTES = 4 << 20, EXCHANGES = 31 };
static const double LEAST_SECONDS = 0.15, MOST_SECONDS = 3;

/* ---- devices ---- */

/* A graph of one input that a device runs again and again. */
typedef struct {
    Session *session;
    Arena *arena;
    NamedTensor in; /* 1/256 everywhere: how much power a product takes depends on its numbers */
} Work;

/* Compiles the graph `text`, whose input x has this type and shape, for the device. */
static Status work_open(Work *w, const DeviceSpec *d, const char *text, DType type, const Shape *shape)
{
    const BuildOptions none = { .mode = BUILD_INFER };
    DeviceList list = { .n = 1, .device = { *d } };
    Arena *a = arena_create();
    Tensor *x = a ? tensor_create(a, type, shape) : NULL;
    Graph *g = NULL;
    Status st = x ? graph_parse(&g, text, strlen(text)) : FAIL_NOMEM();

    *w = (Work){ .arena = a };
    if (!st) {
        w->in = (NamedTensor){ "x", *x };
        for (int64_t i = 0; i < shape_numel(shape); i++)
            tensor_set_float(x, i, 1.0 / 256);
        st = session_create(&w->session, g, &none, &list, NULL, NULL);
        graph_free(g);
    }
    if (st)
        arena_free(a);
    return st;
}

static void work_close(Work *w)
{
    session_free(w->session);
    arena_free(w->arena);
}

static Status work_run(double *seconds, Work *w)
{
    const double before = world_now();
    const NamedTensor *out;
    int n_out;

    TRY(session_step(&out, &n_out, w->session, BUILD_INFER, &w->in, 1));
    *seconds = world_now() - before;
    return ST_OK;
}

/* The seconds of the fastest of many runs; of few where one takes seconds. */
static Status time_work(double *least, const DeviceSpec *d, const char *text, DType type, const Shape *shape)
{
    double took;
    Work w;
    Status st;

    TRY(work_open(&w, d, text, type, shape));
    st = work_run(&took, &w); /* which compiles */
    *least = INFINITY;
    for (double past = 0, n = 0; !st && (n < LEAST_RUNS ? !n || past < MOST_SECONDS : past < LEAST_SECONDS); n++)
        if (!(st = work_run(&took, &w))) {
            *least = fmin(*least, took);
            past += took;
        }
    work_close(&w);
    return st;
}

enum { PRODUCTS_TEXT = 4096 };

/* The text of a graph with a chain of products of n x n matrices: each multiplies the one before by x. */
static void write_products(char text[PRODUCTS_TEXT], DType type, int n, int chain)
{
    const char *of = dtype_name(type);
    int len = snprintf(text, PRODUCTS_TEXT, "graph \"products\" {\n  input %%x : %s[%d,%d]\n", of, n, n);

    for (int i = 1; i <= chain; i++)
        len += snprintf(text + len, PRODUCTS_TEXT - (size_t)len, "  %%y%d : %s[%d,%d] = MatMul(%%%s%.0d, %%x)\n", i, of,
                        n, n, i > 1 ? "y" : "x", i - 1);
    snprintf(text + len, PRODUCTS_TEXT - (size_t)len, "  output \"y\" = %%y%d\n}\n", chain);
}

Status measure_flops(double *out, const DeviceSpec *d, DType type)
{
    const int n = d->cuda ? GPU_SIZE : CPU_SIZE;
    const Shape square = SHAPE(n, n);
    char text[PRODUCTS_TEXT];
    double seconds;

    write_products(text, type, n, CHAIN);
    TRY(time_work(&seconds, d, text, type, &square));
    *out = 2.0 * CHAIN * n * n * n / seconds;
    return ST_OK;
}

Status measure_bytes(double *out, const DeviceSpec *d)
{
    const Shape row = SHAPE(COPY_BYTES / 4);
    char text[256];
    double seconds;

    snprintf(text, sizeof text,
             "graph \"bytes\" {\n  input %%x : float32[%d]\n  %%y : float32[%d] = Neg(%%x)\n  output \"y\" = %%y\n}\n",
             COPY_BYTES / 4, COPY_BYTES / 4);
    TRY(time_work(&seconds, d, text, DT_FLOAT32, &row));
    *out = 2.0 * COPY_BYTES / seconds;
    return ST_OK;
}

/* ---- devices of a node beside each other ---- */

/* The seconds of `rounds` passes over number[THREAD_NUMBERS] in the calling thread. */
static double thread_work(float *number, int rounds)
{
    const double before = world_now();

    for (int k = 0; k < rounds; k++)
        for (int i = 0; i < THREAD_NUMBERS; i++)
            number[i] = number[i] * 0.5f + 1;
    __asm__ volatile("" : : "r"(number) : "memory"); /* the numbers are used: no compiler drops the loop */
    return world_now() - before;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, order_doubles);
    return v[n / 2];
}

/* The largest *seconds of all processes. */
static Status slowest(double *seconds, World *w)
{
    int64_t most;

    TRY(world_max(w, (int64_t)(*seconds * 1e9), &most));
    *seconds = (double)most * 1e-9;
    return ST_OK;
}

/* The factor by which long work is slower when all processes compute than when one computes alone.  Takes the best
 * moment of either, and the slowest process. */
static Status measure_slowdown(double *out, const DeviceList *list)
{
    const Shape square = SHAPE(CPU_SIZE, CPU_SIZE);
    World *w = list->world;
    double alone = 0, together = INFINITY, took, least;
    char text[PRODUCTS_TEXT];
    Work work;
    Status st;

    write_products(text, DT_FLOAT32, CPU_SIZE, LONG_CHAIN);
    TRY(work_open(&work, &list->device[0], text, DT_FLOAT32, &square));
    TRY_TO(done, st, work_run(&took, &work)); /* which compiles */
    for (int who = 0; who < world_size(w); who++) {
        least = who == world_rank(w) ? INFINITY : 0;
        for (int i = 0; i < ROUNDS && who == world_rank(w); i++) {
            TRY_TO(done, st, work_run(&took, &work));
            least = fmin(least, took);
        }
        TRY_TO(done, st, slowest(&least, w)); /* the others have 0 */
        alone += least / world_size(w);
    }
    for (int i = 0; i < ROUNDS; i++) {
        TRY_TO(done, st, work_run(&took, &work));
        TRY_TO(done, st, slowest(&took, w));
        together = fmin(together, took);
    }
    *out = fmax(1, together / alone);
done:
    work_close(&work);
    return st;
}

/* The mean delay of a device at a collective after a millisecond of work, in seconds.  The largest delay of n devices
 * is measured, which is cluster_latest(n) times the mean. */
static Status measure_jitter(double *out, World *w)
{
    float *number = calloc(THREAD_NUMBERS, sizeof *number);
    double took[COLLECTIVES], own[COLLECTIVES], typical;
    int rounds = 1;
    Status st = number ? ST_OK : FAIL_NOMEM();

    while (!st && thread_work(number, rounds) < 1e-3)
        rounds *= 2;
    for (int i = 0; i < COLLECTIVES && !st; i++) {
        took[i] = own[i] = thread_work(number, rounds);
        st = slowest(&took[i], w);
    }
    free(number);
    TRY(st);
    typical = median(own, COLLECTIVES);
    TRY(slowest(&typical, w)); /* a device that is always slower is not delayed by chance */
    *out = fmax(0, median(took, COLLECTIVES) - typical) / cluster_latest(world_size(w));
    return ST_OK;
}

/* ---- links ---- */

/* The median seconds of an exchange of `bytes` with each other process of `with`, on the process where it is longest.
 * `data` has MANY_BYTES for what is sent, and for what comes from each. */
static Status time_exchange(double *out, World *w, const bool with[WORLD_MAX], char *data, size_t bytes)
{
    WorldRound *round = world_round_create();
    double took[EXCHANGES];
    int64_t most;
    Status st = round ? ST_OK : FAIL_NOMEM();

    for (int r = 0, k = 1; r < world_size(w) && round; r++)
        if (with[r]) {
            world_round_send(round, r, data, bytes);
            world_round_receive(round, r, data + (size_t)k++ * MANY_BYTES, bytes);
        }
    for (int i = -2; i < EXCHANGES && !st; i++) { /* two to touch the memory */
        const double before = world_now();

        st = world_round_run(round, w);
        if (i >= 0)
            took[i] = world_now() - before;
    }
    free(round);
    TRY(st);
    qsort(took, EXCHANGES, sizeof *took, order_doubles);
    TRY(world_max(w, (int64_t)(took[EXCHANGES / 2] * 1e9), &most));
    *out = (double)most * 1e-9;
    return ST_OK;
}

/* Latency and bandwidth of one link: with the processes of this machine (`within`), or with those of all others.  An
 * exchange with n others is n messages, one after another. */
static Status measure_link(Link *out, World *w, const int64_t *machine, bool within)
{
    const int me = world_rank(w);
    bool with[WORLD_MAX] = { false };
    double few = 0, many = 0;
    int64_t n = 0;
    char *data;
    Status st;

    for (int r = 0; r < world_size(w); r++) {
        with[r] = r != me && (machine[r] == machine[me]) == within;
        n += with[r];
    }
    if (!(data = calloc((size_t)n + 1, MANY_BYTES)))
        return FAIL_NOMEM();
    if (!(st = time_exchange(&few, w, with, data, FEW_BYTES)))
        st = time_exchange(&many, w, with, data, MANY_BYTES);
    free(data);
    TRY(st);
    TRY(world_max(w, n, &n));
    if (n)
        *out = (Link){ .latency = few / (double)n, .bandwidth = MANY_BYTES * (double)n / fmax(many - few, 1e-9) };
    return ST_OK;
}

/* A DeviceJob. */
static Status do_nothing(Device *d, void *arg)
{
    (void)d, (void)arg;
    return ST_OK;
}

/* The link between devices of one process.  Its latency is the time in which all threads take and end an empty job, its
 * bandwidth that of copying memory. */
static Status measure_threads(Link *out, const DeviceList *list)
{
    Device *device[MAX_DEVICES] = { NULL };
    double took[EXCHANGES];
    char *data = calloc(2, MANY_BYTES);
    Status st = data ? ST_OK : FAIL_NOMEM();

    for (int i = 0; i < list->n && !st; i++)
        st = device_open(&device[i], &list->device[i], true);
    for (int k = 0; k < EXCHANGES && !st; k++) {
        const double before = world_now();

        for (int i = 0; i < list->n; i++)
            device_start(device[i], do_nothing, NULL);
        st = device_wait_all(device, list->n);
        took[k] = world_now() - before;
    }
    qsort(took, EXCHANGES, sizeof *took, order_doubles);
    out->latency = took[EXCHANGES / 2] / list->n;
    for (int k = 0; k < EXCHANGES && !st; k++) {
        const double before = world_now();

        memcpy(data, data + MANY_BYTES, MANY_BYTES);
        data[MANY_BYTES] = data[k];
        took[k] = world_now() - before;
    }
    qsort(took, EXCHANGES, sizeof *took, order_doubles);
    out->bandwidth = MANY_BYTES / took[EXCHANGES / 2];
    for (int i = 0; i < list->n; i++)
        device_close(device[i]);
    free(data);
    return st;
}

/* ---- the cluster ---- */

/* The cores of this machine that its processes may use, which they may share or have been given apart.  A CPU quota
 * holds for all of them together. */
static Status count_cores(double *out, World *w, const int64_t *machine)
{
    cpu_set_t mine, all, one;

    *out = machine_cores();
    if (sched_getaffinity(0, sizeof mine, &mine))
        return FAIL(E_DEVICE, "the cores of this process cannot be asked for: %s", strerror(errno));
    CPU_ZERO(&all);
    for (int r = 0; r < world_size(w) && w; r++) {
        one = mine;
        TRY(world_share(w, r, &one, sizeof one));
        if (machine[r] == machine[world_rank(w)])
            CPU_OR(&all, &all, &one);
    }
    if (w && *out >= CPU_COUNT(&mine))
        *out = CPU_COUNT(&all);
    return ST_OK;
}

/* The smallest *v of all processes. */
static Status least_of(double *v, World *w)
{
    double all;

    for (int r = 0; r < world_size(w) && w; r++) {
        all = *v;
        TRY(world_share(w, r, &all, sizeof all));
        *v = fmin(*v, all);
    }
    return ST_OK;
}

/* Fills the numbers of a device and of a node. */
static Status measure_devices(Cluster *c, const DeviceList *list, const int64_t *machine)
{
    const double neighbours = world_neighbours(list->world);
    double flops, bytes;

    c->flops = c->bandwidth = c->node_bandwidth = INFINITY;
    for (int i = 0; i < list->n; i++) {
        TRY(measure_flops(&flops, &list->device[i], DT_FLOAT32));
        c->flops = fmin(c->flops, flops);
    }
    TRY(least_of(&c->flops, list->world)); /* so that all begin the next one together */
    TRY(measure_bytes(&bytes, &list->device[0]));
    c->node_bandwidth = bytes * neighbours;
    TRY(least_of(&c->node_bandwidth, list->world));
    for (int r = 0; r < world_size(list->world); r++) { /* one after another, each has the memory to itself */
        if (r == world_rank(list->world))
            TRY(measure_bytes(&c->bandwidth, &list->device[0]));
        TRY(least_of(&bytes, list->world));
    }
    TRY(least_of(&c->bandwidth, list->world));
    c->memory = (double)list->device[0].memory / (list->n * neighbours);
    TRY(least_of(&c->memory, list->world));
    if (neighbours > 1 && !list->device[0].cuda) {
        TRY(measure_slowdown(&c->node_slowdown, list));
        TRY(measure_jitter(&c->jitter, list->world));
    }
    c->cores = list->device[0].threads;
    TRY(count_cores(&c->node_cores, list->world, machine));
    return least_of(&c->node_cores, list->world);
}

Status measure_cluster(Cluster *out, const DeviceList *list)
{
    World *w = list->world;
    Cluster c = { .accelerator = list->device[0].cuda };
    int64_t machine[WORLD_MAX] = { 0 }, neighbours; /* machine: [rank] the machine's id */
    int count;

    world_set_purpose(w, "measuring devices and links");
    TRY(world_max(w, world_neighbours(w), &neighbours));
    c.per_node = list->n * (int)neighbours;
    c.nodes = (world_size(w) + (int)neighbours - 1) / (int)neighbours;
    machine[world_rank(w)] = (int64_t)machine_id();
    for (int r = 0; r < world_size(w) && w; r++)
        TRY(world_share(w, r, &machine[r], sizeof *machine));
    TRY(measure_devices(&c, list, machine));
    if (neighbours > 1)
        TRY(measure_link(&c.within, w, machine, true));
    else if (list->n > 1)
        TRY(measure_threads(&c.within, list));
    if (c.nodes > 1)
        TRY(measure_link(&c.between, w, machine, false));
    count = c.nodes * c.per_node;
    c.count[c.n_count++] = 1;
    if (count > 1)
        c.count[c.n_count++] = count;
    snprintf(c.name, sizeof c.name, "%d %s%s on %d machine%s, measured", count, c.accelerator ? "GPU" : "CPU device",
             count == 1 ? "" : "s", c.nodes, c.nodes == 1 ? "" : "s");
    *out = c;
    return ST_OK;
}

static void write_link(JsonWriter *w, const char *key, const Link *l)
{
    json_open(w, key, '{');
    json_write_float(w, "bandwidth", l->bandwidth);
    json_write_float(w, "latency", l->latency);
    json_close(w);
}

void cluster_print(const Cluster *c, FILE *to)
{
    JsonWriter w = { .to = to, .lines = 1 };

    json_open(&w, NULL, '{');
    json_write_string(&w, "name", c->name);
    json_open(&w, "device", '{');
    json_write_string(&w, "kind", c->accelerator ? "accelerator" : "cpu");
    if (!c->accelerator)
        json_write_float(&w, "cores", c->cores);
    json_write_float(&w, "flops", c->flops);
    json_write_float(&w, "memory_bandwidth", c->bandwidth);
    json_write_float(&w, "memory", c->memory);
    if (c->jitter > 0)
        json_write_float(&w, "jitter", c->jitter);
    json_close(&w);
    json_write_int(&w, "nodes", c->nodes);
    json_write_int(&w, "devices_per_node", c->per_node);
    if (!c->accelerator) {
        json_open(&w, "node", '{');
        json_write_float(&w, "cores", c->node_cores);
        json_write_float(&w, "memory_bandwidth", c->node_bandwidth);
        if (c->node_slowdown > 0)
            json_write_float(&w, "slowdown", c->node_slowdown);
        json_close(&w);
    }
    json_open(&w, "links", '{');
    if (c->per_node > 1)
        write_link(&w, "node", &c->within);
    if (c->nodes > 1)
        write_link(&w, "network", &c->between);
    json_close(&w);
    json_close(&w);
}
