/* The text form: what is printed reads back to the same graph, and hostile text is refused by line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/unary.gen.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"

static Graph *parse(const char *text)
{
    Graph *g = NULL;

    return CHECK_OK(graph_parse(&g, text, strlen(text))) ? g : NULL;
}

static char *print(const Graph *g)
{
    char *text = NULL;

    CHECK_OK(graph_text(&text, g, NULL));
    return text;
}

/* The text is printed as it was read. */
static void check_fixed(const char *text)
{
    Graph *g = parse(text);
    char *back = g ? print(g) : NULL;

    CHECK_STR(text, back);
    if (g)
        CHECK_OK(graph_verify(g));
    free(back);
    graph_free(g);
}

static void test_every_statement(void)
{
    check_fixed("graph \"a \\\"b\\\" \\\\ \\x01\" {\n"
                "  input %x : float32[\"batch\"=?,3,32,?]\n"
                "  input %\"odd name:0\" : int64[*] @r1 d2\n"
                "  input %e : float64[2,0]\n"
                "  input %many.0 member : float32[?,2]\n"
                "  state %w trainable : float32[2,3] @d1 = {0.1, -0, 1e-45, 3.4028235e+38, inf, -inf}\n"
                "  state %s transient : float64[] = {0.1}\n"
                "  state %w@d1 trainable partial : float32[2] @r2 d1 = {1, 2}\n"
                "  state %n trainable next \"n'\" : float32[] = {1}\n"
                "  const %t next \"one more\" : int64[] = {1}\n"
                "  const %c : int64[2] = {1, -9223372036854775808}\n"
                "  const %v : float32[3] of \"other\" = {1, 2, 3}\n"
                "  const %z : float32[100] = all 0.5\n"
                "  const %none : float32[0,4] = {}\n"
                "  %y : float32[2,3] = Softmax(%w) {axis=1} \"a node\" @r0 d1\n"
                "  %y2 : float64[2,0] = Exp(%e) @d3\n"
                "  %y3@d0 : float32[2,3] @r3 d4, _, %y4@d5 : float32[2,1] of none @none = LayerNormalization(%w, %v) "
                "{axis=1} @r0 d1\n"
                "  update %s := %s\n"
                "  output \"odd out\" = %y\n"
                "  output \"y\" = %y2\n"
                "}\n");
}

/* Zeros without memory are printed as those that have some, few or many. */
static void test_zeros(void)
{
    static const Shape shape[] = { { 0 }, { 1, { 3 } }, { 2, { 1 << 20, 1 << 20 } } };
    static const char *const type[] = { "float32", "uint64", "bfloat16" };
    static const DType dtype[] = { DT_FLOAT32, DT_UINT64, DT_BFLOAT16 };
    Graph *g = graph_create("g");
    char *text, expected[256];

    for (int i = 0; i < 3; i++) {
        char name[2] = { (char)('a' + i), 0 };
        ValueId v = graph_add_const_nocopy(g, name, tensor_zeros(g->arena, dtype[i], &shape[i]));

        value(g, v)->kind = V_STATE;
    }
    CHECK_OK(graph_verify(g));
    snprintf(expected, sizeof expected,
             "graph \"g\" {\n  state %%a : %s[] = {0}\n  state %%b : %s[3] = {0, 0, 0}\n"
             "  state %%c : %s[1048576,1048576] = all 0\n}\n",
             type[0], type[1], type[2]);
    text = print(g);
    CHECK_STR(expected, text);
    free(text);
    value(g, graph_find(g, "a"))->kind = V_CONST;
    CHECK_FAILS(E_INTERNAL, "'a' has no data", graph_verify(g));
    graph_free(g);
}

static void test_every_dtype(void)
{
    check_fixed("graph \"\" {\n"
                "  const %a : float16[8] = {1, 65504, 5.9604645e-08, inf, -inf, nan, nan:fe01, -0}\n"
                "  const %b : bfloat16[4] = {1, 1.0078125, nan:7f81, -3.3895314e+38}\n"
                "  const %c : float32[4] = {nan, nan:ffc00000, nan:7f800001, 16777216}\n"
                "  const %d : float64[4] = {nan, nan:7ff0000000000001, 0.1, 5e-324}\n"
                "  const %e : uint64[2] = {18446744073709551615, 0}\n"
                "  const %f : int8[2] = {-128, 127}\n"
                "  const %g : uint8[1] = {255}\n"
                "  const %h : int16[2] = {-32768, 32767}\n"
                "  const %i : uint16[1] = {65535}\n"
                "  const %j : int32[1] = {-2147483648}\n"
                "  const %k : uint32[1] = {4294967295}\n"
                "  const %l : bool[2] = {1, 0}\n"
                "  const %m : complex64[1] = {1.5, nan:7fc00001}\n"
                "  const %n : complex128[2] = {1, -2, 0.1, inf}\n"
                "}\n");
}

