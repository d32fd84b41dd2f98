/* rebatch: a model that was exported at one batch size works at any.
 *
 * Exporters write the batch size b0 of their example into constants: targets of Reshape and Expand, ends of Slice, rows
 * of a constant that was expanded when it was written (a class token).  The pass infers the shapes of the whole model
 * at b0 and at two other sizes, node by node side by side.  Where another size fails, or where shapes do not grow with
 * the batch by a fixed amount a sample, a constant in front of that node is written for b0.  The pass tries the
 * candidates, the nearest first, until the node agrees at all three sizes: integers that are b0 or a multiple, and
 * constants that repeat a row b0 times.  The numbers themselves are no evidence (b0 may be 1, and 4 may be the number
 * of heads); only successful inference is.
 *
 * A Reshape is edited where it stands.  Elements keep their order, so the batch, with so many elements in front of it,
 * can only go to an axis with as many in front of it.  If several axes of size 1 qualify, the first takes it; an axis
 * that joins the batch with the elements in front of it may take it too.  If a node behind the Reshape then fails or
 * mixes samples, the next axis is tried.
 *
 * At b0 every changed constant has its old value, so the model computes the same bits.  A constant of equal rows
 * becomes one row, which is trained as one. */
#include <string.h>

#include "passes/batch_axis.h"
#include "passes/model/rebatch_decide.h"
#include "passes/options/batch.h"
#include "passes/report.h"
#include "passes/simplify/infer_shapes.h"

enum { TRIALS = REBATCH_TRIALS, MAX_ATTEMPTS = 256, MAX_CONE = 96 };

void rebatch_close(Rebatch *r)
{
    for (int i = 0; i < TRIALS; i++) {
        graph_free(r->trial[i].g);
        r->trial[i].g = NULL;
    }
}

/* ---- the walk ---- */

/* Has output 0 as many rows as the batch had in the file, whatever the batch is?  No node behind it need fail, for one
 * row broadcasts. */
static bool keeps_b0(const Rebatch *r, const Node *n)
{
    return r->b0_known && has_in(n, 0) && rebatch_axis(r, n->out[0]) < 0 &&
           keeps_b0_rows(r->trial, r->trial[0].g->node[n->index], rebatch_axis(r, n->in[0]));
}

int rebatch_n_growing(const Rebatch *r, ValueId v)
{
    const Shape *at[TRIALS];
    int n = 0;

    for (int i = 0; i < TRIALS; i++)
        if (!shape_known(at[i] = rebatch_shape(r, i, v)) || at[i]->rank != at[0]->rank)
            return 0;
    for (int a = 0; a < at[0]->rank; a++)
        n += at[0]->dim[a] != at[1]->dim[a] || at[0]->dim[a] != at[2]->dim[a];
    return n;
}

/* Is the node the first to combine samples, in pairs or all in one?  A network may do so, but mostly a Reshape in front
 * of it was given the wrong axis for the batch. */
static bool mixes_samples(const Rebatch *r, const Node *n)
{
    const int out = rebatch_n_growing(r, n->out[0]);
    int in = 0;

    if (!r->b0_known || r->may_mix[n->index] || n->op->flags & (OPF_SHAPE_ONLY | OPF_SELECTS) || out == 1 ||
        !dtype_is_float(value(r->trial[0].g, n->out[0])->dtype))
        return false;
    for (int k = 0; k < (n->op->same & SAME_TYPED ? 1 : n->n_in); k++) /* CastLike reads a type */
        if (has_in(n, k) && rebatch_n_growing(r, n->in[k]) > in)
            in = rebatch_n_growing(r, n->in[k]);
    return in == 1;
}

bool rebatch_has_attribute(const Node *n, const char *name)
{
    const AttrDecl *d = n->op->attrs;

    while (d && d->name && strcmp(d->name, name) != 0)
        d++;
    return d && d->name;
}

/* *good becomes false at a convolution whose weights are computed from the samples.  With b0 groups, or one group for
 * one sample, each sample has weights of its own; another batch size would need another number of groups. */
