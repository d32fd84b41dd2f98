/* Reductions, vectorised: rows when the innermost axis is reduced, columns when it is kept, or when it is reduced but
 * too short to be worth a vector (the 2 x 2 squares of an upsampling's gradient): columns whose elements are `step`
 * apart.
 *
 * Floats are added in blocks of BLOCK by vector code and the blocks in double, so the error does not grow with the
 * number of elements.  Work is cut into tasks of a size that does not depend on the threads, and the tasks of one
 * output are added in order: the bits are the same for every team. */
#include <math.h>
#include <stdlib.h>

#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "kernels/backend.h"
#include "kernels/ref/reduction_axes.h"

enum { BLOCK = 256, SEGMENT = 4096, TASK = 1 << 15, TILE = 256, SHORT = 8 };

typedef enum { SUM, SQUARE, L1, L2, MAX, MIN, N_HOW } How;

/* Task (o, c) reduces part c of what goes into output row o.
 *   rows:    an output is one element; the reduced positions are pieces of rows, SEGMENT elements or less
 *   columns: an output is a tile of up to TILE elements that lie `step` apart in x; a position adds one such tile */
typedef struct {
    How how;
    ReductionAxes kept, reduced; /* the outer axes, innermost first; not the innermost run */
    bool rows;
    int64_t run;                /* length of the innermost run: reduced when rows, else kept */
    int64_t step;               /* between the elements of a column's run */
    int64_t pieces;             /* segments of a row, or tiles of a run */
    int64_t outputs, positions; /* tasks are outputs x parts; positions are per output */
    int64_t per_part, parts;
    int64_t out_count, count; /* elements of the output; of x in each of them */
} Plan;

/* Merges neighbouring axes of one kind; axes of size 1 vanish. */
static int merge_axes(const Shape *x, unsigned mask, int64_t *dim, bool *reduced)
{
    int n = 0;

    for (int i = x->rank - 1; i >= 0; i--) { /* innermost first */
        bool r = mask >> i & 1;

        if (x->dim[i] == 1)
            continue;
        if (n && reduced[n - 1] == r) {
            dim[n - 1] *= x->dim[i];
            continue;
        }
        dim[n] = x->dim[i];
        reduced[n++] = r;
    }
    return n;
}

static Plan cpu_reduce_make_plan(const Shape *x, unsigned mask)
{
    int64_t dim[MAX_RANK] = { 1 }, stride = 1, kept = 1, outer = 1;
    bool reduced[MAX_RANK] = { true };
    int n = merge_axes(x, mask, dim, reduced);
    int run = n > 1 && reduced[0] && dim[0] <= SHORT ? 1 : 0; /* the axis along which the inner loops run */
    Plan p = { .rows = reduced[run], .run = dim[run], .step = run ? dim[0] : 1, .count = 1 };

    for (int i = 0; i < n; stride *= dim[i++]) {
        if (reduced[i])
            p.count *= dim[i];
        if (i == run)
            continue;
        reduction_axes_push(reduced[i] ? &p.reduced : &p.kept, dim[i], stride);
        *(reduced[i] ? &outer : &kept) *= dim[i];
    }
    p.pieces = p.rows ? (p.run + SEGMENT - 1) / SEGMENT : (p.run + TILE - 1) / TILE;
    p.outputs = p.rows ? kept : kept * p.pieces;
    p.positions = p.rows ? outer * p.pieces : outer;
    p.per_part = TASK / (p.rows ? (p.run < SEGMENT ? p.run + 1 : SEGMENT) : (p.run < TILE ? p.run + 1 : TILE)) + 1;
    p.parts = (p.positions + p.per_part - 1) / p.per_part;
    p.out_count = p.rows ? kept : kept * p.run;
    return p;
}

static int64_t offset_of(const ReductionAxes *a, int64_t index)
{
    int64_t offset = 0;

    for (int i = 0; i < a->n; i++) {
        offset += index % a->dim[i] * a->stride[i];
        index /= a->dim[i];
    }
    return offset;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

static How cpu_reduce_how_of(const Node *n)
{
    static const OpDef *const ops[N_HOW] = {
        [SUM] = &op_ReduceSum, [SQUARE] = &op_ReduceSumSquare, [L1] = &op_ReduceL1,
        [L2] = &op_ReduceL2,   [MAX] = &op_ReduceMax,          [MIN] = &op_ReduceMin,
    };
    How how = SUM;

    while (ops[how] != n->op)
        how++;
    return how;
}

/* Scratch: one double for each output element and part, when there are several parts. */
static Status cpu_reduce_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    size_t need;
    unsigned mask;
    Plan p;

    TRY(reduce_axes(&mask, g, n));
    p = cpu_reduce_make_plan(in_value(g, n, 0)->shape, mask);
    p.how = cpu_reduce_how_of(n);
    need = p.parts > 1 ? (size_t)(p.out_count * p.parts) * sizeof(double) : 0;
    if (ctx->scratch_bytes < need)
        ctx->scratch_bytes = need;
    return kernel_state(state, &p, sizeof p);
}

/* A reduction of one type: `row` reduces n elements that lie side by side, `column` takes n elements into n sums. */
typedef struct {
    size_t size;
    double (*row)(How how, const void *x, int64_t n);
    void (*column)(How how, double *acc, const void *x, int64_t n, int64_t step);
    void (*store)(How how, void *y, int64_t at, const double *v, int64_t n);
} Reduction;

