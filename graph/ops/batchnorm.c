/* BatchNormalization: y = (x - mean) / sqrt(var + epsilon) * scale + bias, per channel (axis 1).
 *
 * The inference form, with given statistics, is one node.  The training form is lowered into steps whose placements
 * make it exact over replicas (docs/reference/semantics.md, batch-norm):
 *
 *   stats = BatchNormStats(x)                       one row (n, mean, M2) of this replica, in float64
 *   mean, var, count, next_mean, next_var = BatchNormMerge(stats, old_mean, old_var)
 *                                                   all rows merged pairwise (Chan et al. 1979), population variance;
 *                                                   the next running statistics, old * keep + new * take
 *   y = BatchNormApply(x, mean, var, scale, bias, count)
 *   sums = BatchNormGradStats(x, dy, mean, var)     partial sums of dy and of dy * (x - mean) / sqrt(var + epsilon)
 *   dx = BatchNormGradInput(x, dy, mean, var, scale, sums, count)
 *   dscale, dbias = BatchNormGradParams(sums)
 *
 * On accelerators passes/fuse/fuse_batch_norm.c fuses these further:
 *
 * - With the bias (and scale) as additional inputs, both gradients include that of a Relu behind the batch-norm: dy
 *   counts where (x - mean) / sqrt(var + epsilon) * scale + bias > 0, so the Relu's result need not be read.
 * - BatchNormGradInput returns dscale and dbias, too, since it reads the sums anyway.
 *
 * If each replica keeps its own running statistics (sets > 0), BatchNormMerge has none, and
 *
 *   mean, var, next_means, next_vars = BatchNormSets(stats, old_means, old_vars)
 *
 * has all of them on every device, a row for each replica in states "MEAN.each" and "VAR.each".  The layer's are the
 * mean of the rows, or the first.  A clamped variance max(var, epsilon) is computed as max(var - epsilon, 0) + epsilon;
 * no gradient flows where the maximum is 0.
 *
 * Rows are float64 because float32 means of data far from zero are too coarse to merge: around 3000 their rounding
 * alone moves the merged variance by 1e-6 and more.  dx includes the gradient through the statistics, so the statistics
 * themselves, and the running statistics computed from them, pass no gradient on.
 *
 * With data in 16 bits, statistics, scale, bias and their gradients are float32. */
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/batchnorm_standard.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/unary.gen.h"

/* ---- import ---- */

/* Before opset 14 additional outputs set training mode; the fourth and fifth (saved statistics) were for a backward
 * pass, and the importer rejects readers of them.  Before opset 7 is_test = 0 set training mode. */
static Status batchnorm_import(Graph *g, Node *n, int opset)
{
    const Attr *spatial = node_attr(n, "spatial"), *is_test = node_attr(n, "is_test");
    bool test = is_test && is_test->type == A_INT && is_test->i;

    if (spatial && spatial->type == A_INT && !spatial->i)
        return FAIL(E_UNSUPPORTED, "%s: spatial=0 (statistics per position) is not supported", node_text(g, n));
    node_remove_attr(g, n, "spatial");
    if (opset >= 14)
        return g->status;
    if (opset < 7)
        node_remove_attr(g, n, "is_test");
    if (!test && (has_out(n, 1) || has_out(n, 2)))
        node_set_int(g, n, "training_mode", 1);
    n->n_out = test ? 1 : n->n_out > 3 ? 3 : n->n_out;
    return g->status;
}

/* The spelling without training mode never changed. */
static bool batchnorm_respell(Graph *g, Node *n, int opset)
{
    (void)g;
    (void)opset;
    return n->n_out == 1 && respell_without(g, n, "training_mode");
}

/* ---- inference ---- */

static Status batchnorm_check_input(const Graph *g, const Node *n, int64_t *channels)
{
    const Shape *x = in_value(g, n, 0)->shape;

    if (x->rank < 2)
        return FAIL(E_SHAPE, "%s: input of rank %d, expected [batch, channels, ...]", node_text(g, n), x->rank);
    *channels = x->dim[1];
    return ST_OK;
}

