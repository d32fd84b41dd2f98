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

/* The node that a caller asks for. */
typedef struct {
    const OpDef *op;
    const char *domain, *name;
    const dpx_value *in;
    const dpx_attribute *attributes;
    int n_in, n_attributes, n_out;
} Wanted;

static const OpDef *find_operator(const dpx_node *node, const Wanted *w)
{
    const OpDef *op = w->domain && !strcmp(w->domain, "dpexec") ? NULL : op_find(w->domain, w->name);
    const OpDef *own = op ? NULL : operator_find(&node->role->of->set->list, w->domain, w->name);

    return own && ((const RoleDef *)(const void *)own)->role == ROLE_APPLY ? own : op;
}

static Status check_wanted(dpx_node *node, Wanted *w)
{
    Building *b = node->builds;
    const char *domain = w->domain && *w->domain ? w->domain : "ai.onnx";

    if (!w->name || (w->n_in && !w->in) || (w->n_attributes && !w->attributes))
        return fail(b, E_INVALID, "dpx_graph_emit: %s is NULL",
                    !w->name            ? "name"
                    : w->n_in && !w->in ? "in"
                                        : "attributes");
    if (!(w->op = find_operator(node, w)))
        return fail(b, E_UNSUPPORTED, "operator %.100s of domain %.100s is neither ONNX's nor of its set", w->name,
                    domain);
    if (w->op->flags & (OPF_RANDOM | OPF_COLLECTIVE) || w->op->train)
        return fail(b, E_UNSUPPORTED, "operator %s of domain %s draws random numbers, or training changes it", w->name,
                    domain);
    if (w->n_in < 0 || w->n_in > MOST_TENSORS || w->n_out < 1 || w->n_out > MOST_TENSORS || w->n_attributes < 0 ||
        w->n_attributes > MOST_TENSORS || (w->op->out_max >= 0 && w->n_out > w->op->out_max))
        return fail(b, E_INVALID, "operator %s of domain %s with %d inputs, %d outputs and %d attributes", w->name,
                    domain, w->n_in, w->n_out, w->n_attributes);
    for (int i = 0; i < w->n_in; i++)
        if (w->in[i] && !has_value(find(b, w->in[i])))
            return fail(b, E_INVALID, "operator %s of domain %s: input %d is value %u, which does not exist", w->name,
                        domain, i, (unsigned)w->in[i]);
    return ST_OK;
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

static Status read_attributes(Attr **out, Arena *a, const Wanted *w)
{
    const char *at = (const char *)w->attributes;

    if (!(*out = ARENA_NEW(a, Attr, w->n_attributes + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < w->n_attributes; i++, at += w->attributes->size)
        TRY(read_attribute(&(*out)[i], (const dpx_attribute *)(const void *)at));
    return ST_OK;
}

static Status add_node(dpx_node *node, const Wanted *w, ValueId *out)
{
    Graph *g = node->builds->gr->g;
    const uint32_t first = g->n_node;
    ValueId *in = ARENA_NEW(g->arena, ValueId, w->n_in);
    Attr *attrs;

    if (!in)
        return FAIL_NOMEM();
    TRY(read_attributes(&attrs, g->arena, w));
    for (int i = 0; i < w->n_in; i++)
        in[i] = find(node->builds, w->in[i]);
    if (!emit_multi(g, w->op, attrs, w->n_in, in, w->n_out, out))
        return g->status;
    for (int i = 0; i < w->n_out; i++)
        if (!shape_known(value(g, out[i])->shape))
            return FAIL(E_UNSUPPORTED, "the shape of output %d depends on data", i);
    return graph_lower(g, g->arena, &(Lowering){ .first = first, .held = out, .n_held = w->n_out });
}

static Status emit_wanted(dpx_node *node, Wanted *w, dpx_value *out)
{
    Building *b = node->builds;
    ValueId made[MOST_TENSORS];
    Status st;

    TRY(check_wanted(node, w));
    if ((st = add_node(node, w, made)))
        return fail_so(b, status_prefix(st, "operator %s", w->name));
    for (int i = 0; i < w->n_out; i++)
        out[i] = gradient_give(b, made[i]);
    return b->failed;
}

dpx_value dpx_graph_emit(dpx_node *node, const char *domain, const char *name, const dpx_value *in, int n_in,
                         const dpx_attribute *attributes, int n_attributes)
{
    Wanted w = { NULL, domain, name, in, attributes, n_in, n_attributes, 1 };
    dpx_value out = 0;

    return building(node) && !emit_wanted(node, &w, &out) ? out : 0;
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
    Wanted w = { NULL, domain, name, in, attributes, n_in, n_attributes, n_out };
    Status st = check_building(node, __func__);

    if (st)
        return (dpx_status)st;
    if (!out)
        return (dpx_status)fail(node->builds, E_INVALID, "%s: out is NULL", __func__);
    return (dpx_status)emit_wanted(node, &w, out);
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
