/* Trainers: steps, evaluation, state, checkpoints, export, logs, threads. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"

static const char *const sgd[] = { "loss=cross-entropy", "metric=accuracy", "lr=0.1", "momentum=0.9",
                                   "threads=1",          "batch-size=6",    NULL };

/* All state of the trainer, one after the other, as bytes; to free(). */
static char *all_state(dpx_trainer *t, size_t *bytes)
{
    char *all = NULL;

    *bytes = 0;
    for (int i = 0; i < dpx_trainer_state_count(t); i++) {
        dpx_info info;
        dpx_tensor view;
        size_t n;

        if (!CHECK_DPX(dpx_trainer_state_info(t, i, &info)))
            break;
        view = (dpx_tensor){ .name = info.name, .dtype = info.dtype, .rank = info.rank };
        memcpy(view.dim, info.dim, sizeof view.dim);
        n = dpx_dtype_size(info.dtype);
        for (int k = 0; k < info.rank; k++)
            n *= (size_t)info.dim[k];
        all = realloc(all, *bytes + n + 1);
        view.data = all + *bytes;
        CHECK_DPX(dpx_trainer_get_state(t, info.name, &view));
        *bytes += n;
    }
    return all;
}

static int same_state(dpx_trainer *a, dpx_trainer *b)
{
    size_t n, m;
    char *x = all_state(a, &n), *y = all_state(b, &m);
    int same = n && n == m && !memcmp(x, y, n);

    free(x);
    free(y);
    return same;
}

static void test_steps(void)
{
    dpx_trainer *t = make_trainer(sgd);
    dpx_result first = { 0 }, r = { 0 };
    Batch b;

    if (!t)
        return;
    make_batch(&b, 1);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &first));
    CU_ASSERT(first.step == 1 && first.updated && first.samples == SAMPLES && first.counted == SAMPLES &&
              first.lr == 0.1);
    CU_ASSERT(first.loss_weight == SAMPLES && fabs(first.loss - first.loss_sum / SAMPLES) < 1e-6);
    for (int i = 0; i < 30; i++)
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    CU_ASSERT(r.step == 31 && dpx_trainer_step_count(t) == 31);
    CU_ASSERT(r.loss < 0.1 * first.loss);
    CU_ASSERT_EQUAL(r.correct, SAMPLES);
    dpx_trainer_free(t);
    dpx_trainer_free(NULL);
}

static void test_val_keeps_state(void)
{
    dpx_trainer *t = make_trainer(sgd);
    dpx_result a, v[2];
    dpx_tensor y;
    Batch b;
    char *before, *after;
    size_t n, m;

    if (!t)
        return;
    make_batch(&b, 2);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &a));
    before = all_state(t, &n);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &v[0]));
    CHECK_DPX(dpx_test_step(t, b.tensor, 2, &v[1]));
    CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    after = all_state(t, &m);
    CU_ASSERT(n > 0 && n == m && !memcmp(before, after, n));
    CU_ASSERT(v[0].loss == v[1].loss && v[0].loss < a.loss && dpx_trainer_step_count(t) == 1);
    CU_ASSERT(y.rank == 2 && y.dim[0] == SAMPLES && y.dim[1] == CLASSES && y.dtype == DPX_FLOAT32);
    free(before);
    free(after);
    dpx_trainer_free(t);
}

/* Row: target, column: where the logits that dpx_run gives are largest. */
static void count_hits(dpx_trainer *t, const Batch *b, int samples, int64_t count[CLASSES][CLASSES])
{
    dpx_tensor x = b->tensor[0], y = { 0 };

    x.dim[0] = samples;
    CHECK_DPX(dpx_run(t, &x, 1, &y, 1));
    for (int n = 0; y.data && n < samples; n++) {
        const float *logit = (const float *)y.data + n * CLASSES;
        int best = 0;

        for (int c = 1; c < CLASSES; c++)
            best = logit[c] > logit[best] ? c : best;
        count[b->label[n]][best]++;
    }
}

