/* Training on CUDA devices, simulated ones unless $DPX_TEST_CUDA names the plug-in (then on as many as there are): the losses
 * of the CPU, the same bits captured, uncaptured and without waiting, and on the host's side what has no kernel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/gpu/program.h"
#include "exec/program_internal.h"
#include "exec/interp.h"
#include "exec/verify_batch.h"
#include "graph/onnx/onnx.h"
#include "graph/op.h"
#include "tests/exec/training.h"
#include "tests/harness/gpu.h"
#include "tests/harness/test.h"

enum { MAX_STEPS = 20, STATE_ROOM = 1 << 23 };

typedef struct { NamedTensor *state; int n; } Snapshot;

typedef struct {
    const char *model;
    int batch, steps, replicas, devices;
    bool cuda, uncaptured, begun;       /* begun: a step is waited for when the next one has begun */
    bool (*computes)(const Graph *, const Node *);
    DType precision;
    bool channels_last;
    double rate;                        /* of learning; 0: the one of verify_batch */
    const Snapshot *lead;               /* each step begins with what another training had stored before it; NULL: it goes on */
} Run;

/* States after the last step; of float32 also those before the first: momenta, then the others.  In 16 bits those before each step
 * and behind it. */
typedef struct {
    float loss[MAX_STEPS];
    char *state;
    size_t bytes;
    float *before, *after;
    size_t momenta, all;
    Snapshot begin[MAX_STEPS], end[MAX_STEPS];
    int reorders;
} Outcome;

static int devices_there(void)
{
    const CudaDriver *d;
    int n = 0;

    if (CHECK_OK(gpu_driver(&d)))
        CHECK_OK(gpu_check(d, d->runtime.count(&n)));
    return n;
}

static Graph *build(const Run *r, const BuildOptions *how, int replicas, int devices)
{
    BuildOptions opt = *how;
    char path[256];
    Graph *g = NULL;

    opt.replicas = replicas;
    opt.devices = devices;
    snprintf(path, sizeof path, "%s/models/%s.onnx", SOURCE_DIR, r->model);
    if (CHECK_OK(onnx_import_file(&g, NULL, path)) && CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL)))
        return g;
    graph_free(g);
    return NULL;
}

/* The inputs of step k. */
static NamedTensor *batch_of(Arena *a, const Run *r, const Graph *g, const BuildOptions *opt, int k)
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

static void keep_state(Outcome *o, Arena *a, const States *states)
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

static float *keep_all_numbers(Outcome *o, Arena *a, const States *states)
{
    float *to = ARENA_NEW(a, float, 2 * STATE_ROOM / sizeof(float));

    o->momenta = keep_numbers(to, states, true);
    o->all = o->momenta + keep_numbers(to + o->momenta, states, false);
    return to;
}

static Snapshot take_snapshot(Arena *a, const States *states)
{
    Snapshot s = { ARENA_NEW(a, NamedTensor, states_count(states)), states_count(states) };

    for (int i = 0; i < s.n; i++) {
        const State *st = states_at(states, i);
        Tensor *t = tensor_create(a, st->dtype, &st->shape);

        CU_ASSERT_FATAL(t != NULL);
        CHECK_OK(states_get(states, st->name, t));
        s.state[i] = (NamedTensor){ arena_strdup(a, st->name), *t };
    }
    return s;
}

static void set_states(States *states, const Snapshot *s)
{
    CU_ASSERT_FATAL(states_count(states) == s->n);
    for (int i = 0; i < s->n; i++)
        CHECK_OK(states_set(states, s->state[i].name, &s->state[i].tensor));
}

static void read_loss(Outcome *o, Rig *rig, int k, unsigned turn)
{
    if (CHECK_OK(program_wait(rig->program, turn)))
        o->loss[k] = *(float *)rig_output(rig, OUT_LOSS)->data;
}

