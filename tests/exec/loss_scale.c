/* Dynamic loss scaling against the algorithm written out: y = x w of four samples in float16, the mean of (y - t)^2,
 * SGD with momentum.  All numbers are short dyadic fractions, so what a step must leave is known to the bit, and a
 * gradient overflows where its value says so: 2 (y - t) scale / 4 of a single sample from 65520 on (IEEE 754 rounding
 * to float16).  On the CPU and on simulated CUDA devices, with one replica and with several, of which one alone meets
 * the overflow, and accumulated; and against what PyTorch's GradScaler did (torch_scaler.py). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/options.h"
#include "graph/ops/matmul.gen.h"
#include "exec/train/session.h"
#include "graph/ir/emit.h"
#include "tests/exec/torch_scaler.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"
#include "passes/options/types.h"
#include "passes/options/update.h"

enum { N = 4, STEPS = 12 };

typedef struct {
    const char *devices;
    int replicas, parts;
    double clip;
} Scaling; /* parts: micro-batches of a step */

/* ---- the algorithm ---- */

typedef struct {
    double w, m, scale, norm;
    int64_t good, updates;
    bool ok;
    LossScaleRule rule;
} Expected;

/* The step's error y - t of its one sample that has any. */
static const double error[STEPS] = { 4, 4, 4, -2, 0.5, 1, 1, -4, 0.25, 1, 128, 2 };
static const double lr = 0.25, momentum = 0.5;
static const char momentum_setting[] = "momentum=0.5";

/* `weight`: of a sample in the loss that is differentiated. */
static void expect_step(Expected *x, double e, double weight, double clip)
{
    double scaled = 2 * e * weight * x->scale, g = 2 * e / N;

    x->ok = fabs(scaled) < 65520;
    x->norm = fabs(g);
    if (!x->ok) {
        x->scale *= x->rule.backoff;
        x->good = 0;
        return;
    }
    if (clip > 0)
        g *= fmin(1, clip / (fabs(g) + 1e-6));
    x->m = (float)(momentum * x->m + (float)g);
    x->w = (float)(x->w - lr * x->m);
    x->updates++;
    if (++x->good == x->rule.interval) {
        x->scale *= x->rule.growth;
        x->good = 0;
    }
}

/* ---- the run ---- */

static Graph *model(void)
{
    Graph *g = graph_create("line");
    Shape xs = SHAPE(N, 1), ws = SHAPE(1, 1);
    float first = 0.5f;
    Tensor w = { DT_FLOAT32, ws, &first };
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &xs);

    graph_add_output(g, "y", EMIT(g, MatMul, NULL, x, graph_add_state(g, "w", &w, true)));
    CHECK_OK(g->status);
    return g;
}

