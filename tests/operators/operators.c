/* Operators that an embedder brings: a model of theirs trains as the same model in ONNX's operators does, on any number
 * of replicas, with gradients that are kernels or nodes; what they get wrong is told in one line; impure ones are
 * computed whatever reads them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/operators/bench.h"

enum { STEPS = 3 };

/* ---- training ---- */

typedef struct {
    double weight[WIDTH * CLASSES], gain[CLASSES], loss;
} Trained;

static bool train(Trained *out, const char *model, const char *const *settings, dpx_operators *set, int samples)
{
    dpx_tensor weight = { "weight", DPX_FLOAT64, 2, { WIDTH, CLASSES }, out->weight },
               gain = { "gain", DPX_FLOAT64, 1, { CLASSES }, out->gain };
    dpx_trainer *t = NULL;
    dpx_result r = { 0 };
    bool good = CHECK_DPX(own_trainer(&t, model, settings, set));

    for (int i = 0; good && i < STEPS; i++)
        good = CHECK_DPX(bench_step(t, samples, &r));
    good = good && CHECK_DPX(dpx_trainer_get_state(t, "weight", &weight)) &&
           CHECK_DPX(dpx_trainer_get_state(t, "gain", &gain));
    out->loss = r.loss;
    dpx_trainer_free(t);
    return good;
}

static double difference(const Trained *a, const Trained *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    double worst = 0;

    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        worst = fmax(worst, fabs(x[i] - y[i]) / fmax(1, fabs(y[i])));
    return worst;
}

/* Parts of all sizes, empty ones among them; gradients as kernels and as nodes. */
static void test_same_as_known(void)
{
    static const char *const one[] = { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", NULL };
    static const char *const many[][7] = {
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", NULL },
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", "devices=cpu*2", NULL },
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", "devices=cpu*2", "replicas=5", NULL },
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", "devices=cpu*3", "split=1,0,2", NULL },
    };

    for (int samples = 2; samples <= MOST; samples += 9)
        for (size_t i = 0; i < 2 * sizeof many / sizeof *many; i++) {
            Bench b = { .nodes = i % 2 };
            Trained known, own;

            if (!train(&known, "known", one, NULL, samples) ||
                !train(&own, "own", many[i / 2], bench_operators(&b, true), samples))
                return;
            if (!(difference(&own, &known) <= 1e-12))
                TEST_FAIL("%d samples, case %zu: %g", samples, i, difference(&own, &known));
            CU_ASSERT_EQUAL(b.destroyed, 4); /* with the last that held the set */
        }
}

/* What is brought is taken instead of a function of the file, which is taken where nothing is brought. */
static void test_function(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", NULL };
    Bench b = { 0 };
    Trained known, own, thrice;

    if (!train(&known, "known", settings, NULL, 6) || !train(&thrice, "function", settings, NULL, 6) ||
        !train(&own, "function", settings, bench_operators(&b, true), 6))
        return;
    CU_ASSERT(difference(&own, &known) <= 1e-12);
    CU_ASSERT(difference(&thrice, &known) > 1e-3);
}

/* Two sets with operators of the same names, each of its own model's: there is no registry of the process. */
static void test_apart(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    Bench b[2] = { { 0 }, { 0 } };
    dpx_trainer *t[2] = { NULL };
    dpx_result r;

    for (int i = 0; i < 2; i++)
        if (!CHECK_DPX(own_trainer(&t[i], "own", settings, bench_operators(&b[i], true))))
            return;
    CHECK_DPX(bench_step(t[1], 6, &r));
    CU_ASSERT(b[0].taps == 0 && b[1].taps == 2);
    CHECK_DPX(bench_step(t[0], 6, &r));
    CU_ASSERT(b[0].taps == 2 && b[1].taps == 2);
    dpx_trainer_free(t[0]);
    CU_ASSERT(b[0].destroyed == 4 && b[1].destroyed == 0);
    CHECK_DPX(bench_step(t[1], 6, &r));
    dpx_trainer_free(t[1]);
    CU_ASSERT_EQUAL(b[1].destroyed, 4);
}

/* Two nodes that are alike and that nobody reads, each computed for every replica in every step. */
static void test_impure(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "devices=cpu*2",
                                            "replicas=3",         "threads=1",     NULL };
    Bench b = { 0 };
    Trained out;

    if (train(&out, "own", settings, bench_operators(&b, true), 6))
        CU_ASSERT_EQUAL(b.taps, 2 * 3 * STEPS);
}

