/* Networks as PyTorch's exporters write them, with one batch size baked in, equal parameters merged, tokens expanded
 * and transposes folded: trained at other batch sizes, on any number of replicas, they have PyTorch's losses in
 * float64. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/repaired.h"

static void *as_type(const double *v, int64_t n, bool integer)
{
    int64_t *whole = malloc((size_t)n * sizeof *whole);
    double *real = malloc((size_t)n * sizeof *real);

    for (int64_t i = 0; i < n; i++) {
        whole[i] = (int64_t)v[i];
        real[i] = v[i];
    }
    free(integer ? (void *)real : (void *)whole);
    return integer ? (void *)whole : (void *)real;
}

static dpx_tensor tensor(const char *name, int rank, const int64_t *dim, const double *v, bool integer)
{
    dpx_tensor t = { .name = name, .dtype = integer ? DPX_INT64 : DPX_FLOAT64, .rank = rank };
    int64_t n = 1;

    for (int i = 0; i < rank; i++)
        n *= t.dim[i] = dim[i];
    t.data = as_type(v, n, integer);
    return t;
}

static dpx_trainer *open_trainer(const char *name, const char *exporter, int b0, const char *replicas)
{
    const char *const given[][2] = { { "loss", "mse" },      { "lr", repaired_rate }, { "momentum", "0" },
                                     { "dtype", "float64" }, { "threads", "1" },      { "replicas", replicas } };
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_trainer *t = NULL;
    char path[512];

    snprintf(path, sizeof path, SOURCE_DIR "/tests/api/repaired_%s_%s_%d.onnx", name, exporter, b0);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        CHECK_DPX(dpx_options_set(o, given[i][0], given[i][1]));
    if (!strcmp(name, "windows") &&
        !strcmp(exporter, "new")) /* a start state: the file does not say that it is no parameter */
        CHECK_DPX(dpx_options_set(o, "freeze", "zeros"));
    if (CHECK_DPX(dpx_model_load(&m, path)))
        CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

static void check_losses(const Repaired *r, const char *exporter, int b0, const char *replicas)
{
    dpx_trainer *t = open_trainer(r->name, exporter, b0, replicas);
    dpx_tensor batch[2] = { tensor("x", r->x_rank, r->x_dim, r->x, r->integer),
                            tensor("target", r->target_rank, r->target_dim, r->target, false) };

    for (int i = 0; t && i < REPAIRED_STEPS; i++) {
        dpx_result result = { .loss = NAN };

        if (!CHECK_DPX(dpx_train_step(t, batch, 2, &result)))
            break;
        if (!(fabs(result.loss - r->losses[i]) <= 1e-10 * fabs(r->losses[i]))) {
            printf("  %s_%s_%d, %s replicas, step %d: loss %.15g, PyTorch %.15g\n", r->name, exporter, b0, replicas, i,
                   result.loss, r->losses[i]);
            CU_FAIL("loss");
        }
    }
    free((void *)batch[0].data);
    free((void *)batch[1].data);
    dpx_trainer_free(t);
}

/* Of one row it cannot be told whether computed numbers add it up with nothing or with the first of a count. */
static void test_refused(void)
{
    const Repaired *r = repaired;
    dpx_tensor batch[2];

    while (strcmp(r->name, "picked"))
        r++;
    batch[0] = tensor("x", r->x_rank, r->x_dim, r->x, false);
    batch[1] = tensor("target", r->target_rank, r->target_dim, r->target, false);
    for (int newer = 0; newer < 2; newer++) {
        dpx_trainer *t = open_trainer("picked", newer ? "new" : "old", 1, "1");
        dpx_result result;

        if (t && newer)
            CHECK_DPX_FAILS(E_SHAPE, "Concat node_Concat_13", dpx_train_step(t, batch, 2, &result));
        else if (t)
            CHECK_DPX_FAILS(E_UNSUPPORTED, "exported for batches of 1 and does not work for 7: Gather /Gather_1",
                            dpx_train_step(t, batch, 2, &result));
        dpx_trainer_free(t);
    }
    free((void *)batch[0].data);
    free((void *)batch[1].data);
}

static void test_losses(void)
{
    for (size_t i = 0; i < sizeof repaired / sizeof *repaired; i++)
        for (int b0 = 1; b0 <= 4; b0 += 3)
            for (int newer = 0; newer < 2; newer++) {
                if (b0 == 1 && !strcmp(repaired[i].name, "picked")) /* test_refused */
                    continue;
                for (int replicas = 1; replicas <= 3; replicas += 2)
                    check_losses(&repaired[i], newer ? "new" : "old", b0, replicas == 1 ? "1" : "3");
            }
}

DEFINE_SUITE(repaired, { "PyTorch's losses at another batch size", test_losses },
             { "one row that may be the first of a count", test_refused });
