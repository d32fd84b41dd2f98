/* What a well-formed model becomes. */
#include <stdlib.h>
#include <string.h>

#include "tests/onnx/build.h"
#include "exec/run/interp.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/view.gen.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

static Graph *imported(Built *b)
{
    Graph *g = NULL;

    CHECK_OK(built_import(&g, b));
    built_free(b);
    return g;
}

/* The constant that the graph's output number `i` stands for; fails the test when it is none. */
static const Tensor *output_const(const Graph *g, int i)
{
    const Tensor *t = value_const(g, g->output[i].value);

    if (!t)
        TEST_FAIL("output %d is not a constant", i);
    return t;
}

static void test_inputs(void)
{
    Built b = built_relu();
    Graph *g;

    built_input(&b, "z", DT_INT64, "N,3,?");
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(g->n_input, 2);
    const Value *z = value(g, g->input[1]);
    CHECK_STR("z", z->name);
    CU_ASSERT_EQUAL(z->dtype, DT_INT64);
    CU_ASSERT(z->shape->rank == 3 && z->shape->dim[0] == -1 && z->shape->dim[1] == 3 && z->shape->dim[2] == -1);
    CHECK_STR("N", z->dim_param[0]);
    CU_ASSERT_PTR_NULL(z->dim_param[1]);
    CU_ASSERT_PTR_NULL(z->dim_param[2]);
    CU_ASSERT_PTR_EQUAL(g->node[0]->op, &op_Relu);
    CHECK_STR("relu", g->node[0]->name);
    CHECK_STR("y", value(g, g->output[0].value)->name);
    graph_free(g);
}

/* Every type in every field it may stand in, against values known by hand. */
static void test_initializer_types(void)
{
    static const int32_t ints[2] = { 1, 0 }, halves[2] = { 0x3c00, 0xc000 }, brains[2] = { 0x3f80, 0xc000 };
    static const int32_t negative[2] = { -5, 7 };
    static const struct {
        int type;
        const int32_t *data;
        double want[2];
    } cases[] = {
        { DT_UINT8, ints, { 1, 0 } },      { DT_INT8, negative, { -5, 7 } },   { DT_UINT16, ints, { 1, 0 } },
        { DT_INT16, negative, { -5, 7 } }, { DT_INT32, negative, { -5, 7 } },  { DT_BOOL, ints, { 1, 0 } },
        { DT_FLOAT16, halves, { 1, -2 } }, { DT_BFLOAT16, brains, { 1, -2 } },
    };
    Built b = built_relu();
    Graph *g;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[8];
        Onnx__TensorProto *t;

        snprintf(name, sizeof name, "w%zu", i);
        t = built_init(&b, name, cases[i].type, "2", 0, NULL);
        t->n_int32_data = 2;
        t->int32_data = (int32_t *)(uintptr_t)cases[i].data;
        built_output(&b, name);
    }
    if (!(g = imported(&b)))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Tensor *t = output_const(g, (int)i + 1);

        CU_ASSERT_EQUAL_FATAL((int)t->dtype, cases[i].type);
        CU_ASSERT_EQUAL(tensor_float(t, 0), cases[i].want[0]);
        CU_ASSERT_EQUAL(tensor_float(t, 1), cases[i].want[1]);
    }
    graph_free(g);
}

