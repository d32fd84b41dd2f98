/* Resuming at any moment of a trainer's life: nothing of a checkpoint is lost, nothing foreign is taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/state/checkpoint.h"
#include "graph/ops/matmul.gen.h"
#include "graph/onnx/importer.h"
#include "tests/api/api.h"

enum { BEFORE = 3, AFTER = 3 };

static const char *const open_adam[] = { "loss=cross-entropy", "optimizer=adam", "lr=0.01", "threads=1", NULL };
static const char *const open_groups[] = { "loss=cross-entropy", "optimizer=adam", "lr=0.01",
                                           "threads=1",          "accumulate=2",   NULL };
static const char *const two_devices[] = { "loss=cross-entropy", "optimizer=adam", "lr=0.01",
                                           "threads=1",          "devices=cpu*2",  NULL };
static const char *const two_gpus[] = { "loss=cross-entropy", "optimizer=adam", "lr=0.01",
                                        "threads=1",          "devices=cuda*2", NULL };
static const char *const open_sgd[] = { "loss=cross-entropy", "lr=0.01", "momentum=0", "threads=1", NULL };
static const char *const open_momentum[] = { "loss=cross-entropy", "lr=0.01", "momentum=0.9", "threads=1", NULL };

/* What the trainer that resumes has done before. */
typedef enum { NOTHING, EVALUATED, RUN, HALF_A_GROUP, WENT_ON } Life;

/* One optimizer step, of `calls` micro-batches. */
static double one_step(dpx_trainer *t, int k, int calls)
{
    dpx_result r = { 0 };
    Batch b;

    for (int i = 0; i < calls; i++) {
        make_batch(&b, (unsigned)(k * calls + i) + 1);
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    }
    return r.loss;
}

static void live(dpx_trainer *t, Life life)
{
    dpx_result r;
    dpx_tensor y;
    Batch b;

    make_batch(&b, 99);
    if (life == EVALUATED)
        CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    if (life == RUN)
        CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1));
    if (life == HALF_A_GROUP || life == WENT_ON)
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
}

/* A run that stops after BEFORE steps and is resumed by a trainer that has lived gives the losses of one that goes
 * on. */
