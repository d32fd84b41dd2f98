/* scale_loss: multiplies the loss by a scale before it is differentiated, so that gradients too small for float16 are
 * not lost.
 *
 * The output "scaled_loss" is what passes/train/autodiff.c differentiates; passes/train/add_optimizer.c divides the
 * gradients, float32 by then, by the scale again.  Loss, its sums and the metric stay as they are.  A fixed scale is a
 * constant. A dynamic one is a state that goes as high as the gradients allow (Micikevicius et al. 2018, section 3.2):
 * it grows after so many steps whose gradients were finite and falls when one is not, and that step changes nothing
 * else (LossScaleRule).  By the usual rule it is always a power of two, so that scaling by it rounds nothing; other
 * rules and a fixed scale are what was asked for. */
#include <string.h>

#include "graph/emit.h"
#include "passes/pass.h"

LossScaleRule loss_scale_rule(const BuildOptions *opt)
{
    static const LossScaleRule usual = { .first = 65536, .growth = 2, .backoff = 0.5, .interval = 2000 };

    return opt->scale_rule.interval ? opt->scale_rule : usual;
}

static ValueId add_scale(Graph *g, const BuildOptions *opt, DType dtype)
{
    float number = (float)loss_scale_rule(opt).first;
    const Tensor first = { DT_FLOAT32, shape_scalar(), &number };
    ValueId v;

    if (opt->loss_scaling == SCALE_FIXED)
        return emit_scalar(g, dtype, opt->loss_scale);
    v = graph_add_state(g, STATE_LOSS_SCALE, &first, false);
    if (!g->status && strcmp(value(g, v)->name, STATE_LOSS_SCALE))
        g->status = FAIL(E_MODEL, "the model has a value of its own named '%s'", STATE_LOSS_SCALE);
    return emit_cast(g, v, dtype);
}

/* The losses of groups are scaled where they stand: nothing but autodiff reads them. */
static void scale_own_losses(Graph *g, ValueId scale)
{
    for (int i = 0; i < g->n_output && !g->status; i++)
        if (!strncmp(g->output[i].name, OUT_OWN_LOSS_PREFIX, strlen(OUT_OWN_LOSS_PREFIX)))
            g->output[i].value = EMIT(g, Mul, NULL, g->output[i].value, scale);
}

static Status run(Graph *g, PassCtx *ctx)
{
    const BuildOptions *opt = ctx->opt;
    ValueId scale, loss = graph_output(g, opt->mode == BUILD_TRAIN ? OUT_LOSS : OUT_LOSS_SUM);

    if (opt->loss_scaling == SCALE_NONE)
        return ST_OK;
    if (!has_value(loss))
        return FAIL(E_INVALID, "training needs a loss: give --loss");
    graph_begin_purpose(g, PHASE_CRITERION, "scaled loss");
    scale = add_scale(g, opt, value(g, loss)->dtype);
    graph_add_output(g, OUT_SCALED_LOSS, EMIT(g, Mul, NULL, loss, scale));
    scale_own_losses(g, scale);
    ctx->n_changed++;
    return g->status;
}

const Pass pass_scale_loss = { .name = "scale-loss",
                               .summary = "scale the loss for gradients in float16",
                               .modes = 1u << BUILD_TRAIN | 1u << BUILD_ACCUMULATE | 1u << BUILD_APPLY,
                               .run = run };
