/* Gradients that an embedder's operators write as nodes: what they get wrong is told in one line; they are in the graph
 * as built-in ones are, differentiated again, and of every type; programs that do not know them go on. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define dpx_operator_library soft_clip_library
#include "docs/example/soft_clip.c"
#include "exec/operators/operators.h"
#include "exec/run/interp.h"
#include "graph/ir/emit.h"
#include "graph/ir/autodiff.h"
#include "tests/operators/bench.h"

#define COMMON "loss=cross-entropy", "lr=0.1", "optimizer=sgd", "threads=1"

static dpx_operators *soft_clip_set(void)
{
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(soft_clip_library.add(set));
    return set;
}

/* ---- the example, in every type ---- */

enum { STEPS = 4 };

typedef struct {
    double loss[STEPS], weight[WIDTH * WIDTH], last[WIDTH * CLASSES];
} Trained;

static dpx_status read_state(dpx_trainer *t, const char *name, dpx_dtype type, int64_t columns, double *out)
{
    float narrow[WIDTH * WIDTH];
    const dpx_tensor state = { name, type, 2, { WIDTH, columns }, type == DPX_FLOAT64 ? (void *)out : narrow };
    const dpx_status st = dpx_trainer_get_state(t, name, &state);

    for (int i = 0; type != DPX_FLOAT64 && i < WIDTH * columns; i++)
        out[i] = (double)narrow[i];
    return st;
}

static bool train(Trained *out, const char *model, const char *const *settings, dpx_dtype type, dpx_operators *set,
                  int samples)
{
    double x[MOST * WIDTH];
    int64_t label[MOST];
    const dpx_tensor batch[2] = { { "x", type, 2, { samples, WIDTH }, x },
                                  { "target", DPX_INT64, 1, { samples }, label } };
    dpx_trainer *t = NULL;
    dpx_result r;
    bool good = CHECK_DPX(own_trainer(&t, model, settings, set));

    for (int s = 0; s < STEPS && good; s++) {
        for (int i = 0; i < samples * WIDTH; i++)
            if (type == DPX_FLOAT64)
                x[i] = 2 * sin(1 + s + 7 * i);
            else
                ((float *)x)[i] = (float)(2 * sin(1 + s + 7 * i));
        for (int i = 0; i < samples; i++)
            label[i] = (i * 7 + s) % CLASSES;
        good = CHECK_DPX(dpx_train_step(t, batch, 2, &r));
        out->loss[s] = r.loss;
    }
    good = good && CHECK_DPX(read_state(t, "weight", type, WIDTH, out->weight)) &&
           CHECK_DPX(read_state(t, "last", type, CLASSES, out->last));
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

/* As the same model in ONNX's operators, on replicas of all sizes. */
static void test_example(void)
{
    static const struct {
        const char *settings[9];
        dpx_dtype type;
        double within;
    } cases[] = {
        { { COMMON, "dtype=float64", NULL }, DPX_FLOAT64, 1e-12 },
        { { COMMON, "dtype=float64", "devices=cpu*2", NULL }, DPX_FLOAT64, 1e-12 },
        { { COMMON, "dtype=float64", "devices=cpu*2", "replicas=5", NULL }, DPX_FLOAT64, 1e-12 },
        { { COMMON, "dtype=float64", "devices=cpu*3", "split=1,0,2", NULL }, DPX_FLOAT64, 1e-12 },
        { { COMMON, "dtype=float32", "devices=cpu*2", "replicas=3", NULL }, DPX_FLOAT32, 1e-6 },
    };
    static const char *const wide[] = { COMMON, "dtype=float64", NULL }, *const narrow[] = { COMMON, NULL };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int samples = 2; samples <= MOST; samples += 9) {
            const dpx_dtype type = cases[i].type;
            Trained known, own;

            if (!train(&known, "soft_clip_known", type == DPX_FLOAT64 ? wide : narrow, type, NULL, samples) ||
                !train(&own, "soft_clip", cases[i].settings, type, soft_clip_set(), samples))
                return;
            if (!(difference(&own, &known) <= cases[i].within))
                TEST_FAIL("%d samples, case %zu: %g", samples, i, difference(&own, &known));
        }
}

