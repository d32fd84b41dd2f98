/* A result counts as rounded unless it is exact for certain: a whole number, or an element that an input of the node
 * has too (what is selected or moved: a maximum must stay equal to the element that it is). */
#include "exec/inspect/verify_noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/op.h"
#include "passes/partition/place.h"

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* All finite elements of a node's float inputs, sorted; NULL when there is no memory. */
static double *sorted_inputs(size_t *n, const Node *node, const Tensor *const *in)
{
    size_t total = 0;
    double *all;

    for (int i = 0; i < node->n_in; i++)
        total += in[i] && dtype_is_float(in[i]->dtype) ? (size_t)tensor_numel(in[i]) : 0;
    *n = 0;
    if (!(all = malloc((total + 1) * sizeof *all)))
        return NULL;
    for (int i = 0; i < node->n_in; i++)
        for (int64_t k = 0; in[i] && dtype_is_float(in[i]->dtype) && k < tensor_numel(in[i]); k++)
            if (isfinite(tensor_float(in[i], k)))
                all[(*n)++] = tensor_float(in[i], k);
    qsort(all, *n, sizeof *all, by_size);
    return all;
}

/* A step of xorshift64* (Vigna 2016): -1, 0 or 1. */
static int draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (int)((*state * 0x2545f4914f6cdd1du >> 33) % 3) - 1;
}

static double unit(DType t)
{
    return t == DT_FLOAT64 ? 0x1p-52 : t == DT_FLOAT32 ? 0x1p-23 : t == DT_FLOAT16 ? 0x1p-10 : 0x1p-7;
}

static Status round_otherwise(void *state, const Node *node, const Tensor *const *in, Tensor *const *out)
{
    size_t n;
    double *exact;

    if (node->op->flags & (OPF_RANDOM | OPF_VIEW))
        return ST_OK;
    if (!(exact = sorted_inputs(&n, node, in)))
        return FAIL_NOMEM();
    for (int o = 0; o < node->n_out; o++)
        for (int64_t i = 0; out[o] && dtype_is_float(out[o]->dtype) && i < tensor_numel(out[o]); i++) {
            double y = tensor_float(out[o], i);

            if (isfinite(y) && y != floor(y) && !bsearch(&y, exact, n, sizeof y, by_size))
                tensor_set_float(out[o], i, y * (1 + draw(state) * unit(out[o]->dtype)));
        }
    free(exact);
    return ST_OK;
}

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

static bool draws_numbers(const Graph *g)
{
    FOR_NODES(g, n)
        if (n->op->flags & OPF_RANDOM)
            return true;
    return false;
}

static Status run_reversed(const Tensor **values, Arena *a, const Graph *g, const BuildOptions *opt)
{
    Partition p;

    TRY(partition_decide(&p, g, opt, a, NULL));
    for (int i = 0; i < g->n_input; i++) {
        uint32_t v = g->input[i].i;

        if (p.batch_axis[v] >= 0 && !(values[v] = reverse(a, values[v], p.batch_axis[v])))
            return FAIL_NOMEM();
    }
    return interp_run(a, g, values);
}

Status verify_noise(const Tensor **run[NOISE_RUNS], int *n, bool *reversed, Arena *a, const Graph *g,
                    const BuildOptions *opt, const Tensor *const *given)
{
    int k = 0;

    *reversed = !draws_numbers(g);
    for (; k < NOISE_RUNS - 1 + *reversed; k++) {
        uint64_t state = 0x9e3779b97f4a7c15u + (uint64_t)k;

        if (!(run[k] = arena_memdup(a, given, g->n_value * sizeof *given)))
            return FAIL_NOMEM();
        if (k == NOISE_RUNS - 1)
            TRY(run_reversed(run[k], a, g, opt));
        else
            TRY(interp_run_touched(a, g, run[k], round_otherwise, &state));
    }
    *n = k;
    return ST_OK;
}
