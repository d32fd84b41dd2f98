/* Product: a matrix product with what goes on in registers before its result is written.
 *
 *     Y = act(alpha op(A) op(B) + bias)                   gradient = 0
 *     Y = alpha op(A) op(B) * act'(aux)                   gradient = 1
 *     Y = alpha op(A) op(B) + bias + added                no activation, no sums; added has Y's type and elements
 *
 *   A, B       read as matrices [all leading axes, last axis]; op = transpose where transA, transB say so.  Y has
 * op(A)'s leading axes (of a transposed A: its last axis) and op(B)'s columns bias       [n], of Y's type Y          of
 * the type of A and B; float32 where these have 16 bits and wide = 1.  Sums and the epilogue are float32 (float64), Y
 * is rounded once activation "none", "relu", "gelu_tanh" aux        what the gradient needs of the forward product: its
 * output 1, which is input 3 of the gradient. relu: uint8, Y's leading axes and 16 ceil(n / 128) bytes; bit j % 8 of
 * byte j / 8 tells of column j that not Y <= 0, as ReluGrad asks; the bits behind the last column are 0.  gelu_tanh:
 * what the activation was applied to, of Y's type and shape.  The gradient's aux may have other leading axes of as many
 * rows bias_grad  output 2 holds the sum over "result": the rows of Y [n]; "a": op(A)'s columns [m]; "b": op(B)'s rows
 * [n], both without alpha.  Of Y's type; float32 where that has 16 bits and wide_bias_grad = 1
 *
 * There is no gradient and no placement: the pass that makes these nodes runs on what has both behind it. */
#include "graph/ops/product.h"

#include <string.h>

/* The index of the attribute's value in a list that ends with NULL. */
static Status read_choice(int *out, const Graph *g, const Node *n, const char *name, const char *const *choice)
{
    const char *given = node_string(n, name);

    for (int i = 0; choice[i]; i++)
        if (given && !strcmp(given, choice[i])) {
            *out = i;
            return ST_OK;
        }
    return FAIL(E_MODEL, "%s: %s is \"%s\"", node_text(g, n), name, given ? given : "");
}

/* Rows of a value as a matrix. */
static int64_t rows_of(const Shape *s) { return shape_count(s, 0, s->rank - 1); }
static int64_t columns_of(const Shape *s) { return s->dim[s->rank - 1]; }

static Status product_read_sizes(Product *p, const Graph *g, const Node *n)
{
    const Shape *a = in_value(g, n, PRODUCT_A)->shape, *b = in_value(g, n, PRODUCT_B)->shape;
    char text_a[SHAPE_TEXT], text_b[SHAPE_TEXT];

    p->trans_a = node_int(n, "transA");
    p->trans_b = node_int(n, "transB");
    p->alpha = node_float(n, "alpha");
    if (a->rank < 2 || b->rank < 2)
        return FAIL(E_SHAPE, "%s: shapes %s and %s: expected rank 2 or more", node_text(g, n), shape_text(a, text_a),
                    shape_text(b, text_b));
    p->m = p->trans_a ? columns_of(a) : rows_of(a);
    p->k = p->trans_a ? rows_of(a) : columns_of(a);
    p->n = p->trans_b ? rows_of(b) : columns_of(b);
    if (p->k != (p->trans_b ? columns_of(b) : rows_of(b)))
        return FAIL(E_SHAPE, "%s: shapes %s and %s do not multiply", node_text(g, n), shape_text(a, text_a),
                    shape_text(b, text_b));
    p->n_sum = p->sum == PRODUCT_SUM_OF_A ? p->m : p->n;
    return ST_OK;
}

/* Which inputs and outputs go with which attributes. */
static Status check_ports(const Product *p, const Graph *g, const Node *n)
{
    if (p->gradient && (p->activation == PRODUCT_LINEAR || !has_in(n, PRODUCT_AUX) || has_in(n, PRODUCT_BIAS) ||
                        has_out(n, PRODUCT_AUX_OUT)))
        return FAIL(E_MODEL, "%s: a gradient takes an activation's aux and nothing else", node_text(g, n));
    if (!p->gradient && has_in(n, PRODUCT_AUX))
        return FAIL(E_MODEL, "%s: only a gradient takes aux", node_text(g, n));
    if (p->added && (p->gradient || p->activation != PRODUCT_LINEAR || p->sum != PRODUCT_NO_SUM))
        return FAIL(E_MODEL, "%s: input %d goes with no activation, gradient or sum", node_text(g, n), PRODUCT_ADDED);
    if (p->activation == PRODUCT_LINEAR && has_out(n, PRODUCT_AUX_OUT))
        return FAIL(E_MODEL, "%s: there is no aux without an activation", node_text(g, n));
    if (has_out(n, PRODUCT_BIAS_GRAD) != (p->sum != PRODUCT_NO_SUM))
        return FAIL(E_MODEL, "%s: output 2 and bias_grad \"%s\" do not go together", node_text(g, n),
                    node_string(n, "bias_grad"));
    return ST_OK;
}

