/* Formulas of random operators: machine code of both widths and the loops over blocks give the bits of the operators
 * carried out one by one here, for ordinary numbers and for NaN, infinities and zeros of both signs. */
#include "kernels/cpu/update_steps.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/body.h"
#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "tests/harness/test.h"

enum { FORMULAS = 400, COUNT = 1083, ARRAYS = 3, SCALARS = 2, NODES = 12, MOST = ARRAYS + SCALARS + 1 + NODES };

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static double any_number(uint32_t *seed)
{
    static const double special[] = { 0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 1e-42, 3e38 };
    const uint32_t r = next_random(seed);

    if (r % 23 < sizeof special / sizeof *special)
        return special[r % 23];
    return ((double)(r % 20001) - 10000) / 1000;
}

/* ---- one by one: what kernels/ref/ does ---- */

typedef struct {
    const OpDef *op;
    int n_in;
} Known;

static const Known known[] = { { &op_Add, 2 }, { &op_Sub, 2 },  { &op_Mul, 2 }, { &op_Div, 2 }, { &op_Max, 2 },
                               { &op_Min, 2 }, { &op_Sqrt, 1 }, { &op_Abs, 1 }, { &op_Neg, 1 }, { &op_Sign, 1 } };
enum { N_KNOWN = sizeof known / sizeof *known };

#define ONE_BY_ONE(NAME, real, SQRT, FABS)                            \
    static real NAME(int what, real x, real y)                        \
    {                                                                 \
        switch (what) {                                               \
        case 0: return x + y;                                         \
        case 1: return x - y;                                         \
        case 2: return x * y;                                         \
        case 3: return x / y;                                         \
        case 4: return isnan(x) || isnan(y) ? x + y : x > y ? x : y;  \
        case 5: return isnan(x) || isnan(y) ? x + y : x < y ? x : y;  \
        case 6: return SQRT(x);                                       \
        case 7: return FABS(x);                                       \
        case 8: return -x;                                            \
        default: return isnan(x) ? x : (real)(x > 0) - (real)(x < 0); \
        }                                                             \
    }
ONE_BY_ONE(one_f32, float, sqrtf, fabsf)
ONE_BY_ONE(one_f64, double, sqrt, fabs)

/* ---- a random formula ---- */

typedef struct {
    DType type;
    Graph *body;
    int what[NODES], in[NODES][2], n_out, out[ARRAYS]; /* of values by number: arrays, scalars, a constant, nodes */
    double scalar[SCALARS], constant;
    double given[ARRAYS][COUNT];
} Random;

static void make(Random *r, uint32_t *seed, DType t)
{
    Shape s = SHAPE(COUNT), one = shape_scalar();
    ValueId v[MOST];
    int n = 0;

    r->type = t;
    r->body = graph_create("formula");
    for (int i = 0; i < ARRAYS; i++) {
        v[n++] = graph_add_input(r->body, "x", t, &s);
        for (int k = 0; k < COUNT; k++)
            r->given[i][k] = any_number(seed);
    }
    for (int i = 0; i < SCALARS; i++) {
        v[n++] = graph_add_input(r->body, "s", t, &one);
        r->scalar[i] = any_number(seed);
    }
    v[n++] = emit_scalar(r->body, t, r->constant = any_number(seed));
    for (int k = 0; k < NODES; k++) {
        const int what = (int)(next_random(seed) % N_KNOWN), a = (int)(next_random(seed) % (uint32_t)n),
                  b = (int)(next_random(seed) % (uint32_t)n);
        const ValueId in[] = { v[a], v[b] };

        r->what[k] = what;
        r->in[k][0] = a;
        r->in[k][1] = b;
        v[n++] = emit(r->body, known[what].op, NULL, known[what].n_in, in);
    }
    r->n_out = 1 + (int)(next_random(seed) % (ARRAYS - 1));
    for (int i = 0; i < r->n_out; i++) {
        r->out[i] = n - 1 - i * (int)(next_random(seed) % 4);
        body_return(r->body, v[r->out[i]]);
    }
    CHECK_OK(r->body->status);
}

static double rounded(const Random *r, double x) { return r->type == DT_FLOAT32 ? (double)(float)x : x; }

