/* A training loop of one's own in C: gradients gathered over three batches, read and applied, a learning rate that the
 * program chooses, a checkpoint in memory, and a thread that predicts while training goes on.
 *
 *     cc loop.c $(pkg-config --cflags --libs dpexec) -pthread -lm -o loop && ./loop models/mlp.onnx */
#include <dpexec.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 20, PIXELS = 64, CLASSES = 10, STEPS = 40, GATHERED = 3 };

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, dpx_error());
    return 1;
}

/* Class c lights up pixels 6c to 6c + 5. */
static void draw(float x[BATCH][PIXELS], int64_t y[BATCH])
{
    for (int i = 0; i < BATCH; i++) {
        y[i] = rand() % CLASSES;
        for (int k = 0; k < PIXELS; k++)
            x[i][k] = (float)rand() / (float)RAND_MAX + (k / 6 == y[i] ? 1 : 0);
    }
}

/* ---- a server: predicts until it is told to stop ---- */

typedef struct {
    dpx_predictor *predictor;
    atomic_bool stop;
    int asked, right;
} Server;

static void *serve(void *arg)
{
    Server *s = arg;

    while (!atomic_load(&s->stop)) {
        float x[1][PIXELS] = { { 0 } };
        dpx_tensor in = { .name = "x", .dtype = DPX_FLOAT32, .rank = 2, .dim = { 1, PIXELS }, .data = x }, y;
        const int class = s->asked++ % CLASSES;
        dpx_data *out;
        int best = 0;

        for (int k = 0; k < 6; k++)
            x[0][6 * class + k] = 1.5f;
        if (dpx_predict(s->predictor, &in, 1, &out) || dpx_data_view(dpx_data_find(out, "logits"), &y))
            return NULL;
        for (int c = 1; c < CLASSES; c++)
            best = ((float *)y.data)[c] > ((float *)y.data)[best] ? c : best;
        s->right += best == class;
        dpx_data_free(out);
    }
    return NULL;
}

/* ---- a checkpoint in memory ---- */

typedef struct {
    char *bytes;
    size_t n, at;
} Memory;

static dpx_status put(void *user, const void *bytes, size_t n)
{
    Memory *m = user;
    char *grown = realloc(m->bytes, m->n + n);

    if (!grown)
        return DPX_NOMEM;
    m->bytes = grown;
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
    return DPX_OK;
}

static dpx_status get(void *user, void *to, size_t room, size_t *n)
{
    Memory *m = user;

    *n = m->n - m->at < room ? m->n - m->at : room;
    memcpy(to, m->bytes + m->at, *n);
    m->at += *n;
    return DPX_OK;
}

/* ---- training ---- */

/* The rate halves when the gradient of the last layer's bias has become small. */
static int choose_rate(dpx_trainer *t, double *rate)
{
    float g[CLASSES];
    dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES }, .data = g };
    double norm = 0;

    if (dpx_trainer_gradient(t, "fc3.bias", &view))
        return fail("gradient");
    for (int c = 0; c < CLASSES; c++)
        norm += (double)g[c] * g[c];
    if (sqrt(norm) < 0.01 && *rate > 0.05)
        *rate /= 2;
    return dpx_trainer_set_lr(t, 0, *rate) ? fail("rate") : 0;
}

static int train(dpx_trainer *t, Server *s)
{
    float x[BATCH][PIXELS];
    int64_t y[BATCH];
    dpx_tensor batch[] = {
        { .name = "x", .dtype = DPX_FLOAT32, .rank = 2, .dim = { BATCH, PIXELS }, .data = x },
        { .name = "target", .dtype = DPX_INT64, .rank = 1, .dim = { BATCH }, .data = y },
    };
    double rate = 0.2;
    dpx_result r;

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < GATHERED; i++) {
            draw(x, y);
            if (dpx_train_backward(t, batch, 2, &r))
                return fail("backward");
        }
        if (choose_rate(t, &rate))
            return 1;
        if (dpx_train_update(t, &r) || dpx_predictor_take(s->predictor, t))
            return fail("update");
        if (step % 10 == 9)
            printf("step %lld: loss %.4f, learning rate %g\n", (long long)r.step, r.loss, r.lr);
    }
    return 0;
}

static int run(dpx_trainer *t, dpx_trainer *copy)
{
    Server s = { .predictor = NULL };
    Memory m = { .bytes = NULL };
    pthread_t thread;
    int failed;

    if (dpx_predictor_create(&s.predictor, NULL, t, NULL))
        return fail("predictor");
    if (pthread_create(&thread, NULL, serve, &s))
        return 1;
    failed = train(t, &s);
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    dpx_predictor_free(s.predictor);
    if (!failed && (dpx_trainer_save_to(t, put, &m, NULL) || dpx_trainer_load_from(copy, get, &m, NULL)))
        failed = fail("checkpoint");
    if (!failed)
        printf("the copy is at step %lld; predictions were asked for: %s\n", (long long)dpx_trainer_step_count(copy),
               s.asked > 0 ? "yes" : "no");
    free(m.bytes);
    return failed;
}

int main(int argc, char **argv)
{
    dpx_options *o = dpx_options_create();
    dpx_model *model = NULL;
    dpx_trainer *t = NULL, *copy = NULL;
    int failed = argc != 2;

    if (failed)
        fprintf(stderr, "usage: %s mlp.onnx\n", argv[0]);
    else if (dpx_model_load(&model, argv[1]) || dpx_options_set(o, "loss", "cross-entropy") ||
             dpx_options_set(o, "momentum", "0.9") || dpx_trainer_create(&t, model, o, NULL, NULL) ||
             dpx_trainer_create(&copy, model, o, NULL, NULL))
        failed = fail("begin");
    else
        failed = run(t, copy);
    dpx_trainer_free(t);
    dpx_trainer_free(copy);
    dpx_model_free(model);
    dpx_options_free(o);
    return failed;
}
