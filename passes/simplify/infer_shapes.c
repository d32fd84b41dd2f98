/* infer-shapes: binds the inputs' symbolic dimensions, then infers every value's type and shape in one walk.
 *
 * Exporters compute shapes inside the graph (Shape, Gather, Concat, Reshape), so the walk folds integer arithmetic on
 * constants; with static input shapes that is all of it.  Shapes that depend on data stay unknown, and the interpreter
 * infers them at run time. */
#include "passes/simplify/infer_shapes.h"

#include <string.h>

#include "passes/batch_axis.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/target.h"
#include "passes/simplify/fold.h"

enum { MAX_SHAPE_ARITHMETIC = 1 << 24 }; /* bytes of one folded integer tensor (masks, position indices) */
enum { MAX_SETTING = 1024 };             /* bytes of a number that decides a shape */

const InputShape *given_shape(const BuildOptions *opt, const char *name)
{
    const BatchOptions *batch = batch_options(opt);

    for (int i = 0; i < batch->n_input_shape; i++)
        if (!strcmp(batch->input_shape[i].name, name))
            return &batch->input_shape[i];
    return NULL;
}

static const char *symbol(const Value *v, int axis) { return v->dim_param ? v->dim_param[axis] : NULL; }

int64_t batch_size(const Graph *g, const BuildOptions *opt)
{
    const BatchOptions *batch = batch_options(opt);
    int64_t size = batch->batch > 0 ? batch->batch : find_batch_dim(g, opt).size;

    return size >= 0 ? size : 1;
}

