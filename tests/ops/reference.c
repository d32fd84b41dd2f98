/* Evaluation by the interpreter, and what the reference itself is held against: the other precision, the lowered form,
 * and the expected values that a case gives. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ops/scan.gen.h"
#include "graph/ir/verify.h"
#include "passes/build_options.h"
#include "tests/ops/check.h"

extern const Pass pass_dce, pass_lower, pass_infer_shapes, pass_fold_constants;

static double tolerance(DType t)
{
    return t == DT_FLOAT64 ? 1e-11 : t == DT_FLOAT16 ? 2e-3 : t == DT_BFLOAT16 ? 2e-2 : 2e-5;
}

static double largest(const Tensor *t)
{
    double max = 1;

    for (int64_t i = 0; i < tensor_numel(t); i++) {
        double v = fabs(tensor_float(t, i));

        max = isfinite(v) && v > max ? v : max;
    }
    return max;
}

static bool element_equal(const Tensor *found, const Tensor *expected, int64_t i, double margin)
{
    double f, e;

    if (!dtype_is_float(found->dtype) && !dtype_is_float(expected->dtype))
        return tensor_int(found, i) == tensor_int(expected, i);
    f = tensor_float(found, i);
    e = tensor_float(expected, i);
    if (isnan(f) || isnan(e))
        return isnan(f) && isnan(e);
    return f == e || fabs(f - e) <= margin;
}

Status check_equal(const Tensor *found, const Tensor *expected, double tol, const char *what)
{
    double margin = tol * (dtype_is_float(expected->dtype) ? largest(expected) : 0);
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (!shape_eq(&found->shape, &expected->shape))
        return FAIL(E_INTERNAL, "%s: shape %s, expected %s", what, shape_text(&found->shape, a),
                    shape_text(&expected->shape, b));
    for (int64_t i = 0; i < tensor_numel(found); i++)
        if (!element_equal(found, expected, i, margin))
            return FAIL(E_INTERNAL, "%s: element %lld of %s is %.9g, expected %.9g", what, (long long)i,
                        shape_text(&found->shape, a), tensor_float(found, i), tensor_float(expected, i));
    return ST_OK;
}

Status eval_graph(Eval *e, Arena *a)
{
    const Tensor **values = ARENA_NEW(a, const Tensor *, e->g->n_value);

    if (!values)
        return FAIL_NOMEM();
    for (int i = 0; i < CASE_ARGS; i++) {
        char name[16];

        snprintf(name, sizeof name, "x%d", i);
        if (e->in[i])
            values[graph_find(e->g, name).i] = e->in[i];
    }
    TRY(interp_run(a, e->g, values));
    e->n_out = e->g->n_output < CHECK_OUTPUTS ? e->g->n_output : CHECK_OUTPUTS;
    for (int i = 0; i < e->n_out; i++)
        e->out[i] = values[e->g->output[i].value.i];
    return ST_OK;
}

void eval_free(Eval *e)
{
    graph_free(e->g);
    e->g = NULL;
}

Status lower_graph(Graph *g)
{
    const Pass *passes[] = { &pass_lower, &pass_infer_shapes, &pass_fold_constants };
    BuildOptions opt = { .mode = BUILD_INFER };

    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        PassCtx ctx = { .scratch = arena_create(), .opt = &opt, .eval = interp_node };
        Status st = ctx.scratch ? passes[i]->run(g, &ctx) : FAIL_NOMEM();

        arena_free(ctx.scratch);
        TRY(st);
        TRY(graph_verify(g));
    }
    return ST_OK;
}

static bool has_kernel(const Graph *g)
{
    return g->node[0]->op->flags & OPF_VIEW || kernel_find(kernels_ref, kernels_ref_len, g, g->node[0]);
}

static Status eval_lowered(Eval *e, Check *k, DType f)
{
    TRY(case_graph(&e->g, k->c, f));
    TRY(case_inputs(e->in, k->arena, k->c, f));
    TRY(lower_graph(e->g));
    return eval_graph(e, k->arena);
}

Status eval_reference(Eval *e, Check *k, DType f)
{
    *e = (Eval){ 0 };
    TRY(case_graph(&e->g, k->c, f));
    TRY(graph_verify(e->g));
    TRY(case_inputs(e->in, k->arena, k->c, f));
    if (has_kernel(e->g))
        return eval_graph(e, k->arena);
    if (!e->g->node[0]->op->lower)
        return FAIL(E_UNSUPPORTED, "%s has neither a reference kernel for this type nor a lowering", k->c->op);
    eval_free(e);
    return eval_lowered(e, k, f);
}

/* Where an operator has both a kernel and a lowering, they must agree. */
static Status check_lowering(Check *k, const Eval *e, DType f)
{
    Eval low = { 0 };
    Status st = ST_OK;

    if (!e->g->node || !e->g->n_node || !e->g->node[0]->op->lower || !has_kernel(e->g))
        return f == DT_FLOAT64 ? check_split(k, e) : ST_OK;
    TRY_TO(done, st, eval_lowered(&low, k, f));
    if (low.g->n_node == 1 && low.g->node[0]->op == e->g->node[0]->op)
        goto done; /* it declined */
    for (int i = 0; i < e->n_out; i++) {
        TRY_TO(done, st, check_equal(low.out[i], e->out[i], tolerance(e->out[i]->dtype), "lowered form"));
        k->compared++;
    }
    if (f == DT_FLOAT64)
        TRY_TO(done, st, check_split(k, &low)); /* partition sees the lowered form */
done:
    eval_free(&low);
    return st;
}

