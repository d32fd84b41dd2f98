/* What the processes of a world settle before they train: that they were given the same, that their devices fit
 * together, and that all begin with rank 0's state, whatever values their own model files or checkpoints had. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "exec/trainer.h"
#include "exec/machine.h"
#include "graph/print.h"

World *trainer_world(const dpx_trainer *t) { return t->options && t->options->world ? t->options->world->world : NULL; }

/* ---- what was given ---- */

/* Of constants that are never state; of floating ones it is known only when the session has made state of some. */
static void digest_values(XXH3_state_t *state, const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->init && g->value[i]->init->data && !dtype_is_float(g->value[i]->dtype))
            XXH3_64bits_update(state, g->value[i]->init->data, tensor_bytes(g->value[i]->init));
}

/* The graph's text without tensors, and the bytes of those that cannot be state. */
static Status add_model(Facts *f, const Graph *g)
{
    static const PrintOptions brief = { .no_init = true };
    XXH3_state_t *state = XXH3_createState();
    uint64_t digest;
    char *text = NULL;
    Status st = state ? graph_text(&text, g, &brief) : FAIL_NOMEM();

    if (!st) {
        XXH3_64bits_reset(state);
        XXH3_64bits_update(state, text, strlen(text));
        digest_values(state, g);
        digest = XXH3_64bits_digest(state);
        st = facts_add_digest(f, "a model of digest", &digest, sizeof digest);
    }
    free(text);
    XXH3_freeState(state);
    return st;
}

/* Which devices they are is each process's own affair. */
static Status add_options(Facts *f, const Options *o)
{
    for (int i = 0; i < options_count(); i++) {
        char name[64];

        snprintf(name, sizeof name, "--%s", options_at(i).name);
        if (strcmp(options_at(i).name, "devices"))
            TRY(facts_add(f, name, options_get(o, options_at(i).name)));
    }
    if (o->build.class_weights)
        TRY(facts_add_digest(f, "class weights of digest", o->build.class_weights->data,
                             tensor_bytes(o->build.class_weights)));
    return ST_OK;
}

static Status add_devices(Facts *f, const DeviceList *list)
{
    char text[64];

    snprintf(text, sizeof text, "%d of %s", list->n, list->device[0].cuda ? "CUDA" : "the CPU");
    return facts_add(f, "devices", text);
}

static Status add_all(Facts *f, const dpx_trainer *t, const DeviceList *list)
{
    TRY(facts_add(f, "version", dpx_version()));
    TRY(add_model(f, t->model->graph));
    TRY(add_options(f, t->options));
    TRY(add_devices(f, list));
    return facts_add_all(f, t->options->world->notes);
}

/* ---- devices ---- */

/* What is computed on every device must come out the same, so teams are equal: of as many threads as the machine with
 * the fewest cores for each can give. */
static Status equal_teams(World *w, DeviceList *list, int asked)
{
    int64_t share = machine_cores() / (list->n * world_neighbours(w)), least;

    TRY(world_max(w, asked ? -asked : share > 1 ? -share : -1, &least));
    for (int i = 0; i < list->n; i++)
        list->device[i].threads = (int)-least;
    return ST_OK;
}

Status trainer_enter_world(const dpx_trainer *t, DeviceList *list)
{
    World *w = trainer_world(t);
    int devices = list->n * world_size(w), replicas = t->options->build.replicas;
    Facts *f;
    Status st;

    if (world_size(w) == 1)
        return ST_OK;
    if (!(f = facts_create()))
        return FAIL_NOMEM();
    st = add_all(f, t, list);
    if (!st)
        st = world_agree(w, f, "the processes were not started alike");
    facts_free(f);
    TRY(st);
    if (replicas && replicas < devices)
        return FAIL(E_INVALID, "--replicas %d: fewer than the %d devices of %d processes", replicas, devices,
                    world_size(w));
    list->world = w;
    return equal_teams(w, list, t->options->threads);
}

/* ---- state ---- */

/* The states that all processes have, in one order. */
typedef struct {
    const State **state;
    uint64_t *mine, *first; /* digests of their values: here, at rank 0 */
    int n;
} Shared;

static void shared_free(Shared *s)
{
    free(s->state);
    free(s->mine);
    free(s->first);
}

/* A state's value, in memory of the caller's. */
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

static Status list_shared(Shared *out, const States *states)
{
    size_t most = (size_t)states_count(states) + 1;
    Tensor t;

    *out = (Shared){ malloc(most * sizeof *out->state), malloc(most * sizeof *out->mine),
                     malloc(most * sizeof *out->first), 0 };
    if (!out->state || !out->mine || !out->first)
        return FAIL_NOMEM();
    for (int i = 0; i < states_count(states); i++) {
        const State *s = states_at(states, i);

        if (s->transient || s->partial)
            continue;
        TRY(read_state(&t, states, s));
        out->mine[out->n] = out->first[out->n] = XXH3_64bits(t.data, tensor_bytes(&t));
        out->state[out->n++] = s;
        free(t.data);
    }
    return ST_OK;
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
        st = world_agree(trainer_world(t), f, "the processes do not begin alike");
    facts_free(f);
    return st;
}

/* Rank 0's value of state i to all, if any has another. */
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
    st = list_shared(&s, session_states(t->session));
    if (!st)
        st = agree_on_beginning(t, &s);
    if (!st)
        st = share_states(t, &s);
    shared_free(&s);
    t->agreed = !st;
    return st;
}
