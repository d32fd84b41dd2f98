/* What becomes of a model: repaired, and made the graph of inference and of a step of training on two replicas,
 * constants folded; each within a small budget of memory.  The graph verifies after every pass, and what cannot be
 * built is refused. */
#include "exec/run/interp.h"
#include "exec/plan/plan_budget.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/verify.h"
#include "passes/report.h"
#include "passes/build_options.h"
#include "passes/options/backend.h"
#include "passes/options/batch.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"
#include "tests/fuzz/common/fuzz.h"
#include "tests/harness/target.h"

enum { BUDGET = 1 << 20 };

static void build(const Graph *model, const BuildOptions *opt)
{
    Report *report = report_create();
    Graph *g;
    Status st;

    MUST(report, "memory");
    if (!plan_copy(&g, model, BUDGET)) {
        st = model_repair(g, opt, interp_node, report);
        if (!st)
            MUST(!graph_verify(g), "after the model passes");
        if (!st)
            st = pipeline_run(g, opt, interp_node, report, NULL);
        if (!st)
            st = report_graph(report, g, &backend_options(opt)->backend);
        if (st) {
            fuzz_refused(st);
            MUST(st != E_INTERNAL, "a mistake of ours");
        }
        graph_free(g);
    }
    report_free(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const BuildOptions infer = { .mode = BUILD_INFER,
                                 .replicas = &(ReplicaOptions){ .devices = 1 },
                                 .backend = &(BackendOptions){ .backend.fuses = fuses_all } },
                       train = { .mode = BUILD_TRAIN,
                                 .batch = &(BatchOptions){ .batch = 3 },
                                 .recipes = &(RecipeOptions){ .loss = &loss_mse,
                                                              .optimizer = &optimizer_sgd,
                                                              .settings = "momentum=0.9" },
                                 .replicas = &(ReplicaOptions){ .replicas = 2, .devices = 2 } };
    Graph *g;

    if (onnx_import_memory(&g, NULL, &(OnnxMemory){ .data = data, .size = size }, "fuzz",
                           &(ImportOptions){ .eval = interp_node }))
        return 0;
    if (!graph_is_step(g)) {
        build(g, &infer);
        build(g, &train);
    }
    graph_free(g);
    return 0;
}
