/* The criterion against PyTorch: values, sums and the gradient by the scores. */
#include <string.h>

#include "graph/base/numtext.h"
#include "graph/ops/view.gen.h"
#include "graph/ir/op.h"
#include "passes/train/class_axis.h"
#include "passes/build_parts.h"
#include "tests/harness/test.h"
#include "tests/passes/step.h"
#include "tests/passes/torch_values.h"

extern const Pass pass_criterion, pass_autodiff;

/* A model that is its scores: a trainable state, copied to the output. */
static Graph *scores_graph(const Shape *s, const double *v)
{
    Graph *g = graph_create("scores");
    Tensor *t = tensor_create(g->arena, DT_FLOAT64, s);
    ValueId x;
    Node *n;

    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_float(t, i, v[i]);
    x = graph_add_state(g, "scores", t, true);
    n = graph_add_node(g, &op_Identity, "y", NULL, 1, &x, 1, NULL);
    CHECK_OK(node_normalise(g, n));
    CHECK_OK(node_infer(g, n));
    graph_add_output(g, "y", n->out[0]);
    return g;
}

static void run_loss(Step *s, const Shape *shape, const double *x, const BuildOptions *opt, const Shape *target_shape,
                     const long long *ints, const double *floats)
{
    Graph *g = scores_graph(shape, x);

    CHECK_OK(step_pass(g, &pass_criterion, opt));
    if (build_mode(opt) != BUILD_EVAL)
        CHECK_OK(step_pass(g, &pass_autodiff, opt));
    if (CHECK_OK(step_open(s, g))) {
        step_give(s, "target", ints ? step_ints(s, target_shape, ints) : step_floats(s, target_shape, floats));
        CHECK_OK(step_run(s));
    }
}

static const char *class_settings(char text[96], const ClassLoss *c)
{
    char number[NUMBER_TEXT];
    int n = snprintf(text, 96, "label-smoothing=%s", text_float64(number, c->smoothing));

    if (c->ignore >= 0)
        snprintf(text + n, 96 - (size_t)n, ";ignore-index=%lld", (long long)c->ignore);
    return text;
}

static void test_class_losses(void)
{
    Shape shape = SHAPE(4, 3, 2), target = SHAPE(4, 2), classes = SHAPE(3);
    Tensor weights = { DT_FLOAT64, classes, (void *)(uintptr_t)class_weights };

    for (size_t i = 0; i < sizeof class_losses / sizeof *class_losses; i++) {
        const ClassLoss *c = &class_losses[i];
        char text[96];
        BuildParts opt = { .build.mode = BUILD_TRAIN,
                           .recipes.loss = c->loss,
                           .recipes.settings = class_settings(text, c),
                           .target.class_weights = c->weights ? &weights : NULL };
        double weight = c->sum / c->mean;
        Step s;

        run_loss(&s, &shape, scores, build_parts(&opt), &target, labels, NULL);
        step_check(c->name, step_output(&s, OUT_LOSS), &c->mean, 1);
        step_check(c->name, step_output(&s, OUT_LOSS_SUM), &c->sum, 1);
        step_check(c->name, step_output(&s, OUT_LOSS_WEIGHT), &weight, 1);
        step_check(c->name, step_output(&s, OUT_GRAD_PREFIX "scores"), c->grad, 24);
        CU_ASSERT_FALSE(has_value(graph_output(s.g, "y")));
        step_close(&s);
    }
}

/* The same scores with the classes last, found by the targets' shape: PyTorch's values, its gradient in that order. */
static void test_classes_last(void)
{
    Shape shape = SHAPE(4, 2, 3), target = SHAPE(4, 2), classes = SHAPE(3);
    Tensor weights = { DT_FLOAT64, classes, (void *)(uintptr_t)class_weights };

    for (size_t i = 0; i < sizeof class_losses / sizeof *class_losses; i++) {
        const ClassLoss *c = &class_losses[i];
        char text[96];
        ClassAxis found = { 0 };
        BuildParts opt = { .build.mode = BUILD_TRAIN,
                           .recipes.loss = c->loss,
                           .recipes.settings = class_settings(text, c),
                           .target.class_weights = c->weights ? &weights : NULL,
                           .target.target_shape = &target,
                           .target.class_axis_found = &found };
        double weight = c->sum / c->mean, x[24], grad[24];
        Step s;

        for (int k = 0; k < 24; k++) {
            const int from = k / 6 * 6 + k % 3 * 2 + k / 3 % 2;

            x[k] = scores[from];
            grad[k] = c->grad[from];
        }
        run_loss(&s, &shape, x, build_parts(&opt), &target, labels, NULL);
        CU_ASSERT(found.decided && found.axis == 2);
        step_check(c->name, step_output(&s, OUT_LOSS), &c->mean, 1);
        step_check(c->name, step_output(&s, OUT_LOSS_WEIGHT), &weight, 1);
        step_check(c->name, step_output(&s, OUT_GRAD_PREFIX "scores"), grad, 24);
        step_close(&s);
    }
}

