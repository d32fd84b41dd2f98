#include "tests/partition/train.h"
#include "graph/ops/binary.gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/text/parse.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/collectives.h"
#include "passes/options/replicas.h"

extern const Pass pass_lower, pass_autodiff, pass_partition, pass_bucket_gradients;

static char *with_batch(const char *text, int64_t batch)
{
    size_t len = 0, cap = strlen(text) * 4 + 1;
    char *out = malloc(cap);

    for (; out && *text; text++) {
        if (text[0] == '%' && text[1] == 'B' && (text[2] == ',' || text[2] == ']' || text[2] == '}')) {
            len += (size_t)snprintf(out + len, cap - len, "%lld", (long long)batch);
            text++;
            continue;
        }
        out[len++] = *text;
    }
    if (out)
        out[len] = 0;
    return out;
}

static void randomise_states(Graph *g)
{
    uint32_t seed = 12345;

    for (uint32_t i = 1; i < g->n_value; i++) {
        Tensor *t = (Tensor *)g->value[i]->init;

        for (int64_t k = 0; g->value[i]->kind == V_STATE && g->value[i]->trainable && k < tensor_numel(t); k++) {
            seed = seed * 1664525u + 1013904223u;
            tensor_set_float(t, k, (double)(seed >> 8) / (1 << 24) - 0.5);
        }
    }
}

static Status run_pass(const Pass *pass, Graph *g, const BuildOptions *opt, Report *report)
{
    PassCtx ctx = { .opt = opt, .report = report, .scratch = arena_create() };
    Status st = ctx.scratch ? pass->run(g, &ctx) : FAIL_NOMEM();

    arena_free(ctx.scratch);
    return st ? st : graph_verify(g);
}

static void add_updates(Graph *g)
{
    DType t = value(g, graph_output(g, OUT_LOSS))->dtype;
    Shape scalar = shape_scalar();
    ValueId lr = graph_add_input(g, IN_LR, t, &scalar);

    for (int i = 0, n = g->n_output; i < n; i++) {
        const char *name = g->output[i].name;
        ValueId w = strncmp(name, OUT_GRAD_PREFIX, strlen(OUT_GRAD_PREFIX))
                        ? NO_VALUE
                        : graph_find(g, name + strlen(OUT_GRAD_PREFIX));

        if (has_value(w)) {
            ValueId step = EMIT(g, Mul, NULL, g->output[i].value, lr);
            graph_add_update(g, w, EMIT(g, Sub, NULL, w, step));
        }
    }
}

Graph *train_graph(const char *text, int64_t batch)
{
    char *filled = with_batch(text, batch);
    Graph *g = NULL;
    BuildOptions opt = { .mode = BUILD_TRAIN };

    if (!filled || !CHECK_OK(graph_parse(&g, filled, strlen(filled)))) {
        free(filled);
        return NULL;
    }
    free(filled);
    randomise_states(g);
    if (!CHECK_OK(run_pass(&pass_lower, g, &opt, NULL)) || !CHECK_OK(run_pass(&pass_autodiff, g, &opt, NULL)) ||
        (add_updates(g), !CHECK_OK(g->status))) {
        graph_free(g);
        return NULL;
    }
    return g;
}

Status train_divide(Graph **out, const Graph *g, const Division *how, Report *report)
{
    BuildOptions opt = { .mode = BUILD_TRAIN,
                         .replicas = &(ReplicaOptions){ .replicas = how->replicas,
                                                        .devices = how->devices,
                                                        .split = how->split,
                                                        .weight = how->weight,
                                                        .n_weight = how->n_weight,
                                                        .device_of_replica = how->device_of_replica },
                         .collectives = &(CollectiveOptions){ .mix = how->mix } };
    Graph *copy;
    Status st;

    TRY(graph_clone(&copy, g));
    st = run_pass(&pass_partition, copy, &opt, report);
    if (!st && how->bucket)
        st = run_pass(&pass_bucket_gradients, copy, &opt, report);
    if (st)
        graph_free(copy);
    else
        *out = copy;
    return st;
}

void train_check(const char *text, int64_t batch, const Division *how, double limit)
{
    Graph *one = train_graph(text, batch), *many = NULL;
    Arena *a = arena_create();
    Verify v = { 0 };
    BuildOptions opt = { 0 };

    if (one && CHECK_OK(train_divide(&many, one, how, NULL)) && CHECK_OK(verify_graphs(&v, a, one, many, &opt, 7))) {
        CU_ASSERT(v.n_row > 1);
        if (!(v.worst <= limit))
            TEST_FAIL("batch %lld, %d replicas on %d devices: '%s' differs by %.3e", (long long)batch, how->replicas,
                      how->devices, v.row[0].name, v.worst);
    }
    arena_free(a);
    graph_free(one);
    graph_free(many);
}

void train_check_all(const char *text)
{
    static const double weight[] = { 0.5, 0, 3, 1 };
    static const Division how[] = {
        { .replicas = 2, .devices = 1 },
        { .replicas = 2, .devices = 2 },
        { .replicas = 3, .devices = 2, .bucket = true },
        { .replicas = 4, .devices = 4, .bucket = true },
        { .replicas = 4, .devices = 2, .split = SPLIT_CHUNK },
        { .replicas = 7, .devices = 3 },
        { .replicas = 7, .devices = 7, .split = SPLIT_CHUNK },
        { .replicas = 4, .devices = 2, .split = SPLIT_WEIGHTS, .weight = weight, .n_weight = 4 },
        { .replicas = 5, .devices = 3, .split = SPLIT_WEIGHTS, .weight = weight, .n_weight = 3, .bucket = true },
    };
    static const int64_t batches[] = { 1, 2, 3, 5, 8 };

    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
            train_check(text, batches[b], &how[i], 1e-12);
}
