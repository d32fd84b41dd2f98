/* The random batch of a check.  Index ranges are found by walking the graph backwards from the operators that select;
 * whatever passes integers on (casts, reshapes) passes the range on too, arithmetic with constants turned around. */
#include "exec/inspect/verify_batch.h"

#include <string.h>

#include "graph/ir/op.h"

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* None is asked for where `high` is INT64_MAX. */
static const IntSpan ANY = { INT64_MIN, INT64_MAX };

static bool is_any(IntSpan s) { return s.high == INT64_MAX; }

/* Both asked for; where they have nothing in common the smaller table decides. */
static IntSpan verify_batch_both(IntSpan a, IntSpan b)
{
    IntSpan s = { a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high };

    return s.low < s.high || is_any(s) ? s : a.high < b.high ? a : b;
}

/* What input i of n selects from. */
static IntSpan index_span(const Graph *g, const Node *n, int i)
{
    int64_t range = n->op->index_range && has_value(n->in[i]) ? n->op->index_range(g, n, i) : -1;

    return range < 0 ? ANY : (IntSpan){ 0, range };
}

/* What input i may be, so that the node's result lies in `y`; what is not known is that it passes on what it reads. */
static IntSpan through(const Graph *g, const Node *n, int i, IntSpan y)
{
    IntSpan of = y;
    bool finite = !is_any(y) && y.high <= 1LL << 40 && y.low >= -(1LL << 40);

    return n->op->span_in && finite && has_value(n->in[i]) && n->op->span_in(g, n, i, &of) ? of : y;
}

/* By value id: what the value's elements must be, for what it selects from directly or through other integers. */
static IntSpan *find_spans(Arena *a, const Graph *g)
{
    IntSpan *span = ARENA_NEW(a, IntSpan, g->n_value);

    if (!span)
        return NULL;
    for (uint32_t i = 0; i < g->n_value; i++)
        span[i] = ANY;
    for (uint32_t k = g->n_node; k-- > 0;) {
        const Node *n = g->node[k];
        IntSpan y = ANY;

        if (!n->op)
            continue;
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]) && dtype_is_int(value(g, n->out[o])->dtype))
                y = verify_batch_both(y, span[n->out[o].i]);
        for (int i = 0; i < n->n_in; i++)
            span[n->in[i].i] =
                verify_batch_both(span[n->in[i].i], verify_batch_both(index_span(g, n, i), through(g, n, i, y)));
    }
    return span;
}

static int64_t verify_batch_draw(IntSpan s, uint64_t r)
{
    int64_t low = s.low > -(1LL << 40) ? s.low : 0;

    return is_any(s) ? (int64_t)(r % 2) : s.high > low ? low + (int64_t)(r % (uint64_t)(s.high - low)) : low;
}

static bool is_rate(const char *name)
{
    return !strncmp(name, IN_LR, strlen(IN_LR)) && (!name[strlen(IN_LR)] || name[strlen(IN_LR)] == '.');
}

static void verify_batch_fill(Tensor *t, const char *name, const BuildOptions *opt, IntSpan span, uint64_t *state)
{
    const bool target = !strcmp(name, opt->target ? opt->target : "target");
    int64_t ignored = 0;
    const bool ignores = recipe_given_int(&ignored, opt->settings, "ignore-index");

    for (int64_t i = 0; i < tensor_numel(t); i++) {
        uint64_t r = next_random(state);

        if (t->dtype == DT_BOOL)
            tensor_set_int(t, i, (int64_t)(r >> 63));
        else if (dtype_is_float(t->dtype))
            tensor_set_float(t, i, is_rate(name) ? 0.05 : (double)(r >> 11) * 0x1p-52 - 1);
        else if (target && ignores && r % 5 == 0)
            tensor_set_int(t, i, ignored);
        else
            tensor_set_int(t, i, verify_batch_draw(span, r >> 8));
    }
}

Status verify_batch(Arena *a, const Graph *g, const BuildOptions *opt, uint64_t seed, const Tensor **values)
{
    const IntSpan *span = find_spans(a, g);

    if (!span)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        Tensor *t;
        char text[SHAPE_TEXT];

        if (!shape_known(v->shape))
            return FAIL(E_SHAPE, "input '%s' has shape %s: give every dimension", v->name, shape_text(v->shape, text));
        if (!(t = tensor_create(a, v->dtype, v->shape)))
            return FAIL_NOMEM();
        verify_batch_fill(t, v->name, opt, span[g->input[i].i], &seed);
        values[g->input[i].i] = t;
    }
    return ST_OK;
}
