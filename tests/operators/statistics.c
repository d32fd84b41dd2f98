/* The operator of docs/example/statistics.c, whose copies share statistics, trains as batch-norm does: on any number of
 * replicas, with parts of unequal sizes and none, in one process and in several; its copies are told of in order. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "docs/example/statistics.c"
#include "tests/harness/test.h"
#include "tests/operators/own.h"

enum { CHANNELS = 3, WIDTH = 4, CLASSES = 3, MOST = 11, STEPS = 4 };

typedef struct {
    double loss[STEPS], weight[WIDTH * WIDTH], scale[CHANNELS], bias[CHANNELS], last[CHANNELS * WIDTH * CLASSES];
} Trained;

static dpx_operators *make_set(void)
{
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operator_library.add(set));
    return set;
}

static dpx_status step_in(dpx_dtype type, dpx_trainer *t, int samples, int seed, dpx_result *r)
{
    double x[MOST * CHANNELS * WIDTH];
    int64_t label[MOST];
    const dpx_tensor batch[2] = { { "x", type, 3, { samples, CHANNELS, WIDTH }, x },
                                  { "target", DPX_INT64, 1, { samples }, label } };

    for (int s = 0; s < samples; s++) {
        label[s] = (s * 7 + seed) % CLASSES;
        for (int i = 0; i < CHANNELS * WIDTH; i++)
            put(&batch[0], s * CHANNELS * WIDTH + i, 5 * (i / WIDTH) + sin(1 + seed + 31 * s + 3 * i));
    }
    return dpx_train_step(t, batch, 2, r);
}

static dpx_status step(dpx_trainer *t, int samples, int seed, dpx_result *r)
{
    return step_in(DPX_FLOAT64, t, samples, seed, r);
}

static dpx_status get_all(dpx_trainer *t, Trained *out)
{
    dpx_tensor state[] = { { "weight", DPX_FLOAT64, 2, { WIDTH, WIDTH }, out->weight },
                           { "scale", DPX_FLOAT64, 1, { CHANNELS }, out->scale },
                           { "bias", DPX_FLOAT64, 1, { CHANNELS }, out->bias },
                           { "last", DPX_FLOAT64, 2, { CHANNELS * WIDTH, CLASSES }, out->last } };
    dpx_status st = DPX_OK;

    for (size_t i = 0; i < sizeof state / sizeof *state && !st; i++)
        st = dpx_trainer_get_state(t, state[i].name, &state[i]);
    return st;
}

static dpx_status train_steps(dpx_trainer *t, Trained *out, int samples)
{
    dpx_status st = DPX_OK;
    dpx_result r = { 0 };

    for (int i = 0; i < STEPS && !st; i++) {
        st = step(t, samples, i, &r);
        out->loss[i] = r.loss;
    }
    return st ? st : get_all(t, out);
}

static bool train(Trained *out, const char *model, const char *const *settings, dpx_operators *set, int samples)
{
    dpx_trainer *t = NULL;
    const bool good = CHECK_DPX(own_trainer(&t, model, settings, set)) && CHECK_DPX(train_steps(t, out, samples));

    dpx_trainer_free(t);
    return good;
}

static double difference(const Trained *a, const Trained *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    double worst = 0;

    for (size_t i = 0; i < sizeof *a / sizeof *x; i++)
        worst = !(fabs(x[i] - y[i]) <= worst) ? fabs(x[i] - y[i]) : worst;
    return worst;
}

#define COMMON "loss=cross-entropy", "dtype=float64", "lr=0.3", "optimizer=sgd", "threads=1"
static const char *const one[] = { COMMON, NULL };

/* Five replicas of two samples: three are empty. */
static void test_batch_norm(void)
{
    static const char *const many[][9] = {
        { COMMON, NULL },
        { COMMON, "devices=cpu*2", NULL },
        { COMMON, "devices=cpu*2", "replicas=5", NULL },
        { COMMON, "devices=cpu*5", NULL },
        { COMMON, "devices=cpu*3", "split=1,0,2", NULL },
        { COMMON, "devices=cpu*2", "strategy=master", NULL },
    };

    for (int samples = 2; samples <= MOST; samples += 9)
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
            Trained known, own;

            if (!train(&known, "batch_norm", one, NULL, samples) ||
                !train(&own, "statistics", many[i], make_set(), samples))
                return;
            if (!(difference(&own, &known) <= 1e-12))
                TEST_FAIL("%d samples, case %zu: %g", samples, i, difference(&own, &known));
        }
}