/* Gives the axes of the input that carry the batch the size batch_options(opt)->batch. */
static void bind_batch(Graph *g, Value *v, const BuildOptions *opt, BatchDim batch)
{
    const BatchOptions *given = batch_options(opt);
    const int named = named_batch_axis(opt, v);
    Shape s = *v->shape;
    unsigned axes;

    if (!given->n_batch_input && known_batch_axes(&axes, g, opt, v)) {
        for (int i = 0; given->batch && i < s.rank; i++)
            s.dim[i] = axes >> i & 1 ? given->batch : s.dim[i];
        value_set_shape(g, v, &s);
        return;
    }
    for (int i = 0; given->batch && i < s.rank; i++) {
        bool same_symbol = batch.symbol && symbol(v, i) && !strcmp(symbol(v, i), batch.symbol);
        bool leading =
            i == 0 && !given->n_batch_input && !batch.axis && (s.dim[0] < 0 ? !symbol(v, 0) : s.dim[0] == batch.size);

        if (i == named || same_symbol || leading)
            s.dim[i] = given->batch;
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

static Status check_batch_input(const Value *v, const BatchInput *b, const BuildOptions *opt)
{
    const int rank = v->shape->rank, axis = rank > 0 ? axis_of_rank(b->axis, rank) : -1;
    bool open = false;
    char text[SHAPE_TEXT];

    if (rank < 0 || (!rank && strcmp(b->name, v->name))) /* every replica gets a member without axes */
        return ST_OK;
    if (axis < 0)
        return FAIL(E_INVALID, "--batch-input %s:%d: the input%s%s has shape %s", b->name, b->axis,
                    v->member ? " " : "", v->member ? v->name : "", shape_text(v->shape, text));
    for (int i = 0; i < rank; i++)
        open |= v->shape->dim[i] < 0;
    if (open && v->shape->dim[axis] >= 0 && v->shape->dim[axis] != batch_options(opt)->batch &&
        !given_shape(opt, v->name))
        return FAIL(E_INVALID, "--batch-input %s:%d: the input has shape %s, in which another axis is open", b->name,
                    b->axis, shape_text(v->shape, text));
    return ST_OK;
}

/* --batch-input may name the target too, which is no input yet. */
Status check_batch_inputs(const Graph *g, const BuildOptions *opt)
{
    const BatchOptions *given = batch_options(opt);

    for (int i = 0; i < given->n_batch_input; i++) {
        const BatchInput *b = &given->batch_input[i];
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

/* E_SHAPE lists the inputs of which two axes may be the batch. */
static Status check_rivals(const Graph *g, const BuildOptions *opt)
{
    PROBLEMS(ambiguous);

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        int rival = given_shape(opt, v->name) ? -1 : rival_batch_axis(g, opt, v);
        char text[SHAPE_TEXT];

        if (rival >= 0)
            problems_add(&ambiguous,
                         "'%s' %s (--batch-input %s:%d if it is the open axis %d; --batch-input %s:0 and --input-shape "
                         "%s=DIMS if it is the first)",
                         v->name, shape_text(v->shape, text), v->name, rival, rival, v->name, v->name);
    }
    return problems_fail(&ambiguous, E_SHAPE, "the batch axis of these inputs is ambiguous");
}

/* Inputs that carry the batch, or have its name on an axis, must agree in their number of samples. */
static Status check_samples(const Graph *g, const BuildOptions *opt)
{
    const char *batch = find_batch_dim(g, opt).symbol;
    const Value *first = NULL;
    PROBLEMS(wrong);
    int at = 0;

    for (int i = 0; (batch || g->batch_found == BATCH_FOUND) && i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        unsigned axes;
        const int axis = batch_options(opt)->n_batch_input || !known_batch_axes(&axes, g, opt, v)
                             ? symbol_axis(v->dim_param, v->shape->rank, batch)
                         : axes ? __builtin_ctz(axes)
                                : -1;

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

/* Where only sizes show which inputs carry the batch, either all tensors of a sequence carry it or none.  Every replica
 * gets a tensor without axes. */
static Status check_members(const Graph *g, const BuildOptions *opt)
{
    const BatchOptions *given = batch_options(opt);
    const BatchDim batch = find_batch_dim(g, opt);
    const int64_t size = given->batch > 0 ? given->batch : batch.size;
    PROBLEMS(wrong);

    for (int i = 0; !batch.symbol && !given->n_batch_input && !g->batch_found && i < g->n_input; i++) {
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

/* Binds all axes of the inputs by the options, and checks them. */
static Status infer_shapes_bind_inputs(Graph *g, const BuildOptions *opt)
{
    const BatchOptions *o = batch_options(opt);
    BatchDim batch = find_batch_dim(g, opt);
    PROBLEMS(unbound);
    int64_t size;

    TRY(check_batch_inputs(g, opt));
    TRY(check_rivals(g, opt));
    for (int i = 0; i < o->n_input_shape; i++) {
        ValueId v = graph_find(g, o->input_shape[i].name);

        if (!has_value(v) || value(g, v)->kind != V_INPUT)
            return FAIL(E_INVALID, "--input-shape: the model has no input '%s'", o->input_shape[i].name);
    }
    for (int i = 0; i < g->n_input; i++) {
        Value *v = value(g, g->input[i]);
        const InputShape *given = given_shape(opt, v->name);
        char text[SHAPE_TEXT], want[SHAPE_TEXT];

        if (given) { /* the batch's axis, the first unless another is named, may have another size than in the file */
            const Shape *s = v->shape;
            const int named = named_batch_axis(opt, v);
            bool fits = s->rank < 0 || s->rank == given->shape.rank;

            for (int a = 1; fits && a < s->rank; a++)
                fits = s->dim[a] < 0 || s->dim[a] == given->shape.dim[a] || a == named;
            if (!fits)
                return FAIL(E_SHAPE, "input '%s' has shape %s, the shape given is %s", v->name, shape_text(s, text),
                            shape_text(&given->shape, want));
            value_set_shape(g, v, &given->shape);
            TRY(g->status);
        } else
            bind_batch(g, v, opt, batch);
        if (!shape_known(v->shape))
            problems_add(&unbound, "'%s' %s", v->name, shape_text(v->shape, text));
    }
    TRY(problems_fail(&unbound, E_SHAPE, "shapes of inputs are not known, give %s--input-shape NAME=DIMS for",
                      o->batch ? "" : "--batch-size or "));
    TRY(check_batch_inputs(g, opt)); /* again: all ranks are known now */
    TRY(check_samples(g, opt));
    TRY(check_members(g, opt));
    size = declared_batch(g, opt);
    return !g->only_batch || size < 0 || size == g->only_batch
               ? ST_OK
               : FAIL(E_UNSUPPORTED, "the model was exported for batches of %lld and does not work for %lld: %s",
                      (long long)g->only_batch, (long long)size, g->only_why);
}

/* May input i decide the shape of n?  A float setting may: integers can be computed as floats. */
static bool decides(const Graph *g, const Node *n, int i)
{
    return (i < 8 && n->op->setting_in >> i & 1) || !dtype_is_float(in_value(g, n, i)->dtype);
}

/* Marks the producers of the inputs of n (`all`), or of those that may decide its shape, and returns their number.  A
 * setting has MAX_SETTING bytes at most. */
static uint32_t mark_producers(bool *needed, const Graph *g, const Node *n, bool all)
{
    uint32_t count = 0;

    for (int i = 0; i < n->n_in; i++) {
        const Node *of = has_in(n, i) && (all || decides(g, n, i)) ? in_value(g, n, i)->producer : NULL;

        bool small = of && !needed[of->index];

        for (int o = 0; small && o < of->n_out; o++)
            small = !has_value(of->out[o]) ||
                    (shape_known(value(g, of->out[o])->shape) && value_bytes(g, of->out[o]) <= MAX_SETTING);
        if (small)
            count += needed[of->index] = true;
    }
    return count;
}

/* Folds the nodes in front of n that decide its shape and depend on constants alone, such as the scales of a Resize.
 * Parameters are no constants here. */
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

/* Does the node depend on a value that enters a branch chosen by data?  `stack` [n_value]; `seen` [n_value]: all
 * false. */
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

/* Infers the node.  If it fails in a branch chosen by data, the model is valid, but no plan holds both branches at
 * these sizes: E_UNSUPPORTED.  The message names an input of one number, which may choose the branch. */
static Status infer_either(Graph *g, PassCtx *ctx, Node *n)
{
    const Status st = node_infer(g, n);
    const char *number = NULL;
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
    for (int i = 0; i < g->n_input && !number; i++)
        if (shape_numel(value(g, g->input[i])->shape) == 1)
            number = value(g, g->input[i])->name;
    return status_prefix(E_UNSUPPORTED,
                         "data decides which branch is taken, and one of the branches does not fit these sizes%s%s%s",
                         number ? " (if '" : "", number ? number : "",
                         number ? "' decides, --input-value gives it one number for the whole run)" : "");
}

/* Extends the message of an E_SHAPE, if the file leaves an axis other than the batch's open and the node has constant
 * sizes: exporters that trace declare the open axes that the user names, but write down the sizes of their example. */
static Status explain_example(Status st, const Graph *g, const BuildOptions *opt, const Node *n)
{
    const char *batch = st == E_SHAPE ? find_batch_dim(g, opt).symbol : NULL;
    const Value *v = NULL;
    int axis = -1;
    unsigned axes;
    bool holds = false;

    for (int i = 0; st == E_SHAPE && axis < 0 && i < g->n_input; i++) {
        v = value(g, g->input[i]);
        for (int k = 0; v->dim_param && k < v->shape->rank && axis < 0; k++)
            if (v->dim_param[k] && (!batch || strcmp(v->dim_param[k], batch) != 0) &&
                !(known_batch_axes(&axes, g, opt, v) && axes >> k & 1))
                axis = k;
    }

    for (int i = 1; axis >= 0 && i < n->n_in; i++)
        holds |= has_in(n, i) && in_value(g, n, i)->dtype == DT_INT64 && value_const(g, n->in[i]);
    if (!holds)
        return st;
    return status_prefix(
        st,
        "axis %d of input '%s' is open in the file and %lld here, but a node has fixed sizes that do not fit it; "
        "PyTorch's legacy exporter writes the sizes of its example: export with the default one and dynamic_shapes",
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
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && dtype_is_float(value(g, n->out[i])->dtype))
            return ST_OK;
    return fold_possible(g, n) ? fold_node(g, ctx, n, MAX_SHAPE_ARITHMETIC) : ST_OK;
}

static Status infer_shapes_run(Graph *g, PassCtx *ctx)
{
    TRY(infer_shapes_bind_inputs(g, ctx->opt));
    FOR_NODES(g, n) {
        TRY(explain_example(infer_and_fold(g, ctx, n), g, ctx->opt, n));
        for (int i = 0; n->op && i < n->n_out; i++)
            if (has_value(n->out[i]) && value(g, n->out[i])->dtype == DT_STRING)
                return FAIL(E_UNSUPPORTED, "%s: string tensors are supported only by the interpreter, without training",
                            node_text(g, n));
        if (n->op && n->op->check_sizes)
            TRY(n->op->check_sizes(g, n));
    }
    return graph_sort(g);
}

const Pass pass_infer_shapes = { .name = "infer-shapes",
                                 .summary = "bind symbolic dimensions, find every type and shape",
                                 .idempotent = true,
                                 .run = infer_shapes_run };
