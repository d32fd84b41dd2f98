/* A caller's batch: its names and shapes checked, whole or this process's part of it.  What a part lacks is made up in
 * the shapes, so that programs are found, and compiled, by the shapes of the whole in all processes alike. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/batch_axis.h"
#include "passes/partition/place.h"

/* The target that passes add, or NULL: the model computes its loss itself, or there is none. */
static const char *target_name(const dpx_trainer *t)
{
    const BuildOptions *b = &t->options->build;

    return !b->loss || b->loss->target == TARGET_NONE ? NULL : b->target ? b->target : "target";
}

/* What a batch is of: the model's inputs in the order of the graph, then the target, unless that is one of them; NULL
 * behind the last. */
static const char *batch_asked_for(const dpx_trainer *t, int i)
{
    const Graph *g = t->model->graph;
    const char *target = target_name(t);

    if (i < g->n_input)
        return value(g, g->input[i])->name;
    for (int k = 0; target && k < g->n_input; k++)
        if (!strcmp(value(g, g->input[k])->name, target))
            return NULL;
    return i == g->n_input ? target : NULL;
}

static bool is_asked_for(const dpx_trainer *t, const char *name)
{
    const char *wanted;

    for (int i = 0; (wanted = batch_asked_for(t, i)); i++)
        if (!strcmp(wanted, name))
            return true;
    return false;
}

static void list_asked_for(char *text, size_t size, const dpx_trainer *t)
{
    const char *name;
    size_t len = 0;

    *text = '\0';
    for (int i = 0; (name = batch_asked_for(t, i)) && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s'%s'", i ? ", " : "", name);
}

bool batch_is_complete(const Feed *f, const dpx_trainer *t)
{
    const char *name;

    for (int i = 0; (name = batch_asked_for(t, i)); i++)
        if (!named_find(f->tensor, f->n, name))
            return false;
    return true;
}

/* Is it NAME.0, NAME.1, ..., NAME being so many characters? */
static bool is_member(const char *name, const char *list, size_t length)
{
    return !strncmp(name, list, length) && name[length] == '.' && name[length + 1] &&
           !name[length + 1 + strspn(name + length + 1, "0123456789")];
}

/* A sequence that a batch has is as long as the model was read for; one that it has not may not be needed. */
static Status check_structure(const dpx_trainer *t, const Feed *f)
{
    const Graph *g = t->model->graph;

    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        const char *dot = v->member ? strrchr(v->name, '.') : NULL;
        const size_t length = dot ? (size_t)(dot - v->name) : 0;
        int given = 0, expected = 0;

        if (!dot || strcmp(dot, ".0") != 0)
            continue;
        for (int k = 0; k < f->n; k++)
            given += is_member(f->tensor[k].name, v->name, length);
        for (int k = 0; k < g->n_input; k++)
            expected += same_sequence(v, value(g, g->input[k]));
        if (given && given != expected)
            return FAIL(E_INVALID,
                        "sequence '%.*s' has %d tensors in this batch, and %d in this model: a trainer has one "
                        "structure, which \"input-members\" \"%.*s=%d\" gives when the model is loaded",
                        (int)length, v->name, given, expected, (int)length, v->name, given);
    }
    return ST_OK;
}

/* What no mode of this trainer takes is a mistake; what another mode takes may be there, as targets are in
 * inference. */
static Status check_names(const dpx_trainer *t, const Feed *f)
{
    char expected[768];
    Problems wrong = { 0 };

    for (int i = 0; i < f->n; i++) {
        bool first = true;

        for (int k = 0; k < i; k++)
            first &= strcmp(f->tensor[k].name, f->tensor[i].name) != 0;
        if (!first)
            problems_add(&wrong, "'%s' is given twice", f->tensor[i].name);
        else if (!is_asked_for(t, f->tensor[i].name))
            problems_add(&wrong, "nobody asked for '%s'", f->tensor[i].name);
    }
    if (!wrong.n)
        return ST_OK;
    list_asked_for(expected, sizeof expected, t);
    return problems_fail(&wrong, E_INVALID, "a batch of this model is of %s", expected);
}

/* ---- parts ---- */

static Status find_part(GivenPart *out, const dpx_trainer *t, int64_t samples)
{
    const World *w = trainer_world(t);
    BuildOptions opt = t->options->build;

    if (samples < 0)
        return FAIL(E_INVALID, "a part of a batch of %" PRId64 " samples", samples);
    opt.devices = t->devices;
    opt.replicas = t->replicas;
    return batch_part(&out->from, &out->to, &opt, samples, world_rank(w) * (t->devices / world_size(w)),
                      t->devices / world_size(w));
}

