/* Types, constants and calls in the text of generated kernels: each operand and result in the type that it is computed
 * in, 16-bit floats in float. */
#include "kernels/cuda/expr.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/base/numtext.h"

/* ---- types ---- */

static const char *const stored[DT_COUNT] = {
    [DT_FLOAT32] = "float", [DT_FLOAT64] = "double",      [DT_FLOAT16] = "f16",           [DT_BFLOAT16] = "bf16",
    [DT_BOOL] = "bool",     [DT_INT8] = "signed char",    [DT_INT16] = "short",           [DT_INT32] = "int",
    [DT_INT64] = "i64",     [DT_UINT8] = "unsigned char", [DT_UINT16] = "unsigned short", [DT_UINT32] = "u32",
    [DT_UINT64] = "u64",
};

const char *cuda_stored_type(DType t) { return stored[t]; }

const char *cuda_computed_type(DType t) { return t == DT_FLOAT16 || t == DT_BFLOAT16 ? "float" : stored[t]; }

static void float_literal(char text[EXPR_TEXT], const char *type, double v)
{
    char number[NUMBER_TEXT];

    if (isnan(v))
        snprintf(text, EXPR_TEXT, "ew::not_a_number<%s>()", type);
    else if (isinf(v))
        snprintf(text, EXPR_TEXT, "(%sew::infinity<%s>())", v < 0 ? "-" : "", type);
    else
        snprintf(text, EXPR_TEXT, "((%s)%s)", type, text_hex64(number, v));
}

void cuda_expr_literal(char text[EXPR_TEXT], const Tensor *t)
{
    if (t->dtype == DT_BOOL)
        snprintf(text, EXPR_TEXT, "%s", tensor_int(t, 0) ? "true" : "false");
    else if (!dtype_is_float(t->dtype))
        snprintf(text, EXPR_TEXT, "((%s)0x%" PRIx64 "ull)", stored[t->dtype], (uint64_t)tensor_int(t, 0));
    else
        float_literal(text, cuda_computed_type(t->dtype), tensor_float(t, 0));
}

/* ---- expressions ---- */

const CudaExpr *cuda_expr_find(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (has_value(v) && dtype_is_small(value(g, v)->dtype))
            return NULL;
    }
    for (int i = 0; i < cuda_exprs_len; i++) {
        const CudaExpr *e = cuda_exprs[i];

        if (e->op == n->op && (!e->dtypes || e->dtypes & DTYPE_BIT(in_value(g, n, 0)->dtype)))
            return e;
    }
    return NULL;
}

static void write_attr(FILE *f, const Node *n, const FormulaAttr *a)
{
    const Attr *attr = node_attr(n, a->name);
    char number[EXPR_TEXT];

    if (a->word)
        fprintf(f, ", %s", !strcmp(node_string(n, a->name), a->word) ? "true" : "false");
    else if (attr->type == A_INT)
        fprintf(f, ", %s", attr->i ? "true" : "false");
    else {
        float_literal(number, "double", attr->f);
        fprintf(f, ", %s", number);
    }
}

static void write_call(FILE *f, const CudaExpr *e, const Graph *g, const Node *n, int n_arg, const char *const *arg)
{
    if (e->converts)
        fprintf(f, "ew::%s<%s>(%s", e->function, stored[value(g, n->out[0])->dtype], arg[0]);
    else if (e->folds) {
        for (int i = 1; i < n_arg; i++)
            fprintf(f, "ew::%s(", e->function);
        fputs(n_arg > 1 ? "" : "(", f);
        fputs(arg[0], f);
    } else {
        fprintf(f, "ew::%s(%s", e->function, arg[0]);
    }
    for (int i = 1; i < n_arg; i++)
        fprintf(f, e->folds && i + 1 < n_arg ? ", %s)" : ", %s", arg[i]);
    for (int i = 0; i < FORMULA_ATTRS && e->attr[i].name; i++)
        write_attr(f, n, &e->attr[i]);
    putc(')', f);
}

int cuda_expr_args(const CudaExpr *e, const Node *n) { return e->n_arg ? e->n_arg : n->n_in; }

void cuda_expr_write(FILE *f, const CudaExpr *e, const Graph *g, const Node *n, const char *const *arg)
{
    if (e->write)
        e->write(f, g, n, arg);
    else
        write_call(f, e, g, n, cuda_expr_args(e, n), arg);
}
