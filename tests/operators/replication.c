/* Callbacks on replication: who is told of which copies, in which order, when, and for how long contexts live. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/operators/bench.h"

typedef struct {
    char text[1024]; /* "NODE COPY;" of each call */
    int contexts, released;
    int fail_at; /* the copy; 0: none */
} Told;

static Told *telling; /* `release` has no argument for it */

static void release(void *context)
{
    telling->released += *(int *)context;
    free(context);
}

/* The context of a node counts its copies. */
static dpx_status told(void *user, const char *node, int copy, void **context)
{
    Told *t = user;
    const size_t at = strlen(t->text);

    snprintf(t->text + at, sizeof t->text - at, "%s %d;", node, copy);
    if (!*context) {
        t->contexts++;
        *context = calloc(1, sizeof(int));
    }
    ++*(int *)*context;
    return t->fail_at && copy == t->fail_at ? DPX_IO : DPX_OK;
}

/* ---- several processes, here threads ---- */

enum { PAIR = 2 };

typedef struct {
    int rank, port;
    bool other; /* its set says something else of Twice */
    dpx_status status;
    char why[1024];
    dpx_result result;
    Told told;
} Process;

static void *run_process(void *arg)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    Process *p = arg;
    char rendezvous[32];
    dpx_world_options how = { .size = PAIR, .rank = p->rank, .rendezvous = rendezvous, .timeout = 20 };
    Bench b = { 0 };
    dpx_operators *set = bench_operators(&b, !p->other);
    dpx_options *o = own_options(settings, set);
    dpx_trainer *t = NULL;
    dpx_world *w = NULL;
    dpx_model *m = NULL;

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    if (!(p->status = dpx_model_load_within(&m, FOLDER "own.onnx", o)))
        p->status = dpx_world_join(&w, &how);
    dpx_options_set_world(o, w);
    CHECK_DPX(dpx_options_set(o, "replicas", "5"));
    if (!p->status && !(p->status = dpx_trainer_create(&t, m, o, NULL, NULL)) &&
        !(p->status = dpx_trainer_on_replicate(t, "ramp", told, free, &p->told)))
        p->status = bench_step(t, 7, &p->result);
    snprintf(p->why, sizeof p->why, "%s", dpx_error());
    dpx_trainer_free(t);
    dpx_world_leave(w);
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_operators_free(set);
    return NULL;
}

static void run_pair(Process p[PAIR], bool other)
{
    const int port = own_port();
    pthread_t thread[PAIR];

    for (int i = 0; i < PAIR; i++) {
        p[i] = (Process){ .rank = i, .port = port, .other = i && other };
        CU_ASSERT(!pthread_create(&thread[i], NULL, run_process, &p[i]));
    }
    for (int i = 0; i < PAIR; i++)
        pthread_join(thread[i], NULL);
}

static void test_world(void)
{
    Process p[PAIR];

    run_pair(p, false);
    for (int i = 0; i < PAIR; i++)
        if (p[i].status)
            TEST_FAIL("rank %d: %s", i, p[i].why);
    CU_ASSERT(p[0].result.loss == p[1].result.loss && p[0].result.samples == 7);
    CU_ASSERT_PTR_NOT_NULL(strstr(p[0].told.text, "ramp 2;"));
    CU_ASSERT_PTR_NULL(strstr(p[0].told.text, "ramp 3;"));
    CU_ASSERT(!strncmp(p[1].told.text, "twice 3;ramp 3;", 15) && strstr(p[1].told.text, "ramp 4;"));
    run_pair(p, true);
    for (int i = 0; i < PAIR; i++)
        if (p[i].status != DPX_INVALID || !strstr(p[i].why, "rank 1 has operator Twice of domain com.example '"))
            TEST_FAIL("rank %d: status %d, %s", i, (int)p[i].status, p[i].why);
}

/* ---- one process ---- */

static const char *const four[] = { "loss=cross-entropy", "dtype=float64", "threads=1",
                                    "replicas=4",         "devices=cpu*2", NULL };