static void test_raw_and_wide(void)
{
    double d[1] = { 0.1 };
    uint64_t u[2] = { UINT32_MAX, 3 };
    int64_t l[2] = { INT64_MIN, -1 };
    uint8_t truth[3] = { 0, 1, 7 };
    Built b = built_relu();
    Onnx__TensorProto *t;
    Graph *g;

    built_init(&b, "d", DT_FLOAT64, "", sizeof d, d);
    built_init(&b, "t", DT_BOOL, "3", sizeof truth, truth);
    t = built_init(&b, "u", DT_UINT32, "2", 0, NULL);
    t->n_uint64_data = 2;
    t->uint64_data = u;
    t = built_init(&b, "l", DT_INT64, "2", 0, NULL);
    t->n_int64_data = 2;
    t->int64_data = l;
    built_init(&b, "none", DT_FLOAT32, "3,0", 0, NULL);
    built_output(&b, "d");
    built_output(&b, "t");
    built_output(&b, "u");
    built_output(&b, "l");
    built_output(&b, "none");
    if (!(g = imported(&b)))
        return;
    CU_ASSERT(output_const(g, 1)->shape.rank == 0 && tensor_float(output_const(g, 1), 0) == 0.1);
    CU_ASSERT_EQUAL(((uint8_t *)output_const(g, 2)->data)[2], 1);
    CU_ASSERT_EQUAL(((uint32_t *)output_const(g, 3)->data)[0], UINT32_MAX);
    CU_ASSERT_EQUAL(((int64_t *)output_const(g, 4)->data)[0], INT64_MIN);
    CU_ASSERT_EQUAL(tensor_numel(output_const(g, 5)), 0);
    graph_free(g);
}

static void add_sparse(Built *b, const char *name, const char *dims, const float *v, size_t n, const char *index_dims,
                       const int64_t *index, size_t n_index)
{
    Onnx__SparseTensorProto *s = arena_alloc(b->arena, sizeof *s);
    char count[8];

    onnx__sparse_tensor_proto__init(s);
    snprintf(count, sizeof count, "%zu", n);
    s->values = tensor_make(b->arena, name, DT_FLOAT32, count, n * sizeof *v, v);
    s->indices = tensor_make(b->arena, "", DT_INT64, index_dims, n_index * sizeof *index, index);
    s->dims = tensor_make(b->arena, "", DT_FLOAT32, dims, 0, NULL)->dims;
    s->n_dims = tensor_make(b->arena, "", DT_FLOAT32, dims, 0, NULL)->n_dims;
    ADD(b->arena, b->graph->sparse_initializer, b->graph->n_sparse_initializer, s);
}

static void test_sparse(void)
{
    static const float v[2] = { 5, 7 };
    static const int64_t linear[2] = { 1, 5 }, pairs[4] = { 0, 1, 1, 2 }, twice[2] = { 1, 1 }, outside[2] = { 1, 6 };
    Built b = built_relu(), c = built_relu(), d = built_relu(), e = built_relu();
    Graph *g;

    add_sparse(&b, "a", "2,3", v, 2, "2", linear, 2);
    add_sparse(&b, "b", "2,3", v, 2, "2,2", pairs, 4);
    built_output(&b, "a");
    built_output(&b, "b");
    if ((g = imported(&b))) {
        static const float want[6] = { 0, 5, 0, 0, 0, 7 };

        for (int o = 1; o < 3; o++)
            CU_ASSERT(!memcmp(output_const(g, o)->data, want, sizeof want));
        graph_free(g);
    }
    add_sparse(&c, "a", "2,3", v, 2, "2", twice, 2);
    REFUSED(&c, E_MODEL, "ascending order");
    add_sparse(&d, "a", "2,3", v, 2, "2", outside, 2);
    REFUSED(&d, E_MODEL, "index 6 is outside 0..5");
    add_sparse(&e, "a", "1048576,1048576", v, 2, "2", linear, 2);
    REFUSED(&e, E_UNSUPPORTED, "too large to be made dense");
}

