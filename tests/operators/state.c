/* State that an embedder's operator writes in the forward pass: Seen passes on its input and, in steps that train,
 * halves its state and adds the samples at hand.  It follows the first replica, with a warning; evaluation leaves it.
 */
#include <pthread.h>
#include <string.h>

#include "tests/operators/bench.h"

typedef struct {
    bool wrong_shape;
    int told; /* warnings of the state */
} Counting;

static dpx_status shape(void *user, dpx_node *n)
{
    const int64_t two[1] = { 2 };
    dpx_tensor x, seen;
    dpx_status st;

    if (!dpx_node_input(n, 0, &x) || !dpx_node_input(n, 1, &seen) ||
        (st = dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim)))
        return DPX_SHAPE;
    if (dpx_node_count_outputs(n) < 2)
        return DPX_OK;
    return dpx_node_set_output(n, 1, seen.dtype, 1, ((Counting *)user)->wrong_shape ? two : seen.dim);
}

static dpx_status count(dpx_node *n, double samples)
{
    dpx_tensor x, y, seen, next;

    if (!dpx_node_input(n, 0, &x) || !dpx_node_input(n, 1, &seen) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    memcpy(y.data, x.data, (size_t)(x.dim[0] * x.dim[1]) * sizeof(double));
    if (dpx_node_output(n, 1, &next))
        *(double *)next.data = *(const double *)seen.data / 2 + samples;
    return DPX_OK;
}

static dpx_status apply(void *user, dpx_node *n)
{
    dpx_tensor x;

    (void)user;
    return dpx_node_input(n, 0, &x) ? count(n, (double)x.dim[0]) : DPX_INTERNAL;
}

static dpx_status pass_on(void *user, dpx_node *n)
{
    (void)user;
    return dpx_graph_set_input_gradient(n, 0, dpx_graph_output_gradient(n, 0));
}

/* ---- the same, of the samples of all copies ---- */

static dpx_status shape_shared(void *user, dpx_node *n)
{
    const dpx_status st = shape(user, n);

    return st ? st : dpx_node_set_message(n, 1, 1);
}

static dpx_status collect(void *user, dpx_node *n)
{
    dpx_tensor x, message;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || !dpx_node_message(n, 0, &message))
        return DPX_INTERNAL;
    *(double *)message.data = (double)x.dim[0];
    return DPX_OK;
}

static dpx_status combine(void *user, dpx_node *n)
{
    dpx_tensor t;
    double all = 0;

    (void)user;
    for (int i = 0; i < dpx_node_count_messages(n); i++)
        all += dpx_node_message(n, i, &t) ? *(const double *)t.data : 0;
    for (int i = 0; i < dpx_node_count_messages(n) && dpx_node_answer(n, i, &t); i++)
        *(double *)t.data = all;
    return DPX_OK;
}

static dpx_status apply_shared(void *user, dpx_node *n)
{
    dpx_tensor all;

    (void)user;
    return dpx_node_answer(n, 0, &all) ? count(n, *(const double *)all.data) : DPX_INTERNAL;
}

/* ---- together ---- */

typedef enum { ALONE, SHARED, MIXING } Way;

static dpx_operator seen_operator(Counting *c, Way way)
{
    static const dpx_kernels kernels = { .size = sizeof kernels, .apply = apply };
    static const dpx_kernels shared = {
        .size = sizeof shared, .apply = apply_shared, .collect = collect, .combine = combine
    };

    return (dpx_operator){ .size = sizeof(dpx_operator),
                           .domain = "com.example",
                           .name = "Seen",
                           .min_inputs = 2,
                           .max_inputs = 2,
                           .min_outputs = 1,
                           .max_outputs = 2,
                           .flags = way == MIXING ? 0 : DPX_OPERATOR_PER_SAMPLE,
                           .sample_inputs = 1,
                           .sample_outputs = 1,
                           .shape = way == SHARED ? shape_shared : shape,
                           .float64 = way == SHARED ? &shared : &kernels,
                           .user = c,
                           .make_gradient = pass_on,
                           .state_inputs = 2,
                           .state_outputs = 1 };
}

static dpx_operators *seen_set(Counting *c, Way way)
{
    const dpx_operator op = seen_operator(c, way);
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operators_add(set, &op));
    return set;
}

static void note_line(void *user, int level, const char *line)
{
    ((Counting *)user)->told += level == DPX_LOG_WARNING && strstr(line, "seen: Seen") &&
                                strstr(line, "the state of the first replica is kept");
}

#define COMMON "loss=cross-entropy", "dtype=float64", "threads=1"

static dpx_status create(dpx_trainer **t, const char *path, const char *const *settings, Counting *c, Way way,
                         dpx_world *w)
{
    dpx_operators *set = seen_set(c, way);
    dpx_options *o = own_options(settings, set);
    dpx_model *m = NULL;
    dpx_status st = dpx_model_load_within(&m, path, o);

    dpx_options_set_world(o, w);
    if (!st)
        st = dpx_trainer_create(t, m, o, note_line, c);
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_operators_free(set);
    return st;
}

static double seen(dpx_trainer *t)
{
    double found = -1;
    const dpx_tensor state = { "seen", DPX_FLOAT64, 1, { 1 }, &found };

    CHECK_DPX(dpx_trainer_get_state(t, "seen", &state));
    return found;
}

/* From 2: of 7 samples those of the first replica, or all; evaluation counts none, and what goes on from a checkpoint
 * or from an export begins with what there was. */
