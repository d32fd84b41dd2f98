/* Preprocessing: the caller's function turns a batch into the model's inputs, replica by replica, before the step, so
 * no gradient flows through it.  Its results are copied, so it may reuse their memory. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "graph/base/host_memory.h"
#include "passes/build_options.h"
#include "passes/options/replicas.h"
#include "passes/partition/place.h"

struct Preprocess {
    dpx_preprocess_fn *make;
    void *user;
    /* Fields of the last step: */
    NamedTensor made[MAX_BATCH_TENSORS]; /* the function's results; their data are this struct's */
    int axis[MAX_BATCH_TENSORS];         /* along which replicas share a tensor; -1: they all have it */
    int64_t offset[MAX_REPLICAS + 1];    /* the first sample of each replica */
    int64_t given_first, given;          /* the first sample that the caller gave, and how many it gave */
    int64_t own_first, own;              /* the same for this process's replicas */
};

void preprocess_free(Preprocess *p)
{
    for (int i = 0; p && i < MAX_BATCH_TENSORS; i++)
        host_free(p->made[i].tensor.data);
    free(p);
}

dpx_status dpx_trainer_set_preprocess(dpx_trainer *t, dpx_preprocess_fn *make, void *user)
{
    Preprocess *p = NULL;

    NEED(t, "trainer");
    if (make && !(p = calloc(1, sizeof *p)))
        return (dpx_status)FAIL_NOMEM();
    if (p) {
        p->make = make;
        p->user = user;
    }
    preprocess_free(t->preprocess);
    t->preprocess = p;
    return DPX_OK;
}

/* Copies n slices along `axis`, from slice `at` of src to slice `to` of dst. */
static void copy_slices(const Tensor *dst, int64_t to, const Tensor *src, int64_t at, int64_t n, int axis)
{
    size_t row = dtype_size(src->dtype);
    int64_t outer = 1;

    for (int k = 0; k < axis; k++)
        outer *= src->shape.dim[k];
    for (int k = axis + 1; k < src->shape.rank; k++)
        row *= (size_t)src->shape.dim[k];
    for (int64_t o = 0; o < outer && n * (int64_t)row > 0; o++)
        memcpy((char *)dst->data + (size_t)(o * dst->shape.dim[axis] + to) * row,
               (const char *)src->data + (size_t)(o * src->shape.dim[axis] + at) * row, (size_t)n * row);
}

/* Sets *out to samples [begin, end) of tensor i.  A split tensor is copied to *space, which the caller frees. */
static Status slice(dpx_tensor *out, void **space, const Preprocess *p, const GivenBatch *f, int i, int64_t begin,
                    int64_t end)
{
    const Tensor *x = &f->tensor[i].tensor;
    Tensor part = *x;
    const int axis = p->axis[i];

    *out = (dpx_tensor){ .name = f->tensor[i].name, .dtype = (dpx_dtype)x->dtype, .rank = x->shape.rank };
    if (axis >= 0) {
        part.shape.dim[axis] = end - begin;
        if (!(part.data = *space = malloc(tensor_bytes(&part) + 1)))
            return FAIL_NOMEM();
        copy_slices(&part, 0, x, begin - p->given_first, end - begin, axis);
    }
    memcpy(out->dim, part.shape.dim, sizeof out->dim);
    out->data = part.data;
    return ST_OK;
}

/* Allocates *made for the results of all replicas, like x, the first's result, but with `samples` along the axis. */
static Status preprocess_make_room(NamedTensor *made, const char *name, const Tensor *x, int axis, int64_t samples)
{
    Tensor all = { x->dtype, x->shape, NULL };

    if (axis >= 0)
        all.shape.dim[axis] = samples;
    TRY(shape_check(&all.shape, dtype_size(all.dtype)));
    host_free(made->tensor.data);
    all.data = host_alloc(64, (tensor_bytes(&all) + 64) / 64 * 64);
    *made = (NamedTensor){ name, all };
    return all.data ? ST_OK : FAIL_NOMEM();
}

/* Checks and copies the function's result for tensor i and samples [begin, end).  first: it sets the type and shape for
 * all replicas. */
