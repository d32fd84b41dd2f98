/* Where elements stand, by the formula of each layout written out, and what tensors take. */
#include "graph/tensor/layout.h"

#include <stdlib.h>
#include <string.h>

#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"

/* [1, 2, 3] by rows 0..5 is, channels last, position by position: (0,3) (1,4) (2,5); and back. */
static void test_channels_last(void)
{
    const Shape s = { .rank = 3, .dim = { 2, 2, 3 } };
    const int16_t rows[12] = { 0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15 };
    const int16_t last[12] = { 0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15 };
    int16_t found[12], back[12];

    layout_convert(found, rows, &s, sizeof *rows, LAYOUT_CHANNELS_LAST, true);
    CU_ASSERT_EQUAL(memcmp(found, last, sizeof last), 0);
    layout_convert(back, last, &s, sizeof *rows, LAYOUT_CHANNELS_LAST, false);
    CU_ASSERT_EQUAL(memcmp(back, rows, sizeof rows), 0);
    CU_ASSERT_EQUAL(layout_channels(LAYOUT_CHANNELS_LAST, &s), 2);
}

/* Of [N, C, H, W] in blocks of b channels: ((n C/b + c / b) H + h) W + w, times b, plus c mod b. */
static void test_blocked(void)
{
    const Shape s = SHAPE(2, 32, 3, 5), filter = SHAPE(16, 24, 3, 2);

    for (int64_t n = 0; n < 2; n++)
        for (int64_t c = 0; c < 32; c++)
            for (int64_t h = 0; h < 3; h++)
                for (int64_t w = 0; w < 5; w++) {
                    const int64_t at[] = { n, c, h, w };

                    CU_ASSERT_EQUAL(layout_place(LAYOUT_BLOCKED_8, &s, at),
                                    (((n * 4 + c / 8) * 3 + h) * 5 + w) * 8 + c % 8);
                    CU_ASSERT_EQUAL(layout_place(LAYOUT_BLOCKED_16, &s, at),
                                    (((n * 2 + c / 16) * 3 + h) * 5 + w) * 16 + c % 16);
                }
    for (int64_t o = 0; o < 16; o++)
        for (int64_t i = 0; i < 24; i++) {
            const int64_t at[] = { o, i, 2, 1 };

            CU_ASSERT_EQUAL(layout_place(LAYOUT_FILTER_8, &filter, at),
                            ((((o / 8) * 3 + i / 8) * 3 + 2) * 2 + 1) * 64 + i % 8 * 8 + o % 8);
        }
    CU_ASSERT_EQUAL(layout_channels(LAYOUT_BLOCKED_8, &s), 8);
    CU_ASSERT_EQUAL(layout_channels(LAYOUT_FILTER_8, &filter), 0);
}

/* Blocks are stored whole; values of graphs have whole ones only, and an order that is that of rows is none. */
static void test_bytes(void)
{
    const Shape whole = SHAPE(2, 32, 3), part = SHAPE(2, 20, 3), point = SHAPE(2, 32, 1), matrix = SHAPE(2, 32);

    CU_ASSERT_EQUAL(layout_bytes(DT_FLOAT32, LAYOUT_ROWS, &part), 2 * 20 * 3 * 4);
    CU_ASSERT_EQUAL(layout_bytes(DT_FLOAT32, LAYOUT_CHANNELS_LAST, &part), 2 * 20 * 3 * 4);
    CU_ASSERT_EQUAL(layout_bytes(DT_BFLOAT16, LAYOUT_BLOCKED_8, &part), 2 * 24 * 3 * 2);
    CU_ASSERT_EQUAL(layout_bytes(DT_FLOAT64, LAYOUT_FILTER_16, &whole), 16 * 32 * 3 * 8);
    CU_ASSERT(layout_holds(LAYOUT_BLOCKED_16, &whole) && layout_suits(LAYOUT_BLOCKED_16, &whole));
    CU_ASSERT(!layout_holds(LAYOUT_BLOCKED_8, &part) && layout_suits(LAYOUT_CHANNELS_LAST, &part));
    CU_ASSERT(layout_holds(LAYOUT_BLOCKED_8, &point) && !layout_suits(LAYOUT_BLOCKED_8, &point));
    CU_ASSERT(!layout_holds(LAYOUT_CHANNELS_LAST, &matrix) && layout_holds(LAYOUT_ROWS, &matrix));
}

/* Every layout is printed and read by its name, and refused of shapes that it does not hold. */
static void test_names(void)
{
    for (int l = 0; l < N_LAYOUTS; l++) {
        char text[160], what[80], *again = NULL;
        Graph *g = NULL;
        Layout found;

        CU_ASSERT(layout_find(&found, layout_name((Layout)l)) && found == (Layout)l);
        snprintf(text, sizeof text,
                 "graph \"g\" {\n  state %%w : float32[32,16,3]%s%s = all 0\n  output \"y\" = %%w\n}\n", l ? " " : "",
                 l ? layout_name((Layout)l) : "");
        if (!CHECK_OK(graph_parse(&g, text, strlen(text))))
            continue;
        CU_ASSERT_EQUAL(value(g, graph_find(g, "w"))->layout, (Layout)l);
        if (CHECK_OK(graph_verify(g)) && CHECK_OK(graph_text(&again, g, &(PrintOptions){ .no_node_names = true })))
            CHECK_STR(text, again);
        value_set_shape(g, value(g, graph_find(g, "w")), &(Shape){ 2, { 32, 16 } });
        snprintf(what, sizeof what, "'w' cannot be stored %s", layout_name((Layout)l));
        if (l)
            CHECK_FAILS(E_INTERNAL, what, graph_verify(g));
        free(again);
        graph_free(g);
    }
}

DEFINE_SUITE(layout, { "channels last", test_channels_last }, { "in blocks", test_blocked }, { "bytes", test_bytes },
             { "names", test_names });
