/* One rule for all users of the batch's axis: binding of shapes, the loss, the partition and the reading of data files.
 */
#include "passes/batch_axis.h"

#include <string.h>

#include "graph/base/foreign.h"
#include "passes/options/batch.h"
#include "passes/options/target.h"

static bool names_sequence(const BatchInput *b, const Value *input)
{
    const size_t n = strlen(b->name);

    return input->member && !strncmp(input->name, b->name, n) && input->name[n] == '.' &&
           !input->name[n + 1 + strspn(input->name + n + 1, "0123456789")];
}

bool batch_input_names(const BatchInput *b, const Value *input)
{
    return !strcmp(b->name, input->name) || names_sequence(b, input);
}

bool same_sequence(const Value *a, const Value *b)
{
    const char *dot = strrchr(a->name, '.');
    const size_t n = dot ? (size_t)(dot - a->name) : 0;

    return dot && a->member && b->member && !strncmp(a->name, b->name, n) && b->name + n == strrchr(b->name, '.');
}

static const BatchInput *find_named(const BuildOptions *opt, const char *name)
{
    const BatchOptions *batch = batch_options(opt);

    for (int i = 0; i < batch->n_batch_input; i++)
        if (!strcmp(batch->batch_input[i].name, name))
            return &batch->batch_input[i];
    return NULL;
}

int named_batch_axis(const BuildOptions *opt, const Value *input)
{
    const BatchOptions *batch = batch_options(opt);
    const BatchInput *b = find_named(opt, input->name);
    const int rank = input->shape->rank;

    for (int i = 0; i < batch->n_batch_input && !b && rank; i++)
        b = names_sequence(&batch->batch_input[i], input) ? &batch->batch_input[i] : NULL;
    if (!b)
        return -1;
    return b->axis >= 0 ? b->axis : rank < 0 ? -1 : axis_of_rank(b->axis, rank);
}

/* The axis that --batch-input names for data of an input, or (NULL) of the target, as data_batch_axis; false: none is
 * named. */
static bool named_data_axis(int *out, const BuildOptions *opt, const char *name, const Value *input)
{
    const TargetOptions *target = target_options(opt);
    const BatchOptions *batch = batch_options(opt);
    const BatchInput *b = find_named(opt, name);
    const int rank = target->target_shape ? target->target_shape->rank : -1;

    if (input && (*out = named_batch_axis(opt, input)) >= 0)
        return true;
    for (int i = 0; i < batch->n_batch_input && !b && input && input->shape->rank < 0; i++)
        b = names_sequence(&batch->batch_input[i], input) ? &batch->batch_input[i] : NULL;
    if (!b)
        return false;
    *out = !input && rank >= 0 && axis_of_rank(b->axis, rank) >= 0 ? axis_of_rank(b->axis, rank) : b->axis;
    return true;
}

int symbol_axis(const char *const *dim_param, int rank, const char *symbol)
{
    for (int i = 0; symbol && dim_param && i < rank; i++)
        if (dim_param[i] && !strcmp(dim_param[i], symbol))
            return i;
    return -1;
}

static bool names_time(const char *symbol)
{
    static const char *const words[] = { "seq", "time", "len", "frame", "token" };

    if (*symbol && !symbol[1] && strchr("TLStls", *symbol))
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (ascii_casestr(symbol, words[i]))
            return true;
    return false;
}

int batch_name_distance(const char *symbol, int axis)
{
    const bool word = ascii_casestr(symbol, "batch"), letter = !strcmp(symbol, "N") || !strcmp(symbol, "B");

    if (axis)
        return word ? BATCH_NAME_WORD : letter ? BATCH_NAME_LETTER : BATCH_NAME_NONE;
    return word || letter ? BATCH_NAME_FIRST : names_time(symbol) ? BATCH_NAME_TIME : BATCH_NAME_ANY;
}

