/* stop-gradient: stops gradients at the values that --stop-gradient names.
 *
 * The importer reads the stops that the file records (graph/onnx/traced_program.c). */
#include "passes/model/stop_gradient.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/stop_gradient.h"
#include "graph/ops/view.gen.h"
#include "passes/options/parameters.h"
#include "passes/pass.h"

/* Does the pattern, NODE or NODE:INDEX, match the reader's name, or the name and this input? */
static bool is_reader(Arena *a, const char *pattern, const Node *reader, int input)
{
    const char *colon = strrchr(pattern, ':');
    char *name, number[16];

    if (!fnmatch(pattern, reader->name, 0))
        return true;
    snprintf(number, sizeof number, "%d", input);
    if (!colon || strcmp(colon + 1, number) != 0)
        return false;
    name = arena_printf(a, "%.*s", (int)(colon - pattern), pattern);
    return name && !fnmatch(name, reader->name, 0);
}

/* Does the pattern, VALUE or VALUE>NODE, match the value and this reader of it? */
static bool matches(const Graph *g, Arena *a, const char *pattern, ValueId v, const Node *reader, int input)
{
    const char *at = strchr(pattern, '>');
    const Value *x = value(g, v);
    const char *name = at ? arena_printf(a, "%.*s", (int)(at - pattern), pattern) : pattern;

    if (!name || !dtype_is_float(x->dtype == DT_NONE ? DT_FLOAT32 : x->dtype))
        return false;
    if (at && (!reader || !is_reader(a, at + 1, reader, input)))
        return false;
    return !fnmatch(name, x->name, 0) || (x->producer && *x->producer->name && !fnmatch(name, x->producer->name, 0));
}

/* *out: StopGradient of v, one node for all its readers.  `stopped`: by value id. */
static Status stop_value(ValueId *out, Graph *g, ValueId *stopped, ValueId v)
{
    if (!has_value(stopped[v.i]))
        stopped[v.i] = import_emit(g, &op_StopGradient, NULL, 1, &v);
    *out = stopped[v.i];
    return g->status;
}

/* Stops gradients where the pattern matches a value below `n_value` and its reader.  *n: the number of places. */
static Status stop_gradient_apply(int *n, Graph *g, const char *pattern, ValueId *stopped, uint32_t n_value, Arena *a)
{
    const uint32_t n_node = g->n_node;
    ValueId by;

    *n = 0;
    for (uint32_t k = 0; k < n_node; k++) {
        Node *reader = g->node[k];

        for (int i = 0; reader->op && !op_stops(reader->op) && i < reader->n_in; i++) {
            if (!has_value(reader->in[i]) || reader->in[i].i >= n_value ||
                !matches(g, a, pattern, reader->in[i], reader, i))
                continue;
            TRY(stop_value(&by, g, stopped, reader->in[i]));
            node_set_input(g, reader, i, by);
            ++*n;
        }
    }
    for (int i = 0; i < g->n_output; i++) {
        const ValueId v = g->output[i].value;

        if (v.i >= n_value || value(g, v)->kind == V_INPUT || !matches(g, a, pattern, v, NULL, 0))
            continue;
        TRY(stop_value(&g->output[i].value, g, stopped, v));
        ++*n;
    }
    return ST_OK;
}

bool stop_gradient_names(const Graph *g, const char *pattern, Arena *a)
{
    FOR_NODES(g, n)
        for (int i = 0; !op_stops(n->op) && i < n->n_in; i++)
            if (has_value(n->in[i]) && matches(g, a, pattern, n->in[i], n, i))
                return true;
    for (int i = 0; i < g->n_output; i++)
        if (value(g, g->output[i].value)->kind != V_INPUT && matches(g, a, pattern, g->output[i].value, NULL, 0))
            return true;
    return false;
}

static Status stop_gradient_run(Graph *g, PassCtx *ctx)
{
    const ParameterOptions *p = parameter_options(ctx->opt);
    const uint32_t n_value = g->n_value;
    ValueId *stopped;
    PROBLEMS(wrong);

    if (!p->n_stop)
        return ST_OK;
    if (!(stopped = ARENA_NEW(ctx->scratch, ValueId, n_value)))
        return FAIL_NOMEM();
    for (int i = 0; i < p->n_stop; i++) {
        int n;

        TRY(stop_gradient_apply(&n, g, p->stop[i], stopped, n_value, ctx->scratch));
        if (!n)
            problems_add(&wrong, "'%s'", p->stop[i]);
        ctx->n_changed += n;
    }
    TRY(problems_fail(&wrong, E_INVALID, "--stop-gradient: no value that a node reads, and no node, matches"));
    return graph_sort(g);
}

const Pass pass_stop_gradient = { .name = "stop-gradient",
                                  .summary = "stop gradients at the values that --stop-gradient names",
                                  .run = stop_gradient_run };
