/* Mixup and CutMix: torchvision's results for the same draws (tests/tools/make_mixed.py), and draws that follow from
 * the sample. */
#include <math.h>
#include <string.h>

#include "tests/harness/test.h"
#include "tests/tools/mixed_values.h"
#include "tools/image/image_mix.h"

enum { DRAWS = 20000 };

static void test_values(void)
{
    for (size_t k = 0; k < sizeof mixed / sizeof *mixed; k++) {
        MixDraw d = { .own = mixed[k].own };
        float x[MIXED_PIXELS], turned[2][MIXED_PIXELS], shares[MIXED_CLASSES];

        if (mixed[k].cut)
            mix_cut(&d, mixed[k].own, mixed[k].x, mixed[k].y, MIXED_WIDTH, MIXED_HEIGHT);
        memcpy(x, mixed_image[0], sizeof x);
        mix_pixels(x, mixed_image[1], &d, MIXED_CHANNELS, MIXED_WIDTH, MIXED_HEIGHT, false);
        mix_label(shares, MIXED_CLASSES, mixed_label[0], mixed_label[1], d.own);
        for (int i = 0; i < MIXED_PIXELS; i++)
            CU_ASSERT_EQUAL(x[i], mixed[k].pixel[i]);
        for (int c = 0; c < MIXED_CLASSES; c++)
            CU_ASSERT_EQUAL(shares[c], mixed[k].shares[c]);
        for (int i = 0; i < MIXED_PIXELS; i++) /* the same with the channels last */
            for (int image = 0; image < 2; image++)
                turned[image][i % (MIXED_PIXELS / 2) * 2 + i / (MIXED_PIXELS / 2)] = mixed_image[image][i];
        mix_pixels(turned[0], turned[1], &d, MIXED_CHANNELS, MIXED_WIDTH, MIXED_HEIGHT, true);
        for (int i = 0; i < MIXED_PIXELS; i++)
            CU_ASSERT_EQUAL(turned[0][i % (MIXED_PIXELS / 2) * 2 + i / (MIXED_PIXELS / 2)], mixed[k].pixel[i]);
    }
}

/* Beta(a, a) has the mean 1/2 and the variance 1 / (8a + 4).  Below: the probability of less than 0.1, the regularised
 * incomplete beta function, from SciPy's scipy.stats.beta.cdf(0.1, a, a). */
static void test_distribution(void)
{
    static const double alpha[] = { 0.2, 0.4, 1, 1.5, 4 }, below[] = { 0.336690, 0.239739, 0.1, 0.052044, 0.002728 };

    for (int k = 0; k < 5; k++) {
        const Mix mix = { .mixup = alpha[k] };
        double sum = 0, squares = 0, variance = 1 / (8 * alpha[k] + 4), error;
        int less = 0;

        for (int i = 0; i < DRAWS; i++) {
            MixDraw d;

            mix_draw(&d, &mix, 10, 8, 8, 3, 1, i);
            CU_ASSERT(d.own >= 0 && d.own <= 1 && !d.cut && d.partner >= 0 && d.partner < 10);
            sum += d.own;
            squares += (d.own - 0.5) * (d.own - 0.5);
            less += d.own < 0.1;
        }
        error = sqrt(variance / DRAWS);
        CU_ASSERT(fabs(sum / DRAWS - 0.5) < 4 * error);
        CU_ASSERT(fabs(squares / DRAWS / variance - 1) < 0.04);
        error = sqrt(below[k] * (1 - below[k]) / DRAWS);
        if (fabs((double)less / DRAWS - below[k]) > 4 * error)
            TEST_FAIL("Beta(%g): %g below 0.1, expected %g", alpha[k], (double)less / DRAWS, below[k]);
    }
}

static void test_draws(void)
{
    const Mix both = { .mixup = 0.2, .cutmix = 1 };
    int cut = 0, partners[10] = { 0 };
    MixDraw d, e;

    for (int i = 0; i < DRAWS; i++) {
        mix_draw(&d, &both, 10, 32, 24, 3, 1, i);
        cut += d.cut;
        partners[d.partner]++;
        CU_ASSERT(!d.cut ||
                  (d.box.x >= 0 && d.box.y >= 0 && d.box.x + d.box.width <= 32 && d.box.y + d.box.height <= 24));
    }
    CU_ASSERT(cut > DRAWS * 0.48 && cut < DRAWS * 0.52);
    for (int i = 0; i < 10; i++)
        CU_ASSERT(partners[i] > DRAWS / 10 * 0.9 && partners[i] < DRAWS / 10 * 1.1);
    mix_draw(&e, &both, 10, 32, 24, 3, 1, DRAWS - 1);
    CU_ASSERT(e.own == d.own && e.partner == d.partner);
    mix_draw(&e, &both, 10, 32, 24, 3, 2, DRAWS - 1);
    CU_ASSERT(e.own != d.own);
    mix_draw(&e, &both, 10, 32, 24, 4, 1, DRAWS - 1);
    CU_ASSERT(e.own != d.own);
}

DEFINE_SUITE(image_mix, { "values are torchvision's", test_values }, { "Beta(alpha, alpha)", test_distribution },
             { "draws", test_draws });
