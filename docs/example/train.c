/* Trains models/mlp.onnx on made-up data through dpexec.h: the data parallelism of two replicas, a checkpoint, a
 * resumed trainer, the trained model, inference.
 *
 *     cc train.c $(pkg-config --cflags --libs dpexec) -o train && ./train mlp.onnx FOLDER
 *
 * The data: ten classes, each a random pattern of 8x8 pixels with noise on top. */
#include <dlpack/dlpack.h>
#include <dpexec.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 50, PIXELS = 64, CLASSES = 10, STEPS = 40 };

typedef struct {
    float pattern[CLASSES][PIXELS];
    float x[BATCH][PIXELS];
    int64_t label[BATCH];
    unsigned seed;
} Data;

static float random_unit(Data *d)
{
    d->seed = d->seed * 1664525u + 1013904223u;
    return (float)(d->seed >> 8) / (1 << 24);
}

static void make_patterns(Data *d)
{
    for (int c = 0; c < CLASSES; c++)
        for (int i = 0; i < PIXELS; i++)
            d->pattern[c][i] = random_unit(d);
}

static void next_batch(Data *d)
{
    for (int n = 0; n < BATCH; n++) {
        d->label[n] = (int64_t)(random_unit(d) * CLASSES);
        for (int i = 0; i < PIXELS; i++)
            d->x[n][i] = d->pattern[d->label[n]][i] + 0.5f * random_unit(d);
    }
}

/* The images come as DLPack, as an array library would hand them over; the labels as a plain view.  Nothing is
 * copied. */
static dpx_status describe_batch(dpx_tensor batch[2], Data *d)
{
    static int64_t shape[2] = { BATCH, PIXELS };
    DLTensor images = {
        .data = d->x, .device = { kDLCPU, 0 }, .ndim = 2, .dtype = { kDLFloat, 32, 1 }, .shape = shape
    };

    batch[1] = (dpx_tensor){ .name = "target", .dtype = DPX_INT64, .rank = 1, .dim = { BATCH }, .data = d->label };
    return dpx_tensor_from_dlpack(&batch[0], "x", &images);
}

static dpx_status print_model(const dpx_model *m)
{
    static const char *const kinds[] = { "input", "output", "state" };
    dpx_info info;

    for (int kind = DPX_INPUT; kind <= DPX_STATE; kind++)
        for (int i = 0; i < dpx_model_count(m, (dpx_kind)kind); i++) {
            if (dpx_model_info(m, (dpx_kind)kind, i, &info))
                return DPX_INTERNAL;
            printf("%s %s: %s[", kinds[kind], info.name, dpx_dtype_name(info.dtype));
            for (int k = 0; k < info.rank; k++)
                if (info.dim[k] < 0)
                    printf("%s%s", k ? "," : "", info.dim_name[k] ? info.dim_name[k] : "?");
                else
                    printf("%s%" PRId64, k ? "," : "", info.dim[k]);
            printf("]%s\n", info.trainable ? ", trained" : "");
        }
    return DPX_OK;
}

static void print_log(void *user, int level, const char *line)
{
    (void)user;
    printf("%s%s\n", level == DPX_LOG_WARNING ? "warning: " : "", line);
}

static dpx_status create_trainer(dpx_trainer **out, const dpx_model *m)
{
    static const char *const settings[][2] = {
        { "loss", "cross-entropy" }, { "metric", "accuracy" }, { "optimizer", "adam" }, { "lr", "0.003" },
        { "devices", "cpu*2" },      { "threads", "1" },       { "batch-size", "50" },
    };
    dpx_options *o = dpx_options_create();
    dpx_status st = o ? DPX_OK : DPX_NOMEM;

    for (size_t i = 0; i < sizeof settings / sizeof *settings && !st; i++)
        st = dpx_options_set(o, settings[i][0], settings[i][1]);
    if (!st)
        st = dpx_trainer_create(out, m, o, print_log, NULL);
    dpx_options_free(o);
    return st;
}

static dpx_status train(dpx_trainer *t, Data *d, int steps)
{
    dpx_tensor batch[2];
    dpx_result r = { 0 };
    dpx_status st = describe_batch(batch, d);

    for (int i = 0; i < steps && !st; i++) {
        next_batch(d);
        st = dpx_train_step(t, batch, 2, &r);
        if (!st && r.step % 10 == 0)
            printf("step %" PRId64 ": loss %.4f\n", r.step, r.loss);
    }
    return st;
}

/* Counts the right answers of the trained model on one new batch. */
static dpx_status infer(dpx_trainer *t, Data *d)
{
    dpx_tensor batch[2], logits;
    dpx_status st = describe_batch(batch, d);
    const float *y;
    int right = 0;

    next_batch(d);
    if (st || (st = dpx_run(t, batch, 1, &logits, 1)))
        return st;
    y = logits.data;
    for (int n = 0; n < BATCH; n++, y += CLASSES) {
        int best = 0;

        for (int c = 1; c < CLASSES; c++)
            if (y[c] > y[best])
                best = c;
        right += best == d->label[n];
    }
    printf("right answers: %d of %d\n", right, BATCH);
    return DPX_OK;
}

static dpx_status run(const char *model, const char *folder, dpx_model **m, dpx_trainer *t[2])
{
    Data data = { .seed = 1 };
    dpx_status st;
    char path[4096];

    make_patterns(&data);
    if ((st = dpx_model_load(m, model)) || (st = print_model(*m)) || (st = create_trainer(&t[0], *m)))
        return st;
    if ((st = train(t[0], &data, STEPS / 2)) || (st = dpx_trainer_save(t[0], folder, NULL)))
        return st;
    if ((st = create_trainer(&t[1], *m)) ||
        (st = dpx_trainer_resume(t[1], folder, NULL))) /* as another process would */
        return st;
    printf("resumed at step %" PRId64 "\n", dpx_trainer_step_count(t[1]));
    if ((st = train(t[1], &data, STEPS / 2)) || (st = infer(t[1], &data)))
        return st;
    snprintf(path, sizeof path, "%s/trained.onnx", folder);
    return dpx_trainer_export(t[1], path);
}

int main(int argc, char **argv)
{
    dpx_model *m = NULL;
    dpx_trainer *t[2] = { NULL, NULL };
    dpx_status st;

    if (argc != 3) {
        fprintf(stderr, "usage: train MODEL.onnx FOLDER\n");
        return 2;
    }
    st = run(argv[1], argv[2], &m, t);
    if (st)
        fprintf(stderr, "train: %s\n", dpx_error());
    dpx_trainer_free(t[0]);
    dpx_trainer_free(t[1]);
    dpx_model_free(m);
    return st ? 1 : 0;
}
