#include "tests/exec/gpu_training.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/product.gen.h"
#include "graph/ops/view.gen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/verify_batch.h"
#include "graph/ir/op.h"
#include "tests/harness/gpu.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "passes/build_parts.h"

enum { STATE_ROOM = 1 << 23 };

int gpu_devices(void)
{
    const CudaDriver *d;
    int n = 0;

    if (CHECK_OK(gpu_driver(&d)))
        CHECK_OK(gpu_check(d, d->runtime.count(&n)));
    return n;
}

bool gpu_simulated(void)
{
    const CudaDriver *d;

    return CHECK_OK(gpu_driver(&d)) && d->runtime.simulated;
}

Graph *gpu_run_build(const GpuRun *r, const BuildOptions *how, int replicas, int devices)
{
    BuildParts opt;

    build_parts_copy(&opt, how);
    opt.replicas.replicas = replicas;
    opt.replicas.devices = devices;
    return model_build(r->model, build_parts(&opt));
}

NamedTensor *gpu_run_batch(Arena *a, const GpuRun *r, const Graph *g, const BuildOptions *opt, int k)
{
    const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value);
    NamedTensor *in = ARENA_NEW(a, NamedTensor, g->n_input);

    CHECK_OK(verify_batch(a, g, opt, (uint64_t)k + 100, values));
    for (int i = 0; i < g->n_input; i++)
        in[i] = (NamedTensor){ value(g, g->input[i])->name, *values[g->input[i].i] };
    for (int i = 0; i < g->n_input; i++)
        if (r->rate != 0 && !strcmp(in[i].name, IN_LR))
            tensor_set_float(&in[i].tensor, 0, r->rate);
    return in;
}

static void keep_state(GpuOutcome *o, Arena *a, const States *states)
{
    o->state = ARENA_NEW(a, char, STATE_ROOM);
    for (int i = 0; i < states_count(states); i++) {
        const State *st = states_at(states, i);
        Tensor t = { st->dtype, st->shape, o->state + o->bytes };

        CU_ASSERT_FATAL(o->bytes + tensor_bytes(&t) <= STATE_ROOM);
        CHECK_OK(states_get(states, st->name, &t));
        o->bytes += tensor_bytes(&t);
    }
}

static size_t keep_numbers(float *to, const States *states, bool momenta)
{
    size_t n = 0;

    for (int i = 0; i < states_count(states); i++) {
        const State *st = states_at(states, i);
        Tensor t = { st->dtype, st->shape, to + n };

        if (st->dtype != DT_FLOAT32 || !strstr(st->name, ".momentum") == momenta)
            continue;
        CU_ASSERT_FATAL((n + (size_t)tensor_numel(&t)) * sizeof *to <= STATE_ROOM);
        CHECK_OK(states_get(states, st->name, &t));
        n += (size_t)tensor_numel(&t);
    }
    return n;
}

static float *keep_all_numbers(GpuOutcome *o, Arena *a, const States *states)
{
    float *to = ARENA_NEW(a, float, 2 * STATE_ROOM / sizeof(float));

    o->momenta = keep_numbers(to, states, true);
    o->all = o->momenta + keep_numbers(to + o->momenta, states, false);
    return to;
}

static GpuSnapshot take_snapshot(Arena *a, const States *states)
{
    GpuSnapshot s = { ARENA_NEW(a, NamedTensor, states_count(states)), states_count(states) };

    for (int i = 0; i < s.n; i++) {
        const State *st = states_at(states, i);
        Tensor *t = tensor_create(a, st->dtype, &st->shape);

        CU_ASSERT_FATAL(t != NULL);
        CHECK_OK(states_get(states, st->name, t));
        s.state[i] = (NamedTensor){ arena_strdup(a, st->name), *t };
    }
    return s;
}

static const Tensor *stored(const GpuSnapshot *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->state[i].name, name))
            return &s->state[i].tensor;
    return NULL;
}

/* All of these, of a snapshot that may have more: float32 has no loss scale. */
static void set_states(States *states, const GpuSnapshot *s)
{
    for (int i = 0; i < states_count(states); i++) {
        const char *name = states_at(states, i)->name;
        const Tensor *t = stored(s, name);

        CU_ASSERT_FATAL(t != NULL);
        CHECK_OK(states_set(states, name, t));
    }
}

static void read_loss(GpuOutcome *o, Rig *rig, int k, unsigned turn)
{
    if (CHECK_OK(program_wait(rig->program, turn)))
        o->loss[k] = *(float *)rig_output(rig, OUT_LOSS)->data;
}

