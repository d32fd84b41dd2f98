/* Steps in pieces in a world, whose processes are threads of this one: the bytes are those of one process with all the
 * devices, and all read the same gradient. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"
#include "tests/harness/port.h"

enum { RANKS = 2, WEIGHTS = 128 * 64 };

typedef struct {
    int rank;
    const char *devices, *rendezvous; /* rendezvous NULL: alone */
    char message[512];
    float weight[WEIGHTS], gradient[WEIGHTS];
    double lr, loss;
    int refused; /* calls that went as they should in refuse() */
} Process;

static dpx_status read(dpx_trainer *t, Process *p, bool gradient)
{
    dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 2, .dim = { 128, 64 } };

    view.data = gradient ? p->gradient : p->weight;
    return gradient ? dpx_trainer_gradient(t, "fc1.weight", &view) : dpx_trainer_get_state(t, "fc1.weight", &view);
}

static bool says(dpx_status st, dpx_status expected, const char *text)
{
    return st == expected && strstr(dpx_error(), text);
}

/* With a predictor whose 'fc1.weight' has another shape. */
static dpx_status take_other(dpx_trainer *t, bool fits)
{
    dpx_model *m = model_of_text("graph \"g\" {\n"
                                 "  input %x : float32[2,7]\n"
                                 "  const %fc1.weight : float32[7,2] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}\n"
                                 "  %y = MatMul(%x, %fc1.weight)\n"
                                 "  output \"y\" = %y\n"
                                 "}\n");
    dpx_options *o = dpx_options_create();
    dpx_predictor *p = NULL;
    dpx_status st = dpx_predictor_create(&p, fits ? NULL : m, fits ? t : NULL, fits ? NULL : o);

    if (!st && !fits)
        st = dpx_predictor_take(p, t);
    dpx_predictor_free(p);
    dpx_options_free(o);
    dpx_model_free(m);
    return st;
}

/* Calls of all processes that one of them cannot make: they fail everywhere at once, and the world goes on. */
static void refuse(dpx_trainer *t, Process *p)
{
    float bias[CLASSES];
    const dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES - p->rank }, .data = bias };
    dpx_status st;

    st = dpx_trainer_gradient(t, "fc3.bias", &view);
    p->refused += says(st, DPX_SHAPE, p->rank ? "given float32[9]" : "rank 1 cannot go on");
    st = take_other(t, p->rank == 1);
    p->refused += says(st, DPX_SHAPE, p->rank ? "rank 0 cannot go on" : "another shape");
    p->refused += !take_other(t, true);
}

/* Two groups; before the second, rank 0's learning rate goes to all. */
static dpx_status train(dpx_trainer *t, Process *p)
{
    dpx_status st = DPX_OK;
    dpx_result r;
    Batch b;

    for (int i = 0; i < 4 && !st; i++) {
        make_batch(&b, (unsigned)i + 1);
        b.tensor[0].dim[0] = b.tensor[1].dim[0] = i ? 3 : 5;
        st = dpx_train_backward(t, b.tensor, 2, &r);
        if (i % 2 == 0 || st)
            continue;
        if (p->rendezvous)
            refuse(t, p);
        st = read(t, p, true);
        if (!st)
            st = dpx_train_update(t, &r);
        p->loss = r.loss;
        if (!st)
            st = dpx_trainer_set_lr(t, 0, p->rank ? 7 : 0.25);
    }
    if (!st)
        st = dpx_train_backward(t, b.tensor, 2, &r);
    if (!st)
        st = dpx_train_reset(t);
    p->lr = dpx_trainer_group_lr(t, 0, 1);
    return st ? st : read(t, p, false);
}

static void *run(void *arg)
{
    Process *p = arg;
    const dpx_world_options how = { .size = RANKS, .rank = p->rank, .rendezvous = p->rendezvous, .timeout = 20 };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_world *w = NULL;
    dpx_model *m = NULL;

    if (dpx_model_load(&m, MLP) || (p->rendezvous && dpx_world_join(&w, &how)) ||
        dpx_options_set(o, "loss", "cross-entropy") || dpx_options_set(o, "momentum", "0.9") ||
        dpx_options_set(o, "threads", "1") || dpx_options_set(o, "devices", p->devices))
        snprintf(p->message, sizeof p->message, "%s", dpx_error());
    dpx_options_set_world(o, w);
    if (!*p->message && (dpx_trainer_create(&t, m, o, NULL, NULL) || train(t, p)))
        snprintf(p->message, sizeof p->message, "%s", dpx_error());
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_world_leave(w);
    return NULL;
}

static void test_bytes(void)
{
    static Process alone = { .devices = "cpu*2" }, p[RANKS];
    char rendezvous[32];
    pthread_t thread[RANKS];

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", free_port());
    for (int r = 0; r < RANKS; r++) {
        p[r] = (Process){ .rank = r, .devices = "cpu", .rendezvous = rendezvous };
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &p[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    run(&alone);
    CU_ASSERT(!*alone.message && alone.lr == 0.25 && alone.gradient[0] != 0);
    for (int r = 0; r < RANKS; r++) {
        if (*p[r].message)
            TEST_FAIL("rank %d: %s", r, p[r].message);
        CU_ASSERT_EQUAL(p[r].refused, 2 * 3);
        CU_ASSERT(p[r].lr == 0.25 && p[r].loss == alone.loss);
        CU_ASSERT(!memcmp(p[r].weight, alone.weight, sizeof alone.weight));
        CU_ASSERT(!memcmp(p[r].gradient, alone.gradient, sizeof alone.gradient));
    }
}

DEFINE_SUITE(world_pieces, { "bytes of one process", test_bytes });
