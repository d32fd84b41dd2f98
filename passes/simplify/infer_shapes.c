/* infer-shapes: binds the inputs' symbolic dimensions, then finds every value's type and shape in one walk.
 *
 * Exporters compute shapes inside the graph (Shape, Gather, Concat, Reshape), so shapes can only be found if integer
 * arithmetic on constants is evaluated on the way; with static input shapes all of it is.  What depends on data stays
 * unknown and is left to the interpreter. */
#include <string.h>

#include "passes/batch_axis.h"
#include "passes/simplify/fold.h"
#include "passes/simplify/infer_shapes.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/target.h"

enum { MAX_SHAPE_ARITHMETIC = 1 << 24 }; /* bytes of one folded integer tensor (masks, position indices) */
enum { MAX_SETTING = 1024 };             /* bytes of a number that decides a shape */

const InputShape *given_shape(const BuildOptions *opt, const char *name)
{
    for (int i = 0; i < batch_options(opt)->n_input_shape; i++)
        if (!strcmp(batch_options(opt)->input_shape[i].name, name))
            return &batch_options(opt)->input_shape[i];
    return NULL;
}

static const char *symbol(const Value *v, int axis) { return v->dim_param ? v->dim_param[axis] : NULL; }

int64_t batch_size(const Graph *g, const BuildOptions *opt)
{
    int64_t size = batch_options(opt)->batch > 0 ? batch_options(opt)->batch : find_batch_dim(g, opt).size;

    return size >= 0 ? size : 1;
}

/* The batch's axis, which is the first unless it is named, may have another size than the file says. */
static Status bind_given(Graph *g, Value *v, const InputShape *given, int named)
{
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    if (v->shape->rank >= 0 && v->shape->rank != given->shape.rank)
        return FAIL(E_SHAPE, "input '%s' has shape %s, the shape given is %s", v->name, shape_text(v->shape, have),
                    shape_text(&given->shape, want));
    for (int i = 0; i < v->shape->rank; i++)
        if (v->shape->dim[i] >= 0 && v->shape->dim[i] != given->shape.dim[i] && i > 0 && i != named)
            return FAIL(E_SHAPE, "input '%s' has shape %s, the shape given is %s", v->name, shape_text(v->shape, have),
                        shape_text(&given->shape, want));
    value_set_shape(g, v, &given->shape);
    return g->status;
}

static void bind_batch(Graph *g, Value *v, const BuildOptions *opt, BatchDim batch)
{
    const int named = named_batch_axis(opt, v);
    Shape s = *v->shape;
    unsigned axes;

    if (!batch_options(opt)->n_batch_input && known_batch_axes(&axes, g, opt, v)) {
        for (int i = 0; batch_options(opt)->batch && i < s.rank; i++)
            s.dim[i] = axes >> i & 1 ? batch_options(opt)->batch : s.dim[i];
        value_set_shape(g, v, &s);
        return;
    }
    for (int i = 0; batch_options(opt)->batch && i < s.rank; i++) {
        bool same_symbol = batch.symbol && symbol(v, i) && !strcmp(symbol(v, i), batch.symbol);
        bool leading = i == 0 && !batch_options(opt)->n_batch_input && !batch.axis &&
                       (s.dim[0] < 0 ? !symbol(v, 0) : s.dim[0] == batch.size);

        if (i == named || same_symbol || leading)
            s.dim[i] = batch_options(opt)->batch;
    }
    value_set_shape(g, v, &s);
}

int64_t declared_batch(const Graph *g, const BuildOptions *opt) { return find_batch_dim(g, opt).size; }

void bind_batch_axes(Graph *g, const BuildOptions *opt, int64_t size)
{
    const BatchDim batch = find_batch_dim(g, opt);
    BatchOptions sized = *batch_options(opt);
    BuildOptions own = *opt;

    sized.batch = size;
    own.batch = &sized;
    for (int i = 0; i < g->n_input; i++)
        bind_batch(g, value(g, g->input[i]), &own, batch);
}

/* Is a size open that the named one, which is fixed, leaves so? */
static bool names_wrong_axis(const BuildOptions *opt, const Value *v, int axis)
{
    bool open = false;

    for (int i = 0; i < v->shape->rank; i++)
        open |= v->shape->dim[i] < 0;
    return open && v->shape->dim[axis] >= 0 && v->shape->dim[axis] != batch_options(opt)->batch &&
           !given_shape(opt, v->name);
}

