/* Floating-point operations of single nodes, against counts by hand: scores x are float32[6,10], labels t int64[6]. */
#include "graph/text/parse.h"
#include "passes/report.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLES = 6, CLASSES = 10, SCORES = SAMPLES * CLASSES };

/* Compares the operations of the only node of a graph. */
static void count(const char *node, int64_t expected)
{
    char text[1024];
    Graph *g = NULL;

    snprintf(text, sizeof text,
             "graph \"g\" {\n  input %%x : float32[6,10]\n  input %%u : float32[6,10]\n  input %%t : int64[6]\n"
             "  input %%w : float32[10]\n  input %%i : int64[4]\n  input %%d : float32[]\n  input %%l : float32[6]\n"
             "  %s\n}\n",
             node);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))))
        FOR_NODES(g, n)
            if (node_flops(g, n) != expected)
                test_fail(__FILE__, __LINE__, "%s: %lld operations, expected %lld", node, (long long)node_flops(g, n),
                          (long long)expected);
    graph_free(g);
}

static void test_moves(void)
{
    count("%y : float32[10,6] = Transpose(%x) {perm=[1,0]}", 0);
    count("%y : float32[6,20] = Concat(%x, %u) {axis=1}", 0);
    count("%y : float32[4,10] = Gather(%x, %i) {axis=0}", 0);
    count("%y : float64[6,10] = Cast(%x) {to=11}", 0);
    count("%y : float32[6,10] = Trilu(%x)", 0);
    count("%y : float32[6,10] = Identity(%x)", 0);
}

static void test_elements(void)
{
    count("%y : float32[6,10] = Add(%x, %w)", SCORES);
    count("%y : float32[6,10] = Relu(%x)", SCORES);
    count("%y : float32[1,1] = ReduceSum(%x)", SCORES);
    count("%y : float32[9,10] = dpexec.GatherGrad(%x, %t) {axis=0, dim=9}", SCORES); /* each element of dy is added */
    count("%y : float32[6,6] = Gemm(%x, %u) {transB=1}", 2 * SAMPLES * CLASSES * SAMPLES);
}

/* Sums of steps of the formulas, each of which counts one. */
static void test_losses(void)
{
    const int64_t softmax = 3; /* x - max, exp, sum */
    const int64_t sample = 4;  /* log, + max, - x[t], sum */

    count("%y : float32[], %n : float32[], %s : float32[6] = dpexec.CrossEntropySum(%x, %t)",
          softmax * SCORES + sample * SAMPLES);
    count("%y : float32[], %n : float32[], %s : float32[6] = dpexec.CrossEntropySum(%x, %t) {label_smoothing=0.5}",
          (softmax + 1) * SCORES + sample * SAMPLES);
    count("%y : float32[6,10] = dpexec.CrossEntropyGrad(%d, %x, %t, %l)", 4 * SCORES); /* - log, exp, - 1 [t], * dy */
    count("%y : float32[], %n : float32[] = dpexec.NllSum(%x, %t)", 2 * SAMPLES);
    count("%y : float32[], %n : float32[] = dpexec.NllSum(%x, %t, %w)", 3 * SAMPLES);
    count("%y : float32[] = dpexec.ElementLossSum(%x, %u) {kind=\"mse\"}", 3 * SCORES); /* -, ^2, sum */
    count("%y : float32[] = dpexec.ElementLossSum(%x, %u) {kind=\"bce-logits\"}", 10 * SCORES);
    count("%y : float32[6,10] = dpexec.ElementLossGrad(%d, %x, %u) {kind=\"bce\"}", 5 * SCORES);
}

DEFINE_SUITE(flops, { "moves", test_moves }, { "elements", test_elements }, { "losses", test_losses });
