/* Memory runs out while a checkpoint is read: that is no damage, for which an older one would be taken. */
#include "exec/state/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/harness/test.h"
#include "tests/memory/memory.h"

static void write_step(const char *dir, int64_t step)
{
    static float weights[6];
    const NamedTensor list[] = { { "w", { DT_FLOAT32, SHAPE(2, 3), weights } } };

    CHECK_OK(checkpoint_write(dir, step, list, 1, NULL, NULL, "note"));
}

/* Of one read; the step that was found in *step. */
static Status read_step(int64_t *step, const char *dir)
{
    Arena *a = arena_create();
    Checkpoint c = { 0 };
    Status st = checkpoint_read(&c, a, dir, true, NULL);

    *step = c.step;
    if (!st)
        checkpoint_close(&c);
    arena_free(a);
    return st;
}

static void test_newest(void)
{
    char dir[] = "/tmp/dpexec-test-XXXXXX", command[64];
    int64_t step;
    long n;

    CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
    write_step(dir, 9);
    write_step(dir, 10);
    memory_fail_at(0);
    CHECK_OK(read_step(&step, dir));
    n = memory_count();
    CU_ASSERT(step == 10 && n > 5);
    for (long k = 1; k <= n; k++) {
        memory_fail_at(k);
        if (read_step(&step, dir) != E_NOMEM)
            TEST_FAIL("allocation %ld of %ld fails: found step %lld: %s", k, n, (long long)step, status_message());
    }
    memory_fail_at(0);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CU_ASSERT_EQUAL(system(command), 0);
}

DEFINE_SUITE(no_checkpoint, { "the newest or none", test_newest });
