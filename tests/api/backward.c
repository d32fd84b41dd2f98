/* Steps in pieces: gradients gathered, read, applied and dropped; learning rates set between steps; outputs and
 * gradients of training steps. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"

enum { GROUP = 3, MOST_PIXELS = 3 * 32 * 32 };

/* A network, and what of its options is under test. */
typedef struct {
    const char *model, *input;
    int rank;
    int64_t dim[4]; /* of a batch; the first is its size */
    const char *setting[4];
} Net;

static const Net nets[] = {
    { "mlp", "x", 2, { SAMPLES, PIXELS }, { "momentum=0.9", "clip-norm=1" } },
    { "mlp", "x", 2, { SAMPLES, PIXELS }, { "optimizer=adamw", "ema=0.9", "metric=accuracy" } },
    { "mlp", "x", 2, { SAMPLES, PIXELS }, { "precision=float16", "momentum=0.9" } },
    { "resnet20", "image", 4, { SAMPLES, 3, 32, 32 }, { "momentum=0.9", "bn=local" } },
};
enum { N_NETS = sizeof nets / sizeof *nets };

static void set_text(dpx_options *o, const char *text)
{
    char name[64];
    const char *eq = strchr(text, '=');

    snprintf(name, sizeof name, "%.*s", (int)(eq - text), text);
    CHECK_DPX(dpx_options_set(o, name, eq + 1));
}

/* `more`: a setting besides the net's; or NULL. */
static dpx_trainer *open_net(const Net *net, const char *devices, const char *more)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;
    char path[512];

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", net->model);
    set_text(o, "loss=cross-entropy");
    set_text(o, "threads=1");
    CHECK_DPX(dpx_options_set(o, "devices", devices));
    for (int i = 0; i < 4 && net->setting[i]; i++)
        set_text(o, net->setting[i]);
    if (more)
        set_text(o, more);
    if (CHECK_DPX(dpx_model_load_within(&m, path, o)))
        CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

typedef struct {
    float x[SAMPLES * MOST_PIXELS];
    double wide[SAMPLES * PIXELS]; /* of the first network, in double precision */
    int64_t label[SAMPLES];
    dpx_tensor tensor[2];
} NetBatch;

static void fill(NetBatch *b, const Net *net, int64_t samples, unsigned seed)
{
    for (size_t i = 0; i < sizeof b->x / sizeof *b->x; i++) {
        seed = seed * 1664525u + 1013904223u;
        b->x[i] = (float)(seed >> 8) / (1 << 24);
        if (i < sizeof b->wide / sizeof *b->wide)
            b->wide[i] = b->x[i];
    }
    for (int i = 0; i < SAMPLES; i++)
        b->label[i] = (seed >> (i + 8)) % CLASSES;
    b->tensor[0] = (dpx_tensor){ .name = net->input, .dtype = DPX_FLOAT32, .rank = net->rank, .data = b->x };
    memcpy(b->tensor[0].dim, net->dim, sizeof net->dim);
    b->tensor[0].dim[0] = samples;
    b->tensor[1] =
        (dpx_tensor){ .name = "target", .dtype = DPX_INT64, .rank = 1, .dim = { samples }, .data = b->label };
}

