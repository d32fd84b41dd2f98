/* Predictors: a model for inference that many threads use at once.
 *
 * Each call takes a lane: a trainer without training, with a device and programs of its own.  There are as many lanes
 * as calls were ever made at the same time.  All lanes read one set of weights, those of the first lane; taking others
 * from a trainer waits for the calls under way and holds back new ones while it copies.  Lanes share the model's
 * memory, so that they are made and freed under the lock. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/data.h"
#include "exec/api/trainer.h"
#include "exec/train/options_store.h"
#include "passes/options/batch.h"
#include "passes/options/replicas.h"
#include "passes/options/update.h"

typedef struct Lane {
    struct Lane *next_made, *next_idle;
    dpx_trainer *trainer;
    dpx_tensor *output; /* [outputs of the model] */
    bool ran;           /* a call succeeded, whose program has all states */
} Lane;

struct dpx_predictor {
    const dpx_model *model;
    Options *options;
    pthread_mutex_t lock;     /* of the lists */
    pthread_rwlock_t weights; /* read by calls, written by dpx_predictor_take */
    Lane *made, *idle;        /* the last made comes first */
    Lane *first;              /* whose states all have */
    bool states_known;        /* they are foreseen, or a lane ran */
};

/* ---- life ---- */

static void lane_free(Lane *l)
{
    dpx_trainer_free(l->trainer);
    free(l->output);
    free(l);
}

/* Called with the lock. */
static Status add_lane(Lane **out, dpx_predictor *p)
{
    Lane *l = calloc(1, sizeof *l);
    Status st = ST_OK;

    if (!l || !(l->output = calloc((size_t)p->model->graph->n_output + 1, sizeof *l->output)))
        st = FAIL_NOMEM();
    if (!st)
        st = trainer_create_beside(&l->trainer, p->model, p->options, p->first ? p->first->trainer : NULL);
    if (st) {
        if (l)
            lane_free(l);
        return st;
    }
    session_run_directly(l->trainer->session);
    p->first = p->first ? p->first : l;
    l->next_made = p->made;
    p->made = l;
    *out = l;
    return ST_OK;
}

/* The trainer's options, or the defaults for the model, for one processor core. */
static Status default_options(Options **out, const dpx_model *m, const dpx_trainer *t)
{
    Options *o = t ? NULL : options_create();
    Status st = t ? options_copy(&o, t->options) : o ? ST_OK : FAIL_NOMEM();

    TRY(st);
    if (!t)
        st = model_give_attached(o, m);
    if (!st)
        st = options_set(o, "devices", "cpu");
    if (!st)
        st = options_set(o, "threads", "1");
    if (st)
        options_free(o);
    else
        *out = o;
    return st;
}

/* Sets to their defaults the options that training has, and those of several devices. */
static Status settle_options(Options *o)
{
    static const char *const plain[][2] = {
        { "accumulate", "1" },    { "split", "balanced" },       { "shard", "none" },
        { "output-device", "0" }, { "eval-weights", "trained" },
    };

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        TRY(options_set(o, plain[i][0], plain[i][1]));
    for (int i = 0; i < options_count(); i++)
        if (!strcmp(options_at(i).name, "batch-size") || !strcmp(options_at(i).name, "replicas"))
            o->text[i] = NULL;
    stored_batch(o)->batch = 0;
    stored_replicas(o)->replicas = 0;
    o->world = NULL;
    return ST_OK;
}

static Status check_devices(const Options *o)
{
    DeviceList list;

    TRY(options_devices(&list, o));
    return list.n == 1 ? ST_OK : FAIL(E_INVALID, "--devices: a predictor has one device, found %d", list.n);
}

static Status take(dpx_predictor *p, dpx_trainer *t, Status made) CHECKED;

static Status predictor_create(dpx_predictor *p, dpx_trainer *t, const Options *o)
{
    Lane *l;

    TRY(o ? options_copy(&p->options, o) : default_options(&p->options, p->model, t));
    TRY(settle_options(p->options));
    TRY(check_devices(p->options));
    TRY(add_lane(&l, p));
    p->idle = l;
    return ST_OK;
}

/* Calls that follow one another without a gap must not keep new weights out. */
static void init_weights(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t how;

    pthread_rwlockattr_init(&how);
    pthread_rwlockattr_setkind_np(&how, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &how);
    pthread_rwlockattr_destroy(&how);
}

