/* Four devices give what one does, also of fewer samples than devices. */
#include "from-torch-dp.h"

#include "tests/cli/from_pages/check.h"

enum { MOST = 10, PIXELS = 28 * 28, CLASSES = 10 };

int main(int argc, char **argv)
{
    static float x[MOST][PIXELS];
    dpx_trainer *keep = NULL, *alone = NULL;
    dpx_tensor image = { "image", DPX_FLOAT32, 4, { 0, 1, 28, 28 }, x }, of_four, of_one;
    dpx_model *model;
    unsigned seed = 1;

    EXPECT(argc == 2 && !dpx_model_load(&model, argv[1]));
    for (int i = 0; i < MOST * PIXELS; i++)
        x[i / PIXELS][i % PIXELS] = number(&seed);
    for (int n = MOST; n >= 1; n -= 3) {
        image.dim[0] = n;
        EXPECT(!forward(&keep, model, &image, &of_four));
        EXPECT(!dpx_data_parallel(&alone, model, &image, 1, "cpu:0", 0, 0, &of_one, 1));
        EXPECT(of_four.rank == 2 && of_four.dim[0] == n && of_four.dim[1] == CLASSES);
        for (int i = 0; i < n * CLASSES; i++)
            EXPECT(fabsf(((float *)of_four.data)[i] - ((float *)of_one.data)[i]) < 1e-4f);
    }
    dpx_trainer_free(keep);
    dpx_trainer_free(alone);
    dpx_model_free(model);
    return 0;
}