/* E_SHAPE unless the inputs [from, to) that are present are vectors of one number for each channel. */
static Status check_vectors(const Graph *g, const Node *n, int from, int to, int64_t channels)
{
    char found[SHAPE_TEXT];

    for (int i = from; i < to; i++) {
        const Shape *s = has_in(n, i) ? in_value(g, n, i)->shape : NULL;

        if (s && (s->rank != 1 || s->dim[0] != channels))
            return FAIL(E_SHAPE, "%s: input %d is %s, expected [%lld]", node_text(g, n), i, shape_text(s, found),
                        (long long)channels);
    }
    return ST_OK;
}

static Status infer_norm(Graph *g, Node *n)
{
    DType t = in_value(g, n, 0)->dtype;
    int64_t channels;
    Shape channel;

    TRY(batchnorm_check_input(g, n, &channels));
    TRY(infer_wide_dtype(g, n, 1, 5));
    TRY(check_vectors(g, n, 1, 5, channels));
    if (!node_int(n, "training_mode") && (has_out(n, 1) || has_out(n, 2)))
        return FAIL(E_MODEL, "%s: running statistics are outputs of the training mode only", node_text(g, n));
    channel = SHAPE(channels);
    set_out(g, n, 0, t, in_value(g, n, 0)->shape);
    for (int i = 1; i < 3; i++)
        set_out(g, n, i, in_value(g, n, 3)->dtype, &channel);
    return ST_OK;
}

static Status infer_stats(Graph *g, Node *n)
{
    int64_t channels;
    Shape row;

    TRY(batchnorm_check_input(g, n, &channels));
    if (channels > INT64_MAX / 32)
        return FAIL(E_SHAPE, "%s: too many channels", node_text(g, n));
    row = SHAPE(1, 2 * channels + 1);
    set_out(g, n, 0, DT_FLOAT64, &row);
    return ST_OK;
}

static Status infer_sets(Graph *g, Node *n)
{
    const Shape *rows = in_value(g, n, 0)->shape, *sets = in_value(g, n, 1)->shape;
    const DType t = in_value(g, n, 1)->dtype;
    Shape channel;

    TRY(infer_same_dtype(g, n, 1, 3));
    if (rows->rank != 2 || sets->rank != 2 || !shape_eq(sets, in_value(g, n, 2)->shape) ||
        rows->dim[1] != 2 * sets->dim[1] + 1 || rows->dim[0] > sets->dim[0] || sets->dim[0] < 1)
        return FAIL(E_SHAPE, "%s: expected rows of a count, means and squares, and as many sets of statistics",
                    node_text(g, n));
    if (t != DT_FLOAT32 && t != DT_FLOAT64)
        return FAIL(E_SHAPE, "%s: type %s is not supported", node_text(g, n), dtype_name(t));
    channel = SHAPE(sets->dim[1]);
    for (int i = 0; i < 4; i++)
        set_out(g, n, i, t, i < 2 ? &channel : sets);
    return ST_OK;
}

/* Sets the outputs of BatchNormMerge or BatchNormMoments: mean, variance, count and, if given, running statistics. */
static Status infer_moments_of(Graph *g, Node *n, int64_t channels)
{
    DType t = (DType)node_int(n, "dtype");
    Shape channel, one = SHAPE(1);

    if (t != DT_FLOAT32 && t != DT_FLOAT64)
        return FAIL(E_SHAPE, "%s: type %s is not supported", node_text(g, n), dtype_name(t));
    TRY(check_vectors(g, n, 1, n->n_in, channels));
    channel = SHAPE(channels);
    set_out(g, n, 0, t, &channel);
    set_out(g, n, 1, t, &channel);
    set_out(g, n, 2, t, &one);
    for (int i = 1; i < 3; i++) {
        if (has_in(n, i) != has_out(n, 2 + i))
            return FAIL(E_SHAPE, "%s: input %d and output %d are running statistics before and after, or absent",
                        node_text(g, n), i, 2 + i);
        if (has_in(n, i) && in_value(g, n, i)->dtype != t)
            return FAIL(E_SHAPE, "%s: input %d is %s, expected %s", node_text(g, n), i,
                        dtype_name(in_value(g, n, i)->dtype), dtype_name(t));
        set_out(g, n, 2 + i, t, &channel);
    }
    return ST_OK;
}

