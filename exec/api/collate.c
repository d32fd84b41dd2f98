/* Batches of samples: what is at one place of all samples, a column, becomes one member of the batch. */
#include <stdlib.h>
#include <string.h>

#include "exec/api/data.h"

/* The data at one place of all samples. */
typedef struct {
    const dpx_data *const *sample; /* [n] */
    int n, each;                   /* of a group */
    int first;                     /* sample 0 is this one of the batch */
    const DataPath *path;
} Column;

static Status collate(dpx_data **out, const Column *c);

/* All are what the first is. */
static Status check_kinds(const Column *c)
{
    char at[DATA_PATH_TEXT];

    for (int i = 0; i < c->n; i++) {
        if (c->sample[i]->kind != c->sample[0]->kind)
            return FAIL(E_INVALID, "%s: sample %d has %s, sample %d %s", data_path_text(at, c->path), c->first + i,
                        data_kind_name(c->sample[i]), c->first, data_kind_name(c->sample[0]));
        if (c->sample[i]->kind == DPX_DATA_GROUPS)
            return FAIL(E_INVALID, "%s: sample %d is a batch already", data_path_text(at, c->path), c->first + i);
    }
    return ST_OK;
}

/* ---- tensors as one, with a new axis 0 ---- */

static Status fail_shapes(const Column *c, int i, const char *why)
{
    char at[DATA_PATH_TEXT], a[SHAPE_TEXT], b[SHAPE_TEXT];
    const Tensor *x = &c->sample[i]->tensor, *first = &c->sample[0]->tensor;

    return FAIL(E_SHAPE, "%s: sample %d is %s %s, sample %d %s %s: %s", data_path_text(at, c->path), c->first + i,
                shape_text(&x->shape, a), dtype_name(x->dtype), c->first, shape_text(&first->shape, b),
                dtype_name(first->dtype), why);
}

/* The shape of the samples when each is padded along its last `pad` axes. */
static Status find_widest(Shape *out, const Column *c, int pad)
{
    const Tensor *first = &c->sample[0]->tensor;
    Shape wide = first->shape;

    if (pad && wide.rank <= pad)
        return fail_shapes(c, 0, "expected more axes than are padded");
    if (wide.rank == MAX_RANK)
        return fail_shapes(c, 0, "stacking adds an axis to the most that a tensor may have");
    for (int i = 1; i < c->n; i++) {
        const Tensor *x = &c->sample[i]->tensor;

        if (x->dtype != first->dtype || x->shape.rank != wide.rank)
            return fail_shapes(c, i, "expected the same type and number of axes");
        for (int k = 0; k < wide.rank; k++) {
            if (x->shape.dim[k] != wide.dim[k] && k < wide.rank - pad)
                return fail_shapes(
                    c, i, pad ? "all axes but those that are padded must be equal" : "expected the same shape");
            wide.dim[k] = x->shape.dim[k] > wide.dim[k] ? x->shape.dim[k] : wide.dim[k];
        }
    }
    *out = wide;
    return ST_OK;
}

/* `padding`: NULL where nothing is padded. */
static Status stack(dpx_data **out, const Column *c, int pad, const double *padding)
{
    Shape wide, shape = { .rank = 1, .dim = { c->n } };
    char at[DATA_PATH_TEXT];
    size_t bytes;
    dpx_data *d;

    TRY(find_widest(&wide, c, pad));
    memcpy(shape.dim + 1, wide.dim, (size_t)wide.rank * sizeof *wide.dim);
    shape.rank += wide.rank;
    TRY(data_create_tensor(&d, c->sample[0]->tensor.dtype, &shape));
    bytes = tensor_bytes(&(Tensor){ d->tensor.dtype, wide, NULL });
    for (int i = 0; i < c->n; i++) {
        const Tensor *x = &c->sample[i]->tensor;
        unsigned char one[8];

        if (!data_padding(one, x->dtype, padding ? padding[i] : 0)) {
            data_release(d);
            return FAIL(E_INVALID, "%s: sample %d is padded with %g, which type %s cannot hold",
                        data_path_text(at, c->path), c->first + i, padding[i], dtype_name(x->dtype));
        }
        data_pad((char *)d->tensor.data + (size_t)i * bytes, &wide, x, one);
    }
    *out = d;
    return ST_OK;
}

/* ---- containers ---- */

/* The contents of the containers of a group; c->n of them. */
static Status keep_list(dpx_data **out, const Column *c)
{
    dpx_data *d;

    TRY(data_create(&d, DPX_DATA_LIST, c->n));
    for (int i = 0; i < c->n; i++)
        d->member[i] = data_keep(c->sample[i]->member[0]);
    *out = d;
    return ST_OK;
}

