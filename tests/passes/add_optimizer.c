/* The optimizers against PyTorch, and accumulation against one batch. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/update.gen.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"
#include "passes/build_parts.h"
#include "tests/passes/step.h"
#include "tests/passes/torch_values.h"

extern const Pass pass_criterion, pass_autodiff, pass_add_optimizer, pass_group_updates;

/* Parameters a[5] and b[2] whose gradients are inputs. */
static Graph *given_gradients(void)
{
    Graph *g = graph_create("updates");
    Shape s[] = { SHAPE(5), SHAPE(2) };
    static const char *const name[] = { "a", "b" }, *const grad[] = { "da", "db" },
                             *const out[] = { OUT_GRAD_PREFIX "a", OUT_GRAD_PREFIX "b" };

    for (int i = 0; i < 2; i++) {
        Tensor t = { DT_FLOAT64, s[i], (void *)(uintptr_t)(start_w + 5 * i) };

        graph_add_state(g, name[i], &t, true);
        graph_add_output(g, out[i], graph_add_input(g, grad[i], DT_FLOAT64, &s[i]));
    }
    return g;
}

/* One node updates both parameters, and scales their gradients itself; not where each has a number of its own. */
static void group(Graph *g, BuildParts *opt)
{
    const bool by_norm = opt->recipes.optimizer == &optimizer_lamb || opt->recipes.optimizer == &optimizer_lars;
    int updates = 0, multiplications = 0;

    opt->backend.backend.accelerator = true;
    CHECK_OK(step_pass(g, &pass_group_updates, build_parts(opt)));
    CHECK_OK(graph_verify(g));
    FOR_NODES(g, n) {
        updates += n->op == &op_Update;
        multiplications += n->op == &op_Mul && value(g, n->out[0])->shape->rank;
    }
    CU_ASSERT_EQUAL(updates, by_norm ? 2 : 1);
    CU_ASSERT(by_norm || multiplications == 0);
}

static void run_updates(const Updates *u, bool grouped)
{
    BuildParts opt = { .build.mode = BUILD_TRAIN,
                       .recipes.optimizer = u->optimizer,
                       .recipes.settings = u->settings,
                       .update.clip.norm = u->clip };
    Graph *g = given_gradients();
    Shape a = SHAPE(5), b = SHAPE(2), scalar = shape_scalar();
    double steps = 4;
    Step s;

    CHECK_OK(step_pass(g, &pass_add_optimizer, build_parts(&opt)));
    if (grouped)
        group(g, &opt);
    if (!CHECK_OK(step_open(&s, g)))
        return;
    step_give(&s, IN_LR, step_floats(&s, &scalar, &u->lr));
    for (int k = 0; k < 4; k++) {
        step_give(&s, "da", step_floats(&s, &a, step_gradients + 7 * k));
        step_give(&s, "db", step_floats(&s, &b, step_gradients + 7 * k + 5));
        CHECK_OK(step_run(&s));
        step_check(u->name, step_state(&s, "a"), u->w + 7 * k, 5);
        step_check(u->name, step_state(&s, "b"), u->w + 7 * k + 5, 2);
    }
    step_check("step", step_state(&s, STATE_STEP), &steps, 1);
    if (u->clip > 0)
        step_check("norm", step_output(&s, OUT_GRAD_NORM), &u->norm, 1);
    CU_ASSERT_FALSE(has_value(graph_output(s.g, OUT_GRAD_PREFIX "a")));
    step_close(&s);
}

static void test_updates(void)
{
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
        run_updates(&updates[i], false);
}

static void test_grouped(void)
{
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
        run_updates(&updates[i], true);
}

/* ---- accumulation ---- */

enum { N = 7, FEATURES = 3, CLASSES = 4 };

/* x [n, 3] -> w [3, 4] -> scores. */
static Graph *linear(int n, const BuildOptions *opt)
{
    Graph *g = graph_create("linear");
    Shape xs = SHAPE(n, FEATURES), ws = SHAPE(FEATURES, CLASSES);
    Tensor *w = tensor_create(g->arena, DT_FLOAT64, &ws);
    ValueId x;

    for (int i = 0; i < FEATURES * CLASSES; i++)
        tensor_set_float(w, i, 0.1 * ((i * 7) % 12) - 0.5);
    x = graph_add_input(g, "x", DT_FLOAT64, &xs);
    graph_add_output(g, "y", EMIT(g, MatMul, NULL, x, graph_add_state(g, "w", w, true)));
    CHECK_OK(step_pass(g, &pass_criterion, opt));
    CHECK_OK(step_pass(g, &pass_autodiff, opt));
    CHECK_OK(step_pass(g, &pass_add_optimizer, opt));
    return g;
}

static const double batch_x[N * FEATURES] = { .3,  -1,  .2, .7, .1,   -.4, 1.2, .9, -.8, .5, .6,
                                              -.2, -.1, .4, .8, -1.1, .2,  .3,  .6, -.7, 1 };