/* ---- gradients ---- */

/* What one step of plain descent at a rate of 1 takes away is the gradient. */
static bool find_gradient(Trained *out, const char *model, const char *const *settings, dpx_operators *set)
{
    Trained before, after;
    dpx_trainer *t = NULL;
    dpx_result r;
    const bool good = CHECK_DPX(own_trainer(&t, model, settings, set)) && CHECK_DPX(get_all(t, &before)) &&
                      CHECK_DPX(step(t, MOST, 0, &r)) && CHECK_DPX(get_all(t, &after));
    const double *a = (const double *)&before, *b = (const double *)&after;

    dpx_trainer_free(t);
    for (size_t i = STEPS; good && i < sizeof before / sizeof *a; i++)
        ((double *)out)[i] = a[i] - b[i];
    out->loss[0] = good ? r.loss : NAN;
    return good;
}

/* By norm, and relative. */
static double distance(const double *a, const double *b, size_t n)
{
    double sum = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(sum / norm);
}

#define LEN(a) (sizeof(a) / sizeof *(a))
#define PLAIN "loss=cross-entropy", "dtype=float64", "lr=1", "optimizer=sgd", "threads=1", "batch-size=11"

/* As the example's, without messages of the gradient. */
static dpx_status shape_of_nodes(void *user, dpx_node *n)
{
    dpx_tensor x;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim))
        return DPX_SHAPE;
    return dpx_node_set_message(n, CHANNELS * NUMBERS_OF_MOMENTS, CHANNELS * NUMBERS_OF_MOMENTS);
}

/* The gradient as nodes, of the whole batch: what one replica would write is made right on several by collectives. */
static dpx_value emit_two(dpx_node *n, const char *name, dpx_value a, dpx_value b)
{
    return dpx_graph_emit(n, "", name, (const dpx_value[]){ a, b }, 2, NULL, 0);
}

/* Over samples and what is inside of a channel; `keep`: as dimensions of 1. */
static dpx_value over_batch(dpx_node *n, const char *name, dpx_value x, int64_t keep)
{
    int64_t axes[] = { 0, 2 };
    const dpx_tensor list = { NULL, DPX_INT64, 1, { 2 }, axes };
    const dpx_attribute dims = { .size = sizeof dims, .name = "keepdims", .type = DPX_ATTRIBUTE_INT, .i = keep };

    return dpx_graph_emit(n, "", name, (const dpx_value[]){ x, dpx_graph_constant(n, &list) }, 2, &dims, 1);
}

static dpx_status make_gradient(void *user, dpx_node *n)
{
    int64_t one_each[] = { CHANNELS, 1 };
    const dpx_tensor sizes = { NULL, DPX_INT64, 1, { 2 }, one_each };
    const dpx_value x = dpx_graph_input(n, 0), dy = dpx_graph_output_gradient(n, 0),
                    centred = emit_two(n, "Sub", x, over_batch(n, "ReduceMean", x, 1)),
                    variance = over_batch(n, "ReduceMean", emit_two(n, "Mul", centred, centred), 1),
                    moved = emit_two(n, "Add", variance, dpx_graph_number(n, x, dpx_node_float(n, "epsilon"))),
                    sd = dpx_graph_emit(n, "", "Sqrt", &moved, 1, NULL, 0), unit = emit_two(n, "Div", centred, sd),
                    scale = emit_two(n, "Reshape", dpx_graph_input(n, 1), dpx_graph_constant(n, &sizes)),
                    along = emit_two(n, "Mul", unit, over_batch(n, "ReduceMean", emit_two(n, "Mul", dy, unit), 1)),
                    rest = emit_two(n, "Sub", emit_two(n, "Sub", dy, over_batch(n, "ReduceMean", dy, 1)), along);
    dpx_status st = dpx_graph_set_input_gradient(n, 0, emit_two(n, "Mul", emit_two(n, "Div", scale, sd), rest));

    (void)user;
    if (!st)
        st = dpx_graph_set_input_gradient(n, 1, over_batch(n, "ReduceSum", emit_two(n, "Mul", dy, unit), 0));
    return st ? st : dpx_graph_set_input_gradient(n, 2, over_batch(n, "ReduceSum", dy, 0));
}

