/* Gradients: those that micro-batches have gathered, put together from the replicas' partial sums as an update would,
 * and those of the step that ended last. */
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "graph/tensor/reduce_tree.h"
#include "passes/options/types.h"
#include "passes/options/update.h"
#include "passes/update_groups.h"

dpx_status dpx_trainer_keep(dpx_trainer *t, unsigned what)
{
    NEED(t, "trainer");
    if (what & ~(unsigned)(DPX_KEEP_OUTPUTS | DPX_KEEP_GRADIENTS))
        return (dpx_status)FAIL(E_INVALID,
                                "dpx_trainer_keep: %u has bits other than DPX_KEEP_OUTPUTS and "
                                "DPX_KEEP_GRADIENTS",
                                what);
    t->keeps = what;
    session_set_keeps(t->session, what);
    return DPX_OK;
}

/* ---- sums over replicas ---- */

typedef struct {
    const dpx_trainer *t;
    const State *state;
} PartialSum;

static void divide_by(Tensor *x, double by)
{
    const int64_t n = by == 1 ? 0 : tensor_numel(x);

    for (int64_t i = 0; i < n; i++)
        if (x->dtype == DT_FLOAT32)
            ((float *)x->data)[i] /= (float)by;
        else
            tensor_set_float(x, i, tensor_float(x, i) / by);
}

static void add_to(Tensor *x, const Tensor *more)
{
    for (int64_t i = 0; i < tensor_numel(x); i++)
        if (x->dtype == DT_FLOAT32)
            ((float *)x->data)[i] += ((const float *)more->data)[i];
        else
            tensor_set_float(x, i, tensor_float(x, i) + tensor_float(more, i));
}

/* The partial sum of one replica, whichever process has it.  All processes call it. */
static Status read_partial(const PartialSum *s, Tensor *out, int replica)
{
    World *w = trainer_world(s->t);
    int64_t owner = -1;
    bool here;

    TRY(states_get_partial(&here, session_states(s->t->session), s->state, replica, out->data));
    if (trainer_has_peers(s->t)) {
        TRY(world_max(w, here ? world_rank(w) : -1, &owner));
        if (owner >= 0)
            TRY(world_share(w, (int)owner, out->data, tensor_bytes(out)));
    }
    if (!here && owner < 0)
        return FAIL(E_INTERNAL, "state '%s': no device has the partial sum of replica %d", s->state->name, replica);
    return ST_OK;
}

/* Adds the partial sums of replicas [lo, hi) as collectives do, so that the bits are those of an update. */
static Status sum_partials(const PartialSum *s, Tensor *out, int64_t lo, int64_t hi)
{
    Tensor upper = *out;
    Status st;

    if (hi - lo == 1)
        return read_partial(s, out, (int)lo);
    if (!(upper.data = malloc(tensor_bytes(out) + 1)))
        return FAIL_NOMEM();
    st = sum_partials(s, out, lo, reduce_tree_mid(lo, hi));
    if (!st)
        st = sum_partials(s, &upper, reduce_tree_mid(lo, hi), hi);
    if (!st)
        add_to(out, &upper);
    free(upper.data);
    return st;
}

/* The value of a sum over micro-batches in all replicas; absent: `absent`. */
static Status scalar_sum(double *out, const dpx_trainer *t, const char *name, double absent)
{
    const States *states = session_states(t->session);
    const State *state = states_find(states, name);
    double room = 0;
    Tensor x;

    *out = absent;
    if (!state)
        return ST_OK;
    x = (Tensor){ state->dtype, state->shape, &room };
    TRY(state->partial ? sum_partials(&(PartialSum){ t, state }, &x, 0, t->replicas) : states_get(states, name, &x));
    *out = dtype_is_float(x.dtype) ? tensor_float(&x, 0) : (double)tensor_int(&x, 0);
    return ST_OK;
}