static Status infer_merge(Graph *g, Node *n)
{
    const Shape *rows = in_value(g, n, 0)->shape;

    if (rows->rank != 2 || rows->dim[1] % 2 != 1)
        return FAIL(E_SHAPE, "%s: expected rows of a count, means and squares", node_text(g, n));
    return infer_moments_of(g, n, rows->dim[1] / 2);
}

static Status infer_moments(Graph *g, Node *n)
{
    int64_t channels;

    TRY(batchnorm_check_input(g, n, &channels));
    if (channels > INT64_MAX / 32)
        return FAIL(E_SHAPE, "%s: too many channels", node_text(g, n));
    return infer_moments_of(g, n, channels);
}

static Status check_one(const Graph *g, const Node *n, int i)
{
    if (has_in(n, i) && shape_numel(in_value(g, n, i)->shape) != 1)
        return FAIL(E_SHAPE, "%s: input %d must be one number", node_text(g, n), i);
    return ST_OK;
}

static Status infer_apply(Graph *g, Node *n)
{
    int64_t channels;

    TRY(batchnorm_check_input(g, n, &channels));
    TRY(infer_wide_dtype(g, n, 1, 6));
    TRY(check_vectors(g, n, 1, 5, channels));
    TRY(check_one(g, n, 5));
    return infer_like(g, n, 0);
}

static Status check_gradient(const Graph *g, const Node *n, int64_t *channels)
{
    TRY(batchnorm_check_input(g, n, channels));
    TRY(infer_same_dtype(g, n, 0, 2));
    TRY(infer_wide_dtype(g, n, 2, n->n_in));
    if (!shape_eq(in_value(g, n, 0)->shape, in_value(g, n, 1)->shape))
        return FAIL(E_SHAPE, "%s: input and output gradient differ in shape", node_text(g, n));
    return check_vectors(g, n, 2, n->n_in < 5 ? n->n_in : 5, *channels);
}

static Status infer_grad_stats(Graph *g, Node *n)
{
    int64_t channels;
    Shape sums;

    TRY(check_gradient(g, n, &channels));
    if (has_in(n, 4) != has_in(n, 5))
        return FAIL(E_SHAPE, "%s: scale and bias are there together or not at all", node_text(g, n));
    TRY(check_vectors(g, n, 4, n->n_in, channels));
    sums = SHAPE(2, channels);
    set_out(g, n, 0, in_value(g, n, 2)->dtype, &sums);
    return ST_OK;
}

static Status check_sums(const Graph *g, const Node *n, int i, int64_t channels)
{
    const Shape *s = in_value(g, n, i)->shape;

    if (s->rank != 2 || s->dim[0] != 2 || (channels >= 0 && s->dim[1] != channels))
        return FAIL(E_SHAPE, "%s: input %d must be two sums per channel", node_text(g, n), i);
    return ST_OK;
}

static Status infer_group_sums(Graph *g, Node *n)
{
    const Shape *in = in_value(g, n, 0)->shape;
    Shape sums;

    if (in->rank != 2 || in->dim[0] % 2 || !in->dim[0])
        return FAIL(E_SHAPE, "%s: expected two sums per channel of each replica", node_text(g, n));
    sums = SHAPE(2, in->dim[1]);
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &sums);
    return ST_OK;
}

static Status infer_grad_input(Graph *g, Node *n)
{
    int64_t channels;
    Shape channel;

    TRY(check_gradient(g, n, &channels));
    TRY(check_sums(g, n, 5, channels));
    TRY(check_one(g, n, 6));
    TRY(check_vectors(g, n, 7, n->n_in, channels));
    channel = SHAPE(channels);
    set_out(g, n, 1, in_value(g, n, 5)->dtype, &channel);
    set_out(g, n, 2, in_value(g, n, 5)->dtype, &channel);
    return infer_like(g, n, 0);
}

static Status infer_grad_params(Graph *g, Node *n)
{
    Shape channel;

    TRY(check_sums(g, n, 0, -1));
    channel = SHAPE(in_value(g, n, 0)->shape->dim[1]);
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &channel);
    set_out(g, n, 1, in_value(g, n, 0)->dtype, &channel);
    return ST_OK;
}

/* ---- lowering of the training form ---- */