static Status open_session(Session **s, const BuildOptions *opt, const char *devices)
{
    Graph *g = model();
    DeviceList list;
    Status st = device_list_parse(&list, devices, 1);

    if (!st)
        st = session_create(s, g, opt, &list, NULL, NULL);
    graph_free(g);
    return st;
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

static void check_number(const Scaling *how, int step, const char *what, double found, double expected, double within)
{
    if (!(fabs(found - expected) <= within * fabs(expected)))
        TEST_FAIL("%s, %d replicas, %d parts, step %d: %s is %.17g, expected %.17g", how->devices, how->replicas,
                  how->parts, step, what, found, expected);
}

static double rounded_to_half(double v)
{
    uint16_t bits;
    Tensor t = { DT_FLOAT16, shape_scalar(), &bits };

    tensor_set_float(&t, 0, v);
    return tensor_float(&t, 0);
}

/* Samples x = 1 whose targets are what w gives, but the (step mod N)-th, which is off by `e`. */
static Status run(Session *s, const Scaling *how, int step, double e, double w, const NamedTensor **out, int *n_out)
{
    const int n = N / how->parts;
    float x[N], t[N], rate = (float)lr;
    Shape data = SHAPE(n, 1);

    for (int i = 0; i < N; i++) {
        x[i] = 1;
        t[i] = (float)(rounded_to_half(w) - (i == step % N ? e : 0));
    }
    for (int p = 0; p < how->parts; p++) {
        NamedTensor in[] = { { "x", { DT_FLOAT32, data, x + p * n } },
                             { "target", { DT_FLOAT32, data, t + p * n } },
                             { IN_LR, { DT_FLOAT32, shape_scalar(), &rate } } };

        TRY(session_step(out, n_out, s, how->parts > 1 ? BUILD_ACCUMULATE : BUILD_TRAIN, in, 3));
    }
    return how->parts > 1 ? session_step(out, n_out, s, BUILD_APPLY,
                                         &(NamedTensor){ IN_LR, { DT_FLOAT32, shape_scalar(), &rate } }, 1)
                          : ST_OK;
}

static double output(const NamedTensor *out, int n, const char *name)
{
    const Tensor *t = named_find(out, n, name);

    if (!t)
        TEST_FAIL("there is no output '%s'", name);
    return t ? tensor_float(t, 0) : 0;
}

static void check_step(Session *s, const Scaling *how, int step, Expected *x)
{
    const double scale = x->scale, bound = how->clip > 0 ? 1e-6 : 0;
    const NamedTensor *out;
    int n;

    if (!CHECK_OK(run(s, how, step, error[step], x->w, &out, &n)))
        return;
    expect_step(x, error[step], how->parts > 1 ? 1 : 1.0 / N, how->clip);
    check_number(how, step, "the loss", output(out, n, OUT_LOSS), error[step] * error[step] / N, bound);
    check_number(how, step, "the scale used", output(out, n, OUT_LOSS_SCALE), scale, 0);
    check_number(how, step, "applied", output(out, n, OUT_APPLIED), x->ok, 0);
    if (how->clip > 0 && x->ok)
        check_number(how, step, "the norm", output(out, n, OUT_GRAD_NORM), x->norm, bound);
    check_number(how, step, "w", state(s, "w"), x->w, bound);
    check_number(how, step, "momentum", state(s, "w.momentum"), x->m, bound);
    check_number(how, step, "the scale", state(s, STATE_LOSS_SCALE), x->scale, 0);
    check_number(how, step, "good steps", state(s, STATE_GOOD_STEPS), (double)x->good, 0);
    check_number(how, step, "updates", state(s, STATE_STEP), (double)x->updates, 0);
    CHECK_OK(states_check_mirrors(session_states(s)));
}

static void check_setting(const Scaling *how)
{
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = momentum_setting },
                               .replicas = &(ReplicaOptions){ .replicas = how->replicas },
                               .types = &(TypeOptions){ .precision = DT_FLOAT16, .loss_scaling = SCALE_DYNAMIC },
                               .update = &(UpdateOptions){ .clip.norm = how->clip } };
    Expected x = { .w = 0.5, .scale = 65536, .rule = { 65536, 2, 0.5, 2000 } };
    int skipped = 0, grown = 0;
    Session *s = NULL;

    if (CHECK_OK(open_session(&s, &opt, how->devices)))
        for (int step = 0; step < STEPS; step++) {
            double before = x.scale;

            if (step == 5) { /* two good steps before the scale grows */
                x.good = 1998;
                CHECK_OK(
                    states_set(session_states(s), STATE_GOOD_STEPS, &(Tensor){ DT_INT64, shape_scalar(), &x.good }));
            }
            check_step(s, how, step, &x);
            skipped += !x.ok;
            grown += x.scale > before;
            if (how->clip > 0)
                x.w = state(s, "w"), x.m = state(s, "w.momentum"); /* rounding does not add up */
        }
    if (!(skipped >= 3 && skipped < STEPS / 2 && grown == 1))
        TEST_FAIL("%s: %d of %d steps skipped, the scale grew %d times: the test tests too little", how->devices,
                  skipped, STEPS, grown);
    session_free(s);
}

/* A rule of the user's own: dynamic:FIRST:GROWTH:BACKOFF:INTERVAL. */
static void check_rule(const char *text, const LossScaleRule *rule)
{
    Scaling how = { "cpu*2", 3, 1, 0 };
    Expected x = { .w = 0.5, .scale = rule->first, .rule = *rule };
    Options *o = options_create();
    int skipped = 0, grown = 0;
    Session *s = NULL;

    CHECK_OK(options_set(o, "precision", "float16"));
    CHECK_OK(options_set(o, "loss-scale", text));
    o->build.recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = momentum_setting };
    o->build.replicas = &(ReplicaOptions){ .replicas = how.replicas };
    if (CHECK_OK(open_session(&s, &o->build, how.devices)))
        for (int step = 0; step < STEPS; step++) {
            double before = x.scale;

            check_step(s, &how, step, &x);
            skipped += !x.ok;
            grown += x.scale > before;
        }
    CU_ASSERT(skipped >= 2 && grown >= 2);
    session_free(s);
    options_free(o);
}

static void test_rule(void)
{
    check_rule("dynamic:262144:8:0.25:2", &(LossScaleRule){ 262144, 8, 0.25, 2 });
    check_rule("dynamic:4096:16:0.125:1", &(LossScaleRule){ 4096, 16, 0.125, 1 });
}

