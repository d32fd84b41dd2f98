/* rebatch: a model that was exported at one batch size works at any.
 *
 * Exporters write the batch size b0 of their example into constants: targets of Reshape and Expand, ends of Slice, rows
 * of a constant that was expanded when it was written (a class token).  Which constants carry it is found by inferring
 * the shapes of the whole model at b0 and at two other sizes, node by node side by side: where the other sizes fail, or
 * where shapes do not grow with the batch by a fixed amount a sample, something in front of that node is written for
 * b0.  What it is is tried: numbers that are b0 or multiples, constants that repeat a row b0 times, the nearest first,
 * until the node agrees at all three sizes.  The numbers themselves are no evidence (b0 may be 1, and 4 may be the
 * number of heads); only that inference succeeds is.
 *
 * A Reshape is decided where it stands: elements keep their order, so the batch, which has so many elements in front of
 * it, can only go to an axis that has as many in front of it, and of several (those of size 1 behind each other) to the
 * first, or into one that joins it with what is in front.  Where that turns out wrong, at a node behind it, the next
 * one is tried.
 *
 * At b0 every changed constant has the value that it had: the model computes the same bits.  A constant of equal rows
 * is one row afterwards, which is trained as one. */
#include <string.h>

#include "graph/op.h"
#include "passes/batch_axis.h"
#include "passes/simplify/fold.h"
#include "passes/simplify/infer_shapes.h"
#include "passes/model/rebatch.h"
#include "passes/report.h"

enum { WORLDS = REBATCH_WORLDS, MAX_TRIALS = 256, MAX_CONE = 96 };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    World world[WORLDS]; /* at b0, then at two other sizes */
    int64_t size[WORLDS];
    Edit *edit;
    size_t n_edit, cap_edit;
    uint8_t *choice, *choices; /* by node: which of how many axes a Reshape gives to the batch */
    int64_t *inner;      /* by value: what is in front of the batch within the axis that holds it, [5, N] as [5N]; 0:
                            nothing;  -1: it lies in pieces */
    int64_t *front;      /* by node: that of the rows which it takes; 0: it takes none */
    bool decide;         /* Reshapes are decided */
    bool at_b0;          /* what failed does so at b0 too, or depends on data: nothing can be said */
    bool soft;           /* what failed is a shape that does not grow evenly */
    bool lost;           /* what failed takes rows that no other constant makes of all samples */
    bool kept;           /* what failed has as many rows at any size as the batch had */
    const char *why;     /* the message of what failed */
    const Node *decided; /* the first Decided node that is another at another size; NULL: none */
    int trials;
} Rebatch;

/* ---- worlds ---- */

static void close_worlds(Rebatch *r)
{
    for (int i = 0; i < WORLDS; i++) {
        graph_free(r->world[i].g);
        r->world[i].g = NULL;
    }
}

static Status open_worlds(Rebatch *r)
{
    close_worlds(r);
    for (int i = 0; i < WORLDS; i++) {
        TRY(open_world(&r->world[i], r->g, r->ctx->opt, r->size[i]));
        for (size_t k = 0; k < r->n_edit; k++)
            if (!edits_reader(&r->edit[k]))
                TRY(edit_world(&r->world[i], &r->edit[k], r->size[0]));
    }
    return ST_OK;
}

/* ---- edits ---- */

static Status add_edit(Rebatch *r, const Edit *e)
{
    Edit *grown = arena_grow(r->ctx->scratch, r->edit, sizeof *grown, r->n_edit, &r->cap_edit);

    if (!grown)
        return FAIL_NOMEM();
    r->edit = grown;
    r->edit[r->n_edit++] = *e;
    return ST_OK;
}

/* ---- Reshape ---- */

static const Shape *shape_at(const Rebatch *r, int world, ValueId v) { return value(r->world[world].g, v)->shape; }

/* a / b = m / n, where a product may overflow. */
static bool in_proportion(int64_t a, int64_t b, int64_t m, int64_t n)
{
    int64_t an, bm;

    return !__builtin_mul_overflow(a, n, &an) && !__builtin_mul_overflow(b, m, &bm) && an == bm;
}

