/* Operators that an embedder brings: a model of theirs trains as the same model in ONNX's operators does, on any number
 * of replicas; what they get wrong is told in one line; impure ones are computed whatever reads them. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/dpexec.h"
#include "tests/harness/test.h"
#include "tests/operators/own.h"

enum { MOST = 11, WIDTH = 4, CLASSES = 3, STEPS = 3 };

typedef struct {
    atomic_int taps, destroyed;
    dpx_status shape_status; /* what Twice's shape function returns */
    bool wrong_shape;        /* it sets a shape that is not its input's */
    bool silent;             /* it sets none */
    dpx_status run_status;   /* what its kernels return */
} Bench;

/* ---- the operators ---- */

static int64_t numel(const dpx_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

static double get(const dpx_tensor *t, int64_t i)
{
    return t->dtype == DPX_FLOAT64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void put(const dpx_tensor *t, int64_t i, double v)
{
    if (t->dtype == DPX_FLOAT64)
        ((double *)t->data)[i] = v;
    else
        ((float *)t->data)[i] = (float)v;
}

static dpx_status shape_same(void *user, dpx_node *n)
{
    dpx_tensor x;

    (void)user;
    if (!dpx_node_input(n, 0, &x))
        return dpx_node_fail(n, DPX_SHAPE, "there is no input");
    return dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim);
}

static dpx_status shape_twice(void *user, dpx_node *n)
{
    const Bench *b = user;
    const int64_t other[1] = { 5 };
    dpx_tensor x;

    if (b->shape_status)
        return dpx_node_fail(n, b->shape_status, "it does\nnot fit");
    if (b->silent || !dpx_node_input(n, 0, &x))
        return DPX_OK;
    return b->wrong_shape ? dpx_node_set_output(n, 0, x.dtype, 1, other)
                          : dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim);
}

