/* Enter, Gate and Choose: an If whose condition the file does not decide.  Both branches are computed, and Choose takes
 * the results of one.  Values that depend on data Enter a branch that is not taken as zeros, so that they are no
 * invalid indices there.  Other values, such as parameters, pass a Gate unchanged.  Either way the gradient through a
 * branch that is not taken is set to 0, since an infinity in the branch times a gradient of 0 would be NaN.
 *
 * If sizes decide the condition once they are bound, the other branch gets no types and is dropped: it may be invalid
 * for these sizes. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/where.gen.h"

/* The value of a constant condition; -1: it is no constant. */
static int known_condition(const Graph *g, const Node *n, int i)
{
    const Tensor *c = value_const(g, n->in[i]);

    return c && tensor_numel(c) == 1 ? tensor_int(c, 0) != 0 : -1;
}

static Status check_condition(const Graph *g, const Node *n, int i)
{
    const Value *c = in_value(g, n, i);

    if (c->dtype != DT_BOOL)
        return FAIL(E_MODEL, "%s: its condition '%s' is %s, expected a bool", node_text(g, n), c->name,
                    dtype_name(c->dtype));
    return infer_expect(g, n, i, "its condition", shape_scalar());
}

/* Output 0 has the type and shape of input x, or no shape if the branch is known not to be taken. */
static Status infer_entering(Graph *g, Node *n, int x, int c)
{
    Shape unknown = shape_unknown();

    TRY(check_condition(g, n, c));
    TRY(infer_like(g, n, x));
    if (!known_condition(g, n, c))
        set_out(g, n, 0, in_value(g, n, x)->dtype, &unknown);
    return ST_OK;
}

/* ---- Enter ---- */

static Status infer_enter(Graph *g, Node *n)
{
    TRY(infer_same_dtype(g, n, 1, 3));
    return infer_entering(g, n, 1, 0);
}

static int selected_by_enter(const Graph *g, const Node *n) { return known_condition(g, n, 0) == 1 ? 1 : -1; }

static Status lower_enter(Graph *g, Node *n)
{
    if (known_condition(g, n, 0) < 0)
        graph_replace(g, n->out[0], EMIT(g, Where, NULL, n->in[0], n->in[1], n->in[2]));
    else
        graph_replace(g, n->out[0], n->in[1]);
    return g->status;
}

DEFINE_OP(Enter, .domain = "dpexec", .plain = "Where", .branch = BRANCH_ENTER, .moves = 6, .since = 1, .in_min = 3,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_BOOL, .infer = infer_enter,
          .selected_input = selected_by_enter, .lower = lower_enter, .grad = grad_none, .place = place_all_b,
          .doc = "(c, x, 0): x where c holds, else zeros, for what is read where c holds alone");

/* ---- Gate ---- */

static Status infer_gate(Graph *g, Node *n) { return infer_entering(g, n, 0, 1); }

static Status grad_gate(Grad *gr)
{
    grad_set(
        gr, 0,
        EMIT(gr->g, Where, NULL, grad_in(gr, 1), grad_dout(gr, 0), emit_scalar(gr->g, grad_in_value(gr, 0)->dtype, 0)));
    return gr->g->status;
}

static int selected_by_gate(const Graph *g, const Node *n) { return known_condition(g, n, 1) == 1 ? 0 : -1; }

static Status lower_gate(Graph *g, Node *n)
{
    if (known_condition(g, n, 1) >= 0)
        graph_replace(g, n->out[0], n->in[0]);
    return g->status;
}

DEFINE_OP(Gate, .domain = "dpexec", .plain = "Identity", .branch = BRANCH_GATE, .same = SAME_TENSOR,
          .blocks = BLOCKS_PASS, .layout = LAYOUT_ANY, .since = 1, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .flags = OPF_VIEW, .gradient_only_in = 2, .inplace = { 1 }, .infer = infer_gate,
          .selected_input = selected_by_gate, .train = train_alone, .grad = grad_gate, .lower = lower_gate,
          .place = place_linear, .doc = "(x, c): x, which gets a gradient where c holds");

/* ---- Choose ---- */

/* If the branches' shapes differ, data decide the output's. */
static Status infer_choose(Graph *g, Node *n)
{
    const Value *a = in_value(g, n, 1), *b = in_value(g, n, 2);
    Shape unknown = shape_unknown();

    TRY(check_condition(g, n, 0));
    TRY(infer_same_dtype(g, n, 1, 3));
    set_out(g, n, 0, a->dtype, shape_eq(a->shape, b->shape) ? a->shape : &unknown);
    return g->status;
}

static int selected_by_choose(const Graph *g, const Node *n)
{
    const int c = known_condition(g, n, 0);

    return c < 0 ? -1 : c ? 1 : 2;
}

static Status lower_choose(Graph *g, Node *n)
{
    const int is = selected_by_choose(g, n);

    if (is >= 0)
        graph_replace(g, n->out[0], n->in[is]);
    else if (shape_known(value(g, n->out[0])->shape))
        graph_replace(g, n->out[0], EMIT(g, Where, NULL, n->in[0], n->in[1], n->in[2]));
    return g->status;
}

DEFINE_OP(Choose, .domain = "dpexec", .branch = BRANCH_CHOICE, .moves = 6, .since = 1, .in_min = 3, .in_max = 3,
          .out_min = 1, .out_max = 1, .dtypes = DTYPES_BOOL, .infer = infer_choose,
          .selected_input = selected_by_choose, .grad = grad_none, .lower = lower_choose, .place = place_all_b,
          .doc = "(c, x, y): x where c holds, else y");