static dpx_operators *make_set_of_nodes(void)
{
    static const dpx_kernels kernels = {
        .size = sizeof kernels, .apply = apply, .collect = collect, .combine = combine
    };
    const dpx_attribute epsilon = { .size = sizeof epsilon, .name = "epsilon", .type = DPX_ATTRIBUTE_FLOAT, .f = 1e-5 };
    const dpx_operator op = { .size = sizeof op,
                              .domain = "com.example",
                              .name = "Statistics",
                              .min_inputs = 3,
                              .max_inputs = 3,
                              .min_outputs = 1,
                              .max_outputs = 1,
                              .attributes = &epsilon,
                              .n_attributes = 1,
                              .flags = DPX_OPERATOR_PER_SAMPLE,
                              .sample_inputs = 1,
                              .parameter_inputs = 2 | 4,
                              .shape = shape_of_nodes,
                              .float32 = &kernels,
                              .float64 = &kernels,
                              .make_gradient = make_gradient };
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operators_add(set, &op));
    return set;
}

static void compare_gradients(const Trained *own, const Trained *known, const char *what, size_t i)
{
    if (!(distance(own->weight, known->weight, LEN(own->weight)) <= 1e-12) ||
        !(distance(own->scale, known->scale, LEN(own->scale)) <= 1e-12) ||
        !(distance(own->bias, known->bias, LEN(own->bias)) <= 1e-12) ||
        !(distance(own->last, known->last, LEN(own->last)) <= 1e-12) ||
        !(fabs(own->loss[0] - known->loss[0]) <= 1e-12 * known->loss[0]))
        TEST_FAIL("%s, case %zu: %g %g %g %g", what, i, distance(own->weight, known->weight, LEN(own->weight)),
                  distance(own->scale, known->scale, LEN(own->scale)), distance(own->bias, known->bias, LEN(own->bias)),
                  distance(own->last, known->last, LEN(own->last)));
}

/* On 1, 2 and 5 replicas, and with an empty one; the operator's gradient as kernels and as nodes. */
static void test_gradients(void)
{
    static const char *const many[][9] = {
        { PLAIN, NULL },
        { PLAIN, "devices=cpu*2", NULL },
        { PLAIN, "devices=cpu*2", "replicas=5", NULL },
        { PLAIN, "devices=cpu*3", "split=1,0,2", NULL },
    };
    Trained known, own;

    if (!find_gradient(&known, "batch_norm", many[0], NULL))
        return;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        if (find_gradient(&own, "statistics", many[i], make_set()))
            compare_gradients(&own, &known, "kernels", i);
        if (find_gradient(&own, "statistics", many[i], make_set_of_nodes()))
            compare_gradients(&own, &known, "nodes", i);
    }
}

/* ---- other types ---- */

/* Of the state, whatever its type. */
static dpx_status read_state(dpx_trainer *t, const char *name, int rank, const int64_t *dim, double *out)
{
    float narrow[CHANNELS * WIDTH * CLASSES];
    dpx_tensor state = { name, DPX_FLOAT32, rank, { dim[0], rank > 1 ? dim[1] : 0 }, narrow };
    const dpx_status st = dpx_trainer_get_state(t, name, &state);

    for (int64_t i = 0; i < dim[0] * (rank > 1 ? dim[1] : 1); i++)
        out[i] = (double)narrow[i];
    return st;
}

static bool train_narrow(Trained *out, const char *model, const char *const *settings, dpx_operators *set)
{
    static const int64_t weight[] = { WIDTH, WIDTH }, channels[] = { CHANNELS }, last[] = { CHANNELS * WIDTH, CLASSES };
    dpx_trainer *t = NULL;
    dpx_result r = { 0 };
    bool good = CHECK_DPX(own_trainer(&t, model, settings, set));

    for (int i = 0; i < STEPS && good; i++) {
        good = CHECK_DPX(step_in(DPX_FLOAT32, t, MOST, i, &r));
        out->loss[i] = r.loss;
    }
    good = good && CHECK_DPX(read_state(t, "weight", 2, weight, out->weight)) &&
           CHECK_DPX(read_state(t, "scale", 1, channels, out->scale)) &&
           CHECK_DPX(read_state(t, "bias", 1, channels, out->bias)) &&
           CHECK_DPX(read_state(t, "last", 2, last, out->last));
    dpx_trainer_free(t);
    return good;
}

