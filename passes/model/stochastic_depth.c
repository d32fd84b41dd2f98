/* stochastic-depth: out of training, keeps the branches that training drops at random.
 *
 * Dropout is an operator with a mode.  Stochastic depth and other dropouts that a framework writes in single operators
 * have none: a file that was exported for training drops wherever it runs.  The pass recognises
 *
 *   a mask of zeros and ones         Bernoulli(keep), u < keep, u >= 1 - keep or floor(u + keep), with u uniform in
 *                                    [0, 1); possibly cast, spread or negated
 *   y = x * mask / keep              with the division before, behind or within the mask
 *   x + branch * mask                without division, if the mask has one number for each sample or for all
 *
 * The division by the probability of the mask shows a dropout: the mean of y is x, and all frameworks compute x out of
 * training.  A mask without the division may be the model's own noise, unless it adds or drops a residual branch for
 * whole samples.  Literals are compared to the precision of 16-bit floats.
 *
 * In training the graph stays unchanged.  Other operators that draw random numbers do so in every mode; a note names
 * them. */
#include <math.h>

#include "graph/ir/readers.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/random.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"
#include "passes/model/inference.h"
#include "passes/pass.h"
#include "passes/report.h"

enum { DEPTH = 16 };
static const double ROUNDING = 0x1p-10;

/* A random value: `scale` with probability `keep`, else 0. */
typedef struct {
    double keep, scale;
    const Node *draws;
} Mask;

/* ---- numbers ---- */

static bool about(double a, double b) { return fabs(a - b) <= ROUNDING * fabs(b); }

static bool all_equal(const Tensor *t, double *out)
{
    int64_t count = t ? tensor_numel(t) : 0;

    if (!count || !(dtype_is_float(t->dtype) || dtype_is_int(t->dtype)))
        return false;
    *out = tensor_float(t, 0);
    for (int64_t i = 1; i < count; i++)
        if (tensor_float(t, i) != *out)
            return false;
    return true;
}

/* *out: the number that all elements of a constant, or of a ConstantOfShape, are. */
static bool stochastic_depth_number(const Graph *g, ValueId v, double *out)
{
    const Node *n = maker(g, v);

    for (int i = 0; n && i < DEPTH && n->op->same; i++) {
        v = n->in[0];
        n = maker(g, v);
    }
    if (n && n->op == &op_ConstantOfShape) {
        const Attr *a = node_attr(n, "value");

        *out = 0;
        return !a || !a->tensor || all_equal(a->tensor, out);
    }
    return has_value(v) && all_equal(value_const(g, v), out);
}

/* ---- masks ---- */

/* The node that draws v uniformly from [0, 1); NULL: v is not drawn so. */
static const Node *uniform(const Graph *g, ValueId v)
{
    const Node *n = maker(g, v);

    for (int i = 0; n && i < DEPTH && n->op->same; i++)
        n = maker(g, n->in[0]);
    if (!n || (n->op != &op_RandomUniform && n->op != &op_RandomUniformLike))
        return NULL;
    return node_float(n, "low") == 0 && node_float(n, "high") == 1 ? n : NULL;
}

static bool set_mask(Mask *out, double keep, const Node *draws)
{
    *out = (Mask){ keep, 1, draws };
    return draws && keep > 0 && keep <= 1;
}

/* Bernoulli(keep), u < keep, u > 1 - keep with the operands in either order, or floor(u + keep). */
static bool drawn(Mask *out, const Graph *g, const Node *n)
{
    const bool less = n->op == &op_Less || n->op == &op_LessOrEqual;
    const bool compares = less || n->op == &op_Greater || n->op == &op_GreaterOrEqual;
    double bound;

    if (n->op == &op_Bernoulli)
        return stochastic_depth_number(g, n->in[0], &bound) && set_mask(out, bound, n);
    if (!compares && n->op != &op_Floor)
        return false;
    n = compares ? n : maker(g, n->in[0]);
    if (!n || (!compares && n->op != &op_Add))
        return false;
    for (int i = 1; i >= 0; i--) /* which operand is the number */
        if (stochastic_depth_number(g, n->in[i], &bound))
            return set_mask(out, !compares || less == (i == 1) ? bound : 1 - bound, uniform(g, n->in[1 - i]));
    return false;
}

static bool mask_of(Mask *out, const Graph *g, ValueId v, int depth);

/* Where(mask, a, 0), Where(mask, 0, a), Not(mask) or 1 - mask. */
static bool derived(Mask *out, const Graph *g, const Node *n, int depth)
{
    double a, b;

    if (n->op == &op_Not)
        return mask_of(out, g, n->in[0], depth) && set_mask(out, 1 - out->keep, out->draws);
    if (n->op == &op_Sub)
        return stochastic_depth_number(g, n->in[0], &a) && a == 1 && mask_of(out, g, n->in[1], depth) &&
               out->scale == 1 && set_mask(out, 1 - out->keep, out->draws);
    if (n->op != &op_Where || !stochastic_depth_number(g, n->in[1], &a) || !stochastic_depth_number(g, n->in[2], &b) ||
        (a != 0) == (b != 0) || !mask_of(out, g, n->in[0], depth))
        return false;
    if (!set_mask(out, a != 0 ? out->keep : 1 - out->keep, out->draws))
        return false;
    out->scale = a != 0 ? a : b;
    return true;
}

