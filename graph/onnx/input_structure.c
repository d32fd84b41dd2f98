/* Inputs that are sequences or optional.  A graph holds only tensors, so the caller, who knows the data, gives the
 * number of tensors when the file is read.  A sequence NAME becomes inputs NAME.0, NAME.1, ...; an optional becomes the
 * tensor that it holds, or is marked as empty.  SequenceLength and OptionalHasElement then have constant results. */
#include <string.h>

#include "graph/onnx/importer.h"

const Onnx__TypeProto__Tensor *input_type(OnnxType *out, const Onnx__TypeProto *type)
{
    *out = (OnnxType){ .shape = shape_unknown() };
    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) {
        out->optional = true;
        type = type->optional_type->elem_type;
    }
    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) {
        out->sequence = true;
        type = type->sequence_type->elem_type;
    }
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return NULL;
    out->dtype = (DType)type->tensor_type->elem_type;
    return type->tensor_type;
}

/* Says why an input of this type, which is no type of tensors, is not supported. */
static const char *kind_problem(const Onnx__TypeProto *type)
{
    switch (type->value_case) {
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        return "it is a map, which operators of ONNX do not take: an input for each of its keys can be";
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE: return "it is a sparse tensor";
    default: return "expected tensors, sequences of tensors, or optional ones";
    }
}

/* Says which option gives the number of tensors. */
static const char *members_problem(Importer *im, const char *name, const OnnxType *type)
{
    const char *text =
        type->sequence ? arena_printf(im->scratch,
                                      "the number of tensors of this %ssequence is unknown: give "
                                      "--input-members %.100s=N%s",
                                      type->optional ? "optional " : "", name, type->optional ? ", or =absent" : "")
                       : arena_printf(im->scratch,
                                      "this optional may be present or absent: give --input-members %.100s=present, "
                                      "or =absent",
                                      name);

    return text ? text : "its structure is unknown";
}

/* Adds an input of one tensor, under a new name. */
static Status input_structure_add_tensor(ValueId *out, Importer *im, const char *name, const Onnx__TypeProto__Tensor *t)
{
    const char **params = NULL;
    Shape shape = shape_unknown();

    if (t->shape)
        TRY(status_prefix(type_shape_decode(&shape, &params, im->g->arena, t->shape, name), "input"));
    if (has_value(graph_find(im->g, name)))
        return FAIL(E_UNSUPPORTED, "input '%s', a member, has the name of another value", name);
    *out = graph_add_input(im->g, name, (DType)t->elem_type, &shape);
    if (!has_value(*out))
        return im->g->status;
    value(im->g, *out)->dim_param = params;
    return ST_OK;
}

/* The entry becomes a sequence of n new inputs NAME.0, NAME.1, ... */
static Status add_members(ScopeEntry *e, Importer *im, int n, const Onnx__TypeProto__Tensor *t)
{
    ValueId *item = n <= MAX_SEQUENCE ? ARENA_NEW(im->scratch, ValueId, n + 1) : NULL;

    if (n > MAX_SEQUENCE)
        return FAIL(E_UNSUPPORTED, "input '%s': a sequence of more than %d tensors", e->name, MAX_SEQUENCE);
    for (int i = 0; item && i < n; i++) {
        const char *name = arena_printf(im->scratch, "%s.%d", e->name, i);

        if (!name)
            return FAIL_NOMEM();
        TRY(input_structure_add_tensor(&item[i], im, name, t));
        value(im->g, item[i])->member = true;
    }
    return item ? sequence_set(e, im, n, item) : FAIL_NOMEM();
}

Status import_structured(Importer *im, ScopeEntry *e, const Onnx__ValueInfoProto *p)
{
    OnnxType type;
    const Onnx__TypeProto__Tensor *t = input_type(&type, p->type);
    const char *problem = t ? tensor_type_problem(t->elem_type, im->tensors.texts) : kind_problem(p->type);
    int n = ONNX_UNKNOWN;

    if (!problem && im->members)
        TRY(im->members(im->members_user, &n, im->n_given, e->name, &type));
    if (!problem && n == ONNX_UNKNOWN)
        problem = members_problem(im, e->name, &type);
    im->members_unknown |=
        !problem ? false : n == ONNX_UNKNOWN && t && !tensor_type_problem(t->elem_type, im->tensors.texts);
    if (problem) {
        Shape shape = shape_unknown();

        problems_add(&im->problems, "input '%s': %s", p->name, problem);
        e->value = graph_add_value(im->g, V_TEMP, p->name, DT_NONE, &shape);
        return im->g->status;
    }
    if (n == ONNX_ABSENT && !type.optional)
        return FAIL(E_INVALID, "input '%s' cannot be absent: it is a sequence, and not optional", e->name);
    if (n == ONNX_ABSENT) {
        optional_set_nothing(e);
        return ST_OK;
    }
    if (n != 1 && !type.sequence)
        return FAIL(E_INVALID, "input '%s' has one tensor, or is absent, found %d", e->name, n);
    return type.sequence ? add_members(e, im, n, t) : input_structure_add_tensor(&e->value, im, e->name, t);
}
