/* Steps of collated batches: groups become one tensor of the step's shape, and its parts are the groups.  A list is a
 * sequence that the model has as an input, and a map an input for each of its keys, member by member. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/data.h"
#include "exec/api/trainer.h"

/* The tensors that a step gets of a batch. */
typedef struct {
    dpx_tensor tensor[MAX_BATCH_TENSORS];
    dpx_data *made[MAX_BATCH_TENSORS]; /* what they are views of, where that is not the batch's; else NULL */
    char *name[MAX_BATCH_TENSORS];
    int n;
    int64_t group; /* samples; 0: there are no groups */
} GivenGroups;

/* The shape of all groups as one tensor. */
static Status find_widest(Shape *out, const dpx_data *groups, const char *key)
{
    Shape wide = groups->member[0]->tensor.shape;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    for (int g = 1; g < groups->n; g++) {
        const dpx_data *x = groups->member[g];
        const Shape *s = &x->tensor.shape;
        bool fits = s->rank == wide.rank && x->tensor.dtype == groups->member[0]->tensor.dtype;

        for (int k = 1; fits && k < s->rank; k++) {
            fits = s->dim[k] == wide.dim[k] || k >= s->rank - x->how.pad_dims;
            wide.dim[k] = s->dim[k] > wide.dim[k] ? s->dim[k] : wide.dim[k];
        }
        if (!fits)
            return FAIL(E_SHAPE, "'%s': group %d is %s, group 0 %s: a step has one shape for all replicas", key, g,
                        shape_text(s, a), shape_text(&groups->member[0]->tensor.shape, b));
        wide.dim[0] += s->dim[0];
    }
    *out = wide;
    return ST_OK;
}

/* Behind each other, each sample padded further with its own value. */
static Status join_groups(dpx_data **out, const dpx_data *groups, const char *key)
{
    Shape wide, one_wide;
    char *to;
    dpx_data *d;

    TRY(find_widest(&wide, groups, key));
    TRY(data_create_tensor(&d, groups->member[0]->tensor.dtype, &wide));
    one_wide = shape_of(wide.rank - 1, wide.dim + 1);
    to = d->tensor.data;
    for (int g = 0; g < groups->n; g++) {
        const dpx_data *x = groups->member[g];
        const Tensor one = { x->tensor.dtype, shape_of(wide.rank - 1, x->tensor.shape.dim + 1), NULL };

        for (int64_t i = 0; i < x->tensor.shape.dim[0]; i++) {
            const char *from = (const char *)x->tensor.data + (size_t)i * tensor_bytes(&one);
            unsigned char padding[8];

            (void)data_padding(padding, one.dtype, x->padding[i]); /* dpx_collate has checked it */
            data_pad(to, &one_wide, &(Tensor){ one.dtype, one.shape, (void *)(uintptr_t)from }, padding);
            to += tensor_bytes(&(Tensor){ one.dtype, one_wide, NULL });
        }
    }
    *out = d;
    return ST_OK;
}

/* How long the groups' samples are, along the axes where these differ. */
static Status keep_group_lengths(dpx_trainer *t, const dpx_data *groups, const char *key)
{
    const Shape *first = &groups->member[0]->tensor.shape;
    int64_t *length, n = 0;
    Status st = ST_OK;

    for (int g = 0; g < groups->n; g++)
        n += groups->member[g]->tensor.shape.dim[0];
    if (!(length = malloc(((size_t)n + 1) * sizeof *length)))
        return FAIL_NOMEM();
    for (int k = 1; k < first->rank && !st; k++) {
        bool differ = false;
        int64_t s = 0;

        for (int g = 0; g < groups->n; g++) {
            const Shape *own = &groups->member[g]->tensor.shape;

            differ |= own->dim[k] != first->dim[k];
            for (int64_t i = 0; i < own->dim[0]; i++)
                length[s++] = own->dim[k];
        }
        st = differ ? lengths_keep(&t->lengths, key, k, 1, 1, length, n) : ST_OK;
    }
    free(length);
    return st;
}

static Status add_groups(GivenGroups *b, dpx_trainer *t, const dpx_data *groups, const char *key)
{
    for (int g = 0; g < groups->n; g++)
        if (groups->member[g]->kind != DPX_DATA_TENSOR)
            return FAIL(E_INVALID, "'%s': group %d is a list, and an input is a tensor: its container must stack", key,
                        g);
    if (groups->n == 1)
        return (Status)dpx_data_view(groups->member[0], &b->tensor[b->n]);
    TRY(join_groups(&b->made[b->n], groups, key));
    TRY(keep_group_lengths(t, groups, key));
    return (Status)dpx_data_view(b->made[b->n], &b->tensor[b->n]);
}

static Status grouped_add_tensor(GivenGroups *b, dpx_trainer *t, const dpx_data *d, const char *key)
{
    if (d->kind == DPX_DATA_GROUPS && d->how.cpu_only)
        return ST_OK;
    if (b->n == MAX_BATCH_TENSORS - 1)
        return FAIL(E_INVALID, "a batch of more than %d tensors", b->n);
    if (dpx_batch_axis(t->model, (const dpx_options *)t->options, key))
        return FAIL(E_INVALID, "'%s': its samples lie along axis 0, the model has them along axis %d", key,
                    dpx_batch_axis(t->model, (const dpx_options *)t->options, key));
    TRY(d->kind == DPX_DATA_GROUPS ? add_groups(b, t, d, key) : (Status)dpx_data_view(d, &b->tensor[b->n]));
    b->tensor[b->n++].name = key;
    return ST_OK;
}