static const CarryChoice *find_choice(const BuildOptions *opt, const char *name)
{
    const BatchOptions *batch = batch_options(opt);

    for (int i = 0; i < batch->n_carry_choice; i++)
        if (!strcmp(batch->carry_choice[i].name, name))
            return &batch->carry_choice[i];
    return NULL;
}

bool known_batch_axes(unsigned *out, const Graph *g, const BuildOptions *opt, const Value *input)
{
    const CarryChoice *choice = find_choice(opt, input->name);
    const int named = named_batch_axis(opt, input);

    if (batch_options(opt)->n_batch_input) {
        *out = named >= 0 ? 1u << named : 0;
        return true;
    }
    if (choice)
        *out = choice->carries;
    else if (g->batch_found == BATCH_FOUND)
        *out = input->carries;
    return choice || g->batch_found == BATCH_FOUND;
}

static BatchDim dim_of(const Value *v, int axis)
{
    return (BatchDim){ v->dim_param ? v->dim_param[axis] : NULL, v->shape->dim[axis], axis };
}

/* Finds the batch by names; `symbol` NULL: no dimension has one. */
static BatchDim find_by_name(const Graph *g)
{
    BatchDim best = { NULL, -1, 0 };
    int least = BATCH_NAME_NONE;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        for (int a = 0; v->dim_param && a < v->shape->rank; a++)
            if (v->dim_param[a] && batch_name_distance(v->dim_param[a], a) < least) {
                least = batch_name_distance(v->dim_param[a], a);
                best = dim_of(v, a);
            }
    }
    return best;
}

BatchDim find_batch_dim(const Graph *g, const BuildOptions *opt)
{
    const bool by_name = !batch_options(opt)->n_batch_input && g->batch_found != BATCH_FOUND;
    BatchDim found = by_name ? find_by_name(g) : (BatchDim){ NULL, -1, 0 };

    for (int i = 0; !found.symbol && i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        unsigned axes;
        int axis = !known_batch_axes(&axes, g, opt, v) ? 0 : axes ? __builtin_ctz(axes) : -1;

        if (axis >= 0 && axis < v->shape->rank)
            return dim_of(v, axis);
    }
    return found;
}

static bool names_side(const char *symbol)
{
    return (*symbol && !symbol[1] && strchr("HWhw", *symbol)) || ascii_casestr(symbol, "height") ||
           ascii_casestr(symbol, "width");
}

int rival_batch_axis(const Graph *g, const BuildOptions *opt, const Value *v)
{
    int open = -1;

    if (batch_options(opt)->n_batch_input || g->batch_found == BATCH_FOUND || v->shape->rank < 2 ||
        v->shape->dim[0] < 2 || find_by_name(g).symbol)
        return -1;
    for (int i = 1; i < v->shape->rank; i++) {
        const char *symbol = v->dim_param ? v->dim_param[i] : NULL;

        if (v->shape->dim[i] >= 0)
            continue;
        if (open >= 0 || (symbol && (names_time(symbol) || names_side(symbol))))
            return -1;
        open = i;
    }
    return open;
}

/* ---- the scores and their target ---- */

static bool is_class_loss(const BuildOptions *opt) { return loss_has_classes(opt); }

int scores_batch_axis(const Graph *g, const BuildOptions *opt, const Output *scores)
{
    const BatchOptions *given = batch_options(opt);
    const Shape *y = value(g, scores->value)->shape;
    const BatchDim batch = find_batch_dim(g, opt);
    const int64_t size = given->batch > 0 ? given->batch : batch.size;
    const int by_name = symbol_axis(scores->dim_param, y->rank < 0 ? 0 : y->rank, batch.symbol);

    if (scores->batch_axis > 0 && (given->n_batch_input ? BATCH_FROM_OPTION : BATCH_FOUND) == g->batch_found)
        return scores->batch_axis - 1;
    if (by_name >= 0)
        return by_name;
    if (y->rank >= 0 && (batch.axis >= y->rank || (is_class_loss(opt) && y->rank == 2)))
        return 0;
    if (y->rank > 0 && size >= 0 && y->dim[batch.axis] >= 0 && y->dim[batch.axis] != size && y->dim[0] == size)
        return 0;
    return batch.axis;
}

