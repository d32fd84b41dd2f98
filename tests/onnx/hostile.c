/* Files made to hurt: each is refused with one clear line, without a crash, a hang or much memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "tests/onnx/build.h"

/* ---- bytes ---- */

/* A model with a bit of everything, so that cuts and noise reach every reader. */
static Built rich_model(void)
{
    Built b = built_create(17);
    float w[4] = { 1, 2, 3, 4 };
    Onnx__NodeProto *n;
    Onnx__FunctionProto *f;

    built_opset(&b, "local", 1);
    built_input(&b, "x", DT_FLOAT32, "N,2");
    built_init(&b, "w", DT_FLOAT32, "2,2", sizeof w, w);
    built_node(&b, "Add", "x,w", "a")->name = "add";
    n = built_node(&b, "Softmax", "a", "s");
    node_attr_int(b.arena, n, "axis", -1);
    built_node(&b, "F", "s", "y")->domain = "local";
    f = built_function(&b, "local", "F", "u", "v", "");
    function_opset(&b, f, "", 17);
    function_node(&b, f, node_make(b.arena, "Relu", "u", "v"));
    built_output(&b, "y");
    return b;
}

static Status import_exact(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    Graph *g = NULL;
    Status st;

    if (size)
        memcpy(exact, bytes, size);
    st = onnx_import_memory(&g, NULL, &(OnnxMemory){ .data = exact, .size = size }, "cut",
                            &(ImportOptions){ .eval = interp_node });
    free(exact);
    if (!st)
        graph_free(g);
    else if (!*status_message() || strncmp(status_message(), "cut: ", 5))
        TEST_FAIL("no message, or one without the file's name: %s", status_message());
    return st;
}

/* Between two of the model's top-level fields a cut leaves a shorter model; it lacks its graph, or its functions or
 * opset. */
static void test_truncated(void)
{
    Built b = rich_model();
    size_t size;
    const uint8_t *bytes = built_bytes(&b, &size);

    CHECK_OK(import_exact(bytes, size));
    for (size_t n = 0; n < size; n++)
        if (import_exact(bytes, n) == ST_OK)
            TEST_FAIL("accepted when cut after %zu of %zu bytes", n, size);
    built_free(&b);
}

static uint32_t next_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

static void test_random_bytes(void)
{
    uint32_t seed = 1;
    uint8_t noise[512];

    for (int round = 0; round < 2000; round++) {
        size_t n = (next_random(&seed) >> 8) % sizeof noise;

        for (size_t i = 0; i < n; i++)
            noise[i] = (uint8_t)(next_random(&seed) >> 16);
        if (import_exact(noise, n) == ST_OK)
            TEST_FAIL("noise was accepted in round %d", round);
    }
}

/* Single bytes changed: many results are valid models; none may hurt. */
static void test_damaged(void)
{
    Built b = rich_model();
    uint32_t seed = 2;
    size_t size, refused = 0;
    uint8_t *bytes = built_bytes(&b, &size);

    for (int round = 0; round < 5000; round++) {
        size_t at = (next_random(&seed) >> 8) % size;
        uint8_t old = bytes[at];

        bytes[at] = (uint8_t)(next_random(&seed) >> 16);
        refused += import_exact(bytes, size) != ST_OK;
        bytes[at] = old;
    }
    CU_ASSERT(refused > 1000);
    built_free(&b);
}

/* ModelProto.graph (7) / GraphProto.node (1) / NodeProto.attribute (5) / AttributeProto.g (6), from the inside out. */
static void test_nested(void)
{
    static const uint8_t wrap[] = { 5 << 3 | 2, 1 << 3 | 2 };
    size_t cap = 64 * 1024, n = 0;
    uint8_t *bytes = malloc(cap);

    for (int level = 0; level < 3 * 3000 + 1; level++) {
        uint8_t tag = level == 3 * 3000 ? 7 << 3 | 2 : level % 3 == 0 ? 6 << 3 | 2 : wrap[level % 3 - 1];
        uint8_t head[12];
        size_t len = n, h = 0;

        head[h++] = tag;
        for (; len > 127; len >>= 7)
            head[h++] = (uint8_t)(len | 128);
        head[h++] = (uint8_t)len;
        memmove(bytes + h, bytes, n);
        memcpy(bytes, head, h);
        n += h;
    }
    CU_ASSERT(n < cap);
    CHECK_FAILS(E_MODEL, "nested more than 100 deep", import_exact(bytes, n));
    free(bytes);
}

