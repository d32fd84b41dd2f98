/* The one-call form against dpx_run of one device, in float64: uneven parts, empty ones, axes from the end. */
#include <math.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/own_losses.h"

#define MODEL SOURCE_DIR "/tests/cli/compat/model.onnx"

enum { MOST = 10, ROWS = 3, COLUMNS = 4, WIDE = ROWS * COLUMNS, OUT = 4 };

static double x[MOST * WIDE];

static dpx_tensor batch_of(int n, const char *name)
{
    for (int i = 0; i < MOST * WIDE; i++)
        x[i] = sin(0.7 * i * i + 0.1);
    return (dpx_tensor){ name, DPX_FLOAT64, 3, { n, ROWS, COLUMNS }, x };
}

static dpx_model *load(void)
{
    dpx_model *m = NULL;

    CHECK_DPX(dpx_model_load(&m, MODEL));
    return m;
}

/* What one device computes. */
static void expect(double *out, const dpx_model *m, int n)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_tensor in = batch_of(n, "x"), y = { .rank = 0 };

    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    CHECK_DPX(dpx_run(t, &in, 1, &y, 1));
    CU_ASSERT_FATAL(y.rank == 2 && y.dim[0] == n && y.dim[1] == OUT && y.dtype == DPX_FLOAT64);
    memcpy(out, y.data, (size_t)(n * OUT) * sizeof *out);
    dpx_trainer_free(t);
    dpx_options_free(o);
}

static void test_parts(void)
{
    static const int sizes[] = { 10, 5, 3, 1 }, output[] = { 0, 3, -1, 0 };
    dpx_model *m = load();
    dpx_trainer *keep = NULL;
    double want[MOST * OUT];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 4; how++) {
            const int n = sizes[i];
            dpx_tensor in = batch_of(n, how & 1 ? NULL : "x"), y = { .rank = 0 };
            double worst = 0;

            expect(want, m, n);
            CHECK_DPX(dpx_data_parallel(&keep, m, &in, 1, how < 3 ? "cpu*4" : NULL, output[how], how ? -3 : 0, &y, 1));
            CU_ASSERT_FATAL(y.rank == 2 && y.dim[0] == n && y.dim[1] == OUT && !strcmp(y.name, "scores"));
            CU_ASSERT(dpx_trainer_replicas(keep) == (how < 3 ? 4 : 1));
            for (int k = 0; k < n * OUT; k++)
                worst = fmax(worst, fabs(((double *)y.data)[k] - want[k]));
            CU_ASSERT(worst < 1e-13);
        }
    dpx_trainer_free(keep);
    dpx_model_free(m);
}