static void steps_of(Outcome *o, Arena *a, const Run *r, const BuildOptions *opt, Rig *rig, const Graph *whole)
{
    o->before = keep_all_numbers(o, a, rig->states);
    for (int k = 0; k < r->steps; k++) {
        NamedTensor *in = batch_of(a, r, whole, opt, k);

        if (r->lead)
            set_states(rig->states, &r->lead[k]);
        if (r->precision && !r->begun)
            o->begin[k] = take_snapshot(a, rig->states);
        if (!CHECK_OK(program_begin(rig->program, in, whole->n_input)))
            return;
        for (int i = 0; i < whole->n_input; i++)        /* a step begun has taken its inputs over */
            if (r->begun)
                memset(in[i].tensor.data, 0xff, tensor_bytes(&in[i].tensor));
        if (r->begun && k)
            read_loss(o, rig, k - 1, program_turn(rig->program) - 1);
        if (!r->begun || k == r->steps - 1)
            read_loss(o, rig, k, program_turn(rig->program));
        if (r->precision && !r->begun)
            o->end[k] = take_snapshot(a, rig->states);
    }
    CHECK_OK(states_check_mirrors(rig->states));
    keep_state(o, a, rig->states);
    o->after = keep_all_numbers(o, a, rig->states);
}

static int count_nodes(const Graph *g, const OpDef *op)
{
    int count = 0;

    FOR_NODES(g, n)
        count += n->op == op;
    return count;
}

static Outcome train(Arena *a, const Run *r)
{
    BuildOptions opt = { .mode = BUILD_TRAIN, .batch = r->batch, .loss = LOSS_CROSS_ENTROPY, .momentum = 0.9, .metric_accuracy = true,
                         .seed = 7, .precision = r->precision, .loss_scaling = r->precision == DT_FLOAT16 ? SCALE_DYNAMIC : SCALE_NONE,
                         .fuse = r->cuda, .fuse_product = r->cuda, .fuse_cross_entropy = r->cuda, .channels_last = r->channels_last,
                         .computes = r->cuda ? r->computes ? r->computes : cuda_computes : NULL };
    Graph *g = build(r, &opt, r->replicas, r->devices), *whole;
    Outcome o = { 0 };
    Rig rig;

    if (r->cuda && !r->computes)
        CU_ASSERT(g && count_nodes(g, &op_Fused) > 0 && (count_nodes(g, &op_Product) > 0) == (strcmp(r->model, "unet") != 0));
    o.reorders = g ? count_nodes(g, &op_Reorder) : 0;
    opt.computes = NULL;
    opt.fuse = opt.fuse_product = opt.fuse_cross_entropy = opt.channels_last = false;
    whole = build(r, &opt, 1, 1);
    if (g && whole && CHECK_OK(r->cuda ? rig_open_cuda(&rig, g, r->devices, r->uncaptured) : rig_open(&rig, g, r->devices, 1)))
        steps_of(&o, a, r, &opt, &rig, whole);
    if (g)
        rig_close(&rig);
    graph_free(whole);
    return o;
}

/* Of losses, relative: products of 16 bits are rounded to 8 (11) bits.  Layouts change the order of sums alone. */
static double tolerance(const Run *r)
{
    return r->precision == DT_BFLOAT16 ? 0x1p-8 : r->precision == DT_FLOAT16 ? 0x1p-11 : r->channels_last ? 1e-6 : 1e-4;
}

static void compare_losses(const Run *r, const Outcome *found, const Outcome *expected)
{
    CU_ASSERT(isfinite(expected->loss[r->steps - 1]) && expected->loss[0] != expected->loss[r->steps - 1]);
    for (int k = 0; k < r->steps; k++)
        if (!(fabs((double)found->loss[k] - (double)expected->loss[k]) <= tolerance(r) * fabs((double)expected->loss[k])))
            TEST_FAIL("%s, %d replicas on %d devices: loss of step %d is %.7g, expected %.7g", r->model, r->replicas, r->devices, k,
                      (double)found->loss[k], (double)expected->loss[k]);
}

static void compare_bits(const Run *r, const Outcome *found, const Outcome *expected, const char *what)
{
    CU_ASSERT(found->bytes == expected->bytes && found->bytes > 1000);
    if (memcmp(found->state, expected->state, found->bytes) || memcmp(found->loss, expected->loss, (size_t)r->steps * sizeof *found->loss))
        TEST_FAIL("%s, %d replicas on %d devices: other bits %s", r->model, r->replicas, r->devices, what);
}

