/* The random batch of a check.  Index ranges are found by walking the graph backwards from the operators that select; whatever
 * passes integers on (casts, reshapes) passes the range on too. */
#include "exec/verify_batch.h"

#include <string.h>

#include "graph/op.h"

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* How many entries input i of n selects from; INT64_MAX when it is no index. */
static int64_t index_range(const Graph *g, const Node *n, int i)
{
    int64_t range = n->op->index_range ? n->op->index_range(g, n, i) : -1;

    return range < 0 ? INT64_MAX : range;
}

/* By value id: the entries of the smallest table that the value selects from, directly or through other integers. */
static int64_t *find_ranges(Arena *a, const Graph *g)
{
    int64_t *range = ARENA_NEW(a, int64_t, g->n_value);

    if (!range)
        return NULL;
    for (uint32_t i = 0; i < g->n_value; i++)
        range[i] = INT64_MAX;
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        int64_t through = INT64_MAX;

        if (!n->op)
            continue;
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]) && dtype_is_int(value(g, n->out[o])->dtype) && range[n->out[o].i] < through)
                through = range[n->out[o].i];
        for (int i = 0; i < n->n_in; i++) {
            int64_t here = has_value(n->in[i]) ? index_range(g, n, i) : INT64_MAX;

            here = here < through ? here : through;
            range[n->in[i].i] = here < range[n->in[i].i] ? here : range[n->in[i].i];
        }
    }
    return range;
}

static void fill(Tensor *t, const char *name, const BuildOptions *opt, int64_t range, uint64_t *state)
{
    bool target = !strcmp(name, opt->target ? opt->target : "target");

    for (int64_t i = 0; i < tensor_numel(t); i++) {
        uint64_t r = next_random(state);

        if (t->dtype == DT_BOOL)
            tensor_set_int(t, i, (int64_t)(r >> 63));
        else if (dtype_is_float(t->dtype))
            tensor_set_float(t, i, !strcmp(name, IN_LR) ? 0.05 : (double)(r >> 11) * 0x1p-52 - 1);
        else if (target && opt->has_ignore_index && r % 5 == 0)
            tensor_set_int(t, i, opt->ignore_index);
        else
            tensor_set_int(t, i, (int64_t)((r >> 8) % (uint64_t)(range > 0 && range < INT64_MAX ? range : 2)));
    }
}

Status verify_batch(Arena *a, const Graph *g, const BuildOptions *opt, uint64_t seed, const Tensor **values)
{
    const int64_t *range = find_ranges(a, g);

    if (!range)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        Tensor *t;
        char text[SHAPE_TEXT];

        if (!shape_known(&v->shape))
            return FAIL(E_SHAPE, "input '%s' has shape %s: give every dimension", v->name, shape_text(&v->shape, text));
        if (!(t = tensor_create(a, v->dtype, &v->shape)))
            return FAIL_NOMEM();
        fill(t, v->name, opt, range[g->input[i].i], &seed);
        values[g->input[i].i] = t;
    }
    return ST_OK;
}
