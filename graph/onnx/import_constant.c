/* Constant nodes, which become constants of the graph.  A node in the body of a loop or function is one constant for
 * all trips and calls, unless its value is an attribute of the call. */
#include <string.h>

#include "graph/onnx/importer.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

static Tensor *import_constant_make(Arena *a, DType dtype, const Shape *shape, const void *data)
{
    Tensor *t = tensor_create(a, dtype, shape);

    if (t && tensor_bytes(t))
        memcpy(t->data, data, tensor_bytes(t));
    return t;
}

/* A tensor of an attribute's string, or list of strings. */
static Status make_texts(Tensor **out, Importer *im, const ProtobufCBinaryData *s, const Shape *shape, const char *name)
{
    Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;

    t.data_type = DT_STRING;
    t.n_dims = (size_t)shape->rank;
    t.dims = (int64_t *)(uintptr_t)shape->dim;
    t.n_string_data = (size_t)shape_numel(shape);
    t.string_data = (ProtobufCBinaryData *)(uintptr_t)s;
    return tensor_decode(out, &im->tensors, &t, name);
}

/* Decodes the value of attribute `kind`, "value_ints" and the like, of a Constant node. */
static Status import_constant_decode(Tensor **out, Importer *im, const Onnx__AttributeProto *a, const char *kind,
                                     const char *name)
{
    Arena *arena = im->g->arena;
    Shape scalar = shape_scalar(), ints = SHAPE((int64_t)a->n_ints), floats = SHAPE((int64_t)a->n_floats),
          strings = SHAPE((int64_t)a->n_strings);

    *out = NULL;
    if (!strcmp(kind, "value") && a->t)
        return tensor_decode(out, &im->tensors, a->t, name);
    if (!strcmp(kind, "sparse_value") && a->sparse_tensor)
        return tensor_decode_sparse(out, &im->tensors, a->sparse_tensor, name);
    if (!strcmp(kind, "value_string") && attribute_type(a) == KIND(STRING))
        return make_texts(out, im, &a->s, &scalar, name);
    if (!strcmp(kind, "value_strings") && attribute_type(a) == KIND(STRINGS))
        return make_texts(out, im, a->strings, &strings, name);
    if (!strcmp(kind, "value_int") && attribute_type(a) == KIND(INT))
        *out = import_constant_make(arena, DT_INT64, &scalar, &a->i);
    else if (!strcmp(kind, "value_ints") && attribute_type(a) == KIND(INTS))
        *out = import_constant_make(arena, DT_INT64, &ints, a->ints);
    else if (!strcmp(kind, "value_float") && attribute_type(a) == KIND(FLOAT))
        *out = import_constant_make(arena, DT_FLOAT32, &scalar, &a->f);
    else if (!strcmp(kind, "value_floats") && attribute_type(a) == KIND(FLOATS))
        *out = import_constant_make(arena, DT_FLOAT32, &floats, a->floats);
    else
        return FAIL(E_MODEL, "attribute '%s' does not hold a constant", kind);
    return *out ? ST_OK : FAIL_NOMEM();
}

Status import_constant(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    const Onnx__AttributeProto *a = NULL;
    const char *kind = "", *name;
    ScopeEntry *e, *shared = NULL;
    Tensor *t;
    bool of_call = false;

    for (size_t i = 0; i < p->n_attribute; i++) {
        if (a)
            return FAIL(E_MODEL, "%s: more than one value", proto_text(im, p));
        TRY(attribute_resolve(&a, im, b, p, p->attribute[i]));
        kind = p->attribute[i]->name;
        of_call = a != p->attribute[i];
    }
    if (!a || p->n_output != 1 || !*p->output[0] || p->n_input)
        return FAIL(E_MODEL, "%s: one value, one output and no input are expected", proto_text(im, p));
    e = scope_find(&b->scope, p->output[0]);
    if (body_is_shared(b) && !(shared = shared_entry(im, of_call ? b->site : SITE_EVERY, p)))
        return FAIL_NOMEM();
    if (shared && has_value(e->value = shared->value))
        return ST_OK;
    TRY(status_prefix(import_constant_decode(&t, im, a, kind, p->output[0]), "%s", proto_text(im, p)));
    if (!(name = arena_printf(im->scratch, "%s%s", b->constants, p->output[0])))
        return FAIL_NOMEM();
    e->value = graph_add_const_nocopy(im->g, name, t);
    TRY(im->g->status);
    if (!b->function) /* a function has no initializers, so weights and numbers of the code are both Constant nodes */
        value(im->g, e->value)->origin = ORIGIN_NODE;
    if (shared)
        shared->value = e->value;
    return ST_OK;
}
