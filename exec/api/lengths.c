/* How long the samples of a step are along an axis of its tensors, and what follows for the parts of its replicas. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "graph/base/heap_array.h"
#include "passes/build_options.h"
#include "passes/options/inputs.h"
#include "passes/options/replicas.h"
#include "passes/partition/place.h"

void lengths_forget(Lengths *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->list[i].name);
        free(l->list[i].length);
    }
    free(l->list);
    *l = (Lengths){ 0 };
}

Status lengths_keep(Lengths *l, const char *name, int axis, int64_t least, int64_t multiple, const int64_t *length,
                    int64_t n)
{
    SampleLengths *grown = heap_reserve(l->list, sizeof *grown, (size_t)l->n + 1, &l->room), *x;

    if (!grown)
        return FAIL_NOMEM();
    l->list = grown;
    x = &grown[l->n];
    *x = (SampleLengths){ strdup(name), axis, least, multiple, n, malloc(((size_t)n + 1) * sizeof *x->length) };
    if (!x->name || !x->length) {
        free(x->name);
        free(x->length);
        return FAIL_NOMEM();
    }
    if (n)
        memcpy(x->length, length, (size_t)n * sizeof *x->length);
    l->n++;
    return ST_OK;
}

dpx_status dpx_trainer_lengths(dpx_trainer *t, const char *name, int axis, int64_t multiple, const int64_t *length,
                               int64_t n)
{
    NEED(t, "trainer");
    NEED(name, "name");
    if (n)
        NEED(length, "length");
    if (axis < 0 || axis >= DPX_MAX_RANK || multiple < 1 || n < 0)
        return (dpx_status)FAIL(E_INVALID,
                                "lengths of '%s': %" PRId64 " along axis %d, in multiples of %" PRId64
                                ": expected an axis from 0 to %d, and multiples from 1",
                                name, n, axis, multiple, DPX_MAX_RANK - 1);
    for (int64_t i = 0; i < n; i++)
        if (length[i] < 0)
            return (dpx_status)FAIL(E_INVALID, "lengths of '%s': sample %" PRId64 " has %" PRId64, name, i, length[i]);
    return (dpx_status)lengths_keep(&t->lengths, name, axis, 2, multiple, length, n);
}

static Status lengths_check(const SampleLengths *x, const GivenBatch *f, const Tensor *t)
{
    if (x->n != f->samples)
        return FAIL(E_INVALID, "lengths of '%s': %" PRId64 " are given, and the batch has %" PRId64 " samples", x->name,
                    x->n, f->samples);
    if (x->axis >= t->shape.rank)
        return FAIL(E_INVALID, "lengths of '%s': along axis %d, and its rank is %d", x->name, x->axis, t->shape.rank);
    for (int64_t s = 0; s < x->n; s++)
        if (x->length[s] > t->shape.dim[x->axis])
            return FAIL(E_INVALID, "lengths of '%s': sample %" PRId64 " has %" PRId64 " of %" PRId64, x->name, s,
                        x->length[s], t->shape.dim[x->axis]);
    return ST_OK;
}

/* The length of the longest of samples [from, to), rounded up to the multiple, at most `most`; without samples, `most`.
 */
static int64_t longest(const SampleLengths *x, int64_t from, int64_t to, int64_t most)
{
    int64_t n = from < to ? x->least : most;

    for (int64_t s = from; s < to; s++)
        n = x->length[s] > n ? x->length[s] : n;
    n = (n + x->multiple - 1) / x->multiple * x->multiple;
    return n < most ? n : most;
}

/* Measures each replica's part of a tensor of the whole batch.  `size`: [replicas]; *shorter: one is shorter than the
 * whole. */
