/* What takes rows along the batch's axis by constants (OpDef.takes_rows: Slice, Gather, GatherND) takes of each sample
 * as many at any batch size as at the one it was written for.
 *
 * Rows along that axis are `front` times the batch, each sample `step` rows in a run: [front, batch, step] as one axis,
 * so row v is of sample v / step % batch.  Where every sample has as many of the rows taken, at the size of the file
 * and at others, the node follows the batch.  Where it has so at the size of the file alone, the constants are written
 * for it: the ends of a Slice then grow with the batch, and a list is counted out.  Where samples differ already at the
 * size of the file, the network itself wants some of them.  A batch of one has all its rows of one sample, and what
 * takes some of them may have meant that one alone: a network computes its samples apart, so each one's are taken; it
 * is said. */
#include <string.h>

#include "graph/ir/op.h"
#include "graph/ops/ranges.h"
#include "passes/model/rebatch.h"

enum { MAX_ROWS = 1 << 20 };

typedef struct {
    Arena *a;
    const World *world; /* [REBATCH_WORLDS]; the first is the file's size */
    uint32_t node;
    int axis; /* of input 0 */
    int64_t front, step;
    RowsTaken how; /* at the file's size */
    Selection *out;
} Select;

typedef struct {
    int64_t n;
    int64_t *row;
} Rows;

static const Node *node_in(const Select *s, int world) { return s->world[world].g->node[s->node]; }

static const Tensor *const_in(const Select *s, int world, int in)
{
    const Node *n = node_in(s, world);
    const Tensor *t = in < n->n_in && has_value(n->in[in]) ? value_const(s->world[world].g, n->in[in]) : NULL;

    return t && dtype_is_int(t->dtype) && shape_known(&t->shape) ? t : NULL;
}

static const Shape *data_shape(const Select *s, int world)
{
    return value(s->world[world].g, node_in(s, world)->in[0])->shape;
}

/* ---- which rows ---- */

/* How the node takes them; false: it does not, or not by constants where it has to. */
static bool takes(const Select *s, int world, RowsTaken *out)
{
    const Node *n = node_in(s, world);

    return n->op && n->op->takes_rows && n->op->takes_rows(s->world[world].g, n, s->axis, out);
}

static RowsTaken taken(const Select *s, int world)
{
    RowsTaken t = { 0 };

    (void)takes(s, world, &t);
    return t;
}

/* An end or start of a Slice at another size; what is beyond the axis is no size of it. */
static int64_t grown(const Select *s, int64_t v, int world)
{
    int64_t b0 = s->world[0].batch, dim = data_shape(s, 0)->dim[s->axis];

    return v % b0 || v > dim || v < -dim ? v : v / b0 * s->world[world].batch;
}

