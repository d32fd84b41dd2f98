/* A trace has one event for every call of every device, inside the step, and is JSON. */
#include "exec/plan/trace.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/exec/training.h"
#include "tests/harness/test.h"

static json_t *traced(uint32_t room, int *n_steps)
{
    Arena *a = arena_create();
    Rig r;
    Trace *t = NULL;
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    json_t *root = NULL;

    *n_steps = 0;
    CHECK_OK(trace_create(&t, room));
    if (CHECK_OK(rig_open(&r, training_mlp(8, 2, 2), 2, 1))) {
        const Graph *g = program_graph(r.program);

        for (uint32_t i = 0; i < g->n_node; i++)
            *n_steps += program_kernel(r.program, i) != NULL;
        program_set_trace(r.program, t);
        CHECK_OK(program_run(r.program, training_batch(a, 8, 0), N_BATCH));
        trace_write(t, to);
        fclose(to);
        root = json_loads(text, 0, NULL);
    }
    free(text);
    trace_free(t);
    rig_close(&r);
    arena_free(a);
    return root;
}

/* The update of a parameter [IN_FEATURES, HIDDEN] or smaller reads three tensors and a scalar and writes two. */
static void check_args(const char *op, const json_t *args)
{
    const char *kernel = json_string_value(json_object_get(args, "kernel"));
    json_int_t bytes = json_integer_value(json_object_get(args, "bytes"));

    CU_ASSERT(op && kernel && (strcmp(op, "Update") || !strncmp(kernel, "cpu_", 4) || !strncmp(kernel, "ref_", 4)));
    CU_ASSERT(bytes > 0);
    if (op && !strcmp(op, "Update"))
        CU_ASSERT(bytes % 20 == 4 && bytes <= 20 * IN_FEATURES * HIDDEN + 4);
}

static void test_events(void)
{
    int n_kernels, devices = 0;
    json_t *root = traced(1000, &n_kernels), *events = json_object_get(root, "traceEvents"), *e;
    double first = INFINITY;
    size_t i;

    CU_ASSERT_PTR_NOT_NULL(root);
    CU_ASSERT(n_kernels > 10 && (int)json_array_size(events) >= n_kernels);
    json_array_foreach(events, i, e) {
        devices |= 1 << json_integer_value(json_object_get(e, "pid"));
        CU_ASSERT(json_real_value(json_object_get(e, "dur")) >= 0);
        first = fmin(first, json_number_value(json_object_get(e, "ts")));
        CU_ASSERT_PTR_NOT_NULL(json_string_value(json_object_get(e, "name")));
        check_args(json_string_value(json_object_get(e, "cat")), json_object_get(e, "args"));
    }
    CU_ASSERT_EQUAL(devices, 3);
    CU_ASSERT_EQUAL(first, 0); /* the first call is the beginning of time */
    json_decref(root);
}

static void test_full(void)
{
    int n_kernels;
    json_t *root = traced(5, &n_kernels);

    CU_ASSERT_EQUAL(json_array_size(json_object_get(root, "traceEvents")), 5);
    json_decref(root);
}

DEFINE_SUITE(trace, { "events", test_events }, { "a full trace drops the rest", test_full });
