/* Every function of a trainer at every moment of its life: what it returns, and that it changes the state only where it
 * should.  A function of a trainer that the header gains must be added here: the last test compares the two files. */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"

/* When the function is called. */
typedef enum {
    FRESH,    /* nothing was called before, and the batch size is open */
    FAILED,   /* the first step has failed */
    STEPPED,  /* after a step */
    REFUSED,  /* after a step and one that has failed */
    GATHERED, /* gradients wait for an update */
    RESET,    /* they were dropped */
    UPDATED,  /* they were applied */
    RESUMED,  /* nothing but a resumption */
    LOADED,   /* the same from a stream, after steps */
    ENDED,    /* the epoch has ended, after an evaluation */
    MOMENTS
} Moment;

static const char *const moment_name[MOMENTS] = { "fresh", "failed",  "stepped", "refused", "gathered",
                                                  "reset", "updated", "resumed", "loaded",  "ended" };
#define AT(m) (1u << (m))
#define ALWAYS (AT(MOMENTS) - 1)
#define NEVER 0u
/* The moments at which gradients are gathered, and the others. */
#define IDLE (ALWAYS & ~AT(GATHERED))

typedef struct {
    dpx_trainer *t;
    dpx_predictor *p;
    Batch b;
    float bias[CLASSES];
    dpx_tensor bias_view, tokens, out[1];
    dpx_result r;
    dpx_metric metric;
    dpx_part part;
    dpx_info info;
    dpx_data *data;
    char folder[256], path[300];
    const char *stream; /* of a checkpoint */
    size_t stream_n, stream_at;
} Args;

typedef struct {
    const char *name;
    unsigned allowed; /* AT: the moments at which it succeeds; at the others it returns `otherwise` */
    dpx_status otherwise;
    bool changes; /* it may change the kept state */
    dpx_status (*call)(Args *a);
} Row;

static dpx_status sink(void *user, const void *bytes, size_t n)
{
    (void)user, (void)bytes, (void)n;
    return DPX_OK;
}

static dpx_status source(void *user, void *to, size_t room, size_t *n)
{
    Args *a = user;

    *n = a->stream_n - a->stream_at < room ? a->stream_n - a->stream_at : room;
    memcpy(to, a->stream + a->stream_at, *n);
    a->stream_at += *n;
    return DPX_OK;
}

static dpx_status load(Args *a)
{
    a->stream_at = 0;
    return dpx_trainer_load_from(a->t, source, a, NULL);
}

static dpx_status pass_on(void *user, int training, int replica, dpx_tensor *part, int n)
{
    (void)user, (void)training, (void)replica, (void)part, (void)n;
    return DPX_OK;
}

static dpx_status replicate(void *user, const char *node, int copy, void **context)
{
    (void)user, (void)node, (void)copy, (void)context;
    return DPX_OK;
}

static void write_nothing(void *user, const char *text, size_t bytes) { (void)user, (void)text, (void)bytes; }

static void progress(void *user, const dpx_result *r) { (void)user, (void)r; }

static dpx_status step_of_data(Args *a, dpx_status (*step)(dpx_trainer *, const dpx_data *, dpx_result *))
{
    return step(a->t, a->data, &a->r);
}

/* A function that returns no status: DPX_OK if `good`. */
static dpx_status holds(bool good) { return good ? DPX_OK : DPX_INTERNAL; }

