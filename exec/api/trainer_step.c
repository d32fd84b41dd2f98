/* Training steps.
 *
 * A training step is begun and ended; between the two, on accelerators, the next one can be begun, so that they never
 * wait for the host.  A step's number is known when it begins; the learning rate follows from it.
 *
 * With `accumulate` K a step is K micro-batches whose unnormalised gradients and loss terms are summed in transient
 * state, then one BUILD_APPLY step that divides by the summed weight and updates: exact for micro-batches of unequal
 * size.  Where players take turns the last micro-batch is one BUILD_FINISH step with the update.  dpx_train_backward is
 * such a micro-batch, dpx_train_update such an update. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "exec/train/options_groups.h"
#include "passes/options/target.h"
#include "passes/options/update.h"

/* ---- batches in, results out ---- */

/* Adds the learning rate of the run and of each group. */
static void add_learning_rates(const dpx_trainer *t, GivenBatch *f)
{
    for (int k = 0; k <= t->options->n_group; k++) {
        const double lr = trainer_rate(t, k, t->step);

        f->lr[k].f64 = lr;
        if (t->dtype == DT_FLOAT32)
            f->lr[k].f32 = (float)lr;
        f->axis[f->n] = -1;
        f->number[f->n] = -1;
        f->tensor[f->n].name = k ? t->options->group[k - 1].rate_name : IN_LR;
        f->tensor[f->n++].tensor = (Tensor){ t->dtype, shape_scalar(), &f->lr[k] };
    }
}

static Status begin(dpx_trainer *t, BuildMode mode, const GivenBatch *f, SessionStep *step)
{
    const int before = trainer_world(t) ? states_begun(session_states(t->session)) : 0;
    double now;

    t->stepped |= mode >= BUILD_TRAIN;
    if (t->lengths.n || t->has_reach)
        TRY(trainer_take_lengths(t, f));
    if (t->resumed)
        TRY(trainer_check_resumed(t, mode, f->tensor, f->n));
    if (trainer_world(t)) {
        TRY(session_prepare(t->session, mode, f->tensor, f->n));
        t->agreed &= states_begun(session_states(t->session)) == before;
        TRY(trainer_agree_states(t));
    }
    now = t->profile ? trainer_profile_begin(t) : 0;
    TRY(session_begin(step, t->session, mode, f->tensor, f->n, f->partly ? &f->part : NULL));
    if (t->profile)
        TRY(trainer_profile_run(t, mode, step, now));
    t->states_known |= MODES_UPDATE >> mode & 1 || !has_loss(&t->options->build);
    return ST_OK;
}

Status trainer_begin(dpx_trainer *t, BuildMode mode, const GivenBatch *f, SessionStep *step)
{
    Status st = begin(t, mode, f, step);

    t->kept = NULL;
    if (!t->lengths.n)
        return st;
    if (!st && (st = trainer_count_padding(t, f, step)))
        session_let_go(step);
    lengths_forget(&t->lengths); /* they were of this step */
    return st;
}

static Status end(dpx_trainer *t, const SessionStep *step, dpx_result *r)
{
    const NamedTensor *out;
    int n;

    TRY(session_end(&out, &n, step));
    t->kept = out;
    t->n_kept = n;
    trainer_read_outputs(t, r, step);
    return measured_add(&t->trained, t, r, step);
}

/* ---- training ---- */

static void number_step(dpx_trainer *t, dpx_result *r, double lr)
{
    r->step = ++t->step;
    r->lr = lr;
    r->updated = 1;
}

/* Loss and metric are summed with the gradients, in state, so only a micro-batch's size is added here. */
static void add_to_group(dpx_trainer *t, const dpx_result *r)
{
    if (!t->pending++)
        t->group = (dpx_result){ 0 };
    t->group.samples += r->samples;
}

static void end_group(dpx_trainer *t, dpx_result *r, double lr)
{
    t->pending = 0;
    t->closes = false;
    number_step(t, r, lr);
}

static Status begin_apply(dpx_trainer *t, BegunStep *b)
{
    double lr = trainer_rate(t, 0, t->step);
    GivenBatch f;

    f.n = t->n_shape;
    f.partly = false;
    memcpy(f.tensor, t->shape, sizeof *f.tensor * (size_t)t->n_shape);
    add_learning_rates(t, &f);
    b->result = t->group;
    TRY(trainer_begin(t, BUILD_APPLY, &f, &b->step));
    end_group(t, &b->result, lr);
    return ST_OK;
}