/* Adds the state with a row for each replica, all initialised with the statistic at input i. */
static Status add_sets(ValueId *out, Graph *g, const Node *n, int i)
{
    const Value *of = in_value(g, n, i);
    const int64_t sets = node_int(n, "sets");
    const Shape shape = SHAPE(sets, shape_numel(of->shape));
    const char *name = arena_printf(g->arena, "%s" STATE_EACH, of->name);
    Tensor *t = tensor_create(g->arena, of->dtype, &shape);

    if (!name || !t)
        return FAIL_NOMEM();
    if (of->kind != V_STATE || !of->init)
        return FAIL(E_UNSUPPORTED,
                    "%s: input %d, running statistics, is computed by the model, and cannot be kept by each replica "
                    "(--bn average, --broadcast-buffers false): give --bn sync or local",
                    node_text(g, n), i);
    for (int64_t r = 0; r < sets; r++)
        memcpy((char *)t->data + (size_t)r * tensor_bytes(of->init), of->init->data, tensor_bytes(of->init));
    *out = graph_add_state(g, name, t, false);
    return g->status;
}

/* Emits the update of all replicas' running statistics; `next` receives the layer's next mean and variance. */
static Status update_sets(Graph *g, const Node *n, ValueId rows, ValueId next[2])
{
    const double momentum = node_float(n, "momentum");
    ValueId in[3] = { rows }, out[4];

    for (int i = 0; i < 2; i++) {
        const Value *old = in_value(g, n, 3 + i);

        if (old->producer && old->producer->op == &op_BatchNormSets) /* a module that is called a second time */
            in[1 + i] = old->producer->out[2 + old->out_index];
        else
            TRY(add_sets(&in[1 + i], g, n, 3 + i));
    }
    emit_multi(g, &op_BatchNormSets,
               ATTRS(FLOAT("keep", momentum), FLOAT("take", 1 - momentum), INT("unbiased", node_int(n, "unbiased")),
                     INT("average", node_int(n, "average"))),
               3, in, 4, out);
    TRY(g->status);
    for (int i = 0; i < 2; i++) {
        int u = 0;

        while (u < g->n_update && !value_eq(g->update[u].next, in[1 + i]))
            u++;
        if (u < g->n_update)
            g->update[u].next = out[2 + i];
        else
            graph_add_update(g, in[1 + i], out[2 + i]);
        next[i] = out[i];
    }
    return g->status;
}

static Status batchnorm_lower(Graph *g, Node *n)
{
    const bool runs = has_out(n, 1) || has_out(n, 2), sets = node_int(n, "sets") > 0, clamp = node_int(n, "clamp");
    const bool merge_runs = runs && !sets;
    const double epsilon = node_float(n, "epsilon"), momentum = merge_runs ? node_float(n, "momentum") : 0;
    ValueId m[5] = { NO_VALUE }, y, in[3] = { NO_VALUE, n->in[3], n->in[4] };

    if (!node_int(n, "training_mode"))
        return ST_OK;
    in[0] = EMIT(g, BatchNormStats, NULL, n->in[0]);
    emit_multi(g, &op_BatchNormMerge,
               ATTRS(INT("sync", node_int(n, "sync")), INT("group", node_int(n, "group")),
                     INT("dtype", in_value(g, n, 0)->dtype), FLOAT("keep", momentum), /* the weight of the old value */
                     FLOAT("take", merge_runs ? 1 - momentum : 0),
                     INT("unbiased", merge_runs && node_int(n, "unbiased"))),
               merge_runs ? 3 : 1, in, merge_runs ? 5 : 3, m);
    if (runs && sets)
        TRY(update_sets(g, n, in[0], &m[3]));
    if (clamp) {
        const DType t = g->status ? DT_NONE : value(g, m[1])->dtype;
        const ValueId rest = EMIT(g, Sub, NULL, m[1], emit_scalar(g, t, epsilon));

        m[1] = EMIT(g, Max, NULL, rest, emit_scalar(g, t, 0));
    }
    y = EMIT(g, BatchNormApply,
             ATTRS(FLOAT("epsilon", epsilon), INT("clamp", clamp), INT("group", node_int(n, "group"))), n->in[0], m[0],
             m[1], n->in[1], n->in[2], m[2]);
    if (g->status)
        return g->status;
    graph_replace(g, n->out[0], y);
    for (int i = 1; i < 3; i++)
        if (has_out(n, i))
            graph_replace(g, n->out[i], m[2 + i]);
    return g->status;
}

