/* A GPU that fails in the middle of training: the call and all after it fail with one line, saying why; nothing hangs,
 * what was saved before is whole, and another trainer goes on from it.  On simulated GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/harness/gpu.h"

static const char *const one[] = { "loss=cross-entropy", "lr=0.1", "momentum=0.9", "threads=1", "batch-size=6",
                                   "devices=cuda",       NULL };
static const char *const two[] = { "loss=cross-entropy", "lr=0.1", "momentum=0.9", "threads=1", "batch-size=6",
                                   "devices=cuda*2",     NULL };

static dpx_status train(dpx_trainer *t, unsigned k, dpx_result *r)
{
    Batch b;

    make_batch(&b, k);
    return dpx_train_step(t, b.tensor, 2, r);
}

/* Steps 3 and 4 of a trainer that goes on from the checkpoint. */
static double go_on(const char *const *settings, const char *checkpoint)
{
    dpx_trainer *t = make_trainer(settings);
    dpx_result r = { 0 };

    if (!t)
        return 0;
    CHECK_DPX(dpx_trainer_resume(t, checkpoint, NULL));
    for (unsigned k = 3; k < 5; k++)
        CHECK_DPX(train(t, k, &r));
    CU_ASSERT_EQUAL(r.step, 4);
    dpx_trainer_free(t);
    return r.loss;
}

static void fail_with(const char *const *settings, const char *failure, const char *text, const char *checkpoint,
                      double expected)
{
    dpx_trainer *t = make_trainer(settings);
    dpx_result r = { 0 };

    if (!t)
        return;
    CHECK_DPX(dpx_trainer_resume(t, checkpoint, NULL));
    setenv("DPEXEC_SIM_FAIL", failure, 1);
    CU_ASSERT(train(t, 3, &r) != DPX_OK || train(t, 4, &r) != DPX_OK);
    if (!strstr(dpx_error(), text) || strchr(dpx_error(), '\n'))
        TEST_FAIL("%s: expected one line with \"%s\", found \"%s\"", failure, text, dpx_error());
    unsetenv("DPEXEC_SIM_FAIL");
    CU_ASSERT(train(t, 4, &r) != DPX_OK); /* a trainer that has failed trains no more */
    CU_ASSERT(*dpx_error());
    dpx_trainer_free(t);
    CU_ASSERT_EQUAL(go_on(settings, checkpoint), expected);
}

static void check(const char *const *settings, int n, const char *const (*failure)[2])
{
    char folder[256], checkpoint[300];
    dpx_trainer *t = make_trainer(settings);
    double expected;

    if (!t)
        return;
    make_folder(folder);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", folder);
    for (unsigned k = 1; k < 3; k++)
        CHECK_DPX(train(t, k, NULL));
    CHECK_DPX(dpx_trainer_save(t, checkpoint, NULL));
    dpx_trainer_free(t);
    expected = go_on(settings, checkpoint);
    CU_ASSERT(expected > 0);
    for (int i = 0; i < n; i++)
        fail_with(settings, failure[i][0], failure[i][1], checkpoint, expected);
    remove_folder(folder);
}

static void test_one(void)
{
    static const char *const failures[][2] = { { "launch:2", "cuda:0: " },
                                               { "launch:1:async", "cuda:0: kernel " },
                                               { "graph_launch:1", "cuda:0: graph_launch: injected failure" } };

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    check(one, 3, failures);
}

static void test_two(void)
{
    static const char *const failures[][2] = { { "all_reduce_sum@1:1", "cuda:1: AllReduce" },
                                               { "all_reduce_sum@0:1:lost", "injected loss of rank 0" },
                                               { "all_reduce_sum@1:1:hang",
                                                 "the step has not ended within 2 seconds" } };

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 0);
    setenv("DPEXEC_GPU_TIMEOUT", "2", 1);
    check(two, 3, failures);
    unsetenv("DPEXEC_GPU_TIMEOUT");
}

DEFINE_SUITE(gpu_failure, { "one GPU", test_one }, { "two GPUs", test_two });