static Status rebatch_check_groups(Rebatch *r, const Node *n, bool *good)
{
    if (!n->op || !rebatch_has_attribute(n, "group") || !rebatch_has_attribute(n, "kernel_shape") || !has_in(n, 1) ||
        !rebatch_n_growing(r, n->in[1]) ||
        (node_int(n, "group") <= 1 && r->size[0] != 1 && !rebatch_n_growing(r, n->in[0])))
        return ST_OK;
    *good = r->uneven = false;
    r->loses_rows = r->by_sample = true;
    return rebatch_set_reason(
        r, arena_printf(r->ctx->scratch,
                        "%s: its weights are computed from the samples and its group is %lld, a group for "
                        "each sample, which a file holds for one batch size",
                        node_text(r->g, n), (long long)node_int(n, "group")));
}

/* *good becomes false where an output does not grow evenly with the batch, keeps the file's batch size, or mixes
 * samples. */
static Status rebatch_check_outputs(Rebatch *r, const Node *n, bool *good)
{
    for (int i = 0; i < n->n_out && *good; i++) {
        bool even = false;

        if (!has_value(n->out[i]))
            continue;
        if (!shape_known(rebatch_shape(r, 0, n->out[i])))
            r->undecidable = true;
        else if (rebatch_evenly(r, n->out[i])) {
            rebatch_follow(r, n, n->out[i]);
            if (i || (!keeps_b0(r, n) && !mixes_samples(r, n)))
                continue;
            even = true;
            r->keeps_size = keeps_b0(r, n);
            r->mixes = !r->keeps_size;
        }
        *good = false;
        r->uneven = !even;
        TRY(rebatch_set_reason(r,
                               arena_printf(r->ctx->scratch, "%s: output %d %s", node_text(r->g, n), i,
                                            even ? "stays as long as the batch was" : "does not grow with the batch")));
    }
    return ST_OK;
}

/* Records that trial model `trial` rejects the present node.  A trial's failure is no error of the pass, except
 * E_NOMEM. */
static Status disagree(Rebatch *r, int trial, Status st, bool *good)
{
    if (st == E_NOMEM)
        return st;
    *good = r->uneven = false;
    r->undecidable |= trial == 0;
    r->trial[trial].g->status = ST_OK;
    r->failed_trial = trial;
    return rebatch_set_reason(r, status_message());
}

/* Edits and infers one node at all sizes.  *good: the sizes agree. */
static Status rebatch_visit(Rebatch *r, uint32_t node, bool *good)
{
    const Node *n = r->g->node[node];
    bool edited = false;

    *good = true;
    for (size_t k = 0; k < r->n_edit; k++)
        if (edits_reader(&r->edit[k]) && r->edit[k].node == node) {
            for (int i = 0; i < TRIALS && *good; i++) {
                Status st = trial_edit(&r->trial[i], &r->edit[k], r->size[0]);

                if (st)
                    TRY(disagree(r, i, st, good));
            }
            edited = true;
        }
    if (*good)
        TRY(rebatch_decide(r, node, edited, good));
    if (*good && r->b0_known)
        TRY(rebatch_check_groups(r, n, good));
    for (int i = 0; i < TRIALS && *good; i++) {
        Graph *g = r->trial[i].g;
        Status st = infer_and_fold(g, r->ctx, g->node[node]);

        if (st)
            return disagree(r, i, st, good);
        if (!r->decided && g->node[node]->op && g->node[node]->op->check_sizes &&
            g->node[node]->op->check_sizes(g, g->node[node]))
            r->decided = n;
    }
    return *good ? rebatch_check_outputs(r, n, good) : ST_OK;
}

/* Opens the trial models with the present edits and visits the nodes up to `last`.  *failed: the first node that does
 * not agree, or n_node. */