/* ---- gradients ---- */

/* Gradients by given statistics, from the inputs at scale, mean and var, with inv = 1 / sqrt(var + epsilon):
 * dmean = -scale * inv * sum(dy); dvar = -1/2 * scale * inv^2 * sum(dy * (x - mean) * inv). */
static void grad_fixed_statistics(Grad *gr, int scale, int mean, int var, ValueId dscale, ValueId dbias)
{
    Graph *g = gr->g;
    ValueId one, inv, scaled;
    DType t;

    if ((!grad_wanted(gr, mean) && !grad_wanted(gr, var)) || g->status)
        return;
    t = grad_in_value(gr, var)->dtype;
    one = emit_scalar(g, t, 1);
    inv = EMIT(g, Add, NULL, grad_in(gr, var), emit_scalar(g, t, node_float(gr->node, "epsilon")));
    inv = EMIT(g, Div, NULL, one, EMIT(g, Sqrt, NULL, inv));
    scaled = EMIT(g, Mul, NULL, grad_in(gr, scale), inv);
    if (grad_wanted(gr, mean))
        grad_set(gr, mean, EMIT(g, Neg, NULL, EMIT(g, Mul, NULL, scaled, dbias)));
    if (grad_wanted(gr, var)) {
        ValueId half = EMIT(g, Mul, NULL, scaled, inv);

        half = EMIT(g, Mul, NULL, half, emit_scalar(g, t, -0.5));
        grad_set(gr, var, EMIT(g, Mul, NULL, half, dscale));
    }
}

/* The sums for dx, over the group with common statistics.  Where the variance is clamped, the sum of dy * (x - mean) is
 * masked, since the variance does not depend on x. */
static ValueId sums_through(Graph *g, const Node *n, ValueId var, ValueId sums)
{
    const DType t = g->status ? DT_NONE : value(g, sums)->dtype;
    const Shape row = g->status ? shape_scalar() : SHAPE(1, shape_numel(value(g, var)->shape));
    ValueId free, mask;

    if (node_attr(n, "group") && node_int(n, "group"))
        sums = EMIT(g, BatchNormGroupSums, ATTRS(INT("group", node_int(n, "group"))), sums);
    if (!node_attr(n, "clamp") || !node_int(n, "clamp"))
        return sums;
    free = emit_cast(g, EMIT(g, Greater, NULL, var, emit_scalar(g, value(g, var)->dtype, 0)), t);
    free = emit_reshape(g, free, &row);
    mask = EMIT(g, Concat, ATTRS(INT("axis", 0)), emit_full(g, t, &row, 1), free);
    return EMIT(g, Mul, NULL, sums, mask);
}

/* The gradient of a batch-norm with x at input 0 and scale, bias, mean and var at these inputs.  `count` present: the
 * statistics are those of x; else they are given, and dx = dy * scale / sqrt(var + epsilon), which is BatchNormApply
 * with mean and bias 0. */
static Status grad_norm(Grad *gr, int scale, int bias, int mean, int var, ValueId count)
{
    Graph *g = gr->g;
    const Attr *attrs = ATTRS(FLOAT("epsilon", node_float(gr->node, "epsilon")));
    const ValueId x = grad_in(gr, 0), m = grad_in(gr, mean), v = grad_in(gr, var), s = grad_in(gr, scale);
    ValueId dy = grad_dout(gr, 0), params[2] = { NO_VALUE }, sums = NO_VALUE;
    bool fixed = !has_value(count);
    bool need_params =
        grad_wanted(gr, scale) || grad_wanted(gr, bias) || (fixed && (grad_wanted(gr, mean) || grad_wanted(gr, var)));

    if (need_params || (!fixed && grad_wanted(gr, 0)))
        sums = EMIT(g, BatchNormGradStats, attrs, x, dy, m, v);
    if (need_params)
        EMIT_MULTI(g, BatchNormGradParams, NULL, 2, params, sums);
    if (grad_wanted(gr, 0) && fixed) {
        const ValueId zero = emit_zeros_like(g, m);

        grad_set(gr, 0, EMIT(g, BatchNormApply, attrs, dy, zero, v, s, zero));
    } else if (grad_wanted(gr, 0))
        grad_set(gr, 0, EMIT(g, BatchNormGradInput, attrs, x, dy, m, v, s, sums_through(g, gr->node, v, sums), count));
    grad_set(gr, scale, params[0]);
    grad_set(gr, bias, params[1]);
    if (fixed)
        grad_fixed_statistics(gr, scale, mean, var, params[0], params[1]);
    return g->status;
}