#define NARROW "loss=cross-entropy", "lr=0.1", "threads=1", "devices=cpu*2", "replicas=3"

/* Within one rounding in the type; what has 16 bits is not float32 in disguise. */
static void test_types(void)
{
    static const struct {
        const char *settings[8];
        double within;
    } cases[] = { { { NARROW, "dtype=float32", NULL }, 1e-6 },
                  { { NARROW, "precision=float16", NULL }, 1.0 / 2048 },
                  { { NARROW, "precision=bfloat16", NULL }, 1.0 / 256 } };
    Trained known, own, wide = { 0 };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!train_narrow(&known, "batch_norm", cases[i].settings, NULL) ||
            !train_narrow(&own, "statistics", cases[i].settings, make_set()))
            return;
        if (!(difference(&own, &known) <= cases[i].within))
            TEST_FAIL("%s: %g", cases[i].settings[5], difference(&own, &known));
        CU_ASSERT(!i || difference(&own, &wide) > 1e-5);
        wide = i ? wide : own;
    }
}

static void note_line(void *user, int level, const char *line)
{
    (void)level;
    *(bool *)user |= strstr(line, "1 node ('norm')") != NULL;
}

/* Micro-batches have statistics of their own, which is told; where there are none nothing is. */
static void test_accumulate(void)
{
    static const char *const settings[][8] = { { COMMON, NULL }, { COMMON, "accumulate=2", NULL } };

    for (int i = 0; i < 2; i++) {
        dpx_operators *set = make_set();
        dpx_options *o = own_options(settings[i], set);
        dpx_model *m = NULL;
        dpx_trainer *t = NULL;
        dpx_result r;
        bool told = false;

        if (CHECK_DPX(dpx_model_load_within(&m, FOLDER "statistics.onnx", o)) &&
            CHECK_DPX(dpx_trainer_create(&t, m, o, note_line, &told)))
            CHECK_DPX(step(t, 4, 0, &r));
        CU_ASSERT_EQUAL(told, i > 0);
        dpx_trainer_free(t);
        dpx_model_free(m);
        dpx_options_free(o);
        dpx_operators_free(set);
    }
}

/* ---- what travels ---- */

typedef struct {
    char text[1 << 16];
    size_t bytes;
} Text;

static void take_text(void *user, const char *text, size_t bytes)
{
    Text *t = user;

    if (t->bytes + bytes < sizeof t->text)
        memcpy(t->text + t->bytes, text, bytes);
    t->bytes += bytes;
}

static int occurrences(const char *of, const char *in)
{
    int n = 0;

    for (const char *at = strstr(in, of); at; at = strstr(at + 1, of))
        n++;
    return n;
}

/* Messages of both directions are gathered, and combined once for a device; one replica's go nowhere. */
static void test_graph(void)
{
    static const char *const alone[] = { COMMON, "batch-size=6", NULL };
    static const char *const three[] = { COMMON, "batch-size=6", "devices=cpu*2", "replicas=3", NULL };

    for (int many = 0; many < 2; many++) {
        dpx_operators *set = make_set();
        dpx_options *o = own_options(many ? three : alone, set);
        dpx_model *m = NULL;
        Text *t = calloc(1, sizeof *t);

        if (CHECK_DPX(dpx_model_load_within(&m, FOLDER "statistics.onnx", o)) &&
            CHECK_DPX(dpx_transform(m, o, NULL, "txt", take_text, t))) {
            CU_ASSERT_FATAL(t->bytes < sizeof t->text);
            CU_ASSERT_EQUAL(occurrences("com.example.StatisticsCollect(", t->text), many ? 3 : 1);
            CU_ASSERT_EQUAL(occurrences("dpexec.AllGather(%StatisticsCollect", t->text), many);
            CU_ASSERT_EQUAL(occurrences("com.example.StatisticsCombine(", t->text), many ? 2 : 1);
            CU_ASSERT_EQUAL(occurrences("com.example.StatisticsShared(", t->text), many ? 3 : 1);
            CU_ASSERT_EQUAL(occurrences("dpexec.AllGather(%StatisticsGradientCollect", t->text), many);
            CU_ASSERT_EQUAL(occurrences("com.example.StatisticsGradientCombine(", t->text), many ? 2 : 1);
            CU_ASSERT_EQUAL(occurrences("dpexec.All", t->text), many ? 3 : 0); /* and the gradients */
        }
        free(t);
        dpx_model_free(m);
        dpx_options_free(o);
        dpx_operators_free(set);
    }
}