static void steps_of(GpuOutcome *o, Arena *a, const GpuRun *r, const BuildOptions *opt, Rig *rig, const Graph *whole)
{
    o->before = keep_all_numbers(o, a, rig->states);
    for (int k = 0; k < r->steps; k++) {
        NamedTensor *in = gpu_run_batch(a, r, whole, opt, k);

        if (r->lead)
            set_states(rig->states, &r->lead[k]);
        if (!r->begun)
            o->begin[k] = take_snapshot(a, rig->states);
        if (!CHECK_OK(rig_begin(rig, in, whole->n_input)))
            return;
        for (int i = 0; i < whole->n_input; i++) /* a step begun has taken its inputs over */
            if (r->begun)
                memset(in[i].tensor.data, 0xff, tensor_bytes(&in[i].tensor));
        if (r->begun && k)
            read_loss(o, rig, k - 1, program_turn(rig->program) - 1);
        if (!r->begun || k == r->steps - 1)
            read_loss(o, rig, k, program_turn(rig->program));
        if (!r->begun)
            o->end[k] = take_snapshot(a, rig->states);
    }
    CHECK_OK(states_check_mirrors(rig->states));
    keep_state(o, a, rig->states);
    o->after = keep_all_numbers(o, a, rig->states);
}

GpuOutcome gpu_train(Arena *a, const GpuRun *r)
{
    BuildParts opt = { .build.mode = BUILD_TRAIN,
                       .batch.batch = r->batch,
                       .recipes.loss = &loss_cross_entropy,
                       .recipes.settings = "momentum=0.9",
                       .recipes.metric = { { .def = &metric_accuracy } },
                       .step.seed = 7,
                       .types.precision = r->precision,
                       .types.loss_scaling = r->precision == DT_FLOAT16 ? SCALE_DYNAMIC : SCALE_NONE,
                       .backend.backend = r->cuda     ? cuda_target(DT_NONE, r->channels_last)
                                          : r->native ? cpu_target(DT_NONE, false, true, true)
                                                      : (Target){ 0 } };
    Graph *g, *whole;
    GpuOutcome o = { 0 };
    Rig rig;

    if (r->computes)
        opt.backend.backend.computes = r->computes;
    g = gpu_run_build(r, build_parts(&opt), r->replicas, r->devices);
    if (r->cuda && !r->computes) {
        CU_ASSERT(g && count_nodes(g, &op_Fused) > 0 &&
                  (count_nodes(g, &op_Product) > 0) == (strcmp(r->model, "unet") != 0));
        CU_ASSERT(g && count_nodes(g, &op_ConvRelu) == (strcmp(r->model, "exported_folded") ? 0 : 5 * r->replicas));
    }
    o.reorders = g ? count_nodes(g, &op_Reorder) : 0;
    o.conv_relus = g ? count_nodes(g, &op_ConvRelu) : 0;
    opt.backend.backend = (Target){ 0 };
    whole = gpu_run_build(r, build_parts(&opt), 1, 1);
    if (g && whole &&
        CHECK_OK(r->cuda ? rig_open_cuda(&rig, g, r->devices, r->uncaptured) : rig_open(&rig, g, r->devices, 1)))
        steps_of(&o, a, r, build_parts(&opt), &rig, whole);
    if (g)
        rig_close(&rig);
    graph_free(whole);
    return o;
}

/* ---- comparing ---- */

/* Products of 16 bits are rounded to 8 (11) bits.  Layouts change the order of sums alone. */
double gpu_run_tolerance(const GpuRun *r)
{
    return r->precision == DT_BFLOAT16 ? 0x1p-8 : r->precision == DT_FLOAT16 ? 0x1p-11 : r->channels_last ? 1e-6 : 1e-4;
}

void gpu_compare_losses(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected)
{
    CU_ASSERT(isfinite(expected->loss[r->steps - 1]) && expected->loss[0] != expected->loss[r->steps - 1]);
    for (int k = 0; k < r->steps; k++)
        if (!(fabs((double)found->loss[k] - (double)expected->loss[k]) <=
              gpu_run_tolerance(r) * fabs((double)expected->loss[k])))
            TEST_FAIL("%s, %d replicas on %d devices: loss of step %d is %.7g, expected %.7g", r->model, r->replicas,
                      r->devices, k, (double)found->loss[k], (double)expected->loss[k]);
}

GpuOutcome gpu_train_exact(Arena *a, const GpuRun *r, const GpuOutcome *led)
{
    GpuRun wide = *r;

    wide.cuda = wide.channels_last = false;
    wide.precision = DT_NONE;
    wide.lead = led->begin;
    return gpu_train(a, &wide);
}

/* |to - from|^2 over momenta (1) and over all other numbers (0), of the states of `to`. */
static void add_squares(double sum[2], const GpuSnapshot *to, const GpuSnapshot *from)
{
    for (int i = 0; i < to->n; i++) {
        const Tensor *t = &to->state[i].tensor, *f = stored(from, to->state[i].name);
        const bool momentum = strstr(to->state[i].name, ".momentum") != NULL;

        CU_ASSERT_FATAL(f != NULL);
        for (int64_t j = 0; t->dtype == DT_FLOAT32 && j < tensor_numel(t); j++)
            sum[momentum] += pow(tensor_float(t, j) - tensor_float(f, j), 2);
    }
}

static double larger(double x, double y) { return x > y ? x : y; }

