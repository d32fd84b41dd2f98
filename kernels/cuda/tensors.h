/* The table of tensors of a kernel over many tensors (kernels/cuda/device/update.h): its size, its place, and how it is
 * filled. */
#ifndef DPX_CUDA_TENSORS_H
#define DPX_CUDA_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/device/update.h"

/* Tensors without elements are left out.  pointers: of an entry, behind its two numbers; 0: it is an UpdateTensor. */
typedef struct {
    unsigned n, blocks, pointers;
} TableSize;

static inline void count_tensor(TableSize *s, int64_t count)
{
    s->n += count > 0;
    s->blocks += (unsigned)((count + UPDATE_WORK - 1) / UPDATE_WORK);
}

static inline size_t table_entry(const TableSize *s)
{
    return s->pointers ? offsetof(UpdateTensor, g) + s->pointers * sizeof(void *) : sizeof(UpdateTensor);
}

static inline size_t table_bytes(const TableSize *s) { return s->n * table_entry(s) + s->blocks * sizeof(unsigned); }

static inline UpdateTable table_at(const void *base, const TableSize *s)
{
    return (UpdateTable){ base, (const unsigned *)((const char *)base + s->n * table_entry(s)) };
}

/* The state of kernels over the first n inputs of a node. */
typedef struct {
    int n;
    TableSize size;
    GpuKernel *kernel;
} TensorsKernel;

static inline void count_inputs(TensorsKernel *k, KernelCtx *ctx, const Graph *g, const Node *n, int n_tensor)
{
    k->n = n_tensor;
    for (int i = 0; i < n_tensor; i++)
        count_tensor(&k->size, shape_numel(in_value(g, n, i)->shape));
    ctx->table_bytes = table_bytes(&k->size);
}

typedef struct {
    char *entry;
    unsigned *which;
    TableSize size, done;
} TableFill;

/* To fill the table of that size. */
static inline TableFill table_fill(void *base, const TableSize *s)
{
    return (TableFill){ base, (unsigned *)((char *)base + s->n * table_entry(s)), *s, { 0, 0, 0 } };
}

/* The next tensor, of `count` > 0 elements; the caller fills in its addresses: behind the numbers, where the table has
 * its own number of pointers. */
static inline UpdateTensor *add_tensor(TableFill *f, int64_t count)
{
    UpdateTensor *t = (UpdateTensor *)(f->entry + f->done.n * table_entry(&f->size));
    const unsigned first = f->done.blocks;

    t->count = count;
    t->block = first;
    count_tensor(&f->done, count);
    for (unsigned b = first; b < f->done.blocks; b++)
        f->which[b] = f->done.n - 1;
    return t;
}

#endif
