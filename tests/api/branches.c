/* An If or a Loop that data decide, as dataflow: its training is PyTorch's, whoever computes it, and what cannot be
 * planned is refused by name. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/branches.h"

enum { WEIGHTS = 128, PARAMETERS = 6 }; /* at most */

static const struct {
    const char *name, *parameter[PARAMETERS];
    const float *loss, *weights;
    int n_weights;
} trained[] = { { "pick",
                  { "a.weight", "a.table", "a.scale", "a.shift", "b.weight", "out.weight" },
                  branches_pick_loss,
                  branches_pick_weights,
                  sizeof branches_pick_weights / sizeof(float) },
                { "loop",
                  { "step.weight", "step.bias", "head.weight" },
                  branches_loop_loss,
                  branches_loop_weights,
                  sizeof branches_loop_weights / sizeof(float) } };

/* `settings`: name, value, ...; ends with NULL. */
static dpx_status open_trainer(dpx_trainer **t, const char *path, const char *const *settings)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    dpx_status st;

    *t = NULL;
    for (; *settings; settings += 2)
        CHECK_DPX(dpx_options_set(o, settings[0], settings[1]));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "loss", "mse"));
    if (!(st = dpx_model_load(&m, path)))
        st = dpx_trainer_create(t, m, o, NULL, NULL);
    dpx_model_free(m);
    dpx_options_free(o);
    return st;
}

static dpx_status train_step(dpx_trainer *t, int k, float *loss)
{
    const dpx_tensor batch[2] = {
        { "x", DPX_FLOAT32, 2, { BATCH, WIDTH }, (void *)(uintptr_t)(branches_x + k * BATCH * WIDTH) },
        { "target", DPX_FLOAT32, 2, { BATCH, OUT }, (void *)(uintptr_t)(branches_target + k * BATCH * OUT) }
    };
    dpx_result r = { 0 };
    const dpx_status st = dpx_train_step(t, batch, 2, &r);

    *loss = (float)r.loss;
    return st;
}

static void read_weights(dpx_trainer *t, int m, float *out)
{
    for (int i = 0; i < PARAMETERS && trained[m].parameter[i]; i++) {
        const char *name = trained[m].parameter[i];
        dpx_tensor to = { .dtype = DPX_FLOAT32, .data = out };
        dpx_info info = { 0 };
        int n = 1;

        for (int k = 0; k < dpx_trainer_state_count(t) && (!info.name || strcmp(info.name, name)); k++)
            CHECK_DPX(dpx_trainer_state_info(t, k, &info));
        to.rank = info.rank;
        memcpy(to.dim, info.dim, sizeof info.dim);
        if (!CHECK_DPX(dpx_trainer_get_state(t, name, &to)))
            return;
        for (int a = 0; a < info.rank; a++)
            n *= (int)info.dim[a];
        out += n;
    }
}

static void train(int m, float *weights, const char *replicas, const char *devices)
{
    const char *const settings[] = { "optimizer", "sgd",    "momentum", "0",     "lr", "0.1",
                                     "replicas",  replicas, "devices",  devices, NULL };
    char path[512];
    dpx_trainer *t;

    snprintf(path, sizeof path, SOURCE_DIR "/tests/api/branches_%s.onnx", trained[m].name);
    if (!CHECK_DPX(open_trainer(&t, path, settings)))
        return;
    for (int k = 0; k < STEPS; k++) {
        float loss;

        if (CHECK_DPX(train_step(t, k, &loss)) && !(fabsf(loss - trained[m].loss[k]) <= 2e-6F * (1 + loss)))
            TEST_FAIL("%s, %s replicas, step %d: loss %.8g, expected %.8g", trained[m].name, replicas, k, (double)loss,
                      (double)trained[m].loss[k]);
    }
    read_weights(t, m, weights);
    for (int i = 0; i < trained[m].n_weights; i++)
        if (!(fabsf(weights[i] - trained[m].weights[i]) <= 2e-6F))
            TEST_FAIL("%s, %s replicas: weight %d is %.8g, expected %.8g", trained[m].name, replicas, i,
                      (double)weights[i], (double)trained[m].weights[i]);
    dpx_trainer_free(t);
}

/* The condition is the whole batch's: of its parts some would decide otherwise.  Which devices compute them makes no
 * difference to a bit. */
static void test_training(void)
{
    for (size_t m = 0; m < sizeof trained / sizeof *trained; m++) {
        float one[WEIGHTS] = { 0 }, three[WEIGHTS] = { 0 }, apart[WEIGHTS] = { 0 };

        train((int)m, one, "1", "cpu:0");
        train((int)m, three, "3", "cpu:0");
        train((int)m, apart, "3", "cpu*3");
        CU_ASSERT(!memcmp(three, apart, sizeof three));
    }
}

