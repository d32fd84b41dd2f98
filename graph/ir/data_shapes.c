/* The nodes that make shapes depend on data: operators with OPF_DYNAMIC, and nodes whose output has no shape though
 * their inputs have one. */
#include "graph/ir/data_shapes.h"

bool all_shapes_known(const Graph *g)
{
    FOR_NODES(g, n)
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]) && !shape_known(value(g, n->out[o])->shape))
                return false;
    return true;
}

Status fail_dynamic(const Graph *g, const char *what)
{
    PROBLEMS(p);

    FOR_NODES(g, n)
        if (n->op->flags & OPF_DYNAMIC ||
            (has_out(n, 0) && !shape_known(value(g, n->out[0])->shape) && node_inputs_known(g, n)))
            problems_add(&p, "%s", node_text(g, n));
    if (!p.n)
        problems_add(&p, "a shape computed from an input");
    return problems_fail(&p, E_UNSUPPORTED, "%s needs shapes that are known before the step; these depend on data",
                         what);
}
