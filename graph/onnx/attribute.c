/* Attributes: references to attributes of functions, and the conversion of AttributeProto to Attr. */
#include <limits.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "graph/onnx/importer.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

int attribute_type(const Onnx__AttributeProto *a)
{
    if (a->has_type && a->type != KIND(UNDEFINED))
        return (int)a->type;
    return a->has_i       ? KIND(INT)
           : a->has_f     ? KIND(FLOAT)
           : a->has_s     ? KIND(STRING)
           : a->t         ? KIND(TENSOR)
           : a->g         ? KIND(GRAPH)
           : a->n_ints    ? KIND(INTS)
           : a->n_floats  ? KIND(FLOATS)
           : a->n_strings ? KIND(STRINGS)
                          : KIND(UNDEFINED);
}

Status attribute_resolve(const Onnx__AttributeProto **out, const Importer *im, const Body *b, const Onnx__NodeProto *p,
                         const Onnx__AttributeProto *a)
{
    if (!a->name || !*a->name)
        return FAIL(E_MODEL, "%s: an attribute without a name", proto_text(im, p));
    *out = a;
    if (!a->ref_attr_name || !*a->ref_attr_name)
        return ST_OK;
    if (!b->function)
        return FAIL(E_MODEL, "%s: attribute '%s' refers to a function's attribute outside of a function",
                    proto_text(im, p), a->name);
    *out = NULL;
    for (int i = 0; i < b->bindings.n; i++)
        if (!strcmp(b->bindings.name[i], a->ref_attr_name))
            *out = b->bindings.attr[i];
    return ST_OK;
}

Status attribute_given(const Onnx__AttributeProto **out, const Importer *im, const Body *b, const Onnx__NodeProto *p,
                       const char *name, Onnx__AttributeProto__AttributeType type)
{
    if (!(*out = attribute_find(p, name)))
        return ST_OK;
    TRY(attribute_resolve(out, im, b, p, *out));
    if (*out && attribute_type(*out) != (int)type && attribute_type(*out) != KIND(UNDEFINED))
        return FAIL(E_MODEL, "attribute '%s' is of type %d, expected %d", name, attribute_type(*out), (int)type);
    return ST_OK;
}

static const char *attribute_copy_bytes(Arena *a, ProtobufCBinaryData s)
{
    char *text = arena_alloc(a, s.len + 1);

    return text && s.len ? memcpy(text, s.data, s.len) : text;
}

/* Strings end at their first byte of 0, so all bytes after that one must be 0. */
static Status check_bytes(ProtobufCBinaryData s)
{
    const uint8_t *end = s.len ? memchr(s.data, 0, s.len) : NULL;

    for (; end && end < s.data + s.len; end++)
        if (*end)
            return FAIL(E_UNSUPPORTED, "a string with a byte of 0 in it");
    return ST_OK;
}

static Status decode_strings(Attr *to, Importer *im, const Onnx__AttributeProto *a)
{
    const char **list = ARENA_NEW(im->scratch, const char *, a->n_strings);

    for (size_t i = 0; i < a->n_strings; i++)
        TRY(check_bytes(a->strings[i]));
    for (size_t i = 0; list && i < a->n_strings; i++)
        if (!(list[i] = attribute_copy_bytes(im->scratch, a->strings[i])))
            return FAIL_NOMEM();
    *to = (Attr){ .type = A_STRINGS, .n = (int)a->n_strings, .strings = list };
    return list ? ST_OK : FAIL_NOMEM();
}

static Status decode_tensor(Attr *to, Importer *im, const Onnx__AttributeProto *a)
{
    TensorReader r = im->tensors;
    Tensor *t;

    if (!a->t)
        return FAIL(E_MODEL, "the tensor is missing");
    r.arena = im->scratch;
    TRY(tensor_decode(&t, &r, a->t, a->name));
    *to = (Attr){ .type = A_TENSOR, .tensor = t };
    return ST_OK;
}

/* The attribute's float.  In an export of dpexec, its doc_string holds the float64 that it was rounded from. */
static double exact_float(const Importer *im, const Onnx__AttributeProto *a)
{
    double exact;

    if (!im->marked || !a->doc_string || !text_to_float64(&exact, a->doc_string, strlen(a->doc_string)))
        return (double)a->f;
    return (float)exact == a->f ? exact : (double)a->f;
}

static Status attribute_decode(Attr *to, Importer *im, const Body *b, const Onnx__NodeProto *p,
                               const Onnx__AttributeProto *a)
{
    double *list;

    switch (attribute_type(a)) {
    case KIND(INT): *to = (Attr){ .type = A_INT, .i = a->i }; return ST_OK;
    case KIND(FLOAT): *to = (Attr){ .type = A_FLOAT, .f = exact_float(im, a) }; return ST_OK;
    case KIND(STRING):
        TRY(check_bytes(a->s));
        *to = (Attr){ .type = A_STRING, .s = attribute_copy_bytes(im->scratch, a->s) };
        return to->s ? ST_OK : FAIL_NOMEM();
    case KIND(INTS): *to = (Attr){ .type = A_INTS, .n = (int)a->n_ints, .ints = a->ints }; return ST_OK;
    case KIND(FLOATS):
        list = ARENA_NEW(im->scratch, double, a->n_floats);
        for (size_t i = 0; list && i < a->n_floats; i++)
            list[i] = (double)a->floats[i];
        *to = (Attr){ .type = A_FLOATS, .n = (int)a->n_floats, .floats = list };
        return list ? ST_OK : FAIL_NOMEM();
    case KIND(STRINGS): return decode_strings(to, im, a);
    case KIND(TENSOR): return decode_tensor(to, im, a);
    case KIND(GRAPH): /* ONNX's own operators with subgraphs have been inlined */
        if (!p->domain || strcmp(p->domain, "dpexec"))
            return FAIL(E_UNSUPPORTED, "subgraphs are not supported");
        *to = (Attr){ .type = A_GRAPH };
        return a->g ? body_decode(&to->graph, im, b, p, a->g) : FAIL(E_MODEL, "the subgraph is missing");
    case KIND(GRAPHS): return FAIL(E_UNSUPPORTED, "subgraphs are not supported");
    case KIND(UNDEFINED): return FAIL(E_MODEL, "it has no type and no value");
    default: return FAIL(E_UNSUPPORTED, "attributes of this type are not supported");
    }
}

Status attributes_decode(Attr **list, Importer *im, const Body *b, const Onnx__NodeProto *p)
{
    Attr *attrs = ARENA_NEW(im->scratch, Attr, p->n_attribute + 1);
    size_t n = 0;

    if (!attrs)
        return FAIL_NOMEM();
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *a;

        TRY(attribute_resolve(&a, im, b, p, p->attribute[i]));
        if (!a)
            continue;
        if (a->n_ints > INT_MAX || a->n_floats > INT_MAX || a->n_strings > INT_MAX)
            return FAIL(E_MODEL, "%s: attribute '%s' is too long", proto_text(im, p), p->attribute[i]->name);
        TRY(status_prefix(attribute_decode(&attrs[n], im, b, p, a), "%s: attribute '%s'", proto_text(im, p),
                          p->attribute[i]->name));
        attrs[n].name = p->attribute[i]->name;
        for (size_t k = 0; k < n; k++)
            if (!strcmp(attrs[k].name, attrs[n].name))
                return FAIL(E_MODEL, "%s: attribute '%s' is given twice", proto_text(im, p), attrs[n].name);
        n++;
    }
    *list = attrs;
    return ST_OK;
}