static Status rebatch_walk(Rebatch *r, uint32_t last, uint32_t *failed)
{
    r->undecidable = r->loses_rows = r->keeps_size = r->mixes = r->by_sample = r->open_dims = false;
    r->failed_trial = 0;
    r->decided = NULL;
    rebatch_close(r);
    for (int i = 0; i < TRIALS; i++) {
        TRY(trial_open(&r->trial[i], r->g, r->ctx->opt, r->size[i], OPEN_SIZE));
        for (size_t k = 0; k < r->n_edit; k++)
            if (!edits_reader(&r->edit[k]))
                TRY(trial_edit(&r->trial[i], &r->edit[k], r->size[0]));
    }
    for (int i = 0; i < r->g->n_input; i++) {
        const Shape *s = value(r->g, r->g->input[i])->shape;

        for (int a = 0; a < s->rank; a++)
            r->open_dims |= s->dim[a] < 0 && rebatch_axis(r, r->trial[0].g->input[i]) != a;
    }
    for (*failed = 0; *failed <= last && *failed < r->g->n_node; (*failed)++) {
        bool good = true;

        if (r->g->node[*failed]->op)
            TRY(rebatch_visit(r, *failed, &good));
        if (!good)
            return ST_OK;
    }
    *failed = r->g->n_node;
    return ST_OK;
}

/* ---- the search ---- */

/* Lists up to MAX_CONE nodes that `node` depends on, itself first, the nearest first.  Returns their number. */
static int list_cone(const Rebatch *r, uint32_t *cone, uint32_t node)
{
    int n = 0;

    cone[n++] = node;
    for (int i = 0; i < n; i++) {
        const Node *at = r->g->node[cone[i]];

        for (int k = 0; k < at->n_in && n < MAX_CONE; k++) {
            const Node *p = has_value(at->in[k]) ? in_value(r->g, at, k)->producer : NULL;
            bool listed = !p;

            for (int q = 0; q < n && !listed; q++)
                listed = cone[q] == p->index;
            if (!listed)
                cone[n++] = p->index;
        }
    }
    return n;
}

static Status search_cone(Rebatch *r, uint32_t node, const uint32_t *cone, int n, bool *helps);

/* *helps: does every node up to `node` agree once the edit is made?  Where the edit only changes the reason for which
 * `node` fails, a second edit is tried with it: an LSTM has two initial states that hold the batch.  An edit that does
 * not help is dropped, and the trial models become stale. */
static Status try_edit(Rebatch *r, const Edit *e, uint32_t node, bool *helps)
{
    size_t before = r->n_edit;
    const char *reason = r->reason;
    uint32_t failed, cone[MAX_CONE];
    Status st = ST_OK;

    *helps = false;
    if (r->attempts++ >= MAX_ATTEMPTS)
        return ST_OK;
    TRY(rebatch_add(r, e));
    TRY(rebatch_walk(r, node, &failed));
    *helps = failed == r->g->n_node && !r->undecidable;
    if (!*helps && failed == node && !r->undecidable && r->failed_trial && !r->second_edit &&
        strcmp(reason, r->reason) != 0) {
        r->second_edit = true;
        r->stale = false;
        st = search_cone(r, node, cone, list_cone(r, cone, node), helps);
        r->second_edit = false;
    }
    if (*helps || st)
        return st;
    r->stale = true;
    r->n_edit = before;
    r->reason = reason;
    r->undecidable = false;
    return ST_OK;
}