static Status grad_batch_norm(Grad *gr)
{
    if (node_int(gr->node, "training_mode"))
        return FAIL(E_INTERNAL, "%s: the training form must be lowered first", node_text(gr->g, gr->node));
    return grad_norm(gr, 1, 2, 3, 4, NO_VALUE);
}

static Status grad_apply(Grad *gr) { return grad_norm(gr, 3, 4, 1, 2, grad_in(gr, 5)); }

/* ---- placement ---- */

/* Gathers input i if it is split along another axis than the batch, or partial. */
static void only_batch(Placement *p, int i)
{
    if (p->in[i].kind == PL_S && p->in[i].axis != 0)
        place_mixes(p, "it is split along another axis than the batch");
    if (p->in[i].kind == PL_P || (p->in[i].kind == PL_S && p->in[i].axis != 0))
        p->in[i] = PLACE_B;
}

static Status place_stats(Placement *p)
{
    only_batch(p, 0);
    place_set(p, 0, p->in[0].kind == PL_S ? PLACE_L : p->in[0]);
    return ST_OK;
}

/* With sync the rows of all replicas arrive together (OPF_STACKS_L), so all replicas have the same result. */
static Status place_merge(Placement *p)
{
    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind != PL_L)
            p->in[i] = PLACE_B;
    place_set_all(p, p->in[0].kind == PL_L && !node_int(p->node, "sync") ? PLACE_L : PLACE_B);
    if (p->out[0].kind == PL_L && node_int(p->node, "group"))
        p->in[0] = PLACE_GROUPS(node_int(p->node, "group"));
    return ST_OK;
}

/* fuse-batch-norm makes it after partitioning, for whole batches only. */
static Status place_moments(Placement *p)
{
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
    place_set_all(p, PLACE_B);
    return ST_OK;
}

