/* Sessions: programs per mode and shape over one state, the same bits on any devices, clear refusals. */
#include "exec/train/session.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/select.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

#include <string.h>

#include "exec/run/interp.h"
#include "exec/inspect/verify_batch.h"
#include "graph/ir/emit.h"
#include "graph/onnx/onnx.h"
#include "tests/harness/test.h"
#include "passes/build_parts.h"

static BuildParts training = { .recipes.loss = &loss_cross_entropy,
                               .recipes.settings = "momentum=0.9",
                               .recipes.metric = { { .def = &metric_accuracy } },
                               .replicas.replicas = 4,
                               .step.seed = 7 };

static Status open_model(Session **s, const char *name, const BuildOptions *opt, const char *devices)
{
    char path[256];
    DeviceList list;
    Graph *g;
    Status st;

    snprintf(path, sizeof path, "%s/models/%s.onnx", SOURCE_DIR, name);
    TRY(onnx_import_file(&g, NULL, path, NULL));
    st = device_list_parse(&list, devices, 1);
    if (!st)
        st = session_create(s, g, opt, &list, NULL, NULL);
    graph_free(g);
    return st;
}

/* A batch of the mlp or the fashion_cnn: input, target, learning rate. */
static NamedTensor *batch_of(Arena *a, const char *name, int n, int k)
{
    bool mlp = !strcmp(name, "mlp");
    Shape sx = mlp ? SHAPE(n, 64) : SHAPE(n, 1, 28, 28), st = SHAPE(n), scalar = shape_scalar();
    NamedTensor *in = ARENA_NEW(a, NamedTensor, 3);
    uint32_t seed = 77u + (uint32_t)k;

    in[0] = (NamedTensor){ mlp ? "x" : "image", *tensor_create(a, DT_FLOAT32, &sx) };
    in[1] = (NamedTensor){ "target", *tensor_create(a, DT_INT64, &st) };
    in[2] = (NamedTensor){ IN_LR, *tensor_create(a, DT_FLOAT32, &scalar) };
    for (int64_t i = 0; i < tensor_numel(&in[0].tensor); i++) {
        seed = seed * 1664525u + 1013904223u;
        ((float *)in[0].tensor.data)[i] = (float)(seed >> 8) / (float)(1 << 24);
    }
    for (int i = 0; i < n; i++)
        ((int64_t *)in[1].tensor.data)[i] = (i * 7 + k) % 10;
    *(float *)in[2].tensor.data = 0.05f;
    return in;
}

static const Tensor *find(const NamedTensor *out, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(out[i].name, name))
            return &out[i].tensor;
    TEST_FAIL("there is no output '%s'", name);
    return NULL;
}

static float loss_of(Session *s, BuildMode mode, const NamedTensor *in)
{
    const NamedTensor *out;
    const Tensor *loss = NULL;
    int n;

    if (CHECK_OK(session_step(&out, &n, s, mode, in, 3)))
        loss = find(out, n, OUT_LOSS);
    return loss ? *(float *)loss->data : 0;
}

/* ---- same bits ---- */

/* All state after three steps of 7, 7 and 3 samples, one after another. */
static char *trained(Arena *a, const char *name, const char *devices, size_t *bytes)
{
    Session *s = NULL;
    char *all = ARENA_NEW(a, char, 1 << 22);

    *bytes = 0;
    if (CHECK_OK(open_model(&s, name, build_parts(&training), devices))) {
        for (int k = 0; k < 3; k++)
            loss_of(s, BUILD_TRAIN, batch_of(a, name, k < 2 ? 7 : 3, k));
        CHECK_OK(states_check_mirrors(session_states(s)));
        for (int i = 0; i < states_count(session_states(s)); i++) {
            const State *st = states_at(session_states(s), i);
            Tensor t = { st->dtype, st->shape, all + *bytes };

            CU_ASSERT_FATAL(*bytes + tensor_bytes(&t) <= 1 << 22);
            CHECK_OK(states_get(session_states(s), st->name, &t));
            *bytes += tensor_bytes(&t);
        }
    }
    session_free(s);
    return all;
}

