/* Batch normalisation in single operators, in every way to write it: mean and variance are no parameters, all else is
 * trained. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/passes.gen.h"
#include "tests/harness/test.h"

/* %inverse = 1 / sqrt(variance + eps), from %sum; or %root, which the formulas divide by. */
static const char *const deviations[] = {
    "  %root = Sqrt(%sum)\n  %inverse = Div(%one, %root)\n",
    "  %root = Sqrt(%sum)\n  %inverse = Reciprocal(%root)\n",
    "  %root = Pow(%sum, %half)\n  %inverse = Div(%one, %root)\n",
    "  %inverse = Pow(%sum, %minus_half)\n",
};
enum { DEVIATIONS = sizeof deviations / sizeof *deviations, WITH_ROOT = 3 };

/* Statistics in the shape in which they are combined, from %p0, the mean, and %q0, the variance: their names tell
 * nothing. */
static const char *const shapes[] = {
    "  %m = Identity(%p0)\n  %v = Identity(%q0)\n",
    "  %m = Reshape(%p0, %row)\n  %v = Reshape(%q0, %row)\n",
    "  %m = Unsqueeze(%p0, %axis)\n  %v = Unsqueeze(%q0, %axis)\n",
    ("  %mc = Cast(%p0) {to=1}\n  %m = Reshape(%mc, %row)\n  %vc = Cast(%q0) {to=1}\n"
     "  %v = Unsqueeze(%vc, %axis)\n"),
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
    const char *nodes, *swapped; /* swapped: the same with operands in the other order */
    bool root, folded;           /* it divides by the root; it has w2 and b */
} Formula;

static const Formula formulas[] = {
    { "  %d = Sub(%h, %m)\n  %s = Mul(%inverse, %scale)\n  %y = Mul(%d, %s)\n  %z = Add(%y, %shift)\n",
      "  %d = Sub(%h, %m)\n  %s = Mul(%scale, %inverse)\n  %y = Mul(%s, %d)\n  %z = Add(%shift, %y)\n", false, false },
    { "  %d = Sub(%h, %m)\n  %n = Div(%d, %root)\n  %y = Mul(%n, %scale)\n  %z = Add(%y, %shift)\n",
      "  %d = Sub(%h, %m)\n  %n = Div(%d, %root)\n  %y = Mul(%scale, %n)\n  %z = Add(%shift, %y)\n", true, false },
    { "  %s = Div(%scale, %root)\n  %y = Mul(%h, %s)\n  %o = Mul(%m, %s)\n  %p = Sub(%shift, %o)\n"
      "  %z = Add(%y, %p)\n",
      "  %s = Div(%scale, %root)\n  %y = Mul(%s, %h)\n  %o = Mul(%s, %m)\n  %p = Sub(%shift, %o)\n"
      "  %z = Add(%p, %y)\n",
      true, false },
    { "  %s = Mul(%scale, %inverse)\n  %y = Mul(%h, %s)\n  %o = Mul(%m, %s)\n  %p = Sub(%shift, %o)\n"
      "  %z = Add(%y, %p)\n",
      "  %s = Mul(%inverse, %scale)\n  %y = Mul(%s, %h)\n  %o = Mul(%s, %m)\n  %p = Sub(%shift, %o)\n"
      "  %z = Add(%p, %y)\n",
      false, false },
    { "  %s = Mul(%inverse, %scale)\n  %n = Neg(%m)\n  %o = Mul(%n, %s)\n  %p = Add(%o, %shift)\n"
      "  %y = Mul(%h, %s)\n  %z = Add(%y, %p)\n",
      "  %s = Mul(%scale, %inverse)\n  %n = Neg(%m)\n  %o = Mul(%s, %n)\n  %p = Add(%shift, %o)\n"
      "  %y = Mul(%s, %h)\n  %z = Add(%p, %y)\n",
      false, false },
    /* folded into a dense layer: w s, and (b - mean) s + shift */
    { "  %s = Mul(%inverse, %scale)\n  %ws = Mul(%w2, %s)\n  %d = Sub(%b, %m)\n  %ds = Mul(%d, %s)\n"
      "  %bs = Add(%ds, %shift)\n  %hs = MatMul(%h, %ws)\n  %z = Add(%hs, %bs)\n",
      "  %s = Mul(%scale, %inverse)\n  %ws = Mul(%s, %w2)\n  %d = Sub(%b, %m)\n  %ds = Mul(%s, %d)\n"
      "  %bs = Add(%shift, %ds)\n  %hs = MatMul(%h, %ws)\n  %z = Add(%bs, %hs)\n",
      false, true },
};
enum { FORMULAS = sizeof formulas / sizeof *formulas };

