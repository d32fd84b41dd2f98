/* Attributes, inputs and outputs of a Product node, for its kernels and for the pass that makes such nodes. */
#ifndef DPX_OPS_PRODUCT_H
#define DPX_OPS_PRODUCT_H

#include "graph/ir/op.h"

enum { PRODUCT_A, PRODUCT_B, PRODUCT_BIAS, PRODUCT_AUX, PRODUCT_ADDED }; /* inputs */
enum { PRODUCT_Y, PRODUCT_AUX_OUT, PRODUCT_BIAS_GRAD };                  /* outputs */

typedef enum { PRODUCT_LINEAR, PRODUCT_RELU, PRODUCT_GELU_TANH } ProductActivation;
typedef enum { PRODUCT_NO_SUM, PRODUCT_SUM_RESULT, PRODUCT_SUM_OF_A, PRODUCT_SUM_OF_B } ProductSum;

typedef struct {
    int64_t m, n, k;       /* op(A) [m, k], op(B) [k, n], Y [m, n] as matrices */
    bool trans_a, trans_b; /* A is stored [k, m], B [n, k] */
    double alpha;
    ProductActivation activation;
    bool gradient;
    bool bias, aux, added; /* present; aux: the gradient's input, else the output */
    ProductSum sum;        /* the content of output 2; PRODUCT_NO_SUM when it is absent */
    int64_t n_sum;         /* its number of elements */
} Product;

/* Reads the node; E_MODEL, E_SHAPE for attributes, inputs or outputs that do not fit. */
Status product_read(Product *out, const Graph *g, const Node *n) CHECKED;

/* Bytes of a row of Relu's mask for n columns: rows begin at multiples of 128 bits. */
static inline int64_t product_mask_row(int64_t n) { return (n + 127) / 128 * 16; }

#endif
