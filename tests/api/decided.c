/* If, Loop, Scan and sequences that the batch's size decided when the file was read: at sizes that decide the same the
 * values are those of onnx.reference, at others the run is refused by a line, whoever computes, the exported model
 * too. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/decided.h"

enum { WIDTH = 3, MAX_SAMPLES = 4 };

typedef struct {
    const char *name;
    const float *want[MAX_SAMPLES + 1]; /* by samples; NULL: refused */
    const char *said;
} Case;

static const Case cases[] = {
    { "greater", { [1] = decided_greater_1, [2] = decided_greater_2 }, "If pick (output 'v'): its condition 'c' is" },
    { "less", { [2] = decided_less_2, [4] = decided_less_4 }, NULL },
    { "turns", { [2] = decided_turns_2 }, "Loop turns (output 'v'): its trip count 'n' is" },
    { "counts", { [2] = decided_counts_2 }, "Loop counts (output 'v'): its condition 'go2' is" },
    { "sums", { [2] = decided_sums_2 }, "Scan sums (output 'total'): the length of 'x', which is scanned, is" },
    { "last", { [2] = decided_last_2 }, "SequenceAt (unnamed) (output 'p'): the length of 'parts' is" },
};

/* `batch` NULL: as the file says. */
static dpx_status open_trainer(dpx_trainer **t, const char *path, const char *batch, const char *replicas)
{
    const char *const given[][2] = { { "loss", "mse" }, { "replicas", replicas }, { "batch_size", batch } };
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_status st;

    *t = NULL;
    for (size_t i = 0; i < 2 + (batch != NULL); i++)
        CHECK_DPX(dpx_options_set(o, given[i][0], given[i][1]));
    if (!(st = dpx_model_load(&m, path)))
        st = dpx_trainer_create(t, m, o, NULL, NULL);
    dpx_model_free(m);
    dpx_options_free(o);
    return st;
}

static void check_run(const Case *c, dpx_trainer *t, int samples)
{
    dpx_tensor x = { "x", DPX_FLOAT32, 2, { samples, WIDTH }, (void *)decided_x }, y = { 0 };
    const float *want = samples <= MAX_SAMPLES ? c->want[samples] : NULL;

    if (!want) {
        CHECK_DPX_FAILS(DPX_UNSUPPORTED, c->said, dpx_run(t, &x, 1, &y, 1));
        CU_ASSERT(strstr(dpx_error(), "at the sizes of this run") != NULL);
        return;
    }
    if (!CHECK_DPX(dpx_run(t, &x, 1, &y, 1)))
        return;
    CU_ASSERT_FATAL(y.rank == 2 && y.dim[0] == samples && y.dim[1] == WIDTH);
    for (int i = 0; i < samples * WIDTH; i++)
        CU_ASSERT_DOUBLE_EQUAL(((const float *)y.data)[i], want[i], 1e-6);
}

static void test_run(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int replicas = 1; replicas <= 2; replicas++) {
            char path[512];
            dpx_trainer *t;

            snprintf(path, sizeof path, SOURCE_DIR "/tests/api/decided_%s.onnx", cases[i].name);
            if (CHECK_DPX(open_trainer(&t, path, NULL, replicas == 1 ? "1" : "2"))) {
                check_run(&cases[i], t, 2);
                check_run(&cases[i], t, 4);
                if (cases[i].said)
                    check_run(&cases[i], t, 1);
                check_run(&cases[i], t, 2);
            }
            dpx_trainer_free(t);
        }
}

/* A trained model is the same nodes, for the same sizes. */
static void test_export(void)
{
    char folder[256], path[512];

    make_folder(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpx_trainer *t, *u = NULL;

        snprintf(path, sizeof path, SOURCE_DIR "/tests/api/decided_%s.onnx", cases[i].name);
        if (!CHECK_DPX(open_trainer(&t, path, NULL, "1")))
            continue;
        snprintf(path, sizeof path, "%s/model.onnx", folder);
        if (CHECK_DPX(dpx_trainer_export(t, path)) && CHECK_DPX(open_trainer(&u, path, NULL, "1"))) {
            check_run(&cases[i], u, 2);
            check_run(&cases[i], u, 4);
        }
        dpx_trainer_free(u);
        dpx_trainer_free(t);
    }
    remove_folder(folder);
}

DEFINE_SUITE(decided, { "at another batch size", test_run }, { "exported", test_export });
