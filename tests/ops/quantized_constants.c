/* Constants that are quantised and dequantised while a model is read, by scales along the first of two axes. */
#include <string.h>

#include "graph/ops/quantize.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"

/* Rows of scale 0.5 and zero point 0, and of scale 2 and zero point 1. */
static void test_first_axis(void)
{
    static const char text[] = "graph \"g\" {\n"
                               "  const %x : float32[2,3] = {0.5,1,1.5,6,8,10}\n"
                               "  const %s : float32[2] = {0.5,2}\n"
                               "  const %z : int8[2] = {0,1}\n"
                               "  %q = QuantizeLinear(%x, %s, %z) {axis=0}\n"
                               "  %y = DequantizeLinear(%q, %s, %z) {axis=0}\n"
                               "  output \"y\" = %y\n"
                               "}\n";
    static const double floats[] = { 0.5, 1, 1.5, 6, 8, 10 };
    Tensor *q, *y;
    Graph *g = NULL;

    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    if (CHECK_OK(quantize_constant(&q, g->arena, g, g->node[0])) &&
        CHECK_OK(dequantize_constant(&y, g->arena, g, g->node[1], q)))
        for (int i = 0; i < 6; i++) {
            CU_ASSERT_EQUAL(tensor_int(q, i), i + 1);
            CU_ASSERT_EQUAL(tensor_float(y, i), floats[i]);
        }
    graph_free(g);
}

DEFINE_SUITE(quantized_constants, { "scales along the first axis", test_first_axis });
