/* partition: from the training graph on one device to the graph of all replicas on all devices.
 *
 * Forward, loss, backward and update are partitioned by one mechanism: divide.c says which inputs are split and how,
 * place.c finds where every value lives then, expand.c makes the copies and the collectives between them.  One replica
 * on one device stays as it is. */
#include "passes/options/inputs.h"
#include "passes/options/step.h"
#include "passes/partition/expand.h"
#include "passes/partition/variants.h"
#include "passes/report.h"

/* Removes nodes whose outputs nobody reads: the whole of a value that was only needed in parts, unused conversions. */
static Status sweep(Graph *g)
{
    Arena *a = arena_create_beside(g->arena);
    uint32_t *uses = a ? graph_count_uses(g, a) : NULL;

    if (!uses) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    for (uint32_t i = g->n_node; i-- > 0;) {
        Node *n = g->node[i];
        bool used = n->op && n->op->flags & OPF_IMPURE;

        for (int o = 0; n->op && o < n->n_out; o++)
            used |= has_value(n->out[o]) && uses[n->out[o].i];
        if (!n->op || used)
            continue;
        for (int k = 0; k < n->n_in; k++)
            uses[n->in[k].i] -= has_value(n->in[k]);
        graph_remove(g, n);
    }
    arena_free(a);
    return graph_sort(g);
}

/* Gives replicas lengths of their own; fails with the reason where that cannot be. */
static Status try_variants(Graph *g, Partition *p, PassCtx *ctx, Arena *a)
{
    Placements t;

    for (int i = 0; i < ctx->variants->n; i++)
        TRY(sweep(ctx->variants->list[i].g));
    TRY(variants_match(ctx->variants, g, a));
    TRY(place_graph(&t, g, p, a, NULL));
    TRY(variants_compare(ctx->variants, g, &t, ctx, a));
    if (!ctx->variants->n)
        return ST_OK;
    p->variants = ctx->variants;
    TRY(place_graph(&t, g, p, a, NULL));
    return variants_check(&t, g, p);
}

static Status place_parts(Placements *t, Graph *g, Partition *p, PassCtx *ctx, Arena *a)
{
    const InputOptions *inputs = input_options(ctx->opt);
    const MixMode mix = p->mix;

    if (ctx->variants && ctx->variants->n) {
        p->mix = MIX_GATHER; /* slices are of one length */
        TRY(variants_drop(ctx->variants, -1, try_variants(g, p, ctx, a)));
        p->mix = ctx->variants->n ? MIX_GATHER : mix;
    }
    if (ctx->variants && *ctx->variants->why)
        TRY(report_note(ctx->report, NOTE_PADDING, "--pad-to replica",
                        "%s padded to the longest sequence of the step: %s",
                        ctx->variants->n ? "some replicas' parts are" : "every replica's part is", ctx->variants->why));
    for (int r = 0; r < p->replicas && ctx->variants && inputs->reach_kept; r++)
        inputs->reach_kept[r] = ctx->variants->of[r] >= 0;
    TRY(place_graph(t, g, p, a, ctx->report));
    if (t->varies)
        variants_settle(t, g);
    return ST_OK;
}

static Status partition_run(Graph *g, PassCtx *ctx)
{
    const StepOptions *step = step_options(ctx->opt);
    bool carried = false;
    Partition p;
    Placements t;
    Arena *a;
    Status st;

    TRY(partition_decide(&p, g, ctx->opt, ctx->scratch, ctx->report));
    if (step->in_force)
        TRY(report_note(ctx->report, NOTE_OTHER, "--compat", "in force: %s", step->in_force));
    if (build_mode(ctx->opt) >= BUILD_TRAIN)
        TRY(check_statistics(g, &p, ctx->opt, ctx->report, ctx->scratch));
    if (p.replicas == 1) {
        FOR_NODES(g, n)
            n->replica = n->device = 0;
        for (uint32_t i = 1; i < g->n_value; i++)
            if (g->value[i]->kind == V_STATE || g->value[i]->kind == V_TEMP) {
                g->value[i]->device = 0;
                g->value[i]->replica = g->value[i]->kind == V_TEMP ? 0 : -1;
            }
        return ST_OK;
    }
    for (int i = 0; i < g->n_input && !carried; i++)
        carried = p.batch_axis[g->input[i].i] >= 0;
    if (!carried && build_mode(ctx->opt) != BUILD_APPLY)
        TRY(report_note(ctx->report, NOTE_OTHER, g->name,
                        "no input carries the batch: every device computes all of it"));
    TRY(sweep(g));
    a = arena_create_beside(ctx->scratch); /* its tables go before the graph of all replicas is sorted */
    st = a ? place_parts(&t, g, &p, ctx, a) : FAIL_NOMEM();
    if (!st)
        st = expand_graph(g, &p, &t, a);
    arena_free(a);
    TRY(st);
    TRY(sweep(g));
    ctx->n_changed += (int)g->n_node;
    return ST_OK;
}

const Pass pass_partition = { .name = "partition",
                              .summary = "one copy of the graph per replica, collectives between them",
                              .run = partition_run };
