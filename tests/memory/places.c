/* Memory runs out once at each place that allocates while plans of tests/plans/corpus.txt are made: the plan fails with
 * E_NOMEM, or is the same as with memory enough.
 *
 * A place is told by the return addresses of the calls that lead to it.  The plans are taken in order, and each tries
 * the places that no plan before it has come by. */
#include <execinfo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tests/memory/memory.h"
#include "tests/plans/plan_text.h"

enum { DEPTH = 6, SLOTS = 1 << 16 };
#ifdef DPX_SANITIZED
enum { EVERY = 50 }; /* of so many plans one is tried */
#else
enum { EVERY = 11 };
#endif

/* The places that were tried: a hash table of their hashes. */
static uint64_t tried[SLOTS];
static int n_tried;

/* Adds a place; false: it is there already. */
static bool add_place(uint64_t place)
{
    size_t at = place % SLOTS;

    while (tried[at] && tried[at] != place)
        at = (at + 1) % SLOTS;
    if (tried[at] || n_tried > SLOTS / 2)
        return false;
    tried[at] = place;
    n_tried++;
    return true;
}

/* New places of the plan that is made, by the numbers of their allocations. */
static long *fresh;
static size_t n_fresh, cap_fresh;

static void note_place(long number)
{
    void *frame[DEPTH];
    const int n = backtrace(frame, DEPTH);
    uint64_t hash = 0xcbf29ce484222325u;

    for (int i = 2; i < n; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)frame[i]) * 0x100000001b3u;
    if (!add_place(hash | 1))
        return;
    if (n_fresh == cap_fresh) {
        long *more = realloc(fresh, (cap_fresh = cap_fresh ? 2 * cap_fresh : 64) * sizeof *fresh);

        if (!more)
            abort();
        fresh = more;
    }
    fresh[n_fresh++] = number;
}

static Status make(char **text, const char *model, const PlanCase *c)
{
    size_t n;
    FILE *f = open_memstream(text, &n);
    PlanFigures figures;
    Status st = f ? plan_text(f, &figures, model, c) : FAIL_NOMEM();

    if (f)
        fclose(f);
    return st;
}

static void try_plan(const char *model, const PlanCase *c)
{
    char *expected = NULL;

    n_fresh = 0;
    memory_fail_at(0);
    memory_watch(note_place);
    if (!CHECK_OK(make(&expected, model, c)))
        n_fresh = 0;
    memory_watch(NULL);
    for (size_t i = 0; i < n_fresh; i++) {
        char *text = NULL;
        Status st;

        memory_fail_at(fresh[i]);
        st = make(&text, model, c);
        if (st && st != E_NOMEM)
            TEST_FAIL("%s: allocation %ld: expected E_NOMEM, found %s: %s", c->name, fresh[i], status_name(st),
                      status_message());
        else if (!st && strcmp(text, expected) != 0)
            TEST_FAIL("%s: allocation %ld fails, and the plan is another one", c->name, fresh[i]);
        free(text);
    }
    memory_fail_at(0);
    free(expected);
}

static void test_plans(void)
{
    Arena *a = arena_create();
    Corpus corpus = { .n_suite = 0 };
    int number = 0;

    CU_ASSERT_FATAL(!chdir(SOURCE_DIR));
    if (CHECK_OK(corpus_read(&corpus, "tests/plans/corpus.txt", a)))
        for (int s = 0; s < corpus.n_suite; s++)
            for (int i = 0; i < corpus.suite[s].n_model; i++) {
                const PlanModel *m = &corpus.suite[s].model[i];

                for (int k = 0; k < m->n_plan && strcmp(corpus.suite[s].name, "golden") == 0; k++)
                    if (number++ % EVERY == 0)
                        try_plan(m->path, &m->plan[k]);
            }
    printf("[%d places] ", n_tried);
    arena_free(a);
    free(fresh);
}

DEFINE_SUITE(places, { "each place of planning out of memory", test_plans });
