/* If and Loop that the file decides become dataflow; those that data decides, and wrong ones, are refused with a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "tests/onnx/build.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/branch.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

static Graph *imported(Built *b)
{
    Graph *g = NULL;

    CHECK_OK(built_import(&g, b));
    built_free(b);
    return g;
}

static int count(const Graph *g, const OpDef *op)
{
    int n = 0;

    FOR_NODES(g, x)
        n += x->op == op;
    return n;
}

static void int_const(Built *b, const char *name, int64_t v) { built_init(b, name, DT_INT64, "", sizeof v, &v); }

static void bool_const(Built *b, const char *name, uint8_t v) { built_init(b, name, DT_BOOL, "", sizeof v, &v); }

static void float_const(Built *b, const char *name, float v) { built_init(b, name, DT_FLOAT32, "", sizeof v, &v); }

/* ---- If ---- */

/* y = c ? relu(x) : tanh(x). */
static Onnx__NodeProto *choice(Built *b)
{
    Onnx__NodeProto *n = built_node(b, "If", "c", "y");
    Built yes = built_subgraph(b, n, "then_branch"), no = built_subgraph(b, n, "else_branch");

    n->name = "pick";
    built_node(&yes, "Relu", "x", "r")->name = "relu";
    built_output(&yes, "r");
    built_node(&no, "Tanh", "x", "t");
    built_output(&no, "t");
    built_output(b, "y");
    return n;
}

static void test_if(void)
{
    for (int c = 0; c < 2; c++) {
        Built b = built_create(17);
        Graph *g;

        built_input(&b, "x", DT_FLOAT32, "N,3");
        bool_const(&b, "c", (uint8_t)c);
        choice(&b);
        if (!(g = imported(&b)))
            continue;
        CU_ASSERT_EQUAL_FATAL(g->n_node, 1);
        CU_ASSERT_PTR_EQUAL(g->node[0]->op, c ? &op_Relu : &op_Tanh);
        CHECK_STR(c ? "pick/r" : "pick/t", value(g, g->output[0].value)->name);
        CHECK_STR("y", g->output[0].name);
        if (c)
            CHECK_STR("pick/relu", g->node[0]->name);
        graph_free(g);
    }
}

/* What exporters compute conditions from: x.size(1) == 3 where only the batch is open, as torch.jit.script writes
 * it. */
static void test_if_by_shape(void)
{
    for (int64_t size = 3; size < 5; size++) {
        Built b = built_create(17);
        Onnx__NodeProto *n;
        Graph *g;

        built_input(&b, "x0", DT_FLOAT32, size == 3 ? "N,3" : "N,4");
        int_const(&b, "one", 1);
        int_const(&b, "three", 3);
        built_node(&b, "Abs", "x0", "x");
        built_node(&b, "Shape", "x", "s");
        built_node(&b, "Gather", "s,one", "d");
        built_node(&b, "Equal", "d,three", "e");
        n = built_node(&b, "Cast", "e", "e1");
        node_attr_int(b.arena, n, "to", DT_BOOL);
        built_node(&b, "Not", "e1", "c0");
        built_node(&b, "Not", "c0", "c");
        choice(&b);
        if (!(g = imported(&b)))
            continue;
        CU_ASSERT_EQUAL(count(g, &op_Relu), size == 3);
        CU_ASSERT_EQUAL(count(g, &op_Tanh), size != 3);
        graph_free(g);
    }
}

/* An Evaluator that refuses inputs which the node does not have. */
static Status eval_all_inputs(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && !(n->op->flags & OPF_SHAPE_ONLY) && in[i] != in_const(g, n, i))
            TEST_FAIL("%s is given something else as input %d", n->op->name, i);
    return interp_node(arena, g, n, in, out);
}

/* Squeeze without axes is given a constant for them, and Clip bounds of its own type, when their shapes are inferred.
 */
