/* Batches given in parts: every process hands over the samples of its own replicas, in memory that holds no others, and
 * gets the bytes of one process with all devices and all samples.  Processes are threads here. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/api.h"
#include "tests/harness/gpu.h"
#include "tests/harness/port.h"

enum { MOST_RANKS = 4, STEPS = 5, STATE_BYTES = 1 << 16, TENSORS = 4, MOST_SETTINGS = 8, OUTPUT_BYTES = 1 << 12 };

#define NAMED SOURCE_DIR "/tests/api/part_named.onnx"
#define SIZES SOURCE_DIR "/tests/api/part_sizes.onnx"
#define WORDS SOURCE_DIR "/tests/cli/sequence_first/words.onnx"

/* A tensor of every batch; axis -1: it has no batch. */
typedef struct {
    const char *name;
    dpx_dtype dtype;
    int rank, axis;
    int64_t dim[3], below; /* of integers */
} Kind;

typedef struct {
    const char *model;
    Kind tensor[TENSORS];
    int n;
    const char *settings[MOST_SETTINGS]; /* "name=value" */
} Scene;

static const Scene named = { NAMED,
                             { { "x", DPX_FLOAT32, 2, 0, { 0, 4 }, 0 },
                               { "entry", DPX_INT64, 1, 0, { 0 }, 7 },
                               { "scale", DPX_FLOAT32, 1, -1, { 3 }, 0 },
                               { "target", DPX_INT64, 1, 0, { 0 }, 3 } },
                             4,
                             { NULL } };
static const Scene words = { WORDS,
                             { { "x", DPX_FLOAT64, 3, 1, { 7, 0, 5 }, 0 }, { "target", DPX_INT64, 2, 1, { 7, 0 }, 3 } },
                             2,
                             { "class-axis=2" } };

typedef struct {
    const Scene *scene;
    const char *devices, *rendezvous;
    const char *const *settings; /* more of them */
    int rank, size;              /* size 1: whole batches */
    bool runs_first;             /* and does no more, rank 1 with other weights */
    int64_t samples[STEPS];
    int bad_step;         /* in which sample `bad_sample` has a bad label; -1: in none */
    int64_t bad_sample;   /* of the batch */
    const char *bad_name; /* of the tensor */
    dpx_status status;
    char message[1024];
    dpx_result result[STEPS], evaluated;
    dpx_part part[STEPS];
    char output[OUTPUT_BYTES], state[STATE_BYTES];
    size_t output_bytes, state_bytes;
} Process;

/* ---- batches ---- */

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static size_t elements(const dpx_tensor *t)
{
    size_t n = 1;

    for (int k = 0; k < t->rank; k++)
        n *= (size_t)t->dim[k];
    return n;
}

static void make_whole(dpx_tensor *t, const Kind *k, int64_t samples, unsigned seed)
{
    size_t n;

    *t = (dpx_tensor){ .name = k->name, .dtype = k->dtype, .rank = k->rank };
    memcpy(t->dim, k->dim, sizeof k->dim);
    if (k->axis >= 0)
        t->dim[k->axis] = samples;
    n = elements(t);
    t->data = malloc(n * dpx_dtype_size(k->dtype) + 1);
    for (size_t i = 0; i < n; i++)
        if (k->dtype == DPX_INT64)
            ((int64_t *)t->data)[i] = next(&seed) % k->below;
        else if (k->dtype == DPX_FLOAT32)
            ((float *)t->data)[i] = (float)next(&seed) / (1 << 24);
        else
            ((double *)t->data)[i] = (double)next(&seed) / (1 << 24);
}