/* The one axis along which the value grows with the batch, and by nothing else; -1. */
static int batch_axis(const Rebatch *r, ValueId v)
{
    const Shape *at[WORLDS];
    int axis = -1;

    for (int i = 0; i < WORLDS; i++)
        if (!shape_known(at[i] = shape_at(r, i, v)) || at[i]->rank != at[0]->rank)
            return -1;
    for (int a = 0; a < at[0]->rank; a++) {
        if (at[0]->dim[a] == at[1]->dim[a] && at[0]->dim[a] == at[2]->dim[a])
            continue;
        if (axis >= 0 || !in_proportion(at[0]->dim[a], at[1]->dim[a], r->size[0], r->size[1]) ||
            !in_proportion(at[0]->dim[a], at[2]->dim[a], r->size[0], r->size[2]))
            return -1;
        axis = a;
    }
    return axis;
}

/* The elements in front of the batch, of one sample behind it. */
static int64_t in_front(const Rebatch *r, ValueId v, int axis)
{
    return shape_count(shape_at(r, 0, v), 0, axis) * (r->inner[v.i] > 0 ? r->inner[v.i] : 1);
}

/* May the batch, which has `before` elements in front of it, be the outermost part of an axis of this size with `here`
 * in front of it, or (`inside`) another part of it? */
static bool takes_batch(const Rebatch *r, int64_t before, int64_t here, int64_t dim, bool inside)
{
    if (!inside)
        return here == before && dim && dim % r->size[0] == 0;
    return here && here < before && before % here == 0 && dim && here * dim % (before * r->size[0]) == 0;
}

/* The axis of y that the batch goes to: the `choice`-th of those that may take it, the plain ones first. */
static int choose_axis(Rebatch *r, uint32_t node, int64_t before, const Shape *y)
{
    int found = -1, count = 0;

    for (int inside = 0; inside < 2; inside++)
        for (int j = 0; j < y->rank; j++)
            if (takes_batch(r, before, shape_count(y, 0, j), y->dim[j], inside) && count++ == r->choice[node])
                found = j;
    r->choices[node] = (uint8_t)count;
    return found;
}

static bool grows_as_wanted(Rebatch *r, int world, uint32_t node, const Shape *y, int axis)
{
    Graph *g = r->world[world].g;
    Shape want = *y;

    want.dim[axis] = want.dim[axis] / r->size[0] * r->size[world];
    return !node_infer(g, g->node[node]) && shape_eq(shape_at(r, world, g->node[node]->out[0]), &want);
}

static Status decide_reshape(Rebatch *r, uint32_t node)
{
    Graph *g = r->world[0].g;
    Node *n = g->node[node];
    const Tensor *target = fixed_ints(r->world, node, 1);
    int from = target ? batch_axis(r, n->in[0]) : -1, to;
    const Shape *y;
    Edit e = { .kind = EDIT_ELEMENT, .node = node, .in = 1 };

    if (from < 0 || node_infer(g, n))
        return ST_OK;
    y = shape_at(r, 0, n->out[0]);
    to = choose_axis(r, node, in_front(r, n->in[0], from), y);
    if (to < 0 || tensor_int(target, to) == -1 ||
        (grows_as_wanted(r, 1, node, y, to) && grows_as_wanted(r, 2, node, y, to)))
        return ST_OK;
    e.at = to;
    e.size = y->dim[to];
    TRY(add_edit(r, &e));
    for (int i = 0; i < WORLDS; i++)
        TRY(edit_world(&r->world[i], &e, r->size[0]));
    return ST_OK;
}

/* Of parts [front, batch, step], one behind another, where they have one step. */
static int64_t inner_of_concat(const Rebatch *r, const Node *n, int to)
{
    int64_t sum = 0, step = 0;

    for (int k = 0; k < n->n_in; k++) {
        int64_t inner = r->inner[n->in[k].i], front = inner ? inner : 1;
        int64_t whole = front > 0 && batch_axis(r, n->in[k]) == to ? front * r->size[0] : 0;
        int64_t here = whole ? shape_at(r, 0, n->in[k])->dim[to] / whole : 0;

        if (!here || (step && here != step))
            return -1;
        step = here;
        sum += front;
    }
    return sum;
}