static void go_on(const char *const *settings, int calls, Life life)
{
    dpx_trainer *t = make_trainer(settings), *u = make_trainer(settings);
    char folder[256];

    if (!t || !u)
        return;
    make_folder(folder);
    for (int k = 0; k < BEFORE; k++)
        one_step(t, k, calls);
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    live(u, life);
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    CU_ASSERT_EQUAL(dpx_trainer_step_count(u), BEFORE);
    for (int k = BEFORE; k < BEFORE + AFTER; k++) {
        double expected = one_step(t, k, calls), found = one_step(u, k, calls);

        if (expected != found)
            TEST_FAIL("%s, life %d: step %d: loss %.9g, expected %.9g", settings[1], life, k + 1, found, expected);
    }
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

static void test_go_on(void)
{
    go_on(open_adam, 1, NOTHING);
    go_on(open_adam, 1, EVALUATED);
    go_on(open_adam, 1, RUN);
    go_on(open_adam, 1, WENT_ON);
    go_on(two_devices, 1, NOTHING);
    go_on(two_devices, 1, EVALUATED);
    go_on(open_groups, 2, NOTHING);
    go_on(open_groups, 2, EVALUATED);
    go_on(open_groups, 2, HALF_A_GROUP);
}

/* A trainer goes back to an older checkpoint by its step; checkpoints are verified and removed one by one. */
static void test_one_step(void)
{
    dpx_trainer *t = make_trainer(open_adam), *u = make_trainer(open_adam);
    char folder[256], path[320], *note = NULL;
    double losses[AFTER];
    FILE *state;

    if (!t || !u)
        return;
    make_folder(folder);
    for (int k = 0; k < BEFORE; k++)
        one_step(t, k, 1);
    CHECK_DPX(dpx_trainer_save(t, folder, "older"));
    for (int k = 0; k < AFTER; k++)
        losses[k] = one_step(t, BEFORE + k, 1);
    CHECK_DPX(dpx_trainer_save(t, folder, "newer"));
    CHECK_DPX(dpx_checkpoint_verify(folder, BEFORE + AFTER));
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    CHECK_DPX(dpx_trainer_resume_step(u, folder, BEFORE, &note));
    CU_ASSERT(note && !strcmp(note, "older"));
    free(note);
    CU_ASSERT_EQUAL(dpx_trainer_step_count(u), BEFORE);
    for (int k = 0; k < AFTER; k++)
        CU_ASSERT_EQUAL(one_step(u, BEFORE + k, 1), losses[k]);
    CHECK_DPX_FAILS(DPX_IO, "there is no checkpoint of step 1", dpx_trainer_resume_step(u, folder, 1, NULL));
    snprintf(path, sizeof path, "%s/step-%09d/state.safetensors", folder, BEFORE + AFTER);
    CU_ASSERT_FATAL((state = fopen(path, "r+b")) != NULL);
    CU_ASSERT(!fseek(state, -1, SEEK_END) && fputc(0x55, state) == 0x55 && !fclose(state));
    CHECK_DPX_FAILS(DPX_IO, "is damaged", dpx_checkpoint_verify(folder, BEFORE + AFTER));
    CHECK_DPX(dpx_checkpoint_verify(folder, BEFORE));
    CHECK_DPX(dpx_checkpoint_remove(folder, BEFORE));
    CHECK_DPX(dpx_checkpoint_remove(folder, BEFORE));
    CHECK_DPX_FAILS(DPX_IO, "there is no checkpoint", dpx_checkpoint_verify(folder, BEFORE));
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

static void test_cuda(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", BUILD_DIR "/libdpexec_cudasim.so", 0);
    go_on(two_gpus, 1, NOTHING);
    go_on(two_gpus, 1, EVALUATED);
}

static int read_weight(dpx_trainer *t, float *out)
{
    return CHECK_DPX(dpx_trainer_get_state(
        t, "fc1.weight", &(dpx_tensor){ .dtype = DPX_FLOAT32, .rank = 2, .dim = { 128, PIXELS }, .data = out }));
}

/* What was resumed can be read, set, saved and exported before the first step, and evaluated without the optimizer it
 * came from. */
static void test_before_a_step(void)
{
    static float trained[128 * PIXELS], found[128 * PIXELS];
    dpx_trainer *t = make_trainer(open_adam), *u = make_trainer(open_adam), *v = make_trainer(open_sgd);
    char folder[256], again[256], path[300];
    float bias[CLASSES] = { 1 };
    dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES }, .data = bias };
    dpx_model *m = NULL;
    dpx_result r, q;
    dpx_info info;
    Batch b;

    if (!t || !u || !v)
        return;
    make_folder(folder);
    make_folder(again);
    snprintf(path, sizeof path, "%s/model.onnx", again);
    for (int k = 0; k < BEFORE; k++)
        one_step(t, k, 1);
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    CU_ASSERT_EQUAL(dpx_trainer_state_count(u), dpx_trainer_state_count(t));
    for (int i = 0; i < dpx_trainer_state_count(u); i++) {
        CHECK_DPX(dpx_trainer_state_info(u, i, &info));
        CU_ASSERT_EQUAL(info.trainable, strstr(info.name, "exp_avg") == NULL && !strncmp(info.name, "fc", 2));
    }
    CU_ASSERT(read_weight(t, trained) && read_weight(u, found) && !memcmp(trained, found, sizeof trained));
    CHECK_DPX(dpx_trainer_set_state(t, "fc3.bias", &view));
    CHECK_DPX(dpx_trainer_set_state(u, "fc3.bias", &view));
    CHECK_DPX(dpx_trainer_save(u, again, NULL));
    CHECK_DPX(dpx_trainer_export(u, path));
    CHECK_DPX(dpx_trainer_resume(v, again, NULL));
    make_batch(&b, 5);
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_val_step(v, b.tensor, 2, &q));
    CU_ASSERT_EQUAL(r.loss, q.loss);
    CHECK_DPX(dpx_val_step(u, b.tensor, 2, &q));
    CU_ASSERT_EQUAL(r.loss, q.loss);
    CU_ASSERT_EQUAL(one_step(t, BEFORE, 1), one_step(u, BEFORE, 1));
    dpx_trainer_free(u);
    CHECK_DPX(
        dpx_trainer_resume(u = make_trainer(open_adam), again, NULL)); /* what `v`, without Adam, was given is whole */
    CHECK_DPX(dpx_trainer_save(v, again, NULL));
    CHECK_DPX(dpx_trainer_resume(u, again, NULL));
    CU_ASSERT(dpx_trainer_state_count(u) == dpx_trainer_state_count(t));
    CHECK_DPX(dpx_model_load(&m, path));
    dpx_model_free(m);
    remove_folder(folder);
    remove_folder(again);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_trainer_free(v);
}

