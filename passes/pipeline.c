/* The order of the passes, with the reason for each place.  Adding a pass: its file, and its line here. */
#include <string.h>

#include "graph/ir/drop_values.h"
#include "graph/ir/rewrite.h"
#include "graph/ir/verify.h"
#include "passes/partition/variant_options.h"
#include "passes/pass.h"
#include "passes/passes.gen.h"
#include "passes/report.h"

/* clang-format off: a new line must not move the others. */
const Pass *const pipeline[] = {
    &pass_token_window,      /* before any shape is inferred */
    &pass_convert_dtype,     /* before any type is inferred */
    &pass_mark_batch,        /* before shapes are those of one batch size */
    &pass_own_outputs,       /* likewise; shapes of its copies are inferred with all others */
    &pass_part_losses,       /* likewise; before take-turns and criterion, which take outputs for losses */
    &pass_infer_shapes,      /* everything below needs shapes */
    &pass_keep_buffers,      /* before parameters are found among the constants */
    &pass_straight_through,  /* tensors behind quantisers must be found as parameters */
    &pass_find_parameters,   /* parameters must be state before constants are folded */
    &pass_follow_file,       /* likewise; once parameters are known, which are state already */
    &pass_read_means,        /* likewise; before anything is decided of a state by its name */
    &pass_take_turns,        /* once it is known what is trained; before what chains statistics and numbers draws */
    &pass_prepare_training,  /* before constants are folded: running statistics must be state too */
    &pass_note_accumulation, /* behind prepare-training; before lower, while a layer is one node of the model's name */
    &pass_fold_constants,    /* after parameters have become state: no weight is folded away */
    &pass_stochastic_depth,  /* literals are constants; before lower and key-random, which make other operators of what
                                draws */
    &pass_key_random,        /* before lower, which takes Dropout for the identity that it is out of training */
    &pass_lower,             /* before autodiff: gradients are those of the simpler operators */
    &pass_cache_keys, /* once composite operators are simple ones, which bring placements; before fuse-attention, whose
                       * nodes read all times */
    &pass_fuse_attention,     /* once masks are constants; before cse and dce, which clear up behind it */
    &pass_cse,                /* lowering repeats itself; before autodiff, so that the backward pass is smaller too */
    &pass_fuse_layer_norm,    /* behind lower, which writes means as sums, and cse: a difference from the mean is one
                               * value */
    &pass_fuse_gelu,          /* once literals are constants; before autodiff, which then keeps x alone */
    &pass_dce,                /* no gradient for what nothing needs */
    &pass_predictions,        /* where criterion is, instead of which it runs */
    &pass_criterion,          /* after lower: it appends simple operators alone */
    &pass_fuse_cross_entropy, /* after criterion, which appends the loss; before precision, which would convert the
                                 scores */
    &pass_fold_transpose,     /* before precision, which would stand conversions in between, and before autodiff */
    &pass_join_biases,        /* likewise; what fuse-product takes in later */
    &pass_precision,          /* before autodiff: a gradient has the type of its value */
    &pass_layout_weights,     /* while every mode has its forward graph; before add-optimizer, whose state follows it */
    &pass_scale_loss,         /* last before autodiff, which differentiates its output */
    &pass_autodiff,
    &pass_add_optimizer, /* consumes the gradients */
    &pass_standard,      /* behind all that appends operators of ours; before cse and dce, which clear up behind it */
    &pass_cse,           /* gradients share sums and transposes */
    &pass_dce,
    &pass_partition,   /* once all of the step is in the graph: forward, loss, backward and update by one mechanism */
    &pass_narrow_sums, /* before bucket-gradients: sums of one type travel together */
    &pass_bucket_gradients, /* before schedule, which decides when a bucket leaves */
    &pass_chunk_loss,       /* once each replica has its rows; before place-host, which places what it makes */
    &pass_place_host,       /* once every node has its device; before schedule, which orders the copies too */
    &pass_layout,           /* once it is known what the host computes */
    &pass_group_updates,    /* after layout, which goes by single parameters: one node for each device */
    &pass_fuse_product,     /* behind layout, which decides what lies by rows; takes epilogues before fuse-elementwise
                             * does */
    &pass_fuse_norm_grad,   /* behind fuse-product, which adds the gradient by a norm where it makes the other */
    &pass_fuse_conv,        /* behind layout and before fuse-elementwise, as fuse-product */
    &pass_fuse_max_pool,    /* behind layout, and once each node has its device; nobody else takes in MaxPool */
    &pass_fuse_batch_norm,  /* behind autodiff and partition; before fuse-elementwise, which would take ReluGrad */
    &pass_group_casts,      /* behind layout, which would make them rows and channels last one by one, and fuse-product,
                               which takes some */
    &pass_fuse_elementwise, /* behind autodiff and partition, which know operators; what the host computes stays
                             * apart */
    &pass_fuse_sums, /* behind fuse-elementwise, whose programs take sums in; behind fuse-product, which has first
                      * call */
    &pass_schedule,  /* the order of execution: nothing may be added behind it */
};
/* clang-format on */
const int pipeline_len = sizeof pipeline / sizeof *pipeline;