static void test_if_by_inferred_inputs(void)
{
    for (uint8_t c = 0; c < 2; c++) {
        Built b = built_create(17);
        size_t size;
        uint8_t *bytes;
        Graph *g = NULL;

        built_input(&b, "x", DT_FLOAT32, "N,3");
        built_init(&b, "c1", DT_BOOL, "1", 1, &c);
        built_node(&b, "Squeeze", "c1", "c");
        choice(&b);
        bytes = built_bytes(&b, &size);
        if (CHECK_OK(onnx_import_memory(&g, NULL, &(OnnxMemory){ .data = bytes, .size = size }, "built",
                                        &(ImportOptions){ .eval = eval_all_inputs })))
            CU_ASSERT_EQUAL(count(g, &op_Relu), c);
        graph_free(g);
        built_free(&b);
    }
}

static void condition_values(Built *b)
{
    built_input(b, "x", DT_FLOAT32, "N,3,4");
    int_const(b, "zero", 0);
    int_const(b, "one", 1);
    int_const(b, "two", 2);
    int_const(b, "three", 3);
    int_const(b, "five", 5);
    bool_const(b, "no", 0);
    built_init(b, "v2", DT_INT64, "1", 8, &(int64_t){ 2 });
    built_init(b, "v3", DT_INT64, "1", 8, &(int64_t){ 3 });
    built_init(b, "v12", DT_INT64, "1", 8, &(int64_t){ 12 });
    built_init(b, "from1", DT_INT64, "1", 8, &(int64_t){ 1 });
    built_init(b, "to9", DT_INT64, "1", 8, &(int64_t){ 9 });
    built_init(b, "half", DT_FLOAT32, "", 4, &(float){ 0.5f });
    built_init(b, "half2", DT_FLOAT32, "", 4, &(float){ 0.25f });
}

/* Of x [N,3,4]: by operators that compute, move and choose; `c` is what they come to, -1 what depends on N: then both
 * branches are there. */
