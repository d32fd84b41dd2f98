/* The check itself: partitioned graphs that compute something else fail it, by as little as 1e-9; tensors that rounding
 * alone moves far do not. */
#include <math.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/collective.gen.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"
#include "passes/build_options.h"

#define NET(mean, var)                                           \
    "graph \"net\" {\n"                                          \
    "  input %x : float64[%B,4]\n"                               \
    "  input %t : float64[%B,3]\n"                               \
    "  state %w1 trainable : float64[4,3] = all 0\n"             \
    "  state %w2 trainable : float64[3,3] = all 0\n"             \
    "  state %far trainable : float64[3] = all 0\n"              \
    "  const %offset : float64[1] = {1000}\n"                    \
    "  const %first : int64[1] = {0}\n"                          \
    "  const %eps : float64[1] = {1e-5}\n"                       \
    "  %h0 = MatMul(%x, %w1)\n"                                  \
    "  %h = Add(%h0, %offset)\n"                                 \
    "  %mean = ReduceMean(%h, %first) {keepdims=1}\n"            \
    "  %d = Sub(%h, %mean)\n" mean var "  %ve = Add(%v, %eps)\n" \
    "  %s = Sqrt(%ve)\n"                                         \
    "  %n = Div(%d, %s)\n"                                       \
    "  %y = MatMul(%n, %w2)\n"                                   \
    "  %z = Add(%y, %far)\n"                                     \
    "  %e = Sub(%z, %t)\n"                                       \
    "  %sq = Mul(%e, %e)\n"                                      \
    "  %loss = ReduceMean(%sq) {keepdims=0}\n"                   \
    "  output \"loss\" = %loss\n"                                \
    "}\n"

static const char net[] = NET("", "  %dd = Mul(%d, %d)\n  %v = ReduceMean(%dd, %first) {keepdims=1}\n");
static const char naive[] =
    NET("  %hh = Mul(%h, %h)\n  %mh = ReduceMean(%hh, %first) {keepdims=1}\n  %mm = Mul(%mean, %mean)\n",
        "  %v = Sub(%mh, %mm)\n");
static const Division three = { .replicas = 3, .devices = 2 };

static double times_of(const Graph *one, const Graph *many)
{
    Arena *a = arena_create();
    Verify v = { .times = NAN };

    CHECK_OK(verify_graphs(&v, a, one, many, &(BuildOptions){ 0 }, 7));
    arena_free(a);
    return v.times;
}

/* What `break_it` makes of the partitioned graph must fail, what it was before must not. */
static void check_mutant(const char *what, bool (*break_it)(Graph *))
{
    Graph *one = train_graph(net, 8), *many = NULL;
    double before, after;

    if (one && CHECK_OK(train_divide(&many, one, &three, NULL))) {
        before = times_of(one, many);
        if (!(before <= VERIFY_TIMES))
            TEST_FAIL("%s: %.3g times rounding before anything is broken", what, before);
        CU_ASSERT(break_it(many));
        after = times_of(one, many);
        if (!(after > VERIFY_TIMES))
            TEST_FAIL("%s: only %.3g times rounding", what, after);
    }
    graph_free(one);
    graph_free(many);
}

/* The first addition of two replicas' partial sums of one value. */
static Node *folded(Graph *g)
{
    FOR_NODES(g, n)
        if (n->op == &op_Add && n->replica < 0 && value(g, n->in[0])->replica >= 0 &&
            value(g, n->in[1])->replica >= 0 &&
            !strcmp(value_logical_name(value(g, n->in[0])), value_logical_name(value(g, n->in[1]))))
            return n;
    return NULL;
}

static bool drop_part(Graph *g)
{
    Node *n = folded(g);

    if (n)
        graph_replace(g, n->out[0], n->in[0]);
    return n;
}

static bool add_twice(Graph *g)
{
    Node *n = folded(g);

    if (n)
        node_set_input(g, n, 1, n->in[0]);
    return n;
}

static bool nudge_weight(Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++) {
        Tensor *t = (Tensor *)g->value[i]->init;

        if (g->value[i]->kind != V_STATE || strcmp(value_logical_name(g->value[i]), "w2"))
            continue;
        t = tensor_copy(g->arena, t);
        for (int64_t k = 0; t && k < tensor_numel(t); k++)
            tensor_set_float(t, k, tensor_float(t, k) * (1 + 1e-9));
        g->value[i]->init = t;
        return t;
    }
    return false;
}