/* Where the batch is within its axis: a Reshape keeps what is in front of it, others the axis. */
static void follow_inner(Rebatch *r, const Node *n, ValueId out)
{
    int to = batch_axis(r, out);
    int64_t taken = r->front[n->index];

    r->inner[out.i] = 0;
    if (to >= 0 && op_joins(n->op) && batch_axis(r, n->in[0]) == to) {
        r->inner[out.i] = shape_at(r, 0, n->in[0])->dim[to] == shape_at(r, 0, out)->dim[to] ? r->inner[n->in[0].i]
                                                                                            : inner_of_concat(r, n, to);
        return;
    }
    if (taken) {
        r->inner[out.i] = taken == 1 ? 0 : taken;
        return;
    }
    for (int k = 0; k < n->n_in && to >= 0 && !r->inner[out.i]; k++) {
        int from = has_value(n->in[k]) ? batch_axis(r, n->in[k]) : -1;
        int64_t before = from >= 0 ? in_front(r, n->in[k], from) : 0, here = shape_count(shape_at(r, 0, out), 0, to);

        if (op_reshapes(n->op))
            r->inner[out.i] = here && before > here && before % here == 0 ? before / here : 0;
        else if (from >= 0 && shape_at(r, 0, n->in[k])->dim[from] == shape_at(r, 0, out)->dim[to])
            r->inner[out.i] = r->inner[n->in[k].i];
    }
}

/* ---- rows ---- */

/* `text` NULL: there was no memory for it. */
static Status keep_why(Rebatch *r, const char *text)
{
    if (!text || !(r->why = arena_strdup(r->ctx->scratch, text)))
        return FAIL_NOMEM();
    return ST_OK;
}

static Status select_at(const Rebatch *r, uint32_t node, Selection *s)
{
    ValueId data = r->world[0].g->node[node]->n_in ? r->world[0].g->node[node]->in[0] : NO_VALUE;
    int axis = has_value(data) ? batch_axis(r, data) : -1;

    *s = (Selection){ .kind = SELECT_OTHER };
    return axis < 0 ? ST_OK : select_rows(s, r->world, node, axis, r->inner[data.i] ? r->inner[data.i] : 1);
}

/* What takes rows of b0 samples is made to take them of all, where it stands. */
static Status decide_rows(Rebatch *r, uint32_t node, bool *good)
{
    Selection s;

    TRY(select_at(r, node, &s));
    r->front[node] = s.front;
    for (int k = 0; k < s.n_edit; k++) {
        TRY(add_edit(r, &s.edit[k]));
        for (int i = 0; i < WORLDS; i++)
            TRY(edit_world(&r->world[i], &s.edit[k], r->size[0]));
    }
    if (s.kind != SELECT_LOSES)
        return ST_OK;
    *good = r->soft = false;
    r->lost = true;
    return keep_why(r, arena_printf(r->ctx->scratch,
                                    "%s: takes rows of the batch that are not as many of each sample "
                                    "at another size",
                                    node_text(r->g, r->g->node[node])));
}

/* ---- the walk ---- */

static bool evenly(const Rebatch *r, ValueId v)
{
    const Shape *at[WORLDS];

    for (int i = 0; i < WORLDS; i++)
        if ((at[i] = shape_at(r, i, v))->rank != at[0]->rank || !shape_known(at[i]))
            return false;
    for (int a = 0; a < at[0]->rank; a++)
        if (!in_proportion(at[1]->dim[a] - at[0]->dim[a], at[2]->dim[a] - at[0]->dim[a], r->size[1] - r->size[0],
                           r->size[2] - r->size[0]))
            return false;
    return true;
}