/* Over batches of unequal size, since it was begun again. */
static void test_metric(void)
{
    static const char *const table[] = { "loss=cross-entropy", "metric=confusion-matrix", "replicas=4", "threads=1",
                                         NULL };
    int64_t expected[CLASSES][CLASSES] = { { 0 } };
    dpx_trainer *t = make_trainer(table);
    dpx_metric m = { .measured = 1 };
    dpx_result r;
    Batch b;

    if (!t)
        return;
    CU_ASSERT(!dpx_trainer_metric(t, &m) && !m.measured && isnan(m.value) && !m.table.data);
    make_batch(&b, 4);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CU_ASSERT(r.metric_sum == 0 && r.metric_weight == 0 && !r.correct && !r.counted);
    dpx_trainer_restart_metric(t);
    for (int samples = SAMPLES; samples > 1; samples -= 3) {
        make_batch(&b, (unsigned)samples);
        count_hits(t, &b, samples, expected);
        b.tensor[0].dim[0] = b.tensor[1].dim[0] = samples;
        CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    }
    CHECK_DPX(dpx_trainer_metric(t, &m));
    CU_ASSERT_FATAL(m.measured && m.table.data && m.table.rank == 2 && m.table.dtype == DPX_INT64);
    CU_ASSERT(m.table.dim[0] == CLASSES && m.table.dim[1] == CLASSES);
    CU_ASSERT(!memcmp(m.table.data, expected, sizeof expected));
    dpx_trainer_free(t);
}

/* Of the steps that trained, by what the parameters were before each; evaluations are counted apart. */
static void test_train_metric(void)
{
    static const char *const table[] = {
        "loss=cross-entropy", "metric=confusion-matrix", "replicas=4", "threads=1", "lr=0.5", NULL
    };
    int64_t expected[CLASSES][CLASSES] = { { 0 } };
    dpx_trainer *t = make_trainer(table);
    dpx_metric m = { .measured = 1 };
    double loss = 0;
    int all = 0;
    dpx_result r;
    Batch b;

    if (!t)
        return;
    make_batch(&b, 4);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_trainer_train_metric(t, &m));
    CU_ASSERT(isnan(m.loss) && !m.samples);
    CU_ASSERT(!m.measured && isnan(m.value) && !m.table.data);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    dpx_trainer_restart_train_metric(t);
    for (int samples = SAMPLES; samples > 1; samples -= 3) {
        make_batch(&b, (unsigned)samples);
        count_hits(t, &b, samples, expected);
        b.tensor[0].dim[0] = b.tensor[1].dim[0] = samples;
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, samples % 2 ? &r : NULL));
        if (samples % 2 == 0)
            CHECK_DPX(dpx_train_result(t, &r));
        loss += r.loss * samples;
        all += samples;
        CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    }
    CHECK_DPX(dpx_trainer_train_metric(t, &m));
    CU_ASSERT(m.samples == all && fabs(m.loss - loss / all) < 1e-6 * m.loss);
    CU_ASSERT_FATAL(m.measured && m.table.data && m.table.rank == 2 && m.table.dtype == DPX_INT64);
    CU_ASSERT(!memcmp(m.table.data, expected, sizeof expected));
    dpx_trainer_free(t);
}

/* The loss of val_step is that of the logits that dpx_run gives. */
static void test_run_and_loss(void)
{
    dpx_trainer *t = make_trainer(sgd);
    dpx_result r = { 0 };
    dpx_tensor y = { 0 };
    double sum = 0;
    Batch b;

    if (!t)
        return;
    make_batch(&b, 3);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    for (int n = 0; y.data && n < SAMPLES; n++) {
        const float *logit = (const float *)y.data + n * CLASSES;
        double total = 0;

        for (int c = 0; c < CLASSES; c++)
            total += exp(logit[c]);
        sum += log(total) - logit[b.label[n]];
    }
    CU_ASSERT_DOUBLE_EQUAL(r.loss_sum, sum, 1e-5 * sum);
    dpx_trainer_free(t);
}

