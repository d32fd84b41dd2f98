/* The placement rules: inputs are split along every axis they have, or given as partial sums, over replicas of uneven
 * parts, alone and in pairs; the partitioned graph must compute what the whole one computes.  Run on the operator and
 * on its gradient, so that the rules of both are held to it. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/verify.h"
#include "passes/partition/expand.h"
#include "tests/ops/check.h"

enum { MAX_OPTIONS = CASE_ARGS * (MAX_RANK + 1) };

typedef struct {
    int arg;
    Place at;
} Option;

typedef struct {
    const Eval *e;
    Arena *a; /* of one attempt */
    Graph *g; /* partitioned */
    Partition part;
    Place want[CASE_ARGS];
    ValueId input[CASE_ARGS];
} Attempt;

static ValueId arg_value(const Graph *g, int arg)
{
    char name[16];

    snprintf(name, sizeof name, "x%d", arg);
    return graph_find(g, name);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* A partial sum is a state of which every replica has its own. */
static Status make_partial(Attempt *t, int arg)
{
    Value *v = value(t->g, t->input[arg]);
    int k = 0;

    v->kind = V_STATE;
    v->partial = true;
    if (!(v->init = tensor_create(t->g->arena, v->dtype, v->shape)))
        return FAIL_NOMEM();
    for (int i = 0; i < t->g->n_input; i++)
        if (!value_eq(t->g->input[i], t->input[arg]))
            t->g->input[k++] = t->g->input[i];
    t->g->n_input = k;
    return ST_OK;
}

/* Parts as equal as possible, the larger ones last. */
static Status decide(Attempt *t, int replicas, int devices)
{
    int *axis = ARENA_NEW(t->a, int, t->g->n_value), *device_of = ARENA_NEW(t->a, int, replicas),
        *first = ARENA_NEW(t->a, int, devices + 1), *like = ARENA_NEW(t->a, int, devices + 1);
    int64_t *count = ARENA_NEW(t->a, int64_t, replicas), *offset = ARENA_NEW(t->a, int64_t, replicas), batch = 0;

    if (!axis || !device_of || !first || !like || !count || !offset)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < t->g->n_value; i++)
        axis[i] = -1;
    for (int i = 0; i < CASE_ARGS; i++)
        if (t->want[i].kind == PL_S) {
            axis[t->input[i].i] = t->want[i].axis;
            batch = gcd(batch, value(t->g, t->input[i])->shape->dim[t->want[i].axis]);
        }
    for (int r = 0; r < replicas; r++) {
        offset[r] = batch * r / replicas;
        count[r] = batch * (r + 1) / replicas - offset[r];
        device_of[r] = r * devices / replicas;
        first[device_of[r] + 1] = r + 1;
    }
    for (int d = 0; d <= devices; d++)
        like[d] = d;
    t->part = (Partition){ .replicas = replicas,
                           .devices = devices,
                           .device_of = device_of,
                           .first_replica = first,
                           .batch = { false, replicas, batch, count, offset },
                           .batch_axis = axis,
                           .like = like,
                           .shown = like };
    return ST_OK;
}

static Status partition(Attempt *t, int replicas, int devices)
{
    Placements places;

    TRY(graph_clone(&t->g, t->e->g));
    for (int i = 0; i < CASE_ARGS; i++) {
        t->input[i] = t->e->in[i] ? arg_value(t->g, i) : NO_VALUE;
        if (t->want[i].kind == PL_P)
            TRY(make_partial(t, i));
    }
    TRY(decide(t, replicas, devices));
    TRY(place_graph(&places, t->g, &t->part, t->a, NULL));
    TRY(expand_graph(t->g, &t->part, &places, t->a));
    TRY(graph_sort(t->g));
    return graph_verify(t->g);
}

