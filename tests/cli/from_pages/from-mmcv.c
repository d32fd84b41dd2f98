/* Samples in containers train as the batch that they make. */
#include "from-mmcv.h"

#include "tests/cli/from_pages/check.h"

enum { SAMPLES = 8, PIXELS = 28 * 28 };

static dpx_trainer *trainer_of(const dpx_model *model)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t;

    EXPECT(o && !dpx_options_set(o, "loss", "cross-entropy") && !dpx_options_set(o, "devices", "cpu*4"));
    EXPECT(!dpx_options_set(o, "threads", "1") && !dpx_options_set(o, "lr", "0.1"));
    EXPECT(!dpx_trainer_create(&t, model, o, NULL, NULL));
    dpx_options_free(o);
    return t;
}

int main(int argc, char **argv)
{
    static float x[SAMPLES][PIXELS], size[2] = { 28, 28 };
    static int64_t y[SAMPLES];
    dpx_tensor batch[2] = { { "img", DPX_FLOAT32, 4, { SAMPLES, 1, 28, 28 }, x },
                            { "target", DPX_INT64, 1, { SAMPLES }, y } };
    const dpx_tensor about = { NULL, DPX_FLOAT32, 1, { 2 }, size };
    dpx_data *sample[SAMPLES], *meta;
    dpx_trainer *of_samples, *of_batches;
    dpx_result r, expected;
    dpx_model *model;
    unsigned seed = 1;

    EXPECT(argc == 2 && !dpx_model_load(&model, argv[1]) && !dpx_data_tensor(&meta, &about));
    of_samples = trainer_of(model);
    of_batches = trainer_of(model);
    for (int i = 0; i < SAMPLES; i++) {
        const dpx_tensor img = { NULL, DPX_FLOAT32, 3, { 1, 28, 28 }, x[i] },
                         label = { NULL, DPX_INT64, 0, { 0 }, &y[i] };

        y[i] = i * 3 % 10;
        for (int k = 0; k < PIXELS; k++)
            x[i][k] = number(&seed);
        EXPECT(!prepare(&sample[i], &img, &label, meta));
    }
    for (int step = 0; step < 3; step++) {
        EXPECT(!train(of_samples, (const dpx_data *const *)sample, &r));
        EXPECT(!dpx_train_step(of_batches, batch, 2, &expected));
        EXPECT(r.samples == SAMPLES && r.loss == expected.loss);
    }
    for (int i = 0; i < SAMPLES; i++)
        dpx_data_free(sample[i]);
    dpx_data_free(meta);
    dpx_trainer_free(of_samples);
    dpx_trainer_free(of_batches);
    dpx_model_free(model);
    return 0;
}