/* A micro-batch: one of an accumulated group of the options, or, with `alone`, of the caller's own. */
static Status begin_micro_batch(dpx_trainer *t, GivenBatch *f, BegunStep *b, bool alone)
{
    const bool last = !alone && (t->closes || t->pending + 1 >= t->options->accumulate);
    const double lr = trainer_rate(t, 0, t->step);

    if (!t->pending) { /* the shapes of the group's first micro-batch; its data is lent for this step only */
        t->n_shape = 0;
        for (int i = 0; i < f->n; i++)
            if (f->number[i] < t->model->graph->n_input) /* not a target of its own */
                t->shape[t->n_shape++] =
                    (NamedTensor){ f->tensor[i].name, { f->tensor[i].tensor.dtype, f->tensor[i].tensor.shape, NULL } };
    }
    if (!target_options(&t->options->build)->mean_of_means)
        trainer_warn_of_weights(t, alone ? "dpx_train_backward" : "--accumulate");
    /* Players' losses are computed from what the players before them have become. */
    if (last && update_options(&t->options->build)->turns) {
        add_learning_rates(t, f);
        TRY(trainer_begin(t, BUILD_FINISH, f, &b->step));
        add_to_group(t, &b->result);
        b->result = t->group;
        end_group(t, &b->result, lr);
        return ST_OK;
    }
    TRY(trainer_begin(t, BUILD_ACCUMULATE, f, &b->step));
    b->result.step = t->step;
    b->result.lr = lr;
    add_to_group(t, &b->result);
    if (!last)
        return ST_OK;
    session_let_go(&b->step); /* the results are those of the group */
    return begin_apply(t, b);
}

/* `alone`: its gradients are only gathered. */
static Status begin_batch(dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples, BegunStep *b,
                          bool alone)
{
    double lr = trainer_rate(t, 0, t->step);
    GivenBatch f;

    if (!has_loss(&t->options->build))
        return FAIL(E_INVALID, "the trainer was created without a loss");
    if (t->pending && t->options->accumulate == 1 && !alone)
        return FAIL(E_INVALID,
                    "gradients of %" PRId64 " batches are gathered: call dpx_train_update or dpx_train_reset before a "
                    "step",
                    t->pending);
    TRY(batch_read(&f, t, batch, n, samples, true));
    t->evaluated = 0;
    t->averaged = false;
    b->result.samples = f.samples;
    if (alone || t->options->accumulate > 1)
        return begin_micro_batch(t, &f, b, alone);
    add_learning_rates(t, &f);
    TRY(trainer_begin(t, BUILD_TRAIN, &f, &b->step));
    number_step(t, &b->result, lr);
    return ST_OK;
}

Status trainer_check_room(const dpx_trainer *t, bool now)
{
    if (t->n_begun < (now ? 1 : MAX_BEGUN))
        return ST_OK;
    return FAIL(E_INVALID, "%d step%s been begun whose result was not taken: call dpx_train_result", t->n_begun,
                t->n_begun > 1 ? "s have" : " has");
}

/* Keeps a step for dpx_train_result, which ends it where steps run ahead.  Elsewhere it is over: its outputs are read
 * now, before the next step overwrites them. */
static Status keep_begun(dpx_trainer *t, BegunStep *b)
{
    if (!session_runs_ahead(t->session)) {
        TRY(end(t, &b->step, &b->result));
        b->ended = true;
    }
    if (b->result.updated)
        t->begun[t->n_begun++] = *b;
    else if (!b->ended)
        session_let_go(&b->step);
    return ST_OK;
}

static Status give_now(dpx_trainer *t, BegunStep *b, dpx_result *out)
{
    TRY(end(t, &b->step, &b->result));
    if (t->keeps & KEEP_OUTPUTS)
        TRY(trainer_give_predictions(t, &b->result, t->kept, t->n_kept, true));
    *out = b->result;
    return ST_OK;
}

static Status train_step(dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples, dpx_result *out,
                         bool alone)
{
    BegunStep b = { .ended = false };

    TRY(trainer_check_room(t, out));
    TRY(begin_batch(t, batch, n, samples, &b, alone));
    return out ? give_now(t, &b, out) : keep_begun(t, &b);
}

