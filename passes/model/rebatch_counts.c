/* Numbers that may hold the count of samples N of the batch that a model was exported for: sum(x) / N as of
 * loss.sum() / x.shape[0], sum(x / N), mean(x) * N, and by the root or the logarithm of N, as mean(x) + log(N).
 *
 * Shapes do not tell such numbers: at other sizes they fail nowhere.  Divisors of a sum over the batch that could be a
 * count are warned of; a factor of its mean only where no divisor behind it takes it back, as in an unbiased variance.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/einsum.gen.h"
#include "graph/ops/loss.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "passes/model/rebatch_decide.h"
#include "passes/report.h"

enum { MAX_DEPTH = 6 };

typedef struct {
    double summed; /* elements of the batch that were added up at the file's size; 0: none were */
    bool mean;     /* and then divided by their number */
    uint32_t by;   /* 1 + the node that multiplied the mean by their number, or that divided what is not added up yet by
                      the number of samples; 0: none did */
} Sum;

static bool sums(const Node *n)
{
    static const OpDef *const ops[] = { &op_ReduceSum, &op_ReduceSumSquare, &op_ReduceL1,  &op_MatMul,
                                        &op_Gemm,      &op_Einsum,          &op_ReduceMean };

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (n->op == ops[i])
            return true;
    return n->op == &op_SoftmaxCrossEntropyLoss || n->op == &op_NegativeLogLikelihoodLoss
               ? !strcmp(node_string(n, "reduction"), "sum")
               : false;
}

/* Has the value the same shape at all sizes? */
static bool keeps_shape(const Rebatch *r, ValueId v)
{
    const Shape *s = rebatch_shape(r, 0, v);

    return shape_known(s) && shape_eq(s, rebatch_shape(r, 1, v)) && shape_eq(s, rebatch_shape(r, 2, v));
}

/* The node's sum over the batch, if its result no longer grows with it. */
static Sum rebatch_counts_sum_of(const Rebatch *r, const Node *n, const Sum *of)
{
    Sum s = { 0 };

    if (!n->n_out || !has_value(n->out[0]) || !keeps_shape(r, n->out[0]))
        return s;
    for (int k = 0; k < n->n_in && !s.summed; k++) {
        const Shape *in = has_in(n, k) ? rebatch_shape(r, 0, n->in[k]) : NULL;

        if (!in || !dtype_is_float(value(r->world[0].g, n->in[k])->dtype))
            continue;
        if (of[n->in[k].i].summed)
            s = of[n->in[k].i];
        else if (!keeps_shape(r, n->in[k]) && sums(n))
            s = (Sum){ (double)shape_numel(in) / (double)shape_numel(rebatch_shape(r, 0, n->out[0])),
                       n->op == &op_ReduceMean, 0 };
    }
    return s;
}

static bool multiple(double x, double of) { return x > of * (1 - 1e-5) && fabs(remainder(x, of)) < 1e-5 * x; }

/* Could a divisor x be a count of samples, of pairs of them, or of their elements, or one less? */
static bool may_count(double x, double b0, double summed)
{
    x = fabs(x);
    if (b0 < 3 && fabs(x - 1) < 1e-5)
        return true;
    return b0 < 2 ? fabs(x - summed) < 1e-5 * x : multiple(x, b0) || (b0 > 2 && multiple(x, b0 - 1));
}

/* The function of the batch's size that x is; NULL where x may well be something else, as a whole root may. */
static const char *function_of(double x, double b0)
{
    const double root = sqrt(b0), log_of = log(b0);

    x = fabs(x);
    if (b0 > 1 && root != floor(root) && (fabs(x - root) < 1e-6 * root || fabs(x * root - 1) < 1e-6))
        return "the root";
    return b0 > 2 && (fabs(x - log_of) < 1e-6 * log_of || fabs(x * log_of - 1) < 1e-6) ? "the logarithm" : NULL;
}

/* A number that nodes make of numbers, as exporters that fold nothing write x.size(0) ** 0.5. */
static bool number_of(const Graph *g, ValueId v, int depth, double *x)
{
    const Node *n = has_value(v) ? value(g, v)->producer : NULL;
    double a, b = 0;

    if (value_const_number(g, v, x))
        return true;
    if (!n || !n->op || !depth || !has_in(n, 0) || !number_of(g, n->in[0], depth - 1, &a))
        return false;
    if (n->op->same & SAME_TYPED || n->op == &op_Identity) {
        *x = a;
        return true;
    }
    if (n->op == &op_Sqrt || n->op == &op_Log || n->op == &op_Reciprocal) {
        *x = n->op == &op_Sqrt ? sqrt(a) : n->op == &op_Log ? log(a) : 1 / a;
        return true;
    }
    if (n->n_in != 2 || !number_of(g, n->in[1], depth - 1, &b))
        return false;
    *x = n->op == &op_Pow ? pow(a, b) : n->op == &op_Div ? a / b : a * b;
    return n->op == &op_Pow || n->op == &op_Div || n->op == &op_Mul;
}

/* The other input of the node is a number, the same at all sizes. */
static bool has_number(const Rebatch *r, const Node *n, int in, double *x)
{
    double other;

    return has_in(n, in) && has_in(n, 1 - in) && number_of(r->world[0].g, n->in[1 - in], MAX_DEPTH, x) &&
           number_of(r->world[1].g, n->in[1 - in], MAX_DEPTH, &other) && *x == other;
}

