/* Programs compute what the interpreter computes, the same bits on any number of devices, and fail cleanly. */
#include "exec/run/program.h"
#include "graph/ops/view.gen.h"

#include <math.h>
#include <string.h>

#include "exec/run/interp.h"
#include "passes/pass.h"
#include "tests/exec/training.h"
#include "tests/harness/test.h"

enum { STEPS = 5, MAX_STATE = 8 };

typedef struct {
    float loss[STEPS];
    float *state[MAX_STATE];
    int64_t numel[MAX_STATE];
    int n_state;
} Outcome;

/* The unpartitioned graph by the interpreter: the oracle. */
static void interpret(Outcome *o, Arena *a, int batch)
{
    Graph *g = training_mlp(batch, 1, 1);
    const Tensor **state = ARENA_NEW(a, const Tensor *, g->n_value);

    for (int k = 0; k < STEPS; k++) {
        const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value);
        NamedTensor *in = training_batch(a, batch, k);

        memcpy(values, state, g->n_value * sizeof *values);
        for (int i = 0; i < N_BATCH; i++)
            values[graph_find(g, in[i].name).i] = &in[i].tensor;
        if (!CHECK_OK(interp_run(a, g, values)))
            break;
        o->loss[k] = *(float *)values[graph_output(g, OUT_LOSS).i]->data;
        for (int u = 0; u < g->n_update; u++)
            state[g->update[u].state.i] = values[g->update[u].next.i];
    }
    for (uint32_t i = 1; i < g->n_value; i++)
        if (state[i]) {
            o->numel[o->n_state] = tensor_numel(state[i]);
            o->state[o->n_state++] = state[i]->data;
        }
    graph_free(g);
}

static void execute(Outcome *o, Arena *a, int batch, int replicas, int devices)
{
    Rig r;

    if (CHECK_OK(rig_open(&r, training_mlp(batch, replicas, devices), devices, 1))) {
        for (int k = 0; k < STEPS; k++) {
            NamedTensor *in = training_batch(a, batch, k);

            if (!CHECK_OK(program_run(r.program, in, N_BATCH)))
                break;
            o->loss[k] = *(float *)rig_output(&r, OUT_LOSS)->data;
        }
        CHECK_OK(states_check_mirrors(r.states));
        for (int i = 0; i < states_count(r.states); i++) {
            const State *st = states_at(r.states, i);
            Tensor *t = tensor_create(a, st->dtype, &st->shape);

            CHECK_OK(states_get(r.states, st->name, t));
            o->numel[o->n_state] = tensor_numel(t);
            o->state[o->n_state++] = t->data;
        }
    }
    rig_close(&r);
}

/* States are listed in the order of the graph's values, whether partitioned or not. */
static void compare(const Outcome *a, const Outcome *b, double tolerance, const char *what)
{
    CU_ASSERT_EQUAL(a->n_state, b->n_state);
    for (int k = 0; k < STEPS; k++)
        if (!(fabs((double)a->loss[k] - (double)b->loss[k]) <= tolerance * fabs((double)a->loss[k])))
            TEST_FAIL("%s: loss of step %d is %.9g, expected %.9g", what, k, (double)b->loss[k], (double)a->loss[k]);
    for (int s = 0; s < a->n_state && s < b->n_state; s++) {
        double diff = 0, norm = 0;

        CU_ASSERT_EQUAL_FATAL(a->numel[s], b->numel[s]);
        for (int64_t i = 0; i < a->numel[s]; i++) {
            diff += pow((double)a->state[s][i] - (double)b->state[s][i], 2);
            norm += pow((double)a->state[s][i], 2);
        }
        if (!(diff <= tolerance * tolerance * norm))
            TEST_FAIL("%s: state %d differs by %g of %g", what, s, sqrt(diff), sqrt(norm));
    }
}

