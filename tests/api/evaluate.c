/* What evaluation gives: predictions in the order of the batch, with targets or without; and batches without names.
 * The model computes losses itself (own_losses.py). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/own_losses.h"

enum { WIDTH = 4, SIDES = 2, SCORES = 3 };

#define OWN SOURCE_DIR "/tests/api/own_losses.onnx"

static dpx_trainer *make_own(int replicas, const char *loss)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_trainer *t = NULL;
    char number[16];

    snprintf(number, sizeof number, "%d", replicas);
    CHECK_DPX(dpx_model_load(&m, OWN));
    CHECK_DPX(dpx_options_set(o, "replicas", number));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "lr", "0.25"));
    if (loss)
        CHECK_DPX(dpx_options_set(o, "loss", loss));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

/* Samples [from, from + n) of the data: x, y, z. */
static void take(dpx_tensor batch[3], int from, int n)
{
    batch[0] = (dpx_tensor){ "x", DPX_FLOAT64, 2, { n, WIDTH }, (void *)(uintptr_t)(own_x + from * WIDTH) };
    batch[1] = (dpx_tensor){ "y", DPX_INT64, 1, { n }, (void *)(uintptr_t)(own_y + from) };
    batch[2] = (dpx_tensor){ "z", DPX_FLOAT64, 2, { n, SIDES }, (void *)(uintptr_t)(own_z + from * SIDES) };
}

static int is_output(const dpx_result *r, int i, const char *name, int rank)
{
    return i < r->n_outputs && !strcmp(r->outputs[i].name, name) && r->outputs[i].rank == rank;
}

/* All outputs but the loss; the scores of all samples, which are known before the first step. */
static void check_scores(const dpx_result *r, int from, int n)
{
    const dpx_tensor *y = r->outputs;

    CU_ASSERT_FATAL(is_output(r, 0, "scores", 2) && y->dim[0] == n && y->dim[1] == SCORES && y->dtype == DPX_FLOAT64);
    for (int i = 0; i < n * SCORES; i++)
        CU_ASSERT(fabs(((double *)y->data)[i] - own_scores[from * SCORES + i]) < 1e-12);
}

static void test_predictions(void)
{
    dpx_tensor batch[3], x;
    dpx_result r;

    for (int replicas = 1; replicas <= 5; replicas++)
        for (int n = 1; n <= OWN_SAMPLES; n += 3) {
            dpx_trainer *t = make_own(replicas, "output:loss");
            const int from = OWN_SAMPLES - n;

            if (!t)
                return;
            take(batch, from, n);
            CHECK_DPX(dpx_test_step(t, batch, 3, &r));
            CU_ASSERT(r.n_outputs == 4 && isfinite(r.loss) && r.samples == n && r.step == 0);
            check_scores(&r, from, n);
            CU_ASSERT(is_output(&r, 1, "box_loss", 2) && is_output(&r, 3, "acc", 0));
            x = batch[1];
            batch[1] = batch[2]; /* x and z: of what is left only the second loss needs z */
            CHECK_DPX(dpx_val_step(t, batch, 2, &r));
            CU_ASSERT(r.n_outputs == 2 && isnan(r.loss) && r.samples == n && r.loss_weight != r.loss_weight);
            check_scores(&r, from, n);
            batch[1] = x;
            CHECK_DPX_FAILS(DPX_INVALID, "input 'z' is missing", dpx_val_step(t, batch, 1, &r));
            dpx_trainer_free(t);
        }
}

static void test_no_targets(void)
{
    static const char *const measured[] = { "loss=cross-entropy", "metric=accuracy", "replicas=4", "threads=1", NULL };
    dpx_trainer *t = make_trainer(measured);
    dpx_result with, without;
    dpx_metric m;
    dpx_tensor y;
    float logits[SAMPLES * CLASSES];
    Batch b;

    if (!t)
        return;
    make_batch(&b, 3);
    CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    memcpy(logits, y.data, sizeof logits);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &with));
    CU_ASSERT(with.n_outputs == 1 && with.counted == SAMPLES && !memcmp(with.outputs->data, logits, sizeof logits));
    dpx_trainer_restart_metric(t);
    CHECK_DPX(dpx_val_step(t, b.tensor, 1, &without));
    CU_ASSERT(without.n_outputs == 1 && !memcmp(without.outputs->data, logits, sizeof logits));
    CU_ASSERT(isnan(without.loss) && isnan(without.loss_sum) && !without.counted);
    CHECK_DPX(dpx_trainer_metric(t, &m));
    CU_ASSERT(!m.measured);
    CHECK_DPX_FAILS(DPX_INVALID, "input 'target' is missing", dpx_train_step(t, b.tensor, 1, &with));
    CHECK_DPX_FAILS(DPX_INVALID, "is missing", dpx_val_step(t, b.tensor + 1, 1, &with));
    dpx_trainer_free(t);
    if (!(t = make_own(2, NULL))) /* a trainer without a loss predicts too */
        return;
    dpx_tensor batch[3];
    take(batch, 0, 4);
    CHECK_DPX(dpx_val_step(t, batch, 3, &with));
    CU_ASSERT(with.n_outputs == 5 && isnan(with.loss));
    check_scores(&with, 0, 4);
    dpx_trainer_free(t);
}

static void test_order(void)
{
    dpx_trainer *t = make_own(3, "output:loss"), *by_name = make_own(3, "output:loss");
    dpx_tensor batch[4], nameless[4];
    dpx_result r, expected;

    if (!t || !by_name)
        return;
    take(batch, 0, 7);
    memcpy(nameless, batch, sizeof batch);
    for (int i = 0; i < 3; i++)
        nameless[i].name = NULL;
    nameless[3] = nameless[2];
    for (int i = 0; i < 2; i++) {
        CHECK_DPX(dpx_train_step(by_name, batch, 3, &expected));
        CHECK_DPX(dpx_train_step(t, nameless, 3, &r));
        CU_ASSERT(r.loss == expected.loss);
    }
    CHECK_DPX_FAILS(DPX_INVALID, "is of 'x', 'y', 'z', in this order", dpx_train_step(t, nameless, 4, &r));
    nameless[1].name = "y";
    CHECK_DPX_FAILS(DPX_INVALID, "tensor 0 of the batch has no name, and 1 of 3 have: expected all or none",
                    dpx_train_step(t, nameless, 3, &r));
    dpx_trainer_free(t);
    dpx_trainer_free(by_name);
    static const char *const scores[] = { "loss=cross-entropy", "threads=1", NULL };
    Batch b;
    if (!(t = make_trainer(scores)))
        return;
    make_batch(&b, 4);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &expected));
    b.tensor[0].name = b.tensor[1].name = NULL; /* the input, then the target */
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CU_ASSERT(r.loss == expected.loss && r.n_outputs == 1);
    dpx_trainer_free(t);
}

DEFINE_SUITE(evaluate, { "predictions", test_predictions }, { "without targets", test_no_targets },
             { "tensors without names", test_order });
