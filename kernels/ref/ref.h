/* Shared by the reference kernels: plain loops that define an operator. */
#ifndef DPX_KERNELS_REF_H
#define DPX_KERNELS_REF_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/typed.h"

/* The state of the kernels that need little of their node. */
typedef struct {
    int n_in, n_out, axis; /* axis: the attribute, 0 without one */
    int64_t mode;          /* of the kernel's own making, from its other attributes */
    char what[200];        /* for errors found in data */
} RefNode;
RefNode ref_node(const Graph *g, const Node *n);
Status ref_node_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED; /* with mode 0 */
Status ref_mode_prepare(void **state, const Graph *g, const Node *n, int64_t mode) CHECKED;

/* An input or output that the node may lack; NULL: it does. */
static inline const Tensor *ref_in(const RefNode *p, const Tensor *in, int i)
{
    return i < p->n_in && in[i].shape.rank >= 0 ? &in[i] : NULL;
}
static inline Tensor *ref_out(const RefNode *p, Tensor *out, int i)
{
    return i < p->n_out && out[i].shape.rank >= 0 ? &out[i] : NULL;
}

/* Prepares kernels that go along the axis of attribute `axis` of input 0: the state is its AxisLines. */
static inline Status ref_prepare_lines(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const AxisLines lines = shape_lines(in_value(g, n, 0)->shape, (int)node_int(n, "axis"));

    (void)ctx;
    return kernel_state(state, &lines, sizeof lines);
}

/* Prepares kernels of many tensors: the state is their number, an int. */
static inline Status ref_prepare_count(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    (void)g;
    return kernel_state(state, &n->n_in, sizeof n->n_in);
}

#endif
