/* Kernels in 16-bit types: inputs are rounded to the type, the reference is computed in float64 from the rounded
 * inputs, and the result must be it within two epsilons of the type (of the largest element). */
#include <string.h>

#include "tests/ops/check.h"

/* The numbers of `from` in the type of `to`. */
static void convert(Tensor *to, const Tensor *from)
{
    for (int64_t i = 0; i < tensor_numel(from); i++)
        tensor_set_float(to, i, tensor_float(from, i));
}

/* Constants of the case: of float64 in `precise`, rounded in `rounded`. */
static void convert_constants(Graph *precise, const Graph *rounded)
{
    for (uint32_t i = 1; i < rounded->n_value; i++) {
        const Tensor *from = value_const(rounded, (ValueId){ i });
        const Tensor *to = value_const(precise, (ValueId){ i });

        if (from && to && to->dtype == DT_FLOAT64 && from->dtype != DT_FLOAT64) {
            Tensor writable = *to;
            convert(&writable, from);
        }
    }
}

/* The reference's outputs, rounded to the types that `rounded` gives them: what overflows must be infinite. */
static Status take_outputs(Eval *rounded, const Eval *precise, Arena *a)
{
    rounded->n_out = precise->n_out;
    for (int i = 0; i < precise->n_out; i++) {
        const Value *v = value(rounded->g, rounded->g->output[i].value);
        Tensor *t = tensor_create(a, v->dtype, &precise->out[i]->shape);

        if (!t)
            return FAIL_NOMEM();
        if (dtype_is_float(v->dtype))
            convert(t, precise->out[i]);
        else
            memcpy(t->data, precise->out[i]->data, tensor_bytes(t));
        rounded->out[i] = t;
    }
    return ST_OK;
}

static bool any_kernel(const Graph *g)
{
    return g->n_node == 1 && kernel_find(kernels_cuda, kernels_cuda_len, g, g->node[0]);
}

static Status compare(Check *k, Eval *rounded, Eval *precise, DType f)
{
    TRY(case_inputs(rounded->in, k->arena, k->c, f));
    TRY(case_graph(&precise->g, k->c, DT_FLOAT64));
    TRY(case_inputs(precise->in, k->arena, k->c, DT_FLOAT64));
    for (int i = 0; i < CASE_ARGS; i++)
        if (precise->in[i] && precise->in[i]->dtype == DT_FLOAT64 && rounded->in[i]->dtype == f)
            convert(precise->in[i], rounded->in[i]);
    convert_constants(precise->g, rounded->g);
    TRY(eval_graph(precise, k->arena));
    TRY(take_outputs(rounded, precise, k->arena));
    return check_cuda_kernels(k, rounded, f == DT_FLOAT16 ? 0x1p-9 : 0x1p-6);
}

static Status check_type(Check *k, DType f)
{
    Eval rounded = { 0 }, precise = { 0 };
    Status st = case_graph(&rounded.g, k->c, f);

    if (st)
        return ST_OK; /* the operator does not know the type */
    st = check_half_gradient(k, rounded.g, f);
    if (!st && any_kernel(rounded.g))
        st = compare(k, &rounded, &precise, f);
    eval_free(&rounded);
    eval_free(&precise);
    return st ? status_prefix(st, "%s", dtype_name(f)) : ST_OK;
}

Status check_half(Check *k)
{
    TRY(check_type(k, DT_FLOAT16));
    return check_type(k, DT_BFLOAT16);
}
