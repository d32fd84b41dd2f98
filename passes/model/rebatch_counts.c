/* Warnings of numbers that may be the count N of samples that a model was exported for: sum(x) / N, as exported from
 * loss.sum() / x.shape[0]; sum(x / N); mean(x) * N; and with the root or the logarithm of N, as in mean(x) + log(N).
 *
 * Inference accepts such numbers at every size, so shapes do not reveal them.  A divisor of a sum over the batch gives
 * a warning if it may be a count.  A factor of a mean gives one only if no divisor behind it cancels it, as the divisor
 * of an unbiased variance does. */
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
    double summed; /* elements of the batch in the sum, at the file's size; 0: the value is no sum over the batch */
    bool mean;     /* the sum is divided by that number */
    uint32_t by; /* 1 + index of the node that multiplied a mean by the number of samples, or that divided values by it
                    that are not summed yet; 0: none did */
} Sum;

/* Does the node add up elements of its inputs? */
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

/* The node's result as a sum over the batch; .summed 0: it is none, or still grows with the batch. */
static Sum rebatch_counts_sum_of(const Rebatch *r, const Node *n, const Sum *of)
{
    Sum s = { 0 };

    if (!n->n_out || !has_value(n->out[0]) || !keeps_shape(r, n->out[0]))
        return s;
    for (int k = 0; k < n->n_in && !s.summed; k++) {
        const Shape *in = has_in(n, k) ? rebatch_shape(r, 0, n->in[k]) : NULL;

        if (!in || !dtype_is_float(value(r->trial[0].g, n->in[k])->dtype))
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

/* May a divisor x be the number of samples, of pairs of samples or of their elements, or one less? */
static bool may_count(double x, double b0, double summed)
{
    x = fabs(x);
    if (b0 < 3 && fabs(x - 1) < 1e-5)
        return true;
    return b0 < 2 ? fabs(x - summed) < 1e-5 * x : multiple(x, b0) || (b0 > 2 && multiple(x, b0 - 1));
}

/* The function of the batch size b0 that x or 1 / x is; NULL: x may well be another number, as an integer root may. */
static const char *function_of(double x, double b0)
{
    const double root = sqrt(b0), log_of = log(b0);

    x = fabs(x);
    if (b0 > 1 && root != floor(root) && (fabs(x - root) < 1e-6 * root || fabs(x * root - 1) < 1e-6))
        return "the root";
    return b0 > 2 && (fabs(x - log_of) < 1e-6 * log_of || fabs(x * log_of - 1) < 1e-6) ? "the logarithm" : NULL;
}

/* *x: the number that `depth` nodes at most compute from constants: unfolded files write x.size(0) ** 0.5 so. */
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

/* Is the other input of the node than `in` a number that is the same at all sizes? */
static bool has_number(const Rebatch *r, const Node *n, int in, double *x)
{
    double other;

    return has_in(n, in) && has_in(n, 1 - in) && number_of(r->trial[0].g, n->in[1 - in], MAX_DEPTH, x) &&
           number_of(r->trial[1].g, n->in[1 - in], MAX_DEPTH, &other) && *x == other;
}

static bool multiplies(const Node *n, int in) { return n->op == &op_Mul || (n->op == &op_Div && in == 0); }

/* The number among the two inputs of the node. */
static double number_in(const Rebatch *r, const Node *n)
{
    double x = 0;

    (void)(has_number(r, n, 0, &x) || has_number(r, n, 1, &x));
    return x;
}

/* `how`: "of what is summed over the batch"; `function`: of the batch size (function_of), or NULL. */
static Status rebatch_counts_warn(const Rebatch *r, int64_t want, const Node *n, double x, const char *how,
                                  const char *function)
{
    char is[64] = "counts samples";

    if (function)
        snprintf(is, sizeof is, "is %s of the number of samples", function);
    return report_note(r->ctx->report, NOTE_GUESS, n->name,
                       "%s by %g %s: if that %s of the %lld that the model was exported for, it is wrong for batches "
                       "of %lld; export with an open batch axis, where it follows (docs/guide/export.md)",
                       n->op->name, x, how, is, (long long)r->size[0], (long long)want);
}

/* Checks a product or quotient of the sum *s with the number x, and updates *s. */
static Status check_factor(const Rebatch *r, int64_t want, const Node *n, Sum *s, double x)
{
    const double b0 = (double)r->size[0], divisor = n->op == &op_Mul ? 1 / x : x;
    const char *function = function_of(x, b0);

    if (function)
        return rebatch_counts_warn(r, want, n, x, "of what is summed over the batch", function);
    if (s->mean) {
        s->mean = n->op != &op_Mul || !multiple(x, b0);
        s->by = s->mean ? 0 : n->index + 1;
    } else if (may_count(divisor, b0, s->summed)) {
        s->by = 0;
        return rebatch_counts_warn(r, want, n, x, "of what is summed over the batch", NULL);
    }
    return ST_OK;
}

/* Finds values that are divided by the number of samples and added up afterwards.  of[].by of values that still grow
 * with the batch records the division. */
static Status check_terms(const Rebatch *r, int64_t want, Sum *of, const Node *n)
{
    const double b0 = (double)r->size[0];
    double x;

    for (int k = 0; k < n->n_in; k++) {
        const uint32_t by = has_in(n, k) && !keeps_shape(r, n->in[k]) ? of[n->in[k].i].by : 0;

        if (by && sums(n) && n->op != &op_ReduceMean && keeps_shape(r, n->out[0])) {
            const Node *at = r->g->node[by - 1];

            return rebatch_counts_warn(r, want, at, number_in(r, at), "of what is summed over the batch behind it",
                                       NULL);
        }
        if (by && !keeps_shape(r, n->out[0]) && (n->op == &op_Neg || n->op == &op_Mul || n->op == &op_Div || sums(n)))
            of[n->out[0].i].by = by;
        if (has_in(n, k) && k < 2 && n->n_in == 2 && multiplies(n, k) && !keeps_shape(r, n->in[k]) &&
            has_number(r, n, k, &x) && b0 > 1 && fabs((n->op == &op_Mul ? 1 / x : x) - b0) < 1e-6 * b0)
            of[n->out[0].i].by = n->index + 1;
    }
    return ST_OK;
}

Status rebatch_note_counts(const Rebatch *r, int64_t want)
{
    Sum *of = ARENA_NEW(r->ctx->scratch, Sum, r->g->n_value); /* by value */
    const double b0 = (double)r->size[0];
    double x;

    if (!of)
        return FAIL_NOMEM();
    memset(of, 0, r->g->n_value * sizeof *of);
    FOR_NODES(r->g, n) {
        Sum s = rebatch_counts_sum_of(r, n, of);

        for (int in = 0; in < 2 && s.summed; in++)
            if (multiplies(n, in) && of[n->in[in].i].summed && has_number(r, n, in, &x)) {
                TRY(check_factor(r, want, n, &s, x));
                break;
            }
        for (int in = 0; in < 2 && b0 > 2 && (n->op == &op_Add || n->op == &op_Sub); in++)
            if (has_number(r, n, in, &x) && fabs(fabs(x) - log(b0)) < 1e-6 * log(b0)) {
                TRY(rebatch_counts_warn(r, want, n, x, "of what the batch gives", "the logarithm"));
                break;
            }
        if (n->n_out && has_value(n->out[0]) && dtype_is_float(value(r->trial[0].g, n->out[0])->dtype))
            TRY(check_terms(r, want, of, n));
        if (s.summed)
            of[n->out[0].i] = s;
    }
    for (int i = 0; i < r->g->n_output; i++) {
        const Sum *s = &of[r->g->output[i].value.i];
        const Node *n = s->by ? r->g->node[s->by - 1] : NULL;

        if (s->summed && n) /* a factor of a mean that no divisor cancels */
            TRY(rebatch_counts_warn(r, want, n, number_in(r, n), "of a mean over the batch", NULL));
    }
    return ST_OK;
}
