/* Attention as models spell it becomes one node each way, and a few steps of training have PyTorch's losses in float64:
 * they tell of every gradient, and of what was taken for a parameter. */
#include <stdio.h>

#include "exec/run/interp.h"
#include "graph/ops/attention.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"
#include "kernels/backend.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/passes/attention_forms.h"
#include "tests/passes/step.h"
#include "passes/build_options.h"
#include "passes/options/backend.h"
#include "passes/options/batch.h"
#include "passes/options/recipes.h"
#include "passes/options/types.h"

/* Nothing is left of the parts, nor, where one tensor holds all, of what cut it up and joined its gradients. */
static void check_nodes(const Graph *g, bool packed)
{
    CU_ASSERT_EQUAL(count_nodes(g, &op_PackedAttention), packed);
    CU_ASSERT_EQUAL(count_nodes(g, &op_PackedAttentionGrad), packed);
    CU_ASSERT_EQUAL(count_nodes(g, &op_ScaledDotProductAttention), !packed);
    CU_ASSERT_EQUAL(count_nodes(g, &op_ScaledDotProductAttentionGrad), !packed);
    CU_ASSERT_EQUAL(count_nodes(g, &op_Softmax), 0);
    if (packed)
        CU_ASSERT_EQUAL(count_nodes(g, &op_Split) + count_nodes(g, &op_Slice) + count_nodes(g, &op_Gather) +
                            count_nodes(g, &op_SliceGrad) + count_nodes(g, &op_Concat),
                        0);
}

static void check_steps(Step *s, const AttentionForm *form)
{
    const Shape x = SHAPE(2, 5, 32), keep = SHAPE(2, 5);

    for (int i = 0; i < ATTENTION_STEPS; i++) {
        step_give(s, "x", step_floats(s, &x, attention_x));
        if (has_value(graph_find(s->g, "keep")))
            step_give(s, "keep", step_floats(s, &keep, attention_keep));
        step_give(s, "target", step_floats(s, &x, attention_target));
        step_give(s, IN_LR, step_floats(s, &(Shape){ 0 }, &attention_rate));
        if (!CHECK_OK(step_run(s)))
            return;
        step_check(form->file, step_output(s, OUT_LOSS), &form->loss[i], 1);
    }
}

static void test_forms(void)
{
    const BuildOptions opt = { .mode = BUILD_TRAIN,
                               .types = &(TypeOptions){ .dtype = DT_FLOAT64 },
                               .recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = "momentum=0" },
                               .batch = &(BatchOptions){ .batch = 2 },
                               .backend = &(BackendOptions){ .backend = cpu_target(DT_NONE, false, false, false) } };

    for (size_t i = 0; i < sizeof attention_forms / sizeof *attention_forms; i++) {
        char path[512];
        Graph *g = NULL;
        Step s;

        snprintf(path, sizeof path, SOURCE_DIR "/tests/passes/attention_forms/%s.onnx", attention_forms[i].file);
        if (!CHECK_OK(onnx_import_file(&g, NULL, path, &(ImportOptions){ .eval = interp_node })) ||
            !CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL))) {
            printf("%s\n", attention_forms[i].file);
            graph_free(g);
            continue;
        }
        check_nodes(g, attention_forms[i].packed);
        if (CHECK_OK(step_open(&s, g)))
            check_steps(&s, &attention_forms[i]);
        step_close(&s);
    }
}

DEFINE_SUITE(attention_forms, { "of every spelling", test_forms });