/* All that nobody asked for, and all that is there twice, by name; a target is known to inference. */
static void test_names(dpx_trainer *t, const Batch *b)
{
    static const char *const text =
        "needs 'x', 'target': the model has no input 'learning_rate'; 'x' is given twice; the "
        "model has no input 'nonsense'";
    float lr = 1;
    dpx_tensor all[5] = { b->tensor[0],
                          b->tensor[1],
                          { .name = "learning_rate", .dtype = DPX_FLOAT32, .data = &lr },
                          b->tensor[0],
                          b->tensor[0] };
    dpx_result r;
    dpx_tensor y;

    all[4].name = "nonsense";
    CHECK_DPX_FAILS(DPX_INVALID, text, dpx_train_step(t, all, 5, &r));
    CHECK_DPX_FAILS(DPX_INVALID, text, dpx_val_step(t, all, 5, &r));
    CHECK_DPX_FAILS(DPX_INVALID, text, dpx_run(t, all, 5, &y, 1));
    CHECK_DPX(dpx_run(t, all, 2, &y, 1));
}

static void test_bad_batches(void)
{
    dpx_trainer *t = make_trainer(sgd);
    dpx_result r;
    dpx_tensor two[2], outputs[2];
    float short_x[SAMPLES][60] = { { 0 } };
    Batch b;

    if (!t)
        return;
    make_batch(&b, 4);
    CU_ASSERT(dpx_train_step(t, b.tensor, 1, &r) != DPX_OK && strstr(dpx_error(), "target"));
    CU_ASSERT(dpx_train_step(t, b.tensor + 1, 1, &r) != DPX_OK && strstr(dpx_error(), "'x'"));
    b.label[3] = CLASSES;
    CU_ASSERT(dpx_train_step(t, b.tensor, 2, &r) != DPX_OK);
    b.label[3] = 0;
    memcpy(two, b.tensor, sizeof two);
    two[0].data = short_x;
    two[0].dim[1] = 60;
    CU_ASSERT(dpx_train_step(t, two, 2, &r) != DPX_OK && strstr(dpx_error(), "x"));
    two[0] = b.tensor[0];
    two[0].dtype = DPX_INT32;
    CU_ASSERT(dpx_train_step(t, two, 2, &r) != DPX_OK && strstr(dpx_error(), "x"));
    two[0] = b.tensor[0];
    two[0].data = NULL;
    CHECK_DPX_FAILS(DPX_INVALID, "no data", dpx_train_step(t, two, 2, &r));
    two[0] = b.tensor[0];
    two[0].name = NULL;
    CHECK_DPX_FAILS(DPX_INVALID, "no name", dpx_train_step(t, two, 2, &r));
    two[0].name = "z";
    CU_ASSERT(dpx_train_step(t, two, 2, &r) != DPX_OK);
    test_names(t, &b);
    CHECK_DPX_FAILS(DPX_INVALID, "2", dpx_run(t, b.tensor, 1, outputs, 2));
    CU_ASSERT_EQUAL(dpx_trainer_step_count(t), 0);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r)); /* none of it did harm */
    CU_ASSERT_EQUAL(r.step, 1);
    dpx_trainer_free(t);
}

static void test_no_loss(void)
{
    static const char *const infer[] = { "threads=1", NULL };
    dpx_trainer *t = make_trainer(infer);
    dpx_result r;
    dpx_tensor y;
    Batch b;

    if (!t)
        return;
    make_batch(&b, 5);
    CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "without a loss", dpx_train_step(t, b.tensor, 2, &r));
    dpx_trainer_free(t);
}

