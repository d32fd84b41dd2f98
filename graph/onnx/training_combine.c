/* The graphs of a model's training_info, joined to one graph (onnx.proto, TrainingInfoProto).
 *
 * A step executes the algorithms in turn, each after the model's graph, and with the values that earlier algorithms
 * assigned.  The joined graph has, for each algorithm, a copy of the model's nodes and the algorithm's nodes; the name
 * of a tensor that an earlier algorithm updated is replaced by its next value.  Inputs, by their names, and the model's
 * initializers are shared; other names of the second and later algorithms begin with "training_info.1/",
 * "training_info.2/", ...  Initializations, which read nothing, are joined one after the other in the same way. */
#include <string.h>

#include "graph/onnx/training.h"

/* The new names of one of the joined graphs. */
typedef struct {
    Arena *a;
    const char *prefix;
    Scope replaced;  /* names that do not get the prefix; an entry's `node` is the index of its new name in `to` */
    const char **to; /* NULL: no memory */
    size_t n_to, cap_to;
    const char **changing; /* new names of tensors that change: a Gradient must not take them for constants */
    size_t n_changing;
    const char **also; /* those of them that the present Gradient does not name */
    size_t n_also;
    bool no_memory; /* sticky */
} Names;

/* Allocates n elements of that size, at least one. */
static void *training_combine_list(Names *s, size_t size, size_t n)
{
    void *p = arena_alloc(s->a, n ? n * size : size);

    s->no_memory |= !p;
    return p;
}

/* Makes `to` the new name of `name`. */
static void replace_name(Names *s, const char *name, const char *to)
{
    ScopeEntry *e = s->no_memory ? NULL : scope_add(&s->replaced, name);
    const char **grown = e ? arena_grow(s->a, s->to, sizeof *s->to, s->n_to, &s->cap_to) : NULL;

    if (!grown) {
        s->no_memory = true;
        return;
    }
    s->to = grown;
    e->node = (int64_t)s->n_to;
    s->to[s->n_to++] = to;
}

/* The new name of `name`; an empty one stays. */
static char *renamed(Names *s, const char *name)
{
    const ScopeEntry *e = scope_find(&s->replaced, text_or(name, ""));
    const char *to;

    if (!name || !*name || !*s->prefix)
        return (char *)(uintptr_t)(e ? s->to[e->node] : name);
    to = e ? s->to[e->node] : arena_printf(s->a, "%s%s", s->prefix, name);
    s->no_memory |= !to;
    return (char *)(uintptr_t)to;
}

static char **renamed_list(Names *s, char *const *from, size_t n, size_t more)
{
    char **to = training_combine_list(s, sizeof *to, n + more);

    for (size_t i = 0; to && i < n; i++)
        to[i] = renamed(s, from[i]);
    return to;
}

/* ---- the parts of a graph ---- */

#define COPY_OF(s, Type, from) ((Type *)copy_of((s), (from), sizeof(Type)))

static void *copy_of(Names *s, const void *from, size_t size)
{
    void *to = training_combine_list(s, size, 1);

    return to ? memcpy(to, from, size) : NULL;
}

static Onnx__GraphProto *copy_graph(Names *s, const Onnx__GraphProto *from);

static ProtobufCBinaryData text_of(const char *name)
{
    name = text_or(name, "");
    return (ProtobufCBinaryData){ strlen(name), (uint8_t *)(uintptr_t)name };
}

static ProtobufCBinaryData renamed_text(Names *s, ProtobufCBinaryData from)
{
    const char *name = arena_printf(s->a, "%.*s", (int)from.len, (char *)from.data);

    s->no_memory |= !name;
    return text_of(name ? renamed(s, name) : "");
}

/* Renames the values that attribute xs, zs or y of a Gradient names, and appends the first `more` names of s->also. */
static void rename_attribute(Names *s, Onnx__AttributeProto *a, size_t more)
{
    ProtobufCBinaryData *to = training_combine_list(s, sizeof *to, a->n_strings + more);

    if (!to)
        return;
    for (size_t i = 0; i < a->n_strings; i++)
        to[i] = renamed_text(s, a->strings[i]);
    for (size_t i = 0; i < more; i++)
        to[a->n_strings + i] = text_of(s->also[i]);
    a->strings = to;
    a->n_strings += more;
    if (a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING)
        a->s = renamed_text(s, a->s);
}

