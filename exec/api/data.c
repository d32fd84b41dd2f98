/* Samples of any structure: made once and never changed, so that they can be held by many and read by many threads. */
#include "exec/api/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/host_memory.h"
#include "graph/tensor/strings.h"

Status data_create(dpx_data **out, dpx_data_kind kind, int n)
{
    dpx_data *d = calloc(1, sizeof *d);

    if (!d)
        return FAIL_NOMEM();
    d->users = 1;
    d->kind = kind;
    d->member = calloc((size_t)n + 1, sizeof *d->member);
    d->key = kind == DPX_DATA_MAP ? calloc((size_t)n + 1, sizeof *d->key) : NULL;
    d->samples = kind == DPX_DATA_GROUPS ? calloc((size_t)n + 1, sizeof *d->samples) : NULL;
    d->n = n;
    if (!d->member || (kind == DPX_DATA_MAP && !d->key) || (kind == DPX_DATA_GROUPS && !d->samples)) {
        data_release(d);
        return FAIL_NOMEM();
    }
    *out = d;
    return ST_OK;
}

static Status create_tensor(dpx_data **out, DType dtype, const Shape *shape)
{
    dpx_data *d;
    size_t bytes;

    TRY(shape_check(shape, dtype_size(dtype)));
    TRY(data_create(&d, DPX_DATA_TENSOR, 0));
    d->tensor = (Tensor){ dtype, *shape, NULL };
    bytes = (tensor_bytes(&d->tensor) + 64) / 64 * 64;
    if (!(d->tensor.data = host_alloc(64, bytes))) {
        data_release(d);
        return FAIL(E_NOMEM, "no memory for a tensor of %zu bytes", bytes);
    }
    memset(d->tensor.data, 0, bytes);
    *out = d;
    return ST_OK;
}

Status data_create_tensor(dpx_data **out, DType dtype, const Shape *shape)
{
    if (dtype == DT_STRING)
        return FAIL(E_INVALID, "a tensor of strings: those are for dpx_interpret, and in no batch");
    return create_tensor(out, dtype, shape);
}

Status data_copy_tensor(dpx_data **out, const Tensor *from)
{
    dpx_data *d;

    TRY(create_tensor(&d, from->dtype, &from->shape));
    if (from->dtype == DT_STRING && (!(d->texts = arena_create()) || !text_copy_all(&d->tensor, d->texts, from))) {
        data_release(d);
        return FAIL_NOMEM();
    }
    if (from->dtype != DT_STRING && tensor_bytes(from))
        memcpy(d->tensor.data, from->data, tensor_bytes(from));
    *out = d;
    return ST_OK;
}

const dpx_data *data_keep(const dpx_data *d)
{
    ((dpx_data *)(uintptr_t)d)->users++; /* the count alone is not const */
    return d;
}

void data_release(const dpx_data *shared)
{
    dpx_data *d = (dpx_data *)(uintptr_t)shared;

    if (!d || --d->users > 0)
        return;
    for (int i = 0; i < d->n; i++) {
        if (d->member)
            data_release(d->member[i]);
        if (d->key)
            free(d->key[i]);
    }
    free(d->member);
    free(d->key);
    free(d->samples);
    free(d->padding);
    host_free(d->tensor.data);
    arena_free(d->texts);
    free(d);
}

Status data_set_key(dpx_data *d, int i, const char *key) { return (d->key[i] = strdup(key)) ? ST_OK : FAIL_NOMEM(); }

const char *data_kind_name(const dpx_data *d)
{
    static const char *const names[] = { "a tensor", "a list", "a map", "a container", "groups" };

    return names[d->kind];
}

const char *data_path_text(char text[DATA_PATH_TEXT], const DataPath *path)
{
    size_t n;

    if (!path) {
        strcpy(text, "the batch");
        return text;
    }
    if (path->up)
        data_path_text(text, path->up);
    else
        *text = '\0';
    n = strlen(text);
    if (path->key)
        snprintf(text + n, DATA_PATH_TEXT - n, "%s%.80s", n ? "." : "", path->key);
    else
        snprintf(text + n, DATA_PATH_TEXT - n, "[%d]", path->index);
    return text;
}

/* ---- padding ---- */

bool data_padding(unsigned char one[8], DType dtype, double value)
{
    Tensor t = { dtype, shape_scalar(), one };

    memset(one, 0, 8);
    if (dtype_is_float(dtype)) {
        tensor_set_float(&t, 0, value);
        return true;
    }
    if (!(fabs(value) <= 0x1p63) || value != floor(value) || value == 0x1p63)
        return false;
    tensor_set_int(&t, 0, (int64_t)value);
    return tensor_float(&t, 0) == value;
}

static void data_fill(char *to, const unsigned char one[8], size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * size, one, size);
}

static void pad_axes(char *to, const Shape *wide, const char *from, const Shape *shape, int axis,
                     const unsigned char one[8], size_t size)
{
    const size_t behind = axis < wide->rank ? (size_t)shape_count(wide, axis + 1, wide->rank) : 0,
                 own = axis < wide->rank ? (size_t)shape_count(shape, axis + 1, shape->rank) : 0;

    if (axis == wide->rank) {
        memcpy(to, from, size);
        return;
    }
    for (int64_t i = 0; i < shape->dim[axis] && own; i++)
        pad_axes(to + (size_t)i * behind * size, wide, from + (size_t)i * own * size, shape, axis + 1, one, size);
    data_fill(to + (own ? (size_t)shape->dim[axis] : 0) * behind * size, one,
              (size_t)(wide->dim[axis] - (own ? shape->dim[axis] : 0)) * behind, size);
}

