/* Which readers of one tensor mean the same parameter, on graphs that say it in one way each. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/options/parameters.h"
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

DEFINE_SUITE(untie, { "a name that is said counts for all", test_by_name },
             { "asked, the owner keeps its own", test_asked }, { "numbers stay one", test_numbers });