static dpx_status twice(void *user, dpx_node *n)
{
    const Bench *b = user;
    dpx_tensor x, y;

    if (b->run_status)
        return b->run_status;
    if (!dpx_node_input(n, 0, &x) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    for (int64_t i = 0; i < numel(&x); i++)
        put(&y, i, 2 * get(&x, i));
    return DPX_OK;
}

/* Reads no input: whose shape the library finds. */
static dpx_status twice_gradient(void *user, dpx_node *n)
{
    dpx_tensor x, dy, dx;

    (void)user;
    if (dpx_node_input(n, 0, &x) || !dpx_node_output_gradient(n, 0, &dy) || !dpx_node_input_gradient(n, 0, &dx))
        return dpx_node_fail(n, DPX_INTERNAL, "it is given something else than it declared");
    for (int64_t i = 0; i < numel(&dx); i++)
        put(&dx, i, 2 * get(&dy, i));
    return DPX_OK;
}

static dpx_status ramp(void *user, dpx_node *n)
{
    const double slope = dpx_node_float(n, "slope");
    dpx_tensor x, gain, y;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || !dpx_node_input(n, 1, &gain) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    for (int64_t i = 0; i < numel(&x); i++)
        put(&y, i, get(&x, i) * (get(&x, i) > 0 ? 1 : slope) * get(&gain, i % CLASSES));
    return DPX_OK;
}

static dpx_status ramp_gradient(void *user, dpx_node *n)
{
    const double slope = dpx_node_float(n, "slope");
    dpx_tensor x, gain, dy, dx, dgain;
    double sum[CLASSES] = { 0 };
    bool by_x = dpx_node_input_gradient(n, 0, &dx), by_gain = dpx_node_input_gradient(n, 1, &dgain);

    (void)user;
    if (!dpx_node_input(n, 0, &x) || !dpx_node_input(n, 1, &gain) || !dpx_node_output_gradient(n, 0, &dy))
        return DPX_INTERNAL;
    for (int64_t i = 0; i < numel(&x); i++) {
        const double k = get(&x, i) > 0 ? 1 : slope;

        if (by_x)
            put(&dx, i, get(&dy, i) * k * get(&gain, i % CLASSES));
        sum[i % CLASSES] += get(&dy, i) * k * get(&x, i);
    }
    for (int64_t c = 0; by_gain && c < CLASSES; c++)
        put(&dgain, c, sum[c]);
    return DPX_OK;
}

static dpx_status tap(void *user, dpx_node *n)
{
    Bench *b = user;
    dpx_tensor x, y;

    if (!dpx_node_input(n, 0, &x) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    b->taps++;
    for (int64_t i = 0; i < numel(&x); i++)
        put(&y, i, get(&x, i));
    return DPX_OK;
}

/* y = x less its mean over the batch. */
static void subtract_mean(const dpx_tensor *x, const dpx_tensor *y)
{
    for (int64_t c = 0; c < CLASSES; c++) {
        double sum = 0;

        for (int64_t i = c; i < numel(x); i += CLASSES)
            sum += get(x, i);
        for (int64_t i = c; i < numel(x); i += CLASSES)
            put(y, i, get(x, i) - sum / (double)x->dim[0]);
    }
}

static dpx_status centre(void *user, dpx_node *n)
{
    dpx_tensor x, y;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    subtract_mean(&x, &y);
    return DPX_OK;
}

static dpx_status centre_gradient(void *user, dpx_node *n)
{
    dpx_tensor dy, dx;

    (void)user;
    if (!dpx_node_output_gradient(n, 0, &dy) || !dpx_node_input_gradient(n, 0, &dx))
        return DPX_INTERNAL;
    subtract_mean(&dy, &dx);
    return DPX_OK;
}

static void note_end(void *user) { ((Bench *)user)->destroyed++; }

static const dpx_kernels twice_kernels = { .size = sizeof twice_kernels, .apply = twice, .gradient = twice_gradient };
static const dpx_kernels ramp_kernels = { .size = sizeof ramp_kernels, .apply = ramp, .gradient = ramp_gradient };
static const dpx_kernels tap_kernels = { .size = sizeof tap_kernels, .apply = tap };
static const dpx_kernels centre_kernels = { .size = sizeof centre_kernels,
                                            .apply = centre,
                                            .gradient = centre_gradient };

static dpx_operator one_to_one(const char *name, const dpx_kernels *k, unsigned flags, Bench *b)
{
    return (dpx_operator){ .size = sizeof(dpx_operator),
                           .domain = "com.example",
                           .name = name,
                           .version = 3,
                           .min_inputs = 1,
                           .max_inputs = 1,
                           .min_outputs = 1,
                           .max_outputs = 1,
                           .flags = flags,
                           .shape = shape_same,
                           .float32 = k,
                           .float64 = k,
                           .user = b,
                           .destroy = note_end };
}

/* `wide`: Twice has a kernel in float64. */
static dpx_operators *make_operators(Bench *b, bool wide)
{
    const dpx_attribute slope = { .size = sizeof slope, .name = "slope", .type = DPX_ATTRIBUTE_FLOAT, .f = 0.5 };
    dpx_operator first = one_to_one("Twice", &twice_kernels, DPX_OPERATOR_PER_SAMPLE, b),
                 second = one_to_one("Ramp", &ramp_kernels, DPX_OPERATOR_PER_SAMPLE, b),
                 third = one_to_one("Tap", &tap_kernels, DPX_OPERATOR_PER_SAMPLE | DPX_OPERATOR_IMPURE, b),
                 fourth = one_to_one("Centre", &centre_kernels, 0, b);
    dpx_operators *set = NULL;

    first.shape = shape_twice;
    first.float64 = wide ? &twice_kernels : NULL;
    second.min_inputs = second.max_inputs = 2;
    second.attributes = &slope;
    second.n_attributes = 1;
    second.sample_inputs = 1;
    second.parameter_inputs = 2;
    second.gradient_inputs = 3;
    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operators_add(set, &first));
    CHECK_DPX(dpx_operators_add(set, &second));
    CHECK_DPX(dpx_operators_add(set, &third));
    CHECK_DPX(dpx_operators_add(set, &fourth));
    return set;
}

/* ---- training ---- */

static dpx_status step(dpx_trainer *t, int samples, dpx_result *r)
{
    double x[MOST][WIDTH];
    int64_t label[MOST];
    dpx_tensor batch[2] = { { "x", DPX_FLOAT64, 2, { samples, WIDTH }, x },
                            { "target", DPX_INT64, 1, { samples }, label } };

    for (int s = 0; s < samples; s++) {
        label[s] = (s * 7 + 2) % CLASSES;
        for (int i = 0; i < WIDTH; i++)
            x[s][i] = sin(1 + s * WIDTH + i);
    }
    return dpx_train_step(t, batch, 2, r);
}

typedef struct {
    double weight[WIDTH * CLASSES], gain[CLASSES], loss;
} Trained;

static bool train(Trained *out, const char *model, const char *const *settings, dpx_operators *set, int samples)
{
    dpx_tensor weight = { "weight", DPX_FLOAT64, 2, { WIDTH, CLASSES }, out->weight },
               gain = { "gain", DPX_FLOAT64, 1, { CLASSES }, out->gain };
    dpx_trainer *t = NULL;
    dpx_result r = { 0 };
    bool good = CHECK_DPX(own_trainer(&t, model, settings, set));

    for (int i = 0; good && i < STEPS; i++)
        good = CHECK_DPX(step(t, samples, &r));
    good = good && CHECK_DPX(dpx_trainer_get_state(t, "weight", &weight)) &&
           CHECK_DPX(dpx_trainer_get_state(t, "gain", &gain));
    out->loss = r.loss;
    dpx_trainer_free(t);
    return good;
}

static double difference(const Trained *a, const Trained *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    double worst = 0;

    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        worst = fmax(worst, fabs(x[i] - y[i]) / fmax(1, fabs(y[i])));
    return worst;
}

/* Parts of all sizes, empty ones among them. */
static void test_same_as_known(void)
{
    static const char *const one[] = { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", NULL };
    static const char *const many[][7] = {
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", NULL },
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", "devices=cpu*2", NULL },
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", "devices=cpu*2", "replicas=5", NULL },
        { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", "devices=cpu*3", "split=1,0,2", NULL },
    };

    for (int samples = 2; samples <= MOST; samples += 9)
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
            Bench b = { 0 };
            Trained known, own;

            if (!train(&known, "known", one, NULL, samples) ||
                !train(&own, "own", many[i], make_operators(&b, true), samples))
                return;
            if (!(difference(&own, &known) <= 1e-12))
                TEST_FAIL("%d samples, case %zu: %g", samples, i, difference(&own, &known));
            CU_ASSERT_EQUAL(b.destroyed, 4); /* with the last that held the set */
        }
}

/* What is brought is taken instead of a function of the file, which is taken where nothing is brought. */
static void test_function(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "lr=0.3", "threads=1", NULL };
    Bench b = { 0 };
    Trained known, own, thrice;

    if (!train(&known, "known", settings, NULL, 6) || !train(&thrice, "function", settings, NULL, 6) ||
        !train(&own, "function", settings, make_operators(&b, true), 6))
        return;
    CU_ASSERT(difference(&own, &known) <= 1e-12);
    CU_ASSERT(difference(&thrice, &known) > 1e-3);
}

/* Two nodes that are alike and that nobody reads, each computed for every replica in every step. */
static void test_impure(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "devices=cpu*2",
                                            "replicas=3",         "threads=1",     NULL };
    Bench b = { 0 };
    Trained out;

    if (train(&out, "own", settings, make_operators(&b, true), 6))
        CU_ASSERT_EQUAL(b.taps, 2 * 3 * STEPS);
}

