/* Networks that were exported for one batch size: repaired, they compute batches of other sizes as the network with an
 * open batch does, to the bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/passes.gen.h"
#include "tests/harness/test.h"
#include "tests/passes/frozen_network.h"
#include "tests/passes/random_networks.h"

static const int64_t frozen_at[] = { 1, 2, 4 }, run_at[] = { 2, 5 };
enum { FROZEN = sizeof frozen_at / sizeof *frozen_at, RUNS = sizeof run_at / sizeof *run_at };

/* *out: the output for a batch of this size, in `a`. */
static Status compute(const Tensor **out, Arena *a, Graph *g, int64_t batch)
{
    const BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = batch } };
    const Tensor **values;

    TRY(pipeline_run(g, &opt, interp_node, NULL, NULL));
    values = ARENA_NEW(a, const Tensor *, g->n_value);
    for (int i = 0; i < g->n_input; i++) {
        Tensor *t = tensor_create(a, DT_FLOAT32, value(g, g->input[i])->shape);

        for (int64_t k = 0; k < tensor_numel(t); k++)
            tensor_set_float(t, k, (double)((k + i) * 37 % 101) / 50 - 1);
        values[g->input[i].i] = t;
    }
    TRY(interp_run(a, g, values));
    *out = values[g->output[0].value.i];
    return ST_OK;
}

/* *out: what the text's network computes after repair, in `a`; `opened`: its input no longer says the batch's size. */
static Status repaired(const Tensor **out, Arena *a, const char *text, bool opened, int64_t batch)
{
    const BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = batch } };
    Graph *g = NULL;
    Status st = graph_parse(&g, text, strlen(text));

    if (!st && opened)
        random_network_batch(g, -1);
    if (!st)
        st = model_repair(g, &opt, interp_node, NULL);
    for (int i = 0; !st && g->batch_found == BATCH_FOUND && i < g->n_input; i++)
        if (value(g, g->input[i])->carries != random_network_has_batch(value(g, g->input[i])))
            st = FAIL(E_INTERNAL, "input '%s' carries the batch along axes %u", value(g, g->input[i])->name,
                      value(g, g->input[i])->carries);
    if (!st)
        st = compute(out, a, g, batch);
    graph_free(g);
    return st;
}

/* `name` and `number` name the network in messages. */
static void check_network(const char *open, int64_t frozen, bool opened, const char *name, int number)
{
    char *text = NULL;

    if (!CHECK_OK(frozen_network(&text, open, frozen)))
        return;
    for (int i = 0; i <= RUNS; i++) {
        const int64_t batch = i < RUNS ? run_at[i] : frozen;
        const Tensor *want = NULL, *found = NULL;
        Arena *a = arena_create();
        Graph *g = NULL;

        if (CHECK_OK(graph_parse(&g, open, strlen(open)))) {
            random_network_batch(g, batch);
            CHECK_OK(compute(&want, a, g, batch));
            if (repaired(&found, a, text, opened, batch))
                TEST_FAIL("%s %d, %s for %lld, at %lld: %s", name, number, opened ? "opened" : "frozen",
                          (long long)frozen, (long long)batch, status_message());
            else if (want && !tensor_same(want, found))
                TEST_FAIL("%s %d, %s for %lld, at %lld: other numbers than the open network's", name, number,
                          opened ? "opened" : "frozen", (long long)frozen, (long long)batch);
        }
        graph_free(g);
        arena_free(a);
    }
    if (getenv("SHOW_NETWORKS"))
        fprintf(stderr, "%s %d for %lld:\n%s", name, number, (long long)frozen, text);
    free(text);
}

static FileBatch says(int64_t frozen) { return frozen == 1 ? FILE_ONE : FILE_SEVERAL; }

static void check_parts(bool opened)
{
    for (int i = 0; i < FROZEN; i++) {
        char *text;

        for (int part = 0; (text = part_network(part, opened ? FILE_OPEN : says(frozen_at[i]))); part++) {
            check_network(text, frozen_at[i], opened, "part", part);
            free(text);
        }
    }
}

static void test_parts(void) { check_parts(false); }

static void test_opened_parts(void) { check_parts(true); }

static void test_chains(void)
{
    for (uint32_t seed = 0; seed < 150; seed++) {
        const int64_t frozen = frozen_at[seed % FROZEN];
        char *text = random_network(seed, says(frozen));

        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        check_network(text, frozen, false, "network", (int)seed);
        free(text);
    }
}

DEFINE_SUITE(frozen_batch, { "each way to write the batch into a constant", test_parts },
             { "the same with an open input", test_opened_parts }, { "chains", test_chains });
