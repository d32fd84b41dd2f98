/* One rule for all that ask where the batch is: binding of shapes, the loss, the partition, and who gathers batches
 * from files. */
#include "passes/batch_axis.h"

#include <string.h>

#include "graph/base/foreign.h"

int batch_input_axis(const BatchInput *b, int rank)
{
    const int axis = b->axis < 0 && rank >= 0 ? b->axis + rank : b->axis;

    return axis < 0 || (rank >= 0 && axis >= rank) ? -1 : axis;
}

int named_batch_axis(const BuildOptions *opt, const char *name, int rank)
{
    for (int i = 0; i < opt->n_batch_input; i++)
        if (!strcmp(opt->batch_input[i].name, name))
            return batch_input_axis(&opt->batch_input[i], rank);
    return -1;
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

/* How little a dimension's name speaks of a batch, 0..4; 5: it does not. */
static int distance(const char *symbol, int axis)
{
    const bool word = ascii_casestr(symbol, "batch"), letter = !strcmp(symbol, "N") || !strcmp(symbol, "B");

    if (axis)
        return word ? 1 : letter ? 3 : 5;
    return word || letter ? 0 : names_time(symbol) ? 4 : 2;
}

static BatchDim dim_of(const Value *v, int axis)
{
    return (BatchDim){ v->dim_param ? v->dim_param[axis] : NULL, v->shape->dim[axis], axis };
}

/* By names; `symbol` NULL: nothing is called anything. */
static BatchDim find_by_name(const Graph *g)
{
    BatchDim best = { NULL, -1, 0 };
    int least = 5;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);

        for (int a = 0; v->dim_param && a < v->shape->rank; a++)
            if (v->dim_param[a] && distance(v->dim_param[a], a) < least) {
                least = distance(v->dim_param[a], a);
                best = dim_of(v, a);
            }
    }
    return best;
}

BatchDim find_batch_dim(const Graph *g, const BuildOptions *opt)
{
    BatchDim found = opt->n_batch_input ? (BatchDim){ NULL, -1, 0 } : find_by_name(g);

    for (int i = 0; !found.symbol && i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        int axis = opt->n_batch_input ? named_batch_axis(opt, v->name, v->shape->rank) : 0;

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

    if (opt->n_batch_input || v->shape->rank < 2 || v->shape->dim[0] < 2 || find_by_name(g).symbol)
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

static bool is_class_loss(const BuildOptions *opt) { return opt->loss && opt->loss->target == TARGET_CLASSES; }

int scores_batch_axis(const Graph *g, const BuildOptions *opt, const Output *scores)
{
    const Shape *y = value(g, scores->value)->shape;
    const BatchDim batch = find_batch_dim(g, opt);
    const int64_t size = opt->batch > 0 ? opt->batch : batch.size;
    const int by_name = symbol_axis(scores->dim_param, y->rank < 0 ? 0 : y->rank, batch.symbol);

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

/* What the batch is called where --batch-input says it of an axis without a name. */
static const char *batch_name(const Graph *g, const BuildOptions *opt)
{
    const char *symbol = find_batch_dim(g, opt).symbol;

    return symbol ? symbol : opt->n_batch_input ? "batch" : NULL;
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
    for (int i = 0; i < g->n_output; i++)
        if (!opt->logits || !strcmp(g->output[i].name, opt->logits))
            return &g->output[i];
    return NULL;
}

int data_batch_axis(const Graph *model, const BuildOptions *opt, const char *name)
{
    const ValueId id = graph_find(model, name);
    const Value *v = has_value(id) && value(model, id)->kind == V_INPUT ? value(model, id) : NULL;
    const Output *scores = loss_scores(model, opt);
    int axis = named_batch_axis(opt, name, v ? v->shape->rank : -1);

    if (axis >= 0)
        return axis;
    if (v)
        axis = symbol_axis(v->dim_param, v->shape->rank, find_batch_dim(model, opt).symbol);
    else if (scores && opt->loss && opt->loss->target != TARGET_NONE)
        axis = target_batch_axis(opt, scores_batch_axis(model, opt, scores), opt->class_axis > 0 ? opt->class_axis : 0);
    return axis >= 0 ? axis : 0;
}

int data_split_axis(const Graph *model, const BuildOptions *opt, const char *name)
{
    const ValueId id = graph_find(model, name);
    const Value *v = has_value(id) && value(model, id)->kind == V_INPUT ? value(model, id) : NULL;
    const BatchDim batch = find_batch_dim(model, opt);
    const bool by_size = !opt->n_batch_input && !batch.symbol,
               is_target = opt->loss && !strcmp(name, opt->target ? opt->target : "target");
    int axis = named_batch_axis(opt, name, v ? v->shape->rank : -1);

    if (!v)
        return data_batch_axis(model, opt, name);
    if (axis < 0)
        axis = symbol_axis(v->dim_param, v->shape->rank, batch.symbol);
    if (axis >= 0 || (!by_size && !is_target) || !v->shape->rank)
        return axis;
    return v->shape->rank < 0 || v->shape->dim[0] < 0 || v->shape->dim[0] == batch.size ? 0 : -1;
}
