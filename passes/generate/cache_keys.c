/* cache-keys: the graph of a whole window of tokens [1, W] becomes that of the next n of them, which reads keys and
 * values of earlier tokens from states.
 *
 * Time is treated as an axis that is split, by the rules that split a batch over replicas (OpDef.place).  By them a
 * value is
 *
 *     whole    no token determines it: constants, parameters, masks, tables of positions
 *     split    along its time axis: a slice depends on tokens up to that time
 *
 * A node whose outputs are split computes a slice of them from slices of its inputs.  Of whole inputs the slices at the
 * new positions are gathered, so whatever depends on positions follows them: embeddings, rotations, rows of masks.
 * Where a rule wants all of an input that is split, as the second factor of Q K^T and of P V, the input gets a state
 * with all times, into which the new slices are written.
 *
 * That is right only if no slice depends on later times.  So a node that wants all times must give scores with an axis
 * of keys, along which the same rules split it, too; and where this axis is summed away, the entries of later keys must
 * be zeros, as in softmax(Q K^T + mask) V (causal_scores.c).  Of a model that does anything else with time the pass
 * says what that is, E_UNSUPPORTED. */
#include "graph/ir/emit.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/softmax.gen.h"
#include "passes/generate/causal_scores.h"
#include "passes/generate/token_input.h"
#include "passes/options/tokens.h"
#include "passes/pass.h"
#include "passes/simplify/fold.h"

enum { MOST_FOLDED = 1 << 26, NO_AXIS = -1 };

typedef struct {
    Place at;          /* PLACE_B: whole */
    int key;           /* axis of keys; NO_AXIS: these are no scores */
    Later later, own;  /* of scores: entries of keys later than the query, and of its own key */
    ValueId step, all; /* its copy for the new tokens, and the one with all times */
} Timed;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    int64_t window, tokens;
    Split time;
    uint32_t n_value; /* before the pass */
    Timed *timed;     /* [n_value] */
    Place **want;     /* [node] [n_in] the placements that it needs of its inputs; NULL: it reads no time */
    ValueId position; /* int64 [tokens] */
} CacheKeys;

/* ---- where time is ---- */

static bool is_split(const CacheKeys *c, ValueId v) { return has_value(v) && c->timed[v.i].at.kind == PL_S; }
static bool has_keys(const CacheKeys *c, ValueId v) { return is_split(c, v) && c->timed[v.i].key != NO_AXIS; }

static Status fail_mixes(const CacheKeys *c, const Node *n, const char *why)
{
    return FAIL(E_UNSUPPORTED, "%s mixes tokens of different times: %s", node_text(c->g, n), why);
}

/* Is all of input i wanted though it is split? */
static bool is_gathered(const CacheKeys *c, const Node *n, int i)
{
    return is_split(c, n->in[i]) && c->want[n->index][i].kind == PL_B;
}

/* Sets where the node's inputs and outputs have time. */
static Status place_time(CacheKeys *c, Placement *p)
{
    const Node *n = p->node;

    for (int i = 0; i < n->n_in; i++)
        p->in[i] = has_value(n->in[i]) ? c->timed[n->in[i].i].at : PLACE_B;
    TRY(place_by_rule(p));
    for (int i = 0; i < n->n_in; i++)
        if (is_split(c, n->in[i]) && p->in[i].kind != PL_B && !place_eq(p->in[i], c->timed[n->in[i].i].at))
            return fail_mixes(c, n, "its inputs have time along different axes");
    for (int o = 0; o < n->n_out; o++) {
        if (!has_value(n->out[o]))
            continue;
        if (p->out[o].kind != PL_S || !place_can_split(p, value(c->g, n->out[o])->shape, p->out[o]))
            return fail_mixes(c, n, p->mixes ? p->mixes : "its result has no axis of time");
        c->timed[n->out[o].i].at = p->out[o];
    }
    return n->op->flags & OPF_RANDOM ? fail_mixes(c, n, "it is random") : ST_OK;
}

/* The place of keys in input i; PLACE_B: it has none. */
static Place keys_of(const CacheKeys *c, const Node *n, int i)
{
    Place at = PLACE_B;

    if (is_gathered(c, n, i))
        at = c->timed[n->in[i].i].at;
    else if (has_keys(c, n->in[i]))
        at = PLACE_S(c->timed[n->in[i].i].key);
    if (at.kind == PL_S)
        at.split = &c->time;
    return at;
}

