/* Kernels of the operators, their gradients as kernels and as nodes, and a batch. */
#include "tests/operators/bench.h"

#include <math.h>
#include <stddef.h>

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
    Bench *b = user;
    dpx_tensor x, y;

    b->twices++;
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
    if (b->meet)
        b->meet(n);
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
const dpx_kernels bench_tap = { .size = sizeof bench_tap, .apply = tap };
static const dpx_kernels centre_kernels = { .size = sizeof centre_kernels,
                                            .apply = centre,
                                            .gradient = centre_gradient };

/* ---- the same gradients as nodes ---- */

static dpx_value emit_two(dpx_node *n, const char *name, dpx_value a, dpx_value b)
{
    return dpx_graph_emit(n, NULL, name, (const dpx_value[]){ a, b }, 2, NULL, 0);
}

/* Over the batch. */
static dpx_value reduce(dpx_node *n, const char *name, dpx_value x, int64_t keepdims)
{
    int64_t axis = 0;
    const dpx_tensor axes = { NULL, DPX_INT64, 1, { 1 }, &axis };
    const dpx_attribute keep = { .size = sizeof keep, .name = "keepdims", .type = DPX_ATTRIBUTE_INT, .i = keepdims };

    return dpx_graph_emit(n, "ai.onnx", name, (const dpx_value[]){ x, dpx_graph_constant(n, &axes) }, 2, &keep, 1);
}

/* 2, of whatever type: CastLike is composite. */
static dpx_status twice_nodes(void *user, dpx_node *n)
{
    const float number = 2;
    const dpx_tensor two = { NULL, DPX_FLOAT32, 0, { 0 }, (void *)(uintptr_t)&number };
    const dpx_value dy = dpx_graph_output_gradient(n, 0);

    (void)user;
    return dpx_graph_set_input_gradient(
        n, 0, emit_two(n, "Mul", dy, emit_two(n, "CastLike", dpx_graph_constant(n, &two), dy)));
}

static dpx_status ramp_nodes(void *user, dpx_node *n)
{
    const dpx_value x = dpx_graph_input(n, 0), gain = dpx_graph_input(n, 1), dy = dpx_graph_output_gradient(n, 0),
                    rises = emit_two(n, "Greater", x, dpx_graph_number(n, x, 0)), one = dpx_graph_number(n, x, 1),
                    slope = dpx_graph_number(n, x, dpx_node_float(n, "slope")),
                    by = dpx_graph_emit(n, "", "Where", (const dpx_value[]){ rises, one, slope }, 3, NULL, 0),
                    back = emit_two(n, "Mul", dy, by);
    dpx_tensor t;
    dpx_status st = DPX_OK;

    (void)user;
    if (dpx_node_input_gradient(n, 0, &t))
        st = dpx_graph_set_input_gradient(n, 0, emit_two(n, "Mul", back, gain));
    return st ? st : dpx_graph_set_input_gradient(n, 1, reduce(n, "ReduceSum", emit_two(n, "Mul", back, x), 0));
}

static dpx_status centre_nodes(void *user, dpx_node *n)
{
    const dpx_value dy = dpx_graph_output_gradient(n, 0);

    (void)user;
    return dpx_graph_set_input_gradient(n, 0, emit_two(n, "Sub", dy, reduce(n, "ReduceMean", dy, 1)));
}

/* What computes it, and not its gradient. */
static const dpx_kernels twice_alone = { .size = sizeof twice_alone, .apply = twice };
static const dpx_kernels ramp_alone = { .size = sizeof ramp_alone, .apply = ramp };
static const dpx_kernels centre_alone = { .size = sizeof centre_alone, .apply = centre };

static void take_nodes(dpx_operator *op, const dpx_kernels *alone, dpx_node_fn *make_gradient)
{
    op->float32 = alone;
    op->float64 = op->float64 ? alone : NULL;
    op->make_gradient = make_gradient;
}

/* ---- together ---- */

dpx_operator bench_operator(const char *name, const dpx_kernels *k, unsigned flags, Bench *b)
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

dpx_operators *bench_operators(Bench *b, bool wide)
{
    const dpx_attribute slope = { .size = sizeof slope, .name = "slope", .type = DPX_ATTRIBUTE_FLOAT, .f = 0.5 };
    dpx_operator first = bench_operator("Twice", &twice_kernels, DPX_OPERATOR_PER_SAMPLE, b),
                 second = bench_operator("Ramp", &ramp_kernels, DPX_OPERATOR_PER_SAMPLE, b),
                 third = bench_operator("Tap", &bench_tap, DPX_OPERATOR_PER_SAMPLE | DPX_OPERATOR_IMPURE, b),
                 fourth = bench_operator("Centre", &centre_kernels, 0, b);
    dpx_operators *set = NULL;

    first.shape = shape_twice;
    first.float64 = wide ? &twice_kernels : NULL;
    second.min_inputs = second.max_inputs = 2;
    second.attributes = &slope;
    second.n_attributes = 1;
    second.sample_inputs = 1;
    second.parameter_inputs = 2;
    second.gradient_inputs = 3;
    if (b->nodes) {
        take_nodes(&first, &twice_alone, twice_nodes);
        take_nodes(&second, &ramp_alone, ramp_nodes);
        take_nodes(&fourth, &centre_alone, centre_nodes);
    }
    if (b->make_gradient) {
        take_nodes(&first, &twice_alone, b->make_gradient);
        first.shape = b->shape ? b->shape : first.shape;
    }
    if (b->older) {
        first.size = offsetof(dpx_operator, make_gradient);
        first.make_gradient = (dpx_node_fn *)(uintptr_t)1;
    }
    CHECK_DPX(dpx_operators_create(&set));
    CHECK_DPX(dpx_operators_add(set, &first));
    CHECK_DPX(dpx_operators_add(set, &second));
    CHECK_DPX(dpx_operators_add(set, &third));
    CHECK_DPX(dpx_operators_add(set, &fourth));
    return set;
}

/* ---- a step ---- */

typedef dpx_status Step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out);

static dpx_status run_step(Step *run, dpx_trainer *t, int samples, dpx_result *r)
{
    double x[MOST][WIDTH];
    int64_t label[MOST];
    const dpx_tensor batch[2] = { { "x", DPX_FLOAT64, 2, { samples, WIDTH }, x },
                                  { "target", DPX_INT64, 1, { samples }, label } };

    for (int s = 0; s < samples; s++) {
        label[s] = (s * 7 + 2) % CLASSES;
        for (int i = 0; i < WIDTH; i++)
            x[s][i] = sin(1 + s * WIDTH + i);
    }
    return run(t, batch, 2, r);
}

dpx_status bench_step(dpx_trainer *t, int samples, dpx_result *r) { return run_step(dpx_train_step, t, samples, r); }

dpx_status bench_evaluate(dpx_trainer *t, int samples, dpx_result *r) { return run_step(dpx_val_step, t, samples, r); }
