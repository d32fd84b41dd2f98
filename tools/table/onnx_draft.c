/* Drafts of ONNX models, all of whose messages lie in an arena. */
#include "tools/table/onnx_draft.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/outfile.h"

enum { IR_VERSION = 9, MOST_RANK = 4 };

Status onnx_draft_open(OnnxDraft *d, size_t room)
{
    *d = (OnnxDraft){ .arena = arena_create() };
    if (!d->arena)
        return FAIL_NOMEM();
    onnx__graph_proto__init(&d->graph);
    d->graph.node = onnx_draft_alloc(d, room * sizeof(Onnx__NodeProto *));
    d->graph.initializer = onnx_draft_alloc(d, room * sizeof(Onnx__TensorProto *));
    d->graph.input = onnx_draft_alloc(d, room * sizeof(Onnx__ValueInfoProto *));
    d->graph.output = onnx_draft_alloc(d, room * sizeof(Onnx__ValueInfoProto *));
    d->graph.name = arena_strdup(d->arena, "preprocess");
    return d->failed || !d->graph.name ? FAIL_NOMEM() : ST_OK;
}

void onnx_draft_close(OnnxDraft *d) { arena_free(d->arena); }

Status onnx_draft_write(OnnxDraft *d, int opset, const char *path)
{
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto version = ONNX__OPERATOR_SET_ID_PROTO__INIT, *list = &version;
    static char producer[] = "dpexec";
    uint8_t *bytes;
    OutFile *file;
    size_t size;
    Status st;

    if (d->failed)
        return FAIL_NOMEM();
    version.has_version = m.has_ir_version = true;
    version.version = opset;
    m.ir_version = IR_VERSION;
    m.opset_import = &list;
    m.n_opset_import = 1;
    m.producer_name = producer;
    m.graph = &d->graph;
    size = onnx__model_proto__get_packed_size(&m);
    if (!(bytes = malloc(size + 1)))
        return FAIL_NOMEM();
    onnx__model_proto__pack(&m, bytes);
    if (!(st = outfile_open(&file, path))) {
        fwrite(bytes, 1, size, outfile_stream(file));
        st = outfile_close(file, ST_OK);
    }
    free(bytes);
    return st;
}

void *onnx_draft_alloc(OnnxDraft *d, size_t size)
{
    void *p = arena_alloc(d->arena, size);

    d->failed |= !p;
    return p;
}

static char *copy(OnnxDraft *d, const char *text)
{
    char *p = arena_strdup(d->arena, text);

    d->failed |= !p;
    return p;
}

/* A new name that no column and no output has; NULL when out of memory. */
static char *new_name(OnnxDraft *d)
{
    char *name = arena_printf(d->arena, "preprocess/%d", ++d->names);

    d->failed |= !name;
    return name;
}

/* ---- nodes ---- */

char *onnx_draft_node(OnnxDraft *d, const char *op, const char *const in[DRAFT_INPUTS], Onnx__AttributeProto *attribute,
                      const char *output)
{
    Onnx__NodeProto *n = onnx_draft_alloc(d, sizeof *n);
    char **names = onnx_draft_alloc(d, (DRAFT_INPUTS + 1) * sizeof *names),
         *out = output ? copy(d, output) : new_name(d);

    if (d->failed)
        return NULL;
    onnx__node_proto__init(n);
    n->op_type = copy(d, op);
    n->input = names;
    for (; n->n_input < DRAFT_INPUTS && in[n->n_input]; n->n_input++)
        names[n->n_input] = copy(d, in[n->n_input]);
    n->output = &names[DRAFT_INPUTS];
    n->output[0] = out;
    n->n_output = 1;
    n->attribute = onnx_draft_alloc(d, DRAFT_ATTRIBUTES * sizeof(Onnx__AttributeProto *));
    d->graph.node[d->graph.n_node++] = n;
    onnx_draft_give(d, attribute);
    return out;
}

void onnx_draft_give(OnnxDraft *d, Onnx__AttributeProto *attribute)
{
    Onnx__NodeProto *n = d->failed || !attribute ? NULL : d->graph.node[d->graph.n_node - 1];

    if (n)
        n->attribute[n->n_attribute++] = attribute;
}

static Onnx__AttributeProto *new_attribute(OnnxDraft *d, const char *name, Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *a = onnx_draft_alloc(d, sizeof *a);

    if (!a)
        return NULL;
    onnx__attribute_proto__init(a);
    a->name = copy(d, name);
    a->has_type = true;
    a->type = type;
    return a;
}

