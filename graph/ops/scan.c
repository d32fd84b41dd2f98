/* Scan: runs a body once for each element along axis 0 of the scanned inputs.
 *
 *   states..., x[trips,...]...  ->  states..., y[trips,...]...
 *
 * graph/onnx/flow_scan.c unrolls a file's Scan when it is read, so graphs have no loops.  OpDef.standard emits this
 * operator when a step is written in ONNX's operators, so that the size of the file does not grow with the trips.  The
 * body reads no values of the graph around it, and its names differ from the graph's.  Axes and directions are ONNX's
 * defaults, since onnx.reference supports no others. */
#include <string.h>

#include "graph/ir/body.h"
#include "graph/ir/emit.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/view.gen.h"

static int scanned(const Node *n) { return (int)node_int(n, "num_scan_inputs"); }

static Status scan_check_counts(const Graph *g, const Node *n)
{
    const Graph *body = node_graph(n, "body");
    const int64_t scan = node_int(n, "num_scan_inputs");

    if (scan > n->n_in || n->n_out < n->n_in - scan)
        return FAIL(E_MODEL, "%s: %lld of %d inputs are scanned, with %d outputs", node_text(g, n), (long long)scan,
                    n->n_in, n->n_out);
    if (body->n_input != n->n_in || body->n_output != n->n_out)
        return FAIL(E_MODEL, "%s: its body has %d inputs and %d outputs, expected %d and %d", node_text(g, n),
                    body->n_input, body->n_output, n->n_in, n->n_out);
    for (int i = 0; i < n->n_in; i++)
        if (!has_in(n, i))
            return FAIL(E_MODEL, "%s: input %d is absent", node_text(g, n), i);
    return ST_OK;
}

/* Reads the number of trips; E_SHAPE if the scanned inputs differ in it. */
static Status check_trips(int64_t *out, const Graph *g, const Node *n)
{
    char text[SHAPE_TEXT];

    *out = -1;
    for (int i = n->n_in - scanned(n); i < n->n_in; i++) {
        const Shape *s = in_value(g, n, i)->shape;

        if (!s->rank || (*out >= 0 && s->dim[0] != *out))
            return FAIL(E_SHAPE, "%s: input %d is %s, expected %s", node_text(g, n), i, shape_text(s, text),
                        s->rank ? "as many elements as the others have" : "an axis to scan along");
        *out = s->dim[0];
    }
    return ST_OK;
}

/* The body of one trip, with types; the caller frees it. */
static Status instance(Graph **out, const Graph *g, const Node *n)
{
    const int first = n->n_in - scanned(n);
    Graph *body;
    Status st = ST_OK;

    TRY(graph_clone_lending(&body, node_graph(n, "body")));
    for (int i = 0; i < n->n_in; i++) {
        Value *v = value(body, body->input[i]);
        const Shape *given = in_value(g, n, i)->shape;
        Shape s = i < first ? *given : shape_of(given->rank - 1, given->dim + 1);

        v->dtype = in_value(g, n, i)->dtype;
        value_set_shape(body, v, &s);
    }
    FOR_NODES(body, x)
        st = st ? st : node_infer(body, x);
    st = st ? st : body->status;
    if (st)
        graph_free(body);
    else
        *out = body;
    return st;
}

/* A state keeps its type and shape; another output is stacked along a new axis 0. */
static Status scan_set_outputs(Graph *g, Node *n, const Graph *body, int64_t trips)
{
    const int states = n->n_in - scanned(n);
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    for (int i = 0; i < n->n_out; i++) {
        const Value *v = value(body, body->output[i].value), *before = i < states ? in_value(g, n, i) : NULL;
        Shape s = *v->shape;

        if (before && (v->dtype != before->dtype || !shape_eq(v->shape, before->shape)))
            return FAIL(E_SHAPE, "%s: its body makes %s %s of state %d, expected %s %s", node_text(g, n),
                        dtype_name(v->dtype), shape_text(v->shape, a), i, dtype_name(before->dtype),
                        shape_text(before->shape, b));
        if (!before && (!shape_known(&s) || s.rank == MAX_RANK))
            return FAIL(E_UNSUPPORTED, "%s: output %d has no known shape, or %d axes", node_text(g, n), i,
                        MAX_RANK + 1);
        if (!before) {
            s = (Shape){ .rank = v->shape->rank + 1, .dim = { trips } };
            memcpy(s.dim + 1, v->shape->dim, (size_t)v->shape->rank * sizeof *s.dim);
        }
        set_out(g, n, i, v->dtype, &s);
    }
    return g->status;
}