const Pass *const model_passes[] = {
    &pass_stop_gradient,   /* before others give values and readers other names */
    &pass_buffers,         /* likewise */
    &pass_head,            /* before untie and tie-twins, which have nothing to say of weights that are replaced */
    &pass_unmerge,         /* before untie: nodes that a simplifier made one of are several again, each with its own
                            * tensors */
    &pass_untie,           /* one tensor of the file may be several, each with its own readers */
    &pass_tie_twins,       /* behind untie, whose copies are no twins */
    &pass_refold,          /* behind tie-twins, which knows transposes by their numbers alone */
    &pass_integer_weights, /* behind all, which know tensors by their file */
    &pass_find_batch,      /* before rebatch, which takes what carries the batch to other sizes */
    &pass_rebatch,         /* last: no other pass needs to look through its nodes */
};
const int model_passes_len = sizeof model_passes / sizeof *model_passes;

static Status run_pass(Graph *g, const Pass *pass, PassCtx *ctx)
{
    Status st = pass->run(g, ctx);

    graph_begin_purpose(g, PHASE_NONE, NULL);
    TRY(st);
    TRY(g->status);
#ifndef NDEBUG
    if ((st = graph_verify(g)))
        return status_prefix(st, "after pass %s", pass->name);
#endif
    return ST_OK;
}

static bool applies(const Pass *pass, BuildMode mode) { return !pass->modes || (pass->modes >> mode & 1); }

/* One pass with a scratch arena of its own. */
static Status run_one(Graph *g, const Pass *pass, const BuildOptions *opt, Evaluator eval, Report *report,
                      Variants *variants)
{
    PassCtx ctx = {
        .scratch = arena_create_beside(g->arena), .opt = opt, .eval = eval, .report = report, .variants = variants
    };
    Stage stage = { .pass = pass->name };
    Status st;

    report_stage_begin(&stage, g);
    st = ctx.scratch ? run_pass(g, pass, &ctx) : FAIL_NOMEM();
    if (g->status == E_NOMEM && st != E_NOMEM) /* the pass's own status is not the cause */
        st = FAIL_NOMEM();
    rewrite_drop(g);
    stage.changed = ctx.n_changed;
    stage.scratch_bytes = ctx.scratch ? arena_bytes(ctx.scratch) : 0;
    arena_free(ctx.scratch);
    if (!st)
        st = report_stage_end(report, &stage, g);
    return st == E_NOMEM ? status_prefix(st, "pass %s", pass->name) : st;
}

Status model_repair(Graph *g, const BuildOptions *opt, Evaluator eval, Report *report)
{
    if (graph_is_step(g))
        return ST_OK;
    for (int i = 0; i < model_passes_len; i++)
        TRY(run_one(g, model_passes[i], opt, eval, report, NULL));
    return ST_OK;
}

Status model_find_batch(Graph *g, const BuildOptions *opt, Evaluator eval)
{
    return run_one(g, &pass_find_batch, opt, eval, NULL, NULL);
}

/* The index of the pass of this name, or of the K-th one for "NAME:K"; -1: there is none. */
static int find_pass(const char *name)
{
    const size_t len = strcspn(name, ":");
    int turn = name[len] ? name[len + 1] - '0' : 1;

    if (name[len] && (turn < 1 || turn > 9 || name[len + 2]))
        return -1;
    for (int i = 0; i < pipeline_len; i++)
        if (!strncmp(pipeline[i]->name, name, len) && !pipeline[i]->name[len] && !--turn)
            return i;
    return -1;
}

static Status pipeline_run_range(Graph *g, const BuildOptions *opt, Evaluator eval, Report *report, int from, int last,
                                 Variants *variants)
{
    Status st = ST_OK;

    for (int i = from; i <= last && !st; i++)
        if (applies(pipeline[i], build_mode(opt)))
            st = run_one(g, pipeline[i], opt, eval, report, variants);
    return st;
}

/* The graphs of other lengths, as far as partition, which takes them together. */
static Status build_variants(Variants *v, const BuildOptions *opt, Evaluator eval)
{
    for (int i = v ? v->n : 0; i-- > 0;) {
        const int last = find_pass(pass_partition.name) - 1;
        VariantOptions own;

        variant_options(&own, v, i, opt);
        TRY(variants_drop(v, i, pipeline_run_range(v->list[i].g, &own.build, eval, NULL, 0, last, NULL)));
    }
    return ST_OK;
}

Status pipeline_run(Graph *g, const BuildOptions *opt, Evaluator eval, Report *report, const PipelineOptions *how)
{
    const int from = how && how->after ? find_pass(how->after) + 1 : 0;
    const int last = how && how->until ? find_pass(how->until) : pipeline_len - 1;
    Variants *variants = NULL;
    Status st = ST_OK;

    if (last < 0 || (how && how->after && !from))
        return FAIL(E_INVALID, "there is no pass '%s' (graph-transform --list-passes lists them)",
                    last < 0 ? how->until : how->after);
    if (!from && last >= find_pass(pass_partition.name))
        st = variants_create(&variants, g, opt);
    if (!st)
        st = build_variants(variants, opt, eval);
    if (!st)
        st = pipeline_run_range(g, opt, eval, report, from, last, variants);
    variants_free(variants);
    return st ? st : graph_drop_values(g); /* before memory is planned, by tables that go by value id */
}