static bool is_trained(const Graph *g, const char *name)
{
    const Value *v = value(g, graph_find(g, name));

    return v->kind == V_STATE && v->trainable;
}

static void check_formula(int formula, int deviation, int shape, bool swapped)
{
    static const char *const trained[] = { "w", "scale", "shift", "w2", "b" };
    const BuildOptions opt = { .mode = BUILD_TRAIN };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt, .eval = interp_node };
    const Formula *f = &formulas[formula];
    char text[2048];
    Graph *g = NULL;

    snprintf(text, sizeof text,
             "graph \"g\" {\n  const %%p0 : float32[3] = {1,2,3}\n  input %%x : float32[4,3]\n"
             "  const %%q0 : float32[3] = {4,5,6}\n  const %%scale : float32[3] = {1,2,4}\n"
             "  const %%shift : float32[3] = {0,1,5}\n  const %%eps : float32[] = {0.001}\n"
             "  const %%one : float32[] = {1}\n  const %%half : float32[] = {0.5}\n"
             "  const %%minus_half : float32[] = {-0.5}\n  const %%w : float32[3,3] = {1,2,3,4,5,6,7,8,1}\n"
             "  const %%w2 : float32[3,3] = {3,2,3,4,1,6,7,8,2}\n  const %%b : float32[3] = {2,3,5}\n"
             "  const %%row : int64[2] = {1,3}\n  const %%axis : int64[1] = {0}\n  %%h = MatMul(%%x, %%w)\n"
             "%s  %%sum = Add(%s)\n%s%s  output \"z\" = %%z\n}\n",
             shapes[shape], swapped ? "%eps, %v" : "%v, %eps", deviations[deviation], swapped ? f->swapped : f->nodes);
    if (CHECK_OK(graph_parse(&g, text, strlen(text)))) {
        for (uint32_t i = 1; i < g->n_value; i++)
            g->value[i]->origin = g->value[i]->kind == V_CONST ? ORIGIN_INITIALIZER : ORIGIN_NONE;
        CHECK_OK(pass_infer_shapes.run(g, &ctx));
        CHECK_OK(pass_find_parameters.run(g, &ctx));
        for (int i = 0; i < (f->folded ? 5 : 3); i++)
            if (!is_trained(g, trained[i]))
                TEST_FAIL("formula %d, deviation %d, shape %d%s: %s is not trained", formula, deviation, shape,
                          swapped ? ", swapped" : "", trained[i]);
        if (is_trained(g, "p0") || is_trained(g, "q0"))
            TEST_FAIL("formula %d, deviation %d, shape %d%s: the %s is trained", formula, deviation, shape,
                      swapped ? ", swapped" : "", is_trained(g, "p0") ? "mean" : "variance");
    }
    graph_free(g);
    arena_free(ctx.scratch);
}

static void test_ways(void)
{
    for (int formula = 0; formula < FORMULAS; formula++)
        for (int deviation = 0; deviation < DEVIATIONS; deviation++)
            for (int shape = 0; shape < SHAPES; shape++) {
                if (formulas[formula].root && deviation >= WITH_ROOT)
                    continue;
                check_formula(formula, deviation, shape, false);
                check_formula(formula, deviation, shape, true);
            }
}

DEFINE_SUITE(norm_formulas, { "every way to write it", test_ways });