/* ROW(name, moments, status at others, may change the state, call) */
#define ROWS(X)                                                                                                  \
    X(train_step, IDLE, DPX_INVALID, true, dpx_train_step(a->t, a->b.tensor, 2, &a->r))                          \
    X(train_part, IDLE, DPX_INVALID, true, dpx_train_part(a->t, SAMPLES, a->b.tensor, 2, &a->r))                 \
    X(train_data, IDLE, DPX_INVALID, true, step_of_data(a, dpx_train_data))                                      \
    X(train_backward, ALWAYS, 0, false, dpx_train_backward(a->t, a->b.tensor, 2, &a->r))                         \
    X(train_backward_part, ALWAYS, 0, false, dpx_train_backward_part(a->t, SAMPLES, a->b.tensor, 2, &a->r))      \
    X(train_update, AT(GATHERED), DPX_INVALID, true, dpx_train_update(a->t, &a->r))                              \
    X(train_flush, ALWAYS, 0, true, dpx_train_flush(a->t, &a->r))                                                \
    X(train_reset, ALWAYS, 0, false, dpx_train_reset(a->t))                                                      \
    X(train_result, NEVER, DPX_INVALID, false, dpx_train_result(a->t, &a->r))                                    \
    X(trainer_close_group, ALWAYS, 0, false, dpx_trainer_close_group(a->t))                                      \
    X(trainer_end_epoch, IDLE, DPX_INVALID, false, dpx_trainer_end_epoch(a->t))                                  \
    X(val_step, ALWAYS, 0, false, dpx_val_step(a->t, a->b.tensor, 2, &a->r))                                     \
    X(val_part, ALWAYS, 0, false, dpx_val_part(a->t, SAMPLES, a->b.tensor, 2, &a->r))                            \
    X(val_data, ALWAYS, 0, false, step_of_data(a, dpx_val_data))                                                 \
    X(test_step, ALWAYS, 0, false, dpx_test_step(a->t, a->b.tensor, 2, &a->r))                                   \
    X(test_part, ALWAYS, 0, false, dpx_test_part(a->t, SAMPLES, a->b.tensor, 2, &a->r))                          \
    X(run, ALWAYS, 0, false, dpx_run(a->t, a->b.tensor, 1, a->out, 1))                                           \
    X(run_part, ALWAYS, 0, false, dpx_run_part(a->t, SAMPLES, a->b.tensor, 1, a->out, 1))                        \
    X(run_data, ALWAYS, 0, false, dpx_run_data(a->t, a->data, a->out, 1))                                        \
    X(run_tokens, NEVER, DPX_UNSUPPORTED, false, dpx_run_tokens(a->t, &a->tokens, 0, 8, a->out, 1))              \
    X(trainer_keep, ALWAYS, 0, false, dpx_trainer_keep(a->t, DPX_KEEP_OUTPUTS))                                  \
    X(trainer_gradient, AT(GATHERED), DPX_INVALID, false, dpx_trainer_gradient(a->t, "fc3.bias", &a->bias_view)) \
    X(trainer_set_lr, ALWAYS, 0, false, dpx_trainer_set_lr(a->t, 0, 0.5))                                        \
    X(trainer_group_lr, ALWAYS, 0, false, holds(dpx_trainer_group_lr(a->t, 0, 1) == 0.125))                      \
    X(trainer_group_norm, ALWAYS, 0, false, holds(isnan(dpx_trainer_group_norm(a->t, 0))))                       \
    X(trainer_group_scale, ALWAYS, 0, false, holds(isnan(dpx_trainer_group_scale(a->t, 0))))                     \
    X(trainer_group_skipped, ALWAYS, 0, false, holds(!dpx_trainer_group_skipped(a->t, 0)))                       \
    X(trainer_observe, ALWAYS, 0, false, dpx_trainer_observe(a->t, 1, 1))                                        \
    X(trainer_observes, ALWAYS, 0, false, holds(!dpx_trainer_observes(a->t)))                                    \
    X(trainer_state_count, ALWAYS, 0, false, holds(dpx_trainer_state_count(a->t) >= 13))                         \
    X(trainer_state_info, ALWAYS, 0, false, dpx_trainer_state_info(a->t, 0, &a->info))                           \
    X(trainer_get_state, ALWAYS, 0, false, dpx_trainer_get_state(a->t, "fc3.bias", &a->bias_view))               \
    X(trainer_set_state, ALWAYS, 0, true, dpx_trainer_set_state(a->t, "fc3.bias.momentum", &a->bias_view))       \
    X(trainer_step_count, ALWAYS, 0, false, holds(dpx_trainer_step_count(a->t) <= 2))                            \
    X(trainer_save, IDLE, DPX_INVALID, false, dpx_trainer_save(a->t, a->folder, NULL))                           \
    X(trainer_save_to, IDLE, DPX_INVALID, false, dpx_trainer_save_to(a->t, sink, NULL, NULL))                    \
    X(trainer_resume, ALWAYS, 0, true, dpx_trainer_resume(a->t, a->path, NULL))                                  \
    X(trainer_resume_step, ALWAYS, 0, true, dpx_trainer_resume_step(a->t, a->path, 1, NULL))                     \
    X(trainer_load_from, ALWAYS, 0, true, load(a))                                                               \
    X(trainer_bytes_resumed, ALWAYS, 0, false, holds(dpx_trainer_bytes_resumed(a->t) >= 0))                      \
    X(trainer_export, ALWAYS, 0, false, dpx_trainer_export(a->t, "/dev/null"))                                   \
    X(trainer_export_to, ALWAYS, 0, false, dpx_trainer_export_to(a->t, sink, NULL))                              \
    X(predictor_create, ALWAYS, 0, false, dpx_predictor_create(&a->p, NULL, a->t, NULL))                         \
    X(predictor_take, ALWAYS, 0, false, dpx_predictor_take(a->p, a->t))                                          \
    X(trainer_metric, ALWAYS, 0, false, dpx_trainer_metric(a->t, &a->metric))                                    \
    X(trainer_metric_at, ALWAYS, 0, false, dpx_trainer_metric_at(a->t, 0, &a->metric))                           \
    X(trainer_train_metric, ALWAYS, 0, false, dpx_trainer_train_metric(a->t, &a->metric))                        \
    X(trainer_train_metric_at, ALWAYS, 0, false, dpx_trainer_train_metric_at(a->t, 0, &a->metric))               \
    X(trainer_restart_metric, ALWAYS, 0, false, (dpx_trainer_restart_metric(a->t), DPX_OK))                      \
    X(trainer_restart_train_metric, ALWAYS, 0, false, (dpx_trainer_restart_train_metric(a->t), DPX_OK))          \
    X(trainer_part, ALWAYS, 0, false, dpx_trainer_part(a->t, SAMPLES, &a->part))                                 \
    X(trainer_lengths, ALWAYS, 0, false, dpx_trainer_lengths(a->t, "none", 1, 1, &(int64_t){ 1 }, 1))            \
    X(trainer_padding, ALWAYS, 0, false, (dpx_trainer_padding(a->t, NULL, NULL), DPX_OK))                        \
    X(trainer_set_preprocess, ALWAYS, 0, false, dpx_trainer_set_preprocess(a->t, pass_on, NULL))                 \
    X(trainer_on_replicate, AT(FRESH) | AT(RESUMED), DPX_INVALID, false,                                         \
      dpx_trainer_on_replicate(a->t, "*", replicate, NULL, NULL))                                                \
    X(trainer_on_step, ALWAYS, 0, false, (dpx_trainer_on_step(a->t, progress, NULL), DPX_OK))                    \
    X(trainer_context, ALWAYS, 0, false, holds(!dpx_trainer_context(a->t, "none")))                              \
    X(trainer_profile, ALWAYS, 0, false, dpx_trainer_profile(a->t, 1))                                           \
    X(trainer_profile_step, NEVER, DPX_INVALID, false, dpx_trainer_profile_step(a->t, 1, 0))                     \
    X(trainer_write_profile, NEVER, DPX_INVALID, false, dpx_trainer_write_profile(a->t, 0, write_nothing, NULL)) \
    X(trainer_trace, ALWAYS, 0, false, dpx_trainer_trace(a->t, 8))                                               \
    X(trainer_write_trace, NEVER, DPX_INVALID, false, dpx_trainer_write_trace(a->t, "/dev/null"))                \
    X(trainer_option, ALWAYS, 0, false, holds(dpx_trainer_option(a->t, "lr") != NULL))                           \
    X(trainer_replicas, ALWAYS, 0, false, holds(dpx_trainer_replicas(a->t) == 1))                                \
    X(trainer_runs_ahead, ALWAYS, 0, false, holds(!dpx_trainer_runs_ahead(a->t)))                                \
    X(trainer_summary, ALWAYS, 0, false, holds(dpx_trainer_summary(a->t) != NULL))                               \
    X(trainer_memory, ALWAYS, 0, false, holds(dpx_trainer_memory(a->t) >= 0))