static void test_same_bits(void)
{
    static const char *const names[] = { "mlp", "fashion_cnn" };

    for (int i = 0; i < 2; i++) {
        Arena *a = arena_create();
        size_t n1, n2, n4;
        char *one = trained(a, names[i], "cpu", &n1), *two = trained(a, names[i], "cpu*2", &n2),
             *four = trained(a, names[i], "cpu*4", &n4);

        CU_ASSERT(n1 > 100000 && n1 == n2 && n1 == n4);
        CU_ASSERT_FALSE(memcmp(one, two, n1));
        CU_ASSERT_FALSE(memcmp(one, four, n1));
        arena_free(a);
    }
}

/* ---- programs and state ---- */

static void test_programs_share_state(void)
{
    Arena *a = arena_create();
    Session *s = NULL;
    NamedTensor *large = batch_of(a, "mlp", 10, 0), *small = batch_of(a, "mlp", 3, 1);
    const Program *first;
    float before, after;

    if (CHECK_OK(open_model(&s, "mlp", build_parts(&training), "cpu*2"))) {
        before = loss_of(s, BUILD_EVAL, large);
        loss_of(s, BUILD_TRAIN, large);
        first = session_program(s, BUILD_TRAIN);
        loss_of(s, BUILD_TRAIN, small);
        CU_ASSERT_PTR_NOT_EQUAL(session_program(s, BUILD_TRAIN), first);
        for (int k = 0; k < 20; k++)
            loss_of(s, BUILD_TRAIN, large);
        CU_ASSERT_PTR_EQUAL(session_program(s, BUILD_TRAIN), first);
        after = loss_of(s, BUILD_EVAL, large);
        CU_ASSERT(after < 0.9f * before);
        CU_ASSERT_EQUAL(loss_of(s, BUILD_EVAL, large), after);
    }
    session_free(s);
    arena_free(a);
}

/* Does planning a step run out of what it may take? */
static bool runs_out(Session *s, const NamedTensor *in)
{
    return session_prepare(s, BUILD_EVAL, in, 3) == E_NOMEM && strstr(status_message(), "--plan-memory");
}

/* Planning may take what a few programs need: those not used for longest go, and their memory is free for the next;
 * come back, they compute the same. */
static void test_programs_are_forgotten(void)
{
    Arena *a = arena_create();
    Session *s = NULL;
    BuildParts opt = training;
    float loss[40];

    opt.memory.plan_memory = 3 << 20;
    if (CHECK_OK(open_model(&s, "mlp", build_parts(&opt), "cpu*2"))) {
        session_keep_programs(s, 5);
        for (int i = 0; i < 40; i++)
            loss[i] = loss_of(s, BUILD_EVAL, batch_of(a, "mlp", i + 1, i));
        CU_ASSERT_EQUAL(session_count_programs(s), 5);
        CU_ASSERT_EQUAL(loss_of(s, BUILD_EVAL, batch_of(a, "mlp", 38, 37)), loss[37]);
        CU_ASSERT_EQUAL(loss_of(s, BUILD_EVAL, batch_of(a, "mlp", 3, 2)), loss[2]);
        CU_ASSERT_EQUAL(session_program(s, BUILD_EVAL) != NULL, true);
        CU_ASSERT_EQUAL(session_count_programs(s), 5);
        session_keep_programs(s, 1);
        CU_ASSERT_EQUAL(session_count_programs(s), SESSION_LEAST_PROGRAMS);
        CU_ASSERT_EQUAL(loss_of(s, BUILD_EVAL, batch_of(a, "mlp", 38, 37)), loss[37]);
        session_keep_programs(s, 1000);
        for (int i = 0; i < 1000 && !runs_out(s, batch_of(a, "mlp", i + 1, i)); i++)
            CU_ASSERT_FATAL(i < 40);
    }
    session_free(s);
    arena_free(a);
}

static void test_state_is_set_and_read(void)
{
    Arena *a = arena_create();
    Session *s = NULL;
    NamedTensor *in = batch_of(a, "mlp", 8, 0);
    float first, second;

    if (CHECK_OK(open_model(&s, "mlp", build_parts(&training), "cpu*2")) &&
        CHECK_OK(session_prepare(s, BUILD_TRAIN, in, 2))) {
        States *states = session_states(s);
        int n = states_count(states);
        Tensor **saved = ARENA_NEW(a, Tensor *, n), wrong;

        for (int i = 0; i < n; i++) {
            saved[i] = tensor_create(a, states_at(states, i)->dtype, &states_at(states, i)->shape);
            CHECK_OK(states_get(states, states_at(states, i)->name, saved[i]));
        }
        first = loss_of(s, BUILD_TRAIN, in);
        CU_ASSERT(loss_of(s, BUILD_TRAIN, in) != first);
        for (int i = 0; i < n; i++)
            CHECK_OK(states_set(states, states_at(states, i)->name, saved[i]));
        second = loss_of(s, BUILD_TRAIN, in);
        CU_ASSERT_EQUAL(first, second);
        CHECK_OK(states_check_mirrors(states));
        wrong = *saved[0];
        wrong.dtype = DT_INT32;
        CHECK_FAILS(E_SHAPE, states_at(states, 0)->name, states_set(states, states_at(states, 0)->name, &wrong));
        CHECK_FAILS(E_INVALID, "no state 'nobody'", states_get(states, "nobody", saved[0]));
    }
    session_free(s);
    arena_free(a);
}

