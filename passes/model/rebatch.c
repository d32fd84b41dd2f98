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
 * first, or into one that joins it with what is in front.  Where that turns out wrong, at a node behind it that fails
 * or mixes samples, the next one is tried.
 *
 * At b0 every changed constant has the value that it had: the model computes the same bits.  A constant of equal rows
 * is one row afterwards, which is trained as one. */
#include <string.h>

#include "passes/batch_axis.h"
#include "passes/model/rebatch_decide.h"
#include "passes/report.h"
#include "passes/simplify/fold.h"
#include "passes/simplify/infer_shapes.h"

enum { WORLDS = REBATCH_WORLDS, MAX_TRIALS = 256, MAX_CONE = 96 };

/* ---- worlds ---- */

void rebatch_close(Rebatch *r)
{
    for (int i = 0; i < WORLDS; i++) {
        graph_free(r->world[i].g);
        r->world[i].g = NULL;
    }
}

static Status open_worlds(Rebatch *r)
{
    rebatch_close(r);
    for (int i = 0; i < WORLDS; i++) {
        TRY(open_world(&r->world[i], r->g, r->ctx->opt, r->size[i], OPEN_SIZE));
        for (size_t k = 0; k < r->n_edit; k++)
            if (!edits_reader(&r->edit[k]))
                TRY(edit_world(&r->world[i], &r->edit[k], r->size[0]));
    }
    return ST_OK;
}

/* ---- the walk ---- */

/* Has output 0 as many rows as the batch had in the file, whatever the batch is?  Nothing behind it need fail: one row
 * broadcasts. */
static bool keeps_b0(const Rebatch *r, const Node *n)
{
    return r->decide && has_in(n, 0) && rebatch_axis(r, n->out[0]) < 0 &&
           keeps_b0_rows(r->world, r->world[0].g->node[n->index], rebatch_axis(r, n->in[0]));
}

int rebatch_n_growing(const Rebatch *r, ValueId v)
{
    const Shape *at[WORLDS];
    int n = 0;

    for (int i = 0; i < WORLDS; i++)
        if (!shape_known(at[i] = rebatch_shape(r, i, v)) || at[i]->rank != at[0]->rank)
            return 0;
    for (int a = 0; a < at[0]->rank; a++)
        n += at[0]->dim[a] != at[1]->dim[a] || at[0]->dim[a] != at[2]->dim[a];
    return n;
}

/* Is the node the first to take samples together: as pairs, or all as one?  A network may, but mostly a Reshape in
 * front of it was given the wrong axis for the batch. */