/* All kept state by name order of `t`, and whether `u` has the same bytes. */
static bool same_states(dpx_trainer *t, dpx_trainer *u)
{
    bool same = dpx_trainer_state_count(t) > 0;

    for (int i = 0; i < dpx_trainer_state_count(t) && same; i++) {
        size_t bytes;
        dpx_info info;
        dpx_tensor a, b;

        if (!CHECK_DPX(dpx_trainer_state_info(t, i, &info)))
            return false;
        if (strstr(info.name, "grad_sum") || !strncmp(info.name, "dpexec.loss_", 12) ||
            !strncmp(info.name, "dpexec.metric_", 14))
            continue;
        a = (dpx_tensor){ .dtype = info.dtype, .rank = info.rank };
        memcpy(a.dim, info.dim, sizeof a.dim);
        bytes = dpx_dtype_size(info.dtype);
        for (int k = 0; k < info.rank; k++)
            bytes *= (size_t)info.dim[k];
        b = a;
        a.data = malloc(bytes + 1);
        b.data = malloc(bytes + 1);
        same = CHECK_DPX(dpx_trainer_get_state(t, info.name, &a)) &&
               CHECK_DPX(dpx_trainer_get_state(u, info.name, &b)) && !memcmp(a.data, b.data, bytes);
        if (!same)
            TEST_FAIL("'%s' differs", info.name);
        free(a.data);
        free(b.data);
    }
    return same;
}

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool same_result(const dpx_result *a, const dpx_result *b)
{
    return a->step == b->step && a->samples == b->samples && same_number(a->loss, b->loss) &&
           same_number(a->loss_sum, b->loss_sum) && same_number(a->loss_weight, b->loss_weight) && a->lr == b->lr &&
           same_number(a->grad_norm, b->grad_norm) && a->updated == b->updated && a->correct == b->correct;
}

/* Two groups of three uneven batches, and one of two: accumulated by train_step, and in pieces. */
static void compare(const Net *net, const char *devices)
{
    static const int64_t size[] = { SAMPLES, 5, 2, 4, SAMPLES, 3, 1, SAMPLES };
    dpx_trainer *whole = open_net(net, devices, "accumulate=3"), *pieces = open_net(net, devices, NULL);
    dpx_result a = { 0 }, b = { 0 };
    static NetBatch batch;

    for (int i = 0; whole && pieces && i < 8; i++) {
        fill(&batch, net, size[i], (unsigned)i);
        CHECK_DPX(dpx_train_step(whole, batch.tensor, 2, &a));
        CHECK_DPX(dpx_train_backward(pieces, batch.tensor, 2, &b));
        CU_ASSERT(!b.updated && b.samples == size[i] && isnan(b.loss) && b.step == a.step - a.updated);
        if (i % GROUP == GROUP - 1) {
            CHECK_DPX(dpx_train_update(pieces, &b));
            CU_ASSERT(a.updated && same_result(&a, &b));
        }
    }
    CHECK_DPX(dpx_train_flush(whole, &a));
    CHECK_DPX(dpx_train_update(pieces, &b));
    CU_ASSERT(same_result(&a, &b) && a.updated && dpx_trainer_step_count(pieces) == 3);
    CU_ASSERT(whole && pieces && same_states(whole, pieces) && same_states(pieces, whole));
    dpx_trainer_free(whole);
    dpx_trainer_free(pieces);
}

static void test_equal(void)
{
    static const char *const devices[] = { "cpu", "cpu*2", "cpu*4" };

    for (int i = 0; i < N_NETS; i++)
        for (int k = 0; k < 3; k++)
            compare(&nets[i], devices[k]);
}

