/* Translates the JSON of a graph into the nodes of a GraphDef.  TensorFlow has names for nodes alone: an edge is the
 * name of the node that computes the value, and ":K" for its output K > 0. */
#include "tools/tensorboard/graph_def.h"

#include <stdlib.h>
#include <string.h>

#include "event.pb-c.h"
#include "graph/base/arena.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

typedef TensorboardEvent__NodeDef NodeDef;
typedef TensorboardEvent__Shape ShapeDef;

typedef struct {
    Arena *arena;
    json_t *taken; /* names of nodes */
    json_t *edge;  /* by value: the name that its readers have for it */
    json_t *shape; /* by value: [sizes], where they are known */
    NodeDef **node;
    size_t n;
} Names;

static const char *text_of(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));

    return text ? text : "";
}

/* A name for a node that no other has, of letters that TensorFlow allows; NULL: out of memory. */
static char *node_name(Names *t, const char *wanted)
{
    const char *from = wanted + strspn(wanted, "/");
    char *name = arena_printf(t->arena, "%s", *from ? from : "node"), *unique = name;

    for (char *c = name; c && *(c += strspn(c, LETTERS "_./-"));)
        *c = '_';
    if (name && !strchr(LETTERS, *name))
        *name = 'n';
    for (int i = 2; unique && json_object_get(t->taken, unique); i++)
        unique = arena_printf(t->arena, "%s_%d", name, i);
    return unique && !json_object_set_new(t->taken, unique, json_true()) ? unique : NULL;
}

/* Adds a node without inputs; NULL: out of memory. */
static NodeDef *add_node(Names *t, const char *name, const char *op)
{
    NodeDef *n = ARENA_NEW(t->arena, NodeDef, 1);

    if (!n)
        return NULL;
    tensorboard_event__node_def__init(n);
    n->name = node_name(t, name);
    n->op = arena_printf(t->arena, "%s", op);
    t->node[t->n++] = n;
    return n->name && n->op ? n : NULL;
}

/* Makes the shape of a value; NULL: out of memory. */
static ShapeDef *make_shape(Names *t, const char *of)
{
    const json_t *shape = of ? json_object_get(t->shape, of) : NULL;
    const size_t rank = json_array_size(shape);
    ShapeDef *s = ARENA_NEW(t->arena, ShapeDef, 1);
    TensorboardEvent__Dim **dim = ARENA_NEW(t->arena, TensorboardEvent__Dim *, rank + 1);

    if (!s || !dim)
        return NULL;
    tensorboard_event__shape__init(s);
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);

        if (!(dim[i] = ARENA_NEW(t->arena, TensorboardEvent__Dim, 1)))
            return NULL;
        tensorboard_event__dim__init(dim[i]);
        dim[i]->size = json_is_integer(size) ? json_integer_value(size) : -1;
    }
    s->unknown_rank = !json_is_array(shape);
    s->n_dim = rank;
    s->dim = dim;
    return s;
}

/* Gives a node the shapes of its n outputs, for the labels of its edges. */
static Status set_shapes(Names *t, NodeDef *node, const char *const *outputs, size_t n)
{
    ShapeDef **shapes = ARENA_NEW(t->arena, ShapeDef *, n + 1);
    TensorboardEvent__ListValue *list = ARENA_NEW(t->arena, TensorboardEvent__ListValue, 1);
    TensorboardEvent__AttrValue *value = ARENA_NEW(t->arena, TensorboardEvent__AttrValue, 1);
    TensorboardEvent__AttrEntry *entry = ARENA_NEW(t->arena, TensorboardEvent__AttrEntry, 1),
                                **entries = ARENA_NEW(t->arena, TensorboardEvent__AttrEntry *, 1);

    if (!shapes || !list || !value || !entry || !entries)
        return FAIL_NOMEM();
    tensorboard_event__list_value__init(list);
    tensorboard_event__attr_value__init(value);
    tensorboard_event__attr_entry__init(entry);
    for (size_t i = 0; i < n; i++)
        if (!(shapes[i] = make_shape(t, outputs[i])))
            return FAIL_NOMEM();
    list->n_shape = n;
    list->shape = shapes;
    value->list = list;
    entry->key = arena_printf(t->arena, "_output_shapes");
    entry->value = value;
    *entries = entry;
    node->n_attr = 1;
    node->attr = entries;
    return entry->key ? ST_OK : FAIL_NOMEM();
}

