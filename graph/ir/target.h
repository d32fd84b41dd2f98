/* What the passes ask of the devices that a graph is built for.  A backend fills it in (kernels/backend.h).
 *
 * All zeros is the plain target: it computes every node, as the interpreter does, fuses nothing and stores every value
 * by rows. */
#ifndef DPX_GRAPH_TARGET_H
#define DPX_GRAPH_TARGET_H

#include "graph/ir/op.h"

enum { TARGET_LAYOUTS = 4, TARGET_ALIGN = 64 };

/* How a node would have its values stored: its data, and what has the role of a filter (OpDef.filter_in).  A value that
 * a layout does not suit (graph/tensor/layout.h) is stored by rows. */
typedef struct {
    Layout data, filter;
} NodeLayouts;

typedef struct Target Target;
struct Target {
    /* A launch costs as much as a small node, so that nodes over many tensors pay; and what the device has no kernel
     * for is computed on the host's side, to which values must be copied. */
    bool accelerator;
    DType precision; /* of products: DT_FLOAT16 or DT_BFLOAT16; DT_NONE: as the model's floats */
    bool tf32;       /* products of float32 may round their inputs */
    /* What addresses of values and of a kernel's scratch are multiples of: bytes, a power of two; 0: TARGET_ALIGN, a
     * line of a CPU's cache. */
    size_t align;
    /* Has it a kernel of its own for the node, as the types, shapes and layouts of its values stand?  The reference is
     * nobody's own.  NULL: for every node. */
    bool (*computes)(const Graph *g, const Node *n);
    /* Has it kernels, in the types that it computes in, of an operator that takes the place of several?  Only then do
     * passes look for them.  NULL: of none. */
    bool (*fuses)(const Target *t, const OpDef *op);
    /* May the elementwise node be part of a Fused?  The whole is asked of `computes`, once it is complete.  NULL: where
     * it computes the node alone. */
    bool (*joins)(const Graph *g, const Node *n);
    /* The layouts that a node of an operator with LAYOUT_LIKES would choose, the best first; how many (at most
     * TARGET_LAYOUTS) is returned.  Whether there is a kernel is asked of `computes`.  NULL: none but rows. */
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
