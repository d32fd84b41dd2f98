/* What random operators draw, through the C API: the masks of Dropout are those of Philox4x32-10 (whose known answers
 * tests/kernels/philox.c has) at the counter (element of the whole value / 4, batch, node) under the seed, whatever the
 * replicas and devices and behind a resume; and other generators draw the same on any number of replicas.
 *
 * Masks are read off the loss.  The elements are powers of two, the targets 0: the sum of squares is a number in base 4
 * whose digits are the mask. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/philox.h"
#include "tests/api/api.h"

enum { WIDTH = 4, MOST = 6, STEPS = 3 };

#define RUN_SEED 5000000011u /* of more than 32 bits */

/* `dims` of x and y, `body` from %s, which is x, to %y. */
static dpx_model *model_of(const char *dims, const char *body)
{
    char text[2048];

    snprintf(text, sizeof text,
             "graph \"m\" {\n  input %%x : float64%s\n  const %%scale.weight : float64[4] = {1, 1, 1, 1}\n"
             "  const %%half : float32[] = {0.5}\n  const %%on : bool[] = {1}\n"
             "  %%s = Mul(%%x, %%scale.weight)\n%s  output \"y\" = %%y\n}\n",
             dims, body);
    return model_of_text(text);
}

static dpx_trainer *trainer_of(const dpx_model *m, const char *seed, int replicas, const char *devices)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    char number[16];

    snprintf(number, sizeof number, "%d", replicas);
    CHECK_DPX(dpx_options_set(o, "loss", "mse"));
    CHECK_DPX(dpx_options_set(o, "lr", "0"));
    CHECK_DPX(dpx_options_set(o, "train", "scale.weight"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "seed", seed));
    CHECK_DPX(dpx_options_set(o, "devices", devices));
    CHECK_DPX(dpx_options_set(o, "replicas", number));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_options_free(o);
    return t;
}

/* ---- masks ---- */

/* Element i of the whole, in batch `draw`, of the model's drawing node `key`. */
static bool kept(uint64_t seed, int i, int draw, int key)
{
    const PhiloxBlock counter = { { (uint32_t)(i / 4), 0, (uint32_t)draw, (uint32_t)key } };

    return philox4x32_10(counter, (uint32_t)seed, (uint32_t)(seed >> 32)).word[i % 4] >= 1u << 31;
}

/* Of a batch of n samples; `nodes` of seeds[] drop one after the other, each doubling what is left. */
static double expected_sum(const uint64_t *seeds, int nodes, int n, int draw)
{
    double sum = 0;

    for (int i = 0; i < n * WIDTH; i++) {
        bool on = true;

        for (int k = 0; k < nodes; k++)
            on = on && kept(seeds[k], i, draw, k);
        sum += on ? ldexp(1, 2 * i + 2 * nodes) : 0;
    }
    return sum;
}

/* Step `draw` with n samples. */
static void check_step(dpx_trainer *t, const uint64_t *seeds, int nodes, int n, int draw)
{
    static double x[MOST * WIDTH], zero[MOST * WIDTH];
    dpx_tensor batch[] = { { "x", DPX_FLOAT64, 2, { n, WIDTH }, x }, { "target", DPX_FLOAT64, 2, { n, WIDTH }, zero } };
    dpx_result r = { 0 };

    for (int i = 0; i < n * WIDTH; i++)
        x[i] = ldexp(1, i);
    if (CHECK_DPX(dpx_train_step(t, batch, 2, &r)))
        CU_ASSERT(r.loss_sum == expected_sum(seeds, nodes, n, draw));
}

static void check_masks(const char *body, const char *seed, const uint64_t *seeds, int nodes, const char *kind)
{
    static const int replicas[] = { 1, 2, 3, 5, 8 };
    char devices[16];
    dpx_model *m = model_of("[\"batch\"=?,4]", body);

    for (int k = 0; m && k < 5; k++)
        for (int n = 1; n <= MOST; n += 5 - k % 2) { /* some replicas have no samples, or all */
            dpx_trainer *t;

            snprintf(devices, sizeof devices, "%s*%d", kind, replicas[k] > 1 ? 2 : 1);
            t = trainer_of(m, seed, replicas[k], devices);
            for (int draw = 0; t && draw < STEPS; draw++)
                check_step(t, seeds, nodes, n, draw);
            dpx_trainer_free(t);
        }
    dpx_model_free(m);
}

#define DROPOUT "  %y = Dropout(%s, %half, %on)\n"
#define SEEDED "  %y = Dropout(%s, %half, %on) {seed=9}\n"
#define TWICE "  %d = Dropout(%s, %half, %on)\n  %y = Dropout(%d, %half, %on) {seed=9}\n"

static void test_masks(void)
{
    check_masks(DROPOUT, "0", (const uint64_t[]){ 0 }, 1, "cpu");
    check_masks(DROPOUT, "5000000011", (const uint64_t[]){ RUN_SEED }, 1, "cpu");
}

/* A node's own seed stands in for the run's; nodes are told apart. */
static void test_seeds_of_nodes(void)
{
    check_masks(SEEDED, "5000000011", (const uint64_t[]){ 9 }, 1, "cpu");
    check_masks(TWICE, "5000000011", (const uint64_t[]){ RUN_SEED, 9 }, 2, "cpu");
}

static void test_cuda(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", BUILD_DIR "/libdpexec_cudasim.so", 0);
    check_masks(TWICE, "5000000011", (const uint64_t[]){ RUN_SEED, 9 }, 2, "cuda");
}