static Status check_batch_input(const Value *v, const BatchInput *b, const BuildOptions *opt)
{
    const int rank = v->shape->rank;
    char text[SHAPE_TEXT];

    if (rank < 0 || (!rank && strcmp(b->name, v->name))) /* a member without axes goes to all */
        return ST_OK;
    if (axis_of_rank(b->axis, rank) < 0)
        return FAIL(E_INVALID, "--batch-input %s:%d: the input%s%s has shape %s", b->name, b->axis,
                    v->member ? " " : "", v->member ? v->name : "", shape_text(v->shape, text));
    if (names_wrong_axis(opt, v, axis_of_rank(b->axis, rank)))
        return FAIL(E_INVALID, "--batch-input %s:%d: the input has shape %s, in which another axis is open", b->name,
                    b->axis, shape_text(v->shape, text));
    return ST_OK;
}

/* The target, which is no input yet, may be named as well. */
Status check_batch_inputs(const Graph *g, const BuildOptions *opt)
{
    for (int i = 0; i < batch_options(opt)->n_batch_input; i++) {
        const BatchInput *b = &batch_options(opt)->batch_input[i];
        bool any = !strcmp(b->name, target_name(opt));

        for (int k = 0; k < g->n_input; k++)
            if (batch_input_names(b, value(g, g->input[k]))) {
                TRY(check_batch_input(value(g, g->input[k]), b, opt));
                any = true;
            }
        if (!any)
            return FAIL(E_INVALID, "--batch-input %s: the model has no such input", b->name);
    }
    return ST_OK;
}

/* Nothing says which of two axes is the batch, and neither is guessed. */
static Status check_rivals(const Graph *g, const BuildOptions *opt)
{
    Problems unsaid = { 0 };

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        int rival = given_shape(opt, v->name) ? -1 : rival_batch_axis(g, opt, v);
        char text[SHAPE_TEXT];

        if (rival >= 0)
            problems_add(&unsaid,
                         "'%s' %s (--batch-input %s:%d if it is the open axis %d; --batch-input %s:0 and --input-shape "
                         "%s=DIMS if it is the first)",
                         v->name, shape_text(v->shape, text), v->name, rival, rival, v->name, v->name);
    }
    return problems_fail(&unsaid, E_SHAPE, "which axis of an input is the batch is not said");
}

static int samples_axis(const Graph *g, const BuildOptions *opt, const Value *v, const char *batch)
{
    unsigned axes;

    if (!batch_options(opt)->n_batch_input && known_batch_axes(&axes, g, opt, v))
        return axes ? __builtin_ctz(axes) : -1;
    return symbol_axis(v->dim_param, v->shape->rank, batch);
}

/* Inputs that carry the batch, or have its name on an axis, have one number of samples. */
static Status check_samples(const Graph *g, const BuildOptions *opt)
{
    const char *batch = find_batch_dim(g, opt).symbol;
    const Value *first = NULL;
    Problems wrong = { 0 };
    int at = 0;

    for (int i = 0; (batch || g->batch_found == BATCH_FOUND) && i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        const int axis = samples_axis(g, opt, v, batch);

        if (axis < 0)
            continue;
        if (first && first->shape->dim[at] != v->shape->dim[axis])
            problems_add(&wrong, "input '%s' has %lld", v->name, (long long)v->shape->dim[axis]);
        at = first ? at : axis;
        first = first ? first : v;
    }
    return problems_fail(&wrong, E_SHAPE, "a batch of %lld samples (input '%s')",
                         first ? (long long)first->shape->dim[at] : 0, first ? first->name : "");
}

/* Where sizes alone tell what carries the batch, tensors of a sequence do, or none of them; those without axes go to
 * all. */
static Status check_members(const Graph *g, const BuildOptions *opt)
{
    const BatchDim batch = find_batch_dim(g, opt);
    const int64_t size = batch_options(opt)->batch > 0 ? batch_options(opt)->batch : batch.size;
    Problems wrong = { 0 };

    for (int i = 0; !batch.symbol && !batch_options(opt)->n_batch_input && !g->batch_found && i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]), *with = NULL;

        if (!v->member || v->shape->rank < 1 || v->shape->dim[0] == size)
            continue;
        for (int k = 0; k < g->n_input && !with; k++) {
            const Value *x = value(g, g->input[k]);

            with = same_sequence(v, x) && x->shape->rank > 0 && x->shape->dim[0] == size ? x : NULL;
        }
        if (with)
            problems_add(&wrong, "input '%s' has %lld, '%s' of the same sequence %lld", v->name,
                         (long long)v->shape->dim[0], with->name, (long long)size);
    }
    return problems_fail(&wrong, E_SHAPE, "tensors of a sequence disagree in their number of samples");
}