void data_pad(void *to, const Shape *wide, const Tensor *from, const unsigned char one[8])
{
    if (!shape_eq(wide, &from->shape))
        pad_axes(to, wide, from->data, &from->shape, 0, one, dtype_size(from->dtype));
    else if (tensor_bytes(from))
        memcpy(to, from->data, tensor_bytes(from));
}

/* ---- the C API ---- */

static Status check_strings(const dpx_data *d, const char *name)
{
    for (int64_t i = 0; d->texts && i < tensor_numel(&d->tensor); i++)
        if (!text_is_utf8(text_at(&d->tensor, i)))
            return FAIL(E_INVALID, "tensor '%s': string %lld is no UTF-8", name ? name : "", (long long)i);
    return ST_OK;
}

dpx_status dpx_data_tensor(dpx_data **out, const dpx_tensor *tensor)
{
    dpx_data *d;
    Tensor t;
    Status st;

    NEED(out, "out");
    NEED(tensor, "tensor");
    if ((st = api_tensor_or_text(&t, tensor)) || (st = data_copy_tensor(&d, &t)))
        return (dpx_status)st;
    if ((st = check_strings(d, tensor->name))) {
        data_release(d);
        return (dpx_status)st;
    }
    *out = d;
    return DPX_OK;
}

static Status check_key(const char *const *key, int i)
{
    if (!key[i])
        return FAIL(E_INVALID, "key %d of the map is NULL", i);
    for (int k = 0; k < i; k++)
        if (!strcmp(key[k], key[i]))
            return FAIL(E_INVALID, "key '%s' of the map is given twice", key[i]);
    return ST_OK;
}

static Status data_make(dpx_data **out, dpx_data_kind kind, const char *const *key, const dpx_data *const *member,
                        int n)
{
    dpx_data *d;
    Status st = ST_OK;

    if (n < 0 || (n && !member))
        return FAIL(E_INVALID, "%s: %d members%s", kind == DPX_DATA_MAP ? "a map" : "a list", n,
                    n < 0 ? "" : ", and `member` is NULL");
    if (n && kind == DPX_DATA_MAP && !key)
        return FAIL(E_INVALID, "a map: %d members, and `key` is NULL", n);
    TRY(data_create(&d, kind, n));
    for (int i = 0; i < n && !st; i++) {
        st = member[i] ? ST_OK : FAIL(E_INVALID, "member %d is NULL", i);
        if (!st && key)
            st = check_key(key, i);
        if (!st && key)
            st = data_set_key(d, i, key[i]);
        if (!st)
            d->member[i] = data_keep(member[i]);
    }
    if (st)
        data_release(d);
    else
        *out = d;
    return st;
}

dpx_status dpx_data_list(dpx_data **out, const dpx_data *const *member, int n)
{
    NEED(out, "out");
    return (dpx_status)data_make(out, DPX_DATA_LIST, NULL, member, n);
}

dpx_status dpx_data_map(dpx_data **out, const char *const *key, const dpx_data *const *member, int n)
{
    NEED(out, "out");
    return (dpx_status)data_make(out, DPX_DATA_MAP, key, member, n);
}

dpx_status dpx_data_container(dpx_data **out, const dpx_data *content, const dpx_container *how)
{
    static const dpx_container defaults = DPX_CONTAINER_DEFAULTS;
    dpx_data *d;
    Status st;

    NEED(out, "out");
    NEED(content, "content");
    how = how ? how : &defaults;
    if (how->size != sizeof *how)
        return (dpx_status)FAIL(E_INVALID, "dpx_container.size is %zu, expected %zu", how->size, sizeof *how);
    if (how->pad_dims < 0 || how->pad_dims > 3)
        return (dpx_status)FAIL(E_INVALID, "dpx_container.pad_dims is %d, expected 1 to 3, or 0 for none",
                                how->pad_dims);
    if ((st = data_create(&d, DPX_DATA_CONTAINER, 1)))
        return (dpx_status)st;
    d->member[0] = data_keep(content);
    d->how = *how;
    *out = d;
    return DPX_OK;
}

void dpx_data_free(dpx_data *data) { data_release(data); }

dpx_data_kind dpx_data_kind_of(const dpx_data *data) { return data ? data->kind : DPX_DATA_LIST; }

int dpx_data_count(const dpx_data *data) { return data ? data->n : 0; }

const dpx_data *dpx_data_at(const dpx_data *data, int index)
{
    return data && index >= 0 && index < data->n ? data->member[index] : NULL;
}

const char *dpx_data_key(const dpx_data *data, int index)
{
    return data && data->key && index >= 0 && index < data->n ? data->key[index] : NULL;
}

const dpx_data *dpx_data_find(const dpx_data *data, const char *key)
{
    for (int i = 0; key && data && data->key && i < data->n; i++)
        if (!strcmp(data->key[i], key))
            return data->member[i];
    return NULL;
}

dpx_status dpx_data_view(const dpx_data *data, dpx_tensor *out)
{
    NEED(data, "data");
    NEED(out, "out");
    if (data->kind != DPX_DATA_TENSOR)
        return (dpx_status)FAIL(E_INVALID, "dpx_data_view: %s, expected a tensor", data_kind_name(data));
    *out = (dpx_tensor){ .dtype = (dpx_dtype)data->tensor.dtype,
                         .rank = data->tensor.shape.rank,
                         .data = data->tensor.data };
    memcpy(out->dim, data->tensor.shape.dim, (size_t)out->rank * sizeof *out->dim);
    return DPX_OK;
}