static Status place_group_sums(Placement *p)
{
    if (p->in[0].kind == PL_S || p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    place_set(p, 0, p->in[0]);
    if (p->in[0].kind == PL_L)
        p->in[0] = PLACE_GROUPS(node_int(p->node, "group"));
    return ST_OK;
}

/* All replicas' rows arrive together, and every device has all sets. */
static Status place_sets(Placement *p)
{
    if (p->in[0].kind != PL_L)
        p->in[0] = PLACE_B;
    p->in[1] = p->in[2] = PLACE_B;
    place_set_all(p, PLACE_B);
    return ST_OK;
}

/* Places the first `n_data` inputs along the batch; the others are whole or L.  Returns the placement of the data. */
static Place place_data(Placement *p, int n_data)
{
    bool split = false, local = false;

    for (int i = 0; i < p->node->n_in; i++) {
        if (!has_in(p->node, i))
            continue;
        only_batch(p, i);
        if (i >= n_data && p->in[i].kind == PL_S)
            p->in[i] = PLACE_B;
        split = split || p->in[i].kind == PL_S;
        local = local || p->in[i].kind == PL_L;
    }
    for (int i = 0; i < n_data; i++)
        p->in[i] = split ? PLACE_S(0) : local ? PLACE_L : PLACE_B;
    return split ? PLACE_S(0) : local ? PLACE_L : PLACE_B;
}

static Status place_apply(Placement *p)
{
    place_set_all(p, place_data(p, 1));
    return ST_OK;
}

static Status place_grad_input(Placement *p)
{
    place_set_all(p, place_data(p, 2));
    for (int i = 1; i < p->node->n_out; i++)
        place_set(p, i, p->in[5].kind == PL_L ? PLACE_P : PLACE_B);
    return ST_OK;
}

/* With synchronised statistics the sums are partial; with each replica's own statistics they are L. */
static Status place_grad_stats(Placement *p)
{
    Place x = place_data(p, 2);

    place_set(p, 0, x.kind != PL_S ? x : p->in[2].kind == PL_L || p->in[3].kind == PL_L ? PLACE_L : PLACE_P);
    return ST_OK;
}

/* Whole sums, which dx needed, give whole gradients; each replica's own sums are partial sums of the gradient. */
static Status place_grad_params(Placement *p)
{
    if (p->in[0].kind == PL_S || p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    place_set_all(p, p->in[0].kind == PL_L ? PLACE_P : PLACE_B);
    return ST_OK;
}

/* ---- training ---- */

static Status batchnorm_train(Graph *g, Node *n, const TrainMode *mode)
{
    node_set_int(g, n, "training_mode", mode->batch);
    if (!mode->batch) {
        for (int i = 1; i < n->n_out; i++)
            if (has_out(n, i)) /* readers of the next statistics read the present ones */
                graph_replace(g, n->out[i], i < 3 ? n->in[i + 2] : NO_VALUE);
        n->n_out = 1;
        return g->status;
    }
    node_set_int(g, n, "sync", mode->sync);
    node_set_int(g, n, "group", mode->group);
    node_set_int(g, n, "unbiased", mode->unbiased);
    node_set_int(g, n, "clamp", mode->clamp);
    node_set_int(g, n, "sets", mode->sets);
    node_set_int(g, n, "average", mode->average);
    return g->status;
}

static bool trains(const Node *n) { return node_int(n, "training_mode") != 0; }

#define EPSILON                       \
    {                                 \
        "epsilon", A_FLOAT, .f = 1e-5 \
    }

DEFINE_OP(BatchNormalization, .layout = LAYOUT_ANY, .param_in = 6, .running_in = 0x18, .running_out = 1,
          .wide_in = 0x1e, .since = 15, .from = 14, .in_min = 5, .in_max = 5, .out_min = 1, .out_max = 3,
          .dtypes = DTYPES_FLOAT, .flags = OPF_NORM,
          .attrs = (const AttrDecl[]){ EPSILON,
                                       { "momentum", A_FLOAT, .f = 0.9 },
                                       { "training_mode", A_INT, .i = 0 },
                                       { "sync", A_INT, .i = 1, .rule = ATTR_OURS },
                                       { "group", A_INT, .rule = ATTR_OURS, .range = R_NATURAL },
                                       { "unbiased", A_INT, .rule = ATTR_OURS },
                                       { "clamp", A_INT, .rule = ATTR_OURS },
                                       { "sets", A_INT, .rule = ATTR_OURS, .range = R_NATURAL },
                                       { "average", A_INT, .rule = ATTR_OURS },
                                       { 0 } },
          .doc = "batch-norm; sync=0: each replica its own statistics, or those of its group; unbiased=1: running "
                 "variance by n-1; clamp=1: "
                 "max(var, epsilon); sets: running statistics of each replica, the first (average=1: their mean) the "
                 "layer's",
          .import = batchnorm_import, .respell = batchnorm_respell, .infer = infer_norm, .grad = grad_batch_norm,
          .lower = batchnorm_lower, .place = place_apply, .train = batchnorm_train, .trains = trains);

DEFINE_OP(BatchNormStats, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .doc = "[1, 2C+1]: count, means, sums of squared differences from them",
          .infer = infer_stats, .grad = grad_none, .place = place_stats);

DEFINE_OP(BatchNormMerge, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 3, .out_min = 3, .out_max = 5,
          .dtypes = DTYPE_BIT(DT_FLOAT64), .flags = OPF_STACKS_L, .inplace = { [3] = 1 << 1, [4] = 1 << 2 },
          .attrs = (const AttrDecl[]){ { "sync", A_INT, .i = 1 },
                                       { "group", A_INT, .i = 0, .range = R_NATURAL },
                                       { "dtype", A_INT, .i = DT_FLOAT32, .range = R_DTYPE },
                                       { "keep", A_FLOAT, .f = 0 },
                                       { "take", A_FLOAT, .f = 0 },
                                       { "unbiased", A_INT, .i = 0 },
                                       { 0 } },
          .doc = "mean, population variance and count from rows of statistics; from (rows, mean, variance) running "
                 "ones as well: old * keep + new * take; unbiased=1: the running variance by n-1",
          .infer = infer_merge, .standard = batch_norm_standard_merge, .grad = grad_none, .place = place_merge);

DEFINE_OP(BatchNormMoments, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 3,
          .out_min = 3, .out_max = 5, .dtypes = DTYPES_FLOAT, .inplace = { [3] = 1 << 1, [4] = 1 << 2 },
          .attrs = (const AttrDecl[]){ { "dtype", A_INT, .i = DT_FLOAT32, .range = R_DTYPE },
                                       { "keep", A_FLOAT, .f = 0 },
                                       { "take", A_FLOAT, .f = 0 },
                                       { "unbiased", A_INT, .i = 0 },
                                       { 0 } },
          .doc = "BatchNormMerge of the BatchNormStats of (x), or of (x, mean, variance)", .infer = infer_moments,
          .grad = grad_none, .place = place_moments);

DEFINE_OP(BatchNormSets, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 3, .out_min = 4, .out_max = 4,
          .dtypes = DTYPE_BIT(DT_FLOAT64), .flags = OPF_STACKS_L,
          .attrs = (const AttrDecl[]){ { "keep", A_FLOAT, .f = 0 },
                                       { "take", A_FLOAT, .f = 0 },
                                       { "unbiased", A_INT, .i = 0 },
                                       { "average", A_INT, .i = 0 },
                                       { 0 } },
          .doc = "mean and variance, then all next sets, from (rows, means, variances): set r is old * keep + row r * "
                 "take, unchanged where the row counts nothing; the first, or average=1: the mean of all, comes first",
          .infer = infer_sets, .grad = grad_none, .place = place_sets);

DEFINE_OP(
    BatchNormApply, .elementwise = true, .channel_in = 0x1e, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1,
    .in_min = 5, .in_max = 6, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .wide_in = 0x3e, .inplace = { 1 },
    .attrs = (const AttrDecl[]){ EPSILON, { "clamp", A_INT, .i = 0 }, { "group", A_INT, .i = 0 }, { 0 } },
    .doc = "(x - mean) / sqrt(var + epsilon) * scale + bias; with a count the statistics are those of x; clamp=1: "
           "var is 0 where that of x is at most epsilon",
    .infer = infer_apply, .standard = batch_norm_standard_apply, .grad = grad_apply, .place = place_apply);

DEFINE_OP(BatchNormGradStats, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 4, .in_max = 6,
          .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ EPSILON, { 0 } },
          .doc = "[2, C]: sum(dy), sum(dy * (x - mean) / sqrt(var + epsilon)) from (x, dy, mean, var); "
                 "with (scale, bias) dy is that of the Relu behind",
          .infer = infer_grad_stats, .standard = batch_norm_standard_grad_stats, .place = place_grad_stats);

DEFINE_OP(
    BatchNormGradInput, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 7, .in_max = 8, .out_min = 1,
    .out_max = 3, .dtypes = DTYPES_FLOAT, .inplace = { 3 }, .attrs = (const AttrDecl[]){ EPSILON, { 0 } },
    .doc = "gradient of training batch-norm by x, from (x, dy, mean, var, scale, sums, count), and dscale, dbias; "
           "with (bias) dy is that of the Relu behind",
    .infer = infer_grad_input, .standard = batch_norm_standard_grad_input, .place = place_grad_input);

DEFINE_OP(BatchNormGroupSums, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_F32_F64, .flags = OPF_STACKS_L,
          .attrs = (const AttrDecl[]){ { "group", A_INT, .i = 0, .range = R_NATURAL }, { 0 } },
          .doc = "[2, C]: the sum over the sums [2, C] of a group of replicas, which stand one below the other",
          .infer = infer_group_sums, .grad = grad_none, .place = place_group_sums);

DEFINE_OP(BatchNormGradParams, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 2, .out_max = 2,
          .dtypes = DTYPES_FLOAT, .doc = "dscale and dbias from the sums", .infer = infer_grad_params,
          .standard = batch_norm_standard_grad_params, .place = place_grad_params);