static void test_constants(void)
{
    static int64_t ints[2] = { 3, -4 };
    static float floats[2] = { 0.5f, -1 };
    static const char *const kinds[] = { "value", "value_int", "value_ints", "value_float", "value_floats" };
    Built b = built_relu();
    Graph *g;

    for (size_t i = 0; i < 5; i++) {
        static const int types[] = { KIND(TENSOR), KIND(INT), KIND(INTS), KIND(FLOAT), KIND(FLOATS) };
        Onnx__AttributeProto *a = attr_make(b.arena, kinds[i], (Onnx__AttributeProto__AttributeType)types[i]);
        char name[8];

        a->t = i == 0 ? tensor_make(b.arena, "", DT_FLOAT32, "2", sizeof floats, floats) : NULL;
        a->has_i = i == 1;
        a->i = 9;
        a->n_ints = i == 2 ? 2 : 0;
        a->ints = ints;
        a->has_f = i == 3;
        a->f = 0.25f;
        a->n_floats = i == 4 ? 2 : 0;
        a->floats = floats;
        snprintf(name, sizeof name, "c%zu", i);
        node_add_attr(b.arena, built_node(&b, "Constant", "", name), a);
        built_output(&b, name);
    }
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(g->n_node, 1);
    CU_ASSERT(tensor_float(output_const(g, 1), 1) == -1);
    CU_ASSERT(output_const(g, 2)->shape.rank == 0 && tensor_int(output_const(g, 2), 0) == 9);
    CU_ASSERT(output_const(g, 3)->shape.dim[0] == 2 && tensor_int(output_const(g, 3), 1) == -4);
    CU_ASSERT(output_const(g, 4)->dtype == DT_FLOAT32 && tensor_float(output_const(g, 4), 0) == 0.25);
    CU_ASSERT(output_const(g, 5)->shape.dim[0] == 2 && tensor_float(output_const(g, 5), 0) == 0.5);
    graph_free(g);
}

/* Exporters share a weight through Identity: one parameter, not two. */
static void test_identity_of_initializer(void)
{
    float w[2] = { 1, 2 };
    Built b = built_relu();
    Graph *g;

    built_init(&b, "w", DT_FLOAT32, "2", sizeof w, w);
    built_node(&b, "Identity", "w", "w2");
    built_node(&b, "Identity", "w2", "w3");
    built_node(&b, "Add", "y,w3", "s");
    built_node(&b, "Mul", "s,w", "p");
    built_output(&b, "p");
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(g->n_node, 3);
    CU_ASSERT(value_eq(g->node[1]->in[1], g->node[2]->in[1]));
    CHECK_STR("w", value(g, g->node[1]->in[1])->name);
    graph_free(g);
}

static void test_initializer_as_input(void)
{
    float w[2] = { 1, 2 };
    Built b = built_relu();
    Graph *g;

    built_init(&b, "w", DT_FLOAT32, "2", sizeof w, w);
    built_input(&b, "w", DT_FLOAT32, "2");
    built_node(&b, "Add", "x,w", "s");
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(g->n_input, 1);
    CU_ASSERT_PTR_NOT_NULL(value_const(g, g->node[1]->in[1]));
    graph_free(g);
}

static void test_out_of_order(void)
{
    Built b = built_create(17);
    Graph *g;

    built_input(&b, "x", DT_FLOAT32, "2");
    built_node(&b, "Relu", "t", "y")->name = "last";
    built_node(&b, "Neg", "s", "t")->name = "middle";
    built_node(&b, "Abs", "x", "s")->name = "first";
    built_output(&b, "y");
    if (!(g = imported(&b)))
        return;
    CHECK_STR("first", g->node[0]->name);
    CHECK_STR("middle", g->node[1]->name);
    CHECK_STR("last", g->node[2]->name);
    graph_free(g);
}

/* A deep chain in reverse must not take the stack. */
static void test_long_chain(void)
{
    enum { N = 20000 };
    Built b = built_create(17);
    char in[16], out[16];
    Graph *g;

    built_input(&b, "v0", DT_FLOAT32, "2");
    b.graph->node = ARENA_NEW(b.arena, Onnx__NodeProto *, N);
    b.graph->n_node = N;
    for (int i = 0; i < N; i++) {
        snprintf(in, sizeof in, "v%d", i);
        snprintf(out, sizeof out, "v%d", i + 1);
        b.graph->node[N - 1 - i] = node_make(b.arena, "Relu", in, out);
    }
    built_output(&b, out);
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(g->n_node, N);
    graph_free(g);
}

/* ---- functions ---- */

static Onnx__AttributeProto *reference(Arena *a, const char *name, const char *to, int type)
{
    Onnx__AttributeProto *p = attr_make(a, name, (Onnx__AttributeProto__AttributeType)type);

    p->ref_attr_name = arena_strdup(a, to);
    return p;
}

