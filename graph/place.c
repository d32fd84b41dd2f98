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

Status place_all_b(Placement *p)
{
    if (place_any(p, PL_S))
        place_mixes(p, "it has no rule for a split input");
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
    place_set_all(p, PLACE_B);
    return ST_OK;
}

/* A split axis counted from the right, as broadcasting aligns shapes. */
static int from_right(const Placement *p, int i)
{
    return in_value(p->g, p->node, i)->shape.rank - p->in[i].axis;
}

/* What input i must have when the output is split `right` axes from the end: split too, unless it is stretched there. */
static Place follow_split(const Placement *p, int i, int right, int64_t dim)
{
    const Shape *s = &in_value(p->g, p->node, i)->shape;
    int axis = s->rank - right;

    return axis >= 0 && s->dim[axis] == dim && dim != 1 ? PLACE_S(axis) : PLACE_B;
}

Status place_elementwise(Placement *p)
{
    int split = -1, rank = 0, right;
    int64_t dim;

    for (int i = 0; i < p->node->n_in; i++) {
        if (!has_value(p->node->in[i]))
            continue;
        if (p->in[i].kind == PL_P)
            p->in[i] = PLACE_B;
        if (in_value(p->g, p->node, i)->shape.rank > rank)
            rank = in_value(p->g, p->node, i)->shape.rank;
        if (p->in[i].kind == PL_S && (split < 0 || from_right(p, i) > from_right(p, split)))
            split = i;
    }
    if (split < 0) {
        place_set_all(p, place_any(p, PL_L) ? PLACE_L : PLACE_B);
        return ST_OK;
    }
    right = from_right(p, split);
    dim = in_value(p->g, p->node, split)->shape.dim[p->in[split].axis];
    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && i != split && p->in[i].kind != PL_L) {
            if (p->in[i].kind == PL_S && from_right(p, i) != right)
                place_mixes(p, "its inputs are split along different axes");
            p->in[i] = dim == 1 ? p->in[i] : follow_split(p, i, right, dim);
        }
    place_set_all(p, PLACE_S(rank - right));
    return ST_OK;
}

Status place_linear(Placement *p)
{
    for (int i = 1; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
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

Status place_add(Placement *p)
{
    if (!all_present(p, PL_P))
        return place_elementwise(p);
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

Status place_moved(Placement *p, const int to[MAX_RANK], const char *why)
{
    Place x = p->in[0];

    for (int i = 1; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
    if (x.kind == PL_S && to[x.axis] < 0) {
        place_mixes(p, why);
        p->in[0] = x = PLACE_B;
    }
    place_set_all(p, x.kind == PL_S ? PLACE_S(to[x.axis]) : x);
    return ST_OK;
}

Status place_batch0(Placement *p)
{
    if (p->in[0].kind == PL_L) {
        place_set_all(p, PLACE_L);
        return ST_OK;
    }
    if (p->in[0].kind == PL_S && p->in[0].axis != 0)
        place_mixes(p, "it is split along another axis than the batch");
    if (p->in[0].kind != PL_S || p->in[0].axis != 0)
        p->in[0] = PLACE_B;
    for (int i = 1; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
    place_set_all(p, p->in[0]);
    return ST_OK;
}
