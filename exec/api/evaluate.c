/* Steps that change nothing: evaluation, which gives predictions and, where the targets are there, losses and the
 * metric; and inference. */
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/options/outputs.h"
#include "passes/train/criterion.h"

static void view_output(dpx_tensor *out, const NamedTensor *x)
{
    *out = (dpx_tensor){
        .name = x->name, .dtype = (dpx_dtype)x->tensor.dtype, .rank = x->tensor.shape.rank, .data = x->tensor.data
    };
    memcpy(out->dim, x->tensor.shape.dim, sizeof out->dim);
}

/* ---- evaluation ---- */

/* How many outputs there are; if they are not put together, each replica has its own. */
static int evaluate_count_outputs(const dpx_trainer *t)
{
    return t->model->graph->n_output * (output_options(&t->options->build)->outputs_apart ? t->replicas : 1);
}

Status trainer_give_predictions(dpx_trainer *t, dpx_result *r, const NamedTensor *out, int n, bool measured)
{
    if (!t->prediction && !(t->prediction = calloc((size_t)evaluate_count_outputs(t) + 1, sizeof *t->prediction)))
        return FAIL_NOMEM();
    r->n_outputs = 0;
    for (int i = 0; i < n; i++) {
        const char *name = measured ? criterion_prediction(out[i].name) : out[i].name;

        if (name)
            view_output(&t->prediction[r->n_outputs++], &(NamedTensor){ name, out[i].tensor });
    }
    r->outputs = r->n_outputs ? t->prediction : NULL;
    return ST_OK;
}

static Status evaluate(dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples, dpx_result *r)
{
    const NamedTensor *out;
    SessionStep step;
    bool measured;
    int n_out;
    GivenBatch f;

    TRY(batch_read(&f, t, batch, n, samples, false));
    TRY(trainer_average(t));
    measured = has_loss(&t->options->build) && batch_is_complete(&f, t);
    if (measured && t->evaluated++)
        trainer_warn_of_weights(t, "evaluation over several batches");
    TRY(trainer_begin(t, measured ? BUILD_EVAL : BUILD_PREDICT, &f, &step));
    TRY(session_end(&out, &n_out, &step));
    trainer_read_outputs(t, r, measured ? &step : NULL);
    r->samples = f.samples;
    TRY(measured_add(&t->measured, t, r, measured ? &step : NULL));
    log_values_add(&t->log_values, r);
    TRY(trainer_give_predictions(t, r, out, n_out, measured));
    r->step = t->step;
    return ST_OK;
}

static dpx_status evaluate_and_report(dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples,
                                      dpx_result *out, size_t size)
{
    dpx_result r = { 0 };
    Status st = trainer_share_failure(t, evaluate(t, batch, n, samples, &r));

    if (!st)
        GIVE(out, size, r);
    return (dpx_status)st;
}

dpx_status dpx_val_step_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out, size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_result);
    return evaluate_and_report(t, batch, n, NULL, out, size);
}

dpx_status dpx_val_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out,
                              size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_result);
    return evaluate_and_report(t, part, n, &samples, out, size);
}

dpx_status dpx_test_step_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out, size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_result);
    return evaluate_and_report(t, batch, n, NULL, out, size);
}

dpx_status dpx_test_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out,
                               size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_result);
    return evaluate_and_report(t, part, n, &samples, out, size);
}

/* ---- inference ---- */

Status trainer_view_outputs(dpx_tensor *outputs, const dpx_trainer *t, const NamedTensor *out, int n_out)
{
    const Graph *g = t->model->graph;

    for (int i = 0; i < g->n_output; i++) {
        const Tensor *y = named_find(out, n_out, g->output[i].name);

        if (!y)
            return FAIL(E_INTERNAL, "output '%s' was not computed", g->output[i].name);
        view_output(&outputs[i], &(NamedTensor){ g->output[i].name, *y });
    }
    return ST_OK;
}

static Status evaluate_infer(dpx_trainer *t, const dpx_tensor *inputs, int n, const int64_t *samples,
                             dpx_tensor *outputs, int n_outputs)
{
    const Graph *g = t->model->graph;
    const NamedTensor *out;
    SessionStep step;
    int n_out;
    GivenBatch f;

    if (n_outputs != evaluate_count_outputs(t))
        return FAIL(E_INVALID, "room for %d outputs, the model has %d%s", n_outputs, g->n_output,
                    output_options(&t->options->build)->outputs_apart ? ", of which each replica may give its own"
                                                                      : "");
    TRY(batch_read(&f, t, inputs, n, samples, false));
    TRY(trainer_average(t));
    TRY(trainer_begin(t, BUILD_INFER, &f, &step));
    TRY(session_end(&out, &n_out, &step));
    if (output_options(&t->options->build)
            ->outputs_apart) { /* those of the replicas; the rest of the room gets no names */
        if (n_out > n_outputs)
            return FAIL(E_INTERNAL, "%d outputs, room for %d", n_out, n_outputs);
        memset(outputs, 0, (size_t)n_outputs * sizeof *outputs);
        for (int i = 0; i < n_out; i++)
            view_output(&outputs[i], &out[i]);
        return ST_OK;
    }
    return trainer_view_outputs(outputs, t, out, n_out);
}

dpx_status dpx_run(dpx_trainer *t, const dpx_tensor *inputs, int n, dpx_tensor *outputs, int n_outputs)
{
    NEED(t, "trainer");
    if (n_outputs)
        NEED(outputs, "outputs");
    return (dpx_status)trainer_share_failure(t, evaluate_infer(t, inputs, n, NULL, outputs, n_outputs));
}

dpx_status dpx_run_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_tensor *outputs,
                        int n_outputs)
{
    NEED(t, "trainer");
    if (n_outputs)
        NEED(outputs, "outputs");
    return (dpx_status)trainer_share_failure(t, evaluate_infer(t, part, n, &samples, outputs, n_outputs));
}
