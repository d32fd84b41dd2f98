/* The trainer: a session, the learning-rate schedule, and gradient accumulation.
 *
 * With `accumulate` K a step is K micro-batches whose unnormalised gradients and loss terms are summed in transient state,
 * then one BUILD_APPLY step that divides by the summed weight and updates: exact for micro-batches of unequal size. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api.h"
#include "exec/checkpoint.h"
#include "exec/session.h"

enum { MAX_BATCH_TENSORS = 256 };

struct dpx_trainer {
    const dpx_model *model;
    Options *options;
    Session *session;
    DType dtype;                        /* of parameters and of the learning rate */
    int64_t step;                       /* optimizer steps done */
    int64_t pending;                    /* micro-batches in the present group */
    dpx_result group;                   /* sums over the group */
    NamedTensor shape[MAX_BATCH_TENSORS];   /* of the first micro-batch: what BUILD_APPLY is compiled for */
    int n_shape;
    dpx_log_fn *log;
    void *log_user;
    dpx_progress_fn *progress;
    void *progress_user;
};

/* ---- life ---- */

void dpx_trainer_free(dpx_trainer *t)
{
    if (!t)
        return;
    session_free(t->session);
    options_free(t->options);
    model_release(t->model);
    free(t);
}

static void forward_log(void *user, bool warning, const char *line)
{
    dpx_trainer *t = user;

    if (t->log)
        t->log(t->log_user, warning ? DPX_LOG_WARNING : DPX_LOG_INFO, line);
}

/* The floating type of the run: the option's, else that of the first parameter. */
static DType run_dtype(const dpx_trainer *t)
{
    const Graph *g = t->model->prepared;

    if (t->options->build.dtype != DT_NONE)
        return t->options->build.dtype;
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE && g->value[i]->trainable)
            return g->value[i]->dtype;
    return DT_FLOAT32;
}

/* Compiles what the run will need, if all shapes are known before the first batch, so that errors come early. */
static Status prepare(dpx_trainer *t)
{
    const BuildOptions *b = &t->options->build;

    if (!b->batch)
        return ST_OK;
    if (b->loss == LOSS_NONE)
        return session_prepare(t->session, BUILD_INFER, NULL, 0);
    if (t->options->accumulate == 1)
        return session_prepare(t->session, BUILD_TRAIN, NULL, 0);
    TRY(session_prepare(t->session, BUILD_ACCUMULATE, NULL, 0));
    return session_prepare(t->session, BUILD_APPLY, NULL, 0);
}

static Status create(dpx_trainer *t, const dpx_options *options)
{
    DeviceList devices;

    TRY(options_copy(&t->options, (const Options *)options));
    TRY(options_check(t->options));
    TRY(device_list_parse(&devices, t->options->devices, t->options->threads));
    t->dtype = run_dtype(t);
    TRY(session_create(&t->session, t->model->graph, &t->options->build, &devices, forward_log, t));
    return prepare(t);
}

dpx_status dpx_trainer_create(dpx_trainer **out, const dpx_model *model, const dpx_options *options, dpx_log_fn *log, void *user)
{
    dpx_trainer *t = calloc(1, sizeof *t);
    Status st;

    if (!t)
        return (dpx_status)FAIL_NOMEM();
    t->model = model_keep(model);
    t->log = log;
    t->log_user = user;
    if ((st = create(t, options))) {
        dpx_trainer_free(t);
        return (dpx_status)st;
    }
    *out = t;
    return DPX_OK;
}

void dpx_trainer_on_step(dpx_trainer *t, dpx_progress_fn *progress, void *user)
{
    t->progress = progress;
    t->progress_user = user;
}

/* ---- batches in, results out ---- */

typedef struct {
    NamedTensor tensor[MAX_BATCH_TENSORS];
    int n;
    int64_t samples;
    union { float f32; double f64; } lr;
} Feed;

static Status read_batch(Feed *f, const dpx_tensor *batch, int n)
{
    f->n = 0;
    f->samples = 0;
    if (n < 0 || n > MAX_BATCH_TENSORS - 1)
        return FAIL(E_INVALID, "a batch of %d tensors, at most %d are taken", n, MAX_BATCH_TENSORS - 1);
    for (int i = 0; i < n; i++) {
        if (!batch[i].name)
            return FAIL(E_INVALID, "tensor %d of the batch has no name", i);
        f->tensor[i].name = batch[i].name;
        TRY(api_tensor(&f->tensor[i].tensor, &batch[i]));
        if (!i && batch[i].rank > 0)
            f->samples = batch[i].dim[0];
    }
    f->n = n;
    return ST_OK;
}