/* Lists the shapes of values; those that are not known are left out. */
static Status list_shapes(Names *t, const json_t *values)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *v = json_array_get(values, i);
        json_t *shape = json_object_get(v, "shape");

        if (json_is_array(shape) && json_object_set(t->shape, text_of(v, "name"), shape))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

/* Adds inputs and stored tensors. */
static Status add_values(Names *t, const json_t *values)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *v = json_array_get(values, i);
        const char *kind = text_of(v, "kind"), *name = text_of(v, "name");
        NodeDef *n;

        if (!strcmp(kind, "temporary"))
            continue;
        n = add_node(t, name, !strcmp(kind, "input") ? "Placeholder" : "Const");
        if (!n || json_object_set_new(t->edge, name, json_string(n->name)))
            return FAIL_NOMEM();
        TRY(set_shapes(t, n, &name, 1));
    }
    return ST_OK;
}

/* Adds a node and names its outputs; its inputs are connected when all have names. */
static Status add_operator(Names *t, const json_t *from)
{
    const json_t *outputs = json_object_get(from, "outputs");
    const size_t n_out = json_array_size(outputs);
    const char **name = ARENA_NEW(t->arena, const char *, n_out + 1), *own = text_of(from, "name");
    NodeDef *n;

    for (size_t i = 0; name && i < n_out; i++)
        name[i] = json_string_value(json_array_get(outputs, i));
    if (!name || !(n = add_node(t, *own ? own : name[0] ? name[0] : "", text_of(from, "op"))))
        return FAIL_NOMEM();
    for (size_t i = 0; i < n_out; i++)
        if (name[i] &&
            json_object_set_new(t->edge, name[i], i ? json_sprintf("%s:%d", n->name, (int)i) : json_string(n->name)))
            return FAIL_NOMEM();
    return set_shapes(t, n, name, n_out);
}

static Status connect(Names *t, NodeDef *n, const json_t *inputs)
{
    if (!(n->input = ARENA_NEW(t->arena, char *, json_array_size(inputs) + 1)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const char *value = json_string_value(json_array_get(inputs, i)), *edge = value ? text_of(t->edge, value) : "";

        if (*edge && !(n->input[n->n_input++] = arena_printf(t->arena, "%s", edge)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

static Status translate(Names *t, const json_t *graph, const json_t *shaped)
{
    const json_t *values = json_object_get(graph, "values"), *nodes = json_object_get(graph, "nodes");
    size_t first;

    t->node = ARENA_NEW(t->arena, NodeDef *, json_array_size(values) + json_array_size(nodes) + 1);
    if (!t->node || !t->taken || !t->edge || !t->shape)
        return FAIL_NOMEM();
    TRY(list_shapes(t, values));
    TRY(list_shapes(t, json_object_get(shaped, "values")));
    TRY(add_values(t, values));
    first = t->n;
    for (size_t i = 0; i < json_array_size(nodes); i++)
        TRY(add_operator(t, json_array_get(nodes, i)));
    for (size_t i = 0; i < json_array_size(nodes); i++)
        TRY(connect(t, t->node[first + i], json_object_get(json_array_get(nodes, i), "inputs")));
    return ST_OK;
}

Status graph_def_pack(uint8_t **bytes, size_t *n, const json_t *graph, const json_t *shaped)
{
    Names t = { .arena = arena_create(), .taken = json_object(), .edge = json_object(), .shape = json_object() };
    TensorboardEvent__GraphDef def = TENSORBOARD_EVENT__GRAPH_DEF__INIT;
    Status st = t.arena ? translate(&t, graph, shaped) : FAIL_NOMEM();

    if (!st) {
        def.n_node = t.n;
        def.node = t.node;
        *n = tensorboard_event__graph_def__get_packed_size(&def);
        if ((*bytes = malloc(*n + 1)))
            tensorboard_event__graph_def__pack(&def, *bytes);
        else
            st = FAIL_NOMEM();
    }
    json_decref(t.taken);
    json_decref(t.edge);
    json_decref(t.shape);
    arena_free(t.arena);
    return st;
}