static void test_conditions(void)
{
    static const struct {
        struct {
            const char *op, *in, *out;
        } node[6];
        int c;
    } cases[] = {
        { { { "Shape", "x", "s" }, { "Gather", "s,one", "d" }, { "Mod", "d,two", "m" }, { "Equal", "m,one", "c" } },
          1 },
        { { { "Shape", "x", "s" },
            { "Slice", "s,from1,to9", "t" },
            { "ReduceProd", "t", "p" },
            { "Equal", "p,v12", "c" } },
          1 },
        { { { "Shape", "x", "s" }, { "ReduceProd", "s", "p" }, { "Equal", "p,v12", "c" } }, -1 },
        { { { "Shape", "x", "s" }, { "Tile", "s,v2", "u" }, { "Gather", "u,five", "d" }, { "Less", "d,five", "c" } },
          1 },
        { { { "Shape", "x", "s" }, { "Tile", "s,v2", "u" }, { "Gather", "u,three", "d" }, { "Less", "d,five", "c" } },
          -1 },
        { { { "Shape", "x", "s" }, { "Gather", "s,zero", "d" }, { "Equal", "d,zero", "e" }, { "And", "e,no", "c" } },
          0 },
        { { { "Shape", "x", "s" }, { "Gather", "s,zero", "d" }, { "Equal", "d,zero", "e" }, { "Or", "e,no", "c" } },
          -1 },
        { { { "Shape", "x", "s" }, { "Gather", "s,zero", "d" }, { "Equal", "d,zero", "e" }, { "Xor", "e,e", "c" } },
          -1 },
        { { { "Shape", "x", "s" },
            { "Gather", "s,zero", "d" },
            { "Equal", "d,zero", "e" },
            { "Where", "e,two,two", "w" },
            { "Equal", "w,two", "c" } },
          -1 },
        { { { "Equal", "one,two", "e" },
            { "Shape", "x", "s" },
            { "Where", "e,s,v3", "w" },
            { "Gather", "w,zero", "d" },
            { "Equal", "d,three", "c" } },
          1 },
        { { { "Less", "half,half2", "c" } }, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Built b = built_create(17);
        Graph *g;

        condition_values(&b);
        for (int k = 0; k < 6 && cases[i].node[k].op; k++)
            built_node(&b, cases[i].node[k].op, cases[i].node[k].in, cases[i].node[k].out);
        choice(&b);
        if (!(g = imported(&b)))
            continue;
        CU_ASSERT_EQUAL(count(g, &op_Relu), cases[i].c != 0);
        CU_ASSERT_EQUAL(count(g, &op_Tanh), cases[i].c != 1);
        CU_ASSERT_EQUAL(count(g, &op_Choose), cases[i].c < 0);
        graph_free(g);
    }
}

/* Shapes that were inferred to find a condition are open again: another batch may follow. */
static void test_shapes_stay_open(void)
{
    Built b = built_create(17);
    Graph *g;

    built_input(&b, "x0", DT_FLOAT32, "2,3");
    built_init(&b, "w", DT_FLOAT32, "3,3", 36, (float[9]){ 0 });
    built_init(&b, "three", DT_INT64, "1", 8, &(int64_t){ 6 });
    built_node(&b, "MatMul", "x0,w", "x");
    built_node(&b, "Size", "x", "s");
    built_node(&b, "Equal", "s,three", "c");
    choice(&b);
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(count(g, &op_Relu), 1);
    FOR_NODES(g, n)
        CU_ASSERT_EQUAL(value(g, n->out[0])->shape->rank, shape_unknown().rank);
    graph_free(g);
}

/* A condition that is an input: x, which both branches read, enters each; so does w, one parameter behind gates; the
 * axes, which are integers, stand as they are, and so does a result that both take from outside. */
static void test_if_by_data(void)
{
    Built b = built_create(17), yes, no;
    Onnx__NodeProto *n;
    const Node *choose;
    int weights = 0;
    Graph *g;

    built_input(&b, "x", DT_FLOAT32, "N,3");
    built_input(&b, "c", DT_BOOL, "");
    built_init(&b, "w", DT_FLOAT32, "3,3", 36, (float[9]){ 0 });
    built_init(&b, "axes", DT_INT64, "1", 8, &(int64_t){ 0 });
    n = built_node(&b, "If", "c", "y,z,same");
    n->name = "pick";
    yes = built_subgraph(&b, n, "then_branch");
    no = built_subgraph(&b, n, "else_branch");
    built_node(&yes, "MatMul", "x,w", "p");
    built_node(&yes, "MatMul", "p,w", "q");
    built_node(&yes, "ReduceSum", "q,axes", "s");
    built_output(&yes, "q");
    built_output(&yes, "s");
    built_output(&yes, "x");
    built_node(&no, "MatMul", "x,w", "p");
    built_node(&no, "ReduceSum", "x,axes", "s");
    built_output(&no, "p");
    built_output(&no, "s");
    built_output(&no, "x");
    built_output(&b, "y");
    built_output(&b, "z");
    built_output(&b, "same");
    if (!(g = imported(&b)))
        return;
    choose = value(g, graph_output(g, "y"))->producer;
    CU_ASSERT_PTR_EQUAL_FATAL(choose->op, &op_Choose);
    CHECK_STR("pick", choose->name);
    CHECK_STR("y", value(g, choose->out[0])->name);
    CHECK_STR("x", value(g, graph_output(g, "same"))->name);
    CU_ASSERT_EQUAL(count(g, &op_MatMul), 3);
    CU_ASSERT_EQUAL(count(g, &op_Gate), 2);
    CU_ASSERT_EQUAL(count(g, &op_Enter), 2);
    FOR_NODES(g, x) {
        weights += x->op == &op_Gate && !strcmp(value(g, x->in[0])->name, "w");
        if (x->op == &op_MatMul)
            CU_ASSERT_PTR_EQUAL(value(g, x->in[1])->producer->op, &op_Gate);
        if (x->op == &op_ReduceSum)
            CHECK_STR("axes", value(g, x->in[1])->name);
    }
    CU_ASSERT_EQUAL(weights, 2);
    graph_free(g);
}

/* What is no tensor cannot be chosen. */
static void test_if_by_data_refused(void)
{
    Built b = built_create(17), sub;
    Onnx__NodeProto *n;

    built_input(&b, "x", DT_FLOAT32, "N,3");
    built_input(&b, "c", DT_BOOL, "");
    n = built_node(&b, "If", "c", "y");
    sub = built_subgraph(&b, n, "then_branch");
    built_node(&sub, "SequenceConstruct", "x", "s");
    built_output(&sub, "s");
    sub = built_subgraph(&b, n, "else_branch");
    built_node(&sub, "SequenceConstruct", "x,x", "t");
    built_output(&sub, "t");
    built_output(&b, "y");
    REFUSED(&b, E_UNSUPPORTED, "it depends on the branch that is taken, and in one branch it is a sequence");
}

static void test_if_refused(void)
{
    Built b = built_create(17), c = built_create(17), d = built_create(17), e = built_create(17), f = built_create(17);
    Onnx__NodeProto *n;
    Built sub;

    built_input(&b, "x", DT_FLOAT32, "N,3");
    built_input(&b, "c", DT_BOOL, "");
    choice(&b);
    built_node(&b, "NoSuchOp", "y", "z");
    REFUSED(&b, E_UNSUPPORTED, "not supported: NoSuchOp");
    built_input(&c, "x", DT_FLOAT32, "N,3");
    bool_const(&c, "c", 1);
    n = built_node(&c, "If", "c", "y");
    REFUSED(&c, E_MODEL, "attribute 'then_branch', a subgraph, is missing");
    (void)n;
    built_input(&d, "x", DT_FLOAT32, "N,3");
    bool_const(&d, "c", 1);
    n = built_node(&d, "If", "c", "y,z");
    sub = built_subgraph(&d, n, "then_branch");
    built_node(&sub, "Relu", "x", "r");
    built_output(&sub, "r");
    REFUSED(&d, E_MODEL, "a branch of 0 inputs and 1 outputs, expected 0 and 2");
    built_input(&e, "x", DT_FLOAT32, "N,3");
    bool_const(&e, "c", 1);
    sub = built_subgraph(&e, built_node(&e, "If", "c", "y"), "then_branch");
    built_output(&sub, "nothing");
    REFUSED(&e, E_MODEL, "output 'nothing' of the subgraph is made by no node");
    built_input(&f, "x", DT_FLOAT32, "N,3");
    built_node(&f, "If", "", "y");
    REFUSED(&f, E_MODEL, "expected one input, the condition");
}

/* ---- names ---- */

static void test_names(void)
{
    static const struct {
        const char *in, *out, *init, *said;
    } cases[] = {
        { "x", "x", NULL, "'x' is defined already outside of the subgraph" },
        { "x", "before", NULL, "'before' is defined already outside of the subgraph" },
        { "late", "r", NULL, "input 'late' is made only after the node whose subgraph reads it" },
        { "y", "r", NULL, "input 'y' is made only after the node whose subgraph reads it" },
        { "nowhere", "r", NULL, "input 'nowhere' is defined nowhere" },
        { "x", "r", "x", "initializer 'x' is defined already outside of the subgraph" },
        { "x", "r", "r", "'r' is defined already" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Built b = built_create(17), sub;
        float zero = 0;

        built_input(&b, "x", DT_FLOAT32, "N,3");
        bool_const(&b, "c", 1);
        built_node(&b, "Relu", "x", "before");
        sub = built_subgraph(&b, built_node(&b, "If", "c", "y"), "then_branch");
        if (cases[i].init)
            built_init(&sub, cases[i].init, DT_FLOAT32, "", sizeof zero, &zero);
        built_node(&sub, "Relu", cases[i].in, cases[i].out);
        built_output(&sub, cases[i].out);
        built_node(&b, "Relu", "x", "late");
        built_output(&b, "y");
        REFUSED(&b, E_MODEL, cases[i].said);
    }
}

/* An If in an If in a function: names of each body around are seen, those of the function's caller are not. */
static void test_nested_names(void)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        Built b = built_create(17), one, two;
        Onnx__FunctionProto *f;
        Onnx__NodeProto *n, *m;
        Graph *g;

        built_opset(&b, "local", 1);
        built_input(&b, "x", DT_FLOAT32, "N,3");
        bool_const(&b, "c", 1);
        n = built_node(&b, "F", "x,c", "y");
        n->domain = "local";
        n->name = "call";
        built_output(&b, "y");
        f = built_function(&b, "local", "F", "u,d", "v", "");
        function_opset(&b, f, "", 17);
        n = node_make(b.arena, "If", "d", "v");
        function_node(&b, f, n);
        one = built_subgraph(&b, n, "then_branch");
        built_node(&one, "Neg", "u", "w");
        m = built_node(&one, "If", "d", "p");
        built_output(&one, "p");
        two = built_subgraph(&b, m, "then_branch");
        built_node(&two, "Add", wrong ? "w,x" : "w,u", "q");
        built_output(&two, "q");
        if (wrong) {
            REFUSED(&b, E_MODEL, "input 'x' is defined nowhere");
        } else if ((g = imported(&b))) {
            CU_ASSERT_EQUAL_FATAL(g->n_node, 2);
            CHECK_STR("call/If/If/q", value(g, g->output[0].value)->name);
            graph_free(g);
        }
    }
}

