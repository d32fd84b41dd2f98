/* Callbacks on replication: who is told of which copies, in which order, when, and for how long contexts live. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/operators/bench.h"

typedef struct {
    char text[1024]; /* "NODE COPY;" of each call */
    int contexts, released;
    int fail_at;      /* the copy; 0: none */
    pthread_t thread; /* that called last */
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
    t->thread = pthread_self();
    if (!*context) {
        t->contexts++;
        *context = calloc(1, sizeof(int));
    }
    ++*(int *)*context;
    return t->fail_at && copy == t->fail_at ? DPX_IO : DPX_OK;
}

/* As `told` counts them; 0: the node has no context. */
static int copies_of(const dpx_trainer *t, const char *node)
{
    const int *context = dpx_trainer_context(t, node);

    return context ? *context : 0;
}

/* ---- several processes, here threads ---- */

enum { PAIR = 2 };

/* What the second process does otherwise. */
typedef enum { ALIKE, NARROW, NODES, MORE, FAILS } Other;

typedef struct {
    int rank, port;
    Other other;  /* of the two */
    bool created; /* its options have the callback */
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
    const bool unlike = p->rank == 1;
    Bench b = { 0 };
    dpx_operator extra = bench_operator("Extra", &bench_tap, 0, &b);
    dpx_operators *set = bench_operators(&b, !(unlike && p->other == NARROW));
    dpx_options *o;
    dpx_trainer *t = NULL;
    dpx_world *w = NULL;
    dpx_model *m = NULL;

    extra.make_gradient = unlike && p->other == NODES ? extra.shape : NULL;
    if (p->other == NODES || (unlike && p->other == MORE))
        CHECK_DPX(dpx_operators_add(set, &extra));
    o = own_options(settings, set);
    p->told.fail_at = unlike && p->other == FAILS ? 3 : 0;
    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    if (!(p->status = dpx_model_load_within(&m, FOLDER "own.onnx", o)))
        p->status = dpx_world_join(&w, &how);
    dpx_options_set_world(o, w);
    CHECK_DPX(dpx_options_set(o, "replicas", "5"));
    if (p->created)
        CHECK_DPX(dpx_options_on_replicate(o, "ramp", told, free, &p->told));
    if (!p->status && !(p->status = dpx_trainer_create(&t, m, o, NULL, NULL)) && !p->created)
        p->status = dpx_trainer_on_replicate(t, "ramp", told, free, &p->told);
    if (!p->status)
        p->status = bench_step(t, 7, &p->result);
    snprintf(p->why, sizeof p->why, "%s", dpx_error());
    dpx_trainer_free(t);
    dpx_world_leave(w);
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_operators_free(set);
    return NULL;
}

static void run_pair(Process p[PAIR], bool created, Other other)
{
    const int port = own_port();
    pthread_t thread[PAIR];

    for (int i = 0; i < PAIR; i++) {
        p[i] = (Process){ .rank = i, .port = port, .created = created, .other = other };
        CU_ASSERT(!pthread_create(&thread[i], NULL, run_process, &p[i]));
    }
    for (int i = 0; i < PAIR; i++)
        pthread_join(thread[i], NULL);
}

/* Five copies of two processes, each of which is told of its own, the lowest first. */
static void test_world(void)
{
    Process p[PAIR];

    for (int created = 0; created < 2; created++) {
        run_pair(p, created, ALIKE);
        for (int i = 0; i < PAIR; i++)
            if (p[i].status)
                TEST_FAIL("rank %d: %s", i, p[i].why);
        CU_ASSERT(p[0].result.loss == p[1].result.loss && p[0].result.samples == 7);
        CHECK_STR("twice 0;ramp 0;tap 0;tap2 0;centre 0;twice 1;ramp 1;tap 1;tap2 1;centre 1;"
                  "twice 2;ramp 2;tap 2;tap2 2;centre 2;",
                  p[0].told.text);
        CHECK_STR("twice 3;ramp 3;tap 3;tap2 3;centre 3;twice 4;ramp 4;tap 4;tap2 4;centre 4;", p[1].told.text);
        CU_ASSERT(p[0].told.contexts == 5 && p[1].told.contexts == 5); /* each process has its own */
    }
}

/* What the sets say is compared before anything runs; a callback that fails ends the others too. */
static void test_world_unlike(void)
{
    static const struct {
        Other other;
        dpx_status status;
        const char *says;
    } cases[] = {
        { NARROW, DPX_INVALID, "rank 1 has operator Twice of domain com.example '" },
        { NODES, DPX_INVALID, "rank 1 has operator Extra of domain com.example '" },
        { MORE, DPX_INVALID, "operator Extra of domain com.example" },
        { FAILS, DPX_IO, "the callback on replication failed at node 'twice', copy 3" },
    };
    Process p[PAIR];

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        run_pair(p, true, cases[k].other);
        for (int i = 0; i < PAIR; i++)
            if ((p[i].status != cases[k].status && (i || cases[k].other != FAILS)) || !p[i].status ||
                !strstr(p[i].why, cases[k].says) || strchr(p[i].why, '\n'))
                TEST_FAIL("case %zu, rank %d: status %d, %s", k, i, (int)p[i].status, p[i].why);
    }
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
    CU_ASSERT_EQUAL(copies_of(trainer, "ramp"), 4);
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

