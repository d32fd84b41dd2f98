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

/* Gives a node the shape of its output, for the label of its edges. */
static Status set_shape(Names *t, NodeDef *n, const json_t *shape)
{
    const size_t rank = json_array_size(shape);
    ShapeDef *s = ARENA_NEW(t->arena, ShapeDef, 1), **shapes = ARENA_NEW(t->arena, ShapeDef *, 1);
    TensorboardEvent__Dim **dim = ARENA_NEW(t->arena, TensorboardEvent__Dim *, rank + 1);
    TensorboardEvent__ListValue *list = ARENA_NEW(t->arena, TensorboardEvent__ListValue, 1);
    TensorboardEvent__AttrValue *value = ARENA_NEW(t->arena, TensorboardEvent__AttrValue, 1);
    TensorboardEvent__AttrEntry *entry = ARENA_NEW(t->arena, TensorboardEvent__AttrEntry, 1),
                                **entries = ARENA_NEW(t->arena, TensorboardEvent__AttrEntry *, 1);

    if (!s || !shapes || !dim || !list || !value || !entry || !entries)
        return FAIL_NOMEM();
    tensorboard_event__shape__init(s);
    tensorboard_event__list_value__init(list);
    tensorboard_event__attr_value__init(value);
    tensorboard_event__attr_entry__init(entry);
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);

        if (!(dim[i] = ARENA_NEW(t->arena, TensorboardEvent__Dim, 1)))
            return FAIL_NOMEM();
        tensorboard_event__dim__init(dim[i]);
        dim[i]->size = json_is_integer(size) ? json_integer_value(size) : -1;
    }
    s->n_dim = rank;
    s->dim = dim;
    *shapes = s;
    list->n_shape = 1;
    list->shape = shapes;
    value->list = list;
    entry->key = arena_printf(t->arena, "_output_shapes");
    entry->value = value;
    *entries = entry;
    n->n_attr = 1;
    n->attr = entries;
    return entry->key ? ST_OK : FAIL_NOMEM();
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
        TRY(set_shape(t, n, json_object_get(v, "shape")));
    }
    return ST_OK;
}

/* Adds a node and names its outputs; its inputs are connected when all have names. */
static Status add_operator(Names *t, const json_t *from)
{
    const json_t *outputs = json_object_get(from, "outputs");
    const char *first = json_string_value(json_array_get(outputs, 0)), *own = text_of(from, "name");
    const NodeDef *n = add_node(t, *own ? own : first ? first : "", text_of(from, "op"));

    if (!n)
        return FAIL_NOMEM();
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const char *name = json_string_value(json_array_get(outputs, i));

        if (name &&
            json_object_set_new(t->edge, name, i ? json_sprintf("%s:%d", n->name, (int)i) : json_string(n->name)))
            return FAIL_NOMEM();
    }
    return ST_OK;
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

static Status translate(Names *t, const json_t *graph)
{
    const json_t *values = json_object_get(graph, "values"), *nodes = json_object_get(graph, "nodes");
    size_t first;

    t->node = ARENA_NEW(t->arena, NodeDef *, json_array_size(values) + json_array_size(nodes) + 1);
    if (!t->node || !t->taken || !t->edge)
        return FAIL_NOMEM();
    TRY(add_values(t, values));
    first = t->n;
    for (size_t i = 0; i < json_array_size(nodes); i++)
        TRY(add_operator(t, json_array_get(nodes, i)));
    for (size_t i = 0; i < json_array_size(nodes); i++)
        TRY(connect(t, t->node[first + i], json_object_get(json_array_get(nodes, i), "inputs")));
    return ST_OK;
}

Status graph_def_pack(uint8_t **bytes, size_t *n, const json_t *graph)
{
    Names t = { .arena = arena_create(), .taken = json_object(), .edge = json_object() };
    TensorboardEvent__GraphDef def = TENSORBOARD_EVENT__GRAPH_DEF__INIT;
    Status st = t.arena ? translate(&t, graph) : FAIL_NOMEM();

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
    arena_free(t.arena);
    return st;
}
