/* What is written, read back as a message and as a graph. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/ir/emit.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/onnx/export.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "passes/model/inference.h"
#include "tests/onnx/build.h"

static const char *out_path(void)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/out.onnx", test_folder("export"));
    return path;
}

/* The file as a message, in `a`; NULL when it cannot be read. */
static const Onnx__ModelProto *read_back(Arena *a, const char *path)
{
    ProtobufCMessage *m = NULL;
    Mapped map;

    if (!CHECK_OK(mapped_open(&map, path)))
        return NULL;
    CHECK_OK(onnx_unpack(&m, a, &onnx__model_proto__descriptor, map.data, map.size, &map));
    mapped_close(&map);
    return (const Onnx__ModelProto *)m;
}

static void check_same_text(const Graph *g, const char *path)
{
    char *before = NULL, *after = NULL;
    Graph *copy = NULL;

    if (CHECK_OK(onnx_import_file(&copy, NULL, path, NULL)) && CHECK_OK(graph_text(&before, g, NULL)) &&
        CHECK_OK(graph_text(&after, copy, NULL)))
        CHECK_STR(before, after);
    free(before);
    free(after);
    graph_free(copy);
}

/* relu(x) on device 1 as replica 3; w := w + relu(x). */
static Graph *training_graph(void)
{
    Graph *g = graph_create("step");
    Shape s = SHAPE(2);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s), w;
    Tensor init = { DT_FLOAT32, s, (float[]){ 1, 2 } };
    Node *relu = graph_add_node(g, &op_Relu, "relu", NULL, 1, &x, 1, (const char *[]){ "y" }), *add;

    w = graph_add_state(g, "w", &init, true);
    value(g, w)->device = 1;
    relu->device = 1;
    relu->replica = 3;
    add = graph_add_node(g, &op_Add, "add", NULL, 2, (ValueId[]){ w, relu->out[0] }, 1, (const char *[]){ "next" });
    graph_add_update(g, w, add->out[0]);
    graph_add_output(g, "y", relu->out[0]);
    CHECK_OK(node_normalise(g, relu));
    CHECK_OK(node_normalise(g, add));
    return g;
}

static void test_nothing_is_lost(void)
{
    Graph *g = training_graph(), *copy = NULL;
    const char *path = out_path();

    CHECK_OK(onnx_export_file(g, NULL, path));
    check_same_text(g, path);
    if (CHECK_OK(onnx_import_file(&copy, NULL, path, NULL))) {
        const Value *w = value(copy, graph_find(copy, "w"));

        CU_ASSERT(w->kind == V_STATE && w->trainable && w->device == 1);
        CU_ASSERT_EQUAL(copy->n_update, 1);
        CU_ASSERT(copy->node[0]->device == 1 && copy->node[0]->replica == 3);
        CU_ASSERT(copy->node[1]->device == -1 && copy->node[1]->replica == -1);
    }
    graph_free(copy);
    graph_free(g);
}

/* Everything that the text form says of a value, on values that are not where their node is, are copies, have a
 * layout. */
static const char *const marked =
    "graph \"marks\" {\n"
    "  input %x : float32[\"batch\"=2,3,1,5] @r1 d0\n"
    "  state %w@d1 trainable : float32[1,3,1,1] channels_last @d1 = {1, 2, 3}\n"
    "  state %sum@r0 transient partial : float32[] of \"a name\\x0dwith, all = of it\" @r0 d1 = {0}\n"
    "  state %count partial : int64[] = {7}\n"
    "  const %c@r1 : float32[] of none = {0.5}\n"
    "  %y@r1 : float32[2,3,1,5] channels_last @r1 d1 = Relu(%x) @r1 d0\n"
    "  %z@r0 : float32[2,3,1,5] of none @none = Abs(%y@r1) @r0 d1\n"
    "  %s : float32[2,3,1,5] of \"x\" = Softmax(%z@r0) {axis=1} \"the node\" @r2\n"
    "  %lr : float32[2,3,1,5] = LeakyRelu(%s) {alpha=0.1}\n"
    "  %m : float32[2,3,1,5] = LeakyRelu(%lr) {alpha=0.009999999776482582}\n"
    "  update %count := %count\n"
    "  output \"count\" = %s\n"
    "  output \"lr\" = %m\n"
    "  output \"again\" = %m\n"
    "  output \"c\" = %c@r1\n"
    "}\n";