/* Samples [from, to) of it alone: what lies outside them is no memory of ours. */
static void cut(dpx_tensor *t, int axis, dpx_part p)
{
    size_t unit = dpx_dtype_size(t->dtype), rows = 1, wide, row;
    char *whole = t->data, *own;

    for (int k = 0; k < t->rank; k++)
        *(k < axis ? &rows : &unit) *= k == axis ? 1 : (size_t)t->dim[k];
    wide = (size_t)t->dim[axis] * unit;
    row = (size_t)(p.to - p.from) * unit;
    own = row ? malloc(rows * row) : NULL;
    for (size_t r = 0; r < rows && row; r++)
        memcpy(own + r * row, whole + r * wide + (size_t)p.from * unit, row);
    free(whole);
    t->data = own;
    t->dim[axis] = p.to - p.from;
}

static void make_tensors(dpx_tensor *t, Process *p, int step, dpx_part part)
{
    for (int i = 0; i < p->scene->n; i++) {
        const Kind *k = &p->scene->tensor[i];

        make_whole(&t[i], k, p->samples[step], 17u * (unsigned)step + (unsigned)i);
        if (step == p->bad_step && !strcmp(k->name, p->bad_name))
            ((int64_t *)t[i].data)[p->bad_sample] = 99;
        if (p->size > 1 && k->axis >= 0)
            cut(&t[i], k->axis, part);
    }
}

static void free_tensors(dpx_tensor *t, int n)
{
    for (int i = 0; i < n; i++)
        free(t[i].data);
}

/* ---- a process ---- */

static dpx_status step(Process *p, dpx_trainer *t, int k)
{
    dpx_tensor in[TENSORS];
    dpx_part *own = &p->part[k];
    dpx_status st = dpx_trainer_part(t, p->samples[k], own);

    if (st)
        return st;
    make_tensors(in, p, k, *own);
    st = p->size > 1 ? dpx_train_part(t, p->samples[k], in, p->scene->n, &p->result[k])
                     : dpx_train_step(t, in, p->scene->n, &p->result[k]);
    free_tensors(in, p->scene->n);
    return st;
}

static dpx_status look(Process *p, dpx_trainer *t, bool only_run)
{
    dpx_tensor in[TENSORS], out[1];
    const int n = p->scene->n;
    dpx_status st = dpx_trainer_part(t, p->samples[0], &p->part[0]);

    if (st)
        return st;
    make_tensors(in, p, 0, p->part[0]);
    if (!only_run)
        st = p->size > 1 ? dpx_val_part(t, p->samples[0], in, n, &p->evaluated) : dpx_val_step(t, in, n, &p->evaluated);
    if (!st) /* the target is passed over */
        st = p->size > 1 ? dpx_run_part(t, p->samples[0], in, n, out, 1) : dpx_run(t, in, n, out, 1);
    if (!st && (p->output_bytes = elements(out) * dpx_dtype_size(out->dtype)) <= OUTPUT_BYTES)
        memcpy(p->output, out->data, p->output_bytes);
    free_tensors(in, n);
    return st;
}

/* The first state that is trained becomes 7. */
static dpx_status spoil(dpx_trainer *t)
{
    static float seven[STATE_BYTES / sizeof(float)];
    dpx_info info = { .name = NULL };
    dpx_tensor view;

    for (int i = 0; i < dpx_trainer_state_count(t) && !info.trainable; i++)
        if (dpx_trainer_state_info(t, i, &info))
            return DPX_INTERNAL;
    view = (dpx_tensor){ .dtype = info.dtype, .rank = info.rank, .data = seven };
    memcpy(view.dim, info.dim, sizeof view.dim);
    for (size_t i = 0; i < elements(&view) && i < sizeof seven / sizeof *seven; i++)
        seven[i] = 7;
    return info.trainable ? dpx_trainer_set_state(t, info.name, &view) : DPX_INTERNAL;
}