static void add_learning_rate(const dpx_trainer *t, Feed *f, double lr)
{
    f->lr.f64 = lr;
    if (t->dtype == DT_FLOAT32)
        f->lr.f32 = (float)lr;
    f->tensor[f->n].name = IN_LR;
    f->tensor[f->n++].tensor = (Tensor){ t->dtype, shape_scalar(), &f->lr };
}

static const Tensor *find_output(const NamedTensor *out, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(out[i].name, name))
            return &out[i].tensor;
    return NULL;
}

static double real_output(const NamedTensor *out, int n, const char *name, double fallback)
{
    const Tensor *t = find_output(out, n, name);

    return t ? tensor_float(t, 0) : fallback;
}

static int64_t count_output(const NamedTensor *out, int n, const char *name)
{
    const Tensor *t = find_output(out, n, name);

    return t ? tensor_int(t, 0) : 0;
}

static void read_outputs(dpx_result *r, const NamedTensor *out, int n)
{
    r->loss_sum = real_output(out, n, OUT_LOSS_SUM, NAN);
    r->loss_weight = real_output(out, n, OUT_LOSS_WEIGHT, NAN);
    r->loss = real_output(out, n, OUT_LOSS, r->loss_sum / r->loss_weight);
    r->correct = count_output(out, n, OUT_CORRECT);
    r->counted = count_output(out, n, OUT_COUNTED);
    r->grad_norm = real_output(out, n, OUT_GRAD_NORM, NAN);
}

static Status run_step(dpx_trainer *t, BuildMode mode, const Feed *f, dpx_result *r)
{
    const NamedTensor *out;
    int n;

    TRY(session_step(t->session, mode, f->tensor, f->n, &out, &n));
    read_outputs(r, out, n);
    return ST_OK;
}

static Status need_loss(const dpx_trainer *t)
{
    return t->options->build.loss == LOSS_NONE ? FAIL(E_INVALID, "the trainer was created without a loss") : ST_OK;
}

/* ---- training ---- */

static void finish_step(dpx_trainer *t, dpx_result *r, double lr)
{
    r->step = ++t->step;
    r->lr = lr;
    r->updated = 1;
}

/* Remembers the shapes of a group's first micro-batch; its data is not ours. */
static void keep_shapes(dpx_trainer *t, const Feed *f)
{
    t->n_shape = 0;
    for (int i = 0; i < t->model->graph->n_input; i++) {
        const char *name = value(t->model->graph, t->model->graph->input[i])->name;
        const Tensor *given = find_output(f->tensor, f->n, name);

        if (given && t->n_shape < MAX_BATCH_TENSORS - 1)
            t->shape[t->n_shape++] = (NamedTensor){ name, { given->dtype, given->shape, NULL } };
    }
}

/* Loss and metric are summed with the gradients, in state: a micro-batch tells only its size. */
static void add_to_group(dpx_trainer *t, const dpx_result *r)
{
    if (!t->pending++)
        t->group = (dpx_result){ 0 };
    t->group.samples += r->samples;
}

static Status apply_group(dpx_trainer *t, dpx_result *r)
{
    double lr = options_learning_rate(t->options, t->step);
    Feed f;

    f.n = t->n_shape;
    memcpy(f.tensor, t->shape, sizeof *f.tensor * (size_t)t->n_shape);
    add_learning_rate(t, &f, lr);
    *r = t->group;
    TRY(run_step(t, BUILD_APPLY, &f, r));
    t->pending = 0;
    finish_step(t, r, lr);
    return ST_OK;
}

static Status accumulate(dpx_trainer *t, Feed *f, dpx_result *r)
{
    if (!t->pending)
        keep_shapes(t, f);
    TRY(run_step(t, BUILD_ACCUMULATE, f, r));
    r->step = t->step;
    r->lr = options_learning_rate(t->options, t->step);
    r->updated = 0;
    add_to_group(t, r);
    return t->pending == t->options->accumulate ? apply_group(t, r) : ST_OK;
}

static Status train_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *r)
{
    double lr = options_learning_rate(t->options, t->step);
    Feed f;

    TRY(need_loss(t));
    TRY(read_batch(&f, batch, n));
    r->samples = f.samples;
    if (t->options->accumulate > 1)
        return accumulate(t, &f, r);
    add_learning_rate(t, &f, lr);
    TRY(run_step(t, BUILD_TRAIN, &f, r));
    finish_step(t, r, lr);
    return ST_OK;
}

