/* The state of a trainer: reading and setting it, checkpoints, resuming, and sending rank 0's values to all processes
 * of a world, whatever values their own model files or checkpoints had. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "exec/api/trainer.h"
#include "exec/state/checkpoint.h"
#include "graph/base/hash.h"
#include "passes/options/update.h"

/* ---- before the first step ---- */

static Status know_states(const dpx_trainer *t)
{
    const BuildOptions *b = &t->options->build;

    if (!has_loss(b))
        return session_know_states(t->session, BUILD_INFER);
    if (t->options->accumulate == 1)
        return session_know_states(t->session, BUILD_TRAIN);
    TRY(session_know_states(t->session, BUILD_ACCUMULATE));
    return session_know_states(t->session, update_options(b)->turns ? BUILD_FINISH : BUILD_APPLY);
}

Status trainer_know_states(dpx_trainer *t)
{
    Status st = t->states_known || t->resumed ? ST_OK : know_states(t);

    t->states_known |= !st;
    return st == E_NOMEM || !st ? st
                                : status_prefix(E_INVALID, "the states are not known before the first step: give "
                                                           "\"batch-size\", or make a step first");
}

/* ---- reading and setting ---- */

int dpx_trainer_state_count(dpx_trainer *t)
{
    return !t || trainer_know_states(t) ? 0 : states_count(session_states(t->session));
}

int64_t dpx_trainer_step_count(const dpx_trainer *t) { return t ? t->step : 0; }

dpx_status dpx_trainer_state_info_sized(dpx_trainer *t, int index, dpx_info *out, size_t size)
{
    const int n = dpx_trainer_state_count(t);
    const State *s;
    dpx_info info;
    Status st;

    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_info);
    if ((st = trainer_know_states(t)))
        return (dpx_status)st;
    if (index < 0 || index >= n)
        return (dpx_status)FAIL(E_INVALID, "state %d of %d", index, n);
    s = states_at(session_states(t->session), index);
    info =
        (dpx_info){ .name = s->name, .dtype = (dpx_dtype)s->dtype, .rank = s->shape.rank, .trainable = s->trainable };
    memcpy(info.dim, s->shape.dim, sizeof info.dim);
    GIVE(out, size, info);
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

bool trainer_has_peers(const dpx_trainer *t) { return world_size(trainer_world(t)) > 1; }

/* Takes part in putting a state together, for a process that reads it. */
static Status join_read(const dpx_trainer *t, const char *name)
{
    const State *s = states_find(session_states(t->session), name);
    Tensor none;

    if (!s)
        return FAIL(E_INVALID, "there is no state '%s'", name);
    none = (Tensor){ s->dtype, s->shape, NULL };
    return states_get(session_states(t->session), name, &none);
}

dpx_status dpx_trainer_get_state(dpx_trainer *t, const char *name, const dpx_tensor *out)
{
    Tensor view;
    Status st;

    NEED(t, "trainer");
    NEED(name, "name");
    world_set_purpose(trainer_world(t), "dpx_trainer_get_state of '%s'", name);
    if ((st = trainer_know_states(t)))
        return (dpx_status)st;
    if (!out && trainer_has_peers(t))
        return (dpx_status)join_read(t, name);
    NEED(out, "out");
    st = match_state(&view, t, name, out);
    return (dpx_status)(st ? st : states_get(session_states(t->session), name, &view));
}

dpx_status dpx_trainer_set_state(dpx_trainer *t, const char *name, const dpx_tensor *in)
{
    const State *s;
    Tensor view;
    Status st;

    NEED(t, "trainer");
    NEED(name, "name");
    NEED(in, "in");
    st = trainer_know_states(t);
    if (!st)
        st = match_state(&view, t, name, in);
    if (st)
        return (dpx_status)st;
    t->agreed = false;
    s = states_find(session_states(t->session), name);
    if (s->cut ||
        state_waits(s)) /* no process has all of it: processes compare the values that its pieces were cut from */
        t->given = hash_int(hash_text(t->given, name), (int64_t)XXH3_64bits(view.data, tensor_bytes(&view)));
    return (dpx_status)states_set(session_states(t->session), name, &view);
}

