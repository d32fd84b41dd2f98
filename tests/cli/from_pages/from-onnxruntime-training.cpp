/* The new column of the page's table of C++, in its order, and the evaluation that it ends with against ONNX Runtime's.
 */
#include "dpexec.hpp"

#include "tests/cli/from_pages/check.h"

enum { SAMPLES = 20, PIXELS = 64, CLASSES = 10 };

int main(int argc, char **argv)
{
    std::vector<float> x(SAMPLES * PIXELS), bias(128);
    std::vector<std::int64_t> y(SAMPLES);
    unsigned seed = 1; /* batch 0 of tests/oracle/onnxruntime_training.py */

    for (float &v : x)
        v = number(&seed) - 0.5f;
    seed = 2;
    for (std::int64_t &v : y)
        v = static_cast<std::int64_t>(number(&seed) * CLASSES);
    const std::vector<dpx_tensor> batch = { dpexec::tensor("x", { SAMPLES, PIXELS }, x),
                                            dpexec::tensor("target", { SAMPLES }, y) };
#include "from-onnxruntime-training-lines.cpp"
    EXPECT(argc == 2 && std::fabs(r.loss - std::atof(argv[1])) < 1e-5);
    EXPECT(rate == 0.002 && note == "epoch 3" && bias[0] != 0);
    return 0;
}
