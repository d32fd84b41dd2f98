/* Orders of execution, node by node, for the graphs that the rules were made for. */
#include "passes/plan/schedule.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/collective.gen.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "tests/harness/test.h"

/* A node `name` of replica r on device d. */
static ValueId put(Graph *g, const OpDef *op, const char *name, int r, int d, int n_in, const ValueId *in,
                   const Attr *attrs)
{
    Node *n = graph_add_node(g, op, name, attrs, n_in, in, 1, NULL);

    CHECK_OK(node_normalise(g, n));
    CHECK_OK(node_infer(g, n));
    n->replica = r;
    n->device = d;
    return n->out[0];
}

static ValueId one(Graph *g, const char *name, int r, int d, ValueId x)
{
    return put(g, &op_Relu, name, r, d, 1, &x, NULL);
}

static ValueId two(Graph *g, const char *name, int r, int d, ValueId x, ValueId y)
{
    return put(g, &op_Mul, name, r, d, 2, (ValueId[]){ x, y }, NULL);
}

static Node *all_reduce(Graph *g, const char *name, int parts, const ValueId *in, int devices)
{
    int64_t spans[16], device[8];
    Node *n;

    for (int i = 0; i < parts; i++) {
        spans[2 * i] = i;
        spans[2 * i + 1] = i + 1;
    }
    for (int d = 0; d < devices; d++)
        device[d] = d;
    n = graph_add_node(g, &op_AllReduce, name, ATTRS(INTS("spans", 2 * parts, spans), INTS("devices", devices, device)),
                       parts, in, devices, NULL);
    CHECK_OK(node_normalise(g, n));
    CHECK_OK(node_infer(g, n));
    return n;
}

static ValueId input(Graph *g)
{
    Shape s = SHAPE(8);

    return graph_add_input(g, "x", DT_FLOAT32, &s);
}

static ValueId state(Graph *g, const char *name)
{
    Shape s = SHAPE(8);

    return graph_add_state(g, name, tensor_create(g->arena, DT_FLOAT32, &s), true);
}

/* Schedules and compares the names in order; twice, because the order of an ordered graph is the same. */
static void check_order(Graph *g, const char *expected)
{
    for (int turn = 0; turn < 2; turn++) {
        Arena *a = arena_create();
        char text[1024] = "";

        CHECK_OK(schedule_graph(g, a));
        FOR_NODES(g, n) {
            strcat(text, *text ? " " : "");
            strcat(text, n->name);
        }
        CHECK_STR(expected, text);
        arena_free(a);
    }
    graph_free(g);
}

/* The clones of a node stand side by side, as expansion makes them: a0 a1 b0 b1 ...  On one device replica 0 runs
 * through before replica 1 begins; the reduction and the update follow at once. */
static void test_replicas_in_turn(void)
{
    Graph *g = graph_create("g");
    ValueId x = input(g), w = state(g, "w"), v[2] = { x, x };
    static const char *const names[3][2] = { { "a0", "a1" }, { "b0", "b1" }, { "c0", "c1" } };

    for (int k = 0; k < 3; k++)
        for (int r = 0; r < 2; r++)
            v[r] = k == 1 ? two(g, names[k][r], r, 0, v[r], w) : one(g, names[k][r], r, 0, v[r]);
    graph_add_update(g, w, two(g, "update", -1, 0, w, all_reduce(g, "reduce", 2, v, 1)->out[0]));
    check_order(g, "a0 b0 c0 a1 b1 c1 reduce update");
}

/* On two devices the last replicas of both run in step, because they complete the collectives: 0 has 0 and 1, 1 has
 * 2. */
static void test_devices_in_step(void)
{
    Graph *g = graph_create("g");
    ValueId x = input(g), v[3] = { x, x, x };
    static const char *const names[2][3] = { { "a0", "a1", "a2" }, { "b0", "b1", "b2" } };
    Node *reduce;

    for (int k = 0; k < 2; k++)
        for (int r = 0; r < 3; r++)
            v[r] = one(g, names[k][r], r, r / 2, v[r]);
    reduce = all_reduce(g, "reduce", 3, v, 2);
    graph_add_output(g, "y", reduce->out[0]);
    graph_add_output(g, "z", reduce->out[1]);
    check_order(g, "a0 b0 a1 a2 b1 b2 reduce");
}

/* b waits for a sum over the replicas: of replica 1 only what the sum needs (s1) runs before replica 0 goes on. */
static void test_waiting_runs_the_least(void)
{
    Graph *g = graph_create("g");
    ValueId x = input(g), a[2], s[2], b[2];
    Node *reduce;

    for (int r = 0; r < 2; r++)
        a[r] = one(g, r ? "a1" : "a0", r, 0, x);
    for (int r = 0; r < 2; r++)
        s[r] = one(g, r ? "s1" : "s0", r, 0, x);
    reduce = all_reduce(g, "total", 2, s, 1);
    for (int r = 0; r < 2; r++)
        b[r] = two(g, r ? "b1" : "b0", r, 0, a[r], reduce->out[0]);
    graph_add_output(g, "y", all_reduce(g, "reduce", 2, b, 1)->out[0]);
    check_order(g, "a0 s0 s1 total b0 a1 b1 reduce");
}

/* Each layer's update follows its gradient, once the layer's weight has been read for the last time (back1 reads
 * w1). */
static void test_updates_are_early(void)
{
    Graph *g = graph_create("g");
    ValueId x = input(g), w1 = state(g, "w1"), w2 = state(g, "w2"), h1, h2, d, g1, g2, decay;

    h1 = two(g, "fore1", -1, -1, x, w1);
    h2 = two(g, "fore2", -1, -1, h1, w2);
    g2 = two(g, "grad2", -1, -1, h2, h1);
    d = two(g, "back2", -1, -1, h2, w2);
    d = two(g, "back2b", -1, -1, d, h1);
    g1 = two(g, "grad1", -1, -1, d, x);
    decay = one(g, "decay2", -1, -1, w2);
    graph_add_update(g, w1, two(g, "update1", -1, -1, w1, g1));
    graph_add_update(g, w2, two(g, "update2", -1, -1, decay, g2));
    check_order(g, "fore1 fore2 grad2 back2 decay2 update2 back2b grad1 update1");
}

/* What needs state alone runs right before its use, not at the start. */
static void test_lazy(void)
{
    Graph *g = graph_create("g");
    ValueId x = input(g), w = state(g, "w"), v = state(g, "v"), tw = one(g, "tw", -1, -1, w),
            tv = one(g, "tv", -1, -1, v);
    ValueId a = two(g, "a", -1, -1, x, tw);

    graph_add_output(g, "y", two(g, "b", -1, -1, a, tv));
    graph_add_output(g, "z", one(g, "c", -1, -1, tw));
    check_order(g, "tw a tv b c");
}

DEFINE_SUITE(schedule, { "replicas run in turn", test_replicas_in_turn },
             { "devices run in step", test_devices_in_step },
             { "while waiting only the needed runs", test_waiting_runs_the_least },
             { "updates are early", test_updates_are_early }, { "state alone is lazy", test_lazy });
