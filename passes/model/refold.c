/* refold: a tensor that the exporter computed from a parameter which the file still has is computed from it again.
 *
 * PyTorch's default exporter folds 1 / p of a parameter p into a tensor of its own and says from what (folded_from).
 * Trained beside p it would go its own way.  Where one simple formula of a named source, or of two, gives the file's
 * numbers to the last bit, that formula takes the tensor's place: 1 / a, -a, a itself, a * c, c / a, a + c, c - a with
 * a constant c, a + b, a - b, a * b, a / b, of a as it is, reshaped or transposed.  Of exp, log, sqrt, sigmoid, tanh
 * and softplus of a or -a, which libraries round differently, the numbers may be two units in the last place apart, and
 * a name must tell the function.
 *
 * The older exporter (TorchScript) folds as well, and does not say from what: there -a, 1 / a and sqrt(a) of a tensor
 * with a name of the module are looked for, and one alone may fit.
 *
 * Example: p = {3}, mul = {0.33333334} of "['p', 'reciprocal', 'val_6']" becomes Reciprocal(p).
 *
 * Numbers that are all the same fit several formulas; there c is 1, and where more than one fits, the names of the
 * results in between decide ("reciprocal", "neg", "rsub").  What nothing explains is find-parameters' to decide. */
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
    const char *name; /* of results in the exporter's words */
    double (*of)(double);
} functions[] = { [EXP] = { "exp", exp },    [LOG] = { "log", log },
                  [SQRT] = { "sqrt", sqrt }, [SIGMOID] = { "sigmoid", sigmoid },
                  [TANH] = { "tanh", tanh }, [SOFTPLUS] = { "softplus", softplus } };

/* A source as the result's elements read it: dim and stride by the result's axes before it is reshaped. */
typedef struct {
    ValueId v;
    const Tensor *t;
    int64_t perm[MAX_AXES], dim[MAX_AXES], stride[MAX_AXES];
    bool turned;
} Source;

static double refold_read(const Source *s, int64_t i)
{
    int64_t at = 0;

    if (tensor_numel(s->t) == 1)
        return tensor_float(s->t, 0);
    if (!s->turned)
        return tensor_float(s->t, i);
    for (int k = s->t->shape.rank; k-- > 0; i /= s->dim[k])
        at += i % s->dim[k] * s->stride[k];
    return tensor_float(s->t, at);
}

/* In double and rounded once, which is exact to the bit for these operations of float32. */
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

/* b NULL: the constant c. */
static bool refold_fits(Form form, const Source *a, const Source *b, double c, const Tensor *y)
{
    for (int64_t i = 0; i < tensor_numel(y); i++)
        if (refold_compute(form, refold_read(a, i), b ? refold_read(b, i) : c, y->dtype) != tensor_float(y, i))
            return false;
    return true;
}

/* The constant that the first number which is not 0 asks for, or a neighbour of it. */
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

/* Does the name of the tensor, or of a result on the way to it, tell the form? */
static bool says(const Value *v, Form form)
{
    static const char *const names[][2] = {
        [INVERSE] = { "'reciprocal", "'div" }, [NEGATIVE] = { "'neg", "'neg" }, [REST] = { "'rsub", "'sub" }
    };

    for (int i = 0; form != SAME && i < 2; i++)
        if (strstr(v->folded_from, names[form][i]) || !strncmp(v->name, names[form][i] + 1, strlen(names[form][i]) - 1))
            return true;
    return false;
}

/* Of one source. */
static bool find_unary(Form *out, double *c, const Source *a, const Value *v)
{
    int n = 0, n_said = 0;
    Form first = SAME, said = SAME;

    for (Form f = REST + 1; f-- > SAME;)
        if (refold_fits(f, a, NULL, 1, v->init)) {
            const bool named = says(v, f);

            n++;
            n_said += named;
            first = f;
            said = named ? f : said;
        }
    *out = n_said ? said : first;
    *c = 1;
    if (n || tensor_numel(v->init) == 1 || tensor_is_filled(v->init))
        return n_said ? n_said == 1 : n == 1;
    for (*out = REST; *out <= RAISED; ++*out)
        if (find_constant(c, *out, a, v->init))
            return true;
    return false;
}

/* Is `name` that of the tensor, or of a result on the way to it, with a number behind it or none? */
static bool is_on_way(const Value *v, const char *name)
{
    const size_t n = strlen(name);

    if (!strncmp(v->name, name, n) && (!v->name[n] || v->name[n] == '_'))
        return true;
    for (const char *s = v->folded_from; (s = strstr(s, name)); s += n)
        if (s > v->folded_from && s[-1] == '\'' && (s[n] == '\'' || s[n] == '_'))
            return true;
    return false;
}

/* Two units in the last place apart at most? */
static bool is_near(double y, double t, DType dtype)
{
    const double unit = dtype == DT_FLOAT32 ? (double)nextafterf(fabsf((float)t), INFINITY) - fabs(t)
                                            : nextafter(fabs(t), INFINITY) - fabs(t);

    return fabs(y - t) <= 2 * unit || (isnan(y) && isnan(t));
}

