/* A batch that the caller's function makes into what the model takes, replica by replica: as if it had been given so.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/api.h"
#include "tests/harness/port.h"

typedef struct {
    int calls, last, training, samples, fail_at, drop_at, odd_at; /* -1: at no replica */
    float x[SAMPLES][PIXELS];
} Maker;

/* Bytes of an image [n, 8, 8] become floats [n, 64]. */
static dpx_status scale(void *user, int training, int replica, dpx_tensor *part, int n)
{
    Maker *m = user;
    const int64_t count = part[0].dim[0];
    const uint8_t *bytes = part[0].data;

    if ((replica != m->last + 1 && replica != 0) || count > SAMPLES || part[0].dtype != DPX_UINT8 ||
        part[0].rank != 3 || (n > 1 && (part[1].dim[0] != count || strcmp(part[1].name, "target") != 0)))
        return DPX_INTERNAL;
    m->calls++;
    m->last = replica;
    m->training = training;
    m->samples += (int)count;
    for (int64_t i = 0; i < count * PIXELS; i++)
        m->x[i / PIXELS][i % PIXELS] = (float)bytes[i] / 255;
    part[0] = (dpx_tensor){ "of no account", DPX_FLOAT32, 2, { count, PIXELS }, m->x };
    part[0].dim[0] += replica == m->drop_at;
    part[0].dim[1] -= replica == m->odd_at;
    return replica == m->fail_at ? DPX_IO : DPX_OK;
}

typedef struct {
    uint8_t byte[SAMPLES][PIXELS];
    dpx_tensor raw[2];
    Batch plain;
} Images;

static void make_images(Images *b, int samples, unsigned seed)
{
    make_batch(&b->plain, seed);
    for (int i = 0; i < SAMPLES * PIXELS; i++) {
        seed = seed * 1664525u + 1013904223u;
        b->byte[i / PIXELS][i % PIXELS] = (uint8_t)(seed >> 20);
        b->plain.x[i / PIXELS][i % PIXELS] = (float)b->byte[i / PIXELS][i % PIXELS] / 255;
    }
    b->plain.tensor[0].dim[0] = b->plain.tensor[1].dim[0] = samples;
    b->raw[0] = (dpx_tensor){ b->plain.tensor[0].name, DPX_UINT8, 3, { samples, 8, 8 }, b->byte };
    b->raw[1] = b->plain.tensor[1];
}

static dpx_trainer *make_scaled(int replicas, const char *more, Maker *m)
{
    char number[32];
    const char *settings[] = { "loss=cross-entropy", "metric=accuracy", "lr=0.1", "threads=1", number, more, NULL };
    dpx_trainer *t;

    snprintf(number, sizeof number, "replicas=%d", replicas);
    *m = (Maker){ .last = -1, .fail_at = -1, .drop_at = -1, .odd_at = -1 };
    t = make_trainer(settings);
    return t;
}

static void check_replicas(int replicas, const char *more)
{
    Maker m, none;
    dpx_trainer *plain = make_scaled(replicas, more, &none), *t = make_scaled(replicas, more, &m);
    dpx_result expected, r;
    Images b;

    if (!plain || !t)
        return;
    CHECK_DPX(dpx_trainer_set_preprocess(t, scale, &m));
    for (int samples = 1; samples <= SAMPLES; samples++) {
        make_images(&b, samples, (unsigned)samples);
        CHECK_DPX(dpx_train_step(plain, b.plain.tensor, 2, &expected));
        m.calls = m.samples = 0;
        m.last = -1;
        CHECK_DPX(samples % 2 ? dpx_train_step(t, b.raw, 2, &r) : dpx_train_part(t, samples, b.raw, 2, &r));
        CU_ASSERT(m.calls == replicas && m.samples == samples && m.training == 1);
        CU_ASSERT(r.samples == expected.samples && (r.updated ? r.loss == expected.loss : !expected.updated));
    }
    m.last = -1;
    CHECK_DPX(dpx_val_step(plain, b.plain.tensor, 2, &expected));
    CHECK_DPX(dpx_val_step(t, b.raw, 2, &r));
    CU_ASSERT(m.training == 0 && r.loss == expected.loss && r.n_outputs == 1);
    CHECK_DPX(dpx_val_step(t, b.raw, 1, &r));
    CU_ASSERT(!memcmp(r.outputs->data, expected.outputs->data, sizeof(float) * SAMPLES * CLASSES));
    dpx_trainer_free(plain);
    dpx_trainer_free(t);
}