/* Outer(u) = Inner(u) along its attribute; Inner = Softmax.  Called once with the attribute, once without. */
static void test_functions(void)
{
    Built b = built_create(17);
    Onnx__FunctionProto *outer, *inner;
    Onnx__NodeProto *n;
    Graph *g;

    built_opset(&b, "local", 1);
    built_input(&b, "x", DT_FLOAT32, "2,3");
    n = built_node(&b, "Outer", "x", "y");
    n->domain = "local";
    n->name = "call";
    node_attr_int(b.arena, n, "along", 0);
    built_node(&b, "Outer", "y", "z")->domain = "local";
    built_output(&b, "z");
    outer = built_function(&b, "local", "Outer", "u", "v", "along");
    function_opset(&b, outer, "local", 1);
    n = node_make(b.arena, "Inner", "u", "v");
    n->domain = "local";
    node_add_attr(b.arena, n, reference(b.arena, "axis", "along", KIND(INT)));
    function_node(&b, outer, n);
    inner = built_function(&b, "local", "Inner", "u", "v", "axis");
    function_opset(&b, inner, "", 13);
    n = node_make(b.arena, "Softmax", "u", "v");
    node_add_attr(b.arena, n, reference(b.arena, "axis", "axis", KIND(INT)));
    function_node(&b, inner, n);
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL_FATAL(g->n_node, 2);
    CU_ASSERT_PTR_EQUAL(g->node[0]->op, &op_Softmax);
    CU_ASSERT_EQUAL(node_int(g->node[0], "axis"), 0);
    CU_ASSERT_EQUAL(node_int(g->node[1], "axis"), -1); /* absent: Softmax's own default */
    CHECK_STR("call/Inner/v", value(g, g->node[0]->out[0])->name);
    CU_ASSERT(value_eq(g->node[1]->in[0], g->node[0]->out[0]));
    CHECK_STR("z", g->output[0].name);
    graph_free(g);
}

/* Defaults of attributes came after the definition of 2022: field 11 of FunctionProto, here as bytes. */
static void test_function_defaults(void)
{
    Built b = built_create(17);
    Onnx__FunctionProto *f;
    Onnx__NodeProto *n;
    Onnx__AttributeProto *a;
    uint8_t *bytes, *longer;
    size_t size, len;
    Graph *g = NULL;

    built_opset(&b, "local", 1);
    built_input(&b, "x", DT_FLOAT32, "2,3");
    built_node(&b, "F", "x", "y")->domain = "local";
    built_output(&b, "y");
    f = built_function(&b, "local", "F", "u", "v", "");
    function_opset(&b, f, "", 17);
    n = node_make(b.arena, "Softmax", "u", "v");
    node_add_attr(b.arena, n, reference(b.arena, "axis", "along", KIND(INT)));
    function_node(&b, f, n);
    a = attr_make(b.arena, "along", KIND(INT));
    a->has_i = 1;
    a->i = 1;
    len = protobuf_c_message_get_packed_size(&a->base);
    f->base.unknown_fields = arena_alloc(b.arena, sizeof *f->base.unknown_fields);
    f->base.n_unknown_fields = 1;
    bytes = arena_alloc(b.arena, len + 1);
    bytes[0] = (uint8_t)len;
    protobuf_c_message_pack(&a->base, bytes + 1);
    f->base.unknown_fields[0] =
        (ProtobufCMessageUnknownField){ 11, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, len + 1, bytes };
    longer = built_bytes(&b, &size);
    if (CHECK_OK(onnx_import_memory(&g, NULL, &(OnnxMemory){ .data = longer, .size = size }, "model", NULL))) {
        CU_ASSERT_EQUAL(node_int(g->node[0], "axis"), 1);
        graph_free(g);
    }
    built_free(&b);
}

