/* Writes the normalisation of images as nodes, each of which reads the one before it:
 *
 *     Cast(bytes, double), Div(255), Sub(mean[C]), Div(std[C]), Cast(float), Transpose([0, 3, 1, 2])
 *
 * The last one is an Identity for models that take [N, height, width, C]. */
#include "tools/feed/image_graph.h"

#include <onnx_proto.h>
#include <stdlib.h>
#include <string.h>

#include "tools/table/preprocess_graph.h"

enum { OPSET = 13, NODES = 6, CONSTANTS = 3, RANK = 4, MOST_CHANNELS = 3, NAME_TEXT = 32 };
#define TYPE(t) ONNX__TENSOR_PROTO__DATA_TYPE__##t

typedef struct {
    Onnx__ValueInfoProto info;
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension dim[RANK], *list[RANK];
} Info;

/* All messages of the model; texts are lent. */
typedef struct {
    Onnx__GraphProto graph;
    Onnx__NodeProto node[NODES], *nodes[NODES];
    char *in[NODES][2], *out[NODES], name[NODES][NAME_TEXT];
    Onnx__AttributeProto attribute[NODES], *attributes[NODES];
    Onnx__TensorProto constant[CONSTANTS], *constants[CONSTANTS];
    char label[CONSTANTS][NAME_TEXT];
    int64_t dims[CONSTANTS], perm[RANK];
    double number[CONSTANTS][MOST_CHANNELS];
    Info info[2];
    Onnx__ValueInfoProto *input, *output;
} Drafted;

static char *lent(const char *text) { return (char *)(uintptr_t)text; }

/* Adds a constant of n numbers; returns its name. */
static char *add_constant(Drafted *g, const double *v, int64_t n)
{
    const size_t i = g->graph.n_initializer++;
    Onnx__TensorProto *t = g->constants[i] = &g->constant[i];

    onnx__tensor_proto__init(t);
    memcpy(g->number[i], v, (size_t)n * sizeof *v);
    snprintf(g->label[i], NAME_TEXT, "preprocess/number%zu", i);
    g->dims[i] = n;
    t->name = g->label[i];
    t->has_data_type = true;
    t->data_type = TYPE(DOUBLE);
    t->dims = &g->dims[i];
    t->n_dims = 1;
    t->double_data = g->number[i];
    t->n_double_data = (size_t)n;
    return t->name;
}

/* Adds a node that reads `first`, and `second` unless it is NULL; returns its output's name. */
static char *add_node(Drafted *g, const char *op, char *first, char *second)
{
    const size_t i = g->graph.n_node++;
    Onnx__NodeProto *n = g->nodes[i] = &g->node[i];

    onnx__node_proto__init(n);
    snprintf(g->name[i], NAME_TEXT, "preprocess/%zu", i);
    g->in[i][0] = first;
    g->in[i][1] = second;
    g->out[i] = g->name[i];
    n->op_type = lent(op);
    n->input = g->in[i];
    n->n_input = second ? 2 : 1;
    n->output = &g->out[i];
    n->n_output = 1;
    return g->out[i];
}

/* Gives the newest node an attribute. */
static Onnx__AttributeProto *add_attribute(Drafted *g, const char *name, Onnx__AttributeProto__AttributeType type)
{
    const size_t i = g->graph.n_node - 1;
    Onnx__AttributeProto *a = g->attributes[i] = &g->attribute[i];

    onnx__attribute_proto__init(a);
    a->name = lent(name);
    a->has_type = true;
    a->type = type;
    g->node[i].attribute = &g->attributes[i];
    g->node[i].n_attribute = 1;
    return a;
}

static char *add_cast(Drafted *g, char *from, int64_t to)
{
    char *out = add_node(g, "Cast", from, NULL);
    Onnx__AttributeProto *a = add_attribute(g, "to", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

    a->has_i = true;
    a->i = to;
    return out;
}

/* Describes a value whose first dimension is open. */
static Onnx__ValueInfoProto *describe(Info *v, const char *name, int32_t type, const int64_t dim[RANK])
{
    onnx__value_info_proto__init(&v->info);
    onnx__type_proto__init(&v->type);
    onnx__type_proto__tensor__init(&v->tensor);
    onnx__tensor_shape_proto__init(&v->shape);
    for (int i = 0; i < RANK; i++) {
        onnx__tensor_shape_proto__dimension__init(&v->dim[i]);
        v->list[i] = &v->dim[i];
        v->dim[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        v->dim[i].dim_value = dim[i];
    }
    v->dim[0].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    v->dim[0].dim_param = lent("N");
    v->shape.dim = v->list;
    v->shape.n_dim = RANK;
    v->tensor.has_elem_type = true;
    v->tensor.elem_type = type;
    v->tensor.shape = &v->shape;
    v->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type.tensor_type = &v->tensor;
    v->info.type = &v->type;
    v->info.name = lent(name);
    return &v->info;
}

static void draft(Drafted *g, const ImageGraph *d)
{
    static const int64_t perm[RANK] = { 0, 3, 1, 2 };
    const int64_t bytes[RANK] = { -1, d->height, d->width, d->channels };
    const int64_t planes[RANK] = { -1, d->channels, d->height, d->width };
    const double most = 255;
    char *x;

    onnx__graph_proto__init(&g->graph);
    g->graph.name = lent("preprocess");
    g->graph.node = g->nodes;
    g->graph.initializer = g->constants;
    g->input = describe(&g->info[0], d->input, TYPE(UINT8), bytes);
    g->output = describe(&g->info[1], d->output, d->dtype, d->nhwc ? bytes : planes);
    g->graph.input = &g->input;
    g->graph.output = &g->output;
    g->graph.n_input = g->graph.n_output = 1;
    x = add_cast(g, lent(d->input), TYPE(DOUBLE));
    x = add_node(g, "Div", x, add_constant(g, &most, 1));
    x = add_node(g, "Sub", x, add_constant(g, d->mean, d->channels));
    x = add_node(g, "Div", x, add_constant(g, d->std, d->channels));
    x = add_cast(g, x, d->dtype);
    add_node(g, d->nhwc ? "Identity" : "Transpose", x, NULL);
    g->out[NODES - 1] = lent(d->output);
    if (!d->nhwc) {
        Onnx__AttributeProto *a = add_attribute(g, "perm", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);

        memcpy(g->perm, perm, sizeof perm);
        a->ints = g->perm;
        a->n_ints = RANK;
    }
}

Status image_graph_write(const ImageGraph *d, const char *path)
{
    Drafted *g = calloc(1, sizeof *g);
    Status st;

    if (!g)
        return FAIL_NOMEM();
    draft(g, d);
    st = preprocess_write_graph(&g->graph, OPSET, path);
    free(g);
    return st;
}
