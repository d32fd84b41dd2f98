/* What steps give: predictions in the order of the batch, with targets or without; log variables; and batches without
 * names.  The model computes losses itself (own_losses.py). */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/own_losses.h"

enum { WIDTH = 4, SIDES = 2, SCORES = 3 };

#define OWN SOURCE_DIR "/tests/api/own_losses.onnx"

static dpx_trainer *make_own_by(int replicas, const char *loss, const char *accumulate)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_trainer *t = NULL;
    char number[16];

    snprintf(number, sizeof number, "%d", replicas);
    CHECK_DPX(dpx_model_load(&m, OWN));
    CHECK_DPX(dpx_options_set(o, "replicas", number));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "lr", "0.25"));
    CHECK_DPX(dpx_options_set(o, "momentum", "0"));
    CHECK_DPX(dpx_options_set(o, "accumulate", accumulate));
    if (loss)
        CHECK_DPX(dpx_options_set(o, "loss", loss));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

static dpx_trainer *make_own(int replicas, const char *loss) { return make_own_by(replicas, loss, "1"); }

/* Samples [from, from + n) of the data: x, y, z. */
static void take(dpx_tensor batch[3], int from, int n)
{
    batch[0] = (dpx_tensor){ "x", DPX_FLOAT64, 2, { n, WIDTH }, (void *)(uintptr_t)(own_x + from * WIDTH) };
    batch[1] = (dpx_tensor){ "y", DPX_INT64, 1, { n }, (void *)(uintptr_t)(own_y + from) };
    batch[2] = (dpx_tensor){ "z", DPX_FLOAT64, 2, { n, SIDES }, (void *)(uintptr_t)(own_z + from * SIDES) };
}

static int is_output(const dpx_result *r, int i, const char *name, int rank)
{
    return i < r->n_outputs && !strcmp(r->outputs[i].name, name) && r->outputs[i].rank == rank;
}

/* All outputs but the loss; the scores of all samples, which are known before the first step. */
static void check_scores(const dpx_result *r, int from, int n)
{
    const dpx_tensor *y = r->outputs;

    CU_ASSERT_FATAL(is_output(r, 0, "scores", 2) && y->dim[0] == n && y->dim[1] == SCORES && y->dtype == DPX_FLOAT64);
    for (int i = 0; i < n * SCORES; i++)
        CU_ASSERT(fabs(((double *)y->data)[i] - own_scores[from * SCORES + i]) < 1e-12);
}

static void test_predictions(void)
{
    dpx_tensor batch[3], x;
    dpx_result r;

    for (int replicas = 1; replicas <= 5; replicas++)
        for (int n = 1; n <= OWN_SAMPLES; n += 3) {
            dpx_trainer *t = make_own(replicas, "output:loss");
            const int from = OWN_SAMPLES - n;

            if (!t)
                return;
            take(batch, from, n);
            CHECK_DPX(dpx_test_step(t, batch, 3, &r));
            CU_ASSERT(r.n_outputs == 4 && isfinite(r.loss) && r.samples == n && r.step == 0);
            check_scores(&r, from, n);
            CU_ASSERT(is_output(&r, 1, "box_loss", 2) && is_output(&r, 3, "acc", 0));
            x = batch[1];
            batch[1] = batch[2]; /* x and z: of what is left only the second loss needs z */
            CHECK_DPX(dpx_val_step(t, batch, 2, &r));
            CU_ASSERT(r.n_outputs == 2 && isnan(r.loss) && r.samples == n && r.loss_weight != r.loss_weight);
            check_scores(&r, from, n);
            batch[1] = x;
            CHECK_DPX_FAILS(DPX_INVALID, "input 'z' is missing", dpx_val_step(t, batch, 1, &r));
            dpx_trainer_free(t);
            if (!(t = make_own(replicas, "outputs")))
                return;
            CHECK_DPX(dpx_val_step(t, batch, 1, &r)); /* the first, of x alone */
            CU_ASSERT(r.n_outputs == 1 && isnan(r.loss));
            check_scores(&r, from, n);
            take(batch, 0, OWN_SAMPLES);
            CHECK_DPX(dpx_val_step(t, batch, 3, &r));
            take(batch, from, n); /* and behind a complete batch of another size */
            CHECK_DPX(dpx_val_step(t, batch, 1, &r));
            check_scores(&r, from, n);
            dpx_trainer_free(t);
        }
}