static void test_marks(void)
{
    Graph *g = NULL, *copy = NULL;
    const char *path = out_path();
    char *before = NULL, *after = NULL;

    if (!CHECK_OK(graph_parse(&g, marked, strlen(marked))))
        return;
    CHECK_OK(onnx_export_file(g, NULL, path));
    if (CHECK_OK(onnx_import_file(&copy, NULL, path, NULL))) {
        FOR_NODES(copy, n)
            CHECK_OK(node_infer(copy, n));
        CHECK_OK(graph_text(&before, g, NULL));
        CHECK_OK(graph_text(&after, copy, NULL));
        CHECK_STR(before, after);
    }
    free(before);
    free(after);
    graph_free(copy);
    graph_free(g);
}

/* Types, constants and subgraphs of bodies, whose names are those of values around them. */
static void test_bodies(void)
{
    static const char text[] =
        "graph \"bodies\" {\n"
        "  input %x : float32[2,3]\n"
        "  input %y : float32[3]\n"
        "  %z : float32[2,3], %s : float32[2,1] = dpexec.Fused(%x, %y) {program=graph(%x, %y) { const %c : float32[] = "
        "{0.1} %t = Mul(%x, %c) %z = Add(%t, %y) \"the sum\" return %z, %z }, sum=1, axes=[1]}\n"
        "  %u : float32[2,3] = dpexec.Fused(%z, %y) {program=graph(%a : float32[2,3], %y : float32[3]) { %u : "
        "float32[2,3] = dpexec.Fused(%a, %y) {program=graph(%p, %q) { %r = Sub(%p, %q) return %r }} return %u }}\n"
        "  output \"z\" = %z\n"
        "  output \"s\" = %s\n"
        "  output \"sum\" = %u\n"
        "}\n";
    const char *path = out_path();
    Graph *g = NULL, *copy = NULL;
    char *before = NULL, *after = NULL;

    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    CHECK_OK(graph_verify(g));
    CHECK_OK(onnx_export_file(g, NULL, path));
    if (CHECK_OK(onnx_import_file(&copy, NULL, path, NULL))) {
        CHECK_OK(graph_verify(copy));
        for (uint32_t i = 0; i < copy->n_node; i++)
            set_out(copy, copy->node[i], 0, DT_FLOAT32, &(Shape){ 2, { 2, 3 } });
        set_out(copy, copy->node[0], 1, DT_FLOAT32, &(Shape){ 2, { 2, 1 } });
        CHECK_OK(graph_text(&before, g, NULL));
        CHECK_OK(graph_text(&after, copy, NULL));
        CHECK_STR(text, before);
        CHECK_STR(before, after);
    }
    free(before);
    free(after);
    graph_free(copy);
    graph_free(g);
}

static void test_plain(void)
{
    Graph *g = training_graph();
    const char *path = out_path();
    Arena *a = arena_create();
    const Onnx__ModelProto *m;

    CHECK_OK(onnx_export_file(g, &(ExportOptions){ .plain = true }, path));
    if ((m = read_back(a, path))) {
        CU_ASSERT_EQUAL(m->n_metadata_props, 0);
        CU_ASSERT_EQUAL(m->n_opset_import, 1);
        CU_ASSERT_EQUAL(m->graph->n_value_info, 0);
        for (size_t i = 0; i < m->graph->n_node; i++)
            CU_ASSERT_PTR_NULL(m->graph->node[i]->doc_string);
    }
    arena_free(a);
    graph_free(g);
}

static bool has_initializer(const Onnx__ModelProto *m, const char *name)
{
    for (size_t i = 0; i < m->graph->n_initializer; i++)
        if (!strcmp(m->graph->initializer[i]->name, name))
            return true;
    return false;
}

/* What the file has for nobody stays, what nobody needs any more goes. */
static void test_idle_initializers(void)
{
    static const char *const name[] = { "weight", "idle", "dead" };
    Built b = built_create(17);
    Arena *a = arena_create();
    const char *path = out_path();
    const Onnx__ModelProto *m;
    Graph *g;

    built_input(&b, "x", DT_FLOAT32, "3");
    for (int i = 0; i < 3; i++)
        built_init(&b, name[i], DT_FLOAT32, "3", 3 * sizeof(float), (float[]){ 1, 2, 3 });
    built_node(&b, "Mul", "x,weight", "y");
    built_node(&b, "Add", "x,dead", "unread");
    built_output(&b, "y");
    if (CHECK_OK(built_import(&g, &b))) {
        CHECK_OK(inference_make(g));
        CHECK_OK(onnx_export_file(g, &(ExportOptions){ .plain = true }, path));
        if ((m = read_back(a, path))) {
            CU_ASSERT(has_initializer(m, "weight") && has_initializer(m, "idle"));
            CU_ASSERT(!has_initializer(m, "dead"));
        }
        graph_free(g);
    }
    unlink(path);
    built_free(&b);
    arena_free(a);
}

