#include "tests/onnx/build.h"
#include "exec/run/interp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAKE(a, Type, type) make((a), sizeof(Type), &type##__descriptor)

static void *make(Arena *a, size_t size, const ProtobufCMessageDescriptor *type)
{
    void *m = arena_alloc(a, size);

    protobuf_c_message_init(type, m);
    return m;
}

void built_push(Arena *a, void ***array, size_t *n, void *item)
{
    void **grown = ARENA_NEW(a, void *, *n + 1);

    if (*n)
        memcpy(grown, *array, *n * sizeof *grown);
    grown[(*n)++] = item;
    *array = grown;
}

static void add_names(Arena *a, char ***array, size_t *n, const char *list)
{
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        char *name = arena_alloc(a, len + 1);

        memcpy(name, p, len);
        built_push(a, (void ***)array, n, name);
        p += len + (p[len] == ',');
    }
}

static void add_opset(Arena *a, Onnx__OperatorSetIdProto ***array, size_t *n, const char *domain, int64_t version)
{
    Onnx__OperatorSetIdProto *p = MAKE(a, Onnx__OperatorSetIdProto, onnx__operator_set_id_proto);

    p->domain = arena_strdup(a, domain);
    p->has_version = 1;
    p->version = version;
    built_push(a, (void ***)array, n, p);
}

Built built_create(int64_t opset)
{
    Built b = { .arena = arena_create() };

    b.model = MAKE(b.arena, Onnx__ModelProto, onnx__model_proto);
    b.model->has_ir_version = 1;
    b.model->ir_version = 8;
    b.graph = b.model->graph = MAKE(b.arena, Onnx__GraphProto, onnx__graph_proto);
    b.graph->name = "g";
    if (opset)
        built_opset(&b, "", opset);
    return b;
}

void built_free(Built *b) { arena_free(b->arena); }

void built_opset(Built *b, const char *domain, int64_t version)
{
    add_opset(b->arena, &b->model->opset_import, &b->model->n_opset_import, domain, version);
}

Onnx__NodeProto *node_make(Arena *a, const char *op, const char *in, const char *out)
{
    Onnx__NodeProto *n = MAKE(a, Onnx__NodeProto, onnx__node_proto);

    n->op_type = arena_strdup(a, op);
    add_names(a, &n->input, &n->n_input, in);
    add_names(a, &n->output, &n->n_output, out);
    return n;
}

Onnx__NodeProto *built_node(Built *b, const char *op, const char *in, const char *out)
{
    Onnx__NodeProto *n = node_make(b->arena, op, in, out);

    ADD(b->arena, b->graph->node, b->graph->n_node, n);
    return n;
}

Onnx__ValueInfoProto *built_input(Built *b, const char *name, int dtype, const char *dims)
{
    Onnx__ValueInfoProto *v = MAKE(b->arena, Onnx__ValueInfoProto, onnx__value_info_proto);
    Onnx__TypeProto__Tensor *t = MAKE(b->arena, Onnx__TypeProto__Tensor, onnx__type_proto__tensor);
    char **names = NULL;
    size_t n = 0;

    v->name = arena_strdup(b->arena, name);
    v->type = MAKE(b->arena, Onnx__TypeProto, onnx__type_proto);
    v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type->tensor_type = t;
    t->has_elem_type = 1;
    t->elem_type = dtype;
    t->shape = MAKE(b->arena, Onnx__TensorShapeProto, onnx__tensor_shape_proto);
    add_names(b->arena, &names, &n, dims);
    for (size_t i = 0; i < n; i++) {
        Onnx__TensorShapeProto__Dimension *d =
            MAKE(b->arena, Onnx__TensorShapeProto__Dimension, onnx__tensor_shape_proto__dimension);

        if (names[i][0] == '-' || (names[i][0] >= '0' && names[i][0] <= '9')) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = strtoll(names[i], NULL, 10);
        } else if (names[i][0] != '?') {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = names[i];
        }
        ADD(b->arena, t->shape->dim, t->shape->n_dim, d);
    }
    ADD(b->arena, b->graph->input, b->graph->n_input, v);
    return v;
}

void built_output(Built *b, const char *name)
{
    Onnx__ValueInfoProto *v = MAKE(b->arena, Onnx__ValueInfoProto, onnx__value_info_proto);

    v->name = arena_strdup(b->arena, name);
    ADD(b->arena, b->graph->output, b->graph->n_output, v);
}

Onnx__TensorProto *tensor_make(Arena *a, const char *name, int dtype, const char *dims, size_t bytes, const void *raw)
{
    Onnx__TensorProto *t = MAKE(a, Onnx__TensorProto, onnx__tensor_proto);
    char **names = NULL;
    size_t n = 0;

    t->name = arena_strdup(a, name);
    t->has_data_type = 1;
    t->data_type = dtype;
    add_names(a, &names, &n, dims);
    t->n_dims = n;
    t->dims = ARENA_NEW(a, int64_t, n);
    for (size_t i = 0; i < n; i++)
        t->dims[i] = strtoll(names[i], NULL, 10);
    t->has_raw_data = raw != NULL;
    t->raw_data.len = raw ? bytes : 0;
    t->raw_data.data = raw ? arena_memdup(a, raw, bytes) : NULL;
    return t;
}