/* ---- what is wrong ---- */

static void test_errors(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "devices=cpu*2", "threads=1", NULL };
    static const struct {
        Bench b;
        bool narrow;
        dpx_status status;
        const char *says;
    } cases[] = {
        { { .shape_status = DPX_SHAPE },
          false,
          DPX_SHAPE,
          "Twice twice (output 't'): the shape function of operator Twice of "
          "domain com.example: it does not fit" },
        { { .silent = true }, false, DPX_SHAPE, "sets no output 0" },
        { { .wrong_shape = true }, false, DPX_SHAPE, "output 'scores' is [5]" },
        { { .run_status = DPX_IO }, false, DPX_IO, "Twice twice" },
        { { .run_status = 77 }, false, DPX_INTERNAL, "returned 77, which is no dpx_status" },
        { { .run_status = 0 }, true, DPX_UNSUPPORTED, "Twice twice" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bench b = cases[i].b;
        dpx_trainer *t = NULL;
        dpx_result r;
        dpx_status st = own_trainer(&t, "own", settings, make_operators(&b, !cases[i].narrow));

        if (!st)
            st = step(t, 6, &r);
        CHECK_DPX_FAILS(cases[i].status, cases[i].says, st);
        CU_ASSERT(!strchr(dpx_error(), '\n'));
        dpx_trainer_free(t);
    }
}