/* Nodes of the program's operators, copy after copy, once; their contexts end with the trainer. */
static void test_replication(void)
{
    static const char *const alone[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    Bench b = { 0 };
    Told t = { 0 }, none = { 0 };
    dpx_trainer *trainer = NULL;
    dpx_result r;

    telling = &t;
    if (!CHECK_DPX(own_trainer(&trainer, "own", four, bench_operators(&b, true))))
        return;
    CHECK_DPX(dpx_trainer_on_replicate(trainer, NULL, told, release, &t));
    CHECK_STR("twice 0;ramp 0;tap 0;tap2 0;centre 0;twice 1;ramp 1;tap 1;tap2 1;centre 1;"
              "twice 2;ramp 2;tap 2;tap2 2;centre 2;twice 3;ramp 3;tap 3;tap2 3;centre 3;",
              t.text);
    CU_ASSERT_EQUAL(t.contexts, 5);
    CU_ASSERT_EQUAL(*(int *)dpx_trainer_context(trainer, "ramp"), 4);
    CU_ASSERT_PTR_NULL(dpx_trainer_context(trainer, "product"));
    *t.text = 0;
    CHECK_DPX(bench_step(trainer, 3, &r)); /* the last copy has no samples */
    CHECK_DPX(bench_step(trainer, 6, &r));
    CHECK_STR("", t.text);
    CHECK_DPX_FAILS(DPX_INVALID, "once, before the first step",
                    dpx_trainer_on_replicate(trainer, NULL, told, release, &t));
    dpx_trainer_free(trainer);
    CU_ASSERT_EQUAL(t.released, 5 * 4);
    if (!CHECK_DPX(own_trainer(&trainer, "own", alone, bench_operators(&b, true))))
        return;
    CHECK_DPX(dpx_trainer_on_replicate(trainer, "*", told, release, &none));
    CHECK_STR("", none.text);
    dpx_trainer_free(trainer);
}

/* Names that match, and calls of functions in front of what is in them. */
static void test_replication_by_name(void)
{
    Told t = { 0 };
    dpx_trainer *trainer = NULL;
    dpx_result r;

    telling = &t;
    if (!CHECK_DPX(own_trainer(&trainer, "function", four, NULL)))
        return;
    CHECK_DPX(dpx_trainer_on_replicate(trainer, "[tr]*", told, release, &t));
    if (strncmp(t.text, "twice 0;twice/", 14) != 0 || !strstr(t.text, ";ramp 0;twice 1;twice/"))
        TEST_FAIL("%s", t.text);
    dpx_trainer_free(trainer);
    t = (Told){ .fail_at = 2 };
    if (!CHECK_DPX(own_trainer(&trainer, "function", four, NULL)))
        return;
    CHECK_DPX_FAILS(DPX_IO, "failed at node 'ramp', copy 2",
                    dpx_trainer_on_replicate(trainer, "ramp", told, release, &t));
    CHECK_STR("ramp 0;ramp 1;ramp 2;", t.text);
    dpx_trainer_free(trainer);
    CU_ASSERT_EQUAL(t.released, 3);
    if (!CHECK_DPX(own_trainer(&trainer, "function", four, NULL)))
        return;
    CHECK_DPX(bench_step(trainer, 6, &r));
    CHECK_DPX_FAILS(DPX_INVALID, "before the first step", dpx_trainer_on_replicate(trainer, "*", told, NULL, &t));
    dpx_trainer_free(trainer);
}

/* Calls within calls: each in front of what is in it, for one copy after the other. */
static void test_nested(void)
{
    static const char *const pair[] = { "loss=cross-entropy", "dtype=float64", "threads=1", "devices=cpu*2", NULL };
    Told t = { 0 };
    dpx_trainer *trainer = NULL;

    telling = &t;
    if (!CHECK_DPX(own_trainer(&trainer, "nested", pair, NULL)))
        return;
    CHECK_DPX(dpx_trainer_on_replicate(trainer, "[oa]*", told, release, &t));
    CHECK_STR("outer 0;outer/relu 0;outer/inner 0;outer/inner/neg 0;outer/inner/abs 0;"
              "again 0;again/relu 0;again/inner 0;again/inner/neg 0;again/inner/abs 0;"
              "outer 1;outer/relu 1;outer/inner 1;outer/inner/neg 1;outer/inner/abs 1;"
              "again 1;again/relu 1;again/inner 1;again/inner/neg 1;again/inner/abs 1;",
              t.text);
    CU_ASSERT_EQUAL(t.contexts, 10);
    dpx_trainer_free(trainer);
    CU_ASSERT_EQUAL(t.released, 10 * 2);
}

/* What goes on from a checkpoint tells nothing again; a trainer of its own does, once. */
static void test_resumed(void)
{
    const char *path = BUILD_DIR "/own_resumed";
    Bench b = { 0 };
    Told t = { 0 }, later = { 0 };
    dpx_trainer *first = NULL, *second = NULL;
    dpx_result r;

    telling = &t;
    if (!CHECK_DPX(own_trainer(&first, "own", four, bench_operators(&b, true))) ||
        !CHECK_DPX(own_trainer(&second, "own", four, bench_operators(&b, true))))
        return;
    CHECK_DPX(dpx_trainer_on_replicate(first, NULL, told, release, &t));
    CHECK_DPX(bench_step(first, 6, &r));
    CHECK_DPX(dpx_trainer_save(first, path, NULL));
    *t.text = 0;
    CHECK_DPX(dpx_trainer_resume(first, path, NULL));
    CHECK_DPX(bench_step(first, 4, &r));
    CHECK_STR("", t.text);
    CHECK_DPX(dpx_trainer_on_replicate(second, "none", told, NULL, &later));
    CU_ASSERT(!strncmp(later.text, "twice 0;ramp 0;", 15));
    *later.text = 0;
    CHECK_DPX(dpx_trainer_resume(second, path, NULL));
    CHECK_DPX(bench_step(second, 4, &r));
    CHECK_STR("", later.text);
    for (int i = 0; i < 5; i++) {
        static const char *const nodes[] = { "twice", "ramp", "tap", "tap2", "centre" };

        free(dpx_trainer_context(second, nodes[i])); /* nobody was told to release them */
    }
    dpx_trainer_free(first);
    dpx_trainer_free(second);
}

DEFINE_SUITE(replication, { "world", test_world }, { "own nodes", test_replication },
             { "by name", test_replication_by_name }, { "nested calls", test_nested }, { "resumed", test_resumed });
