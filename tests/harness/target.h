/* What targets of tests say. */
#ifndef DPX_TESTS_TARGET_H
#define DPX_TESTS_TARGET_H

#include "graph/ir/target.h"

static inline bool fuses_all(const Target *t, const OpDef *op)
{
    (void)t, (void)op;
    return true;
}

static inline int prefers_channels_last(const Target *t, const Graph *g, const Node *n, NodeLayouts out[TARGET_LAYOUTS])
{
    (void)t, (void)g, (void)n;
    out[0] = (NodeLayouts){ LAYOUT_CHANNELS_LAST, LAYOUT_CHANNELS_LAST };
    return 1;
}

/* Fuses into one operator alone. */
#define FUSES_ONLY(NAME, OP)                           \
    static bool NAME(const Target *t, const OpDef *op) \
    {                                                  \
        (void)t;                                       \
        return op == &op_##OP;                         \
    }

#endif
