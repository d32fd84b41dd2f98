/* The placement rules that operators share. */
#include "graph/place.h"

void place_set_all(Placement *p, Place have)
{
    for (int i = 0; i < p->node->n_out; i++)
        p->out[i] = have;
}

bool place_any(const Placement *p, PlaceKind kind)
{
    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && p->in[i].kind == kind)
            return true;
    return false;
}

void place_mixes(Placement *p, const char *why)
{
    p->mixes = why;
}

bool place_can_split(const Placement *p, const Shape *s, int axis)
{
    return axis >= 0 && axis < s->rank && (p->batch ? s->dim[axis] % p->batch == 0 : s->dim[axis] == 0);
}

static const Shape *in_shape(const Placement *p, int i)
{
    return &in_value(p->g, p->node, i)->shape;
}

static void need_b_from(Placement *p, int first)
{
    for (int i = first; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
}

Status place_all_b(Placement *p)
{
    if (place_any(p, PL_S))
        place_mixes(p, "it has no rule for a split input");
    need_b_from(p, 0);
    place_set_all(p, PLACE_B);
    return ST_OK;
}

/* ---- elementwise ---- */

/* The input whose split axis lies farthest from the right end, where broadcasting aligns shapes; -1: none is split. */
static int leading_split(const Placement *p)
{
    int best = -1, best_right = 0;

    for (int i = 0; i < p->node->n_in; i++) {
        int right = has_value(p->node->in[i]) && p->in[i].kind == PL_S ? in_shape(p, i)->rank - p->in[i].axis : 0;

        if (right > best_right) {
            best = i;
            best_right = right;
        }
    }
    return best;
}

/* Input i when the output is split `right` axes from the end, where it has size `dim`: split too, unless it is stretched
 * there.  A split axis of size 1 (a batch of one) may be stretched: part by part it becomes 1 or 0 times `dim`. */
static Place follow_split(const Placement *p, int i, int right, int64_t dim)
{
    const Shape *s = in_shape(p, i);
    int axis = s->rank - right;
    bool split_there = p->in[i].kind == PL_S && p->in[i].axis == axis;

    if (axis < 0)
        return PLACE_B;
    return split_there || (s->dim[axis] == dim && dim != 1) ? PLACE_S(axis) : PLACE_B;
}

/* The output's size `right` axes from its end. */
static int64_t broadcast_dim(const Placement *p, int right)
{
    int64_t dim = 1;

    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && in_shape(p, i)->rank >= right && in_shape(p, i)->dim[in_shape(p, i)->rank - right] != 1)
            dim = in_shape(p, i)->dim[in_shape(p, i)->rank - right];
    return dim;
}

static Status split_elementwise(Placement *p, int split)
{
    int rank = 0, right = in_shape(p, split)->rank - p->in[split].axis;
    int64_t dim = broadcast_dim(p, right);

    for (int i = 0; i < p->node->n_in; i++) {
        if (!has_value(p->node->in[i]))
            continue;
        if (in_shape(p, i)->rank > rank)
            rank = in_shape(p, i)->rank;
        if (p->in[i].kind == PL_S && in_shape(p, i)->rank - p->in[i].axis != right)
            place_mixes(p, "its inputs are split along different axes");
        if (p->in[i].kind != PL_L)
            p->in[i] = follow_split(p, i, right, dim);
    }
    place_set_all(p, PLACE_S(rank - right));
    return ST_OK;
}

Status place_elementwise(Placement *p)
{
    int split = leading_split(p);

    if (split >= 0)
        return split_elementwise(p, split);
    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_P)
            p->in[i] = PLACE_B;
    place_set_all(p, place_any(p, PL_L) ? PLACE_L : PLACE_B);
    return ST_OK;
}

Status place_linear(Placement *p)
{
    need_b_from(p, 1);
    place_set_all(p, p->in[0]);
    return ST_OK;
}

static bool all_present(const Placement *p, PlaceKind kind)
{
    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && p->in[i].kind != kind)
            return false;
    return p->node->n_in > 0;
}

/* A sum kept from step to step (state that is partial) takes a whole addend as replica 0's part: nothing is reduced for it. */
static bool adds_to_partial_state(const Placement *p)
{
    bool any = false;

    for (int i = 0; i < p->node->n_in; i++) {
        if (!has_value(p->node->in[i]) || (p->in[i].kind != PL_P && p->in[i].kind != PL_B))
            return false;
        any |= in_value(p->g, p->node, i)->partial && p->in[i].kind == PL_P;
    }
    return any;
}