static void tell_progress(const dpx_trainer *t, const dpx_result *r)
{
    if (t->progress)
        t->progress(t->progress_user, r);
}

dpx_status dpx_train_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out)
{
    dpx_result r = { 0 };
    Status st = train_step(t, batch, n, &r);

    if (st)
        return (dpx_status)st;
    *out = r;
    tell_progress(t, &r);
    return DPX_OK;
}

dpx_status dpx_train_flush(dpx_trainer *t, dpx_result *out)
{
    dpx_result r = { .step = t->step, .loss = NAN, .grad_norm = NAN };
    Status st = t->pending ? apply_group(t, &r) : ST_OK;

    if (st)
        return (dpx_status)st;
    *out = r;
    if (r.updated)
        tell_progress(t, &r);
    return DPX_OK;
}

static Status evaluate(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *r)
{
    Feed f;

    TRY(need_loss(t));
    TRY(read_batch(&f, batch, n));
    TRY(run_step(t, BUILD_EVAL, &f, r));
    r->samples = f.samples;
    r->step = t->step;
    return ST_OK;
}

dpx_status dpx_val_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out)
{
    dpx_result r = { 0 };
    Status st = evaluate(t, batch, n, &r);

    if (!st)
        *out = r;
    return (dpx_status)st;
}

dpx_status dpx_test_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out)
{
    return dpx_val_step(t, batch, n, out);
}

/* ---- inference ---- */

static Status infer(dpx_trainer *t, const dpx_tensor *inputs, int n, dpx_tensor *outputs, int n_outputs)
{
    const Graph *g = t->model->graph;
    const NamedTensor *out;
    int n_out;
    Feed f;

    if (n_outputs != g->n_output)
        return FAIL(E_INVALID, "room for %d outputs, the model has %d", n_outputs, g->n_output);
    TRY(read_batch(&f, inputs, n));
    TRY(session_step(t->session, BUILD_INFER, f.tensor, f.n, &out, &n_out));
    for (int i = 0; i < g->n_output; i++) {
        const Tensor *y = find_output(out, n_out, g->output[i].name);

        if (!y)
            return FAIL(E_INTERNAL, "output '%s' was not computed", g->output[i].name);
        outputs[i] = (dpx_tensor){ .name = g->output[i].name, .dtype = (dpx_dtype)y->dtype, .rank = y->shape.rank, .data = y->data };
        memcpy(outputs[i].dim, y->shape.dim, sizeof outputs[i].dim);
    }
    return ST_OK;
}

dpx_status dpx_run(dpx_trainer *t, const dpx_tensor *inputs, int n, dpx_tensor *outputs, int n_outputs)
{
    return (dpx_status)infer(t, inputs, n, outputs, n_outputs);
}

/* ---- state ---- */

int dpx_trainer_state_count(const dpx_trainer *t)
{
    return states_count(session_states(t->session));
}

int64_t dpx_trainer_step_count(const dpx_trainer *t)
{
    return t->step;
}

dpx_status dpx_trainer_state_info(const dpx_trainer *t, int index, dpx_info *out)
{
    const State *s;

    if (index < 0 || index >= dpx_trainer_state_count(t))
        return (dpx_status)FAIL(E_INVALID, "state %d of %d", index, dpx_trainer_state_count(t));
    s = states_at(session_states(t->session), index);
    *out = (dpx_info){ .name = s->name, .dtype = (dpx_dtype)s->dtype, .rank = s->shape.rank, .trainable = s->trainable };
    memcpy(out->dim, s->shape.dim, sizeof out->dim);
    return DPX_OK;
}

static Status match_state(Tensor *view, const dpx_trainer *t, const char *name, const dpx_tensor *given)
{
    const State *s = states_find(session_states(t->session), name);
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    if (!s)
        return FAIL(E_INVALID, "there is no state '%s'", name);
    TRY(api_tensor(view, given));
    if (view->dtype != s->dtype || !shape_eq(&view->shape, &s->shape))
        return FAIL(E_SHAPE, "state '%s' is %s%s, given %s%s", name, dtype_name(s->dtype), shape_text(&s->shape, want),
                    dtype_name(view->dtype), shape_text(&view->shape, have));
    return ST_OK;
}

dpx_status dpx_trainer_get_state(dpx_trainer *t, const char *name, const dpx_tensor *out)
{
    Tensor view;
    Status st = match_state(&view, t, name, out);

    return (dpx_status)(st ? st : states_get(session_states(t->session), name, &view));
}