static dpx_status keep_states(Process *p, dpx_trainer *t)
{
    for (int i = 0; i < dpx_trainer_state_count(t); i++) {
        dpx_tensor view;
        dpx_info info;
        size_t bytes;
        dpx_status st = dpx_trainer_state_info(t, i, &info);

        if (!st && !info.trainable)
            continue;
        view = (dpx_tensor){ .dtype = info.dtype, .rank = info.rank, .data = p->state + p->state_bytes };
        memcpy(view.dim, info.dim, sizeof view.dim);
        bytes = elements(&view) * dpx_dtype_size(info.dtype);
        if (st || p->state_bytes + bytes > STATE_BYTES || (st = dpx_trainer_get_state(t, info.name, &view)))
            return st ? st : DPX_INTERNAL;
        p->state_bytes += bytes;
    }
    return DPX_OK;
}

static dpx_status set_all(dpx_options *o, const char *const *settings)
{
    dpx_status st = DPX_OK;

    for (; settings && *settings && !st; settings++) {
        char name[64];
        const char *eq = strchr(*settings, '=');

        snprintf(name, sizeof name, "%.*s", (int)(eq - *settings), *settings);
        st = dpx_options_set(o, name, eq + 1);
    }
    return st;
}

static dpx_status run_in(Process *p, dpx_options *o, dpx_model *m)
{
    static const char *const common[] = { "loss=cross-entropy", "lr=0.1", "momentum=0.9", "threads=1", NULL };
    dpx_trainer *t = NULL;
    dpx_status st = set_all(o, common);

    if (!st && !(st = set_all(o, p->scene->settings)) && !(st = set_all(o, p->settings)))
        st = dpx_options_set(o, "devices", p->devices);
    if (!st)
        st = dpx_trainer_create(&t, m, o, NULL, NULL);
    if (!st && p->runs_first) {
        st = p->rank ? spoil(t) : DPX_OK;
        if (!st)
            st = look(p, t, true);
        if (st)
            snprintf(p->message, sizeof p->message, "%s", dpx_error());
        dpx_trainer_free(t);
        return st;
    }
    for (int k = 0; k < STEPS && !st; k++)
        st = step(p, t, k);
    if (!st)
        st = dpx_train_flush(t, NULL);
    if (!st && !(st = look(p, t, false)))
        st = keep_states(p, t);
    if (st)
        snprintf(p->message, sizeof p->message, "%s", dpx_error());
    dpx_trainer_free(t);
    return st;
}

static void *run(void *arg)
{
    Process *p = arg;
    dpx_world_options how = { .size = p->size, .rank = p->rank, .rendezvous = p->rendezvous, .timeout = 20 };
    dpx_options *o = dpx_options_create();
    dpx_world *w = NULL;
    dpx_model *m = NULL;

    if (!(p->status = dpx_model_load(&m, p->scene->model)) && p->size > 1)
        p->status = dpx_world_join(&w, &how);
    if (p->status)
        snprintf(p->message, sizeof p->message, "%s", dpx_error());
    dpx_options_set_world(o, w);
    if (!p->status)
        p->status = run_in(p, o, m);
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_world_leave(w);
    return NULL;
}

static void run_world(Process *p, const Process *like, int size)
{
    char rendezvous[32];
    pthread_t thread[MOST_RANKS];

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", free_port());
    for (int r = 0; r < size; r++) {
        p[r] = *like;
        p[r].rank = r;
        p[r].size = size;
        p[r].rendezvous = rendezvous;
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &p[r]));
    }
    for (int r = 0; r < size; r++)
        pthread_join(thread[r], NULL);
}

/* ---- the same bytes ---- */

static void check_results(const Process *p, const Process *alone)
{
    for (int k = 0; k < STEPS; k++) {
        const dpx_result *a = &p->result[k], *b = &alone->result[k];

        CU_ASSERT(!memcmp(&a->loss, &b->loss, sizeof a->loss) && a->samples == b->samples && a->step == b->step);
    }
    CU_ASSERT(p->evaluated.loss == alone->evaluated.loss && p->evaluated.samples == alone->evaluated.samples);
    CU_ASSERT(alone->output_bytes && p->output_bytes == alone->output_bytes &&
              !memcmp(p->output, alone->output, alone->output_bytes));
    CU_ASSERT(alone->state_bytes && p->state_bytes == alone->state_bytes &&
              !memcmp(p->state, alone->state, alone->state_bytes));
}

