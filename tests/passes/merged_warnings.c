/* Warnings of tensors and nodes that a tool may have merged. */
#include <string.h>

#include "graph/ir/simplifier_traces.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/passes.gen.h"
#include "passes/report.h"
#include "tests/harness/test.h"

/* A file, the tool that it shows (NULL: none) and onnxsim's list of removed values, and the notes, in order. */
typedef struct {
    const char *nodes, *tool, *removed;
    const char *notes[3];
} Case;

static void check(const Case *c)
{
    const BuildOptions opt = { 0 };
    Report *r = report_create();
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt, .report = r };
    Graph *g = NULL;
    char text[2048];
    int n = 0;

    snprintf(text, sizeof text,
             "graph \"g\" {\n  input %%x : float32[2,2]\n  const %%a.weight : float32[2,2] = {1, 2, 3, 4.5}\n"
             "  const %%a.bias : float32[2] = {1, 2}\n  const %%b.weight : float32[2,2] = {5, 2, 3, 4.5}\n"
             "  const %%c.weight : float32[2,2] = {6, 2, 3, 4.5}\n%s  output \"y\" = %%y\n}\n",
             c->nodes);
    if (CHECK_OK(graph_parse(&g, text, strlen(text)))) {
        if (c->tool)
            CHECK_OK(simplified_set(g, SIMPLIFIER, c->tool));
        if (c->removed)
            CHECK_OK(simplified_set(g, REMOVED_VALUES, c->removed));
        CHECK_OK(pass_untie.run(g, &ctx));
        for (int i = 0; i < r->n_note; i++)
            if (r->note[i].kind == NOTE_EXPORTER) {
                if (n >= 3 || !c->notes[n] || !strstr(r->note[i].text, c->notes[n]))
                    TEST_FAIL("note %d, expected \"%s\", found \"%s\"", n, n < 3 && c->notes[n] ? c->notes[n] : "none",
                              r->note[i].text);
                n++;
            }
        if (n < 3 && c->notes[n])
            TEST_FAIL("no note says \"%s\"", c->notes[n]);
    }
    graph_free(g);
    report_free(r);
    arena_free(ctx.scratch);
}

#define CHAIN \
    "  %h = MatMul(%x, %a.weight) \"n1\"\n  %i = MatMul(%h, %b.weight) \"n2\"\n  %y = MatMul(%i, %c.weight) \"n3\"\n"

static void test_lost(void)
{
    check(
        &(Case){ CHAIN, ONNXSIM, "z.weight", { "onnxsim removed 'z.weight' from the file: equal to other tensors" } });
    check(&(Case){ CHAIN, ONNXSIM, "z.weight, y.bias", { "onnxsim removed 'z.weight', 'y.bias' from the file: " } });
    check(&(Case){ CHAIN, ONNXSIM, "z.weight, y.bias, x.bias", { "'z.weight', 'y.bias', 'x.bias' from the file: " } });
    check(&(Case){ CHAIN,
                   ONNXSIM,
                   "z.weight, y.bias, x.bias, w.b",
                   { "'z.weight', 'y.bias', 'x.bias' and 1 more from the file" } });
    /* no parameters: a tensor that the file has, made-up names, a counter */
    check(&(Case){
        CHAIN, ONNXSIM, "a.weight, val_3, onnx::MatMul_7, bn.num_batches_tracked, /a/Constant_output_0", { NULL } });
}