/* ---- an answer for each copy ---- */

static dpx_status turn_shape(void *user, dpx_node *n)
{
    dpx_tensor x;
    dpx_status st;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || (st = dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim)))
        return DPX_SHAPE;
    return dpx_node_set_message(n, 1, 1);
}

static dpx_status turn_collect(void *user, dpx_node *n)
{
    dpx_tensor x, message, none;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || dpx_node_count_messages(n) != 1 || !dpx_node_message(n, 0, &message) ||
        dpx_node_message(n, 1, &none) || dpx_node_answer(n, 0, &none) || dpx_node_output(n, 0, &none))
        return DPX_INTERNAL;
    *(double *)message.data = (double)x.dim[0];
    return DPX_OK;
}

/* How many samples the copies before have. */
static dpx_status turn_combine(void *user, dpx_node *n)
{
    dpx_tensor message, answer, none;
    double before = 0;

    (void)user;
    if (dpx_node_input(n, 0, &none) || dpx_node_output(n, 0, &none))
        return DPX_INTERNAL;
    for (int copy = 0; copy < dpx_node_count_messages(n); copy++) {
        if (!dpx_node_message(n, copy, &message) || !dpx_node_answer(n, copy, &answer) || answer.dim[0] != 1)
            return DPX_INTERNAL;
        *(double *)answer.data = before;
        before += *(double *)message.data;
    }
    return DPX_OK;
}

static dpx_status turn(void *user, dpx_node *n)
{
    dpx_tensor y, answer, none;

    (void)user;
    if (!dpx_node_output(n, 0, &y) || !dpx_node_answer(n, 0, &answer) || dpx_node_answer(n, 1, &none) ||
        dpx_node_input(n, 1, &none) || dpx_node_count_inputs(n) != 1)
        return DPX_INTERNAL;
    for (int64_t s = 0; s < y.dim[0]; s++)
        put(&y, s, *(double *)answer.data + (double)s);
    return DPX_OK;
}

static dpx_operator turn_operator(const dpx_kernels *k)
{
    return (dpx_operator){ .size = sizeof(dpx_operator),
                           .domain = "com.example",
                           .name = "Turn",
                           .min_inputs = 1,
                           .max_inputs = 1,
                           .min_outputs = 1,
                           .max_outputs = 1,
                           .flags = DPX_OPERATOR_PER_SAMPLE,
                           .shape = turn_shape,
                           .float32 = k };
}

static const dpx_kernels turn_kernels = {
    .size = sizeof turn_kernels, .apply = turn, .collect = turn_collect, .combine = turn_combine
};

/* Each sample is told its place in the batch, whatever the parts are. */
static void test_answers(void)
{
    static const char *const parts[][4] = { { NULL },
                                            { "devices=cpu*3", NULL },
                                            { "devices=cpu*2", "replicas=5", NULL },
                                            { "devices=cpu*3", "split=2,0,1", NULL } };
    const dpx_operator op = turn_operator(&turn_kernels);

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int samples = 2; samples <= MOST; samples += 9) {
            float x[MOST] = { 0 };
            dpx_tensor in = { "x", DPX_FLOAT32, 1, { samples }, x }, y = { .rank = 0 };
            dpx_operators *set = NULL;
            dpx_trainer *t = NULL;

            CHECK_DPX(dpx_operators_create(&set));
            CHECK_DPX(dpx_operators_add(set, &op));
            if (CHECK_DPX(own_trainer(&t, "turns", parts[i], set)) && CHECK_DPX(dpx_run(t, &in, 1, &y, 1)))
                for (int s = 0; s < samples; s++)
                    CU_ASSERT(((float *)y.data)[s] == (float)s);
            dpx_trainer_free(t);
        }
}

