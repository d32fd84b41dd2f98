/* The kernel of every role: the embedder's function of the node's type, called with tensors that are laid out once. */
#include <stdlib.h>
#include <string.h>

#include "exec/operators/operators.h"

/* A prepared node: the node with the tensors that it reads and writes, in one block. */
typedef struct {
    dpx_node node;
    dpx_node_fn *fn;
    const char *what;
    dpx_tensor tensor[]; /* of the node's inputs, then of its outputs */
} Prepared;

/* The node's floating type: its attribute, or else the type of the first float that it reads or makes. */
DType node_type(const Graph *g, const Node *n)
{
    if (node_attr(n, ATTR_DTYPE))
        return (DType)node_int(n, ATTR_DTYPE);
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (has_value(v) && dtype_is_float(value(g, v)->dtype))
            return value(g, v)->dtype;
    }
    return DT_FLOAT32;
}

static dpx_node_fn *function_of(const Graph *g, const Node *n)
{
    const Operator *o = node_role(n)->of;
    const DType t = node_type(g, n);
    const dpx_kernels *k = t == DT_FLOAT32 ? &o->float32 : t == DT_FLOAT64 ? &o->float64 : NULL;

    switch (k ? node_role(n)->role : N_ROLES) {
    case ROLE_APPLY: return o->shares ? NULL : k->apply;
    case ROLE_SHARED: return k->apply;
    case ROLE_COLLECT: return k->collect;
    case ROLE_COMBINE: return k->combine;
    case ROLE_GRADIENT_COLLECT: return k->gradient_collect;
    case ROLE_GRADIENT_COMBINE: return k->gradient_combine;
    case ROLE_GRADIENT: return k->gradient;
    case N_ROLES: break;
    }
    return NULL;
}

static bool supports(const Graph *g, const Node *n) { return function_of(g, n) != NULL; }

static Status kernel_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const size_t count = (size_t)(n->n_in + n->n_out);
    Prepared *p = kernel_table(g, 1, sizeof *p + count * sizeof *p->tensor);

    (void)ctx;
    if (!p)
        return FAIL_NOMEM();
    p->fn = function_of(g, n);
    p->what = node_type(g, n) == DT_FLOAT64 ? "float64 kernel" : "float32 kernel";
    p->node = (dpx_node){ .g = g,
                          .n = n,
                          .role = node_role(n),
                          .at = node_slots(n),
                          .in = p->tensor,
                          .out = p->tensor + n->n_in,
                          .n_in = n->n_in,
                          .n_out = n->n_out };
    for (int i = 0; i < n->n_in; i++)
        node_tensor(&p->node.in[i], g, n->in[i]);
    for (int i = 0; i < n->n_out; i++)
        node_tensor(&p->node.out[i], g, n->out[i]);
    *state = p;
    return ST_OK;
}

static Status kernel_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Prepared *p = state;

    (void)ctx;
    for (int i = 0; i < p->node.n->n_in; i++)
        p->node.in[i].data = in[i].data;
    for (int i = 0; i < p->node.n->n_out; i++)
        p->node.out[i].data = out[i].data;
    return node_call(&p->node, p->fn, p->what);
}

const Kernel own_kernel = { .supports = supports, .prepare = kernel_prepare, .run = kernel_run, .release = free };
