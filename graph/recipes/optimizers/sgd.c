/* sgd: torch.optim's SGD, with momentum and Nesterov's momentum.
 *
 *   d = g + weight_decay w,  w' = w - lr d, or with momentum m' = momentum m + (1 - dampening) d,  w' = w - lr m', with
 *   Nesterov's w' = w - lr (d + momentum m')
 *
 * The first step has no dampening: m' = d. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/recipes/optimizer.h"

typedef struct {
    double momentum, dampening, weight_decay;
    bool nesterov;
} Sgd;

/* d (1 - dampening), in the first step d. */
static ValueId dampened(UpdateRule *f, double dampening, ValueId d)
{
    Graph *g = f->o->g;
    const ValueId first = EMIT(g, Equal, NULL, f->o->step, emit_scalar(g, DT_INT64, 0)),
                  one = emit_scalar(g, DT_FLOAT64, 1),
                  share = EMIT(g, Where, NULL, first, one, emit_scalar(g, DT_FLOAT64, 1 - dampening));

    return F(f, Mul, formula_scalar(f, share), d);
}

static void sgd_formula(UpdateRule *f, const void *settings)
{
    const Sgd *s = settings;
    const ValueId lr = formula_scalar(f, f->o->lr);
    ValueId step = formula_decayed(f, s->weight_decay);

    if (s->momentum > 0) {
        const ValueId d = step, m = formula_state(f, "momentum"), mu = formula_number(f, s->momentum);
        const ValueId kept = F(f, Mul, mu, m);
        const ValueId next = F(f, Add, kept, s->dampening > 0 ? dampened(f, s->dampening, d) : d);

        formula_next(f, m, next);
        step = s->nesterov ? F(f, Add, d, F(f, Mul, mu, next)) : next;
    }
    formula_next(f, f->w, F(f, Sub, f->w, F(f, Mul, lr, step)));
}

static Status sgd_check(const void *settings)
{
    const Sgd *s = settings;

    if (s->nesterov && (s->momentum == 0 || s->dampening > 0))
        return FAIL(E_INVALID, "--nesterov needs --momentum above 0 and no --dampening");
    return s->dampening > 0 && s->momentum == 0 ? FAIL(E_INVALID, "--dampening needs --momentum above 0") : ST_OK;
}

static const Setting flags[] = {
    FLAG_MOMENTUM(Sgd, momentum, "0.9"),
    { .name = "dampening",
      .metavar = "X",
      .fallback = "0",
      .help = "share of each gradient that momentum leaves out",
      SETTING_OF(Sgd, dampening),
      .min = 0,
      .max = 1 },
    { .name = "nesterov", .fallback = "false", .help = "Nesterov's momentum", SETTING_OF(Sgd, nesterov) },
    FLAG_WEIGHT_DECAY(Sgd, weight_decay, "0"),
    { .name = NULL },
};

DEFINE_OPTIMIZER(sgd,
                 .recipe = { .name = "sgd",
                             .help = "stochastic gradient descent",
                             .flags = flags,
                             RECIPE_SETTINGS(Sgd),
                             .check = sgd_check },
                 .formula = sgd_formula);