static Status stack_contents(dpx_data **out, const Column *c, const dpx_data **content, double *padding)
{
    const Column inner = { content, c->n, c->each, c->first, c->path };
    const dpx_container *how = &c->sample[0]->how;
    char at[DATA_PATH_TEXT];

    for (int i = 0; i < c->n; i++) {
        content[i] = c->sample[i]->member[0];
        padding[i] = c->sample[i]->how.padding_value;
        if (content[i]->kind != DPX_DATA_TENSOR)
            return FAIL(E_INVALID, "%s: the container of sample %d has %s, expected a tensor to stack",
                        data_path_text(at, c->path), c->first + i, data_kind_name(content[i]));
    }
    TRY(stack(out, &inner, how->pad_dims, padding));
    (*out)->how = *how;
    (*out)->padding = padding;
    return ST_OK;
}

static Status stack_group(dpx_data **out, const Column *c)
{
    const dpx_data **content = calloc((size_t)c->n, sizeof *content);
    double *padding = calloc((size_t)c->n, sizeof *padding);
    Status st = content && padding ? stack_contents(out, c, content, padding) : FAIL_NOMEM();

    free(content);
    if (st)
        free(padding);
    return st;
}

static Status collate_containers(dpx_data **out, const Column *c)
{
    const bool host = c->sample[0]->how.cpu_only;
    dpx_data *d;
    Status st = ST_OK;

    TRY(data_create(&d, DPX_DATA_GROUPS, (c->n - 1) / c->each + 1));
    d->how = c->sample[0]->how;
    for (int g = 0; g < d->n && !st; g++) {
        const int at = g * c->each;
        const Column group = { c->sample + at, c->n - at < c->each ? c->n - at : c->each, c->each, c->first + at,
                               c->path };
        dpx_data *made = NULL;

        st = !host && group.sample[0]->how.stack ? stack_group(&made, &group) : keep_list(&made, &group);
        d->samples[g] = group.n;
        d->member[g] = made;
    }
    if (st)
        data_release(d);
    else
        *out = d;
    return st;
}

/* ---- lists and maps ---- */

/* Member k of sample i, which has the first sample's keys. */
static Status find_member(const dpx_data **out, const Column *c, int i, int k)
{
    const dpx_data *first = c->sample[0], *s = c->sample[i];
    char at[DATA_PATH_TEXT];

    if (!first->key && s->n != first->n)
        return FAIL(E_INVALID, "%s: sample %d has %d members, sample %d %d", data_path_text(at, c->path), c->first + i,
                    s->n, c->first, first->n);
    *out = first->key ? dpx_data_find(s, first->key[k]) : s->member[k];
    return *out ? ST_OK
                : FAIL(E_INVALID, "%s: sample %d has no '%s', sample %d has", data_path_text(at, c->path), c->first + i,
                       first->key[k], c->first);
}

static Status collate_member(dpx_data *d, const Column *c, int k, const dpx_data **member)
{
    const dpx_data *first = c->sample[0];
    const DataPath path = { c->path, first->key ? first->key[k] : NULL, k };
    const Column inner = { member, c->n, c->each, c->first, &path };
    dpx_data *made;

    for (int i = 0; i < c->n; i++)
        TRY(find_member(&member[i], c, i, k));
    if (first->key)
        TRY(data_set_key(d, k, first->key[k]));
    TRY(collate(&made, &inner));
    d->member[k] = made;
    return ST_OK;
}

static Status collate_members(dpx_data **out, const Column *c)
{
    const dpx_data **member = calloc((size_t)c->n, sizeof *member), *unused;
    dpx_data *d = NULL;
    Status st = member ? data_create(&d, c->sample[0]->kind, c->sample[0]->n) : FAIL_NOMEM();

    for (int i = 0; i < c->n && !st && !c->sample[0]->key && !c->sample[0]->n; i++)
        st = c->sample[i]->n ? find_member(&unused, c, i, 0) : ST_OK; /* of which the first has none */
    for (int k = 0; !st && k < c->sample[0]->n; k++)
        st = collate_member(d, c, k, member);
    free(member);
    if (st)
        data_release(d);
    else
        *out = d;
    return st;
}

static Status collate(dpx_data **out, const Column *c)
{
    TRY(check_kinds(c));
    switch (c->sample[0]->kind) {
    case DPX_DATA_TENSOR: return stack(out, c, 0, NULL);
    case DPX_DATA_CONTAINER: return collate_containers(out, c);
    default: return collate_members(out, c);
    }
}

dpx_status dpx_collate(dpx_data **out, const dpx_data *const *sample, int n, int samples_per_replica)
{
    const Column all = { sample, n, samples_per_replica ? samples_per_replica : 1, 0, NULL };

    NEED(out, "out");
    NEED(sample, "sample");
    if (n < 1 || samples_per_replica < 0)
        return (dpx_status)FAIL(E_INVALID, "dpx_collate: %d samples, %d for each replica", n, samples_per_replica);
    for (int i = 0; i < n; i++)
        if (!sample[i])
            return (dpx_status)FAIL(E_INVALID, "dpx_collate: sample %d is NULL", i);
    return (dpx_status)collate(out, &all);
}
