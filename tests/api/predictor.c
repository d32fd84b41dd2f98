/* Predictors: threads that predict while others train and hand over weights. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"

enum { THREADS = 4, CALLS = 60, TAKES = 12, NUMBERS = SAMPLES * CLASSES };

static const char *const settings[] = { "loss=cross-entropy", "momentum=0.9", "lr=0.1", "threads=1", NULL };
static const char *const means[] = { "loss=cross-entropy", "ema=0.5", "eval-weights=ema", "lr=0.5", "threads=1", NULL };

static bool predict(dpx_predictor *p, const Batch *b, float *logits)
{
    dpx_data *out = NULL;
    dpx_tensor y = { .data = NULL };
    const bool good = !dpx_predict(p, b->tensor, 1, &out) && dpx_data_count(out) == 1 &&
                      !dpx_data_view(dpx_data_at(out, 0), &y) && y.rank == 2 && y.dim[1] == CLASSES;

    if (good)
        memcpy(logits, y.data, (size_t)y.dim[0] * CLASSES * sizeof *logits);
    dpx_data_free(out);
    return good;
}

static void train(dpx_trainer *t, unsigned seed)
{
    dpx_result r;
    Batch b;

    make_batch(&b, seed);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
}

static void run_trainer(dpx_trainer *t, const Batch *b, float *logits)
{
    dpx_tensor y = { .data = NULL };

    if (CHECK_DPX(dpx_run(t, b->tensor, 1, &y, 1)))
        memcpy(logits, y.data, (size_t)b->tensor[0].dim[0] * CLASSES * sizeof *logits);
}

/* Before and after steps: what was taken stays until it is taken again. */
static void check_bytes(const char *const *options)
{
    dpx_trainer *t = make_trainer(options);
    float now[NUMBERS], had[NUMBERS], found[NUMBERS];
    dpx_predictor *p = NULL;
    Batch b;

    make_batch(&b, 3);
    if (!t || !CHECK_DPX(dpx_predictor_create(&p, NULL, t, NULL)))
        return;
    run_trainer(t, &b, had);
    CU_ASSERT(predict(p, &b, found) && !memcmp(had, found, sizeof had));
    for (unsigned i = 0; i < 3; i++) {
        train(t, i);
        run_trainer(t, &b, now);
        CU_ASSERT(predict(p, &b, found) && !memcmp(had, found, sizeof had) && memcmp(had, now, sizeof had) != 0);
        CHECK_DPX(dpx_predictor_take(p, t));
        CU_ASSERT(predict(p, &b, found) && !memcmp(now, found, sizeof now));
        memcpy(had, now, sizeof had);
    }
    b.tensor[0].dim[0] = 2; /* another shape */
    run_trainer(t, &b, now);
    CU_ASSERT(predict(p, &b, found) && !memcmp(now, found, 2 * CLASSES * sizeof *now));
    dpx_predictor_free(p);
    dpx_trainer_free(t);
}

static void test_bytes(void)
{
    check_bytes(settings);
    check_bytes(means);
}

/* A trainer on two devices gives its weights to a predictor on one, whose outputs are in one piece. */
static void check_devices(const char *output_device)
{
    const char *const options[] = { "loss=cross-entropy", "threads=1", "devices=cpu*2", output_device, NULL };
    const char *const one[] = { "loss=cross-entropy", "threads=1", NULL };
    dpx_trainer *t = make_trainer(options), *same = make_trainer(one);
    float want[NUMBERS], found[NUMBERS];
    dpx_predictor *p = NULL;
    Batch b;

    make_batch(&b, 3);
    if (!t || !same || !CHECK_DPX(dpx_predictor_create(&p, NULL, t, NULL)))
        return;
    run_trainer(same, &b, want); /* both begin with the weights of the file */
    CU_ASSERT(predict(p, &b, found) && !memcmp(want, found, sizeof want));
    dpx_predictor_free(p);
    dpx_trainer_free(same);
    dpx_trainer_free(t);
}

static void test_devices(void)
{
    check_devices("output-device=1");
    check_devices("output-device=each");
}

/* A trainer that has stepped before gives what it has; the predictor outlives it. */
static void test_outlives(void)
{
    dpx_trainer *t = make_trainer(settings);
    float now[NUMBERS], found[NUMBERS];
    dpx_predictor *p = NULL;
    Batch b;

    make_batch(&b, 3);
    if (!t)
        return;
    train(t, 1);
    run_trainer(t, &b, now);
    CHECK_DPX(dpx_predictor_create(&p, NULL, t, NULL));
    dpx_trainer_free(t);
    CU_ASSERT(p && predict(p, &b, found) && !memcmp(now, found, sizeof now));
    dpx_predictor_free(p);
    dpx_predictor_free(NULL);
}

