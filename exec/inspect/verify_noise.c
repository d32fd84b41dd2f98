/* Measures what rounding does.  A result counts as rounded unless it is certainly exact: a whole number, or a number
 * that an input of the node has too, because the node selects or moves it.  A maximum, for example, must stay equal to
 * the element that it is. */
#include "exec/inspect/verify_noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/op.h"
#include "passes/partition/place.h"

/* Points to the place of x in a table of numbers that are not whole, or to the free place where it belongs.  The table
 * has 2^bits places, at least half of them free; 0 marks a free one. */
static double *find_number(double *table, int bits, double x)
{
    const size_t mask = ((size_t)1 << bits) - 1;
    uint64_t k;

    memcpy(&k, &x, sizeof k);
    k = k * 0x9e3779b97f4a7c15u >> (64 - bits);
    while (table[k] != 0 && table[k] != x)
        k = (k + 1) & mask;
    return &table[k];
}

/* A table for find_number of all finite elements of a node's float inputs that are not whole.  The caller frees it;
 * NULL: out of memory. */
static double *numbers_of(int *bits, const Node *node, const Tensor *const *in)
{
    double *table;
    size_t total = 0;

    *bits = 1;
    for (int i = 0; i < node->n_in; i++)
        total += in[i] && dtype_is_float(in[i]->dtype) ? (size_t)tensor_numel(in[i]) : 0;
    while ((size_t)1 << *bits < 2 * total)
        ++*bits;
    table = calloc((size_t)1 << *bits, sizeof *table);
    for (int i = 0; table && i < node->n_in; i++)
        for (int64_t k = 0; in[i] && dtype_is_float(in[i]->dtype) && k < tensor_numel(in[i]); k++) {
            double x = tensor_float(in[i], k);

            if (isfinite(x) && x != floor(x))
                *find_number(table, *bits, x) = x;
        }
    return table;
}

/* -1, 0 or 1, by a step of xorshift64* (Vigna 2016). */
static int draw_step(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (int)((*state * 0x2545f4914f6cdd1du >> 33) % 3) - 1;
}

/* Called after each node: moves its rounded results by a unit in the last place, up, down or not at all. */
static Status round_otherwise(void *state, const Node *node, const Tensor *const *in, Tensor *const *out)
{
    double *exact;
    int bits;

    if (node->op->flags & (OPF_RANDOM | OPF_VIEW))
        return ST_OK;
    if (!(exact = numbers_of(&bits, node, in)))
        return FAIL_NOMEM();
    for (int o = 0; o < node->n_out; o++)
        for (int64_t i = 0; out[o] && dtype_is_float(out[o]->dtype) && i < tensor_numel(out[o]); i++) {
            const DType t = out[o]->dtype;
            const double y = tensor_float(out[o], i), unit = t == DT_FLOAT64   ? 0x1p-52
                                                             : t == DT_FLOAT32 ? 0x1p-23
                                                             : t == DT_FLOAT16 ? 0x1p-10
                                                                               : 0x1p-7;

            if (isfinite(y) && y != floor(y) && *find_number(exact, bits, y) != y)
                tensor_set_float(out[o], i, y * (1 + draw_step(state) * unit));
        }
    free(exact);
    return ST_OK;
}

/* A copy of t, in the arena, with the slices along `axis` in reverse order; NULL: out of memory. */
static Tensor *reverse(Arena *a, const Tensor *t, int axis)
{
    Tensor *r = tensor_create(a, t->dtype, &t->shape);
    int64_t dim = t->shape.dim[axis], outer = shape_count(&t->shape, 0, axis);
    size_t row = (size_t)shape_count(&t->shape, axis + 1, t->shape.rank) * dtype_size(t->dtype);

    for (int64_t o = 0; r && row && o < outer; o++)
        for (int64_t i = 0; i < dim; i++)
            memcpy((char *)r->data + (size_t)(o * dim + i) * row,
                   (const char *)t->data + (size_t)(o * dim + dim - 1 - i) * row, row);
    return r;
}

Status verify_noise(const Tensor **run[NOISE_RUNS], int *n, bool *reversed, Arena *a, const Graph *g,
                    const BuildOptions *opt, const Tensor *const *given)
{
    Partition p;
    int k = 0;

    *reversed = true;
    FOR_NODES(g, x)
        *reversed = *reversed && !(x->op->flags & OPF_RANDOM);
    for (; k < NOISE_RUNS - 1 + *reversed; k++) {
        uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)k;

        if (!(run[k] = arena_memdup(a, given, g->n_value * sizeof *given)))
            return FAIL_NOMEM();
        if (k < NOISE_RUNS - 1) {
            TRY(interp_run_touched(a, g, run[k], round_otherwise, &state));
            continue;
        }
        TRY(partition_decide(&p, g, opt, a, NULL));
        for (int i = 0; i < g->n_input; i++) {
            const uint32_t v = g->input[i].i;

            if (p.batch_axis[v] >= 0 && !(run[k][v] = reverse(a, run[k][v], p.batch_axis[v])))
                return FAIL_NOMEM();
        }
        TRY(interp_run(a, g, run[k]));
    }
    *n = k;
    return ST_OK;
}