dpx_status dpx_trainer_set_state(dpx_trainer *t, const char *name, const dpx_tensor *in)
{
    Tensor view;
    Status st = match_state(&view, t, name, in);

    return (dpx_status)(st ? st : states_set(session_states(t->session), name, &view));
}

/* ---- checkpoints and export ---- */

static bool is_kept(const State *s)
{
    return !s->transient;
}

static Status collect_state(Arena *a, const dpx_trainer *t, NamedTensor **list, int *n)
{
    const States *states = session_states(t->session);

    *n = 0;
    if (!(*list = ARENA_NEW(a, NamedTensor, states_count(states))))
        return FAIL_NOMEM();
    for (int i = 0; i < states_count(states); i++) {
        const State *s = states_at(states, i);
        Tensor *copy = is_kept(s) ? tensor_create(a, s->dtype, &s->shape) : NULL;

        if (!is_kept(s))
            continue;
        if (!copy)
            return FAIL_NOMEM();
        TRY(states_get(states, s->name, copy));
        (*list)[(*n)++] = (NamedTensor){ s->name, *copy };
    }
    return ST_OK;
}

dpx_status dpx_trainer_save(dpx_trainer *t, const char *directory, const char *note)
{
    Arena *a = arena_create();
    NamedTensor *list;
    int n;
    Status st = a ? ST_OK : FAIL_NOMEM();

    if (!st && t->pending)
        st = FAIL(E_INVALID, "a checkpoint in the middle of an accumulated group: call dpx_train_flush first");
    if (!st)
        st = collect_state(a, t, &list, &n);
    if (!st)
        st = checkpoint_write(directory, t->step, list, n, note);
    arena_free(a);
    return (dpx_status)st;
}

/* Every state of the run must be in the checkpoint, with its type and shape; all that is wrong is listed before anything is
 * changed. */
static Status check_states(const States *states, const Checkpoint *c, const char *directory)
{
    Problems wrong = { 0 };
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    for (int i = 0; i < states_count(states); i++) {
        const State *s = states_at(states, i);
        const Tensor *t = find_output(c->tensor, c->n, s->name);

        if (!is_kept(s))
            continue;
        if (!t)
            problems_add(&wrong, "no '%s'", s->name);
        else if (t->dtype != s->dtype || !shape_eq(&t->shape, &s->shape))
            problems_add(&wrong, "'%s' is %s%s, expected %s%s", s->name, dtype_name(t->dtype), shape_text(&t->shape, have),
                         dtype_name(s->dtype), shape_text(&s->shape, want));
    }
    return problems_fail(&wrong, E_IO, "%s: the checkpoint is of another run", directory);
}

/* State exists once something is compiled; without a batch size that is one forward pass of a single sample. */
static Status ensure_state(dpx_trainer *t)
{
    static const char *const sample = "batch-size";
    BuildOptions *b = &t->options->build;
    Status st;

    if (states_count(session_states(t->session)) || b->batch)
        return ST_OK;
    TRY(options_set(t->options, sample, "1"));
    st = prepare(t);
    b->batch = 0;
    return st;
}

static Status restore(dpx_trainer *t, Arena *a, const char *directory, char **note)
{
    States *states = session_states(t->session);
    const Tensor *step;
    Checkpoint c;

    TRY(checkpoint_read(a, directory, &c));
    TRY(check_states(states, &c, directory));
    for (int i = 0; i < c.n; i++)
        if (states_find(states, c.tensor[i].name))
            TRY(states_set(states, c.tensor[i].name, &c.tensor[i].tensor));
    step = find_output(c.tensor, c.n, STATE_STEP);
    t->step = step ? tensor_int(step, 0) : c.step;
    t->pending = 0;
    if (note && !(*note = strdup(c.note)))
        return FAIL_NOMEM();
    return ST_OK;
}

dpx_status dpx_trainer_resume(dpx_trainer *t, const char *directory, char **note)
{
    Arena *a = arena_create();
    Status st = a ? ensure_state(t) : FAIL_NOMEM();

    if (!st)
        st = restore(t, a, directory, note);
    arena_free(a);
    return (dpx_status)st;
}

dpx_status dpx_trainer_export(dpx_trainer *t, const char *path)
{
    ExportOptions how = { .model = t->model->onnx, .plain = true };
    Graph *g;
    Status st = session_model(t->session, &g);

    if (st)
        return (dpx_status)st;
    st = onnx_export_file(g, &how, path);
    graph_free(g);
    return (dpx_status)st;
}