/* ---- written into a gradient ---- */

/* In soft_clip.onnx an operator that changes nothing, and normalises its gradient over the batch: by Statistics, whose
 * copies then share in the backward pass, or in ONNX's words. */
static dpx_status pass_on(void *user, dpx_node *n)
{
    dpx_tensor x, y;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    memcpy(y.data, x.data, (size_t)(x.dim[0] * x.dim[1]) * sizeof(double));
    return DPX_OK;
}

static dpx_status pass_shape(void *user, dpx_node *n)
{
    dpx_tensor x;

    (void)user;
    return dpx_node_input(n, 0, &x) ? dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim) : DPX_SHAPE;
}

static dpx_status normalise_by_own(void *user, dpx_node *n)
{
    double ones[WIDTH] = { 1, 1, 1, 1 }, zeros[WIDTH] = { 0 };
    const dpx_tensor one = { NULL, DPX_FLOAT64, 1, { WIDTH }, ones }, zero = { NULL, DPX_FLOAT64, 1, { WIDTH }, zeros };
    const dpx_value in[] = { dpx_graph_output_gradient(n, 0), dpx_graph_constant(n, &one),
                             dpx_graph_constant(n, &zero) };

    (void)user;
    return dpx_graph_set_input_gradient(n, 0, dpx_graph_emit(n, "com.example", "Statistics", in, 3, NULL, 0));
}

static dpx_value mean_of(dpx_node *n, dpx_value x)
{
    int64_t axis = 0;
    const dpx_tensor axes = { NULL, DPX_INT64, 1, { 1 }, &axis };

    return emit_two(n, "ReduceMean", x, dpx_graph_constant(n, &axes));
}

static dpx_status normalise_by_formula(void *user, dpx_node *n)
{
    const dpx_value dy = dpx_graph_output_gradient(n, 0), centred = emit_two(n, "Sub", dy, mean_of(n, dy)),
                    square = emit_two(n, "Mul", centred, centred), epsilon = dpx_graph_number(n, dy, 1e-5),
                    moved = emit_two(n, "Add", mean_of(n, square), epsilon);

    (void)user;
    return dpx_graph_set_input_gradient(n, 0,
                                        emit_two(n, "Div", centred, dpx_graph_emit(n, "", "Sqrt", &moved, 1, NULL, 0)));
}

static dpx_operators *passing_set(dpx_node_fn *gradient_fn)
{
    static const dpx_kernels kernels = { .size = sizeof kernels, .apply = pass_on };
    const dpx_attribute limit = { .size = sizeof limit, .name = "limit", .type = DPX_ATTRIBUTE_FLOAT };
    dpx_operator op = turn_operator(NULL);
    dpx_operators *set = make_set();

    op.name = "SoftClip";
    op.attributes = &limit;
    op.n_attributes = 1;
    op.shape = pass_shape;
    op.float64 = &kernels;
    op.make_gradient = gradient_fn;
    CHECK_DPX(dpx_operators_add(set, &op));
    return set;
}

static bool train_passing(double *weight, const char *const *settings, dpx_node_fn *gradient_fn)
{
    const dpx_tensor state = { "weight", DPX_FLOAT64, 2, { WIDTH, WIDTH }, weight };
    double x[MOST * WIDTH];
    int64_t label[MOST];
    const dpx_tensor batch[2] = { { "x", DPX_FLOAT64, 2, { MOST, WIDTH }, x },
                                  { "target", DPX_INT64, 1, { MOST }, label } };
    dpx_trainer *t = NULL;
    dpx_result r;
    bool good = CHECK_DPX(own_trainer(&t, "soft_clip", settings, passing_set(gradient_fn)));

    for (int i = 0; i < MOST * WIDTH; i++) {
        x[i] = sin(1 + 7 * i);
        label[i / WIDTH] = i / WIDTH % CLASSES;
    }
    for (int i = 0; i < STEPS && good; i++)
        good = CHECK_DPX(dpx_train_step(t, batch, 2, &r));
    good = good && CHECK_DPX(dpx_trainer_get_state(t, "weight", &state));
    dpx_trainer_free(t);
    return good;
}

