/* Profiles of events whose times are made up: sums, shares, waits and steps that do not count, by hand. */
#include "exec/inspect/profile.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"

/* Each device multiplies [4, 8] by [8, 16], and both add up their products.  Weights are states, as trained ones are.
 */
static const char two_devices[] =
    "graph \"g\" {\n"
    "  input %a : float32[4,8]\n"
    "  input %b : float32[4,8]\n"
    "  state %fc.weight trainable : float32[8,16] = all 0\n"
    "  %x0 : float32[4,16] @d0 = MatMul(%a, %fc.weight)\n"
    "  %x1 : float32[4,16] @d1 = MatMul(%b, %fc.weight)\n"
    "  %y0 : float32[4,16] @d0, %y1 : float32[4,16] @d1 = dpexec.AllReduce(%x0, %x1) {spans=[0,1,1,2], devices=[0,1]}\n"
    "  output \"y0\" = %y0\n"
    "  output \"y1\" = %y1\n"
    "}\n";

static const Node *node_of(const Graph *g, const char *op, int nth)
{
    FOR_NODES(g, n)
        if (!strcmp(n->op->name, op) && !nth--)
            return n;
    return NULL;
}

static void add(Profile *p, const Graph *g, const Node *n, int device, uint64_t start, uint64_t end)
{
    trace_add(profile_trace(p), &(TraceEvent){ device, g, n, "kernel", 1000, start, end });
}

/* A step in microseconds: products of 10 and 14, then device 0 waits for 4, and the sum takes 6. */
static void run_step(Profile *p, const Graph *g, uint64_t runs, uint64_t forgotten, bool trains)
{
    const ProfileRun run = { .trains = trains, .runs = runs, .forgotten = forgotten, .seconds = 25e-6 };

    profile_begin_run(p);
    add(p, g, node_of(g, "MatMul", 0), 0, 1000, 11000);
    add(p, g, node_of(g, "MatMul", 1), 1, 1000, 15000);
    add(p, g, node_of(g, "AllReduce", 0), 0, 11000, 21000);
    add(p, g, node_of(g, "AllReduce", 0), 1, 15000, 21000);
    CHECK_OK(profile_take(p, &run));
}

static json_t *json_of(Profile *p)
{
    const DeviceSpec cpu = { .threads = 1 };
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    json_t *root;

    CHECK_OK(profile_measure(p, &cpu));
    CHECK_OK(profile_print_json(p, to));
    fclose(to);
    root = json_loads(text, 0, NULL);
    free(text);
    CU_ASSERT_PTR_NOT_NULL(root);
    return root;
}

static json_t *row(const json_t *root, const char *list, const char *key, const char *name)
{
    size_t i;
    json_t *r;

    json_array_foreach(json_object_get(root, list), i, r)
        if (!strcmp(json_string_value(json_object_get(r, key)), name))
            return r;
    return NULL;
}

static void check_number(const json_t *object, const char *key, double expected)
{
    const double found = json_number_value(json_object_get(object, key));

    if (fabs(found - expected) > 1e-9 * fabs(expected) + 1e-15)
        test_fail(__FILE__, __LINE__, "%s: %g, expected %g", key, found, expected);
}

static void check_rows(const json_t *root)
{
    const json_t *product = row(root, "operators", "operator", "MatMul"),
                 *sum = row(root, "operators", "operator", "AllReduce"), *layer = row(root, "layers", "layer", "fc"),
                 *peaks = json_object_get(root, "peaks");
    const double peak = json_number_value(json_object_get(json_object_get(peaks, "flops"), "float32")),
                 bytes = json_number_value(json_object_get(peaks, "bytes"));

    check_number(product, "calls", 1);
    check_number(product, "seconds", 12e-6); /* the mean of 10 and 14 */
    check_number(product, "flops", 2 * 4 * 8 * 16);
    check_number(product, "bytes", 1000);
    check_number(product, "of_peak", fmax(2 * 4 * 8 * 16 / peak, 1000 / bytes) / 12e-6);
    check_number(sum, "seconds", 6e-6);
    check_number(sum, "waited", 2e-6); /* 4 on one of two devices */
    check_number(layer, "seconds", 12e-6);
}

