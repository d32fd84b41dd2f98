/* Nodes computed for one replica's part alone.  If a value that is divided like the batch is cut into exactly those
 * parts (Split, by passes/partition/part_losses.c), each part stays on its replica, and so do the nodes computed from
 * it and from values that every replica has, until another part comes in.  A node that joins the parts again in their
 * order (Concat, the gradient of such a cut) is divided like the batch.  So neither moves data, no device has the
 * whole, and none computes another's part.  All other nodes see such a value as computed by a single device. */
#include "graph/ir/op.h"
#include "graph/ops/concat.gen.h"
#include "passes/partition/place.h"

/* Are these values the replicas' parts of `whole`, cut along the axis? */
static bool are_parts(const Graph *g, const Split *batch, const Shape *whole, int axis, const ValueId *part, int n)
{
    bool all = n == batch->n && axis >= 0 && axis < whole->rank && whole->dim[axis] == batch->total;

    for (int r = 0; all && r < n; r++)
        all = has_value(part[r]) && value(g, part[r])->shape->dim[axis] == batch->count[r];
    return all;
}

static bool is_cut(const Placement *p, const Partition *part)
{
    const Node *n = p->node;
    const Place at = p->in[0];

    return n->op == &op_Split && at.kind == PL_S && !place_by_device(at) && at.blocks == 1 &&
           split_eq(at.split, &part->batch) && at.axis == node_int(n, "axis") &&
           are_parts(p->g, &part->batch, in_value(p->g, n, 0)->shape, at.axis, n->out, n->n_out);
}

static bool is_joined(const Placements *t, const Placement *p, const Partition *part)
{
    const Node *n = p->node;
    bool any = false;

    if (n->op != &op_Concat ||
        !are_parts(p->g, &part->batch, value(p->g, n->out[0])->shape, (int)node_int(n, "axis"), n->in, n->n_in))
        return false;
    for (int r = 0; r < n->n_in; r++) {
        if (p->in[r].kind != PL_B || (t->value_only_on[n->in[r].i] && t->value_only_on[n->in[r].i] != r + 1))
            return false;
        any |= t->value_only_on[n->in[r].i] != 0;
    }
    return any;
}

static bool is_given(const Placements *t, const Node *n)
{
    bool any = false;

    for (int i = 0; i < n->n_out; i++)
        any |= t->given[n->out[i].i];
    return any;
}

int part_replica_find(const Placements *t, const Placement *p, const Partition *part)
{
    const Node *n = p->node;
    int only_on = 0;

    if (part->loss_device >= 0 || part->shown[part->devices] != part->devices || n->phase == PHASE_UPDATE ||
        op_is_impure(n->op) || n->op->flags & (OPF_SHARES | OPF_STACKS_L | OPF_OWN_SUMS))
        return 0;
    if (is_joined(t, p, part))
        return PARTS_JOINED;
    if (is_given(t, n))
        return 0;
    if (is_cut(p, part))
        return PARTS_CUT;
    for (int i = 0; i < n->n_in; i++) {
        const int of = t->value_only_on[n->in[i].i];

        if (p->in[i].kind != PL_B || (of && only_on && of != only_on))
            return 0;
        only_on = of ? of : only_on;
    }
    return only_on;
}

void part_replica_place(Placements *t, Placement *p, const Partition *part, int only_on)
{
    const Node *n = p->node;

    for (int i = 0; i < n->n_out; i++) {
        p->out[i] = PLACE_B;
        if (has_value(n->out[i]) && only_on != PARTS_JOINED)
            t->value_only_on[n->out[i].i] = only_on == PARTS_CUT ? i + 1 : only_on;
    }
    if (only_on == PARTS_JOINED)
        p->out[0] = (Place){ .kind = PL_S, .axis = (int)node_int(n, "axis"), .blocks = 1, .split = &part->batch };
    for (int i = only_on == PARTS_CUT; i < n->n_in; i++)
        p->in[i] = PLACE_B;
}