static void test_set_state(void)
{
    dpx_trainer *t = make_trainer(sgd);
    float bias[CLASSES], back[CLASSES];
    dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES }, .data = bias }, out = view, y;
    float before[CLASSES];
    Batch b;

    if (!t)
        return;
    make_batch(&b, 6);
    CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    memcpy(before, y.data, sizeof before);
    CHECK_DPX(dpx_trainer_get_state(t, "fc3.bias", &view));
    for (int c = 0; c < CLASSES; c++)
        bias[c] += (float)c;
    CHECK_DPX(dpx_trainer_set_state(t, "fc3.bias", &view));
    out.data = back;
    CHECK_DPX(dpx_trainer_get_state(t, "fc3.bias", &out));
    CU_ASSERT(!memcmp(bias, back, sizeof bias));
    CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    for (int c = 0; c < CLASSES; c++)
        CU_ASSERT_DOUBLE_EQUAL(((float *)y.data)[c], before[c] + c, 1e-4);
    CHECK_DPX_FAILS(DPX_INVALID, "nothing", dpx_trainer_set_state(t, "nothing", &view));
    view.dim[0] = 4;
    CHECK_DPX_FAILS(DPX_SHAPE, "fc3.bias", dpx_trainer_set_state(t, "fc3.bias", &view));
    CHECK_DPX_FAILS(DPX_SHAPE, "fc3.bias", dpx_trainer_get_state(t, "fc3.bias", &view));
    view.dim[0] = CLASSES;
    view.dtype = DPX_INT32;
    CHECK_DPX_FAILS(DPX_SHAPE, "fc3.bias", dpx_trainer_set_state(t, "fc3.bias", &view));
    dpx_trainer_free(t);
}