static Status check_outputs(Rebatch *r, const Node *n, bool *good)
{
    const char *what = "does not grow with the batch";

    for (int i = 0; i < n->n_out && *good; i++) {
        if (!has_value(n->out[i]))
            continue;
        if (!shape_known(shape_at(r, 0, n->out[i])))
            r->at_b0 = true;
        else if (evenly(r, n->out[i])) {
            follow_inner(r, n, n->out[i]);
            if (i || !r->decide || !n->n_in || !has_value(n->in[0]) || batch_axis(r, n->out[0]) >= 0 ||
                !keeps_b0_rows(r->world, r->world[0].g->node[n->index], batch_axis(r, n->in[0])))
                continue;
            what = "stays as long as the batch was";
            r->kept = true;
        }
        *good = false;
        r->soft = *what == 'd';
        TRY(keep_why(r, arena_printf(r->ctx->scratch, "%s: output %d %s", node_text(r->g, n), i, what)));
    }
    return ST_OK;
}

/* What failed in a trial is no failure of ours, unless there is no memory. */
static Status disagree(Rebatch *r, int world, Status st, bool *good)
{
    if (st == E_NOMEM)
        return st;
    *good = r->soft = false;
    r->at_b0 |= world == 0;
    r->world[world].g->status = ST_OK;
    return keep_why(r, status_message());
}

/* One node at all sizes; *good: it agrees. */
static Status visit(Rebatch *r, uint32_t node, bool *good)
{
    bool edited = false;

    *good = true;
    for (size_t k = 0; k < r->n_edit; k++)
        if (edits_reader(&r->edit[k]) && r->edit[k].node == node) {
            for (int i = 0; i < WORLDS && *good; i++) {
                Status st = edit_world(&r->world[i], &r->edit[k], r->size[0]);

                if (st)
                    TRY(disagree(r, i, st, good));
            }
            edited = true;
        }
    if (!*good)
        return ST_OK;
    if (r->decide && !edited && op_reshapes(r->g->node[node]->op))
        TRY(decide_reshape(r, node));
    if (r->decide)
        TRY(decide_rows(r, node, good));
    if (!*good)
        return ST_OK;
    for (int i = 0; i < WORLDS; i++) {
        Graph *g = r->world[i].g;
        Status st = infer_and_fold(g, r->ctx, g->node[node]);

        if (st)
            return disagree(r, i, st, good);
        if (!r->decided && g->node[node]->op && g->node[node]->op->holds && g->node[node]->op->holds(g, g->node[node]))
            r->decided = r->g->node[node];
    }
    return check_outputs(r, r->g->node[node], good);
}

/* Visits the nodes up to `last`; *failed: the first that does not agree, or n_node. */
static Status walk(Rebatch *r, uint32_t last, uint32_t *failed)
{
    r->at_b0 = r->lost = r->kept = false;
    r->decided = NULL;
    TRY(open_worlds(r));
    for (*failed = 0; *failed <= last && *failed < r->g->n_node; (*failed)++) {
        bool good = true;

        if (r->g->node[*failed]->op)
            TRY(visit(r, *failed, &good));
        if (!good)
            return ST_OK;
    }
    *failed = r->g->n_node;
    return ST_OK;
}

/* ---- the search ---- */

/* Nodes in front of `node`, itself first, the nearest first. */
static int list_cone(const Rebatch *r, uint32_t *cone, uint32_t node)
{
    int n = 0;

    cone[n++] = node;
    for (int i = 0; i < n; i++) {
        const Node *at = r->g->node[cone[i]];

        for (int k = 0; k < at->n_in && n < MAX_CONE; k++) {
            const Node *p = has_value(at->in[k]) ? in_value(r->g, at, k)->producer : NULL;
            bool known = !p;

            for (int q = 0; q < n && !known; q++)
                known = cone[q] == p->index;
            if (!known)
                cone[n++] = p->index;
        }
    }
    return n;
}