static void test_unknown(void)
{
    static const char *const settings[] = { "loss=cross-entropy", NULL };
    dpx_trainer *t = NULL;

    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "domain com.example", own_trainer(&t, "own", settings, NULL));
}

static void refuse(const char *says, const dpx_operator *op)
{
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX_FAILS(DPX_INVALID, says, dpx_operators_add(set, op));
    dpx_operators_free(set);
}

static void test_refused(void)
{
    Bench b = { 0 };
    const dpx_operator good = one_to_one("Good", &tap_kernels, 0, &b);
    const dpx_attribute bad = { .size = sizeof bad, .name = "a b", .type = DPX_ATTRIBUTE_INT };
    dpx_operator op;

#define REFUSE(says, ...) (op = good, __VA_ARGS__, refuse(says, &op))
    REFUSE("size is 3", op.size = 3);
    REFUSE("domain ''", op.domain = NULL);
    REFUSE("domain 'dpexec'", op.domain = "dpexec");
    REFUSE("domain 'ai.onnx.ml'", op.domain = "ai.onnx.ml");
    REFUSE("name 'a.b'", op.name = "a.b");
    REFUSE("no shape function", op.shape = NULL);
    REFUSE("no kernel", op.float32 = op.float64 = NULL);
    REFUSE("2 to 1 inputs", op.min_inputs = 2);
    REFUSE("sample_axis is 8", op.sample_axis = 8);
    REFUSE("flags 0x8", op.flags = 8);
    REFUSE("attribute 'a b'", (op.attributes = &bad, op.n_attributes = 1));
    REFUSE("-1 attributes", op.n_attributes = -1);
    REFUSE("parameter_inputs", op.parameter_inputs = 256);
    CU_ASSERT_EQUAL(b.destroyed, 0);
}

static void test_sets(void)
{
    Bench b = { 0 };
    const dpx_operator op = one_to_one("Tap", &tap_kernels, 0, &b);
    struct {
        dpx_operator known;
        size_t more;
    } newer = { op, 0 };
    dpx_options *o = dpx_options_create();
    dpx_operators *set = NULL, *other = NULL;

    newer.known.size = sizeof newer;
    newer.known.name = "Newer";
    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operators_create(&other));
    CHECK_DPX(dpx_operators_add(set, &newer.known)); /* it asks for nothing that we do not know */
    newer.more = 1;
    newer.known.name = "Newest";
    CHECK_DPX_FAILS(DPX_INVALID, "newer dpexec.h", dpx_operators_add(set, &newer.known));
    CHECK_DPX(dpx_operators_add(set, &op));
    CHECK_DPX(dpx_operators_add(other, &op));
    CHECK_DPX_FAILS(DPX_INVALID, "Tap of domain com.example is there already", dpx_operators_add(set, &op));
    CHECK_DPX(dpx_options_set_operators(o, set));
    CHECK_DPX_FAILS(DPX_INVALID, "nothing can be added", dpx_operators_add(set, &op));
    CHECK_DPX_FAILS(DPX_INVALID, "Tap of domain com.example is in two sets", dpx_options_set_operators(o, other));
    dpx_operators_free(set);
    dpx_operators_free(other);
    CU_ASSERT_EQUAL(b.destroyed, 1);
    dpx_options_free(o);
    CU_ASSERT_EQUAL(b.destroyed, 3);
}

/* ---- exports ---- */

