/* Gradients in 16 bits that are computed in float32: through LayerNormalization's Mean and InvStdDev, and where they
 * add up what one element has been read for several times.  On the CPU and on a CUDA device, against central
 * differences of the loss in float64. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/options/backend.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "passes/options/types.h"
#include "tests/exec/training.h"
#include "tests/harness/test.h"

enum { TEXT = 2048 };

static const char *const states[] = { "w", "scale", "bias" };
enum { N_STATES = sizeof states / sizeof *states };

#define NORM(OUTPUTS) "  " OUTPUTS " = LayerNormalization(%h, %scale, %bias)\n"
static const char *const losses[] = {
    NORM("%y, %mean, %inv") "  %a = Mul(%y, %y)\n  %b = Mul(%mean, %mean)\n  %c = Mul(%inv, %inv)\n  %ab = Add(%a, "
                            "%b)\n  %sum = Add(%ab, %c)\n",
    NORM("%y, %mean, %inv") "  %sum = Mul(%mean, %inv)\n",
    NORM("%y, %mean") "  %sum = Mul(%mean, %mean)\n",
    NORM("%y, _, %inv") "  %a = Mul(%y, %y)\n  %sum = Mul(%a, %inv)\n",
    "  %p = Gather(%h, %picked) {axis=1}\n  %sum = Mul(%p, %p)\n",
    "  %p = GatherND(%h, %places) {batch_dims=1}\n  %sum = Mul(%p, %p)\n",
    "  %p = Pad(%h, %pads) {mode=\"reflect\"}\n  %sum = Mul(%p, %p)\n",
};

/* Numbers that 16 bits hold. */
static void fill(Tensor *t, int seed)
{
    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_float(t, i, (double)((i * 37 + seed * 11) % 64 - 31) / 32);
}

static Graph *make(const char *loss, DType type, DType precision, bool cuda)
{
    static const char head[] =
        "graph \"norm\" {\n  input %x : float32[6,8]\n  state %w trainable : float32[8,5] = all 0\n"
        "  state %scale trainable : float32[5] = all 0\n  state %bias trainable : float32[5] = all 0\n"
        "  const %last : int64[1] = {1}\n  const %picked : int64[4] = {4,0,4,-1}\n  const %pads : int64[4] = "
        "{0,4,0,3}\n"
        "  const %places : int64[6,3,1] = {0,4,0,1,1,2,3,4,4,3,0,3,2,1,1,4,4,4}\n"
        "  %h = MatMul(%x, %w)\n";
    BuildOptions opt = { .mode = BUILD_TRAIN,
                         .recipes = &(RecipeOptions){ .loss = &loss_output, .loss_args = "each" },
                         .types = &(TypeOptions){ .dtype = type, .precision = precision },
                         .step = &(StepOptions){ .keep_gradients = true },
                         .backend =
                             &(BackendOptions){ .backend = cuda ? cuda_target(precision, false) : (Target){ 0 } } };
    char text[TEXT];
    Graph *g = NULL;

    snprintf(text, sizeof text, "%s%s  %%each = ReduceSum(%%sum, %%last) {keepdims=0}\n  output \"each\" = %%each\n}\n",
             head, loss);
    if (!CHECK_OK(graph_parse(&g, text, strlen(text))))
        return NULL;
    for (int i = 0; i < N_STATES; i++) {
        Tensor t = *value(g, graph_find(g, states[i]))->init;

        fill(&t, i + 1);
    }
    if (CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL)))
        return g;
    graph_free(g);
    return NULL;
}

static NamedTensor *inputs(Arena *a, const Graph *g)
{
    NamedTensor *in = ARENA_NEW(a, NamedTensor, g->n_input);

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        in[i] = (NamedTensor){ v->name, *tensor_create(a, v->dtype, v->shape) };
        fill(&in[i].tensor, 0);
    }
    return in;
}

static const Tensor **run(Arena *a, const Graph *g, ValueId state, const Tensor *instead)
{
    const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value);
    NamedTensor *in = inputs(a, g);

    for (int i = 0; i < g->n_input; i++)
        values[g->input[i].i] = &in[i].tensor;
    if (has_value(state))
        values[state.i] = instead;
    CHECK_OK(interp_run(a, g, values));
    return values;
}