/* Bits of random floats survive, whatever they mean. */
static void test_bits_survive(void)
{
    Graph *g = graph_create("bits"), *back = NULL;
    Shape s = SHAPE(4096);
    Tensor *f = tensor_create(g->arena, DT_FLOAT32, &s), *d = tensor_create(g->arena, DT_FLOAT64, &s);
    ValueId vf, vd;
    char *text;
    uint64_t x = 88172645463325252u;

    for (int i = 0; i < 4096; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy((char *)f->data + 4 * i, &x, 4);
        memcpy((char *)d->data + 8 * i, &x, 8);
    }
    vf = graph_add_const(g, "f", f);
    vd = graph_add_const(g, "d", d);
    text = print(g);
    if (text && CHECK_OK(graph_parse(&back, text, strlen(text)))) {
        CU_ASSERT(!memcmp(value(back, vf)->init->data, f->data, 4 * 4096));
        CU_ASSERT(!memcmp(value(back, vd)->init->data, d->data, 8 * 4096));
    }
    free(text);
    graph_free(back);
    graph_free(g);
}

static void test_every_attribute(void)
{
    Graph *g = graph_create("g");
    Shape s = SHAPE(2);
    Tensor *t = tensor_create(g->arena, DT_INT32, &s);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s);
    int64_t ints[] = { 1, -2 };
    double floats[] = { 1, 0.1, INFINITY, NAN };
    const char *strings[] = { "a", "b\"\n" };
    Node *n = graph_add_node(g, &op_Exp, "n", NULL, 1, &x, 1, NULL);
    char *text;

    tensor_set_int(t, 1, 7);
    node_set_attr(g, n, &(Attr)INT("i", -3));
    node_set_attr(g, n, &(Attr)FLOAT("f", 2));
    node_set_attr(g, n, &(Attr)FLOAT("tiny", 1e-300));
    node_set_attr(g, n, &(Attr)STRING("s", "x\\y"));
    node_set_attr(g, n, &(Attr)STRING("no_s", NULL));
    node_set_attr(g, n, &(Attr)INTS("is", 2, ints));
    node_set_attr(g, n, &(Attr)INTS("no_is", 0, ints));
    node_set_attr(g, n, &(Attr){ .name = "fs", .type = A_FLOATS, .n = 4, .floats = floats });
    node_set_attr(g, n, &(Attr){ .name = "no_fs", .type = A_FLOATS, .floats = floats });
    node_set_attr(g, n, &(Attr){ .name = "ss", .type = A_STRINGS, .n = 2, .strings = strings });
    node_set_attr(g, n, &(Attr){ .name = "no_ss", .type = A_STRINGS, .strings = strings });
    node_set_attr(g, n, &(Attr){ .name = "t", .type = A_TENSOR, .tensor = t });
    node_set_attr(g, n, &(Attr){ .name = "no_t", .type = A_TENSOR });
    CHECK_OK(g->status);
    text = print(g);
    CHECK_STR(
        "graph \"g\" {\n  input %x : float32[2]\n  %Exp_0 : none[*] = Exp(%x) {i=-3, f=2.0, tiny=1e-300, s=\"x\\\\y\", "
        "no_s=string, is=[1,-2], no_is=[], fs=[1.0,0.1,inf,nan], no_fs=floats[], ss=[\"a\",\"b\\\"\\x0a\"], "
        "no_ss=strings[], t=int32[2] {0, 7}, no_t=tensor} \"n\"\n}\n",
        text);
    free(text);
    graph_free(g);
}