/* Softmax's `flatten` is ours: absent from ONNX's Softmax, and in our own domain where it matters. */
static void test_our_attributes(void)
{
    Graph *g = graph_create("g");
    Shape s = SHAPE(2, 3, 4);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s);
    Node *plain = graph_add_node(g, &op_Softmax, "a", ATTRS(INT("axis", 1)), 1, &x, 1, NULL);
    Node *ours = graph_add_node(g, &op_Softmax, "b", ATTRS(INT("axis", 1), INT("flatten", 1)), 1, plain->out, 1, NULL);
    const char *path = out_path();
    Arena *a = arena_create();
    const Onnx__ModelProto *m;

    CHECK_OK(node_normalise(g, plain));
    CHECK_OK(node_normalise(g, ours));
    graph_add_output(g, "y", ours->out[0]);
    CHECK_OK(onnx_export_file(g, NULL, path));
    if ((m = read_back(a, path))) {
        CU_ASSERT_EQUAL(m->graph->node[0]->n_attribute, 1);
        CU_ASSERT_PTR_NULL(m->graph->node[0]->domain);
        CU_ASSERT_EQUAL(m->graph->node[1]->n_attribute, 2);
        CHECK_STR("dpexec", m->graph->node[1]->domain);
        CHECK_STR("y", m->graph->node[1]->output[0]);
        CU_ASSERT_EQUAL(m->n_opset_import, 2);
    }
    unlink(path);
    CHECK_FAILS(E_UNSUPPORTED, "Softmax b", onnx_export_file(g, &(ExportOptions){ .plain = true }, path));
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    arena_free(a);
    graph_free(g);
}

/* One value under two output names, an input and a constant as outputs, an output name that another value has. */
static void test_output_names(void)
{
    Graph *g = graph_create("g"), *copy = NULL;
    Shape s = SHAPE(2);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s);
    Tensor t = { DT_FLOAT32, s, (float[]){ 1, 2 } };
    ValueId c = graph_add_const(g, "c", &t);
    Node *first = graph_add_node(g, &op_Relu, "first", NULL, 1, &x, 1, (const char *[]){ "taken" });
    Node *last = graph_add_node(g, &op_Abs, "last", NULL, 1, first->out, 1, (const char *[]){ "inner" });
    const char *path = out_path();

    graph_add_output(g, "taken", last->out[0]);
    graph_add_output(g, "twice", last->out[0]);
    graph_add_output(g, "given", x);
    graph_add_output(g, "fixed", c);
    CHECK_OK(onnx_export_file(g, NULL, path));
    if (CHECK_OK(onnx_import_file(&copy, NULL, path, NULL))) {
        CU_ASSERT_EQUAL(copy->n_output, 4);
        CHECK_STR("taken", copy->output[0].name);
        CHECK_STR("last", value(copy, copy->output[0].value)->producer->name);
        CHECK_STR("first", value(copy, value(copy, copy->output[0].value)->producer->in[0])->producer->name);
        CU_ASSERT(value_eq(copy->output[1].value, copy->output[0].value));
        CU_ASSERT(value_eq(copy->output[2].value, copy->input[0]));
        CU_ASSERT_PTR_NOT_NULL(value_const(copy, copy->output[3].value));
        graph_free(copy);
    }
    check_same_text(g, path);
    CHECK_OK(onnx_export_file(g, &(ExportOptions){ .plain = true }, path));
    if (CHECK_OK(onnx_import_file(&copy, NULL, path, NULL))) {
        CU_ASSERT(value_eq(value(copy, copy->output[1].value)->producer->in[0], copy->output[0].value));
        CU_ASSERT(value_eq(value(copy, copy->output[2].value)->producer->in[0], copy->input[0]));
        CHECK_STR("taken", value(copy, copy->output[0].value)->name);
        graph_free(copy);
    }
    graph_free(g);
}