void gpu_compare_steps(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, const GpuOutcome *exact,
                       double most)
{
    for (int k = 0; k < r->steps; k++) {
        double diff[2] = { 0, 0 }, change[2] = { 0, 0 }, rounding[2] = { 0, 0 };

        CU_ASSERT_FATAL(expected->end[k].n > 0 && found->end[k].n == expected->end[k].n);
        add_squares(diff, &found->end[k], &expected->end[k]);
        add_squares(change, &expected->end[k], &expected->begin[k]);
        if (!gpu_simulated())
            add_squares(rounding, &exact->end[k], &expected->end[k]);
        for (int m = 0; m < 2; m++)
            if (!(sqrt(diff[m]) <= larger(most * sqrt(change[m]), sqrt(2 * rounding[m]))) || change[m] == 0)
                TEST_FAIL(
                    "%s in %s, %d replicas, step %d: %s differ by %g of a change of %g, of which float32 changes %g",
                    r->model, dtype_name(r->precision), r->replicas, k, m ? "momenta" : "parameters", sqrt(diff[m]),
                    sqrt(change[m]), sqrt(rounding[m]));
    }
}

/* |to - from|; |to| where from is NULL. */
static double distance(const Tensor *to, const Tensor *from)
{
    double sum = 0;

    for (int64_t j = 0; j < tensor_numel(to); j++)
        sum += pow(tensor_float(to, j) - (from ? tensor_float(from, j) : 0), 2);
    return sqrt(sum);
}

/* The state whose change that of state i is measured by: itself.  The bias of keys has none, for it adds the same to
 * all scores of a row, which Softmax does not see: what is left is the rounding of a sum of rows, which is as small as
 * that of the product's weight. */
static int measure_of(const GpuSnapshot *s, int i)
{
    static const char of[] = ".k.bias", by[] = ".qkv.weight";
    const char *name = s->state[i].name, *bias = strstr(name, of);
    const size_t stem = bias ? (size_t)(bias - name) : 0;

    for (int w = 0; bias && w < s->n; w++) {
        const char *other = s->state[w].name;

        if (!strncmp(other, name, stem) && !strncmp(other + stem, by, sizeof by - 1) &&
            !strcmp(other + stem + sizeof by - 1, bias + sizeof of - 1))
            return w;
    }
    return i;
}

/* Step k; what has changed since the beginning of step `since`. */
static void compare_step(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, const GpuOutcome *exact,
                         int since, int k, double most)
{
    const GpuSnapshot *begin = &expected->begin[since], *end = &expected->end[k], *own = &found->end[k];
    int compared = 0;

    CU_ASSERT_FATAL(end->n > 0 && own->n == end->n);
    for (int i = 0; i < end->n; i++) {
        const int m = measure_of(end, i);
        const Tensor *to = &end->state[i].tensor, *wide = exact ? stored(&exact->end[k], end->state[i].name) : NULL;
        double diff, change, rounding = 0;

        CU_ASSERT_STRING_EQUAL(own->state[i].name, end->state[i].name);
        if (to->dtype != DT_FLOAT32)
            continue;
        diff = distance(&own->state[i].tensor, to);
        change = distance(&end->state[m].tensor, &begin->state[m].tensor);
        if (wide && !gpu_simulated())
            rounding = distance(wide, to);
        if (!(diff <= larger(most * change, sqrt(2) * rounding) + (k + 1 - since) * 0x1p-23 * distance(to, NULL)))
            TEST_FAIL(
                "%s in %s, %d replicas on %d devices, step %d: %s differs by %g of a change of %g, in float32 by %g",
                r->model, r->precision ? dtype_name(r->precision) : "float32", r->replicas, r->devices, k,
                end->state[i].name, diff, change, rounding);
        compared += change > 0;
    }
    CU_ASSERT(compared > 1);
}

void gpu_compare_each(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, const GpuOutcome *exact)
{
    for (int k = 0; k < r->steps; k++)
        compare_step(r, found, expected, exact, r->precision ? k : 0, k,
                     r->precision ? 8 * gpu_run_tolerance(r) : 1e-5 * (k + 1));
}

void gpu_check_run(GpuRun r)
{
    Arena *a = arena_create();
    GpuOutcome expected, exact = { 0 }, found;

    r.devices = r.devices < gpu_devices() ? r.devices : gpu_devices();
    expected = gpu_train(a, &r);
    if (r.precision && !gpu_simulated())
        exact = gpu_train_exact(a, &r, &expected);
    r.cuda = true;
    r.lead = r.precision ? expected.begin : NULL;
    found = gpu_train(a, &r);
    gpu_compare_losses(&r, &found, &expected);
    gpu_compare_each(&r, &found, &expected, r.precision ? &exact : NULL);
    if (r.precision)
        gpu_compare_steps(&r, &found, &expected, &exact, 4 * gpu_run_tolerance(&r));
    arena_free(a);
}

static const int spreads[][2] = { { 1, 1 }, { 3, 1 }, { 2, 2 }, { 4, 2 } };

void gpu_check_model(const char *model, int batch, int steps, int every)
{
    for (int i = 0; i < (int)(sizeof spreads / sizeof *spreads); i += every)
        if (spreads[i][1] <= gpu_devices())
            gpu_check_run((GpuRun){
                .model = model, .batch = batch, .steps = steps, .replicas = spreads[i][0], .devices = spreads[i][1] });
}
