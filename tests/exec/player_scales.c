/* Loss scales of players that take turns, against the algorithm written out.  y = x a and z = x b + y in float16;
 * player A makes the mean of (y - t)^2 small by a, then B that of (z - u)^2 by b, with a as A has left it; SGD.  All
 * numbers are short dyadic fractions, so what a step leaves is known to the bit, and a gradient overflows where its
 * value says so: 2 (y - t) scale / 4 of a single sample from 65520 on (IEEE 754 rounding to float16).  What one player
 * overflows by changes nothing of the other: each has its own scale, counts of its own, and skips its own updates
 * alone.  On CPU and simulated CUDA devices, of one batch a step and of two, whose second sees what A became. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/session.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ir/emit.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"
#include "passes/options/types.h"
#include "passes/options/update.h"

enum { N = 4, STEPS = 12, A = 0, B = 1, PLAYERS = 2 };

typedef struct {
    const char *devices;
    int replicas, parts; /* micro-batches of a step */
    bool dynamic;
} How;

/* What each player's only wrong sample of the step is off by. */
static const double error[STEPS][PLAYERS] = { { 1, 64 },  { 64, 1 }, { 0.5, 32 }, { 1, -32 }, { -1, 0.5 },   { 2, 1 },
                                              { 32, 32 }, { -1, 2 }, { 0.5, -1 }, { 64, 0 },  { -0.5, 0.5 }, { 1, 1 } };
static const LossScaleRule rule = { 8192, 2, 0.5, 2 };
static const double lr = 0.25;

typedef struct {
    double w, scale;
    int64_t good, updates;
    bool ok;
    int skipped, grown;
} Expected;

/* `weight`: of a sample in the loss that is differentiated. */
static void expect(Expected *x, double e, double weight, bool dynamic)
{
    x->ok = fabs(2 * e * weight * x->scale) < 65520;
    x->skipped += !x->ok;
    if (x->ok) {
        x->w -= lr * 2 * e / N;
        x->updates++;
    }
    if (!dynamic)
        return;
    x->good = x->ok ? x->good + 1 : 0;
    x->scale *= x->ok ? 1 : rule.backoff;
    if (x->good == rule.interval) {
        x->scale *= rule.growth;
        x->good = 0;
        x->grown++;
    }
}

/* ---- the run ---- */

static ValueId mean_square(Graph *g, ValueId y, ValueId target)
{
    const ValueId e = EMIT(g, Sub, NULL, y, target), axes = emit_ints(g, 2, (const int64_t[]){ 0, 1 });

    return emit(g, &op_ReduceMean, ATTRS(INT("keepdims", 0)), 2, (const ValueId[]){ EMIT(g, Mul, NULL, e, e), axes });
}

static Graph *model(void)
{
    Graph *g = graph_create("players");
    Shape xs = SHAPE(N, 1), ws = SHAPE(1, 1);
    float first[PLAYERS] = { 0.5f, -1 };
    const Tensor a = { DT_FLOAT32, ws, &first[A] }, b = { DT_FLOAT32, ws, &first[B] };
    const ValueId x = graph_add_input(g, "x", DT_FLOAT32, &xs), t = graph_add_input(g, "t", DT_FLOAT32, &xs),
                  u = graph_add_input(g, "u", DT_FLOAT32, &xs);
    const ValueId y = EMIT(g, MatMul, NULL, x, graph_add_state(g, "a", &a, true)),
                  z = EMIT(g, Add, NULL, EMIT(g, MatMul, NULL, x, graph_add_state(g, "b", &b, true)), y);

    graph_add_output(g, "a_loss", mean_square(g, y, t));
    graph_add_output(g, "b_loss", mean_square(g, z, u));
    CHECK_OK(g->status);
    return g;
}

static double state(Session *s, const char *name)
{
    int64_t room = 0;
    const State *st = states_find(session_states(s), name);
    Tensor t = { st ? st->dtype : DT_NONE, st ? st->shape : shape_scalar(), &room };

    if (!st || tensor_numel(&t) != 1 || !CHECK_OK(states_get(session_states(s), name, &t)))
        TEST_FAIL("no state '%s' of one number", name);
    return st ? tensor_float(&t, 0) : 0;
}

static double output(const NamedTensor *out, int n, const char *name)
{
    const Tensor *t = named_find(out, n, name);

    if (!t)
        TEST_FAIL("there is no output '%s'", name);
    return t ? tensor_float(t, 0) : 0;
}

/* The targets are what a and b give, but one's of each player: B's of the last micro-batch what it gives with a_next.
 */
static Status run(Session *s, const How *how, int step, double a, double a_next, double b, const NamedTensor **out,
                  int *n_out)
{
    const int n = N / how->parts;
    float x[N], t[N], u[N], rate = (float)lr;
    Shape data = SHAPE(n, 1);

    for (int i = 0; i < N; i++) {
        const bool last = i >= N - n, wrong = i == step % N;

        x[i] = 1;
        t[i] = (float)(a - (wrong ? error[step][A] : 0));
        u[i] = (float)(b + (last ? a_next : a) - (wrong ? error[step][B] : 0));
    }
    for (int p = 0; p < how->parts; p++) {
        const NamedTensor in[] = { { "x", { DT_FLOAT32, data, x + p * n } },
                                   { "t", { DT_FLOAT32, data, t + p * n } },
                                   { "u", { DT_FLOAT32, data, u + p * n } },
                                   { IN_LR, { DT_FLOAT32, shape_scalar(), &rate } },
                                   { IN_LR ".1", { DT_FLOAT32, shape_scalar(), &rate } },
                                   { IN_LR ".2", { DT_FLOAT32, shape_scalar(), &rate } } };
        const BuildMode mode = how->parts == 1 ? BUILD_TRAIN : p + 1 == how->parts ? BUILD_FINISH : BUILD_ACCUMULATE;

        TRY(session_step(out, n_out, s, mode, in, mode == BUILD_ACCUMULATE ? 3 : 6));
    }
    return ST_OK;
}