/* A label that is no class is refused before the step, and the next step is none the worse for it. */
static void test_labels(void)
{
    Arena *a = arena_create();
    Run r = { .model = "mlp", .batch = 8, .cuda = true };
    BuildOptions opt = { .mode = BUILD_TRAIN, .batch = r.batch, .loss = LOSS_CROSS_ENTROPY, .has_ignore_index = true, .ignore_index = -100,
                         .computes = cuda_computes, .fuse = true, .fuse_product = true, .fuse_cross_entropy = true };
    Graph *g = build(&r, &opt, 2, 1), *whole = build(&r, &opt, 1, 1);
    Rig rig;

    if (g && whole && CHECK_OK(rig_open_cuda(&rig, g, 1, false))) {
        NamedTensor *in = batch_of(a, &r, whole, &opt, 0);
        int t = 0;

        while (t < whole->n_input - 1 && strcmp(in[t].name, "target"))
            t++;
        tensor_set_int(&in[t].tensor, 5, 10);
        CHECK_FAILS(E_INVALID, "element 5 of input 'target' is 10, not one of 10 classes", program_run(rig.program, in, whole->n_input));
        tensor_set_int(&in[t].tensor, 5, -1);
        CHECK_FAILS(E_INVALID, "element 5 of input 'target' is -1, not one of 10 classes", program_run(rig.program, in, whole->n_input));
        tensor_set_int(&in[t].tensor, 5, -100);
        CHECK_OK(program_run(rig.program, in, whole->n_input));
    }
    if (g)
        rig_close(&rig);
    graph_free(whole);
    arena_free(a);
}

/* Adds the squares of how own differs from end, and end from begin: of momenta (1) and of all other numbers (0). */
static void add_squares(double diff[2], double change[2], const NamedTensor *begin, const NamedTensor *end, const NamedTensor *own)
{
    const bool momentum = strstr(end->name, ".momentum") != NULL;

    CU_ASSERT_STRING_EQUAL(own->name, end->name);
    for (int64_t j = 0; end->tensor.dtype == DT_FLOAT32 && j < tensor_numel(&end->tensor); j++) {
        double e = tensor_float(&end->tensor, j);

        diff[momentum] += pow(tensor_float(&own->tensor, j) - e, 2);
        change[momentum] += pow(e - tensor_float(&begin->tensor, j), 2);
    }
}

/* A training in 16 bits that follows another step by step.  The order of a sum, and where a value is rounded, change the last bit of
 * what is stored, which turns over a share epsilon of what windows and Relu decide: gradients differ by sqrt(epsilon), and what two
 * trainings differ by twice that of what a step changes (tests/exec/precision.c).  Nothing feeds back: each step begins alike. */
static void compare_steps(const Run *r, const Outcome *found, const Outcome *expected)
{
    for (int k = 0; k < r->steps; k++) {
        double diff[2] = { 0, 0 }, change[2] = { 0, 0 };

        CU_ASSERT_FATAL(expected->end[k].n > 0 && found->end[k].n == expected->end[k].n);
        for (int i = 0; i < expected->end[k].n; i++)
            add_squares(diff, change, &expected->begin[k].state[i], &expected->end[k].state[i], &found->end[k].state[i]);
        for (int m = 0; m < 2; m++)
            if (!(sqrt(diff[m]) <= 2 * sqrt(tolerance(r)) * sqrt(change[m])) || change[m] == 0)
                TEST_FAIL("%s in %s, %d replicas, step %d: %s differ by %g of a change of %g", r->model, dtype_name(r->precision),
                          r->replicas, k, m ? "momenta" : "parameters", sqrt(diff[m]), sqrt(change[m]));
    }
}

/* On the CPU and on a device. */
static void check_run(Run r)
{
    Arena *a = arena_create();
    Outcome expected = train(a, &r), found;

    r.cuda = true;
    r.lead = r.precision ? expected.begin : NULL;
    found = train(a, &r);
    compare_losses(&r, &found, &expected);
    if (r.precision)
        compare_steps(&r, &found, &expected);
    arena_free(a);
}