/* What was trained is exported with the operators, and goes on from there. */
static void test_export(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    const char *path = BUILD_DIR "/own_trained.onnx";
    Bench b = { 0 };
    dpx_trainer *t = NULL;
    dpx_options *o;
    dpx_model *m = NULL;
    dpx_operators *set;
    dpx_result r;

    if (!CHECK_DPX(own_trainer(&t, "own", settings, make_operators(&b, true))) || !CHECK_DPX(step(t, 6, &r)) ||
        !CHECK_DPX(dpx_trainer_export(t, path)))
        return;
    dpx_trainer_free(t);
    o = own_options(settings, set = make_operators(&b, true));
    dpx_operators_free(set);
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "com.example", dpx_model_load(&m, path));
    if (CHECK_DPX(dpx_model_load_within(&m, path, o)) && CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL))) {
        CHECK_DPX(step(t, 6, &r));
        dpx_trainer_free(t);
    }
    dpx_model_free(m);
    dpx_options_free(o);
    remove(path);
}

/* ---- replication ---- */

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
    dpx_operators *set = make_operators(&b, !p->other);
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
        p->status = step(t, 7, &p->result);
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
    if (!CHECK_DPX(own_trainer(&trainer, "own", four, make_operators(&b, true))))
        return;
    CHECK_DPX(dpx_trainer_on_replicate(trainer, NULL, told, release, &t));
    CHECK_STR("twice 0;ramp 0;tap 0;tap2 0;centre 0;twice 1;ramp 1;tap 1;tap2 1;centre 1;"
              "twice 2;ramp 2;tap 2;tap2 2;centre 2;twice 3;ramp 3;tap 3;tap2 3;centre 3;",
              t.text);
    CU_ASSERT_EQUAL(t.contexts, 5);
    CU_ASSERT_EQUAL(*(int *)dpx_trainer_context(trainer, "ramp"), 4);
    CU_ASSERT_PTR_NULL(dpx_trainer_context(trainer, "product"));
    *t.text = 0;
    CHECK_DPX(step(trainer, 3, &r)); /* the last copy has no samples */
    CHECK_DPX(step(trainer, 6, &r));
    CHECK_STR("", t.text);
    CHECK_DPX_FAILS(DPX_INVALID, "once, before the first step",
                    dpx_trainer_on_replicate(trainer, NULL, told, release, &t));
    dpx_trainer_free(trainer);
    CU_ASSERT_EQUAL(t.released, 5 * 4);
    if (!CHECK_DPX(own_trainer(&trainer, "own", alone, make_operators(&b, true))))
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
    CHECK_DPX(step(trainer, 6, &r));
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
    if (!CHECK_DPX(own_trainer(&first, "own", four, make_operators(&b, true))) ||
        !CHECK_DPX(own_trainer(&second, "own", four, make_operators(&b, true))))
        return;
    CHECK_DPX(dpx_trainer_on_replicate(first, NULL, told, release, &t));
    CHECK_DPX(step(first, 6, &r));
    CHECK_DPX(dpx_trainer_save(first, path, NULL));
    *t.text = 0;
    CHECK_DPX(dpx_trainer_resume(first, path, NULL));
    CHECK_DPX(step(first, 4, &r));
    CHECK_STR("", t.text);
    CHECK_DPX(dpx_trainer_on_replicate(second, "none", told, NULL, &later));
    CU_ASSERT(!strncmp(later.text, "twice 0;ramp 0;", 15));
    *later.text = 0;
    CHECK_DPX(dpx_trainer_resume(second, path, NULL));
    CHECK_DPX(step(second, 4, &r));
    CHECK_STR("", later.text);
    for (int i = 0; i < 5; i++) {
        static const char *const nodes[] = { "twice", "ramp", "tap", "tap2", "centre" };

        free(dpx_trainer_context(second, nodes[i])); /* nobody was told to release them */
    }
    dpx_trainer_free(first);
    dpx_trainer_free(second);
}

DEFINE_SUITE(operators, { "as known ones", test_same_as_known }, { "function", test_function },
             { "impure", test_impure }, { "errors", test_errors }, { "unknown", test_unknown },
             { "refused", test_refused }, { "sets", test_sets }, { "export", test_export }, { "world", test_world },
             { "replication", test_replication }, { "replication by name", test_replication_by_name },
             { "nested calls", test_nested }, { "resumed", test_resumed });
