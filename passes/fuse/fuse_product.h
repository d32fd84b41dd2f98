/* What the parts of fuse_product share: the graph as a phase finds it, and a product that is about to take more in. */
#ifndef DPX_FUSE_PRODUCT_H
#define DPX_FUSE_PRODUCT_H

#include "graph/op.h"
#include "graph/ops/product.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    int n_device;
    uint32_t n_value; /* of the tables: values that were there when they were made */
    uint32_t *uses;   /* [value] */
    Node **reader;    /* [value] one of the nodes that read it */
} Fusing;

/* A Product node in the making. */
typedef struct {
    ValueId in[PRODUCT_AUX + 1], out[PRODUCT_BIAS_GRAD + 1];
    bool trans_a, trans_b, wide, gradient, wide_sum;
    double alpha;
    const char *activation, *sum;
    Node node;
} Draft;

/* Makes the tables anew. */
Status fusing_look(Fusing *f) CHECKED;
/* The node that makes `v`, when nothing but one node reads it. */
Node *fusing_inner(const Fusing *f, ValueId v);
/* v, or what it is a view of with the same columns. */
ValueId fusing_behind_views(const Fusing *f, ValueId v);
/* Is `from` read once, for views that are read once, up to v? */
bool fusing_is_alone(const Fusing *f, ValueId v, ValueId from);
void fusing_remove_views(Fusing *f, ValueId v, ValueId from);
void fusing_make_view(Fusing *f, Node *n, ValueId of); /* n becomes what gives `of` the shape of n's output */
bool fusing_same_place(const Node *a, const Node *b);
int64_t fusing_columns(const Graph *g, ValueId v); /* the last dimension; -1: unknown */
int64_t fusing_rows(const Graph *g, ValueId v);    /* the product of the others; -1: unknown */

/* n as a Product; false when it is no product of two matrices (the first may have its rows along several axes), or not
 * one that the device computes. */
bool draft_read(Draft *d, const Fusing *f, const Node *n);
bool draft_is_plain(const Draft *d); /* no bias, nothing behind the product */
/* A new output of d, called after value `of`; its shape follows from draft_fits. */
void draft_add_output(Fusing *f, Draft *d, int output, ValueId of, const char *suffix);
/* Does the device compute what n would be?  Sets types and shapes of new outputs.  Else nothing has changed. */
Status draft_fits(bool *out, Fusing *f, Draft *d, const Node *n) CHECKED;
/* n becomes what draft_fits said yes to. */
void draft_settle(Fusing *f, const Draft *d, Node *n);

/* Sums of gradients over their rows become outputs of products (passes/fuse/fuse_product_sums.c). */
Status fuse_product_sums(Fusing *f) CHECKED;

#endif