/* ---- threads ---- */

typedef struct {
    dpx_predictor *p;
    Batch batch;
    float (*known)[NUMBERS]; /* [TAKES + 1] the predictions of each set of weights */
    atomic_int *taken;       /* how many of them are known */
    atomic_bool *done;
    int wrong, calls;
    unsigned sets; /* which sets were seen, as bits */
} Caller;

/* Each prediction is of one set of weights: none older than one seen before, or than one whose hand-over was complete
 * when the call began. */
static void *call(void *arg)
{
    Caller *c = arg;
    int newest = 0;
    bool last_call;

    do { /* the last call begins when all have been handed over */
        const int upto = (last_call = atomic_load(c->done), atomic_load(c->taken));
        float found[NUMBERS];
        int k = newest, last;

        if (!predict(c->p, &c->batch, found)) {
            c->wrong++;
            return NULL;
        }
        last = atomic_load(c->taken);
        while (k <= last && memcmp(c->known[k], found, sizeof found) != 0)
            k++;
        c->wrong += k > last || k < upto - 1;
        if (k <= last) {
            newest = k;
            c->sets |= 1u << k;
        }
        c->calls++;
    } while (c->calls < CALLS || !last_call);
    return NULL;
}

static void test_threads(void)
{
    static float known[TAKES + 1][NUMBERS];
    dpx_trainer *t = make_trainer(settings);
    static Caller caller[THREADS];
    atomic_bool done = false;
    atomic_int taken = 0;
    pthread_t thread[THREADS];
    dpx_predictor *p = NULL;
    Batch b;

    make_batch(&b, 5);
    if (!t || !CHECK_DPX(dpx_predictor_create(&p, NULL, t, NULL)))
        return;
    run_trainer(t, &b, known[0]);
    for (int i = 0; i < THREADS; i++) {
        caller[i] = (Caller){ .p = p, .batch = b, .known = known, .taken = &taken, .done = &done };
        caller[i].batch.tensor[0].data = caller[i].batch.x;
        CU_ASSERT_FATAL(!pthread_create(&thread[i], NULL, call, &caller[i]));
    }
    for (int i = 1; i <= TAKES; i++) {
        train(t, (unsigned)i);
        run_trainer(t, &b, known[i]);
        atomic_store(&taken, i); /* before: a caller may see them at once */
        CHECK_DPX(dpx_predictor_take(p, t));
    }
    atomic_store(&done, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        CU_ASSERT(!caller[i].wrong && caller[i].calls >= CALLS && caller[i].sets >> TAKES == 1);
    }
    dpx_predictor_free(p);
    dpx_trainer_free(t);
}

/* ---- errors, warming, several models ---- */

static void test_refused(void)
{
    dpx_options *o = dpx_options_create();
    dpx_predictor *p = NULL;
    dpx_model *m = NULL;
    dpx_data *out = NULL;
    Batch b;

    make_batch(&b, 1);
    CHECK_DPX(dpx_model_load(&m, MLP));
    CHECK_DPX(dpx_options_set(o, "devices", "cpu*2"));
    CHECK_DPX_FAILS(DPX_INVALID, "one device, found 2", dpx_predictor_create(&p, m, NULL, o));
    CHECK_DPX_FAILS(DPX_INVALID, "trainer is NULL", dpx_predictor_create(&p, NULL, NULL, NULL));
    if (CHECK_DPX(dpx_predictor_create(&p, m, NULL, NULL))) {
        b.tensor[0].dim[1] = 63;
        CHECK_DPX_FAILS(DPX_SHAPE, "", dpx_predict(p, b.tensor, 1, &out));
        b.tensor[0].dim[1] = PIXELS;
        CHECK_DPX_FAILS(DPX_INVALID, "0 callers", dpx_predictor_warm(p, 0, b.tensor, 1));
        CHECK_DPX(dpx_predictor_warm(p, 3, b.tensor, 1));
        CHECK_DPX(dpx_predict(p, b.tensor, 1, &out));
        CU_ASSERT(dpx_data_count(out) == 1);
    }
    dpx_data_free(out);
    dpx_predictor_free(p);
    dpx_model_free(m);
    dpx_options_free(o);
}