/* Each body speaks its own opset: Softmax meant something else up to opset 12. */
static void test_function_opset(void)
{
    Built b = built_create(17);
    Onnx__FunctionProto *f;
    Graph *g;

    built_opset(&b, "local", 1);
    built_input(&b, "x", DT_FLOAT32, "2,3,4");
    built_node(&b, "F", "x", "y")->domain = "local";
    built_node(&b, "Softmax", "y", "z");
    built_output(&b, "z");
    f = built_function(&b, "local", "F", "u", "v", "");
    function_opset(&b, f, "", 11);
    function_node(&b, f, node_make(b.arena, "Softmax", "u", "v"));
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(node_int(g->node[0], "axis"), 1);
    CU_ASSERT_EQUAL(node_int(g->node[1], "axis"), -1);
    graph_free(g);
}

/* Exports for training at opset 13 and below name all five outputs; what reads the last two is told which it is. */
static void test_saved_statistics(void)
{
    for (int read = 0; read < 2; read++) {
        Built b = built_create(9);
        float ones[3] = { 1, 1, 1 };
        Graph *g = NULL;

        built_input(&b, "x", DT_FLOAT32, "-1,3,4,4");
        for (int i = 0; i < 4; i++)
            built_init(&b, (const char *[]){ "scale", "bias", "mean", "var" }[i], DT_FLOAT32, "3", sizeof ones, ones);
        built_node(&b, "BatchNormalization", "x,scale,bias,mean,var", "y,next_mean,next_var,saved_mean,saved_var")
            ->name = "bn";
        built_output(&b, "y");
        if (read) {
            built_node(&b, "Relu", "saved_var", "z");
            REFUSED(&b, E_UNSUPPORTED,
                    "Relu (unnamed) (output 'z'): input 'saved_var': output 4 of BatchNormalization bn (output 'y')");
        } else if ((g = imported(&b))) {
            CU_ASSERT_EQUAL(g->node[0]->n_out, 3);
            CU_ASSERT_EQUAL(node_int(g->node[0], "training_mode"), 1);
            CU_ASSERT_EQUAL(value(g, g->input[0])->shape->dim[0], -1); /* PaddlePaddle's way to leave a size open */
            graph_free(g);
        }
    }
}

static int live_nodes(const Graph *g, const OpDef *op)
{
    int count = 0;

    FOR_NODES(g, n)
        count += n->op == op;
    return count;
}

/* chunk and split as torch's exporter writes them; sizes in one number leave the count of parts to the shape. */
static void test_sequences(void)
{
    static const int64_t zero = 0, one = 1, two = 2, five = 5, minus = -1, sizes[2] = { 3, 1 };
    Built b = built_create(17);
    Graph *g;

    built_input(&b, "x", DT_FLOAT32, "N,4");
    built_init(&b, "zero", DT_INT64, "", 8, &zero);
    built_init(&b, "one", DT_INT64, "", 8, &one);
    built_init(&b, "two", DT_INT64, "", 8, &two);
    built_init(&b, "minus", DT_INT64, "", 8, &minus);
    built_init(&b, "sizes", DT_INT64, "2", sizeof sizes, sizes);
    node_attr_int(b.arena, built_node(&b, "SplitToSequence", "x,two", "halves"), "axis", 1);
    node_attr_int(b.arena, built_node(&b, "SplitToSequence", "x,sizes", "parts"), "axis", 1);
    built_node(&b, "SequenceAt", "halves,one", "right");
    built_node(&b, "SequenceAt", "parts,zero", "three");
    built_node(&b, "SequenceAt", "parts,minus", "last");
    node_attr_int(b.arena, built_node(&b, "ConcatFromSequence", "halves", "again"), "axis", 1);
    built_node(&b, "SequenceConstruct", "three,last", "list");
    built_node(&b, "SequenceInsert", "list,right,zero", "longer");
    built_node(&b, "SequenceErase", "longer,one", "shorter");
    node_attr_int(b.arena, built_node(&b, "ConcatFromSequence", "shorter", "y"), "axis", 1);
    built_node(&b, "SequenceLength", "longer", "n");
    for (int i = 0; i < 3; i++)
        built_output(&b, (const char *[]){ "y", "again", "n" }[i]);
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL(live_nodes(g, &op_Split), 1);
    CU_ASSERT_EQUAL(live_nodes(g, &op_Slice), 1);
    CU_ASSERT(value_eq(g->output[1].value, g->input[0]));
    CU_ASSERT_EQUAL(tensor_int(output_const(g, 2), 0), 3);
    const Node *join = value(g, g->output[0].value)->producer;
    CU_ASSERT(join->op == &op_Concat && join->n_in == 2);
    CU_ASSERT_PTR_EQUAL(value(g, join->in[0])->producer->op, &op_Slice); /* right, last */
    CU_ASSERT_EQUAL(value(g, join->in[1])->out_index, 1);
    graph_free(g);

    for (int i = 0; i < 5; i++) {
        static const char *const said[] = { "index 5 is outside of a sequence of 2", "must be constant integers",
                                            "which only operators of sequences read", "depends on a shape",
                                            "index 5 is outside of a sequence of 2" };
        Built c = built_relu();

        built_init(&c, "five", DT_INT64, "", 8, &five);
        built_init(&c, "one", DT_INT64, "", 8, &one);
        built_input(&c, "k", DT_INT64, "");
        built_input(&c, "open", DT_FLOAT32, "N");
        built_node(&c, "SplitToSequence", i == 1 ? "x,k" : i == 3 ? "open,one" : "x,one", "s");
        built_node(&c, "SequenceConstruct", "x,x", "t");
        built_node(&c,
                   i == 2   ? "Relu"
                   : i == 3 ? "SequenceLength"
                            : "SequenceAt",
                   i == 0   ? "t,five"
                   : i == 1 ? "s,one"
                   : i == 4 ? "s,five"
                            : "s",
                   "z");
        REFUSED(&c, i % 4 ? E_UNSUPPORTED : E_MODEL, said[i]);
    }
}

