/* Graphs as JSON.  The text is written directly, because a graph has a fixed form: no document is built in memory. */
#include "graph/text/write_json.h"

#include <math.h>
#include <stdbool.h>

#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "graph/ir/op.h"

static void write_shape(JsonWriter *w, const Value *v)
{
    if (v->shape->rank < 0) {
        json_write_string(w, "shape", NULL);
        return;
    }
    json_open(w, "shape", '[');
    for (int i = 0; i < v->shape->rank; i++)
        if (v->shape->dim[i] >= 0)
            json_write_int(w, NULL, v->shape->dim[i]);
        else
            json_write_string(w, NULL, v->dim_param ? v->dim_param[i] : NULL);
    json_close(w);
}

static void write_places(JsonWriter *w, int replica, int device)
{
    if (replica >= 0)
        json_write_int(w, "replica", replica);
    if (device >= 0)
        json_write_int(w, "device", device);
}

static bool is_shown(const Value *v) { return v->kind != V_TEMP || (v->producer && v->producer->op); }

static void write_value(JsonWriter *w, const Value *v)
{
    static const char *const kinds[] = { "temporary", "input", "state", "constant" };

    json_open(w, NULL, '{');
    json_write_string(w, "name", v->name);
    json_write_string(w, "kind", kinds[v->kind]);
    json_write_string(w, "dtype", dtype_name(v->dtype));
    write_shape(w, v);
    if (v->kind == V_STATE)
        json_write_bool(w, "trainable", v->trainable);
    if (v->logical)
        json_write_string(w, "copy_of", v->logical);
    write_places(w, v->replica, v->device);
    json_close(w);
}

static void write_names(JsonWriter *w, const char *key, const Graph *g, const ValueId *list, int n)
{
    json_open(w, key, '[');
    for (int i = 0; i < n; i++)
        json_write_string(w, NULL, has_value(list[i]) ? value(g, list[i])->name : NULL);
    json_close(w);
}

static void write_json_node(JsonWriter *w, const Graph *g, const Node *n);

static void write_body(JsonWriter *w, const char *key, const Graph *body)
{
    json_open(w, key, '{');
    write_names(w, "inputs", body, body->input, body->n_input);
    json_open(w, "nodes", '[');
    FOR_NODES(body, n)
        write_json_node(w, body, n);
    json_close(w);
    json_open(w, "outputs", '[');
    for (int i = 0; i < body->n_output; i++)
        json_write_string(w, NULL, value(body, body->output[i].value)->name);
    json_close(w);
    json_close(w);
}

/* Infinities and NaN are texts: an attribute may well be infinite. */
static void write_float(JsonWriter *w, const char *key, double v)
{
    char text[NUMBER_TEXT];

    isfinite(v) ? json_write_float(w, key, v) : json_write_string(w, key, text_float64(text, v));
}

static void write_attr(JsonWriter *w, const Attr *a)
{
    char shape[SHAPE_TEXT], text[SHAPE_TEXT + 32];

    switch (a->type) {
    case A_INT: json_write_int(w, a->name, a->i); break;
    case A_FLOAT: write_float(w, a->name, a->f); break;
    case A_STRING: json_write_string(w, a->name, a->s); break;
    case A_INTS:
    case A_FLOATS:
    case A_STRINGS:
        json_open(w, a->name, '[');
        for (int i = 0; i < a->n; i++)
            if (a->type == A_INTS)
                json_write_int(w, NULL, a->ints[i]);
            else if (a->type == A_FLOATS)
                write_float(w, NULL, a->floats[i]);
            else
                json_write_string(w, NULL, a->strings[i]);
        json_close(w);
        break;
    case A_TENSOR:
        if (a->tensor)
            snprintf(text, sizeof text, "tensor %s%s", dtype_name(a->tensor->dtype),
                     shape_text(&a->tensor->shape, shape));
        json_write_string(w, a->name, a->tensor ? text : NULL);
        break;
    case A_GRAPH: a->graph ? write_body(w, a->name, a->graph) : json_write_string(w, a->name, NULL); break;
    case A_NONE: json_write_string(w, a->name, NULL); break;
    }
}

static void write_json_node(JsonWriter *w, const Graph *g, const Node *n)
{
    json_open(w, NULL, '{');
    json_write_string(w, "op", n->op->name);
    if (n->op->domain)
        json_write_string(w, "domain", n->op->domain);
    json_write_string(w, "name", n->name);
    write_names(w, "inputs", g, n->in, n->n_in);
    write_names(w, "outputs", g, n->out, n->n_out);
    json_open(w, "attributes", '{');
    for (int i = 0; i < n->n_attr; i++)
        write_attr(w, &n->attr[i]);
    json_close(w);
    write_places(w, n->replica, n->device);
    json_close(w);
}

static void write_pair(JsonWriter *w, const char *key, const char *name, const char *value_key, const char *value_name)
{
    json_open(w, NULL, '{');
    json_write_string(w, key, name);
    json_write_string(w, value_key, value_name);
    json_close(w);
}

Status graph_json(FILE *f, const Graph *g)
{
    JsonWriter w = { .to = f, .lines = 2 };

    json_open(&w, NULL, '{');
    json_write_string(&w, "name", g->name);
    json_open(&w, "values", '[');
    for (uint32_t i = 1; i < g->n_value; i++)
        if (is_shown(g->value[i]))
            write_value(&w, g->value[i]);
    json_close(&w);
    json_open(&w, "nodes", '[');
    FOR_NODES(g, n)
        write_json_node(&w, g, n);
    json_close(&w);
    write_names(&w, "inputs", g, g->input, g->n_input);
    json_open(&w, "outputs", '[');
    for (int i = 0; i < g->n_output; i++)
        write_pair(&w, "name", g->output[i].name, "value", value(g, g->output[i].value)->name);
    json_close(&w);
    json_open(&w, "updates", '[');
    for (int i = 0; i < g->n_update; i++)
        write_pair(&w, "state", value(g, g->update[i].state)->name, "next", value(g, g->update[i].next)->name);
    json_close(&w);
    json_close(&w);
    return ferror(f) ? FAIL(E_IO, "writing graph '%s' as JSON failed", g->name) : ST_OK;
}