/* What shapes tell: axis 0 stands for an error that asks or lists. */
static void test_class_axis(void)
{
    static const struct {
        Shape scores, target;
        unsigned open;
        int batch;
        int64_t classes;
        int axis;
        const char *text;
    } cases[] = {
        { { 2, { 8, 10 } }, { 1, { 8 } }, 0, 0, -1, 1, NULL },
        { { 3, { 8, 5, 7 } }, { 2, { 8, 5 } }, 0, 0, -1, 2, NULL },
        { { 3, { 8, 5, 7 } }, { 2, { 8, 7 } }, 0, 0, -1, 1, NULL },
        { { 3, { 5, 5, 7 } }, { 2, { 5, 5 } }, 0, 0, -1, 2, NULL }, /* a batch as large as the text is long */
        { { 3, { 8, 5, 7 } }, { 2, { 3, 5 } }, 0, 0, -1, 2, NULL }, /* the batch's length does not count */
        { { 3, { 8, 7, 7 } }, { 2, { 8, 7 } }, 0, 0, -1, 0, "give --class-axis" },
        { { 3, { 8, 7, 7 } }, { 2, { 8, 7 } }, 1 | 2, 0, -1, 2, NULL }, /* open: [batch, time, 7] */
        { { 3, { 8, 7, 7 } }, { 2, { 8, 7 } }, 7, 0, -1, 0, "give --class-axis" },
        { { 4, { 8, 6, 6, 6 } }, { 3, { 8, 6, 6 } }, 4 | 8, 0, -1, 1, NULL }, /* [batch, 6, height, width] */
        { { 3, { 7, 8, 7 } }, { 2, { 7, 8 } }, 0, 1, -1, 2, NULL },           /* [time, batch, classes] */
        { { 3, { 8, 7, 7 } }, { 2, { 8, 7 } }, 0, 0, 6, 0, "no axis of 6 classes" },
        { { 3, { 8, 5, 7 } }, { 2, { 8, 5 } }, 0, 0, 7, 2, NULL },
        { { 3, { 8, 5, 7 } },
          { 2, { 8, 6 } },
          0,
          0,
          -1,
          0,
          "[8,7] with the classes along axis 1; [8,5] with the classes along axis 2" },
        { { 2, { 8, 10 } }, { 2, { 8, 2 } }, 0, 0, -1, 0, "expected: [8] with the classes along axis 1" },
        /* axes of one element */
        { { 2, { 8, 10 } }, { 2, { 8, 1 } }, 0, 0, -1, 1, NULL },
        { { 4, { 8, 10, 1, 1 } }, { 1, { 8 } }, 0, 0, -1, 1, NULL },
        { { 4, { 8, 5, 6, 7 } }, { 4, { 8, 1, 6, 7 } }, 0, 0, -1, 1, NULL },
        { { 4, { 8, 6, 7, 5 } }, { 4, { 8, 6, 7, 1 } }, 0, 0, -1, 3, NULL },
        { { 3, { 7, 8, 5 } }, { 3, { 7, 8, 1 } }, 0, 1, -1, 2, NULL },
        { { 3, { 8, 7, 7 } }, { 3, { 8, 1, 7 } }, 0, 0, -1, 0, "give --class-axis" },
        { { 3, { 8, 1, 5 } }, { 1, { 8 } }, 0, 0, -1, 2, NULL },
        { { 2, { 8, 10 } }, { 2, { 1, 8 } }, 0, 0, -1, 0, "expected: [8] with the classes along axis 1" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ClassAxis a = { .scores = cases[i].scores,
                        .open = cases[i].open,
                        .batch = cases[i].batch,
                        .classes = cases[i].classes,
                        .output = "y" };

        if (cases[i].text) {
            CHECK_FAILS(strstr(cases[i].text, "give") ? E_INVALID : E_SHAPE, cases[i].text,
                        class_axis_decide(&a, &cases[i].target));
            CU_ASSERT_FALSE(a.decided);
        } else if (CHECK_OK(class_axis_decide(&a, &cases[i].target))) {
            CU_ASSERT_EQUAL(a.axis, cases[i].axis);
        }
    }
}

/* What is assumed without targets: [batch,time,classes] beside tokens [batch,time], [batch,classes,time] beside them.
 */
static void test_class_axis_assumed(void)
{
    static const struct {
        Shape scores, input;
        unsigned open;
        int axis;
        bool decided;
    } cases[] = {
        { { 2, { 8, 10 } }, { 2, { 8, 64 } }, 0, 1, true },
        { { 3, { 8, 5, 7 } }, { 2, { 8, 5 } }, 0, 2, false },
        { { 3, { 8, 7, 5 } }, { 2, { 8, 5 } }, 0, 1, false },
        { { 3, { 8, 5, 5 } }, { 2, { 8, 5 } }, 0, 1, false },
        { { 3, { 8, 5, 5 } }, { 2, { 8, 5 } }, 1 | 2, 2, false },
        { { 3, { 8, 5, 7 } }, { 3, { 8, 5, 3 } }, 0, 1, false },
        { { 4, { 8, 4, 32, 32 } }, { 4, { 8, 3, 32, 32 } }, 0, 1, false },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ClassAxis a = { .scores = cases[i].scores, .open = cases[i].open, .classes = -1, .output = "y" };
        Graph *g = graph_create("assumed");

        graph_add_input(g, "x", DT_INT64, &cases[i].input);
        class_axis_assume(&a, g);
        CU_ASSERT_EQUAL(a.axis, cases[i].axis);
        CU_ASSERT_EQUAL(a.decided, cases[i].decided);
        graph_free(g);
    }
}

static void test_element_losses(void)
{
    Shape shape = SHAPE(3, 2);

    for (size_t i = 0; i < sizeof element_losses / sizeof *element_losses; i++) {
        const ElementLoss *c = &element_losses[i];
        BuildParts opt = { .build.mode = BUILD_TRAIN, .recipes.loss = c->loss, .recipes.loss_args = c->args };
        double weight = 6;
        Step s;

        run_loss(&s, &shape, element_x, build_parts(&opt), &shape, NULL, element_z);
        step_check(c->name, step_output(&s, OUT_LOSS), &c->mean, 1);
        step_check(c->name, step_output(&s, OUT_LOSS_WEIGHT), &weight, 1);
        step_check(c->name, step_output(&s, OUT_GRAD_PREFIX "scores"), c->grad, 6);
        step_close(&s);
    }
}

/* Targets that differ from the scores by axes of one element have PyTorch's values of the shape without these. */
static void test_targets_fit(void)
{
    static const struct {
        Shape scores, target;
    } cases[] = {
        { { 2, { 6, 1 } }, { 1, { 6 } } },       { { 1, { 6 } }, { 2, { 6, 1 } } },
        { { 3, { 3, 2, 1 } }, { 2, { 3, 2 } } }, { { 4, { 3, 1, 2, 1 } }, { 2, { 3, 2 } } },
        { { 2, { 3, 2 } }, { 3, { 3, 1, 2 } } }, { { 3, { 1, 6, 1 } }, { 2, { 1, 6 } } },
    };

    for (size_t i = 0; i < sizeof element_losses / sizeof *element_losses; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            const ElementLoss *c = &element_losses[i];
            BuildParts opt = { .build.mode = BUILD_TRAIN,
                               .recipes.loss = c->loss,
                               .recipes.loss_args = c->args,
                               .target.target_shape = &cases[k].target };
            Step s;

            run_loss(&s, &cases[k].scores, element_x, build_parts(&opt), &cases[k].target, NULL, element_z);
            step_check(c->name, step_output(&s, OUT_LOSS), &c->mean, 1);
            step_check(c->name, step_output(&s, OUT_GRAD_PREFIX "scores"), c->grad, 6);
            step_close(&s);
        }
}

/* Class numbers with an axis of one element more or less than the scores without their classes: PyTorch's values. */
static void test_class_targets_fit(void)
{
    static const struct {
        Shape scores, target;
    } cases[] = {
        { { 3, { 4, 3, 2 } }, { 3, { 4, 1, 2 } } },
        { { 3, { 4, 3, 2 } }, { 3, { 4, 2, 1 } } },
        { { 5, { 4, 3, 2, 1, 1 } }, { 2, { 4, 2 } } },
        { { 4, { 4, 3, 1, 2 } }, { 2, { 4, 2 } } },
    };

    for (size_t i = 0; i < sizeof class_losses / sizeof *class_losses; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            const ClassLoss *c = &class_losses[i];
            Tensor weights = { DT_FLOAT64, SHAPE(3), (void *)(uintptr_t)class_weights };
            char text[96];
            BuildParts opt = { .build.mode = BUILD_TRAIN,
                               .recipes.loss = c->loss,
                               .recipes.settings = class_settings(text, c),
                               .target.class_weights = c->weights ? &weights : NULL,
                               .target.target_shape = &cases[k].target };
            Step s;

            run_loss(&s, &cases[k].scores, scores, build_parts(&opt), &cases[k].target, labels, NULL);
            step_check(c->name, step_output(&s, OUT_LOSS), &c->mean, 1);
            step_check(c->name, step_output(&s, OUT_GRAD_PREFIX "scores"), c->grad, 24);
            step_close(&s);
        }
}

/* Scores by hand: the first two samples are right, the third is ignored, the fourth wrong. */
static void test_accuracy(void)
{
    Shape shape = SHAPE(4, 2), target = SHAPE(4);
    const double x[] = { 2, 1, 1, 1, 0, 5, 3, 4 }, correct = 2, counted = 3;
    const long long t[] = { 0, 0, 9, 0 };
    BuildParts opt = { .build.mode = BUILD_EVAL,
                       .recipes.loss = &loss_cross_entropy,
                       .recipes.metric = { { .def = &metric_accuracy } },
                       .recipes.settings = "ignore-index=9" };
    Step s;

    run_loss(&s, &shape, x, build_parts(&opt), &target, t, NULL);
    step_check("correct", step_output(&s, OUT_METRIC_SUM), &correct, 1);
    step_check("counted", step_output(&s, OUT_METRIC_WEIGHT), &counted, 1);
    step_check("scores stay in evaluation", step_output(&s, "y"), x, 8);
    step_close(&s);
}

/* An output that is the loss: [4, 2] values, whose mean counts for the batch of 4. */
static void test_output_is_the_loss(void)
{
    Shape shape = SHAPE(4, 2);
    const double x[] = { 1, 2, 3, 4, 5, 6, 7, 9 }, grad[] = { .125, .125, .125, .125, .125, .125, .125, .125 };
    const double mean = 37.0 / 8, sum = 37.0 / 2, weight = 4;
    BuildParts opt = {
        .build.mode = BUILD_TRAIN, .recipes.loss = &loss_output, .recipes.loss_args = "y", .batch.batch = 4
    };
    Graph *g = scores_graph(&shape, x);
    Step s;

    CHECK_OK(step_pass(g, &pass_criterion, build_parts(&opt)));
    CHECK_OK(step_pass(g, &pass_autodiff, build_parts(&opt)));
    CHECK_OK(step_open(&s, g));
    CHECK_OK(step_run(&s));
    step_check("loss", step_output(&s, OUT_LOSS), &mean, 1);
    step_check("sum", step_output(&s, OUT_LOSS_SUM), &sum, 1);
    step_check("weight", step_output(&s, OUT_LOSS_WEIGHT), &weight, 1);
    step_check("gradient", step_output(&s, OUT_GRAD_PREFIX "scores"), grad, 8);
    step_close(&s);
}

/* Of a batch whose size no option says: that of the axis which carries it, in whatever input. */
static void test_weight_of_a_batch(void)
{
    Shape shape = SHAPE(1), table = SHAPE(7), batch = SHAPE(2, 3);
    const double x[] = { 5 }, zeros[7] = { 0 }, weight = 3, sum = 15;
    const BatchInput carries = { "x", 1 };
    BuildParts opt = { .build.mode = BUILD_EVAL,
                       .recipes.loss = &loss_output,
                       .recipes.loss_args = "y",
                       .batch.batch_input = &carries,
                       .batch.n_batch_input = 1 };
    Graph *g = scores_graph(&shape, x);
    Step s;

    graph_add_input(g, "table", DT_FLOAT64, &table);
    graph_add_input(g, "x", DT_FLOAT64, &batch);
    CHECK_OK(step_pass(g, &pass_criterion, build_parts(&opt)));
    CHECK_OK(step_open(&s, g));
    step_give(&s, "table", step_floats(&s, &table, zeros));
    step_give(&s, "x", step_floats(&s, &batch, zeros));
    CHECK_OK(step_run(&s));
    step_check("weight", step_output(&s, OUT_LOSS_WEIGHT), &weight, 1);
    step_check("sum", step_output(&s, OUT_LOSS_SUM), &sum, 1);
    step_close(&s);
}

static void refused(const char *text, Status code, const Shape *shape, BuildParts opt)
{
    static const double zeros[64];
    Graph *g = scores_graph(shape, zeros);

    opt.build.mode = BUILD_TRAIN;
    CHECK_FAILS(code, text, step_pass(g, &pass_criterion, build_parts(&opt)));
    graph_free(g);
}

static void test_wrong_options(void)
{
    Shape matrix = SHAPE(4, 3), vector = SHAPE(4), two = SHAPE(2), one = SHAPE(1);
    const double w[] = { 1, 2 };
    Tensor weights = { DT_FLOAT64, two, (void *)(uintptr_t)w };

    refused("--loss", E_INVALID, &matrix, (BuildParts){ .recipes.loss = NULL });
    refused("--logits z: the model has no such output; it has 'y'", E_INVALID, &matrix,
            (BuildParts){ .recipes.loss = &loss_mse, .target.logits = "z" });
    refused("--loss output:z: the model has no such output; it has 'y'", E_INVALID, &matrix,
            (BuildParts){ .recipes.loss = &loss_output, .recipes.loss_args = "z" });
    refused("[N, classes, ...]", E_SHAPE, &vector, (BuildParts){ .recipes.loss = &loss_cross_entropy });
    refused("3 classes", E_INVALID, &matrix,
            (BuildParts){ .recipes.loss = &loss_nll, .target.class_weights = &weights });
    refused("--label-smoothing: expected a number from 0 to 1, found '1.5'", E_INVALID, &matrix,
            (BuildParts){ .recipes.loss = &loss_cross_entropy, .recipes.settings = "label-smoothing=1.5" });
    refused("--metric accuracy", E_INVALID, &matrix,
            (BuildParts){ .recipes.loss = &loss_mse, .recipes.metric = { { .def = &metric_accuracy } } });
    refused("--metric mae", E_INVALID, &matrix,
            (BuildParts){ .recipes.loss = &loss_nll, .recipes.metric = { { .def = &metric_mae } } });
    refused("--class-axis 2", E_INVALID, &matrix, (BuildParts){ .recipes.loss = &loss_nll, .target.class_axis = 2 });
    refused("--class-axis -2", E_INVALID, &matrix, (BuildParts){ .recipes.loss = &loss_nll, .target.class_axis = -2 });
    refused("--class-axis", E_INVALID, &matrix, (BuildParts){ .recipes.loss = &loss_l1, .target.class_axis = 1 });
    refused("--loss-weight", E_INVALID, &matrix, (BuildParts){ .recipes.loss = &loss_l1, .target.loss_is_sum = true });
    refused("depends on parameters", E_INVALID, &one,
            (BuildParts){ .recipes.loss = &loss_output, .recipes.loss_args = "y", .target.loss_weight = "y" });
    refused("is [4,3]", E_SHAPE, &matrix,
            (BuildParts){ .recipes.loss = &loss_output, .recipes.loss_args = "y", .target.loss_weight = "y" });
    refused("--target", E_INVALID, &matrix, (BuildParts){ .recipes.loss = &loss_mse, .target.target = "scores" });
}

static void test_label_out_of_range(void)
{
    Shape shape = SHAPE(2, 3), target = SHAPE(2);
    const double x[6] = { 0 };
    const long long t[] = { 1, 3 };
    BuildParts opt = { .build.mode = BUILD_EVAL, .recipes.loss = &loss_cross_entropy };
    Graph *g = scores_graph(&shape, x);
    Step s;

    CHECK_OK(step_pass(g, &pass_criterion, build_parts(&opt)));
    CHECK_OK(step_open(&s, g));
    step_give(&s, "target", step_ints(&s, &target, t));
    CHECK_FAILS(E_INVALID, "label 3 of sample 1", step_run(&s));
    step_close(&s);
}

DEFINE_SUITE(criterion, { "class losses are torch's", test_class_losses }, { "classes last", test_classes_last },
             { "the axis of the classes", test_class_axis },
             { "the axis of the classes without targets", test_class_axis_assumed },
             { "element losses are torch's", test_element_losses },
             { "targets [N] fit scores [N,1]", test_targets_fit }, { "class targets [N,1]", test_class_targets_fit },
             { "accuracy", test_accuracy }, { "an output is the loss", test_output_is_the_loss },
             { "the weight of a batch", test_weight_of_a_batch }, { "wrong options", test_wrong_options },
             { "a label out of range", test_label_out_of_range });