/* What is known of later keys, or of own ones, in input i, broadcast to the output with these axes. */
static Later later_of_input(const CacheKeys *c, const Node *n, int i, ScoreAxes axes, bool own)
{
    if (!has_value(n->in[i]))
        return LATER_ANY;
    if (!is_split(c, n->in[i]))
        return later_of_constant(c->g, n->in[i], axes, own);
    if (!has_keys(c, n->in[i]))
        return LATER_ANY;
    return own ? c->timed[n->in[i].i].own : c->timed[n->in[i].i].later;
}

/* The node's results are scores: sets their axis of keys and what is known of later and own ones. */
static Status set_keys(CacheKeys *c, const Node *n, int axis)
{
    const Shape *s = value(c->g, n->out[0])->shape;
    Timed *y = &c->timed[n->out[0].i];
    Later *in = ARENA_NEW(c->ctx->scratch, Later, n->n_in + 1);
    const ScoreAxes axes = { s->rank - y->at.axis, s->rank - axis };

    if (!in)
        return FAIL_NOMEM();
    if (n->n_out != 1 || y->at.blocks != 1 || axis == y->at.axis || s->dim[axis] != c->window ||
        s->dim[y->at.axis] != c->window)
        return fail_mixes(c, n, "its result has no axes of queries and keys");
    y->key = axis;
    for (int own = 0; own < 2; own++) {
        for (int i = 0; i < n->n_in; i++)
            in[i] = later_of_input(c, n, i, axes, own);
        *(own ? &y->own : &y->later) = later_of_node(c->g, n, in);
    }
    return ST_OK;
}

/* A softmax along the keys, whose sums have later ones unless they are hidden. */
static Status place_softmax(CacheKeys *c, const Node *n, int axis)
{
    const Timed *x = &c->timed[n->in[0].i];
    Timed *y = &c->timed[n->out[0].i];

    if (!later_is_hidden(&x->later, &x->own))
        return fail_mixes(c, n, "no mask keeps it from later tokens");
    y->key = axis;
    y->later = (Later){ false, 0, 0 };
    y->own = LATER_ANY;
    return ST_OK;
}

/* Are the scores that the node sums over keys zero for later ones, so that the sum is over earlier times alone? */
static bool sums_earlier(const CacheKeys *c, const Node *n)
{
    bool zero = false;

    for (int i = 0; i < n->n_in; i++)
        zero |= has_keys(c, n->in[i]) && later_is_zero(&c->timed[n->in[i].i].later);
    return zero && (n->op == &op_MatMul || n->op == &op_ReduceSum);
}

/* Follows keys through a node that reads all times of an input, or scores. */
static Status place_keys(CacheKeys *c, const Node *n)
{
    Placement p = { .g = c->g, .node = n, .split = &c->time };
    bool any = false;

    p.in = ARENA_NEW(c->ctx->scratch, Place, n->n_in + 1);
    p.out = ARENA_NEW(c->ctx->scratch, Place, n->n_out + 1);
    if (!p.in || !p.out)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++) {
        p.in[i] = keys_of(c, n, i);
        any |= p.in[i].kind == PL_S;
        if (is_gathered(c, n, i) && has_keys(c, n->in[i]))
            return fail_mixes(c, n, "it wants all scores");
    }
    if (!any)
        return ST_OK;
    if (n->op == &op_Softmax && has_keys(c, n->in[0]) && p.in[0].axis == node_int(n, "axis"))
        return place_softmax(c, n, p.in[0].axis);
    TRY(place_by_rule(&p));
    for (int i = 0; i < n->n_in; i++) {
        const Place had = keys_of(c, n, i);

        if (had.kind == PL_S && !place_eq(had, p.in[i]))
            return fail_mixes(c, n, p.mixes ? p.mixes : "it joins keys");
    }
    if (p.out[0].kind == PL_S && p.out[0].blocks == 1 && p.out[0].axis >= 0)
        return set_keys(c, n, p.out[0].axis);
    if (p.out[0].kind == PL_P && sums_earlier(c, n))
        return ST_OK;
    return fail_mixes(c, n, p.out[0].kind == PL_P ? "no mask keeps it from later tokens" : "it joins keys");
}

static Status place_node(CacheKeys *c, Node *n)
{
    Placement p = { .g = c->g, .node = n, .split = &c->time };
    bool any = false;

    for (int i = 0; i < n->n_in; i++)
        any |= is_split(c, n->in[i]);
    if (!any)
        return fold_possible(c->g, n) ? fold_node(c->g, c->ctx, n, MOST_FOLDED) : ST_OK;
    p.in = c->want[n->index] = ARENA_NEW(c->ctx->scratch, Place, n->n_in + 1);
    p.out = ARENA_NEW(c->ctx->scratch, Place, n->n_out + 1);
    if (!p.in || !p.out)
        return FAIL_NOMEM();
    TRY(place_time(c, &p));
    return place_keys(c, n);
}