dpx_status dpx_predictor_create(dpx_predictor **out, const dpx_model *model, dpx_trainer *t, const dpx_options *options)
{
    dpx_predictor *p;
    Status st;

    NEED(out, "out");
    if (!model)
        NEED(t, "trainer");
    if (!(p = calloc(1, sizeof *p)))
        return (dpx_status)FAIL_NOMEM();
    p->model = model_keep(model ? model : t->model);
    pthread_mutex_init(&p->lock, NULL);
    init_weights(&p->weights);
    st = predictor_create(p, t, (const Options *)options);
    if (t)
        st = take(p, t, st);
    if (st)
        dpx_predictor_free(p);
    else
        *out = p;
    return (dpx_status)st;
}

void dpx_predictor_free(dpx_predictor *p)
{
    if (!p)
        return;
    for (Lane *l = p->made, *next; l; l = next) { /* the first made, whose states the others have, is the last */
        next = l->next_made;
        lane_free(l);
    }
    pthread_rwlock_destroy(&p->weights);
    pthread_mutex_destroy(&p->lock);
    options_free(p->options);
    model_release(p->model);
    free(p);
}

/* ---- weights ---- */

/* The trainer's state that the predictor is to have under this name; NULL: none. */
static const State *source_of(const dpx_trainer *t, const char *name, Arena *a)
{
    const States *states = session_states(t->session);
    const char *mean = session_reads_means(t->session) ? arena_printf(a, "%s." EMA_SUFFIX, name) : NULL;
    const State *state = mean ? states_find(states, mean) : NULL;

    return state ? state : states_find(states, name);
}

/* Copies one state.  All processes of the trainer's world call it. */
static Status take_state(const dpx_predictor *p, const dpx_trainer *t, const State *to, Arena *a)
{
    const State *from = source_of(t, to->name, a);
    Tensor *value, *as;

    if (!from)
        return ST_OK;
    if (!(value = tensor_create(a, from->dtype, &from->shape)) || !(as = tensor_create(a, to->dtype, &to->shape)))
        return FAIL_NOMEM();
    TRY(states_get(session_states(t->session), from->name, value));
    if (from->dtype == to->dtype)
        as = value;
    for (int64_t i = 0; i < tensor_numel(as) && as != value; i++)
        tensor_set_float(as, i, tensor_float(value, i));
    return states_set(session_states(p->first->trainer->session), to->name, as);
}

static Status check_shapes(const dpx_predictor *p, const dpx_trainer *t)
{
    const States *have = session_states(p->first->trainer->session);
    Arena *a = arena_create();
    Status st = a ? ST_OK : FAIL_NOMEM();

    for (int i = 0; i < states_count(have) && !st; i++) {
        const State *to = states_at(have, i), *from = source_of(t, to->name, a);

        if (from && !shape_eq(&from->shape, &to->shape))
            st = FAIL(E_SHAPE, "dpx_predictor_take: '%s' has another shape in the trainer", to->name);
    }
    arena_free(a);
    return st;
}

/* Lists the trainer's parameters that the predictor's model has and no state holds: its programs have them as
 * constants.
 */
static Status check_taken(const dpx_predictor *p, const dpx_trainer *t)
{
    const States *have = session_states(p->first->trainer->session), *states = session_states(t->session);
    PROBLEMS(fixed);

    for (int i = 0; i < states_count(states); i++) {
        const State *s = states_at(states, i);

        if (s->trainable && !states_find(have, s->name) && has_value(graph_find(p->model->graph, s->name)))
            problems_add(&fixed, "'%s'", s->name);
    }
    return problems_fail(&fixed, E_INVALID, "dpx_predictor_take: the predictor has these as constants");
}

/* Can the predictor take the trainer's weights? */
static Status check_take(dpx_predictor *p, const dpx_trainer *t)
{
    Status st = p->states_known ? ST_OK : session_know_states(p->first->trainer->session, BUILD_INFER);

    p->states_known |= !st;
    if (st)
        return status_prefix(st == E_NOMEM ? st : E_INVALID, "dpx_predictor_take: the states are not known before a "
                                                             "first call of dpx_predict");
    TRY(check_taken(p, t));
    return check_shapes(p, t);
}

