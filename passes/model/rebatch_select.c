/* Nodes that take rows along the batch's axis by constants (OpDef.takes_rows: Slice, Gather, GatherND): whether they
 * take equally many rows of each sample at any batch size, and the edits that make them.
 *
 * The rows along that axis are [front, batch, step] as one axis: each sample has runs of `step` rows, and row v belongs
 * to sample v / step % batch.  There are three cases:
 *
 *   at the file's size and at others, each sample has equally many of the taken rows    the node follows the batch
 *   at the file's size only                                      the constants are written for it, and edits are
 * needed: the ends of a Slice grow, a list is extended not even at the file's size                                  the
 * network itself wants some of the samples
 *
 * At a batch of one, all rows are of one sample, and the file may mean that sample alone.  Networks compute samples
 * apart, so the node takes each sample's rows, and a note says so. */
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/ranges.h"
#include "passes/model/rebatch.h"

enum { MAX_ROWS = 1 << 20 };

typedef struct {
    Arena *a;
    const TrialModel *trial; /* [REBATCH_TRIALS]; the first has the file's size */
    uint32_t node;
    int axis; /* of input 0 */
    int64_t front, step;
    RowsTaken how; /* at the file's size */
    Selection *out;
} Select;

static const Node *node_in(const Select *s, int trial) { return s->trial[trial].g->node[s->node]; }

static const Tensor *const_in(const Select *s, int trial, int in)
{
    const Node *n = node_in(s, trial);
    const Tensor *t = in < n->n_in && has_value(n->in[in]) ? value_const(s->trial[trial].g, n->in[in]) : NULL;

    return t && dtype_is_int(t->dtype) && shape_known(&t->shape) ? t : NULL;
}

static const Shape *data_shape(const Select *s, int trial)
{
    return value(s->trial[trial].g, node_in(s, trial)->in[0])->shape;
}

/* ---- which rows ---- */

/* How the node takes rows.  False: it takes none, or a range that is not constant. */
static bool takes(const Select *s, int trial, RowsTaken *out)
{
    const Node *n = node_in(s, trial);

    return n->op && n->op->takes_rows && n->op->takes_rows(s->trial[trial].g, n, s->axis, out);
}

/* A start or end of a Slice at another size.  A number beyond the axis does not grow. */
static int64_t grown(const Select *s, int64_t v, int trial)
{
    int64_t b0 = s->trial[0].batch, dim = data_shape(s, 0)->dim[s->axis];

    return v % b0 || v > dim || v < -dim ? v : v / b0 * s->trial[trial].batch;
}