static void test_empty_nodes(void)
{
    size_t n = 4 << 20;
    uint8_t *bytes = calloc(1, n + 8);

    bytes[0] = 7 << 3 | 2;
    for (size_t i = 0, len = n; i < 4; i++, len >>= 7)
        bytes[1 + i] = (uint8_t)((len & 127) | (i < 3 ? 128 : 0));
    for (size_t i = 0; i < n; i += 2)
        bytes[5 + i] = 1 << 3 | 2;
    CHECK_FAILS(E_MODEL, "more than 1524288 parts", import_exact(bytes, n + 5));
    free(bytes);
}

/* One graph in many pieces: protobuf merges them, in quadratic time. */
static void test_repeated_graph(void)
{
    static const uint8_t bytes[] = { 7 << 3 | 2, 0, 7 << 3 | 2, 0 };

    CHECK_FAILS(E_MODEL, "given twice", import_exact(bytes, sizeof bytes));
}

static void test_wire_format(void)
{
    static const uint8_t overlong[] = { 1 << 3, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1 };
    static const uint8_t too_long[] = { 7 << 3 | 2, 100, 0 };
    static const uint8_t huge[] = { 7 << 3 | 2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1 };
    static const uint8_t group[] = { 7 << 3 | 3 };
    static const uint8_t zero[] = { 0 << 3, 1 };
    static const uint8_t fixed[] = { 15 << 3 | 1, 0 };

    CHECK_FAILS(E_MODEL, "more than 10 bytes", import_exact(overlong, sizeof overlong));
    CHECK_FAILS(E_MODEL, "longer than what holds it", import_exact(too_long, sizeof too_long));
    CHECK_FAILS(E_MODEL, "longer than what holds it", import_exact(huge, sizeof huge));
    CHECK_FAILS(E_MODEL, "unknown kind of field", import_exact(group, sizeof group));
    CHECK_FAILS(E_MODEL, "numbered out of range", import_exact(zero, sizeof zero));
    CHECK_FAILS(E_MODEL, "ends inside a number", import_exact(fixed, sizeof fixed));
    CHECK_FAILS(E_MODEL, "no graph", import_exact(fixed, 0));
}

/* ---- structure ---- */

static void test_cycle(void)
{
    Built b = built_relu();

    built_node(&b, "Relu", "q", "p")->name = "first";
    built_node(&b, "Relu", "p", "q")->name = "second";
    REFUSED(&b, E_MODEL, "cycle through: Relu first (output 'p'); Relu second (output 'q')");
}

static void test_self_loop(void)
{
    Built b = built_relu();

    built_node(&b, "Add", "x,z", "z")->name = "loop";
    REFUSED(&b, E_MODEL, "cycle through: Add loop");
}

static void test_undefined_input(void)
{
    Built b = built_relu();

    built_node(&b, "Add", "x,nowhere", "z")->name = "add";
    REFUSED(&b, E_MODEL, "Add add (output 'z'): input 'nowhere' is defined nowhere");
}

static void test_defined_twice(void)
{
    Built b = built_relu(), c = built_relu(), d = built_relu(), e = built_relu();
    float w[2] = { 0 };

    built_node(&b, "Relu", "x", "y")->name = "again";
    REFUSED(&b, E_MODEL, "Relu again (output 'y'): 'y' is defined already");
    built_node(&c, "Relu", "y", "x")->name = "into_input";
    REFUSED(&c, E_MODEL, "'x' is defined already");
    built_init(&d, "w", DT_FLOAT32, "2", sizeof w, w);
    built_init(&d, "w", DT_FLOAT32, "2", sizeof w, w);
    REFUSED(&d, E_MODEL, "initializer 'w' is defined already");
    built_input(&e, "x", DT_FLOAT32, "2");
    REFUSED(&e, E_MODEL, "input 'x' is defined already");
}

static void test_outputs(void)
{
    Built b = built_relu(), c = built_relu(), d = built_relu();

    built_output(&b, "nothing");
    REFUSED(&b, E_MODEL, "output 'nothing' is made by no node");
    built_output(&c, "y");
    REFUSED(&c, E_MODEL, "output 'y' is listed twice");
    d.graph->n_output = 0;
    REFUSED(&d, E_MODEL, "the graph has no outputs");
}

static void test_no_operator(void)
{
    Built b = built_relu(), c = built_create(0);

    b.graph->node[0]->op_type = NULL;
    REFUSED(&b, E_MODEL, "a node without an operator");
    c.model->graph = NULL;
    REFUSED(&c, E_MODEL, "the model has no graph");
}

static void test_opsets(void)
{
    static const int64_t wrong[] = { 28, -1, 1000, INT64_MAX, INT64_MIN };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Built b = built_relu();

        b.model->opset_import[0]->version = wrong[i];
        REFUSED(&b, E_UNSUPPORTED, "expected 1 to 27");
    }
    {
        Built b = built_relu();

        b.model->n_opset_import = 0;
        REFUSED(&b, E_MODEL, "the opset of domain 'ai.onnx' is not given");
    }
}