/* Of a sequence the model says once what its tensors are. */
static void test_sequence_is_given_back(void)
{
    Onnx__TypeProto type = ONNX__TYPE_PROTO__INIT;
    Onnx__TypeProto__Sequence of = ONNX__TYPE_PROTO__SEQUENCE__INIT;
    Built b = built_create(17);
    Arena *a = arena_create();
    const char *folder = test_folder("sequence"), *out;
    const Onnx__ModelProto *m;
    OnnxModel *model = NULL;
    Graph *g = NULL;
    char path[512];

    built_input(&b, "x", DT_FLOAT32, "N,3");
    built_node(&b, "Relu", "x", "y");
    built_node(&b, "SequenceConstruct", "x,y", "list");
    built_output(&b, "list");
    type.value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    type.sequence_type = &of;
    of.elem_type = b.graph->input[0]->type;
    b.graph->output[0]->type = &type;
    built_write(&b, folder);
    built_free(&b);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    out = out_path();
    if (CHECK_OK(onnx_import_file(&g, &model, path, NULL))) {
        CHECK_OK(onnx_export_file(g, &(ExportOptions){ .model = model, .plain = true }, out));
        if ((m = read_back(a, out))) {
            const Onnx__TypeProto__Tensor *t = m->graph->output[1]->type->tensor_type;

            CU_ASSERT_EQUAL(m->graph->n_output, 2);
            CHECK_STR("list.1", m->graph->output[1]->name);
            CU_ASSERT_EQUAL(t->elem_type, DT_FLOAT32);
            CHECK_STR("N", t->shape->dim[0]->dim_param);
        }
        graph_free(g);
    }
    onnx_model_free(model);
    arena_free(a);
}

/* What the model said and the graph does not hold: metadata, documentation, symbolic dimensions, types of outputs. */
static void test_model_is_given_back(void)
{
    Built b = built_create(17);
    Arena *a = arena_create();
    Onnx__StringStringEntryProto prop = ONNX__STRING_STRING_ENTRY_PROTO__INIT, *props[] = { &prop };
    const char *folder = test_folder("model"), *out;
    const Onnx__ModelProto *m;
    OnnxModel *model = NULL;
    Graph *g = NULL;
    char path[512];

    prop.key = "author";
    prop.value = "somebody";
    b.model->metadata_props = props;
    b.model->n_metadata_props = 1;
    b.model->doc_string = "what it is";
    built_input(&b, "y", DT_FLOAT32, "N,3");
    b.graph->output = b.graph->input;
    b.graph->n_output = 1;
    b.graph->input = NULL;
    b.graph->n_input = 0;
    built_input(&b, "x", DT_FLOAT32, "N,3");
    built_node(&b, "Relu", "x", "y");
    built_write(&b, folder);
    built_free(&b);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    out = out_path();
    if (CHECK_OK(onnx_import_file(&g, &model, path, NULL))) {
        value_set_shape(g, value(g, g->input[0]), &(Shape){ 2, { 8, 3 } }); /* bound, as infer_shapes does */
        CHECK_OK(onnx_export_file(g, &(ExportOptions){ .model = model, .plain = true }, out));
        if ((m = read_back(a, out))) {
            const Onnx__TensorShapeProto *x = m->graph->input[0]->type->tensor_type->shape;
            const Onnx__TensorShapeProto *y = m->graph->output[0]->type->tensor_type->shape;

            CHECK_STR("author", m->metadata_props[0]->key);
            CHECK_STR("somebody", m->metadata_props[0]->value);
            CHECK_STR("what it is", m->doc_string);
            CU_ASSERT_EQUAL(m->opset_import[0]->version, 17);
            CHECK_STR("N", x->dim[0]->dim_param);
            CU_ASSERT_EQUAL(x->dim[1]->dim_value, 3);
            CHECK_STR("N", y->dim[0]->dim_param);
            CU_ASSERT_EQUAL(m->graph->output[0]->type->tensor_type->elem_type, DT_FLOAT32);
        }
    }
    onnx_model_free(model);
    graph_free(g);
    arena_free(a);
}

