/* Unique: the number of different slices depends on data. */
#include "graph/ir/grad.h"
#include "graph/ir/op.h"
#include "graph/ops/unique_slices.h"

#define NO_AXIS INT64_MIN

static Status unique_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Tensor *t = value_const(g, n->in[0]);
    Shape y = shape_unknown(), count = shape_unknown(), all = shape_unknown();
    int axis = UNIQUE_FLAT;
    int64_t *room, slices;

    if (node_int(n, "axis") != NO_AXIS) {
        TRY(infer_axis(g, n, x->shape->rank));
        axis = (int)node_int(n, "axis");
    }
    if (t) {
        slices = unique_slices(x->shape, axis);
        if (!(room = ARENA_NEW(g->arena, int64_t, 4 * slices)))
            return FAIL_NOMEM();
        count = SHAPE(unique_find(t, axis, true, room, room + slices, room + 2 * slices));
        arena_give_back(g->arena, room, sizeof *room * 4 * (size_t)slices);
        all = SHAPE(slices);
        y = axis == UNIQUE_FLAT ? count : *x->shape;
        y.dim[axis == UNIQUE_FLAT ? 0 : axis] = count.dim[0];
    }
    set_out(g, n, 0, x->dtype, &y);
    set_out(g, n, 1, DT_INT64, &count);
    set_out(g, n, 2, DT_INT64, &all);
    set_out(g, n, 3, DT_INT64, &count);
    return g->status;
}

DEFINE_OP(Unique, .since = 11, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 4, .flags = OPF_DYNAMIC,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = NO_AXIS, .range = R_AXIS },
                                       { "sorted", A_INT, .i = 1 },
                                       { 0 } },
          .infer = unique_infer, .grad = grad_none,
          .doc = "slices along axis (elements of the flattened x without one) that differ; where each is first, which "
                 "one each slice of x is, how often each is there");
