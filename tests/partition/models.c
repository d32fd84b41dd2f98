/* The models of this project, imported from their files: a whole training step over 1, 2, 3, 4 and 7 replicas, batches
 * that do not divide and batches smaller than the number of replicas. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"
#include "passes/options/target.h"
#include "passes/options/update.h"

typedef struct {
    int replicas, devices;
    int64_t batch;
    SplitMode split;
    const OptimizerDef *optimizer;
} Run;

static const double weights[] = { 2, 0, 5, 0.25 }; /* of replicas */

static void check(const Graph *model, const char *name, const Run *r, const Tensor *class_weights)
{
    BuildOptions opt = { .mode = BUILD_TRAIN,
                         .replicas = &(ReplicaOptions){ .replicas = r->replicas,
                                                        .devices = r->devices,
                                                        .split = r->split,
                                                        .weight = weights,
                                                        .n_weight = r->split == SPLIT_WEIGHTS ? r->replicas : 0 },
                         .batch = &(BatchOptions){ .batch = r->batch },
                         .recipes = &(RecipeOptions){ .loss = &loss_cross_entropy,
                                                      .optimizer = r->optimizer,
                                                      .settings = "momentum=0.9;weight-decay=0.01;ignore-index=2",
                                                      .metric = { { .def = &metric_accuracy } } },
                         .update = &(UpdateOptions){ .clip.norm = 1 },
                         .target = &(TargetOptions){ .class_weights = class_weights } };
    Arena *a = arena_create();
    Verify v = { 0 };

    if (CHECK_OK(verify_partition(&v, a, model, &opt, interp_node, 1)) && (v.n_row < 10 || !(v.worst <= 1e-12)))
        TEST_FAIL("%s, batch %lld over %d replicas on %d devices: '%s' differs by %.3e", name, (long long)r->batch,
                  r->replicas, r->devices, v.n_row ? v.row[0].name : "nothing", v.worst);
    arena_free(a);
}

static void check_model(const char *name, const Run *runs, int n, const Tensor *class_weights)
{
    Graph *g = model_import(name);

    for (int i = 0; i < n && g; i++)
        check(g, name, &runs[i], class_weights);
    graph_free(g);
}

static const Run all[] = {
    { 1, 1, 5, SPLIT_BALANCED, &optimizer_sgd },   { 2, 2, 5, SPLIT_BALANCED, &optimizer_sgd },
    { 3, 2, 5, SPLIT_CHUNK, &optimizer_adamw },    { 4, 4, 3, SPLIT_CHUNK, &optimizer_sgd },
    { 7, 3, 10, SPLIT_BALANCED, &optimizer_adam }, { 7, 7, 2, SPLIT_BALANCED, &optimizer_sgd },
    { 4, 2, 9, SPLIT_WEIGHTS, &optimizer_adam },
};
/* The large ones: one run with parts of unequal size, one with empty parts. */
static const Run few[] = { { 3, 2, 5, SPLIT_BALANCED, &optimizer_sgd },
                           { 4, 2, 3, SPLIT_CHUNK, &optimizer_adamw },
                           { 3, 3, 8, SPLIT_WEIGHTS, &optimizer_sgd } };
enum { N_ALL = sizeof all / sizeof *all, N_FEW = sizeof few / sizeof *few };

static void test_mlp(void) { check_model("mlp", all, N_ALL, NULL); }
static void test_cnn(void) { check_model("fashion_cnn", all, N_ALL, NULL); }

static void test_class_weights(void)
{
    double w[10] = { 1, 0.5, 2, 0.1, 3, 1, 1, 0, 0.7, 1.5 };
    Tensor t = { DT_FLOAT64, SHAPE(10), w };

    check_model("mlp", all, N_ALL, &t);
}

static void test_exported(void)
{
    check_model("exported_folded", few, N_FEW, NULL);
    check_model("exported_mobilenet", few, N_FEW, NULL);
    check_model("exported_encoder", few, N_FEW, NULL);
    check_model("exported_resnet", few, N_FEW, NULL);
}

DEFINE_SUITE(models, { "mlp", test_mlp }, { "convolutions with batch-norm", test_cnn },
             { "class weights", test_class_weights }, { "exported by PyTorch", test_exported });