/* The parts follow one another. */
static void check_parts(const Process *p, int size)
{
    for (int k = 0; k < STEPS; k++)
        for (int r = 0; r < size; r++) {
            CU_ASSERT_EQUAL(p[r].part[k].from, r ? p[r - 1].part[k].to : 0);
            CU_ASSERT(p[r].part[k].to >= p[r].part[k].from);
            CU_ASSERT(r < size - 1 || p[r].part[k].to == p[r].samples[k]);
        }
}

/* `size` processes of `own` devices against one of `all`. */
static void check_bytes(const Scene *scene, int size, const char *own, const char *all, const char *const *settings)
{
    static Process p[MOST_RANKS], alone;
    Process like = {
        .scene = scene, .settings = settings, .bad_step = -1, .samples = { 9, 8, 3, 1, 9 }, .devices = own
    };

    alone = like;
    alone.size = 1;
    alone.devices = all;
    run(&alone);
    if (alone.status)
        TEST_FAIL("%s: %s", all, alone.message);
    CU_ASSERT(alone.part[0].from == 0 && alone.part[0].to == 9);
    run_world(p, &like, size);
    for (int r = 0; r < size; r++) {
        if (p[r].status)
            TEST_FAIL("rank %d: %s", r, p[r].message);
        check_results(&p[r], &alone);
    }
    check_parts(p, size);
}

static void test_bytes(void)
{
    static const char *const chunk[] = { "split=chunk", NULL }, *const more[] = { "replicas=7", NULL },
                             *const groups[] = { "accumulate=2", "batch-size=9", NULL },
                             *const heavy[] = { "split=5,0,2.5", NULL },
                             *const devices[] = { "split=3,1", "replicas=5", NULL },
                             *const each[] = { "split=1,2,3,0,1,1,4", "replicas=7", NULL };

    check_bytes(&named, 2, "cpu", "cpu*2", NULL);
    check_bytes(&named, 3, "cpu", "cpu*3", NULL);
    check_bytes(&named, 4, "cpu", "cpu*4", chunk);
    check_bytes(&named, 2, "cpu*2", "cpu*4", chunk);
    check_bytes(&named, 3, "cpu", "cpu*3", more);
    check_bytes(&named, 3, "cpu", "cpu*3", groups);
    check_bytes(&named, 3, "cpu", "cpu*3", heavy);
    check_bytes(&named, 2, "cpu", "cpu*2", devices);
    check_bytes(&named, 3, "cpu", "cpu*3", each);
    check_bytes(&named, 2, "cpu*2", "cpu*4", each);
}

/* The samples of a batch are those of the first tensor that is divided. */
static void test_counted(void)
{
    static const int order[] = { 2, 3, 1, 0 };
    static Process p = { .scene = &named, .size = 1, .bad_step = -1 };
    dpx_tensor all[TENSORS], in[TENSORS];
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_model *m = NULL;
    dpx_result r = { 0 };

    make_tensors(all, &p, 0, (dpx_part){ 0, p.samples[0] = 5 });
    for (int i = 0; i < TENSORS; i++)
        in[i] = all[order[i]];
    if (CHECK_DPX(dpx_model_load(&m, NAMED)) && CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy")) &&
        CHECK_DPX(dpx_options_set(o, "threads", "1")) && CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL))) {
        CHECK_DPX(dpx_val_step(t, in, TENSORS, &r));
        CU_ASSERT_EQUAL(r.samples, 5);
        CHECK_DPX(dpx_train_step(t, in, TENSORS, &r));
        CU_ASSERT_EQUAL(r.samples, 5);
    }
    free_tensors(all, TENSORS);
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_options_free(o);
}