dpx_status dpx_trainer_part(const dpx_trainer *t, int64_t samples, dpx_part *out)
{
    GivenPart part;
    Status st;

    NEED(t, "trainer");
    NEED(out, "out");
    if (!(st = find_part(&part, t, samples)))
        *out = (dpx_part){ part.from, part.to };
    return (dpx_status)st;
}

int dpx_batch_splits(const dpx_model *m, const dpx_options *o, const char *name)
{
    return m && o && name && data_split_axis(m->graph, &((const Options *)o)->build, name) >= 0;
}

/* Tensor i has `part` of the whole, or all of it. */
static Status take_part(Feed *f, const dpx_trainer *t, int i)
{
    const int axis = data_split_axis(t->model->graph, &t->options->build, f->tensor[i].name);
    Tensor *x = &f->tensor[i].tensor;

    f->axis[i] = axis;
    if (axis < 0)
        return ST_OK;
    if (axis >= x->shape.rank)
        return FAIL(E_SHAPE, "tensor '%s' of rank %d has no axis %d, where the batch is", f->tensor[i].name,
                    x->shape.rank, axis);
    if (x->shape.dim[axis] != f->part.to - f->part.from)
        return FAIL(E_SHAPE,
                    "tensor '%s' has %" PRId64 " samples along axis %d, expected %" PRId64 ": of a batch of %" PRId64
                    " this process's part is from %" PRId64 " to %" PRId64,
                    f->tensor[i].name, x->shape.dim[axis], axis, f->part.to - f->part.from, f->samples, f->part.from,
                    f->part.to);
    x->shape.dim[axis] = f->samples;
    return shape_check(&x->shape, dtype_size(x->dtype));
}

/* ---- entry ---- */

/* By their names, all of them, or by their order. */
static Status name_tensors(Feed *f, const dpx_trainer *t, const dpx_tensor *batch, int n)
{
    char expected[768];
    int named = 0;

    for (int i = 0; i < n; i++)
        named += batch[i].name != NULL;
    for (int i = 0; i < n; i++) {
        f->tensor[i].name = named ? batch[i].name : batch_asked_for(t, i);
        if (f->tensor[i].name)
            continue;
        list_asked_for(expected, sizeof expected, t);
        return named ? FAIL(E_INVALID, "tensor %d of the batch has no name, and %d of %d have: expected all or none", i,
                            named, n)
                     : FAIL(E_INVALID, "a batch of %d tensors without names: this model's is of %s, in this order", n,
                            expected);
    }
    return ST_OK;
}

/* How many a batch has, by the first tensor that is divided, else by the first axis of the first. */
static int64_t count_samples(const dpx_trainer *t, const NamedTensor *x, int n)
{
    for (int i = 0; i < n; i++) {
        int axis = data_split_axis(t->model->graph, &t->options->build, x[i].name);

        if (axis >= 0 && axis < x[i].tensor.shape.rank)
            return x[i].tensor.shape.dim[axis];
    }
    return n && x[0].tensor.shape.rank > 0 ? x[0].tensor.shape.dim[0] : 0;
}

static Status read_batch(Feed *f, const dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples,
                         bool training)
{
    f->n = 0;
    f->samples = samples ? *samples : 0;
    f->partly = samples != NULL;
    if (samples)
        TRY(find_part(&f->part, t, *samples));
    f->part.axis = f->axis;
    if (n < 0 || n > MAX_BATCH_TENSORS - 1)
        return FAIL(E_INVALID, "a batch of %d tensors, at most %d are taken", n, MAX_BATCH_TENSORS - 1);
    if (n && !batch)
        return FAIL(E_INVALID, "the batch is NULL, expected %d tensors", n);
    TRY(name_tensors(f, t, batch, n));
    for (int i = 0; i < n; i++)
        TRY(api_tensor(&f->tensor[i].tensor, &batch[i]));
    if (!samples)
        f->samples = count_samples(t, f->tensor, n);
    f->n = n;
    TRY(check_structure(t, f));
    TRY(check_names(t, f));
    if (t->preprocess)
        TRY(preprocess_batch(f, t, training, samples));
    if (t->preprocess && !samples && world_size(trainer_world(t)) > 1) {
        samples = &f->samples;
        f->partly = true;
        TRY(find_part(&f->part, t, *samples));
    }
    for (int i = 0; i < n && samples; i++)
        TRY(take_part(f, t, i));
    return ST_OK;
}

Status batch_read(Feed *f, dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples, bool training)
{
    const Status st = read_batch(f, t, batch, n, samples, training);

    if (st)
        lengths_forget(&t->lengths); /* there is no step that they are of */
    return st;
}
