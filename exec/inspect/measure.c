/* What is measured is a small graph, run as any other is: by the kernels that training takes. */
#include "exec/inspect/measure.h"

#include <stdio.h>
#include <string.h>

#include "exec/train/session.h"
#include "exec/world/world.h"
#include "graph/parse.h"

enum { CHAIN = 4, CPU_SIZE = 256, GPU_SIZE = 2048, LEAST_TURNS = 5 };
static const double SECONDS = 0.1;

/* The least seconds of one of many turns of a graph of one input. */
static Status time_graph(double *least, const DeviceSpec *d, const char *text, const NamedTensor *in)
{
    const BuildOptions none = { .mode = BUILD_INFER };
    DeviceList list = { .n = 1, .device = { *d } };
    Graph *g;
    Session *s;
    Status st;

    TRY(graph_parse(&g, text, strlen(text)));
    st = session_create(&s, g, &none, &list, NULL, NULL);
    graph_free(g);
    TRY(st);
    *least = 1e30;
    for (double begin = world_now(), turns = 0; !st && (turns < LEAST_TURNS || world_now() - begin < SECONDS);
         turns++) {
        const double before = world_now();
        const NamedTensor *out;
        int n_out;

        st = session_step(&out, &n_out, s, BUILD_INFER, in, 1);
        if (turns && world_now() - before < *least) /* the first one compiles */
            *least = world_now() - before;
    }
    session_free(s);
    return st;
}

Status measure_flops(double *out, const DeviceSpec *d)
{
    const int64_t n = d->cuda ? GPU_SIZE : CPU_SIZE;
    const Shape square = SHAPE(n, n);
    Arena *a = arena_create();
    Tensor *x = a ? tensor_create(a, DT_FLOAT32, &square) : NULL;
    char text[1024];
    int len = snprintf(text, sizeof text, "graph \"products\" {\n  input %%y0 : float32[%d,%d]\n", (int)n, (int)n);
    double seconds = 1;
    Status st = x ? ST_OK : FAIL_NOMEM();

    for (int i = 1; i <= CHAIN; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "  %%y%d : float32[%d,%d] = MatMul(%%y%d, %%y0)\n", i,
                        (int)n, (int)n, i - 1);
    snprintf(text + len, sizeof text - (size_t)len, "  output \"y\" = %%y%d\n}\n", CHAIN);
    for (int64_t i = 0; !st && i < n * n; i++)
        tensor_set_float(x, i, 1 / (double)n);
    if (!st)
        st = time_graph(&seconds, d, text, &(NamedTensor){ "y0", *x });
    *out = 2.0 * CHAIN * (double)n * (double)n * (double)n / seconds;
    arena_free(a);
    return st;
}