/* All go on with rank 0's states, also where the first call is one of inference. */
static void test_agreed(void)
{
    static const char *const sized[] = { "batch-size=9", NULL }; /* there are states from the beginning */
    static Process p[2], alone;
    Process like = {
        .scene = &named, .bad_step = -1, .samples = { 9 }, .devices = "cpu", .settings = sized, .runs_first = true
    };

    alone = like;
    alone.size = 1;
    alone.devices = "cpu*2";
    run(&alone);
    CU_ASSERT_FATAL(!alone.status);
    run_world(p, &like, 2);
    for (int r = 0; r < 2; r++) {
        if (p[r].status)
            TEST_FAIL("rank %d: %s", r, p[r].message);
        CU_ASSERT(p[r].output_bytes == alone.output_bytes && !memcmp(p[r].output, alone.output, alone.output_bytes));
    }
}

static void test_inner_axis(void)
{
    check_bytes(&words, 2, "cpu", "cpu*2", NULL);
    check_bytes(&words, 3, "cpu", "cpu*3", NULL);
    check_bytes(&words, 2, "cpu*2", "cpu*4", NULL);
}

/* A process's part is that of its devices' weights, and the option in force says them by replica. */
static void test_weights(void)
{
    static const struct {
        const char *split, *replicas, *text;
    } cases[] = {
        { "3,1", NULL, "3,1" },
        { "3,1", "4", "1.5,1.5,0.5,0.5" },
        { "1,0,0,2", "4", "1,0,0,2" },
        { "balanced", "4", "balanced" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *settings[] = { "loss=cross-entropy", "threads=1", "devices=cpu*2", NULL, NULL, NULL };
        char split[64], replicas[64];
        dpx_trainer *t;

        snprintf(split, sizeof split, "split=%s", cases[i].split);
        snprintf(replicas, sizeof replicas, "replicas=%s", cases[i].replicas ? cases[i].replicas : "");
        settings[3] = split;
        settings[4] = cases[i].replicas ? replicas : NULL;
        if (!(t = make_trainer(settings)))
            continue;
        CHECK_STR(cases[i].text, dpx_trainer_option(t, "split"));
        CU_ASSERT_PTR_NULL(dpx_trainer_option(t, "splits"));
        dpx_trainer_free(t);
    }
    CU_ASSERT_PTR_NULL(dpx_trainer_option(NULL, "split"));
}

/* A model of fixed sizes: what its first input has was the batch. */
static void test_sizes(void)
{
    static const char *const told[] = { "batch-size=9", "batch-input=x", "batch-input=entry", NULL };
    static Scene sizes;

    sizes = named;
    sizes.model = SIZES;
    check_bytes(&sizes, 2, "cpu", "cpu*2", NULL);
    check_bytes(&sizes, 3, "cpu", "cpu*3", told);
}

static void test_cuda(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 1);
    check_bytes(&named, 2, "cuda*2", "cuda*4", NULL);
    check_bytes(&words, 2, "cuda*2", "cuda*4", NULL);
}

/* ---- what is wrong ---- */

/* A bad label or index of one rank ends all, told by its place in the whole. */
static void check_bad(const Scene *scene, const char *tensor, int64_t sample, int culprit, const char *text)
{
    static Process p[MOST_RANKS];
    Process like = { .scene = scene,
                     .bad_step = 1,
                     .bad_sample = sample,
                     .bad_name = tensor,
                     .devices = "cpu",
                     .samples = { 9, 9, 9, 9, 9 } };
    char told[256];

    run_world(p, &like, 3);
    for (int r = 0; r < 3; r++) {
        snprintf(told, sizeof told, "rank %d of 3: ", culprit);
        CU_ASSERT_EQUAL(p[r].status, r == culprit ? DPX_INVALID : DPX_DEVICE);
        if ((r != culprit && !strstr(p[r].message, told)) || !strstr(p[r].message, text))
            TEST_FAIL("rank %d, status %d: '%s', expected '%s'", r, p[r].status, p[r].message, text);
    }
}