static Status try_edit(Rebatch *r, const Edit *e, uint32_t node, bool *helps)
{
    size_t before = r->n_edit;
    const char *why = r->why;
    uint32_t failed;

    *helps = false;
    if (r->trials++ >= MAX_TRIALS)
        return ST_OK;
    TRY(add_edit(r, e));
    TRY(walk(r, node, &failed));
    *helps = failed == r->g->n_node && !r->at_b0;
    if (*helps)
        return ST_OK;
    r->n_edit = before;
    r->why = why;
    r->at_b0 = false;
    return ST_OK;
}

/* Numbers of an integer input that are b0 (`multiples`: b0 several times). */
static Status try_elements(Rebatch *r, uint32_t at, int in, bool multiples, uint32_t node, bool *helps)
{
    const Tensor *t = fixed_ints(r->world, at, in);
    int64_t list[MAX_RANK];
    int n = t ? (int)tensor_numel(t) : 0;

    for (int i = 0; i < n; i++)
        list[i] = tensor_int(t, i);
    for (int i = 0; i < n && !*helps; i++) {
        Edit e = { .kind = EDIT_ELEMENT, .node = at, .in = in, .at = i, .size = list[i] };

        if (multiples ? list[i] > r->size[0] && list[i] % r->size[0] == 0 && r->size[0] > 1 : list[i] == r->size[0])
            TRY(try_edit(r, &e, node, helps));
    }
    return ST_OK;
}

/* A constant with b0 rows.  One row of integers may as well be the first of a count: that is not guessed. */
static Status try_constant(Rebatch *r, ValueId v, uint32_t node, bool *helps)
{
    const Tensor *t = has_value(v) && value(r->g, v)->kind == V_CONST ? value(r->g, v)->init : NULL;
    int64_t step;

    if (!t || !t->data || (dtype_is_int(t->dtype) && r->size[0] == 1))
        return ST_OK;
    for (size_t k = 0; k < r->n_edit; k++)
        if (!edits_reader(&r->edit[k]) && value_eq(r->edit[k].value, v))
            return ST_OK;
    for (int a = 0; a < t->shape.rank && !*helps; a++)
        if (t->shape.dim[a] == r->size[0] && rows_equal(t, a))
            TRY(try_edit(r, &(Edit){ .kind = EDIT_ROWS, .value = v, .at = a }, node, helps));
    for (int a = 0; a < t->shape.rank && !*helps; a++)
        if (t->shape.dim[a] == r->size[0] && tensor_numel(t) == r->size[0] && counts_on(t, &step))
            TRY(try_edit(r, &(Edit){ .kind = EDIT_RANGE, .value = v, .at = a, .size = step }, node, helps));
    return ST_OK;
}

static Status search_cone(Rebatch *r, uint32_t node, const uint32_t *cone, int n, bool *helps)
{
    for (int multiples = 0; multiples < 2 && !*helps; multiples++)
        for (int i = 0; i < n && !*helps; i++)
            for (int k = 0; k < r->g->node[cone[i]]->n_in && !*helps; k++) {
                if (!multiples)
                    TRY(try_constant(r, r->g->node[cone[i]]->in[k], node, helps));
                if (!*helps) {
                    uint32_t failed;

                    TRY(walk(r, node,
                             &failed)); /* what the inputs are is asked of the worlds as they are without trials */
                    TRY(try_elements(r, cone[i], k, multiples, node, helps));
                }
            }
    return ST_OK;
}

/* Another axis for the nearest Reshape in front that has one left; all that was decided behind it is forgotten. */
static bool choose_again(Rebatch *r, const uint32_t *cone, int n)
{
    for (int i = 1; i < n; i++) {
        size_t kept = 0;

        if (r->choice[cone[i]] + 1 >= r->choices[cone[i]])
            continue;
        r->choice[cone[i]]++;
        for (size_t k = 0; k < r->n_edit; k++)
            if (!edits_reader(&r->edit[k]) || r->edit[k].node < cone[i])
                r->edit[kept++] = r->edit[k];
        r->n_edit = kept;
        for (uint32_t k = cone[i] + 1; k < r->g->n_node; k++)
            r->choice[k] = 0;
        return true;
    }
    return false;
}