/* `grow`: with the ends of the Slice grown to the size of the trial model. */
static Status slice_rows(const Select *s, int trial, bool grow, int64_t **row, int64_t *n)
{
    const Graph *g = s->trial[trial].g;
    Tensor *bound[2] = { tensor_copy(s->a, const_in(s, trial, 1)), tensor_copy(s->a, const_in(s, trial, 2)) };
    RowsTaken how = { 0 };
    SliceRange range;

    (void)takes(s, trial, &how);
    for (int i = 0; i < 2; i++) {
        if (!bound[i])
            return FAIL_NOMEM();
        if (grow)
            tensor_set_int(bound[i], how.at, grown(s, tensor_int(bound[i], how.at), trial));
    }
    TRY(slice_range(&range, data_shape(s, trial), bound[0], bound[1], const_in(s, trial, 3), const_in(s, trial, 4),
                    node_text(g, node_in(s, trial))));
    *n = range.count[s->axis];
    *row = NULL;
    if (*n > MAX_ROWS)
        return ST_OK;
    if (!(*row = ARENA_NEW(s->a, int64_t, *n + 1)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < *n; i++)
        (*row)[i] = range.start[s->axis] + i * range.step[s->axis];
    return ST_OK;
}

static Status list_rows(const Select *s, int trial, int64_t **row, int64_t *n)
{
    const Tensor *t = const_in(s, trial, 1);
    int64_t dim = data_shape(s, trial)->dim[s->axis];

    *n = tensor_numel(t) / s->how.width;
    *row = NULL;
    if (*n > MAX_ROWS)
        return ST_OK;
    if (!(*row = ARENA_NEW(s->a, int64_t, *n + 1)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < *n; i++) {
        int64_t v = tensor_int(t, i * s->how.width + s->how.part);

        (*row)[i] = v < 0 ? v + dim : v;
    }
    return ST_OK;
}

/* *row: the *n rows that the node takes in this trial model; NULL where they are more than MAX_ROWS. */
static Status rows_taken(const Select *s, int trial, bool grow, int64_t **row, int64_t *n)
{
    return s->how.range ? slice_rows(s, trial, grow, row, n) : list_rows(s, trial, row, n);
}

/* *good: has every sample *each of the n rows?  *each -1: equally many; *each becomes their number. */
static Status balanced(const Select *s, const int64_t *row, int64_t n, int64_t batch, int64_t *each, bool *good)
{
    int64_t *count = ARENA_NEW(s->a, int64_t, batch);

    if (!count)
        return FAIL_NOMEM();
    memset(count, 0, (size_t)batch * sizeof *count);
    *good = n % batch == 0 && (*each < 0 || n / batch == *each);
    for (int64_t i = 0; i < n && *good; i++)
        if (!(*good = row[i] >= 0))
            break;
        else
            count[row[i] / s->step % batch]++;
    for (int64_t i = 0; i < batch && *good; i++)
        *good = count[i] == n / batch;
    if (*good)
        *each = n / batch;
    return ST_OK;
}

/* The same at the other sizes. */
static Status all_balanced(const Select *s, bool grow, int64_t each, bool *good)
{
    *good = true;
    for (int i = 1; i < REBATCH_TRIALS && *good; i++) {
        int64_t *row, n;

        TRY(rows_taken(s, i, grow, &row, &n));
        if (!row)
            return ST_OK;
        TRY(balanced(s, row, n, s->trial[i].batch, &each, good));
    }
    return ST_OK;
}

/* ---- edits of a Slice ---- */

static Status grow_slice(Select *s, int64_t each)
{
    int at = s->how.at;
    bool good;

    TRY(all_balanced(s, true, each, &good));
    for (int in = 1; in <= 2 && good; in++) {
        int64_t v = tensor_int(const_in(s, 0, in), at);

        if (v && grown(s, v, 1) != v)
            s->out->edit[s->out->n_edit++] =
                (Edit){ .kind = EDIT_ELEMENT, .node = s->node, .in = in, .at = at, .size = v };
    }
    s->out->kind = s->out->n_edit ? SELECT_WRITTEN : SELECT_LOSES;
    return ST_OK;
}

/* ---- edits of a list ---- */

/* Is the list [front, b0, behind] rows, and does each sample take the same rows of its own? */
static bool is_laid_out(const Select *s, const int64_t *row, int64_t n, int64_t front, int64_t behind)
{
    const Tensor *t = const_in(s, 0, 1);
    int64_t b0 = s->trial[0].batch;

    for (int64_t i = 0; i < n; i++) {
        int64_t sample = i / behind % b0, first = i - sample * behind;

        if (i / behind / b0 >= front || tensor_int(t, i * s->how.width + s->how.part) < 0 ||
            row[first] / s->step % b0 || row[i] != row[first] + sample * s->step)
            return false;
        for (int k = 0; k < s->how.width; k++)
            if (k != s->how.part && tensor_int(t, i * s->how.width + k) != tensor_int(t, first * s->how.width + k))
                return false;
    }
    return true;
}

/* Finds the layout [front, batch, behind] of the list, and returns the axis of its shape that holds the batch; -1: no
 * layout fits.  An axis of the batch alone is preferred to one that joins it with front and behind: rows [1,2] of one
 * sample are [batch,2], not [1,2 batch].  The rows of one sample may be laid out either way; then a joined axis must
 * have the order of the axis that the rows are taken of. */
static int list_layout(const Select *s, const int64_t *row, int64_t n, int64_t *front, int64_t *behind)
{
    const Shape *list = &const_in(s, 0, 1)->shape;
    const int64_t b0 = s->trial[0].batch, each = n / b0;
    const int rank = s->how.list_rank;

    for (int alone = 1; alone >= 0; alone--)
        for (*behind = 1; *behind <= each; ++*behind) {
            int axis = -1;

            if (each % *behind)
                continue;
            *front = each / *behind;
            for (int a = 0; a < rank && axis < 0; a++) {
                const int64_t before = shape_count(list, 0, a), after = shape_count(list, a + 1, rank);
                const bool fits = alone ? *front == before && *behind == after : true;

                if (fits && before && after && *front % before == 0 && *behind % after == 0 &&
                    *front / before * b0 * (*behind / after) == list->dim[a])
                    axis = a;
            }
            if (axis >= 0 &&
                (alone || b0 > 1 || each == 1 || (s->step == 1 && *behind == 1) || (s->front == 1 && *front == 1)) &&
                is_laid_out(s, row, n, *front, *behind))
                return axis;
        }
    return -1;
}

static Status extend_list(Select *s, const int64_t *row, int64_t n)
{
    int64_t front, behind;
    int axis = list_layout(s, row, n, &front, &behind);

    s->out->kind = SELECT_LOSES;
    for (int i = 1; i < REBATCH_TRIALS; i++)
        if (!tensor_same(const_in(s, 0, 1), const_in(s, i, 1)))
            axis = -1;
    if (axis < 0)
        return ST_OK;
    s->out->edit[s->out->n_edit++] = (Edit){ .kind = EDIT_LIST,
                                             .node = s->node,
                                             .in = 1,
                                             .at = axis,
                                             .list = { front, behind, s->step, s->how.width, s->how.part } };
    s->out->kind = SELECT_WRITTEN;
    return ST_OK;
}

/* ---- the decision ---- */

/* Does the node take rows along the axis, by integers that are known at all sizes?  Sets s->how. */
static bool selects(Select *s)
{
    const Node *n = node_in(s, 0);
    RowsTaken how;

    if (!takes(s, 0, &s->how))
        return false;
    for (int i = 0; i < REBATCH_TRIALS; i++) {
        if (!const_in(s, i, 1) || !takes(s, i, &how))
            return false;
        for (int in = 3; in < n->n_in; in++)
            if (has_value(n->in[in]) && !const_in(s, i, in))
                return false;
    }
    return true;
}

/* Does it take rows by computed integers, of which there are the file's batch size or a multiple?  At a batch of one
 * the offset that an index adds for its sample is 0.  At a larger one, the number of indices must be the same at any
 * size. */
static bool rebatch_select_computed(const Select *s)
{
    const int64_t b0 = s->trial[0].batch;
    const Shape *list;
    RowsTaken how;

    if (!takes(s, 0, &how) || how.range || const_in(s, 0, 1))
        return false;
    list = value(s->trial[0].g, node_in(s, 0)->in[1])->shape;
    for (int i = 1; i < REBATCH_TRIALS && b0 > 1; i++)
        if (!shape_eq(list, value(s->trial[i].g, node_in(s, i)->in[1])->shape))
            return false;
    return list->rank > 0 && shape_count(list, 0, how.list_rank) % b0 == 0;
}

/* Sets s->out. */
static Status decide(Select *s)
{
    int64_t b0 = s->trial[0].batch, each = -1, front, behind;
    int64_t *row, *other, n, n_other;
    bool good;

    TRY(rows_taken(s, 0, false, &row, &n));
    TRY(rows_taken(s, 1, false, &other, &n_other));
    if (!row || !other || !n)
        return ST_OK;
    s->out->n_row = n;
    s->out->first_row = row[0];
    TRY(balanced(s, row, n, b0, &each, &good));
    if (!good) {
        s->out->kind = n == n_other && !memcmp(row, other, (size_t)n * sizeof *row) ? SELECT_OWN : SELECT_OTHER;
        return ST_OK;
    }
    if (!s->how.range)
        s->out->front = list_layout(s, row, n, &front, &behind) >= 0 ? front : 0;
    else {
        const Tensor *steps = const_in(s, 0, 4);

        s->out->front = each % s->step || (steps && tensor_int(steps, s->how.at) != 1) ? s->front : each / s->step;
    }
    TRY(all_balanced(s, false, each, &good));
    if (good) {
        s->out->kind = SELECT_FOLLOWS;
        return ST_OK;
    }
    return s->how.range ? grow_slice(s, each) : extend_list(s, row, n);
}

Status select_rows(Selection *out, const TrialModel *trial, uint32_t node, int axis, int64_t front)
{
    Select s = { .trial = trial, .node = node, .axis = axis, .front = front, .out = out };
    int64_t dim;
    Status st;

    *out = (Selection){ .kind = SELECT_OTHER,
                        .reason = "takes rows of the batch, at another size not as many of each sample" };
    dim = data_shape(&s, 0)->dim[axis];
    if (front <= 0 || dim <= 0 || dim % (front * trial[0].batch) || (!selects(&s) && !rebatch_select_computed(&s)))
        return ST_OK;
    if (rebatch_select_computed(&s)) {
        out->kind = SELECT_LOSES;
        out->reason =
            "takes rows of the batch by computed numbers, which need not be those of all samples at another size";
        return ST_OK;
    }
    s.step = dim / (front * trial[0].batch);
    if (!(s.a = arena_create_beside(trial[0].g->arena)))
        return FAIL_NOMEM();
    st = decide(&s);
    arena_free(s.a);
    return st == E_NOMEM ? st : ST_OK; /* inference reports an invalid node */
}

/* ---- for rebatch.c ---- */

const Tensor *fixed_ints(const TrialModel *trial, uint32_t node, int in)
{
    const Tensor *t[REBATCH_TRIALS];

    for (int i = 0; i < REBATCH_TRIALS; i++) {
        const Node *n = trial[i].g->node[node];

        t[i] = in < n->n_in && has_value(n->in[in]) ? value_const(trial[i].g, n->in[in]) : NULL;
        if (!t[i] || !dtype_is_int(t[i]->dtype) || t[i]->shape.rank > 1 || tensor_numel(t[i]) > MAX_RANK)
            return NULL;
        if (tensor_numel(t[i]) != tensor_numel(t[0]))
            return NULL;
        for (int64_t k = 0; k < tensor_numel(t[i]); k++)
            if (tensor_int(t[i], k) != tensor_int(t[0], k))
                return NULL;
    }
    return t[0];
}

bool keeps_b0_rows(const TrialModel *trial, const Node *n, int axis)
{
    const Shape *x, *y, *other;

    if (axis < 0 || !n->op || !(n->op->flags & OPF_SELECTS))
        return false;
    x = value(trial[0].g, n->in[0])->shape;
    y = value(trial[0].g, n->out[0])->shape;
    other = value(trial[1].g, n->out[0])->shape;
    return y->rank > axis && y->dim[axis] == x->dim[axis] && other->rank == y->rank && y->dim[axis] == other->dim[axis];
}