/* Two micro-batches accumulated are one batch of both, and a flush applies an incomplete group. */
static void test_accumulate(void)
{
    static const char *const twice[] = { "loss=cross-entropy", "lr=0.1",       "threads=1",
                                         "accumulate=2",       "batch-size=3", NULL };
    static const char *const once[] = { "loss=cross-entropy", "lr=0.1", "threads=1", "batch-size=6", NULL };
    dpx_trainer *t = make_trainer(twice), *u = make_trainer(once);
    dpx_result half[2], whole;
    dpx_tensor part[2];
    Batch b;

    if (!t || !u)
        return;
    make_batch(&b, 7);
    for (int i = 0; i < 2; i++) {
        memcpy(part, b.tensor, sizeof part);
        part[0].dim[0] = part[1].dim[0] = SAMPLES / 2;
        part[0].data = b.x[i * SAMPLES / 2];
        part[1].data = &b.label[i * SAMPLES / 2];
        CHECK_DPX(dpx_train_step(t, part, 2, &half[i]));
    }
    CHECK_DPX(dpx_train_step(u, b.tensor, 2, &whole));
    CU_ASSERT(!half[0].updated && half[0].step == 0 && half[1].updated && half[1].step == 1 &&
              half[1].samples == SAMPLES);
    CU_ASSERT_DOUBLE_EQUAL(half[1].loss, whole.loss, 1e-6);
    CHECK_DPX(dpx_train_step(t, part, 2, &half[0]));
    CHECK_DPX_FAILS(DPX_INVALID, "flush", dpx_trainer_save(t, "unused", NULL));
    CHECK_DPX(dpx_train_flush(t, &half[1]));
    CU_ASSERT(half[1].updated && half[1].step == 2 && half[1].samples == SAMPLES / 2);
    CHECK_DPX(dpx_train_flush(t, &half[1]));
    CU_ASSERT(!half[1].updated && half[1].step == 2);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

static void test_checkpoint(void)
{
    static const char *const adam[] = { "loss=cross-entropy", "optimizer=adam", "threads=1", "batch-size=6", NULL };
    dpx_trainer *a = make_trainer(sgd), *b = make_trainer(sgd), *other = make_trainer(adam);
    char folder[256], path[512], *note = NULL;
    dpx_model *m = NULL;
    dpx_result r;
    Batch batch;

    if (!a || !b || !other)
        return;
    make_folder(folder);
    make_batch(&batch, 8);
    for (int i = 0; i < 3; i++)
        CHECK_DPX(dpx_train_step(a, batch.tensor, 2, &r));
    CHECK_DPX_FAILS(DPX_IO, "no checkpoint", dpx_trainer_resume(b, folder, &note));
    CHECK_DPX(dpx_trainer_save(a, folder, "at 3"));
    CHECK_DPX(dpx_trainer_resume(b, folder, &note));
    CHECK_STR("at 3", note);
    free(note);
    CU_ASSERT(dpx_trainer_step_count(b) == 3 && same_state(a, b));
    CHECK_DPX(dpx_train_step(a, batch.tensor, 2, &r));
    CU_ASSERT(!same_state(a, b));
    CHECK_DPX(dpx_train_step(b, batch.tensor, 2, &r));
    CU_ASSERT(same_state(a, b));
    CHECK_DPX_FAILS(DPX_IO, "another run", dpx_trainer_resume(other, folder, NULL));
    CHECK_DPX_FAILS(DPX_IO, "/dev/null", dpx_trainer_save(a, "/dev/null", NULL));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    CHECK_DPX(dpx_trainer_export(a, path));
    CHECK_DPX(dpx_model_load(&m, path));
    CU_ASSERT_EQUAL(dpx_model_count(m, DPX_STATE), 6);
    dpx_model_free(m);
    CU_ASSERT(dpx_trainer_export(a, "/dev/null/model.onnx") == DPX_IO);
    remove_folder(folder);
    dpx_trainer_free(a);
    dpx_trainer_free(b);
    dpx_trainer_free(other);
}

/* ---- loss scaling ---- */

static int set_number(dpx_trainer *t, const char *name, dpx_dtype dtype, void *number)
{
    return CHECK_DPX(dpx_trainer_set_state(t, name, &(dpx_tensor){ .name = name, .dtype = dtype, .data = number }));
}

/* Skipped steps leave all state as it was but the scale and its counter, count as steps of the run, and a checkpoint
 * behind them goes on with the same bits. */
static void test_loss_scale(void)
{
    static const char *const half[] = { "loss=cross-entropy", "optimizer=adam", "precision=float16",
                                        "threads=1",          "batch-size=6",   NULL };
    dpx_trainer *a = make_trainer(half), *b = make_trainer(half);
    float scale = 0x1p40f;
    char folder[256];
    dpx_result r = { 0 }, q = { 0 };
    int skipped = 0;
    Batch batch;

    if (!a || !b)
        return;
    make_folder(folder);
    make_batch(&batch, 8);
    CHECK_DPX(dpx_train_step(a, batch.tensor, 2, &r));
    set_number(a, "dpexec.loss_scale", DPX_FLOAT32, &scale);
    for (int i = 0; i < 30; i++) {
        const dpx_result last = r;

        CHECK_DPX(dpx_train_step(a, batch.tensor, 2, &r));
        CU_ASSERT(r.updated && isfinite(r.loss) && r.step == i + 2);
        if (i)
            CU_ASSERT_EQUAL(r.loss_scale, last.skipped ? last.loss_scale / 2 : last.loss_scale);
        if (last.skipped)
            CU_ASSERT_EQUAL(r.loss, last.loss); /* of the same parameters */
        skipped += r.skipped;
        if (i == 5) {
            CHECK_DPX(dpx_trainer_save(a, folder, NULL));
            CHECK_DPX(dpx_trainer_resume(b, folder, NULL));
            CU_ASSERT(dpx_trainer_step_count(b) == 7 && same_state(a, b));
        } else if (i > 5) {
            CHECK_DPX(dpx_train_step(b, batch.tensor, 2, &q));
            CU_ASSERT(r.loss == q.loss && r.skipped == q.skipped && r.loss_scale == q.loss_scale && r.step == q.step);
        }
    }
    CU_ASSERT(skipped > 10 && skipped < 28);
    CU_ASSERT(same_state(a, b));
    remove_folder(folder);
    dpx_trainer_free(a);
    dpx_trainer_free(b);
}

static void test_loss_scale_options(void)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_trainer *t = NULL;

    CHECK_DPX(dpx_model_load(&m, MLP));
    CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
    CHECK_DPX_FAILS(DPX_INVALID, "or a number above 0, found '0'", dpx_options_set(o, "loss-scale", "0"));
    CHECK_DPX(dpx_options_set(o, "loss-scale", "128"));
    CHECK_DPX_FAILS(DPX_INVALID, "--loss-scale needs --precision float16", dpx_trainer_create(&t, m, o, NULL, NULL));
    CHECK_DPX(dpx_options_set(o, "precision", "bfloat16"));
    CHECK_DPX_FAILS(DPX_INVALID, "--loss-scale needs --precision float16", dpx_trainer_create(&t, m, o, NULL, NULL));
    CHECK_DPX(dpx_options_set(o, "precision", "float16"));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
}

