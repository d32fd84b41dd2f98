/* The rows of kernels/formulas.def against mpmath and PyTorch (tests/kernels/formulas.txt): the reference kernels and
 * the vector loops, in both types; and the derivatives against central differences in float64. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/arena.h"
#include "graph/ir/emit.h"
#include "kernels/backend.h"
#include "tests/harness/test.h"

enum { LINE = 256, POINTS = 512, ULPS = 8 };

typedef struct {
    char name[32];
    Attr attr[4];
    int n_in, count;
    double a[POINTS], b[POINTS], y[POINTS], scale[POINTS];
} Row;

/* "Elu alpha=1.5": words behind = are numbers or strings. */
static void read_head(Row *r, const char *line, Arena *arena)
{
    char word[2][32];
    int at = 0, used, n = 0;

    CU_ASSERT_FATAL(sscanf(line, "op %31s%n", r->name, &at) == 1);
    memset(r->attr, 0, sizeof r->attr);
    for (; sscanf(line + at, " %31[a-z_]=%31s%n", word[0], word[1], &used) == 2; at += used) {
        const char *name = arena_strdup(arena, word[0]);
        const bool is_int = !strncmp(name, "detect", 6) || !strcmp(name, "fmod");

        char *end;
        const double number = strtod(word[1], &end);

        CU_ASSERT_FATAL(n < 3);
        r->attr[n++] = is_int ? (Attr)INT(name, atoi(word[1]))
                       : *end ? (Attr)STRING(name, arena_strdup(arena, word[1]))
                              : (Attr)FLOAT(name, number);
    }
    r->n_in = r->count = 0;
}

static void read_point(Row *r, const char *line)
{
    double v[4];
    char *end;
    int n = 0;

    for (double x = strtod(line, &end); end != line && n < 4; x = strtod(line, &end)) {
        v[n++] = x;
        line = end;
    }
    CU_ASSERT_FATAL((n == 3 || n == 4) && r->count < POINTS && (!r->n_in || r->n_in == n - 2));
    r->n_in = n - 2;
    r->a[r->count] = v[0];
    r->b[r->count] = v[1];
    r->y[r->count] = v[n - 2];
    r->scale[r->count++] = v[n - 1];
}

static double get(const void *data, DType t, int i)
{
    return t == DT_BOOL      ? ((const bool *)data)[i]
           : t == DT_FLOAT32 ? (double)((const float *)data)[i]
                             : ((const double *)data)[i];
}

/* The kernel of the list at the row's points; false: the list has none. */
static bool run_row(double *y, const Kernel *const *list, int len, const Row *r, DType t)
{
    static double in[2][POINTS], out[POINTS];
    Graph *g = graph_create("row");
    Shape s = SHAPE(r->count);
    const ValueId x[] = { graph_add_input(g, "a", t, &s), graph_add_input(g, "b", t, &s) };
    const OpDef *op = op_find(NULL, r->name);
    Tensor given[] = { { t, s, in[0] }, { t, s, in[1] } }, made = { t, s, out };
    KernelCtx ctx = { .n_threads = 1 };
    void *state = NULL;
    const Kernel *k;

    for (int i = 0; i < r->count; i++)
        for (int j = 0; j < 2; j++)
            if (t == DT_FLOAT32)
                ((float *)in[j])[i] = (float)(j ? r->b : r->a)[i];
            else
                in[j][i] = (j ? r->b : r->a)[i];
    emit(g, op ? op : op_find("dpexec", r->name), r->attr, r->n_in, x);
    CHECK_OK(g->status);
    made.dtype = value(g, g->node[0]->out[0])->dtype;
    k = kernel_find(list, len, g, g->node[0]);
    if (k) {
        CHECK_OK(k->prepare(&state, &ctx, g, g->node[0]));
        CHECK_OK(k->run(&ctx, state, given, &made));
        free(state);
        for (int i = 0; i < r->count; i++)
            y[i] = get(out, made.dtype, i);
    }
    graph_free(g);
    return k;
}

/* Units of the last place of |y| + scale, and of the smallest subnormal; an exact zero keeps its sign. */
static bool is_right(double found, const Row *r, int i, DType t)
{
    const double y = r->y[i], unit = t == DT_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    const double least = t == DT_FLOAT32 ? 0x1p-149 : 0x1p-1074, most = t == DT_FLOAT32 ? (double)FLT_MAX : DBL_MAX;

    if (isnan(y) || isnan(found))
        return isnan(y) && isnan(found);
    if (r->a[i] == 0 && y == 0 && r->n_in == 1 && signbit(y) != signbit(found))
        return false;
    if (fabs(y) > most || isinf(found))
        return (isinf(found) && signbit(found) == signbit(y) && fabs(y) >= most * (1 - ULPS * unit)) || found == y;
    return fabs(found - y) <= ULPS * (unit / 2 * (fabs(y) + r->scale[i]) + least);
}

