/* What the processes of a world settle before they train: that they were given the same, that their devices fit together, and
 * that they begin with the same state. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "exec/trainer.h"
#include "graph/print.h"

World *trainer_world(const dpx_trainer *t) { return t->options && t->options->world ? t->options->world->world : NULL; }

/* ---- what was given ---- */

static void digest_values(XXH3_state_t *state, const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->init && g->value[i]->init->data)
            XXH3_64bits_update(state, g->value[i]->init->data, tensor_bytes(g->value[i]->init));
}

/* The graph's text without long tensors, and the tensors' bytes. */
static Status add_model(Facts *f, const Graph *g)
{
    static const PrintOptions brief = { .max_elements = 1 };
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
        TRY(facts_add_digest(f, "class weights of digest", o->build.class_weights->data, tensor_bytes(o->build.class_weights)));
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

/* What is computed on every device must come out the same, so teams are equal: of as many threads as the machine with the fewest
 * cores for each can give. */
static Status equal_teams(World *w, DeviceList *list, int asked)
{
    int64_t share = cpu_cores() / (list->n * world_neighbours(w)), least;

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
        return FAIL(E_INVALID, "--replicas %d: fewer than the %d devices of %d processes", replicas, devices, world_size(w));
    list->world = w;
    return equal_teams(w, list, t->options->threads);
}

/* ---- state ---- */

static Status add_state(Facts *f, const States *states, const State *s)
{
    Tensor t = { s->dtype, s->shape, NULL };
    char name[256];
    Status st;

    if (s->transient || s->partial)
        return ST_OK;
    if (!(t.data = malloc(tensor_bytes(&t) + 1)))
        return FAIL_NOMEM();
    snprintf(name, sizeof name, "state '%s' of digest", s->name);
    st = states_get(states, s->name, &t);
    if (!st)
        st = facts_add_digest(f, name, t.data, tensor_bytes(&t));
    free(t.data);
    return st;
}

Status trainer_agree_states(dpx_trainer *t)
{
    const States *states = session_states(t->session);
    Facts *f;
    Status st = ST_OK;

    if (world_size(trainer_world(t)) == 1 || t->agreed)
        return ST_OK;
    if (!(f = facts_create()))
        return FAIL_NOMEM();
    for (int i = 0; i < states_count(states) && !st; i++)
        st = add_state(f, states, states_at(states, i));
    if (!st)
        st = world_agree(trainer_world(t), f, "the processes do not begin with the same state");
    facts_free(f);
    t->agreed = !st;
    return st;
}