/* The model with its present values, run elsewhere, gives what the session gives. */
static void test_model_of_now(void)
{
    Arena *a = arena_create();
    Session *s = NULL;
    NamedTensor *in = batch_of(a, "fashion_cnn", 4, 0);
    BuildParts infer = { .build.mode = BUILD_INFER, .batch.batch = 4 };
    const NamedTensor *out;
    Graph *g = NULL;
    int n;

    if (CHECK_OK(open_model(&s, "fashion_cnn", build_parts(&training), "cpu*2"))) {
        for (int k = 0; k < 3; k++)
            loss_of(s, BUILD_TRAIN, in);
        CHECK_OK(session_model(&g, s, NULL, NULL));
        CHECK_OK(pipeline_run(g, build_parts(&infer), interp_node, NULL, NULL));
        if (CHECK_OK(session_step(&out, &n, s, BUILD_INFER, in, 1))) {
            const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value), *y;

            values[g->input[0].i] = &in[0].tensor;
            CHECK_OK(interp_run(a, g, values));
            y = values[g->output[0].value.i];
            CU_ASSERT_EQUAL(n, 1);
            CU_ASSERT(shape_eq(&y->shape, &out[0].tensor.shape));
            for (int64_t i = 0; i < tensor_numel(y); i++)
                CU_ASSERT_DOUBLE_EQUAL(tensor_float(y, i), tensor_float(&out[0].tensor, i), 1e-4);
        }
    }
    graph_free(g);
    session_free(s);
    arena_free(a);
}

/* ---- refusals ---- */

static void test_wrong_inputs(void)
{
    Arena *a = arena_create();
    Session *s = NULL;
    NamedTensor *in = batch_of(a, "mlp", 8, 0), other[3];
    const NamedTensor *out;
    Shape flat = SHAPE(8, 63);
    int n;

    if (CHECK_OK(open_model(&s, "mlp", build_parts(&training), "cpu*2"))) {
        CHECK_FAILS(E_INVALID, "'learning_rate' is missing", session_step(&out, &n, s, BUILD_TRAIN, in, 2));
        memcpy(other, in, sizeof other);
        other[0].tensor.shape = flat;
        CHECK_FAILS(E_SHAPE, "'x'", session_step(&out, &n, s, BUILD_TRAIN, other, 3));
        memcpy(other, in, sizeof other);
        other[0].tensor.dtype = DT_FLOAT64;
        CHECK_FAILS(E_SHAPE, "input 'x' has type float64", session_step(&out, &n, s, BUILD_TRAIN, other, 3));
        memcpy(other, in, sizeof other);
        other[1].tensor.shape = SHAPE(7);
        CHECK_FAILS(E_SHAPE, "'target'", session_step(&out, &n, s, BUILD_TRAIN, other, 3));
        CHECK_OK(session_step(&out, &n, s, BUILD_TRAIN, in, 3));
    }
    session_free(s);
    arena_free(a);
}

/* x -> positions of what is not zero: only the interpreter can run it, and only for inference. */
static void test_shapes_that_depend_on_data(void)
{
    Graph *g = graph_create("g");
    Shape s = SHAPE(4);
    BuildParts opt = { .replicas.replicas = 1 };
    float x[4] = { 0, 5, 0, 7 };
    NamedTensor in = { "x", { DT_FLOAT32, s, x } };
    const NamedTensor *out;
    Session *session = NULL;
    DeviceList list;
    int n;

    graph_add_output(g, "y", EMIT(g, NonZero, NULL, graph_add_input(g, "x", DT_FLOAT32, &s)));
    CHECK_OK(g->status);
    CHECK_OK(device_list_parse(&list, "cpu", 1));
    if (CHECK_OK(session_create(&session, g, build_parts(&opt), &list, NULL, NULL))) {
        for (int turn = 0; turn < 2; turn++) {
            x[0] = (float)turn;
            if (CHECK_OK(session_step(&out, &n, session, BUILD_INFER, &in, 1))) {
                CU_ASSERT(out[0].tensor.shape.rank == 2 && out[0].tensor.shape.dim[1] == 2 + turn);
                CU_ASSERT_EQUAL(((int64_t *)out[0].tensor.data)[turn], 1);
            }
        }
        CU_ASSERT_PTR_NULL(session_program(session, BUILD_INFER));
    }
    session_free(session);
    graph_free(g);
}

