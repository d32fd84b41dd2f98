/* Preprocessing: the caller's function makes of a batch what the model takes, replica by replica, before the step and
 * so outside of what is differentiated.  Its results are copied, so that it may reuse their memory. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/build_options.h"
#include "passes/options/replicas.h"
#include "passes/partition/place.h"

struct Preprocess {
    dpx_preprocess_fn *make;
    void *user;
    /* Fields of the last step: */
    NamedTensor made[MAX_BATCH_TENSORS]; /* what it was given; the data are this struct's */
    int axis[MAX_BATCH_TENSORS];         /* along which replicas share a tensor; -1: they all have it */
    int64_t from[MAX_REPLICAS + 1];      /* the first sample of each replica */
    int64_t first, held;                 /* the first sample that the caller gave, and how many it gave */
    int64_t own, made_of;                /* the same of samples of this process's replicas */
};

void preprocess_free(Preprocess *p)
{
    for (int i = 0; p && i < MAX_BATCH_TENSORS; i++)
        free(p->made[i].tensor.data);
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

/* Both have `outer` pieces along the axis: copies `n` rows from one to the other, from row `at` to row `to`. */
static void copy_rows(const Tensor *dst, int64_t to, const Tensor *src, int64_t at, int64_t n, int axis)
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

/* The samples [from, to) of the batch, in `space` where they are not neighbours in memory. */
static Status slice(dpx_tensor *out, void **space, const Preprocess *p, const GivenBatch *f, int i, int64_t from,
                    int64_t to)
{
    const Tensor *x = &f->tensor[i].tensor;
    Tensor part = *x;
    const int axis = p->axis[i];

    *out = (dpx_tensor){ .name = f->tensor[i].name, .dtype = (dpx_dtype)x->dtype, .rank = x->shape.rank };
    if (axis >= 0) {
        part.shape.dim[axis] = to - from;
        if (!(part.data = *space = malloc(tensor_bytes(&part) + 1)))
            return FAIL_NOMEM();
        copy_rows(&part, 0, x, from - p->first, to - from, axis);
    }
    memcpy(out->dim, part.shape.dim, sizeof out->dim);
    out->data = part.data;
    return ST_OK;
}

/* Makes room for what the replicas make of a tensor, by the shape of the first's. */
static Status preprocess_make_room(NamedTensor *made, const char *name, const Tensor *x, int axis, int64_t samples)
{
    Tensor all = { x->dtype, x->shape, NULL };

    if (axis >= 0)
        all.shape.dim[axis] = samples;
    TRY(shape_check(&all.shape, dtype_size(all.dtype)));
    free(made->tensor.data);
    all.data = aligned_alloc(64, (tensor_bytes(&all) + 64) / 64 * 64);
    *made = (NamedTensor){ name, all };
    return all.data ? ST_OK : FAIL_NOMEM();
}

static Status preprocess_keep(Preprocess *p, const char *name, int i, const dpx_tensor *given, int replica,
                              int64_t from, int64_t to, bool first)
{
    const int axis = p->axis[i];
    const Tensor *made = &p->made[i].tensor;
    Tensor x, whole;

    if (api_tensor(&x, given))
        return status_prefix(E_INVALID, "preprocessing, replica %d", replica);
    if (axis >= x.shape.rank || (axis >= 0 && x.shape.dim[axis] != to - from))
        return FAIL(E_SHAPE,
                    "preprocessing, replica %d: tensor '%s' has not %" PRId64 " samples along axis %d any more",
                    replica, name, to - from, axis);
    if (first)
        TRY(preprocess_make_room(&p->made[i], name, &x, axis, p->made_of));
    whole = x;
    if (axis >= 0)
        whole.shape.dim[axis] = p->made_of;
    if (whole.dtype != made->dtype || !shape_eq(&whole.shape, &made->shape))
        return FAIL(E_SHAPE,
                    "preprocessing, replica %d: tensor '%s' has another type or shape than the first replica's",
                    replica, name);
    if (axis >= 0)
        copy_rows(made, from - p->own, &x, 0, to - from, axis);
    else if (first && tensor_bytes(&x))
        memcpy(made->data, x.data, tensor_bytes(&x));
    return ST_OK;
}

static Status call(Preprocess *p, const GivenBatch *f, bool training, int replica, bool first)
{
    const int64_t from = p->from[replica], to = p->from[replica + 1];
    const int n = f->n;
    dpx_tensor part[MAX_BATCH_TENSORS];
    void *space[MAX_BATCH_TENSORS] = { NULL };
    Status st = ST_OK;

    for (int i = 0; i < n && !st; i++)
        st = slice(&part[i], &space[i], p, f, i, from, to);
    if (!st && p->make(p->user, training, replica, part, n))
        st = FAIL(E_INVALID, "preprocessing failed for replica %d", replica);
    for (int i = 0; i < n && !st; i++)
        st = preprocess_keep(p, f->tensor[i].name, i, &part[i], replica, from, to, first);
    for (int i = 0; i < n; i++)
        free(space[i]);
    return st;
}

/* Finds along which axis each tensor has samples, and how many the whole batch has. */
static Status find_axes(Preprocess *p, GivenBatch *f, const ExpectedTensor *expected, bool part)
{
    int64_t samples = -1;

    for (int i = 0; i < f->n; i++) {
        const NamedTensor *x = &f->tensor[i];
        const int axis = expected[f->number[i]].axis;
        const int64_t has = axis >= 0 && axis < x->tensor.shape.rank ? x->tensor.shape.dim[axis] : -1;

        p->axis[i] = axis;
        if (axis >= x->tensor.shape.rank || (axis >= 0 && samples >= 0 && has != samples))
            return FAIL(E_SHAPE, "tensor '%s': expected as many samples along axis %d as other tensors have", x->name,
                        axis);
        samples = axis >= 0 ? has : samples;
    }
    if (samples < 0)
        return FAIL(E_INVALID, "preprocessing: no tensor of the batch is known to hold samples; give batch-input");
    p->held = samples;
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
    int from = 0, to = 0;

    replicas.devices = t->devices;
    replicas.replicas = t->replicas;
    replicas.samples_each = session_samples_each(t->session);
    TRY(find_axes(p, f, t->expected, part));
    TRY(batch_offsets(p->from, &from, &to, &(BuildOptions){ .replicas = &replicas }, f->samples,
                      world_rank(world) * devices, devices));
    p->own = p->from[from];
    p->made_of = p->from[to] - p->own;
    p->first = part ? p->own : 0;
    if (part && p->held != p->made_of)
        return FAIL(E_SHAPE, "this process's part has %" PRId64 " samples, expected %" PRId64, p->held, p->made_of);
    for (int r = from; r < to; r++)
        TRY(call(p, f, training, r, r == from));
    memcpy(f->tensor, p->made, sizeof *p->made * (size_t)f->n);
    return ST_OK;
}