/* A trainer of `settings`, after a checkpoint of `saved`, refuses to train, naming `text`; it can resume from its own
 * instead. */
static void refuse(const char *const *saved, const char *const *settings, Life life, const char *text)
{
    dpx_trainer *t = make_trainer(saved), *u = make_trainer(settings), *own = make_trainer(settings);
    char folder[256], right[256];
    dpx_result r;
    Batch b;

    if (!t || !u || !own)
        return;
    make_folder(folder);
    make_folder(right);
    one_step(t, 0, 1);
    one_step(own, 0, 1);
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    CHECK_DPX(dpx_trainer_save(own, right, NULL));
    live(u, life);
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    make_batch(&b, 1);
    for (int i = 0; i < 2; i++)
        CHECK_DPX_FAILS(DPX_IO, text, dpx_train_step(u, b.tensor, 2, &r));
    CHECK_DPX(dpx_trainer_resume(u, right, NULL));
    CU_ASSERT_EQUAL(one_step(u, 1, 1), one_step(own, 1, 1));
    remove_folder(folder);
    remove_folder(right);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_trainer_free(own);
}

static void test_refuse(void)
{
    refuse(open_adam, open_sgd, NOTHING, "'fc1.weight.exp_avg', which this run does not have");
    refuse(open_adam, open_sgd, EVALUATED, "'fc1.weight.exp_avg', which this run does not have");
    refuse(open_sgd, open_momentum, NOTHING, "no 'fc1.weight.momentum'");
    refuse(open_sgd, open_momentum, EVALUATED, "no 'fc1.weight.momentum'");
}

