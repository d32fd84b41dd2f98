/* Groups of parameters that have a loss of their own, against PyTorch (own_updates.py): on parts of unequal size and
 * empty ones, over micro-batches, and with all that is kept in pieces. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/own_updates.h"

enum { WIDTH = 4, HIDDEN = 5, SIDES = 2, TOLD = 4096 };

/* What own_updates.py trains by. */
#define RUN                                                                                                        \
    "loss=outputs", "lr=0.25", "momentum=0.9", "group=a.*:loss=a_square,optimizer=adamw,lr=0.05,weight-decay=0.1", \
        "group=b.*:loss=b_loss,lr=0.125"

/* `settings`: "name=value", which NULL ends. */
static dpx_status make_told(dpx_trainer **out, const char *const *settings, dpx_log_fn *log, void *user)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_status st;
    char name[32];

    CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/tests/api/own_updates.onnx"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    for (; *settings; settings++) {
        const char *eq = strchr(*settings, '=');

        snprintf(name, sizeof name, "%.*s", (int)(eq - *settings), *settings);
        CHECK_DPX(dpx_options_set(o, name, eq + 1));
    }
    st = dpx_trainer_create(out, m, o, log, user);
    dpx_model_free(m);
    dpx_options_free(o);
    return st;
}

static dpx_status make(dpx_trainer **out, const char *const *settings) { return make_told(out, settings, NULL, NULL); }

/* Samples [from, from + n) of the data. */
static void take(dpx_tensor batch[3], int from, int n)
{
    batch[0] = (dpx_tensor){ "x", DPX_FLOAT64, 2, { n, WIDTH }, (void *)(uintptr_t)(own_x + from * WIDTH) };
    batch[1] = (dpx_tensor){ "y", DPX_INT64, 1, { n }, (void *)(uintptr_t)(own_y + from) };
    batch[2] = (dpx_tensor){ "z", DPX_FLOAT64, 2, { n, SIDES }, (void *)(uintptr_t)(own_z + from * SIDES) };
}

/* The same in float32, which `room` holds. */
static void take_floats(dpx_tensor batch[3], float room[OWN_SAMPLES * (WIDTH + SIDES)], int from, int n)
{
    take(batch, from, n);
    for (int i = 0; i < n * WIDTH; i++)
        room[i] = (float)own_x[from * WIDTH + i];
    for (int i = 0; i < n * SIDES; i++)
        room[n * WIDTH + i] = (float)own_z[from * SIDES + i];
    batch[0].data = room;
    batch[2].data = room + n * WIDTH;
    batch[0].dtype = batch[2].dtype = DPX_FLOAT32;
}

static void check_logs(const dpx_result *r, const double *expected, double tolerance)
{
    static const char *const name[OWN_LOGS] = { "loss", "a_loss", "a_square", "b_loss" };

    CU_ASSERT_FATAL(r->n_log == OWN_LOGS);
    for (int i = 0; i < OWN_LOGS; i++) {
        CHECK_STR(name[i], r->log[i].name);
        if (!(fabs(r->log[i].value - expected[i]) <= tolerance * fabs(expected[i])))
            TEST_FAIL("step %d: %s is %.17g, expected %.17g", (int)r->step, name[i], r->log[i].value, expected[i]);
    }
}

/* All parameters, one after another. */
static void check_parameters(dpx_trainer *t, const double *expected)
{
    double got[64];
    dpx_info info;

    for (int i = 0; i < OWN_PARAMS; i++) {
        int n = 1, k = 0;

        while (k < dpx_trainer_state_count(t) && dpx_trainer_state_info(t, k, &info) == DPX_OK &&
               strcmp(info.name, own_params[i]))
            k++;
        CHECK_STR(own_params[i], info.name);
        for (int a = 0; a < info.rank; a++)
            n *= (int)info.dim[a];
        dpx_tensor out = { .dtype = DPX_FLOAT64, .rank = info.rank, .data = got };
        memcpy(out.dim, info.dim, sizeof info.dim);
        CHECK_DPX(dpx_trainer_get_state(t, info.name, &out));
        for (int e = 0; e < n; e++, expected++)
            if (!(fabs(got[e] - *expected) <= 1e-11))
                TEST_FAIL("%s[%d] is %.17g, expected %.17g", info.name, e, got[e], *expected);
    }
}