/* *failed: the node that stays in disagreement, n_node when none does. */
static Status search(Rebatch *r, uint32_t *failed)
{
    uint32_t *cone = ARENA_NEW(r->ctx->scratch, uint32_t, MAX_CONE);
    const char *why;

    if (!cone)
        return FAIL_NOMEM();
    for (;;) {
        bool helps = false;
        int n;

        TRY(walk(r, r->g->n_node, failed));
        if (*failed == r->g->n_node || r->at_b0)
            return ST_OK;
        why = r->why;
        n = list_cone(r, cone, *failed);
        if (!r->lost)
            TRY(search_cone(r, *failed, cone, n, &helps));
        r->why = why;
        if (!helps && (r->trials++ >= MAX_TRIALS || !choose_again(r, cone, n)))
            return ST_OK;
    }
}

/* ---- sizes ---- */

/* Names what takes the same rows of a batch of any size: the network may be so, or its exporter may have fixed what
 * was a part of the batch. */
static Status note_own_rows(const Rebatch *r)
{
    for (uint32_t i = 0; i < r->g->n_node; i++) {
        const Node *n = r->g->node[i];
        Selection s;

        if (!n->op)
            continue;
        TRY(select_at(r, i, &s));
        if (s.kind == SELECT_OWN)
            TRY(report_note(r->ctx->report, NOTE_MIXES, n->name,
                            "%s takes %lld row%s of the batch, from row %lld, whatever the batch's size", n->op->name,
                            (long long)s.n_row, s.n_row == 1 ? "" : "s", (long long)s.first_row));
    }
    return ST_OK;
}

/* Two sizes beside b0: a smaller one, which shows what is cut off at b0, where that does not make the batch 1; primes
 * that are hardly a size of something else. */
static void choose_sizes(Rebatch *r, int64_t b0)
{
    r->size[0] = b0;
    r->size[1] = b0 > 2 ? b0 - 1 : 13;
    r->size[2] = b0 == 29 ? 31 : b0 + 29;
}

/* The batch is open in the file: do its constants agree at any size?  If not, b0 is a size at which they do; 0:
 * none. */
static Status find_b0(Rebatch *r, int64_t *b0)
{
    static const int64_t usual[] = { 1, 2, 3, 4, 5, 6, 8, 10, 16, 32, 64, 128 };
    uint32_t failed;

    *b0 = 0;
    choose_sizes(r, 11);
    r->decide = false;
    TRY(walk(r, r->g->n_node, &failed));
    if (failed == r->g->n_node)
        return note_own_rows(r);
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !*b0; i++) {
        for (int k = 0; k < WORLDS; k++)
            r->size[k] = usual[i];
        TRY(walk(r, r->g->n_node, &failed));
        if (failed == r->g->n_node)
            *b0 = usual[i];
    }
    return ST_OK;
}

/* ---- the result ---- */

static bool other_dims_open(const Rebatch *r)
{
    const Graph *g = r->world[0].g;

    for (int i = 0; i < r->g->n_input; i++)
        for (int a = 0; a < value(r->g, r->g->input[i])->shape->rank; a++)
            if (value(r->g, r->g->input[i])->shape->dim[a] < 0 && batch_axis(r, g->input[i]) != a)
                return true;
    return false;
}

static ValueId first_batch_input(const Rebatch *r, int *axis)
{
    for (int i = 0; i < r->g->n_input; i++)
        if ((*axis = batch_axis(r, r->g->input[i])) >= 0)
            return r->g->input[i];
    return NO_VALUE;
}

/* Of one sample it cannot be told whether it or the first of any number was meant. */
static Status note_guess(const Rebatch *r, const Edit *e)
{
    const Node *n = r->g->node[e->node];

    if (r->size[0] > 1 || !(n->op->flags & OPF_SELECTS))
        return ST_OK;
    return report_note(r->ctx->report, NOTE_GUESS, n->name,
                       "%s takes rows of the one sample that the model was exported for (input %d): of larger batches "
                       "it takes each sample's, not the first one's alone",
                       n->op->name, e->in);
}

