/* Messages between the copies of a node: a node that collects each copy's message, one that combines all of them, and
 * the operator itself with the answers, in place of one node.  The rows of messages come together as batch-norm's
 * statistics do (OPF_STACKS_L); where there is one replica nothing travels. */
#include "exec/operators/operators.h"
#include "graph/ir/emit.h"

/* ---- types and shapes ---- */

Status own_infer_message(Graph *g, Node *n)
{
    const int64_t message = node_int(n, ATTR_MESSAGE);
    Shape rows = SHAPE(1, message);

    if (role_combines(node_role(n)->role)) {
        const Shape *in = in_value(g, n, 0)->shape;
        char found[SHAPE_TEXT];

        if (in->rank != 2 || in->dim[1] != message || in_value(g, n, 0)->dtype != DT_FLOAT64)
            return FAIL(E_SHAPE, "%s: messages are %s %s, expected float64 of %lld numbers in a row", node_text(g, n),
                        dtype_name(in_value(g, n, 0)->dtype), shape_text(in, found), (long long)message);
        rows = SHAPE(in->dim[0], node_int(n, ATTR_ANSWER));
    }
    set_out(g, n, 0, DT_FLOAT64, &rows);
    return ST_OK;
}

/* ---- in place of one node ---- */

/* Kernels are of float32 and float64; what has 16 bits is converted in front. */
static DType kernels_of(const Graph *g, const Node *n)
{
    return node_type(g, n) == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
}

ValueId node_share(Graph *g, const Node *n, Role collect, Role combine, const Attr *more, Sizes s, int n_in,
                   const ValueId *in)
{
    const Operator *o = node_role(n)->of;
    const Attr *sizes =
        ATTRS(INT(ATTR_DTYPE, kernels_of(g, n)), INT(ATTR_MESSAGE, s.message), INT(ATTR_ANSWER, s.answer));
    Attr all[8] = { 0 };
    const Attr *of_collect, *of_combine = node_attrs_with(g, n, sizes);
    ValueId message;
    int k = 0;

    for (; more[k].name; k++)
        all[k] = more[k];
    for (int i = 0; sizes[i].name; i++)
        all[k++] = sizes[i];
    of_collect = node_attrs_with(g, n, all);
    if (!of_collect || !of_combine) {
        g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    message = emit(g, &o->role[collect].op, of_collect, n_in, in);
    return emit(g, &o->role[combine].op, of_combine, 1, &message);
}

Status own_lower(Graph *g, Node *n)
{
    const Operator *o = node_role(n)->of;
    const Attr *attrs = node_attrs_with(g, n, ATTRS(INT(ATTR_DTYPE, kernels_of(g, n))));
    const int n_in = n->n_in, n_out = n->n_out;
    ValueId *in = ARENA_NEW(g->arena, ValueId, n_in + 1);
    const char **names = ARENA_NEW(g->arena, const char *, n_out);
    SharedSizes sizes;
    Node *made;

    if (!in || !names || !attrs)
        return FAIL_NOMEM();
    TRY(node_shape(&sizes, g, n));
    for (int i = 0; i < n_in; i++)
        in[i] = n->in[i];
    for (int i = 0; i < n_out; i++)
        names[i] = has_out(n, i) ? NULL : "";
    in[n_in] = node_share(g, n, ROLE_COLLECT, ROLE_COMBINE, ATTRS({ 0 }), sizes.forward, n_in, in);
    if (!(made = graph_add_node(g, &o->role[ROLE_SHARED].op, NULL, attrs, n_in + 1, in, n_out, names)))
        return g->status;
    TRY(node_normalise(g, made));
    TRY(node_infer(g, made));
    for (int i = 0; i < n_out; i++)
        if (has_out(n, i))
            graph_replace(g, n->out[i], made->out[i]);
    return g->status;
}
