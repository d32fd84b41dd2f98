/* Training on the CPU as its target wants it, with convolutions in blocks of channels and Relu part of them, and with
 * everything by rows and each operator by itself: the same but for roundings, and, with many replicas, the same bytes
 * wherever they are. */
#include <math.h>
#include <string.h>

#include "tests/exec/gpu_training.h"
#include "tests/harness/test.h"

/* The most that 1e-5 of what is stored lets them differ, norm-wise; gradients in 1e-5 of what the training changed. */
static void compare(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected)
{
    double diff = 0, norm = 0, change = 0;

    CU_ASSERT_FATAL(found->all == expected->all && found->all > 100);
    for (size_t i = 0; i < found->all; i++) {
        diff += pow((double)found->after[i] - (double)expected->after[i], 2);
        norm += pow((double)expected->after[i], 2);
        change += pow((double)expected->after[i] - (double)expected->before[i], 2);
    }
    if (!(sqrt(diff) <= 1e-5 * sqrt(norm)) || !(sqrt(diff) <= 1e-4 * sqrt(change)))
        TEST_FAIL("%s, %d replicas: states differ by %g of %g, which changed by %g", r->model, r->replicas, sqrt(diff),
                  sqrt(norm), sqrt(change));
    for (int k = 0; k < r->steps; k++)
        if (!(fabs((double)found->loss[k] - (double)expected->loss[k]) <= 1e-5 * fabs((double)expected->loss[k])))
            TEST_FAIL("%s: loss of step %d is %.9g, expected %.9g", r->model, k, (double)found->loss[k],
                      (double)expected->loss[k]);
}

/* `relus`: convolutions that take in a Relu, for each replica. */
static void check_model(const char *model, int batch, int replicas, int relus)
{
    Arena *a = arena_create();
    GpuRun r = { .model = model, .batch = batch, .steps = 3, .replicas = replicas, .devices = 1, .rate = 0.002 };
    GpuOutcome rows = gpu_train(a, &r), blocked, spread;

    r.native = true;
    blocked = gpu_train(a, &r);
    compare(&r, &blocked, &rows);
    CU_ASSERT(rows.reorders == 0 && rows.conv_relus == 0);
    CU_ASSERT(blocked.reorders > 0);
    CU_ASSERT_EQUAL(blocked.conv_relus, relus * replicas);
    r.devices = 2;
    spread = gpu_train(a, &r);
    if (spread.bytes != blocked.bytes || memcmp(spread.state, blocked.state, blocked.bytes))
        TEST_FAIL("%s, %d replicas: other bytes on two devices than on one", model, replicas);
    arena_free(a);
}

static void test_norms(void) { check_model("resnet20", 4, 2, 0); }

static void test_pools(void) { check_model("fashion_cnn", 7, 3, 0); }

static void test_relus(void) { check_model("exported_folded", 5, 2, 5); }

static void test_joins(void) { check_model("unet", 2, 2, 0); }

DEFINE_SUITE(cpu_layouts, { "batch norms", test_norms }, { "pools", test_pools },
             { "Relu in convolutions", test_relus }, { "skip connections", test_joins });
