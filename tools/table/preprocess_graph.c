/* A fitted table's preprocessing in ONNX's operators.  Neighbouring numeric columns are computed together:
 *
 *     x = Concat(age, height)                 double [N, 2]
 *     y = Cast((Where(IsNaN(x), medians, x) - means) / scales)
 *
 * and each column of categories by comparison with all of them:
 *
 *     y = Cast(city == ["Bergen", "Oslo"])    string [N, 1] == string [1, 2]
 *
 * A missing category, whose indicator comes first, is ReduceMax(Cast(city == ["", "NA", ...])).
 *
 * The id of a category is n + ReduceSum(indicators * [-n, 1 - n, ..., -1]): n where no indicator is set. */
#include "tools/table/preprocess_graph.h"

#include <onnx_proto.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/outfile.h"

enum { OPSET = 19, IR_VERSION = 9, NODES_OF_COLUMN = 16 };

#define TYPE(t) ONNX__TENSOR_PROTO__DATA_TYPE__##t

/* The graph, with room for NODES_OF_COLUMN nodes, tensors and names for each column and each output. */
typedef struct {
    Arena *arena;
    const Table *t;
    Onnx__GraphProto graph;
    int names;   /* given to values */
    bool failed; /* out of memory */
} Drafted;

static void *draft_alloc(Drafted *d, size_t size)
{
    void *p = arena_alloc(d->arena, size);

    d->failed |= !p;
    return p;
}

/* A new name that no column and no output has; NULL when out of memory. */
static char *new_name(Drafted *d)
{
    char *name = arena_printf(d->arena, "preprocess/%d", ++d->names);

    d->failed |= !name;
    return name;
}

/* Adds a node of up to three inputs; NULL: absent.  Returns the name of its output: `output`, or a new one; NULL when
 * out of memory. */
static char *add_node(Drafted *d, const char *op, const char *const in[3], Onnx__AttributeProto *attribute,
                      const char *output)
{
    Onnx__NodeProto *n = draft_alloc(d, sizeof *n);
    Onnx__AttributeProto **list = draft_alloc(d, sizeof(Onnx__AttributeProto *));
    char **names = draft_alloc(d, 4 * sizeof *names), *out = output ? arena_strdup(d->arena, output) : new_name(d);

    d->failed |= !out;
    if (d->failed)
        return NULL;
    onnx__node_proto__init(n);
    n->op_type = arena_strdup(d->arena, op);
    n->input = names;
    for (; n->n_input < 3 && in[n->n_input]; n->n_input++)
        d->failed |= !(names[n->n_input] = arena_strdup(d->arena, in[n->n_input]));
    n->output = &names[3];
    names[3] = out;
    n->n_output = 1;
    n->attribute = list;
    list[0] = attribute;
    n->n_attribute = attribute != NULL;
    d->failed |= !n->op_type;
    d->graph.node[d->graph.n_node++] = n;
    return out;
}

#define NODE(d, op, attribute, ...) add_node((d), (op), (const char *const[3]){ __VA_ARGS__ }, (attribute), NULL)

static Onnx__AttributeProto *int_attribute(Drafted *d, const char *name, int64_t v)
{
    Onnx__AttributeProto *a = draft_alloc(d, sizeof *a);

    if (!a)
        return NULL;
    onnx__attribute_proto__init(a);
    d->failed |= !(a->name = arena_strdup(d->arena, name));
    a->has_type = a->has_i = true;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->i = v;
    return a;
}

/* Adds a constant of that type, [1, n], or [n] for int64.  Its data are set by the caller; NULL when out of memory. */
static Onnx__TensorProto *add_constant(Drafted *d, int32_t type, size_t n)
{
    Onnx__TensorProto *c = draft_alloc(d, sizeof *c);
    int64_t *dims = draft_alloc(d, 2 * sizeof *dims);

    if (!c || !dims)
        return NULL;
    onnx__tensor_proto__init(c);
    c->name = new_name(d);
    c->has_data_type = true;
    c->data_type = type;
    c->dims = dims;
    c->n_dims = type == TYPE(INT64) ? 1 : 2;
    dims[0] = 1;
    dims[c->n_dims - 1] = (int64_t)n;
    d->graph.initializer[d->graph.n_initializer++] = c;
    return c;
}

/* Adds a constant of numbers, which are copied; returns its name. */
static const char *add_numbers(Drafted *d, const double *v, size_t n)
{
    Onnx__TensorProto *c = add_constant(d, TYPE(DOUBLE), n);

    if (!c || !(c->double_data = arena_memdup(d->arena, v, n * sizeof *v))) {
        d->failed = true;
        return NULL;
    }
    c->n_double_data = n;
    return c->name;
}

