/* Channels last is the order of [N, spatial..., C]: axis 1 moves behind all others, which keep their order. */
#include "graph/layout.h"

#include "graph/op.h"

bool layout_suits(Layout l, const Shape *s)
{
    return l != LAYOUT_ROWS && s->rank >= 3 && s->dim[1] > 1 && shape_count(s, 2, s->rank) > 1;
}

int layout_axis(Layout l, int rank, int position)
{
    if (l == LAYOUT_ROWS || rank < 3 || position == 0)
        return position;
    return position == rank - 1 ? 1 : position + 1;
}

int layout_position(Layout l, int rank, int axis)
{
    if (l == LAYOUT_ROWS || rank < 3 || axis == 0)
        return axis;
    return axis == 1 ? rank - 1 : axis - 1;
}

Shape layout_stored(Layout l, const Shape *s)
{
    Shape stored = *s;

    for (int i = 0; i < s->rank; i++)
        stored.dim[i] = s->dim[layout_axis(l, s->rank, i)];
    return stored;
}

void layout_strides(Layout l, const Shape *s, int64_t *stride)
{
    int64_t next = 1;

    for (int i = s->rank - 1; i >= 0; i--) {
        int axis = layout_axis(l, s->rank, i);

        stride[axis] = next;
        next *= s->dim[axis];
    }
}

Layout node_layout(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && in_value(g, n, i)->layout == LAYOUT_CHANNELS_LAST)
            return LAYOUT_CHANNELS_LAST;
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && value(g, n->out[i])->layout == LAYOUT_CHANNELS_LAST)
            return LAYOUT_CHANNELS_LAST;
    return LAYOUT_ROWS;
}