static void test_replicas(void)
{
    for (int replicas = 1; replicas <= 5; replicas++) {
        check_replicas(replicas, "accumulate=1");
        check_replicas(replicas, "split=chunk");
        check_replicas(replicas, "accumulate=2");
    }
}

/* Samples along axis 1, which are no neighbours in memory; all that changes is the sign. */
static dpx_status negate(void *user, int training, int replica, dpx_tensor *part, int n)
{
    double *to = user, *from = part[0].data;

    if (n != 2 || part[0].dim[0] != 7 || part[0].dim[1] != part[1].dim[1] || part[0].dim[2] != 5)
        return DPX_INTERNAL;
    for (int64_t i = 0; i < 7 * part[0].dim[1] * 5; i++)
        to[i] = -from[i];
    part[0].data = to;
    return training && replica < 3 ? DPX_OK : DPX_INTERNAL;
}

static void test_other_axis(void)
{
    static double x[7 * 4 * 5], space[7 * 4 * 5];
    static int64_t y[7 * 4];
    dpx_tensor batch[] = { { .name = "x", .dtype = DPX_FLOAT64, .rank = 3, .dim = { 7, 4, 5 }, .data = x },
                           { .name = "target", .dtype = DPX_INT64, .rank = 2, .dim = { 7, 4 }, .data = y } };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t[2] = { NULL, NULL };
    dpx_model *m = NULL;
    dpx_result r[2];

    for (int i = 0; i < 7 * 4; i++)
        y[i] = i * i % 3;
    CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/tests/cli/sequence_first/words.onnx"));
    CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
    CHECK_DPX(dpx_options_set(o, "class-axis", "2"));
    CHECK_DPX(dpx_options_set(o, "replicas", "3"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    for (int k = 0; k < 2; k++)
        CHECK_DPX(dpx_trainer_create(&t[k], m, o, NULL, NULL));
    CHECK_DPX(dpx_trainer_set_preprocess(t[1], negate, space));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 7 * 4 * 5; i++)
            x[i] = (double)(i * 37 % 23) - 11;
        CHECK_DPX(dpx_train_step(t[0], batch, 2, &r[0]));
        for (int i = 0; i < 7 * 4 * 5; i++)
            x[i] = -x[i];
        CHECK_DPX(dpx_train_step(t[1], batch, 2, &r[1]));
        CU_ASSERT(r[0].loss == r[1].loss && r[0].samples == 4 && r[1].samples == 4);
    }
    for (int k = 0; k < 2; k++)
        dpx_trainer_free(t[k]);
    dpx_options_free(o);
    dpx_model_free(m);
}

/* ---- in a world, whose processes are threads ---- */

enum { RANKS = 3, WORLD_REPLICAS = 4, WORLD_STEPS = 6 };

typedef struct {
    int rank, size, port;
    bool parts;
    double loss[WORLD_STEPS];
    float predicted[SAMPLES * CLASSES];
    int calls;
} Process;

static bool run_steps(Process *p, dpx_trainer *t, Maker *m)
{
    bool good = true;
    dpx_result r;
    Images b;

    for (int step = 0; step < WORLD_STEPS && good; step++) {
        dpx_part own;

        make_images(&b, step + 1, (unsigned)step);
        m->last = -1;
        if (!p->parts) {
            good = !dpx_train_step(t, b.raw, 2, &r);
        } else {
            good = !dpx_trainer_part(t, step + 1, &own);
            b.raw[0].data = b.byte[own.from];
            b.raw[1].data = b.plain.label + own.from;
            b.raw[0].dim[0] = b.raw[1].dim[0] = own.to - own.from;
            good = good && !dpx_train_part(t, step + 1, b.raw, 2, &r);
        }
        p->loss[step] = r.loss;
    }
    make_images(&b, SAMPLES, 99);
    good = good && !dpx_val_step(t, b.raw, 1, &r) && r.n_outputs == 1 && r.outputs->dim[0] == SAMPLES;
    if (good)
        memcpy(p->predicted, r.outputs->data, sizeof p->predicted);
    return good;
}

/* Replicas are given in turn, but those of other processes. */
static dpx_status scale_some(void *user, int training, int replica, dpx_tensor *part, int n)
{
    ((Maker *)user)->last = replica - 1;
    return scale(user, training, replica, part, n);
}

