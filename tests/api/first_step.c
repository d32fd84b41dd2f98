/* States before the first step of a trainer whose batch size is open: they are those that the step then has. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"

enum { MOST_SETTINGS = 8 };

/* Models and options whose steps have states of each kind. */
typedef struct {
    const char *model;
    const char *setting[MOST_SETTINGS]; /* NULL ends them */
    const char *batch;                  /* a size that makes the step known at once */
} Case;

static const Case cases[] = {
    { "mlp", { "loss=cross-entropy" }, "6" },
    { "mlp", { "loss=cross-entropy", "optimizer=adamw", "ema=0.9" }, "6" },
    { "mlp", { "loss=cross-entropy", "momentum=0.9", "accumulate=3", "metric=accuracy" }, "6" },
    { "mlp", { "loss=cross-entropy", "optimizer=muon", "replicas=2" }, "6" },
    { "mlp", { "loss=cross-entropy", "freeze=fc1.*", "momentum=0.9" }, "6" },
    { "mlp", { "loss=cross-entropy", "precision=float16", "optimizer=adam" }, "6" },
    { "mlp", { "loss=cross-entropy", "devices=cpu*2", "shard=optimizer", "optimizer=adam" }, "6" },
    { "mlp", { "loss=cross-entropy", "head=5", "optimizer=lamb" }, "6" },
    { "resnet20", { "loss=cross-entropy", "momentum=0.9" }, "4" },
    { "resnet20", { "loss=cross-entropy", "devices=cpu*2", "bn=average", "optimizer=adam" }, "4" },
    { "resnet20", { "loss=cross-entropy", "accumulate=2", "bn=local", "replicas=2" }, "4" },
    { "transformer", { "loss=cross-entropy", "optimizer=adamw" }, "4" },
    { "resnet20", { NULL }, "4" },
};
enum { N_CASES = sizeof cases / sizeof *cases };

static dpx_trainer *open_case(const Case *c, const char *batch)
{
    dpx_options *o = dpx_options_create();
    char path[512];
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", c->model);
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    for (int i = 0; i < MOST_SETTINGS && c->setting[i]; i++) {
        char name[64];
        const char *eq = strchr(c->setting[i], '=');

        snprintf(name, sizeof name, "%.*s", (int)(eq - c->setting[i]), c->setting[i]);
        CHECK_DPX(dpx_options_set(o, name, eq + 1));
    }
    if (batch)
        CHECK_DPX(dpx_options_set(o, "batch-size", batch));
    if (CHECK_DPX(dpx_model_load_within(&m, path, o)))
        CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

/* The value of a state, to free(); *bytes 0: it cannot be read. */
static void *read_state(dpx_trainer *t, const dpx_info *info, size_t *bytes)
{
    dpx_tensor view = { .name = info->name, .dtype = info->dtype, .rank = info->rank };

    *bytes = dpx_dtype_size(info->dtype);
    memcpy(view.dim, info->dim, sizeof view.dim);
    for (int k = 0; k < info->rank; k++)
        *bytes *= (size_t)info->dim[k];
    view.data = calloc(1, *bytes + 1);
    if (!CHECK_DPX(dpx_trainer_get_state(t, info->name, &view)))
        *bytes = 0;
    return view.data;
}

static bool find_info(dpx_trainer *t, const char *name, dpx_info *out)
{
    for (int i = 0; i < dpx_trainer_state_count(t); i++)
        if (CHECK_DPX(dpx_trainer_state_info(t, i, out)) && !strcmp(out->name, name))
            return true;
    return false;
}

static bool is_transient(const char *name)
{
    static const char *const sums[] = { "dpexec.loss_sum", "dpexec.loss_weight", "dpexec.metric_sum",
                                        "dpexec.metric_weight" };
    bool is = strstr(name, ".grad_sum") != NULL;

    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        is |= !strcmp(name, sums[i]);
    return is;
}

/* Has `a` each state of `b`, with its type, shape and bytes? */
static void covers(const Case *c, dpx_trainer *a, dpx_trainer *b)
{
    for (int i = 0; i < dpx_trainer_state_count(b); i++) {
        dpx_info want, have;
        size_t n, m;
        void *x, *y;

        if (!CHECK_DPX(dpx_trainer_state_info(b, i, &want)) || is_transient(want.name))
            continue;
        if (!find_info(a, want.name, &have)) {
            TEST_FAIL("%s %s: there is no '%s'", c->model, c->setting[0], want.name);
            continue;
        }
        CU_ASSERT(have.dtype == want.dtype && have.rank == want.rank && have.trainable == want.trainable &&
                  !memcmp(have.dim, want.dim, sizeof have.dim));
        x = read_state(a, &have, &n);
        y = read_state(b, &want, &m);
        if (!n || n != m || memcmp(x, y, n))
            TEST_FAIL("%s %s: '%s' has another value", c->model, c->setting[0], want.name);
        free(x);
        free(y);
    }
}

/* Before the first step a trainer without a batch size has the states of one with a batch size, whose step was compiled
 * when it was created. */
static void test_same_states(void)
{
    for (int i = 0; i < N_CASES; i++) {
        dpx_trainer *open = open_case(&cases[i], NULL), *known = open_case(&cases[i], cases[i].batch);

        if (open && known) {
            CU_ASSERT(dpx_trainer_state_count(open) > 0);
            covers(&cases[i], open, known);
            covers(&cases[i], known, open);
        }
        dpx_trainer_free(open);
        dpx_trainer_free(known);
    }
}

static double steps(dpx_trainer *t, int n)
{
    dpx_result r = { .loss = -1 };
    Batch b;

    for (int i = 0; i < n; i++) {
        make_batch(&b, (unsigned)i + 7);
        b.tensor[0].dim[0] = b.tensor[1].dim[0] = i % 2 ? SAMPLES : 5;
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    }
    return r.loss;
}

static const Case adam = { "mlp", { "loss=cross-entropy", "optimizer=adam", "lr=0.01" }, "6" };

/* A run saved before its first step, resumed and stepped ends with the bytes of one that was never interrupted. */
static void test_saved(void)
{
    dpx_trainer *t = open_case(&adam, NULL), *u = open_case(&adam, NULL), *plain = open_case(&adam, NULL);
    char folder[256];
    double loss;

    if (!t || !u || !plain)
        return;
    make_folder(folder);
    CHECK_DPX(dpx_trainer_save(t, folder, "begun"));
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    CU_ASSERT_EQUAL(dpx_trainer_state_count(u), dpx_trainer_state_count(t));
    CU_ASSERT(dpx_trainer_state_count(u) > 6);
    loss = steps(plain, 3);
    CU_ASSERT(steps(t, 3) == loss && steps(u, 3) == loss);
    covers(&adam, t, plain);
    covers(&adam, u, plain);
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_trainer_free(plain);
}

/* What is set before the first step is what the step begins with. */
static void test_set(void)
{
    dpx_trainer *t = open_case(&adam, NULL), *u = open_case(&adam, "6");
    int64_t n = 100;
    float bias[CLASSES] = { 1, -1, 2 }, moment[CLASSES] = { 0.5f };
    dpx_tensor step = { .dtype = DPX_INT64, .data = &n },
               b = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES }, .data = bias },
               m = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES }, .data = moment };
    dpx_info info;

    if (!t || !u)
        return;
    CHECK_DPX(dpx_trainer_set_state(t, "fc3.bias", &b));
    CHECK_DPX(dpx_trainer_set_state(t, "fc3.bias.exp_avg", &m));
    CHECK_DPX(dpx_trainer_set_state(t, "dpexec.step", &step));
    CHECK_DPX(dpx_trainer_set_state(u, "fc3.bias", &b));
    CHECK_DPX(dpx_trainer_set_state(u, "fc3.bias.exp_avg", &m));
    CHECK_DPX(dpx_trainer_set_state(u, "dpexec.step", &step));
    CU_ASSERT_EQUAL(steps(t, 2), steps(u, 2));
    covers(&adam, t, u);
    CU_ASSERT(find_info(t, "dpexec.step", &info));
    CHECK_DPX_FAILS(DPX_INVALID, "there is no state 'fc9.bias'", dpx_trainer_set_state(t, "fc9.bias", &b));
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

