/* What torch.onnx writes as single operators becomes Gelu and LayerNormalization, and a training step of it has
 * PyTorch's loss and gradients.  In float64 they agree to rounding only with the formulas recognised: their literals
 * were rounded to float32. */
#include <stdio.h>

#include "exec/run/interp.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/passes/exported_forms.h"
#include "tests/passes/step.h"
#include "passes/build_options.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "passes/options/types.h"

static void check_nodes(const Graph *g)
{
    CU_ASSERT_EQUAL(count_nodes(g, &op_Gelu), 4);
    CU_ASSERT_EQUAL(count_nodes(g, &op_GeluGrad), 4);
    CU_ASSERT_EQUAL(count_nodes(g, &op_LayerNormalization), 3);
    CU_ASSERT_EQUAL(count_nodes(g, &op_LayerNormGrad), 3);
    CU_ASSERT_EQUAL(
        count_nodes(g, &op_Erf) + count_nodes(g, &op_Tanh) + count_nodes(g, &op_Pow) + count_nodes(g, &op_Sqrt), 0);
}

static void check_step(Step *s)
{
    const Shape shape = SHAPE(2, 3, 4);
    const double rate = 0.5;

    step_give(s, "x", step_floats(s, &shape, exported_x));
    step_give(s, "target", step_floats(s, &shape, exported_target));
    step_give(s, IN_LR, step_floats(s, &(Shape){ 0 }, &rate));
    if (!CHECK_OK(step_run(s)))
        return;
    step_check("loss", step_output(s, OUT_LOSS), exported_loss, 1);
    for (size_t i = 0; i < sizeof exported_grads / sizeof *exported_grads; i++)
        step_check(exported_grads[i].name, step_output(s, exported_grads[i].name), exported_grads[i].grad,
                   exported_grads[i].n);
}

static void test_exports(void)
{
    const BuildOptions opt = { .mode = BUILD_TRAIN,
                               .types = &(TypeOptions){ .dtype = DT_FLOAT64 },
                               .recipes = &(RecipeOptions){ .loss = &loss_mse },
                               .step = &(StepOptions){ .keep_gradients = true } };

    for (size_t i = 0; i < sizeof exported_opsets / sizeof *exported_opsets; i++) {
        char path[512];
        Graph *g = NULL;
        Step s;

        snprintf(path, sizeof path, SOURCE_DIR "/tests/passes/exported_forms_%d.onnx", exported_opsets[i]);
        if (!CHECK_OK(onnx_import_file(&g, NULL, path, &(ImportOptions){ .eval = interp_node })) ||
            !CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL))) {
            graph_free(g);
            continue;
        }
        check_nodes(g);
        if (CHECK_OK(step_open(&s, g)))
            check_step(&s);
        step_close(&s);
    }
}

DEFINE_SUITE(exported_forms, { "of every opset", test_exports });
