/* When parts of sums are sent whole between processes: by hand, from messages and bytes. */
#include "exec/inspect/links.h"
#include "exec/run/collective_span.h"
#include "tests/harness/test.h"

/* Messages of `latency` seconds over links of a byte a second; adding bytes takes a quarter of sending them, and whole
 * parts are added by all: each process adds (n - 1) / n of all parts more. */
static bool is_faster_whole(int64_t bytes, int parts, int n, double latency)
{
    const double each = (parts + n - 1) / n, shared = 2 * (n - 1) * latency + (n - 1) * (each + 1) * bytes / n,
                 whole = (n - 1) * latency + (n - 1) * each * bytes, adding = 0.25 * (n - 1) * each * bytes;

    return whole + adding < shared;
}

static void test_small_sums(void)
{
    static const int processes[] = { 2, 3, 4, 8, 64 };
    int small = 0;

    for (size_t k = 0; k < sizeof processes / sizeof *processes; k++)
        for (int parts = processes[k]; parts <= 3 * processes[k]; parts += processes[k])
            for (int64_t bytes = 4; bytes < 1 << 20; bytes *= 7) {
                const bool found = span_is_small(bytes, parts, processes[k], 1000);

                small += found;
                if (found != is_faster_whole(bytes, parts, processes[k], 1000))
                    TEST_FAIL("%lld bytes of %d parts, %d processes: %d", (long long)bytes, parts, processes[k], found);
            }
    CU_ASSERT(small > 10);
    CU_ASSERT(!span_is_small((1 << 20) + 4, 2, 2, 1e12)); /* which wait all at once */
    CU_ASSERT(span_is_small(4096, 4, 4, 0) && !span_is_small(1 << 20, 4, 4, 0));
}

/* 6 messages of 2 seconds, and 6/4 of the bytes at 5 a second. */
static void test_latency(void)
{
    const SumCost four = { .seconds = 12, .per_byte = 1.5 / 5 };

    CU_ASSERT_DOUBLE_EQUAL(links_latency_bytes(&four, 4), 10, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(links_latency_bytes(NULL, 4), 0, 0);
}

DEFINE_SUITE(span, { "small sums", test_small_sums }, { "latency", test_latency });