static void test_bad_samples(void)
{
    check_bad(&named, "target", 7, 2, "element 7 of input 'target' is 99, not one of 3 classes");
    check_bad(&named, "entry", 4, 1, "element 4 of input 'entry' is 99, not one of 7");
    check_bad(&words, "target", 9 + 5, 1, "element 14 of input 'target' is 99, not one of 3 classes");
}

static void test_refused(void)
{
    static const char *const settings[] = { "loss=cross-entropy", "threads=1", "devices=cpu*2", NULL };
    dpx_trainer *t = make_trainer(settings);
    dpx_part p = { -1, -1 };
    dpx_result r;
    Batch b;

    make_batch(&b, 1);
    if (!t)
        return;
    CHECK_DPX(dpx_trainer_part(t, SAMPLES, &p));
    CU_ASSERT(p.from == 0 && p.to == SAMPLES);
    CHECK_DPX(dpx_trainer_part(t, 0, &p));
    CU_ASSERT(p.from == 0 && p.to == 0);
    CHECK_DPX_FAILS(DPX_INVALID, "a batch of -1 samples", dpx_trainer_part(t, -1, &p));
    CHECK_DPX_FAILS(DPX_INVALID, "a batch of -1 samples", dpx_train_part(t, -1, b.tensor, 2, &r));
    CHECK_DPX_FAILS(
        DPX_SHAPE,
        "tensor 'x' has 6 samples along axis 0, expected 7: of a batch of 7 this process's part is from 0 to 7",
        dpx_train_part(t, 7, b.tensor, 2, &r));
    b.tensor[0].rank = 0;
    CHECK_DPX_FAILS(DPX_SHAPE, "tensor 'x' of rank 0 has no axis 0", dpx_val_part(t, SAMPLES, b.tensor, 2, &r));
    b.tensor[0].rank = 2;
    b.tensor[0].data = NULL;
    CHECK_DPX_FAILS(DPX_INVALID, "tensor 'x' has no data", dpx_test_part(t, SAMPLES, b.tensor, 2, &r));
    b.tensor[0].data = b.x;
    CHECK_DPX(dpx_train_part(t, SAMPLES, b.tensor, 2, &r));
    CU_ASSERT(r.step == 1 && r.samples == SAMPLES);
    dpx_trainer_free(t);
}

static void test_splits(void)
{
    static const struct {
        const char *model, *name, *batch_input;
        int splits;
    } cases[] = { { NAMED, "x", NULL, 1 },     { NAMED, "scale", NULL, 0 }, { NAMED, "target", NULL, 1 },
                  { SIZES, "entry", NULL, 1 }, { SIZES, "scale", NULL, 0 }, { SIZES, "entry", "x", 0 },
                  { SIZES, "target", "x", 1 }, { WORDS, "x", NULL, 1 },     { WORDS, "target", NULL, 1 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpx_options *o = dpx_options_create();
        dpx_model *m = NULL;

        CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
        if (cases[i].batch_input)
            CHECK_DPX(dpx_options_set(o, "batch-input", cases[i].batch_input));
        if (CHECK_DPX(dpx_model_load(&m, cases[i].model)) && dpx_batch_splits(m, o, cases[i].name) != cases[i].splits)
            TEST_FAIL("%s of %s", cases[i].name, cases[i].model);
        dpx_model_free(m);
        dpx_options_free(o);
    }
}

DEFINE_SUITE(part, { "the bytes of one process", test_bytes }, { "a batch behind another axis", test_inner_axis },
             { "a model without names", test_sizes }, { "CUDA devices", test_cuda },
             { "bad labels and indices", test_bad_samples }, { "refused", test_refused },
             { "what is split", test_splits }, { "weights", test_weights }, { "samples are counted", test_counted },
             { "the first call is one of inference", test_agreed });
