/* The loop of dpexec train: steps, their metrics, evaluations and checkpoints where they are due. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/training/training.h"

static const double NEGATIVE = -1e-4;           /* a loss below this is negative by more than rounding */
static const double LEAST_LOSS_SCALE = 0x1p-24; /* of float16: gradients that overflow here are not finite at all */

/* Whether schedules follow the training losses, because there are no evaluations. */
static bool observes_training(const Run *r) { return !r->val.data && r->facts.observes; }

/* Whether the last step that began is the last of its epoch. */
static bool ends_epoch(const Run *r) { return r->step == r->begun && r->at.batch == loader_batches(r->loader); }

/* Sums over all processes what was read for the epoch, if this step *ends it or the run, which is so in all processes.
 */
static Status sum_read(RunRead *out, bool *ends, Run *r)
{
    *ends = ends_epoch(r) || (r->step == r->begun && r->step == r->steps);
    if (!*ends)
        return ST_OK;
    dpx_trainer_padding(r->trainer, &out->positions, &out->computed);
    out->positions -= r->positions;
    out->computed -= r->computed;
    tool_set_purpose(&r->world, "the metrics of epoch %" PRId64, r->at.epoch + 1);
    out->resumed = r->resumed;
    r->resumed = false;
    if (out->resumed)
        TRY(world_count(&out->state, &out->most_state, &r->world, dpx_trainer_bytes_resumed(r->trainer)));
    return world_read(&out->all, &out->most, &r->world, loader_take_read(r->loader));
}

/* The metrics over the epoch's training steps, if this was its last one and there are metrics. */
static Status measure_epoch(Metrics *out, bool *measured, Run *r)
{
    *measured = ends_epoch(r) && dpx_metric_at(r->args->options, 0).name;
    if (!*measured)
        return ST_OK;
    TRY(metrics_take(out, r->trainer, r->args->options, true));
    r->row.trained = *out;
    r->row.measured = true;
    return ST_OK;
}

static Status log_step(Run *r, const dpx_result *result)
{
    Metrics trained;
    RunRead read;
    bool ends, measured;

    r->row.loss_sum += result->loss_sum;
    r->row.loss_weight += result->loss_weight;
    r->at.sum += observes_training(r) ? result->loss_sum : 0;
    r->at.weight += observes_training(r) ? result->loss_weight : 0;
    TRY(sum_read(&read, &ends, r));
    TRY(measure_epoch(&trained, &measured, r));
    TRY(run_dir_log_step(&r->dir, r->trainer, result, r->at.epoch + 1, (seconds_now() - r->since) * 1e3,
                         ends ? &read : NULL, measured ? &trained : NULL, r->train.data));
    if (measured)
        dpx_trainer_restart_train_metric(r->trainer);
    return ST_OK;
}

/* An error when gradients are not finite at the smallest loss scale: no other scale can help. */
static Status check_scales(const Run *r, const dpx_result *result)
{
    for (int k = 0; result->skipped && !isnan(dpx_trainer_group_lr(r->trainer, k, result->step)); k++) {
        const double scale = dpx_trainer_group_scale(r->trainer, k);

        if (dpx_trainer_group_skipped(r->trainer, k) && scale <= LEAST_LOSS_SCALE)
            return FAIL(E_INVALID,
                        "the gradients of step %" PRId64 " are not finite at a loss scale of %g: look for NaN or "
                        "infinite values in the data, or give --precision bfloat16",
                        r->step, scale);
    }
    return ST_OK;
}

void warn_of_skipped(Run *r)
{
    if (!r->skipped || r->warned_of_skipped || r->world.rank ||
        !strncmp(dpx_options_get(r->args->options, "loss-scale"), "dynamic", strlen("dynamic")) ||
        !*dpx_options_get(r->args->options, "loss-scale"))
        return;
    r->warned_of_skipped = true;
    progress_line(&r->progress,
                  "dpexec: warning: %" PRId64 " of %" PRId64
                  " step%s skipped: gradients overflow at --loss-scale %s; give a smaller one, or dynamic",
                  r->skipped, r->step - r->first, r->step - r->first == 1 ? "" : "s",
                  dpx_options_get(r->args->options, "loss-scale"));
}

/* Logs the result of a step, and evaluates and saves where that is due. */
static Status finish_step(Run *r, const dpx_result *result)
{
    bool was_finite = isfinite(result->loss);

    r->step = result->step;
    r->last_loss = result->loss;
    r->skipped += result->skipped;
    if (r->is_nll && result->loss < NEGATIVE) { /* log-probabilities are not positive, so their loss is not negative */
        r->is_nll = false;
        if (!r->world.rank)
            progress_line(&r->progress, "dpexec: warning: the loss is negative: --loss nll expects log-probabilities; "
                                        "for logits use --loss cross-entropy");
    }
    TRY(log_step(r, result));
    if (r->finds)
        return lr_find_take(r, result);
    TRY(run_events_gradients(r));
    if (!was_finite)
        return FAIL(E_INVALID,
                    "the loss of step %" PRId64 " is %g: look for NaN or infinite values in the data or a batch whose "
                    "labels are all ignored, lower --lr, or give --clip-norm",
                    r->step, shown_number(result->loss));
    TRY(check_scales(r, result));
    progress_step(&r->progress, r->step, r->steps, result->loss, result->samples);
    if (r->sample_every && r->step % r->sample_every == 0)
        write_sample(r); /* before the evaluation, which a resumed run may do anew, and which writes the report */
    if (r->eval_every && r->step % r->eval_every == 0)
        TRY(judge_and_observe(r, false));
    r->save_due |= r->save_steps && r->step % r->save_steps == 0;
    return r->save_due && r->step == r->begun && !ends_epoch(r) && r->step < r->steps ? save(r) : ST_OK;
}