#define CALL(NAME, ALLOWED, OTHERWISE, CHANGES, E) \
    static dpx_status call_##NAME(Args *a)         \
    {                                              \
        (void)a;                                   \
        return (E);                                \
    }
#define ROW(NAME, ALLOWED, OTHERWISE, CHANGES, E) { #NAME, ALLOWED, (dpx_status)(OTHERWISE), CHANGES, call_##NAME },
ROWS(CALL)
static const Row rows[] = { ROWS(ROW) };

static const char *const settings[] = { "loss=cross-entropy", "momentum=0.9", "lr=0.125", "threads=1", NULL };

/* A checkpoint of the first step, in a folder and as a stream; made once. */
typedef struct {
    char folder[256], *stream;
    size_t n;
} Kept;

static dpx_status keep_bytes(void *user, const void *bytes, size_t n)
{
    Kept *k = user;

    k->stream = realloc(k->stream, k->n + n);
    memcpy(k->stream + k->n, bytes, n);
    k->n += n;
    return DPX_OK;
}

static bool make_kept(Kept *k)
{
    dpx_trainer *t = make_trainer(settings);
    dpx_result r;
    Batch b;
    bool good;

    *k = (Kept){ .n = 0 };
    make_folder(k->folder);
    make_batch(&b, 9);
    good = t && CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r)) && CHECK_DPX(dpx_trainer_save(t, k->folder, NULL)) &&
           CHECK_DPX(dpx_trainer_save_to(t, keep_bytes, k, NULL));
    dpx_trainer_free(t);
    return good;
}