/* Several metrics, each by its number; accuracy and the mean of the classes' F1 follow from the counts of the others.
 */
static void test_several_metrics(void)
{
    static const char *const measured[] = {
        "loss=cross-entropy",      "metric=accuracy", "metric=f1", "metric=per-class",
        "metric=confusion-matrix", "replicas=4",      "threads=1", NULL
    };
    dpx_trainer *t = make_trainer(measured);
    dpx_metric accuracy, f1, rows, counts, first;
    double hits = 0, sum = 0, present = 0;
    dpx_result r;
    Batch b;

    if (!t)
        return;
    make_batch(&b, 3);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_trainer_metric(t, &first));
    CHECK_DPX(dpx_trainer_metric_at(t, 0, &accuracy));
    CHECK_DPX(dpx_trainer_metric_at(t, 1, &f1));
    CHECK_DPX(dpx_trainer_metric_at(t, 2, &rows));
    CHECK_DPX(dpx_trainer_metric_at(t, 3, &counts));
    CU_ASSERT(first.value == accuracy.value && accuracy.measured && !accuracy.bound && !accuracy.table.data);
    CU_ASSERT(rows.table.dtype == DPX_FLOAT64 && rows.table.dim[0] == CLASSES && rows.table.dim[1] == 4);
    CU_ASSERT(counts.table.dtype == DPX_INT64 && counts.table.dim[1] == CLASSES && isnan(counts.value));
    for (int c = 0; c < CLASSES; c++) {
        const double *row = (double *)rows.table.data + (ptrdiff_t)4 * c;
        const int64_t *count = counts.table.data;
        int64_t targets = 0, predictions = 0;

        for (int k = 0; k < CLASSES; k++) {
            targets += count[c * CLASSES + k];
            predictions += count[k * CLASSES + c];
        }
        hits += (double)count[c * CLASSES + c];
        sum += row[2];
        present += targets + predictions > 0;
        CU_ASSERT(row[3] == (double)targets);
    }
    CU_ASSERT(accuracy.value == hits / SAMPLES && fabs(f1.value - sum / present) < 1e-15);
    CHECK_DPX_FAILS(DPX_INVALID, "dpx_trainer_metric_at: metric 4 of 4", dpx_trainer_metric_at(t, 4, &f1));
    CHECK_DPX_FAILS(DPX_INVALID, "dpx_trainer_metric_at: metric -1 of 4", dpx_trainer_metric_at(t, -1, &f1));
    CHECK_DPX(dpx_trainer_train_metric_at(t, 3, &counts));
    CU_ASSERT(!counts.measured);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_trainer_train_metric_at(t, 1, &f1));
    CU_ASSERT(f1.measured && r.counted == SAMPLES);
    dpx_trainer_free(t);
}

static void test_metric_list(void)
{
    dpx_options *o = dpx_options_create();
    dpx_metric_info m;

    CU_ASSERT(o && !dpx_metric_at(o, 0).name);
    CHECK_DPX(dpx_options_set(o, "metric", "perplexity"));
    CHECK_DPX(dpx_options_set(o, "metric", "top-k:3"));
    CHECK_DPX(dpx_options_set(o, "metric", "confusion-matrix"));
    m = dpx_metric_at(o, 0);
    CU_ASSERT(m.name && !strcmp(m.name, "perplexity") && m.falls && m.number);
    m = dpx_metric_at(o, 1);
    CU_ASSERT(m.name && !strcmp(m.name, "top-k:3") && !m.falls && m.number);
    CU_ASSERT(!dpx_metric_at(o, 2).number && !dpx_metric_at(o, 3).name && !dpx_metric_at(o, -1).name);
    CU_ASSERT(!strcmp(dpx_options_get(o, "metric"), "perplexity;top-k:3;confusion-matrix"));
    CHECK_DPX_FAILS(DPX_INVALID, "--metric top-k:3 is given twice", dpx_options_set(o, "metric", "top-k:3"));
    CHECK_DPX_FAILS(DPX_INVALID, "found 'nonsense'", dpx_options_set(o, "metric", "nonsense"));
    CU_ASSERT(dpx_metric_at(o, 2).name && !dpx_metric_at(o, 3).name);
    CHECK_DPX(dpx_options_set(o, "metric", "none"));
    CU_ASSERT(!dpx_metric_at(o, 0).name);
    for (int k = 1; k <= DPX_MAX_METRICS; k++) {
        char text[16];

        snprintf(text, sizeof text, "top-k:%d", k);
        CHECK_DPX(dpx_options_set(o, "metric", text));
    }
    CHECK_DPX_FAILS(DPX_INVALID, "at most 16 metrics are measured", dpx_options_set(o, "metric", "accuracy"));
    dpx_options_free(o);
}