/* ---- checkpoints and export ---- */

/* int64 0-d, beside the state: the axis of the logits that counts the classes */
#define CLASS_AXIS "dpexec.class_axis"

static bool is_kept(const State *s) { return !s->transient; }

static Status collect_class_axis(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n)
{
    const int axis = session_class_axis(t->session);
    const Shape scalar = shape_scalar();
    Tensor *kept;

    if (!axis)
        return ST_OK;
    if (!(kept = tensor_create(a, DT_INT64, &scalar)))
        return FAIL_NOMEM();
    tensor_set_int(kept, 0, axis);
    list[(*n)++] = (NamedTensor){ CLASS_AXIS, *kept };
    return ST_OK;
}

/* Lists the tensors of a checkpoint by name, type and shape, with their data where they lie; read_kept gives the
 * others, one by one. */
static Status collect_state(Arena *a, const dpx_trainer *t, NamedTensor **list, int *n)
{
    const States *states = session_states(t->session);

    *n = 0;
    if (!(*list = ARENA_NEW(a, NamedTensor, states_count(states) + 7 + 2 * DPX_MAX_METRICS)))
        return FAIL_NOMEM();
    for (int i = 0; i < states_count(states); i++) {
        const State *s = states_at(states, i);

        if (is_kept(s))
            (*list)[(*n)++] = (NamedTensor){ s->name, { s->dtype, s->shape, (void *)states_lend(states, s) } };
    }
    TRY(collect_class_axis(a, t, *list, n));
    TRY(trainer_keep_roles(a, t, *list, n));
    TRY(trainer_keep_decisions(a, t, *list, n));
    TRY(trainer_keep_observed(a, t, *list, n));
    TRY(trainer_keep_rates(a, t, *list, n));
    return trainer_keep_trained(a, t, *list, n);
}

/* A TensorSource; `user` is the States. */
static Status read_kept(void *user, const NamedTensor *wanted, void *to)
{
    return states_get(user, wanted->name, &(Tensor){ wanted->tensor.dtype, wanted->tensor.shape, to });
}

Status trainer_save(dpx_trainer *t, Arena *a, const char *directory, FILE *to, const char *note)
{
    States *states = session_states(t->session);
    NamedTensor *list;
    int n;

    if (t->pending)
        return FAIL(E_INVALID,
                    "a checkpoint in the middle of an accumulated group: call dpx_train_flush, dpx_train_update or "
                    "dpx_train_reset first");
    TRY(trainer_know_states(t));
    TRY(collect_state(a, t, &list, &n));
    if (directory)
        return checkpoint_write(directory, t->step, list, n, read_kept, states, note);
    if (to)
        return checkpoint_write_stream(to, t->step, list, n, read_kept, states, note);
    for (int i = 0; i < n; i++)
        if (!list[i].tensor.data)
            TRY(read_kept(states, &list[i], NULL));
    return ST_OK;
}

dpx_status dpx_trainer_save(dpx_trainer *t, const char *directory, const char *note)
{
    Arena *a;
    Status st;

    NEED(t, "trainer");
    if (!trainer_has_peers(t))
        NEED(directory, "directory");
    world_set_purpose(trainer_world(t), "the checkpoint of step %" PRId64, t->step);
    st = (a = arena_create()) ? trainer_save(t, a, directory, NULL, note) : FAIL_NOMEM();
    arena_free(a);
    return (dpx_status)st;
}

/* ---- resuming ----
 *
 * A single process verifies the whole checkpoint before it takes any of it; if the checkpoint is damaged, it takes an
 * older one.  In a world each process reads and verifies only the blocks of what it holds, when it comes to hold it.
 *
 * A state exists once a program that has it is compiled, which may be after resuming: until then the session's states
 * keep the checkpoint's value of it.  So the checkpoint is compared with the run in two parts: at once for states that
 * exist, and for the rest when the following steps have been compiled. */