/* Tries the elements of an integer input that are b0 (`multiples`: a larger multiple of it). */
static Status try_elements(Rebatch *r, uint32_t at, int in, bool multiples, uint32_t node, bool *helps)
{
    const Tensor *t = fixed_ints(r->trial, at, in);
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

/* Tries a constant with b0 rows.  One row of integers could be the start of a count; the pass does not guess. */
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

/* Tries edits at the inputs of the cone's nodes, until one helps. */
static Status search_cone(Rebatch *r, uint32_t node, const uint32_t *cone, int n, bool *helps)
{
    for (int multiples = 0; multiples < 2 && !*helps; multiples++)
        for (int i = 0; i < n && !*helps; i++)
            for (int k = 0; k < r->g->node[cone[i]]->n_in && !*helps; k++) {
                uint32_t failed;

                if (!multiples)
                    TRY(try_constant(r, r->g->node[cone[i]]->in[k], node, helps));
                if (!*helps && r->stale) { /* try_elements reads the trial models without the failed attempt */
                    r->stale = false;
                    TRY(rebatch_walk(r, node, &failed));
                }
                if (!*helps)
                    TRY(try_elements(r, cone[i], k, multiples, node, helps));
            }
    return ST_OK;
}

/* Lets the last Reshape in the cone that has another axis for the batch take that axis, and drops the edits and choices
 * behind it: so all combinations are tried in turn.  False: no Reshape has one left. */
static bool choose_again(Rebatch *r, const uint32_t *cone, int n)
{
    uint32_t last = 0;
    size_t kept = 0;
    bool found = false;

    for (int i = 1; i < n; i++)
        if (r->choice[cone[i]] + 1 < r->n_choice[cone[i]] && (!found || cone[i] > last)) {
            last = cone[i];
            found = true;
        }
    if (!found)
        return false;
    r->choice[last]++;
    for (size_t k = 0; k < r->n_edit; k++)
        if (!edits_reader(&r->edit[k]) || r->edit[k].node < last)
            r->edit[kept++] = r->edit[k];
    r->n_edit = kept;
    for (uint32_t k = last + 1; k < r->g->n_node; k++)
        r->choice[k] = 0;
    return true;
}

/* Edits and chooses axes until all nodes agree.  *failed: the node that still disagrees, or n_node.  Before the search
 * chooses other axes for a failing node, it takes a snapshot of the edits and choices.  If no axis helps, it restores
 * the snapshot; a node that mixes samples is then taken for the network's own. */
static Status rebatch_search(Rebatch *r, uint32_t *failed)
{
    uint32_t *cone = ARENA_NEW(r->ctx->scratch, uint32_t, MAX_CONE), snapshot_node = 0;
    size_t n_edit = 0;
    Edit *edit = NULL;
    uint8_t *choice = NULL; /* NULL: there is no snapshot */
    bool mixes = false;

    if (!cone)
        return FAIL_NOMEM();
    for (;;) {
        const char *reason;
        bool helps = false;
        int n;

        TRY(rebatch_walk(r, r->g->n_node, failed));
        r->stale = false;
        if (*failed == r->g->n_node || r->undecidable)
            return ST_OK;
        reason = r->reason;
        n = list_cone(r, cone, *failed);
        if (!choice || *failed > snapshot_node) {
            snapshot_node = *failed;
            mixes = r->mixes;
            n_edit = r->n_edit;
            edit = arena_array(r->ctx->scratch, sizeof *edit, n_edit + 1);
            choice = arena_memdup(r->ctx->scratch, r->choice, r->g->n_node);
            if (!edit || !choice)
                return FAIL_NOMEM();
            if (n_edit)
                memcpy(edit, r->edit, n_edit * sizeof *edit);
        }
        if (!r->loses_rows && !r->mixes)
            TRY(search_cone(r, *failed, cone, n, &helps));
        r->reason = reason;
        if (helps || (r->attempts++ < MAX_ATTEMPTS && choose_again(r, cone, n)))
            continue;
        if (n_edit)
            memcpy(r->edit, edit, n_edit * sizeof *edit);
        r->n_edit = n_edit;
        memcpy(r->choice, choice, r->g->n_node);
        choice = NULL;
        r->may_mix[snapshot_node] |= mixes;
        if (!mixes)
            return rebatch_walk(r, r->g->n_node, failed); /* restores the first reason */
    }
}

/* ---- sizes ---- */

/* Notes each node that takes the same rows of a batch of any size.  The network may mean it so, or its exporter may
 * have fixed rows that were a part of the batch. */
static Status note_own_rows(const Rebatch *r)
{
    for (uint32_t i = 0; i < r->g->n_node; i++) {
        const Node *n = r->g->node[i];
        Selection s;

        if (!n->op)
            continue;
        TRY(rebatch_select(r, i, &s));
        if (s.kind == SELECT_OWN)
            TRY(report_note(r->ctx->report, NOTE_MIXES, n->name,
                            "%s takes %lld row%s of the batch, from row %lld, whatever the batch's size", n->op->name,
                            (long long)s.n_row, s.n_row == 1 ? "" : "s", (long long)s.first_row));
    }
    return ST_OK;
}

/* Chooses two sizes besides b0.  The first is smaller than b0 where it can be without being 1: it shows a part that a
 * constant cuts off at b0.  The others are primes, which are rarely the size of another axis. */
static void choose_sizes(Rebatch *r, int64_t b0)
{
    r->size[0] = b0;
    r->size[1] = b0 > 2 ? b0 - 1 : 13;
    r->size[2] = b0 == 29 ? 31 : b0 + 29;
}

static Status rebatch_prepare(Rebatch *r, Graph *g, PassCtx *ctx)
{
    *r = (Rebatch){ .g = g,
                    .ctx = ctx,
                    .choice = ARENA_NEW(ctx->scratch, uint8_t, g->n_node),
                    .n_choice = ARENA_NEW(ctx->scratch, uint8_t, g->n_node),
                    .batch_front = ARENA_NEW(ctx->scratch, int64_t, g->n_value),
                    .rows_front = ARENA_NEW(ctx->scratch, int64_t, g->n_node),
                    .may_mix = ARENA_NEW(ctx->scratch, bool, g->n_node) };
    return r->choice && r->n_choice && r->batch_front && r->rows_front && r->may_mix ? graph_sort(g) : FAIL_NOMEM();
}

Status rebatch_try(Rebatch *r, Graph *g, PassCtx *ctx, int64_t b0, bool *good)
{
    uint32_t failed = 0;

    TRY(rebatch_prepare(r, g, ctx));
    choose_sizes(r, b0);
    r->b0_known = true;
    TRY(rebatch_search(r, &failed));
    *good = failed == g->n_node;
    return ST_OK;
}

/* For a file whose batch axis is open: *b0 becomes 0 if its constants agree at any size, or if they agree at none; else
 * the first usual size at which they agree and from which edits let them follow the batch.  They often agree at 1 too,
 * which broadcasts, but not by edits from there.  If no edits do, the last size at which they agree is named. */
static Status find_b0(Rebatch *r, int64_t *b0)
{
    static const int64_t usual[] = { 1, 2, 3, 4, 5, 6, 8, 10, 16, 32, 64, 128 };
    bool good = false;
    uint32_t failed;

    *b0 = 0;
    choose_sizes(r, 11);
    r->b0_known = false;
    TRY(rebatch_walk(r, r->g->n_node, &failed));
    if (failed == r->g->n_node)
        return note_own_rows(r);
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !good; i++) {
        r->b0_known = false;
        for (int k = 0; k < TRIALS; k++)
            r->size[k] = usual[i];
        TRY(rebatch_walk(r, r->g->n_node, &failed));
        if (failed < r->g->n_node)
            continue;
        *b0 = usual[i];
        rebatch_close(r);
        TRY(rebatch_try(r, r->g, r->ctx, usual[i], &good));
        good &= r->n_edit > 0;
        rebatch_close(r);
        TRY(rebatch_prepare(r, r->g, r->ctx));
    }
    return ST_OK;
}