static void run_sizes(dpx_trainer *t)
{
    static const float *const want[] = { [1] = branches_sized_1, [3] = branches_sized_3 };

    for (int n = 3; n > 0; n -= 2) {
        dpx_tensor x = { "x", DPX_FLOAT32, 2, { n, WIDTH }, (void *)(uintptr_t)branches_x }, y = { 0 };

        if (!CHECK_DPX(dpx_run(t, &x, 1, &y, 1)))
            continue;
        CU_ASSERT_FATAL(y.rank == 2 && y.dim[0] == n && y.dim[1] == OUT);
        for (int i = 0; i < n * OUT; i++)
            CU_ASSERT_DOUBLE_EQUAL(((const float *)y.data)[i], want[n][i], 1e-6);
    }
}

/* Where the batch's size decides, each size has its branch, and may have no other; of the exported model as well. */
static void test_by_size(void)
{
    const char *const settings[] = { "replicas", "2", NULL };
    char folder[256], path[512];
    dpx_trainer *t, *u = NULL;

    make_folder(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (CHECK_DPX(open_trainer(&t, SOURCE_DIR "/tests/api/branches_sized.onnx", settings))) {
        run_sizes(t);
        if (CHECK_DPX(dpx_trainer_export(t, path)) && CHECK_DPX(open_trainer(&u, path, settings)))
            run_sizes(u);
    }
    dpx_trainer_free(u);
    dpx_trainer_free(t);
    remove_folder(folder);
}

static void test_refused(void)
{
    static const struct {
        const char *model, *freeze, *said;
    } cases[] = {
        { "unlike", "none",
          "output 'y': training needs shapes that are known before the step; these depend on data: Choose pick (output "
          "'v')" },
        { "norm", "none",
          "BatchNormalization pick/bn (output 'pick/u'): its branch depends on data, so its running statistics "
          "would miss "
          "batches: --freeze pick/bn keeps them" },
        { "norm", "pick/bn", NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const settings[] = { "freeze", cases[i].freeze, NULL };
        char path[512];
        dpx_trainer *t;
        float loss;

        snprintf(path, sizeof path, SOURCE_DIR "/tests/api/branches_%s.onnx", cases[i].model);
        if (!CHECK_DPX(open_trainer(&t, path, settings + 2 * !strcmp(cases[i].freeze, "none"))))
            continue;
        if (cases[i].said)
            CHECK_DPX_FAILS(DPX_UNSUPPORTED, cases[i].said, train_step(t, 0, &loss));
        else
            CHECK_DPX(train_step(t, 0, &loss));
        dpx_trainer_free(t);
    }
}

/* What is exported has the choice as well, as an If, and goes on from where it was. */
static void test_export(void)
{
    const char *const settings[] = { "optimizer", "sgd", "momentum", "0", "lr", "0.1", NULL };
    char folder[256], path[512];
    dpx_trainer *t, *u = NULL;
    float loss, again;

    make_folder(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (CHECK_DPX(open_trainer(&t, SOURCE_DIR "/tests/api/branches_pick.onnx", settings)) &&
        CHECK_DPX(train_step(t, 0, &loss)) && CHECK_DPX(dpx_trainer_export(t, path)) &&
        CHECK_DPX(open_trainer(&u, path, settings)) && CHECK_DPX(train_step(t, 1, &loss)) &&
        CHECK_DPX(train_step(u, 1, &again)))
        CU_ASSERT_EQUAL(loss, again);
    dpx_trainer_free(u);
    dpx_trainer_free(t);
    remove_folder(folder);
}

/* `rate` NULL: x alone. */
static dpx_data *rate_inputs(dpx_tensor *x, int64_t *rate)
{
    const dpx_tensor r = { "rate", DPX_INT64, 0, { 0 }, rate };
    dpx_data *part[2] = { NULL }, *all = NULL;

    CHECK_DPX(dpx_data_tensor(&part[0], x));
    if (rate)
        CHECK_DPX(dpx_data_tensor(&part[1], &r));
    CHECK_DPX(dpx_data_map(&all, (const char *const[]){ "x", "rate" }, (const dpx_data *const *)part, rate ? 2 : 1));
    dpx_data_free(part[0]);
    dpx_data_free(part[1]);
    return all;
}

/* The model with the rate as a constant has one branch, and a plan. */
static void test_rate_given(void)
{
    static const char *const path = SOURCE_DIR "/tests/api/branches_rates.onnx";
    static const float *const want[] = { branches_rate_8, branches_rate_16 };

    for (int k = 0; k < 2; k++) {
        dpx_tensor x = { "x", DPX_FLOAT32, 2, { 1, k ? WIDTH + 2 : WIDTH }, (void *)(uintptr_t)branches_x }, y = { 0 };
        dpx_options *o = dpx_options_create(), *other = dpx_options_create();
        dpx_data *in = rate_inputs(&x, NULL), *out = NULL;
        dpx_model *m = NULL;
        dpx_trainer *t = NULL;
        dpx_predictor *p = NULL;

        CHECK_DPX(dpx_options_set(o, "input-value", k ? "rate=16" : "rate=8"));
        CHECK_DPX(dpx_options_set(o, "threads", "1"));
        CHECK_DPX(dpx_options_set(other, "input-value", "rate=9"));
        CHECK_DPX_FAILS(DPX_INVALID, "input 'rate' has a value already", dpx_options_set(o, "input-value", "rate=9"));
        if (CHECK_DPX(dpx_model_load_within(&m, path, o)) && CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL)) &&
            CHECK_DPX(dpx_run(t, &x, 1, &y, 1))) {
            CU_ASSERT(dpx_model_count(m, DPX_INPUT) == 1);
            for (int i = 0; i < OUT; i++)
                CU_ASSERT_DOUBLE_EQUAL(((const float *)y.data)[i], want[k][i], 1e-6);
        }
        dpx_trainer_free(t);
        t = NULL;
        /* Calls without options know what the model was loaded with. */
        if (m && CHECK_DPX(dpx_data_parallel(&t, m, &x, 1, "cpu", 0, 0, &y, 1)))
            for (int i = 0; i < OUT; i++)
                CU_ASSERT_DOUBLE_EQUAL(((const float *)y.data)[i], want[k][i], 1e-6);
        dpx_trainer_free(t);
        t = NULL;
        if (m && CHECK_DPX(dpx_predictor_create(&p, m, NULL, NULL)) && CHECK_DPX(dpx_predict(p, &x, 1, &out)) &&
            CHECK_DPX(dpx_data_view(dpx_data_at(out, 0), &y)))
            for (int i = 0; i < OUT; i++)
                CU_ASSERT_DOUBLE_EQUAL(((const float *)y.data)[i], want[k][i], 1e-6);
        dpx_predictor_free(p);
        dpx_data_free(out);
        out = NULL;
        if (CHECK_DPX(dpx_interpret(&out, path, o, in)) && CHECK_DPX(dpx_data_view(dpx_data_at(out, 0), &y)))
            for (int i = 0; i < OUT; i++)
                CU_ASSERT_DOUBLE_EQUAL(((const float *)y.data)[i], want[k][i], 1e-6);
        dpx_data_free(in);
        dpx_data_free(out);
        if (m)
            CHECK_DPX_FAILS(DPX_INVALID, "--input-value is 'rate=9' and the model was loaded with 'rate=",
                            dpx_trainer_create(&t, m, other, NULL, NULL));
        dpx_model_free(m);
        dpx_options_free(o);
        dpx_options_free(other);
    }
}

/* Each branch is one of a length alone, so that no plan holds both; interpreted, the one that is taken is what counts.
 */
static void test_rates(void)
{
    static const float *const want[] = { branches_rate_8, branches_rate_16 };
    dpx_options *o = dpx_options_create();

    for (int k = 0; k < 2; k++) {
        int64_t rate = k ? 16 : 8;
        dpx_tensor x = { "x", DPX_FLOAT32, 2, { 1, k ? WIDTH + 2 : WIDTH }, (void *)(uintptr_t)branches_x }, y = { 0 };
        const dpx_tensor both[2] = { x, { "rate", DPX_INT64, 0, { 0 }, &rate } };
        dpx_data *in = rate_inputs(&x, &rate), *out = NULL;
        dpx_trainer *t;

        if (CHECK_DPX(open_trainer(&t, SOURCE_DIR "/tests/api/branches_rates.onnx", (const char *const[]){ NULL })))
            CHECK_DPX_FAILS(
                DPX_UNSUPPORTED,
                "data decides which branch is taken, and one of the branches does not fit these sizes (if 'rate' "
                "decides, --input-value gives it one number for the whole run): MatMul",
                dpx_run(t, both, 2, &y, 1));
        dpx_trainer_free(t);
        if (CHECK_DPX(dpx_interpret(&out, SOURCE_DIR "/tests/api/branches_rates.onnx", o, in)) &&
            CHECK_DPX(dpx_data_view(dpx_data_at(out, 0), &y)))
            for (int i = 0; i < OUT; i++)
                CU_ASSERT_DOUBLE_EQUAL(((const float *)y.data)[i], want[k][i], 1e-6);
        dpx_data_free(in);
        dpx_data_free(out);
    }
    dpx_options_free(o);
}

DEFINE_SUITE(branches, { "by a rate", test_rates }, { "by a rate that is given", test_rate_given },
             { "trained", test_training }, { "by the batch's size", test_by_size }, { "refused", test_refused },
             { "exported", test_export });