/* Adds an attribute zs that names s->also. */
static void add_zs(Names *s, Onnx__NodeProto *n)
{
    Onnx__AttributeProto *a = training_combine_list(s, sizeof *a, 1);

    if (!a || s->no_memory)
        return;
    onnx__attribute_proto__init(a);
    a->name = (char *)"zs";
    a->has_type = true;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    rename_attribute(s, a, s->n_also);
    n->attribute[n->n_attribute++] = a;
}

/* Sets s->also for a Gradient: the changing tensors that its attributes do not name. */
static void list_also(Names *s, const Onnx__NodeProto *n)
{
    Scope named = { .arena = s->a };

    s->n_also = 0;
    s->also = training_combine_list(s, sizeof *s->also, s->n_changing);
    for (size_t i = 0; i < n->n_attribute; i++)
        for (size_t k = 0; k < n->attribute[i]->n_strings; k++) {
            const ProtobufCBinaryData name = renamed_text(s, n->attribute[i]->strings[k]);

            s->no_memory |= !scope_add(&named, (const char *)name.data);
        }
    for (size_t i = 0; !s->no_memory && i < s->n_changing; i++)
        if (!scope_find(&named, s->changing[i]))
            s->also[s->n_also++] = s->changing[i];
}

static Onnx__NodeProto *training_combine_copy_node(Names *s, const Onnx__NodeProto *from)
{
    const bool gradient = is_gradient(from);
    Onnx__NodeProto *n = COPY_OF(s, Onnx__NodeProto, from);
    size_t more;

    s->n_also = 0;
    if (gradient)
        list_also(s, from);
    more = s->n_also;
    if (!n || !(n->attribute = training_combine_list(s, sizeof *n->attribute, n->n_attribute + 1)))
        return NULL;
    n->name = renamed(s, n->name);
    n->input = renamed_list(s, from->input, n->n_input, more);
    n->output = renamed_list(s, from->output, n->n_output, 0);
    for (size_t i = 0; i < n->n_attribute; i++) {
        Onnx__AttributeProto *a = n->attribute[i] = COPY_OF(s, Onnx__AttributeProto, from->attribute[i]);

        if (a && a->g)
            a->g = copy_graph(s, a->g);
        if (a && gradient)
            rename_attribute(s, a, !strcmp(text_or(a->name, ""), "zs") ? s->n_also : 0);
    }
    for (size_t i = 0; !s->no_memory && i < more; i++)
        n->input[n->n_input++] = (char *)(uintptr_t)s->also[i];
    if (more && !attribute_find(from, "zs"))
        add_zs(s, n);
    return n;
}

static Onnx__ValueInfoProto *copy_value(Names *s, const Onnx__ValueInfoProto *from)
{
    Onnx__ValueInfoProto *v = COPY_OF(s, Onnx__ValueInfoProto, from);

    if (v)
        v->name = renamed(s, v->name);
    return v;
}

static Onnx__TensorProto *copy_initializer(Names *s, const Onnx__TensorProto *from)
{
    Onnx__TensorProto *t = COPY_OF(s, Onnx__TensorProto, from);

    if (t)
        t->name = renamed(s, t->name);
    return t;
}

static Onnx__SparseTensorProto *copy_sparse(Names *s, const Onnx__SparseTensorProto *from)
{
    Onnx__SparseTensorProto *t = COPY_OF(s, Onnx__SparseTensorProto, from);

    if (t && t->values)
        t->values = copy_initializer(s, t->values);
    return t;
}

