/* AccuracyCount: counts of correct samples, which add up exactly over replicas and batches. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"

static Status metric_infer(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *t = in_value(g, n, 1)->shape;
    DType type = in_value(g, n, 1)->dtype;
    Shape scalar = shape_scalar();
    bool fits = x->rank >= 2 && t->rank == x->rank - 1;

    for (int i = 0; fits && i < t->rank; i++)
        fits = t->dim[i] == x->dim[i ? i + 1 : 0];
    if (!fits || (type != DT_INT64 && type != DT_INT32))
        return FAIL(E_SHAPE, "%s: the target must be integers of the scores' shape without axis 1", node_text(g, n));
    set_out(g, n, 0, DT_INT64, &scalar);
    set_out(g, n, 1, DT_INT64, &scalar);
    return ST_OK;
}

static Status metric_place(Placement *p)
{
    Place x = p->in[0], t = p->in[1];
    int a = x.kind == PL_S && x.axis != 1 ? x.axis : t.kind == PL_S ? (t.axis ? t.axis + 1 : 0) : -1;

    if (x.kind == PL_S && x.axis == 1)
        place_mixes(p, "the classes are split");
    p->in[0] = a < 0 ? PLACE_B : PLACE_S(a);
    p->in[1] = a < 0 ? PLACE_B : PLACE_S(a ? a - 1 : 0);
    place_set_all(p, a < 0 ? PLACE_B : PLACE_P);
    return ST_OK;
}

DEFINE_OP(AccuracyCount, .blocks = BLOCKS_PASS, .precision = PREC_WIDE, .domain = "dpexec", .since = 1, .in_min = 2,
          .in_max = 2, .out_min = 2, .out_max = 2, .dtypes = DTYPES_F32_F64,
          .attrs = (const AttrDecl[]){ { "ignore_index", A_INT, .i = INT64_MIN }, { 0 } }, .infer = metric_infer,
          .grad = grad_none, .place = metric_place,
          .doc = "how many samples have their largest score (axis 1, of equals the first) at the target, and how many "
                 "are not ignored");
