/* refold: computes a tensor again that the exporter computed from a parameter of the file.
 *
 * PyTorch's default exporter folds 1 / p of a parameter p into a tensor of its own and records its sources
 * (folded_from).  Trained as a parameter beside p, that tensor would drift away from p.  If one simple formula of one
 * or two named sources gives the file's numbers to the last bit, the formula replaces the tensor:
 *
 *   1 / a, -a, a         of a as it is, reshaped or transposed
 *   a * c, c / a, a + c, c - a       with a constant c
 *   a + b, a - b, a * b, a / b
 *   exp, log, sqrt, sigmoid, tanh, softplus of a or -a       to two units in the last place, since libraries round
 *                                                            differently, and only if a name shows the function
 *
 * The older exporter (TorchScript) folds as well but records no sources.  There the pass tries -a, 1 / a and sqrt(a) of
 * every tensor with a name of the module, and replaces the tensor if exactly one fits.
 *
 * Example: p = {3}, mul = {0.33333334} of "['p', 'reciprocal', 'val_6']" becomes Reciprocal(p).
 *
 * Equal numbers throughout fit several formulas.  There c is 1, and if more than one formula fits, the names of the
 * intermediate results decide ("reciprocal", "neg", "rsub").  find-parameters decides about tensors that no formula
 * explains. */
#include <math.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"
#include "passes/model/parameters.h"

typedef enum {
    SAME,
    INVERSE,
    NEGATIVE,
    REST,
    SCALED,
    RATIO,
    RAISED,
    SUM,
    DIFFERENCE,
    PRODUCT,
    QUOTIENT,
    FUNCTION
} Form;
enum { MAX_SOURCES = 8, MAX_AXES = 4 };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

typedef enum { EXP, LOG, SQRT, SIGMOID, TANH, SOFTPLUS, N_FUNCTIONS } Function;

static const struct {
    const char *name; /* the results' name in the exporter's words */
    double (*of)(double);
} functions[] = { [EXP] = { "exp", exp },    [LOG] = { "log", log },
                  [SQRT] = { "sqrt", sqrt }, [SIGMOID] = { "sigmoid", sigmoid },
                  [TANH] = { "tanh", tanh }, [SOFTPLUS] = { "softplus", softplus } };

/* A source, and how the result's elements read it: `perm`, and sizes and strides by the axes of the transposed source.
 */
typedef struct {
    ValueId v;
    const Tensor *t;
    int64_t perm[MAX_AXES], dim[MAX_AXES], stride[MAX_AXES];
    bool transposed;
} Source;

/* Element i of the source in the order of the result. */
static double refold_read(const Source *s, int64_t i)
{
    int64_t at = 0;

    if (tensor_numel(s->t) == 1)
        return tensor_float(s->t, 0);
    if (!s->transposed)
        return tensor_float(s->t, i);
    for (int k = s->t->shape.rank; k-- > 0; i /= s->dim[k])
        at += i % s->dim[k] * s->stride[k];
    return tensor_float(s->t, at);
}

/* Computes in double and rounds once, which gives the same bits as these operations of float32. */
static double refold_compute(Form form, double a, double b, DType dtype)
{
    double y = a;

    switch (form) {
    case SAME: break;
    case INVERSE: y = 1 / a; break;
    case NEGATIVE: y = -a; break;
    case SCALED:
    case PRODUCT: y = a * b; break;
    case RATIO: y = b / a; break;
    case QUOTIENT: y = a / b; break;
    case RAISED:
    case SUM: y = a + b; break;
    case REST: y = b - a; break;
    case DIFFERENCE: y = a - b; break;
    case FUNCTION: break;
    }
    return dtype == DT_FLOAT32 ? (double)(float)y : y;
}

/* Does the formula give y to the bit?  b NULL: its second operand is the constant c. */
static bool refold_fits(Form form, const Source *a, const Source *b, double c, const Tensor *y)
{
    for (int64_t i = 0; i < tensor_numel(y); i++)
        if (refold_compute(form, refold_read(a, i), b ? refold_read(b, i) : c, y->dtype) != tensor_float(y, i))
            return false;
    return true;
}

/* *c: the constant for which the formula gives y: the one that the first nonzero number implies, or a float beside it.
 */