static void test_no_targets(void)
{
    static const char *const measured[] = { "loss=cross-entropy", "metric=accuracy", "replicas=4", "threads=1", NULL };
    dpx_trainer *t = make_trainer(measured);
    dpx_result with, without;
    dpx_metric m;
    dpx_tensor y;
    float logits[SAMPLES * CLASSES];
    Batch b;

    if (!t)
        return;
    make_batch(&b, 3);
    CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    memcpy(logits, y.data, sizeof logits);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &with));
    CU_ASSERT(with.n_outputs == 1 && with.counted == SAMPLES && !memcmp(with.outputs->data, logits, sizeof logits));
    dpx_trainer_restart_metric(t);
    CHECK_DPX(dpx_val_step(t, b.tensor, 1, &without));
    CU_ASSERT(without.n_outputs == 1 && !memcmp(without.outputs->data, logits, sizeof logits));
    CU_ASSERT(isnan(without.loss) && isnan(without.loss_sum) && !without.counted);
    CHECK_DPX(dpx_trainer_metric(t, &m));
    CU_ASSERT(!m.measured);
    CHECK_DPX_FAILS(DPX_INVALID, "input 'target' is missing", dpx_train_step(t, b.tensor, 1, &with));
    CHECK_DPX_FAILS(DPX_INVALID, "is missing", dpx_val_step(t, b.tensor + 1, 1, &with));
    dpx_trainer_free(t);
    if (!(t = make_own(2, NULL))) /* a trainer without a loss predicts too */
        return;
    dpx_tensor batch[3];
    take(batch, 0, 4);
    CHECK_DPX(dpx_val_step(t, batch, 3, &with));
    CU_ASSERT(with.n_outputs == 5 && isnan(with.loss));
    check_scores(&with, 0, 4);
    dpx_trainer_free(t);
}

static void test_order(void)
{
    dpx_trainer *t = make_own(3, "output:loss"), *by_name = make_own(3, "output:loss");
    dpx_tensor batch[4], nameless[4];
    dpx_result r, expected;

    if (!t || !by_name)
        return;
    take(batch, 0, 7);
    memcpy(nameless, batch, sizeof batch);
    for (int i = 0; i < 3; i++)
        nameless[i].name = NULL;
    nameless[3] = nameless[2];
    for (int i = 0; i < 2; i++) {
        CHECK_DPX(dpx_train_step(by_name, batch, 3, &expected));
        CHECK_DPX(dpx_train_step(t, nameless, 3, &r));
        CU_ASSERT(r.loss == expected.loss);
    }
    CHECK_DPX_FAILS(DPX_INVALID, "is of 'x', 'y', 'z', in this order", dpx_train_step(t, nameless, 4, &r));
    nameless[1].name = "y";
    CHECK_DPX_FAILS(DPX_INVALID, "tensor 0 of the batch has no name, and 1 of 3 have: expected all or none",
                    dpx_train_step(t, nameless, 3, &r));
    dpx_trainer_free(t);
    dpx_trainer_free(by_name);
    static const char *const scores[] = { "loss=cross-entropy", "threads=1", NULL };
    Batch b;
    if (!(t = make_trainer(scores)))
        return;
    make_batch(&b, 4);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &expected));
    b.tensor[0].name = b.tensor[1].name = NULL; /* the input, then the target */
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CU_ASSERT(r.loss == expected.loss && r.n_outputs == 1);
    dpx_trainer_free(t);
}