static void test_agrees_with_interpreter(void)
{
    static const int cases[][3] = { { 8, 1, 1 }, { 8, 2, 1 }, { 8, 2, 2 }, { 10, 4, 2 },
                                    { 7, 3, 2 }, { 3, 4, 2 }, { 5, 7, 3 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_create();
        Outcome expected = { 0 }, found = { 0 };
        char what[64];

        snprintf(what, sizeof what, "batch %d, %d replicas, %d devices", cases[i][0], cases[i][1], cases[i][2]);
        interpret(&expected, a, cases[i][0]);
        execute(&found, a, cases[i][0], cases[i][1], cases[i][2]);
        CU_ASSERT(isfinite(expected.loss[STEPS - 1]) && expected.loss[STEPS - 1] != expected.loss[0]);
        compare(&expected, &found, 2e-5, what);
        arena_free(a);
    }
}

static void test_same_bits_on_any_devices(void)
{
    Arena *a = arena_create();
    Outcome one = { 0 }, two = { 0 }, four = { 0 };

    execute(&one, a, 10, 4, 1);
    execute(&two, a, 10, 4, 2);
    execute(&four, a, 10, 4, 4);
    compare(&one, &two, 0, "two devices");
    compare(&one, &four, 0, "four devices");
    arena_free(a);
}

static void test_inputs_are_checked(void)
{
    Arena *a = arena_create();
    Rig r;

    if (CHECK_OK(rig_open(&r, training_mlp(8, 2, 2), 2, 1))) {
        NamedTensor *in = training_batch(a, 8, 0), *other = training_batch(a, 7, 0);

        CHECK_FAILS(E_INVALID, "input 'learning_rate' is missing", program_run(r.program, in, 2));
        CHECK_FAILS(E_INVALID, "input 'target' is missing; input 'learning_rate' is missing",
                    program_run(r.program, in, 1));
        in[1].tensor.dtype = DT_INT32;
        CHECK_FAILS(E_SHAPE, "input 'target' has type int32, expected int64", program_run(r.program, in, 3));
        CHECK_FAILS(E_SHAPE, "input 'x' has shape [7,6], expected [8,6]", program_run(r.program, other, 3));
        in[1].tensor.dtype = DT_INT64;
        in[0].tensor.data = NULL;
        CHECK_FAILS(E_INVALID, "input 'x' has no data", program_run(r.program, in, 3));
    }
    rig_close(&r);
    arena_free(a);
}

/* A label out of range makes one device's loss kernel fail: the other one must not wait for it for ever. */
static void test_failure_releases_all(void)
{
    Arena *a = arena_create();
    Rig r;

    if (CHECK_OK(rig_open(&r, training_mlp(8, 4, 4), 4, 1))) {
        NamedTensor *good = training_batch(a, 8, 0), *bad = training_batch(a, 8, 0);

        ((int64_t *)bad[1].tensor.data)[5] = CLASSES;
        for (int i = 0; i < 20; i++) {
            Status st = program_run(r.program, bad, N_BATCH);

            CHECK_FAILS(E_INVALID, "element 5 of input 'target' is ", st);
        }
        CHECK_OK(program_run(r.program, good, N_BATCH));
    }
    rig_close(&r);
    arena_free(a);
}

/* Squeeze without axes is given a constant for them when its input has a shape, which the caller's graph has no value
 * for. */
static void test_what_inference_adds(void)
{
    const Shape unknown = shape_unknown(), pair = SHAPE(2);
    Graph *g = graph_create("late");
    const ValueId x = graph_add_input(g, "x", DT_FLOAT32, &unknown);
    const Node *n = graph_add_node(g, &op_Squeeze, "squeeze", NULL, 1, &x, 1, NULL);
    const Tensor in = { DT_FLOAT32, SHAPE(1, 2, 1), (float[]){ 3, 4 } };
    Arena *a = arena_create();
    const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value + 1);

    values[x.i] = &in;
    values[g->n_value] = (const Tensor *)64; /* whoever reads on fails */
    if (CHECK_OK(interp_run(a, g, values))) {
        CU_ASSERT(shape_eq(&values[n->out[0].i]->shape, &pair));
        CU_ASSERT_EQUAL(tensor_float(values[n->out[0].i], 1), 4);
    }
    arena_free(a);
    graph_free(g);
}

DEFINE_SUITE(program, { "agrees with the interpreter", test_agrees_with_interpreter },
             { "four replicas give the same bits on 1, 2 and 4 devices", test_same_bits_on_any_devices },
             { "inputs are checked", test_inputs_are_checked },
             { "a failure releases all devices", test_failure_releases_all },
             { "inference may add constants", test_what_inference_adds });
