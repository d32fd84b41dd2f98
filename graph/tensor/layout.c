/* The table of layouts, each an order of axes and a list of blocks, and addresses computed from it. */
#include "graph/tensor/layout.h"

#include <string.h>

enum { BLOCKS_MOST = 2 };

static const struct {
    const char *name;
    bool last; /* axis 1 comes after all others, which keep their order */
    struct {
        int axis, size;
    } block[BLOCKS_MOST]; /* the last one innermost; size 0: none */
} layouts[N_LAYOUTS] = {
    [LAYOUT_ROWS] = { "rows", false, { { 0 } } },
    [LAYOUT_CHANNELS_LAST] = { "channels_last", true, { { 0 } } },
    [LAYOUT_BLOCKED_8] = { "blocked_8", false, { { 1, 8 } } },
    [LAYOUT_BLOCKED_16] = { "blocked_16", false, { { 1, 16 } } },
    [LAYOUT_FILTER_8] = { "filter_8", false, { { 1, 8 }, { 0, 8 } } },
    [LAYOUT_FILTER_16] = { "filter_16", false, { { 1, 16 }, { 0, 16 } } },
};

#define FOR_BLOCKS(l, b) for (int b = 0; b < BLOCKS_MOST && layouts[l].block[b].size; b++)

const char *layout_name(Layout l) { return layouts[l].name; }

bool layout_find(Layout *out, const char *name)
{
    for (int l = 0; l < N_LAYOUTS; l++)
        if (!strcmp(layouts[l].name, name)) {
            *out = (Layout)l;
            return true;
        }
    return false;
}

bool layout_holds(Layout l, const Shape *s)
{
    if (l == LAYOUT_ROWS || s->rank < 0)
        return true;
    if (s->rank < 3)
        return false;
    FOR_BLOCKS(l, b)
    if (s->dim[layouts[l].block[b].axis] >= 0 && s->dim[layouts[l].block[b].axis] % layouts[l].block[b].size)
        return false;
    return true;
}

bool layout_suits(Layout l, const Shape *s)
{
    return l != LAYOUT_ROWS && layout_holds(l, s) && s->dim[1] > 1 && shape_count(s, 2, s->rank) > 1;
}

/* ---- addresses ---- */

int layout_axis(Layout l, int rank, int position)
{
    if (!layouts[l].last || rank < 3 || position == 0)
        return position;
    return position == rank - 1 ? 1 : position + 1;
}

int layout_position(Layout l, int rank, int axis)
{
    if (!layouts[l].last || rank < 3 || axis == 0)
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

/* The shape with blocked axes counted in blocks. */
static Shape layout_in_blocks(Layout l, const Shape *s)
{
    Shape blocks = *s;

    FOR_BLOCKS(l, b)
    blocks.dim[layouts[l].block[b].axis] =
        (s->dim[layouts[l].block[b].axis] + layouts[l].block[b].size - 1) / layouts[l].block[b].size;
    return blocks;
}

int64_t layout_place(Layout l, const Shape *s, const int64_t *index)
{
    const Shape outer = layout_in_blocks(l, s);
    int64_t stride[MAX_RANK], at[MAX_RANK], place = 0, within = 0;

    memcpy(at, index, (size_t)s->rank * sizeof *at);
    FOR_BLOCKS(l, b)
    {
        int axis = layouts[l].block[b].axis, size = layouts[l].block[b].size;

        within = within * size + at[axis] % size;
        at[axis] /= size;
    }
    layout_strides(l, &outer, stride);
    for (int i = 0; i < s->rank; i++)
        place += at[i] * stride[i];
    FOR_BLOCKS(l, b)
    place *= layouts[l].block[b].size;
    return place + within;
}

/* The number of elements with padding. */
static int64_t layout_elements(Layout l, const Shape *s)
{
    const Shape outer = layout_in_blocks(l, s);
    int64_t n = shape_numel(&outer);

    FOR_BLOCKS(l, b)
    n *= layouts[l].block[b].size;
    return n;
}

size_t layout_bytes(DType dtype, Layout l, const Shape *s) { return (size_t)layout_elements(l, s) * dtype_size(dtype); }

void layout_convert(void *to, const void *from, const Shape *s, size_t size, Layout l, bool to_layout)
{
    const int64_t n = shape_numel(s);
    int64_t index[MAX_RANK] = { 0 };

    for (int64_t i = 0; i < n; i++) {
        const size_t rows = (size_t)i * size, stored = (size_t)layout_place(l, s, index) * size;

        memcpy((char *)to + (to_layout ? stored : rows), (const char *)from + (to_layout ? rows : stored), size);
        for (int k = s->rank - 1; k >= 0 && ++index[k] == s->dim[k]; k--)
            index[k] = 0;
    }
}

int64_t layout_channels(Layout l, const Shape *s)
{
    if (l == LAYOUT_ROWS || layouts[l].last)
        return l == LAYOUT_ROWS ? 1 : s->dim[1];
    return layouts[l].block[0].axis == 1 && !layouts[l].block[1].size ? layouts[l].block[0].size : 0;
}
