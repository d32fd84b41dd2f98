/* The options that a session builds a program with: the shapes of the inputs, as far as they are known, and what
 * follows from the session's devices and state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/internal.h"
#include "graph/ir/op.h"
#include "passes/batch_axis.h"

/* The size that a given input has along the axis that the model's file names `symbol`; `absent`: none has such an axis.
 */
static int64_t size_of_symbol(const Session *s, const char *symbol, const NamedTensor *in, int n_in, int64_t absent)
{
    for (int i = 0; symbol && i < s->model->n_input; i++) {
        const Value *v = value(s->model, s->model->input[i]);
        const Tensor *t = named_find(in, n_in, v->name);
        const int axis = t ? symbol_axis(v->dim_param, v->shape->rank, symbol) : -1;

        if (axis >= 0 && axis < t->shape.rank)
            return t->shape.dim[axis];
    }
    return absent;
}

/* The shape of input i, which is not given and which predictions may not need: its last one, with the sizes of the
 * inputs that are given. */
static Shape shape_beside(const Session *s, int i, const NamedTensor *in, int n_in)
{
    const Value *v = value(s->model, s->model->input[i]);
    Shape shape = s->shape[i].shape.rank >= 0 ? s->shape[i].shape : *v->shape;

    for (int k = 0; k < shape.rank && v->dim_param; k++)
        shape.dim[k] = size_of_symbol(s, v->dim_param[k], in, n_in, shape.dim[k]);
    return shape_known(&shape) ? shape : shape_unknown();
}

/* Lists the shapes of this step's inputs.  An input that is not given has the options' shape, else its last one: the
 * optimizer step after accumulation has no batch. */
static InputShape *bind_shapes(Session *s, BuildMode mode, const NamedTensor *in, int n_in, int *n, bool *batch_known)
{
    InputShape *bound = calloc((size_t)s->model->n_input + (size_t)s->base.batch.n_input_shape + 1, sizeof *bound);

    *n = 0;
    *batch_known = mode == BUILD_CONTINUE; /* whose inputs are parts of a window */
    if (mode == BUILD_CONTINUE)
        return bound;
    for (int i = 0; bound && i < s->model->n_input; i++) {
        const Tensor *t = named_find(in, n_in, s->shape[i].name);

        if (t)
            s->shape[i].shape = t->shape;
        else if (mode == BUILD_PREDICT)
            s->shape[i].shape = shape_beside(s, i, in, n_in);
        if (s->shape[i].shape.rank >= 0)
            bound[(*n)++] = s->shape[i];
    }
    *batch_known = *n > 0;
    for (int i = 0; bound && i < s->base.batch.n_input_shape; i++) {
        bool given = false;

        for (int k = 0; k < *n; k++)
            given |= !strcmp(bound[k].name, s->base.batch.input_shape[i].name);
        if (!given)
            bound[(*n)++] = s->base.batch.input_shape[i];
    }
    return bound;
}

const Tensor *session_given_target(const Session *s, const NamedTensor *in, int n_in)
{
    return named_find(in, n_in, s->base.target.target ? s->base.target.target : "target");
}

static bool has_mean(const void *states, const char *param)
{
    char *name = NULL;
    const bool has = asprintf(&name, "%s." EMA_SUFFIX, param) >= 0 && states_find(states, name);

    free(name);
    return has;
}

Status session_build_options(BuildParts *opt, InputShape **bound, Session *s, Compiled *c, const NamedTensor *in,
                             int n_in)
{
    const Tensor *target = session_given_target(s, in, n_in);
    bool batch_known;

    build_parts_copy(opt, &s->base.build);
    if (!(*bound = bind_shapes(s, c->mode, in, n_in, &opt->batch.n_input_shape, &batch_known)))
        return FAIL_NOMEM();
    opt->build.mode = c->mode;
    opt->tokens = session_tokens(s, in, n_in);
    opt->replicas.samples_each = c->samples_each;
    opt->inputs.reach = c->reach.list;
    opt->inputs.n_reach = c->reach.n;
    opt->inputs.reach_kept = c->kept;
    opt->update.has_mean = c->means ? has_mean : NULL;
    opt->update.states = s->states;
    opt->step.keep_outputs |= c->keeps & KEEP_OUTPUTS;
    opt->step.keep_gradients |= c->keeps & KEEP_GRADIENTS;
    if (target)
        opt->target.target_shape = &target->shape;
    if (s->class_axis.decided)
        opt->target.class_axis = s->class_axis.axis;
    opt->target.class_axis_found = &c->class_axis;
    opt->batch.input_shape = *bound;
    if (batch_known)
        opt->batch.batch = 0;
    opt->replicas.devices = s->devices.n;
    if (!opt->replicas.replicas)
        opt->replicas.replicas = s->devices.n;
    opt->backend.backend =
        s->devices.group ? cuda_target(opt->types.precision, opt->backend.tf32)
                         : cpu_target(opt->types.precision, opt->backend.tf32, opt->backend.blocks, opt->backend.fuse);
    return ST_OK;
}