/* A batch with a label that is no class. */
static void fail_step(Args *a)
{
    const int64_t label = a->b.label[3];

    a->b.label[3] = CLASSES + 7;
    CHECK_DPX_FAILS(DPX_INVALID, "", dpx_train_step(a->t, a->b.tensor, 2, &a->r));
    a->b.label[3] = label;
}

static void reach(Args *a, Moment m)
{
    if (m == STEPPED || m == REFUSED || m == LOADED || m == ENDED)
        CHECK_DPX(dpx_train_step(a->t, a->b.tensor, 2, &a->r));
    if (m == FAILED || m == REFUSED)
        fail_step(a);
    if (m == GATHERED || m == RESET || m == UPDATED)
        CHECK_DPX(dpx_train_backward(a->t, a->b.tensor, 2, &a->r));
    if (m == RESET)
        CHECK_DPX(dpx_train_reset(a->t));
    if (m == UPDATED)
        CHECK_DPX(dpx_train_update(a->t, &a->r));
    if (m == RESUMED)
        CHECK_DPX(dpx_trainer_resume(a->t, a->path, NULL));
    if (m == LOADED)
        CHECK_DPX(load(a));
    if (m == ENDED) {
        CHECK_DPX(dpx_val_step(a->t, a->b.tensor, 2, &a->r));
        CHECK_DPX(dpx_trainer_end_epoch(a->t));
    }
}

/* A sum over all kept state that any change of a byte changes, by name. */
static uint64_t digest(dpx_trainer *t)
{
    static char bytes[1 << 16];
    uint64_t sum = 0;

    for (int i = 0; i < dpx_trainer_state_count(t); i++) {
        dpx_tensor view;
        uint64_t h = 1469598103934665603u;
        dpx_info info;
        size_t n;

        if (!CHECK_DPX(dpx_trainer_state_info(t, i, &info)) || strstr(info.name, "grad_sum") ||
            !strncmp(info.name, "dpexec.loss", 11))
            continue;
        view = (dpx_tensor){ .dtype = info.dtype, .rank = info.rank, .data = bytes };
        memcpy(view.dim, info.dim, sizeof view.dim);
        n = dpx_dtype_size(info.dtype);
        for (int k = 0; k < info.rank; k++)
            n *= (size_t)info.dim[k];
        CU_ASSERT_FATAL(n <= sizeof bytes);
        CHECK_DPX(dpx_trainer_get_state(t, info.name, &view));
        for (const char *p = info.name; *p; p++)
            h = (h ^ (unsigned char)*p) * 1099511628211u;
        for (size_t k = 0; k < n; k++)
            h = (h ^ (unsigned char)bytes[k]) * 1099511628211u;
        sum += h;
    }
    return sum;
}

