/* A gradient in nodes: what an embedder's make_gradient writes into the graph, through values that are numbered for its
 * call alone, so that a wrong one is found here.  Its nodes are those of built-in gradients in all that follows; what
 * is composite is lowered at once, for the pass that does it has been. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exec/operators/operators.h"
#include "graph/base/numtext.h"
#include "graph/ir/emit.h"
#include "graph/ir/grad.h"
#include "graph/ir/lower.h"

enum { MOST_TENSORS = 127 }; /* of a node */

struct Building {
    Grad *gr;
    ValueId *value; /* [n]: number i + 1 */
    size_t n, cap;
    Status failed;
    char why[512];
};

/* ---- failures ---- */

/* The first counts. */
static Status fail(Building *b, Status st, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static Status fail(Building *b, Status st, const char *fmt, ...)
{
    va_list args;

    if (b->failed)
        return b->failed;
    va_start(args, fmt);
    text_vformat(b->why, sizeof b->why, fmt, args);
    va_end(args);
    return b->failed = st;
}

/* Fails with the message of the library's last failure. */
static Status fail_so(Building *b, Status st)
{
    char why[sizeof b->why];

    snprintf(why, sizeof why, "%s", status_message());
    return fail(b, st, "%s", why);
}

/* NULL: nothing can be written, or not any more. */
static Building *building(const dpx_node *node)
{
    return node && node->builds && !node->builds->failed ? node->builds : NULL;
}

/* ---- values ---- */

static dpx_value gradient_give(Building *b, ValueId v)
{
    ValueId *grown;

    if (!has_value(v))
        return 0;
    if (!(grown = arena_grow(b->gr->g->arena, b->value, sizeof *b->value, b->n, &b->cap))) {
        (void)fail_so(b, FAIL_NOMEM());
        return 0;
    }
    b->value = grown;
    b->value[b->n++] = v;
    return (dpx_value)b->n;
}

static ValueId find(const Building *b, dpx_value v) { return v && v <= b->n ? b->value[v - 1] : NO_VALUE; }

dpx_value dpx_graph_input(dpx_node *node, int i)
{
    Building *b = building(node);

    return b && i >= 0 && i < node->at.n_in ? gradient_give(b, b->gr->node->in[i]) : 0;
}

dpx_value dpx_graph_output(dpx_node *node, int i)
{
    Building *b = building(node);

    return b && i >= 0 && i < node->at.n_out ? gradient_give(b, b->gr->node->out[i]) : 0;
}

dpx_value dpx_graph_output_gradient(dpx_node *node, int i)
{
    Building *b = building(node);

    return b && i >= 0 && i < node->at.n_out ? gradient_give(b, b->gr->dout[i]) : 0;
}

int dpx_graph_tensor(const dpx_node *node, dpx_value v, dpx_tensor *out)
{
    const Building *b = building(node);

    if (!b || !out || !has_value(find(b, v)))
        return 0;
    node_tensor(out, b->gr->g, find(b, v));
    return 1;
}

static Status add_constant(ValueId *out, Graph *g, const dpx_tensor *t)
{
    Tensor *made;
    Shape s;

    if (!t || t->rank < 0 || t->rank > MAX_RANK || !dtype_size((DType)t->dtype) || t->dtype == DPX_STRING)
        return FAIL(E_INVALID, "tensor is %s", t ? "of an unknown type or rank" : "NULL");
    s = shape_of(t->rank, t->dim);
    for (int k = 0; k < s.rank; k++)
        if (s.dim[k] < 0)
            return FAIL(E_SHAPE, "tensor has a negative dimension");
    TRY(shape_check(&s, dtype_size((DType)t->dtype)));
    if (!t->data && shape_numel(&s))
        return FAIL(E_INVALID, "tensor has no data");
    if (!(made = tensor_create(g->arena, (DType)t->dtype, &s)))
        return FAIL_NOMEM();
    if (tensor_bytes(made))
        memcpy(made->data, t->data, tensor_bytes(made));
    *out = graph_add_const_nocopy(g, "const", made);
    return g->status;
}

dpx_value dpx_graph_constant(dpx_node *node, const dpx_tensor *tensor)
{
    Building *b = building(node);
    ValueId v;

    if (!b)
        return 0;
    if (add_constant(&v, b->gr->g, tensor)) {
        (void)fail_so(b, status_prefix(E_INVALID, "%s", __func__));
        return 0;
    }
    return gradient_give(b, v);
}

dpx_value dpx_graph_number(dpx_node *node, dpx_value like, double number)
{
    Building *b = building(node);
    Graph *g;
    ValueId v;

    if (!b)
        return 0;
    g = b->gr->g;
    if (!has_value(find(b, like))) {
        (void)fail(b, E_INVALID, "%s: there is no value %u", __func__, (unsigned)like);
        return 0;
    }
    v = emit_scalar(g, value(g, find(b, like))->dtype, number);
    if (g->status)
        (void)fail_so(b, g->status);
    return gradient_give(b, v);
}

/* ---- nodes ---- */

static const OpDef *find_operator(const dpx_node *node, const char *domain, const char *name)
{
    const OpDef *op = domain && !strcmp(domain, "dpexec") ? NULL : op_find(domain, name);
    const OpDef *own = op ? NULL : operator_find(&node->role->of->set->list, domain, name);

    return own && ((const RoleDef *)(const void *)own)->role == ROLE_APPLY ? own : op;
}

static Status read_attribute(Attr *out, const dpx_attribute *from)
{
    dpx_attribute t;

    TRY(operators_take(&t, sizeof t, from, "dpx_attribute"));
    *out = (Attr){ .name = t.name,
                   .type = operators_attr_type(t.type),
                   .i = t.i,
                   .f = t.f,
                   .s = t.s,
                   .n = t.n,
                   .ints = t.ints,
                   .floats = t.floats };
    if (!t.name || out->type == A_NONE || (out->type == A_STRING && !t.s) || t.n < 0 ||
        (t.n && ((out->type == A_INTS && !t.ints) || (out->type == A_FLOATS && !t.floats))))
        return FAIL(E_INVALID, "attribute '%.100s' of type %d has no value", t.name ? t.name : "", (int)t.type);
    if (out->type != A_INTS && out->type != A_FLOATS)
        out->n = 0;
    return ST_OK;
}

static Status read_attributes(Attr **out, Arena *a, const dpx_attribute *attributes, int n)
{
    const char *at = (const char *)attributes;

    if (!(*out = ARENA_NEW(a, Attr, n + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++, at += attributes->size)
        TRY(read_attribute(&(*out)[i], (const dpx_attribute *)(const void *)at));
    return ST_OK;
}

/* Adds a node of the operator, whose outputs are *out. */
static Status add_node(ValueId *out, int n_out, Building *b, const OpDef *op, const dpx_value *in, int n_in,
                       const dpx_attribute *attributes, int n_attributes)
{
    Graph *g = b->gr->g;
    const uint32_t first = g->n_node;
    ValueId *values = ARENA_NEW(g->arena, ValueId, n_in);
    Attr *attrs;

    if (!values)
        return FAIL_NOMEM();
    TRY(read_attributes(&attrs, g->arena, attributes, n_attributes));
    for (int i = 0; i < n_in; i++)
        values[i] = find(b, in[i]);
    if (!emit_multi(g, op, attrs, n_in, values, n_out, out))
        return g->status;
    for (int i = 0; i < n_out; i++)
        if (!shape_known(value(g, out[i])->shape))
            return FAIL(E_UNSUPPORTED, "the shape of output %d depends on data", i);
    return graph_lower(g, g->arena, &(Lowering){ .first = first, .held = out, .n_held = n_out });
}

static Status emit_checked(dpx_node *node, const char *domain, const char *name, const dpx_value *in, int n_in,
                           const dpx_attribute *attributes, int n_attributes, dpx_value *out, int n_out)
{
    Building *b = node->builds;
    const char *shown = domain && *domain ? domain : "ai.onnx";
    ValueId made[MOST_TENSORS];
    const OpDef *op;
    Status st;

    if (!name || (n_in && !in) || (n_attributes && !attributes))
        return fail(b, E_INVALID, "dpx_graph_emit: %s is NULL", !name ? "name" : n_in && !in ? "in" : "attributes");
    if (!(op = find_operator(node, domain, name)))
        return fail(b, E_UNSUPPORTED, "operator %.100s of domain %.100s is neither ONNX's nor of its set", name, shown);
    if (op->flags & (OPF_RANDOM | OPF_COLLECTIVE) || op->train)
        return fail(b, E_UNSUPPORTED, "operator %s of domain %s draws random numbers, or training changes it", name,
                    shown);
    if (n_in < 0 || n_in > MOST_TENSORS || n_out < 1 || n_out > MOST_TENSORS || n_attributes < 0 ||
        n_attributes > MOST_TENSORS || (op->out_max >= 0 && n_out > op->out_max))
        return fail(b, E_INVALID, "operator %s of domain %s with %d inputs, %d outputs and %d attributes", name, shown,
                    n_in, n_out, n_attributes);
    for (int i = 0; i < n_in; i++)
        if (in[i] && !has_value(find(b, in[i])))
            return fail(b, E_INVALID, "operator %s of domain %s: input %d is value %u, which does not exist", name,
                        shown, i, (unsigned)in[i]);
    if ((st = add_node(made, n_out, b, op, in, n_in, attributes, n_attributes)))
        return fail_so(b, status_prefix(st, "operator %s", name));
    for (int i = 0; i < n_out; i++)
        out[i] = gradient_give(b, made[i]);
    return b->failed;
}

dpx_value dpx_graph_emit(dpx_node *node, const char *domain, const char *name, const dpx_value *in, int n_in,
                         const dpx_attribute *attributes, int n_attributes)
{
    dpx_value out = 0;

    return building(node) && !emit_checked(node, domain, name, in, n_in, attributes, n_attributes, &out, 1) ? out : 0;
}

/* ST_OK: something can be written. */
static Status check_building(const dpx_node *node, const char *function)
{
    if (!node || !node->builds)
        return FAIL(E_INVALID, "%s: called outside of make_gradient", function);
    return node->builds->failed;
}

dpx_status dpx_graph_emit_outputs(dpx_node *node, const char *domain, const char *name, const dpx_value *in, int n_in,
                                  const dpx_attribute *attributes, int n_attributes, dpx_value *out, int n_out)
{
    Status st = check_building(node, __func__);

    if (st)
        return (dpx_status)st;
    if (!out)
        return (dpx_status)fail(node->builds, E_INVALID, "%s: out is NULL", __func__);
    return (dpx_status)emit_checked(node, domain, name, in, n_in, attributes, n_attributes, out, n_out);
}

dpx_status dpx_graph_set_input_gradient(dpx_node *node, int i, dpx_value v)
{
    Status st = check_building(node, __func__);
    const Value *by, *x;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    Grad *gr;

    if (st)
        return (dpx_status)st;
    gr = node->builds->gr;
    if (i < 0 || i >= node->at.n_in || !has_value(gr->node->in[i]) || !has_value(find(node->builds, v)))
        return (dpx_status)fail(node->builds, E_INVALID,
                                "it sets the gradient by input %d to value %u: there is no such %s", i, (unsigned)v,
                                has_value(find(node->builds, v)) ? "input" : "value");
    by = value(gr->g, find(node->builds, v));
    x = value(gr->g, gr->node->in[i]);
    if (by->dtype != x->dtype || !shape_eq(by->shape, x->shape))
        return (dpx_status)fail(node->builds, E_SHAPE, "the gradient by input %d is %s%s, expected %s%s", i,
                                dtype_name(by->dtype), shape_text(by->shape, a), dtype_name(x->dtype),
                                shape_text(x->shape, b));
    grad_set(gr, i, find(node->builds, v));
    return DPX_OK;
}

/* ---- the call ---- */

/* Tensors as a gradient's kernel has them: inputs, outputs, gradients by these; and by the inputs. */
static bool lay_out(dpx_node *node, Building *b)
{
    const Slots at = node_slots(b->gr->node);
    const Grad *gr = b->gr;
    const int n_in = at.n_in, n_out = at.n_out;
    dpx_tensor *t = ARENA_NEW(gr->g->arena, dpx_tensor, 2 * (n_in + n_out));

    *node = (dpx_node){ .g = gr->g,
                        .n = gr->node,
                        .role = node_role(gr->node),
                        .builds = b,
                        .at = { n_in, n_out, n_in, n_in + n_out, -1, -1 },
                        .in = t,
                        .out = t ? t + n_in + 2 * n_out : NULL,
                        .n_in = n_in + 2 * n_out,
                        .n_out = n_in };
    for (int i = 0; t && i < n_in; i++) {
        node_tensor(&node->in[i], gr->g, gr->node->in[i]);
        node_tensor(&node->out[i], gr->g, gr->wanted[i] ? gr->node->in[i] : NO_VALUE);
        node->out[i].data = NULL;
    }
    for (int i = 0; t && i < n_out; i++) {
        node_tensor(&node->in[n_in + i], gr->g, gr->node->out[i]);
        node_tensor(&node->in[n_in + n_out + i], gr->g, gr->dout[i]);
    }
    return t;
}

Status own_grad_nodes(Grad *gr)
{
    const dpx_operator *d = &node_role(gr->node)->of->def;
    Building b = { .gr = gr };
    dpx_node node;
    Status st;

    TRY(own_check_flow(gr));
    if (!lay_out(&node, &b))
        return FAIL_NOMEM();
    st = node_call(&node, d->make_gradient, "gradient");
    if (b.failed)
        st = FAIL(b.failed, "the gradient of operator %s of domain %s: %s", d->name, d->domain, b.why);
    return status_prefix(st, "%s", node_text(gr->g, gr->node));
}