/* The first step's momentum is the gradient (torch.optim.SGD: buf = g), to the byte. */
static void read_gradient(const Net *net, const char *devices, bool kept)
{
    dpx_trainer *t = open_net(net, devices, NULL);
    const char *name = strcmp(net->model, "mlp") ? "conv1.weight" : "fc1.weight";
    char momentum[64];
    float first = 256;
    dpx_tensor g = { .dtype = DPX_FLOAT32 }, scale = { .dtype = DPX_FLOAT32, .data = &first };
    static float gradient[1 << 14], found[1 << 14];
    static NetBatch batch;
    size_t n = 1;
    dpx_result r;
    dpx_info info = { .name = NULL };

    snprintf(momentum, sizeof momentum, "%s.momentum", name);
    if (!t)
        return;
    if (net->setting[0][0] == 'p') /* precision=float16: with its first scale the sum of a batch overflows */
        CHECK_DPX(dpx_trainer_set_state(t, "dpexec.loss_scale", &scale));
    for (int i = 0; i < dpx_trainer_state_count(t) && (!info.name || strcmp(info.name, name) != 0); i++)
        CHECK_DPX(dpx_trainer_state_info(t, i, &info));
    g.rank = info.rank;
    memcpy(g.dim, info.dim, sizeof g.dim);
    for (int i = 0; i < g.rank; i++)
        n *= (size_t)g.dim[i];
    CU_ASSERT_FATAL(n <= sizeof found / sizeof *found);
    g.data = gradient;
    CHECK_DPX_FAILS(DPX_INVALID, "there is no gradient by", dpx_trainer_gradient(t, name, &g));
    if (kept)
        CHECK_DPX(dpx_trainer_keep(t, DPX_KEEP_GRADIENTS));
    for (int i = 0; i < (kept ? 1 : 2); i++) {
        fill(&batch, net, 5 - i, (unsigned)i + 3);
        CHECK_DPX(kept ? dpx_train_step(t, batch.tensor, 2, &r) : dpx_train_backward(t, batch.tensor, 2, &r));
    }
    CHECK_DPX(dpx_trainer_gradient(t, name, &g));
    if (!kept)
        CHECK_DPX(dpx_train_update(t, &r));
    g.data = found;
    CHECK_DPX(dpx_trainer_get_state(t, momentum, &g));
    if (memcmp(gradient, found, n * sizeof *found))
        TEST_FAIL("%s on %s: the gradient is not the momentum: %g and %g", net->model, devices, gradient[0], found[0]);
    g.data = gradient;
    if (!kept)
        CHECK_DPX_FAILS(DPX_INVALID, "there is no gradient by", dpx_trainer_gradient(t, name, &g));
    CHECK_DPX_FAILS(DPX_INVALID, "there is no gradient by 'fc9'", dpx_trainer_gradient(t, "fc9", &g));
    g.dim[0]++;
    CHECK_DPX(dpx_train_backward(t, batch.tensor, 2, &r));
    CHECK_DPX_FAILS(DPX_SHAPE, "the gradient by", dpx_trainer_gradient(t, name, &g));
    dpx_trainer_free(t);
}

static void test_gradient(void)
{
    static const Net plain = { "mlp", "x", 2, { SAMPLES, PIXELS }, { "momentum=0.9" } };
    static const char *const devices[] = { "cpu", "cpu*2", "cpu*4" };

    for (int k = 0; k < 3; k++)
        for (int kept = 0; kept < 2; kept++) {
            read_gradient(&plain, devices[k], kept);
            read_gradient(&nets[2], devices[k], kept);
            read_gradient(&nets[3], devices[k], kept);
        }
}

static const Net wide = { "mlp", "x", 2, { SAMPLES, PIXELS }, { "dtype=float64" } };

/* The mean loss over batches of 5 and 4 samples. */
static double mean_loss(dpx_trainer *t)
{
    double sum = 0, weight = 0;
    static NetBatch batch;

    for (int i = 0; i < 2; i++) {
        dpx_result r = { 0 };

        fill(&batch, &wide, 5 - i, (unsigned)i);
        batch.tensor[0].dtype = DPX_FLOAT64;
        batch.tensor[0].data = batch.wide;
        CHECK_DPX(dpx_val_step(t, batch.tensor, 2, &r));
        sum += r.loss_sum;
        weight += r.loss_weight;
    }
    return sum / weight;
}

/* By central differences of the mean loss, in double precision. */
static void test_differences(void)
{
    static const double step = 1e-5;
    dpx_trainer *t = open_net(&wide, "cpu*2", NULL);
    double bias[CLASSES], gradient[CLASSES];
    dpx_tensor view = { .dtype = DPX_FLOAT64, .rank = 1, .dim = { CLASSES }, .data = bias };
    static NetBatch batch;
    dpx_result r;

    if (!t)
        return;
    CHECK_DPX(dpx_trainer_get_state(t, "fc3.bias", &view));
    for (int i = 0; i < 2; i++) {
        fill(&batch, &wide, 5 - i, (unsigned)i);
        batch.tensor[0].dtype = DPX_FLOAT64;
        batch.tensor[0].data = batch.wide;
        CHECK_DPX(dpx_train_backward(t, batch.tensor, 2, &r));
    }
    view.data = gradient;
    CHECK_DPX(dpx_trainer_gradient(t, "fc3.bias", &view));
    view.data = bias;
    for (int i = 0; i < CLASSES; i++) {
        const double at = bias[i];
        double loss[2];

        for (int k = 0; k < 2; k++) {
            bias[i] = at + (k ? step : -step);
            CHECK_DPX(dpx_trainer_set_state(t, "fc3.bias", &view));
            loss[k] = mean_loss(t);
        }
        bias[i] = at;
        CU_ASSERT(fabs((loss[1] - loss[0]) / (2 * step) - gradient[i]) < 1e-8);
    }
    dpx_trainer_free(t);
}

