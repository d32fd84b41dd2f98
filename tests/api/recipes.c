/* Optimizers and schedules against PyTorch and the papers (recipes.py), over 12 steps of 5, 5 and 3 samples:
 * on parts of unequal size, some of them empty, mirrored and in pieces. */
#include "tests/api/recipes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/own_updates.h"

enum { WIDTH = 4, SIDES = 2, LARGEST = 64 };

/* `text`: "name=value name=value" */
static void set_all(dpx_options *o, const char *text)
{
    char copy[256], *rest = copy;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *eq = strchr(word, '=');

        *eq = '\0';
        CHECK_DPX(dpx_options_set(o, word, eq + 1));
    }
}

static dpx_trainer *make(const char *settings, const char *parts)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;
    char steps[16];

    snprintf(steps, sizeof steps, "%d", STEPS);
    CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/tests/api/own_updates.onnx"));
    set_all(o, "plain-defaults=true");
    set_all(o, settings);
    set_all(o, parts);
    set_all(o, "loss=outputs threads=1");
    CHECK_DPX(dpx_options_set(o, "total-steps", steps));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

static void train_step(dpx_trainer *t, int k, dpx_result *r)
{
    const int from = k % 3 * OWN_BATCH, n = k % 3 < 2 ? OWN_BATCH : OWN_SAMPLES - 2 * OWN_BATCH;
    const dpx_tensor batch[3] = {
        { "x", DPX_FLOAT64, 2, { n, WIDTH }, (void *)(uintptr_t)(own_x + from * WIDTH) },
        { "y", DPX_INT64, 1, { n }, (void *)(uintptr_t)(own_y + from) },
        { "z", DPX_FLOAT64, 2, { n, SIDES }, (void *)(uintptr_t)(own_z + from * SIDES) },
    };

    CHECK_DPX(dpx_train_step(t, batch, 3, r));
}

static int read_state(dpx_trainer *t, const char *name, double *out)
{
    dpx_info info = { 0 };
    int n = 1, i = 0;

    while (i < dpx_trainer_state_count(t) && dpx_trainer_state_info(t, i, &info) == DPX_OK && strcmp(info.name, name))
        i++;
    dpx_tensor to = { .dtype = DPX_FLOAT64, .rank = info.rank, .data = out };
    memcpy(to.dim, info.dim, sizeof info.dim);
    for (int a = 0; a < info.rank; a++)
        n *= (int)info.dim[a];
    CHECK_DPX(dpx_trainer_get_state(t, name, &to));
    return n;
}

static void train(int i, const char *parts)
{
    dpx_trainer *t = make(recipes[i].settings, parts);
    double all[LARGEST], squares = 0, product = 0;
    int n = 0;

    for (int k = 0; t && k < STEPS; k++) {
        dpx_result r = { 0 };

        train_step(t, k, &r);
        if (!(fabs(r.loss - recipes[i].loss[k]) <= 1e-10))
            TEST_FAIL("%s, %s: loss %d is %.17g, expected %.17g", recipes[i].settings, parts, k, r.loss,
                      recipes[i].loss[k]);
    }
    for (int p = 0; t && p < OWN_PARAMS; p++)
        n += read_state(t, own_params[p], all + n);
    for (int e = 0; e < n; e++) {
        squares += all[e] * all[e];
        product += all[e] * cos(e);
    }
    if (!(fabs(sqrt(squares) - recipes[i].norm) <= 1e-10) || !(fabs(product - recipes[i].product) <= 1e-10))
        TEST_FAIL("%s, %s: parameters are %.17g, %.17g, expected %.17g, %.17g", recipes[i].settings, parts,
                  sqrt(squares), product, recipes[i].norm, recipes[i].product);
    dpx_trainer_free(t);
}

static void test_recipes(void)
{
    static const char *const parts[] = { "replicas=1", "replicas=3", "replicas=5", "devices=cpu*3 split=3,0,1",
                                         "devices=cpu*3 shard=parameters" };

    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            train((int)i, parts[k]);
}

DEFINE_SUITE(recipes, { "optimizers and schedules, in parts", test_recipes });
