/* Names in a steady training step, which were resolved before it: a step compares none, but each name of a batch that
 * has names once.  The linker leads the program's calls of strcmp and strncmp here. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"

enum { WARM = 5, STEPS = 4 };

static atomic_int compared;

int __real_strcmp(const char *a, const char *b);
int __real_strncmp(const char *a, const char *b, size_t n);
int __wrap_strcmp(const char *a, const char *b);
int __wrap_strncmp(const char *a, const char *b, size_t n);

int __wrap_strcmp(const char *a, const char *b)
{
    atomic_fetch_add(&compared, 1);
    return __real_strcmp(a, b);
}

int __wrap_strncmp(const char *a, const char *b, size_t n)
{
    atomic_fetch_add(&compared, 1);
    return __real_strncmp(a, b, n);
}

typedef enum { NAMED, TARGET_FIRST, IN_ORDER } Names;

/* Comparisons in STEPS calls of dpx_train_step after WARM others.  Names lie elsewhere in each call. */
static int comparisons(const char *const *settings, Names names)
{
    dpx_trainer *t = make_trainer(settings);
    int n = -1;

    for (int k = 0; t && k < WARM + STEPS; k++) {
        char name[2][16];
        dpx_result r;
        dpx_tensor in[2];
        Batch b;

        make_batch(&b, (unsigned)k + 1);
        for (int i = 0; i < 2; i++) {
            in[i] = b.tensor[names == TARGET_FIRST ? 1 - i : i];
            snprintf(name[i], sizeof name[i], "%s", in[i].name);
            in[i].name = names == IN_ORDER ? NULL : name[i];
        }
        if (k == WARM)
            atomic_store(&compared, 0);
        if (!CHECK_DPX(dpx_train_step(t, in, 2, &r)))
            break;
        n = atomic_load(&compared);
    }
    dpx_trainer_free(t);
    return n;
}

static void test_steps_compare_no_names(void)
{
    static const char *const plain[] = { "loss=cross-entropy", "metric=accuracy", "threads=1", NULL },
                             *const two[] = { "loss=cross-entropy", "metric=accuracy", "clip-norm=1",
                                              "devices=cpu*2",      "threads=1",       NULL },
                             *const grouped[] = { "loss=cross-entropy", "group=fc1*:lr=0.1", "devices=cpu*2",
                                                  "threads=1",          "clip-norm=1",       NULL },
                             *const parts[] = { "loss=cross-entropy", "accumulate=2", "threads=1", NULL },
                             *const *const runs[] = { plain, two, grouped, parts };

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        CU_ASSERT_EQUAL(comparisons(runs[i], IN_ORDER), 0);
        CU_ASSERT_EQUAL(comparisons(runs[i], NAMED), 2 * STEPS);
        CU_ASSERT_EQUAL(comparisons(runs[i], TARGET_FIRST), 2 * STEPS);
    }
}

/* The counter counts what the library does. */
static void test_counted(void)
{
    dpx_options *o = dpx_options_create();

    atomic_store(&compared, 0);
    CHECK_DPX(dpx_options_set(o, "loss", "mse"));
    CU_ASSERT_TRUE(atomic_load(&compared) > 0);
    dpx_options_free(o);
}

DEFINE_SUITE(steady_names, { "a step compares no names", test_steps_compare_no_names },
             { "comparisons are counted", test_counted });
