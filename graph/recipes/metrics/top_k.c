/* top-k: the share of targets whose class is among the k largest scores; of equal scores the first count. */
#include "graph/ops/compare.gen.h"
#include "graph/ops/select.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/recipes/metric.h"

typedef struct {
    int64_t k;
    IgnoredClass ignored;
} TopK;

static void top_k_emit_metric(LossBody *b, const void *settings)
{
    const TopK *s = settings;
    Graph *g = b->g;
    const int64_t classes = value(g, b->y)->shape->dim[1], axis = 1;
    const Shape scalar = shape_scalar();
    ValueId best[2], counted = emit_counted(b, &s->ignored), target, hit;

    if (s->k > classes && !g->status)
        g->status =
            FAIL(E_INVALID, "--metric top-k:%lld: the scores have %lld classes", (long long)s->k, (long long)classes);
    EMIT_MULTI(g, TopK, ATTRS(INT("axis", 1)), 2, best, b->y, emit_ints(g, 1, &s->k));
    target = EMIT(g, Unsqueeze, NULL, b->target, emit_ints(g, 1, &axis));
    hit = EMIT(g, Equal, NULL, best[1], target);
    if (has_value(counted)) {
        hit = EMIT(g, And, NULL, hit, EMIT(g, Unsqueeze, NULL, counted, emit_ints(g, 1, &axis)));
        b->weight = emit_sum_to_shape(g, emit_cast(g, counted, DT_INT64), &scalar);
    }
    b->sum = emit_cast(g, hit, DT_INT64);
}

static const Setting args[] = {
    { .name = "k",
      .metavar = "K",
      .fallback = "5",
      .help = "how many scores",
      SETTING_OF(TopK, k),
      .min = 1,
      .max = SETTING_COUNT_MAX },
    { .name = NULL },
};
static const Setting flags[] = { IGNORE_INDEX(TopK, ignored), { .name = NULL } };

DEFINE_METRIC(top_k,
              .recipe = { .name = "top-k",
                          .form = "top-k[:K]",
                          .help = "the share of targets among the K [5] largest logits",
                          .args = args,
                          .flags = flags,
                          RECIPE_SETTINGS(TopK) },
              .target = TARGET_CLASSES, .emit = top_k_emit_metric);