static Status note_edit(const Rebatch *r, const Edit *e)
{
    char text[SHAPE_TEXT], *also = "";
    const Value *v;

    if (edits_reader(e))
        return note_guess(r, e);
    if (e->kind != EDIT_ROWS)
        return ST_OK;
    v = value(r->g, e->value);
    for (int a = 0; a < v->init->shape.rank; a++)
        if (rows_equal_too(v->init, e->at, a) &&
            !(also = arena_printf(r->ctx->scratch, "%s, alike along axis %d", also, a)))
            return FAIL_NOMEM();
    return report_note(r->ctx->report, NOTE_OTHER, v->name,
                       "constant %s holds one row for each of %lld samples%s: it is one, expanded",
                       shape_text(&v->init->shape, text), (long long)r->size[0], also);
}

static Status apply(Rebatch *r)
{
    bool open = other_dims_open(r);
    int axis, n_constant = 0;
    ValueId input = first_batch_input(r, &axis);

    if (!has_value(input))
        return ST_OK;
    for (size_t k = 0; k < r->n_edit; k++) {
        TRY(note_edit(r, &r->edit[k]));
        TRY(edit_model(r->g, &r->edit[k], r->size[0], r->world, open, input, axis));
        n_constant += r->edit[k].kind != EDIT_ROWS;
        r->ctx->n_changed++;
    }
    if (n_constant)
        TRY(report_note(r->ctx->report, NOTE_OTHER, r->g->name,
                        "%d constant%s written for batches of %lld follow%s the batch's size now", n_constant,
                        n_constant > 1 ? "s" : "", (long long)r->size[0], n_constant > 1 ? "" : "s"));
    return graph_sort(r->g);
}

/* A constant in front of the node that may carry the batch, for the message. */
static const char *suspect(const Rebatch *r, uint32_t node)
{
    uint32_t cone[MAX_CONE];
    int n = list_cone(r, cone, node);

    for (int i = 0; i < n; i++)
        for (int k = 0; k < r->g->node[cone[i]]->n_in; k++) {
            const Node *at = r->g->node[cone[i]];
            const Value *v = has_value(at->in[k]) ? in_value(r->g, at, k) : NULL;

            if (!v || v->kind != V_CONST)
                continue;
            for (int a = 0; a < v->init->shape.rank && r->size[0] > 1; a++)
                if (v->init->shape.dim[a] == r->size[0])
                    return v->name;
            for (int64_t e = 0; dtype_is_int(v->dtype) && e < tensor_numel(v->init) && e < MAX_RANK; e++)
                if (tensor_int(v->init, e) == r->size[0])
                    return v->name;
        }
    return NULL;
}

static int64_t wanted_size(const Rebatch *r)
{
    const BuildOptions *opt = r->ctx->opt;

    for (int i = 0; i < opt->n_input_shape; i++) {
        ValueId v = graph_find(r->g, opt->input_shape[i].name);
        int axis = has_value(v) && value(r->g, v)->kind == V_INPUT ? batch_axis(r, v) : -1;

        if (axis >= 0 && axis < opt->input_shape[i].shape.rank)
            return opt->input_shape[i].shape.dim[axis];
    }
    return opt->batch;
}

/* A decision at one size is named rather than what follows from it. */
static Status refuse(Rebatch *r, uint32_t node)
{
    const char *name = r->decided ? NULL : suspect(r, node), *by = "";
    int64_t want = wanted_size(r);

    if (r->decided &&
        !(r->why = arena_printf(r->ctx->scratch, "%s is %lld at that size alone", node_string(r->decided, "what"),
                                (long long)node_int(r->decided, "value"))))
        return FAIL_NOMEM();
    if (name && !(by = arena_printf(r->ctx->scratch, " (constant '%s' is written for it)", name)))
        return FAIL_NOMEM();
    if (want && want != r->size[0])
        return FAIL(E_UNSUPPORTED, "the model was exported for batches of %lld and cannot be taken to %lld: %s%s",
                    (long long)r->size[0], (long long)want, r->why, by);
    if (r->lost || r->kept) { /* inference would not object */
        r->g->only_batch = r->size[0];
        if (!(r->g->only_why = arena_printf(r->g->arena, "%s%s", r->why, by)))
            return FAIL_NOMEM();
    }
    return report_note(r->ctx->report, NOTE_OTHER, r->g->name, "computes batches of %lld alone: %s%s",
                       (long long)r->size[0], r->why, by);
}

