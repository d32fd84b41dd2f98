/* Nodes whose edit follows from the node alone: Reshapes, nodes that are given sizes (Resize), nodes that take rows. */
#include "passes/model/rebatch_decide.h"

#include "passes/pass.h"

enum { TRIALS = REBATCH_TRIALS };

Status rebatch_add(Rebatch *r, const Edit *e)
{
    Edit *grown = arena_grow(r->ctx->scratch, r->edit, sizeof *grown, r->n_edit, &r->cap_edit);

    if (!grown)
        return FAIL_NOMEM();
    r->edit = grown;
    r->edit[r->n_edit++] = *e;
    return ST_OK;
}

/* ---- Reshape ---- */

const Shape *rebatch_shape(const Rebatch *r, int trial, ValueId v) { return value(r->trial[trial].g, v)->shape; }

/* Is a / b = m / n?  False where a product overflows. */
static bool in_proportion(int64_t a, int64_t b, int64_t m, int64_t n)
{
    int64_t an, bm;

    return !__builtin_mul_overflow(a, n, &an) && !__builtin_mul_overflow(b, m, &bm) && an == bm;
}

int rebatch_axis(const Rebatch *r, ValueId v)
{
    const Shape *at[TRIALS];
    int axis = -1;

    for (int i = 0; i < TRIALS; i++)
        if (!shape_known(at[i] = rebatch_shape(r, i, v)) || at[i]->rank != at[0]->rank)
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

/* Elements in front of the batch, which lies along `axis`. */
static int64_t in_front(const Rebatch *r, ValueId v, int axis)
{
    return shape_count(rebatch_shape(r, 0, v), 0, axis) * (r->batch_front[v.i] > 0 ? r->batch_front[v.i] : 1);
}

/* The axis of y that the batch goes to, of those that may take it the one that r->choice numbers; -1: none.  `before`
 * elements are in front of the batch.  Axes with as many elements in front come first: the batch is their outermost
 * part.  Axes with fewer come next: they hold further elements in front of the batch. */
static int choose_axis(Rebatch *r, uint32_t node, int64_t before, const Shape *y)
{
    int found = -1, count = 0;

    for (int inside = 0; inside < 2; inside++)
        for (int j = 0; j < y->rank; j++) {
            const int64_t here = shape_count(y, 0, j), dim = y->dim[j];
            const bool fits =
                !inside ? here == before && dim && dim % r->size[0] == 0
                        : here && here < before && before % here == 0 && dim && here * dim % (before * r->size[0]) == 0;

            if (fits && count++ == r->choice[node])
                found = j;
        }
    r->n_choice[node] = (uint8_t)count;
    return found;
}

/* In this trial model, does `axis` of the output, [...] = y at b0, grow with the batch? */
static bool grows_as_wanted(Rebatch *r, int trial, uint32_t node, const Shape *y, int axis)
{
    Graph *g = r->trial[trial].g;
    Shape want = *y;

    want.dim[axis] = want.dim[axis] / r->size[0] * r->size[trial];
    return !node_infer(g, g->node[node]) && shape_eq(rebatch_shape(r, trial, g->node[node]->out[0]), &want);
}

/* Lets the axis of the result that takes the batch grow with it, by an edit if the Reshape does not do so already. */
static Status decide_reshape(Rebatch *r, uint32_t node)
{
    Graph *g = r->trial[0].g;
    Node *n = g->node[node];
    const Tensor *target = fixed_ints(r->trial, node, 1);
    int from = target ? rebatch_axis(r, n->in[0]) : -1, to;
    const Shape *y;
    Edit e = { .kind = EDIT_ELEMENT, .node = node, .in = 1 };

    if (from < 0 || node_infer(g, n))
        return ST_OK;
    y = rebatch_shape(r, 0, n->out[0]);
    to = choose_axis(r, node, in_front(r, n->in[0], from), y);
    if (to < 0 || tensor_int(target, to) == -1 ||
        (grows_as_wanted(r, 1, node, y, to) && grows_as_wanted(r, 2, node, y, to)))
        return ST_OK;
    e.at = to;
    e.size = y->dim[to];
    TRY(rebatch_add(r, &e));
    for (int i = 0; i < TRIALS; i++)
        TRY(trial_edit(&r->trial[i], &e, r->size[0]));
    return ST_OK;
}

/* batch_front of inputs [front, batch, step] joined along axis `to`: the sum, if all have one step; else -1. */
static int64_t joined_front(const Rebatch *r, const Node *n, int to)
{
    int64_t sum = 0, step = 0;

    for (int k = 0; k < n->n_in; k++) {
        int64_t within = r->batch_front[n->in[k].i], front = within ? within : 1;
        int64_t whole = front > 0 && rebatch_axis(r, n->in[k]) == to ? front * r->size[0] : 0;
        int64_t here = whole ? rebatch_shape(r, 0, n->in[k])->dim[to] / whole : 0;

        if (!here || (step && here != step))
            return -1;
        step = here;
        sum += front;
    }
    return sum;
}

void rebatch_follow(Rebatch *r, const Node *n, ValueId out)
{
    int to = rebatch_axis(r, out);
    int64_t taken = r->rows_front[n->index];

    r->batch_front[out.i] = 0;
    if (to >= 0 && op_joins(n->op) && rebatch_axis(r, n->in[0]) == to) {
        r->batch_front[out.i] = rebatch_shape(r, 0, n->in[0])->dim[to] == rebatch_shape(r, 0, out)->dim[to]
                                    ? r->batch_front[n->in[0].i]
                                    : joined_front(r, n, to);
        return;
    }
    if (taken) {
        r->batch_front[out.i] = taken == 1 ? 0 : taken;
        return;
    }
    for (int k = 0; k < n->n_in && to >= 0 && !r->batch_front[out.i]; k++) {
        int from = has_value(n->in[k]) ? rebatch_axis(r, n->in[k]) : -1;
        int64_t before = from >= 0 ? in_front(r, n->in[k], from) : 0,
                here = shape_count(rebatch_shape(r, 0, out), 0, to);

        if (op_reshapes(n->op))
            r->batch_front[out.i] = here && before > here && before % here == 0 ? before / here : 0;
        else if (from >= 0 && rebatch_shape(r, 0, n->in[k])->dim[from] == rebatch_shape(r, 0, out)->dim[to])
            r->batch_front[out.i] = r->batch_front[n->in[k].i];
    }
}

bool rebatch_evenly(const Rebatch *r, ValueId v)
{
    const Shape *at[TRIALS];

    for (int i = 0; i < TRIALS; i++)
        if ((at[i] = rebatch_shape(r, i, v))->rank != at[0]->rank || !shape_known(at[i]))
            return false;
    for (int a = 0; a < at[0]->rank; a++)
        if (!in_proportion(at[1]->dim[a] - at[0]->dim[a], at[2]->dim[a] - at[0]->dim[a], r->size[1] - r->size[0],
                           r->size[2] - r->size[0]))
            return false;
    return true;
}

/* ---- sizes ---- */

/* Infers the node at all sizes.  False: it fails at one. */
static bool rebatch_decide_infer_all(const Rebatch *r, uint32_t node)
{
    bool ok = true;

    for (int i = 0; i < TRIALS && ok; i++) {
        Graph *g = r->trial[i].g;

        ok = !node_infer(g, g->node[node]);
        g->status = ST_OK;
    }
    return ok;
}

/* Keeps the edit if the output then has the batch where input 0 has it, with as many rows at b0, and sets *good; else
 * undoes the edit. */
static Status try_size(Rebatch *r, const Edit *e, bool *good)
{
    const ValueId x = r->g->node[e->node]->in[0], y = r->g->node[e->node]->out[0];
    const int axis = rebatch_axis(r, x);
    ValueId before[TRIALS];

    for (int i = 0; i < TRIALS; i++) {
        before[i] = r->trial[i].g->node[e->node]->in[e->in];
        TRY(trial_edit(&r->trial[i], e, r->size[0]));
    }
    *good = rebatch_decide_infer_all(r, e->node) && rebatch_axis(r, y) == axis &&
            (!r->b0_known || rebatch_shape(r, 0, y)->dim[axis] == rebatch_shape(r, 0, x)->dim[axis]);
    if (*good)
        return rebatch_add(r, e);
    for (int i = 0; i < TRIALS; i++)
        node_set_input(r->trial[i].g, r->trial[i].g->node[e->node], e->in, before[i]);
    return ST_OK;
}

/* Handles a node with the batch in input 0 and the same output sizes at any batch (Resize, CenterCropPad, MaxUnpool):
 * it is given an output size that is written for b0.  The edit is of the one number among its integer inputs that makes
 * the output follow.  Inference would accept a 1 that stays, since it broadcasts.  *done: there is such a number. */
static Status decide_sizes(Rebatch *r, uint32_t node, bool *done)
{
    const Node *n = r->g->node[node];

    *done = false;
    if (n->op->flags & (OPF_SELECTS | OPF_SHAPE_ONLY) || n->n_in < 2 || !has_in(n, 0) || !has_out(n, 0) ||
        rebatch_axis(r, n->in[0]) < 0 || !rebatch_decide_infer_all(r, node))
        return ST_OK;
    for (int i = 1; i < TRIALS; i++)
        if (!shape_known(rebatch_shape(r, i, n->out[0])) ||
            !shape_eq(rebatch_shape(r, i, n->out[0]), rebatch_shape(r, 0, n->out[0])))
            return ST_OK;
    for (int in = 1; in < n->n_in && !*done; in++) {
        const Tensor *t = fixed_ints(r->trial, node, in);

        for (int64_t i = 0; t && i < tensor_numel(t) && !*done; i++)
            if (tensor_int(t, i) > 0 && tensor_int(t, i) % r->size[0] == 0)
                TRY(try_size(
                    r, &(Edit){ .kind = EDIT_ELEMENT, .node = node, .in = in, .at = (int)i, .size = tensor_int(t, i) },
                    done));
    }
    return ST_OK;
}

/* ---- rows ---- */

Status rebatch_set_reason(Rebatch *r, const char *text)
{
    if (!text || !(r->reason = arena_strdup(r->ctx->scratch, text)))
        return FAIL_NOMEM();
    return ST_OK;
}

Status rebatch_select(const Rebatch *r, uint32_t node, Selection *s)
{
    ValueId data = r->trial[0].g->node[node]->n_in ? r->trial[0].g->node[node]->in[0] : NO_VALUE;
    int axis = has_value(data) ? rebatch_axis(r, data) : -1;

    *s = (Selection){ .kind = SELECT_OTHER };
    return axis < 0 ? ST_OK : select_rows(s, r->trial, node, axis, r->batch_front[data.i] ? r->batch_front[data.i] : 1);
}

/* Makes a node that takes rows of b0 samples take those of all samples.  *good becomes false where no edit does. */
static Status decide_rows(Rebatch *r, uint32_t node, bool *good)
{
    Selection s;

    TRY(rebatch_select(r, node, &s));
    if (s.n_edit && s.edit[0].kind == EDIT_LIST && r->open_dims && !in_const(r->g, r->g->node[node], 1)) {
        s.n_edit = 0;
        s.kind = SELECT_LOSES;
        s.reason = "takes rows of the batch that other open sizes have a part in";
    }
    r->rows_front[node] = s.front;
    for (int k = 0; k < s.n_edit; k++) {
        TRY(rebatch_add(r, &s.edit[k]));
        for (int i = 0; i < TRIALS; i++)
            TRY(trial_edit(&r->trial[i], &s.edit[k], r->size[0]));
    }
    if (s.kind != SELECT_LOSES)
        return ST_OK;
    *good = r->uneven = false;
    r->loses_rows = true;
    return rebatch_set_reason(r, arena_printf(r->ctx->scratch, "%s: %s", node_text(r->g, r->g->node[node]), s.reason));
}

Status rebatch_decide(Rebatch *r, uint32_t node, bool edited, bool *good)
{
    bool written = false;

    if (!edited && r->b0_known && op_reshapes(r->g->node[node]->op))
        TRY(decide_reshape(r, node));
    else if (!edited)
        TRY(decide_sizes(r, node, &written));
    if (r->b0_known)
        return decide_rows(r, node, good);
    if (!written)
        return ST_OK;
    r->n_edit--; /* b0 is not known yet: the batch is open */
    *good = r->uneven = false;
    r->keeps_size = true;
    return rebatch_set_reason(
        r, arena_printf(r->ctx->scratch, "%s: is given a size of the batch", node_text(r->g, r->g->node[node])));
}
