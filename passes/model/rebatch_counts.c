/* sum(x) / N and mean(x) * N / (N - 1), where N is a number that may count the samples of the batch that a model was
 * exported for, as in loss.sum() / x.shape[0].
 *
 * Shapes do not tell such numbers: at other sizes they fail nowhere.  Divisors of a sum over the batch that could be a
 * count are warned of; a factor of its mean may be one that a divisor behind it takes back, as in an unbiased variance.
 */
#include <math.h>
#include <string.h>

#include "graph/op.h"
#include "passes/model/rebatch_decide.h"
#include "passes/report.h"

typedef struct {
    double summed; /* elements of the batch that were added up at the file's size; 0: none were */
    bool mean;     /* and then divided by their number */
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

/* What the node makes of the batch, if that is gone behind it. */
static Sum sum_of(const Rebatch *r, const Node *n, const Sum *of)
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
                       n->op == &op_ReduceMean };
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

/* The number, the same at all sizes, by which the node multiplies or divides what was summed, at its input `in`. */
static bool factor(const Rebatch *r, const Node *n, const Sum *of, int *in, double *x)
{
    double other;

    for (*in = 0; *in < 2; ++*in)
        if ((n->op == &op_Mul || (n->op == &op_Div && *in == 0)) && of[n->in[*in].i].summed &&
            value_const_number(r->world[0].g, n->in[1 - *in], x) &&
            value_const_number(r->world[1].g, n->in[1 - *in], &other) && *x == other)
            return true;
    return false;
}

Status rebatch_note_counts(const Rebatch *r, int64_t want)
{
    Sum *of = ARENA_NEW(r->ctx->scratch, Sum, r->g->n_value);
    const double b0 = (double)r->size[0];

    if (!of)
        return FAIL_NOMEM();
    FOR_NODES(r->g, n) {
        Sum s = sum_of(r, n, of);
        int in;
        double x;

        if (s.summed && factor(r, n, of, &in, &x)) {
            if (s.mean)
                s.mean = n->op != &op_Mul || !multiple(x, b0);
            else if (may_count(n->op == &op_Mul ? 1 / x : x, b0, s.summed))
                TRY(report_note(r->ctx->report, NOTE_GUESS, n->name,
                                "%s by %g of what is summed over the batch: if that counts samples of the %lld that "
                                "the model was exported for, it is wrong for batches of %lld; export with an open "
                                "batch axis, where it follows (docs/export.md)",
                                n->op->name, x, (long long)r->size[0], (long long)want));
        }
        if (s.summed)
            of[n->out[0].i] = s;
    }
    return ST_OK;
}