static Status place_all(CacheKeys *c)
{
    FOR_NODES(c->g, n)
        TRY(place_node(c, n));
    for (int i = 0; i < c->g->n_output; i++)
        if (has_keys(c, c->g->output[i].value))
            return FAIL(E_UNSUPPORTED, "output '%s' has a number for each pair of tokens", c->g->output[i].name);
    return ST_OK;
}

/* ---- the graph of the new tokens ---- */

/* The shape of a split value's slices at the new positions. */
static Shape step_shape(const CacheKeys *c, const Shape *whole, Place at)
{
    Shape s = *whole;

    s.dim[at.axis] = s.dim[at.axis] / c->window * c->tokens;
    return s;
}

/* The slices of a whole value at the new positions. */
static ValueId slices(CacheKeys *c, ValueId v, int axis)
{
    Graph *g = c->g;
    const Node *n = value(g, v)->producer;

    if (n && n->op == &op_Gather && has_value(n->in[1])) { /* rows of a table, by a list of which some are wanted */
        const int first = (int)node_int(n, "axis"), rank = in_value(g, n, 1)->shape->rank;

        if (axis >= first && axis < first + rank)
            return EMIT(g, Gather, ATTRS(INT("axis", first)), n->in[0], slices(c, n->in[1], axis - first));
    }
    return EMIT(g, Gather, ATTRS(INT("axis", axis)), v, c->position);
}

/* The value with all times: a state, into which the new slices are written. */
static ValueId all_times(CacheKeys *c, ValueId v)
{
    Graph *g = c->g;
    Timed *t = &c->timed[v.i];
    const Value *of = value(g, v);
    const char *name = arena_printf(c->ctx->scratch, STATE_CACHE "%s", of->name);
    Tensor *zeros = name ? tensor_zeros(g->arena, of->dtype, of->shape) : NULL;
    const Shape added = step_shape(c, of->shape, t->at);
    Shape places = { .rank = added.rank };
    ValueId state, at;

    if (has_value(t->all) || g->status)
        return t->all;
    if (!zeros)
        g->status = FAIL_NOMEM();
    if (g->status)
        return NO_VALUE;
    for (int i = 0; i < places.rank; i++)
        places.dim[i] = i == t->at.axis ? c->tokens : 1;
    state = graph_add_state(g, name, zeros, false);
    if (g->status)
        return NO_VALUE;
    value(g, state)->transient = true;
    at = emit_expand(g, emit_reshape(g, c->position, &places), &added);
    t->all = EMIT(g, ScatterElements, ATTRS(INT("axis", t->at.axis)), state, at, t->step);
    graph_add_update(g, state, t->all);
    c->ctx->n_changed++;
    return t->all;
}

static ValueId step_input(CacheKeys *c, const Node *n, int i)
{
    const Place want = c->want[n->index][i];

    if (!has_value(n->in[i]))
        return NO_VALUE;
    if (is_split(c, n->in[i]))
        return want.kind == PL_B ? all_times(c, n->in[i]) : c->timed[n->in[i].i].step;
    return want.kind == PL_S ? slices(c, n->in[i], want.axis) : n->in[i];
}

/* Whether caches and slices of whole values can be made for the node: their axes must count times one by one. */
static Status check_axes(const CacheKeys *c, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Place want = c->want[n->index][i], at = !has_value(n->in[i])    ? PLACE_B
                                                      : is_gathered(c, n, i)  ? c->timed[n->in[i].i].at
                                                      : is_split(c, n->in[i]) ? PLACE_B
                                                                              : want;

        if (at.kind == PL_S && (at.blocks != 1 || in_value(c->g, n, i)->shape->dim[at.axis] != c->window))
            return fail_mixes(c, n, "time is joined with another axis");
    }
    return ST_OK;
}

