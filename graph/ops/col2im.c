/* Col2Im: blocks of an image, given as columns, are added up at their positions; any number of axes.
 *
 * data[N, C * block, L], y[N, C, image...]; element k of block l is at l * stride - pad + k * dilation along each axis.
 * A table holds the position of each k and l.  Floats are added up by it with InterpolateGrad, whose gradient gathers
 * the columns again, other types with ScatterElements.  Elements in the padding go to one additional element, which is
 * cut off. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/resize.gen.h"
#include "graph/ops/scatter.gen.h"

enum { DATA, IMAGE, BLOCK, AXES_MAX = MAX_RANK - 2 };

typedef struct {
    int rank;
    int64_t image[AXES_MAX], block[AXES_MAX], steps[AXES_MAX], stride[AXES_MAX], dilation[AXES_MAX], pad[AXES_MAX];
    int64_t size, blocks; /* elements of the image; of all columns of a channel */
} Columns;

static bool col2im_is_known(const Graph *g, const Node *n)
{
    return value_const(g, n->in[IMAGE]) && value_const(g, n->in[BLOCK]);
}

static Status col2im_read_sizes(const Graph *g, const Node *n, int i, const char *what, int64_t *size, int *count)
{
    TRY(value_const_ints(g, n->in[i], size, AXES_MAX, count));
    for (int a = 0; a < *count; a++)
        if (size[a] < 1 || size[a] > INT32_MAX)
            return FAIL(E_SHAPE, "%s: %s[%d] is %lld, expected 1 to %d", node_text(g, n), what, a, (long long)size[a],
                        INT32_MAX);
    return ST_OK;
}

/* Reads one number for each axis; `otherwise` if the list is empty. */
static Status read_list(const Graph *g, const Node *n, const char *name, int rank, int64_t otherwise, int64_t *out)
{
    int count;
    const int64_t *v = node_ints(n, name, &count);

    if (count && count != rank)
        return FAIL(E_SHAPE, "%s: %s has %d entries, expected %d", node_text(g, n), name, count, rank);
    for (int i = 0; i < rank; i++)
        out[i] = count ? v[i] : otherwise;
    return ST_OK;
}

static Status count_steps(const Graph *g, const Node *n, Columns *c)
{
    int64_t pads[2 * AXES_MAX];

    TRY(read_list(g, n, "strides", c->rank, 1, c->stride));
    TRY(read_list(g, n, "dilations", c->rank, 1, c->dilation));
    TRY(read_list(g, n, "pads", 2 * c->rank, 0, pads));
    for (int a = 0; a < c->rank; a++) {
        const int64_t room = c->image[a] + pads[a] + pads[c->rank + a] - (c->block[a] - 1) * c->dilation[a] - 1;

        c->pad[a] = pads[a];
        if (room < 0)
            return FAIL(E_SHAPE, "%s: a block of %lld does not fit into the image along axis %d", node_text(g, n),
                        (long long)c->block[a], a);
        c->steps[a] = room / c->stride[a] + 1;
    }
    return ST_OK;
}

static const int64_t MAX_ELEMENTS = INT64_MAX / 16;

/* The product of sizes; E_SHAPE when it is more than MAX_ELEMENTS. */
static Status col2im_multiply(const Graph *g, const Node *n, const char *what, const int64_t *size, int count,
                              int64_t *out)
{
    *out = 1;
    for (int a = 0; a < count; a++)
        if (__builtin_mul_overflow(*out, size[a], out) || *out > MAX_ELEMENTS)
            return FAIL(E_SHAPE, "%s: %s are more than %lld", node_text(g, n), what, (long long)MAX_ELEMENTS);
    return ST_OK;
}

static Status read_columns(Columns *c, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, DATA)->shape;
    int64_t block, steps;
    char text[SHAPE_TEXT];
    int count;

    if (x->rank != 3)
        return FAIL(E_SHAPE, "%s: input %s, expected [batch, channels of a block, blocks]", node_text(g, n),
                    shape_text(x, text));
    TRY(col2im_read_sizes(g, n, IMAGE, "image_shape", c->image, &c->rank));
    TRY(col2im_read_sizes(g, n, BLOCK, "block_shape", c->block, &count));
    if (!c->rank || count != c->rank)
        return FAIL(E_SHAPE, "%s: image_shape has %d entries, block_shape %d", node_text(g, n), c->rank, count);
    TRY(count_steps(g, n, c));
    TRY(col2im_multiply(g, n, "elements of the image", c->image, c->rank, &c->size));
    TRY(col2im_multiply(g, n, "elements of a block", c->block, c->rank, &block));
    TRY(col2im_multiply(g, n, "blocks", c->steps, c->rank, &steps));
    if (x->dim[1] % block || steps != x->dim[2])
        return FAIL(E_SHAPE, "%s: input %s, expected a multiple of %lld along axis 1 and %lld along axis 2",
                    node_text(g, n), shape_text(x, text), (long long)block, (long long)steps);
    return col2im_multiply(g, n, "elements of the columns", (int64_t[]){ block, steps }, 2, &c->blocks);
}

