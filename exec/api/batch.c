/* A caller's batch: its names and shapes checked, whole or this process's part of it.  The shapes of a part are
 * extended to the shapes of the whole, so that all processes find and compile programs by the same shapes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/batch_axis.h"
#include "passes/build_options.h"
#include "passes/options/replicas.h"
#include "passes/options/target.h"
#include "passes/partition/place.h"

Status batch_expect(dpx_trainer *t)
{
    const Graph *g = t->model->graph;
    const BuildOptions *b = &t->options->build;
    /* NULL: the model computes its loss itself, or there is none. */
    const char *target = loss_has_target(b) ? target_name(b) : NULL;
    ExpectedTensor *x = ARENA_NEW(t->options->arena, ExpectedTensor, g->n_input + 1);

    if (!x)
        return FAIL_NOMEM();
    t->expected = x;
    for (int i = 0; i < g->n_input; i++) {
        const char *name = value(g, g->input[i])->name;

        x[t->n_expected++] = (ExpectedTensor){ .name = name, .axis = data_split_axis(g, b, name), .sequence = -1 };
        if (target && !strcmp(name, target))
            target = NULL;
    }
    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        const char *dot = v->member ? strrchr(v->name, '.') : NULL;

        for (int k = 0; k < g->n_input && dot && !strcmp(dot, ".0"); k++)
            if (same_sequence(v, value(g, g->input[k]))) {
                x[k].sequence = i;
                x[i].members++;
            }
    }
    if (target)
        x[t->n_expected++] = (ExpectedTensor){ .name = target, .axis = data_split_axis(g, b, target), .sequence = -1 };
    return ST_OK;
}

/* The number of the expected tensor of this name; -1: none has it.  The number `first` is compared first. */
static int find_expected(const dpx_trainer *t, const char *name, int first)
{
    for (int i = 0; i < t->n_expected; i++) {
        const int k = (first + i) % t->n_expected;

        if (!strcmp(t->expected[k].name, name))
            return k;
    }
    return -1;
}