/* d loss / d state by central differences; NULL where the loss does not read the state. */
static Tensor *differences(Arena *a, const Graph *g, const char *state)
{
    const double h = 1e-6;
    ValueId id = graph_find(g, state), loss = graph_output(g, OUT_LOSS);
    Tensor *t, *d;

    if (!has_value(id))
        return NULL;
    t = tensor_copy(a, value(g, id)->init);
    d = tensor_create(a, DT_FLOAT64, &t->shape);
    for (int64_t i = 0; i < tensor_numel(t); i++) {
        double at = tensor_float(t, i), up;

        tensor_set_float(t, i, at + h);
        up = tensor_float(run(a, g, id, t)[loss.i], 0);
        tensor_set_float(t, i, at - h);
        tensor_set_float(d, i, (up - tensor_float(run(a, g, id, t)[loss.i], 0)) / (2 * h));
        tensor_set_float(t, i, at);
    }
    return d;
}

/* What is smooth moves by a few roundings of the type (tests/exec/precision.c). */
static void compare(int loss, DType precision, const char *where, const char *state, const Tensor *found,
                    const Tensor *expected)
{
    double diff = 0, norm = 0, eps = precision == DT_BFLOAT16 ? 0x1p-8 : 0x1p-11;

    for (int64_t i = 0; expected && i < tensor_numel(expected); i++) {
        diff += pow((found ? tensor_float(found, i) : 0) - tensor_float(expected, i), 2);
        norm += pow(tensor_float(expected, i), 2);
    }
    if (!(sqrt(diff) <= 4 * eps * sqrt(norm)))
        TEST_FAIL("loss %d in %s on %s: gradient of %s differs by %g of %g", loss, dtype_name(precision), where, state,
                  sqrt(diff), sqrt(norm));
}

static void check_cpu(int loss, DType precision, Tensor *const *expected)
{
    Arena *a = arena_create();
    Graph *g = make(losses[loss], DT_NONE, precision, false);
    const Tensor **values = g ? run(a, g, NO_VALUE, NULL) : NULL;

    for (int i = 0; i < N_STATES && g; i++) {
        ValueId d = graph_output(g, arena_printf(a, OUT_GRAD_PREFIX "%s", states[i]));

        compare(loss, precision, "the CPU", states[i], has_value(d) ? values[d.i] : NULL, expected[i]);
    }
    graph_free(g);
    arena_free(a);
}

static void check_cuda(int loss, DType precision, Tensor *const *expected)
{
    Arena *a = arena_create();
    Graph *g = make(losses[loss], DT_NONE, precision, true);
    Rig rig;

    if (g && CHECK_OK(rig_open_cuda(&rig, g, 1, false)) && CHECK_OK(program_run(rig.program, inputs(a, g), g->n_input)))
        for (int i = 0; i < N_STATES; i++) {
            const char *name = arena_printf(a, OUT_GRAD_PREFIX "%s", states[i]);

            compare(loss, precision, "a CUDA device", states[i],
                    has_value(graph_output(g, name)) ? rig_output(&rig, name) : NULL, expected[i]);
        }
    if (g)
        rig_close(&rig);
    arena_free(a);
}

static void check_type(DType precision)
{
    for (int k = 0; k < (int)(sizeof losses / sizeof *losses); k++) {
        Arena *a = arena_create();
        Graph *g = make(losses[k], DT_FLOAT64, DT_NONE, false);
        Tensor *expected[N_STATES];

        for (int i = 0; i < N_STATES && g; i++)
            expected[i] = differences(a, g, states[i]);
        if (g) {
            check_cpu(k, precision, expected);
            check_cuda(k, precision, expected);
        }
        graph_free(g);
        arena_free(a);
    }
}

static void test_bfloat16(void) { check_type(DT_BFLOAT16); }
static void test_float16(void) { check_type(DT_FLOAT16); }

DEFINE_SUITE(wide_gradients, { "bfloat16", test_bfloat16 }, { "float16", test_float16 });