static bool find_constant(double *c, Form form, const Source *a, const Tensor *y)
{
    double s = 0, r = 0, guess;

    for (int64_t i = 0; i < tensor_numel(y) && s == 0; i++) {
        s = refold_read(a, i);
        r = tensor_float(y, i);
    }
    guess = form == SCALED ? r / s : form == RATIO ? r * s : form == RAISED ? r - s : r + s;
    for (int step = -2; step <= 2; step++) {
        float near = (float)guess;

        for (int k = 0; k < (step < 0 ? -step : step); k++)
            near = nextafterf(near, step < 0 ? -INFINITY : INFINITY);
        *c = near;
        if (isfinite(*c) && refold_fits(form, a, NULL, *c, y))
            return true;
    }
    return false;
}

/* Does the name of the tensor, or of an intermediate result, show the form? */
static bool name_shows(const Value *v, Form form)
{
    static const char *const names[][2] = {
        [INVERSE] = { "'reciprocal", "'div" }, [NEGATIVE] = { "'neg", "'neg" }, [REST] = { "'rsub", "'sub" }
    };

    for (int i = 0; form != SAME && i < 2; i++)
        if (strstr(v->folded_from, names[form][i]) || !strncmp(v->name, names[form][i] + 1, strlen(names[form][i]) - 1))
            return true;
    return false;
}

/* Finds the one formula of the source a, with a constant *c at most, that gives v.  False: none does, or several do. */
static bool find_unary(Form *out, double *c, const Source *a, const Value *v)
{
    int n = 0, n_named = 0;
    Form first = SAME, named_form = SAME;

    for (Form f = REST + 1; f-- > SAME;)
        if (refold_fits(f, a, NULL, 1, v->init)) {
            const bool named = name_shows(v, f);

            n++;
            n_named += named;
            first = f;
            named_form = named ? f : named_form;
        }
    *out = n_named ? named_form : first;
    *c = 1;
    if (n || tensor_numel(v->init) == 1 || tensor_is_filled(v->init))
        return n_named ? n_named == 1 : n == 1;
    for (*out = REST; *out <= RAISED; ++*out)
        if (find_constant(c, *out, a, v->init))
            return true;
    return false;
}

/* Has the tensor, or an intermediate result, the name `name`, possibly with a number behind it? */
static bool has_result(const Value *v, const char *name)
{
    const size_t n = strlen(name);

    if (!strncmp(v->name, name, n) && (!v->name[n] || v->name[n] == '_'))
        return true;
    for (const char *s = v->folded_from; (s = strstr(s, name)); s += n)
        if (s > v->folded_from && s[-1] == '\'' && (s[n] == '\'' || s[n] == '_'))
            return true;
    return false;
}

/* Does the function of a, or of -a, give y to two units in the last place, and the sign of a zero? */
static bool fits_function(Function f, const Source *a, bool negated, const Tensor *y)
{
    for (int64_t i = 0; i < tensor_numel(y); i++) {
        const double x = refold_read(a, i), got = functions[f].of(negated ? -x : x), want = tensor_float(y, i);
        const double unit = y->dtype == DT_FLOAT32 ? (double)nextafterf(fabsf((float)want), INFINITY) - fabs(want)
                                                   : nextafter(fabs(want), INFINITY) - fabs(want);

        if (!(fabs(got - want) <= 2 * unit) && !(isnan(got) && isnan(want)))
            return false;
        if (want == 0 && !signbit(got) != !signbit(want))
            return false;
    }
    return true;
}

/* The function of a that gives v and that a name shows; N_FUNCTIONS: there is none. */
static Function find_function(bool *negated, const Source *a, const Value *v)
{
    for (Function f = EXP; f < N_FUNCTIONS; f++)
        for (int sign = 0; sign < 2; sign++)
            if (has_result(v, functions[f].name) && sign == has_result(v, "neg") &&
                fits_function(f, a, sign, v->init)) {
                *negated = sign;
                return f;
            }
    return N_FUNCTIONS;
}

/* The source as a tensor of this shape, or as one number. */
static ValueId operand(Graph *g, const Source *s, const Shape *shape)
{
    const ValueId x = s->transposed ? emit_transpose(g, s->v, s->t->shape.rank, s->perm) : s->v;

    return tensor_numel(s->t) == 1 && shape_numel(shape) > 1 ? x : emit_reshape(g, x, shape);
}

