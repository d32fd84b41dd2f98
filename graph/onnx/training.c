/* The effect of a model's training_info (training_combine.c) on its initializers: first values that initializations
 * compute, and updates after a step (update_binding). */
#include "graph/onnx/training.h"

#include "graph/onnx/evaluate.h"

/* The initializer of this name, or NULL. */
static Value *initializer(const Importer *im, const Body *b, const char *name)
{
    const ScopeEntry *e = name ? scope_find(&b->scope, name) : NULL;
    Value *v = e && has_value(e->value) ? value(im->g, e->value) : NULL;

    return v && v->kind == V_CONST && v->origin == ORIGIN_INITIALIZER ? v : NULL;
}

/* ---- first values ---- */

/* Gives an initializer its first value `is`; NULL: the initialization has no such output. */
static Status set_first(Importer *im, const Body *b, const TrainingBinding *first, const OnnxNamedValue *is)
{
    Value *v = initializer(im, b, first->key);
    const Tensor *t = is && !is->value.type.sequence && !is->value.nothing ? is->value.item[0] : NULL;
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    if (!v)
        return FAIL(E_MODEL, "training_info: '%s', which is initialized, is no initializer", first->key);
    if (!t)
        return FAIL(E_MODEL, "training_info: '%s', the first value of '%s', is no tensor that the initialization gives",
                    first->value, first->key);
    if (t->dtype != v->dtype || !shape_eq(&t->shape, v->shape))
        return FAIL(E_SHAPE, "training_info: '%s' is %s%s, its first value '%s' %s%s", first->key, dtype_name(v->dtype),
                    shape_text(v->shape, want), first->value, dtype_name(t->dtype), shape_text(&t->shape, have));
    v->init = tensor_copy(im->g->arena, t);
    return v->init ? ST_OK : FAIL_NOMEM();
}

static Status set_all(Importer *im, const Body *b, const FileRun *run)
{
    Scope output = { .arena = im->scratch };

    for (int i = 0; i < run->n_output; i++) {
        ScopeEntry *e = scope_add(&output, run->output[i].name);

        if (!e)
            return FAIL_NOMEM();
        e->node = i;
    }
    for (size_t i = 0; i < im->info->n_first; i++) {
        const TrainingBinding *first = &im->info->first[i];
        const ScopeEntry *e = scope_find(&output, first->value);

        if (im->training || first->of_model)
            TRY(set_first(im, b, first, e ? &run->output[e->node] : NULL));
    }
    return ST_OK;
}

static Onnx__ModelProto initial_model(Importer *im)
{
    Onnx__ModelProto m = *im->model;

    m.graph = im->info->initial;
    m.n_training_info = 0;
    return m;
}

Status training_initialize(Importer *im, const Body *b)
{
    FileRun run = { .arena = im->scratch, .seed = im->seed, .again = true };
    const Onnx__ModelProto m = initial_model(im);
    Graph *rest;

    if (!im->info->n_first)
        return ST_OK;
    if (!im->eval)
        return FAIL(E_UNSUPPORTED, "training_info: the first value of '%s' must be computed, but no evaluator is given",
                    im->info->first[0].key);
    TRY(status_prefix(import_part(&rest, im, &m, &run), "training_info: the initialization"));
    graph_free(rest);
    return set_all(im, b, &run);
}

Status training_remember(OnnxModel *out, Importer *im)
{
    const Onnx__ModelProto m = initial_model(im);
    OnnxProp *first = ARENA_NEW(out->arena, OnnxProp, im->info->n_first);
    bool ok = first != NULL;
    Status st;

    if (!im->info->n_first)
        return ST_OK;
    for (size_t i = 0; ok && i < im->info->n_first; i++) {
        first[i].key = arena_strdup(out->arena, im->info->first[i].key);
        first[i].value = arena_strdup(out->arena, im->info->first[i].value);
        ok = first[i].key && first[i].value;
    }
    if (!ok)
        return FAIL_NOMEM();
    out->first = first;
    out->n_first = (int)im->info->n_first;
    if ((st = import_part(&out->initial, im, &m, NULL)) != E_UNSUPPORTED)
        return st;
    out->initial = NULL;
    out->not_initial = arena_strdup(out->arena, status_message());
    return out->not_initial ? ST_OK : FAIL_NOMEM();
}

/* ---- updates ---- */

Status training_bind(Importer *im, const Body *b)
{
    for (size_t i = 0; i < im->info->n_update; i++) {
        const TrainingBinding *u = &im->info->update[i];
        Value *v = initializer(im, b, u->key);

        if (!v)
            return FAIL(E_MODEL, "training_info: '%s', which is updated, is no initializer", u->key);
        if (v->next)
            return FAIL(E_MODEL, "training_info: '%s' is updated twice", u->key);
        if (!(v->next = arena_strdup(im->g->arena, u->value)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

Status training_check(Importer *im, const Body *b)
{
    for (size_t i = 0; i < im->info->n_own; i++) {
        Value *v = initializer(im, b, im->info->own[i]);

        if (v)
            v->evidence = EVIDENCE_FIXED;
    }
    for (size_t i = 0; i < im->info->n_update; i++) {
        const TrainingBinding *u = &im->info->update[i];

        if (!has_value(graph_output(im->g, u->value)))
            return FAIL(E_MODEL, "training_info: '%s', the next value of '%s', is no output", u->value, u->key);
    }
    return ST_OK;
}
