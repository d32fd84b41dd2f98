/* NonMaxSuppression: the number of boxes that remain depends on data. */
#include "graph/ir/grad.h"
#include "graph/ir/op.h"
#include "graph/ops/nms_boxes.h"

static Status boxes_check_shapes(const Graph *g, const Node *n)
{
    const Shape *box = in_value(g, n, 0)->shape, *score = in_value(g, n, 1)->shape;
    const DType t = in_value(g, n, 0)->dtype;

    if (in_value(g, n, 1)->dtype != t || box->rank != 3 || score->rank != 3 || box->dim[2] != 4 ||
        score->dim[0] != box->dim[0] || score->dim[2] != box->dim[1])
        return FAIL(E_SHAPE, "%s: expected %s boxes [batch, n, 4] and scores [batch, classes, n]", node_text(g, n),
                    dtype_name(t));
    for (int i = 2; i < n->n_in; i++)
        if (has_in(n, i) &&
            (shape_numel(in_value(g, n, i)->shape) != 1 ||
             (i == 2 ? in_value(g, n, i)->dtype != DT_INT64 : !dtype_is_float(in_value(g, n, i)->dtype))))
            return FAIL(E_SHAPE, "%s: input %d must be one number of type %s", node_text(g, n), i,
                        i == 2 ? "int64" : dtype_name(t));
    return ST_OK;
}

static Status boxes_infer(Graph *g, Node *n)
{
    Shape y = shape_unknown();
    const Tensor *in[5] = { NULL };
    bool known = true;
    int64_t *order;
    BoxChoice c;

    TRY(boxes_check_shapes(g, n));
    set_out(g, n, 0, DT_INT64, &y);
    for (int i = 0; i < n->n_in; i++)
        known &= !has_in(n, i) || (in[i] = value_const(g, n->in[i]));
    if (!known)
        return g->status;
    c = boxes_choice(in, node_int(n, "center_point_box") != 0);
    if (!(order = ARENA_NEW(g->arena, int64_t, 2 * in[0]->shape.dim[1])))
        return FAIL_NOMEM();
    y = SHAPE(boxes_choose(&c, order, NULL), 3);
    arena_give_back(g->arena, order, sizeof *order * 2 * (size_t)in[0]->shape.dim[1]);
    set_out(g, n, 0, DT_INT64, &y);
    return g->status;
}

/* ONNX's operator takes float32 only. */
static Status boxes_standard(Graph *g, Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && dtype_is_float(in_value(g, n, i)->dtype))
            node_set_input(g, n, i, emit_cast(g, n->in[i], DT_FLOAT32));
    return g->status;
}

DEFINE_OP(NonMaxSuppression, .precision = PREC_WIDE, .since = 11, .from = 10, .in_min = 2, .in_max = 5, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_F32_F64, .flags = OPF_DYNAMIC, .setting_in = 24,
          .attrs = (const AttrDecl[]){ { "center_point_box", A_INT, .i = 0 }, { 0 } }, .infer = boxes_infer,
          .grad = grad_none, .standard = boxes_standard,
          .doc = "boxes that no box of a higher score overlaps: [count, 3] of image, class, box");