/* ---- PyTorch ---- */

static void set_scale(Session *s, double scale, double good)
{
    float to = (float)scale;
    int64_t count = (int64_t)good;

    CHECK_OK(states_set(session_states(s), STATE_LOSS_SCALE, &(Tensor){ DT_FLOAT32, shape_scalar(), &to }));
    CHECK_OK(states_set(session_states(s), STATE_GOOD_STEPS, &(Tensor){ DT_INT64, shape_scalar(), &count }));
}

/* All numbers to the bit: rates and scales are powers of two, so every operation of the update rounds once in both. */
static void check_torch(const char *devices, int replicas)
{
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = momentum_setting },
                               .replicas = &(ReplicaOptions){ .replicas = replicas },
                               .types = &(TypeOptions){ .precision = DT_FLOAT16, .loss_scaling = SCALE_DYNAMIC } };
    const Scaling how = { devices, replicas, 1, 0 };
    const int steps = (int)(sizeof torch_scaler / sizeof *torch_scaler);
    int skipped = 0, grown = 0, n;
    const NamedTensor *out;
    Session *s = NULL;
    double w = 0.5;

    if (CHECK_OK(open_session(&s, &opt, devices)))
        for (int i = 0; i < steps; i++) {
            if (torch_scaler[i].scale != 0)
                set_scale(s, torch_scaler[i].scale, torch_scaler[i].good);
            if (!CHECK_OK(run(s, &how, i, torch_scaler[i].error, w, &out, &n)))
                break;
            check_number(&how, i, "the scale used", output(out, n, OUT_LOSS_SCALE), torch_scaler[i].used, 0);
            check_number(&how, i, "applied", output(out, n, OUT_APPLIED), torch_scaler[i].applied, 0);
            w = state(s, "w");
            check_number(&how, i, "w", w, torch_scaler[i].w, 0);
            check_number(&how, i, "momentum", state(s, "w.momentum"), torch_scaler[i].momentum, 0);
            check_number(&how, i, "the scale", state(s, STATE_LOSS_SCALE), torch_scaler[i].next_scale, 0);
            check_number(&how, i, "good steps", state(s, STATE_GOOD_STEPS), torch_scaler[i].next_good, 0);
            skipped += output(out, n, OUT_APPLIED) == 0;
            grown += state(s, STATE_LOSS_SCALE) > torch_scaler[i].used;
        }
    CU_ASSERT(skipped == TORCH_SKIPPED && grown == TORCH_GROWN && skipped > 5 && grown > 2);
    session_free(s);
}

static void test_torch(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", BUILD_DIR "/libdpexec_cudasim.so", 0);
    check_torch("cpu", 1);
    check_torch("cpu*2", 3);
    check_torch("cuda", 1);
    check_torch("cuda*2", 2);
}

static void test_cpu(void)
{
    check_setting(&(Scaling){ "cpu", 1, 1, 0 });
    check_setting(&(Scaling){ "cpu", 3, 1, 0 });
    check_setting(&(Scaling){ "cpu*2", 4, 1, 0 });
    check_setting(&(Scaling){ "cpu*2", 2, 2, 0 });
    check_setting(&(Scaling){ "cpu*3", 3, 1, 0.125 });
}

static void test_cuda(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", BUILD_DIR "/libdpexec_cudasim.so", 0);
    check_setting(&(Scaling){ "cuda", 1, 1, 0 });
    check_setting(&(Scaling){ "cuda*2", 3, 1, 0 });
    check_setting(&(Scaling){ "cuda*2", 2, 2, 0 });
    check_setting(&(Scaling){ "cuda*2", 2, 1, 0.125 });
}

/* A fixed scale of a power of two changes no bit where nothing overflows or falls below float16's range. */
static void test_fixed(void)
{
    const double scale[] = { 1, 4096 };
    double w[2] = { 0 };

    for (int k = 0; k < 2; k++) {
        const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = momentum_setting },
                                   .types = &(TypeOptions){
                                       .precision = DT_FLOAT16, .loss_scaling = SCALE_FIXED, .loss_scale = scale[k] } };
        const Scaling how = { "cpu", 1, 1, 0 };
        const NamedTensor *out;
        Session *s = NULL;
        int n;

        if (CHECK_OK(open_session(&s, &opt, "cpu")) && CHECK_OK(run(s, &how, 4, error[4], 0.5, &out, &n)) &&
            CHECK_OK(run(s, &how, 5, error[5], 0.5, &out, &n))) {
            w[k] = state(s, "w");
            check_number(&how, 5, "applied", output(out, n, OUT_APPLIED), 1, 0);
            CU_ASSERT_PTR_NULL(states_find(session_states(s), STATE_LOSS_SCALE));
        }
        session_free(s);
    }
    CU_ASSERT(w[0] != 0.5 && w[0] == w[1]);
}