static ValueId emit_form(Graph *g, Form form, const Source *a, const Source *b, double c, const Tensor *y)
{
    const ValueId x = operand(g, a, &y->shape);
    const ValueId z = b                                ? operand(g, b, &y->shape)
                      : form >= REST && form <= RAISED ? emit_scalar(g, y->dtype, c)
                                                       : NO_VALUE;

    switch (form) {
    case SAME: return x;
    case INVERSE: return EMIT(g, Reciprocal, NULL, x);
    case NEGATIVE: return EMIT(g, Neg, NULL, x);
    case SCALED:
    case PRODUCT: return EMIT(g, Mul, NULL, x, z);
    case RATIO: return EMIT(g, Div, NULL, z, x);
    case QUOTIENT: return EMIT(g, Div, NULL, x, z);
    case RAISED:
    case SUM: return EMIT(g, Add, NULL, x, z);
    case REST: return EMIT(g, Sub, NULL, z, x);
    case DIFFERENCE: return EMIT(g, Sub, NULL, x, z);
    case FUNCTION: break;
    }
    return NO_VALUE;
}

static ValueId emit_function(Graph *g, Function f, const Source *a, bool negated, const Tensor *y)
{
    ValueId x = operand(g, a, &y->shape);

    x = negated ? EMIT(g, Neg, NULL, x) : x;
    switch (f) {
    case EXP: return EMIT(g, Exp, NULL, x);
    case LOG: return EMIT(g, Log, NULL, x);
    case SQRT: return EMIT(g, Sqrt, NULL, x);
    case SIGMOID: return EMIT(g, Sigmoid, NULL, x);
    case TANH: return EMIT(g, Tanh, NULL, x);
    case SOFTPLUS: return EMIT(g, Softplus, NULL, x);
    case N_FUNCTIONS: break;
    }
    return NO_VALUE;
}

static Status replace(Graph *g, PassCtx *ctx, Value *v, ValueId old, ValueId by, const Source *a, const Source *b)
{
    char how[256];

    TRY(g->status);
    graph_replace(g, old, by);
    TRY(g->status);
    v->tied = true;
    ctx->n_changed++;
    snprintf(how, sizeof how, "%.100s%s%.100s", value(g, a->v)->name, b ? " and " : "", b ? value(g, b->v)->name : "");
    return report_note(
        ctx->report, NOTE_OTHER, v->name,
        "the exporter computed it from %s, which the model has: it is computed from there again (--train "
        "'%s' trains it apart)",
        how, v->name);
}

/* ---- sources ---- */

static void swap(int64_t *a, int64_t *b)
{
    const int64_t t = *a;

    *a = *b;
    *b = t;
}

/* Steps to the next permutation in lexicographic order, as std::next_permutation does.  False: it was the last. */
static bool next_order(int64_t *perm, int n)
{
    int i = n - 1, k = n - 1;

    while (i > 0 && perm[i - 1] >= perm[i])
        i--;
    if (i <= 0)
        return false;
    while (perm[k] <= perm[i - 1])
        k--;
    swap(&perm[i - 1], &perm[k]);
    for (k = n - 1; i < k; i++, k--)
        swap(&perm[i], &perm[k]);
    return true;
}

/* Transposes the source to the next order of its axes.  False: there is none. */
static bool refold_turn(Source *s)
{
    const Shape *shape = &s->t->shape;
    const int rank = shape->rank;

    if (rank < 2 || rank > MAX_AXES || !next_order(s->perm, rank))
        return false;
    s->transposed = true;
    for (int k = 0; k < rank; k++) {
        s->dim[k] = shape->dim[s->perm[k]];
        s->stride[k] = 1;
        for (int i = (int)s->perm[k] + 1; i < rank; i++)
            s->stride[k] *= shape->dim[i];
    }
    return true;
}

/* Lists the constants that the exporter names as sources, of as many numbers as v or of one.  Returns their number. */
static int list_sources(Source *list, const Graph *g, const Value *v)
{
    char part[256];
    int n = 0;

    for (const char *s = strchr(v->folded_from, '\''), *end; s && (end = strchr(s + 1, '\'')) && n < MAX_SOURCES;
         s = strchr(end + 1, '\'')) {
        const size_t len = (size_t)(end - s - 1);
        ValueId at;
        const Value *x;

        if (len >= sizeof part)
            continue;
        memcpy(part, s + 1, len);
        part[len] = '\0';
        if (!has_value(at = graph_find(g, part)) || (x = value(g, at)) == v || x->kind != V_CONST || x->tied ||
            x->dtype != v->dtype || !x->init || !x->init->data || x->evidence == EVIDENCE_BUFFER ||
            (tensor_numel(x->init) != tensor_numel(v->init) && tensor_numel(x->init) != 1))
            continue;
        list[n++] = (Source){ .v = at, .t = x->init, .perm = { 0, 1, 2, 3 } };
    }
    return n;
}

