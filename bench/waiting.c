/* The program of bench/waiting.sh: waiting MODEL STEPS trains models/mlp.onnx and prints its steps per second. */
#include <dpexec.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLES = 64, PIXELS = 64 };

static double now(void)
{
    struct timespec t;

    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run(dpx_trainer *trainer, int steps)
{
    static float x[SAMPLES][PIXELS];
    static int64_t label[SAMPLES];
    const dpx_tensor batch[] = { { "x", DPX_FLOAT32, 2, { SAMPLES, PIXELS }, x },
                                 { "target", DPX_INT64, 1, { SAMPLES }, label } };
    dpx_result r;
    double begun = 0;

    for (int k = 0; k < SAMPLES * PIXELS; k++)
        x[k / PIXELS][k % PIXELS] = (float)(k * 37 % 101) / 101;
    for (int i = 0; i < SAMPLES; i++)
        label[i] = i % 10;
    for (int k = 0; k <= steps; k++) { /* the first step compiles */
        if (dpx_train_step(trainer, batch, 2, &r))
            return 1;
        if (!k)
            begun = now();
    }
    printf("%6.0f steps/s\n", steps / (now() - begun));
    return 0;
}

int main(int argc, char **argv)
{
    dpx_options *options = dpx_options_create();
    dpx_model *model = NULL;
    dpx_trainer *trainer = NULL;
    const int failed = argc < 3 || dpx_options_set(options, "loss", "cross-entropy") ||
                       dpx_options_set(options, "threads", "2") || dpx_model_load_within(&model, argv[1], options) ||
                       dpx_trainer_create(&trainer, model, options, NULL, NULL) || run(trainer, atoi(argv[2]));

    if (failed)
        fprintf(stderr, "waiting: %s\n", dpx_error());
    dpx_trainer_free(trainer);
    dpx_model_free(model);
    dpx_options_free(options);
    return failed;
}