/* Result i of element k. */
static double expected(const Random *r, int i, int k)
{
    double v[MOST];
    int n = 0;

    for (int a = 0; a < ARRAYS; a++)
        v[n++] = rounded(r, r->given[a][k]);
    for (int s = 0; s < SCALARS; s++)
        v[n++] = rounded(r, r->scalar[s]);
    v[n++] = rounded(r, r->constant);
    for (int m = 0; m < NODES; m++) {
        const double x = v[r->in[m][0]], y = v[r->in[m][1]];

        v[n++] = r->type == DT_FLOAT32 ? (double)one_f32(r->what[m], (float)x, (float)y) : one_f64(r->what[m], x, y);
    }
    return v[r->out[i]];
}

/* ---- running it, results over the arrays of their numbers ---- */

typedef struct {
    _Alignas(64) char array[ARRAYS][(COUNT + 1) * sizeof(double)];
    _Alignas(64) char numbers[STEPS_NUMBERS + 2][STEPS_VECTOR];
    _Alignas(64) char narrow[STEPS_NUMBERS * sizeof(double)];
    _Alignas(64) char buffer[STEPS_MOST * STEPS_BLOCK * sizeof(double)];
} Memory;

static void put(DType t, void *at, int64_t i, double v)
{
    if (t == DT_FLOAT32)
        ((float *)at)[i] = (float)v;
    else
        ((double *)at)[i] = v;
}

static double get(DType t, const void *at, int64_t i)
{
    return t == DT_FLOAT32 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

/* Arrays begin one element behind a boundary. */
static void fill(Memory *m, const Random *r, const Steps *f, int vector, void **at)
{
    const int64_t size = (int64_t)dtype_size(r->type);
    char *wide = m->numbers[0];

    for (int i = 0; i < ARRAYS; i++) {
        at[i] = m->array[i] + size;
        for (int k = 0; k < COUNT; k++)
            put(r->type, at[i], k, r->given[i][k]);
    }
    for (int i = 0; i < f->n_number + 2; i++) {
        const int s = i < f->n_number ? f->number[i].scalar : -1;
        const double v = i == f->n_number       ? -0.0
                         : i == f->n_number + 1 ? 1
                         : s < 0                ? f->number[i].constant
                                                : r->scalar[s];

        for (int64_t k = 0; k < vector / size; k++)
            put(r->type, wide, i * (vector / size) + k, v);
        if (i < f->n_number)
            put(r->type, m->narrow, i, v);
    }
}

static bool same(double x, double y) { return isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y); }

static void compare(const Random *r, void *const *at, int64_t count)
{
    int wrong = 0;

    for (int i = 0; i < r->n_out; i++)
        for (int64_t k = 0; k < count; k++)
            wrong += !same(get(r->type, at[i], k), expected(r, i, (int)k));
    CU_ASSERT_EQUAL(wrong, 0);
}

/* vector 0: by blocks. */
static bool run(Memory *m, const Random *r, const Steps *f, int vector)
{
    StepsCode *code = vector ? steps_assemble(f, vector) : NULL;
    int64_t count = COUNT;
    void *at[ARRAYS];

    if (vector && !code)
        return false;
    fill(m, r, f, vector, at);
    if (code) {
        count = (int64_t)(COUNT * dtype_size(r->type)) / vector * vector;
        code((const void *const *)at, at, m->numbers, count);
        count /= (int64_t)dtype_size(r->type);
    } else {
        (r->type == DT_FLOAT32 ? steps_run_f32 : steps_run_f64)(f, COUNT, (const void *const *)at, at, m->narrow,
                                                                m->buffer);
    }
    compare(r, at, count);
    steps_free_code(code);
    return true;
}

static void test_type(DType t)
{
    const int widest = steps_vector();
    Memory *m = aligned_alloc(64, sizeof *m);
    Random *r = calloc(1, sizeof *r);
    int assembled = 0;

    for (uint32_t i = 0, seed = 1; m && r && i < FORMULAS; i++) {
        static Steps f;

        make(r, &seed, t);
        CHECK_OK(steps_compile(&f, r->body, ARRAYS, true));
        run(m, r, &f, 0);
        for (int vector = 32; vector <= widest; vector *= 2)
            assembled += run(m, r, &f, vector);
        graph_free(r->body);
    }
    CU_ASSERT(!widest || assembled > FORMULAS / 2);
    free(m);
    free(r);
}

static void test_f32(void) { test_type(DT_FLOAT32); }
static void test_f64(void) { test_type(DT_FLOAT64); }

DEFINE_SUITE(update_steps, { "float32", test_f32 }, { "float64", test_f64 });
