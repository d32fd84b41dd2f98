/* Steps that are begun, their results taken later: the same results, state and order as step by step, on the CPU, where
 * nothing runs ahead, and on simulated CUDA devices, where one step is under way while the next one begins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "tests/api/api.h"

enum { CALLS = 9 };

static const char *const one_cpu[] = {
    "loss=cross-entropy", "lr=0.1", "momentum=0.9", "threads=1", "clip-norm=1", NULL
};
static const char *const groups[] = { "loss=cross-entropy", "lr=0.1",        "threads=1", "accumulate=2",
                                      "lr-schedule=linear", "total-steps=9", NULL };
static const char *const two_gpus[] = { "loss=cross-entropy", "lr=0.1", "momentum=0.9", "threads=1", "clip-norm=1",
                                        "devices=cuda*2",     NULL };
static const char *const gpu_groups[] = { "loss=cross-entropy", "lr=0.1",        "threads=1",      "accumulate=2",
                                          "lr-schedule=linear", "total-steps=9", "devices=cuda*2", NULL };

/* The batch of call k; every fourth one is smaller. */
static void cut_batch(Batch *b, int k)
{
    make_batch(b, (unsigned)k + 1);
    if (k % 4 == 3)
        b->tensor[0].dim[0] = b->tensor[1].dim[0] = SAMPLES - 2;
}

static int step_by_step(dpx_trainer *t, dpx_result *r)
{
    dpx_result one;
    Batch b;
    int n = 0;

    for (int k = 0; k < CALLS; k++) {
        cut_batch(&b, k);
        if (CHECK_DPX(dpx_train_step(t, b.tensor, 2, &one)) && one.updated)
            r[n++] = one;
    }
    CHECK_DPX(dpx_train_flush(t, &one));
    if (one.updated)
        r[n++] = one;
    return n;
}

/* Takes a result when two are waiting.  Batches are overwritten as soon as they have been given. */
static int one_behind(dpx_trainer *t, dpx_result *r)
{
    int64_t taken = 0;
    Batch b;

    for (int k = 0; k < CALLS; k++) {
        cut_batch(&b, k);
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
        memset(b.x, 0xff, sizeof b.x);
        memset(b.label, 0, sizeof b.label);
        if (dpx_trainer_step_count(t) - taken == 2)
            CHECK_DPX(dpx_train_result(t, &r[taken++]));
    }
    CHECK_DPX(dpx_train_flush(t, NULL));
    while (taken < dpx_trainer_step_count(t))
        if (!CHECK_DPX(dpx_train_result(t, &r[taken++])))
            break;
    return (int)taken;
}

static int same_result(const dpx_result *a, const dpx_result *b)
{
    return a->step == b->step && a->samples == b->samples && a->loss == b->loss && a->lr == b->lr && a->updated &&
           b->updated && (a->grad_norm == b->grad_norm || (isnan(a->grad_norm) && isnan(b->grad_norm)));
}

static void check_same_state(dpx_trainer *a, dpx_trainer *b)
{
    static float x[PIXELS * 128], y[PIXELS * 128];
    dpx_tensor ta = { .name = "fc1.weight", .dtype = DPX_FLOAT32, .rank = 2, .dim = { 128, PIXELS }, .data = x },
               tb = ta;

    tb.data = y;
    CHECK_DPX(dpx_trainer_get_state(a, "fc1.weight", &ta));
    CHECK_DPX(dpx_trainer_get_state(b, "fc1.weight", &tb));
    CU_ASSERT_FALSE(memcmp(x, y, sizeof x));
}

static void compare(const char *const *settings, int ahead)
{
    dpx_trainer *a = make_trainer(settings), *b = make_trainer(settings);
    dpx_result expected[CALLS + 1], found[CALLS + 1];
    int n, m;

    if (!a || !b)
        return;
    CU_ASSERT_EQUAL(dpx_trainer_runs_ahead(b), ahead);
    n = step_by_step(a, expected);
    m = one_behind(b, found);
    CU_ASSERT_EQUAL(m, n);
    CU_ASSERT(n >= 5 && expected[n - 1].step == n && isfinite(expected[n - 1].loss) &&
              expected[0].loss != expected[n - 1].loss);
    for (int k = 0; k < n && k < m; k++)
        if (!same_result(&expected[k], &found[k]))
            TEST_FAIL("%s: step %d: loss %.9g, expected %.9g", settings[0], k + 1, found[k].loss, expected[k].loss);
    check_same_state(a, b);
    dpx_trainer_free(a);
    dpx_trainer_free(b);
}