Onnx__TensorProto *built_init(Built *b, const char *name, int dtype, const char *dims, size_t bytes, const void *raw)
{
    Onnx__TensorProto *t = tensor_make(b->arena, name, dtype, dims, bytes, raw);

    ADD(b->arena, b->graph->initializer, b->graph->n_initializer, t);
    return t;
}

Onnx__AttributeProto *attr_make(Arena *a, const char *name, Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *p = MAKE(a, Onnx__AttributeProto, onnx__attribute_proto);

    p->name = arena_strdup(a, name);
    p->has_type = 1;
    p->type = type;
    return p;
}

void node_add_attr(Arena *a, Onnx__NodeProto *n, Onnx__AttributeProto *attr)
{
    ADD(a, n->attribute, n->n_attribute, attr);
}

void node_attr_int(Arena *a, Onnx__NodeProto *n, const char *name, int64_t v)
{
    Onnx__AttributeProto *p = attr_make(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

    p->has_i = 1;
    p->i = v;
    node_add_attr(a, n, p);
}

Built built_subgraph(Built *b, Onnx__NodeProto *n, const char *name)
{
    Built sub = { b->arena, b->model, MAKE(b->arena, Onnx__GraphProto, onnx__graph_proto) };
    Onnx__AttributeProto *a = attr_make(b->arena, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);

    sub.graph->name = arena_strdup(b->arena, name);
    a->g = sub.graph;
    node_add_attr(b->arena, n, a);
    return sub;
}

Onnx__FunctionProto *built_function(Built *b, const char *domain, const char *name, const char *in, const char *out,
                                    const char *attrs)
{
    Onnx__FunctionProto *f = MAKE(b->arena, Onnx__FunctionProto, onnx__function_proto);

    f->domain = arena_strdup(b->arena, domain);
    f->name = arena_strdup(b->arena, name);
    add_names(b->arena, &f->input, &f->n_input, in);
    add_names(b->arena, &f->output, &f->n_output, out);
    add_names(b->arena, &f->attribute, &f->n_attribute, attrs);
    ADD(b->arena, b->model->functions, b->model->n_functions, f);
    return f;
}

void function_node(Built *b, Onnx__FunctionProto *f, Onnx__NodeProto *n) { ADD(b->arena, f->node, f->n_node, n); }

void function_opset(Built *b, Onnx__FunctionProto *f, const char *domain, int64_t version)
{
    add_opset(b->arena, &f->opset_import, &f->n_opset_import, domain, version);
}

void tensor_external(Arena *a, Onnx__TensorProto *t, const char *key, const char *text)
{
    Onnx__StringStringEntryProto *p = MAKE(a, Onnx__StringStringEntryProto, onnx__string_string_entry_proto);

    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    p->key = arena_strdup(a, key);
    p->value = arena_strdup(a, text);
    ADD(a, t->external_data, t->n_external_data, p);
}

Built built_relu(void)
{
    Built b = built_create(17);

    built_input(&b, "x", DT_FLOAT32, "2");
    built_node(&b, "Relu", "x", "y")->name = "relu";
    built_output(&b, "y");
    return b;
}

uint8_t *built_bytes(const Built *b, size_t *size)
{
    uint8_t *bytes;

    *size = protobuf_c_message_get_packed_size(&b->model->base);
    bytes = arena_alloc(b->arena, *size);
    protobuf_c_message_pack(&b->model->base, bytes);
    return bytes;
}

/* From memory of exactly its size, so that a sanitizer sees reads past the end. */
Status built_import(Graph **out, const Built *b)
{
    size_t size;
    const uint8_t *bytes = built_bytes(b, &size);
    uint8_t *exact = malloc(size);
    Status st;

    memcpy(exact, bytes, size);
    st = onnx_import_memory(out, NULL, &(OnnxMemory){ .data = exact, .size = size }, "model",
                            &(ImportOptions){ .eval = interp_node });
    free(exact);
    return st;
}

void built_write(const Built *b, const char *folder)
{
    char path[512];
    size_t size;
    const uint8_t *bytes = built_bytes(b, &size);
    FILE *f;

    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (!(f = fopen(path, "wb")) || fwrite(bytes, 1, size, f) != size)
        TEST_FAIL("cannot write %s", path);
    if (f)
        fclose(f);
}

const char *test_folder(const char *name)
{
    static char path[400];
    char command[1000];

    snprintf(path, sizeof path, BUILD_DIR "/tmp_onnx_%s%s", name, getenv("DPEXEC_TEST_LOCALE") ? "_comma" : "");
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) || mkdir(path, 0777))
        TEST_FAIL("%s: %s", path, strerror(errno));
    return path;
}

void refused(const char *file, int line, Built *b, Status code, const char *text)
{
    Graph *g = NULL;
    Status st = built_import(&g, b);

    test_fails(file, line, code, text, st);
    if (strchr(status_message(), '\n'))
        test_fail(file, line, "the message has more than one line");
    if (!st)
        graph_free(g);
    built_free(b);
}