/* A shape that is given in full is known before what it is given to, which may not fit it. */
static void test_shapes_that_data_may_not_fit(void)
{
    Graph *g = graph_create("g");
    const Shape s = SHAPE(4);
    const int64_t three = 3;
    BuildParts opt = { .replicas.replicas = 1 };
    float x[4] = { 1, 5, 0, 7 };
    NamedTensor in = { "x", { DT_FLOAT32, s, x } };
    const NamedTensor *out;
    Session *session = NULL;
    DeviceList list;
    ValueId where;
    int n;

    where = EMIT(g, NonZero, NULL, graph_add_input(g, "x", DT_FLOAT32, &s));
    graph_add_output(g, "y", EMIT(g, Reshape, NULL, where, emit_ints(g, 1, &three)));
    CHECK_OK(g->status);
    CHECK_OK(device_list_parse(&list, "cpu", 1));
    if (CHECK_OK(session_create(&session, g, build_parts(&opt), &list, NULL, NULL)) &&
        CHECK_OK(session_step(&out, &n, session, BUILD_INFER, &in, 1))) {
        CU_ASSERT(out[0].tensor.shape.rank == 1 && ((int64_t *)out[0].tensor.data)[2] == 3);
        x[0] = 0;
        CHECK_FAILS(E_SHAPE, "shape [1,2] cannot become [3]", session_step(&out, &n, session, BUILD_INFER, &in, 1));
    }
    session_free(session);
    graph_free(g);
}

/* The mlp that also says where its scores are above 0: what only the interpreter can infer. */
static Status open_pointing(Session **s, ShardMode shard)
{
    BuildParts opt = training;
    DeviceList list;
    Graph *g;
    Status st;

    opt.collectives.shard = shard;
    TRY(onnx_import_file(&g, NULL, SOURCE_DIR "/models/mlp.onnx", NULL));
    graph_add_output(g, "where", EMIT(g, NonZero, NULL, EMIT(g, Relu, NULL, g->output[0].value)));
    st = g->status ? g->status : device_list_parse(&list, "cpu*2", 1);
    if (!st)
        st = session_create(s, g, build_parts(&opt), &list, NULL, NULL);
    graph_free(g);
    return st;
}

/* Parameters in pieces are put together for the interpreter: before and after steps it infers what it does of whole
 * ones. */
static void test_pieces_are_interpreted(void)
{
    Arena *a = arena_create();
    Session *whole = NULL, *pieces = NULL;
    NamedTensor *in = batch_of(a, "mlp", 8, 0);

    if (CHECK_OK(open_pointing(&whole, SHARD_NONE)) && CHECK_OK(open_pointing(&pieces, SHARD_PARAMETERS)))
        for (int turn = 0; turn < 3; turn++) {
            const NamedTensor *a_out, *b_out;
            int a_n = 0, b_n = 0;

            CHECK_OK(session_step(&a_out, &a_n, whole, BUILD_INFER, in, 1));
            CHECK_OK(session_step(&b_out, &b_n, pieces, BUILD_INFER, in, 1));
            CU_ASSERT(a_n == 2 && b_n == 2);
            for (int i = 0; i < a_n && i < b_n; i++)
                CU_ASSERT(tensor_numel(&a_out[i].tensor) > 0 && tensor_same(&a_out[i].tensor, &b_out[i].tensor));
            CHECK_OK(session_step(&a_out, &a_n, whole, BUILD_TRAIN, in, 3));
            CHECK_OK(session_step(&b_out, &b_n, pieces, BUILD_TRAIN, in, 3));
        }
    CU_ASSERT(pieces && states_find(session_states(pieces), "fc1.weight")->cut);
    session_free(whole);
    session_free(pieces);
    arena_free(a);
}