/* What is pure and reads constants is evaluated once, beforehand; what is impure is so in every step, however alike two
 * are: on each replica, or where nothing of the batch is read on each device. */
static void test_constants(void)
{
    enum { per_step = 2 * 2 + 3 };
    static const char *const settings[] = {
        "loss=cross-entropy", "dtype=float64", "devices=cpu*2", "replicas=3", "threads=1", "freeze=offset", NULL
    };
    Bench b = { 0 };
    dpx_trainer *t = NULL;
    dpx_result r;
    int before;

    if (!CHECK_DPX(own_trainer(&t, "impure", settings, bench_operators(&b, true))))
        return;
    CU_ASSERT_EQUAL(b.taps, 0);
    CHECK_DPX(bench_step(t, 6, &r));
    before = b.twices;
    CU_ASSERT(before > 0);
    CU_ASSERT_EQUAL(b.taps, per_step);
    CHECK_DPX(bench_step(t, 6, &r));
    CHECK_DPX(bench_step(t, 6, &r));
    CU_ASSERT_EQUAL(b.twices, before);
    CU_ASSERT_EQUAL(b.taps, 3 * per_step);
    dpx_trainer_free(t);
}

/* ---- what is wrong ---- */

static void test_errors(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "devices=cpu*2", "threads=1", NULL };
    static const struct {
        Bench b;
        bool narrow;
        dpx_status status;
        const char *says;
    } cases[] = {
        { { .shape_status = DPX_SHAPE },
          false,
          DPX_SHAPE,
          "Twice twice (output 't'): the shape function of operator Twice of "
          "domain com.example: it does not fit" },
        { { .silent = true }, false, DPX_SHAPE, "sets no output 0" },
        { { .wrong_shape = true }, false, DPX_SHAPE, "output 'scores' is [5]" },
        { { .run_status = DPX_IO }, false, DPX_IO, "Twice twice" },
        { { .run_status = 77 }, false, DPX_INTERNAL, "returned 77, which is no dpx_status" },
        { { .run_status = 0 }, true, DPX_UNSUPPORTED, "Twice twice" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bench b = cases[i].b;
        dpx_trainer *t = NULL;
        dpx_result r;
        dpx_status st = own_trainer(&t, "own", settings, bench_operators(&b, !cases[i].narrow));

        if (!st)
            st = bench_step(t, 6, &r);
        CHECK_DPX_FAILS(cases[i].status, cases[i].says, st);
        CU_ASSERT(!strchr(dpx_error(), '\n'));
        dpx_trainer_free(t);
    }
}

static void test_unknown(void)
{
    static const char *const settings[] = { "loss=cross-entropy", NULL };
    dpx_trainer *t = NULL;

    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "domain com.example", own_trainer(&t, "own", settings, NULL));
}

static void refuse(const char *says, const dpx_operator *op)
{
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX_FAILS(DPX_INVALID, says, dpx_operators_add(set, op));
    dpx_operators_free(set);
}

static void test_refused(void)
{
    Bench b = { 0 };
    const dpx_operator good = bench_operator("Good", &bench_tap, 0, &b);
    const dpx_attribute bad = { .size = sizeof bad, .name = "a b", .type = DPX_ATTRIBUTE_INT };
    dpx_operator op;

#define REFUSE(says, ...) (op = good, __VA_ARGS__, refuse(says, &op))
    REFUSE("size is 3", op.size = 3);
    REFUSE("domain ''", op.domain = NULL);
    REFUSE("domain 'dpexec'", op.domain = "dpexec");
    REFUSE("domain 'ai.onnx.ml'", op.domain = "ai.onnx.ml");
    REFUSE("name 'a.b'", op.name = "a.b");
    REFUSE("no shape function", op.shape = NULL);
    REFUSE("no kernel", op.float32 = op.float64 = NULL);
    REFUSE("2 to 1 inputs", op.min_inputs = 2);
    REFUSE("sample_axis is 8", op.sample_axis = 8);
    REFUSE("flags 0x8", op.flags = 8);
    REFUSE("attribute 'a b'", (op.attributes = &bad, op.n_attributes = 1));
    REFUSE("-1 attributes", op.n_attributes = -1);
    REFUSE("parameter_inputs", op.parameter_inputs = 256);
    CU_ASSERT_EQUAL(b.destroyed, 0);
}