/* ---- log variables: mmengine's ---- */

static void check_log(const dpx_result *r, const double *expected)
{
    CU_ASSERT_FATAL(r->n_log == OWN_LOGS);
    CU_ASSERT(r->log[0].value == r->loss && r->log[0].sum == r->loss_sum);
    for (int i = 0; i < OWN_LOGS; i++) {
        CU_ASSERT_STRING_EQUAL(r->log[i].name, own_names[i]);
        CU_ASSERT(fabs(r->log[i].value - expected[i]) <= 1e-12 * fabs(expected[i]));
        CU_ASSERT(fabs(r->log[i].sum - r->loss_weight * expected[i]) <= 1e-11);
    }
}

/* Batches of 5, 5 and 3 samples; `ahead`: the result is asked for later. */
static void train_own(int replicas, bool ahead)
{
    dpx_trainer *t = make_own(replicas, "outputs");
    const double *expected = own_alone;
    dpx_tensor batch[3];
    dpx_result r;

    for (int epoch = 0; t && epoch < OWN_EPOCHS; epoch++)
        for (int at = 0; at < OWN_SAMPLES; at += OWN_BATCH, expected += OWN_LOGS) {
            take(batch, at, OWN_SAMPLES - at < OWN_BATCH ? OWN_SAMPLES - at : OWN_BATCH);
            CHECK_DPX(dpx_val_step(t, batch, 3, &r)); /* the same numbers, before the update */
            check_log(&r, expected);
            CU_ASSERT(r.n_outputs == 3 && is_output(&r, 0, "scores", 2) && is_output(&r, 1, "Loss_of_size", 0));
            CHECK_DPX(dpx_train_step(t, batch, 3, ahead ? NULL : &r));
            if (ahead)
                CHECK_DPX(dpx_train_result(t, &r));
            check_log(&r, expected);
            CU_ASSERT(!r.outputs && !r.n_outputs);
        }
    dpx_trainer_free(t);
}

/* Of the whole set, by batches that end with a smaller one. */
static void test_log_of_set(void)
{
    for (int replicas = 1; replicas <= 5; replicas += 2) {
        dpx_trainer *t = make_own(replicas, "outputs");
        dpx_tensor batch[3];
        dpx_metric m;
        dpx_result r;

        if (!t)
            return;
        take(batch, 0, 4);
        CHECK_DPX(dpx_val_step(t, batch, 3, &r));
        dpx_trainer_restart_metric(t);
        for (int at = 0; at < OWN_SAMPLES; at += OWN_BATCH) {
            take(batch, at, OWN_SAMPLES - at < OWN_BATCH ? OWN_SAMPLES - at : OWN_BATCH);
            CHECK_DPX(dpx_val_step(t, batch, 3, &r));
        }
        CHECK_DPX(dpx_trainer_metric(t, &m));
        CU_ASSERT(!m.measured && m.n_log == OWN_LOGS);
        for (int i = 0; i < m.n_log; i++)
            CU_ASSERT(!strcmp(m.log[i].name, own_names[i]) &&
                      fabs(m.log[i].value - own_whole[i]) <= 1e-12 * fabs(own_whole[i]));
        dpx_trainer_free(t);
    }
}

static void test_log(void)
{
    for (int replicas = 1; replicas <= 5; replicas++)
        train_own(replicas, replicas % 2);
}

