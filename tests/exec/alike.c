/* What is prepared for a node serves those that are alike, and no others: neither of other attributes or constants nor
 * of another device. */
#include <string.h>

#include "exec/run/interp.h"
#include "exec/run/program_internal.h"
#include "graph/text/parse.h"
#include "tests/exec/training.h"
#include "tests/harness/test.h"

enum { BATCH = 8, SIDE = 6, ELEMENTS = BATCH * SIDE * SIDE };

/* rows and columns differ in the values of a constant alone. */
static const char model[] = "graph \"g\" {\n"
                            "  input %x : float32[8,6,6]\n"
                            "  const %one : int64[1] = {1}\n"
                            "  const %two : int64[1] = {2}\n"
                            "  %a : float32[8,6,6] = LeakyRelu(%x) {alpha=0.5}\n"
                            "  %b : float32[8,6,6] = LeakyRelu(%a) {alpha=0.5}\n"
                            "  %c : float32[8,6,6] = LeakyRelu(%b) {alpha=0.25}\n"
                            "  %rows : float32[8,6] = ReduceSum(%c, %one) {keepdims=0}\n"
                            "  %columns : float32[8,6] = ReduceSum(%c, %two) {keepdims=0}\n"
                            "  %again : float32[8,6] = ReduceSum(%b, %one) {keepdims=0}\n"
                            "  %flat : float32[8,6] = LeakyRelu(%rows) {alpha=0.5}\n"
                            "  %less : float32[8,6] = Sub(%flat, %columns)\n"
                            "  %y : float32[8,6] = Sub(%less, %again)\n"
                            "  output \"y\" = %y\n"
                            "}\n";

static Graph *parsed(void)
{
    Graph *g = NULL;

    CHECK_OK(graph_parse(&g, model, strlen(model)));
    return g;
}

/* Numbers of both signs that sums of few of them hold exactly. */
static NamedTensor input(Arena *a)
{
    const Shape shape = SHAPE(BATCH, SIDE, SIDE);
    NamedTensor x = { "x", *tensor_create(a, DT_FLOAT32, &shape) };

    for (int i = 0; i < ELEMENTS; i++)
        ((float *)x.tensor.data)[i] = (float)(i * 37 % 101 - 50);
    return x;
}

/* The call of device d whose node makes a copy of `name`. */
static const Call *call_of(const Program *p, const char *name, int d)
{
    const Graph *g = program_graph(p);

    FOR_NODES(g, n)
        if (n->device == d && n->n_out && !strcmp(value_logical_name(value(g, n->out[0])), name))
            return &p->ready.call[n->index];
    TEST_FAIL("nothing makes %s on device %d", name, d);
    return NULL;
}

static bool share(const Program *p, const char *a, int d, const char *b, int e)
{
    const Call *x = call_of(p, a, d), *y = call_of(p, b, e);

    return x && y && x->kernel && x->kernel == y->kernel && x->state && x->state == y->state;
}

static void check_shared(const Program *p, int devices)
{
    for (int d = 0; d < devices; d++) {
        CU_ASSERT(share(p, "a", d, "b", d));
        CU_ASSERT(!share(p, "a", d, "c", d));
        CU_ASSERT(!share(p, "a", d, "flat", d));
        CU_ASSERT(share(p, "rows", d, "again", d));
        CU_ASSERT(!share(p, "rows", d, "columns", d));
        CU_ASSERT(share(p, "less", d, "y", d));
        CU_ASSERT(!d || !share(p, "a", 0, "a", d));
    }
}

/* Every state has one owner, by whom it is released. */
static void check_owners(const Program *p)
{
    const Graph *g = program_graph(p);

    FOR_NODES(g, n) {
        const Call *c = &p->ready.call[n->index];
        int owners = 0;

        FOR_NODES(g, m)
            owners += p->ready.call[m->index].state == c->state && !p->ready.call[m->index].lent;
        CU_ASSERT(!c->state || owners == 1);
    }
}

static void check_run(Graph *g, const Tensor *expected, const NamedTensor *x, int devices)
{
    Rig r;

    if (CHECK_OK(rig_open(&r, g, devices, 1))) {
        check_shared(r.program, devices);
        check_owners(r.program);
        if (CHECK_OK(program_run(r.program, x, 1)))
            CU_ASSERT(tensor_same(rig_output(&r, "y"), expected));
    }
    rig_close(&r);
}

static void test_shared(void)
{
    Arena *a = arena_create();
    NamedTensor x = input(a);
    Graph *one = parsed();

    if (one) {
        const Tensor **values = ARENA_NEW(a, const Tensor *, one->n_value);

        values[graph_find(one, "x").i] = &x.tensor;
        if (CHECK_OK(interp_run(a, one, values)))
            for (int devices = 1; devices <= 2; devices++) {
                Graph *g = parsed();

                training_partition(g, devices, devices);
                check_run(g, values[graph_output(one, "y").i], &x, devices);
            }
        graph_free(one);
    }
    arena_free(a);
}

DEFINE_SUITE(alike, { "one state for nodes that are alike", test_shared });