static bool fits_function(Function f, const Source *a, bool negated, const Tensor *y)
{
    for (int64_t i = 0; i < tensor_numel(y); i++)
        if (!is_near(functions[f].of(negated ? -refold_read(a, i) : refold_read(a, i)), tensor_float(y, i), y->dtype))
            return false;
    return true;
}

/* N_FUNCTIONS: none. */
static Function find_function(bool *negated, const Source *a, const Value *v)
{
    for (Function f = EXP; f < N_FUNCTIONS; f++)
        for (int sign = 0; sign < 2; sign++)
            if (is_on_way(v, functions[f].name) && sign == is_on_way(v, "neg") && fits_function(f, a, sign, v->init)) {
                *negated = sign;
                return f;
            }
    return N_FUNCTIONS;
}

static ValueId operand(Graph *g, const Source *s, const Shape *shape)
{
    const ValueId turned = s->turned ? emit_transpose(g, s->v, s->t->shape.rank, s->perm) : s->v;

    return tensor_numel(s->t) == 1 && shape_numel(shape) > 1 ? turned : emit_reshape(g, turned, shape);
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

/* The next order of the axes, as std::next_permutation has it; false: that was the last. */
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

static bool refold_turn(Source *s)
{
    const Shape *shape = &s->t->shape;
    const int rank = shape->rank;

    if (rank < 2 || rank > MAX_AXES || !next_order(s->perm, rank))
        return false;
    s->turned = true;
    for (int k = 0; k < rank; k++) {
        s->dim[k] = shape->dim[s->perm[k]];
        s->stride[k] = 1;
        for (int i = (int)s->perm[k] + 1; i < rank; i++)
            s->stride[k] *= shape->dim[i];
    }
    return true;
}

/* Constants that the exporter names, of as many numbers or of one. */
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

/* ---- files that do not say from what ---- */

/* 0, 1 and -1 come from anywhere; a 0 that was negated does not. */
static bool is_telling(const Tensor *y)
{
    const double first = tensor_float(y, 0);

    return !tensor_is_filled(y) || (first != 0 ? fabs(first) != 1 : signbit(first) != 0);
}

static bool fits_legacy(const Source *a, int form, const Tensor *y)
{
    return form == FUNCTION ? fits_function(SQRT, a, false, y) : refold_fits((Form)form, a, NULL, 1, y);
}

static Status refold_legacy(Graph *g, PassCtx *ctx, ValueId at)
{
    static const int forms[] = { INVERSE, NEGATIVE, FUNCTION };
    Value *v = value(g, at);
    Source found = { 0 };
    int form = SAME, n = 0;

    if (!is_telling(v->init))
        return ST_OK;
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *x = g->value[i];
        const Source s = { .v = { i }, .t = x->init, .perm = { 0, 1, 2, 3 } };

        if (x->kind != V_CONST || x->origin != ORIGIN_INITIALIZER || x->dtype != v->dtype || !x->init ||
            !x->init->data || x->tied || !shape_eq(x->shape, v->shape) || name_form(g, x, false) != NAME_KEY)
            continue;
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
            if (fits_legacy(&s, forms[k], v->init)) {
                found = s;
                form = forms[k];
                n++;
            }
    }
    if (n != 1)
        return ST_OK;
    return replace(g, ctx, v, at,
                   form == FUNCTION ? emit_function(g, SQRT, &found, false, v->init)
                                    : emit_form(g, (Form)form, &found, NULL, 1, v->init),
                   &found, NULL);
}

/* The older exporter's own initializers ("onnx::Exp_72") are results of its folding. */
static bool is_legacy_fold(const Graph *g, const Value *v)
{
    return !v->folded_from && v->origin == ORIGIN_INITIALIZER && !strncmp(v->name, "onnx::", 6) &&
           producer_is(g, "pytorch") && !from_torch_export(g);
}

static Status refold_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n = g->n_value;

    for (uint32_t i = 1; i < n; i++) {
        const Value *v = g->value[i];

        const bool legacy = v->kind == V_CONST && is_legacy_fold(g, v);

        if (v->kind == V_CONST && (v->folded_from || legacy) && (v->dtype == DT_FLOAT32 || v->dtype == DT_FLOAT64) &&
            v->init && v->init->data && tensor_numel(v->init) && !v->next && v->evidence == EVIDENCE_NONE &&
            pattern_rule(ctx->opt, v->name, NULL) == PATTERN_SILENT)
            TRY(legacy ? refold_legacy(g, ctx, (ValueId){ i }) : refold(g, ctx, (ValueId){ i }));
    }
    return graph_sort(g);
}

const Pass pass_refold = { .name = "refold",
                           .summary = "what the exporter computed from a parameter is computed from it again",
                           .run = refold_run };
