/* The one-call form against dpx_run of one device, in float64: uneven parts, empty ones, axes from the end. */
#include <math.h>
#include <string.h>

#include "tests/api/api.h"

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

    CHECK_DPX(dpx_data_parallel(&keep, m, &in, 1, "cpu*2", 0, 0, &y, 1));
    before = keep;
    in = batch_of(3, "x");
    CHECK_DPX(dpx_data_parallel(&keep, m, &in, 1, "cpu*2", 0, 0, &y, 1));
    CU_ASSERT(keep == before && y.dim[0] == 3);
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

DEFINE_SUITE(data_parallel, { "parts", test_parts }, { "what is kept", test_kept });
