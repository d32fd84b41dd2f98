/* Reductions, vectorised: rows when the innermost axis is reduced, columns when it is kept, or when it is reduced but
 * too short to be worth a vector (the 2 x 2 squares of an upsampling's gradient): columns whose elements are `step`
 * apart.
 *
 * Floats are added in blocks of BLOCK by vector code and the blocks in double, so the error does not grow with the
 * number of elements.  Work is cut into tasks of a size that does not depend on the threads, and the tasks of one
 * output are added in order: the bits are the same for every team. */
#include <math.h>
#include <stdlib.h>

#include "kernels/backend.h"
#include "graph/ops/reduce.h"

enum { BLOCK = 256, SEGMENT = 4096, TASK = 1 << 15, TILE = 256, SHORT = 8 };

typedef struct {
    int n;
    int64_t dim[MAX_RANK], stride[MAX_RANK];
} Axes;

/* Task (o, c) reduces part c of what goes into output row o.
 *   rows:    an output is one element; the reduced positions are pieces of rows, SEGMENT elements or less
 *   columns: an output is a tile of up to TILE elements that lie `step` apart in x; a position adds one such tile */
typedef struct {
    Axes kept, reduced; /* the outer axes, innermost first; not the innermost run */
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

static void push_axis(Axes *a, int64_t dim, int64_t stride)
{
    a->dim[a->n] = dim;
    a->stride[a->n++] = stride;
}

static Plan make_plan(const Shape *x, unsigned mask)
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
        push_axis(reduced[i] ? &p.reduced : &p.kept, dim[i], stride);
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

static int64_t offset_of(const Axes *a, int64_t index)
{
    int64_t offset = 0;

    for (int i = 0; i < a->n; i++) {
        offset += index % a->dim[i] * a->stride[i];
        index /= a->dim[i];
    }
    return offset;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* Scratch: one double for each output element and part, when there are several parts. */
static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    size_t need;
    unsigned mask;
    Plan *p;

    TRY(reduce_axes(&mask, g, n));
    if (!(p = malloc(sizeof *p)))
        return FAIL_NOMEM();
    *p = make_plan(&in_value(g, n, 0)->shape, mask);
    need = p->parts > 1 ? (size_t)(p->out_count * p->parts) * sizeof(double) : 0;
    if (ctx->scratch_bytes < need)
        ctx->scratch_bytes = need;
    *state = p;
    return ST_OK;
}

/* A reduction of one type: `row` reduces n elements that lie side by side, `column` takes n elements into n sums. */
typedef struct {
    size_t size;
    double first;
    double (*row)(const void *x, int64_t n);
    void (*column)(double *acc, const void *x, int64_t n, int64_t step);
    double (*join)(double a, double b);
    void (*store)(void *y, int64_t at, const double *v, int64_t n);
} Reduction;

static void row_task(const Plan *p, const Reduction *r, const char *x, int64_t o, int64_t part, double *out)
{
    int64_t base = offset_of(&p->kept, o), to = at_most((part + 1) * p->per_part, p->positions);
    double acc = r->first;

    for (int64_t q = part * p->per_part; q < to; q++) {
        int64_t piece = q % p->pieces * SEGMENT, n = at_most(SEGMENT, p->run - piece);

        acc = r->join(acc, r->row(x + (size_t)(base + offset_of(&p->reduced, q / p->pieces) + piece) * r->size, n));
    }
    *out = acc;
}

static void column_task(const Plan *p, const Reduction *r, const char *x, int64_t o, int64_t part, double *out)
{
    int64_t piece = o % p->pieces * TILE, n = at_most(TILE, p->run - piece);
    int64_t base = offset_of(&p->kept, o / p->pieces) + piece * p->step,
            to = at_most((part + 1) * p->per_part, p->positions);

    for (int64_t i = 0; i < n; i++)
        out[i] = r->first;
    for (int64_t q = part * p->per_part; q < to; q++)
        r->column(out, x + (size_t)(base + offset_of(&p->reduced, q)) * r->size, n, p->step);
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
        r->store(y, at, out, n);
}

/* Adds the parts of each output in order. */
static void join_parts(const Plan *p, const Reduction *r, const double *partial, void *y)
{
    for (int64_t i = 0; i < p->out_count; i++) {
        double acc = partial[i];

        for (int64_t part = 1; part < p->parts; part++)
            acc = r->join(acc, partial[part * p->out_count + i]);
        r->store(y, i, &acc, 1);
    }
}

static Status reduce(KernelCtx *ctx, const Plan *p, const Reduction *r, const Tensor *in, Tensor *out)
{
    const int64_t tasks = p->outputs * p->parts;
    const int threads = p->count * p->out_count < TASK ? 1 : ctx->n_threads;
    double *partial = ctx->scratch;

    if (p->positions == 0 || p->run == 0) /* nothing to reduce: the neutral element */
        for (int64_t i = 0; i < p->out_count; i++)
            r->store(out->data, i, &r->first, 1);
    if (p->positions == 0 || p->run == 0)
        return ST_OK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < tasks; t++)
        task(p, r, in->data, out->data, partial, t);
    if (p->parts > 1)
        join_parts(p, r, partial, out->data);
    return ST_OK;
}

/* ---- the reductions ---- */

