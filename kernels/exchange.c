/* Sums of parts and copies of pieces.  A part is read where it lies; the sum of two goes to a block of the work space.
 */
#include "kernels/exchange.h"

#include <string.h>

#include "graph/tensor/reduce_tree.h"

typedef const void *Sum(const int *program, int parts, void *space, const Tensor *in, int64_t at, size_t len);

/* Two's complement: unsigned addition gives the signed sum's bits, and never overflows in C's sense. */
#define BODY "kernels/exchange.inc"
#define TYPES (OF_FLOATS | OF_U8 | OF_U16 | OF_U32 | OF_U64)
#include "kernels/each_type.inc"

static bool is_half(DType t) { return t == DT_FLOAT16 || t == DT_BFLOAT16; }

static const void *sum_half(const int *program, int parts, void *space, const Tensor *in, int64_t at, size_t len)
{
    float(*stack)[SUM_BLOCK] = space;
    uint16_t *out = space;
    bool brain = in->dtype == DT_BFLOAT16;
    int top = 0;

    for (int i = 0; i < 2 * parts - 1; i++) {
        const uint16_t *x = program[i] != TREE_ADD ? (const uint16_t *)in[program[i]].data + at : NULL;

        for (size_t k = 0; x && k < len; k++)
            stack[top][k] = brain ? bfloat_to_float(x[k]) : half_to_float(x[k]);
        if (!x)
            add_f32(stack[top - 2], stack[top - 2], stack[top - 1], len);
        top += x ? 1 : -1;
    }
    for (size_t k = 0; k < len; k++)
        out[k] = brain ? bfloat_from_float(stack[0][k]) : half_from_double(stack[0][k]);
    return out;
}

size_t exchange_sum_bytes(const int *program, int parts, DType t)
{
    int top = 0, most = 1;

    for (int i = 0; i < 2 * parts - 1; i++) {
        top += program[i] == TREE_ADD ? -1 : 1;
        most = top > most ? top : most;
    }
    return (size_t)most * SUM_BLOCK * (is_half(t) ? sizeof(float) : dtype_size(t));
}

/* One function for each type that can be summed. */
static Sum *const sum_of[DT_COUNT] = {
    OF_EACH_FLOAT(sum), OF_EACH_UNSIGNED(sum), [DT_FLOAT16] = sum_half, [DT_BFLOAT16] = sum_half,
    [DT_INT8] = sum_u8, [DT_INT16] = sum_u16,  [DT_INT32] = sum_u32,    [DT_INT64] = sum_u64
};

const void *exchange_sum(const int *program, int parts, void *space, const Tensor *in, int64_t at, size_t len)
{
    return sum_of[in->dtype](program, parts, space, in, at, len);
}

int64_t exchange_share(int64_t n, int rank, int members)
{
    enum { LINE = 64 }; /* elements */

    return rank == members ? n : n / members * rank / LINE * LINE;
}

Piece piece_of(const Tensor *part, const Tensor *whole, int axis)
{
    size_t size = dtype_size(whole->dtype);

    return (Piece){ .rows = (size_t)shape_count(&whole->shape, 0, axis),
                    .row = (size_t)shape_count(&part->shape, axis, part->shape.rank) * size,
                    .wide = (size_t)shape_count(&whole->shape, axis, whole->shape.rank) * size };
}

void piece_copy(const Piece *p, const Tensor *part, const Tensor *whole, size_t offset, bool join)
{
    for (size_t i = 0; p->row && i < p->rows; i++) {
        char *w = (char *)whole->data + i * p->wide + offset, *x = (char *)part->data + i * p->row;

        memcpy(join ? w : x, join ? x : w, p->row);
    }
}

Shape box_of(const Tensor *from, const Tensor *to, int cut)
{
    Shape box = from->shape;

    box.dim[cut] = to->shape.dim[cut];
    return box;
}

/* Bytes of t from one row to the next; a row is all behind axis hi, and rows go on over the axes between both. */
static size_t row_wide(const Tensor *t, int hi)
{
    return (size_t)shape_count(&t->shape, hi, t->shape.rank) * dtype_size(t->dtype);
}

Box box_lines(const Shape *box, const Tensor *to, int axis, int64_t to_at, const Tensor *from, int cut, int64_t from_at)
{
    const int lo = axis < cut ? axis : cut, hi = axis < cut ? cut : axis;
    const size_t between = (size_t)shape_count(box, lo + 1, hi), size = dtype_size(to->dtype),
                 behind = (size_t)shape_count(box, hi + 1, box->rank) * size;
    Box b = { .rounds = (size_t)shape_count(box, 0, lo),
              .rows = (size_t)box->dim[lo] * between,
              .row = (size_t)box->dim[hi] * behind,
              .from_wide = row_wide(from, hi),
              .to_wide = row_wide(to, hi) };

    b.from = (size_t)from_at * (cut == lo ? between * b.from_wide : behind);
    b.to = (size_t)to_at * (axis == lo ? between * b.to_wide : behind);
    b.from_round = (size_t)from->shape.dim[lo] * between * b.from_wide;
    b.to_round = (size_t)to->shape.dim[lo] * between * b.to_wide;
    return b;
}

void box_copy(const Shape *box, const Tensor *to, int axis, int64_t to_at, const Tensor *from, int cut, int64_t from_at)
{
    const Box b = box_lines(box, to, axis, to_at, from, cut, from_at);

    for (size_t k = 0; b.row && k < b.rounds; k++)
        for (size_t i = 0; i < b.rows; i++)
            memcpy((char *)to->data + b.to + k * b.to_round + i * b.to_wide,
                   (const char *)from->data + b.from + k * b.from_round + i * b.from_wide, b.row);
}