static void test_follows(void)
{
    static const struct {
        const char *settings[6];
        Way way;
        double samples; /* that are counted */
        int told;
    } cases[] = { { { COMMON, NULL }, ALONE, 7, 0 },
                  { { COMMON, "devices=cpu*2", "replicas=3", NULL }, ALONE, 3, 1 },
                  { { COMMON, "devices=cpu*2", "split=2,5", NULL }, ALONE, 2, 1 },
                  { { COMMON, "devices=cpu*2", "replicas=3", NULL }, SHARED, 7, 1 },
                  { { COMMON, "devices=cpu*2", "replicas=3", NULL }, MIXING, 7, 0 } };
    const char *folder = BUILD_DIR "/own_state", *path = BUILD_DIR "/own_state.onnx";

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double n = cases[i].samples, first = 2.0 / 2 + n, second = first / 2 + n, third = second / 2 + n;
        Counting c = { 0 }, exported = { 0 };
        dpx_trainer *t = NULL;
        dpx_result r;

        if (!CHECK_DPX(create(&t, FOLDER "state.onnx", cases[i].settings, &c, cases[i].way, NULL)))
            return;
        CHECK_DPX(bench_step(t, 7, &r));
        CU_ASSERT(seen(t) == first);
        CHECK_DPX(dpx_trainer_save(t, folder, NULL));
        CHECK_DPX(bench_step(t, 7, &r));
        CHECK_DPX(bench_evaluate(t, 7, &r));
        CU_ASSERT(seen(t) == second);
        CHECK_DPX(dpx_trainer_export(t, path));
        CHECK_DPX(dpx_trainer_resume(t, folder, NULL));
        CHECK_DPX(bench_step(t, 7, &r));
        CU_ASSERT(seen(t) == second);
        if (c.told != cases[i].told)
            TEST_FAIL("case %zu: told %d times", i, c.told);
        dpx_trainer_free(t);
        if (CHECK_DPX(create(&t, path, cases[i].settings, &exported, cases[i].way, NULL)) &&
            CHECK_DPX(bench_step(t, 7, &r)))
            CU_ASSERT(seen(t) == third);
        dpx_trainer_free(t);
        remove(path);
    }
}

/* ---- several processes, here threads ---- */

typedef struct {
    int rank, port;
    double seen;
    int told;
} Process;

static void *run_process(void *arg)
{
    static const char *const settings[] = { COMMON, "replicas=3", NULL };
    Process *p = arg;
    char rendezvous[32];
    const dpx_world_options how = { .size = 2, .rank = p->rank, .rendezvous = rendezvous, .timeout = 20 };
    Counting c = { 0 };
    dpx_world *w = NULL;
    dpx_trainer *t = NULL;
    dpx_result r;

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    if (CHECK_DPX(dpx_world_join(&w, &how)) && CHECK_DPX(create(&t, FOLDER "state.onnx", settings, &c, ALONE, w)) &&
        CHECK_DPX(bench_step(t, 7, &r)))
        p->seen = seen(t);
    p->told = c.told;
    dpx_trainer_free(t);
    dpx_world_leave(w);
    return NULL;
}

/* Of the world's first replica, which one of them has. */
static void test_world(void)
{
    const int port = own_port();
    pthread_t thread[2];
    Process p[2];

    for (int i = 0; i < 2; i++) {
        p[i] = (Process){ .rank = i, .port = port };
        CU_ASSERT_FATAL(!pthread_create(&thread[i], NULL, run_process, &p[i]));
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        CU_ASSERT(p[i].seen == 1 + 3 && p[i].told == 1);
    }
}

/* ---- what is wrong ---- */

static void refuse(const char *says, const dpx_operator *op)
{
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX_FAILS(DPX_INVALID, says, dpx_operators_add(set, op));
    CU_ASSERT(!strchr(dpx_error(), '\n'));
    dpx_operators_free(set);
}

static void test_refused(void)
{
    static const char *const settings[] = { COMMON, NULL };
    Counting c = { .wrong_shape = true };
    const dpx_operator good = seen_operator(&c, ALONE);
    dpx_trainer *t = NULL;
    dpx_operator op;
    dpx_result r;

#define REFUSE(says, ...) (op = good, __VA_ARGS__, refuse(says, &op))
    REFUSE("state_inputs 0x102", op.state_inputs = 0x102);
    REFUSE("state_inputs 0x2", op.parameter_inputs = 2);
    REFUSE("state_outputs is 0", op.state_outputs = 0);
    REFUSE("state_outputs is 1, expected 2 outputs", op.state_inputs = 6);
    REFUSE("state_outputs is 1, expected 2 outputs", op.state_inputs = 3);
    REFUSE("state_outputs is 1", op.min_outputs = 2);
    REFUSE("its state carries samples", op.sample_outputs = 3);
    REFUSE("its state carries samples", op.sample_inputs = 0);
    if (CHECK_DPX(create(&t, FOLDER "state.onnx", settings, &c, ALONE, NULL)))
        CHECK_DPX_FAILS(DPX_SHAPE,
                        "Seen counter (output 'scores'): the shape function of operator Seen of domain com.example: "
                        "output 1 is float64[2], the state at input 1 float64[1]",
                        bench_step(t, 6, &r));
    dpx_trainer_free(t);
}

DEFINE_SUITE(state, { "follows the first", test_follows }, { "world", test_world }, { "refused", test_refused });