static void test_open(void)
{
    static const char two[] = "  %h = MatMul(%x, %a.weight) \"n1\"\n  %y = MatMul(%h, %a.weight) \"n2\"\n";
    static const char three[] = "  %h = MatMul(%x, %a.weight) \"n1\"\n  %i = MatMul(%h, %a.weight) \"n2\"\n"
                                "  %y = MatMul(%i, %a.weight) \"n3\"\n";

    check(&(Case){ two, "a tool", NULL, { "'a.weight' is read by 'n1' and 'n2': one parameter of both" } });
    check(&(Case){ three, "a tool", NULL, { "'a.weight' is read by 'n1' and 'n3' and others: one parameter" } });
    check(&(Case){ two, NULL, NULL, { NULL } });
    check(&(Case){ two, ONNXSIM, NULL, { NULL } }); /* onnxsim's lists would have named a copy */
    check(&(Case){ two, ONNXSIM, "val_3, ... (+5 more)", { "'a.weight' is read by 'n1' and 'n2'" } });
    check(&(Case){ CHAIN, "a tool", NULL, { NULL } });
}

static void test_gaps(void)
{
    check(&(Case){
        "  %h = MatMul(%x, %a.weight) \"node_linear\"\n  %r = Relu(%h) \"r\"\n  %s = Add(%h, %r) \"s\"\n"
        "  %y = MatMul(%s, %b.weight) \"node_linear_2\"\n",
        "a tool",
        NULL,
        { "a tool made one of equal nodes: the file has 'node_linear_2' and none called 'node_linear_1', which "
          "may have been a copy of 'node_linear'" } });
    check(&(Case){ "  %h = MatMul(%x, %a.weight) \"node_linear_1\"\n  %r = Relu(%h) \"r\"\n  %s = Add(%h, %r) \"s\"\n"
                   "  %y = MatMul(%s, %b.weight) \"node_linear_12\"\n",
                   "a tool",
                   NULL,
                   { "the file has 'node_linear_1' and none called 'node_linear', which may have been a copy of "
                     "'node_linear_1'",
                     "the file has 'node_linear_12' and none called 'node_linear_11', which may have been a copy of "
                     "'node_linear_1'" } });
    /* no gap, one reader, another operator, no number, no tool */
    check(&(Case){ "  %h = MatMul(%x, %a.weight) \"node_linear\"\n  %r = Relu(%h) \"r\"\n  %s = Add(%h, %r) \"s\"\n"
                   "  %y = MatMul(%s, %b.weight) \"node_linear_1\"\n",
                   "a tool",
                   NULL,
                   { NULL } });
    check(&(Case){ "  %h = MatMul(%x, %a.weight) \"node_linear\"\n  %y = MatMul(%h, %b.weight) \"node_linear_2\"\n",
                   "a tool",
                   NULL,
                   { NULL } });
    check(&(Case){ "  %h = Gemm(%x, %a.weight) \"node_linear\"\n  %r = Relu(%h) \"r\"\n  %s = Add(%h, %r) \"s\"\n"
                   "  %y = MatMul(%s, %b.weight) \"node_linear_2\"\n",
                   "a tool",
                   NULL,
                   { NULL } });
    check(&(Case){ "  %h = MatMul(%x, %a.weight) \"node_linear\"\n  %r = Relu(%h) \"r\"\n  %s = Add(%h, %r) \"s\"\n"
                   "  %y = MatMul(%s, %b.weight) \"node_linear_2\"\n",
                   NULL,
                   NULL,
                   { NULL } });
}

/* Copies of tensors were merged, so copies of nodes may have been. */
static void test_nodes(void)
{
    static const char merged[] = "  %h = Gemm(%x, %c.weight) \"/c/Gemm\"\n  %r = Relu(%h) \"/r/Relu\"\n"
                                 "  %s = Add(%h, %r) \"/s/Add\"\n  %i = Gemm(%s, %a.weight, %a.bias) \"/a/Gemm\"\n"
                                 "  %y = Gemm(%i, %a.weight, %a.bias) \"/d/Gemm\"\n";

    check(&(Case){
        merged, NULL, NULL, { "nodes that were equal leave no trace: if '/c/Gemm', which several nodes read" } });
}

DEFINE_SUITE(merged_warnings, { "removed tensors", test_lost }, { "tensors of several readers", test_open },
             { "missing numbers", test_gaps }, { "nodes of several readers", test_nodes });