/* ---- Loop ---- */

/* h = tanh(h w) `trips` times, all h kept; w is the body's own. */
static Built recurrence(const char *trips, Onnx__NodeProto **node)
{
    Built b = built_create(17), sub;
    float w[9] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };

    built_input(&b, "x", DT_FLOAT32, "N,3");
    if (*trips)
        int_const(&b, "M", strtoll(trips, NULL, 10));
    *node = built_node(&b, "Loop", *trips ? "M,,x" : ",,x", "last,all");
    (*node)->name = "loop";
    sub = built_subgraph(&b, *node, "body");
    built_input(&sub, "i", DT_INT64, "");
    built_input(&sub, "go", DT_BOOL, "");
    built_input(&sub, "h", DT_FLOAT32, "N,3");
    built_init(&sub, "w", DT_FLOAT32, "3,3", sizeof w, w);
    built_node(&sub, "MatMul", "h,w", "a");
    built_node(&sub, "Tanh", "a", "next");
    built_node(&sub, "Identity", "go", "go_on");
    built_output(&sub, "go_on");
    built_output(&sub, "next");
    built_output(&sub, "next");
    built_output(&b, "last");
    built_output(&b, "all");
    return b;
}

static void test_loop(void)
{
    Onnx__NodeProto *n;
    Built b = recurrence("4", &n);
    Graph *g = imported(&b);
    const Node *stacked;
    int weights = 0;

    if (!g)
        return;
    CU_ASSERT_EQUAL(count(g, &op_MatMul), 4);
    stacked = value(g, graph_output(g, "all"))->producer;
    CU_ASSERT_PTR_EQUAL_FATAL(stacked->op, &op_Concat);
    CU_ASSERT_EQUAL(stacked->n_in, 4);
    CU_ASSERT_EQUAL(node_int(stacked, "axis"), 0);
    CHECK_STR("loop/3/next", value(g, graph_output(g, "last"))->name);
    CHECK_STR("all", value(g, graph_output(g, "all"))->name);
    FOR_NODES(g, x)
        weights += x->op == &op_MatMul && !strcmp(value(g, x->in[1])->name, "w");
    CU_ASSERT_EQUAL(weights, 4); /* one parameter, not four */
    graph_free(g);
}