static Status check_only_batch(const Graph *g, const BuildOptions *opt)
{
    int64_t size = declared_batch(g, opt);

    if (!g->only_batch || size < 0 || size == g->only_batch)
        return ST_OK;
    return FAIL(E_UNSUPPORTED, "the model was exported for batches of %lld and cannot be taken to %lld: %s",
                (long long)g->only_batch, (long long)size, g->only_why);
}

static Status infer_shapes_bind_inputs(Graph *g, const BuildOptions *opt)
{
    BatchDim batch = find_batch_dim(g, opt);
    Problems unbound = { 0 };

    TRY(check_batch_inputs(g, opt));
    TRY(check_rivals(g, opt));
    for (int i = 0; i < batch_options(opt)->n_input_shape; i++) {
        ValueId v = graph_find(g, batch_options(opt)->input_shape[i].name);

        if (!has_value(v) || value(g, v)->kind != V_INPUT)
            return FAIL(E_INVALID, "--input-shape: the model has no input '%s'",
                        batch_options(opt)->input_shape[i].name);
    }
    for (int i = 0; i < g->n_input; i++) {
        Value *v = value(g, g->input[i]);
        const InputShape *given = given_shape(opt, v->name);
        char text[SHAPE_TEXT];

        if (given)
            TRY(bind_given(g, v, given, named_batch_axis(opt, v)));
        else
            bind_batch(g, v, opt, batch);
        if (!shape_known(v->shape))
            problems_add(&unbound, "'%s' %s", v->name, shape_text(v->shape, text));
    }
    TRY(problems_fail(&unbound, E_SHAPE, "shapes of inputs are not known, give %s--input-shape NAME=DIMS for",
                      batch_options(opt)->batch ? "" : "--batch-size or "));
    TRY(check_batch_inputs(g, opt)); /* of ranks that were not known */
    TRY(check_samples(g, opt));
    TRY(check_members(g, opt));
    return check_only_batch(g, opt);
}

static bool is_integral(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && dtype_is_float(value(g, n->out[i])->dtype))
            return false;
    return true;
}

/* A setting is a number or a few; what is larger, or of no known shape, is none. */
static bool is_small(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) &&
            (!shape_known(value(g, n->out[i])->shape) || value_bytes(g, n->out[i]) > MAX_SETTING))
            return false;
    return true;
}

/* May input i decide the shape of n? Integers may have been computed as floats. */
static bool decides(const Graph *g, const Node *n, int i)
{
    return (i < 8 && n->op->setting_in >> i & 1) || !dtype_is_float(in_value(g, n, i)->dtype);
}

/* Marks the producers of the inputs of n, of all or of those that may decide its shape; -> how many it marks. */
static uint32_t mark_producers(bool *needed, const Graph *g, const Node *n, bool all)
{
    uint32_t count = 0;

    for (int i = 0; i < n->n_in; i++) {
        const Node *of = has_in(n, i) && (all || decides(g, n, i)) ? in_value(g, n, i)->producer : NULL;

        if (of && !needed[of->index] && is_small(g, of))
            count += needed[of->index] = true;
    }
    return count;
}

/* Evaluates what decides a shape and follows from constants alone, as the scales of a Resize do, through however many
 * nodes, so long as it is no parameter. */
static Status fold_settings(Graph *g, PassCtx *ctx, const Node *n)
{
    Arena *once = arena_create_beside(ctx->scratch);
    bool *needed = once ? ARENA_NEW(once, bool, g->n_node) : NULL;
    uint32_t left = needed ? mark_producers(needed, g, n, false) : 0, first = n->index;
    Status st = needed ? ST_OK : FAIL_NOMEM();

    while (left && first) {
        if (!needed[--first])
            continue;
        left += mark_producers(needed, g, g->node[first], true);
        left--;
    }
    for (uint32_t i = first; !st && needed && i < n->index; i++)
        if (needed[i] && fold_possible(g, g->node[i]))
            st = fold_node(g, ctx, g->node[i], MAX_SETTING);
    arena_free(once);
    return st;
}

/* Does it follow from what enters a branch that data decide?  `stack` [n_value], `seen` [n_value]: all false. */
static bool in_branch(const Graph *g, const Node *n, const Node **stack, bool *seen)
{
    size_t depth = 0;

    stack[depth++] = n;
    while (depth) {
        const Node *at = stack[--depth];

        for (int i = 0; i < at->n_in; i++) {
            const Node *of = has_in(at, i) && !seen[at->in[i].i] ? in_value(g, at, i)->producer : NULL;

            if (!of)
                continue;
            if (of->op->branch == BRANCH_ENTER || of->op->branch == BRANCH_GATE)
                return true;
            seen[at->in[i].i] = true;
            stack[depth++] = of;
        }
    }
    return false;
}