/* Batches of 5, 5 and 3 samples, `group` of an epoch's together; in 16 bits where much is tolerated. */
static void train(const char *const *settings, int group, double tolerance)
{
    const double *logs = group > 1 ? own_grouped_logs : own_alone_logs;
    float room[OWN_SAMPLES * (WIDTH + SIDES)];
    dpx_trainer *t = NULL;
    dpx_tensor batch[3];
    dpx_result r;

    CHECK_DPX(make(&t, settings));
    for (int k = 0, done = 0; t && done < OWN_STEPS && k < 2 * OWN_STEPS; k++) {
        const int at = k % 3 * OWN_BATCH, last = k % 3 == 2;

        if (tolerance > 1e-9)
            take_floats(batch, room, at, last ? OWN_SAMPLES - at : OWN_BATCH);
        else
            take(batch, at, last ? OWN_SAMPLES - at : OWN_BATCH);
        CHECK_DPX(dpx_train_step(t, batch, 3, &r));
        if (last && !r.updated)
            CHECK_DPX(dpx_train_flush(t, &r));
        if (r.updated)
            check_logs(&r, logs + done++ * OWN_LOGS, tolerance);
    }
    if (t && tolerance < 1e-9)
        check_parameters(t, group > 1 ? own_grouped_after : own_alone_after);
    dpx_trainer_free(t);
}

static void test_own_losses(void)
{
    static const char *const how[] = { "replicas=1",      "replicas=2",       "replicas=3",      "replicas=5",
                                       "shard=gradients", "shard=parameters", "strategy=master", "split=3,0,1" };

    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        for (int group = 1; group <= 2; group++)
            train((const char *[]){ RUN, i < 4 ? "devices=cpu*1" : "devices=cpu*3", how[i],
                                    group > 1 ? "accumulate=2" : "accumulate=1", NULL },
                  group, 1e-12);
}

/* Of each loss the gradients are scaled, and undone: with 16 bits to 16 bits. */
static void test_scaled(void)
{
    train((const char *[]){ RUN, "precision=float16", "dtype=float32", "replicas=3", NULL }, 1, 2e-2);
    train((const char *[]){ RUN, "precision=float16", "dtype=float32", "loss-scale=512", "accumulate=2", NULL }, 2,
          2e-2);
}

static void refuse(const char *text, const char *loss, const char *group)
{
    dpx_trainer *t = NULL;
    dpx_tensor batch[3];
    dpx_result r;
    dpx_status st = make(&t, (const char *[]){ loss, group, "lr=0.25", NULL });

    take(batch, 0, 5);
    if (!st)
        st = dpx_train_step(t, batch, 3, &r);
    CHECK_DPX_FAILS(DPX_INVALID, text, st);
    dpx_trainer_free(t);
}

static void test_refused(void)
{
    refuse("--group 'a.*': loss a_square is an output of the model, which goes with --loss outputs",
           "loss=output:a_loss", "group=a.*:loss=a_square");
    refuse("--group 'a.*': the model has no output 'a_squares' of floats to be a loss", "loss=outputs",
           "group=a.*:loss=a_squares");
    refuse("--group 'a.*': the loss 'b_loss' depends on none of the 2 parameters of the group", "loss=outputs",
           "group=a.*:loss=b_loss");
}

static void keep(void *user, int level, const char *line)
{
    char *text = user;

    (void)level;
    snprintf(text + strlen(text), TOLD - strlen(text), "%s\n", line);
}

/* A parameter that its group's loss does not reach is told, and stays as it was. */
static void test_unreached(void)
{
    static const char *const how[] = { "loss=outputs", "lr=0.25", "group=[ab].*:loss=a_square", NULL };
    double value[2][SIDES * HIDDEN];
    const dpx_tensor state = { .dtype = DPX_FLOAT64, .rank = 2, .dim = { HIDDEN, SIDES } };
    char told[TOLD] = "";
    dpx_trainer *t = NULL;
    dpx_tensor batch[3];
    dpx_result r;

    CHECK_DPX(make_told(&t, how, keep, told));
    take(batch, 0, 5);
    for (int i = 0; t && i < 2; i++) {
        dpx_tensor out = state;

        out.data = value[i];
        CHECK_DPX(dpx_train_step(t, batch, 3, &r));
        CHECK_DPX(dpx_trainer_get_state(t, "b.weight", &out));
    }
    CU_ASSERT(!memcmp(value[0], value[1], sizeof value[0]));
    if (!strstr(told, "b.weight") ||
        !strstr(told, "its group's loss 'a_square' does not depend on it: its path ends at "))
        TEST_FAIL("told was: %s", told);
    dpx_trainer_free(t);
}

DEFINE_SUITE(own_updates, { "losses of groups", test_own_losses }, { "scaled", test_scaled },
             { "refused", test_refused }, { "parameters that are not reached", test_unreached });
