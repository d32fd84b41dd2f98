/* Graphs around a model, a criterion and preprocessing, against PyTorch (attached.py): 10 steps on 1 to 5 replicas, of
 * which some have no samples, or none that count; what is exported is the model alone. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/api/attached.h"

enum { WIDTH = 6, SIDES = 2, MAX_SETTINGS = 16 };

#define FOLDER SOURCE_DIR "/tests/api/attached_"
#define NET FOLDER "net.onnx"

/* Options "name=value"; NULL ends them. */
static dpx_options *make_options(const char *const *settings)
{
    dpx_options *o = dpx_options_create();

    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    CHECK_DPX(dpx_options_set(o, "lr", "0.2"));
    CHECK_DPX(dpx_options_set(o, "momentum", "0.5"));
    for (; *settings; settings++) {
        char name[32], *eq;

        snprintf(name, sizeof name, "%s", *settings);
        eq = strchr(name, '=');
        *eq = '\0';
        CHECK_DPX(dpx_options_set(o, name, *settings + (eq - name) + 1));
    }
    return o;
}

static dpx_trainer *make(const char *net, int replicas, const char *const *settings)
{
    dpx_options *o = make_options(settings);
    dpx_model *m = NULL;
    dpx_trainer *t = NULL;
    char number[16];

    snprintf(number, sizeof number, "%d", replicas);
    CHECK_DPX(dpx_options_set(o, "replicas", number));
    if (CHECK_DPX(dpx_model_load_within(&m, net, o)))
        CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_model_free(m);
    dpx_options_free(o);
    return t;
}

/* Those of x, image, label, place and target that `names` has, of samples [from, from + n); returns how many. */
static int take(dpx_tensor *batch, const char *const *names, int from, int n)
{
    int count = 0;

    for (; *names; names++) {
        const bool wide = !strcmp(*names, "x") || !strcmp(*names, "image"), bytes = !strcmp(*names, "image"),
                   label = !strcmp(*names, "label");
        const void *data = bytes   ? (const void *)(attached_image + from * WIDTH)
                           : wide  ? (const void *)(attached_x + from * WIDTH)
                           : label ? (const void *)(attached_label + from)
                                   : (const void *)(attached_place + from * SIDES);

        batch[count++] = (dpx_tensor){ .name = *names,
                                       .dtype = bytes   ? DPX_UINT8
                                                : label ? DPX_INT64
                                                        : DPX_FLOAT64,
                                       .rank = label ? 1 : 2,
                                       .dim = { n, wide ? WIDTH : SIDES },
                                       .data = (void *)(uintptr_t)data };
    }
    return count;
}

static int take_step(dpx_tensor *batch, const char *const *names, int step)
{
    const int per = (ATTACHED_SAMPLES + ATTACHED_BATCH - 1) / ATTACHED_BATCH, from = step % per * ATTACHED_BATCH,
              left = ATTACHED_SAMPLES - from;

    return take(batch, names, from, left < ATTACHED_BATCH ? left : ATTACHED_BATCH);
}

/* The parameters, in the order in which they are named. */
static void check_left(dpx_trainer *t, const char *const *names, const double *left)
{
    double found[64];

    for (; *names; names++) {
        dpx_tensor w = { .data = found };
        bool known = false;

        for (int i = 0; i < dpx_trainer_state_count(t); i++) {
            dpx_info info;

            CHECK_DPX(dpx_trainer_state_info(t, i, &info));
            if (strcmp(info.name, *names))
                continue;
            known = true;
            w.dtype = info.dtype;
            w.rank = info.rank;
            memcpy(w.dim, info.dim, sizeof w.dim);
        }
        CU_ASSERT_FATAL(known);
        CHECK_DPX(dpx_trainer_get_state(t, *names, &w));
        for (int64_t i = 0, n = w.dim[0] * (w.rank > 1 ? w.dim[1] : 1); i < n; i++)
            CU_ASSERT(fabs(found[i] - *left++) <= 1e-8);
    }
}

typedef struct {
    const char *net, *settings[MAX_SETTINGS], *batch[6], *states[8];
    const double *losses, *left;
} Case;

static void check_case(const Case *c, int replicas)
{
    dpx_trainer *t = make(c->net, replicas, c->settings);
    dpx_tensor batch[6];
    dpx_result r, before;

    for (int step = 0; t && step < ATTACHED_STEPS; step++) {
        const int n = take_step(batch, c->batch, step);

        CHECK_DPX(dpx_train_step(t, batch, n, &r));
        CU_ASSERT(fabs(r.loss - c->losses[step]) <= 1e-8);
    }
    if (t) {
        check_left(t, c->states, c->left);
        CHECK_DPX(dpx_val_step(t, batch, take_step(batch, c->batch, 0), &before));
        CU_ASSERT(isfinite(before.loss) && before.n_outputs > 0);
        CHECK_DPX(dpx_val_step(t, batch, 1, &before)); /* predictions need no targets */
        CU_ASSERT(isnan(before.loss) && before.n_outputs > 0 && !strcmp(before.outputs[0].name, c->batch[5]));
    }
    dpx_trainer_free(t);
}

