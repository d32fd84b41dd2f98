/* scale_loss: multiplies the loss by a scale before it is differentiated, so that gradients too small for float16 are
 * not lost.
 *
 * passes/train/autodiff.c differentiates the output "scaled_loss"; passes/train/add_optimizer.c divides the gradients,
 * float32 by then, by the scale again.  Loss, its sums and the metric stay as they are.  A fixed scale is a constant. A
 * dynamic one is a state that goes as high as the gradients allow (Micikevicius et al. 2018, section 3.2): it grows
 * after LossScaleRule.interval steps with finite gradients, and falls when one is not finite; that step changes nothing
 * else.  Players that take turns have a scale each.  By the usual rule it is always a power of two, so that scaling by
 * it rounds nothing; other rules and a fixed scale may round. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "passes/options/types.h"
#include "passes/options/update.h"
#include "passes/pass.h"
#include "passes/update_groups.h"

LossScaleRule loss_scale_rule(const BuildOptions *opt)
{
    static const LossScaleRule usual = { .first = 65536, .growth = 2, .backoff = 0.5, .interval = 2000 };
    const TypeOptions *types = type_options(opt);

    return types->scale_rule.interval ? types->scale_rule : usual;
}

static ValueId add_scale(Graph *g, const BuildOptions *opt, DType dtype, int player)
{
    const TypeOptions *types = type_options(opt);
    char name[GROUP_NAME];
    float number = (float)loss_scale_rule(opt).first;
    const Tensor first = { DT_FLOAT32, shape_scalar(), &number };
    ValueId v;

    if (types->loss_scaling == SCALE_FIXED)
        return emit_scalar(g, dtype, types->loss_scale);
    v = graph_add_state(g, group_name(name, STATE_LOSS_SCALE, player), &first, false);
    if (!g->status && strcmp(value(g, v)->name, name))
        g->status = FAIL(E_MODEL, "the model has a value of its own named '%s'", name);
    return emit_cast(g, v, dtype);
}

/* Scales the loss of group k in its output, which only autodiff reads. */
static Status scale_own_loss(Graph *g, const BuildOptions *opt, int k, ValueId scale)
{
    const char *name = arena_printf(g->arena, OUT_OWN_LOSS_PREFIX "%s", update_options(opt)->group[k - 1].loss);

    if (!name)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output && !g->status; i++)
        if (!strcmp(g->output[i].name, name))
            g->output[i].value = EMIT(g, Mul, NULL, g->output[i].value, scale);
    return g->status;
}

static Status scale_loss_run(Graph *g, PassCtx *ctx)
{
    const BuildOptions *opt = ctx->opt;
    const UpdateOptions *updates = update_options(opt);
    const ValueId loss = graph_output(g, build_mode(opt) == BUILD_TRAIN ? OUT_LOSS : OUT_LOSS_SUM);
    ValueId scale = NO_VALUE; /* shared, unless there are players */

    if (type_options(opt)->loss_scaling == SCALE_NONE)
        return ST_OK;
    if (!has_value(loss))
        return FAIL(E_INVALID, "training needs a loss: give --loss");
    graph_begin_purpose(g, PHASE_CRITERION, "scaled loss");
    if (!updates->turns) {
        scale = add_scale(g, opt, value(g, loss)->dtype, 0);
        graph_add_output(g, OUT_SCALED_LOSS, EMIT(g, Mul, NULL, loss, scale));
    }
    for (int k = 1; k <= updates->n_group; k++)
        if (update_group_loss(opt, k) == k) {
            const ValueId own = updates->turns ? add_scale(g, opt, value(g, loss)->dtype, k) : scale;

            TRY(g->status);
            TRY(scale_own_loss(g, opt, k, own));
        }
    ctx->n_changed++;
    return g->status;
}

const Pass pass_scale_loss = { .name = "scale-loss",
                               .summary = "scale the loss for gradients in float16",
                               .modes = MODES_TRAIN,
                               .run = scale_loss_run };