/* Before its first step a run has no moments: none are missed. */
static void test_step_zero(void)
{
    dpx_trainer *t = make_trainer(open_adam), *u = make_trainer(open_adam);
    char folder[256];

    if (!t || !u)
        return;
    make_folder(folder);
    live(t, EVALUATED);
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    CU_ASSERT_EQUAL(one_step(t, 0, 1), one_step(u, 0, 1));
    CU_ASSERT_EQUAL(one_step(t, 1, 1), one_step(u, 1, 1));
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

/* The newest checkpoint of `folder`, written again with a tensor of another shape, which has no more elements; NULL:
 * without the tensor. */
static bool rewrite(const char *folder, const char *name, const Shape *shape)
{
    Arena *a = arena_create();
    NamedTensor *list = NULL;
    Checkpoint c = { 0 };
    int n = 0;
    bool found = false;
    bool ok = a && CHECK_OK(checkpoint_read(&c, a, folder, true, NULL)) && (list = ARENA_NEW(a, NamedTensor, c.n));

    for (int i = 0; i < c.n && ok; i++) {
        const size_t bytes = tensor_bytes(&c.tensor[i].tensor);
        const bool named = !strcmp(c.tensor[i].name, name);

        found |= named;
        if (named && !shape)
            continue;
        list[n] = c.tensor[i];
        ok = (list[n].tensor.data = ARENA_NEW(a, char, bytes + 1)) &&
             CHECK_OK(tensor_file_read(c.file, i, list[n].tensor.data, 0, bytes));
        list[n].tensor.shape = named ? *shape : list[n].tensor.shape;
        n++;
    }
    CU_ASSERT(found);
    ok = ok && CHECK_OK(checkpoint_write(folder, c.step, list, n, NULL, NULL, c.note));
    checkpoint_close(&c); /* whose names the list has */
    arena_free(a);
    return ok;
}

typedef struct {
    int warnings;
    char line[256];
} Heard;

static void hear(void *user, int level, const char *line)
{
    Heard *h = user;

    if (level == DPX_LOG_WARNING) {
        h->warnings++;
        snprintf(h->line, sizeof h->line, "%s", line);
    }
}

/* A checkpoint of a version that kept no axes of samples is taken, and said to be one; a newer one says nothing. */
static void test_no_axes(void)
{
    dpx_trainer *t = make_trainer(open_sgd), *u = NULL;
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    Heard heard = { 0 };
    char folder[256];

    make_folder(folder);
    if (t && CHECK_DPX(dpx_model_load(&m, MLP)) && CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy")) &&
        CHECK_DPX(dpx_options_set(o, "threads", "1")) && CHECK_DPX(dpx_options_set(o, "plain-defaults", "true")) &&
        CHECK_DPX(dpx_trainer_create(&u, m, o, hear, &heard))) {
        one_step(t, 0, 1);
        CHECK_DPX(dpx_trainer_save(t, folder, NULL));
        CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
        CU_ASSERT_EQUAL(heard.warnings, 0);
        if (rewrite(folder, "dpexec.trained_inputs", NULL)) {
            CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
            CU_ASSERT_EQUAL(heard.warnings, 1);
            CU_ASSERT_PTR_NOT_NULL(strstr(heard.line, "does not say along which axes inputs and target had their"));
            CU_ASSERT_EQUAL(one_step(t, 1, 1), one_step(u, 1, 1));
        }
    }
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_options_free(o);
    dpx_model_free(m);
}

/* Sums of a metric are those of a confusion matrix, or not taken; then learning rates that were set stay as well. */
static void test_damaged_sums(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "metric=per-class", "threads=1", NULL };
    const Shape column = SHAPE(CLASSES, 1);
    dpx_trainer *t = make_trainer(settings), *u = make_trainer(settings);
    char folder[256];

    make_folder(folder);
    if (t && u) {
        one_step(t, 0, 1);
        CHECK_DPX(dpx_trainer_save(t, folder, NULL));
        CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
        CHECK_DPX(dpx_trainer_set_lr(u, 0, 0.5));
        if (rewrite(folder, "dpexec.trained_metric:per-class", &column))
            CHECK_DPX_FAILS(DPX_IO, "'dpexec.trained_metric:per-class' is not what training measured",
                            dpx_trainer_resume(u, folder, NULL));
        CU_ASSERT_EQUAL(dpx_trainer_group_lr(u, 0, 2), 0.5);
    }
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

static void write_two_outputs(const char *path)
{
    static float w[2][PIXELS][CLASSES];
    Shape x = { 2, { SAMPLES, PIXELS } }, s = { 2, { PIXELS, CLASSES } };
    Graph *g = graph_create("two");
    ValueId in = graph_add_input(g, "x", DT_FLOAT32, &x);

    x.dim[0] = -1;
    value_set_shape(g, value(g, in), &x);
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "other" : "scores", *weight = k ? "other.weight" : "scores.weight";
        Tensor t = { DT_FLOAT32, s, w[k] };
        ValueId from[2];

        for (int i = 0; i < PIXELS * CLASSES; i++)
            w[k][i / CLASSES][i % CLASSES] = (float)((i * 37 + k) % 101) / 101;
        from[0] = in;
        from[1] = graph_add_const(g, weight, &t);
        graph_add_output(g, name, graph_add_node(g, &op_MatMul, name, NULL, 2, from, 1, &name)->out[0]);
    }
    CHECK_OK(g->status);
    CHECK_OK(onnx_export_file(g, NULL, path));
    graph_free(g);
}

/* A model of two outputs, of which the first is trained: the other's parameters are in no checkpoint of the run, and as
 * they were. */