static void lengths_measure(const dpx_trainer *t, const SampleLengths *x, const Tensor *whole, const int64_t *offset,
                            int64_t *size, bool *shorter)
{
    const int64_t most = whole->shape.dim[x->axis];
    const PadTo to = t->options->pad_to;
    const bool own = to == PAD_TO_REPLICA || (to == PAD_TO_AUTO && session_samples_each(t->session));

    *shorter = false;
    for (int r = 0; r < t->replicas; r++) {
        size[r] = own ? longest(x, offset[r], offset[r + 1], most) : most;
        *shorter |= size[r] < most;
    }
}

/* Where the replicas' parts begin in the step's batch. */
static Status find_offsets(int64_t *offset, const dpx_trainer *t, const GivenBatch *f)
{
    ReplicaOptions replicas = *replica_options(&t->options->build);
    int first, last;

    replicas.devices = t->devices;
    replicas.replicas = t->replicas;
    replicas.samples_each = session_samples_each(t->session);
    return batch_offsets(offset, &first, &last, &(BuildOptions){ .replicas = &replicas }, f->samples, 0, t->devices);
}

/* `list` and `size` have room for all lengths. */
static Status find_reach(dpx_trainer *t, const GivenBatch *f, InputReach *list, int64_t *size)
{
    int64_t offset[MAX_REPLICAS + 1];
    int n = 0;

    TRY(find_offsets(offset, t, f));
    for (int k = 0; k < t->lengths.n; k++) {
        const SampleLengths *x = &t->lengths.list[k];
        const Tensor *whole = named_find(f->tensor, f->n, x->name);
        int64_t *own = size + (size_t)n * (size_t)t->replicas;
        bool shorter;

        if (!whole)
            continue;
        TRY(lengths_check(x, f, whole));
        lengths_measure(t, x, whole, offset, own, &shorter);
        list[n] = (InputReach){ x->name, x->axis, own };
        n += shorter;
    }
    t->has_reach = n > 0;
    return session_set_reach(t->session, list, n);
}

/* Do the lengths hold?  A batch that the caller's function has made may be of any length. */
static bool has_lengths(const dpx_trainer *t, const GivenBatch *f)
{
    return t->lengths.n && f->samples && !t->preprocess;
}

Status trainer_take_lengths(dpx_trainer *t, const GivenBatch *f)
{
    InputReach *list;
    int64_t *size;
    Status st;

    t->has_reach = false;
    if (!has_lengths(t, f))
        return session_set_reach(t->session, NULL, 0);
    list = calloc((size_t)t->lengths.n, sizeof *list);
    size = calloc((size_t)t->lengths.n * (size_t)t->replicas, sizeof *size);
    st = list && size ? find_reach(t, f, list, size) : FAIL_NOMEM();
    free(list);
    free(size);
    return st;
}

/* ---- what was computed ---- */

static void lengths_count(Padding *p, const SampleLengths *x, const Tensor *whole, const int64_t *offset,
                          const bool *kept, int replicas)
{
    const int64_t most = whole->shape.dim[x->axis];

    for (int64_t s = 0; s < x->n; s++)
        p->positions += x->length[s];
    for (int r = 0; r < replicas; r++)
        p->computed +=
            (kept && kept[r] ? longest(x, offset[r], offset[r + 1], most) : most) * (offset[r + 1] - offset[r]);
}

Status trainer_count_padding(dpx_trainer *t, const GivenBatch *f, const SessionStep *step)
{
    int64_t offset[MAX_REPLICAS + 1];

    if (!has_lengths(t, f))
        return ST_OK;
    TRY(find_offsets(offset, t, f));
    for (int k = 0; k < t->lengths.n; k++) {
        const Tensor *whole = named_find(f->tensor, f->n, t->lengths.list[k].name);

        if (whole)
            lengths_count(&t->padding, &t->lengths.list[k], whole, offset, session_reach_kept(step), t->replicas);
    }
    return ST_OK;
}

void dpx_trainer_padding(const dpx_trainer *t, int64_t *positions, int64_t *computed)
{
    if (positions)
        *positions = t ? t->padding.positions : 0;
    if (computed)
        *computed = t ? t->padding.computed : 0;
}