/* After a reset the next group is as if there had been none before. */
static void test_reset(void)
{
    dpx_trainer *t = open_net(&nets[1], "cpu*2", NULL), *u = open_net(&nets[1], "cpu*2", NULL);
    static NetBatch batch;
    char folder[256];
    dpx_result r;

    if (!t || !u)
        return;
    make_folder(folder);
    fill(&batch, &nets[1], 5, 1);
    CHECK_DPX(dpx_train_reset(t)); /* nothing is gathered */
    CHECK_DPX_FAILS(DPX_INVALID, "no gradients are gathered", dpx_train_update(t, &r));
    for (int i = 0; i < 3; i++) {
        CHECK_DPX(dpx_train_backward(t, batch.tensor, 2, &r));
        CHECK_DPX_FAILS(DPX_INVALID, "gradients of", dpx_train_step(t, batch.tensor, 2, &r));
        CHECK_DPX_FAILS(DPX_INVALID, "in the middle of", dpx_trainer_save(t, folder, NULL));
        CHECK_DPX_FAILS(DPX_INVALID, "in the middle of", dpx_trainer_end_epoch(t));
    }
    CHECK_DPX(dpx_train_reset(t));
    CHECK_DPX_FAILS(DPX_INVALID, "no gradients are gathered", dpx_train_update(t, &r));
    fill(&batch, &nets[1], 4, 2);
    CHECK_DPX(dpx_train_backward(t, batch.tensor, 2, &r));
    CHECK_DPX(dpx_train_update(t, &r));
    CHECK_DPX(dpx_train_backward(u, batch.tensor, 2, &r));
    CHECK_DPX(dpx_train_update(u, &r));
    CU_ASSERT(same_states(t, u));
    CHECK_DPX(dpx_train_step(t, batch.tensor, 2, &r));
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

/* ---- learning rates ---- */

static const Net grouped = { "mlp", "x", 2, { SAMPLES, PIXELS }, { "momentum=0.9", "group=fc1.*:lr=0.05" } };

static void train(dpx_trainer *t, int from, int to)
{
    static NetBatch batch;
    dpx_result r;

    for (int i = from; i < to; i++) {
        fill(&batch, &grouped, i % 2 ? SAMPLES : 3, (unsigned)i);
        CHECK_DPX(dpx_train_step(t, batch.tensor, 2, &r));
    }
}

/* Rates set between steps are those of runs that have them as options; a resumed run goes on with them. */
static void test_rates(void)
{
    static const Net other = {
        "mlp", "x", 2, { SAMPLES, PIXELS }, { "momentum=0.9", "group=fc1.*:lr=0.5", "lr=0.02" }
    };
    dpx_trainer *t = open_net(&grouped, "cpu*2", "lr-schedule=step:2"), *u = open_net(&grouped, "cpu*2", NULL),
                *v = open_net(&other, "cpu*2", NULL);
    char folder[256];

    if (!t || !u || !v)
        return;
    make_folder(folder);
    CU_ASSERT_EQUAL(dpx_trainer_group_lr(t, 1, 1), 0.05);
    CHECK_DPX(dpx_trainer_set_lr(t, 0, 0.02));
    CHECK_DPX(dpx_trainer_set_lr(t, 1, 0.5));
    CU_ASSERT(dpx_trainer_group_lr(t, 0, 9) == 0.02 && dpx_trainer_group_lr(t, 1, 1) == 0.5);
    train(t, 0, 3);
    train(v, 0, 3);
    CU_ASSERT(same_states(t, v));
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    CU_ASSERT(dpx_trainer_group_lr(u, 0, 9) == 0.02 && dpx_trainer_group_lr(u, 1, 1) == 0.5);
    train(u, 3, 5);
    train(v, 3, 5);
    CU_ASSERT(same_states(u, v));
    CHECK_DPX(dpx_trainer_set_lr(u, 1, NAN));
    CU_ASSERT_EQUAL(dpx_trainer_group_lr(u, 1, 1), 0.05);
    CHECK_DPX_FAILS(DPX_INVALID, "group 2, expected 0 to 1", dpx_trainer_set_lr(u, 2, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "group -1", dpx_trainer_set_lr(u, -1, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "a learning rate of -1", dpx_trainer_set_lr(u, 0, -1));
    CHECK_DPX_FAILS(DPX_INVALID, "a learning rate of inf", dpx_trainer_set_lr(u, 0, INFINITY));
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_trainer_free(v);
}

/* ---- outputs of training steps ---- */

/* They are the predictions before the update, which training as such does not change in this network; and nothing else
 * changes by it. */
static void keep_outputs(const char *devices)
{
    dpx_trainer *t = open_net(&grouped, devices, NULL), *u = open_net(&grouped, devices, NULL);
    static NetBatch batch;
    float logits[SAMPLES * CLASSES];
    dpx_result r, q;
    dpx_tensor y;

    if (!t || !u)
        return;
    for (int i = 0; i < 4; i++) {
        CHECK_DPX(dpx_trainer_keep(t, i == 3 ? 0 : DPX_KEEP_OUTPUTS | (i == 2 ? DPX_KEEP_GRADIENTS : 0)));
        fill(&batch, &grouped, i % 2 ? 5 : SAMPLES, (unsigned)i);
        CHECK_DPX(dpx_run(u, batch.tensor, 1, &y, 1));
        memcpy(logits, y.data, (size_t)y.dim[0] * CLASSES * sizeof *logits);
        CHECK_DPX(dpx_train_step(u, batch.tensor, 2, &q));
        CU_ASSERT(!q.outputs && !q.n_outputs);
        CHECK_DPX(dpx_train_step(t, batch.tensor, 2, &r));
        CU_ASSERT(same_result(&r, &q) && r.n_outputs == (i < 3));
        if (r.n_outputs == 1)
            CU_ASSERT(!strcmp(r.outputs->name, y.name) && r.outputs->rank == 2 && r.outputs->dim[0] == y.dim[0] &&
                      !memcmp(r.outputs->data, logits, (size_t)y.dim[0] * CLASSES * sizeof *logits));
    }
    CHECK_DPX(dpx_trainer_keep(t, DPX_KEEP_OUTPUTS));
    CHECK_DPX(dpx_train_backward(t, batch.tensor, 2, &r));
    CHECK_DPX(dpx_train_backward(u, batch.tensor, 2, &q));
    CU_ASSERT(r.n_outputs == 1 && r.outputs->dim[0] == 5);
    CHECK_DPX(dpx_train_update(t, &r));
    CHECK_DPX(dpx_train_update(u, &q));
    CU_ASSERT(same_result(&r, &q) && !r.outputs && same_states(t, u));
    CHECK_DPX_FAILS(DPX_INVALID, "4 has bits other than", dpx_trainer_keep(t, 4));
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

static void test_outputs(void)
{
    keep_outputs("cpu");
    keep_outputs("cpu*2");
    keep_outputs("cpu*4");
}

DEFINE_SUITE(backward, { "pieces equal steps", test_equal }, { "gradients are what is applied", test_gradient },
             { "gradients by differences", test_differences }, { "reset", test_reset },
             { "rates between steps", test_rates }, { "outputs of steps", test_outputs });