/* A Constant of the body is one parameter, too, also in a loop in the loop and in a function that the loop calls. */
static void test_loop_constants(void)
{
    Built b = built_create(17), one, two;
    Onnx__FunctionProto *f;
    Onnx__NodeProto *n;
    ValueId w = NO_VALUE;
    float weight[3] = { 1, 2, 3 };
    Graph *g;

    built_opset(&b, "local", 1);
    built_input(&b, "x", DT_FLOAT32, "N,3");
    int_const(&b, "M", 2);
    n = built_node(&b, "Loop", "M,,x", "y");
    n->name = "outer";
    one = built_subgraph(&b, n, "body");
    for (int i = 0; i < 3; i++)
        built_input(&one, (const char *[]){ "i", "c", "h" }[i], DT_FLOAT32, "");
    n = built_node(&one, "Loop", "M,c,h", "g");
    n->name = "inner";
    two = built_subgraph(&b, n, "body");
    for (int i = 0; i < 3; i++)
        built_input(&two, (const char *[]){ "j", "d", "k" }[i], DT_FLOAT32, "");
    n = built_node(&two, "F", "k", "k2");
    n->domain = "local";
    n->name = "call";
    built_output(&two, "d");
    built_output(&two, "k2");
    built_output(&one, "c");
    built_output(&one, "g");
    built_output(&b, "y");
    f = built_function(&b, "local", "F", "u", "v", "");
    function_opset(&b, f, "", 17);
    n = node_make(b.arena, "Constant", "", "w");
    Onnx__AttributeProto *a = attr_make(b.arena, "value", KIND(TENSOR));
    a->t = tensor_make(b.arena, "", DT_FLOAT32, "3", sizeof weight, weight);
    node_add_attr(b.arena, n, a);
    function_node(&b, f, n);
    function_node(&b, f, node_make(b.arena, "Mul", "u,w", "v"));
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(count(g, &op_Mul), 4);
    FOR_NODES(g, x) {
        CU_ASSERT(!has_value(w) || value_eq(w, x->in[1]));
        w = x->in[1];
    }
    CHECK_STR("outer/inner/call/w", value(g, w)->name);
    graph_free(g);
}