/* A checkpoint holds what the steps begun leave, whether their results were taken or not. */
static void save_ahead(const char *const *settings)
{
    dpx_trainer *t = make_trainer(settings), *u = make_trainer(settings);
    char folder[256];
    dpx_result r, q;
    Batch b;

    if (!t || !u)
        return;
    make_folder(folder);
    for (int k = 0; k < 2; k++) {
        cut_batch(&b, k);
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
    }
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    CU_ASSERT_EQUAL(dpx_trainer_step_count(u), 2);
    check_same_state(t, u);
    CHECK_DPX(dpx_train_result(t, &r));
    CHECK_DPX(dpx_train_result(t, &r));
    cut_batch(&b, 2);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_train_step(u, b.tensor, 2, &q));
    CU_ASSERT(r.step == 3 && q.step == 3 && r.loss == q.loss);
    check_same_state(t, u);
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

/* Results wait for nobody else's, and a step that gives its own waits for none. */
static void refuse(const char *const *settings)
{
    dpx_trainer *t = make_trainer(settings);
    dpx_result r, v;
    Batch b;

    if (!t)
        return;
    make_batch(&b, 1);
    CHECK_DPX_FAILS(DPX_INVALID, "no result to take", dpx_train_result(t, &r));
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
    CHECK_DPX_FAILS(DPX_INVALID, "1 step has been begun", dpx_train_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
    CHECK_DPX_FAILS(DPX_INVALID, "2 steps have been begun", dpx_train_step(t, b.tensor, 2, NULL));
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &v)); /* sees what both have left */
    CHECK_DPX(dpx_train_result(t, &r));
    CU_ASSERT(r.step == 1 && v.loss < r.loss);
    CHECK_DPX(dpx_train_result(t, &r));
    CU_ASSERT(r.step == 2 && v.loss < r.loss);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    CU_ASSERT(r.step == 3 && r.loss == v.loss);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL)); /* nobody asks */
    dpx_trainer_free(t);
}

/* A step whose data are no numbers is the one whose loss is none. */
static void find_bad_step(const char *const *settings)
{
    dpx_trainer *t = make_trainer(settings);
    dpx_result r;
    Batch b;

    for (int k = 0; t && k < 5; k++) {
        make_batch(&b, 1);
        if (k == 2)
            b.x[1][1] = NAN;
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
        if (k)
            CHECK_DPX(dpx_train_result(t, &r));
        if (k)
            CU_ASSERT(r.step == k && isnan(r.loss) == (k >= 3));
    }
    dpx_trainer_free(t);
}

/* Programs of many shapes do not drive out the one whose step is under way. */
static void keep_what_runs(void)
{
    static const char *const few[] = {
        "loss=cross-entropy", "lr=0.1", "threads=1", "devices=cuda*2", "programs=4", NULL
    };
    dpx_trainer *t = make_trainer(few), *u = make_trainer(few);
    dpx_result r = { 0 }, expected = { 0 };
    dpx_tensor y;
    Batch b;

    if (!t || !u)
        return;
    make_batch(&b, 1);
    CHECK_DPX(dpx_train_step(u, b.tensor, 2, &expected));
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
    for (int n = 1; n <= SAMPLES; n++) {
        b.tensor[0].dim[0] = n;
        CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
        CU_ASSERT_EQUAL(y.dim[0], n);
    }
    CHECK_DPX(dpx_train_result(t, &r));
    CU_ASSERT(r.step == 1 && r.loss == expected.loss);
    check_same_state(t, u);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

/* Micro-batches whose outputs nobody reads hold no program: of groups of many shapes no more stay than are kept. */
static void forget_groups(const char *const *settings)
{
    dpx_trainer *t = make_trainer(settings);
    dpx_result r;
    Batch b;

    for (int n = 1; t && n <= SAMPLES; n++) {
        make_batch(&b, 1);
        b.tensor[0].dim[0] = b.tensor[1].dim[0] = n;
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, NULL));
        CHECK_DPX(dpx_train_result(t, &r));
        CU_ASSERT(r.step == n && r.samples == 2 * n);
    }
    if (t)
        CU_ASSERT_EQUAL(session_count_programs(t->session), SESSION_LEAST_PROGRAMS);
    dpx_trainer_free(t);
}

static void test_cpu(void)
{
    compare(one_cpu, 0);
    compare(groups, 0);
    refuse(one_cpu);
    save_ahead(one_cpu);
    find_bad_step(one_cpu);
    forget_groups((const char *const[]){ "loss=cross-entropy", "threads=1", "accumulate=2", "programs=4", NULL });
}

static void test_cuda(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", BUILD_DIR "/libdpexec_cudasim.so", 0);
    compare(two_gpus, 1);
    compare(gpu_groups, 1);
    refuse(two_gpus);
    save_ahead(two_gpus);
    find_bad_step(two_gpus);
    keep_what_runs();
    forget_groups((const char *const[]){ "loss=cross-entropy", "threads=1", "accumulate=2", "programs=4",
                                         "devices=cuda*2", NULL });
}

DEFINE_SUITE(ahead, { "on simulated CUDA devices", test_cuda }, { "on the CPU", test_cpu });