/* *by: the factor by which a product or quotient with a number scales its other input, *i. */
static bool scaling(const Graph *g, const Node *n, int *i, double *by)
{
    bool div = n->op == &op_Div;

    if (n->op != &op_Mul && !div)
        return false;
    *i = stochastic_depth_number(g, n->in[1], by) ? 0 : 1;
    if (*i == 1 && (div || !stochastic_depth_number(g, n->in[0], by)))
        return false;
    if (div)
        *by = 1 / *by;
    return isfinite(*by) && *by != 0;
}

/* Is v a mask, made by `depth` nodes at most? */
static bool mask_of(Mask *out, const Graph *g, ValueId v, int depth)
{
    const Node *n = maker(g, v);
    double by;
    int i;

    if (!n || !depth)
        return false;
    if (n->op->same)
        return mask_of(out, g, n->in[0], depth - 1);
    if (scaling(g, n, &i, &by)) {
        if (!mask_of(out, g, n->in[i], depth - 1))
            return false;
        out->scale *= by;
        return true;
    }
    return drawn(out, g, n) || derived(out, g, n, depth - 1);
}

/* ---- one number for each sample ---- */

/* Are all dimensions of the list 1 but the first? */
static bool ones_behind_first(const Graph *g, ValueId dims)
{
    const Tensor *t = has_value(dims) ? value_const(g, dims) : NULL;
    const Node *n = maker(g, dims);
    double one;

    if (t) {
        for (int64_t i = 1; i < tensor_numel(t); i++)
            if (tensor_int(t, i) != 1)
                return false;
        return tensor_numel(t) > 1;
    }
    if (!n || n->op != &op_Concat)
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (!stochastic_depth_number(g, n->in[i], &one) || one != 1)
            return false;
    return n->n_in > 1;
}

static bool is_per_sample(const Shape *s) { return s->rank > 1 && shape_known(s) && shape_count(s, 1, s->rank) == 1; }

/* Is one number drawn for each sample?  The drawn shape shows it, or the constants that the shape is made of. */
static bool per_sample(const Graph *g, const Node *draws)
{
    const Node *n = draws;

    if (draws->op == &op_RandomUniform) {
        int rank;
        const int64_t *dim = node_ints(draws, "shape", &rank);
        Shape s = shape_of(rank <= MAX_RANK ? rank : 0, dim);

        return is_per_sample(&s);
    }
    for (int i = 0; n && i < DEPTH; i++) {
        if (shape_known(value(g, n->out[0])->shape))
            return is_per_sample(value(g, n->out[0])->shape);
        if (n->op == &op_ConstantOfShape || n->op == &op_Expand)
            return ones_behind_first(g, n->in[n->op == &op_Expand]);
        if (!has_in(n, 0))
            return false;
        if (value_const(g, n->in[0]))
            return is_per_sample(in_value(g, n, 0)->shape);
        n = maker(g, n->in[0]);
    }
    return false;
}

/* ---- places ---- */

/* Does n apply the mask to x: Mul(x, mask), Mul(mask, x), Where(mask, x, 0)? */
static bool applied(ValueId *x, Mask *m, const Graph *g, const Node *n)
{
    double zero;
    int i;

    if (n->op == &op_Where) {
        *x = n->in[1];
        return stochastic_depth_number(g, n->in[2], &zero) && zero == 0 && mask_of(m, g, n->in[0], DEPTH);
    }
    if (n->op != &op_Mul)
        return false;
    i = mask_of(m, g, n->in[1], DEPTH) ? 1 : 0;
    *x = n->in[1 - i];
    return i == 1 || mask_of(m, g, n->in[0], DEPTH);
}

/* Does n apply a dropout?  *out: the site.  The factor 1 / keep is in the mask, in front of n or behind it.  A factor
 * behind another site (is_site) belongs to that one. */
static bool drops(DropSite *out, const Uses *r, const Node *n, const bool *is_site)
{
    const Graph *g = r->g;
    const Node *next, *before;
    ValueId x;
    Mask m;
    double by;
    int i;

    if (!applied(&x, &m, g, n) || stochastic_depth_number(g, x, &by))
        return false;
    *out = (DropSite){ n->out[0], x, n };
    if (about(m.scale * m.keep, 1))
        return true;
    before = is_site[x.i] ? NULL : maker(g, x);
    if (before && scaling(g, before, &i, &by) && about(m.scale * by * m.keep, 1)) {
        out->by = before->in[i];
        return true;
    }
    next = only_reader(r, n->out[0]);
    if (next && scaling(g, next, &i, &by) && about(m.scale * by * m.keep, 1)) {
        out->out = next->out[0];
        return true;
    }
    if (m.scale != 1 || !per_sample(g, m.draws) || r->ends[n->out[0].i])
        return false;
    for (uint32_t k = r->first[n->out[0].i]; k < r->first[n->out[0].i + 1]; k++)
        if (!(r->reader[k].n->op->flags & OPF_SUM))
            return false;
    return true;
}