/* An input of one number, which may be what decides; NULL: none. */
static const char *number_input(const Graph *g)
{
    for (int i = 0; i < g->n_input; i++)
        if (shape_numel(value(g, g->input[i])->shape) == 1)
            return value(g, g->input[i])->name;
    return NULL;
}

/* These sizes may allow one branch alone: what cannot be there in the other is no fault of the model, but a plan of
 * both cannot be made. */
static Status infer_either(Graph *g, PassCtx *ctx, Node *n)
{
    const Status st = node_infer(g, n);
    const char *number = number_input(g);
    const Node **stack;
    bool *seen;

    if (st != E_SHAPE)
        return st;
    stack = ARENA_NEW(ctx->scratch, const Node *, g->n_value + 1);
    seen = ARENA_NEW(ctx->scratch, bool, g->n_value);
    if (!stack || !seen)
        return FAIL_NOMEM();
    if (!in_branch(g, n, stack, seen))
        return st;
    return status_prefix(E_UNSUPPORTED,
                         "data decide which branch is taken, and one that may be is none at these sizes%s%s%s",
                         number ? " (if '" : "", number ? number : "",
                         number ? "' decides, --input-value gives it one number for the whole run)" : "");
}

/* The axis of an input, not its batch's, that the file leaves open; -1: none.  `of`: the input. */
static int open_axis(const Value **of, const Graph *g, const BuildOptions *opt)
{
    const char *batch = find_batch_dim(g, opt).symbol;
    unsigned axes;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = *of = value(g, g->input[i]);

        for (int k = 0; v->dim_param && k < v->shape->rank; k++)
            if (v->dim_param[k] && (!batch || strcmp(v->dim_param[k], batch) != 0) &&
                !(known_batch_axes(&axes, g, opt, v) && axes >> k & 1))
                return k;
    }
    return -1;
}

/* A node that holds sizes and does not fit them where the file leaves a length open: exporters that trace declare what
 * they are told to, and write down what they saw. */
static Status tell_example(Status st, const Graph *g, const BuildOptions *opt, const Node *n)
{
    const Value *v;
    const int axis = st == E_SHAPE ? open_axis(&v, g, opt) : -1;
    bool holds = false;

    for (int i = 1; axis >= 0 && i < n->n_in; i++)
        holds |= has_in(n, i) && in_value(g, n, i)->dtype == DT_INT64 && value_const(g, n->in[i]);
    if (!holds)
        return st;
    return status_prefix(
        st,
        "the file leaves axis %d of input '%s' open, which is of %lld here, and a node has sizes that do "
        "not fit that; where they are of the example that was exported, as PyTorch's legacy exporter "
        "writes them, export by the default one with dynamic_shapes",
        axis, v->name, (long long)v->shape->dim[axis]);
}

Status infer_and_fold(Graph *g, PassCtx *ctx, Node *n)
{
    const int is = n->op->selected_input ? n->op->selected_input(g, n) : -1;

    if (is >= 0)
        graph_replace(g, n->out[0], n->in[is]);
    TRY(infer_either(g, ctx, n));
    if (has_out(n, 0) && !shape_known(value(g, n->out[0])->shape) && node_inputs_known(g, n)) {
        TRY(fold_settings(g, ctx, n));
        TRY(node_infer(g, n));
    }
    return is_integral(g, n) && fold_possible(g, n) ? fold_node(g, ctx, n, MAX_SHAPE_ARITHMETIC) : ST_OK;
}

/* Strings have no place in what is planned. */
static Status infer_shapes_check_types(const Graph *g, const Node *n)
{
    for (int i = 0; n->op && i < n->n_out; i++)
        if (has_value(n->out[i]) && value(g, n->out[i])->dtype == DT_STRING)
            return FAIL(E_UNSUPPORTED, "%s: string tensors are interpreted only, forward", node_text(g, n));
    return ST_OK;
}

static Status infer_shapes_run(Graph *g, PassCtx *ctx)
{
    TRY(infer_shapes_bind_inputs(g, ctx->opt));
    FOR_NODES(g, n) {
        TRY(tell_example(infer_and_fold(g, ctx, n), g, ctx->opt, n));
        TRY(infer_shapes_check_types(g, n));
        if (n->op && n->op->check_sizes)
            TRY(n->op->check_sizes(g, n));
    }
    return graph_sort(g);
}

const Pass pass_infer_shapes = { .name = "infer-shapes",
                                 .summary = "bind symbolic dimensions, find every type and shape",
                                 .run = infer_shapes_run };