Status product_read(Product *out, const Graph *g, const Node *n)
{
    static const char *const activations[] = { "none", "relu", "gelu_tanh", NULL }, *const sums[] = { "none", "result",
                                                                                                      "a", "b", NULL };
    int activation, sum;

    TRY(read_choice(&activation, g, n, "activation", activations));
    TRY(read_choice(&sum, g, n, "bias_grad", sums));
    *out = (Product){ .activation = (ProductActivation)activation,
                      .sum = (ProductSum)sum,
                      .gradient = node_int(n, "gradient"),
                      .bias = has_in(n, PRODUCT_BIAS),
                      .added = has_in(n, PRODUCT_ADDED) };
    out->aux = out->gradient || has_out(n, PRODUCT_AUX_OUT);
    TRY(check_ports(out, g, n));
    return product_read_sizes(out, g, n);
}

/* ---- inference ---- */

/* What `t` is widened to. */
static DType widened(DType t, bool wide) { return wide && dtype_size(t) == 2 ? DT_FLOAT32 : t; }

/* Input i must be a matrix of `rows` rows. */
static Status check_matrix(const Graph *g, const Node *n, int i, DType t, int64_t rows, int64_t columns)
{
    const Value *v = in_value(g, n, i);
    char text[SHAPE_TEXT];

    if (v->dtype != t || v->shape->rank < 1 || rows_of(v->shape) != rows || columns_of(v->shape) != columns)
        return FAIL(E_SHAPE, "%s: input %d is %s%s, expected %s of %lld rows of %lld", node_text(g, n), i,
                    dtype_name(v->dtype), shape_text(v->shape, text), dtype_name(t), (long long)rows,
                    (long long)columns);
    return ST_OK;
}

static Status check_epilogue(const Product *p, const Graph *g, const Node *n, DType y)
{
    bool mask = p->activation == PRODUCT_RELU;

    if (has_in(n, PRODUCT_BIAS))
        TRY(check_matrix(g, n, PRODUCT_BIAS, y, 1, p->n));
    if (has_in(n, PRODUCT_ADDED))
        TRY(check_matrix(g, n, PRODUCT_ADDED, y, p->m, p->n));
    if (has_in(n, PRODUCT_AUX))
        TRY(check_matrix(g, n, PRODUCT_AUX, mask ? DT_UINT8 : y, p->m, mask ? product_mask_row(p->n) : p->n));
    return ST_OK;
}

static Status product_infer(Graph *g, Node *n)
{
    DType t = in_value(g, n, PRODUCT_A)->dtype, type;
    Shape y = *in_value(g, n, PRODUCT_A)->shape, sum, aux;
    Product p;

    TRY(infer_same_dtype(g, n, 0, 2));
    TRY(product_read(&p, g, n));
    type = widened(t, node_int(n, "wide"));
    TRY(check_epilogue(&p, g, n, type));
    if (p.trans_a)
        y = SHAPE(p.m, p.n);
    y.dim[y.rank - 1] = p.n;
    aux = y;
    if (p.activation == PRODUCT_RELU)
        aux.dim[aux.rank - 1] = product_mask_row(p.n);
    sum = SHAPE(p.n_sum);
    set_out(g, n, PRODUCT_Y, type, &y);
    set_out(g, n, PRODUCT_AUX_OUT, p.activation == PRODUCT_RELU ? DT_UINT8 : type, &aux);
    set_out(g, n, PRODUCT_BIAS_GRAD, widened(type, node_int(n, "wide_bias_grad")), &sum);
    return ST_OK;
}

static int64_t product_flops(const Graph *g, const Node *n)
{
    const Shape *a = in_value(g, n, PRODUCT_A)->shape;

    return 2 * shape_numel(value(g, n->out[PRODUCT_Y])->shape) * (node_int(n, "transA") ? rows_of(a) : columns_of(a));
}

DEFINE_OP(
    Product, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 5, .out_min = 1, .out_max = 3,
    .dtypes = DTYPES_FLOAT, .inplace = { 1 << PRODUCT_ADDED },
    .attrs = (const AttrDecl[]){ { "transA", A_INT, .i = 0 },
                                 { "transB", A_INT, .i = 0 },
                                 { "alpha", A_FLOAT, .f = 1 },
                                 { "wide", A_INT, .i = 0 },
                                 { "activation", A_STRING, .s = "none" },
                                 { "gradient", A_INT, .i = 0 },
                                 { "bias_grad", A_STRING, .s = "none" },
                                 { "wide_bias_grad", A_INT, .i = 0 },
                                 { 0 } },
    .doc = "act(alpha op(A) op(B) + bias) or alpha op(A) op(B) act'(aux) with sums, or op(A) op(B) + bias + added",
    .infer = product_infer, .flops = product_flops);