/* Softmax as opsets up to 12 have it goes back into its opset, whether its shape is known or not. */
static void check_old_softmax(const char *op, int opset, const char *dims, int axis, bool flattened)
{
    Built b = built_create(opset);
    Arena *a = arena_create();
    const Onnx__ModelProto *m;
    Graph *g = NULL;

    built_input(&b, "x", DT_FLOAT32, dims);
    node_attr_int(b.arena, built_node(&b, op, "x", "y"), "axis", axis);
    built_output(&b, "y");
    if (CHECK_OK(built_import(&g, &b))) {
        const char *out = out_path();
        OnnxModel model = { .opset = opset };

        CHECK_OK(node_infer(g, g->node[0]));
        CU_ASSERT_EQUAL(node_int(g->node[0], "flatten"), flattened);
        CHECK_OK(onnx_export_file(g, &(ExportOptions){ .model = &model, .plain = true }, out));
        if ((m = read_back(a, out))) {
            const Onnx__NodeProto *n = m->graph->node[0];

            CU_ASSERT_EQUAL(m->n_opset_import, 1);
            CU_ASSERT_EQUAL(m->opset_import[0]->version, opset);
            CU_ASSERT(n->n_attribute == 1 && !strcmp(n->attribute[0]->name, "axis"));
            CU_ASSERT_EQUAL(n->attribute[0]->i, axis);
        }
    }
    graph_free(g);
    arena_free(a);
    built_free(&b);
}

static void test_old_softmax(void)
{
    for (int opset = 7; opset <= 12; opset++) {
        check_old_softmax("Softmax", opset, "4,2,12,12", 3, false);
        check_old_softmax("Softmax", opset, "N,2,12,12", 3, true);
        check_old_softmax("LogSoftmax", opset, "4,3,1,1", 1, false);
        check_old_softmax("Softmax", opset, "4,3,2,1", 1, true);
        check_old_softmax("Softmax", opset, "4,3", 0, true);
        check_old_softmax("LogSoftmax", opset, "4,3,?,?", 1, true);
    }
}

/* Opset 11 made the pads an input, which they are in a file that is written in it. */
static void check_old_pad(int opset)
{
    static const int64_t pads[] = { 1, 2 };
    Built b = built_create(opset);
    Arena *a = arena_create();
    const Onnx__ModelProto *m;
    Graph *g = NULL;

    built_input(&b, "x", DT_FLOAT32, "4");
    built_init(&b, "p", DT_INT64, "2", sizeof pads, pads);
    built_node(&b, "Pad", "x,p", "y");
    built_output(&b, "y");
    if (CHECK_OK(built_import(&g, &b))) {
        const char *out = out_path();
        OnnxModel model = { .opset = opset };

        CHECK_OK(onnx_export_file(g, &(ExportOptions){ .model = &model, .plain = true }, out));
        if ((m = read_back(a, out))) {
            CU_ASSERT_EQUAL(m->opset_import[0]->version, opset);
            CU_ASSERT_EQUAL(m->graph->node[0]->n_input, 2);
            CU_ASSERT_EQUAL(m->graph->node[0]->n_attribute, 0);
        }
    }
    graph_free(g);
    arena_free(a);
    built_free(&b);
}

static void test_old_pad(void)
{
    for (int opset = 11; opset <= 13; opset++)
        check_old_pad(opset);
}

