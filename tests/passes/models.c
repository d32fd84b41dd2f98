/* The pipeline on every model of models/: which parameters are found, and that the training graph is sound. */
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "passes/report.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"
#include "passes/options/types.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"

/* Counted in Python from the files: float initializers, running statistics apart (these models have no others). */
static const struct {
    const char *name;
    int64_t n_param;
    int n_tensor, n_statistic;
} models[] = {
    { "exported_encoder", 107850, 37, 0 }, { "exported_folded", 38506, 14, 0 }, { "exported_mobilenet", 17546, 44, 28 },
    { "exported_resnet", 78042, 29, 18 },  { "fashion_cnn", 29178, 11, 6 },     { "mlp", 17226, 6, 0 },
    { "resnet20", 272474, 65, 42 },        { "transformer", 1032576, 74, 0 },   { "unet", 67166, 42, 20 },
};

static Status build_replicas(Graph *g, BuildMode mode, int replicas, int devices, Report *report, const char *until)
{
    BuildOptions opt = { .mode = mode,
                         .batch = &(BatchOptions){ .batch = 6 },
                         .recipes = &(RecipeOptions){ .loss = mode >= BUILD_EVAL ? &loss_cross_entropy : NULL },
                         .replicas = &(ReplicaOptions){ .replicas = replicas, .devices = devices },
                         .types = &(TypeOptions){ .dtype = DT_FLOAT64 } };

    return pipeline_run(g, &opt, interp_node, report, &(PipelineOptions){ .until = until });
}

static Status build(Graph *g, BuildMode mode, Report *report, const char *until)
{
    return build_replicas(g, mode, 1, 1, report, until);
}

static void check_states(const char *name, const Graph *g, int64_t n_param, int n_tensor, int n_statistic)
{
    int64_t params = 0;
    int tensors = 0, statistics = 0;

    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (v->kind != V_STATE || !strncmp(v->name, "dpexec.", 7))
            continue;
        tensors += v->trainable;
        params += v->trainable ? shape_numel(v->shape) : 0;
        statistics += !v->trainable;
    }
    if (params != n_param || tensors != n_tensor || statistics != n_statistic)
        TEST_FAIL("%s: %lld parameters in %d tensors and %d statistics, expected %lld in %d and %d", name,
                  (long long)params, tensors, statistics, (long long)n_param, n_tensor, n_statistic);
}

static void test_parameters(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int mode = BUILD_INFER; mode <= BUILD_ACCUMULATE; mode++) {
            Graph *g = mode == BUILD_CONTINUE ? NULL : model_import(models[i].name); /* of language models alone */

            if (g && CHECK_OK(build(g, (BuildMode)mode, NULL, "prepare-training")))
                check_states(models[i].name, g, models[i].n_param, models[i].n_tensor, models[i].n_statistic);
            graph_free(g);
        }
}

/* The whole pipeline in every mode; the verifier runs after each pass in debug builds, here in all of them. */
static void test_pipeline(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int mode = BUILD_INFER; mode <= BUILD_APPLY; mode++) {
            Graph *g = mode == BUILD_CONTINUE ? NULL : model_import(models[i].name); /* of language models alone */

            if (g && !CHECK_OK(build(g, (BuildMode)mode, NULL, NULL)))
                TEST_FAIL("%s in mode %d", models[i].name, mode);
            if (g)
                CHECK_OK(graph_verify(g));
            graph_free(g);
        }
}

/* parse(print(g)) == g: the texts are equal, and the text says all there is. */
static void check_text(const char *name, int replicas, int devices)
{
    Graph *g = model_import(name), *back = NULL;
    char *text = NULL, *again = NULL;

    if (g && CHECK_OK(build_replicas(g, BUILD_TRAIN, replicas, devices, NULL, NULL)) &&
        CHECK_OK(graph_text(&text, g, NULL)) && CHECK_OK(graph_parse(&back, text, strlen(text))) &&
        CHECK_OK(graph_text(&again, back, NULL))) {
        CHECK_OK(graph_verify(back));
        CU_ASSERT_EQUAL(g->n_node, back->n_node);
        if (strcmp(text, again))
            TEST_FAIL("%s does not read back to the same text", name);
    }
    free(text);
    free(again);
    graph_free(back);
    graph_free(g);
}

static void test_text(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        check_text(models[i].name, 1, 1);
        if (models[i].n_param < 100000)
            check_text(models[i].name, 3, 2);
    }
}

static void test_folded_is_noted(void)
{
    Graph *g = model_import("exported_folded");
    Report *r = report_create();
    bool noted = false;

    CHECK_OK(build(g, BUILD_TRAIN, r, "prepare-training"));
    for (int i = 0; i < r->n_note; i++)
        noted |= r->note[i].kind == NOTE_EXPORTER &&
                 strstr(r->note[i].text, "the weights of 6 of 6 convolutions are not the module's own");
    CU_ASSERT(noted);
    report_free(r);
    graph_free(g);
}

/* Each pass begins with what the one before it left; all take time, and the graph's memory only grows. */
static void test_stages(void)
{
    Graph *g = model_import("resnet20");
    Report *r = report_create();
    double seconds = 0;
    int plans = 0;

    CHECK_OK(build_replicas(g, BUILD_TRAIN, 2, 2, r, NULL));
    CHECK_OK(report_graph(r, g, &(Target){ 0 }));
    CU_ASSERT(r->n_stage > pipeline_len / 2);
    for (int i = 0; i < r->n_stage; i++) {
        const Stage *s = &r->stage[i], *last = i ? s - 1 : NULL;

        if (last && (s->before != last->nodes || s->graph_bytes < last->graph_bytes || s->seconds < 0))
            TEST_FAIL("%s: %d nodes after %d, %zu bytes after %zu, %g s", s->pass, s->before, last->nodes,
                      s->graph_bytes, last->graph_bytes, s->seconds);
        seconds += s->seconds;
        plans += !strcmp(s->pass, STAGE_PLAN) && s->scratch_bytes > 0;
    }
    CU_ASSERT(seconds > 0);
    CU_ASSERT(r->stage[0].before > 0 && r->stage[0].graph_bytes > 0);
    CU_ASSERT_EQUAL(plans, 1);
    report_free(r);
    graph_free(g);
}

DEFINE_SUITE(models, { "stages are measured", test_stages }, { "the pipeline runs in every mode", test_pipeline },
             { "text reads back", test_text }, { "folded batch-norm is noted", test_folded_is_noted },
             { "parameters are found", test_parameters });
