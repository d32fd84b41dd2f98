/* Target: properties of the devices that a graph is built for, for the passes.  A backend fills it in
 * (kernels/backend.h).
 *
 * { 0 } is the plain target: like the interpreter, it computes every node, fuses nothing and stores every value by
 * rows. */
#ifndef DPX_GRAPH_TARGET_H
#define DPX_GRAPH_TARGET_H

#include "graph/ir/op.h"

enum { TARGET_LAYOUTS = 4, TARGET_ALIGN = 64 };

/* Layouts that a node prefers for its data and its filters (OpDef.filter_in).  A value whose shape the layout does not
 * suit (graph/tensor/layout.h) is stored by rows. */
typedef struct {
    Layout data, filter;
} NodeLayouts;

typedef struct Target Target;
struct Target {
    /* A launch costs as much as a small node, so nodes over many tensors pay off; nodes without a kernel run on the
     * host, to which their inputs are copied. */
    bool accelerator;
    DType precision; /* type of products: DT_FLOAT16 or DT_BFLOAT16; DT_NONE: the model's */
    bool tf32;       /* products of float32 may round their inputs */
    /* Alignment of values and of kernels' scratch in bytes, a power of two; 0: TARGET_ALIGN, a CPU's cache line. */
    size_t align;
    /* Has the target a kernel of its own (not the reference) for the node with its present types, shapes and layouts?
     * NULL: for every node. */
    bool (*computes)(const Graph *g, const Node *n);
    /* Has the target kernels for a fused operator, in the types that it computes in?  Passes look for the pattern only
     * then.  NULL: for none. */
    bool (*fuses)(const Target *t, const OpDef *op);
    /* May the elementwise node be part of a Fused?  `computes` decides on the complete Fused.  NULL: if `computes`
     * accepts the node itself. */
    bool (*joins)(const Graph *g, const Node *n);
    /* Writes the layouts that a node with LAYOUT_LIKES prefers, the best first, and returns their number (at most
     * TARGET_LAYOUTS).  `computes` decides whether there is a kernel.  NULL: rows only. */
    int (*layouts)(const Target *t, const Graph *g, const Node *n, NodeLayouts out[TARGET_LAYOUTS]);
};

static inline size_t target_align(const Target *t) { return t->align ? t->align : TARGET_ALIGN; }

static inline bool target_computes(const Target *t, const Graph *g, const Node *n)
{
    return !t->computes || t->computes(g, n);
}

static inline bool target_fuses(const Target *t, const OpDef *op) { return t->fuses && t->fuses(t, op); }

static inline bool target_joins(const Target *t, const Graph *g, const Node *n)
{
    return t->joins ? t->joins(g, n) : target_computes(t, g, n);
}

static inline int target_layouts(const Target *t, const Graph *g, const Node *n, NodeLayouts out[TARGET_LAYOUTS])
{
    return t->layouts ? t->layouts(t, g, n, out) : 0;
}

#endif