static void check_number(const How *how, int step, int player, const char *what, double found, double expected)
{
    if (found != expected)
        TEST_FAIL("%s, %d replicas, %d parts, step %d: %s of %c is %.17g, expected %.17g", how->devices, how->replicas,
                  how->parts, step, what, "AB"[player], found, expected);
}

static void check_player(Session *s, const How *how, int step, int player, double scale, const Expected *x,
                         const NamedTensor *out, int n)
{
    const char *const weight[] = { "a", "b" }, *const loss[] = { OUT_LOG_PREFIX "a_loss", OUT_LOG_PREFIX "b_loss" };
    const char *const steps[] = { STATE_STEP ".1", STATE_STEP ".2" };
    const char *const scales[] = { STATE_LOSS_SCALE ".1", STATE_LOSS_SCALE ".2" };
    const char *const good[] = { STATE_GOOD_STEPS ".1", STATE_GOOD_STEPS ".2" };
    const char *const used[] = { OUT_LOSS_SCALE ".1", OUT_LOSS_SCALE ".2" };
    const char *const applied[] = { OUT_APPLIED ".1", OUT_APPLIED ".2" };

    check_number(how, step, player, "the loss", output(out, n, loss[player]),
                 error[step][player] * error[step][player]);
    check_number(how, step, player, "applied", output(out, n, applied[player]), x->ok);
    check_number(how, step, player, "the parameter", state(s, weight[player]), x->w);
    check_number(how, step, player, "updates", state(s, steps[player]), (double)x->updates);
    if (!how->dynamic)
        return;
    check_number(how, step, player, "the scale used", output(out, n, used[player]), scale);
    check_number(how, step, player, "the scale", state(s, scales[player]), x->scale);
    check_number(how, step, player, "good steps", state(s, good[player]), (double)x->good);
}

/* Does one player alone skip it? */
static bool check_step(Session *s, const How *how, int step, Expected *x)
{
    const double a = x[A].w, b = x[B].w, scale[] = { x[A].scale, x[B].scale };
    const NamedTensor *out;
    int n;

    for (int player = 0; player < PLAYERS; player++)
        expect(&x[player], error[step][player], how->parts > 1 ? 1 : 1.0 / N, how->dynamic);
    if (!CHECK_OK(run(s, how, step, a, x[A].w, b, &out, &n)))
        return false;
    for (int player = 0; player < PLAYERS; player++)
        check_player(s, how, step, player, scale[player], &x[player], out, n);
    CHECK_OK(states_check_mirrors(session_states(s)));
    return x[A].ok != x[B].ok;
}

static void check(const How *how)
{
    const UpdateGroup group[] = {
        { .pattern = "a", .optimizer = &optimizer_sgd, .settings = "momentum=0", .loss = "a_loss" },
        { .pattern = "b", .optimizer = &optimizer_sgd, .settings = "momentum=0", .loss = "b_loss" }
    };
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_outputs, .settings = "momentum=0" },
                               .update = &(UpdateOptions){ .group = group, .n_group = PLAYERS, .turns = true },
                               .replicas = &(ReplicaOptions){ .replicas = how->replicas },
                               .types = &(TypeOptions){ .precision = DT_FLOAT16,
                                                        .loss_scaling = how->dynamic ? SCALE_DYNAMIC : SCALE_FIXED,
                                                        .loss_scale = 4096,
                                                        .scale_rule = rule } };
    const double first = how->dynamic ? rule.first : type_options(&opt)->loss_scale;
    Expected x[PLAYERS] = { { .w = 0.5, .scale = first }, { .w = -1, .scale = first } };
    Graph *g = model();
    Session *s = NULL;
    DeviceList list;
    int apart = 0;

    if (CHECK_OK(device_list_parse(&list, how->devices, 1)) && CHECK_OK(session_create(&s, g, &opt, &list, NULL, NULL)))
        for (int step = 0; step < STEPS; step++)
            apart += check_step(s, how, step, x);
    CU_ASSERT(x[A].skipped > 1 && x[B].skipped > 1 && x[A].updates > 4 && x[B].updates > 4 && apart > 2);
    CU_ASSERT(!how->dynamic || (x[A].grown > 1 && x[B].grown > 1 && x[A].scale != x[B].scale));
    session_free(s);
    graph_free(g);
}

static void test_cpu(void)
{
    check(&(How){ "cpu", 1, 1, true });
    check(&(How){ "cpu*2", 3, 1, true });
    check(&(How){ "cpu", 5, 1, true });
    check(&(How){ "cpu*2", 2, 2, true });
    check(&(How){ "cpu", 3, 4, true });
}

static void test_fixed(void)
{
    check(&(How){ "cpu", 1, 1, false });
    check(&(How){ "cpu*2", 3, 1, false });
    check(&(How){ "cpu*2", 2, 2, false });
}

static void test_cuda(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", BUILD_DIR "/libdpexec_cudasim.so", 0);
    check(&(How){ "cuda", 1, 1, true });
    check(&(How){ "cuda*2", 3, 1, true });
    check(&(How){ "cuda*2", 2, 2, true });
    check(&(How){ "cuda*2", 2, 2, false });
}

DEFINE_SUITE(player_scales, { "dynamic", test_cpu }, { "fixed", test_fixed },
             { "on simulated CUDA devices", test_cuda });