static int count_files(const char *folder)
{
    struct dirent *e;
    DIR *d = opendir(folder);
    int n = 0;

    while (d && (e = readdir(d)))
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void test_failure_leaves_nothing(void)
{
    Graph *g = training_graph();
    const char *folder = test_folder("failure");
    char path[512];

    CHECK_FAILS(E_IO, "/dev/null/m.onnx", onnx_export_file(g, NULL, "/dev/null/m.onnx"));
    snprintf(path, sizeof path, "%s/none/m.onnx", folder);
    CHECK_FAILS(E_IO, "No such file", onnx_export_file(g, NULL, path));
    CHECK_FAILS(E_IO, folder, onnx_export_file(g, NULL, folder)); /* the name is a folder's: rename fails */
    CU_ASSERT_EQUAL(count_files(folder), 0);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    CHECK_OK(onnx_export_file(g, NULL, path));
    CHECK_OK(onnx_export_file(g, NULL, path));
    CU_ASSERT_EQUAL(count_files(folder), 1);
    graph_free(g);
}

/* A product with a matrix of one number. */
static Graph *matrix_graph(float number)
{
    Graph *g = graph_create("g");
    const Shape sx = SHAPE(1, 16), sw = SHAPE(16, 32);
    float w[16 * 32];

    for (int i = 0; i < 16 * 32; i++)
        w[i] = number;
    graph_add_output(g, "y",
                     EMIT(g, MatMul, NULL, graph_add_input(g, "x", DT_FLOAT32, &sx),
                          graph_add_const(g, "w", &(Tensor){ DT_FLOAT32, sw, w })));
    CHECK_OK(g->status);
    return g;
}

static void check_number(const char *path, float number)
{
    Graph *g = NULL;
    const Tensor *w;

    if (CHECK_OK(onnx_import_file(&g, NULL, path, NULL))) {
        w = value_const(g, graph_find(g, "w"));
        CU_ASSERT(w && tensor_numel(w) == 16 * 32 && tensor_float(w, 0) == number && tensor_float(w, 511) == number);
    }
    graph_free(g);
}

/* What one file has no room for: its weights are beside it, those of an earlier model are gone, a link is followed. */
static void test_external_data(void)
{
    const char *folder = test_folder("external");
    char path[512], link[512];
    const ExportOptions how = { .most_bytes = 1000 }, tiny = { .most_bytes = 10 };

    snprintf(path, sizeof path, "%s/m.onnx", folder);
    for (int i = 0; i < 3; i++) {
        Graph *g = matrix_graph((float)i);

        CHECK_OK(onnx_export_file(g, &how, path));
        CU_ASSERT_EQUAL(count_files(folder), 2);
        check_number(path, (float)i);
        graph_free(g);
    }
    snprintf(link, sizeof link, "%s/l.onnx", folder);
    CU_ASSERT_FATAL(!symlink(path, link));
    for (int i = 0; i < 2; i++) {
        Graph *g = matrix_graph(7);

        CHECK_OK(onnx_export_file(g, &how, link));
        CU_ASSERT_EQUAL(count_files(folder), 3);
        check_number(path, 7);
        CHECK_FAILS(E_UNSUPPORTED, "expected a file", onnx_export_file(g, &how, "/dev/null"));
        CHECK_FAILS(E_UNSUPPORTED, "without its weights", onnx_export_file(g, &tiny, path));
        CHECK_FAILS(E_UNSUPPORTED, "needs a second file for its weights", onnx_export_stream(stderr, g, &how));
        check_number(path, 7);
        graph_free(g);
    }
}

/* Our metadata in a foreign or damaged file. */
static void test_wrong_metadata(void)
{
    static const struct {
        const char *key, *value, *text;
    } wrong[] = {
        { "dpexec.state:nothing", "plain", "state 'nothing' is not an initializer" },
        { "dpexec.state:x", "plain", "state 'x' is not an initializer" },
        { "dpexec.update:y", "y", "'y' is updated but not a state" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Built b = built_relu();
        Onnx__StringStringEntryProto prop = ONNX__STRING_STRING_ENTRY_PROTO__INIT, marks = prop,
                                     *props[] = { &prop, &marks };
        Graph *g;

        prop.key = (char *)(uintptr_t)wrong[i].key;
        prop.value = (char *)(uintptr_t)wrong[i].value;
        marks.key = (char *)(uintptr_t) "dpexec.marks";
        marks.value = (char *)(uintptr_t) "1";
        b.model->metadata_props = props;
        b.model->n_metadata_props = 1; /* without the second it is somebody's text */
        CHECK_OK(built_import(&g, &b));
        graph_free(g);
        b.model->n_metadata_props = 2;
        REFUSED(&b, E_MODEL, wrong[i].text);
    }
}

/* An operator that is written as another has no spelling of its own in that one's older opsets: it takes a newer one.
 * (It once was asked for the respell that the other has.) */
static void test_written_as_another(void)
{
    static const char text[] = "graph \"g\" {\n"
                               "  input %x : float32[2]\n"
                               "  %y : float32[2] = Identity(%x)\n"
                               "  output \"y\" = %y\n"
                               "}\n";
    OpDef other = op_Identity;
    int64_t opset = 9;
    Graph *g = NULL;

    other.plain = "Dropout"; /* whose form of now is of opset 12 */
    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    g->node[0]->op = &other;
    CHECK_OK(export_respell(g, &opset));
    CU_ASSERT_EQUAL(opset, 12);
    graph_free(g);
}

DEFINE_SUITE(export, { "written as another operator", test_written_as_another },
             { "nothing is lost", test_nothing_is_lost }, { "Softmax of old opsets", test_old_softmax },
             { "Pad of old opsets", test_old_pad }, { "nothing of a value is lost", test_marks },
             { "bodies read back", test_bodies }, { "plain", test_plain },
             { "initializers for nobody", test_idle_initializers }, { "our attributes", test_our_attributes },
             { "names of outputs", test_output_names }, { "the model is given back", test_model_is_given_back },
             { "a sequence is given back", test_sequence_is_given_back },
             { "failure leaves nothing", test_failure_leaves_nothing }, { "external data", test_external_data },
             { "wrong metadata", test_wrong_metadata });
