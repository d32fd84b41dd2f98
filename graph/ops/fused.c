/* Fused: a program of elementwise operators as one node, so that a backend can compute it in one pass over memory.
 *
 * The program is a body (graph/ir/body.h) without types.  Its inputs are the node's; its results, all of one shape, are
 * the node's outputs:
 *
 *   graph(%x0, %x1, %x2) { %t0 = Mul(%x0, %x1) %y0 = Relu(%t0) %y1 = Add(%y0, %x2) return %y0, %y1 }
 *
 * The node computes its program operator by operator, so it can be lowered at any time.  A kernel may keep a 16-bit
 * intermediate that is no output in float32; a Cast always rounds, and the program reads an output as it is stored. All
 * outputs, and all inputs of their size, have one layout.  passes/fuse/fuse_elementwise.c makes such nodes.
 *
 * With `sum` the last result of the program is not stored but summed: the last output is its ReduceSum over `axes`
 * (none: all) with that operator's `keepdims` and `wide`.  A value that is also returned before is summed as stored. */
#include "graph/ops/fused.h"

#include <stdio.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/reduce.gen.h"

/* ---- the program ---- */

bool fused_sums(const Node *n) { return node_int(n, "sum") != 0; }

/* Number of outputs that are stored element by element. */
static int stored(const Node *n) { return n->n_out - fused_sums(n); }

static Status fused_check_body(const Graph *body, const Node *n)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    const Shape *space = value(body, body->output[0].value)->shape;

    if (body->n_output != n->n_out)
        return FAIL(E_MODEL, "its program returns %d values, expected %d", body->n_output, n->n_out);
    TRY(body_check_elementwise(body));
    if (fused_sums(n) && !value(body, body->output[n->n_out - 1].value)->producer)
        return FAIL(E_MODEL, "the summand %%%s is not computed by the program",
                    value(body, body->output[n->n_out - 1].value)->name);
    for (int i = 1; i < body->n_output; i++)
        if (!shape_eq(value(body, body->output[i].value)->shape, space))
            return FAIL(E_SHAPE, "output %d has shape %s, output 0 has %s", i,
                        shape_text(value(body, body->output[i].value)->shape, a), shape_text(space, b));
    return ST_OK;
}

/* Sets the layouts of the results.  The summand has the layout of the other values of its shape. */
static void take_layouts(Graph *body, const Graph *g, const Node *n)
{
    Value *summand = fused_sums(n) ? value(body, body->output[n->n_out - 1].value) : NULL;

    for (int i = 0; i < stored(n); i++)
        value(body, body->output[i].value)->layout = value(g, n->out[i])->layout;
    if (!summand)
        return;
    summand->layout = stored(n) ? value(g, n->out[0])->layout : LAYOUT_ROWS;
    for (int i = 0; !stored(n) && i < n->n_in; i++)
        if (shape_eq(in_value(g, n, i)->shape, summand->shape)) {
            summand->layout = in_value(g, n, i)->layout;
            break;
        }
}

Status fused_body(Graph **out, const Graph *g, const Node *n)
{
    const Graph *program = node_graph(n, "program");
    Status st;

    TRY(node_check_present(n));
    if (!program || !program->n_output)
        return FAIL(E_MODEL, "its program returns nothing");
    TRY(body_instance(out, program, g, n->n_in, n->in));
    if ((st = fused_check_body(*out, n)))
        graph_free(*out);
    else
        take_layouts(*out, g, n);
    return st;
}

const char *fused_operators(char text[BODY_TEXT], const Node *n)
{
    int used = body_operators(text, node_graph(n, "program"));

    if (fused_sums(n) && used + 12 < BODY_TEXT)
        snprintf(text + used, (size_t)(BODY_TEXT - used), ", ReduceSum");
    return text;
}

/* ---- writing ---- */

/* The counterpart in a body of v, a value of the graph; NO_VALUE: `from`, which lists those that have one, lacks it. */
static ValueId mapped(int n, const ValueId *from, const ValueId *to, ValueId v)
{
    for (int i = 0; i < n; i++)
        if (value_eq(from[i], v))
            return to[i];
    return NO_VALUE;
}

/* Lists the values that the nodes read from other nodes, each once, in order; returns their number. */
static int list_read(ValueId *out, int n, Node *const *node)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < node[i]->n_in; j++) {
            const ValueId v = node[i]->in[j];
            bool known = !has_value(v);

            for (int k = 0; k < i; k++)
                known |= value_eq(node[k]->out[0], v);
            for (int k = 0; k < count; k++)
                known |= value_eq(out[k], v);
            if (!known)
                out[count++] = v;
        }
    return count;
}

/* Inputs of the body are named x0, x1 ..., results that are returned y0, y1 ..., the others t0, t1 ... */
Status fused_write(Draft *d, Graph *body, int n, Node *const *node, const bool *returned)
{
    int most = n, count[2] = { 0, 0 }, n_mapped;
    ValueId *from, *to;
    char name[24];

    for (int i = 0; i < n; i++)
        most += node[i]->n_in;
    if (!(from = ARENA_NEW(d->arena, ValueId, most)) || !(to = ARENA_NEW(d->arena, ValueId, most)))
        return FAIL_NOMEM();
    draft_clear(d);
    n_mapped = list_read(from, n, node);
    for (int i = 0; i < n_mapped; i++) {
        snprintf(name, sizeof name, "x%d", i);
        draft_in(d, i, from[i]);
        to[i] = body_input(body, name);
    }
    for (int i = 0; i < n; i++) {
        const Node *x = node[i];
        ValueId *arg = ARENA_NEW(d->arena, ValueId, x->n_in);

        if (!arg)
            return FAIL_NOMEM();
        for (int j = 0; j < x->n_in; j++)
            arg[j] = has_value(x->in[j]) ? mapped(n_mapped, from, to, x->in[j]) : NO_VALUE;
        snprintf(name, sizeof name, "%c%d", returned[i] ? 'y' : 't', count[returned[i]]);
        from[n_mapped] = x->out[0];
        to[n_mapped++] = body_add_like(body, x, arg, name);
        if (returned[i]) {
            body_return(body, to[n_mapped - 1]);
            draft_out(d, count[true], x->out[0]);
        }
        count[returned[i]]++;
    }
    TRY(body->status);
    draft_attr(d, &(Attr)GRAPH("program", body));
    return d->g->status;
}

