/* A model of which a part has shapes that data decide: what does not is run as a program, the rest behind it, and both
 * read the same states. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/apart.h"

enum { OUTPUTS = 4 };
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

static const struct {
    const float *x, *output[OUTPUTS];
    int n[OUTPUTS];
} batches[] = {
    { apart_x_0,
      { apart_scores_0, apart_found_0, apart_picked_0, apart_sum_0 },
      { COUNT(apart_scores_0), COUNT(apart_found_0), COUNT(apart_picked_0), COUNT(apart_sum_0) } },
    { apart_x_1,
      { apart_scores_1, apart_found_1, apart_picked_1, apart_sum_1 },
      { COUNT(apart_scores_1), COUNT(apart_found_1), COUNT(apart_picked_1), COUNT(apart_sum_1) } },
};

/* Notes what is said of programs. */
static void listen(void *said, int warning, const char *line)
{
    if (warning && strstr(line, "nodes run as a program"))
        snprintf(said, 256, "%s", line);
}

static dpx_trainer *open_trainer(const char *path, const char *replicas, const char *devices, char said[256])
{
    const char *const settings[][2] = { { "replicas", replicas }, { "devices", devices }, { "threads", "1" },
                                        { "loss", "mse" },        { "logits", "scores" }, { "lr", "0.5" } };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK_DPX(dpx_options_set(o, settings[i][0], settings[i][1]));
    if (CHECK_DPX(dpx_model_load(&m, path)))
        CHECK_DPX(dpx_trainer_create(&t, m, o, listen, said));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

static bool run(dpx_tensor y[OUTPUTS], dpx_trainer *t, int batch)
{
    const dpx_tensor x = { "x", DPX_FLOAT32, 4, { ROWS, CHANNELS, SIZE, SIZE }, (void *)(uintptr_t)batches[batch].x };

    memset(y, 0, OUTPUTS * sizeof *y);
    return CHECK_DPX(dpx_run(t, &x, 1, y, OUTPUTS));
}

static int elements(const dpx_tensor *y)
{
    int n = 1;

    for (int a = 0; a < y->rank; a++)
        n *= (int)y->dim[a];
    return n;
}

static void check_output(const dpx_tensor *y, const float *want, int n)
{
    if (elements(y) != n) {
        TEST_FAIL("%s has %d elements, expected %d", y->name, elements(y), n);
        return;
    }
    for (int i = 0; i < n; i++)
        if (!(fabsf(((const float *)y->data)[i] - want[i]) <= 1e-5F))
            TEST_FAIL("%s: element %d is %.8g, expected %.8g", y->name, i, (double)((const float *)y->data)[i],
                      (double)want[i]);
}

static void test_run(void)
{
    for (int replicas = 1; replicas <= 3; replicas += 2) {
        char said[256] = "";
        dpx_trainer *t = open_trainer(SOURCE_DIR "/tests/api/apart.onnx", replicas == 1 ? "1" : "3",
                                      replicas == 1 ? "cpu:0" : "cpu*2", said);
        dpx_tensor y[OUTPUTS];

        for (int k = 0; t && k < 4; k++)
            for (int i = 0; run(y, t, k % 2) && i < OUTPUTS; i++)
                check_output(&y[i], batches[k % 2].output[i], batches[k % 2].n[i]);
        if (!strstr(said, "NonZero"))
            TEST_FAIL("it said '%s'", said);
        dpx_trainer_free(t);
    }
}

/* The scores are trained; what is found then is found by the exported model, too. */
static void test_trained(void)
{
    const float target[ROWS * OUT] = { 1, 0.5F, -1 };
    const dpx_tensor batch[2] = { { "x", DPX_FLOAT32, 4, { ROWS, CHANNELS, SIZE, SIZE }, (void *)(uintptr_t)apart_x_1 },
                                  { "target", DPX_FLOAT32, 2, { ROWS, OUT }, (void *)(uintptr_t)target } };
    char folder[256], path[512], said[256] = "";
    dpx_trainer *t = open_trainer(SOURCE_DIR "/tests/api/apart.onnx", "2", "cpu*2", said), *u;
    dpx_tensor y[OUTPUTS], z[OUTPUTS];
    dpx_result r;

    make_folder(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (t && run(y, t, 1))
        for (int k = 0; k < 3; k++)
            CHECK_DPX(dpx_train_step(t, batch, 2, &r));
    if (t && CHECK_DPX(dpx_trainer_export(t, path)) && (u = open_trainer(path, "2", "cpu*2", said))) {
        if (run(y, t, 0) && run(z, u, 0)) {
            CU_ASSERT(fabsf(((const float *)y[0].data)[0] - apart_scores_0[0]) > 1e-4F);
            for (int i = 0; i < OUTPUTS; i++)
                check_output(&y[i], z[i].data, elements(&z[i]));
        }
        dpx_trainer_free(u);
    }
    dpx_trainer_free(t);
    remove_folder(folder);
}

DEFINE_SUITE(apart, { "run", test_run }, { "trained", test_trained });