/* ---- the result ---- */

/* Notes an edit that is a guess, and one that makes a constant a single row.  At b0 = 1 the file does not show whether
 * a node takes the rows of each sample or of the first alone. */
static Status note_edit(const Rebatch *r, const Edit *e)
{
    char text[SHAPE_TEXT], *also = "";
    const Node *n = edits_reader(e) ? r->g->node[e->node] : NULL;
    const Value *v;

    if (n && r->size[0] <= 1 && n->op->flags & OPF_SELECTS)
        return report_note(r->ctx->report, NOTE_GUESS, n->name,
                           "%s takes rows of the single sample that the model was exported for (input %d): in larger "
                           "batches it takes those rows of every sample",
                           n->op->name, e->in);
    if (e->kind != EDIT_ROWS)
        return ST_OK;
    v = value(r->g, e->value);
    for (int a = 0; a < v->init->shape.rank; a++)
        if (rows_equal_too(v->init, e->at, a) &&
            !(also = arena_printf(r->ctx->scratch, "%s, alike along axis %d", also, a)))
            return FAIL_NOMEM();
    return report_note(r->ctx->report, NOTE_OTHER, v->name,
                       "constant %s holds equal rows for %lld samples%s: it becomes one row, expanded to the batch",
                       shape_text(&v->init->shape, text), (long long)r->size[0], also);
}