static double add(double a, double b) { return a + b; }
static double larger(double a, double b) { return b > a || b != b ? b : a; }
static double smaller(double a, double b) { return b < a || b != b ? b : a; }

/* Takes x = xs[i * step] into acc[i]; the usual steps are loops of their own, which the compiler can vectorise. */
#define COLUMN_BY(STEP, TAKE)                           \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) \
    {                                                   \
        const double x = (double)xs[i * (STEP)];        \
        TAKE;                                           \
    }
#define COLUMN(TAKE)       \
    if (step == 1)         \
        COLUMN_BY(1, TAKE) \
    else if (step == 2)    \
        COLUMN_BY(2, TAKE) \
    else                   \
        COLUMN_BY(step, TAKE)

/* TERM(x) summed in blocks by vectors, the blocks in double. */
#define SUM(NAME, T, TERM)                                                          \
    static double NAME##_row(const void *xv, int64_t n)                             \
    {                                                                               \
        const T *xs = xv;                                                           \
        double total = 0;                                                           \
        for (int64_t b = 0; b < n; b += BLOCK) {                                    \
            const int64_t to = at_most(b + BLOCK, n);                               \
            T sum = 0;                                                              \
            _Pragma("omp simd reduction(+ : sum)") for (int64_t i = b; i < to; i++) \
            {                                                                       \
                const T x = xs[i];                                                  \
                sum += TERM;                                                        \
            }                                                                       \
            total += (double)sum;                                                   \
        }                                                                           \
        return total;                                                               \
    }                                                                               \
    static void NAME##_column(double *acc, const void *xv, int64_t n, int64_t step) \
    {                                                                               \
        const T *xs = xv;                                                           \
        COLUMN(acc[i] += TERM)                                                      \
    }
/* The extreme, and NaN if there is one. */
#define EXTREME(NAME, T, OP, FIRST)                                                 \
    static double NAME##_row(const void *xv, int64_t n)                             \
    {                                                                               \
        const T *xs = xv;                                                           \
        T best = FIRST;                                                             \
        for (int64_t i = 0; i < n; i++)                                             \
            best = xs[i] OP best || xs[i] != xs[i] ? xs[i] : best;                  \
        return (double)best;                                                        \
    }                                                                               \
    static void NAME##_column(double *acc, const void *xv, int64_t n, int64_t step) \
    {                                                                               \
        const T *xs = xv;                                                           \
        COLUMN(acc[i] = x OP acc[i] || x != x ? x : acc[i])                         \
    }
#define STORE(NAME, T, RESULT)                                        \
    static void NAME(void *y, int64_t at, const double *v, int64_t n) \
    {                                                                 \
        for (int64_t i = 0; i < n; i++)                               \
            ((T *)y)[at + i] = (T)(RESULT);                           \
    }
STORE(store_f32, float, v[i])
STORE(store_f64, double, v[i])
STORE(store_root_f32, float, sqrt(v[i]))
STORE(store_root_f64, double, sqrt(v[i]))
SUM(sum_f32, float, x)
SUM(sum_f64, double, x)
SUM(square_f32, float, x *x)
SUM(square_f64, double, x *x)
SUM(l1_f32, float, (x < 0 ? -x : x))
SUM(l1_f64, double, (x < 0 ? -x : x))
EXTREME(max_f32, float, >, -INFINITY)
EXTREME(max_f64, double, >, -INFINITY)
EXTREME(min_f32, float, <, INFINITY)
EXTREME(min_f64, double, <, INFINITY)

/* TERM: the family of its terms; STORE: of what its results become. */
#define RUN(NAME, TERM, FIRST, JOIN, STORE)                                                                           \
    static Status run_##NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)                              \
    {                                                                                                                 \
        static const Reduction f32 = { sizeof(float), FIRST, TERM##_f32_row, TERM##_f32_column, JOIN, STORE##_f32 };  \
        static const Reduction f64 = { sizeof(double), FIRST, TERM##_f64_row, TERM##_f64_column, JOIN, STORE##_f64 }; \
        return reduce(ctx, state, in[0].dtype == DT_FLOAT32 ? &f32 : &f64, in, out);                                  \
    }
RUN(sum, sum, 0, add, store)
RUN(square, square, 0, add, store)
RUN(l1, l1, 0, add, store)
RUN(l2, square, 0, add, store_root)
RUN(max, max, -INFINITY, larger, store)
RUN(min, min, INFINITY, smaller, store)

#define KERNEL(NAME) .dtypes = DTYPES_F32_F64, .prepare = prepare, .run = run_##NAME, .release = free

DEFINE_KERNEL(cpu_reduce_sum, .op = &op_ReduceSum, KERNEL(sum));
DEFINE_KERNEL(cpu_reduce_sum_square, .op = &op_ReduceSumSquare, KERNEL(square));
DEFINE_KERNEL(cpu_reduce_l1, .op = &op_ReduceL1, KERNEL(l1));
DEFINE_KERNEL(cpu_reduce_l2, .op = &op_ReduceL2, KERNEL(l2));
DEFINE_KERNEL(cpu_reduce_max, .op = &op_ReduceMax, KERNEL(max));
DEFINE_KERNEL(cpu_reduce_min, .op = &op_ReduceMin, KERNEL(min));
