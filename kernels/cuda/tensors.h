/* The tables of tensors that kernels take over many of them (kernels/cuda/device/update.h): how large, how filled,
 * where. */
#ifndef DPX_CUDA_TENSORS_H
#define DPX_CUDA_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/device/update.h"

/* Tensors without elements are left out. */
typedef struct {
    unsigned n, blocks;
} TableSize;

static inline void count_tensor(TableSize *s, int64_t count)
{
    s->n += count > 0;
    s->blocks += (unsigned)((count + UPDATE_WORK - 1) / UPDATE_WORK);
}

static inline size_t table_bytes(const TableSize *s)
{
    return s->n * sizeof(UpdateTensor) + s->blocks * sizeof(unsigned);
}

static inline UpdateTable table_at(const void *base, const TableSize *s)
{
    return (UpdateTable){ base, (const unsigned *)((const UpdateTensor *)base + s->n) };
}

typedef struct {
    UpdateTensor *tensor;
    unsigned *which;
    TableSize done;
} TableFill;

/* To fill the table of that size. */
static inline TableFill table_fill(void *base, const TableSize *s)
{
    return (TableFill){ base, (unsigned *)((UpdateTensor *)base + s->n), { 0, 0 } };
}

/* The next tensor, of `count` > 0 elements; the caller fills in its addresses. */
static inline UpdateTensor *add_tensor(TableFill *f, int64_t count)
{
    UpdateTensor *t = &f->tensor[f->done.n];
    const unsigned first = f->done.blocks;

    *t = (UpdateTensor){ .count = count, .block = first };
    count_tensor(&f->done, count);
    for (unsigned b = first; b < f->done.blocks; b++)
        f->which[b] = f->done.n - 1;
    return t;
}

#endif