static double first(How how) { return how == MAX ? -INFINITY : how == MIN ? INFINITY : 0; }

/* Two results together. */
static double cpu_reduce_join(How how, double a, double b)
{
    if (how == MAX)
        return b > a || b != b ? b : a;
    if (how == MIN)
        return b < a || b != b ? b : a;
    return a + b;
}

static void row_task(const Plan *p, const Reduction *r, const char *x, int64_t o, int64_t part, double *out)
{
    int64_t base = offset_of(&p->kept, o), to = at_most((part + 1) * p->per_part, p->positions);
    double acc = first(p->how);

    for (int64_t q = part * p->per_part; q < to; q++) {
        int64_t piece = q % p->pieces * SEGMENT, n = at_most(SEGMENT, p->run - piece);

        acc = cpu_reduce_join(
            p->how, acc,
            r->row(p->how, x + (size_t)(base + offset_of(&p->reduced, q / p->pieces) + piece) * r->size, n));
    }
    *out = acc;
}

static void column_task(const Plan *p, const Reduction *r, const char *x, int64_t o, int64_t part, double *out)
{
    int64_t piece = o % p->pieces * TILE, n = at_most(TILE, p->run - piece);
    int64_t base = offset_of(&p->kept, o / p->pieces) + piece * p->step,
            to = at_most((part + 1) * p->per_part, p->positions);

    for (int64_t i = 0; i < n; i++)
        out[i] = first(p->how);
    for (int64_t q = part * p->per_part; q < to; q++)
        r->column(p->how, out, x + (size_t)(base + offset_of(&p->reduced, q)) * r->size, n, p->step);
}

/* Where output row o begins, and how long it is. */
static int64_t output_at(const Plan *p, int64_t o, int64_t *n)
{
    int64_t piece = o % p->pieces * TILE;

    *n = p->rows ? 1 : at_most(TILE, p->run - piece);
    return p->rows ? o : o / p->pieces * p->run + piece;
}

static void task(const Plan *p, const Reduction *r, const void *x, void *y, double *partial, int64_t t)
{
    int64_t o = t / p->parts, part = t % p->parts, n, at = output_at(p, o, &n);
    double local[TILE], *out = p->parts > 1 ? partial + part * p->out_count + at : local;

    (p->rows ? row_task : column_task)(p, r, x, o, part, out);
    if (p->parts == 1)
        r->store(p->how, y, at, out, n);
}

/* Adds the parts of each output in order. */
static void join_parts(const Plan *p, const Reduction *r, const double *partial, void *y)
{
    for (int64_t i = 0; i < p->out_count; i++) {
        double acc = partial[i];

        for (int64_t part = 1; part < p->parts; part++)
            acc = cpu_reduce_join(p->how, acc, partial[part * p->out_count + i]);
        r->store(p->how, y, i, &acc, 1);
    }
}

static Status reduce(KernelCtx *ctx, const Plan *p, const Reduction *r, const Tensor *in, Tensor *out)
{
    const int64_t tasks = p->outputs * p->parts;
    const int threads = p->count * p->out_count < TASK && !ctx->grain ? 1 : ctx->n_threads;
    double *partial = ctx->scratch;

    if (p->positions == 0) { /* nothing to reduce: the neutral element */
        for (int64_t i = 0; i < p->out_count; i++)
            r->store(p->how, out->data, i, &(double){ first(p->how) }, 1);
        return ST_OK;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < tasks; t++)
        task(p, r, in->data, out->data, partial, t);
    if (p->parts > 1)
        join_parts(p, r, partial, out->data);
    return ST_OK;
}

/* ---- the reductions ---- */

#define INLINE static inline __attribute__((always_inline))

/* x taken into acc; `how` is known where it is called. */
INLINE double taken(How how, double acc, double x)
{
    if (how == MAX)
        return x > acc || x != x ? x : acc;
    if (how == MIN)
        return x < acc || x != x ? x : acc;
    return acc + (how == SQUARE ? x * x : how == L1 ? (x < 0 ? -x : x) : x);
}

#define BODY "kernels/cpu/cpu_reduce.inc"
#include "kernels/each_type.inc"

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static const Reduction f32 = { sizeof(float), row_f32, column_f32, store_f32 };
    static const Reduction f64 = { sizeof(double), row_f64, column_f64, store_f64 };

    return reduce(ctx, state, in[0].dtype == DT_FLOAT32 ? &f32 : &f64, in, out);
}

#define COMMON .dtypes = DTYPES_F32_F64, .prepare = cpu_reduce_prepare, .run = run, .release = free, .shares = true

DEFINE_KERNEL(cpu_reduce_sum, .op = &op_ReduceSum, COMMON);
DEFINE_KERNEL(cpu_reduce_sum_square, .op = &op_ReduceSumSquare, COMMON);
DEFINE_KERNEL(cpu_reduce_l1, .op = &op_ReduceL1, COMMON);
DEFINE_KERNEL(cpu_reduce_l2, .op = &op_ReduceL2, COMMON);
DEFINE_KERNEL(cpu_reduce_max, .op = &op_ReduceMax, COMMON);
DEFINE_KERNEL(cpu_reduce_min, .op = &op_ReduceMin, COMMON);
