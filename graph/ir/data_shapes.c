/* By which nodes shapes depend on data: those that say so, and those whose result has no shape though what they read
 * has. */
#include "graph/ir/data_shapes.h"

bool all_shapes_known(const Graph *g)
{
    FOR_NODES(g, n)
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]) && !shape_known(value(g, n->out[o])->shape))
                return false;
    return true;
}

/* Is its result of unknown shape, though what it reads is not? */
static bool decides_shape(const Graph *g, const Node *n)
{
    return has_out(n, 0) && !shape_known(value(g, n->out[0])->shape) && node_inputs_known(g, n);
}

Status fail_dynamic(const Graph *g, const char *what)
{
    Problems p = { 0 };

    FOR_NODES(g, n)
        if (n->op->flags & OPF_DYNAMIC || decides_shape(g, n))
            problems_add(&p, "%s", node_text(g, n));
    if (!p.n)
        problems_add(&p, "a shape computed from an input");
    return problems_fail(&p, E_UNSUPPORTED, "%s needs shapes that are known before the step; these depend on data",
                         what);
}
