/* A program that trains while it serves: a training loop of its own that gathers gradients over three batches, reads
 * them, chooses the learning rate and skips a batch that is refused; a thread that predicts with the newest weights; a
 * checkpoint in memory.
 *
 *     cc app.c $(pkg-config --cflags --libs dpexec) -pthread -lm -o app && ./app models/mlp.onnx */
#include <dpexec.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 20, PIXELS = 64, CLASSES = 10, STEPS = 40, GATHERED = 3 };

/* Reports a failed call.  The message is this thread's, until its next failure. */
static int failed(const char *what, dpx_status status)
{
    fprintf(stderr, "%s: %s: %s\n", what, dpx_status_name(status), dpx_error());
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
    int asked;
    bool failed;
} Server;

static dpx_status predict(dpx_predictor *p, float x[1][PIXELS], int *class)
{
    const dpx_tensor in = { .name = "x", .dtype = DPX_FLOAT32, .rank = 2, .dim = { 1, PIXELS }, .data = x };
    dpx_data *out = NULL;
    dpx_tensor y;
    dpx_status st = dpx_predict(p, &in, 1, &out);

    if (!st)
        st = dpx_data_view(dpx_data_find(out, "logits"), &y);
    *class = 0;
    for (int c = 1; !st && c < CLASSES; c++)
        if (((float *)y.data)[c] > ((float *)y.data)[*class])
            *class = c;
    dpx_data_free(out);
    return st;
}

static void *serve(void *arg)
{
    Server *s = arg;

    while (!atomic_load(&s->stop) && !s->failed) {
        float x[1][PIXELS] = { { 0 } };
        int class;
        dpx_status st;

        for (int k = 0; k < 6; k++)
            x[0][6 * (s->asked % CLASSES) + k] = 1.5f;
        if ((st = predict(s->predictor, x, &class)))
            s->failed = failed("predict", st);
        s->asked++;
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
static dpx_status choose_rate(dpx_trainer *t, double *rate)
{
    float g[CLASSES];
    const dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES }, .data = g };
    dpx_status st = dpx_trainer_gradient(t, "fc3.bias", &view);
    double squares = 0;

    for (int c = 0; !st && c < CLASSES; c++)
        squares += (double)g[c] * g[c];
    if (!st && sqrt(squares) < 0.01 && *rate > 0.05)
        *rate /= 2;
    return st ? st : dpx_trainer_set_lr(t, 0, *rate);
}

/* Adds the gradients of a batch.  One that is refused is skipped: the trainer is as before the call. */
static dpx_status gather(dpx_trainer *t, const dpx_tensor batch[2])
{
    dpx_result r;
    dpx_status st = dpx_train_backward(t, batch, 2, &r);

    if (st != DPX_INVALID && st != DPX_SHAPE)
        return st;
    printf("skipped a batch: %s: %s\n", dpx_status_name(st), dpx_error());
    return DPX_OK;
}

static int train(dpx_trainer *t, dpx_predictor *server)
{
    float x[BATCH][PIXELS];
    int64_t y[BATCH];
    const dpx_tensor batch[] = {
        { .name = "x", .dtype = DPX_FLOAT32, .rank = 2, .dim = { BATCH, PIXELS }, .data = x },
        { .name = "target", .dtype = DPX_INT64, .rank = 1, .dim = { BATCH }, .data = y },
    };
    double rate = 0.2;
    dpx_result r;
    dpx_status st = DPX_OK;

    for (int step = 0; step < STEPS && !st; step++) {
        for (int i = 0; i < GATHERED && !st; i++) {
            draw(x, y);
            if (step == 5 && i == 1)
                y[0] = CLASSES; /* there is no such class */
            st = gather(t, batch);
        }
        if (st || (st = choose_rate(t, &rate)) || (st = dpx_train_update(t, &r)) ||
            (st = dpx_predictor_take(server, t)))
            break;
        if (step % 10 == 9)
            printf("step %lld: loss %.4f, learning rate %g\n", (long long)r.step, r.loss, r.lr);
    }
    return st ? failed("train", st) : 0;
}

/* Trains `t` while another thread predicts, and hands its state to `copy`. */
static int run(dpx_trainer *t, dpx_trainer *copy)
{
    Server s = { .predictor = NULL };
    Memory m = { .bytes = NULL };
    pthread_t thread;
    dpx_status st;
    int bad;

    if ((st = dpx_predictor_create(&s.predictor, NULL, t, NULL)))
        return failed("predictor", st);
    if ((bad = pthread_create(&thread, NULL, serve, &s)))
        fprintf(stderr, "thread: %s\n", strerror(bad));
    else {
        bad = train(t, s.predictor);
        atomic_store(&s.stop, true);
        pthread_join(thread, NULL);
        bad |= s.failed;
    }
    dpx_predictor_free(s.predictor);
    if (!bad && ((st = dpx_trainer_save_to(t, put, &m, NULL)) || (st = dpx_trainer_load_from(copy, get, &m, NULL))))
        bad = failed("checkpoint", st);
    if (!bad)
        printf("the copy is at step %lld; predictions were asked for: %s\n", (long long)dpx_trainer_step_count(copy),
               s.asked > 0 ? "yes" : "no");
    free(m.bytes);
    return bad;
}

int main(int argc, char **argv)
{
    dpx_options *o = dpx_options_create();
    dpx_model *model = NULL;
    dpx_trainer *t = NULL, *copy = NULL;
    dpx_status st = DPX_OK;
    int bad = argc != 2;

    if (bad)
        fprintf(stderr, "usage: %s mlp.onnx\n", argv[0]);
    else if ((st = dpx_model_load(&model, argv[1])) || (st = dpx_options_set(o, "loss", "cross-entropy")) ||
             (st = dpx_options_set(o, "momentum", "0.9")) || (st = dpx_trainer_create(&t, model, o, NULL, NULL)) ||
             (st = dpx_trainer_create(&copy, model, o, NULL, NULL)))
        bad = failed(argv[1], st);
    else
        bad = run(t, copy);
    dpx_trainer_free(t);
    dpx_trainer_free(copy);
    dpx_model_free(model);
    dpx_options_free(o);
    return bad;
}