/* Adds a constant of texts, which are lent. */
static const char *add_texts(Drafted *d, const char *const *text, size_t n)
{
    Onnx__TensorProto *c = add_constant(d, TYPE(STRING), n);

    if (!c || !(c->string_data = draft_alloc(d, (n + 1) * sizeof *c->string_data))) {
        d->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        c->string_data[i] = (ProtobufCBinaryData){ strlen(text[i]), (uint8_t *)(uintptr_t)text[i] };
    c->n_string_data = n;
    return c->name;
}

/* Adds a constant of one int64; returns its name. */
static const char *add_int(Drafted *d, int64_t v)
{
    Onnx__TensorProto *c = add_constant(d, TYPE(INT64), 1);

    if (!c || !(c->int64_data = draft_alloc(d, sizeof(int64_t))))
        return NULL;
    c->int64_data[0] = v;
    c->n_int64_data = 1;
    return c->name;
}

/* Describes an input or output [N, width], or [N] with width 0. */
static Onnx__ValueInfoProto *new_value(Drafted *d, const char *name, int32_t type, int64_t width)
{
    struct Value {
        Onnx__ValueInfoProto info;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
        Onnx__TensorShapeProto shape;
        Onnx__TensorShapeProto__Dimension dim[2], *list[2];
    } *v = draft_alloc(d, sizeof *v);

    if (!v)
        return NULL;
    onnx__value_info_proto__init(&v->info);
    onnx__type_proto__init(&v->type);
    onnx__type_proto__tensor__init(&v->tensor);
    onnx__tensor_shape_proto__init(&v->shape);
    for (int i = 0; i < 2; i++) {
        onnx__tensor_shape_proto__dimension__init(&v->dim[i]);
        v->list[i] = &v->dim[i];
    }
    v->dim[0].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    d->failed |= !(v->dim[0].dim_param = arena_strdup(d->arena, "N"));
    v->dim[1].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    v->dim[1].dim_value = width;
    v->shape.dim = v->list;
    v->shape.n_dim = width ? 2 : 1;
    v->tensor.has_elem_type = true;
    v->tensor.elem_type = type;
    v->tensor.shape = &v->shape;
    v->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type.tensor_type = &v->tensor;
    v->info.type = &v->type;
    d->failed |= !(v->info.name = arena_strdup(d->arena, name));
    return &v->info;
}

/* ---- features ---- */

static char *concatenate(Drafted *d, char *const *part, int n, const char *output)
{
    Onnx__NodeProto *last;
    char *out;

    if (n == 1 && !output)
        return part[0];
    out = add_node(d, "Concat", (const char *const[3]){ NULL }, int_attribute(d, "axis", 1), output);
    if (d->failed)
        return NULL;
    last = d->graph.node[d->graph.n_node - 1];
    last->n_input = (size_t)n;
    if ((last->input = arena_memdup(d->arena, part, (size_t)n * sizeof *part)))
        return out;
    d->failed = true;
    last->n_input = 0;
    return out;
}

/* The features of n numeric columns that follow each other in an output. */
static char *draft_numbers(Drafted *d, const int *column, int n)
{
    double *v = draft_alloc(d, 3 * (size_t)n * sizeof *v);
    char **name = draft_alloc(d, (size_t)n * sizeof *name), *x;

    if (!v || !name)
        return NULL;
    for (int i = 0; i < n; i++) {
        const Column *col = &d->t->column[column[i]];

        v[i] = col->median;
        v[n + i] = col->mean;
        v[2 * n + i] = col->scale;
        d->failed |= !(name[i] = arena_strdup(d->arena, col->name));
    }
    x = concatenate(d, name, n, NULL);
    x = NODE(d, "Where", NULL, NODE(d, "IsNaN", NULL, x), add_numbers(d, v, (size_t)n), x);
    x = NODE(d, "Sub", NULL, x, add_numbers(d, v + n, (size_t)n));
    x = NODE(d, "Div", NULL, x, add_numbers(d, v + 2 * n, (size_t)n));
    return NODE(d, "Cast", int_attribute(d, "to", TYPE(FLOAT)), x);
}

static char *draft_indicators(Drafted *d, const char *of, const char *const *text, size_t n)
{
    return NODE(d, "Cast", int_attribute(d, "to", TYPE(FLOAT)), NODE(d, "Equal", NULL, of, add_texts(d, text, n)));
}

/* An indicator of a missing category. */
static char *draft_missing(Drafted *d, const Column *col)
{
    size_t n = 0;

    while (table_missing[n])
        n++;
    return NODE(d, "ReduceMax", NULL, draft_indicators(d, col->name, table_missing, n), add_int(d, 1));
}

/* The indicators of a column of categories, of which there is one. */
static char *draft_categories(Drafted *d, const Column *col)
{
    const char **text = draft_alloc(d, ((size_t)col->n_known + 1) * sizeof *text);
    char *part[2];
    int n = 0;

    for (int i = 0; text && i < col->n_known; i++)
        text[i] = col->known[i]->text;
    if (!text)
        return NULL;
    if (!*text[0])
        part[n++] = draft_missing(d, col);
    if (n < col->n_known) {
        part[n] = draft_indicators(d, col->name, text + n, (size_t)(col->n_known - n));
        n++;
    }
    return concatenate(d, part, n, NULL);
}

/* The ids of a column [N, 1], in double. */
static char *draft_id(Drafted *d, const Column *col)
{
    double *place = draft_alloc(d, ((size_t)col->n_known + 1) * sizeof *place);
    const double n = col->n_known;
    char *x = arena_strdup(d->arena, col->name);

    d->failed |= !x;
    if (d->failed || col->kind == COLUMN_NUMERIC)
        return x;
    for (int i = 0; i < col->n_known; i++)
        place[i] = i - n;
    x = NODE(d, "Cast", int_attribute(d, "to", TYPE(DOUBLE)), draft_categories(d, col));
    x = NODE(d, "Mul", NULL, x, add_numbers(d, place, (size_t)col->n_known));
    x = NODE(d, "ReduceSum", NULL, x, add_int(d, 1));
    return NODE(d, "Add", NULL, x, add_numbers(d, &n, 1));
}

static void draft_ids(Drafted *d, const FeatureTensor *to)
{
    const int32_t type = to->id_bytes == 4 ? TYPE(INT32) : TYPE(INT64);
    char **part = draft_alloc(d, ((size_t)to->n + 1) * sizeof *part), *x = NULL;

    for (int i = 0; part && i < to->n; i++)
        part[i] = draft_id(d, &d->t->column[to->column[i]]);
    if (part && !d->failed)
        x = concatenate(d, part, to->n, NULL);
    if (x && to->rank == 1)
        x = NODE(d, "Squeeze", NULL, x, add_int(d, 1));
    (void)add_node(d, "Cast", (const char *const[3]){ x }, int_attribute(d, "to", type), to->name);
    d->graph.output[d->graph.n_output++] = new_value(d, to->name, type, to->rank == 1 ? 0 : to->n);
}

static void draft_tensor(Drafted *d, const FeatureTensor *to)
{
    char **part = draft_alloc(d, ((size_t)to->n + 1) * sizeof *part);
    int n = 0, width = 0;

    for (int i = 0, run; part && i < to->n; i += run) {
        const Column *col = &d->t->column[to->column[i]];

        for (run = 1; col->kind == COLUMN_NUMERIC && i + run < to->n &&
                      d->t->column[to->column[i + run]].kind == COLUMN_NUMERIC;)
            run++;
        part[n++] = col->kind == COLUMN_NUMERIC ? draft_numbers(d, &to->column[i], run) : draft_categories(d, col);
    }
    for (int i = 0; i < to->n; i++)
        width += d->t->column[to->column[i]].width;
    if (part)
        (void)concatenate(d, part, n, to->name);
    d->graph.output[d->graph.n_output++] = new_value(d, to->name, TYPE(FLOAT), width);
}

static Status draft_graph(Drafted *d, const FeatureTensor *tensor, int n)
{
    const size_t room = NODES_OF_COLUMN * ((size_t)d->t->n + (size_t)n);

    onnx__graph_proto__init(&d->graph);
    d->graph.node = draft_alloc(d, room * sizeof(Onnx__NodeProto *));
    d->graph.initializer = draft_alloc(d, room * sizeof(Onnx__TensorProto *));
    d->graph.input = draft_alloc(d, room * sizeof(Onnx__ValueInfoProto *));
    d->graph.output = draft_alloc(d, room * sizeof(Onnx__ValueInfoProto *));
    d->graph.name = arena_strdup(d->arena, "preprocess");
    if (d->failed || !d->graph.name)
        return FAIL_NOMEM();
    for (int i = 0; i < d->t->n; i++) {
        const Column *col = &d->t->column[i];

        for (int k = 0; k < n && col->width; k++) /* a column that is in no tensor is no input */
            for (int c = 0; c < tensor[k].n; c++)
                if (tensor[k].column[c] == i)
                    d->graph.input[d->graph.n_input++] =
                        new_value(d, col->name, col->kind == COLUMN_NUMERIC ? TYPE(DOUBLE) : TYPE(STRING), 1);
    }
    for (int k = 0; k < n && !d->failed; k++)
        (tensor[k].id_bytes ? draft_ids : draft_tensor)(d, &tensor[k]);
    return d->failed ? FAIL_NOMEM() : ST_OK;
}

Status preprocess_write_graph(struct Onnx__GraphProto *graph, int opset, const char *path)
{
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto version = ONNX__OPERATOR_SET_ID_PROTO__INIT, *list = &version;
    static char producer[] = "dpexec";
    uint8_t *bytes;
    OutFile *file;
    size_t size;
    Status st;

    version.has_version = m.has_ir_version = true;
    version.version = opset;
    m.ir_version = IR_VERSION;
    m.opset_import = &list;
    m.n_opset_import = 1;
    m.producer_name = producer;
    m.graph = graph;
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

Status preprocess_write(const Table *t, const FeatureTensor *tensor, int n, const char *path)
{
    Drafted d = { .arena = arena_create(), .t = t };
    Status st = d.arena ? draft_graph(&d, tensor, n) : FAIL_NOMEM();

    st = st ? st : preprocess_write_graph(&d.graph, OPSET, path);
    arena_free(d.arena);
    return st;
}
