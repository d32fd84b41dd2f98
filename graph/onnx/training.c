/* The algorithm of a model's training_info: a step of training is the model's graph and the algorithm's as one, whose
 * lists are those of both, one after the other.  Initializers of either take the values of outputs after it
 * (update_binding). */
#include "graph/onnx/internal.h"

#include <string.h>

/* The elements of both lists; NULL: no memory. */
static void *joined(Arena *a, void *const *first, size_t n, void *const *second, size_t m)
{
    void **all = ARENA_NEW(a, void *, n + m);

    if (all && n)
        memcpy(all, first, n * sizeof *all);
    if (all && m)
        memcpy(all + n, second, m * sizeof *all);
    return all;
}

#define JOIN(field)                                                                                                 \
    (g->field =                                                                                                     \
         joined(a, (void *const *)first->field, first->n_##field, (void *const *)second->field, second->n_##field), \
     g->n_##field = first->n_##field + second->n_##field, g->field != NULL)

static bool join(Onnx__GraphProto *g, Arena *a, const Onnx__GraphProto *first, const Onnx__GraphProto *second)
{
    *g = *first;
    return JOIN(node) && JOIN(initializer) && JOIN(sparse_initializer) && JOIN(input) && JOIN(output) &&
           JOIN(value_info);
}

Status training_combine(Onnx__ModelProto *out, Arena *scratch, const Onnx__ModelProto *m)
{
    const Onnx__TrainingInfoProto *info = m->n_training_info ? m->training_info[0] : NULL;

    if (!info || !info->algorithm || !info->n_update_binding)
        return FAIL(E_MODEL, "the model has no training_info that updates anything");
    if (m->n_training_info > 1)
        return FAIL(E_UNSUPPORTED, "a training_info of %zu steps in turn, expected one", m->n_training_info);
    if (info->n_initialization_binding)
        return FAIL(E_UNSUPPORTED, "training_info: '%s' gets its first value by a graph, expected an initializer's",
                    text_or(info->initialization_binding[0]->key, ""));
    *out = *m;
    if (!(out->graph = ARENA_NEW(scratch, Onnx__GraphProto, 1)) ||
        !join(out->graph, scratch, m->graph, info->algorithm))
        return FAIL_NOMEM();
    return ST_OK;
}

/* The constant that is an initializer of this name, or NULL. */
static Value *initializer(const Importer *im, const Body *b, const char *name)
{
    const ScopeEntry *e = name ? scope_find(&b->scope, name) : NULL;
    Value *v = e && has_value(e->value) ? value(im->g, e->value) : NULL;

    return v && v->kind == V_CONST && v->origin == ORIGIN_INITIALIZER ? v : NULL;
}

static Status bind(Importer *im, const Body *b, const char *key, const char *next)
{
    Value *v = initializer(im, b, key);

    if (!v)
        return FAIL(E_MODEL, "training_info: '%s', which is updated, is no initializer", text_or(key, ""));
    if (v->next)
        return FAIL(E_MODEL, "training_info: '%s' is updated twice", key);
    v->next = arena_strdup(im->g->arena, text_or(next, ""));
    return v->next ? ST_OK : FAIL_NOMEM();
}

Status training_bind(Importer *im, const Body *b)
{
    const Onnx__TrainingInfoProto *info = im->model->training_info[0];

    for (size_t i = 0; i < info->n_update_binding; i++)
        TRY(bind(im, b, info->update_binding[i]->key, info->update_binding[i]->value));
    return ST_OK;
}

Status training_check(Importer *im, const Body *b)
{
    const Onnx__TrainingInfoProto *info = im->model->training_info[0];

    for (size_t i = 0; i < info->algorithm->n_initializer; i++) {
        Value *v = initializer(im, b, info->algorithm->initializer[i]->name);

        if (v)
            v->said = SAID_FIXED;
    }
    for (size_t i = 0; i < info->n_update_binding; i++) {
        const char *next = text_or(info->update_binding[i]->value, "");

        if (!has_value(graph_output(im->g, next)))
            return FAIL(E_MODEL, "training_info: '%s', the next value of '%s', is no output", next,
                        info->update_binding[i]->key);
    }
    return ST_OK;
}