static Status refold(Graph *g, PassCtx *ctx, ValueId at)
{
    Value *v = value(g, at);
    Source list[MAX_SOURCES];
    const int n = list_sources(list, g, v);
    Function function;
    Form form = SAME;
    bool negated;
    double c = 1;

    for (int i = 0; i < n; i++) {
        Source s = list[i];

        if (tensor_numel(s.t) != tensor_numel(v->init))
            continue;
        do {
            if (find_unary(&form, &c, &s, v))
                return replace(g, ctx, v, at, emit_form(g, form, &s, NULL, c, v->init), &s, NULL);
            if ((function = find_function(&negated, &s, v)) < N_FUNCTIONS)
                return replace(g, ctx, v, at, emit_function(g, function, &s, negated, v->init), &s, NULL);
        } while (refold_turn(&s));
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (form = SUM; form <= QUOTIENT && i != k && tensor_numel(v->init) > 1; form++)
                if (!tensor_is_filled(v->init) && refold_fits(form, &list[i], &list[k], 0, v->init))
                    return replace(g, ctx, v, at, emit_form(g, form, &list[i], &list[k], 0, v->init), &list[i],
                                   &list[k]);
    return ST_OK;
}

/* ---- files without recorded sources ---- */

/* Replaces a tensor without recorded sources, if it is -a, 1 / a or sqrt(a) of exactly one tensor a. */
static Status refold_legacy(Graph *g, PassCtx *ctx, ValueId at)
{
    static const Form forms[] = { INVERSE, NEGATIVE, FUNCTION };
    Value *v = value(g, at);
    const double first = tensor_float(v->init, 0);
    Source found = { 0 };
    Form form = SAME;
    int n = 0;

    /* 0, 1 and -1 throughout are common numbers; a -0 comes from a negation. */
    if (tensor_is_filled(v->init) && (first != 0 ? fabs(first) == 1 : !signbit(first)))
        return ST_OK;
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *x = g->value[i];
        const Source s = { .v = { i }, .t = x->init, .perm = { 0, 1, 2, 3 } };

        if (x->kind != V_CONST || x->origin != ORIGIN_INITIALIZER || x->dtype != v->dtype || !x->init ||
            !x->init->data || x->tied || !shape_eq(x->shape, v->shape) || name_form(g, x, false) != NAME_KEY)
            continue;
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            if (forms[k] == FUNCTION ? fits_function(SQRT, &s, false, v->init)
                                     : refold_fits(forms[k], &s, NULL, 1, v->init)) {
                found = s;
                form = forms[k];
                n++;
            }
    }
    if (n != 1)
        return ST_OK;
    return replace(g, ctx, v, at,
                   form == FUNCTION ? emit_function(g, SQRT, &found, false, v->init)
                                    : emit_form(g, form, &found, NULL, 1, v->init),
                   &found, NULL);
}

static Status refold_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n = g->n_value;

    for (uint32_t i = 1; i < n; i++) {
        const Value *v = g->value[i];
        /* The older exporter names the initializers that it computes "onnx::Exp_72". */
        const bool legacy = v->kind == V_CONST && !v->folded_from && v->origin == ORIGIN_INITIALIZER &&
                            !strncmp(v->name, "onnx::", 6) && producer_is(g, "pytorch") && !from_torch_export(g);

        if (v->kind == V_CONST && (v->folded_from || legacy) && (v->dtype == DT_FLOAT32 || v->dtype == DT_FLOAT64) &&
            v->init && v->init->data && tensor_numel(v->init) && !v->next && v->evidence == EVIDENCE_NONE &&
            pattern_rule(ctx->opt, v->name, NULL) == PATTERN_SILENT)
            TRY(legacy ? refold_legacy(g, ctx, (ValueId){ i }) : refold(g, ctx, (ValueId){ i }));
    }
    return graph_sort(g);
}

const Pass pass_refold = { .name = "refold",
                           .summary = "tensors that the exporter computed from a parameter are computed from it again",
                           .run = refold_run };