static bool swap_parts(Graph *g)
{
    FOR_NODES(g, n)
        if (n->op == &op_AllReduce) {
            node_set_input(g, n, n->n_in - 1, n->in[0]);
            return true;
        }
    return false;
}

/* A copy of a state that is not updated: the first, or the last. */
static bool keep_copy(Graph *g, bool last)
{
    int found = -1;

    for (int i = 0; i < g->n_update; i++)
        if (!strcmp(value_logical_name(value(g, g->update[i].state)), "w2") && (last || found < 0))
            found = i;
    if (found >= 0)
        g->update[found].next = g->update[found].state;
    return found >= 0;
}

static bool keep_first(Graph *g) { return keep_copy(g, false); }
static bool keep_last(Graph *g) { return keep_copy(g, true); }

static void test_mutants(void)
{
    check_mutant("a dropped part", drop_part);
    check_mutant("a tree that adds a part twice", add_twice);
    check_mutant("a collective that reads a part twice", swap_parts);
    check_mutant("a weight off by 1e-9", nudge_weight);
    check_mutant("a first copy that is not updated", keep_first);
    check_mutant("a last copy that is not updated", keep_last);
}

/* E[x^2] - E[x]^2 of data far from zero, whole or in parts, is no rounding of the variance. */
static void test_naive_variance(void)
{
    Graph *one = train_graph(net, 8), *other = train_graph(naive, 8), *many = NULL;

    if (one && other && CHECK_OK(train_divide(&many, other, &three, NULL))) {
        double t = times_of(one, many);

        if (!(t > VERIFY_TIMES))
            TEST_FAIL("E[x^2] - E[x]^2: only %.3g times rounding", t);
    }
    graph_free(one);
    graph_free(other);
    graph_free(many);
}

/* A state and a gradient that are a difference of large numbers: 1e-9 and more off, and nothing is wrong with them. */
static const char cancelled[] = "graph \"cancelled\" {\n"
                                "  input %x : float64[%B,4]\n"
                                "  state %b trainable : float64[4] = all 0\n"
                                "  state %w trainable : float64[4,4] = all 0\n"
                                "  state %running : float64[1,4] = {0,0,0,0}\n"
                                "  const %first : int64[1] = {0}\n"
                                "  const %tiny : float64[1] = {1e-8}\n"
                                "  const %eps : float64[1] = {1e-10}\n"
                                "  %xw = MatMul(%x, %w)\n"
                                "  %xb = Add(%xw, %b)\n"
                                "  %m = ReduceMean(%xb, %first) {keepdims=1}\n"
                                "  %c = Sub(%xb, %m)\n"
                                "  %shifted = Add(%c, %tiny)\n"
                                "  %mean = ReduceMean(%shifted, %first) {keepdims=1}\n"
                                "  %cc = Mul(%shifted, %shifted)\n"
                                "  %v = ReduceMean(%cc, %first) {keepdims=1}\n"
                                "  %ve = Add(%v, %eps)\n"
                                "  %n = Div(%shifted, %ve)\n"
                                "  %sq = Mul(%n, %n)\n"
                                "  %loss = ReduceSum(%sq) {keepdims=0}\n"
                                "  update %running := %mean\n"
                                "  output \"loss\" = %loss\n"
                                "}\n";

static void test_conditioned(void)
{
    Graph *one = train_graph(cancelled, 10), *many = NULL;
    Arena *a = arena_create();
    Verify v = { 0 };

    if (one && CHECK_OK(train_divide(&many, one, &three, NULL)) &&
        CHECK_OK(verify_graphs(&v, a, one, many, &(BuildOptions){ 0 }, 7))) {
        if (!(v.worst > 1e-10))
            TEST_FAIL("'%s' differs by %.3g only: the case tests nothing", v.row[0].name, v.worst);
        if (!(v.times <= VERIFY_TIMES))
            TEST_FAIL("'%s' differs by %.3g, %.3g times rounding", v.row[0].name, v.row[0].difference, v.times);
    }
    arena_free(a);
    graph_free(one);
    graph_free(many);
}

DEFINE_SUITE(mutants, { "what is broken fails", test_mutants }, { "a naive variance fails", test_naive_variance },
             { "bad condition is no failure", test_conditioned });