/* ---- callbacks ---- */

typedef struct {
    int info, warning, steps;
    int64_t last;
} Heard;

static void on_log(void *user, int level, const char *line)
{
    Heard *h = user;

    *(level == DPX_LOG_WARNING ? &h->warning : &h->info) += *line != '\0';
}

static void on_step(void *user, const dpx_result *r)
{
    Heard *h = user;

    h->steps++;
    h->last = r->step;
}

static void test_callbacks(void)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_trainer *t = NULL;
    Heard h = { 0 };
    dpx_result r;
    Batch b;

    CHECK_DPX(dpx_model_load(&m, MLP));
    CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
    CHECK_DPX(dpx_options_set(o, "devices", "cpu*2"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "batch-size", "6"));
    if (CHECK_DPX(dpx_trainer_create(&t, m, o, on_log, &h))) {
        make_batch(&b, 9);
        dpx_trainer_on_step(t, on_step, &h);
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
        CU_ASSERT(h.info > 0 && h.steps == 2 && h.last == 2);
        dpx_trainer_on_step(t, NULL, NULL);
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
        CU_ASSERT_EQUAL(h.steps, 2);
    }
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
}

/* ---- two threads, each with handles of its own ---- */

typedef struct {
    unsigned seed;
    double loss;
    char message[256];
} Worker;

static void *train_alone(void *user)
{
    Worker *w = user;
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL, *none = NULL;
    dpx_trainer *t = NULL;
    dpx_result r = { .loss = -1 };
    Batch b;

    make_batch(&b, w->seed);
    if (o && !dpx_model_load(&m, MLP) && !dpx_options_set(o, "loss", "cross-entropy") &&
        !dpx_options_set(o, "threads", "1") && !dpx_options_set(o, "batch-size", "6") &&
        !dpx_options_set(o, "devices", "cpu*2") && !dpx_trainer_create(&t, m, o, NULL, NULL))
        for (int i = 0; i < 5; i++)
            if (dpx_train_step(t, b.tensor, 2, &r))
                r.loss = -2;
    w->loss = r.loss;
    snprintf(w->message, sizeof w->message, "%s",
             dpx_model_load(&none, w->seed == 1 ? "one" : "two") ? dpx_error() : "");
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
    return NULL;
}

static void test_threads(void)
{
    Worker together[2] = { { .seed = 1 }, { .seed = 2 } }, alone[2] = { { .seed = 1 }, { .seed = 2 } };
    pthread_t thread[2];

    for (int i = 0; i < 2; i++)
        CU_ASSERT_FATAL(!pthread_create(&thread[i], NULL, train_alone, &together[i]));
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        train_alone(&alone[i]);
        CU_ASSERT(alone[i].loss > 0 && alone[i].loss == together[i].loss);
        CU_ASSERT(strstr(together[i].message, i ? "two" : "one") != NULL);
    }
}

static void test_trace(void)
{
    dpx_trainer *t = make_trainer(sgd);
    dpx_result r;
    char folder[256], path[300], text[1 << 14] = "";
    FILE *f;
    Batch b;

    if (!t)
        return;
    make_folder(folder);
    snprintf(path, sizeof path, "%s/trace.json", folder);
    CHECK_DPX_FAILS(DPX_INVALID, "nothing was timed", dpx_trainer_write_trace(t, path));
    CHECK_DPX(dpx_trainer_trace(t, 1000));
    make_batch(&b, 4);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    CHECK_DPX_FAILS(DPX_IO, "/proc/nowhere", dpx_trainer_write_trace(t, "/proc/nowhere"));
    CHECK_DPX(dpx_trainer_write_trace(t, path));
    if ((f = fopen(path, "r"))) {
        CU_ASSERT(fread(text, 1, sizeof text - 1, f) > 0);
        fclose(f);
    }
    CU_ASSERT(strstr(text, "traceEvents") && strstr(text, "\"Gemm\"") && strstr(text, "\"Update\""));
    CHECK_DPX(dpx_trainer_trace(t, 0));
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    dpx_trainer_free(t);
    remove_folder(folder);
}

