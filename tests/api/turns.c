/* Two players that train each other, models/gan.onnx, against PyTorch (turns.py): one after the other, in both orders,
 * and together, of one batch a step and of several; on parts of unequal size and empty ones, mirrored and in pieces. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/turns.h"

enum { NOISE = 16, IMAGE = 64, LOGS = 4, LARGEST = 32 * 16 * 16, MOST = 6 };

#define DISCRIMINATOR "group=discriminator.*:loss=d_loss,lr=0.004"
#define GENERATOR "group=generator.*:loss=g_loss"
/* What turns.py trains by. */
#define RUN \
    "loss=outputs", "optimizer=adam", "beta1=0.5", "lr=0.01", "bn-variance=unbiased", "dtype=float64", "threads=1"

/* Who says that an epoch's last group is over; END_OF_EPOCH: that the epoch is. */
typedef enum { END_TOLD, END_FLUSHED, END_ACROSS, END_OF_EPOCH } End;

typedef struct {
    const char *setting[MOST]; /* ended by NULL */
    const double *logs, *sums;
    End end;
} Way;

#define ONE "accumulate=1"
#define TWO "accumulate=2"

static const Way ways[] = {
    { { DISCRIMINATOR, GENERATOR, "turns=true", ONE }, discriminator_first_logs, discriminator_first_sums, END_TOLD },
    { { GENERATOR, DISCRIMINATOR, "turns=true", ONE }, generator_first_logs, generator_first_sums, END_TOLD },
    { { GENERATOR, DISCRIMINATOR, "turns=false", ONE }, together_logs, together_sums, END_TOLD },
};
static const Way grouped[] = {
    { { DISCRIMINATOR, GENERATOR, "turns=true", TWO },
      discriminator_first_of_two_logs,
      discriminator_first_of_two_sums,
      END_TOLD },
    { { GENERATOR, DISCRIMINATOR, "turns=true", TWO },
      generator_first_of_two_logs,
      generator_first_of_two_sums,
      END_TOLD },
    { { DISCRIMINATOR, GENERATOR, "turns=true", "accumulate=3" },
      discriminator_first_of_three_logs,
      discriminator_first_of_three_sums,
      END_FLUSHED },
    { { GENERATOR, DISCRIMINATOR, "turns=true", TWO },
      generator_first_across_logs,
      generator_first_across_sums,
      END_ACROSS },
    { { DISCRIMINATOR, GENERATOR, "turns=true", TWO },
      discriminator_first_flushed_logs,
      discriminator_first_flushed_sums,
      END_FLUSHED },
};
enum { WAYS = sizeof ways / sizeof *ways, GROUPED = sizeof grouped / sizeof *grouped };

static void set(dpx_options *o, const char *const *settings, int n)
{
    for (int i = 0; i < n && settings[i]; i++) {
        const char *eq = strchr(settings[i], '=');
        char name[64];

        snprintf(name, sizeof name, "%.*s", (int)(eq - settings[i]), settings[i]);
        CHECK_DPX(dpx_options_set(o, name, eq + 1));
    }
}