static const int spreads[][2] = { { 1, 1 }, { 3, 1 }, { 2, 2 }, { 4, 2 } };

static void check_model(const char *model, int batch, int steps, int every)
{
    for (int i = 0; i < (int)(sizeof spreads / sizeof *spreads); i += every)
        if (spreads[i][1] <= devices_there())
            check_run((Run){ .model = model, .batch = batch, .steps = steps, .replicas = spreads[i][0], .devices = spreads[i][1] });
}

static void test_mlp(void) { check_model("mlp", 8, MAX_STEPS, 1); }
static void test_fashion_cnn(void) { check_model("fashion_cnn", 4, MAX_STEPS, 1); }
/* Fewer steps: simulated, one takes seconds. */
static void test_transformer(void) { check_model("transformer", 2, 3, 2); }

/* At a rate at which the loss stays near where it began: steps that diverge multiply what rounding did.  Float16 with a dynamic
 * loss scale; several replicas add their 16-bit gradients in float32. */
static void test_16_bits(void)
{
    const Run runs[] = { { .model = "transformer", .batch = 1, .steps = 2, .replicas = 1, .devices = 1, .precision = DT_BFLOAT16, .rate = 0.002 },
                         { .model = "mlp", .batch = 4, .steps = 8, .replicas = 1, .devices = 1, .precision = DT_BFLOAT16, .rate = 0.002 },
                         { .model = "fashion_cnn", .batch = 4, .steps = 6, .replicas = 1, .devices = 1, .precision = DT_BFLOAT16,
                           .rate = 0.002 },
                         { .model = "mlp", .batch = 6, .steps = 8, .replicas = 1, .devices = 1, .precision = DT_FLOAT16, .rate = 0.002 },
                         { .model = "mlp", .batch = 6, .steps = 8, .replicas = 3, .devices = 2, .precision = DT_FLOAT16, .rate = 0.002 } };

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        check_run(runs[i]);
}

/* Without the epilogues that a version of the library may not have. */
static void test_own_epilogues(void)
{
    static const char *const refused[] = { "sums", "epilogues" };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        setenv("DPEXEC_SIM_REFUSE", refused[i], 1);
        check_model("mlp", 8, 3, 2);
        check_run((Run){ .model = "mlp", .batch = 4, .steps = 4, .replicas = 1, .devices = 1, .precision = DT_BFLOAT16, .rate = 0.002 });
    }
    check_run((Run){ .model = "transformer", .batch = 1, .steps = 2, .replicas = 1, .devices = 1, .precision = DT_FLOAT16, .rate = 0.002 });
    unsetenv("DPEXEC_SIM_REFUSE");
}

/* Norms over numbers [from, to) of what differs between two trainings, and of what one of them has changed. */
static void check_changes(const Run *r, const Outcome *found, const Outcome *expected, size_t from, size_t to, double most, const char *what)
{
    double diff = 0, change = 0;

    for (size_t i = from; i < to; i++) {
        diff += pow((double)found->after[i] - (double)expected->after[i], 2);
        change += pow((double)expected->after[i] - (double)expected->before[i], 2);
    }
    if (!(sqrt(diff) <= most * sqrt(change)) || change == 0)
        TEST_FAIL("%s, %d replicas: %s differ by %g of a change of %g", r->model, r->replicas, what, sqrt(diff), sqrt(change));
}

/* Of trainings in float32, whatever the layout: what they have stored at the end, and what they have changed.  What a training has
 * changed is a sum of its steps' gradients, of which few differ by more than their rounding as long as no decision of a window or Relu
 * is turned over. */
static void compare_states(const Run *r, const Outcome *found, const Outcome *expected)
{
    double diff = 0, norm = 0;

    CU_ASSERT_FATAL(found->all == expected->all && found->momenta == expected->momenta && found->momenta > 100);
    for (size_t i = 0; i < found->all; i++) {
        diff += pow((double)found->after[i] - (double)expected->after[i], 2);
        norm += pow((double)expected->after[i], 2);
    }
    if (!(sqrt(diff) <= tolerance(r) * sqrt(norm)))
        TEST_FAIL("%s, %d replicas: states differ by %g of %g", r->model, r->replicas, sqrt(diff), sqrt(norm));
    check_changes(r, found, expected, 0, found->momenta, 1e-5, "momenta");
    check_changes(r, found, expected, found->momenta, found->all, 1e-5, "parameters and statistics");
}