/* Appends the node for the new tokens. */
static Status step_node(CacheKeys *c, const Node *n)
{
    Graph *g = c->g;
    ValueId *in = ARENA_NEW(c->ctx->scratch, ValueId, n->n_in + 1);
    const char **names = ARENA_NEW(c->ctx->scratch, const char *, n->n_out + 1);
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    Node *copy;

    if (!in || !names)
        return FAIL_NOMEM();
    TRY(check_axes(c, n));
    for (int i = 0; i < n->n_in; i++)
        in[i] = step_input(c, n, i);
    for (int o = 0; o < n->n_out; o++)
        names[o] = has_value(n->out[o]) ? value(g, n->out[o])->name : "";
    TRY(g->status);
    if (!(copy = graph_add_node_like(g, n, n->n_in, in, n->n_out, names)))
        return g->status;
    if (n->op->shape_in) {
        const Shape s = step_shape(c, value(g, n->out[0])->shape, c->timed[n->out[0].i].at);

        node_set_input(g, copy, n->op->shape_in - 1, emit_shape_const(g, &s));
    }
    TRY(g->status);
    TRY(node_infer(g, copy));
    for (int o = 0; o < n->n_out; o++) {
        const Shape s = has_value(n->out[o]) ? step_shape(c, value(g, n->out[o])->shape, c->timed[n->out[o].i].at)
                                             : shape_unknown();

        if (!has_value(n->out[o]))
            continue;
        if (!shape_eq(value(g, copy->out[o])->shape, &s))
            return FAIL(E_UNSUPPORTED, "%s fixes the number of tokens: output %d is %s, expected %s", node_text(g, n),
                        o, shape_text(value(g, copy->out[o])->shape, a), shape_text(&s, b));
        c->timed[n->out[o].i].step = copy->out[o];
    }
    return ST_OK;
}

static Status step_graph(CacheKeys *c, ValueId tokens)
{
    Graph *g = c->g;
    const uint32_t n_node = g->n_node;
    const Shape new_tokens = SHAPE(1, c->tokens), positions = SHAPE(c->tokens);

    c->position = graph_add_input(g, IN_POSITION, DT_INT64, &positions);
    value_set_shape(g, value(g, tokens), &new_tokens);
    c->timed[tokens.i].step = tokens;
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i]->op && c->want[i])
            TRY(step_node(c, g->node[i]));
    for (int i = 0; i < g->n_output; i++)
        if (is_split(c, g->output[i].value))
            g->output[i].value = c->timed[g->output[i].value.i].step;
    for (uint32_t i = n_node; i-- > 0;)
        if (g->node[i]->op && c->want[i])
            graph_remove(g, g->node[i]);
    return graph_sort(g);
}

/* Removes nodes whose outputs nobody reads: they need not be right at any time. */
static Status drop_unread(Graph *g, PassCtx *ctx)
{
    uint32_t *uses = graph_count_uses(g, ctx->scratch);

    if (!uses)
        return FAIL_NOMEM();
    for (uint32_t i = g->n_node; i-- > 0;) {
        Node *n = g->node[i];
        bool read = !n->op;

        for (int o = 0; o < n->n_out; o++)
            read |= has_value(n->out[o]) && uses[n->out[o].i];
        if (read)
            continue;
        for (int k = 0; k < n->n_in; k++)
            uses[n->in[k].i] -= has_value(n->in[k]);
        graph_remove(g, n);
    }
    return graph_sort(g);
}

static Status cache_keys_run(Graph *g, PassCtx *ctx)
{
    const TokenOptions *o = token_options(ctx->opt);
    const ValueId tokens = token_input(g);
    const Shape whole = SHAPE(1, o->window);
    static const int64_t none;
    CacheKeys c = { .g = g, .ctx = ctx, .window = o->window, .tokens = o->tokens };

    if (replica_count(ctx->opt) > 1)
        return FAIL(E_UNSUPPORTED, "there are several devices or replicas");
    if (!has_value(tokens) || !shape_eq(value(g, tokens)->shape, &whole) || g->n_update)
        return FAIL(E_UNSUPPORTED, "the model is more than scores of tokens [1, %lld]", (long long)o->window);
    TRY(drop_unread(g, ctx));
    c.time = (Split){ .n = 1, .total = c.window, .count = &c.window, .offset = &none };
    c.n_value = g->n_value;
    c.timed = ARENA_NEW(ctx->scratch, Timed, g->n_value);
    c.want = ARENA_NEW(ctx->scratch, Place *, g->n_node);
    if (!c.timed || !c.want)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        c.timed[i].key = NO_AXIS;
    c.timed[tokens.i].at = PLACE_S(1);
    c.timed[tokens.i].at.split = &c.time;
    TRY(place_all(&c));
    return step_graph(&c, tokens);
}

const Pass pass_cache_keys = { .name = "cache-keys",
                               .summary =
                                   "compute the next tokens of a text, with keys and values of the others in states",
                               .modes = 1u << BUILD_CONTINUE,
                               .run = cache_keys_run };