/* Makes the edits in the model, which reads the batch size off its first input that has the batch. */
static Status rebatch_apply(Rebatch *r)
{
    TrialModel other = { NULL, r->size[0] };
    int axis = -1, n_constant = 0, input = 0;
    Status st = ST_OK;

    while (input < r->g->n_input && (axis = rebatch_axis(r, r->g->input[input])) < 0)
        input++;
    if (axis < 0 || !r->n_edit)
        return ST_OK;
    if (r->open_dims && !(st = trial_open(&other, r->g, r->ctx->opt, r->size[0], OTHER_OPEN_SIZE)))
        st = trial_infer(other.g, r->ctx);
    for (size_t k = 0; k < r->n_edit && !st; k++) {
        if (!(st = note_edit(r, &r->edit[k])))
            st = edit_model(r->g, &r->edit[k], r->size[0], r->trial, other.g, r->g->input[input], axis);
        n_constant += r->edit[k].kind != EDIT_ROWS;
        r->ctx->n_changed++;
    }
    graph_free(other.g);
    TRY(st);
    if (n_constant)
        TRY(report_note(r->ctx->report, NOTE_OTHER, r->g->name,
                        "%d constant%s written for batches of %lld follow%s the batch's size now", n_constant,
                        n_constant > 1 ? "s" : "", (long long)r->size[0], n_constant > 1 ? "" : "s"));
    return graph_sort(r->g);
}

/* Name of the nearest constant in front of the node that holds b0, for the message; NULL: none. */
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

/* The batch size that the options ask for; 0: none. */
static int64_t wanted_size(const Rebatch *r)
{
    const BuildOptions *opt = r->ctx->opt;
    const BatchOptions *batch = batch_options(opt);

    for (int i = 0; i < batch->n_input_shape; i++) {
        ValueId v = graph_find(r->g, batch->input_shape[i].name);
        int axis = has_value(v) && value(r->g, v)->kind == V_INPUT ? rebatch_axis(r, v) : -1;

        if (axis >= 0 && axis < batch->input_shape[i].shape.rank)
            return batch->input_shape[i].shape.dim[axis];
    }
    return batch->batch;
}

/* Sets the reason to the message of inference at the wanted size: nobody asked for the sizes that were tried. */
static Status set_wanted_reason(Rebatch *r, uint32_t node, int64_t want)
{
    uint32_t again;

    if (!r->failed_trial)
        return ST_OK;
    if (want > 0 && want != r->size[0]) {
        r->size[1] = want;
        r->size[2] += r->size[2] == want;
        TRY(rebatch_walk(r, node, &again));
        if (again == node && r->failed_trial == 1)
            return ST_OK;
    }
    return rebatch_set_reason(
        r, arena_printf(r->ctx->scratch, "%s does not follow the batch", node_text(r->g, r->g->node[node])));
}

/* Fails if another size than b0 is wanted; else records that the model computes batches of b0 only.  The message names
 * a Decided node rather than the failure that follows from it. */
static Status rebatch_refuse(Rebatch *r, uint32_t node)
{
    const char *name = r->decided || r->by_sample ? NULL : suspect(r, node), *by = "";
    int64_t want = wanted_size(r);
    const bool silent = r->loses_rows || r->keeps_size; /* inference accepts it */

    r->g->by_sample = r->by_sample;
    TRY(set_wanted_reason(r, node, want));
    if (r->decided &&
        !(r->reason = arena_printf(r->ctx->scratch, "%s is %lld only at that size", node_string(r->decided, "what"),
                                   (long long)node_int(r->decided, "value"))))
        return FAIL_NOMEM();
    if (name && !(by = arena_printf(r->ctx->scratch, " (constant '%s' is written for it)", name)))
        return FAIL_NOMEM();
    if (want && want != r->size[0])
        return FAIL(E_UNSUPPORTED, "the model was exported for batches of %lld and does not work for %lld: %s%s",
                    (long long)r->size[0], (long long)want, r->reason, by);
    if (silent) {
        r->g->only_batch = r->size[0];
        if (!(r->g->only_why = arena_printf(r->g->arena, "%s%s", r->reason, by)))
            return FAIL_NOMEM();
    }
    return report_note(r->ctx->report, NOTE_OTHER, r->g->name, "computes only batches of %lld: %s%s",
                       (long long)r->size[0], r->reason, by);
}