static void test_by_hand(void)
{
    Profile *p = NULL;
    Graph *g = NULL;
    json_t *root, *parts;

    if (!CHECK_OK(graph_parse(&g, two_devices, strlen(two_devices))) || !CHECK_OK(profile_create(&p, false)))
        return;
    for (uint64_t i = 1; i <= 5; i++) {
        run_step(p, g, i, 0, true);
        run_step(p, g, 9, 0, false); /* an evaluation */
        CHECK_OK(profile_end_step(p, 40e-6, 5e-6));
    }
    root = json_of(p);
    check_number(root, "steps", 3);
    check_number(root, "steps_seen", 5);
    check_number(root, "devices", 2);
    check_number(root, "seconds", 40e-6);
    check_rows(root);
    check_number(row(root, "operators", "operator", "MatMul"), "share", 12.0 / 40);
    parts = json_object_get(root, "parts");
    check_number(parts, "collectives", 6e-6);
    check_number(parts, "waiting_for_replicas", 2e-6);
    check_number(parts, "waiting_for_data", 5e-6);
    check_number(parts, "between_kernels", 5e-6); /* of 25 in the run, 20 are in nodes */
    check_number(parts, "between_steps", 10e-6);
    check_number(json_object_get(root, "phases"), "forward", 20e-6);
    json_decref(root);
    profile_free(p);
    graph_free(g);
}

/* On accelerators 20 steps are timed; the four behind them, in which steps are captured anew, count nowhere. */
static void test_window(void)
{
    Profile *p = NULL;
    Graph *g = NULL;
    json_t *root;
    int timed = 0;

    if (!CHECK_OK(graph_parse(&g, two_devices, strlen(two_devices))) || !CHECK_OK(profile_create(&p, true)))
        return;
    for (uint64_t i = 1; i <= 30; i++) {
        const ProfileRun run = { .trains = true, .runs = i };

        timed += profile_trace(p) != NULL;
        if (profile_trace(p))
            run_step(p, g, i, 0, true);
        else
            CHECK_OK(profile_take(p, &run));
        CHECK_OK(profile_end_step(p, i <= 26 ? 900e-6 : 50e-6, 40e-6));
    }
    CU_ASSERT_EQUAL(timed, 22);
    root = json_of(p);
    check_number(root, "steps", 20);
    check_number(root, "seconds", 50e-6);
    check_number(json_object_get(root, "parts"), "waiting_for_data", 30e-6); /* no more than the devices idle */
    json_decref(root);
    profile_free(p);
    graph_free(g);
}

/* A program that was freed takes its graph with it: the step under way is not counted, and its events are not read. */
static void test_forgotten(void)
{
    Profile *p = NULL;
    Graph *g = NULL, *other = NULL;
    json_t *root;

    if (!CHECK_OK(graph_parse(&g, two_devices, strlen(two_devices))) || !CHECK_OK(profile_create(&p, false)) ||
        !CHECK_OK(graph_parse(&other, two_devices, strlen(two_devices))))
        return;
    run_step(p, g, 8, 0, true);
    CHECK_OK(profile_end_step(p, 40e-6, 0));
    run_step(p, g, 8, 0, true); /* the first of two runs; the second is compiled, and the first one's program goes */
    graph_free(g);
    run_step(p, other, 8, 1, true);
    CHECK_OK(profile_end_step(p, 40e-6, 0));
    run_step(p, other, 8, 1, true);
    CHECK_OK(profile_end_step(p, 40e-6, 0));
    root = json_of(p);
    check_number(root, "steps_seen", 3);
    check_number(root, "steps", 2);
    check_rows(root);
    json_decref(root);
    profile_free(p);
    graph_free(other);
}

DEFINE_SUITE(profile, { "by hand", test_by_hand }, { "accelerators", test_window },
             { "freed programs", test_forgotten });
