/* Product: a matrix product with an epilogue that is computed in registers before the result is written.
 *
 *     Y = act(alpha op(A) op(B) + bias)                   gradient = 0
 *     Y = alpha op(A) op(B) * act'(aux)                   gradient = 1
 *     Y = alpha op(A) op(B) + bias + added                no activation, no sums; added has Y's type and elements
 *
 *   A, B        read as matrices [all leading axes, last axis]; op transposes with transA, transB
 *   Y           has op(A)'s leading axes (a transposed A's last axis) and op(B)'s columns; the type of A and B, or
 *               float32 where these have 16 bits and wide = 1.  Sums and epilogue are float32 (float64); Y is rounded
 *               once
 *   bias        [n], of Y's type
 *   activation  "none", "relu", "gelu_tanh"
 *   aux         output 1 of the forward product, input 3 of the gradient.  relu: uint8, Y's leading axes and
 *               16 ceil(n / 128) bytes; bit j % 8 of byte j / 8 is set if column j is not <= 0, the condition of
 *               ReluGrad; bits past the last column are 0.  gelu_tanh: the input of the activation, of Y's type and
 *               shape.  The gradient's aux may have other leading axes with the same number of rows
 *   bias_grad   output 2 is a sum: "result": over the rows of Y, [n]; "a": over op(A)'s columns, [m]; "b": over op(B)'s
 *               rows, [n], both without alpha.  It has Y's type, or float32 where that has 16 bits and
 *               wide_bias_grad = 1
 *
 * The operator has no gradient and no placement, since the pass that makes it runs after differentiation and
 * partitioning. */
#include "graph/ops/product.h"

#include <string.h>

/* Index of the attribute's value in a list that ends with NULL; E_MODEL when it is not there. */
static Status read_choice(int *out, const Graph *g, const Node *n, const char *name, const char *const *choice)
{
    const char *given = node_string(n, name);

    for (int i = 0; choice[i]; i++)
        if (given && !strcmp(given, choice[i])) {
            *out = i;
            return ST_OK;
        }
    return FAIL(E_MODEL, "%s: attribute %s has unknown value \"%s\"", node_text(g, n), name, given ? given : "");
}

/* Rows and columns of a value read as a matrix. */
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

/* E_MODEL if inputs or outputs do not fit the attributes. */
static Status check_ports(const Product *p, const Graph *g, const Node *n)
{
    if (p->gradient && (p->activation == PRODUCT_LINEAR || !has_in(n, PRODUCT_AUX) || has_in(n, PRODUCT_BIAS) ||
                        has_out(n, PRODUCT_AUX_OUT)))
        return FAIL(E_MODEL, "%s: a gradient takes an activation's aux and nothing else", node_text(g, n));
    if (!p->gradient && has_in(n, PRODUCT_AUX))
        return FAIL(E_MODEL, "%s: only a gradient takes aux", node_text(g, n));
    if (p->added && (p->gradient || p->activation != PRODUCT_LINEAR || p->sum != PRODUCT_NO_SUM))
        return FAIL(E_MODEL, "%s: input %d does not go together with an activation, a gradient or a sum",
                    node_text(g, n), PRODUCT_ADDED);
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

/* float32 for 16 bits if `wide`, else t. */
static DType widened(DType t, bool wide) { return wide && dtype_size(t) == 2 ? DT_FLOAT32 : t; }

/* E_SHAPE unless input i is a matrix [rows, columns] of type t. */
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

static Status product_infer(Graph *g, Node *n)
{
    DType t = in_value(g, n, PRODUCT_A)->dtype, type;
    Shape y = *in_value(g, n, PRODUCT_A)->shape, sum, aux;
    Product p;
    bool mask;

    TRY(infer_same_dtype(g, n, 0, 2));
    TRY(product_read(&p, g, n));
    type = widened(t, node_int(n, "wide"));
    mask = p.activation == PRODUCT_RELU;
    if (has_in(n, PRODUCT_BIAS))
        TRY(check_matrix(g, n, PRODUCT_BIAS, type, 1, p.n));
    if (has_in(n, PRODUCT_ADDED))
        TRY(check_matrix(g, n, PRODUCT_ADDED, type, p.m, p.n));
    if (has_in(n, PRODUCT_AUX))
        TRY(check_matrix(g, n, PRODUCT_AUX, mask ? DT_UINT8 : type, p.m, mask ? product_mask_row(p.n) : p.n));
    if (p.trans_a)
        y = SHAPE(p.m, p.n);
    y.dim[y.rank - 1] = p.n;
    aux = y;
    if (mask)
        aux.dim[aux.rank - 1] = product_mask_row(p.n);
    sum = SHAPE(p.n_sum);
    set_out(g, n, PRODUCT_Y, type, &y);
    set_out(g, n, PRODUCT_AUX_OUT, mask ? DT_UINT8 : type, &aux);
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
