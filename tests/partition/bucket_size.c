/* How large buckets are by what sums cost: by hand. */
#include <math.h>

#include "passes/partition/bucket_size.h"
#include "tests/harness/test.h"

enum { MIB = 1 << 20 };

static void check(SumCost cost, int64_t bytes, double compute, int64_t size, double wait)
{
    double found;

    CU_ASSERT_EQUAL(bucket_size_choose(&found, &cost, bytes, compute), size);
    if (!(fabs(found - wait) < 1e-9))
        TEST_FAIL("waits %g, expected %g", found, wait);
}

static void test_sizes(void)
{
    const double each = 1.0 / MIB;

    check((SumCost){ .seconds = 1 }, 4 * MIB, 5, 4 * MIB, 1);     /* 4, 2 or 1 sums */
    check((SumCost){ .per_byte = each }, 4 * MIB, 5, 1 * MIB, 4); /* all the same: the smallest */
    check((SumCost){ .seconds = 1 }, 3 * MIB, 5, 4 * MIB, 1);
    check((SumCost){ .per_byte = each, .beside = true }, 4 * MIB, 4, 1 * MIB, 1); /* the last waits for nobody */
    check((SumCost){ .per_byte = each, .beside = true }, 4 * MIB, 0, 1 * MIB, 4);
    /* made at 1, 2, 3, 4: sums end at 5, 9, 13, 17; of two at 7, 12; of one at 11 */
    check((SumCost){ .seconds = 3, .per_byte = each, .beside = true }, 4 * MIB, 4, 4 * MIB, 7);
    /* made at 5, 10, 15, 20: sums end at 8, 13, 18, 23; of two at 14, 24 */
    check((SumCost){ .seconds = 2, .per_byte = each, .beside = true }, 4 * MIB, 20, 1 * MIB, 3);
}

DEFINE_SUITE(bucket_size, { "sizes", test_sizes });
