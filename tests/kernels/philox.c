/* Philox4x32-10 against the known answers that come with Random123 (kat_vectors). */
#include "graph/base/philox.h"

#include "tests/harness/test.h"

static void check(PhiloxBlock counter, uint32_t key0, uint32_t key1, PhiloxBlock expected)
{
    PhiloxBlock found = philox4x32_10(counter, key0, key1);

    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(found.word[i], expected.word[i]);
}

static void test_known_answers(void)
{
    check((PhiloxBlock){ { 0, 0, 0, 0 } }, 0, 0, (PhiloxBlock){ { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } });
    check((PhiloxBlock){ { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff } }, 0xffffffff, 0xffffffff,
          (PhiloxBlock){ { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } });
    check((PhiloxBlock){ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 } }, 0xa4093822, 0x299f31d0,
          (PhiloxBlock){ { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } });
}

/* Of 2^20 words, as many are below the threshold as a fair coin allows (5 standard deviations). */
static void test_ratio(void)
{
    const int64_t n = 1 << 20;
    const double ratio = 0.3, deviation = 5 * 1024 * 0.458;
    int64_t dropped = 0;

    for (int64_t b = 0; b < n / 4; b++) {
        PhiloxBlock block = philox_block((PhiloxKey){ 7, 3, 11 }, b);

        for (int i = 0; i < 4; i++)
            dropped += block.word[i] < philox_threshold(ratio);
    }
    CU_ASSERT(dropped > ratio * n - deviation && dropped < ratio * n + deviation);
    CU_ASSERT_EQUAL(philox_threshold(0), 0);
    CU_ASSERT(philox_threshold(1) > UINT32_MAX);
}

DEFINE_SUITE(philox, { "known answers of Random123", test_known_answers }, { "drops the asked share", test_ratio });