/* ---- dimensions ---- */

static void test_input_dims(void)
{
    static const struct {
        const char *dims, *text;
        Status code;
    } wrong[] = {
        { "-2", "dimension 0 is -2", E_SHAPE },
        { "2,-9223372036854775808", "dimension 1 is", E_SHAPE },
        { "9223372036854775807,2", "overflows", E_SHAPE },
        { "4294967296,4294967296,N", "overflows", E_SHAPE },
        { "0,9223372036854775807,9223372036854775807", "overflows", E_SHAPE },
        { "1,1,1,1,1,1,1,1,1", "rank 9, at most 8", E_SHAPE },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Built b = built_relu();

        built_input(&b, "z", DT_FLOAT32, wrong[i].dims);
        REFUSED(&b, wrong[i].code, wrong[i].text);
    }
}

static void test_initializers(void)
{
    static const struct {
        const char *dims;
        size_t bytes;
        const char *text;
        Status code;
    } wrong[] = {
        { "2", 7, "raw_data of 7 bytes, expected 8", E_MODEL }, { "2", 0, "raw_data of 0 bytes, expected 8", E_MODEL },
        { "2", 9, "raw_data of 9 bytes, expected 8", E_MODEL }, { "", 8, "raw_data of 8 bytes, expected 4", E_MODEL },
        { "0", 4, "raw_data of 4 bytes, expected 0", E_MODEL }, { "-2", 8, "dimension 0 is -2", E_SHAPE },
        { "4611686018427387904,4", 8, "overflows", E_SHAPE },   { "1099511627776", 8, "raw_data of 8 bytes", E_MODEL },
        { "1,1,1,1,1,1,1,1,1", 4, "rank 9", E_SHAPE },
    };
    float data[4] = { 0 };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Built b = built_relu();

        built_init(&b, "w", DT_FLOAT32, wrong[i].dims, wrong[i].bytes, data);
        REFUSED(&b, wrong[i].code, wrong[i].text);
    }
}

static void test_typed_data(void)
{
    Built b = built_relu(), c = built_relu(), d = built_relu();
    int32_t ints[2] = { 1, 300 };
    float floats[3] = { 1, 2, 3 };
    uint64_t longs[1] = { (uint64_t)1 << 32 };
    Onnx__TensorProto *t = built_init(&b, "w", DT_UINT8, "2", 0, NULL);

    t->n_int32_data = 2;
    t->int32_data = ints;
    REFUSED(&b, E_MODEL, "element 1 is 300, out of range for uint8");
    t = built_init(&c, "w", DT_FLOAT32, "2", 0, NULL);
    t->n_float_data = 3;
    t->float_data = floats;
    REFUSED(&c, E_MODEL, "3 elements in float_data, expected 2");
    t = built_init(&d, "w", DT_UINT32, "1", 0, NULL);
    t->n_uint64_data = 1;
    t->uint64_data = longs;
    REFUSED(&d, E_MODEL, "out of range for uint32");
}

/* ---- functions ---- */

static Built calling(void)
{
    Built b = built_relu();

    built_opset(&b, "local", 1);
    b.graph->node[0]->op_type = "F";
    b.graph->node[0]->domain = "local";
    return b;
}

static void add_call(Built *b, Onnx__FunctionProto *f, const char *callee, const char *in, const char *out)
{
    Onnx__NodeProto *n = node_make(b->arena, callee, in, out);

    n->domain = "local";
    function_node(b, f, n);
}

static void test_recursion(void)
{
    Built b = calling();
    Onnx__FunctionProto *f = built_function(&b, "local", "F", "u", "v", ""),
                        *g = built_function(&b, "local", "G", "u", "v", "");

    add_call(&b, f, "G", "u", "v");
    add_call(&b, g, "F", "u", "v");
    REFUSED(&b, E_MODEL, "function 'F' calls itself");
}