#define SLOW "loss=cross-entropy", "dtype=float64", "lr=0.01", "optimizer=sgd", "threads=1"

static void test_emitted(void)
{
    static const char *const many[][8] = { { SLOW, NULL },
                                           { SLOW, "devices=cpu*2", NULL },
                                           { SLOW, "devices=cpu*2", "replicas=5", NULL },
                                           { SLOW, "devices=cpu*3", "split=1,0,2", NULL } };
    double known[WIDTH * WIDTH], own[WIDTH * WIDTH];

    if (!train_passing(known, many[0], normalise_by_formula))
        return;
    for (size_t i = 0; i < LEN(many); i++)
        if (train_passing(own, many[i], normalise_by_own) && !(distance(own, known, LEN(own)) <= 1e-12))
            TEST_FAIL("case %zu: %g", i, distance(own, known, LEN(own)));
}

/* ---- what is wrong ---- */

static dpx_status no_message(void *user, dpx_node *n)
{
    dpx_tensor x;

    (void)user;
    return dpx_node_input(n, 0, &x) ? dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim) : DPX_SHAPE;
}

static dpx_status small_message(void *user, dpx_node *n)
{
    const dpx_status st = no_message(user, n);

    return st ? st : dpx_node_set_message(n, 0, 1);
}

static dpx_status gradient_message(void *user, dpx_node *n)
{
    const dpx_status st = turn_shape(user, n);

    return st ? st : dpx_node_set_gradient_message(n, 1, 1);
}

static void expect_refused(const char *says, const dpx_kernels *narrow, const dpx_kernels *wide, unsigned flags,
                           dpx_node_fn *shape_fn)
{
    static const char *const settings[] = { NULL };
    dpx_operator op = turn_operator(narrow);
    dpx_operators *set = NULL;
    dpx_trainer *t = NULL;
    dpx_status st;

    op.float64 = wide;
    op.flags = flags;
    op.shape = shape_fn;
    CHECK_DPX(dpx_operators_create(&set));
    if (!(st = dpx_operators_add(set, &op)))
        st = own_trainer(&t, "turns", settings, set);
    else
        dpx_operators_free(set);
    if (!st) {
        float x[2] = { 0 };
        dpx_tensor in = { "x", DPX_FLOAT32, 1, { 2 }, x }, y;

        st = dpx_run(t, &in, 1, &y, 1);
    }
    CHECK_DPX_FAILS(DPX_INVALID, says, st);
    CU_ASSERT(!strchr(dpx_error(), '\n'));
    dpx_trainer_free(t);
}

static void test_refused(void)
{
    const unsigned per_sample = DPX_OPERATOR_PER_SAMPLE;
    dpx_kernels half = turn_kernels, backward = turn_kernels, plain = turn_kernels;

    half.combine = NULL;
    backward.gradient_collect = backward.gradient_combine = turn_combine;
    plain.collect = plain.combine = NULL;
    expect_refused("one of collect and combine", &half, NULL, per_sample, turn_shape);
    half = backward;
    half.gradient_collect = NULL;
    expect_refused("one of gradient_collect and gradient_combine", &half, NULL, per_sample, turn_shape);
    expect_refused("gradient_collect, but without gradient", &backward, NULL, per_sample, turn_shape);
    expect_refused("share in one type alone", &turn_kernels, &plain, per_sample, turn_shape);
    expect_refused("expected DPX_OPERATOR_PER_SAMPLE", &turn_kernels, NULL, 0, turn_shape);
    expect_refused("sets no message", &turn_kernels, NULL, per_sample, no_message);
    expect_refused("less than 1", &turn_kernels, NULL, per_sample, small_message);
    expect_refused("has no kernels for", &turn_kernels, NULL, per_sample, gradient_message);
    expect_refused("has no kernels for", &plain, NULL, per_sample, turn_shape);
}

/* ---- replication ---- */