static bool has_input(const dpx_trainer *t, const char *name)
{
    const ValueId v = graph_find(t->model->graph, name);

    return has_value(v) && value(t->model->graph, v)->kind == V_INPUT;
}

enum { MEMBER_TEXT = 512 };

/* Adds the tensors of a member.  It is called "s.0" or "map.key" (`dotted`), or "s_0" and "map_key" (`joined`), as
 * PyTorch's exporter calls inputs that it has taken apart. */
static Status add_member(GivenGroups *b, dpx_trainer *t, const dpx_data *d, const char *dotted, const char *joined)
{
    const char *key = has_input(t, joined) && !has_input(t, dotted) ? joined : dotted;
    const int had = b->n;

    if (d->kind != DPX_DATA_LIST && d->kind != DPX_DATA_MAP) {
        TRY(grouped_add_tensor(b, t, d, key));
        if (b->n > had && !(b->tensor[had].name = b->name[had] = strdup(key)))
            return FAIL_NOMEM();
        return ST_OK;
    }
    if (has_input(t, key))
        return FAIL(E_INVALID, "'%s': %s, and an input is a tensor", key, data_kind_name(d));
    for (int i = 0; i < d->n; i++) {
        char number[16], with_dot[MEMBER_TEXT], with_bar[MEMBER_TEXT];
        const char *last = d->key ? d->key[i] : number;

        snprintf(number, sizeof number, "%d", i);
        if (snprintf(with_dot, MEMBER_TEXT, "%s.%s", dotted, last) >= MEMBER_TEXT)
            return FAIL(E_INVALID, "'%.80s...': names of members have at most %d bytes", dotted, MEMBER_TEXT - 1);
        snprintf(with_bar, MEMBER_TEXT, "%s_%s", joined, last);
        TRY(add_member(b, t, d->member[i], with_dot, with_bar));
    }
    return ST_OK;
}

static Status take_batch(GivenGroups *b, dpx_trainer *t, const dpx_data *batch)
{
    DataGroups groups;

    if (batch->kind != DPX_DATA_MAP)
        return FAIL(E_INVALID, "the batch is %s, expected a map from the names of inputs", data_kind_name(batch));
    TRY(data_groups(&groups, batch));
    if (groups.n > t->replicas)
        return FAIL(E_INVALID, "the batch has %d groups, more than the %d replicas", groups.n, t->replicas);
    b->group = groups.n ? groups.samples[0] : 0;
    for (int i = 0; i < batch->n; i++) {
        if (strlen(batch->key[i]) >= MEMBER_TEXT)
            return FAIL(E_INVALID, "'%.80s...': names of inputs have at most %d bytes", batch->key[i], MEMBER_TEXT - 1);
        TRY(add_member(b, t, batch->member[i], batch->key[i], batch->key[i]));
    }
    return ST_OK;
}

/* Ends the step of a batch.  NULL is legal. */
static void grouped_end(GivenGroups *b, dpx_trainer *t)
{
    session_set_samples_each(t->session, 0);
    for (int i = 0; b && i < MAX_BATCH_TENSORS; i++) {
        data_release(b->made[i]);
        free(b->name[i]);
    }
    free(b);
}

/* Gives the tensors of a batch, and tells the session of its groups, until grouped_end. */
static dpx_status grouped_begin(GivenGroups **out, dpx_trainer *t, const dpx_data *batch)
{
    GivenGroups *b = calloc(1, sizeof *b);
    const Status st = b ? take_batch(b, t, batch) : FAIL_NOMEM();

    if (st) {
        lengths_forget(&t->lengths);
        grouped_end(b, t);
        return (dpx_status)st;
    }
    session_set_samples_each(t->session, b->group);
    *out = b;
    return DPX_OK;
}

dpx_status dpx_train_data_sized(dpx_trainer *t, const dpx_data *batch, dpx_result *out, size_t size)
{
    GivenGroups *b;
    dpx_status st;

    NEED(t, "trainer");
    NEED(batch, "batch");
    if ((st = grouped_begin(&b, t, batch)))
        return st;
    st = dpx_train_step_sized(t, b->tensor, b->n, out, size);
    grouped_end(b, t);
    return st;
}

dpx_status dpx_val_data_sized(dpx_trainer *t, const dpx_data *batch, dpx_result *out, size_t size)
{
    GivenGroups *b;
    dpx_status st;

    NEED(t, "trainer");
    NEED(batch, "batch");
    if ((st = grouped_begin(&b, t, batch)))
        return st;
    st = dpx_val_step_sized(t, b->tensor, b->n, out, size);
    grouped_end(b, t);
    return st;
}

dpx_status dpx_run_data(dpx_trainer *t, const dpx_data *inputs, dpx_tensor *outputs, int n_outputs)
{
    GivenGroups *b;
    dpx_status st;

    NEED(t, "trainer");
    NEED(inputs, "inputs");
    if ((st = grouped_begin(&b, t, inputs)))
        return st;
    st = dpx_run(t, b->tensor, b->n, outputs, n_outputs);
    grouped_end(b, t);
    return st;
}