/* while (i < 3): what torch writes for a while loop over a number. */
static void test_loop_counter(void)
{
    Built b = built_create(17), sub;
    Onnx__NodeProto *n;
    Graph *g;

    built_input(&b, "x", DT_FLOAT32, "N,3");
    int_const(&b, "M", INT64_MAX);
    int_const(&b, "zero", 0);
    int_const(&b, "one", 1);
    int_const(&b, "three", 3);
    bool_const(&b, "c", 1);
    n = built_node(&b, "Loop", "M,c,x,zero", "y,i");
    sub = built_subgraph(&b, n, "body");
    for (int i = 0; i < 4; i++)
        built_input(&sub, (const char *[]){ "t", "go", "h", "k" }[i], DT_FLOAT32, "");
    built_node(&sub, "Relu", "h", "h2");
    built_node(&sub, "Add", "k,one", "k2");
    built_node(&sub, "Less", "k2,three", "go2");
    built_output(&sub, "go2");
    built_output(&sub, "h2");
    built_output(&sub, "k2");
    built_output(&b, "y");
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(count(g, &op_Relu), 3);
    graph_free(g);
}

static void test_no_trips(void)
{
    Onnx__NodeProto *n;
    Built b = recurrence("0", &n), c = recurrence("-3", &n), sub;
    const Value *all;
    Graph *g;

    REFUSED(&b, E_UNSUPPORTED, "the loop makes no trip, and its body gives output 'next' no shape");
    sub = (Built){ c.arena, c.model, n->attribute[0]->g };
    for (size_t i = 0; i < 3; i++) /* now it does */
        n->attribute[0]->g->output[i]->type = built_input(&sub, "t", DT_FLOAT32, "2,3")->type;
    n->attribute[0]->g->n_input = 3;
    if (!(g = imported(&c)))
        return;
    CHECK_STR("x", value(g, graph_output(g, "last"))->name);
    all = value(g, graph_output(g, "all"));
    CU_ASSERT(all->kind == V_CONST && all->shape->rank == 3 && all->shape->dim[0] == 0 && all->shape->dim[2] == 3);
    graph_free(g);
}