/* Notes random numbers of one row in a shape that the file fixes: perhaps each sample was meant to have its own. */
static Status note_drawn(const Rebatch *r)
{
    FOR_NODES(r->g, n) {
        int rank = 0;
        const int64_t *dim = n->op->flags & OPF_RANDOM && !n->n_in ? node_ints(n, "shape", &rank) : NULL;

        if (rank > 1 && dim[0] == 1 && r->size[0] == 1)
            TRY(report_note(r->ctx->report, NOTE_GUESS, n->name,
                            "%s draws one row, because the model was exported for one sample: all samples of larger "
                            "batches share it",
                            n->op->name));
    }
    return ST_OK;
}

/* Is the first axis assumed to be the batch although another axis may be it?  A given shape that has another size there
 * removes the doubt. */
static bool in_doubt(const Rebatch *r)
{
    const BuildOptions *opt = r->ctx->opt;
    const BatchOptions *batch = batch_options(opt);
    bool doubt = false;

    for (int i = 0; i < r->g->n_input; i++) {
        const Value *v = value(r->g, r->g->input[i]);

        doubt |= rival_batch_axis(r->g, opt, v) >= 0;
        for (int k = 0; k < batch->n_input_shape; k++)
            if (!strcmp(batch->input_shape[k].name, v->name) && v->shape->rank > 0 &&
                batch->input_shape[k].shape.rank > 0 && batch->input_shape[k].shape.dim[0] != v->shape->dim[0])
                return false;
    }
    return doubt;
}

/* A batch size other than b0 that the run will have, possibly that of an epoch's last batch; 0: none is known. */
static int64_t other_size(const Rebatch *r)
{
    const int64_t want = wanted_size(r), samples = batch_options(r->ctx->opt)->samples;

    return want != r->size[0] ? want : want && samples > 0 ? samples % want : 0;
}

static Status rebatch(Rebatch *r)
{
    int64_t b0 = declared_batch(r->g, r->ctx->opt);
    const bool fixed = b0 > 0;
    uint32_t failed;

    if (in_doubt(r))
        return ST_OK;
    if (b0 < 0)
        TRY(find_b0(r, &b0));
    if (b0 <= 0)
        return ST_OK;
    choose_sizes(r, b0);
    r->b0_known = true;
    TRY(rebatch_search(r, &failed));
    if (failed == r->g->n_node) {
        if (r->decided) /* infer-shapes checks whether the wanted size is one of these */
            TRY(report_note(
                r->ctx->report, NOTE_OTHER, r->g->name,
                "%s is %lld in batches of %lld: the model computes only batches for which that number is the same",
                node_string(r->decided, "what"), (long long)node_int(r->decided, "value"), (long long)r->size[0]));
        TRY(note_own_rows(r));
        TRY(fixed ? rebatch_note_time(r) : ST_OK);
        TRY(note_drawn(r));
        if (other_size(r))
            TRY(rebatch_note_counts(r, other_size(r)));
        return rebatch_apply(r);
    }
    return r->undecidable || r->uneven ? ST_OK : rebatch_refuse(r, failed);
}

static Status rebatch_run(Graph *g, PassCtx *ctx)
{
    Rebatch r;
    Status st = rebatch_prepare(&r, g, ctx);

    if (!st && !(st = check_batch_inputs(g, ctx->opt))) /* first: no size can be read off a wrong axis */
        st = rebatch(&r);
    rebatch_close(&r);
    return st;
}

const Pass pass_rebatch = { .name = "rebatch",
                            .summary = "constants that hold the batch's size follow it",
                            .run = rebatch_run };