static void test_resume(void)
{
    dpx_model *m = model_of("[\"batch\"=?,4]", DROPOUT);
    dpx_trainer *t = m ? trainer_of(m, "7", 3, "cpu:0") : NULL, *u = m ? trainer_of(m, "7", 2, "cpu*2") : NULL;
    char folder[256];

    make_folder(folder);
    if (t && u) {
        for (int draw = 0; draw < 2; draw++)
            check_step(t, (const uint64_t[]){ 7 }, 1, 5, draw);
        CHECK_DPX(dpx_trainer_save(t, folder, NULL));
        CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
        for (int draw = 2; draw < 4; draw++)
            check_step(u, (const uint64_t[]){ 7 }, 1, 6, draw);
    }
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_model_free(m);
}

/* Out of training nothing is dropped. */
static void test_evaluation(void)
{
    static double x[2 * WIDTH] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    dpx_model *m = model_of("[\"batch\"=?,4]", DROPOUT);
    dpx_trainer *t = m ? trainer_of(m, "7", 2, "cpu:0") : NULL;
    dpx_tensor batch[] = { { "x", DPX_FLOAT64, 2, { 2, WIDTH }, x } };
    dpx_result r = { 0 };

    if (t && CHECK_DPX(dpx_val_step(t, batch, 1, &r)))
        CU_ASSERT(r.n_outputs == 1 && !memcmp(r.outputs->data, x, sizeof x));
    dpx_trainer_free(t);
    dpx_model_free(m);
}

/* ---- generators, and values whose samples lie elsewhere ---- */

typedef struct {
    const char *dims, *body;
    int rank;
    int64_t dim[3]; /* of a batch of 7 */
    bool seeded;
} Noise;

static double loss_of(const dpx_model *m, const Noise *how, const char *seed, int replicas, int step)
{
    static double x[7 * 5 * 4], zero[7 * 5 * 4];
    dpx_tensor batch[] = { { "x", DPX_FLOAT64, how->rank, { how->dim[0], how->dim[1], how->dim[2] }, x },
                           { "target", DPX_FLOAT64, how->rank, { how->dim[0], how->dim[1], how->dim[2] }, zero } };
    dpx_trainer *t = trainer_of(m, seed, replicas, replicas > 1 ? "cpu*2" : "cpu:0");
    dpx_result r = { .loss = NAN };

    for (int i = 0; i < 7 * 5 * 4; i++)
        x[i] = 0.1 + fabs(sin(i)) * 0.8; /* probabilities too */
    for (int i = 0; t && i <= step; i++)
        CHECK_DPX(dpx_train_step(t, batch, 2, &r));
    dpx_trainer_free(t);
    return r.loss;
}

static void check_noise(const Noise *how)
{
    static const int replicas[] = { 2, 3, 5, 8 };
    dpx_model *m = model_of(how->dims, how->body);

    for (int step = 0; m && step < 2; step++) {
        const double one = loss_of(m, how, "3", 1, step);

        for (int k = 0; k < 4; k++)
            CU_ASSERT(fabs(loss_of(m, how, "3", replicas[k], step) - one) <= 1e-12 * one);
        CU_ASSERT((loss_of(m, how, "4", 1, step) == one) == how->seeded); /* another seed of the run */
        CU_ASSERT(!step || loss_of(m, how, "3", 1, 0) != one);            /* each batch draws anew */
    }
    dpx_model_free(m);
}

static void test_generators(void)
{
    static const Noise noises[] = {
        { "[\"batch\"=?,4]", "  %z = RandomNormalLike(%s)\n  %y = Add(%s, %z)\n", 2, { 7, 4 }, false },
        { "[\"batch\"=?,4]", "  %z = RandomUniformLike(%s) {seed=2.0}\n  %y = Add(%s, %z)\n", 2, { 7, 4 }, true },
        { "[\"batch\"=?,4]", "  %z = Bernoulli(%s)\n  %y = Mul(%s, %z)\n", 2, { 7, 4 }, false },
        { "[\"batch\"=?,4]", "  %z = RandomNormal() {shape=[4], dtype=11}\n  %y = Add(%s, %z)\n", 2, { 7, 4 }, false },
        { "[\"batch\"=?,4]",
          "  %p = LogSoftmax(%s) {axis=1}\n  %i = Multinomial(%p) {sample_size=4, dtype=7}\n"
          "  %z = Cast(%i) {to=11}\n  %y = Add(%s, %z)\n",
          2,
          { 7, 4 },
          false },
        /* samples along the second axis; and their rows merged with it */
        { "[5,\"batch\"=?,4]", DROPOUT, 3, { 5, 7, 4 }, false },
        { "[5,\"batch\"=?,4]",
          "  const %rows : int64[2] = {-1, 4}\n  const %back : int64[3] = {5, -1, 4}\n"
          "  %r = Reshape(%s, %rows)\n  %d = Dropout(%r, %half, %on) {seed=6}\n  %y = Reshape(%d, %back)\n",
          3,
          { 5, 7, 4 },
          true },
    };

    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++)
        check_noise(&noises[i]);
}

DEFINE_SUITE(random, { "masks are Philox's", test_masks }, { "seeds of nodes", test_seeds_of_nodes },
             { "on simulated CUDA devices", test_cuda }, { "behind a resume", test_resume },
             { "evaluation", test_evaluation }, { "generators", test_generators });