/* Checks that the checkpoint has all state that programs have, with its type and shape; lists all that is wrong.  If
 * each floating state has another type, the run itself has, and the message names the flag. */
static Status check_states(const States *states, const Checkpoint *c, const char *directory)
{
    PROBLEMS(wrong);
    char want[SHAPE_TEXT], have[SHAPE_TEXT];
    DType was = DT_NONE, is = DT_NONE;
    int retyped = 0;

    for (int i = 0; i < states_count(states); i++) {
        const State *s = states_at(states, i);
        const Tensor *t = named_find(c->tensor, c->n, s->name);

        if (!is_kept(s) || state_waits(s))
            continue;
        if (t && t->dtype != s->dtype && shape_eq(&t->shape, &s->shape)) {
            retyped += !retyped || (t->dtype == was && s->dtype == is);
            was = t->dtype;
            is = s->dtype;
        }
        if (!t)
            trainer_list_missing(&wrong, s);
        else if (t->dtype != s->dtype || !shape_eq(&t->shape, &s->shape))
            problems_add(&wrong, "'%s' is %s%s, expected %s%s", s->name, dtype_name(t->dtype),
                         shape_text(&t->shape, have), dtype_name(s->dtype), shape_text(&s->shape, want));
    }
    if (retyped && retyped == wrong.n && dtype_is_float(was) && dtype_is_float(is))
        return FAIL(E_IO, "%s: the checkpoint is of a run in %s, and this one is in %s: give --dtype %s", directory,
                    dtype_name(was), dtype_name(is), dtype_name(was));
    return problems_fail(&wrong, E_IO, "%s: the checkpoint is of another run", directory);
}

/* The model's own state of this name; NULL: none. */
static const Value *model_state(const dpx_trainer *t, const char *name)
{
    ValueId v = graph_find(t->model->states, name);

    return has_value(v) ? value(t->model->states, v) : NULL;
}

/* Sets all states and the step; micro-batches of a group that is not complete are forgotten. */
static Status restore(dpx_trainer *t, const Checkpoint *c)
{
    States *states = session_states(t->session);

    t->agreed = t->averaged = false;
    t->given = hash_text(HASH_BEGIN, c->digest);
    t->resumed = true;
    states_drop_waiting(states);
    for (int i = 0; i < c->n; i++) {
        const char *name = c->tensor[i].name;
        const Value *v = model_state(t, name);

        if (!strcmp(name, CLASS_AXIS) || !strcmp(name, OBSERVED) || !strcmp(name, RATES) ||
            !strncmp(name, TRAINED, strlen(TRAINED)))
            continue;
        TRY(states_find(states, name) ? states_set_file(states, c->file, i)
                                      : states_give_file(states, c->file, i, v && v->trainable));
    }
    t->n_resumed = states_count(states);
    t->step = c->step; /* not the state's, which counts no step that was skipped */
    t->pending = 0;
    t->closes = false;
    t->kept = NULL;
    return states_zero_transient(states);
}

static Status keep_class_axis(dpx_trainer *t, const Checkpoint *c)
{
    const int i = checkpoint_find(c, CLASS_AXIS);
    int64_t axis = 0;

    if (i < 0)
        return ST_OK;
    if (c->tensor[i].tensor.dtype == DT_INT64 && tensor_numel(&c->tensor[i].tensor) == 1)
        TRY(tensor_file_read(c->file, i, &axis, 0, sizeof axis));
    if (axis < 1 || axis >= MAX_RANK)
        return FAIL(E_IO, "the checkpoint's '%s' is not an axis", CLASS_AXIS);
    return session_keep_class_axis(t->session, (int)axis);
}