static const long long batch_t[N] = { 0, 3, 1, 1, 2, 0, 3 };
static const double lr = 0.5;

static void give_batch(Step *s, int from, int n)
{
    Shape xs = SHAPE(n, FEATURES), ts = SHAPE(n);

    step_give(s, "x", step_floats(s, &xs, batch_x + from * FEATURES));
    step_give(s, "target", step_ints(s, &ts, batch_t + from));
}

static void carry_state(Step *to, const Step *from)
{
    for (uint32_t i = 1; i < from->g->n_value; i++) {
        ValueId v = from->g->value[i]->kind == V_STATE ? graph_find(to->g, from->g->value[i]->name) : NO_VALUE;

        if (has_value(v))
            to->state[v.i] = from->state[i];
    }
}

/* Micro-batches of 4, 1 and 2 samples, in two groups of state; the sums must be zero after the step. */
static void accumulate_as_one(BuildParts opt)
{
    static const int size[] = { 4, 1, 2 };
    Shape scalar = shape_scalar();
    Step one, apply, micro[3];
    double zeros[FEATURES * CLASSES] = { 0 };

    opt.build.mode = BUILD_TRAIN;
    CHECK_OK(step_open(&one, linear(N, build_parts(&opt))));
    opt.build.mode = BUILD_APPLY;
    CHECK_OK(step_open(&apply, linear(2, build_parts(&opt))));
    opt.build.mode = BUILD_ACCUMULATE;
    for (int i = 0; i < 3; i++)
        CHECK_OK(step_open(&micro[i], linear(size[i], build_parts(&opt))));
    step_give(&one, IN_LR, step_floats(&one, &scalar, &lr));
    step_give(&apply, IN_LR, step_floats(&apply, &scalar, &lr));
    for (int k = 0; k < 2; k++) {
        give_batch(&one, 0, N);
        CHECK_OK(step_run(&one));
        for (int i = 0, from = 0; i < 3; from += size[i++]) {
            carry_state(&micro[i], i ? &micro[i - 1] : &apply);
            give_batch(&micro[i], from, size[i]);
            CHECK_OK(step_run(&micro[i]));
        }
        carry_state(&apply, &micro[2]);
        CHECK_OK(step_run(&apply));
        step_check("weights", step_state(&apply, "w"), step_state(&one, "w")->data, FEATURES * CLASSES);
        step_check("loss", step_output(&apply, OUT_LOSS), step_output(&one, OUT_LOSS)->data, 1);
        CU_ASSERT_EQUAL(tensor_int(step_output(&apply, OUT_METRIC_SUM), 0),
                        tensor_int(step_output(&one, OUT_METRIC_SUM), 0));
        step_check("gradient sum", step_state(&apply, "w.grad_sum"), zeros, FEATURES * CLASSES);
        step_check("loss sum", step_state(&apply, STATE_LOSS_SUM), zeros, 1);
        step_check("loss weight", step_state(&apply, STATE_LOSS_WEIGHT), zeros, 1);
    }
    CU_ASSERT_EQUAL(tensor_int(step_state(&apply, STATE_STEP), 0), 2);
    CU_ASSERT_EQUAL(apply.g->n_input, 1);
    CU_ASSERT_EQUAL(micro[0].g->n_output, 0);
    step_close(&one);
    step_close(&apply);
    for (int i = 0; i < 3; i++)
        step_close(&micro[i]);
}

static void test_accumulation(void)
{
    accumulate_as_one((BuildParts){ .recipes.loss = &loss_cross_entropy,
                                    .recipes.metric = { { .def = &metric_accuracy } },
                                    .recipes.optimizer = &optimizer_sgd,
                                    .recipes.settings = "momentum=0.9" });
    accumulate_as_one((BuildParts){ .recipes.loss = &loss_cross_entropy,
                                    .recipes.metric = { { .def = &metric_accuracy } },
                                    .recipes.settings = "ignore-index=1",
                                    .recipes.optimizer = &optimizer_adam,
                                    .update.clip.norm = 0.1 });
}

static void test_wrong_options(void)
{
    BuildParts wrong[] = {
        { .build.mode = BUILD_TRAIN, .recipes.settings = "momentum=0;nesterov=true" },
        { .build.mode = BUILD_TRAIN, .recipes.settings = "momentum=-1" },
        { .build.mode = BUILD_TRAIN, .recipes.settings = "weight-decay=-1" },
        { .build.mode = BUILD_TRAIN, .recipes.optimizer = &optimizer_adam, .recipes.settings = "beta1=1" },
        { .build.mode = BUILD_TRAIN, .update.clip.norm = -1 },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Graph *g = given_gradients();

        CHECK_FAILS(E_INVALID, "--", step_pass(g, &pass_add_optimizer, build_parts(&wrong[i])));
        graph_free(g);
    }
}

DEFINE_SUITE(add_optimizer, { "updates are torch's", test_updates }, { "grouped too", test_grouped },
             { "micro-batches make the step of one batch", test_accumulation },
             { "wrong options", test_wrong_options });