/* An output that is a sequence is an output for each of its tensors. */
static void test_sequence_outputs(void)
{
    static const int64_t two = 2;
    static const char *const names[] = { "list.0", "list.1", "x4", "halves.0", "halves.1" };
    Built b = built_create(17);
    Graph *g;

    built_input(&b, "x", DT_FLOAT32, "N,4");
    built_init(&b, "two", DT_INT64, "", 8, &two);
    built_node(&b, "Neg", "x", "x4");
    built_node(&b, "SequenceConstruct", "x4,x", "list");
    node_attr_int(b.arena, built_node(&b, "SplitToSequence", "x,two", "halves"), "axis", 1);
    built_output(&b, "list");
    built_output(&b, "x4");
    built_output(&b, "halves");
    if (!(g = imported(&b)))
        return;
    CU_ASSERT_EQUAL_FATAL(g->n_output, 5);
    for (int i = 0; i < 5; i++)
        CHECK_STR(names[i], g->output[i].name);
    CU_ASSERT(value_eq(g->output[0].value, g->output[2].value));
    CU_ASSERT(value_eq(g->output[1].value, g->input[0]));
    const Value *half = value(g, g->output[4].value);
    CU_ASSERT(half->producer->op == &op_Split && half->out_index == 1);
    graph_free(g);
    for (int i = 0; i < 3; i++) {
        static const char *const said[] = { "output 's': how many parts the sequence has depends on a shape",
                                            "output 's': the sequence has no tensors",
                                            "output 's.1', of the sequence 's', has the name of another" };
        Built c = built_relu();

        built_input(&c, "open", DT_FLOAT32, "N");
        built_node(&c, "Neg", "x", "s.1");
        if (i == 1)
            c.graph->n_output = 0;
        else
            built_output(&c, "s.1");
        built_node(&c,
                   i == 0   ? "SplitToSequence"
                   : i == 1 ? "SequenceEmpty"
                            : "SequenceConstruct",
                   i == 0   ? "open"
                   : i == 1 ? ""
                            : "x,x",
                   "s");
        built_output(&c, "s");
        REFUSED(&c, i == 2 ? E_MODEL : E_UNSUPPORTED, said[i]);
    }
}