/* Attributes that no operator declares are refused by name, and types are told apart. */
static void test_attributes_are_read(void)
{
    Graph *g = parse("graph \"g\" { input %x : float32[2,3] %y = Softmax(%x) {axis=-1} output \"y\" = %y }");

    if (g) {
        CU_ASSERT_EQUAL(node_int(g->node[0], "axis"), 1);
        CU_ASSERT_EQUAL(node_int(g->node[0], "flatten"), 0);
        CU_ASSERT_EQUAL(value(g, g->node[0]->out[0])->shape->rank, 2);
        CU_ASSERT_EQUAL(value(g, g->node[0]->out[0])->dtype, DT_FLOAT32);
    }
    graph_free(g);
}

static void test_long_data_is_cut(void)
{
    Graph *g = parse("graph \"g\" { const %c : int64[6] = {1, 2, 3, 4, 5, 6} }"), *back = NULL;
    char *text = NULL;

    if (g && CHECK_OK(graph_text(&text, g, &(PrintOptions){ .max_elements = 2 }))) {
        CHECK_STR("graph \"g\" {\n  const %c : int64[6] = {1, 2, ...}\n}\n", text);
        CHECK_FAILS(E_MODEL, "line 2: the data was cut", graph_parse(&back, text, strlen(text)));
    }
    free(text);
    graph_free(g);
}

#define G "graph \"g\" {\n input %x : float32[2]\n"

static const struct {
    const char *text, *message;
} hostile[] = {
    { "", "line 1: expected 'graph', found the end" },
    { "graph {", "line 1: expected the graph's name in quotes, found '{'" },
    { "graph \"g\" {", "line 1: expected input, state, const, update, output, %name or '}', found the end" },
    { "graph \"g\" { } x", "expected the end, found 'x'" },
    { G "%y = Nonsense(%x) }", "line 3: unknown operator 'Nonsense'" },
    { G "%y = other.Exp(%x) }", "line 3: unknown operator 'other.Exp'" },
    { G "%y = of.a.domain.whose.name.is.longer.than.any.that.operators.are.of.Exp(%x) }",
      "line 3: unknown operator 'of.a.domain.whose.name.is.longer" },
    { G "%y = Exp(%z) }", "line 3: %z is not defined before it is used" },
    { G "%y = Exp(%y) }", "line 3: %y is not defined before it is used" },
    { G "%x = Exp(%x) }", "line 3: %x is defined twice" },
    { G "%y, %y = Exp(%x) }", "line 3: %y is defined twice" },
    { G "%y = Exp(%x %x) }", "line 3: expected ',', found 'x'" },
    { G "%y = Exp() }", "0 inputs, expected 1" },
    { G "%y = Exp(_) }", "required input 0 is absent" },
    { G "_, %y = TopK(%x, %x) }", "required output 0 is absent" },
    { G "%y = Exp(%x) {axis=1} }", "line 3: Exp y (output 'y'): unknown attribute 'axis'" },
    { G "%y = Softmax(%x) {axis=0, axis=0} }", "line 3: attribute 'axis' is given twice" },
    { G "%y = Softmax(%x) {axis=1.5} }", "attribute 'axis' has the wrong type" },
    { G "%y = Softmax(%x) {axis=99999999999999999999} }", "attribute 'axis' has the wrong type" },
    { G "%y = Softmax(%x) {axis=4} }", "axis 4 of rank 1" },
    { G "%y = Softmax(%x) {axis=[1,\"a\"]} }", "line 3: expected an integer, found 'a'" },
    { G "%y = dpexec.Fused(%x) {program=graph} }", "line 3: Fused y (output 'y'): attribute 'program' is required" },
    { G "%y = dpexec.Fused(%x) {program=\"%y0 = Exp(%x0)\"} }", "attribute 'program' has the wrong type" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a) { %b = Exp(%a) } }", "expected const, %name or return, found '}'" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a) { %b = Exp(%x) return %b }} }", "%x is not defined before" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a, %a) { return %a }} }", "%a is defined twice" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a) { state %s : float32[] = {1} return %a }} }", "expected const" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a) { return _ }} }", "line 3: expected %name, found '_'" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a, %b) { return %a }} }", "its body has 2 inputs, expected 1" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a) { return %a, %a }} }", "returns 2 values, expected 1" },
    { G "%y = dpexec.Fused(%x) {program=graph(%a) { %b = Softmax(%a) return %b }} }", "is not elementwise" },
    { G "update %x := %x }", "line 3: expected a state before ':='" },
    { G "output %x }", "expected the output's name in quotes" },
    { G "const %c : float32[2] }", "expected '=' and data" },
    { G "const %c : float32[?] = {1} }", "data of unknown shape" },
    { G "const %c : float99[2] = {1} }", "expected a type, found 'float99'" },
    { G "const %c : float32[2] = {1} }", "expected ',', found '}'" },
    { G "const %c : float32[2] = {1, 2, 3} }", "expected '}', found ','" },
    { G "const %c : float32[2] = {1, 0x2} }", "expected a number, found '0x2'" },
    { G "const %c : uint8[1] = {256} }", "256 is no uint8" },
    { G "const %c : uint8[1] = {-1} }", "-1 is no uint8" },
    { G "const %c : bool[1] = {2} }", "2 is no bool" },
    { G "const %c : uint64[1] = {-1} }", "expected an unsigned integer" },
    { G "const %c : int64[1] = {9223372036854775808} }", "expected an integer" },
    { G "const %c : float32[-1] = {1} }", "dimension -1 is negative" },
    { G "const %c : float32[1000000000000] = {1} }", "elements expected, the text ends before" },
    { G "const %c : float32[1000000000000] = all 1 }", "'all' for 1000000000000 elements" },
    { G "const %c : float32[4000000000,4000000000,4] = all 1 }", "the size overflows" },
    { G "const %c : float32[1,1,1,1,1,1,1,1,1] = {1} }", "more than 8 dimensions" },
    { G "const %c : float32[n=1] = {1} }", "only inputs name their dimensions" },
    { G "input %i : float32[1] = {1} }", "an input has no data" },
    { G "input %\"\" : float32[1] }", "an empty name" },
    { G "input %\"a\n", "line 3: a string has a control character or no end" },
    { G "input %\"a\\", "a string" },
    { G "input %\"a\\x00\" : float32[1] }", "expected \\\", \\\\ or \\xNN" },
    { G "input %\"a\\q\" : float32[1] }", "expected \\\", \\\\ or \\xNN" },
    { G "input % : float32[1] }", "expected a name after %" },
    { G "\xff }", "line 3: unexpected character 0xff" },
    { G "input %i : float32[1] @x }", "expected r0 or d0, found 'x'" },
    { G "input %i : float32[1] @r99999999999 }", "expected r0 or d0" },
};

