/* Memory runs out at any place of a build: it fails with E_NOMEM, or makes the graph that it makes with memory enough.
 * Of a foreign model any allocation can be the one beyond --plan-memory. */
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/onnx/onnx.h"
#include "graph/text/print.h"
#include "passes/build_parts.h"
#include "tests/harness/target.h"
#include "tests/harness/test.h"
#include "tests/memory/memory.h"

typedef struct {
    const char *model;
    BuildParts opt;
    long step; /* of so many allocations one is tried */
} Build;

static Status build(char **text, Build *b)
{
    Graph *g = NULL;
    Status st;

    TRY(onnx_import_file(&g, NULL, b->model, NULL));
    if (!(st = pipeline_run(g, build_parts(&b->opt), interp_node, NULL, NULL)))
        st = graph_text(text, g, NULL);
    graph_free(g);
    return st;
}

static void try_all(Build *b)
{
    char *expected = NULL, *text = NULL;
    long n, failed = 0;

    memory_fail_at(0);
    if (!CHECK_OK(build(&expected, b)))
        return;
    n = memory_count();
    for (long k = 1; k <= n; k += b->step) {
        Status st;

        memory_fail_at(k);
        st = build(&text, b);
        failed += st == E_NOMEM;
        if (st && st != E_NOMEM)
            TEST_FAIL("%s: allocation %ld of %ld: expected E_NOMEM, found %s: %s", b->model, k, n, status_name(st),
                      status_message());
        else if (!st && strcmp(text, expected) != 0)
            TEST_FAIL("%s: allocation %ld of %ld fails, and the graph is another one", b->model, k, n);
        if (!st)
            free(text);
    }
    memory_fail_at(0);
    CU_ASSERT(failed > n / b->step / 2); /* few can be done without */
    free(expected);
}

static void test_training(void)
{
    try_all(&(Build){ SOURCE_DIR "/models/mlp.onnx",
                      { .build.mode = BUILD_TRAIN,
                        .batch.batch = 6,
                        .recipes.loss = &loss_cross_entropy,
                        .replicas.replicas = 2,
                        .replicas.devices = 2,
                        .update.clip = { .norm = 1 } },
                      2 });
}

static void test_accelerator(void)
{
    try_all(&(Build){ SOURCE_DIR "/models/mlp.onnx",
                      { .build.mode = BUILD_TRAIN,
                        .batch.batch = 6,
                        .recipes.loss = &loss_cross_entropy,
                        .types.precision = DT_BFLOAT16,
                        .backend.backend = { .accelerator = true, .fuses = fuses_all } },
                      1 });
}

static void test_statistics(void)
{
    try_all(&(Build){ SOURCE_DIR "/models/fashion_cnn.onnx",
                      { .build.mode = BUILD_ACCUMULATE,
                        .batch.batch = 6,
                        .recipes.loss = &loss_cross_entropy,
                        .recipes.metric = { { .def = &metric_accuracy } },
                        .replicas.replicas = 3,
                        .replicas.devices = 2 },
                      7 });
}

static void test_inference(void)
{
    try_all(
        &(Build){ SOURCE_DIR "/models/exported_encoder.onnx", { .build.mode = BUILD_INFER, .batch.batch = 2 }, 13 });
}

DEFINE_SUITE(build, { "a training step", test_training }, { "a step of an accelerator", test_accelerator },
             { "statistics and micro-batches", test_statistics }, { "inference", test_inference });
