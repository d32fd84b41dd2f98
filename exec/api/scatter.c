/* Scattering: the samples of a batch that each replica has. */
#include <inttypes.h>
#include <string.h>

#include "exec/api/data.h"

/* ---- how many samples ---- */

static Status check_groups(DataGroups *known, const dpx_data *d, const DataPath *path)
{
    char at[DATA_PATH_TEXT];
    int64_t total = 0;
    bool same = !known->n || known->n == d->n;

    for (int g = 0; g < d->n; g++) {
        total += d->samples[g];
        same = same && (!known->n || known->samples[g] == d->samples[g]);
    }
    if (!same || (known->total >= 0 && known->total != total))
        return FAIL(E_INVALID, "%s: %" PRId64 " samples in %d groups, others of the batch have %" PRId64 " in %d",
                    data_path_text(at, path), total, d->n, known->total, known->n ? known->n : 1);
    *known = (DataGroups){ d->n, d->samples, total };
    return ST_OK;
}

static Status find_groups(DataGroups *known, const dpx_data *d, const DataPath *path)
{
    char at[DATA_PATH_TEXT];

    if (d->kind == DPX_DATA_CONTAINER)
        return FAIL(E_INVALID, "%s: a container of one sample: dpx_collate makes a batch of them",
                    data_path_text(at, path));
    if (d->kind == DPX_DATA_GROUPS)
        return check_groups(known, d, path);
    if (d->kind == DPX_DATA_TENSOR && d->tensor.shape.rank) {
        if (known->total >= 0 && known->total != d->tensor.shape.dim[0])
            return FAIL(E_INVALID, "%s: %" PRId64 " samples along axis 0, others of the batch have %" PRId64,
                        data_path_text(at, path), d->tensor.shape.dim[0], known->total);
        known->total = d->tensor.shape.dim[0];
    }
    for (int i = 0; i < d->n; i++)
        TRY(find_groups(known, d->member[i], &(DataPath){ path, d->key ? d->key[i] : NULL, i }));
    return ST_OK;
}

Status data_groups(DataGroups *out, const dpx_data *batch)
{
    DataGroups known = { .total = -1 };

    TRY(find_groups(&known, batch, NULL));
    *out = known;
    return ST_OK;
}

/* ---- parts ---- */

static Status part_of(dpx_data **out, const dpx_data *d, int r, int64_t from, int64_t n);

/* Samples [from, from + n). */
static Status part_of_tensor(dpx_data **out, const dpx_data *d, int64_t from, int64_t n)
{
    Shape shape = d->tensor.shape;
    size_t bytes;
    dpx_data *made;

    shape.dim[0] = n;
    TRY(data_create_tensor(&made, d->tensor.dtype, &shape));
    bytes = (size_t)shape_count(&shape, 1, shape.rank) * dtype_size(d->tensor.dtype);
    if (n && bytes)
        memcpy(made->tensor.data, (const char *)d->tensor.data + (size_t)from * bytes, (size_t)n * bytes);
    *out = made;
    return ST_OK;
}

/* The data of a replica behind the last group: no samples. */
static Status no_group(dpx_data **out, const dpx_data *d)
{
    const dpx_data *like = d->n ? d->member[d->n - 1] : NULL;

    return like && like->kind == DPX_DATA_TENSOR ? part_of_tensor(out, like, 0, 0) : data_create(out, DPX_DATA_LIST, 0);
}

static Status part_of_members(dpx_data **out, const dpx_data *d, int r, int64_t from, int64_t n)
{
    dpx_data *made;
    Status st = ST_OK;

    TRY(data_create(&made, d->kind, d->n));
    for (int i = 0; i < d->n && !st; i++) {
        dpx_data *member = NULL;

        st = part_of(&member, d->member[i], r, from, n);
        made->member[i] = member;
        if (!st && d->key)
            st = data_set_key(made, i, d->key[i]);
    }
    if (st)
        data_release(made);
    else
        *out = made;
    return st;
}

/* Replica r's part: group r, or samples [from, from + n) where there are no groups. */
static Status part_of(dpx_data **out, const dpx_data *d, int r, int64_t from, int64_t n)
{
    const dpx_data *kept = d->kind == DPX_DATA_GROUPS && r < d->n ? d->member[r] : d;

    if (d->kind == DPX_DATA_GROUPS && r >= d->n)
        return no_group(out, d);
    if (d->kind == DPX_DATA_TENSOR && d->tensor.shape.rank)
        return part_of_tensor(out, d, from, n);
    if (d->kind == DPX_DATA_LIST || d->kind == DPX_DATA_MAP)
        return part_of_members(out, d, r, from, n);
    *out = (dpx_data *)(uintptr_t)data_keep(kept);
    return ST_OK;
}

static Status split_batch(dpx_data **out, const dpx_data *batch, int replicas)
{
    DataGroups groups;
    int64_t at = 0;
    Status st = ST_OK;

    TRY(data_groups(&groups, batch));
    if (groups.n > replicas)
        return FAIL(E_INVALID, "the batch has %d groups, more than the %d replicas", groups.n, replicas);
    for (int r = 0; r < replicas; r++)
        out[r] = NULL;
    for (int r = 0; r < replicas && !st; r++) {
        const int64_t even = groups.total / replicas + (r < groups.total % replicas),
                      n = groups.n           ? (r < groups.n ? groups.samples[r] : 0)
                          : groups.total > 0 ? even
                                             : 0;

        st = part_of(&out[r], batch, r, at, n);
        at += n;
    }
    for (int r = 0; r < replicas && st; r++) {
        data_release(out[r]);
        out[r] = NULL;
    }
    return st;
}

dpx_status dpx_scatter(dpx_data **out, const dpx_data *batch, int replicas)
{
    NEED(out, "out");
    NEED(batch, "batch");
    if (replicas < 1)
        return (dpx_status)FAIL(E_INVALID, "dpx_scatter: %d replicas, expected 1 or more", replicas);
    return (dpx_status)split_batch(out, batch, replicas);
}