int target_batch_axis(const BuildOptions *opt, int scores, int classes)
{
    if (!is_class_loss(opt))
        return scores;
    return classes ? scores - (classes < scores) : scores > 1 ? scores - 1 : scores;
}

/* The batch's symbol, or "batch" if --batch-input gives an axis without a name; NULL: it has none. */
static const char *batch_name(const Graph *g, const BuildOptions *opt)
{
    const char *symbol = find_batch_dim(g, opt).symbol;

    return symbol ? symbol : batch_options(opt)->n_batch_input ? "batch" : NULL;
}

Status mark_batch_axis(Graph *g, const BuildOptions *opt, Value *target, int axis)
{
    const char **names, *batch = batch_name(g, opt);

    if (!batch || axis < 1 || axis >= target->shape->rank)
        return ST_OK; /* the first axis is taken unless another is noted */
    if (!(names = ARENA_NEW(g->arena, const char *, MAX_RANK)))
        return FAIL_NOMEM();
    names[axis] = batch;
    target->dim_param = names;
    return ST_OK;
}

int marked_batch_axis(const Graph *g, const BuildOptions *opt, const Value *target)
{
    return symbol_axis(target->dim_param, target->shape->rank, batch_name(g, opt));
}

static const Output *loss_scores(const Graph *g, const BuildOptions *opt)
{
    const TargetOptions *target = target_options(opt);

    for (int i = 0; i < g->n_output; i++)
        if (!target->logits || !strcmp(g->output[i].name, target->logits))
            return &g->output[i];
    return NULL;
}

int data_batch_axis(const Graph *model, const BuildOptions *opt, const char *name)
{
    const TargetOptions *targets = target_options(opt);
    const ValueId id = graph_find(model, name);
    const Value *v = has_value(id) && value(model, id)->kind == V_INPUT ? value(model, id) : NULL;
    const Output *scores = loss_scores(model, opt);
    const int target = targets->target_shape ? targets->target_shape->rank : -1;
    unsigned axes;
    int axis;

    if (named_data_axis(&axis, opt, name, v))
        return axis;
    axis = -1;
    if (v && known_batch_axes(&axes, model, opt, v))
        axis = axes ? __builtin_ctz(axes) : 0;
    else if (v)
        axis = symbol_axis(v->dim_param, v->shape->rank, find_batch_dim(model, opt).symbol);
    else if (scores && loss_has_target(opt)) {
        axis = scores_batch_axis(model, opt, scores);
        if (target < 0 ||
            target != value(model, scores->value)->shape->rank) /* otherwise it has the classes' axis too */
            axis = target_batch_axis(opt, axis, targets->class_axis > 0 ? targets->class_axis : 0);
    }
    return axis >= 0 ? axis : 0;
}

int data_split_axis(const Graph *model, const BuildOptions *opt, const char *name)
{
    const BatchOptions *given = batch_options(opt);
    const ValueId id = graph_find(model, name);
    const Value *v = has_value(id) && value(model, id)->kind == V_INPUT ? value(model, id) : NULL;
    const BatchDim batch = find_batch_dim(model, opt);
    const bool by_size = !given->n_batch_input && !batch.symbol,
               is_target = has_loss(opt) && !strcmp(name, target_name(opt));
    unsigned axes;
    int axis;

    if (!v)
        return data_batch_axis(model, opt, name);
    if (!given->n_batch_input && known_batch_axes(&axes, model, opt, v))
        return only_axis(axes);
    axis = named_batch_axis(opt, v);
    if (axis < 0)
        axis = symbol_axis(v->dim_param, v->shape->rank, batch.symbol);
    if (axis >= 0 || (!by_size && !is_target) || !v->shape->rank)
        return axis;
    return v->shape->rank < 0 || v->shape->dim[0] < 0 || v->shape->dim[0] == batch.size ? 0 : -1;
}