Status drop_sites_find(DropSites *out, const Graph *g, Arena *a)
{
    bool *is_site = ARENA_NEW(a, bool, g->n_value);
    DropSite site;
    Uses r;

    if (!is_site)
        return FAIL_NOMEM();
    TRY(uses_find(&r, g, a));
    FOR_NODES(g, n) {
        DropSite *grown;

        if (!drops(&site, &r, n, is_site))
            continue;
        if (!(grown = arena_grow(a, out->site, sizeof *grown, (size_t)out->n, &out->cap)))
            return FAIL_NOMEM();
        out->site = grown;
        out->site[out->n++] = site;
        is_site[site.out.i] = true;
    }
    return ST_OK;
}

/* By value id: its replacement out of training, or none.  A site may be in the branch of another. */
static ValueId *find_kept(const Graph *g, const DropSites *sites, Arena *a)
{
    ValueId *by = ARENA_NEW(a, ValueId, g->n_value);

    for (int i = 0; by && i < sites->n; i++) {
        const DropSite *s = &sites->site[i];

        by[s->out.i] = has_value(by[s->by.i]) ? by[s->by.i] : s->by;
    }
    return by;
}

Status drop_sites_remove(Graph *g, const DropSites *sites, Arena *a)
{
    const ValueId *by = find_kept(g, sites, a);
    const uint32_t n = g->n_value;

    if (!by)
        return FAIL_NOMEM();
    TRY(rewrite_begin(g, a));
    for (uint32_t i = 1; i < n; i++)
        if (has_value(by[i]))
            graph_redirect(g, (ValueId){ i }, by[i]);
    return rewrite_end(g);
}

/* ---- notes ---- */

static void need(const ValueId *by, bool *live, ValueId v)
{
    live[has_value(by[v.i]) ? by[v.i].i : v.i] = true; /* live[0], of no value, is not read */
}

/* By value id: do the model's outputs depend on it out of training? */
static bool *find_live(const Graph *g, const DropSites *sites, Arena *scratch)
{
    bool *live = ARENA_NEW(scratch, bool, g->n_value);
    const ValueId *by = find_kept(g, sites, scratch);

    live = by ? live : NULL;
    for (int i = 0; live && i < g->n_output; i++)
        need(by, live, g->output[i].value);
    for (uint32_t k = g->n_node; live && k-- > 0;) {
        const Node *n = g->node[k];
        bool needed = false;

        for (int o = 0; n->op && o < n->n_out; o++)
            needed |= has_value(n->out[o]) && live[n->out[o].i];
        for (int i = 0; needed && i < n->n_in; i++)
            need(by, live, n->in[i]);
    }
    return live;
}

static Status stochastic_depth_note(const Graph *g, PassCtx *ctx, const DropSites *sites)
{
    const bool *live = find_live(g, sites, ctx->scratch);

    if (!live)
        return FAIL_NOMEM();
    if (sites->n)
        TRY(report_note(ctx->report, NOTE_OTHER, g->name,
                        "%d place%s %s at random in training alone (%s%s): evaluation, inference and an exported model "
                        "drop nothing",
                        sites->n, sites->n == 1 ? "" : "s", sites->n == 1 ? "drops" : "drop",
                        node_text(g, sites->site[0].node), sites->n > 1 ? " ..." : ""));
    FOR_NODES(g, n)
        if (n->op->flags & OPF_RANDOM && !n->op->train && !n->op->domain && live[n->out[0].i])
            TRY(report_note(ctx->report, NOTE_OTHER, n->name,
                            "%s draws random numbers in evaluation, inference and an exported model too: it belongs to "
                            "no known form of dropout",
                            node_text(g, n)));
    return ST_OK;
}

static Status stochastic_depth_run(Graph *g, PassCtx *ctx)
{
    bool training = mode_in(ctx->opt, MODES_LEARN);
    DropSites sites = { 0 };

    TRY(drop_sites_find(&sites, g, ctx->scratch));
    if (ctx->report)
        TRY(stochastic_depth_note(g, ctx, &sites));
    if (training || !sites.n)
        return ST_OK;
    ctx->n_changed += sites.n;
    TRY(drop_sites_remove(g, &sites, ctx->scratch));
    return graph_sort(g);
}

const Pass pass_stochastic_depth = { .name = "stochastic-depth",
                                     .summary = "drop no branches out of training",
                                     .run = stochastic_depth_run };
