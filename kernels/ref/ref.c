/* The state of the reference kernels that need little of their node. */
#include "kernels/ref/ref.h"

#include <stdio.h>

RefNode ref_node(const Graph *g, const Node *n)
{
    const Attr *axis = node_attr(n, "axis");
    RefNode p = { .n_in = n->n_in, .n_out = n->n_out, .axis = axis ? (int)axis->i : 0 };

    snprintf(p.what, sizeof p.what, "%s", node_text(g, n));
    return p;
}

Status ref_mode_prepare(void **state, const Graph *g, const Node *n, int64_t mode)
{
    RefNode p = ref_node(g, n);

    p.mode = mode;
    return kernel_state(state, &p, sizeof p);
}

Status ref_node_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_mode_prepare(state, g, n, 0);
}