static Status take_checkpoint(dpx_trainer *t, Arena *a, const Checkpoint *c, const char *directory, char **note)
{
    double rate[1 + MAX_GROUPS];
    char *copy;
    Status st;

    TRY(check_states(session_states(t->session), c, directory));
    TRY(keep_class_axis(t, c));
    TRY(trainer_compare_roles(t, a, c));
    TRY(trainer_resume_observed(t, c));
    TRY(trainer_read_rates(rate, t, c));
    TRY(trainer_resume_trained(t, a, c));
    TRY(trainer_resume_decisions(t, c));
    if (!(copy = strdup(c->note)))
        return FAIL_NOMEM();
    if (!(st = trainer_share_failure(t, restore(t, c))))
        memcpy(t->rate, rate, sizeof t->rate);
    if (!st && note)
        *note = copy;
    else
        free(copy);
    return st;
}

/* `step`: of the checkpoint; negative: the newest that verifies. */
static Status resume(dpx_trainer *t, Arena *a, const char *directory, int64_t step, char **note)
{
    const bool whole = !trainer_has_peers(t);
    char line[8192];
    Checkpoint c;
    Status st;

    TRY(step < 0 ? checkpoint_read(&c, a, directory, whole, &t->bytes_resumed)
                 : checkpoint_read_step(&c, a, directory, step, whole, &t->bytes_resumed));
    for (int i = 0; i < c.n_skipped && t->log; i++) {
        snprintf(line, sizeof line, "a newer checkpoint is damaged and skipped: %s", c.skipped[i]);
        t->log(t->log_user, DPX_LOG_WARNING, line);
    }
    st = take_checkpoint(t, a, &c, directory, note);
    checkpoint_close(&c);
    return st;
}

int64_t dpx_trainer_bytes_resumed(const dpx_trainer *t) { return t ? t->bytes_resumed : 0; }

dpx_status dpx_trainer_resume(dpx_trainer *t, const char *directory, char **note)
{
    Arena *a;
    Status st;

    NEED(t, "trainer");
    NEED(directory, "directory");
    st = (a = arena_create()) ? resume(t, a, directory, -1, note) : FAIL_NOMEM();
    arena_free(a);
    return (dpx_status)st;
}

dpx_status dpx_trainer_resume_step(dpx_trainer *t, const char *directory, int64_t step, char **note)
{
    Arena *a;
    Status st;

    NEED(t, "trainer");
    NEED(directory, "directory");
    if (step < 0)
        return (dpx_status)FAIL(E_INVALID, "dpx_trainer_resume_step: step %" PRId64 ", expected 0 or more", step);
    st = (a = arena_create()) ? resume(t, a, directory, step, note) : FAIL_NOMEM();
    arena_free(a);
    return (dpx_status)st;
}

dpx_status dpx_checkpoint_verify(const char *directory, int64_t step)
{
    Arena *a;
    Checkpoint c = { 0 };
    Status st;

    NEED(directory, "directory");
    st = (a = arena_create()) ? checkpoint_read_step(&c, a, directory, step, true, NULL) : FAIL_NOMEM();
    checkpoint_close(&c);
    arena_free(a);
    return (dpx_status)st;
}

dpx_status dpx_checkpoint_remove(const char *directory, int64_t step)
{
    NEED(directory, "directory");
    return (dpx_status)checkpoint_remove(directory, step);
}

static bool program_reads(const Program *p, const char *state)
{
    if (!p)
        return false;
    FOR_NODES(program_graph(p), n)
        for (int i = 0; i < n->n_in; i++)
            if (has_value(n->in[i]) && in_value(program_graph(p), n, i)->kind == V_STATE &&
                !strcmp(value_logical_name(in_value(program_graph(p), n, i)), state))
                return true;
    return false;
}

/* Does a program use a parameter that was resumed? */
static bool is_ours(const dpx_trainer *t)
{
    const States *states = session_states(t->session);

    for (int i = 0; i < t->n_resumed; i++)
        if (states_at(states, i)->trainable && states_at(states, i)->n_copy)
            return true;
    return false;
}

/* Must the checkpoint have this state?  Before the first step of a run only the model has state.  A checkpoint may be
 * without parameters that only evaluation needs, of outputs that are not trained: they keep the model's values. */
static bool is_missed(const dpx_trainer *t, BuildMode mode, const State *s)
{
    if (!is_kept(s))
        return false;
    if (!model_state(t, s->name))
        return t->step > 0;
    return mode < BUILD_TRAIN ? !is_ours(t) : program_reads(session_program(t->session, mode), s->name);
}