static void test_other_output(void)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL, *u = NULL;
    char folder[256], two[300];
    dpx_model *m = NULL;
    dpx_result r, q;
    dpx_tensor y[2];
    Batch b;

    make_folder(folder);
    snprintf(two, sizeof two, "%s/two.onnx", folder);
    write_two_outputs(two);
    CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
    CHECK_DPX(dpx_options_set(o, "momentum", "0"));
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    if (!CHECK_DPX(dpx_model_load(&m, two)) || !CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL)) ||
        !CHECK_DPX(dpx_trainer_create(&u, m, o, NULL, NULL)))
        return;
    one_step(t, 0, 1);
    CU_ASSERT_EQUAL(dpx_trainer_state_count(t), 2); /* a weight, the number of steps */
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    CHECK_DPX(dpx_trainer_resume(u, folder, NULL));
    make_batch(&b, 3);
    CHECK_DPX(dpx_run(u, b.tensor, 1, y, 2));
    CHECK_DPX(dpx_val_step(u, b.tensor, 2, &q));
    CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r));
    CU_ASSERT_EQUAL(r.loss, q.loss);
    CU_ASSERT_EQUAL(one_step(t, 1, 1), one_step(u, 1, 1));
    remove_folder(folder);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_model_free(m);
    dpx_options_free(o);
}

enum { IMAGES = 6, SIDE = 28 };

static dpx_result step_of_images(dpx_trainer *t, int seed, bool trains)
{
    static float x[IMAGES * SIDE * SIDE];
    static int64_t label[IMAGES];
    dpx_tensor b[2] = { { "image", DPX_FLOAT32, 4, { IMAGES, 1, SIDE, SIDE }, x },
                        { "target", DPX_INT64, 1, { IMAGES }, label } };
    dpx_result r = { 0 };

    for (int i = 0; i < IMAGES * SIDE * SIDE; i++)
        x[i] = (float)((i * 37 + seed * 101) % 89) / 89;
    for (int i = 0; i < IMAGES; i++)
        label[i] = (i + seed) % 10;
    CHECK_DPX(trains ? dpx_train_step(t, b, 2, &r) : dpx_val_step(t, b, 2, &r));
    return r;
}

/* An epoch's end brings the replicas' running statistics together: those that were resumed, though those before them
 * had been. */
static void test_running_means(void)
{
    static const char *const settings[][2] = {
        { "loss", "cross-entropy" }, { "lr", "0.1" }, { "threads", "1" }, { "devices", "cpu*2" }, { "bn", "average" }
    };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t[3] = { NULL };
    dpx_model *m = NULL;
    char folder[256];

    make_folder(folder);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK_DPX(dpx_options_set(o, settings[i][0], settings[i][1]));
    CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/models/fashion_cnn.onnx"));
    for (int i = 0; i < 3; i++)
        if (!CHECK_DPX(dpx_trainer_create(&t[i], m, o, NULL, NULL)))
            return;
    step_of_images(t[0], 1, true);
    step_of_images(t[0], 2, true);
    CHECK_DPX(dpx_trainer_save(t[0], folder, NULL));
    step_of_images(t[1], 3, true);
    step_of_images(t[1], 4, false);
    CHECK_DPX(dpx_trainer_resume(t[1], folder, NULL));
    CHECK_DPX(dpx_trainer_resume(t[2], folder, NULL));
    for (int i = 1; i < 3; i++) {
        CHECK_DPX(dpx_trainer_end_epoch(t[i]));
        step_of_images(t[i], 5, true);
    }
    CU_ASSERT_EQUAL(step_of_images(t[1], 6, false).loss, step_of_images(t[2], 6, false).loss);
    remove_folder(folder);
    for (int i = 0; i < 3; i++)
        dpx_trainer_free(t[i]);
    dpx_model_free(m);
    dpx_options_free(o);
}

DEFINE_SUITE(resume, { "means of running statistics", test_running_means },
             { "goes on with the same losses", test_go_on }, { "on simulated CUDA devices", test_cuda },
             { "a checkpoint by its step", test_one_step }, { "state before the first step", test_before_a_step },
             { "checkpoints of another run", test_refuse }, { "an output that is not trained", test_other_output },
             { "a checkpoint of step 0", test_step_zero }, { "a checkpoint without axes of samples", test_no_axes },
             { "sums of a metric that are none", test_damaged_sums });