/* The same training with everything stored by rows and with convolutions channels last; `reorders` for each replica. */
static void check_layout(Run r, int reorders)
{
    Arena *a = arena_create();
    Outcome rows, last;

    r.cuda = true;
    r.rate = 0.002;
    r.devices = r.devices < devices_there() ? r.devices : devices_there();
    rows = train(a, &r);
    r.channels_last = true;
    r.lead = r.precision ? rows.begin : NULL;
    last = train(a, &r);
    compare_losses(&r, &last, &rows);
    (r.precision ? compare_steps : compare_states)(&r, &last, &rows);
    CU_ASSERT_EQUAL(rows.reorders, 0);
    if (last.reorders != reorders * r.replicas)
        TEST_FAIL("%s: %d Reorders, expected %d for each of %d replicas", r.model, last.reorders, reorders, r.replicas);
    arena_free(a);
}

/* What Flatten reads, and its gradient: one channel that comes in has no order. */
static void test_layout_cnn(void)
{
    check_layout((Run){ .model = "fashion_cnn", .batch = 4, .steps = 6, .replicas = 2, .devices = 2 }, 2);
    check_layout((Run){ .model = "fashion_cnn", .batch = 4, .steps = 6, .replicas = 1, .devices = 1, .precision = DT_BFLOAT16 }, 2);
    check_layout((Run){ .model = "fashion_cnn", .batch = 4, .steps = 4, .replicas = 3, .devices = 1, .precision = DT_FLOAT16 }, 2);
}

/* What comes in, nothing within. */
static void test_layout_resnet(void)
{
    check_layout((Run){ .model = "resnet20", .batch = 4, .steps = 2, .replicas = 1, .devices = 1 }, 1);
    check_layout((Run){ .model = "resnet20", .batch = 4, .steps = 2, .replicas = 2, .devices = 1, .precision = DT_BFLOAT16 }, 1);
}

/* What comes in, what the loss reads, and its gradient; in 16 bits also the float32 scores that right answers are counted from. */
static void test_layout_unet(void)
{
    check_layout((Run){ .model = "unet", .batch = 1, .steps = 2, .replicas = 1, .devices = 1 }, 3);
    check_layout((Run){ .model = "unet", .batch = 1, .steps = 2, .replicas = 1, .devices = 1, .precision = DT_FLOAT16 }, 4);
}

/* A fifth of the operators, by their names, has no kernel. */
static bool most_nodes(const Graph *g, const Node *n)
{
    unsigned h = 0;

    for (const char *c = n->op->name; *c; c++)
        h = h * 31 + (unsigned char)*c;
    return h % 5 != 0 && cuda_computes(g, n);
}

static bool no_nodes(const Graph *g, const Node *n)
{
    (void)g, (void)n;
    return false;
}

static void test_on_host(void)
{
    bool (*const which[])(const Graph *, const Node *) = { most_nodes, no_nodes };

    for (size_t i = 0; i < 2; i++) {
        Arena *a = arena_create();
        Run r = { .model = "mlp", .batch = 6, .steps = 6, .replicas = 3, .devices = devices_there() > 1 ? 2 : 1 };
        Outcome expected = train(a, &r), found;

        r.cuda = true;
        r.computes = which[i];
        found = train(a, &r);
        compare_losses(&r, &found, &expected);
        arena_free(a);
    }
}

static void check_bits(const Run *r)
{
    Arena *a = arena_create();
    Run other = *r;
    Outcome captured = train(a, r), found;

    other.uncaptured = true;
    found = train(a, &other);
    compare_bits(r, &found, &captured, "uncaptured");
    other = *r;
    other.begun = true;
    found = train(a, &other);
    compare_bits(r, &found, &captured, "without waiting");
    arena_free(a);
}