/* A name has letters, digits and _; a domain may also have . and -.  The test tries the ends of each range, and the
 * characters beside them. */
static void test_words(void)
{
    Bench b = { 0 };
    dpx_operator op = bench_operator("_09azAZ", &bench_tap, 0, &b);
    dpx_operators *set = NULL;

    op.domain = "_09azAZ.-";
    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operators_add(set, &op));
    for (const char *c = "/:@[`{"; *c; c++) {
        char word[] = { 'x', *c, '\0' }, says[16];

        snprintf(says, sizeof says, "name '%s'", word);
        op.name = word;
        refuse(says, &op);
    }
    dpx_operators_free(set);
}

static void test_sets(void)
{
    Bench b = { 0 };
    const dpx_operator op = bench_operator("Tap", &bench_tap, 0, &b);
    struct {
        dpx_operator known;
        size_t more;
    } newer = { op, 0 };
    dpx_options *o = dpx_options_create();
    dpx_operators *set = NULL, *other = NULL;

    newer.known.size = sizeof newer;
    newer.known.name = "Newer";
    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operators_create(&other));
    CHECK_DPX(dpx_operators_add(set, &newer.known)); /* it asks for nothing that we do not know */
    newer.more = 1;
    newer.known.name = "Newest";
    CHECK_DPX_FAILS(DPX_INVALID, "newer dpexec.h", dpx_operators_add(set, &newer.known));
    CHECK_DPX(dpx_operators_add(set, &op));
    CHECK_DPX(dpx_operators_add(other, &op));
    CHECK_DPX_FAILS(DPX_INVALID, "Tap of domain com.example is there already", dpx_operators_add(set, &op));
    CHECK_DPX(dpx_options_set_operators(o, set));
    CHECK_DPX_FAILS(DPX_INVALID, "nothing can be added", dpx_operators_add(set, &op));
    CHECK_DPX_FAILS(DPX_INVALID, "Tap of domain com.example is in two sets", dpx_options_set_operators(o, other));
    dpx_operators_free(set);
    dpx_operators_free(other);
    CU_ASSERT_EQUAL(b.destroyed, 1);
    dpx_options_free(o);
    CU_ASSERT_EQUAL(b.destroyed, 3);
}

/* ---- exports ---- */

/* What was trained is exported with the operators, and goes on from there. */
static void test_export(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    const char *path = BUILD_DIR "/own_trained.onnx";
    Bench b = { 0 };
    dpx_trainer *t = NULL;
    dpx_options *o;
    dpx_model *m = NULL;
    dpx_operators *set;
    dpx_result r;

    if (!CHECK_DPX(own_trainer(&t, "own", settings, bench_operators(&b, true))) || !CHECK_DPX(bench_step(t, 6, &r)) ||
        !CHECK_DPX(dpx_trainer_export(t, path)))
        return;
    dpx_trainer_free(t);
    o = own_options(settings, set = bench_operators(&b, true));
    dpx_operators_free(set);
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "com.example", dpx_model_load(&m, path));
    if (CHECK_DPX(dpx_model_load_within(&m, path, o)) && CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL))) {
        CHECK_DPX(bench_step(t, 6, &r));
        dpx_trainer_free(t);
    }
    dpx_model_free(m);
    dpx_options_free(o);
    remove(path);
}

DEFINE_SUITE(operators, { "as known ones", test_same_as_known }, { "function", test_function }, { "apart", test_apart },
             { "impure", test_impure }, { "constants", test_constants }, { "errors", test_errors },
             { "unknown", test_unknown }, { "refused", test_refused }, { "words", test_words }, { "sets", test_sets },
             { "export", test_export });