/* `how`: n more settings. */
static dpx_trainer *make(const Way *way, const char *const *how, int n)
{
    static const char *const all[] = { RUN };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;

    CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/models/gan.onnx"));
    set(o, all, sizeof all / sizeof *all);
    set(o, way->setting, MOST);
    set(o, how, n);
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

static double number(int i, double a) { return sin(a * i + 0.001 * i * i); }

static void train_step(dpx_trainer *t, int from, int n, int narrow, dpx_result *r)
{
    double z[BATCH * NOISE], image[BATCH * IMAGE];
    float z32[BATCH * NOISE], image32[BATCH * IMAGE];
    const dpx_dtype type = narrow ? DPX_FLOAT32 : DPX_FLOAT64;
    const dpx_tensor batch[2] = { { "z", type, 2, { n, NOISE }, narrow ? (void *)z32 : z },
                                  { "image", type, 4, { n, 1, 8, 8 }, narrow ? (void *)image32 : image } };

    for (int i = 0; i < n * NOISE; i++)
        z32[i] = (float)(z[i] = 1.4 * number(from * NOISE + i, 0.7));
    for (int i = 0; i < n * IMAGE; i++)
        image32[i] = (float)(image[i] = number(from * IMAGE + i, 0.3));
    CHECK_DPX(dpx_train_step(t, batch, 2, r));
}

static void check_logs(const dpx_result *r, const double *expected, double tolerance)
{
    static const char *const name[LOGS] = { "loss", "d_loss", "g_loss", "made" };

    CU_ASSERT_FATAL(r->n_log == LOGS);
    for (int i = 0; i < LOGS; i++) {
        CHECK_STR(name[i], r->log[i].name);
        if (!(fabs(r->log[i].value - expected[i]) <= tolerance))
            TEST_FAIL("step %d: %s is %.17g, expected %.17g", (int)r->step, name[i], r->log[i].value, expected[i]);
    }
}

/* By its norm and by its product with the cosines of the elements' places. */
static void check_state(dpx_trainer *t, const dpx_info *info, const double *expected)
{
    static double got[LARGEST];
    dpx_tensor out = { .dtype = DPX_FLOAT64, .rank = info->rank, .data = got };
    double squares = 0, product = 0;
    int n = 1;

    memcpy(out.dim, info->dim, sizeof info->dim);
    for (int a = 0; a < info->rank; a++)
        n *= (int)info->dim[a];
    CU_ASSERT_FATAL(n <= LARGEST);
    CHECK_DPX(dpx_trainer_get_state(t, info->name, &out));
    for (int i = 0; i < n; i++) {
        squares += got[i] * got[i];
        product += got[i] * cos(i);
    }
    if (!(fabs(sqrt(squares) - expected[0]) <= 1e-8) || !(fabs(product - expected[1]) <= 1e-8))
        TEST_FAIL("%s: %.17g %.17g, expected %.17g %.17g", info->name, sqrt(squares), product, expected[0],
                  expected[1]);
}

static void check_states(dpx_trainer *t, const double *sums)
{
    int found = 0;
    dpx_info info;

    for (int k = 0; k < dpx_trainer_state_count(t); k++) {
        CHECK_DPX(dpx_trainer_state_info(t, k, &info));
        for (int i = 0; i < N_STATES; i++)
            if (!strcmp(info.name, state_names[i])) {
                check_state(t, &info, sums + 2 * i);
                found++;
            }
    }
    CU_ASSERT(found == N_STATES);
}

/* Each replica's own running statistics. */
static const Way own_ways[] = {
    { { DISCRIMINATOR, GENERATOR, "turns=true", "bn=local", "broadcast-buffers=false" },
      own_discriminator_first_logs,
      own_discriminator_first_sums,
      END_OF_EPOCH },
    { { GENERATOR, DISCRIMINATOR, "turns=true", "bn=local", "broadcast-buffers=false" },
      own_generator_first_logs,
      own_generator_first_sums,
      END_OF_EPOCH },
    { { GENERATOR, DISCRIMINATOR, "turns=false", "bn=local", "broadcast-buffers=false" },
      own_together_logs,
      own_together_sums,
      END_OF_EPOCH },
    { { DISCRIMINATOR, GENERATOR, "turns=true", "bn=average" },
      average_discriminator_first_logs,
      average_discriminator_first_sums,
      END_OF_EPOCH },
    { { GENERATOR, DISCRIMINATOR, "turns=true", "bn=average" },
      average_generator_first_logs,
      average_generator_first_sums,
      END_OF_EPOCH },
    { { GENERATOR, DISCRIMINATOR, "turns=false", "bn=average" },
      average_together_logs,
      average_together_sums,
      END_OF_EPOCH },
};

/* Batches of 5, 5 and 3 samples. */
static void steps(dpx_trainer *t, const Way *way, int narrow, int compared, double tolerance)
{
    dpx_result r;

    for (int k = 0, done = 0; t && done < STEPS && k < 4 * STEPS; k++) {
        const int last = k % 3 == 2;

        if (last && way->end == END_TOLD)
            CHECK_DPX(dpx_trainer_close_group(t));
        train_step(t, k % 3 * BATCH, last ? N_SAMPLES - 2 * BATCH : BATCH, narrow, &r);
        if (last && !r.updated && way->end == END_FLUSHED)
            CHECK_DPX(dpx_train_flush(t, &r));
        if (r.updated && done < compared)
            check_logs(&r, way->logs + LOGS * done, tolerance);
        done += r.updated;
        if (last && way->end == END_OF_EPOCH)
            CHECK_DPX(dpx_trainer_end_epoch(t));
    }
}

static void train(const Way *way, const char *devices, const char *how)
{
    dpx_trainer *t = make(way, (const char *[]){ devices, how }, 2);

    steps(t, way, 0, STEPS, 1e-9);
    if (t)
        check_states(t, way->sums);
    dpx_trainer_free(t);
}

static void test_in_parts(void)
{
    static const char *const how[] = { "replicas=1", "replicas=2", "replicas=3", "replicas=5", "split=3,0,1" };

    for (size_t w = 0; w < WAYS + GROUPED; w++)
        for (size_t i = 0; i < sizeof how / sizeof *how; i++)
            train(w < WAYS ? &ways[w] : &grouped[w - WAYS], i < 4 ? "devices=cpu:0" : "devices=cpu*3", how[i]);
}

static void test_in_pieces(void)
{
    static const char *const how[] = { "shard=optimizer", "shard=gradients", "shard=parameters", "strategy=master" };

    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        train(&ways[0], "devices=cpu*3", how[i]);
        train(&grouped[0], "devices=cpu*3", how[i]);
    }
}

/* In float16, losses of two steps to its precision, for Adam makes much of little; a dynamic scale that nothing
 * overflows by grows after every five updates. Where something does: tests/exec/player_scales.c. */
static void train_scaled(const Way *way, const char *devices, const char *scale)
{
    dpx_trainer *t = make(way, (const char *[]){ devices, "dtype=float32", "precision=float16", scale }, 4);

    steps(t, way, 1, 2, 2e-2);
    for (int k = 1; t && k <= 2; k++) {
        const double used = dpx_trainer_group_scale(t, k);

        CU_ASSERT(strstr(scale, "dynamic") ? used == 4 * 256 : isnan(used));
        CU_ASSERT(!dpx_trainer_group_skipped(t, k));
    }
    dpx_trainer_free(t);
}

static void test_scaled(void)
{
    static const char *const how[] = { "loss-scale=256", "loss-scale=dynamic:256:2:0.5:5" };

    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        train_scaled(&ways[0], "devices=cpu*2", how[i]);
        train_scaled(&ways[1], "devices=cpu:0", how[i]);
        train_scaled(&grouped[0], "devices=cpu*3", how[i]);
        train_scaled(&grouped[3], "devices=cpu*2", how[i]);
    }
}

/* Of parts, of which the last is empty at the end of an epoch. */
static void test_own_statistics(void)
{
    for (size_t w = 0; w < sizeof own_ways / sizeof *own_ways; w++) {
        train(&own_ways[w], "devices=cpu:0", "replicas=4");
        train(&own_ways[w], "devices=cpu*2", "replicas=4");
    }
}

DEFINE_SUITE(turns, { "players, in parts", test_in_parts }, { "players, in pieces", test_in_pieces },
             { "players, with statistics of each replica", test_own_statistics },
             { "players, and a scale of their losses", test_scaled });