Onnx__AttributeProto *onnx_draft_int_attribute(OnnxDraft *d, const char *name, int64_t v)
{
    Onnx__AttributeProto *a = new_attribute(d, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

    if (!a)
        return NULL;
    a->has_i = true;
    a->i = v;
    return a;
}

Onnx__AttributeProto *onnx_draft_ints_attribute(OnnxDraft *d, const char *name, const int64_t *v, size_t n)
{
    Onnx__AttributeProto *a = new_attribute(d, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);

    if (!a)
        return NULL;
    a->ints = arena_memdup(d->arena, v, n * sizeof *v);
    a->n_ints = a->ints ? n : 0;
    d->failed |= !a->ints;
    return a;
}

Onnx__AttributeProto *onnx_draft_float_attribute(OnnxDraft *d, const char *name, float v)
{
    Onnx__AttributeProto *a = new_attribute(d, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);

    if (!a)
        return NULL;
    a->has_f = true;
    a->f = v;
    return a;
}

Onnx__AttributeProto *onnx_draft_text_attribute(OnnxDraft *d, const char *name, const char *v)
{
    Onnx__AttributeProto *a = new_attribute(d, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);

    if (!a)
        return NULL;
    a->has_s = true;
    a->s.data = (uint8_t *)copy(d, v);
    a->s.len = a->s.data ? strlen(v) : 0;
    return a;
}

/* ---- constants ---- */

/* Adds a constant of that type, [1, n], or [n] for int64.  Its data are set by the caller; NULL when out of memory. */
static Onnx__TensorProto *add_constant(OnnxDraft *d, int32_t type, size_t n)
{
    Onnx__TensorProto *c = onnx_draft_alloc(d, sizeof *c);
    int64_t *dims = onnx_draft_alloc(d, 2 * sizeof *dims);

    if (!c || !dims)
        return NULL;
    onnx__tensor_proto__init(c);
    c->name = new_name(d);
    c->has_data_type = true;
    c->data_type = type;
    c->dims = dims;
    c->n_dims = type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ? 1 : 2;
    dims[0] = 1;
    dims[c->n_dims - 1] = (int64_t)n;
    d->graph.initializer[d->graph.n_initializer++] = c;
    return c;
}

const char *onnx_draft_numbers(OnnxDraft *d, const double *v, size_t n)
{
    Onnx__TensorProto *c = add_constant(d, ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE, n);

    if (!c || !(c->double_data = arena_memdup(d->arena, v, n * sizeof *v))) {
        d->failed = true;
        return NULL;
    }
    c->n_double_data = n;
    return c->name;
}

const char *onnx_draft_float(OnnxDraft *d, float v)
{
    Onnx__TensorProto *c = add_constant(d, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1);

    if (!c || !(c->float_data = arena_memdup(d->arena, &v, sizeof v))) {
        d->failed = true;
        return NULL;
    }
    c->n_float_data = 1;
    return c->name;
}

const char *onnx_draft_texts(OnnxDraft *d, const char *const *text, size_t n)
{
    Onnx__TensorProto *c = add_constant(d, ONNX__TENSOR_PROTO__DATA_TYPE__STRING, n);

    if (!c || !(c->string_data = onnx_draft_alloc(d, (n + 1) * sizeof *c->string_data)))
        return NULL;
    for (size_t i = 0; i < n; i++)
        c->string_data[i] = (ProtobufCBinaryData){ strlen(text[i]), (uint8_t *)(uintptr_t)text[i] };
    c->n_string_data = n;
    return c->name;
}

const char *onnx_draft_ints(OnnxDraft *d, const int64_t *v, size_t n)
{
    Onnx__TensorProto *c = add_constant(d, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, n);

    if (!c || !(c->int64_data = arena_memdup(d->arena, v, n * sizeof *v))) {
        d->failed = true;
        return NULL;
    }
    c->n_int64_data = n;
    return c->name;
}

/* ---- inputs and outputs ---- */

Onnx__ValueInfoProto *onnx_draft_value(OnnxDraft *d, const char *name, int32_t type, int rank, const int64_t *dim,
                                       const char *const *symbol)
{
    struct Value {
        Onnx__ValueInfoProto info;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
        Onnx__TensorShapeProto shape;
        Onnx__TensorShapeProto__Dimension dim[MOST_RANK], *list[MOST_RANK];
    } *v = onnx_draft_alloc(d, sizeof *v);

    if (!v)
        return NULL;
    onnx__value_info_proto__init(&v->info);
    onnx__type_proto__init(&v->type);
    onnx__type_proto__tensor__init(&v->tensor);
    onnx__tensor_shape_proto__init(&v->shape);
    for (int i = 0; i < rank; i++) {
        onnx__tensor_shape_proto__dimension__init(&v->dim[i]);
        v->list[i] = &v->dim[i];
        v->dim[i].value_case = symbol[i] ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                         : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (symbol[i])
            v->dim[i].dim_param = copy(d, symbol[i]);
        else
            v->dim[i].dim_value = dim[i];
    }
    v->shape.dim = v->list;
    v->shape.n_dim = (size_t)rank;
    v->tensor.has_elem_type = true;
    v->tensor.elem_type = type;
    v->tensor.shape = &v->shape;
    v->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type.tensor_type = &v->tensor;
    v->info.type = &v->type;
    v->info.name = copy(d, name);
    return &v->info;
}