static void list_expected(char *text, size_t size, const dpx_trainer *t)
{
    size_t len = 0;

    *text = '\0';
    for (int i = 0; i < t->n_expected && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s'%s'", i ? ", " : "", t->expected[i].name);
}

/* check_names has found that each is expected, and given once. */
bool batch_is_complete(const GivenBatch *f, const dpx_trainer *t) { return f->n == t->n_expected; }

/* Is it NAME.0, NAME.1, ..., where `list` begins with NAME of that length? */
static bool is_member(const char *name, const char *list, size_t length)
{
    return !strncmp(name, list, length) && name[length] == '.' && name[length + 1] &&
           !name[length + 1 + strspn(name + length + 1, "0123456789")];
}

/* The model was read for sequences of a certain length: a batch has all tensors of a sequence, or none, where the step
 * does not need it. */
static Status check_structure(const dpx_trainer *t, const GivenBatch *f)
{
    for (int i = 0; i < t->n_expected; i++)
        t->expected[i].present = 0;
    for (int k = 0; k < f->n; k++)
        if (f->number[k] >= 0 && t->expected[f->number[k]].sequence >= 0)
            t->expected[t->expected[f->number[k]].sequence].present++;
    for (int i = 0; i < t->n_expected; i++) {
        const ExpectedTensor *x = &t->expected[i];
        const int length = x->members ? (int)(strlen(x->name) - strlen(".0")) : 0;
        int given = x->present;

        for (int k = 0; k < f->n && x->members; k++)
            given += f->number[k] < 0 && is_member(f->tensor[k].name, x->name, (size_t)length);
        if (given && given != x->members)
            return FAIL(E_INVALID,
                        "sequence '%.*s' has %d tensors in this batch, and %d in this model: a trainer has one "
                        "structure, which \"input-members\" \"%.*s=%d\" gives when the model is loaded",
                        length, x->name, given, x->members, length, x->name, given);
    }
    return ST_OK;
}

/* A name that no mode of this trainer takes is a mistake; a tensor that another mode takes may be there, as targets are
 * in inference. */
static Status check_names(const dpx_trainer *t, const GivenBatch *f)
{
    char expected[768];
    PROBLEMS(wrong);

    for (int i = 0; i < t->n_expected; i++)
        t->expected[i].given = false;
    for (int i = 0; i < f->n; i++) {
        bool again = false;

        if (f->number[i] >= 0) {
            again = t->expected[f->number[i]].given;
            t->expected[f->number[i]].given = true;
        }
        for (int k = 0; k < i && f->number[i] < 0; k++)
            again |= f->number[k] < 0 && !strcmp(f->tensor[k].name, f->tensor[i].name);
        if (again)
            problems_add(&wrong, "'%s' is given twice", f->tensor[i].name);
        else if (f->number[i] < 0)
            problems_add(&wrong, "the model has no input '%s'", f->tensor[i].name);
    }
    if (!wrong.n)
        return ST_OK;
    list_expected(expected, sizeof expected, t);
    return problems_fail(&wrong, E_INVALID, "a batch of this model needs %s", expected);
}

/* ---- parts ---- */

static Status find_part(GivenPart *out, const dpx_trainer *t, int64_t samples)
{
    const World *w = trainer_world(t);
    ReplicaOptions replicas = *replica_options(&t->options->build);

    if (samples < 0)
        return FAIL(E_INVALID, "a part of a batch of %" PRId64 " samples", samples);
    replicas.devices = t->devices;
    replicas.replicas = t->replicas;
    return batch_part(&out->from, &out->to, &(BuildOptions){ .replicas = &replicas }, samples,
                      world_rank(w) * (t->devices / world_size(w)), t->devices / world_size(w));
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
static Status take_part(GivenBatch *f, const dpx_trainer *t, int i)
{
    const int axis = t->expected[f->number[i]].axis;
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

/* Finds what each tensor is by its name, if all have one, or by its order.  From here on names are those of the
 * trainer, so that the session knows them by their addresses. */
static Status name_tensors(GivenBatch *f, dpx_trainer *t, const dpx_tensor *batch, int n)
{
    char expected[768];
    int named = 0;

    for (int i = 0; i < n; i++)
        named += batch[i].name != NULL;
    for (int i = 0; i < n; i++) {
        int k = i < t->n_expected ? i : -1;

        if (named && batch[i].name && (k = find_expected(t, batch[i].name, t->last_number[i])) >= 0)
            t->last_number[i] = k;
        f->number[i] = k;
        f->tensor[i].name = named && (k < 0 || !batch[i].name) ? batch[i].name : k < 0 ? NULL : t->expected[k].name;
        if (f->tensor[i].name)
            continue;
        list_expected(expected, sizeof expected, t);
        return named ? FAIL(E_INVALID, "tensor %d of the batch has no name, and %d of %d have: expected all or none", i,
                            named, n)
                     : FAIL(E_INVALID, "a batch of %d tensors without names: this model's is of %s, in this order", n,
                            expected);
    }
    return ST_OK;
}

/* How many a batch has, by the first tensor that is divided, else by the first axis of the first. */
static int64_t count_samples(const dpx_trainer *t, const GivenBatch *f, int n)
{
    for (int i = 0; i < n; i++) {
        const Shape *shape = &f->tensor[i].tensor.shape;
        const int axis = f->number[i] < 0 ? -1 : t->expected[f->number[i]].axis;

        if (axis >= 0 && axis < shape->rank)
            return shape->dim[axis];
    }
    return n && f->tensor[0].tensor.shape.rank > 0 ? f->tensor[0].tensor.shape.dim[0] : 0;
}

static Status read_batch(GivenBatch *f, dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples,
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
        f->samples = count_samples(t, f, n);
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

Status batch_read(GivenBatch *f, dpx_trainer *t, const dpx_tensor *batch, int n, const int64_t *samples, bool training)
{
    const Status st = read_batch(f, t, batch, n, samples, training);

    if (st)
        lengths_forget(&t->lengths); /* there is no step that they are of */
    return st;
}