/* What opsets before 7 wrote otherwise, at opset 1; ONNX's own tests of opset 6 run in tests/conformance. */
static void test_first_opset(void)
{
    static const float w[4] = { 1, 2, 3, 4 };
    Built b = built_create(1);
    Onnx__NodeProto *n;
    Onnx__AttributeProto *a;
    Graph *g;

    built_input(&b, "x", DT_FLOAT32, "N,4,2,2");
    built_init(&b, "w", DT_FLOAT32, "4", sizeof w, w);
    n = built_node(&b, "Add", "x,w", "a");
    node_attr_int(b.arena, n, "broadcast", 1);
    node_attr_int(b.arena, n, "axis", 1);
    a = attr_make(b.arena, "consumed_inputs", KIND(INTS));
    a->n_ints = 2;
    a->ints = (int64_t[]){ 0, 0 };
    node_add_attr(b.arena, n, a);
    n = built_node(&b, "Dropout", "a", "d");
    node_attr_int(b.arena, n, "is_test", 1);
    built_node(&b, "Concat", "d,d", "c");
    n = built_node(&b, "Cast", "c", "y");
    a = attr_make(b.arena, "to", KIND(STRING));
    a->has_s = 1;
    a->s = (ProtobufCBinaryData){ 6, (uint8_t *)"DOUBLE" };
    node_add_attr(b.arena, n, a);
    built_output(&b, "y");
    if (!(g = imported(&b)))
        return;
    const Node *cast = value(g, g->output[0].value)->producer, *join = value(g, cast->in[0])->producer;
    const Node *drop = value(g, join->in[0])->producer, *add = value(g, drop->in[0])->producer;
    CU_ASSERT_EQUAL(node_int(cast, "to"), DT_FLOAT64);
    CU_ASSERT_EQUAL(node_int(join, "axis"), 1);
    CU_ASSERT_EQUAL(tensor_float(value_const(g, drop->in[1]), 0), 0);
    CU_ASSERT_PTR_EQUAL(add->op, &op_Add);
    CU_ASSERT_PTR_EQUAL(value(g, add->in[1])->producer->op, &op_Reshape);
    graph_free(g);
}

/* A HardSigmoid's alpha as exporters write 1/6, and another. */
static void test_hard_sigmoid(void)
{
    static const struct {
        float written;
        double read;
    } cases[] = {
        { 0.1666666716337204F, 1.0 / 6 }, { 0.16666667F, 1.0 / 6 }, { 0.25F, 0.25 }, { 0.16666666F, 0.16666666F }
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Built b = built_create(17);
        Onnx__AttributeProto *a = attr_make(b.arena, "alpha", KIND(FLOAT));
        Graph *g;

        a->has_f = 1;
        a->f = cases[i].written;
        built_input(&b, "x", DT_FLOAT32, "N,3");
        node_add_attr(b.arena, built_node(&b, "HardSigmoid", "x", "y"), a);
        built_output(&b, "y");
        if ((g = imported(&b)))
            CU_ASSERT_EQUAL(node_float(g->node[0], "alpha"), cases[i].read);
        graph_free(g);
    }
}

/* Node `name` is the gradient of y by x. */
static void add_gradient(Built *b, char *name, char *y, const char *out)
{
    Onnx__NodeProto *n = built_node(b, "Gradient", "x", out);
    Onnx__AttributeProto *xs = attr_make(b->arena, "xs", KIND(STRINGS)), *of = attr_make(b->arena, "y", KIND(STRING));
    ProtobufCBinaryData *x = arena_alloc(b->arena, sizeof *x);

    n->name = name;
    n->domain = (char *)(uintptr_t) "ai.onnx.preview.training";
    *x = (ProtobufCBinaryData){ 1, (uint8_t *)(uintptr_t) "x" };
    xs->n_strings = 1;
    xs->strings = x;
    of->has_s = 1;
    of->s = (ProtobufCBinaryData){ strlen(y), (uint8_t *)y };
    node_add_attr(b->arena, n, xs);
    node_add_attr(b->arena, n, of);
}

