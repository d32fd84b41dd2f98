/* PartMean: the part of one replica in the mean of the replicas' means; its gradient has the same formula.
 *
 *   y = x / (weight * parts),   0 where the weight is 0
 *
 * x is a sum, the weight the total weight of its terms: input 1 or, if absent, the attribute.  In the unpartitioned
 * graph it is the batch's weight and parts is 1, so y is the mean.  Partitioned, each replica's copy takes its own
 * partial sums unreduced (OPF_OWN_SUMS), its samples' share of a weight that is an attribute, and in `parts` the number
 * of replicas.  The y of all replicas are then partial sums of the mean of means.  A part of weight 0 adds 0.
 *
 * With shared=0 a sum has weight 1 in the batch and in every part, and is divided by the number of parts only.
 *
 * y is linear in x, and replica r's x changes only its own y.  So the gradient by x is dy, which is the same on all
 * replicas, through the same node with backward=1, and each replica has its own (L).  Weights depend on data and have
 * no gradient. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/part_mean.gen.h"

static Status part_mean_infer(Graph *g, Node *n)
{
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    for (int i = 0; i < n->n_in; i++)
        if (in_value(g, n, i)->shape->rank)
            return FAIL(E_SHAPE, "%s: input %d must be a number", node_text(g, n), i);
    return infer_like(g, n, 0);
}

static Status part_mean_grad(Grad *gr)
{
    const Node *n = gr->node;
    const ValueId in[2] = { grad_dout(gr, 0), grad_in(gr, 1) };

    grad_set(gr, 0,
             emit(gr->g, &op_PartMean,
                  ATTRS(FLOAT("weight", node_float(n, "weight")), INT("parts", node_int(n, "parts")),
                        INT("filled", node_int(n, "filled")), INT("shared", node_int(n, "shared")), INT("backward", 1)),
                  n->n_in, in));
    return gr->g->status;
}

static Status part_mean_place(Placement *p)
{
    const bool backward = node_int(p->node, "backward"), split = p->split->total > 0;

    if (!split && !place_any(p, PL_P))
        return place_all_b(p);
    for (int i = backward; i < p->node->n_in; i++)
        if (split && p->in[i].kind != PL_P)
            return FAIL(E_UNSUPPORTED,
                        "%s: --loss-scaling mean-of-means needs a loss that each replica computes from its own samples",
                        node_text(p->g, p->node));
    if (backward)
        p->in[0] = PLACE_B;
    place_set_all(p, backward ? PLACE_L : PLACE_P);
    return ST_OK;
}

DEFINE_OP(PartMean, .precision = PREC_WIDE, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 2, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_F32_F64, .flags = OPF_OWN_SUMS, .inplace = { 1 },
          .attrs = (const AttrDecl[]){ { "weight", A_FLOAT, .f = 1 },
                                       { "parts", A_INT, .i = 1, .range = R_POSITIVE },
                                       { "filled", A_INT, .i = 0 },
                                       { "shared", A_INT, .i = 1 },
                                       { "backward", A_INT, .i = 0 },
                                       { 0 } },
          .infer = part_mean_infer, .grad = part_mean_grad, .place = part_mean_place,
          .doc = "x / (weight * parts), 0 where the weight (input 1, else the attribute) is 0: a replica's share of "
                 "the mean of means, over all replicas or (filled=1) those that have samples");