/* Thirty functions, each calling the next one twice: a billion nodes. */
static void test_doubling(void)
{
    Built b = calling();

    for (int i = 0; i < 30; i++) {
        char name[8], next[8];
        Onnx__FunctionProto *f;

        snprintf(name, sizeof name, i ? "F%d" : "F", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        f = built_function(&b, "local", name, "u", "v", "");
        function_opset(&b, f, "", 17);
        if (i == 29) {
            function_node(&b, f, node_make(b.arena, "Relu", "u", "v"));
        } else {
            add_call(&b, f, next, "u", "t");
            add_call(&b, f, next, "t", "v");
        }
    }
    REFUSED(&b, E_MODEL, "more than 300000 nodes");
}

static void test_deep_functions(void)
{
    Built b = calling();

    for (int i = 0; i < 5000; i++) {
        char name[8], next[8];
        Onnx__FunctionProto *f;

        snprintf(name, sizeof name, i ? "F%d" : "F", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        f = built_function(&b, "local", name, "u", "v", "");
        add_call(&b, f, next, "u", "v");
    }
    REFUSED(&b, E_MODEL, "more than 64 deep");
}

static void test_bad_functions(void)
{
    Built b = calling(), c = calling(), d = calling(), e = calling();
    Onnx__FunctionProto *f = built_function(&b, "local", "F", "u", "v", "");

    (void)f;
    REFUSED(&b, E_MODEL, "does not make its output 'v'");
    f = built_function(&c, "local", "F", "u", "v", "");
    function_opset(&c, f, "", 17);
    function_node(&c, f, node_make(c.arena, "Add", "u,x", "v"));
    REFUSED(&c, E_MODEL, "input 'x' is defined nowhere"); /* the caller's names are not seen */
    built_function(&d, "local", "F", "", "v", "");
    REFUSED(&d, E_MODEL, "the function has 0 and 1");
    f = built_function(&e, "local", "F", "u", "v", "");
    function_node(&e, f, node_make(e.arena, "Relu", "u", "v"));
    REFUSED(&e, E_MODEL, "the opset of domain 'ai.onnx' is not given");
}

/* ---- what is not supported ---- */

static void test_all_listed(void)
{
    Built b = built_relu();
    Onnx__ValueInfoProto *s;

    built_node(&b, "NoSuchOp", "x", "p")->name = "one";
    built_node(&b, "Relu", "p", "q")->name = "fine";
    built_node(&b, "SequenceLength", "q", "r")->name = "two";
    s = built_input(&b, "s", DT_STRING, "1");
    (void)s;
    REFUSED(&b, E_UNSUPPORTED,
            "input 's': string tensors are supported only by the interpreter, without training; NoSuchOp one (output "
            "'p'); SequenceLength two "
            "(output 'r'): "
            "input 0 is no sequence");
}

/* An empty list of the wrong type is harmless, and must not reach the operator as what it is not. */
static void test_attribute_types(void)
{
    Built b = built_relu(), c = built_relu();
    Onnx__NodeProto *n = built_node(&b, "Transpose", "x", "t");
    Graph *g = NULL;
    int count = -1;

    node_add_attr(b.arena, n, attr_make(b.arena, "perm", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS));
    if (CHECK_OK(built_import(&g, &b))) {
        node_ints(g->node[1], "perm", &count);
        CU_ASSERT_EQUAL(count, 0);
        graph_free(g);
    }
    built_free(&b);
    n = built_node(&c, "Transpose", "x", "t");
    node_attr_int(c.arena, n, "perm", 0);
    REFUSED(&c, E_MODEL, "attribute 'perm' has the wrong type");
}

static void test_string_initializer(void)
{
    Built used = built_relu(), unused = built_relu();
    Graph *g = NULL;

    built_init(&used, "words", DT_STRING, "1", 0, NULL);
    built_node(&used, "Relu", "words", "z")->name = "spell";
    REFUSED(&used, E_UNSUPPORTED,
            "Relu spell (output 'z'): input 'words': string tensors are supported only by the interpreter, without "
            "training");
    built_init(&unused, "words", DT_STRING, "1", 0, NULL);
    if (CHECK_OK(built_import(&g, &unused)))
        graph_free(g);
    built_free(&unused);
}

DEFINE_SUITE(hostile, { "cut at every byte", test_truncated }, { "random bytes", test_random_bytes },
             { "damaged bytes", test_damaged }, { "3,000 nested graphs", test_nested },
             { "4 MB of empty nodes", test_empty_nodes }, { "a graph given in pieces", test_repeated_graph },
             { "wire format", test_wire_format }, { "a cycle", test_cycle },
             { "a node that reads itself", test_self_loop }, { "an undefined input", test_undefined_input },
             { "names defined twice", test_defined_twice }, { "outputs", test_outputs },
             { "nothing to run", test_no_operator }, { "opsets", test_opsets },
             { "dimensions of inputs", test_input_dims }, { "sizes of initializers", test_initializers },
             { "typed data", test_typed_data }, { "recursive functions", test_recursion },
             { "functions that double", test_doubling }, { "deep functions", test_deep_functions },
             { "wrong functions", test_bad_functions }, { "all that is unsupported is listed", test_all_listed },
             { "string initializers", test_string_initializer },
             { "attributes of the wrong type", test_attribute_types });