/* In ONNX's operators, as passes/train/standard.c writes it. */
static Status standard_graph(Graph *g)
{
    PassCtx ctx = { .scratch = arena_create(), .opt = &(BuildOptions){ .mode = BUILD_INFER } };
    Status st = ctx.scratch ? ST_OK : FAIL_NOMEM();

    FOR_NODES(g, n)
        if (!st && n->op->standard)
            st = n->op->standard(g, n);
    if (!st && !(st = graph_sort(g)))
        st = pass_dce.run(g, &ctx);
    arena_free(ctx.scratch);
    return st ? st : graph_verify(g);
}

static bool is_standard(const Graph *g)
{
    FOR_NODES(g, n)
        if (n->op->domain)
            return false;
    return true;
}

/* No kernel runs loops; they are unrolled instead. */
static bool has_loop(const Graph *g)
{
    FOR_NODES(g, n)
        if (n->op == &op_Scan)
            return true;
    return false;
}

/* What an operator of ours is in ONNX's operators is what its kernel computes; it declines where the case says so. */
static Status check_standard(Check *k, const Eval *e, DType f)
{
    Eval in_onnx = { 0 };
    Status st = ST_OK;

    if (!e->g->n_node || !e->g->node[0]->op->standard)
        return ST_OK;
    TRY_TO(done, st, case_graph(&in_onnx.g, k->c, f));
    TRY_TO(done, st, case_inputs(in_onnx.in, k->arena, k->c, f));
    TRY_TO(done, st, standard_graph(in_onnx.g));
    if (is_standard(in_onnx.g) == k->c->nostandard)
        st = FAIL(E_INTERNAL, "in ONNX's operators: %s", k->c->nostandard ? "did not decline" : "declined");
    if (st || k->c->nostandard)
        goto done;
    if (has_loop(in_onnx.g))
        TRY_TO(done, st, lower_graph(in_onnx.g));
    TRY_TO(done, st, eval_graph(&in_onnx, k->arena));
    for (int i = 0; i < e->n_out; i++) {
        TRY_TO(done, st, check_equal(in_onnx.out[i], e->out[i], tolerance(e->out[i]->dtype), "in ONNX's operators"));
        k->compared++;
    }
done:
    eval_free(&in_onnx);
    return st;
}

static Status check_expected(Check *k, const Eval *e)
{
    Tensor *t;
    const Tensor *y = e->out[0];

    if (!k->c->n_expected)
        return ST_OK;
    if (k->c->n_expected > 1 && k->c->n_expected != tensor_numel(y))
        return FAIL(E_INTERNAL, "%d expected values, the output has %lld", k->c->n_expected,
                    (long long)tensor_numel(y));
    if (!(t = tensor_create(k->arena, dtype_is_float(y->dtype) ? DT_FLOAT64 : y->dtype, &y->shape)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_float(t, i, k->c->expected[k->c->n_expected == 1 ? 0 : i]);
    k->compared++;
    return check_equal(y, t, tolerance(y->dtype), "output 0");
}

/* The type and shape found by inference are those of the data; interp_run makes them so, so look at the graph. */
static Status check_inference(const Eval *e)
{
    for (int i = 0; i < e->n_out; i++) {
        const Value *v = value(e->g, e->g->output[i].value);

        if (v->dtype == DT_NONE)
            return FAIL(E_INTERNAL, "inference gives output %d no type", i);
        if (shape_known(v->shape) && !shape_eq(v->shape, &e->out[i]->shape))
            return FAIL(E_INTERNAL, "inference and data of output %d disagree", i);
    }
    return ST_OK;
}

static Status check_one(Check *k, const Eval *e, DType f)
{
    TRY(check_inference(e));
    TRY(check_lowering(k, e, f));
    TRY(check_standard(k, e, f));
    TRY(check_expected(k, e));
    return check_kernels(k, e);
}

static Status check_precisions(Check *k, const Eval *single, const Eval *precise)
{
    for (int i = 0; i < precise->n_out; i++) {
        char what[64];

        snprintf(what, sizeof what, "output %d, float32 against float64", i);
        TRY(check_equal(single->out[i], precise->out[i], k->c->tol > 0 ? k->c->tol : 2e-5, what));
        k->compared++;
    }
    return ST_OK;
}

Status check_reference(Check *k)
{
    Eval precise = { 0 }, single = { 0 };
    Status st;

    TRY_TO(done, st, eval_reference(&precise, k, DT_FLOAT64));
    TRY_TO(done, st, check_one(k, &precise, DT_FLOAT64));
    TRY_TO(done, st, check_claims(k, &precise));
    TRY_TO(done, st, check_gradient(k, &precise));
    if (!case_has_f(k->c))
        goto done;
    TRY_TO(done, st, eval_reference(&single, k, DT_FLOAT32));
    TRY_TO(done, st, check_one(k, &single, DT_FLOAT32));
    TRY_TO(done, st, check_precisions(k, &single, &precise));
    TRY_TO(done, st, check_half(k));
done:
    eval_free(&precise);
    eval_free(&single);
    return st;
}
