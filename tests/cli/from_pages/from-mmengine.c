/* Bytes are normalised on the way, batches come until there are none, the last is predicted without its targets. */
#include "from-mmengine.h"

#include "tests/cli/from_pages/check.h"

enum { SAMPLES = 10, PIXELS = 64, BATCHES = 9 };

static uint8_t x[SAMPLES][PIXELS];
static int64_t y[SAMPLES];
static int trained, validated, batches;

dpx_status preprocess(void *user, int training, int replica, dpx_tensor *part, int n)
{
    static float made[4][SAMPLES * PIXELS];
    const float *mean_std = user;
    const int64_t count = part[0].dim[0] * PIXELS;

    EXPECT(replica >= 0 && replica < 4 && part[0].dtype == DPX_UINT8 && n == (training ? 2 : 1));
    for (int64_t i = 0; i < count; i++)
        made[replica][i] = ((float)((const uint8_t *)part[0].data)[i] - mean_std[0]) / mean_std[1];
    part[0].dtype = DPX_FLOAT32;
    part[0].data = made[replica];
    trained += training;
    validated += !training;
    return DPX_OK;
}

int next(dpx_tensor *batch)
{
    batch[0] = (dpx_tensor){ "x", DPX_UINT8, 2, { SAMPLES, PIXELS }, x };
    batch[1] = (dpx_tensor){ "y", DPX_INT64, 1, { SAMPLES }, y };
    return batches++ < BATCHES;
}

int main(int argc, char **argv)
{
    float mean_std[2] = { 128, 64 };
    dpx_options *opt = dpx_options_create();
    dpx_tensor batch[2];
    dpx_model *model;
    unsigned seed = 1;

    EXPECT(argc == 2 && opt && !dpx_model_load(&model, argv[1]) && !dpx_options_set(opt, "threads", "1"));
    for (int i = 0; i < SAMPLES * PIXELS; i++)
        x[i / PIXELS][i % PIXELS] = (uint8_t)(number(&seed) * 256);
    for (int i = 0; i < SAMPLES; i++)
        y[i] = i * 3 % 10;
    EXPECT(!train(model, opt, batch, mean_std));
    EXPECT(trained == 4 * BATCHES && validated == 4 && batches == BATCHES + 1);
    dpx_options_free(opt);
    dpx_model_free(model);
    return 0;
}
