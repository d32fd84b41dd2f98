/* The export of nodes, attributes and tensors as messages.  Messages refer to the graph's data, which outlive them.
 *
 * Attributes with their default value are left out, so that attributes of dpexec do not leak into ONNX's operators.  An
 * operator of dpexec, or one with an ATTR_OURS that is not the default, is written in dpexec's domain; the importer
 * finds ONNX's operators there, too. */
#include <math.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "graph/onnx/export.h"
#include "graph/tensor/narrow_types.h"
#include "graph/tensor/strings.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

/* Zeros, t->data == NULL, are empty strings. */
static Onnx__TensorProto *export_texts(Exporter *x, Onnx__TensorProto *p, const Tensor *t)
{
    p->n_string_data = (size_t)tensor_numel(t);
    if (!(p->string_data = export_alloc(x, sizeof *p->string_data, p->n_string_data)))
        return NULL;
    for (size_t i = 0; i < p->n_string_data && t->data; i++) {
        const Text s = text_at(t, (int64_t)i);

        p->string_data[i] = (ProtobufCBinaryData){ s.n, (uint8_t *)(uintptr_t)s.bytes };
    }
    return p;
}

Onnx__TensorProto *export_tensor(Exporter *x, const Tensor *t, char *name)
{
    Onnx__TensorProto *p = NEW_MESSAGE(x, Onnx__TensorProto, onnx__tensor_proto);

    if (!p)
        return NULL;
    p->name = name;
    p->has_data_type = true;
    p->data_type = (int32_t)t->dtype;
    p->n_dims = (size_t)t->shape.rank;
    if ((p->dims = export_alloc(x, sizeof *p->dims, p->n_dims)))
        memcpy(p->dims, t->shape.dim, p->n_dims * sizeof *p->dims);
    if (t->dtype == DT_STRING)
        return export_texts(x, p, t);
    p->has_raw_data = true;
    p->raw_data = (ProtobufCBinaryData){ packed_bytes(t->dtype, tensor_numel(t)), t->data };
    if (!t->data || dtype_bits(t->dtype) < 8)
        p->raw_data.data = export_alloc(x, 1, p->raw_data.len);
    if (t->data && p->raw_data.data && dtype_bits(t->dtype) < 8)
        packed_write(p->raw_data.data, t);
    return p;
}

/* Is the attribute left out?  Numbers in an older spelling are written, because their default may differ there. */
static bool left_out(const Exporter *x, const Node *n, const Attr *a)
{
    const AttrDecl *d = op_attr_decl(n->op, a->name);
    bool older = x->opt->plain && !n->op->domain && x->opset < op_oldest(n->op);

    if (d && d->rule == ATTR_INNER)
        return true;
    if (!d || d->rule == ATTR_REQUIRED || (older && d->rule != ATTR_OURS && (a->type == A_INT || a->type == A_FLOAT)))
        return false;
    return attr_is_default(d, a) || (a->type == A_FLOAT && x->opt->plain && (float)a->f == (float)d->f);
}

static ProtobufCBinaryData export_node_bytes_of(const char *s)
{
    return (ProtobufCBinaryData){ s ? strlen(s) : 0, (uint8_t *)(uintptr_t)s };
}

static Onnx__AttributeProto *export_attr(Exporter *x, const Node *n, const Attr *a)
{
    Onnx__AttributeProto *p = NEW_MESSAGE(x, Onnx__AttributeProto, onnx__attribute_proto);
    char text[NUMBER_TEXT];

    if (!p)
        return NULL;
    p->name = export_text(x, a->name);
    p->has_type = true;
    switch (a->type) {
    case A_INT:
        p->type = KIND(INT);
        p->has_i = true;
        p->i = a->i;
        break;
    case A_FLOAT:
        p->type = KIND(FLOAT);
        p->has_f = true;
        p->f = (float)a->f;
        if (!x->opt->plain && (double)p->f != a->f && !isnan(a->f)) /* the float64 that float32 cannot hold */
            p->doc_string = export_text(x, text_float64(text, a->f));
        break;
    case A_STRING:
        p->type = KIND(STRING);
        p->has_s = true;
        p->s = export_node_bytes_of(a->s);
        break;
    case A_INTS:
        p->type = KIND(INTS);
        p->n_ints = (size_t)a->n;
        p->ints = (int64_t *)(uintptr_t)a->ints;
        break;
    case A_FLOATS:
        p->type = KIND(FLOATS);
        p->n_floats = (size_t)a->n;
        p->floats = export_alloc(x, sizeof *p->floats, p->n_floats);
        for (int i = 0; p->floats && i < a->n; i++)
            p->floats[i] = (float)a->floats[i];
        break;
    case A_STRINGS:
        p->type = KIND(STRINGS);
        p->n_strings = (size_t)a->n;
        p->strings = export_alloc(x, sizeof *p->strings, p->n_strings);
        for (int i = 0; p->strings && i < a->n; i++)
            p->strings[i] = export_node_bytes_of(a->strings[i]);
        break;
    case A_GRAPH:
        p->type = KIND(GRAPH);
        p->g = a->graph ? export_body(x, n, a) : NULL;
        break;
    default:
        p->type = KIND(TENSOR);
        p->t = export_tensor(x, a->tensor, NULL);
        break;
    }
    return p;
}