Status trainer_check_resumed(dpx_trainer *t, BuildMode mode, const NamedTensor *in, int n_in)
{
    const States *states = session_states(t->session);
    const bool trains = mode >= BUILD_TRAIN;
    PROBLEMS(wrong);

    TRY(session_prepare(t->session, mode, in, n_in));
    if (mode == BUILD_ACCUMULATE)
        TRY(session_prepare(t->session, update_options(&t->options->build)->turns ? BUILD_FINISH : BUILD_APPLY, in,
                            n_in));
    for (int i = t->n_resumed; i < states_count(states); i++)
        if (is_missed(t, mode, states_at(states, i)))
            trainer_list_missing(&wrong, states_at(states, i));
    for (int i = 0; i < states_count(states) && trains; i++) {
        const State *s = states_at(states, i);

        /* Parameters of an output that is not trained may have been state of the run before. */
        if (state_waits(s) && (!model_state(t, s->name) || trainer_was_trained(t, s->name)))
            trainer_list_foreign(&wrong, t, s->name);
    }
    if (trains)
        trainer_compare_decisions(&wrong, t);
    TRY(problems_fail(&wrong, E_IO, "the checkpoint that was resumed from is of another run"));
    t->resumed = !trains;
    return ST_OK;
}

/* ---- the same in all processes ---- */

/* The states that all processes have, by name. */
typedef struct {
    const State **state;
    uint64_t *mine, *first; /* digests of their values, 0 of what is in pieces or waits: here, at rank 0 */
    int n;
} Shared;

/* Reads the value of a state; the caller frees its data. */
static Status read_state(Tensor *out, const States *states, const State *s)
{
    Status st;

    *out = (Tensor){ s->dtype, s->shape, NULL };
    if (!(out->data = malloc(tensor_bytes(out) + 1)))
        return FAIL_NOMEM();
    if ((st = states_get(states, s->name, out)))
        free(out->data);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const State *const *)a)->name, (*(const State *const *)b)->name);
}

/* By name, for each process may have come to know them in another order.  A state that is only foreseen is left out:
 * not every process may have asked for it, and it begins with the program's value. */
static void order_shared(Shared *out, const States *states)
{
    for (int i = 0; i < states_count(states); i++) {
        const State *s = states_at(states, i);

        if (!s->transient && !s->partial && !s->foreseen)
            out->state[out->n++] = s;
    }
    qsort(out->state, (size_t)out->n, sizeof *out->state, by_name);
}

static Status list_shared(Shared *out, const States *states)
{
    size_t most = (size_t)states_count(states) + 1;
    Tensor t;

    *out = (Shared){ malloc(most * sizeof *out->state), malloc(most * sizeof *out->mine),
                     malloc(most * sizeof *out->first), 0 };
    if (!out->state || !out->mine || !out->first)
        return FAIL_NOMEM();
    order_shared(out, states);
    for (int i = 0; i < out->n; i++) {
        const State *s = out->state[i];

        t.data = NULL;
        if (!states_spread(states, s) && !state_waits(s))
            TRY(read_state(&t, states, s));
        out->mine[i] = out->first[i] = t.data ? XXH3_64bits(t.data, tensor_bytes(&t)) : 0;
        free(t.data);
    }
    return ST_OK;
}

/* No process has all of a state in pieces: the values that the pieces were cut from must be the same. */
static Status add_pieces(Facts *f, const dpx_trainer *t, const Shared *s)
{
    bool any = false;

    for (int i = 0; i < s->n; i++) {
        const Tensor *init = model_state(t, s->state[i]->name) ? model_state(t, s->state[i]->name)->init : NULL;
        char name[256];

        if (!states_spread(session_states(t->session), s->state[i]))
            continue;
        any = true;
        snprintf(name, sizeof name, "state '%s', in pieces, of digest", s->state[i]->name);
        if (!t->given && init && init->data)
            TRY(facts_add_digest(f, name, init->data, tensor_bytes(init)));
    }
    return any ? facts_add_digest(f, "what was given to states in pieces, of digest", &t->given, sizeof t->given)
               : ST_OK;
}