Status place_add(Placement *p)
{
    if (!all_present(p, PL_P) && !adds_to_partial_state(p))
        return place_elementwise(p);
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = PLACE_P;
    place_set_all(p, PLACE_P);
    return ST_OK;
}

Status place_mul(Placement *p)
{
    bool one_partial = (p->in[0].kind == PL_P && p->in[1].kind == PL_B) || (p->in[0].kind == PL_B && p->in[1].kind == PL_P);

    if (!one_partial)
        return place_elementwise(p);
    place_set_all(p, PLACE_P);
    return ST_OK;
}

Status place_div(Placement *p)
{
    if (p->in[0].kind != PL_P || p->in[1].kind == PL_S || p->in[1].kind == PL_L)
        return place_elementwise(p);
    p->in[1] = PLACE_B;
    place_set_all(p, PLACE_P);
    return ST_OK;
}

Status place_all_but_axis(Placement *p)
{
    int64_t axis = node_int(p->node, "axis");

    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_S && p->in[i].axis == axis) {
            place_mixes(p, "it works along the split axis");
            p->in[i] = PLACE_B;
        }
    return place_elementwise(p);
}

Status place_batch0(Placement *p)
{
    need_b_from(p, 1);
    if (p->in[0].kind == PL_S && p->in[0].axis != 0)
        place_mixes(p, "it is split along another axis than the batch");
    if (p->in[0].kind != PL_L && (p->in[0].kind != PL_S || p->in[0].axis != 0))
        p->in[0] = PLACE_B;
    place_set_all(p, p->in[0]);
    return ST_OK;
}

/* ---- axes that move ---- */

Status place_moved(Placement *p, const int to[MAX_RANK], const char *why)
{
    Place x = p->in[0];

    need_b_from(p, 1);
    if (x.kind == PL_S && to[x.axis] < 0) {
        place_mixes(p, why);
        p->in[0] = x = PLACE_B;
    }
    place_set_all(p, x.kind == PL_S ? PLACE_S(to[x.axis]) : x);
    return ST_OK;
}

Status place_reduce(Placement *p, unsigned mask, bool keepdims, bool sum)
{
    int to[MAX_RANK], n = 0;

    need_b_from(p, 1);
    if (sum && p->in[0].kind == PL_S && (mask >> p->in[0].axis & 1)) {
        place_set_all(p, PLACE_P);
        return ST_OK;
    }
    if (!sum && p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    for (int i = 0; i < in_shape(p, 0)->rank; i++) {
        bool gone = mask >> i & 1;

        to[i] = gone ? -1 : n;
        n += !gone || keepdims;
    }
    return place_moved(p, to, "it reduces along the split axis");
}

/* The axis of `y` that carries the split of axis `a` of `x`, both row-major over the same elements: as many elements must
 * stand in front of it (then the parts are the same elements, if its size is a multiple of the batch).  -1: torn apart. */
static int reshaped_axis(const Placement *p, const Shape *x, int a, const Shape *y)
{
    int64_t before = shape_count(x, 0, a), here = 1;
    int found = -1;

    for (int b = 0; b < y->rank; here *= y->dim[b++]) {
        if (here != before || !place_can_split(p, y, b))
            continue;
        if (y->dim[b] == x->dim[a])
            return b;
        if (found < 0)
            found = b;
    }
    return found;
}

Status place_reshape(Placement *p)
{
    const Shape *x = in_shape(p, 0), *y = &value(p->g, p->node->out[0])->shape;
    int to[MAX_RANK];

    for (int a = 0; a < x->rank; a++)
        to[a] = shape_known(y) ? reshaped_axis(p, x, a, y) : -1;
    return place_moved(p, to, "the new shape tears the batch apart");
}

Status place_expand(Placement *p)
{
    const Shape *x = in_shape(p, 0), *y = &value(p->g, p->node->out[0])->shape;
    int to[MAX_RANK];

    for (int a = 0; a < x->rank; a++)
        to[a] = shape_known(y) && y->rank >= x->rank ? y->rank - x->rank + a : -1;
    return place_moved(p, to, "the shape is not known");
}