/* Inputs [time, batch, width]: samples are counted along the batch's axis. */
static void test_sequence_first(void)
{
    static double x[7 * 4 * 5];
    static int64_t y[7 * 4];
    dpx_tensor batch[] = { { .name = "x", .dtype = DPX_FLOAT64, .rank = 3, .dim = { 7, 4, 5 }, .data = x },
                           { .name = "target", .dtype = DPX_INT64, .rank = 2, .dim = { 7, 4 }, .data = y } };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;
    dpx_result r = { 0 };

    CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/tests/cli/sequence_first/words.onnx"));
    CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
    CHECK_DPX(dpx_options_set(o, "replicas", "3"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CU_ASSERT_EQUAL(dpx_batch_axis(m, o, "x"), 1);
    CU_ASSERT_EQUAL(dpx_batch_axis(m, o, "target"), 1);
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    CHECK_DPX(dpx_train_step(t, batch, 2, &r));
    CU_ASSERT_EQUAL(r.samples, 4);
    CU_ASSERT_DOUBLE_EQUAL(r.loss, 1.0986122886681098, 1e-15); /* tanh(0) W = 0: ln 3 */
    dpx_trainer_free(t);
    dpx_options_free(o);
    dpx_model_free(m);
}

/* Sizes that the model leaves open and that only data fit: what a parameter is is not known before, its type is. */
static void test_open_sizes(void)
{
    static double x[4 * 6], more[6 * 3], y[4 * 2];
    dpx_tensor batch[] = { { .name = "x", .dtype = DPX_FLOAT64, .rank = 2, .dim = { 4, 6 }, .data = x },
                           { .name = "target", .dtype = DPX_FLOAT64, .rank = 2, .dim = { 4, 2 }, .data = y },
                           { .name = "more", .dtype = DPX_FLOAT64, .rank = 2, .dim = { 6, 3 }, .data = more } };
    dpx_model *m = model_of_text("graph \"open\" {\n"
                                 "  input %x : float64[?,?]\n"
                                 "  input %more : float64[?,3]\n"
                                 "  const %w : float64[3,2] = {1, 2, 3, 4, 5, 6}\n"
                                 "  const %six : float64[6,1] = {1, 2, 3, 4, 5, 6}\n"
                                 "  %scaled = Mul(%more, %six)\n"
                                 "  %h = MatMul(%x, %scaled)\n"
                                 "  %y = MatMul(%h, %w)\n"
                                 "  output \"y\" = %y\n"
                                 "}\n");
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_result r = { 0 };

    CHECK_DPX(dpx_options_set(o, "loss", "mse"));
    CHECK_DPX(dpx_options_set(o, "batch-input", "x"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    CHECK_DPX_FAILS(DPX_INVALID, "input 'more' is missing", dpx_train_step(t, batch, 2, &r));
    CHECK_DPX(dpx_train_step(t, batch, 3, &r));
    CU_ASSERT(r.loss == 0 && r.step == 1); /* all is zero */
    dpx_trainer_free(t);
    dpx_options_free(o);
    dpx_model_free(m);
}

/* ---- evaluation of what training makes state of ---- */

enum { WIDE = 3, ROWS = 5 };

static const char normalised[] = "graph \"normalised\" {\n"
                                 "  input %x : float64[\"batch\"=?,3]\n"
                                 "  const %bn.weight : float64[3] = {1, 2, 0.5}\n"
                                 "  const %bn.bias : float64[3] = {0.25, 0, -1}\n"
                                 "  const %bn.running_mean : float64[3] = {0, 0.5, 1}\n"
                                 "  const %bn.running_var : float64[3] = {1, 2, 3}\n"
                                 "  const %half : float32[] = {0.5}\n"
                                 "  const %on : bool[] = {1}\n"
                                 "  %n = BatchNormalization(%x, %bn.weight, %bn.bias, %bn.running_mean, "
                                 "%bn.running_var) {epsilon=0.125, training_mode=0}\n"
                                 "  %y = Dropout(%n, %half, %on)\n"
                                 "  output \"y\" = %y\n"
                                 "}\n";

static void read_row(dpx_trainer *t, const char *name, double *out)
{
    CHECK_DPX(
        dpx_trainer_get_state(t, name, &(dpx_tensor){ .dtype = DPX_FLOAT64, .rank = 1, .dim = { WIDE }, .data = out }));
}

/* Of the running statistics, as they are. */
static void check_normalised(dpx_trainer *t, const dpx_tensor *y, const double *x)
{
    double w[WIDE], b[WIDE], mean[WIDE], var[WIDE];

    read_row(t, "bn.weight", w);
    read_row(t, "bn.bias", b);
    read_row(t, "bn.running_mean", mean);
    read_row(t, "bn.running_var", var);
    CU_ASSERT_FATAL(y->rank == 2 && y->dim[0] == ROWS && y->dim[1] == WIDE && y->dtype == DPX_FLOAT64);
    CU_ASSERT(mean[0] != 0 && var[0] != 1); /* training has changed them */
    for (int i = 0; i < ROWS * WIDE; i++) {
        const int c = i % WIDE;

        CU_ASSERT(fabs(((double *)y->data)[i] - (w[c] * (x[i] - mean[c]) / sqrt(var[c] + 0.125) + b[c])) < 1e-13);
    }
}

static void check_evaluation(const char *bn, const char *replicas)
{
    double x[ROWS * WIDE], target[ROWS * WIDE] = { 1, -1 };
    dpx_tensor batch[] = { { "x", DPX_FLOAT64, 2, { ROWS, WIDE }, x },
                           { "target", DPX_FLOAT64, 2, { ROWS, WIDE }, target } },
               y;
    dpx_options *o = dpx_options_create();
    dpx_model *m = model_of_text(normalised);
    dpx_trainer *t = NULL;
    size_t n = 0, k = 0;
    char *before, *after;
    dpx_result r;

    for (int i = 0; i < ROWS * WIDE; i++)
        x[i] = sin(5 * i) + i % WIDE;
    CHECK_DPX(dpx_options_set(o, "loss", "mse"));
    CHECK_DPX(dpx_options_set(o, "momentum", "0.5"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "bn", bn));
    CHECK_DPX(dpx_options_set(o, "replicas", replicas));
    if (m && CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL))) {
        for (int i = 0; i < 2; i++)
            CHECK_DPX(dpx_train_step(t, batch, 2, &r));
        before = all_state(t, &n);
        CHECK_DPX(dpx_val_step(t, batch, 2, &r));
        check_normalised(t, r.outputs, x);
        CHECK_DPX(dpx_test_step(t, batch, 1, &r));
        check_normalised(t, r.outputs, x);
        CHECK_DPX(dpx_run(t, batch, 1, &y, 1));
        check_normalised(t, &y, x);
        after = all_state(t, &k);
        CU_ASSERT(n > 0 && n == k && !memcmp(before, after, n));
        free(before);
        free(after);
    }
    dpx_trainer_free(t);
    dpx_options_free(o);
    dpx_model_free(m);
}

static void test_running_statistics(void)
{
    check_evaluation("sync", "1");
    check_evaluation("sync", "3");
    check_evaluation("local", "4");
    check_evaluation("sync", "7"); /* more than there are samples */
}

DEFINE_SUITE(trainer, { "steps", test_steps }, { "evaluation changes nothing", test_val_keeps_state },
             { "evaluation takes running statistics", test_running_statistics },
             { "the metric over batches", test_metric }, { "the metric of training", test_train_metric },
             { "run gives the loss's logits", test_run_and_loss }, { "bad batches", test_bad_batches },
             { "no loss", test_no_loss }, { "set and get state", test_set_state },
             { "accumulate and flush", test_accumulate }, { "save, resume, export", test_checkpoint },
             { "a scaled loss", test_loss_scale }, { "options of the scale", test_loss_scale_options },
             { "callbacks", test_callbacks }, { "two threads", test_threads }, { "timing", test_trace },
             { "sequence first", test_sequence_first }, { "sizes that data alone fit", test_open_sizes });
