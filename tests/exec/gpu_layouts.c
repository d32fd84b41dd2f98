/* Training on CUDA devices with convolutions channels last and with everything stored by rows: the same, and as many
 * Reorders as the model needs. */
#include <math.h>

#include "tests/exec/gpu_training.h"
#include "tests/harness/test.h"

/* Norms over numbers [from, to) of what differs between two trainings, and of what one of them has changed. */
static void check_changes(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, size_t from, size_t to,
                          double most, const char *what)
{
    double diff = 0, change = 0;

    for (size_t i = from; i < to; i++) {
        diff += pow((double)found->after[i] - (double)expected->after[i], 2);
        change += pow((double)expected->after[i] - (double)expected->before[i], 2);
    }
    if (!(sqrt(diff) <= most * sqrt(change)) || change == 0)
        TEST_FAIL("%s, %d replicas: %s differ by %g of a change of %g", r->model, r->replicas, what, sqrt(diff),
                  sqrt(change));
}

/* Of trainings in float32, whatever the layout: what they have stored at the end, and what they have changed.  What a
 * training has changed is a sum of its steps' gradients, of which few differ by more than their rounding as long as no
 * decision of a window or Relu is turned over: 1e-5 in all where both add alike, a step on a device, as between CPU
 * and device (gpu_training.h). */
static void compare_states(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected)
{
    const double most = gpu_simulated() ? 1e-5 : 1e-5 * r->steps;
    double diff = 0, norm = 0;

    CU_ASSERT_FATAL(found->all == expected->all && found->momenta == expected->momenta && found->momenta > 100);
    for (size_t i = 0; i < found->all; i++) {
        diff += pow((double)found->after[i] - (double)expected->after[i], 2);
        norm += pow((double)expected->after[i], 2);
    }
    if (!(sqrt(diff) <= gpu_run_tolerance(r) * sqrt(norm)))
        TEST_FAIL("%s, %d replicas: states differ by %g of %g", r->model, r->replicas, sqrt(diff), sqrt(norm));
    check_changes(r, found, expected, 0, found->momenta, most, "momenta");
    check_changes(r, found, expected, found->momenta, found->all, most, "parameters and statistics");
}

/* The same training with everything stored by rows and with convolutions channels last; `reorders` for each replica. In
 * 16 bits the order of a sum turns over last bits of what is stored, behind some layers those of a good part of it, and
 * with them a share epsilon of what windows and Relu decide behind batch-norm: gradients differ by sqrt(epsilon), the
 * two by twice that (tests/exec/precision.c). */
static void check_layout(GpuRun r, int reorders)
{
    Arena *a = arena_create();
    GpuOutcome rows, last, exact = { 0 };

    r.cuda = true;
    r.rate = 0.002;
    r.devices = r.devices < gpu_devices() ? r.devices : gpu_devices();
    rows = gpu_train(a, &r);
    r.channels_last = true;
    r.lead = r.precision ? rows.begin : NULL;
    last = gpu_train(a, &r);
    gpu_compare_losses(&r, &last, &rows);
    if (r.precision) {
        if (!gpu_simulated())
            exact = gpu_train_exact(a, &r, &rows);
        gpu_compare_steps(&r, &last, &rows, &exact, 2 * sqrt(gpu_run_tolerance(&r)));
    } else {
        compare_states(&r, &last, &rows);
    }
    CU_ASSERT_EQUAL(rows.reorders, 0);
    if (last.reorders != reorders * r.replicas)
        TEST_FAIL("%s: %d Reorders, expected %d for each of %d replicas", r.model, last.reorders, reorders, r.replicas);
    arena_free(a);
}

/* What Flatten reads, and its gradient: one channel that comes in has no order. */
static void test_layout_cnn(void)
{
    check_layout((GpuRun){ .model = "fashion_cnn", .batch = 4, .steps = 6, .replicas = 2, .devices = 2 }, 2);
    check_layout(
        (GpuRun){
            .model = "fashion_cnn", .batch = 4, .steps = 6, .replicas = 1, .devices = 1, .precision = DT_BFLOAT16 },
        2);
    check_layout(
        (GpuRun){
            .model = "fashion_cnn", .batch = 4, .steps = 4, .replicas = 3, .devices = 1, .precision = DT_FLOAT16 },
        2);
}

/* What comes in, nothing within. */
static void test_layout_resnet(void)
{
    check_layout((GpuRun){ .model = "resnet20", .batch = 4, .steps = 2, .replicas = 1, .devices = 1 }, 1);
    check_layout(
        (GpuRun){ .model = "resnet20", .batch = 4, .steps = 2, .replicas = 2, .devices = 1, .precision = DT_BFLOAT16 },
        1);
}

/* What comes in, what Flatten reads, and its gradient. */
static void test_layout_folded(void)
{
    check_layout((GpuRun){ .model = "exported_folded", .batch = 4, .steps = 4, .replicas = 2, .devices = 1 }, 3);
    check_layout(
        (GpuRun){
            .model = "exported_folded", .batch = 4, .steps = 4, .replicas = 1, .devices = 1, .precision = DT_FLOAT16 },
        3);
}

/* What comes in, what the loss reads, and its gradient; in 16 bits also the float32 scores that right answers are
 * counted from. */
static void test_layout_unet(void)
{
    check_layout((GpuRun){ .model = "unet", .batch = 1, .steps = 2, .replicas = 1, .devices = 1 }, 3);
    check_layout(
        (GpuRun){ .model = "unet", .batch = 1, .steps = 2, .replicas = 1, .devices = 1, .precision = DT_FLOAT16 }, 4);
}

DEFINE_SUITE(gpu_layouts, { "fashion_cnn", test_layout_cnn }, { "resnet20", test_layout_resnet },
             { "exported_folded", test_layout_folded }, { "unet", test_layout_unet });