/* The context is the order of the calls; the node's name, and that it was NULL for the first alone, are in it. */
static dpx_status note_copy(void *user, const char *node, int copy, void **context)
{
    char *told = user;
    const size_t at = strlen(told);

    snprintf(told + at, 256 - at, "%s %d%s;", node, copy, *context ? "" : " first");
    *context = told;
    return DPX_OK;
}

/* All copies, those without samples too, once, and before the first step. */
static void test_replication(void)
{
    static const char *const five[] = { COMMON, "devices=cpu*2", "replicas=5", NULL };
    char told[256] = "", alone[256] = "";
    dpx_trainer *t = NULL;
    dpx_result r;

    if (CHECK_DPX(own_trainer(&t, "statistics", five, make_set())) &&
        CHECK_DPX(dpx_trainer_on_replicate(t, NULL, note_copy, NULL, told))) {
        CHECK_STR("norm 0 first;norm 1;norm 2;norm 3;norm 4;", told);
        CHECK_DPX(step(t, 2, 0, &r));
        CHECK_DPX(step(t, MOST, 0, &r));
        CHECK_STR("norm 0 first;norm 1;norm 2;norm 3;norm 4;", told);
        CU_ASSERT_PTR_EQUAL(dpx_trainer_context(t, "norm"), told);
    }
    dpx_trainer_free(t);
    if (CHECK_DPX(own_trainer(&t, "statistics", one, make_set())))
        CHECK_DPX(dpx_trainer_on_replicate(t, NULL, note_copy, NULL, alone));
    CHECK_STR("", alone);
    dpx_trainer_free(t);
}

/* ---- several processes, here threads ---- */

enum { PAIR = 2 };

typedef struct {
    int rank, port;
    dpx_status status;
    char why[1024], told[256];
    Trained out;
} Process;

static void *run_process(void *arg)
{
    Process *p = arg;
    char rendezvous[32];
    dpx_world_options how = { .size = PAIR, .rank = p->rank, .rendezvous = rendezvous, .timeout = 20 };
    dpx_operators *set = make_set();
    dpx_options *o = own_options(one, set);
    dpx_trainer *t = NULL;
    dpx_world *w = NULL;
    dpx_model *m = NULL;

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    CHECK_DPX(dpx_options_set(o, "replicas", "5"));
    if (!(p->status = dpx_model_load_within(&m, FOLDER "statistics.onnx", o)))
        p->status = dpx_world_join(&w, &how);
    dpx_options_set_world(o, w);
    if (!p->status && !(p->status = dpx_trainer_create(&t, m, o, NULL, NULL)) &&
        !(p->status = dpx_trainer_on_replicate(t, NULL, note_copy, NULL, p->told)))
        p->status = train_steps(t, &p->out, 3);
    snprintf(p->why, sizeof p->why, "%s", dpx_error());
    dpx_trainer_free(t);
    dpx_world_leave(w);
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_operators_free(set);
    return NULL;
}

/* Three samples on five replicas of two processes, of which the second has none. */
static void test_world(void)
{
    const int port = own_port();
    Process p[PAIR];
    pthread_t thread[PAIR];
    Trained known;

    for (int i = 0; i < PAIR; i++) {
        p[i] = (Process){ .rank = i, .port = port };
        CU_ASSERT_FATAL(!pthread_create(&thread[i], NULL, run_process, &p[i]));
    }
    for (int i = 0; i < PAIR; i++)
        pthread_join(thread[i], NULL);
    if (!train(&known, "batch_norm", one, NULL, 3))
        return;
    for (int i = 0; i < PAIR; i++)
        if (p[i].status)
            TEST_FAIL("rank %d: %s", i, p[i].why);
        else if (!(difference(&p[i].out, &known) <= 1e-12))
            TEST_FAIL("rank %d: %g", i, difference(&p[i].out, &known));
    CHECK_STR("norm 0 first;norm 1;norm 2;", p[0].told);
    CHECK_STR("norm 3 first;norm 4;", p[1].told);
}

DEFINE_SUITE(statistics, { "as batch-norm", test_batch_norm }, { "gradients", test_gradients }, { "types", test_types },
             { "accumulate", test_accumulate }, { "graph", test_graph }, { "answers", test_answers },
             { "emitted", test_emitted }, { "refused", test_refused }, { "replication", test_replication },
             { "world", test_world });
