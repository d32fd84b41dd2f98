/* The new column of the page's table of C, in its order, and the evaluation that it ends with against ONNX Runtime's.
 */
#include "from-onnxruntime-training.h"

#include "tests/cli/from_pages/check.h"

enum { SAMPLES = 20, PIXELS = 64, CLASSES = 10, PARAMETERS = 17226 };

static float x[SAMPLES][PIXELS], buffer[PARAMETERS];
static int64_t y[SAMPLES];

/* Batch 0 of tests/oracle/onnxruntime_training.py. */
static void make_batch(void)
{
    unsigned seed = 1;

    for (int i = 0; i < SAMPLES * PIXELS; i++)
        x[i / PIXELS][i % PIXELS] = number(&seed) - 0.5f;
    seed = 2;
    for (int i = 0; i < SAMPLES; i++)
        y[i] = (int64_t)(number(&seed) * CLASSES);
}

int main(int argc, char **argv)
{
    dpx_tensor batch[] = { { "x", DPX_FLOAT32, 2, { SAMPLES, PIXELS }, x },
                           { "target", DPX_INT64, 1, { SAMPLES }, y } };
    dpx_options *o;
    dpx_model *model;
    dpx_trainer *t;
    dpx_result r;
    char *note;
    double rate = 0;
    int64_t n;

    make_batch();
#include "from-onnxruntime-training-lines.c"
    EXPECT(argc == 2 && fabs(r.loss - atof(argv[1])) < 1e-5);
    EXPECT(n == PARAMETERS && rate == 0.002 && !strcmp(note, "epoch 3"));
    free(note);
    dpx_options_free(o);
    return 0;
}