static char **names_of(Exporter *x, int n, const ValueId *v)
{
    char **list = export_alloc(x, sizeof *list, (size_t)n);

    for (int i = 0; list && i < n; i++)
        list[i] = has_value(v[i]) ? x->name[v[i].i] : "";
    return list;
}

/* Has the node an attribute of dpexec that is written? */
static bool has_ours(const Exporter *x, const Node *n)
{
    for (int i = 0; i < n->n_attr; i++) {
        const AttrDecl *d = op_attr_decl(n->op, n->attr[i].name);

        if (d && d->rule == ATTR_OURS && !left_out(x, n, &n->attr[i]))
            return true;
    }
    return false;
}

/* Lists the domain, with the newest version that a node needs. */
static void use_domain(Exporter *x, const char *domain, int since)
{
    Onnx__OperatorSetIdProto **grown;

    for (size_t i = 0; i < x->n_domain; i++)
        if (!strcmp(x->domain[i]->domain, domain)) {
            x->domain[i]->version = x->domain[i]->version < since ? since : x->domain[i]->version;
            return;
        }
    grown = arena_grow(x->arena, x->domain, sizeof *x->domain, x->n_domain, &x->cap_domain);
    if (!grown || !(grown[x->n_domain] = NEW_MESSAGE(x, Onnx__OperatorSetIdProto, onnx__operator_set_id_proto))) {
        x->no_memory = true;
        return;
    }
    x->domain = grown;
    x->domain[x->n_domain]->domain = export_text(x, domain);
    x->domain[x->n_domain]->has_version = true;
    x->domain[x->n_domain++]->version = since;
}

static void set_domain(Exporter *x, Onnx__NodeProto *p, const Node *n)
{
    const char *domain = has_ours(x, n) ? "dpexec" : n->op->domain;

    if (!domain) {
        if (!x->opt->plain)
            x->opset = x->opset < n->op->since ? n->op->since : x->opset;
        return;
    }
    if (!strcmp(domain, "dpexec") && x->opt->plain)
        problems_add(&x->problems, "%s", node_text(x->g, n));
    p->domain = export_text(x, domain);
    use_domain(x, domain, strcmp(domain, "dpexec") ? n->op->since : 1);
}

Onnx__NodeProto *export_node(Exporter *x, const Node *n)
{
    const char *plain = x->opt->plain ? n->op->plain : NULL;
    Onnx__NodeProto *p = NEW_MESSAGE(x, Onnx__NodeProto, onnx__node_proto);
    int first = 0;

    if (!p || !(p->attribute = export_alloc(x, sizeof *p->attribute, (size_t)n->n_attr)))
        return NULL;
    p->op_type = export_text(x, plain ? plain : n->op->name);
    while (x->opt->defaults && !has_out(n, first)) /* many nodes of a step share a name; some runtimes refuse that */
        first++;
    p->name = export_text(x, x->opt->defaults ? x->name[n->out[first].i] : n->name);
    p->n_input = (size_t)n->n_in;
    while (plain && p->n_input && op_is_gradient_only(n->op, (int)p->n_input - 1))
        p->n_input--;
    p->input = names_of(x, n->n_in, n->in);
    p->n_output = (size_t)n->n_out;
    p->output = names_of(x, n->n_out, n->out);
    if (plain) /* its attributes are in the metadata (export.c) */
        return p;
    set_domain(x, p, n);
    for (int i = 0; i < n->n_attr; i++)
        if (!left_out(x, n, &n->attr[i]))
            p->attribute[p->n_attribute++] = export_attr(x, n, &n->attr[i]);
    if (!x->opt->plain)
        p->doc_string = export_place(x, n->device, n->replica);
    return p;
}
