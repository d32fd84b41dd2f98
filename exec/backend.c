/* Chooses kernels: of those that fit, the one of least rank; the reference comes last and fits whatever the operator allows. */
#include "exec/backend.h"

static bool fits(const Kernel *k, const Graph *g, const Node *n)
{
    ValueId typed = n->n_in && has_value(n->in[0]) ? n->in[0] : n->n_out ? n->out[0] : NO_VALUE;

    if (k->op != n->op)
        return false;
    if (k->dtypes && has_value(typed) && !(k->dtypes & DTYPE_BIT(value(g, typed)->dtype)))
        return false;
    return !k->supports || k->supports(g, n);
}

const Kernel *kernel_find(const Kernel *const *list, int len, const Graph *g, const Node *n)
{
    const Kernel *best = NULL;

    for (int i = 0; i < len; i++)
        if ((!best || list[i]->rank < best->rank) && fits(list[i], g, n))
            best = list[i];
    return best;
}

const Kernel *kernel_reference(const Graph *g, const Node *n)
{
    const Kernel *k = kernel_find(kernels_ref, kernels_ref_len, g, n);

    return k ? k : kernel_half.supports(g, n) ? &kernel_half : NULL;
}
