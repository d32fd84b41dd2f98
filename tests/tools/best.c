/* Which evaluation is the best, and which checkpoints a run removes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tools/training/best_so_far.h"
#include "tools/training/run_dir.h"

static const Flag flags[] = {
    { "monitor", "METRIC", "" }, { "patience", "N", "" }, { "no-best", NULL, "" }, { NULL, NULL, NULL }
};
static const Command command = { "train", "", "", flags, ALL_OPTIONS, 0, 0, NULL };

/* Checks what is monitored, as "accuracy:max", or a part of the error. */
static void check_monitor(const char *metric, const char *given, bool evaluates, const char *expected)
{
    char loss[] = "--loss=cross-entropy", of[64], monitor[64], found[MONITOR_TEXT + 8];
    char *argv[] = { loss, of, monitor };
    Monitor m;
    Args a;

    snprintf(of, sizeof of, "--metric=%s", metric);
    snprintf(monitor, sizeof monitor, "--monitor=%s", given ? given : "");
    if (CHECK_OK(args_parse(&a, &command, given ? 3 : 2, argv))) {
        if (!monitor_read(&m, &a, evaluates))
            monitor_text(found, &m);
        else
            snprintf(found, sizeof found, "%s", strstr(status_message(), expected) ? expected : status_message());
        if (strcmp(found, expected))
            TEST_FAIL("--metric %s --monitor %s: found '%s', expected '%s'", metric, given ? given : "(none)", found,
                      expected);
    }
    args_free(&a);
}

static void test_monitors(void)
{
    check_monitor("none", NULL, true, "loss:min");
    check_monitor("accuracy", NULL, true, "accuracy:max");
    check_monitor("mae", NULL, true, "mae:min");
    check_monitor("confusion-matrix", NULL, true, "loss:min");
    check_monitor("recall:macro", "recall", true, "recall:macro:max");
    check_monitor("accuracy", "loss", true, "loss:min");
    check_monitor("accuracy", "loss:max", true, "loss:max");
    check_monitor("accuracy", "accuracy:min", true, "accuracy:min");
    check_monitor("accuracy", "acc", true, "expected loss or accuracy");
    check_monitor("confusion-matrix", "confusion-matrix", true, "does not measure it");
    check_monitor("none", "accuracy", true, "expected loss, or give --metric");
    check_monitor("accuracy", "loss", false, "leave out: --monitor");
    check_monitor("none", "", true, "does not measure it");
}

static void test_best(void)
{
    static const double seen[] = { (double)NAN, 0.5, 0.5, INFINITY, 0.25, 0.75 };
    const Monitor rises = { "accuracy", true }, falls = { "loss", false };
    BestSoFar up = BEST_NONE, down = BEST_NONE;

    for (int i = 0; i < 6; i++) {
        const bool better = best_take(&up, &rises, seen[i], i + 1, 1),
                   lower = best_take(&down, &falls, seen[i], i + 1, 1);

        CU_ASSERT_EQUAL(better, i == 1 || i == 5);
        CU_ASSERT_EQUAL(lower, i == 1 || i == 4);
    }
    CU_ASSERT(up.step == 6 && up.value == 0.75 && !up.since && up.counted == 6);
    CU_ASSERT(down.step == 5 && down.value == 0.25 && down.since == 1 && down.counted == 6);
}

/* No checkpoint is removed while the newest does not verify: here none of them is whole. */
static void test_damaged_newest(void)
{
    char folder[] = "/tmp/dpexec-best-XXXXXX", path[4096], *damage;
    RunDir dir;

    CU_ASSERT_FATAL(mkdtemp(folder) != NULL);
    if (CHECK_OK(run_dir_open(&dir, folder, false)) && CHECK_OK(run_dir_write_best(&dir, 3))) {
        for (int64_t step = 1; step <= 4; step++) {
            snprintf(path, sizeof path, "%s/checkpoints/step-%09d", folder, (int)step);
            CU_ASSERT(!mkdir(path, 0777));
            CHECK_OK(run_dir_keep(&dir, step, 2, 3, &damage));
            CU_ASSERT((step > 2) == (damage && strstr(damage, "manifest.json")));
            free(damage);
        }
        CU_ASSERT_EQUAL(dir.n_saved, 4);
        for (int64_t step = 1; step <= 4; step++) {
            snprintf(path, sizeof path, "%s/checkpoints/step-%09d", folder, (int)step);
            CU_ASSERT(!rmdir(path));
        }
        run_dir_close(&dir);
        CHECK_OK(run_dir_open(&dir, folder, true));
        CU_ASSERT(dir.n_saved == 4 && dir.saved[0] == 1 && dir.saved[3] == 4 && dir.best == 3);
    }
    run_dir_close(&dir);
    snprintf(path, sizeof path, "rm -r %s", folder);
    CU_ASSERT(!system(path));
}

DEFINE_SUITE(best, { "monitors", test_monitors }, { "best", test_best }, { "damaged newest", test_damaged_newest });
