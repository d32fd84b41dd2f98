/* Evaluation of a data set: sums over its batches, divided once at the end, so that a smaller last batch has the weight
 * of its samples.  Losses that are sums are only added. */
#include "tools/evaluate.h"

Status evaluate(EvalResult *out, dpx_trainer *t, const dpx_options *o, const Feed *f, LoaderOptions how, bool parts,
                Predictions *kept, Mistakes *judged, Progress *progress)
{
    double sum = 0, weight = 0;
    EvalResult e = { 0 };
    int64_t done = 0;
    Loader *l;
    Status st;

    TRY(loader_create(&l, f->data, f->field, f->n, how));
    st = parts ? loader_share(l, t) : ST_OK;
    if (!st)
        st = loader_start(l, 0, 0);
    dpx_trainer_restart_metric(t);
    for (const Batch *b; !st && (b = loader_next(l));) {
        dpx_result r;

        if ((st = loader_give_lengths(l, b, t)))
            break;
        st = (Status)(parts ? dpx_val_part(t, b->samples, b->tensor, b->n, &r) : dpx_val_step(t, b->tensor, b->n, &r));
        if ((st = feed_name_sample(st, f, l, b)))
            break;
        if ((kept && (st = predictions_add(kept, &r))) || (judged && (st = mistakes_add(judged, l, b, &r))))
            break;
        sum += r.loss_sum;
        weight += r.loss_weight;
        e.samples += b->samples;
        progress_evaluation(progress, ++done, loader_batches(l));
    }
    if (!st)
        st = loader_status(l);
    loader_free(l);
    progress_end(progress);
    e.loss = shown_number(f->adds_up ? sum : sum / weight);
    if (!st)
        st = metrics_take(&e.metrics, t, o, false);
    if (!st)
        *out = e;
    return st;
}