/* ---- the sum ---- */

/* Emits n's sum of x, a value of g. */
static ValueId emit_sum(Graph *g, const Node *n, ValueId x)
{
    int count;
    const int64_t *axes = node_ints(n, "axes", &count);
    const Attr *how = ATTRS(INT("keepdims", node_int(n, "keepdims")), INT("wide", node_int(n, "wide")));

    return count ? EMIT(g, ReduceSum, how, x, emit_ints(g, count, axes)) : EMIT(g, ReduceSum, how, x);
}

Status fused_add_sum(Graph *body, const Node *n)
{
    if (!fused_sums(n))
        return ST_OK;
    body->output[n->n_out - 1].value = emit_sum(body, n, body->output[n->n_out - 1].value);
    return body->status ? status_prefix(body->status, "%s", n->name) : ST_OK;
}

/* ---- the operator ---- */

static Status fused_infer(Graph *g, Node *n)
{
    Graph *body;
    Status st;

    TRY(status_prefix(fused_body(&body, g, n), "%s", node_text(g, n)));
    st = fused_add_sum(body, n);
    for (int i = 0; i < n->n_out && !st; i++) {
        const Value *y = value(body, body->output[i].value);

        set_out(g, n, i, y->dtype, y->shape);
    }
    graph_free(body);
    return st;
}

static Status lower_body(Graph *g, Node *n, const Graph *body, Arena *scratch)
{
    ValueId *map = ARENA_NEW(scratch, ValueId, body->n_value); /* by value id of the body */

    if (!map)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < body->n_value; i++)
        if (body->value[i]->kind == V_CONST)
            map[i] = graph_add_const(g, body->value[i]->name, body->value[i]->init);
    for (int i = 0; i < n->n_in; i++)
        map[body->input[i].i] = n->in[i];
    FOR_NODES(body, x) {
        Attr *attrs = ARENA_NEW(scratch, Attr, x->n_attr + 1);
        ValueId *in = ARENA_NEW(scratch, ValueId, x->n_in);

        if (!attrs || !in)
            return FAIL_NOMEM();
        if (x->n_attr)
            memcpy(attrs, x->attr, (size_t)x->n_attr * sizeof *attrs);
        for (int i = 0; i < x->n_in; i++)
            in[i] = map[x->in[i].i];
        map[x->out[0].i] = emit(g, x->op, attrs, x->n_in, in);
    }
    for (int i = 0; i < stored(n) && !g->status; i++)
        graph_replace(g, n->out[i], map[body->output[i].value.i]);
    if (fused_sums(n) && !g->status)
        graph_replace(g, n->out[n->n_out - 1], emit_sum(g, n, map[body->output[n->n_out - 1].value.i]));
    return g->status;
}

static Status fused_lower(Graph *g, Node *n)
{
    Graph *body;
    Arena *scratch;
    Status st;

    for (int i = 0; i < n->n_in; i++)
        if (!shape_known(in_value(g, n, i)->shape))
            return ST_OK;
    TRY(status_prefix(fused_body(&body, g, n), "%s", node_text(g, n)));
    st = (scratch = arena_create_beside(g->arena)) ? lower_body(g, n, body, scratch) : FAIL_NOMEM();
    arena_free(scratch);
    graph_free(body);
    return st;
}

/* A sum over a split batch would be partial, so its inputs are gathered. */
static Status place(Placement *p) { return fused_sums(p->node) ? place_all_b(p) : place_elementwise(p); }

/* One operation for each operator and element, and one for each summed element. */
static int64_t fused_flops(const Graph *g, const Node *n)
{
    int64_t nodes = fused_sums(n) + node_graph(n, "program")->n_node,
            elements = shape_numel(value(g, n->out[0])->shape);

    for (int i = 0; i < n->n_in; i++)
        if (elements < shape_numel(in_value(g, n, i)->shape))
            elements = shape_numel(in_value(g, n, i)->shape);
    return nodes * elements;
}

/* A kernel reads an element of all inputs before it writes that element of any output, so an output may overwrite any
 * input with elements of its size.  A sum is written while other elements are still being read. */
static bool overwrites(const Graph *g, const Node *n, int o, int j)
{
    return !(fused_sums(n) && o == n->n_out - 1) &&
           dtype_size(value(g, n->out[o])->dtype) == dtype_size(in_value(g, n, j)->dtype);
}

DEFINE_OP(Fused, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 1,
          .out_max = -1,
          .attrs = (const AttrDecl[]){ { "program", A_GRAPH, .rule = ATTR_REQUIRED },
                                       { "sum", A_INT, .i = 0 },
                                       { "axes", A_INTS, .range = R_AXIS },
                                       { "keepdims", A_INT, .i = 1 },
                                       { "wide", A_INT, .i = 0 },
                                       { 0 } },
          .infer = fused_infer, .lower = fused_lower, .place = place, .flops = fused_flops, .overwrites = overwrites,
          .doc = "a program of elementwise operators, whose results, the last of them summed, are the outputs");