/* In 16 bits about as far from float32 as ONNX's operators are in them, which round more often. */
static void test_narrow(void)
{
    static const char *const settings[][7] = { { COMMON, "precision=float16", "replicas=3", NULL },
                                               { COMMON, "precision=bfloat16", "replicas=3", NULL } };
    static const char *const narrow[] = { COMMON, NULL };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        Trained exact, known, own;

        if (!train(&exact, "soft_clip_known", narrow, DPX_FLOAT32, NULL, MOST) ||
            !train(&known, "soft_clip_known", settings[i], DPX_FLOAT32, NULL, MOST) ||
            !train(&own, "soft_clip", settings[i], DPX_FLOAT32, soft_clip_set(), MOST))
            return;
        if (!(difference(&own, &exact) <= 2 * difference(&known, &exact)) || !(difference(&own, &exact) > 1e-5))
            TEST_FAIL("%s: %g, of ONNX's %g", settings[i][4], difference(&own, &exact), difference(&known, &exact));
    }
}

/* ---- in the graph ---- */

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

/* Three parts: the operator's nodes and its gradient's on each, and no kernel of a gradient. */
static void test_graph(void)
{
    static const char *const three[] = { COMMON, "batch-size=6", "devices=cpu*2", "replicas=3", NULL };
    dpx_operators *set = soft_clip_set();
    dpx_options *o = own_options(three, set);
    dpx_model *m = NULL;
    Text *t = calloc(1, sizeof *t);

    if (CHECK_DPX(dpx_model_load_within(&m, FOLDER "soft_clip.onnx", o)) &&
        CHECK_DPX(dpx_transform(m, o, "partition", "txt", take_text, t))) {
        CU_ASSERT_FATAL(t->bytes < sizeof t->text);
        CU_ASSERT_EQUAL(occurrences("com.example.SoftClip(", t->text), 3);
        CU_ASSERT_EQUAL(occurrences("com.example.", t->text), 3);
        CU_ASSERT_EQUAL(occurrences("Sub(%const", t->text), 3);
        CU_ASSERT(occurrences("gradient of clip", t->text) >= 4 * 3);
    }
    free(t);
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_operators_free(set);
}

/* ---- differentiated again ---- */

