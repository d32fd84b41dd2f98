/* Nodes in the making: nothing changes before the target has agreed, and then all of it does. */
#include "graph/ir/node_draft.h"
#include "graph/ops/product.gen.h"
#include "graph/ops/unary.gen.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/readers.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"

typedef struct {
    Graph *g;
    Arena *a;
    Draft d;
} Fixture;

static bool never(const Graph *g, const Node *n)
{
    (void)g, (void)n;
    return false;
}

/* The sum of a product and a row, of which something else reads the product. */
static Fixture open_fixture(const Target *t)
{
    static const char text[] =
        "graph \"g\" { input %x : float32[2, 3]\n input %w : float32[3, 4]\n input %c : float32[4]\n"
        "%p = Gemm(%x, %w) {alpha=0.5}\n %y = Add(%c, %p)\n %r = Relu(%y)\n output \"r\" = %r }";
    Fixture f = { .a = arena_create() };

    CHECK_OK(graph_parse(&f.g, text, strlen(text)));
    draft_open(&f.d, f.g, t, 1, f.a);
    return f;
}

static void expect(Fixture *f, const char *text)
{
    char *found = NULL;

    if (CHECK_OK(graph_sort(f->g)) && CHECK_OK(graph_verify(f->g)) && CHECK_OK(graph_text(&found, f->g, NULL)) &&
        strcmp(found, text))
        TEST_FAIL("found\n%s", found);
    free(found);
    arena_free(f->a);
    graph_free(f->g);
}

#define INPUTS "graph \"g\" {\n  input %x : float32[2,3]\n  input %w : float32[3,4]\n  input %c : float32[4]\n"

/* The product as one with the row and Relu; `like` attributes are kept. */
static void write_product(Fixture *f)
{
    Node *relu = maker(f->g, graph_find(f->g, "r")), *add = maker(f->g, relu->in[0]);

    draft_begin(&f->d, maker(f->g, add->in[1]), &op_Product);
    draft_in(&f->d, 2, add->in[0]);
    draft_out(&f->d, 0, relu->out[0]);
    draft_attr(&f->d, &(Attr)STRING("activation", "relu"));
    draft_absorb(&f->d, add);
    draft_absorb(&f->d, relu);
}

static void test_becomes(void)
{
    const Target plain = { .accelerator = true };
    Fixture f = open_fixture(&plain);

    write_product(&f);
    CU_ASSERT_EQUAL(node_float(&f.d.node, "alpha"), 0.5);
    CU_ASSERT_EQUAL(node_int(&f.d.node, "wide"), 0);
    CU_ASSERT_TRUE(draft_try_apply(&f.d));
    CU_ASSERT_PTR_EQUAL(maker(f.g, graph_find(f.g, "r")), f.d.of);
    expect(&f, INPUTS "  %r : float32[2,4] = dpexec.Product(%x, %w, %c) {alpha=0.5, activation=\"relu\"} \"p\"\n"
                      "  output \"r\" = %r\n}\n");
}

/* A refusal, by the target or because the node is the host's, leaves the graph as it was. */
static void test_refused(void)
{
    const Target refuses = { .computes = never }, plain = { 0 };

    for (int hosted = 0; hosted < 2; hosted++) {
        Fixture f = open_fixture(hosted ? &plain : &refuses);

        FOR_NODES(f.g, n)
            n->device = hosted;
        write_product(&f);
        draft_new_out(&f.d, 1, f.d.node.out[0], ".aux");
        CU_ASSERT_FALSE(draft_try_apply(&f.d));
        FOR_NODES(f.g, n)
            n->device = -1;
        expect(&f, INPUTS "  %p : float32[2,4] = Gemm(%x, %w) {alpha=0.5}\n  %y : float32[2,4] = Add(%c, %p)\n"
                          "  %r : float32[2,4] = Relu(%y)\n  output \"r\" = %r\n}\n");
    }
}

/* New outputs get their types; what is absent at the end is left out, what is absent in between stays. */
static void test_new_output(void)
{
    const Target plain = { 0 };
    Fixture f = open_fixture(&plain);
    ValueId sum;

    draft_begin(&f.d, maker(f.g, graph_find(f.g, "p")), &op_Product);
    draft_in(&f.d, 3, NO_VALUE);
    draft_attr(&f.d, &(Attr)STRING("bias_grad", "b"));
    sum = draft_new_out(&f.d, 2, f.d.node.out[0], ".sum");
    CU_ASSERT_TRUE(draft_is_supported(&f.d));
    CU_ASSERT_EQUAL(f.d.node.n_in, 2);
    CU_ASSERT_EQUAL(f.d.node.n_out, 3);
    CU_ASSERT_EQUAL(value(f.g, sum)->shape->rank, 1);
    CHECK_STR(value(f.g, sum)->name, "p.sum");
    draft_apply(&f.d);
    CU_ASSERT_PTR_EQUAL(maker(f.g, sum), f.d.of);
    CU_ASSERT_EQUAL(value(f.g, sum)->out_index, 2);
    CHECK_OK(graph_verify(f.g));
    arena_free(f.a);
    graph_free(f.g);
}

/* The next draft knows nothing of the one before. */
static void test_begins_again(void)
{
    const Target plain = { 0 };
    Fixture f = open_fixture(&plain);
    Node *relu = maker(f.g, graph_find(f.g, "r"));

    write_product(&f);
    draft_begin(&f.d, relu, &op_Abs);
    CU_ASSERT_TRUE(draft_try_apply(&f.d));
    expect(&f, INPUTS "  %p : float32[2,4] = Gemm(%x, %w) {alpha=0.5}\n  %y : float32[2,4] = Add(%c, %p)\n"
                      "  %r : float32[2,4] = Abs(%y)\n  output \"r\" = %r\n}\n");
}

/* Memory that runs out is the graph's failure, and leaves it as it was. */
static void test_no_memory(void)
{
    const Target plain = { 0 };
    Fixture f = open_fixture(&plain);
    MemoryBudget *none = memory_budget_create(1, "--plan-memory");
    Arena *empty = arena_create_within(none);
    Node *product = maker(f.g, graph_find(f.g, "p"));
    const OpDef *op = product->op;

    draft_open(&f.d, f.g, &plain, 1, empty);
    write_product(&f);
    CU_ASSERT_FALSE(draft_try_apply(&f.d));
    CU_ASSERT_EQUAL(f.g->status, E_NOMEM);
    draft_apply(&f.d);
    CU_ASSERT_PTR_EQUAL(product->op, op);
    CU_ASSERT_EQUAL(product->n_in, 2);
    CU_ASSERT_PTR_NOT_NULL(maker(f.g, graph_find(f.g, "y")));
    arena_free(empty);
    memory_budget_free(none);
    arena_free(f.a);
    graph_free(f.g);
}

DEFINE_SUITE(draft, { "a node becomes another", test_becomes }, { "a refusal changes nothing", test_refused },
             { "new outputs", test_new_output }, { "a draft is begun again", test_begins_again },
             { "out of memory", test_no_memory });
