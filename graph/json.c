#include "graph/json.h"

#include <jansson.h>

#include "graph/op.h"

/* A name as a JSON string; what is not UTF-8 (a hostile file) becomes its id. */
static json_t *name_of(const Graph *g, ValueId v)
{
    json_t *s;

    if (!has_value(v))
        return json_null();
    s = json_string(value(g, v)->name);
    return s ? s : json_sprintf("value %u", v.i);
}

static json_t *text(const char *s)
{
    json_t *j = s ? json_string(s) : json_null();

    return j ? j : json_string("");
}

static json_t *names(const Graph *g, const ValueId *list, int n)
{
    json_t *a = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(a, name_of(g, list[i]));
    return a;
}

static json_t *describe_value(const Graph *g, ValueId id)
{
    static const char *const kinds[] = { "temp", "input", "state", "const" };
    const Value *v = value(g, id);
    json_t *shape = v->shape.rank < 0 ? json_null() : json_array();

    for (int i = 0; i < v->shape.rank; i++)
        json_array_append_new(shape, v->shape.dim[i] < 0 ? json_null() : json_integer(v->shape.dim[i]));
    return json_pack("{s:o, s:s, s:s, s:o, s:b, s:i, s:i}", "name", name_of(g, id), "kind", kinds[v->kind], "dtype", dtype_name(v->dtype),
                     "shape", shape, "trainable", v->trainable, "replica", v->replica, "device", v->device);
}

static json_t *describe_attr(const Attr *a)
{
    json_t *list = json_array();

    for (int i = 0; i < a->n; i++)
        json_array_append_new(list, a->type == A_INTS ? json_integer(a->ints[i]) : a->type == A_FLOATS ? json_real(a->floats[i])
                                                                                                       : text(a->strings[i]));
    if (a->type == A_INTS || a->type == A_FLOATS || a->type == A_STRINGS)
        return list;
    json_decref(list);
    return a->type == A_INT ? json_integer(a->i) : a->type == A_FLOAT ? json_real(a->f) : a->type == A_STRING ? text(a->s) : json_null();
}

static json_t *describe_node(const Graph *g, const Node *n)
{
    json_t *attrs = json_object();

    for (int i = 0; i < n->n_attr; i++)
        json_object_set_new(attrs, n->attr[i].name, describe_attr(&n->attr[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:i, s:i}", "op", n->op->name, "domain", n->op->domain ? n->op->domain : "", "name",
                     text(n->name), "inputs", names(g, n->in, n->n_in), "outputs", names(g, n->out, n->n_out), "attributes", attrs,
                     "replica", n->replica, "device", n->device);
}

static json_t *describe_graph(const Graph *g)
{
    json_t *values = json_array(), *nodes = json_array(), *outputs = json_array(), *updates = json_array();

    for (uint32_t i = 1; i < g->n_value; i++)
        json_array_append_new(values, describe_value(g, (ValueId){ i }));
    FOR_NODES(g, n)
        json_array_append_new(nodes, describe_node(g, n));
    for (int i = 0; i < g->n_output; i++)
        json_array_append_new(outputs, json_pack("{s:o, s:o}", "name", text(g->output[i].name), "value", name_of(g, g->output[i].value)));
    for (int i = 0; i < g->n_update; i++)
        json_array_append_new(updates, json_pack("{s:o, s:o}", "state", name_of(g, g->update[i].state), "next",
                                                 name_of(g, g->update[i].next)));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "name", text(g->name), "values", values, "nodes", nodes, "outputs", outputs, "updates",
                     updates);
}

Status graph_json(FILE *f, const Graph *g)
{
    json_t *root = describe_graph(g);
    int failed = !root || json_dumpf(root, f, JSON_INDENT(1));

    json_decref(root);
    if (!root)
        return FAIL_NOMEM();
    return failed || fputc('\n', f) == EOF ? FAIL(E_IO, "cannot write the graph") : ST_OK;
}
