/* Log variables: what a model's outputs say besides predictions (--loss outputs). */
#include <math.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/train/criterion.h"

/* Of a list once. */
static Status log_values_add_name(LogValues *l, Arena *a, const char *name)
{
    for (int i = 1; name && i < l->n; i++)
        if (!strcmp(l->output[i] + sizeof OUT_LOG_PREFIX - 1, name))
            return ST_OK;
    if (!name)
        return FAIL_NOMEM();
    l->output[l->n] = arena_printf(a, OUT_LOG_PREFIX "%s", name);
    return l->output[l->n++] ? ST_OK : FAIL_NOMEM();
}

Status log_values_create(LogValues *l, const Graph *model, Options *o)
{
    const size_t room = (size_t)model->n_output + 1;
    bool *is_loss = ARENA_NEW(o->arena, bool, room);

    if (!is_loss || !(l->output = ARENA_NEW(o->arena, const char *, room)))
        return FAIL_NOMEM();
    TRY(criterion_find_losses(is_loss, model, &o->build));
    if (!o->build.loss || !o->build.loss->logs)
        return ST_OK;
    for (int k = 0; k <= MAX_BEGUN; k++)
        if (!(l->value[k] = ARENA_NEW(o->arena, dpx_log_value, room)))
            return FAIL_NOMEM();
    if (!(l->all = ARENA_NEW(o->arena, dpx_log_value, room)))
        return FAIL_NOMEM();
    TRY(log_values_add_name(l, o->arena, OUT_LOSS));
    for (int i = 0; i < model->n_output; i++)
        TRY(log_values_add_name(l, o->arena, criterion_log_name(o->arena, model, i)));
    return ST_OK;
}

void log_values_read(LogValues *l, dpx_result *r, const NamedTensor *out, int n)
{
    const size_t skip = sizeof OUT_LOG_PREFIX - 1;
    dpx_log_value *v;

    if (!l->n || isnan(r->loss_weight))
        return;
    r->log = v = l->value[l->turn];
    l->turn = (l->turn + 1) % (MAX_BEGUN + 1);
    *v++ = (dpx_log_value){ l->output[0] + skip, r->loss, r->loss_sum };
    for (int i = 1; i < l->n; i++) {
        const Tensor *sum = named_find(out, n, l->output[i]);

        if (sum)
            *v++ = (dpx_log_value){ l->output[i] + skip, tensor_float(sum, 0) / r->loss_weight, tensor_float(sum, 0) };
    }
    r->n_log = (int)(v - r->log);
}

void log_values_add(LogValues *l, const dpx_result *r)
{
    l->weight += r->n_log ? r->loss_weight : 0;
    for (int i = 0; i < r->n_log; i++) {
        l->all[i] = (dpx_log_value){ r->log[i].name, 0, (l->n_all ? l->all[i].sum : 0) + r->log[i].sum };
        l->all[i].value = l->all[i].sum / l->weight;
    }
    l->n_all = r->n_log ? r->n_log : l->n_all;
}