static bool multiplies(const Node *n, int in) { return n->op == &op_Mul || (n->op == &op_Div && in == 0); }

/* The number by which the node multiplies or divides what was summed, at its input `in`. */
static bool rebatch_counts_factor(const Rebatch *r, const Node *n, const Sum *of, int *in, double *x)
{
    for (*in = 0; *in < 2; ++*in)
        if (multiplies(n, *in) && of[n->in[*in].i].summed && has_number(r, n, *in, x))
            return true;
    return false;
}

typedef struct {
    const Rebatch *r;
    double b0;
    int64_t want;
    Sum *of; /* by value */
} Counts;

/* `how`: "of what is summed over the batch"; `what`: of the batch's size, or NULL. */
static Status rebatch_counts_warn(const Counts *c, const Node *n, double x, const char *how, const char *what)
{
    char is[64] = "counts samples";

    if (what)
        snprintf(is, sizeof is, "is %s of the number of samples", what);
    return report_note(c->r->ctx->report, NOTE_GUESS, n->name,
                       "%s by %g %s: if that %s of the %lld that the model was exported for, it is wrong for batches "
                       "of %lld; export with an open batch axis, where it follows (docs/export.md)",
                       n->op->name, x, how, is, (long long)c->r->size[0], (long long)c->want);
}

/* A product or quotient of what was summed. */
static Status see_factor(Counts *c, const Node *n, Sum *s, double x)
{
    const double divisor = n->op == &op_Mul ? 1 / x : x;
    const char *what = function_of(x, c->b0);

    if (what)
        return rebatch_counts_warn(c, n, x, "of what is summed over the batch", what);
    if (s->mean) {
        s->mean = n->op != &op_Mul || !multiple(x, c->b0);
        s->by = s->mean ? 0 : n->index + 1;
    } else if (may_count(divisor, c->b0, s->summed)) {
        s->by = 0;
        return rebatch_counts_warn(c, n, x, "of what is summed over the batch", NULL);
    }
    return ST_OK;
}

/* A sum or difference with the logarithm of the batch's size. */
static Status see_term(const Counts *c, const Node *n)
{
    double x;

    for (int in = 0; in < 2 && c->b0 > 2; in++)
        if (has_number(c->r, n, in, &x) && fabs(fabs(x) - log(c->b0)) < 1e-6 * log(c->b0))
            return rebatch_counts_warn(c, n, x, "of what the batch gives", "the logarithm");
    return ST_OK;
}

/* Values that are divided by the number of samples and then added up: `by` of values that grow with the batch. */
static Status see_terms(Counts *c, const Node *n)
{
    double x;

    for (int k = 0; k < n->n_in; k++) {
        const uint32_t by = has_in(n, k) && !keeps_shape(c->r, n->in[k]) ? c->of[n->in[k].i].by : 0;

        if (by && sums(n) && n->op != &op_ReduceMean && keeps_shape(c->r, n->out[0])) {
            const Node *at = c->r->g->node[by - 1];

            has_number(c->r, at, has_number(c->r, at, 0, &x) ? 0 : 1, &x);
            return rebatch_counts_warn(c, at, x, "of what is summed over the batch behind it", NULL);
        }
        if (by && !keeps_shape(c->r, n->out[0]) &&
            (n->op == &op_Neg || n->op == &op_Mul || n->op == &op_Div || sums(n)))
            c->of[n->out[0].i].by = by;
        if (has_in(n, k) && k < 2 && n->n_in == 2 && multiplies(n, k) && !keeps_shape(c->r, n->in[k]) &&
            has_number(c->r, n, k, &x) && c->b0 > 1 && fabs((n->op == &op_Mul ? 1 / x : x) - c->b0) < 1e-6 * c->b0)
            c->of[n->out[0].i].by = n->index + 1;
    }
    return ST_OK;
}

/* Factors of a mean that nothing divides by such a number again. */
static Status warn_of_rest(const Counts *c)
{
    for (int i = 0; i < c->r->g->n_output; i++) {
        const Sum *s = &c->of[c->r->g->output[i].value.i];
        double x;

        if (!s->summed || !s->by)
            continue;
        has_number(c->r, c->r->g->node[s->by - 1], has_number(c->r, c->r->g->node[s->by - 1], 0, &x) ? 0 : 1, &x);
        TRY(rebatch_counts_warn(c, c->r->g->node[s->by - 1], x, "of a mean over the batch", NULL));
    }
    return ST_OK;
}

Status rebatch_note_counts(const Rebatch *r, int64_t want)
{
    Counts c = { r, (double)r->size[0], want, ARENA_NEW(r->ctx->scratch, Sum, r->g->n_value) };

    if (!c.of)
        return FAIL_NOMEM();
    memset(c.of, 0, r->g->n_value * sizeof *c.of);
    FOR_NODES(r->g, n) {
        Sum s = rebatch_counts_sum_of(r, n, c.of);
        int in;
        double x;

        if (s.summed && rebatch_counts_factor(r, n, c.of, &in, &x))
            TRY(see_factor(&c, n, &s, x));
        if (n->op == &op_Add || n->op == &op_Sub)
            TRY(see_term(&c, n));
        if (n->n_out && has_value(n->out[0]) && dtype_is_float(value(r->world[0].g, n->out[0])->dtype))
            TRY(see_terms(&c, n));
        if (s.summed)
            c.of[n->out[0].i] = s;
    }
    return warn_of_rest(&c);
}