static Status flush(dpx_trainer *t, dpx_result *out)
{
    BegunStep b = { .ended = false };

    if (t->pending) {
        TRY(trainer_check_room(t, out));
        TRY(begin_apply(t, &b));
    }
    if (out && !b.result.updated)
        *out = (dpx_result){ .step = t->step, .loss = NAN, .grad_norm = NAN, .loss_scale = NAN };
    if (!b.result.updated)
        return ST_OK;
    return out ? give_now(t, &b, out) : keep_begun(t, &b);
}

/* Gives out the oldest result; its step leaves the list, also on failure. */
static Status take_result(dpx_trainer *t, dpx_result *out)
{
    BegunStep b = t->begun[0];

    if (!t->n_begun)
        return FAIL(E_INVALID, "there is no result to take: those of all steps were taken");
    memmove(t->begun, t->begun + 1, (size_t)--t->n_begun * sizeof *t->begun);
    if (!b.ended)
        return give_now(t, &b, out);
    *out = b.result;
    return ST_OK;
}

static void report_progress(const dpx_trainer *t, const dpx_result *r)
{
    if (t->progress)
        t->progress(t->progress_user, r);
}

static dpx_status step_and_report(dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples,
                                  dpx_result *out, size_t size, bool alone)
{
    dpx_result r;
    Status st = trainer_share_failure(t, train_step(t, batch, n, samples, out ? &r : NULL, alone));

    if (st || !out)
        return (dpx_status)st;
    GIVE(out, size, r);
    report_progress(t, &r);
    return DPX_OK;
}

dpx_status dpx_train_step_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out, size_t size)
{
    NEED(t, "trainer");
    NEED_SIZE(size, dpx_result);
    return step_and_report(t, batch, n, NULL, out, size, false);
}

dpx_status dpx_train_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out,
                                size_t size)
{
    NEED(t, "trainer");
    NEED_SIZE(size, dpx_result);
    return step_and_report(t, part, n, &samples, out, size, false);
}

dpx_status dpx_train_backward_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out, size_t size)
{
    NEED(t, "trainer");
    NEED_SIZE(size, dpx_result);
    return step_and_report(t, batch, n, NULL, out, size, true);
}

dpx_status dpx_train_backward_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                         dpx_result *out, size_t size)
{
    NEED(t, "trainer");
    NEED_SIZE(size, dpx_result);
    return step_and_report(t, part, n, &samples, out, size, true);
}

dpx_status dpx_trainer_close_group(dpx_trainer *t)
{
    NEED(t, "trainer");
    t->closes = t->options->accumulate > 1;
    return DPX_OK;
}

dpx_status dpx_train_reset(dpx_trainer *t)
{
    Status st;

    NEED(t, "trainer");
    if (!(st = trainer_check_room(t, true)))
        st = trainer_share_failure(t, states_zero_transient(session_states(t->session)));
    if (st)
        return (dpx_status)st;
    t->pending = 0;
    t->closes = false;
    return DPX_OK;
}

dpx_status dpx_train_update_sized(dpx_trainer *t, dpx_result *out, size_t size)
{
    NEED(t, "trainer");
    if (!t->pending)
        return (dpx_status)FAIL(E_INVALID,
                                "dpx_train_update: no gradients are gathered: call dpx_train_backward first");
    return dpx_train_flush_sized(t, out, size);
}

dpx_status dpx_train_flush_sized(dpx_trainer *t, dpx_result *out, size_t size)
{
    dpx_result r;
    Status st;

    NEED(t, "trainer");
    NEED_SIZE(size, dpx_result);
    st = trainer_share_failure(t, flush(t, out ? &r : NULL));
    if (st || !out)
        return (dpx_status)st;
    GIVE(out, size, r);
    if (r.updated)
        report_progress(t, &r);
    return DPX_OK;
}

dpx_status dpx_train_result_sized(dpx_trainer *t, dpx_result *out, size_t size)
{
    dpx_result r;
    Status st;

    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_result);
    st = trainer_share_failure(t, take_result(t, &r));
    if (st)
        return (dpx_status)st;
    GIVE(out, size, r);
    report_progress(t, &r);
    return DPX_OK;
}
