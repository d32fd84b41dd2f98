/* wsd: warm-up, then the rate stays, then it decays in the last share of the run (Hu and others, "MiniCPM", 2024).  The
 * rates are those of get_wsd_schedule of the package transformers. */
#include <math.h>

#include "graph/recipes/schedule.h"

typedef enum { COSINE, LINEAR, ROOT } Shape;

typedef struct {
    double decay, final;
    Shape shape;
} Wsd;

static double wsd_factor(const void *settings, SchedulePoint at)
{
    const Wsd *s = settings;
    const double decay = s->decay * (double)at.span, into = (double)at.step - ((double)at.span - decay),
                 done = at.step >= at.span ? 1
                        : into > 0         ? into / decay
                                           : 0;
    const double left = s->shape == COSINE   ? 0.5 * (1 + cos(M_PI * done))
                        : s->shape == LINEAR ? 1 - done
                                             : 1 - sqrt(done);

    return s->final + (1 - s->final) * left;
}

static const Setting args[] = {
    { .name = "decay",
      .metavar = "DECAY",
      .fallback = "0.1",
      .help = "the share of the steps after the warm-up in which the rate decays",
      SETTING_OF(Wsd, decay),
      .min = 0,
      .above_min = true,
      .max = 1 },
    { .name = "shape",
      .metavar = "SHAPE",
      .fallback = "cosine",
      .help = "the curve of the decay: half a cosine, a line, or 1 minus a square root",
      SETTING_CHOICE_OF(Wsd, shape, "cosine|linear|1-sqrt") },
    FINAL_RATE(Wsd, final),
    { .name = NULL },
};

DEFINE_SCHEDULE(wsd,
                .recipe = { .name = "wsd",
                            .form = "wsd[:DECAY[:SHAPE[:FINAL]]]",
                            .help = "lr until the last share DECAY [0.1] of the steps, then down to FINAL [0] of lr; "
                                    "SHAPE cosine [default], linear or 1-sqrt",
                            .args = args,
                            RECIPE_SETTINGS(Wsd) },
                .ends = true, .factor = wsd_factor);