static dpx_status returns_five(void *user, const char *node, int copy, void **context)
{
    (void)user, (void)node, (void)copy, (void)context;
    return (dpx_status)5;
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
    CHECK_DPX_FAILS(DPX_INTERNAL, "returned 5 at node 'ramp', copy 0, which is no dpx_status",
                    dpx_trainer_on_replicate(trainer, "ramp", returns_five, NULL, NULL));
    dpx_trainer_free(trainer);
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

/* ---- as the trainer is made ---- */

#define ALL_COPIES                                                               \
    "twice 0;ramp 0;tap 0;tap2 0;centre 0;twice 1;ramp 1;tap 1;tap2 1;centre 1;" \
    "twice 2;ramp 2;tap 2;tap2 2;centre 2;twice 3;ramp 3;tap 3;tap2 3;centre 3;"

static dpx_status tell_at_creation(dpx_trainer **t, const char *model, const char *const *settings, Bench *b,
                                   const char *pattern, Told *told_to)
{
    const OwnReplication how = { pattern, told, release, told_to };

    telling = told_to;
    return own_trainer_telling(t, model, settings, b ? bench_operators(b, true) : NULL, &how);
}

/* The same calls as of a trainer that is there already, in this thread, once, and never again. */
static void test_created(void)
{
    const char *path = BUILD_DIR "/own_created";
    Bench b = { 0 };
    Told t = { 0 };
    dpx_trainer *trainer = NULL;
    dpx_result r;

    if (!CHECK_DPX(tell_at_creation(&trainer, "own", four, &b, NULL, &t)))
        return;
    CHECK_STR(ALL_COPIES, t.text);
    CU_ASSERT(pthread_equal(t.thread, pthread_self()) && t.contexts == 5);
    CU_ASSERT_EQUAL(copies_of(trainer, "ramp"), 4);
    CHECK_DPX_FAILS(DPX_INVALID, "once, before the first step",
                    dpx_trainer_on_replicate(trainer, NULL, told, release, &t));
    *t.text = 0;
    CHECK_DPX(bench_step(trainer, 3, &r)); /* the last copy has no samples */
    CHECK_DPX(bench_step(trainer, 6, &r)); /* another shape */
    CHECK_DPX(dpx_trainer_save(trainer, path, NULL));
    CHECK_DPX(dpx_trainer_resume(trainer, path, NULL));
    CHECK_DPX(bench_step(trainer, 4, &r));
    CHECK_STR("", t.text);
    CU_ASSERT_EQUAL(t.released, 0);
    dpx_trainer_free(trainer);
    CU_ASSERT_EQUAL(t.released, 5 * 4);
}

/* One of one replica tells nothing; where a program is compiled at once all is told too; each trainer of the same
 * options tells for itself. */
static void test_created_otherwise(void)
{
    static const char *const alone[] = { "loss=cross-entropy", "threads=1", NULL };
    static const char *const compiled[] = { "loss=cross-entropy", "dtype=float64", "threads=1",
                                            "replicas=4",         "batch-size=3",  NULL };
    Bench b = { 0 };
    Told t = { 0 }, second = { 0 };
    dpx_options *o = own_options(four, NULL);
    dpx_model *m = NULL;
    dpx_trainer *trainer = NULL;

    CHECK_DPX(tell_at_creation(&trainer, "own", alone, &b, "*", &t));
    CHECK_STR("", t.text);
    CU_ASSERT_PTR_NULL(dpx_trainer_context(trainer, "twice"));
    dpx_trainer_free(trainer);
    CHECK_DPX(tell_at_creation(&trainer, "own", compiled, &b, NULL, &t));
    CHECK_STR(ALL_COPIES, t.text);
    dpx_trainer_free(trainer);
    CHECK_DPX(dpx_options_on_replicate(o, "ramp", told, NULL, &t));
    CHECK_DPX(dpx_options_on_replicate(o, "ramp", told, release, &second)); /* the last counts */
    telling = &second;
    *t.text = 0;
    if (CHECK_DPX(dpx_model_load(&m, FOLDER "known.onnx")))
        for (int i = 0; i < 2 && CHECK_DPX(dpx_trainer_create(&trainer, m, o, NULL, NULL)); i++)
            dpx_trainer_free(trainer);
    CHECK_STR("", t.text);
    CHECK_STR("ramp 0;ramp 1;ramp 2;ramp 3;ramp 0;ramp 1;ramp 2;ramp 3;", second.text);
    CU_ASSERT_EQUAL(second.released, 2 * 4);
    dpx_model_free(m);
    dpx_options_free(o);
}

/* There is no trainer then, and its contexts are let go. */
static void test_created_failing(void)
{
    Bench b = { 0 };
    Told t = { .fail_at = 2 };
    dpx_trainer *trainer = NULL;

    CHECK_DPX_FAILS(DPX_IO, "the callback on replication failed at node 'twice', copy 2",
                    tell_at_creation(&trainer, "own", four, &b, NULL, &t));
    CU_ASSERT(!strchr(dpx_error(), '\n') && !trainer);
    CU_ASSERT_EQUAL(t.released, 5 * 2 + 1);
}

/* Nodes are told of as they were imported: nested calls in front of what is in them, and what is lowered or fused. */
static void test_created_as_imported(void)
{
    static const char *const pair[] = { "loss=cross-entropy", "threads=1", "devices=cpu*2", NULL };
    Told t = { 0 }, nested = { 0 };
    dpx_trainer *trainer = NULL;

    CHECK_DPX(tell_at_creation(&trainer, "known", pair, NULL, "*", &t));
    CHECK_STR("product 0;twice 0;leaky 0;ramp 0;mean 0;centre 0;product 1;twice 1;leaky 1;ramp 1;mean 1;centre 1;",
              t.text);
    dpx_trainer_free(trainer);
    CHECK_DPX(tell_at_creation(&trainer, "nested", pair, NULL, "outer*", &nested));
    CHECK_STR("outer 0;outer/relu 0;outer/inner 0;outer/inner/neg 0;outer/inner/abs 0;"
              "outer 1;outer/relu 1;outer/inner 1;outer/inner/neg 1;outer/inner/abs 1;",
              nested.text);
    dpx_trainer_free(trainer);
}

/* ---- contexts in kernels ---- */

/* What the copies of a node share: kernels lock it. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    int calls, inside, met; /* met: most that were inside at once */
} Meeting;