/* Takes results, in order, until at most `left` are missing. */
static Status take_results(Run *r, int left)
{
    while (r->begun - r->step > left) {
        dpx_result result;

        TRY((Status)dpx_train_result(r->trainer, &result));
        TRY(finish_step(r, &result));
        r->since = seconds_now();
    }
    return ST_OK;
}

/* Ends an epoch, `within` a step that goes on into the next one or behind its last step.  Schedules may follow its
 * loss: the mean over samples, or the sum where losses are sums; there is none within a step. */
static Status end_epoch(Run *r, bool within)
{
    double sum, weight;

    TRY(take_results(r, 0));
    warn_of_skipped(r);
    r->at.epoch++;
    r->at.batch = 0;
    TRY((Status)dpx_trainer_end_epoch(r->trainer));
    sum = r->at.sum;
    weight = r->at.weight;
    r->at.sum = r->at.weight = 0;
    if ((sum != 0 || weight != 0) && observes_training(r))
        TRY((Status)dpx_trainer_observe(r->trainer, r->train.adds_up ? sum : sum / weight, NAN));
    r->row.ends = true;
    if (!r->eval_every)
        TRY(judge_and_observe(r, within));
    if (!r->finds)
        tell_epoch(r);
    TRY(write_report(r, false));
    r->row.ends = false;
    r->save_due |= r->save_epochs && r->at.epoch % r->save_epochs == 0;
    return r->save_due && !within && r->step < r->steps ? save(r) : ST_OK;
}

/* Whether the present epoch's last group of batches goes on in the next epoch; it does not in the run's last. */
static bool goes_on(const Run *r) { return r->across_epochs && r->at.epoch + 1 < r->epochs; }

/* Whether an evaluation follows the step that begins with batch b, or the end of the run. */
static bool comes_before_evaluation(const Run *r, const Batch *b)
{
    const bool evaluates =
        r->eval_every ? (r->begun + 1) % r->eval_every == 0 : b->index + r->accumulate >= loader_batches(r->loader);

    return (r->val.data && evaluates) || r->begun + 1 == r->steps;
}

/* Begins a step: trains on batch b and those that follow it in its group. */
static Status train_begin_step(Run *r, const Batch *b)
{
    TRY(run_events_keep(r, comes_before_evaluation(r, b)));
    for (int64_t k = 1;; k++) {
        const bool last = b->index + 1 == loader_batches(r->loader), on = goes_on(r);
        Status st;

        if (last && !on)
            TRY((Status)dpx_trainer_close_group(r->trainer));
        TRY(loader_give_lengths(r->loader, b, r->trainer));
        st = (Status)(r->world.world ? dpx_train_part(r->trainer, b->samples, b->tensor, b->n, NULL)
                                     : dpx_train_step(r->trainer, b->tensor, b->n, NULL));

        TRY(feed_name_sample(st, &r->train, r->loader, b));
        r->at.batch = b->index + 1;
        if (k == r->accumulate || (last && !on))
            break;
        if (last) {
            TRY(end_epoch(r, true));
            r->clock.leave_out = true;
            begin_epoch(r);
            TRY(loader_start(r->loader, r->at.epoch, 0));
        }
        if (!(b = profile_next_batch(r))) {
            TRY(loader_status(r->loader));
            break;
        }
    }
    r->begun++;
    return ST_OK;
}

/* On devices that run ahead, the result of a step is read while the next one runs. */
Status run_epoch(Run *r)
{
    const int ahead = dpx_trainer_runs_ahead(r->trainer);

    r->begun = r->step;
    r->since = seconds_now();
    TRY(agree_on_end(r, false));
    begin_epoch(r);
    TRY(loader_start(r->loader, r->at.epoch, r->at.batch));
    dpx_trainer_padding(r->trainer, &r->positions, &r->computed);
    profile_restart(r);
    for (const Batch *b; r->begun < r->steps && run_goes_on(r) && (b = profile_next_batch(r));) {
        bool due; /* an evaluation or a checkpoint needs the parameters as this step leaves them */

        TRY(train_begin_step(r, b));
        due = r->begun == r->steps || r->save_due || (r->eval_every && r->begun % r->eval_every == 0) ||
              (r->save_steps && r->begun % r->save_steps == 0) || (r->sample_every && r->begun % r->sample_every == 0);
        TRY(take_results(r, due ? 0 : ahead));
        TRY(agree_on_end(r, false));
        TRY(profile_step(r));
    }
    TRY(loader_status(r->loader));
    TRY(take_results(r, 0));
    return r->at.batch == loader_batches(r->loader) ? end_epoch(r, false) : ST_OK;
}
