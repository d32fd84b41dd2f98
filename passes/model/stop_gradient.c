/* stop-gradient: stops gradients at the values that --stop-gradient names.
 *
 * The importer reads the stops that the file records (graph/onnx/traced_program.c). */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/view.gen.h"
#include "graph/ir/stop_gradient.h"
#include "passes/model/stop_gradient.h"
#include "passes/pass.h"
#include "passes/options/parameters.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    ValueId *stopped; /* by value id: its StopGradient */
    uint32_t n_value;
} Stop;

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

static Status stop_edge(Stop *s, ValueId *out, ValueId v)
{
    if (!has_value(s->stopped[v.i]))
        s->stopped[v.i] = import_emit(s->g, &op_StopGradient, NULL, 1, &v);
    *out = s->stopped[v.i];
    s->ctx->n_changed++;
    return s->g->status;
}

static Status stop_gradient_apply(Stop *s, const char *pattern, bool *any)
{
    Graph *g = s->g;
    const uint32_t n_node = g->n_node;
    ValueId by;

    for (uint32_t k = 0; k < n_node; k++) {
        Node *n = g->node[k];

        for (int i = 0; n->op && !op_stops(n->op) && i < n->n_in; i++) {
            if (!has_value(n->in[i]) || n->in[i].i >= s->n_value ||
                !matches(g, s->ctx->scratch, pattern, n->in[i], n, i))
                continue;
            TRY(stop_edge(s, &by, n->in[i]));
            node_set_input(g, n, i, by);
            *any = true;
        }
    }
    for (int i = 0; i < g->n_output; i++) {
        const ValueId v = g->output[i].value;

        if (v.i >= s->n_value || value(g, v)->kind == V_INPUT || !matches(g, s->ctx->scratch, pattern, v, NULL, 0))
            continue;
        TRY(stop_edge(s, &g->output[i].value, v));
        *any = true;
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
    Stop s = { .g = g, .ctx = ctx, .n_value = g->n_value };
    Problems wrong = { 0 };

    if (!parameter_options(ctx->opt)->n_stop)
        return ST_OK;
    if (!(s.stopped = ARENA_NEW(ctx->scratch, ValueId, g->n_value)))
        return FAIL_NOMEM();
    for (int i = 0; i < parameter_options(ctx->opt)->n_stop; i++) {
        bool any = false;

        TRY(stop_gradient_apply(&s, parameter_options(ctx->opt)->stop[i], &any));
        if (!any)
            problems_add(&wrong, "'%s'", parameter_options(ctx->opt)->stop[i]);
    }
    TRY(problems_fail(&wrong, E_INVALID,
                      "--stop-gradient: no value that a node reads, or none of a node, has a name like"));
    return graph_sort(g);
}

const Pass pass_stop_gradient = { .name = "stop-gradient",
                                  .summary = "stop gradients at the values that --stop-gradient names",
                                  .run = stop_gradient_run };
