/* What leaves and enters a trainer besides batches: state, checkpoints, timings, the trained model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/checkpoint.h"
#include "exec/trace.h"
#include "exec/trainer.h"

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

    t->agreed = false;
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
        const Tensor *t = named_find(c->tensor, c->n, s->name);

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
    st = trainer_prepare(t);
    b->batch = 0;
    return st;
}

static Status restore(dpx_trainer *t, Arena *a, const char *directory, char **note)
{
    States *states = session_states(t->session);
    Checkpoint c;

    TRY(checkpoint_read(&c, a, directory));
    TRY(check_states(states, &c, directory));
    for (int i = 0; i < c.n; i++)
        if (states_find(states, c.tensor[i].name))
            TRY(states_set(states, c.tensor[i].name, &c.tensor[i].tensor));
    t->step = c.step;       /* not the state's, which counts no step that was skipped */
    t->pending = 0;
    t->agreed = false;
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

/* ---- timing ---- */

dpx_status dpx_trainer_trace(dpx_trainer *t, uint32_t events)
{
    Trace *fresh = NULL;
    Status st = events ? trace_create(&fresh, events) : ST_OK;

    if (st)
        return (dpx_status)st;
    session_set_trace(t->session, fresh);
    trace_free(t->trace);
    t->trace = fresh;
    return DPX_OK;
}

dpx_status dpx_trainer_write_trace(const dpx_trainer *t, const char *path)
{
    FILE *f = t->trace ? fopen(path, "w") : NULL;
    Status st;

    if (!t->trace)
        return (dpx_status)FAIL(E_INVALID, "nothing was timed: call dpx_trainer_trace first");
    if (!f)
        return (dpx_status)FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));
    st = trace_write(t->trace, f);
    if (fclose(f) && !st)
        st = FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));
    return (dpx_status)st;
}

/* ---- export ---- */

dpx_status dpx_trainer_export(dpx_trainer *t, const char *path)
{
    ExportOptions how = { .model = t->model->onnx, .plain = true };
    Graph *g;
    Status st = session_model(&g, t->session);

    if (st)
        return (dpx_status)st;
    st = onnx_export_file(g, &how, path);
    graph_free(g);
    return (dpx_status)st;
}
