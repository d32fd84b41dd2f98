/* A part is added where it lies; what two of them give goes to a block of the work space. */
#include "kernels/exchange.h"

#include <string.h>

#include "graph/reduce_tree.h"

#define T float
#define S(name) name##_f32
#include "kernels/exchange.inc"
#undef T
#undef S
#define T double
#define S(name) name##_f64
#include "kernels/exchange.inc"
#undef T
#undef S
/* Two's complement: unsigned addition gives the signed sum's bits, and never overflows in C's sense. */
#define T uint8_t
#define S(name) name##_8
#include "kernels/exchange.inc"
#undef T
#undef S
#define T uint16_t
#define S(name) name##_16
#include "kernels/exchange.inc"
#undef T
#undef S
#define T uint32_t
#define S(name) name##_32
#include "kernels/exchange.inc"
#undef T
#undef S
#define T uint64_t
#define S(name) name##_64
#include "kernels/exchange.inc"
#undef T
#undef S

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

const void *exchange_sum(const int *program, int parts, void *space, const Tensor *in, int64_t at, size_t len)
{
    size_t size = dtype_size(in->dtype);

    if (in->dtype == DT_FLOAT32)
        return sum_f32(program, parts, space, in, at, len);
    if (in->dtype == DT_FLOAT64)
        return sum_f64(program, parts, space, in, at, len);
    if (is_half(in->dtype))
        return sum_half(program, parts, space, in, at, len);
    return (size == 1 ? sum_8 : size == 2 ? sum_16 : size == 4 ? sum_32 : sum_64)(program, parts, space, in, at, len);
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