static void test_loop_refused(void)
{
    Onnx__NodeProto *n;
    Built b = recurrence("", &n), c = recurrence("9000000000000", &n), d = recurrence("2", &n), e, f;

    REFUSED(&b, E_MODEL, "more than 300000 nodes (--max-nodes) with functions inlined and loops unrolled");
    n = c.graph->node[0];
    n->attribute[0]->g->n_node = 1; /* the shortest body there is */
    n->attribute[0]->g->node[0] = node_make(c.arena, "Identity", "go", "go_on");
    n->attribute[0]->g->output[1]->name = n->attribute[0]->g->output[2]->name = "h";
    REFUSED(&c, E_MODEL, "more than 300000 nodes");
    n = d.graph->node[0];
    n->attribute[0]->g->n_input = 2;
    REFUSED(&d, E_MODEL, "Loop loop (output 'last'): a body of 2 inputs, expected 3");
    e = recurrence("2", &n);
    n->attribute[0]->g->n_output = 1;
    REFUSED(&e, E_MODEL, "2 outputs, of a body of 1 that carries 1 values");
    f = recurrence("2", &n);
    n->input[0] = "x";
    REFUSED(&f, E_MODEL, "its trip count 'x' is of type float32, expected int64");
    f = recurrence("2", &n);
    built_input(&f, "count", DT_INT64, "");
    n->input[0] = "count";
    REFUSED(&f, E_UNSUPPORTED, "its trip count 'count' depends on data");
    f = recurrence("2", &n);
    built_input(&f, "counts", DT_INT64, "2");
    n->input[0] = "counts";
    REFUSED(&f, E_MODEL, "its trip count 'counts' is of shape [2], expected one number");
    e = recurrence("2", &n);
    n->input[2] = "";
    REFUSED(&e, E_MODEL, "input 2, a value carried from trip to trip, is absent");
    e = recurrence("2", &n);
    n->attribute[0]->g->output[0]->name = "next";
    REFUSED(&e, E_UNSUPPORTED, "its condition 'next' depends on data, and so does the length of its output 'all'");
    e = recurrence("65", &n);
    n->attribute[0]->g->output[0]->name = "next";
    REFUSED(&e, E_UNSUPPORTED,
            "its condition 'next' depends on data, expected a constant condition or at most 64 trips");
    e = recurrence("1000", &n);
    n->attribute[0]->g->node[1]->op_type = "NoSuchOp";
    REFUSED(&e, E_UNSUPPORTED, "not supported: NoSuchOp (unnamed) (output 'next')");
    CU_ASSERT_PTR_NULL(strstr(status_message(), ";")); /* said once */
    e = recurrence("2", &n);
    n->attribute[0]->g->input[2]->name = "x";
    REFUSED(&e, E_MODEL, "input of the subgraph 'x' is defined already outside of the subgraph");
    e = recurrence("2", &n);
    n->attribute[0]->g->input[2]->name = "go";
    REFUSED(&e, E_MODEL, "input of the subgraph 'go' is defined already");
}

/* Data decide how many of three trips count: what they carry is chosen behind each but the first, which the file
 * decides. */