static bool open_args(Args *a, const Kept *k)
{
    dpx_data *x = NULL, *y = NULL;
    dpx_model *m = NULL;
    bool good;

    *a = (Args){ .stream = k->stream, .stream_n = k->n };
    snprintf(a->path, sizeof a->path, "%s", k->folder);
    make_folder(a->folder);
    make_batch(&a->b, 3);
    a->bias_view = (dpx_tensor){ .dtype = DPX_FLOAT32, .rank = 1, .dim = { CLASSES }, .data = a->bias };
    a->tokens = (dpx_tensor){ .dtype = DPX_INT64, .rank = 2, .dim = { 1, SAMPLES }, .data = a->b.label };
    good = (a->t = make_trainer(settings)) && CHECK_DPX(dpx_model_load(&m, MLP)) &&
           CHECK_DPX(dpx_predictor_create(&a->p, m, NULL, NULL)) && CHECK_DPX(dpx_data_tensor(&x, &a->b.tensor[0])) &&
           CHECK_DPX(dpx_data_tensor(&y, &a->b.tensor[1])) &&
           CHECK_DPX(dpx_data_map(&a->data, (const char *[]){ "x", "target" }, (const dpx_data *[]){ x, y }, 2));
    dpx_data_free(x);
    dpx_data_free(y);
    dpx_model_free(m);
    return good;
}

static void close_args(Args *a)
{
    dpx_predictor_free(a->p);
    dpx_trainer_free(a->t);
    dpx_data_free(a->data);
    remove_folder(a->folder);
}

/* One function at one moment; then the trainer still trains. */
static void check(const Row *row, Moment m, const Kept *k)
{
    dpx_predictor *own = NULL;
    uint64_t before;
    int64_t steps;
    dpx_status st;
    Args a;

    if (!open_args(&a, k))
        return;
    reach(&a, m);
    before = row->changes ? 0 : digest(a.t);
    steps = dpx_trainer_step_count(a.t);
    own = a.p;
    st = row->call(&a);
    if (st != (row->allowed & AT(m) ? DPX_OK : row->otherwise))
        TEST_FAIL("dpx_%s, %s: status %d, %s", row->name, moment_name[m], (int)st, st ? dpx_error() : "");
    if (!row->changes && (digest(a.t) != before || dpx_trainer_step_count(a.t) != steps))
        TEST_FAIL("dpx_%s, %s: it has changed the state", row->name, moment_name[m]);
    if (own != a.p)
        dpx_predictor_free(own);
    CHECK_DPX(dpx_train_reset(a.t));
    if (dpx_train_step(a.t, a.b.tensor, 2, &a.r) || !isfinite(a.r.loss))
        TEST_FAIL("dpx_%s, %s: the trainer trains no more: %s", row->name, moment_name[m], dpx_error());
    close_args(&a);
}

static void test_moments(void)
{
    Kept k;

    if (make_kept(&k))
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int m = 0; m < MOMENTS; m++)
                check(&rows[i], (Moment)m, &k);
    free(k.stream);
    remove_folder(k.folder);
}

static bool has_row(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == n && !strncmp(rows[i].name, name, n))
            return true;
    return false;
}

/* Every function that takes a trainer has a row. */
static void test_complete(void)
{
    static const char *const others[] = { "trainer_create", "trainer_free", "data_parallel" };
    char *header = read_header();
    int n = 0;

    for (char *at = header_function(header); at; at = header_function(at + 1)) {
        char *open = strchr(at + 9, '('), *close = open ? strchr(open, ')') : NULL, *name = open;
        bool known = false;

        while (open && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
            name--;
        if (!close)
            break;
        *close = '\0';
        name += strlen("dpx_");
        if (strstr(open, "dpx_trainer *")) {
            for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                known |= !strncmp(others[i], name, strlen(others[i]));
            if (!known && !has_row(name, (size_t)(open - name)))
                TEST_FAIL("dpx_%.*s has no row", (int)(open - name), name);
            n++;
        }
        *close = ')';
    }
    CU_ASSERT(n >= 50);
    free(header);
}

DEFINE_SUITE(moments, { "functions", test_moments }, { "complete", test_complete });