static Status col2im_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, DATA);
    Shape y = shape_unknown();
    Columns c;

    if (col2im_is_known(g, n)) {
        TRY(read_columns(&c, g, n));
        y = SHAPE(x->shape->dim[0], x->shape->dim[1] / (c.blocks / x->shape->dim[2]));
        y.rank = 2 + c.rank;
        memcpy(y.dim + 2, c.image, (size_t)c.rank * sizeof *c.image);
        TRY(shape_check(&y, sizeof(double)));
    }
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

/* Advances a multi-index within `size` in row-major order. */
static void col2im_advance(int64_t *at, const int64_t *size, int rank)
{
    for (int a = rank - 1; a >= 0; a--) {
        if (++at[a] < size[a])
            return;
        at[a] = 0;
    }
}

/* Index in the image of an element of a block; c->size in the padding. */
static int64_t position(const Columns *c, const int64_t *element, const int64_t *block)
{
    int64_t at = 0;

    for (int a = 0; a < c->rank; a++) {
        const int64_t i = block[a] * c->stride[a] - c->pad[a] + element[a] * c->dilation[a];

        if (i < 0 || i >= c->image[a])
            return c->size;
        at = at * c->image[a] + i;
    }
    return at;
}

/* The table of positions of all elements of all blocks, [blocks, 1]; *padded: some are in the padding. */
static ValueId emit_table(Graph *g, const Columns *c, bool *padded)
{
    const Shape shape = SHAPE(c->blocks, 1);
    Tensor *table = tensor_create(g->arena, DT_INT64, &shape);
    int64_t element[AXES_MAX] = { 0 }, steps = 1, at;

    *padded = false;
    if (!table) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int a = 0; a < c->rank; a++)
        steps *= c->steps[a];
    for (int64_t i = 0; i < c->blocks; col2im_advance(element, c->block, c->rank)) {
        int64_t block[AXES_MAX] = { 0 };

        for (int64_t l = 0; l < steps; l++, i++, col2im_advance(block, c->steps, c->rank)) {
            at = position(c, element, block);
            *padded |= at == c->size;
            tensor_set_int(table, i, at);
        }
    }
    return graph_add_const_nocopy(g, "positions", table);
}

/* Adds up x [n, c, blocks] by the table to [n, c, size], for types other than floats; bool: any. */
static ValueId emit_scattered(Graph *g, ValueId x, ValueId table, int64_t size)
{
    const Shape s = *value(g, x)->shape, line = SHAPE(1, 1, s.dim[2]), y = SHAPE(s.dim[0], s.dim[1], size);
    const bool logical = value(g, x)->dtype == DT_BOOL;
    ValueId from = logical ? emit_cast(g, x, DT_UINT8) : x, index, zeros;

    index = emit_expand(g, emit_reshape(g, table, &line), &s);
    zeros = emit_full(g, logical ? DT_UINT8 : value(g, x)->dtype, &y, 0);
    from = EMIT(g, ScatterElements, ATTRS(INT("axis", 2), STRING("reduction", logical ? "max" : "add")), zeros, index,
                from);
    return logical ? emit_cast(g, from, DT_BOOL) : from;
}

static Status col2im_lower(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, DATA);
    const Shape y = *value(g, n->out[0])->shape;
    Shape columns;
    ValueId table, ones, out;
    bool padded;
    Columns c;

    if (!col2im_is_known(g, n))
        return FAIL(E_UNSUPPORTED, "%s: image_shape or block_shape depends on data, expected constants",
                    node_text(g, n));
    TRY(read_columns(&c, g, n));
    columns = SHAPE(y.dim[0], y.dim[1], c.blocks);
    table = emit_table(g, &c, &padded);
    TRY(g->status);
    out = emit_reshape(g, n->in[DATA], &columns);
    if (DTYPE_BIT(x->dtype) & DTYPES_FLOAT) {
        ones = emit_full(g, x->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32, value(g, table)->shape, 1);
        out = EMIT(g, InterpolateGrad, ATTRS(INT("axis", 2), INT("size", c.size + padded)), out, table, ones);
    } else
        out = emit_scattered(g, out, table, c.size + padded);
    if (padded)
        out = emit_slice(g, out, 2, 0, c.size);
    out = emit_reshape(g, out, &y);
    if (!g->status)
        graph_replace(g, n->out[0], out);
    return g->status;
}

DEFINE_OP(Col2Im, .since = 18, .in_min = 3, .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_ALL,
          .attrs = (const AttrDecl[]){ { "strides", A_INTS, .range = R_STEPS },
                                       { "dilations", A_INTS, .range = R_STEPS },
                                       { "pads", A_INTS, .range = R_PADS },
                                       { 0 } },
          .infer = col2im_infer, .lower = col2im_lower, .doc = "blocks added up to an image");
