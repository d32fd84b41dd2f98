/* AllReduce of float16 and bfloat16 between devices of the CPU: each type by its own bits, added in float32, rounded
 * once to the nearest, halves to even. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "tests/exec/training.h"
#include "tests/harness/test.h"

enum { N = 6, PARTS = 3 };

/* By the formats: float16 has 5 bits of exponent and 10 of fraction, bfloat16 8 and 7.  In units of the last place of
 * 1: 1 + 2 + 3;  1 + half + half;  1 + half + 0;  (1 + unit) + half + 0;  -1 + 1 + 0;  greatest + greatest + 0. */
typedef struct {
    const char *type;
    DType dtype;
    uint16_t part[PARTS][N], sum[N];
} HalfSum;

static const HalfSum cases[] = {
    { "float16",
      DT_FLOAT16,
      { { 0x3c00, 0x3c00, 0x3c00, 0x3c01, 0xbc00, 0x7bff },
        { 0x4000, 0x1000, 0x1000, 0x1000, 0x3c00, 0x7bff },
        { 0x4200, 0x1000, 0, 0, 0, 0 } },
      { 0x4600, 0x3c01, 0x3c00, 0x3c02, 0, 0x7c00 } },
    { "bfloat16",
      DT_BFLOAT16,
      { { 0x3f80, 0x3f80, 0x3f80, 0x3f81, 0xbf80, 0x7f7f },
        { 0x4000, 0x3b80, 0x3b80, 0x3b80, 0x3f80, 0x7f7f },
        { 0x4040, 0x3b80, 0, 0, 0, 0 } },
      { 0x40c0, 0x3f81, 0x3f80, 0x3f82, 0, 0x7f80 } },
};

static Graph *reduction(const char *type)
{
    char text[1024];
    Graph *g = NULL;
    int n = snprintf(text, sizeof text,
                     "graph \"g\" {\n"
                     "  input %%x0 : %s[%d] @r0 d0\n"
                     "  input %%x1 : %s[%d] @r1 d1\n"
                     "  input %%x2 : %s[%d] @r2 d2\n"
                     "  %%y@d0 : %s[%d] @d0, %%y@d1 : %s[%d] @d1, %%y@d2 : %s[%d] @d2 = "
                     "dpexec.AllReduce(%%x0, %%x1, %%x2) {spans=[0,1,1,2,2,3], devices=[0,1,2]}\n"
                     "  output \"y0\" = %%y@d0\n"
                     "  output \"y1\" = %%y@d1\n"
                     "  output \"y2\" = %%y@d2\n"
                     "}\n",
                     type, N, type, N, type, N, type, N, type, N, type, N);

    CHECK_OK(graph_parse(&g, text, (size_t)n));
    return g;
}

static void check(const HalfSum *c)
{
    Graph *g = reduction(c->type);
    NamedTensor in[PARTS];
    Rig r;

    for (int i = 0; i < PARTS; i++)
        in[i] = (NamedTensor){ (const char *[]){ "x0", "x1", "x2" }[i], { c->dtype, SHAPE(N), (void *)c->part[i] } };
    if (!g)
        return;
    if (CHECK_OK(rig_open(&r, g, PARTS, 1)) && CHECK_OK(program_run(r.program, in, PARTS)))
        for (int i = 0; i < PARTS; i++) {
            const Tensor *y = rig_output(&r, (const char *[]){ "y0", "y1", "y2" }[i]);

            for (int k = 0; y && k < N; k++)
                if (((const uint16_t *)y->data)[k] != c->sum[k])
                    TEST_FAIL("%s: sum %d on cpu:%d is %04x, expected %04x", c->type, k, i,
                              (unsigned)((const uint16_t *)y->data)[k], (unsigned)c->sum[k]);
        }
    rig_close(&r);
}

static void test_sums(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i]);
}

DEFINE_SUITE(half_sums, { "sums of 16 bits have the right bits", test_sums });
