/* The random batch of `graph-transform --verify`.  Index ranges are found by walking the graph backwards from the
 * operators that select.  Arithmetic with constants is inverted.  Every other operator is assumed to pass its inputs
 * on, as casts and reshapes do: possibly too narrow. */
#include "exec/inspect/verify_batch.h"

#include <string.h>

#include "graph/base/hash.h"
#include "graph/ir/op.h"
#include "passes/options/recipes.h"
#include "passes/options/target.h"

static const int64_t FAR = 1LL << 40; /* span_in computes with ends up to here without overflow */
/* No range is required. */
static const IntSpan ANY = { INT64_MIN, INT64_MAX };

static bool no_upper_bound(IntSpan s) { return s.high == INT64_MAX; }

/* The numbers in both ranges.  If there are none, the range with the lower end, which is the smaller table's. */
static IntSpan intersect(IntSpan a, IntSpan b)
{
    IntSpan s = { a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high };

    return s.low < s.high || no_upper_bound(s) ? s : a.high < b.high ? a : b;
}

/* Returns by value id the range in which the value's elements must lie, because they select from a table, directly or
 * through other integers.  NULL: out of memory. */
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
        bool finite;

        if (!n->op)
            continue;
        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]) && dtype_is_int(value(g, n->out[o])->dtype))
                y = intersect(y, span[n->out[o].i]);
        finite = !no_upper_bound(y) && y.high <= FAR && y.low >= -FAR;
        for (int i = 0; i < n->n_in; i++) {
            int64_t range;
            IntSpan index, before = y; /* inputs in `before` give results in y; where that is unknown, y is a guess */

            if (!has_value(n->in[i]))
                continue;
            range = n->op->index_range ? n->op->index_range(g, n, i) : -1;
            index = range < 0 ? ANY : (IntSpan){ 0, range };
            if (!(n->op->span_in && finite && n->op->span_in(g, n, i, &before)))
                before = y;
            span[n->in[i].i] = intersect(span[n->in[i].i], intersect(index, before));
        }
    }
    return span;
}

/* The number in the range that the random bits r choose; 0 or 1 where no range is required; the low end of an empty
 * range. */
static int64_t draw_int(IntSpan s, uint64_t r)
{
    int64_t low = s.low > -FAR ? s.low : 0;

    return no_upper_bound(s) ? (int64_t)(r % 2) : s.high > low ? low + (int64_t)(r % (uint64_t)(s.high - low)) : low;
}

static void verify_batch_fill(Tensor *t, const char *name, const BuildOptions *opt, IntSpan span, uint64_t *state)
{
    const size_t n = strlen(IN_LR);
    const bool target = !strcmp(name, target_name(opt));
    const bool rate = !strncmp(name, IN_LR, n) && (!name[n] || name[n] == '.');
    int64_t ignored = 0;
    const bool ignores = recipe_given_int(&ignored, recipe_options(opt)->settings, "ignore-index");

    for (int64_t i = 0; i < tensor_numel(t); i++) {
        uint64_t r = hash_mix(*state += HASH_GOLDEN); /* splitmix64 */

        if (t->dtype == DT_BOOL)
            tensor_set_int(t, i, (int64_t)(r >> 63));
        else if (dtype_is_float(t->dtype))
            tensor_set_float(t, i, rate ? 0.05 : (double)(r >> 11) * 0x1p-52 - 1);
        else if (target && ignores && r % 5 == 0)
            tensor_set_int(t, i, ignored);
        else
            tensor_set_int(t, i, draw_int(span, r >> 8));
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
            return FAIL(E_SHAPE, "input '%s' has shape %s: give every dimension with --input-shape", v->name,
                        shape_text(v->shape, text));
        if (!(t = tensor_create(a, v->dtype, v->shape)))
            return FAIL_NOMEM();
        verify_batch_fill(t, v->name, opt, span[g->input[i].i], &seed);
        values[g->input[i].i] = t;
    }
    return ST_OK;
}