/* Groups of 10 and 3 samples. */
static void test_log_of_groups(void)
{
    for (int replicas = 1; replicas <= 5; replicas++) {
        dpx_trainer *t = make_own_by(replicas, "outputs", "2");
        const double *expected = own_grouped;
        dpx_tensor batch[3];
        dpx_result r;

        for (int step = 0; t && step < 3 * OWN_EPOCHS; step++) {
            const int at = step % 3 * OWN_BATCH, last = step % 3 == 2;

            take(batch, at, last ? OWN_SAMPLES - at : OWN_BATCH);
            CHECK_DPX(dpx_train_step(t, batch, 3, &r));
            if (last)
                CHECK_DPX(dpx_train_flush(t, &r));
            CU_ASSERT(r.updated || !r.n_log);
            if (!r.updated)
                continue;
            check_log(&r, expected);
            expected += OWN_LOGS;
        }
        CU_ASSERT(expected == own_grouped + sizeof own_grouped / sizeof *own_grouped);
        dpx_trainer_free(t);
    }
}

/* Two results that wait keep their own numbers. */
static void test_log_waiting(void)
{
    dpx_trainer *t = make_own(2, "outputs");
    dpx_tensor batch[3];
    dpx_result r;

    if (!t)
        return;
    for (int i = 0; i < 2; i++) {
        take(batch, i * OWN_BATCH, OWN_BATCH);
        CHECK_DPX(dpx_train_step(t, batch, 3, NULL));
    }
    for (int i = 0; i < 2; i++) {
        CHECK_DPX(dpx_train_result(t, &r));
        check_log(&r, own_alone + i * OWN_LOGS);
    }
    dpx_trainer_free(t);
}

/* torch.nn.DataParallel's, of 4 replicas: numbers of a module are gathered as a vector, in order. */
static void test_vectors(void)
{
    static const struct {
        int n, parts;
        const double *values; /* loss, Loss_of_size, acc */
    } cases[] = { { 13, OWN_PARTS_13, own_parts_13 },
                  { 5, OWN_PARTS_5, own_parts_5 },
                  { 3, OWN_PARTS_3, own_parts_3 } };
    static const int number[] = { 1, 3, 4 };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;
    dpx_tensor batch[3], out[5];

    CHECK_DPX(dpx_options_set(o, "compat", "dp"));
    CHECK_DPX(dpx_options_set(o, "replicas", "4"));
    CHECK_DPX(dpx_options_set(o, "devices", "cpu*2"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_model_load(&m, OWN));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    for (int i = 0; t && i < 3; i++) {
        take(batch, 0, cases[i].n);
        CHECK_DPX(dpx_run(t, batch, 3, out, 5));
        CU_ASSERT(out[0].rank == 2 && out[0].dim[0] == cases[i].n && out[2].rank == 2);
        for (int k = 0; k < 3; k++) {
            const dpx_tensor *y = &out[number[k]];

            CU_ASSERT_FATAL(y->rank == 1 && y->dim[0] == cases[i].parts);
            for (int p = 0; p < cases[i].parts; p++)
                CU_ASSERT(fabs(((double *)y->data)[p] - cases[i].values[k * cases[i].parts + p]) <= 1e-12);
        }
    }
    dpx_trainer_free(t);
    CHECK_DPX(dpx_options_set(o, "scalar-outputs", "whole"));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    CHECK_DPX(dpx_run(t, batch, 3, out, 5));
    CU_ASSERT(out[1].rank == 0);
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
}

static void test_no_own_loss(void)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;

    CHECK_DPX(dpx_model_load(&m, MLP));
    CHECK_DPX(dpx_options_set(o, "loss", "outputs"));
    CHECK_DPX_FAILS(DPX_INVALID, "--loss outputs: the name of no output contains 'loss'; the model has 'logits'",
                    dpx_trainer_create(&t, m, o, NULL, NULL));
    CHECK_DPX(dpx_options_set(o, "loss", "output:lost"));
    CHECK_DPX_FAILS(DPX_INVALID, "--loss output:lost: the model has no such output; it has 'logits'",
                    dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
}

DEFINE_SUITE(evaluate, { "predictions", test_predictions }, { "without targets", test_no_targets },
             { "tensors without names", test_order }, { "log variables", test_log }, { "of a set", test_log_of_set },
             { "of groups of batches", test_log_of_groups }, { "of results that wait", test_log_waiting },
             { "vectors of numbers", test_vectors }, { "no loss among the outputs", test_no_own_loss },
             { "several metrics", test_several_metrics }, { "the list of metrics", test_metric_list });