static Status preprocess_keep(Preprocess *p, const char *name, int i, const dpx_tensor *given, int replica,
                              int64_t begin, int64_t end, bool first)
{
    const int axis = p->axis[i];
    const Tensor *made = &p->made[i].tensor;
    Tensor x, whole;
    char found[SHAPE_TEXT];

    if (api_tensor(&x, given))
        return status_prefix(E_INVALID, "preprocessing, replica %d", replica); /* api_tensor names the tensor */
    if (axis >= x.shape.rank || (axis >= 0 && x.shape.dim[axis] != end - begin))
        return FAIL(E_SHAPE,
                    "preprocessing, replica %d: tensor '%s': the function must keep %" PRId64
                    " samples along axis %d, found shape %s",
                    replica, name, end - begin, axis, shape_text(&x.shape, found));
    if (first)
        TRY(preprocess_make_room(&p->made[i], name, &x, axis, p->own));
    whole = x;
    if (axis >= 0)
        whole.shape.dim[axis] = p->own;
    if (whole.dtype != made->dtype || !shape_eq(&whole.shape, &made->shape))
        return FAIL(E_SHAPE,
                    "preprocessing, replica %d: tensor '%s' has another type or shape than the first replica's",
                    replica, name);
    if (axis >= 0)
        copy_slices(made, begin - p->own_first, &x, 0, end - begin, axis);
    else if (first && tensor_bytes(&x))
        memcpy(made->data, x.data, tensor_bytes(&x));
    return ST_OK;
}

static Status call(Preprocess *p, const GivenBatch *f, bool training, int replica, bool first)
{
    const int64_t begin = p->offset[replica], end = p->offset[replica + 1];
    const int n = f->n;
    dpx_tensor part[MAX_BATCH_TENSORS];
    void *space[MAX_BATCH_TENSORS] = { NULL };
    Status st = ST_OK;

    for (int i = 0; i < n && !st; i++)
        st = slice(&part[i], &space[i], p, f, i, begin, end);
    if (!st && p->make(p->user, training, replica, part, n))
        st = FAIL(E_INVALID, "preprocessing failed for replica %d", replica);
    for (int i = 0; i < n && !st; i++)
        st = preprocess_keep(p, f->tensor[i].name, i, &part[i], replica, begin, end, first);
    for (int i = 0; i < n; i++)
        free(space[i]);
    return st;
}

/* Finds along which axis each tensor has samples, and how many were given: the whole batch's, or with `part` this
 * process's.  All tensors of f are expected ones (check_names in batch.c). */
static Status find_axes(Preprocess *p, GivenBatch *f, const ExpectedTensor *expected, bool part)
{
    int64_t samples = -1;
    char found[SHAPE_TEXT];

    for (int i = 0; i < f->n; i++) {
        const NamedTensor *x = &f->tensor[i];
        const int axis = expected[f->number[i]].axis;
        const int64_t has = axis >= 0 && axis < x->tensor.shape.rank ? x->tensor.shape.dim[axis] : -1;

        p->axis[i] = axis;
        if (axis >= x->tensor.shape.rank)
            return FAIL(E_SHAPE, "tensor '%s': expected samples along axis %d, found shape %s", x->name, axis,
                        shape_text(&x->tensor.shape, found));
        if (axis >= 0 && samples >= 0 && has != samples)
            return FAIL(E_SHAPE,
                        "tensor '%s': expected %" PRId64
                        " samples along axis %d, as other tensors have, found %" PRId64,
                        x->name, samples, axis, has);
        samples = axis >= 0 ? has : samples;
    }
    if (samples < 0)
        return FAIL(E_INVALID, "preprocessing: no tensor of the batch is known to hold samples; give batch-input");
    p->given = samples;
    if (!part)
        f->samples = samples;
    return ST_OK;
}

Status preprocess_batch(GivenBatch *f, const dpx_trainer *t, bool training, bool part)
{
    Preprocess *p = t->preprocess;
    const World *world = trainer_world(t);
    const int devices = t->devices / world_size(world);
    ReplicaOptions replicas = *replica_options(&t->options->build);
    int first = 0, end = 0;

    replicas.devices = t->devices;
    replicas.replicas = t->replicas;
    replicas.samples_each = session_samples_each(t->session);
    TRY(find_axes(p, f, t->expected, part));
    TRY(batch_offsets(p->offset, &first, &end, &(BuildOptions){ .replicas = &replicas }, f->samples,
                      world_rank(world) * devices, devices));
    p->own_first = p->offset[first];
    p->own = p->offset[end] - p->own_first;
    p->given_first = part ? p->own_first : 0;
    if (part && p->given != p->own)
        return FAIL(E_SHAPE, "this process's part has %" PRId64 " samples, expected %" PRId64, p->given, p->own);
    for (int r = first; r < end; r++)
        TRY(call(p, f, training, r, r == first));
    memcpy(f->tensor, p->made, sizeof *p->made * (size_t)f->n);
    return ST_OK;
}