/* Floating constants that have not become state: rank 0's are not sent, so they must be the same. */
static Status add_constants(Facts *f, const dpx_trainer *t)
{
    const Graph *g = t->model->graph;

    for (uint32_t i = 1; i < g->n_value; i++) {
        const Tensor *init = g->value[i]->init;
        char name[256];

        if (!init || !init->data || !dtype_is_float(init->dtype) ||
            states_find(session_states(t->session), g->value[i]->name))
            continue;
        snprintf(name, sizeof name, "constant '%s' of digest", g->value[i]->name);
        TRY(facts_add_digest(f, name, init->data, tensor_bytes(init)));
    }
    return ST_OK;
}

static Status add_beginning(Facts *f, const dpx_trainer *t, const Shared *s)
{
    char name[256], text[SHAPE_TEXT + 64], shape[SHAPE_TEXT];

    snprintf(text, sizeof text, "%" PRId64, t->step);
    TRY(facts_add(f, "steps done", text));
    for (int i = 0; i < s->n; i++) {
        snprintf(name, sizeof name, "state '%s'", s->state[i]->name);
        snprintf(text, sizeof text, "number %d: %s%s", i, dtype_name(s->state[i]->dtype),
                 shape_text(&s->state[i]->shape, shape));
        TRY(facts_add(f, name, text));
    }
    TRY(trainer_agree_observed(f, t));
    TRY(add_pieces(f, t, s));
    return add_constants(f, t);
}

static Status agree_on_beginning(const dpx_trainer *t, const Shared *s)
{
    Facts *f = facts_create();
    Status st;

    if (!f)
        return FAIL_NOMEM();
    st = add_beginning(f, t, s);
    if (!st)
        st = world_agree(trainer_world(t), f, "the processes begin with different values");
    facts_free(f);
    return st;
}

/* Sends rank 0's value of state i to all processes, if one of them has another. */
static Status share_state(const dpx_trainer *t, const Shared *s, int i, int *sent)
{
    World *w = trainer_world(t);
    int64_t differs = s->mine[i] != s->first[i];
    Tensor value;
    Status st;

    TRY(world_max(w, differs, &differs));
    if (!differs)
        return ST_OK;
    TRY(read_state(&value, session_states(t->session), s->state[i]));
    st = world_share(w, 0, value.data, tensor_bytes(&value));
    if (!st && s->mine[i] != s->first[i])
        st = states_set(session_states(t->session), s->state[i]->name, &value);
    free(value.data);
    ++*sent;
    return st;
}

static Status share_states(const dpx_trainer *t, const Shared *s)
{
    World *w = trainer_world(t);
    int64_t differs;
    char line[128];
    int sent = 0;

    TRY(world_share(w, 0, s->first, (size_t)s->n * sizeof *s->first));
    TRY(world_max(w, memcmp(s->mine, s->first, (size_t)s->n * sizeof *s->mine) != 0, &differs));
    for (int i = 0; i < s->n && differs; i++)
        TRY(share_state(t, s, i, &sent));
    snprintf(line, sizeof line, "the processes began with different values of %d of %d states: all go on with rank 0's",
             sent, s->n);
    if (sent && t->log)
        t->log(t->log_user, DPX_LOG_WARNING, line);
    return ST_OK;
}

Status trainer_agree_states(dpx_trainer *t)
{
    Shared s = { .n = 0 };
    Status st;

    if (world_size(trainer_world(t)) == 1 || t->agreed)
        return ST_OK;
    world_set_purpose(trainer_world(t), "comparing the states with which the processes begin");
    st = list_shared(&s, session_states(t->session));
    if (!st)
        st = agree_on_beginning(t, &s);
    if (!st)
        st = share_states(t, &s);
    free(s.state);
    free(s.mine);
    free(s.first);
    t->agreed = !st;
    return st;
}
