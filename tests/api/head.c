/* "head" gives the last layer other outputs: in the C API its state, its predictions and its exported model. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/api.h"

enum { OWN = 4 };

/* The number of parameters one of whose axes counts the new outputs. */
static int count_new(dpx_trainer *t)
{
    dpx_info s;
    int n = 0;

    for (int i = 0; i < dpx_trainer_state_count(t); i++) {
        CHECK_DPX(dpx_trainer_state_info(t, i, &s));
        n += s.trainable && (s.dim[0] == OWN || (s.rank > 1 && s.dim[1] == OWN));
    }
    return n;
}

static void check_scores(dpx_trainer *t, const Batch *b)
{
    dpx_tensor y = { 0 };

    if (!CHECK_DPX(dpx_run(t, b->tensor, 1, &y, 1)))
        return;
    CU_ASSERT_EQUAL(y.rank, 2);
    CU_ASSERT_EQUAL(y.dim[0], SAMPLES);
    CU_ASSERT_EQUAL(y.dim[1], OWN);
}

static void test_outputs(void)
{
    dpx_trainer *t = make_trainer((const char *const[]){ "threads=1", "head=4", "loss=cross-entropy", NULL });
    char folder[256], path[300];
    dpx_model *m = NULL;
    dpx_result r;
    dpx_info y;
    Batch b;

    make_batch(&b, 1);
    for (int i = 0; i < SAMPLES; i++)
        b.label[i] %= OWN;
    make_folder(folder);
    snprintf(path, sizeof path, "%s/own.onnx", folder);
    if (t && CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r))) {
        CU_ASSERT_EQUAL(count_new(t), 2);
        check_scores(t, &b);
        CHECK_DPX(dpx_trainer_export(t, path));
    }
    if (t && CHECK_DPX(dpx_model_load(&m, path)) && CHECK_DPX(dpx_model_info(m, DPX_OUTPUT, 0, &y)))
        CU_ASSERT(y.rank == 2 && y.dim[1] == OWN);
    dpx_model_free(m);
    dpx_trainer_free(t);
    remove_folder(folder);
}

/* A label that the file's ten classes had. */
static void test_labels(void)
{
    dpx_trainer *t = make_trainer((const char *const[]){ "threads=1", "head=4", "loss=cross-entropy", NULL });
    dpx_result r;
    Batch b;

    make_batch(&b, 1);
    b.label[0] = OWN;
    if (t)
        CHECK_DPX_FAILS(DPX_INVALID, "is 4, not one of 4 classes", dpx_train_step(t, b.tensor, 2, &r));
    dpx_trainer_free(t);
}

static void test_refused(void)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;

    CHECK_DPX_FAILS(DPX_INVALID, "--head: expected a number of outputs", dpx_options_set(o, "head", "few"));
    CHECK_DPX(dpx_options_set(o, "head", "nothing=4"));
    if (CHECK_DPX(dpx_model_load(&m, MLP)))
        CHECK_DPX_FAILS(DPX_INVALID, "--head nothing: no Gemm, MatMul or 1x1 Conv has this name",
                        dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
}

DEFINE_SUITE(head, { "outputs, state and export", test_outputs }, { "labels", test_labels },
             { "refused", test_refused });