#define ADD_COPIES(s, to, from, field, copy)                                                               \
    do {                                                                                                   \
        void *all_ = training_combine_list((s), sizeof *(to)->field, (to)->n_##field + (from)->n_##field); \
        if (all_ && (to)->n_##field)                                                                       \
            memcpy(all_, (to)->field, (to)->n_##field * sizeof *(to)->field);                              \
        (to)->field = all_;                                                                                \
        for (size_t i_ = 0; all_ && i_ < (from)->n_##field; i_++)                                          \
            (to)->field[(to)->n_##field++] = copy((s), (from)->field[i_]);                                 \
    } while (0)

static Onnx__GraphProto *copy_graph(Names *s, const Onnx__GraphProto *from)
{
    Onnx__GraphProto *g = training_combine_list(s, sizeof *g, 1);

    if (!g)
        return NULL;
    onnx__graph_proto__init(g);
    g->name = from->name;
    ADD_COPIES(s, g, from, node, training_combine_copy_node);
    ADD_COPIES(s, g, from, input, copy_value);
    ADD_COPIES(s, g, from, output, copy_value);
    ADD_COPIES(s, g, from, initializer, copy_initializer);
    ADD_COPIES(s, g, from, sparse_initializer, copy_sparse);
    return g;
}

/* ---- names ---- */

static const char *sparse_name(const Onnx__SparseTensorProto *t)
{
    return t->values ? text_or(t->values->name, "") : "";
}

/* Adds the names of the graph's initializers, if there is a graph; false: no memory. */
static bool add_initializer_names(Scope *s, const Onnx__GraphProto *g)
{
    bool ok = true;

    for (size_t i = 0; ok && g && i < g->n_initializer; i++)
        ok = scope_add(s, text_or(g->initializer[i]->name, "")) != NULL;
    for (size_t i = 0; ok && g && i < g->n_sparse_initializer; i++)
        ok = scope_add(s, sparse_name(g->sparse_initializer[i])) != NULL;
    return ok;
}

static Status own_prefix(const char **out, Arena *a, size_t k)
{
    *out = k ? arena_printf(a, "training_info.%zu/", k) : "";
    return *out ? ST_OK : FAIL_NOMEM();
}

static void keep_name(Names *s, const char *name) { replace_name(s, text_or(name, ""), text_or(name, "")); }

/* Names that the second and later algorithms share with the first. */
static void training_combine_share(Names *s, const Onnx__GraphProto *model, const Onnx__GraphProto *algorithm)
{
    for (size_t i = 0; i < model->n_input; i++)
        keep_name(s, model->input[i]->name);
    for (size_t i = 0; i < model->n_initializer; i++)
        keep_name(s, model->initializer[i]->name);
    for (size_t i = 0; i < model->n_sparse_initializer; i++)
        keep_name(s, sparse_name(model->sparse_initializer[i]));
    for (size_t i = 0; algorithm && i < algorithm->n_input; i++)
        keep_name(s, algorithm->input[i]->name);
}

/* Sets s->changing: tensors of the model or of algorithm `step` that a step updates. */
static void list_changing(Names *s, const Training *t, const Onnx__ModelProto *m, size_t step, const Scope *own)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_training_info; i++)
        n += m->training_info[i]->n_update_binding;
    if (!(s->changing = training_combine_list(s, sizeof *s->changing, n)))
        return;
    for (size_t i = 0; i < m->n_training_info; i++)
        for (size_t k = 0; k < m->training_info[i]->n_update_binding; k++) {
            const char *key = text_or(m->training_info[i]->update_binding[k]->key, "");

            if (scope_find(&t->model, key) || (i == step && scope_find(own, key)))
                s->changing[s->n_changing++] = renamed(s, key);
        }
}

/* ---- one algorithm ---- */

/* Adds the algorithm's inputs that no earlier algorithm has. */
static void add_inputs(Names *s, Training *t, const Onnx__GraphProto *algorithm)
{
    Onnx__GraphProto added = { .input = training_combine_list(s, sizeof *added.input, algorithm->n_input) };

    for (size_t i = 0; added.input && i < algorithm->n_input; i++) {
        const char *name = text_or(algorithm->input[i]->name, "");

        if (*s->prefix && scope_find(&t->input, name))
            continue;
        s->no_memory |= !scope_add(&t->input, name);
        added.input[added.n_input++] = algorithm->input[i];
    }
    ADD_COPIES(s, t->whole, &added, input, copy_value);
}

/* Adds, for the second and later algorithms, the copies of the model's outputs that are next values. */
static void add_bound_outputs(Names *s, Onnx__GraphProto *whole, const Onnx__GraphProto *model,
                              const Onnx__TrainingInfoProto *info)
{
    Onnx__GraphProto bound = { .output = training_combine_list(s, sizeof *bound.output, model->n_output) };
    Scope values = { .arena = s->a };

    for (size_t k = 0; k < info->n_update_binding; k++)
        s->no_memory |= !scope_add(&values, text_or(info->update_binding[k]->value, ""));
    for (size_t i = 0; bound.output && i < model->n_output; i++)
        if (scope_find(&values, text_or(model->output[i]->name, "")))
            bound.output[bound.n_output++] = model->output[i];
    ADD_COPIES(s, whole, &bound, output, copy_value);
}

static void add_algorithm(Names *s, Training *t, const Onnx__GraphProto *algorithm)
{
    Onnx__GraphProto *whole = t->whole;
    const char **own =
        training_combine_list(s, sizeof *own, t->n_own + algorithm->n_initializer + algorithm->n_sparse_initializer);

    ADD_COPIES(s, whole, algorithm, node, training_combine_copy_node);
    ADD_COPIES(s, whole, algorithm, output, copy_value);
    ADD_COPIES(s, whole, algorithm, initializer, copy_initializer);
    ADD_COPIES(s, whole, algorithm, sparse_initializer, copy_sparse);
    add_inputs(s, t, algorithm);
    if (!own)
        return;
    if (t->n_own)
        memcpy(own, t->own, t->n_own * sizeof *own);
    t->own = own;
    for (size_t i = 0; i < algorithm->n_initializer; i++)
        t->own[t->n_own++] = renamed(s, text_or(algorithm->initializer[i]->name, ""));
    for (size_t i = 0; i < algorithm->n_sparse_initializer; i++)
        t->own[t->n_own++] = renamed(s, sparse_name(algorithm->sparse_initializer[i]));
}

/* Renames a binding of the file. */
static Status name_binding(TrainingBinding *out, Names *s, const Onnx__StringStringEntryProto *b)
{
    out->key = renamed(s, text_or(b->key, ""));
    out->value = renamed(s, text_or(b->value, ""));
    return s->no_memory ? FAIL_NOMEM() : ST_OK;
}

/* Counts the copied nodes of g against t->left.  A Gradient costs more, because it names all changing tensors. */
static Status spend(Training *t, const Onnx__GraphProto *g, size_t n_changing)
{
    for (size_t i = 0; g && i < g->n_node; i++) {
        const size_t cost = is_gradient(g->node[i]) ? 1 + n_changing / 16 : 1;

        if (t->left < cost)
            return FAIL(E_UNSUPPORTED, "training_info: the algorithms have more nodes than --max-nodes allows");
        t->left -= cost;
    }
    return ST_OK;
}

/* Adds algorithm k, after a copy of the model's nodes. */
static Status training_combine_add_step(Training *t, const Onnx__ModelProto *m, size_t k)
{
    const Onnx__TrainingInfoProto *info = m->training_info[k];
    const Onnx__GraphProto *model = m->graph;
    Names s = { .a = t->arena, .replaced.arena = t->arena };
    Scope own = { .arena = t->arena };

    if (!add_initializer_names(&own, info->algorithm))
        return FAIL_NOMEM();
    TRY(own_prefix(&s.prefix, t->arena, k));
    if (*s.prefix)
        training_combine_share(&s, model, info->algorithm);
    for (size_t i = 0; i < t->n_update; i++) /* by earlier algorithms */
        if (scope_find(&t->model, t->update[i].key))
            replace_name(&s, t->update[i].key, t->update[i].value);
    list_changing(&s, t, m, k, &own);
    TRY(spend(t, model, s.n_changing));
    TRY(spend(t, info->algorithm, s.n_changing));
    ADD_COPIES(&s, t->whole, model, node, training_combine_copy_node);
    if (*s.prefix)
        add_bound_outputs(&s, t->whole, model, info);
    if (info->algorithm)
        add_algorithm(&s, t, info->algorithm);
    for (size_t i = 0; i < info->n_update_binding; i++) {
        const char *key = text_or(info->update_binding[i]->key, "");
        TrainingBinding *now = &t->update[t->n_update + i];

        TRY(name_binding(now, &s, info->update_binding[i]));
        if (scope_find(&t->model, key)) /* even if an earlier algorithm updates it, which is an error */
            now->key = key;
    }
    t->n_update += info->n_update_binding;
    return s.no_memory ? FAIL_NOMEM() : ST_OK;
}

/* ---- the initializations ---- */

/* Adds the initialization's bindings; the last one of an initializer counts. */
static Status bind_first(Training *t, Names *s, const Onnx__TrainingInfoProto *info)
{
    Scope own = { .arena = t->arena };
    ScopeEntry *e;

    if (!add_initializer_names(&own, info->algorithm))
        return FAIL_NOMEM();
    for (size_t i = 0; i < info->n_initialization_binding; i++) {
        const char *key = text_or(info->initialization_binding[i]->key, "");
        TrainingBinding now;

        TRY(name_binding(&now, s, info->initialization_binding[i]));
        now.of_model = scope_find(&t->model, key) != NULL;
        if (now.of_model)
            now.key = key;
        else if (!scope_find(&own, key))
            return FAIL(E_MODEL, "training_info: '%s', which is initialized, is no initializer", key);
        if (!(e = scope_add(&t->firsts, now.key)))
            return FAIL_NOMEM();
        if (e->node < 0)
            e->node = (int64_t)t->n_first++;
        t->first[e->node] = now;
    }
    return ST_OK;
}

static Status add_initialization(Training *t, const Onnx__ModelProto *m, size_t k)
{
    const Onnx__TrainingInfoProto *info = m->training_info[k];
    const Onnx__GraphProto *g = info->initialization;
    Names s = { .a = t->arena, .replaced.arena = t->arena };

    if (!info->n_initialization_binding)
        return ST_OK;
    if (!g)
        return FAIL(E_MODEL, "training_info: '%s' has an initialization binding, but there is no initialization graph",
                    text_or(info->initialization_binding[0]->key, ""));
    if (g->n_input)
        return FAIL(E_MODEL, "training_info: the initialization has an input '%s', expected none",
                    text_or(g->input[0]->name, ""));
    TRY(own_prefix(&s.prefix, t->arena, k));
    ADD_COPIES(&s, t->initial, g, node, training_combine_copy_node);
    ADD_COPIES(&s, t->initial, g, output, copy_value);
    ADD_COPIES(&s, t->initial, g, initializer, copy_initializer);
    ADD_COPIES(&s, t->initial, g, sparse_initializer, copy_sparse);
    TRY(bind_first(t, &s, info));
    return s.no_memory ? FAIL_NOMEM() : ST_OK;
}

/* ---- all ---- */

static Status training_combine_prepare(Training *t, const Onnx__ModelProto *m)
{
    size_t n = 0, first = 0;

    for (size_t k = 0; k < m->n_training_info; k++) {
        n += m->training_info[k]->n_update_binding;
        first += m->training_info[k]->n_initialization_binding;
    }
    t->whole = ARENA_NEW(t->arena, Onnx__GraphProto, 1);
    t->initial = ARENA_NEW(t->arena, Onnx__GraphProto, 1);
    t->update = ARENA_NEW(t->arena, TrainingBinding, n);
    t->first = ARENA_NEW(t->arena, TrainingBinding, first);
    if (!t->whole || !t->initial || !t->update || !t->first)
        return FAIL_NOMEM();
    onnx__graph_proto__init(t->initial);
    t->initial->name = (char *)"initialization";
    *t->whole = *m->graph;
    t->whole->n_node = 0;
    t->model.arena = t->input.arena = t->firsts.arena = t->arena;
    return add_initializer_names(&t->model, m->graph) ? ST_OK : FAIL_NOMEM();
}

Status training_combine(Training **out, Arena *scratch, const Onnx__ModelProto *m, bool steps, size_t max_nodes)
{
    Training *t = ARENA_NEW(scratch, Training, 1);

    if (!t)
        return FAIL_NOMEM();
    t->arena = scratch;
    t->left = max_nodes;
    TRY(training_combine_prepare(t, m));
    for (size_t k = 0; k < m->n_training_info; k++)
        TRY(add_initialization(t, m, k));
    for (size_t k = 0; steps && k < m->n_training_info; k++)
        if (m->training_info[k]->n_update_binding)
            TRY(training_combine_add_step(t, m, k));
    if (steps && !t->n_update)
        return FAIL(E_MODEL, "the model has no training_info that updates anything");
    *out = t;
    return ST_OK;
}