/* A fixed scale stays, and a step that overflows at it leaves no trace: of errors 4 and 1, 2 * 4 * 32768 / 4 does. */
static void test_fixed_skips(void)
{
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = momentum_setting },
                               .replicas = &(ReplicaOptions){ .replicas = 3 },
                               .types = &(TypeOptions){
                                   .precision = DT_FLOAT16, .loss_scaling = SCALE_FIXED, .loss_scale = 32768 } };
    const Scaling how = { "cpu*2", 3, 1, 0 };
    const double of[] = { 1, 4, -1, -4, 2 };
    Expected x = { .w = 0.5, .scale = 32768, .rule = { 32768, 1, 1, 2000 } };
    const NamedTensor *out;
    Session *s = NULL;
    int n, skipped = 0;

    if (CHECK_OK(open_session(&s, &opt, how.devices)))
        for (int i = 0; i < 5 && CHECK_OK(run(s, &how, i, of[i], x.w, &out, &n)); i++) {
            expect_step(&x, of[i], 1.0 / N, 0);
            skipped += !x.ok;
            check_number(&how, i, "applied", output(out, n, OUT_APPLIED), x.ok, 0);
            check_number(&how, i, "w", state(s, "w"), x.w, 0);
            check_number(&how, i, "momentum", state(s, "w.momentum"), x.m, 0);
            check_number(&how, i, "updates", state(s, STATE_STEP), (double)x.updates, 0);
        }
    CU_ASSERT(skipped == 2);
    session_free(s);
}

/* A gradient that is no number skips the step as one that overflows does, whichever replica has it, and by a fixed
 * scale too; losses and steps behind it are as if it had not been. */
static void check_not_a_number(const char *devices, int replicas, LossScaling scaling)
{
    const BuildOptions opt = { .recipes = &(RecipeOptions){ .loss = &loss_mse, .settings = momentum_setting },
                               .replicas = &(ReplicaOptions){ .replicas = replicas },
                               .types = &(TypeOptions){
                                   .precision = DT_FLOAT16, .loss_scaling = scaling, .loss_scale = 1024 } };
    const Scaling how = { devices, replicas, 1, 0 };
    Expected x = { .w = 0.5, .scale = scaling == SCALE_DYNAMIC ? 65536 : 1024, .rule = { 65536, 2, 0.5, 2000 } };
    const NamedTensor *out;
    Session *s = NULL;
    int n;

    if (CHECK_OK(open_session(&s, &opt, devices)))
        for (int i = 0; i < 2 * N; i++) { /* every sample once, and so every replica that has one */
            const double e = i % 2 ? NAN : 0.25, scale = x.scale;

            if (!CHECK_OK(run(s, &how, i, e, x.w, &out, &n)))
                break;
            expect_step(&x, e, 1.0 / N, 0);
            CU_ASSERT(x.ok == !(i % 2) && isnan(output(out, n, OUT_LOSS)) == !x.ok);
            x.scale = scaling == SCALE_DYNAMIC ? x.scale : scale;
            check_number(&how, i, "applied", output(out, n, OUT_APPLIED), x.ok, 0);
            check_number(&how, i, "w", state(s, "w"), x.w, 0);
            check_number(&how, i, "momentum", state(s, "w.momentum"), x.m, 0);
            if (scaling == SCALE_DYNAMIC)
                check_number(&how, i, "the scale", state(s, STATE_LOSS_SCALE), x.scale, 0);
        }
    session_free(s);
}

static void test_not_a_number(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", BUILD_DIR "/libdpexec_cudasim.so", 0);
    check_not_a_number("cpu", 1, SCALE_DYNAMIC);
    check_not_a_number("cpu*2", 4, SCALE_DYNAMIC);
    check_not_a_number("cpu*2", 3, SCALE_FIXED);
    check_not_a_number("cuda*2", 2, SCALE_DYNAMIC);
}

DEFINE_SUITE(loss_scale, { "on simulated CUDA devices", test_cuda }, { "as the algorithm says", test_cpu },
             { "as PyTorch's GradScaler", test_torch }, { "a rule of one's own", test_rule }, { "fixed", test_fixed },
             { "not a number", test_not_a_number }, { "fixed, and steps that are skipped", test_fixed_skips });