/* A model whose states are known only once an input has a shape: then weights can be taken. */
static void test_open_sizes(void)
{
    dpx_model *m = model_of_text("graph \"g\" {\n"
                                 "  input %x : float32[\"N\"=?,\"W\"=?]\n"
                                 "  const %w : float32[7,2] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}\n"
                                 "  %y = MatMul(%x, %w)\n"
                                 "  output \"y\" = %y\n"
                                 "}\n");
    dpx_options *o = dpx_options_create();
    float x[14] = { 1, 2, 3 }, w[14] = { 5, 0, 0, 1 };
    dpx_tensor in = { .dtype = DPX_FLOAT32, .rank = 2, .dim = { 2, 7 }, .data = x }, y,
               weight = { .dtype = DPX_FLOAT32, .rank = 2, .dim = { 7, 2 }, .data = w };
    dpx_predictor *p = NULL;
    dpx_trainer *t = NULL;
    dpx_data *out = NULL;

    if (!m || !CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL)) || !CHECK_DPX(dpx_run(t, &in, 1, &y, 1)) ||
        !CHECK_DPX(dpx_trainer_set_state(t, "w", &weight)) || !CHECK_DPX(dpx_predictor_create(&p, m, NULL, NULL)))
        return;
    CHECK_DPX_FAILS(DPX_INVALID, "not known before a first call", dpx_predictor_take(p, t));
    CHECK_DPX(dpx_predictor_warm(p, 2, &in, 1));
    CHECK_DPX(dpx_predictor_take(p, t));
    if (CHECK_DPX(dpx_predict(p, &in, 1, &out)) && CHECK_DPX(dpx_data_view(dpx_data_find(out, "y"), &y)))
        CU_ASSERT_EQUAL(((const float *)y.data)[0], 5); /* 1 * 5 + 2 * 0 + 3 * 0 */
    dpx_data_free(out);
    dpx_predictor_free(p);
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
}

/* The logits' gradient by the input, weighed by `seed`, with a trainer's weights: by differences of the logits. */
static void test_gradient(void)
{
    static const double h = 1e-2;
    dpx_trainer *t = make_trainer(settings);
    dpx_model *m = NULL, *g = NULL;
    dpx_predictor *p = NULL;
    dpx_data *out = NULL;
    float seed[NUMBERS] = { 0 }, logits[2][NUMBERS];
    dpx_tensor in[2], dx = { .data = NULL };
    Batch b;

    make_batch(&b, 4);
    CHECK_DPX(dpx_model_load(&m, MLP));
    CHECK_DPX_FAILS(DPX_INVALID, "no output of that name", dpx_model_gradient(&g, m, NULL, "nothing", "x"));
    CHECK_DPX_FAILS(DPX_INVALID, "neither an input nor a parameter", dpx_model_gradient(&g, m, NULL, "logits", "q"));
    train(t, 1);
    if (!CHECK_DPX(dpx_model_gradient(&g, m, NULL, "logits", "x,fc3.bias")) ||
        !CHECK_DPX(dpx_predictor_create(&p, g, t, NULL)))
        return;
    for (int i = 0; i < SAMPLES; i++)
        seed[i * CLASSES + i] = 1;
    in[0] = b.tensor[0];
    in[1] = (dpx_tensor){ .name = "seed", .dtype = DPX_FLOAT32, .rank = 2, .dim = { SAMPLES, CLASSES }, .data = seed };
    if (CHECK_DPX(dpx_predict(p, in, 2, &out)) && CHECK_DPX(dpx_data_view(dpx_data_find(out, "fc3.bias.grad"), &dx)))
        for (int i = 0; i < CLASSES; i++)
            CU_ASSERT_EQUAL(((const float *)dx.data)[i], i < SAMPLES); /* the sum of the seeds */
    if (out && CHECK_DPX(dpx_data_view(dpx_data_find(out, "x.grad"), &dx)))
        for (int i = 0; i < SAMPLES; i++) {
            const float x = b.x[i][7];

            for (int k = 0; k < 2; k++) {
                b.x[i][7] = (float)(x + (k ? h : -h));
                run_trainer(t, &b, logits[k]);
            }
            b.x[i][7] = x;
            CU_ASSERT(fabs((logits[1][i * CLASSES + i] - logits[0][i * CLASSES + i]) / (2 * h) -
                           ((const float *)dx.data)[i * PIXELS + 7]) < 1e-3);
        }
    dpx_data_free(out);
    dpx_predictor_free(p);
    dpx_model_free(g);
    dpx_model_free(m);
    dpx_trainer_free(t);
}

DEFINE_SUITE(predictor, { "bytes of the trainer", test_bytes }, { "several devices", test_devices },
             { "outlives the trainer", test_outlives }, { "threads and training", test_threads },
             { "refused", test_refused }, { "sizes that a call tells", test_open_sizes },
             { "gradients of outputs", test_gradient });