static void test_same_bits(void)
{
    int devices = devices_there() > 1 ? 2 : 1;

    check_bits(&(Run){ .model = "mlp", .batch = 6, .steps = 8, .replicas = 3, .devices = devices, .cuda = true });
    check_bits(&(Run){ .model = "mlp", .batch = 6, .steps = 6, .replicas = 2, .devices = 1, .cuda = true, .computes = most_nodes });
    check_bits(&(Run){ .model = "fashion_cnn", .batch = 3, .steps = 5, .replicas = 2, .devices = devices, .cuda = true });
}

/* The bytes of the host that the last of the step's work writes. */
static float loss_now(const Rig *rig, int slot)
{
    const GpuPart *part = &rig->program->gpu->part[0];

    return *(const float *)(part->slot[slot].output + part->output[0].at);
}

/* Simulated devices work only while the host waits for them: so what is not there when two steps have been begun was not
 * waited for.  Waiting for the first leaves the second to be waited for. */
static void test_not_waited_for(void)
{
    Arena *a = arena_create();
    float expected[2] = { 0 };
    Rig rig;

    if (CHECK_OK(rig_open_cuda(&rig, training_mlp(8, 1, 1), 1, false)))
        for (int k = 0; k < 2; k++)
            if (CHECK_OK(program_run(rig.program, training_batch(a, 8, k), N_BATCH)))
                expected[k] = *(float *)rig_output(&rig, OUT_LOSS)->data;
    rig_close(&rig);
    if (CHECK_OK(rig_open_cuda(&rig, training_mlp(8, 1, 1), 1, false)) && CHECK_OK(program_begin(rig.program, training_batch(a, 8, 0), N_BATCH)) &&
        CHECK_OK(program_begin(rig.program, training_batch(a, 8, 1), N_BATCH))) {
        CU_ASSERT(!rig.group->member[0].runtime->simulated || (loss_now(&rig, 0) == 0 && loss_now(&rig, 1) == 0));
        CHECK_OK(program_wait(rig.program, 1));
        CU_ASSERT(expected[0] != 0 && *(float *)rig_output(&rig, OUT_LOSS)->data == expected[0]);
        CHECK_OK(program_wait(rig.program, 2));
        CU_ASSERT(expected[1] != 0 && *(float *)rig_output(&rig, OUT_LOSS)->data == expected[1]);
        CHECK_OK(program_run(rig.program, training_batch(a, 8, 2), N_BATCH));
        CHECK_FAILS(E_INTERNAL, "the outputs of step 1 are asked for after step 3", program_wait(rig.program, 1));
    }
    rig_close(&rig);
    arena_free(a);
}

static void nap(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
}

/* A single device waits for nobody: however long its work takes, whoever asks for state waits that long. */
static void test_alone(void)
{
    Rig rig;

    setenv("DPEXEC_GPU_TIMEOUT", "0.2", 1);
    if (CHECK_OK(rig_open_cuda(&rig, training_mlp(8, 1, 1), 1, false))) {
        const GpuMember *m = &rig.group->member[0];

        for (int i = 0; i < 12; i++)
            CU_ASSERT(!m->runtime->host_call(m->stream[STREAM_COMPUTE], nap, NULL));
        CHECK_OK(device_sync(rig.device[0]));
        CHECK_OK(gpu_group_check(rig.group));
    }
    rig_close(&rig);
    unsetenv("DPEXEC_GPU_TIMEOUT");
}

DEFINE_SUITE(gpu, { "mlp as on the CPU", test_mlp }, { "labels that are no classes", test_labels },
    { "what has no kernel runs on the host", test_on_host }, { "captured, uncaptured, not waited for", test_same_bits },
    { "fashion_cnn as on the CPU", test_fashion_cnn }, { "a step begun is not waited for", test_not_waited_for },
    { "a single device is waited for", test_alone });

DEFINE_SUITE(gpu_transformer, { "losses of the CPU", test_transformer });

DEFINE_SUITE(gpu_16_bits, { "losses of the CPU", test_16_bits }, { "products with own epilogues", test_own_epilogues });

DEFINE_SUITE(gpu_layouts, { "fashion_cnn", test_layout_cnn }, { "resnet20", test_layout_resnet }, { "unet", test_layout_unet });
