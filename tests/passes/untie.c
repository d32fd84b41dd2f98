/* Which readers of one tensor mean the same parameter, on graphs that say it in one way each. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/options/parameters.h"
#include "passes/report.h"
#include "tests/harness/test.h"

extern const Pass pass_untie;

/* Three products (or sums, of a number) that read one tensor, the module of each, and the name under which it reads. */
typedef struct {
    const char *tensor, *op;
    const char *module[3], *read_as[3], *asked;
    const char *expected[3];
} Tied;

static const char matrix[] = " : float32[2,2] = {1,2,3,4}", number[] = " : float32[] = {2}";

static Graph *graph_of(const Tied *t, const char *value)
{
    char text[512];
    Graph *g = NULL;
    int n = snprintf(text, sizeof text,
                     "graph \"g\" {\n  input %%x : float32[2,2]\n  const %%%s%s\n  %%a = %s(%%x, %%%s)\n"
                     "  %%b = %s(%%a, %%%s)\n  %%c = %s(%%b, %%%s)\n  output \"c\" = %%c\n}\n",
                     t->tensor, value, t->op, t->tensor, t->op, t->tensor, t->op, t->tensor);

    if (!CHECK_OK(graph_parse(&g, text, (size_t)n)))
        return NULL;
    for (int i = 0; i < 3; i++) {
        const char **names;

        g->node[i]->module = t->module[i];
        if (!t->read_as[i])
            continue;
        names = ARENA_NEW(g->arena, const char *, 2);
        names[1] = t->read_as[i];
        g->node[i]->read_as = names;
        g->node[i]->n_read_as = 2;
    }
    return g;
}

static void check(const Tied *t, const char *value_text)
{
    Graph *g = graph_of(t, value_text);
    const BuildOptions opt = { .parameters = &(ParameterOptions){ .untie = &t->asked, .n_untie = t->asked != NULL } };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };

    if (g && CHECK_OK(pass_untie.run(g, &ctx)))
        for (int i = 0; i < 3; i++)
            if (strcmp(value(g, g->node[i]->in[1])->name, t->expected[i]))
                TEST_FAIL("reader %d of '%s' has '%s', expected '%s'", i, t->tensor, value(g, g->node[i]->in[1])->name,
                          t->expected[i]);
    arena_free(ctx.scratch);
    graph_free(g);
}

/* That one reader of a parameter says its name is enough for all its readers. */
static void test_by_name(void)
{
    check(
        &(Tied){
            "l.1.w", "MatMul", { "l.1", "l.0", "l.0" }, { NULL, "l.0.w", NULL }, NULL, { "l.1.w", "l.0.w", "l.0.w" } },
        matrix);
    check(&(Tied){ "l.1.w", "MatMul", { "l.1", "l.0", "l.0" }, { NULL }, NULL, { "l.1.w", "l.1.w", "l.1.w" } }, matrix);
}

/* The readers that the tensor's name is of keep it. */
static void test_asked(void)
{
    check(&(Tied){ "l.1.w", "MatMul", { "l.1", "l.0", "l.1" }, { NULL }, "l.*", { "l.1.w", "l.0.w", "l.1.w" } },
          matrix);
}

/* A number is a constant of the computation, not a parameter that began alike. */
static void test_numbers(void)
{
    check(&(Tied){ "l.0.w", "Mul", { "l.0", "l.1", "l.1" }, { NULL }, NULL, { "l.0.w", "l.0.w", "l.0.w" } }, number);
}

static Status untie_text(Graph **g, const char *text, Report *report)
{
    const BuildOptions opt = { 0 };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt, .report = report };
    Status st = graph_parse(g, text, strlen(text));

    st = st ? st : pass_untie.run(*g, &ctx);
    arena_free(ctx.scratch);
    return st;
}

/* Parameters of one number throughout begin alike: a module beside the owner has its own, one within the owner has not.
 */
static void test_beside(void)
{
    static const char text[] = "graph \"g\" {\n  input %x : float32[2,2]\n  const %enc.w : float32[2,2] = all 1\n"
                               "  %a = MatMul(%x, %enc.w) \"/enc/MatMul\"\n"
                               "  %b = MatMul(%a, %enc.w) \"/enc/part/MatMul\"\n"
                               "  %c = MatMul(%b, %enc.w) \"/encoder/MatMul\"\n  output \"c\" = %c\n}\n";
    static const char *const expected[] = { "enc.w", "enc.w", "encoder.w" };
    Graph *g = NULL;

    if (CHECK_OK(untie_text(&g, text, NULL)))
        for (int i = 0; i < 3; i++)
            CHECK_STR(expected[i], value(g, g->node[i]->in[1])->name);
    graph_free(g);
}

/* Without scopes, a node is in the module of the weight that it reads. */
static void test_by_weight(void)
{
    static const char text[] = "graph \"g\" {\n  input %x : float32[2,2]\n"
                               "  const %l.0.weight : float32[2,2] = {1,2,3,4}\n"
                               "  const %out.weight : float32[2,2] = {4,3,2,1}\n"
                               "  const %l.0.bias : float32[2] = all 0\n"
                               "  %y = Gemm(%x, %l.0.weight, %l.0.bias)\n"
                               "  %z = Gemm(%y, %out.weight, %l.0.bias)\n  output \"z\" = %z\n}\n";
    Graph *g = NULL;

    if (CHECK_OK(untie_text(&g, text, NULL))) {
        CHECK_STR("l.0.bias", value(g, g->node[0]->in[2])->name);
        CHECK_STR("out.bias", value(g, g->node[1]->in[2])->name);
    }
    graph_free(g);
}

/* A file that does not show whether two modules share a matrix or a tool merged two: a note says which it is taken for.
 */
static void test_open(void)
{
    static const char text[] = "graph \"g\" {\n  input %x : float32[2,2]\n"
                               "  const %a.weight : float32[2,2] = {1,2,3,4}\n"
                               "  %y = MatMul(%x, %a.weight) \"/a/MatMul\"\n"
                               "  %z = MatMul(%y, %a.weight) \"/b/MatMul\"\n  output \"z\" = %z\n}\n";
    static const char said[] =
        "'a.weight' is read by '/a/MatMul' and '/b/MatMul': one parameter of both, or copies that "
        "a tool merged; it is trained as one";
    Report *r = report_create();
    Graph *g = NULL;

    if (CHECK_OK(untie_text(&g, text, r))) {
        CU_ASSERT_EQUAL(r->n_note, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(r->n_note ? r->note[0].text : "", said));
    }
    graph_free(g);
    report_free(r);
}

DEFINE_SUITE(untie, { "a name that is said counts for all", test_by_name },
             { "asked, the owner keeps its own", test_asked }, { "numbers stay one", test_numbers },
             { "modules beside the owner", test_beside }, { "modules by their weights", test_by_weight },
             { "what the file does not show", test_open });