/* Whether the wanted size is one of those, infer-shapes will see. */
static Status note_decided(const Rebatch *r)
{
    if (!r->decided)
        return ST_OK;
    return report_note(r->ctx->report, NOTE_OTHER, r->g->name,
                       "%s is %lld in batches of %lld: computes those alone for which it is the same",
                       node_string(r->decided, "what"), (long long)node_int(r->decided, "value"),
                       (long long)r->size[0]);
}

/* Numbers drawn in a shape that the file fixes: of one row it cannot be told whether each sample was to have its own.
 */
static Status note_drawn(const Rebatch *r)
{
    FOR_NODES(r->g, n) {
        int rank = 0;
        const int64_t *dim = n->op->flags & OPF_RANDOM && !n->n_in ? node_ints(n, "shape", &rank) : NULL;

        if (rank > 1 && dim[0] == 1 && r->size[0] == 1)
            TRY(report_note(r->ctx->report, NOTE_GUESS, n->name,
                            "%s draws one row, as the batch that the model was exported for has: all samples of larger "
                            "batches share it",
                            n->op->name));
    }
    return ST_OK;
}

/* Is the first axis the batch only for want of a better one?  Not where a shape given has another size there. */
static bool in_doubt(const Rebatch *r)
{
    const BuildOptions *opt = r->ctx->opt;
    bool doubt = false;

    for (int i = 0; i < r->g->n_input; i++) {
        const Value *v = value(r->g, r->g->input[i]);

        doubt |= rival_batch_axis(r->g, opt, v) >= 0;
        for (int k = 0; k < opt->n_input_shape; k++)
            if (!strcmp(opt->input_shape[k].name, v->name) && v->shape->rank > 0 &&
                opt->input_shape[k].shape.rank > 0 && opt->input_shape[k].shape.dim[0] != v->shape->dim[0])
                return false;
    }
    return doubt;
}

static Status rebatch(Rebatch *r)
{
    int64_t b0 = declared_batch(r->g, r->ctx->opt);
    uint32_t failed;

    if (in_doubt(r))
        return ST_OK;
    if (b0 < 0)
        TRY(find_b0(r, &b0));
    if (b0 <= 0)
        return ST_OK;
    choose_sizes(r, b0);
    r->decide = true;
    TRY(search(r, &failed));
    if (failed == r->g->n_node) {
        TRY(note_decided(r));
        TRY(note_own_rows(r));
        TRY(note_drawn(r));
        return apply(r);
    }
    return r->at_b0 || r->soft ? ST_OK : refuse(r, failed);
}

static Status run(Graph *g, PassCtx *ctx)
{
    Rebatch r = { .g = g,
                  .ctx = ctx,
                  .choice = ARENA_NEW(ctx->scratch, uint8_t, g->n_node),
                  .choices = ARENA_NEW(ctx->scratch, uint8_t, g->n_node),
                  .inner = ARENA_NEW(ctx->scratch, int64_t, g->n_value),
                  .front = ARENA_NEW(ctx->scratch, int64_t, g->n_node) };
    Status st = r.choice && r.choices && r.inner && r.front ? graph_sort(g) : FAIL_NOMEM();

    if (!st && !(st = check_batch_inputs(g, ctx->opt))) /* the wrong axis has no batch to speak of */
        st = rebatch(&r);
    close_worlds(&r);
    return st;
}

const Pass pass_rebatch = { .name = "rebatch",
                            .summary = "constants that hold the batch's size follow it",
                            .run = run };