static void *run_process(void *user)
{
    Process *p = user;
    char rendezvous[32];
    const char *devices = p->size > 1 ? "cpu:0" : "cpu*3";
    dpx_world_options how = { .size = p->size, .rank = p->rank, .rendezvous = rendezvous, .timeout = 20 };
    dpx_options *o = dpx_options_create();
    Maker *m = calloc(1, sizeof *m);
    dpx_trainer *t = NULL;
    dpx_world *w = NULL;
    dpx_model *model = NULL;
    bool good = o && m;

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    if (good)
        m->last = m->fail_at = m->drop_at = m->odd_at = -1;
    good = good && (p->size == 1 || !dpx_world_join(&w, &how)) && !dpx_model_load(&model, MLP) &&
           !dpx_options_set(o, "loss", "cross-entropy") && !dpx_options_set(o, "devices", devices) &&
           !dpx_options_set(o, "replicas", "4") && !dpx_options_set(o, "threads", "1");
    if (good && w)
        dpx_options_set_world(o, w);
    good = good && !dpx_trainer_create(&t, model, o, NULL, NULL) && !dpx_trainer_set_preprocess(t, scale_some, m) &&
           run_steps(p, t, m);
    p->calls = good ? m->calls : -1;
    if (!good)
        fprintf(stderr, "rank %d: %s\n", p->rank, dpx_error());
    dpx_trainer_free(t);
    dpx_world_leave(w);
    dpx_model_free(model);
    dpx_options_free(o);
    free(m);
    return NULL;
}

static void test_world(void)
{
    static Process alone, p[RANKS];
    pthread_t thread[RANKS];

    alone = (Process){ .size = 1 };
    run_process(&alone);
    for (int parts = 0; parts < 2; parts++) {
        const int port = free_port();
        int calls = 0;

        for (int r = 0; r < RANKS; r++) {
            p[r] = (Process){ .rank = r, .size = RANKS, .port = port, .parts = parts };
            CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run_process, &p[r]));
        }
        for (int r = 0; r < RANKS; r++) {
            pthread_join(thread[r], NULL);
            CU_ASSERT(p[r].calls > 0 && !memcmp(p[r].loss, alone.loss, sizeof alone.loss));
            CU_ASSERT(!memcmp(p[r].predicted, alone.predicted, sizeof alone.predicted));
            calls += p[r].calls;
        }
        CU_ASSERT(calls == alone.calls && calls == WORLD_REPLICAS * (WORLD_STEPS + 1));
    }
}

static void test_failures(void)
{
    dpx_trainer *t;
    dpx_result r;
    Images b;
    Maker m;

    if (!(t = make_scaled(3, "accumulate=1", &m)))
        return;
    make_images(&b, 4, 7);
    CHECK_DPX(dpx_trainer_set_preprocess(t, scale, &m));
    m.fail_at = 1;
    CHECK_DPX_FAILS(DPX_INVALID, "preprocessing failed for replica 1", dpx_train_step(t, b.raw, 2, &r));
    m.fail_at = -1;
    m.drop_at = 2;
    CHECK_DPX_FAILS(DPX_SHAPE, "replica 2: tensor 'x': the function must keep 1 samples",
                    dpx_train_step(t, b.raw, 2, &r));
    m.drop_at = -1;
    m.odd_at = 1;
    CHECK_DPX_FAILS(DPX_SHAPE, "replica 1: tensor 'x' has another type or shape", dpx_train_step(t, b.raw, 2, &r));
    m.odd_at = -1;
    CU_ASSERT(dpx_trainer_step_count(t) == 0);
    CHECK_DPX(dpx_train_step(t, b.raw, 2, &r));
    CHECK_DPX(dpx_trainer_set_preprocess(t, NULL, NULL));
    CHECK_DPX(dpx_train_step(t, b.plain.tensor, 2, &r));
    CU_ASSERT(r.step == 2);
    b.raw[1].dim[0] = 3;
    CHECK_DPX(dpx_trainer_set_preprocess(t, scale, &m));
    CHECK_DPX_FAILS(DPX_SHAPE, "samples along axis 0, as other tensors have, found 3", dpx_train_step(t, b.raw, 2, &r));
    dpx_trainer_free(t);
}

DEFINE_SUITE(preprocess, { "parts of replicas", test_replicas }, { "another axis", test_other_axis },
             { "in a world", test_world }, { "failures", test_failures });