static Status copy_all(const dpx_predictor *p, dpx_trainer *t)
{
    const States *have = session_states(p->first->trainer->session);
    Status st = trainer_average(t);

    for (int i = 0; i < states_count(have) && !st; i++) {
        Arena *a = arena_create();

        st = a ? take_state(p, t, states_at(have, i), a) : FAIL_NOMEM();
        arena_free(a);
    }
    return st;
}

/* `made`: whether the predictor could be made here.  All processes of the world get as far as trainer_agree. */
static Status take(dpx_predictor *p, dpx_trainer *t, Status made)
{
    Status st = made;

    world_set_purpose(trainer_world(t), "the weights of a predictor");
    pthread_rwlock_wrlock(&p->weights);
    pthread_mutex_lock(&p->lock);
    st = trainer_agree(t, st ? st : check_take(p, t), "dpx_predictor_take");
    if (!st)
        st = trainer_share_failure(t, copy_all(p, t));
    pthread_mutex_unlock(&p->lock);
    pthread_rwlock_unlock(&p->weights);
    return st;
}

dpx_status dpx_predictor_take(dpx_predictor *p, dpx_trainer *t)
{
    NEED(p, "predictor");
    NEED(t, "trainer");
    return (dpx_status)take(p, t, ST_OK);
}

/* ---- calls ---- */

static Status take_lane(Lane **out, dpx_predictor *p)
{
    Status st = ST_OK;

    pthread_mutex_lock(&p->lock);
    if ((*out = p->idle))
        p->idle = p->idle->next_idle;
    else
        st = add_lane(out, p);
    pthread_mutex_unlock(&p->lock);
    return st;
}

static void give_lane(dpx_predictor *p, Lane *l)
{
    pthread_mutex_lock(&p->lock);
    p->states_known |= l->ran;
    l->next_idle = p->idle;
    p->idle = l;
    pthread_mutex_unlock(&p->lock);
}

static Status run_lane(Lane *l, const dpx_predictor *p, const dpx_tensor *inputs, int n)
{
    const Status st = (Status)dpx_run(l->trainer, inputs, n, l->output, p->model->graph->n_output);

    l->ran |= !st;
    return st;
}

/* A map from the model's outputs to copies of them. */
static Status copy_outputs(dpx_data **out, const Lane *l, int n)
{
    dpx_data *map;
    Status st = data_create(&map, DPX_DATA_MAP, n);

    TRY(st);
    for (int i = 0; i < n && !st; i++) {
        dpx_data *copy;

        st = (Status)dpx_data_tensor(&copy, &l->output[i]);
        if (!st) {
            map->member[i] = copy;
            st = data_set_key(map, i, l->output[i].name);
        }
    }
    if (st)
        data_release(map);
    else
        *out = map;
    return st;
}

dpx_status dpx_predict(dpx_predictor *p, const dpx_tensor *inputs, int n, dpx_data **outputs)
{
    Lane *l;
    Status st;

    NEED(p, "predictor");
    NEED(outputs, "outputs");
    pthread_rwlock_rdlock(&p->weights);
    if (!(st = take_lane(&l, p))) {
        st = run_lane(l, p, inputs, n);
        if (!st)
            st = copy_outputs(outputs, l, p->model->graph->n_output);
        give_lane(p, l);
    }
    pthread_rwlock_unlock(&p->weights);
    return (dpx_status)st;
}

/* Compiles `callers` lanes for these shapes, one after the other. */
static Status warm(dpx_predictor *p, int callers, const dpx_tensor *inputs, int n)
{
    Lane *taken = NULL, *l;
    Status st = ST_OK;

    for (int i = 0; i < callers && !st; i++) {
        if ((st = take_lane(&l, p)))
            break;
        st = run_lane(l, p, inputs, n);
        l->next_idle = taken;
        taken = l;
    }
    while ((l = taken)) {
        taken = l->next_idle;
        give_lane(p, l);
    }
    return st;
}

dpx_status dpx_predictor_warm(dpx_predictor *p, int callers, const dpx_tensor *inputs, int n)
{
    Status st;

    NEED(p, "predictor");
    if (callers < 1)
        return (dpx_status)FAIL(E_INVALID, "dpx_predictor_warm: %d callers, expected 1 or more", callers);
    pthread_rwlock_rdlock(&p->weights);
    st = warm(p, callers, inputs, n);
    pthread_rwlock_unlock(&p->weights);
    return (dpx_status)st;
}