/* Of itself, and of one that is its own. */
static void test_circular_gradients(void)
{
    for (int n = 1; n <= 2; n++) {
        Built b = built_create(17);
        Graph *g = NULL;

        built_opset(&b, "ai.onnx.preview.training", 1);
        built_input(&b, "x", DT_FLOAT32, "3");
        add_gradient(&b, (char[]){ "first" }, n == 1 ? (char[]){ "p" } : (char[]){ "q" }, "p");
        if (n == 2)
            add_gradient(&b, (char[]){ "second" }, (char[]){ "p" }, "q");
        built_output(&b, "p");
        CHECK_FAILS(E_MODEL,
                    n == 1 ? "Gradient first (output 'p'): its y depends on what Gradient first (output 'p') makes"
                           : "Gradient second (output 'q'): its y depends on what Gradient first (output 'p') makes",
                    built_import(&g, &b));
        built_free(&b);
    }
}

/* Nodes whose first output, a required one, has no name: evaluated node by node, and imported as a graph.  The values
 * are those of ONNX's definitions. */
static void test_unnamed_outputs(void)
{
    static const float w[4] = { 3, 1, 2, 4 };
    static const int64_t k[1] = { 2 }, indices[2] = { 3, 0 }, places[3] = { 0, 2, 3 };
    static const char *const nodes[][3] = { { "Mul", "w,w", "y" },
                                            { "TopK", "w,k", "y,indices" },
                                            { "Split", "w", "y,half" },
                                            { "MaxPool", "w", "y,places" } };
    const char *folder = test_folder("unnamed_outputs");
    Arena *a = arena_create();
    Built b = built_create(17);
    OnnxNamedValue *out = NULL;
    Onnx__AttributeProto *kernel;
    char path[512];
    Graph *g = NULL;
    int n = 0;

    built_init(&b, "w", DT_FLOAT32, "1,1,4", sizeof w, w);
    built_init(&b, "k", DT_INT64, "1", sizeof k, k);
    for (int i = 0; i < 4; i++)
        built_node(&b, nodes[i][0], nodes[i][1], nodes[i][2])->output[0] = "";
    node_attr_int(b.arena, b.graph->node[2], "axis", 2);
    kernel = attr_make(b.arena, "kernel_shape", KIND(INTS));
    kernel->n_ints = 1;
    kernel->ints = (int64_t *)k;
    node_add_attr(b.arena, b.graph->node[3], kernel);
    built_output(&b, "indices");
    built_output(&b, "half");
    built_output(&b, "places");
    built_write(&b, folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    CHECK_OK(onnx_evaluate_file(&out, &n, a, path, &(ImportOptions){ .eval = interp_node }, NULL, NULL));
    CU_ASSERT_FATAL(n == 3);
    CU_ASSERT(!memcmp(out[0].value.item[0]->data, indices, sizeof indices));
    CU_ASSERT(!memcmp(out[1].value.item[0]->data, w + 2, 2 * sizeof *w));
    CU_ASSERT(!memcmp(out[2].value.item[0]->data, places, sizeof places));
    if ((g = imported(&b)))
        FOR_NODES(g, node)
            CU_ASSERT(has_out(node, 0));
    graph_free(g);
    arena_free(a);
}

DEFINE_SUITE(import, { "gradients of themselves", test_circular_gradients }, { "inputs", test_inputs },
             { "an alpha of 1/6", test_hard_sigmoid }, { "opset 1", test_first_opset }, { "sequences", test_sequences },
             { "outputs that are sequences", test_sequence_outputs }, { "saved statistics", test_saved_statistics },
             { "types of initializers", test_initializer_types }, { "raw and wide data", test_raw_and_wide },
             { "sparse initializers", test_sparse }, { "constants", test_constants },
             { "Identity of an initializer", test_identity_of_initializer },
             { "initializer that is an input", test_initializer_as_input }, { "nodes out of order", test_out_of_order },
             { "a long chain", test_long_chain }, { "functions", test_functions },
             { "defaults of functions", test_function_defaults }, { "opsets of functions", test_function_opset },
             { "required outputs without a name", test_unnamed_outputs });