static void test_kept(void)
{
    dpx_model *m = load();
    dpx_trainer *keep = NULL, *before;
    dpx_tensor in = batch_of(5, "x"), y;
    double first[3 * OUT];

    CHECK_DPX(dpx_data_parallel(&keep, m, &in, 1, "cpu*2", 0, 0, &y, 1));
    before = keep;
    in = batch_of(3, "x");
    CHECK_DPX(dpx_data_parallel(&keep, m, &in, 1, "cpu*2", 0, 0, &y, 1));
    CU_ASSERT(keep == before && y.dim[0] == 3);
    memcpy(first, y.data, sizeof first);
    CHECK_DPX(dpx_data_parallel(&keep, m, &in, 1, "cpu*2", 0, 0, &y, 1)); /* nothing has changed: no state, no step */
    CU_ASSERT(!memcmp(first, y.data, sizeof first) && dpx_trainer_step_count(keep) == 0);
    CHECK_DPX(dpx_data_parallel(&keep, m, &in, 1, "cpu*3", 0, 0, &y, 1));
    CU_ASSERT(dpx_trainer_replicas(keep) == 3);
    CHECK_DPX_FAILS(DPX_INVALID, "--output-device 3: expected one of 3 devices",
                    dpx_data_parallel(&keep, m, &in, 1, "cpu*3", 3, 0, &y, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "input 'x' has rank 3, and no axis -4",
                    dpx_data_parallel(&keep, m, &in, 1, "cpu*3", 0, -4, &y, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "expected 1 or more", dpx_data_parallel(&keep, m, &in, 0, NULL, 0, 0, &y, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "devices: 'tpu'", dpx_data_parallel(&keep, m, &in, 1, "tpu", 0, 0, &y, 1));
    dpx_trainer_free(keep);
    dpx_model_free(m);
}

/* What module_kwargs are there: inputs by name, in any order; each output as it is spread, one number once.  Inputs of
 * unequal lengths are no parts of one batch. */
static void test_named(void)
{
    static const int number[] = { 1, 3, 4 }, logged[] = { 2, 4, 5 }; /* loss, Loss_of_size, acc */
    dpx_tensor in[3] = { { "z", DPX_FLOAT64, 2, { OWN_SAMPLES, 2 }, (void *)(uintptr_t)own_z },
                         { "y", DPX_INT64, 1, { OWN_SAMPLES }, (void *)(uintptr_t)own_y },
                         { "x", DPX_FLOAT64, 2, { OWN_SAMPLES, 4 }, (void *)(uintptr_t)own_x } },
               y[5];
    dpx_trainer *keep = NULL;
    dpx_model *m = NULL;

    CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/tests/api/own_losses.onnx"));
    for (int devices = 1; devices <= 4; devices++) {
        const char list[] = { 'c', 'p', 'u', '*', (char)('0' + devices), 0 };
        double worst = 0;

        if (!CHECK_DPX(dpx_data_parallel(&keep, m, in, 3, list, 0, 0, y, 5)))
            break;
        CU_ASSERT_FATAL(y[0].rank == 2 && y[0].dim[0] == OWN_SAMPLES && y[1].rank == 0 && y[2].rank == 2 &&
                        y[2].dim[0] == OWN_SAMPLES && y[3].rank == 0 && y[4].rank == 0);
        for (int k = 0; k < OWN_SAMPLES * 3; k++)
            worst = fmax(worst, fabs(((double *)y[0].data)[k] - own_scores[k]));
        for (int i = 0; i < 3; i++) /* of the whole batch, as PyTorch has them without parts */
            worst = fmax(worst, fabs(*(double *)y[number[i]].data - own_whole[logged[i]]));
        CU_ASSERT(worst < 1e-12);
    }
    in[0].dim[0] = OWN_SAMPLES - 1;
    CHECK_DPX_FAILS(DPX_SHAPE, "a batch of 13 samples (input 'x'): input 'z' has 12",
                    dpx_data_parallel(&keep, m, in, 3, "cpu*4", 0, 0, y, 5));
    in[0].dim[0] = OWN_SAMPLES, in[1].dim[0] = OWN_SAMPLES - 5;
    CHECK_DPX_FAILS(DPX_SHAPE, "a batch of 13 samples (input 'x'): input 'y' has 8",
                    dpx_data_parallel(&keep, m, in, 3, "cpu*4", 0, 0, y, 5));
    dpx_trainer_free(keep);
    dpx_model_free(m);
}

/* ---- outputs that are not put together ---- */

static dpx_trainer *make_apart(const char *path, const char *replicas, const char *devices)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;

    CHECK_DPX(dpx_model_load(&m, path));
    CHECK_DPX(dpx_options_set(o, "devices", devices));
    CHECK_DPX(dpx_options_set(o, "replicas", replicas));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "output-device", "each"));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

/* One part after the other is the whole; those without samples have none. */
static void check_parts(const dpx_tensor *y, int n_out, const double *want, int n)
{
    static const int count[11][4] = { [10] = { 3, 3, 2, 2 }, [5] = { 2, 1, 1, 1 }, [3] = { 1, 1, 1, 0 } };

    CU_ASSERT_FATAL(n_out == 4);
    for (int r = 0; r < 4; r++) {
        const char name[] = { 's', 'c', 'o', 'r', 'e', 's', '@', 'r', (char)('0' + r), 0 };

        CU_ASSERT_STRING_EQUAL(y[r].name, name);
        CU_ASSERT_FATAL(y[r].rank == 2 && y[r].dim[0] == count[n][r] && y[r].dim[1] == OUT);
        for (int k = 0; k < count[n][r] * OUT; k++)
            CU_ASSERT(fabs(((double *)y[r].data)[k] - *want++) < 1e-13);
    }
}

static void test_apart(void)
{
    static const int sizes[] = { 10, 5, 3 };
    dpx_trainer *t = make_apart(MODEL, "4", "cpu*2");
    dpx_model *m = load();
    double want[MOST * OUT];

    for (size_t i = 0; t && i < sizeof sizes / sizeof *sizes; i++) {
        dpx_tensor in = batch_of(sizes[i], "x"), y[4];
        dpx_result r;

        expect(want, m, sizes[i]);
        CHECK_DPX(dpx_run(t, &in, 1, y, 4));
        check_parts(y, 4, want, sizes[i]);
        CHECK_DPX(dpx_val_step(t, &in, 1, &r));
        check_parts(r.outputs, r.n_outputs, want, sizes[i]);
        CHECK_DPX_FAILS(DPX_INVALID, "room for 1 outputs, the model has 1, of which each replica may give its own",
                        dpx_run(t, &in, 1, y, 1));
    }
    dpx_model_free(m);
    dpx_trainer_free(t);
}

/* Sums over the batch, and what every replica has, are given once. */
static void test_apart_and_whole(void)
{
    static const char *const names[] = { "scores@r0",   "scores@r1",    "loss", "box_loss@r0",
                                         "box_loss@r1", "Loss_of_size", "acc" };
    static double a[12], z[6];
    static int64_t label[3] = { 0, 2, 1 };
    dpx_tensor in[3] = { { "x", DPX_FLOAT64, 2, { 3, 4 }, a },
                         { "y", DPX_INT64, 1, { 3 }, label },
                         { "z", DPX_FLOAT64, 2, { 3, 2 }, z } },
               y[10];
    dpx_trainer *t = make_apart(SOURCE_DIR "/tests/api/own_losses.onnx", "2", "cpu:0");

    if (t && CHECK_DPX(dpx_run(t, in, 3, y, 10))) {
        for (int i = 0; i < 7; i++)
            CU_ASSERT(y[i].name && !strcmp(y[i].name, names[i]));
        CU_ASSERT(!y[7].name && !y[8].name && !y[9].name && y[2].rank == 0);
    }
    dpx_trainer_free(t);
    t = make_apart(SOURCE_DIR "/tests/api/own_losses.onnx", "1", "cpu:0");
    if (t && CHECK_DPX(dpx_run(t, in, 3, y, 5))) /* one replica's are whole */
        CU_ASSERT(!strcmp(y[0].name, "scores") && y[0].dim[0] == 3);
    dpx_trainer_free(t);
}

DEFINE_SUITE(data_parallel, { "parts", test_parts }, { "what is kept", test_kept }, { "by name", test_named },
             { "apart", test_apart }, { "apart and whole", test_apart_and_whole });
