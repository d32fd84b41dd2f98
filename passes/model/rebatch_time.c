/* A warning that the batch may lie along another axis than the first, in a file that fixes all sizes.
 *
 * rebatch takes the first axis for the batch.  Two things show that it is the time instead: a recurrent layer that runs
 * along it, and a node that mixes its samples where the second axis would not be mixed or is as long.
 *
 * Example: x [5,3,8] of a Transformer that has the sequence first: its attention multiplies rows of axis 0, and would
 * keep those of axis 1 apart. */
#include "graph/ir/op.h"
#include "passes/build_options.h"
#include "passes/model/rebatch_decide.h"
#include "passes/options/batch.h"
#include "passes/report.h"

/* Makes a copy of the model with the batch along the second axis of the inputs that have it along the first; *size: the
 * length of that axis.  *out NULL: the axis has no common length. */
static Status rebatch_time_turn(Graph **out, const Rebatch *r, int64_t *size)
{
    bool same = true;

    *out = NULL;
    *size = 0;
    for (int i = 0; i < r->g->n_input; i++) {
        const Shape *s = value(r->g, r->g->input[i])->shape;

        if (rebatch_axis(r, r->g->input[i]) != 0)
            continue;
        same &= s->rank > 1 && s->dim[1] > 0 && (!*size || s->dim[1] == *size);
        *size = same ? s->dim[1] : -1;
    }
    if (*size < 1)
        return ST_OK;
    TRY(graph_clone_lending(out, r->g));
    for (int i = 0; i < r->g->n_input; i++)
        value(*out, (*out)->input[i])->carries = rebatch_axis(r, r->g->input[i]) ? 0 : 1u << 1;
    (*out)->batch_found = BATCH_FOUND;
    return ST_OK;
}

/* *out: does the model work at any size of the inputs' second axis, and does no node mix its rows? */
static Status second_axis_fits(bool *out, const Rebatch *r)
{
    BatchOptions open = *batch_options(r->ctx->opt);
    BuildOptions opt = *r->ctx->opt;
    PassCtx ctx = *r->ctx;
    Graph *g;
    Rebatch t;
    int64_t size;
    Status st;

    *out = false;
    open.n_carry_choice = open.n_input_shape = 0;
    opt.batch = &open;
    ctx.opt = &opt;
    TRY(rebatch_time_turn(&g, r, &size));
    if (!g)
        return ST_OK;
    st = rebatch_try(&t, g, &ctx, size, out);
    *out = !st && *out && g->n_output && rebatch_n_growing(&t, g->output[0].value) == 1;
    for (uint32_t i = 0; i < g->n_node && *out; i++)
        *out = !t.may_mix[i];
    rebatch_close(&t);
    graph_free(g);
    return st;
}

Status rebatch_note_time(const Rebatch *r)
{
    bool second_fits = false, tried;

    for (int i = 0; i < r->g->n_input; i++) {
        const Shape *s = value(r->g, r->g->input[i])->shape;

        second_fits |= s->rank > 1 && s->dim[0] == r->size[0] && s->dim[1] == r->size[0];
    }
    tried = second_fits;
    for (uint32_t i = 0; i < r->g->n_node && !batch_options(r->ctx->opt)->n_batch_input; i++) {
        const Node *n = r->g->node[i];
        const bool recurs = n->op && rebatch_has_attribute(n, "hidden_size") && rebatch_has_attribute(n, "layout");

        if (r->may_mix[i] && !tried) {
            TRY(second_axis_fits(&second_fits, r));
            tried = true;
        }
        if (recurs ? rebatch_axis(r, n->in[0]) == (node_int(n, "layout") ? 1 : 0) : second_fits && r->may_mix[i])
            return report_note(r->ctx->report, NOTE_GUESS, n->name,
                               "%s %s: the batch is taken along the first axis of the inputs, whose %lld the file "
                               "fixes; where another axis is the batch give --batch-input NAME:AXIS",
                               n->op->name,
                               recurs ? "runs over the samples as over steps of time" : "mixes the samples",
                               (long long)r->size[0]);
    }
    return ST_OK;
}