/* No kernel adds float16: both nodes are named. */
static void test_missing_kernels_are_listed(void)
{
    Graph *g = graph_create("g");
    Shape s = SHAPE(4);
    BuildParts opt = { .replicas.replicas = 1 };
    NamedTensor in = { "x", { DT_INT16, s, NULL } };
    Session *session = NULL;
    DeviceList list;
    ValueId x = graph_add_input(g, "x", DT_INT16, &s);

    graph_add_output(g, "y", EMIT(g, Erf, NULL, EMIT(g, Erf, NULL, x)));
    CHECK_OK(g->status);
    CHECK_OK(device_list_parse(&list, "cpu", 1));
    if (CHECK_OK(session_create(&session, g, build_parts(&opt), &list, NULL, NULL))) {
        CHECK_FAILS(E_UNSUPPORTED, "Erf", session_prepare(session, BUILD_INFER, &in, 1));
        CU_ASSERT_PTR_NOT_NULL(strstr(status_message(), "; Erf"));
    }
    session_free(session);
    graph_free(g);
}

/* ---- the log ---- */

static void keep_line(void *user, LineLevel level, const char *line)
{
    char *text = user;

    strcat(text, level == LINE_WARNING ? "! " : level == LINE_DETAIL ? ". " : "- ");
    strncat(text, line, 100);
    strcat(text, "\n");
}

/* `w` is never read by the loss: that is said by name, and only once. */
static void test_log(void)
{
    Graph *g = graph_create("g");
    Shape s = SHAPE(6, 3);
    BuildParts opt = {
        .build.mode = BUILD_TRAIN, .recipes.loss = &loss_output, .recipes.loss_args = "loss", .replicas.replicas = 2
    };
    DeviceList list = {
        .n = 2, .device = { { .index = 0, .threads = 4, .memory = 100 }, { .index = 1, .threads = 1, .memory = 100 } }
    };
    Tensor *t = tensor_create(g->arena, DT_FLOAT32, &s);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s), w, v;
    NamedTensor in = { "x", { DT_FLOAT32, s, NULL } };
    char text[4096] = "", *first;
    Session *session = NULL;
    int64_t swap[] = { 1, 0 };
    Shape scalar = shape_scalar();

    for (int i = 0; i < 18; i++)
        ((float *)t->data)[i] = 0.1f * (float)(i * i % 7 - 3); /* like weights: zeros alone are taken for a setting */
    w = graph_add_const(g, "w", t);
    v = graph_add_const(g, "v", t);
    v = EMIT(g, MatMul, NULL, x, emit_transpose(g, v, 2, swap));
    v = EMIT(g, ReduceSum, NULL, EMIT(g, Mul, NULL, v, v));
    graph_add_output(g, "loss", emit_reshape(g, v, &scalar));
    graph_add_output(g, "other", EMIT(g, Mul, NULL, w, w));
    CHECK_OK(g->status);
    if (CHECK_OK(session_create(&session, g, build_parts(&opt), &list, keep_line, text))) {
        CU_ASSERT_PTR_NOT_NULL(
            strstr(text, "! the step waits for the slowest device: cpu:0 (4 cores, 0 MiB) and cpu:1 (1 core, "));
        CHECK_OK(session_prepare(session, BUILD_TRAIN, &in, 1));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, ". x: split along axis 0"));
        first = strstr(text, "! w: ");
        CU_ASSERT_PTR_NOT_NULL(first);
        CHECK_OK(session_prepare(session, BUILD_INFER, &in, 1));
        CU_ASSERT(!first || !strstr(first + 1, "! w: "));
    }
    session_free(session);
    graph_free(g);
}

DEFINE_SUITE(session, { "four replicas give the same bits on 1, 2 and 4 devices", test_same_bits },
             { "programs share state", test_programs_share_state },
             { "programs not used for long are forgotten", test_programs_are_forgotten },
             { "state is set and read", test_state_is_set_and_read },
             { "the model with its present values", test_model_of_now }, { "wrong inputs", test_wrong_inputs },
             { "shapes that depend on data", test_shapes_that_depend_on_data },
             { "shapes that data may not fit", test_shapes_that_data_may_not_fit },
             { "parameters in pieces are interpreted", test_pieces_are_interpreted },
             { "missing kernels are listed", test_missing_kernels_are_listed },
             { "what is found is told once", test_log });