/* The loss scale that the gathered gradients of a parameter are multiplied by. */
static Status loss_scale(double *out, const dpx_trainer *t, const char *param)
{
    const BuildOptions *b = &t->options->build;
    const int player = update_group_player(b, update_group_of(b, param));
    char name[GROUP_NAME];

    *out = type_options(b)->loss_scaling == SCALE_FIXED ? type_options(b)->loss_scale : 1;
    if (type_options(b)->loss_scaling != SCALE_DYNAMIC)
        return ST_OK;
    return scalar_sum(out, t, group_name(name, STATE_LOSS_SCALE, player), 1);
}

static Status gathered(const dpx_trainer *t, const char *param, const State *state, Tensor *out)
{
    double weight, scale;

    TRY(scalar_sum(&weight, t, STATE_LOSS_WEIGHT, 1));
    TRY(loss_scale(&scale, t, param));
    TRY(sum_partials(&(PartialSum){ t, state }, out, 0, t->replicas));
    divide_by(out, weight);
    divide_by(out, scale);
    return ST_OK;
}

/* ---- reading ---- */

static Status check_fits(const char *param, const Tensor *out, DType dtype, const Shape *shape)
{
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    if (out->dtype == dtype && shape_eq(&out->shape, shape))
        return ST_OK;
    return FAIL(E_SHAPE, "the gradient by '%s' is %s%s, given %s%s", param, dtype_name(dtype), shape_text(shape, want),
                dtype_name(out->dtype), shape_text(&out->shape, have));
}

static Status kept_gradient(const dpx_trainer *t, Arena *a, const char *param, const Tensor *out)
{
    const char *name = arena_printf(a, OUT_GRAD_PREFIX "%s", param);
    const Tensor *kept = name && t->kept ? named_find(t->kept, t->n_kept, name) : NULL;

    if (!name)
        return FAIL_NOMEM();
    if (!kept)
        return FAIL(E_INVALID,
                    "there is no gradient by '%s': no batch is gathered (dpx_train_backward), and the last call was no "
                    "update of it with DPX_KEEP_GRADIENTS",
                    param);
    TRY(check_fits(param, out, kept->dtype, &kept->shape));
    if (tensor_bytes(kept))
        memcpy(out->data, kept->data, tensor_bytes(kept));
    return ST_OK;
}

/* Finds the sum of the gathered gradients by a parameter. */
static Status find_sum(const State **sum, const dpx_trainer *t, Arena *a, const char *param, const Tensor *out)
{
    const char *name = arena_printf(a, "%s.grad_sum", param);

    if (!name)
        return FAIL_NOMEM();
    if (!(*sum = states_find(session_states(t->session), name)))
        return FAIL(E_INVALID, "there is no gradient by '%s': it is no parameter that is trained", param);
    return check_fits(param, out, (*sum)->dtype, &(*sum)->shape);
}

/* All processes of the world get as far as trainer_agree, and exchange only if all can. */
static Status read_gradient(const dpx_trainer *t, Arena *a, const char *param, const dpx_tensor *given)
{
    const State *sum = NULL;
    Tensor out;
    Status st = a ? api_tensor(&out, given) : FAIL_NOMEM();

    if (!st)
        st = t->pending ? find_sum(&sum, t, a, param, &out) : kept_gradient(t, a, param, &out);
    TRY(trainer_agree(t, st, "dpx_trainer_gradient"));
    return sum ? trainer_share_failure(t, gathered(t, param, sum, &out)) : ST_OK;
}

dpx_status dpx_trainer_gradient(dpx_trainer *t, const char *parameter, const dpx_tensor *out)
{
    Arena *a;
    Status st;

    NEED(t, "trainer");
    NEED(parameter, "parameter");
    NEED(out, "out");
    world_set_purpose(trainer_world(t), "the gradient by '%s'", parameter);
    a = arena_create();
    st = read_gradient(t, a, parameter, out);
    arena_free(a);
    return (dpx_status)st;
}