/* A model of which no size that is tried makes sense says so, and knows its states after a step. */
static void test_unknown(void)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = model_of_text("graph \"g\" {\n"
                                 "  input %x : float32[\"N\"=?,\"W\"=?]\n"
                                 "  const %w : float32[7,2] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}\n"
                                 "  %y = MatMul(%x, %w)\n"
                                 "  output \"y\" = %y\n"
                                 "}\n");
    float x[14] = { 1, 2, 3 };
    int64_t label[2] = { 0, 1 };
    dpx_tensor batch[2] = { { .dtype = DPX_FLOAT32, .rank = 2, .dim = { 2, 7 }, .data = x },
                            { .dtype = DPX_INT64, .rank = 1, .dim = { 2 }, .data = label } };
    char folder[256];
    dpx_trainer *t = NULL;
    dpx_result r;
    dpx_info info;

    CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
    if (!m || !CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL)))
        return;
    make_folder(folder);
    CU_ASSERT_EQUAL(dpx_trainer_state_count(t), 0);
    CHECK_DPX_FAILS(DPX_INVALID, "not known before the first step", dpx_trainer_state_info(t, 0, &info));
    CHECK_DPX_FAILS(DPX_INVALID, "not known before the first step", dpx_trainer_save(t, folder, NULL));
    CHECK_DPX_FAILS(DPX_INVALID, "not known before the first step", dpx_trainer_get_state(t, "w", &batch[0]));
    CHECK_DPX_FAILS(DPX_INVALID, "not known before the first step", dpx_trainer_set_state(t, "w", &batch[0]));
    CHECK_DPX(dpx_train_step(t, batch, 2, &r));
    CU_ASSERT(dpx_trainer_state_count(t) > 0);
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
}

DEFINE_SUITE(first_step, { "the states of a known step", test_same_states }, { "saved before it", test_saved },
             { "set before it", test_set }, { "sizes that nothing suits", test_unknown });
