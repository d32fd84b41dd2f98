/* Gradients where a function has none of its own (ties of Max, the corner of Relu, bounds) are PyTorch's; central
 * differences say nothing of them. */
#include <math.h>

#include "tests/ops/kinks.h"
#include "tests/ops/kinks_clip.h"
#include "tests/ops/kinks_recurrent.h"

#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/graph.h"
#include "graph/text/parse.h"
#include "graph/ir/autodiff.h"
#include "tests/harness/test.h"
#include "tests/ops/check.h"

const char *const gradient_names[CHECK_INPUTS] = { "da", "db", "dc", "dd", "de", "df", "dg" };

Status graph_with_gradients(Graph **out, Arena *a, const char *text)
{
    ValueId wrt[CHECK_INPUTS], grads[CHECK_INPUTS];
    Graph *g;
    Status st;

    TRY(graph_parse(&g, text, strlen(text)));
    if (!(st = lower_graph(g))) {
        for (int i = 0; i < g->n_input; i++)
            wrt[i] = g->input[i];
        st = autodiff(g, a, graph_output(g, "loss"), g->n_input, wrt, grads);
    }
    for (int i = 0; i < g->n_input && !st; i++)
        graph_add_output(g, gradient_names[i], grads[i]);
    if (!st)
        st = graph_sort(g);
    if (st) {
        graph_free(g);
        return st;
    }
    *out = g;
    return ST_OK;
}

/* Attributes are float32, Selu's constants among them. */
static void compare(const Kink *k, int i, const Tensor *found)
{
    for (int e = 0; e < k->numel[i]; e++)
        if (!found || !(fabs(tensor_float(found, e) - k->grad[i][e]) <= 1e-6))
            TEST_FAIL("%s: the gradient by input %d at element %d is %g, PyTorch's %g", k->name, i, e,
                      found ? tensor_float(found, e) : NAN, k->grad[i][e]);
}

static void check(const Kink *k)
{
    Arena *a = arena_create();
    const Tensor **values;
    Graph *g = NULL;

    if (CHECK_OK(graph_with_gradients(&g, a, k->graph))) {
        values = ARENA_NEW(a, const Tensor *, g->n_value);
        for (int i = 0; i < k->n; i++) {
            Tensor *x = tensor_create(a, DT_FLOAT64, value(g, g->input[i])->shape);

            CU_ASSERT_EQUAL_FATAL(tensor_numel(x), k->numel[i]);
            memcpy(x->data, k->in[i], tensor_bytes(x));
            values[g->input[i].i] = x;
        }
        if (CHECK_OK(interp_run(a, g, values)))
            for (int i = 0; i < k->n; i++)
                compare(k, i, values[graph_output(g, gradient_names[i]).i]);
        graph_free(g);
    }
    arena_free(a);
}

static void test_kinks(void)
{
    for (size_t i = 0; i < sizeof kinks / sizeof *kinks; i++)
        check(&kinks[i]);
}

static void test_clip(void)
{
    for (size_t i = 0; i < sizeof clip_kinks / sizeof *clip_kinks; i++)
        check(&clip_kinks[i]);
}

static void test_recurrent(void)
{
    for (size_t i = 0; i < sizeof recurrent_kinks / sizeof *recurrent_kinks; i++)
        check(&recurrent_kinks[i]);
}

DEFINE_SUITE(kinks, { "gradients at ties, corners and bounds are PyTorch's", test_kinks },
             { "gradients at Clip's bounds are PyTorch's", test_clip },
             { "gradients of recurrent layers are PyTorch's", test_recurrent });