static bool mixes_samples(const Rebatch *r, const Node *n)
{
    const int out = rebatch_n_growing(r, n->out[0]);
    int in = 0;

    if (!r->decide || r->may_mix[n->index] || n->op->flags & (OPF_SHAPE_ONLY | OPF_SELECTS) || out == 1 ||
        !dtype_is_float(value(r->world[0].g, n->out[0])->dtype))
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

/* Does a convolution read weights that are made of the samples, and tell by its group, or by nothing, whose each are?
 * With b0 groups each sample has its own weights, and one group for one sample says the same; at another size the
 * number of groups would have to be another. */
static bool convolves_by_sample(const Rebatch *r, const Node *n)
{
    if (!rebatch_has_attribute(n, "group") || !rebatch_has_attribute(n, "kernel_shape") || !has_in(n, 1) ||
        !rebatch_n_growing(r, n->in[1]))
        return false;
    return node_int(n, "group") > 1 || r->size[0] == 1 || rebatch_n_growing(r, n->in[0]);
}

static Status fail_by_sample(Rebatch *r, const Node *n)
{
    r->lost = r->by_sample = true;
    return rebatch_say(r,
                       arena_printf(r->ctx->scratch,
                                    "%s: its weights are computed from the samples and its group is %lld, a group for "
                                    "each sample, which a file holds for one batch size",
                                    node_text(r->g, n), (long long)node_int(n, "group")));
}

static Status rebatch_check_outputs(Rebatch *r, const Node *n, bool *good)
{
    const char *what = "does not grow with the batch";

    for (int i = 0; i < n->n_out && *good; i++) {
        if (!has_value(n->out[i]))
            continue;
        if (!shape_known(rebatch_shape(r, 0, n->out[i])))
            r->at_b0 = true;
        else if (rebatch_evenly(r, n->out[i])) {
            rebatch_follow(r, n, n->out[i]);
            if (i || (!keeps_b0(r, n) && !mixes_samples(r, n)))
                continue;
            what = "stays as long as the batch was";
            r->kept = keeps_b0(r, n);
            r->mixed = !r->kept;
        }
        *good = false;
        r->soft = *what == 'd';
        TRY(rebatch_say(r, arena_printf(r->ctx->scratch, "%s: output %d %s", node_text(r->g, n), i, what)));
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
    r->probe = world;
    return rebatch_say(r, status_message());
}

/* One node at all sizes; *good: it agrees. */
static Status rebatch_visit(Rebatch *r, uint32_t node, bool *good)
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
    TRY(rebatch_decide(r, node, edited, good));
    if (!*good)
        return ST_OK;
    if (r->decide && r->g->node[node]->op && convolves_by_sample(r, r->g->node[node])) {
        *good = r->soft = false;
        return fail_by_sample(r, r->g->node[node]);
    }
    for (int i = 0; i < WORLDS; i++) {
        Graph *g = r->world[i].g;
        Status st = infer_and_fold(g, r->ctx, g->node[node]);

        if (st)
            return disagree(r, i, st, good);
        if (!r->decided && g->node[node]->op && g->node[node]->op->holds && g->node[node]->op->holds(g, g->node[node]))
            r->decided = r->g->node[node];
    }
    return rebatch_check_outputs(r, r->g->node[node], good);
}

static bool other_dims_open(const Rebatch *r)
{
    const Graph *g = r->world[0].g;

    for (int i = 0; i < r->g->n_input; i++)
        for (int a = 0; a < value(r->g, r->g->input[i])->shape->rank; a++)
            if (value(r->g, r->g->input[i])->shape->dim[a] < 0 && rebatch_axis(r, g->input[i]) != a)
                return true;
    return false;
}

/* Visits the nodes up to `last`; *failed: the first that does not agree, or n_node. */
static Status rebatch_walk(Rebatch *r, uint32_t last, uint32_t *failed)
{
    r->at_b0 = r->lost = r->kept = r->mixed = r->by_sample = false;
    r->probe = 0;
    r->decided = NULL;
    TRY(open_worlds(r));
    r->open = other_dims_open(r);
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

static Status search_cone(Rebatch *r, uint32_t node, const uint32_t *cone, int n, bool *helps);

/* An edit changed why the node fails, as with an LSTM whose two initial states hold the batch: does another help beside
 * it? */
static Status try_second(Rebatch *r, uint32_t node, bool *helps)
{
    uint32_t cone[MAX_CONE];
    Status st;

    r->second = true;
    r->tried = false;
    st = search_cone(r, node, cone, list_cone(r, cone, node), helps);
    r->second = false;
    return st;
}

static Status try_edit(Rebatch *r, const Edit *e, uint32_t node, bool *helps)
{
    size_t before = r->n_edit;
    const char *why = r->why;
    uint32_t failed;

    *helps = false;
    if (r->trials++ >= MAX_TRIALS)
        return ST_OK;
    TRY(rebatch_add(r, e));
    TRY(rebatch_walk(r, node, &failed));
    *helps = failed == r->g->n_node && !r->at_b0;
    if (!*helps && failed == node && !r->at_b0 && r->probe && !r->second && strcmp(why, r->why) != 0)
        TRY(try_second(r, node, helps));
    if (*helps)
        return ST_OK;
    r->tried = true;
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

/* What inputs are is asked of the worlds as they are without trials. */
static Status forget_trial(Rebatch *r, uint32_t node)
{
    uint32_t failed;

    if (!r->tried)
        return ST_OK;
    r->tried = false;
    return rebatch_walk(r, node, &failed);
}

static Status search_cone(Rebatch *r, uint32_t node, const uint32_t *cone, int n, bool *helps)
{
    for (int multiples = 0; multiples < 2 && !*helps; multiples++)
        for (int i = 0; i < n && !*helps; i++)
            for (int k = 0; k < r->g->node[cone[i]]->n_in && !*helps; k++) {
                if (!multiples)
                    TRY(try_constant(r, r->g->node[cone[i]]->in[k], node, helps));
                if (!*helps)
                    TRY(forget_trial(r, node));
                if (!*helps)
                    TRY(try_elements(r, cone[i], k, multiples, node, helps));
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

/* What was decided when a node failed, before other axes were tried. */
typedef struct {
    bool active, mixed;
    uint32_t node;
    size_t n_edit;
    Edit *edit;
    uint8_t *choice;
} Kept;

static Status keep_choices(Kept *k, const Rebatch *r, uint32_t node)
{
    *k = (Kept){ true,
                 r->mixed,
                 node,
                 r->n_edit,
                 arena_array(r->ctx->scratch, sizeof *k->edit, r->n_edit + 1),
                 arena_memdup(r->ctx->scratch, r->choice, r->g->n_node) };
    if (!k->edit || !k->choice)
        return FAIL_NOMEM();
    if (r->n_edit)
        memcpy(k->edit, r->edit, r->n_edit * sizeof *k->edit);
    return ST_OK;
}

/* No other axes help there.  What mixes samples is of the network then. */
static void restore_choices(Kept *k, Rebatch *r)
{
    if (k->n_edit)
        memcpy(r->edit, k->edit, k->n_edit * sizeof *k->edit);
    memcpy(r->choice, k->choice, r->g->n_node);
    r->n_edit = k->n_edit;
    r->may_mix[k->node] |= k->mixed;
    k->active = false;
}

/* *failed: the node that stays in disagreement, n_node when none does. */
static Status rebatch_search(Rebatch *r, uint32_t *failed)
{
    uint32_t *cone = ARENA_NEW(r->ctx->scratch, uint32_t, MAX_CONE);
    Kept kept = { .active = false };

    if (!cone)
        return FAIL_NOMEM();
    for (;;) {
        const char *why;
        bool helps = false;
        int n;

        TRY(rebatch_walk(r, r->g->n_node, failed));
        r->tried = false;
        if (*failed == r->g->n_node || r->at_b0)
            return ST_OK;
        kept.active &= *failed <= kept.node;
        why = r->why;
        n = list_cone(r, cone, *failed);
        if (!kept.active)
            TRY(keep_choices(&kept, r, *failed));
        if (!r->lost && !r->mixed)
            TRY(search_cone(r, *failed, cone, n, &helps));
        r->why = why;
        if (helps || (r->trials++ < MAX_TRIALS && choose_again(r, cone, n)))
            continue;
        restore_choices(&kept, r);
        if (!kept.mixed)
            return rebatch_walk(r, r->g->n_node, failed); /* why it failed at first */
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
        TRY(rebatch_select(r, i, &s));
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

static Status rebatch_prepare(Rebatch *r, Graph *g, PassCtx *ctx)
{
    *r = (Rebatch){ .g = g,
                    .ctx = ctx,
                    .choice = ARENA_NEW(ctx->scratch, uint8_t, g->n_node),
                    .choices = ARENA_NEW(ctx->scratch, uint8_t, g->n_node),
                    .inner = ARENA_NEW(ctx->scratch, int64_t, g->n_value),
                    .front = ARENA_NEW(ctx->scratch, int64_t, g->n_node),
                    .may_mix = ARENA_NEW(ctx->scratch, bool, g->n_node) };
    return r->choice && r->choices && r->inner && r->front && r->may_mix ? graph_sort(g) : FAIL_NOMEM();
}

Status rebatch_try(Rebatch *r, Graph *g, PassCtx *ctx, int64_t b0, bool *good)
{
    uint32_t failed = 0;

    TRY(rebatch_prepare(r, g, ctx));
    choose_sizes(r, b0);
    r->decide = true;
    TRY(rebatch_search(r, &failed));
    *good = failed == g->n_node;
    return ST_OK;
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
    TRY(rebatch_walk(r, r->g->n_node, &failed));
    if (failed == r->g->n_node)
        return note_own_rows(r);
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !*b0; i++) {
        for (int k = 0; k < WORLDS; k++)
            r->size[k] = usual[i];
        TRY(rebatch_walk(r, r->g->n_node, &failed));
        if (failed == r->g->n_node)
            *b0 = usual[i];
    }
    return ST_OK;
}

/* ---- the result ---- */

static ValueId first_batch_input(const Rebatch *r, int *axis)
{
    for (int i = 0; i < r->g->n_input; i++)
        if ((*axis = rebatch_axis(r, r->g->input[i])) >= 0)
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

static Status rebatch_apply(Rebatch *r)
{
    World other = { NULL, r->size[0] };
    int axis, n_constant = 0;
    ValueId input = first_batch_input(r, &axis);
    Status st = ST_OK;

    if (!has_value(input) || !r->n_edit)
        return ST_OK;
    if (r->open && !(st = open_world(&other, r->g, r->ctx->opt, r->size[0], OTHER_OPEN_SIZE)))
        st = infer_world(other.g, r->ctx);
    for (size_t k = 0; k < r->n_edit && !st; k++) {
        if (!(st = note_edit(r, &r->edit[k])))
            st = edit_model(r->g, &r->edit[k], r->size[0], r->world, other.g, input, axis);
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
        int axis = has_value(v) && value(r->g, v)->kind == V_INPUT ? rebatch_axis(r, v) : -1;

        if (axis >= 0 && axis < opt->input_shape[i].shape.rank)
            return opt->input_shape[i].shape.dim[axis];
    }
    return opt->batch;
}

/* What inference said at the size that is asked for; the sizes that were tried are nobody's. */
static Status say_wanted(Rebatch *r, uint32_t node, int64_t want)
{
    uint32_t again;

    if (!r->probe)
        return ST_OK;
    if (want > 0 && want != r->size[0]) {
        r->size[1] = want;
        r->size[2] += r->size[2] == want;
        TRY(rebatch_walk(r, node, &again));
        if (again == node && r->probe == 1)
            return ST_OK;
    }
    return rebatch_say(
        r, arena_printf(r->ctx->scratch, "%s does not follow the batch", node_text(r->g, r->g->node[node])));
}

/* A decision at one size is named rather than what follows from it. */
static Status rebatch_refuse(Rebatch *r, uint32_t node)
{
    const char *name = r->decided || r->by_sample ? NULL : suspect(r, node), *by = "";
    int64_t want = wanted_size(r);
    const bool silent = r->lost || r->kept; /* inference would not object */

    r->g->by_sample = r->by_sample;
    TRY(say_wanted(r, node, want));
    if (r->decided &&
        !(r->why = arena_printf(r->ctx->scratch, "%s is %lld at that size alone", node_string(r->decided, "what"),
                                (long long)node_int(r->decided, "value"))))
        return FAIL_NOMEM();
    if (name && !(by = arena_printf(r->ctx->scratch, " (constant '%s' is written for it)", name)))
        return FAIL_NOMEM();
    if (want && want != r->size[0])
        return FAIL(E_UNSUPPORTED, "the model was exported for batches of %lld and cannot be taken to %lld: %s%s",
                    (long long)r->size[0], (long long)want, r->why, by);
    if (silent) {
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

/* A size that batches will have and the file's had not, as the last one of an epoch; 0: none is known. */
static int64_t other_size(const Rebatch *r)
{
    const int64_t want = wanted_size(r), samples = r->ctx->opt->samples;

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
    r->decide = true;
    TRY(rebatch_search(r, &failed));
    if (failed == r->g->n_node) {
        TRY(note_decided(r));
        TRY(note_own_rows(r));
        TRY(fixed ? rebatch_note_time(r) : ST_OK);
        TRY(note_drawn(r));
        if (other_size(r))
            TRY(rebatch_note_counts(r, other_size(r)));
        return rebatch_apply(r);
    }
    return r->at_b0 || r->soft ? ST_OK : rebatch_refuse(r, failed);
}

static Status rebatch_run(Graph *g, PassCtx *ctx)
{
    Rebatch r;
    Status st = rebatch_prepare(&r, g, ctx);

    if (!st && !(st = check_batch_inputs(g, ctx->opt))) /* the wrong axis has no batch to speak of */
        st = rebatch(&r);
    rebatch_close(&r);
    return st;
}

const Pass pass_rebatch = { .name = "rebatch",
                            .summary = "constants that hold the batch's size follow it",
                            .run = rebatch_run };