static dpx_trainer *meeting_trainer;

static dpx_status make_meeting(void *user, const char *node, int copy, void **context)
{
    Meeting *m = *context ? *context : calloc(1, sizeof *m);

    (void)user, (void)node, (void)copy;
    if (!*context) {
        pthread_mutex_init(&m->lock, NULL);
        pthread_cond_init(&m->came, NULL);
        *context = m;
    }
    return DPX_OK;
}

/* A kernel of one device waits some time for that of another: they are there together, or the test says so. */
static void meet(dpx_node *n)
{
    Meeting *m = dpx_trainer_context(meeting_trainer, dpx_node_name(n));
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&m->lock);
    m->calls++;
    m->inside++;
    m->met = m->inside > m->met ? m->inside : m->met;
    pthread_cond_broadcast(&m->came);
    while (m->met < 2 && !pthread_cond_timedwait(&m->came, &m->lock, &until))
        continue;
    m->inside--;
    pthread_mutex_unlock(&m->lock);
}

/* Kernels of several devices run at the same time, on one context, which they lock. */
static void test_meeting(void)
{
    static const char *const two[] = { "loss=cross-entropy", "dtype=float64", "threads=1",
                                       "devices=cpu*2",      "replicas=4",    NULL };
    Bench b = { .meet = meet };
    dpx_trainer *t = NULL;
    dpx_result r;

    if (!CHECK_DPX(own_trainer(&t, "own", two, bench_operators(&b, true))))
        return;
    meeting_trainer = t;
    CHECK_DPX(dpx_trainer_on_replicate(t, NULL, make_meeting, NULL, NULL));
    for (int i = 0; i < 3; i++)
        CHECK_DPX(bench_step(t, 8, &r));
    for (int i = 0; i < 5; i++) {
        static const char *const nodes[] = { "twice", "ramp", "tap", "tap2", "centre" };
        Meeting *m = dpx_trainer_context(t, nodes[i]);

        if (strstr(nodes[i], "tap"))
            CU_ASSERT(m->calls == 3 * 4 && m->met == 2 && !m->inside);
        pthread_mutex_destroy(&m->lock);
        pthread_cond_destroy(&m->came);
        free(m);
    }
    dpx_trainer_free(t);
}

DEFINE_SUITE(replication, { "world", test_world }, { "unlike", test_world_unlike }, { "own nodes", test_replication },
             { "by name", test_replication_by_name }, { "nested calls", test_nested }, { "resumed", test_resumed },
             { "created", test_created }, { "created otherwise", test_created_otherwise },
             { "created failing", test_created_failing }, { "as imported", test_created_as_imported },
             { "kernels meet", test_meeting });
