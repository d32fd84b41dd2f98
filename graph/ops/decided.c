/* Decided: a number that decided, when the file was read, into which nodes an If, a Loop, a Scan or a sequence was
 * expanded.
 *
 * The node passes the number on and stores its value at the file's own sizes.  Passes may infer shapes at other sizes.
 * But compiling a step or a model for sizes at which the number differs is an error
 * (passes/simplify/infer_shapes.c), since the expanded nodes are then wrong. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"

static int64_t value_now(const Graph *g, const Node *n)
{
    const Tensor *t = value_const(g, n->in[0]);

    return t && tensor_numel(t) == 1 ? tensor_int(t, 0) : node_int(n, "value");
}

static Status decided_check_sizes(const Graph *g, const Node *n)
{
    if (value_now(g, n) == node_int(n, "value"))
        return ST_OK;
    return FAIL(E_UNSUPPORTED,
                "%s is %lld at the sizes of this run, but %lld at the sizes that the file fixes, for which its nodes "
                "were exported: keep the file's batch size, or export the model at this one",
                node_string(n, "what"), (long long)value_now(g, n), (long long)node_int(n, "value"));
}

static Status infer_decided(Graph *g, Node *n) { return infer_like(g, n, 0); }

static Status lower_decided(Graph *g, Node *n)
{
    if (!value_const(g, n->in[0]))
        return FAIL(E_UNSUPPORTED, "%s was %lld when the file was read, but depends on data now",
                    node_string(n, "what"), (long long)node_int(n, "value"));
    TRY(decided_check_sizes(g, n));
    graph_replace(g, n->out[0], n->in[0]);
    return g->status;
}

DEFINE_OP(Decided, .domain = "dpexec", .plain = "Identity", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_INT | DTYPES_BOOL,
          .attrs = (const AttrDecl[]){ { "value", A_INT, .rule = ATTR_REQUIRED },
                                       { "what", A_STRING, .rule = ATTR_REQUIRED },
                                       { 0 } },
          .infer = infer_decided, .check_sizes = decided_check_sizes, .grad = grad_none, .lower = lower_decided,
          .place = place_all_b, .doc = "the input, a number that decided how control flow of the file was expanded");