static void test_loop_by_data(void)
{
    Onnx__NodeProto *n;
    Built b = recurrence("3", &n), sub = { b.arena, b.model, n->attribute[0]->g };
    const Node *last;
    Graph *g;

    float_const(&b, "edge", 0.5F);
    built_node(&sub, "ReduceMean", "next", "mean");
    built_node(&sub, "Greater", "mean,edge", "more");
    n->attribute[0]->g->output[0]->name = "more";
    n->n_output = 1;
    b.graph->n_output = 1;
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(count(g, &op_Tanh), 3);
    CU_ASSERT_EQUAL(count(g, &op_Choose), 2);
    CU_ASSERT_EQUAL(count(g, &op_And), 1);
    last = value(g, graph_output(g, "last"))->producer;
    CU_ASSERT_PTR_EQUAL_FATAL(last->op, &op_Choose);
    CU_ASSERT_PTR_EQUAL(value(g, last->in[0])->producer->op, &op_And);
    CHECK_STR("loop/2/next", value(g, last->in[1])->name);
    CU_ASSERT_PTR_EQUAL(value(g, last->in[2])->producer->op, &op_Choose);
    graph_free(g);
}

/* 20 loops in each other, of 20 trips each. */
static void test_loops_that_multiply(void)
{
    Built b = built_create(17), at = b;
    char name[3][16];

    built_input(&b, "x", DT_FLOAT32, "N,3");
    int_const(&b, "M", 20);
    for (int k = 0; k < 20; k++) {
        Onnx__NodeProto *n;

        for (int i = 0; i < 3; i++)
            snprintf(name[i], sizeof name[i], "%c%d", "icy"[i], k);
        n = built_node(&at, "Loop", "M", "");
        at = built_subgraph(&at, n, "body");
        built_input(&at, name[0], DT_INT64, "");
        built_input(&at, name[1], DT_BOOL, "");
        built_output(&at, name[1]);
    }
    REFUSED(&b, E_MODEL, "more than 300000 nodes");
}

/* Each trip would copy the name of a megabyte, and again with the prefix. */
static void test_long_names(void)
{
    Onnx__NodeProto *n;
    Built b = recurrence("50000", &n);
    char *name = arena_alloc(b.arena, (1 << 20) + 1);

    memset(name, 'n', 1 << 20);
    n->name = name;
    REFUSED(&b, E_MODEL, "the unrolled loop takes more than 512 MiB");
}

/* Outputs cost as much as nodes: a file of 40 KB must not become a graph of millions. */
static void test_sequences_that_multiply(void)
{
    static int64_t sizes[4096];
    Built b = built_create(17);
    char out[32];

    for (int i = 0; i < 4096; i++)
        sizes[i] = 1;
    built_input(&b, "x", 1, "4096,N");
    built_init(&b, "sizes", 7, "4096", sizeof sizes, sizes);
    for (int i = 0; i < 200; i++) {
        snprintf(out, sizeof out, "s%d", i);
        built_node(&b, "SplitToSequence", "x,sizes", out);
    }
    built_node(&b, "Relu", "x", "y");
    built_output(&b, "y");
    REFUSED(&b, E_MODEL, "more than 300000 nodes");
}

DEFINE_SUITE(flow, { "If", test_if }, { "If by a shape", test_if_by_shape },
             { "If by inferred inputs", test_if_by_inferred_inputs }, { "conditions", test_conditions },
             { "shapes stay open", test_shapes_stay_open }, { "If by data", test_if_by_data },
             { "If by data, refused", test_if_by_data_refused }, { "If refused", test_if_refused },
             { "names", test_names }, { "nested names", test_nested_names }, { "Loop", test_loop },
             { "constants in loops", test_loop_constants }, { "a loop that counts", test_loop_counter },
             { "no trips", test_no_trips }, { "Loop by data", test_loop_by_data },
             { "Loop refused", test_loop_refused }, { "loops that multiply", test_loops_that_multiply },
             { "long names", test_long_names }, { "sequences that multiply", test_sequences_that_multiply });