static dpx_status power(void *user, dpx_node *n)
{
    const int exponent = *(const int *)user;
    dpx_tensor x, y;

    if (!dpx_node_input(n, 0, &x) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    for (int64_t i = 0; i < x.dim[0]; i++)
        ((double *)y.data)[i] = pow(((const double *)x.data)[i], exponent);
    return DPX_OK;
}

static const int cube = 3, square = 2;
static const dpx_kernels power_kernels = { .size = sizeof power_kernels, .apply = power };

/* Of x^3 by the operator of x^2, of that by ONNX's. */
static dpx_status power_gradient(void *user, dpx_node *n)
{
    const int exponent = *(const int *)user;
    const dpx_value x = dpx_graph_input(n, 0), dy = dpx_graph_output_gradient(n, 0),
                    less = exponent == 3 ? dpx_graph_emit(n, "com.example", "Square", &x, 1, NULL, 0) : x,
                    slope = binary(n, "Mul", dpx_graph_number(n, x, exponent), less);

    for (int i = -1; i < 2; i += 2) /* there is one of each, number 0 */
        CU_ASSERT(!dpx_graph_input(n, i) && !dpx_graph_output(n, i) && !dpx_graph_output_gradient(n, i));
    return dpx_graph_set_input_gradient(n, 0, binary(n, "Mul", dy, slope));
}

static dpx_operators *power_set(void)
{
    dpx_operators *set = NULL;

    CHECK_DPX(dpx_operators_create(&set));
    for (int i = 0; i < 2; i++) {
        dpx_operator op = bench_operator(i ? "Square" : "Cube", &power_kernels, DPX_OPERATOR_PER_SAMPLE, NULL);

        op.float32 = NULL;
        op.user = (void *)(uintptr_t)(i ? &square : &cube);
        op.destroy = NULL;
        op.make_gradient = power_gradient;
        CHECK_DPX(dpx_operators_add(set, &op));
    }
    return set;
}

/* The gradient of the sum of what v has, by x. */
static ValueId differentiate(Graph *g, Arena *scratch, ValueId v, ValueId x)
{
    const int64_t axis = 0;
    ValueId sum = emit_reduce_sum(g, v, 1, &axis, false), by = NO_VALUE;

    CHECK_OK(autodiff(g, scratch, sum, 1, &x, &by));
    return by;
}

/* 3 x^2, 6 x and 6. */
static void test_again(void)
{
    const double at[] = { -1.5, 0.25, 2 };
    const Shape three = SHAPE(3);
    dpx_operators *set = power_set();
    Graph *g = graph_create("again");
    Arena *scratch = arena_create();
    const ValueId x = graph_add_input(g, "x", DT_FLOAT64, &three);
    const Tensor **values;
    Tensor *in;
    ValueId by[4] = { emit(g, operator_find(&set->list, "com.example", "Cube"), NULL, 1, &x) };

    for (int i = 1; i < 4; i++)
        by[i] = differentiate(g, scratch, by[i - 1], x);
    values = calloc(g->n_value, sizeof *values);
    if (CHECK_OK(g->status) && (in = tensor_create(scratch, DT_FLOAT64, &three))) {
        memcpy(in->data, at, sizeof at);
        values[x.i] = in;
        CHECK_OK(interp_run(scratch, g, values));
        for (int i = 0; i < 3; i++) {
            const double known[] = { at[i] * at[i] * at[i], 3 * at[i] * at[i], 6 * at[i], 6 };

            for (int k = 0; k < 4; k++)
                CU_ASSERT_DOUBLE_EQUAL(tensor_float(values[by[k].i], i), known[k], 1e-15);
        }
    }
    free((void *)values);
    graph_free(g);
    arena_free(scratch);
    dpx_operators_free(set);
}

/* ---- what is wrong ---- */

#define WRONG(name, ...)                                      \
    static dpx_status name(void *user, dpx_node *n)           \
    {                                                         \
        const dpx_value dy = dpx_graph_output_gradient(n, 0); \
        (void)user, (void)dy;                                 \
        __VA_ARGS__                                           \
    }
#define ONE(name) (void)dpx_graph_emit(n, "", name, &dy, 1, NULL, 0);

WRONG(unknown_operator, (void)dpx_graph_emit(n, "com.example", "Thrice", &dy, 1, NULL, 0); return DPX_OK;)
WRONG(unknown_onnx, ONE("Negate") return DPX_OK;)
WRONG(inner_operator, (void)dpx_graph_emit(n, "dpexec", "AllReduce", &dy, 1, NULL, 0); return DPX_OK;)
WRONG(role, (void)dpx_graph_emit(n, "com.example", "TwiceGradient", &dy, 1, NULL, 0); return DPX_OK;)
WRONG(random_operator, ONE("RandomNormalLike") return DPX_OK;)
WRONG(drawn, ONE("Bernoulli") return DPX_OK;)
WRONG(trained, ONE("Dropout") return DPX_OK;)
WRONG(decided, ONE("NonZero") return DPX_OK;)
WRONG(no_name, ONE(NULL) return DPX_OK;)
WRONG(no_list, (void)dpx_graph_emit(n, "", "Neg", NULL, 1, NULL, 0); return DPX_OK;)
WRONG(no_attributes, (void)dpx_graph_emit(n, "", "Neg", &dy, 1, NULL, 1); return DPX_OK;)
WRONG(negative, (void)dpx_graph_emit(n, "", "Neg", &dy, -1, NULL, 0); return DPX_OK;)
WRONG(too_few, ONE("Add") return DPX_OK;)
WRONG(wrong_value, (void)binary(n, "Add", dy, 999); return DPX_OK;)
WRONG(absent_input, (void)binary(n, "Add", dy, 0); return DPX_OK;)
WRONG(no_outputs, return dpx_graph_emit_outputs(n, "", "Neg", &dy, 1, NULL, 0, NULL, 1);)
WRONG(outputs, dpx_value two[2]; return dpx_graph_emit_outputs(n, "", "Neg", &dy, 1, NULL, 0, two, 2);)
WRONG(attribute, const dpx_attribute a = { .size = sizeof a, .name = "beta", .type = DPX_ATTRIBUTE_INT };
      (void)dpx_graph_emit(n, "", "Neg", &dy, 1, &a, 1); return DPX_OK;)
WRONG(attribute_type, const dpx_attribute a = { .size = sizeof a, .name = "alpha", .type = DPX_ATTRIBUTE_INT };
      (void)dpx_graph_emit(n, "", "LeakyRelu", &dy, 1, &a, 1); return DPX_OK;)
WRONG(attribute_size, const dpx_attribute a = { .size = 2, .name = "alpha", .type = DPX_ATTRIBUTE_INT };
      (void)dpx_graph_emit(n, "", "LeakyRelu", &dy, 1, &a, 1); return DPX_OK;)
WRONG(attribute_value, const dpx_attribute a = { .size = sizeof a, .name = "to", .type = DPX_ATTRIBUTE_STRING };
      (void)dpx_graph_emit(n, "", "Neg", &dy, 1, &a, 1); return DPX_OK;)
WRONG(no_constant, (void)dpx_graph_constant(n, NULL); return DPX_OK;)
WRONG(no_data, (void)dpx_graph_constant(n, &(dpx_tensor){ .dtype = DPX_FLOAT32, .rank = 1, .dim = { 3 } });
      return DPX_OK;)
WRONG(number_like, (void)dpx_graph_number(n, 0, 1); return DPX_OK;)
WRONG(wrong_shape, return dpx_graph_set_input_gradient(n, 0, dpx_graph_number(n, dy, 1));)
WRONG(wrong_type, const dpx_attribute to = { .size = sizeof to, .name = "to", .type = DPX_ATTRIBUTE_INT, .i = 1 };
      return dpx_graph_set_input_gradient(n, 0, dpx_graph_emit(n, "", "Cast", &dy, 1, &to, 1));)
WRONG(wrong_input, return dpx_graph_set_input_gradient(n, 1, dy);)
WRONG(no_input, return dpx_graph_set_input_gradient(n, -1, dy);)
WRONG(no_value, return dpx_graph_set_input_gradient(n, 0, 0);)
WRONG(own_reason, return dpx_node_fail(n, DPX_IO, "the disk\nis full");)
WRONG(no_status, return (dpx_status)77;)
WRONG(first_counts, ONE("Negate")(void) dpx_graph_number(n, 0, 1); return dpx_node_fail(n, DPX_IO, "later");)

/* All name the node and its operator, in one line. */
static void test_errors(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    static const struct {
        dpx_node_fn *make_gradient;
        dpx_status status;
        const char *says;
    } cases[] = {
        { unknown_operator, DPX_UNSUPPORTED, "operator Thrice of domain com.example is neither ONNX's nor of its set" },
        { unknown_onnx, DPX_UNSUPPORTED, "operator Negate of domain ai.onnx is neither" },
        { inner_operator, DPX_UNSUPPORTED, "operator AllReduce of domain dpexec is neither" },
        { role, DPX_UNSUPPORTED, "operator TwiceGradient of domain com.example is neither" },
        { random_operator, DPX_UNSUPPORTED, "RandomNormalLike of domain ai.onnx draws random numbers" },
        { drawn, DPX_UNSUPPORTED, "Bernoulli of domain ai.onnx draws random numbers" },
        { trained, DPX_UNSUPPORTED, "or training changes it" },
        { decided, DPX_UNSUPPORTED, "operator NonZero: the shape of output 0 depends on data" },
        { no_name, DPX_INVALID, "name is NULL" },
        { no_list, DPX_INVALID, "in is NULL" },
        { no_attributes, DPX_INVALID, "attributes is NULL" },
        { negative, DPX_INVALID, "with -1 inputs" },
        { too_few, DPX_MODEL, "1 inputs, expected 2 to 2" },
        { wrong_value, DPX_INVALID, "operator Add of domain ai.onnx: input 1 is value 999, which does not exist" },
        { absent_input, DPX_MODEL, "required input 1 is absent" },
        { no_outputs, DPX_INVALID, "dpx_graph_emit_outputs: out is NULL" },
        { outputs, DPX_INVALID, "with 1 inputs, 2 outputs" },
        { attribute, DPX_MODEL, "unknown attribute 'beta'" },
        { attribute_type, DPX_MODEL, "'alpha' has the wrong type" },
        { attribute_size, DPX_INVALID, "size is 2, expected sizeof(dpx_attribute)" },
        { attribute_value, DPX_INVALID, "attribute 'to' of type 3 has no value" },
        { no_constant, DPX_INVALID, "dpx_graph_constant: tensor is NULL" },
        { no_data, DPX_INVALID, "dpx_graph_constant: tensor has no data" },
        { number_like, DPX_INVALID, "dpx_graph_number: there is no value 0" },
        { wrong_shape, DPX_SHAPE, "the gradient by input 0 is float64[], expected float64[6,3]" },
        { wrong_type, DPX_SHAPE, "the gradient by input 0 is float32[6,3], expected float64[6,3]" },
        { wrong_input, DPX_INVALID, "the gradient by input 1 to value 1: there is no such input" },
        { no_input, DPX_INVALID, "the gradient by input -1 to value 1: there is no such input" },
        { no_value, DPX_INVALID, "the gradient by input 0 to value 0: there is no such value" },
        { own_reason, DPX_IO, "the disk is full" },
        { no_status, DPX_INTERNAL, "returned 77, which is no dpx_status" },
        { first_counts, DPX_UNSUPPORTED, "operator Negate" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bench b = { .make_gradient = cases[i].make_gradient };
        dpx_trainer *t = NULL;
        dpx_result r;

        if (!CHECK_DPX(own_trainer(&t, "own", settings, bench_operators(&b, true))))
            return;
        CHECK_DPX_FAILS(cases[i].status, cases[i].says, bench_step(t, 6, &r));
        CU_ASSERT_PTR_NOT_NULL(strstr(dpx_error(), "Twice twice (output 't'): the gradient of operator Twice of "
                                                   "domain com.example"));
        CU_ASSERT(!strchr(dpx_error(), '\n'));
        dpx_trainer_free(t);
    }
}

/* ---- who asks where ---- */

/* The functions of one place do nothing in another. */
static dpx_status ask_in_shape(void *user, dpx_node *n)
{
    dpx_tensor x, t;

    CU_ASSERT(!dpx_graph_input(n, 0) && !dpx_graph_output(n, 0) && !dpx_graph_output_gradient(n, 0));
    CU_ASSERT(!dpx_graph_tensor(n, 1, &t) && !dpx_graph_number(n, 1, 2) && !dpx_graph_constant(n, &t));
    CU_ASSERT(!dpx_graph_emit(n, "", "Neg", NULL, 0, NULL, 0));
    CHECK_DPX_FAILS(DPX_INVALID, "outside of make_gradient", dpx_graph_set_input_gradient(n, 0, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "outside of make_gradient",
                    dpx_graph_emit_outputs(n, "", "Neg", NULL, 0, NULL, 0, NULL, 0));
    (void)user;
    return dpx_node_input(n, 0, &x) ? dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim) : DPX_SHAPE;
}

static dpx_status ask_in_gradient(void *user, dpx_node *n)
{
    const dpx_value dy = dpx_graph_output_gradient(n, 0);
    const int64_t dim[1] = { 1 };
    dpx_value parts[2];
    dpx_tensor t = { .rank = 0 };

    ((Bench *)user)->asked++;
    CHECK_STR("twice", dpx_node_name(n));
    CU_ASSERT(dpx_node_count_inputs(n) == 1 && dpx_node_count_outputs(n) == 1);
    CU_ASSERT(dpx_node_input(n, 0, &t) && t.dtype == DPX_FLOAT64 && t.dim[1] == CLASSES && !t.data);
    CU_ASSERT(dpx_node_output(n, 0, &t) && dpx_node_output_gradient(n, 0, &t) && dpx_node_input_gradient(n, 0, &t));
    CU_ASSERT(!t.data && !dpx_node_input(n, 1, &t) && !dpx_node_output_gradient(n, 1, &t));
    CU_ASSERT(!dpx_graph_input(n, 1) && !dpx_graph_input(n, -1) && !dpx_graph_output(n, 1));
    CU_ASSERT(!dpx_graph_output_gradient(n, 1) && !dpx_graph_tensor(n, 0, &t) && !dpx_graph_tensor(n, 99, &t));
    CU_ASSERT(!dpx_graph_tensor(n, dy, NULL) && dpx_graph_tensor(n, dy, &t) && t.rank == 2 && t.dim[0] == 6);
    CHECK_DPX_FAILS(DPX_INVALID, "outside of a shape function", dpx_node_set_output(n, 0, DPX_FLOAT32, 1, dim));
    if (dpx_graph_emit_outputs(
            n, "", "Split", &dy, 1,
            (const dpx_attribute[]){
                { .size = sizeof(dpx_attribute), .name = "axis", .type = DPX_ATTRIBUTE_INT, .i = 0 },
                { .size = sizeof(dpx_attribute), .name = "num_outputs", .type = DPX_ATTRIBUTE_INT, .i = 2 } },
            2, parts, 2))
        return DPX_INTERNAL;
    CU_ASSERT(dpx_graph_tensor(n, parts[1], &t) && t.dim[0] == 3);
    return dpx_graph_set_input_gradient(n, 0,
                                        binary(n, "Add", dy, dpx_graph_emit(n, "com.example", "Tap", &dy, 1, NULL, 0)));
}

static void test_accessors(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    Bench b = { .shape = ask_in_shape, .make_gradient = ask_in_gradient };
    dpx_trainer *t = NULL;
    dpx_result r;

    if (CHECK_DPX(own_trainer(&t, "own", settings, bench_operators(&b, true))))
        CHECK_DPX(bench_step(t, 6, &r));
    CU_ASSERT(b.asked == 1 && b.taps == 2 + 1); /* two of the model, one of the gradient, which is impure */
    dpx_trainer_free(t);
}

/* ---- declared ---- */

/* A program of a header that had no make_gradient: what lies behind its structure is not looked at. */
static void test_older(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "dtype=float64", "threads=1", NULL };
    Bench b = { .older = true };
    dpx_trainer *t = NULL;
    dpx_result r;

    if (CHECK_DPX(own_trainer(&t, "own", settings, bench_operators(&b, true))))
        CHECK_DPX(bench_step(t, 6, &r));
    dpx_trainer_free(t);
}

static void test_declared(void)
{
    static const dpx_kernels both = { .size = sizeof both, .apply = power, .gradient = power };
    Bench b = { 0 };
    dpx_operator op = bench_operator("Both", &both, 0, &b);
    dpx_operators *set = NULL;

    op.make_gradient = power_gradient;
    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX_FAILS(DPX_INVALID, "its gradient is a kernel and nodes", dpx_operators_add(set, &op));
    op.float32 = op.float64 = &power_kernels;
    op.flags = DPX_OPERATOR_ZERO_GRADIENT;
    CHECK_DPX_FAILS(DPX_INVALID, "its gradient is zero, and it has one", dpx_operators_add(set, &op));
    dpx_operators_free(set);
}

DEFINE_SUITE(gradient_nodes, { "example", test_example }, { "narrow", test_narrow }, { "graph", test_graph },
             { "again", test_again }, { "errors", test_errors }, { "accessors", test_accessors },
             { "older", test_older }, { "declared", test_declared });
