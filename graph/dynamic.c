/* By which nodes shapes depend on data: those that say so, and those whose result has no shape though what they read
 * has. */
#include "graph/dynamic.h"

/* Is its result of unknown shape, though what it reads is not? */
static bool decides_shape(const Graph *g, const Node *n)
{
    return has_out(n, 0) && !shape_known(value(g, n->out[0])->shape) && node_inputs_known(g, n);
}

Status fail_dynamic(const Graph *g)
{
    Problems p = { 0 };

    FOR_NODES(g, n)
        if (n->op->flags & OPF_DYNAMIC || decides_shape(g, n))
            problems_add(&p, "%s", node_text(g, n));
    if (!p.n)
        problems_add(&p, "a shape computed from an input");
    return problems_fail(&p, E_UNSUPPORTED,
                         "training needs shapes that are known before the step; these depend on data");
}