/* float32 takes the points that it holds exactly. */
static void check_row(const char *where, const Kernel *const *list, int len, const Row *r, DType t)
{
    static Row held;
    static double y[POINTS];

    held = *r;
    held.count = 0;
    for (int i = 0; i < r->count; i++) {
        const double a = r->a[i], b = r->b[i];

        if (t == DT_FLOAT32 && (((double)(float)a != a && !isnan(a)) || ((double)(float)b != b && !isnan(b))))
            continue;
        held.a[held.count] = a;
        held.b[held.count] = b;
        held.y[held.count] = r->y[i];
        held.scale[held.count++] = r->scale[i];
    }
    if (!run_row(y, list, len, &held, t))
        return;
    for (int i = 0; i < held.count; i++)
        if (!is_right(y[i], &held, i, t))
            TEST_FAIL("%s kernel of %s, %s, at %.17g, %.17g: %.17g, expected %.17g", where, r->name, dtype_name(t),
                      held.a[i], held.b[i], y[i], held.y[i]);
}

static int check_lists(const Row *r)
{
    for (int t = 0; r->count && t < 2; t++) {
        check_row("reference", kernels_ref, kernels_ref_len, r, t ? DT_FLOAT64 : DT_FLOAT32);
        for (int s = 0; cpu_kernels_at(s).isa; s++)
            check_row(cpu_kernels_at(s).isa, cpu_kernels_at(s).kernel, cpu_kernels_at(s).n, r,
                      t ? DT_FLOAT64 : DT_FLOAT32);
    }
    return r->count;
}

static void test_values(void)
{
    FILE *f = fopen(SOURCE_DIR "/tests/kernels/formulas.txt", "r");
    Arena *arena = arena_create();
    static Row r;
    char line[LINE];
    int points = 0;

    CU_ASSERT_FATAL(f && arena);
    r.count = 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "op ", 3)) {
            points += check_lists(&r);
            read_head(&r, line, arena);
        } else if (*line != '#') {
            read_point(&r, line);
        }
    points += check_lists(&r);
    CU_ASSERT(points > 3000);
    fclose(f);
    arena_free(arena);
}

/* ---- derivatives ---- */

static void fill(Row *r, const char *name, const Attr *how)
{
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", name);
    if (how)
        r->attr[0] = *how;
}

/* f' by the gradient kernel, of dy = 1 and of y (or of x), against (f(x + h) - f(x - h)) / 2h. */
static void check_slope(const char *name, const char *gradient, const Attr *how, bool by_input)
{
    static Row f, d;
    static double y[POINTS], slope[POINTS];
    const double h = 0x1p-17;

    fill(&f, name, how);
    fill(&d, gradient, how);
    f.n_in = 1;
    d.n_in = 2;
    for (int i = 0; i < 100; i++)
        for (int k = -1; k <= 1; k++)
            f.a[f.count++] = (i - 49.5) / 8 + k * h;
    CU_ASSERT_FATAL(run_row(y, kernels_ref, kernels_ref_len, &f, DT_FLOAT64));
    for (int i = 0; i < 100; i++) {
        d.a[i] = 1;
        d.b[i] = by_input ? f.a[3 * i + 1] : y[3 * i + 1];
    }
    d.count = 100;
    CU_ASSERT_FATAL(run_row(slope, kernels_ref, kernels_ref_len, &d, DT_FLOAT64));
    for (int i = 0; i < 100; i++) {
        const double expected = (y[3 * i + 2] - y[3 * i]) / (2 * h);

        if (!(fabs(slope[i] - expected) <= 1e-9))
            TEST_FAIL("%s at %g: %.12g, differences say %.12g", gradient, f.a[3 * i + 1], slope[i], expected);
    }
}

static void test_slopes(void)
{
    check_slope("Relu", "ReluGrad", NULL, false);
    check_slope("Sigmoid", "SigmoidGrad", NULL, false);
    check_slope("Tanh", "TanhGrad", NULL, false);
    check_slope("Gelu", "GeluGrad", &(Attr)STRING("approximate", "none"), true);
    check_slope("Gelu", "GeluGrad", &(Attr)STRING("approximate", "tanh"), true);
}

DEFINE_SUITE(formulas, { "values of mpmath and PyTorch", test_values }, { "slopes against differences", test_slopes });