static Status slice_rows(const Select *s, int world, bool grow, Rows *out)
{
    const Graph *g = s->world[world].g;
    Tensor *bound[2] = { tensor_copy(s->a, const_in(s, world, 1)), tensor_copy(s->a, const_in(s, world, 2)) };
    int at = taken(s, world).at;
    SliceRange range;

    for (int i = 0; i < 2; i++) {
        if (!bound[i])
            return FAIL_NOMEM();
        if (grow)
            tensor_set_int(bound[i], at, grown(s, tensor_int(bound[i], at), world));
    }
    TRY(slice_range(&range, data_shape(s, world), bound[0], bound[1], const_in(s, world, 3), const_in(s, world, 4),
                    node_text(g, node_in(s, world))));
    *out = (Rows){ range.count[s->axis], NULL };
    if (out->n > MAX_ROWS)
        return ST_OK;
    if (!(out->row = ARENA_NEW(s->a, int64_t, out->n + 1)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < out->n; i++)
        out->row[i] = range.start[s->axis] + i * range.step[s->axis];
    return ST_OK;
}

static Status list_rows(const Select *s, int world, Rows *out)
{
    const Tensor *t = const_in(s, world, 1);
    int64_t dim = data_shape(s, world)->dim[s->axis];

    *out = (Rows){ tensor_numel(t) / s->how.width, NULL };
    if (out->n > MAX_ROWS)
        return ST_OK;
    if (!(out->row = ARENA_NEW(s->a, int64_t, out->n + 1)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < out->n; i++) {
        int64_t v = tensor_int(t, i * s->how.width + s->how.part);

        out->row[i] = v < 0 ? v + dim : v;
    }
    return ST_OK;
}

static Status rows_taken(const Select *s, int world, bool grow, Rows *out)
{
    return s->how.range ? slice_rows(s, world, grow, out) : list_rows(s, world, out);
}

/* Has every sample as many of the rows, `each` (-1: any number, which it becomes)? */
static Status balanced(const Select *s, const Rows *r, int64_t batch, int64_t *each, bool *good)
{
    int64_t *count = ARENA_NEW(s->a, int64_t, batch);

    if (!count)
        return FAIL_NOMEM();
    memset(count, 0, (size_t)batch * sizeof *count);
    *good = r->n % batch == 0 && (*each < 0 || r->n / batch == *each);
    for (int64_t i = 0; i < r->n && *good; i++)
        if (!(*good = r->row[i] >= 0))
            break;
        else
            count[r->row[i] / s->step % batch]++;
    for (int64_t i = 0; i < batch && *good; i++)
        *good = count[i] == r->n / batch;
    if (*good)
        *each = r->n / batch;
    return ST_OK;
}

/* At the other sizes. */
static Status all_balanced(const Select *s, bool grow, int64_t each, bool *good)
{
    *good = true;
    for (int i = 1; i < REBATCH_WORLDS && *good; i++) {
        Rows r;

        TRY(rows_taken(s, i, grow, &r));
        if (!r.row)
            return ST_OK;
        TRY(balanced(s, &r, s->world[i].batch, &each, good));
    }
    return ST_OK;
}

/* ---- what makes a Slice follow ---- */

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

/* ---- what makes a list follow ---- */

/* Is the list [front, b0, behind], all samples' rows being alike but for which sample's they are? */
static bool is_laid_out(const Select *s, const Rows *r, int64_t front, int64_t behind)
{
    const Tensor *t = const_in(s, 0, 1);
    int64_t b0 = s->world[0].batch;

    for (int64_t i = 0; i < r->n; i++) {
        int64_t sample = i / behind % b0, first = i - sample * behind;

        if (i / behind / b0 >= front || tensor_int(t, i * s->how.width + s->how.part) < 0 ||
            r->row[first] / s->step % b0 || r->row[i] != r->row[first] + sample * s->step)
            return false;
        for (int k = 0; k < s->how.width; k++)
            if (k != s->how.part && tensor_int(t, i * s->how.width + k) != tensor_int(t, first * s->how.width + k))
                return false;
    }
    return true;
}

/* The axis of the list that holds the samples, and (`alone`) nothing else; -1: none does. */
static int list_axis(const Select *s, const Shape *list, int64_t front, int64_t behind, bool alone)
{
    int rank = s->how.list_rank;

    for (int a = 0; a < rank; a++) {
        int64_t before = shape_count(list, 0, a), after = shape_count(list, a + 1, rank);

        if (alone && (front != before || behind != after))
            continue;
        if (before && after && front % before == 0 && behind % after == 0 &&
            front / before * s->world[0].batch * (behind / after) == list->dim[a])
            return a;
    }
    return -1;
}

/* Of one sample's rows, which may be laid out either way: as the axis is that they are taken of. */
static bool lies_so(const Select *s, int64_t front, int64_t behind)
{
    return s->world[0].batch > 1 || front * behind == 1 || (s->step == 1 && behind == 1) ||
           (s->front == 1 && front == 1);
}

/* How the list is laid out, and which of its axes holds the samples; -1: in no way that is known.  An axis of samples
 * alone goes first: rows [1,2] of one sample are [batch,2], not [1,2 batch]. */
static int list_layout(const Select *s, const Rows *r, int64_t *front, int64_t *behind)
{
    const Tensor *t = const_in(s, 0, 1);
    int64_t each = r->n / s->world[0].batch;

    for (int alone = 1; alone >= 0; alone--)
        for (*behind = 1; *behind <= each; ++*behind) {
            int axis = each % *behind ? -1 : list_axis(s, &t->shape, *front = each / *behind, *behind, alone);

            if (axis >= 0 && (alone || lies_so(s, *front, *behind)) && is_laid_out(s, r, *front, *behind))
                return axis;
        }
    return -1;
}

static Status count_list(Select *s, const Rows *r)
{
    int64_t front, behind;
    int axis = list_layout(s, r, &front, &behind);

    s->out->kind = SELECT_LOSES;
    for (int i = 1; i < REBATCH_WORLDS; i++)
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

/* Takes the node rows along the axis, by integers that are known at all sizes? */
static bool selects(Select *s)
{
    const Node *n = node_in(s, 0);
    RowsTaken how;

    if (!takes(s, 0, &s->how))
        return false;
    for (int i = 0; i < REBATCH_WORLDS; i++) {
        if (!const_in(s, i, 1) || !takes(s, i, &how))
            return false;
        for (int in = 3; in < n->n_in; in++)
            if (has_value(n->in[in]) && !const_in(s, i, in))
                return false;
    }
    return true;
}

/* Does it take rows by numbers that are not known, as many as the file's batch has or a multiple?  Of a batch of one,
 * what is added to them to say which sample's they are is nothing; of a larger one, as many are taken of any. */
static bool rebatch_select_computed(const Select *s)
{
    const int64_t b0 = s->world[0].batch;
    const Shape *list;
    RowsTaken how;

    if (!takes(s, 0, &how) || how.range || const_in(s, 0, 1))
        return false;
    list = value(s->world[0].g, node_in(s, 0)->in[1])->shape;
    for (int i = 1; i < REBATCH_WORLDS && b0 > 1; i++)
        if (!shape_eq(list, value(s->world[i].g, node_in(s, i)->in[1])->shape))
            return false;
    return list->rank > 0 && shape_count(list, 0, how.list_rank) % b0 == 0;
}

static bool same_rows(const Rows *a, const Rows *b)
{
    return a->n == b->n && !memcmp(a->row, b->row, (size_t)a->n * sizeof *a->row);
}

/* What is in front of the batch in the result, of which each sample has `each` rows. */
static int64_t front_of_result(const Select *s, const Rows *r, int64_t each)
{
    const Tensor *steps = s->how.range ? const_in(s, 0, 4) : NULL;
    int64_t front, behind;

    if (!s->how.range)
        return list_layout(s, r, &front, &behind) >= 0 ? front : 0;
    return each % s->step || (steps && tensor_int(steps, s->how.at) != 1) ? s->front : each / s->step;
}

static Status decide(Select *s)
{
    int64_t b0 = s->world[0].batch, each = -1;
    Rows rows, other;
    bool good;

    TRY(rows_taken(s, 0, false, &rows));
    TRY(rows_taken(s, 1, false, &other));
    if (!rows.row || !other.row || !rows.n)
        return ST_OK;
    s->out->n_row = rows.n;
    s->out->first_row = rows.row[0];
    TRY(balanced(s, &rows, b0, &each, &good));
    if (!good) {
        s->out->kind = same_rows(&rows, &other) ? SELECT_OWN : SELECT_OTHER;
        return ST_OK;
    }
    s->out->front = front_of_result(s, &rows, each);
    TRY(all_balanced(s, false, each, &good));
    if (good) {
        s->out->kind = SELECT_FOLLOWS;
        return ST_OK;
    }
    return s->how.range ? grow_slice(s, each) : count_list(s, &rows);
}

Status select_rows(Selection *out, const World *world, uint32_t node, int axis, int64_t front)
{
    Select s = { .world = world, .node = node, .axis = axis, .front = front, .out = out };
    int64_t dim;
    Status st;

    *out = (Selection){ .kind = SELECT_OTHER,
                        .why = "takes rows of the batch, at another size not as many of each sample" };
    dim = data_shape(&s, 0)->dim[axis];
    if (front <= 0 || dim <= 0 || dim % (front * world[0].batch) || (!selects(&s) && !rebatch_select_computed(&s)))
        return ST_OK;
    if (rebatch_select_computed(&s)) {
        out->kind = SELECT_LOSES;
        out->why =
            "takes rows of the batch by computed numbers, which need not be those of all samples at another size";
        return ST_OK;
    }
    s.step = dim / (front * world[0].batch);
    if (!(s.a = arena_create_beside(world[0].g->arena)))
        return FAIL_NOMEM();
    st = decide(&s);
    arena_free(s.a);
    return st == E_NOMEM ? st : ST_OK; /* what is wrong with the node, inference says */
}

/* ---- what rebatch.c asks besides ---- */

static bool same_ints(const Tensor *a, const Tensor *b)
{
    if (!a || !b || tensor_numel(a) != tensor_numel(b))
        return false;
    for (int64_t i = 0; i < tensor_numel(a); i++)
        if (tensor_int(a, i) != tensor_int(b, i))
            return false;
    return true;
}

const Tensor *fixed_ints(const World *world, uint32_t node, int in)
{
    const Tensor *t[REBATCH_WORLDS];

    for (int i = 0; i < REBATCH_WORLDS; i++) {
        const Node *n = world[i].g->node[node];

        t[i] = in < n->n_in && has_value(n->in[in]) ? value_const(world[i].g, n->in[in]) : NULL;
        if (!t[i] || !dtype_is_int(t[i]->dtype) || t[i]->shape.rank > 1 || tensor_numel(t[i]) > MAX_RANK)
            return NULL;
        if (!same_ints(t[0], t[i]))
            return NULL;
    }
    return t[0];
}

bool keeps_b0_rows(const World *world, const Node *n, int axis)
{
    const Shape *x, *y, *other;

    if (axis < 0 || !n->op || !(n->op->flags & OPF_SELECTS))
        return false;
    x = value(world[0].g, n->in[0])->shape;
    y = value(world[0].g, n->out[0])->shape;
    other = value(world[1].g, n->out[0])->shape;
    return y->rank > axis && y->dim[axis] == x->dim[axis] && other->rank == y->rank && y->dim[axis] == other->dim[axis];
}