static void test_hostile_text(void)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        Graph *g = NULL;
        Status st = graph_parse(&g, hostile[i].text, strlen(hostile[i].text));

        if ((st != E_MODEL && st != E_SHAPE) || !strstr(status_message(), hostile[i].message))
            TEST_FAIL("%s\nexpected \"%s\", found %d \"%s\"", hostile[i].text, hostile[i].message, st,
                      status_message());
        CU_ASSERT_PTR_NULL(g);
    }
}

/* Every prefix and every byte replaced: an error or a graph, never a crash (the sanitizers watch). */
static void test_damaged_text(void)
{
    const char *good =
        "graph \"g\" {\n  input %x : float32[\"n\"=2,3] @r0 d1\n  const %c : float32[2] = {1, nan:7fc00001}\n"
        "  %y : float32[2,3] = Softmax(%x) {axis=1} \"n\" @d0\n  output \"y\" = %y\n}\n";
    size_t len = strlen(good), n_good = 0;
    char *text = malloc(len);
    static const char bytes[] = "\0\"%{}[](),:=@?*-.09aAe\\x\n\xff";

    for (size_t i = 0; i < len; i++) {
        Graph *g = NULL;

        memcpy(text, good, len);
        if (i + 1 < len)
            CU_ASSERT(graph_parse(&g, text, i) != ST_OK);
        for (size_t b = 0; b < sizeof bytes; b++) {
            text[i] = bytes[b];
            g = NULL;
            if (!graph_parse(&g, text, len)) {
                CHECK_OK(graph_verify(g));
                n_good++;
            }
            graph_free(g);
        }
    }
    CU_ASSERT(n_good > len);
    free(text);
}

DEFINE_SUITE(text, { "every statement reads back", test_every_statement }, { "zeros without memory", test_zeros },
             { "every type reads back", test_every_dtype }, { "float bits survive", test_bits_survive },
             { "every attribute is printed", test_every_attribute },
             { "attributes are read and filled in", test_attributes_are_read },
             { "long data is cut on request", test_long_data_is_cut },
             { "hostile text is refused by line", test_hostile_text },
             { "damaged text never crashes", test_damaged_text });