static Status scan_infer(Graph *g, Node *n)
{
    Graph *body = NULL;
    int64_t trips;
    Status st;

    TRY(scan_check_counts(g, n));
    TRY(check_trips(&trips, g, n));
    TRY(status_prefix(instance(&body, g, n), "%s", node_text(g, n)));
    st = scan_set_outputs(g, n, body, trips);
    graph_free(body);
    return st;
}

/* ---- unrolling ---- */

/* Output o: y[0..trips), stacked along a new axis 0. */
static ValueId stacked(Graph *g, const Node *n, int o, int64_t trips, ValueId *y)
{
    const Value *v = value(g, n->out[o]);

    if (!trips)
        return emit_full(g, v->dtype, v->shape, 0);
    for (int64_t t = 0; t < trips; t++)
        y[t] = EMIT(g, Unsqueeze, NULL, y[t], emit_ints(g, 1, (int64_t[]){ 0 }));
    return trips == 1 ? y[0] : emit(g, &op_Concat, ATTRS(INT("axis", 0)), (int)trips, y);
}

/* Emits all trips.  `at`: the body's inputs, of which the states are updated; y[output - states][trip] receives the
 * other outputs. */
static Status run_trips(Graph *g, const Node *n, int64_t trips, ValueId *at, ValueId **y)
{
    const int states = n->n_in - scanned(n);
    ValueId *out = ARENA_NEW(g->arena, ValueId, n->n_out);

    if (!out)
        return FAIL_NOMEM();
    for (int64_t t = 0; t < trips; t++) {
        for (int i = states; i < n->n_in; i++)
            at[i] = EMIT(g, Gather, ATTRS(INT("axis", 0)), n->in[i], emit_scalar(g, DT_INT64, (double)t));
        TRY(body_inline(out, g, node_graph(n, "body"), at));
        for (int o = 0; o < n->n_out; o++)
            *(o < states ? &at[o] : &y[o - states][t]) = out[o];
    }
    return g->status;
}

static Status scan_lower(Graph *g, Node *n)
{
    const int states = n->n_in - scanned(n), outs = n->n_out - states;
    ValueId *at = ARENA_NEW(g->arena, ValueId, n->n_in), **y = ARENA_NEW(g->arena, ValueId *, outs + 1);
    int64_t trips;

    if (!at || !y)
        return FAIL_NOMEM();
    TRY(check_trips(&trips, g, n));
    for (int o = 0; o < outs; o++)
        if (!(y[o] = ARENA_NEW(g->arena, ValueId, trips + 1)))
            return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        at[i] = n->in[i];
    TRY(run_trips(g, n, trips, at, y));
    for (int o = 0; o < n->n_out; o++)
        if (has_out(n, o))
            graph_replace(g, n->out[o], o < states ? at[o] : stacked(g, n, o, trips, y[o - states]));
    return g->status;
}

/* The importer unrolls ai.onnx's Scan earlier, so only a file's node of another domain comes here. */
static Status scan_import(Graph *g, Node *n, int opset)
{
    (void)opset;
    return FAIL(E_UNSUPPORTED, "%s: a Scan is one of ai.onnx", node_text(g, n));
}

DEFINE_OP(Scan, .since = 16, .from = 11, .in_min = 1, .in_max = -1, .out_min = 1, .out_max = -1,
          .attrs = (const AttrDecl[]){ { "body", A_GRAPH, .rule = ATTR_REQUIRED },
                                       { "num_scan_inputs", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       { 0 } },
          .import = scan_import, .infer = scan_infer, .lower = scan_lower,
          .doc = "runs a body for each element of the scanned inputs");