/* Random parts that add up to the whole. */
static Status give_partial(Attempt *t, const Tensor **values, int arg)
{
    const Tensor *whole = t->e->in[arg];
    Tensor *rest = tensor_copy(t->a, whole), *part = NULL;
    uint32_t seed = 99;
    char name[32];

    for (int r = 0; rest && r < t->part.replicas; r++, part = NULL) {
        bool last = r == t->part.replicas - 1;

        part = last ? rest : tensor_create(t->a, whole->dtype, &whole->shape);
        for (int64_t i = 0; part && !last && i < tensor_numel(whole); i++) {
            seed = seed * 1664525u + 1013904223u;
            tensor_set_float(part, i, (double)(seed >> 8) / (1 << 23) - 1);
            tensor_set_float(rest, i, tensor_float(rest, i) - tensor_float(part, i));
        }
        if (!part)
            return FAIL_NOMEM();
        snprintf(name, sizeof name, "x%d@r%d", arg, r);
        values[graph_find(t->g, name).i] = part;
    }
    return rest ? ST_OK : FAIL_NOMEM();
}

static Status compare(Attempt *t)
{
    const Tensor **values = ARENA_NEW(t->a, const Tensor *, t->g->n_value);

    if (!values)
        return FAIL_NOMEM();
    for (int i = 0; i < CASE_ARGS; i++)
        if (t->want[i].kind == PL_P)
            TRY(give_partial(t, values, i));
        else if (t->e->in[i])
            values[t->input[i].i] = t->e->in[i];
    TRY(interp_run(t->a, t->g, values));
    for (int i = 0; i < t->e->n_out; i++) {
        char what[32];

        snprintf(what, sizeof what, "output %d", i);
        TRY(check_equal(values[t->g->output[i].value.i], t->e->out[i], 1e-9, what));
    }
    return ST_OK;
}

static const char *describe(const Option *o, int n, char *text, size_t size)
{
    int len = 0;

    for (int i = 0; i < n; i++)
        len += o[i].at.kind == PL_S
                   ? snprintf(text + len, size - (size_t)len, "input %d split along axis %d, ", o[i].arg, o[i].at.axis)
                   : snprintf(text + len, size - (size_t)len, "input %d partial, ", o[i].arg);
    return text;
}

static Status attempt(const Eval *e, const Option *o, int n, int replicas, int devices)
{
    Attempt t = { .e = e, .a = arena_create() };
    char text[512];
    Status st;

    if (!t.a)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++)
        t.want[o[i].arg] = o[i].at;
    st = partition(&t, replicas, devices);
    if (!st)
        st = compare(&t);
    graph_free(t.g);
    arena_free(t.a);
    return st ? status_prefix(st, "%s%d replicas", describe(o, n, text, sizeof text), replicas) : ST_OK;
}

static int list_options(const Eval *e, Option *o)
{
    int n = 0;

    for (int i = 0; i < CASE_ARGS; i++) {
        for (int a = 0; e->in[i] && a < e->in[i]->shape.rank; a++)
            o[n++] = (Option){ i, PLACE_S(a) };
        if (e->in[i] && e->in[i]->dtype == DT_FLOAT64)
            o[n++] = (Option){ i, PLACE_P };
    }
    return n;
}

static bool all_shapes_known(const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (!shape_known(g->value[i]->shape))
            return false;
    return true;
}

Status check_split(const Check *k, const Eval *e)
{
    Option option[MAX_OPTIONS], pair[2];
    int n = list_options(e, option);

    if (k->c->nosplit || !all_shapes_known(e->g))
        return ST_OK;
    TRY(check_linear(k, e));
    for (int i = 0; i < n; i++) {
        TRY(attempt(e, &option[i], 1, 2, 2));
        TRY(attempt(e, &option[i], 1, 3, 1));
        for (int j = i + 1; j < n; j++) {
            pair[0] = option[i];
            pair[1] = option[j];
            if (pair[0].arg != pair[1].arg)
                TRY(attempt(e, pair, 2, 2 + (i + j) % 2, 2 - (i + j) % 2));
        }
    }
    return ST_OK;
}
