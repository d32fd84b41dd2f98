/* What is said of later keys' scores (passes/generate/causal_scores.h), against the scores: tables are drawn, the
 * interpreter computes each operator on them, and the elements of the result for later keys, or own ones, must lie
 * within what the operator's inputs promise.  If each input has one number there, the promise is that of the result. */
#include "passes/generate/causal_scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/run/interp.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"

enum { TOKENS = 3, DRAWS = 60 };

static const struct {
    const char *formula, *type;
    bool exact; /* with one number each */
} formulas[] = {
    { "Add(%a, %b)", "float32", true },
    { "Sub(%a, %b)", "float32", true },
    { "Mul(%a, %b)", "float32", false }, /* negative factors are given up */
    { "Div(%a, %two)", "float32", true },
    { "Div(%a, %b)", "float32", false },
    { "Where(%c, %a, %b)", "float32", true },
    { "And(%c, %d)", "bool", true },
    { "IsNaN(%a)", "bool", true },
    { "Cast(%a) {to=11}", "float64", true },
    { "Cast(%a) {to=9}", "bool", true },
    { "Cast(%c) {to=1}", "float32", true },
    { "Cast(%c) {to=7}", "int64", true },
    { "Identity(%a)", "float32", true },
    { "Slice(%a, %zeros, %ends)", "float32", true },
    { "Tile(%a, %ones)", "float32", true },
    { "Exp(%a)", "float32", false },
};
enum { N_FORMULAS = sizeof formulas / sizeof *formulas };

static uint32_t state;

static int draw(int n)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 16) % (uint32_t)n);
}

/* Appends a table whose elements for later keys are one number, or several if the draw says so; likewise own ones. */
static void add_table(FILE *to, const char *name, bool truth)
{
    static const char *const number[] = { "0", "1", "-10000", "-inf", "0.5", "inf", "-2", "4" };
    const int kinds = truth ? 2 : 8, later = draw(kinds), own = draw(kinds), several = draw(3) == 0;

    fprintf(to, "  const %%%s : %s[%d,%d] = {", name, truth ? "bool" : "float32", TOKENS, TOKENS);
    for (int i = 0; i < TOKENS * TOKENS; i++) {
        const int query = i / TOKENS, key = i % TOKENS;

        fprintf(to, "%s%s", i ? ", " : "", number[several || key < query ? draw(kinds) : key > query ? later : own]);
    }
    fprintf(to, "}\n");
}

static Graph *make(int formula)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    Graph *g = NULL;

    fprintf(f, "graph \"g\" {\n");
    add_table(f, "a", false);
    add_table(f, "b", false);
    add_table(f, "c", true);
    add_table(f, "d", true);
    fprintf(f,
            "  const %%two : float32[] = {2}\n  const %%zeros : int64[2] = {0, 0}\n  const %%ones : int64[2] = {1, 1}\n"
            "  const %%ends : int64[2] = {%d, %d}\n",
            TOKENS, TOKENS);
    fprintf(f, "  %%y : %s[%d,%d] = %s\n  output \"y\" = %%y\n}\n", formulas[formula].type, TOKENS, TOKENS,
            formulas[formula].formula);
    fclose(f);
    CHECK_OK(graph_parse(&g, text, n));
    free(text);
    return g;
}

static bool is_one(const Later *x) { return !x->any && x->low == x->high; }

static void check(Graph *g, int formula, const Tensor *y, bool own)
{
    const Node *n = value(g, g->output[0].value)->producer;
    const ScoreAxes axes = { 2, 1 };
    const Later found = later_of_constant(g, graph_add_const(g, own ? "own" : "later", y), axes, own);
    Later in[3], said;
    bool one = true;

    for (int i = 0; i < n->n_in && i < 3; i++) {
        in[i] = later_of_constant(g, n->in[i], axes, own);
        one = one && (is_one(&in[i]) || value(g, n->in[i])->dtype == DT_INT64);
    }
    said = later_of_node(g, n, in);
    if (!said.any && (found.any || found.low < said.low || found.high > said.high))
        TEST_FAIL("%s, %s keys: %g to %g are said, %g to %g%s are found", formulas[formula].formula,
                  own ? "own" : "later", said.low, said.high, found.low, found.high, found.any ? " (or any)" : "");
    else if (one && formulas[formula].exact && !found.any && (said.any || said.low != said.high))
        TEST_FAIL("%s, %s keys: %g is found, and %s is said", formulas[formula].formula, own ? "own" : "later",
                  found.low, said.any ? "nothing" : "more");
}

static void test_formulas(void)
{
    state = 1;
    for (int i = 0; i < DRAWS * N_FORMULAS; i++) {
        Graph *g = make(i % N_FORMULAS);
        Arena *a = arena_create();
        const Tensor **values = g ? ARENA_NEW(a, const Tensor *, g->n_value) : NULL;

        if (values && CHECK_OK(interp_run(a, g, values))) {
            check(g, i % N_FORMULAS, values[g->output[0].value.i], false);
            check(g, i % N_FORMULAS, values[g->output[0].value.i], true);
        }
        graph_free(g);
        arena_free(a);
    }
}

static void test_hidden(void)
{
    const Later high = { false, 0, 1 }, low = { false, -INFINITY, -INFINITY }, part = { false, -INFINITY, 0 };

    CU_ASSERT(later_is_hidden(&low, &high));
    CU_ASSERT(!later_is_hidden(&part, &high));
    CU_ASSERT(!later_is_hidden(&low, &low));
    CU_ASSERT(!later_is_hidden(&high, &high));
}

DEFINE_SUITE(causal_scores, { "operators on tables", test_formulas }, { "hidden keys", test_hidden });