#define ALL_STATES                           \
    {                                        \
        "w", "gamma", "beta", "v", "u", NULL \
    }
#define ALL_INPUTS                                  \
    {                                               \
        "x", "label", "place", NULL, NULL, "scores" \
    }

static const Case cases[] = {
    /* whose scalars are float32 */
    { NET,
      { "criterion=" FOLDER "both_old.onnx", "dtype=float64", NULL },
      ALL_INPUTS,
      ALL_STATES,
      attached_both_losses,
      attached_both_left },
    { NET,
      { "criterion=" FOLDER "both_new.onnx", NULL },
      ALL_INPUTS,
      ALL_STATES,
      attached_both_losses,
      attached_both_left },
    /* whose symbols a model that was exported for one sample has not */
    { FOLDER "fixed.onnx",
      { "criterion=" FOLDER "both_old.onnx", "dtype=float64", NULL },
      ALL_INPUTS,
      ALL_STATES,
      attached_both_losses,
      attached_both_left },
    { FOLDER "fixed.onnx",
      { "criterion=" FOLDER "both_new.onnx", "preprocess=" FOLDER "image.onnx", NULL },
      { "image", "label", "place", NULL, NULL, "scores" },
      ALL_STATES,
      attached_both_losses,
      attached_both_left },
    { NET,
      { "criterion=" FOLDER "both_new.onnx", "preprocess=" FOLDER "image.onnx", NULL },
      { "image", "label", "place", NULL, NULL, "scores" },
      ALL_STATES,
      attached_both_losses,
      attached_both_left },
    { NET,
      { "criterion=" FOLDER "several.onnx", "loss=outputs", NULL },
      ALL_INPUTS,
      ALL_STATES,
      attached_several_losses,
      attached_several_left },
    { NET,
      { "criterion=" FOLDER "learned.onnx", NULL },
      { "x", "place", NULL, NULL, NULL, "scores" },
      { "w", "gamma", "beta", "u", "scale", NULL },
      attached_learned_losses,
      attached_learned_left },
    { NET,
      { "criterion=" FOLDER "trained.onnx", NULL },
      { "x", "place", NULL, NULL, NULL, "scores" },
      { "w", "gamma", "beta", "u", "scale", NULL },
      attached_learned_losses,
      attached_learned_left },
    { FOLDER "one.onnx",
      { "criterion=" FOLDER "squares.onnx", NULL },
      { "x", "target", NULL, NULL, NULL, "box" },
      { "w", "gamma", "beta", "u", NULL },
      attached_squares_losses,
      attached_squares_left },
    { FOLDER "one.onnx",
      { "preprocess=" FOLDER "image.onnx", "loss=mse", NULL },
      { "image", "target", NULL, NULL, NULL, "box" },
      { "w", "gamma", "beta", "u", NULL },
      attached_squares_losses,
      attached_squares_left },
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void test_steps(void)
{
    static const int replicas[] = { 1, 2, 3, 5 };

    for (int i = 0; i < N_CASES; i++)
        for (int k = 0; k < 4; k++)
            check_case(&cases[i], replicas[k]);
}

/* ---- what is exported ---- */

static void check_names(const dpx_model *m, dpx_kind kind, const char *const *names)
{
    dpx_info info;
    int n = 0;

    for (; names[n]; n++)
        if (CHECK_DPX(dpx_model_info(m, kind, n, &info)))
            CU_ASSERT_STRING_EQUAL(info.name, names[n]);
    CU_ASSERT(dpx_model_count(m, kind) == n);
}

/* The given model with what was learned: x to scores and box, which are those of the whole on images. */
static void test_export(void)
{
    static const char *const around[] = { "criterion=" FOLDER "both_new.onnx", "preprocess=" FOLDER "image.onnx",
                                          NULL },
                             *const inputs[] = { "image", "label", "place", NULL }, *const alone[] = { "x", NULL },
                             *const outputs[] = { "scores", "box", NULL };
    dpx_trainer *t = make(NET, 3, around), *again = NULL;
    dpx_options *none = dpx_options_create();
    dpx_model *m = NULL;
    dpx_tensor batch[4], x[1], y[2];
    char folder[256], path[300];
    dpx_result r;

    if (!t)
        return;
    make_folder(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    for (int step = 0; step < 3; step++)
        CHECK_DPX(dpx_train_step(t, batch, take_step(batch, inputs, step), &r));
    CHECK_DPX(dpx_trainer_export(t, path));
    CHECK_DPX(dpx_model_load(&m, path));
    check_names(m, DPX_INPUT, alone);
    check_names(m, DPX_OUTPUT, outputs);
    CHECK_DPX(dpx_options_set(none, "threads", "1"));
    CHECK_DPX(dpx_trainer_create(&again, m, none, NULL, NULL));
    take_step(x, alone, 0);
    CHECK_DPX(dpx_run(again, x, 1, y, 2));
    CHECK_DPX(dpx_val_step(t, batch, take_step(batch, inputs, 0), &r));
    CU_ASSERT_FATAL(r.n_outputs == 2);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ATTACHED_BATCH * (int)y[k].dim[1]; i++)
            CU_ASSERT(fabs(((double *)y[k].data)[i] - ((double *)r.outputs[k].data)[i]) <= 1e-12);
    dpx_trainer_free(again);
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(none);
    remove_folder(folder);
}

/* ---- what does not fit ---- */

static void test_refusals(void)
{
    static const struct {
        const char *net, *settings[3], *why;
        dpx_status status;
    } wrong[] = {
        { NET,
          { "criterion=" FOLDER "image.onnx" },
          "no input has the name of an output of the model: its inputs are 'image', the outputs 'scores', 'box'",
          DPX_INVALID },
        { FOLDER "one.onnx",
          { "criterion=" FOLDER "image.onnx" },
          "input 'image' is uint8 [?,6], the model's output 'box' is float64 [?,2]",
          DPX_SHAPE },
        { SOURCE_DIR "/tests/api/own_losses.onnx",
          { "criterion=" FOLDER "both_new.onnx" },
          "input 'scores' is float64 [?,4], the model's output 'scores' is float64 [?,3]",
          DPX_SHAPE },
        { MLP,
          { "criterion=" FOLDER "squares.onnx" },
          "input 'output' is float64 [?,2], the model's output 'logits' is float32 [?,10]",
          DPX_SHAPE },
        { NET,
          { "criterion=" FOLDER "several.onnx" },
          "none of its outputs 'loss_class', 'loss_box' is called loss: give --loss output:NAME",
          DPX_INVALID },
        { NET,
          { "criterion=" FOLDER "both_new.onnx", "loss=mse" },
          "it has the loss: --loss mse does not go with it",
          DPX_INVALID },
        { FOLDER "one.onnx",
          { "criterion=" NET },
          "layers that keep running statistics belong in the model: BatchNormalization",
          DPX_UNSUPPORTED },
        { NET, { "criterion=" FOLDER "nowhere.onnx" }, "--criterion: " FOLDER "nowhere.onnx", DPX_IO },
        { NET,
          { "preprocess=" FOLDER "squares.onnx" },
          "input 'x' is float64 [?,6], its output 'loss' is float64 []",
          DPX_SHAPE },
        { NET,
          { "preprocess=" FOLDER "several.onnx" },
          "its output 'loss_class' is no input of the model, whose inputs are 'x'",
          DPX_INVALID },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dpx_options *o = make_options(wrong[i].settings);
        dpx_model *m = NULL;

        CHECK_DPX_FAILS(wrong[i].status, wrong[i].why, dpx_model_load_within(&m, wrong[i].net, o));
        dpx_options_free(o);
    }
}

static void test_batches_that_differ(void)
{
    static const char *const around[] = { "criterion=" FOLDER "both_new.onnx", NULL }, *const inputs[] = { "x", "label",
                                                                                                           "place",
                                                                                                           NULL };
    dpx_trainer *t = make(NET, 2, around);
    dpx_tensor batch[4];
    dpx_result r;

    take(batch, inputs, 0, 5);
    CHECK_DPX_FAILS(DPX_INVALID, "input 'label' is missing", dpx_train_step(t, batch, 1, &r));
    batch[1].dim[0] = 4;
    CHECK_DPX_FAILS(DPX_SHAPE, "a batch of 5 samples (input 'x'): input 'label' has 4",
                    dpx_train_step(t, batch, 3, &r));
    dpx_trainer_free(t);
}

/* The model knows with which graphs it was loaded. */
static void test_other_options(void)
{
    static const char *const around[] = { "criterion=" FOLDER "both_new.onnx", NULL }, *const none[] = { NULL };
    dpx_options *with = make_options(around), *without = make_options(none);
    dpx_model *m = NULL, *attached = NULL;
    dpx_trainer *t = NULL;

    CHECK_DPX(dpx_model_load(&m, NET));
    CHECK_DPX_FAILS(DPX_INVALID, "the model was loaded with '': load it with dpx_model_load_within",
                    dpx_trainer_create(&t, m, with, NULL, NULL));
    CHECK_DPX(dpx_model_load_within(&attached, NET, with));
    CHECK_DPX_FAILS(DPX_INVALID, "--criterion is '' and the model was loaded with",
                    dpx_trainer_create(&t, attached, without, NULL, NULL));
    dpx_model_free(m);
    dpx_model_free(attached);
    dpx_options_free(with);
    dpx_options_free(without);
}

DEFINE_SUITE(attached, { "steps", test_steps }, { "export", test_export }, { "refusals", test_refusals },
             { "batches that differ", test_batches_that_differ }, { "other options", test_other_options });
