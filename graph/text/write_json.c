/* Graphs as JSON.  The text is written directly, because a graph has a fixed form: no document is built in memory. */
#include "graph/text/write_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/ir/op.h"

/* ---- values of JSON ---- */

/* Characters that control a terminal are escaped; bytes that are no UTF-8 become the replacement character. */
void json_write_string(FILE *f, const char *s)
{
    putc('"', f);
    for (int n; *s; s += n ? n : 1) {
        n = utf8_length(s);
        if (!n)
            fputs("\\ufffd", f);
        else if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (!foreign_length(s))
            fprintf(f, "\\u%04x", (unsigned)utf8_code(s));
        else
            fwrite(s, 1, (size_t)n, f);
    }
    putc('"', f);
}

void json_write_float(FILE *f, double v)
{
    char text[NUMBER_TEXT];

    fprintf(f, isfinite(v) ? "%s" : "\"%s\"", text_float64(text, v));
}

static void print_key(FILE *f, bool *first, const char *key)
{
    fputs(*first ? "" : ", ", f);
    *first = false;
    json_write_string(f, key);
    fputs(": ", f);
}

/* ---- pieces of a graph ---- */

static void print_shape(FILE *f, const Value *v)
{
    if (v->shape->rank < 0) {
        fputs("null", f);
        return;
    }
    putc('[', f);
    for (int i = 0; i < v->shape->rank; i++) {
        fputs(i ? ", " : "", f);
        if (v->shape->dim[i] >= 0)
            fprintf(f, "%" PRId64, v->shape->dim[i]);
        else if (v->dim_param && v->dim_param[i])
            json_write_string(f, v->dim_param[i]);
        else
            fputs("null", f);
    }
    putc(']', f);
}

static void print_places(FILE *f, bool *first, int replica, int device)
{
    if (replica >= 0) {
        print_key(f, first, "replica");
        fprintf(f, "%d", replica);
    }
    if (device >= 0) {
        print_key(f, first, "device");
        fprintf(f, "%d", device);
    }
}

static bool is_shown(const Value *v) { return v->kind != V_TEMP || (v->producer && v->producer->op); }

static void print_value(FILE *f, const Value *v)
{
    static const char *const kinds[] = { "temporary", "input", "state", "constant" };
    bool first = true;

    fputs("    {", f);
    print_key(f, &first, "name");
    json_write_string(f, v->name);
    print_key(f, &first, "kind");
    json_write_string(f, kinds[v->kind]);
    print_key(f, &first, "dtype");
    json_write_string(f, dtype_name(v->dtype));
    print_key(f, &first, "shape");
    print_shape(f, v);
    if (v->kind == V_STATE) {
        print_key(f, &first, "trainable");
        fputs(v->trainable ? "true" : "false", f);
    }
    if (v->logical) {
        print_key(f, &first, "copy_of");
        json_write_string(f, v->logical);
    }
    print_places(f, &first, v->replica, v->device);
    putc('}', f);
}

static void print_names(FILE *f, const Graph *g, const ValueId *list, int n)
{
    putc('[', f);
    for (int i = 0; i < n; i++) {
        fputs(i ? ", " : "", f);
        has_value(list[i]) ? json_write_string(f, value(g, list[i])->name) : (void)fputs("null", f);
    }
    putc(']', f);
}

static void write_json_print_node(FILE *f, const Graph *g, const Node *n);

static void print_body(FILE *f, const Graph *body)
{
    fputs("{\"inputs\": ", f);
    print_names(f, body, body->input, body->n_input);
    fputs(", \"nodes\": [", f);
    FOR_NODES(body, n) {
        fputs(i_n ? ", " : "", f);
        write_json_print_node(f, body, n);
    }
    fputs("], \"outputs\": [", f);
    for (int i = 0; i < body->n_output; i++) {
        fputs(i ? ", " : "", f);
        json_write_string(f, value(body, body->output[i].value)->name);
    }
    fputs("]}", f);
}

static void print_attr(FILE *f, const Attr *a)
{
    char text[SHAPE_TEXT];

    switch (a->type) {
    case A_INT: fprintf(f, "%" PRId64, a->i); break;
    case A_FLOAT: json_write_float(f, a->f); break;
    case A_STRING: a->s ? json_write_string(f, a->s) : (void)fputs("null", f); break;
    case A_INTS:
    case A_FLOATS:
    case A_STRINGS:
        putc('[', f);
        for (int i = 0; i < a->n; i++) {
            fputs(i ? ", " : "", f);
            if (a->type == A_INTS)
                fprintf(f, "%" PRId64, a->ints[i]);
            else if (a->type == A_FLOATS)
                json_write_float(f, a->floats[i]);
            else
                json_write_string(f, a->strings[i]);
        }
        putc(']', f);
        break;
    case A_TENSOR:
        a->tensor
            ? (void)fprintf(f, "\"tensor %s%s\"", dtype_name(a->tensor->dtype), shape_text(&a->tensor->shape, text))
            : (void)fputs("null", f);
        break;
    case A_GRAPH: a->graph ? print_body(f, a->graph) : (void)fputs("null", f); break;
    case A_NONE: fputs("null", f); break;
    }
}

static void write_json_print_node(FILE *f, const Graph *g, const Node *n)
{
    bool first = true, first_attr = true;

    putc('{', f);
    print_key(f, &first, "op");
    json_write_string(f, n->op->name);
    if (n->op->domain) {
        print_key(f, &first, "domain");
        json_write_string(f, n->op->domain);
    }
    print_key(f, &first, "name");
    json_write_string(f, n->name);
    print_key(f, &first, "inputs");
    print_names(f, g, n->in, n->n_in);
    print_key(f, &first, "outputs");
    print_names(f, g, n->out, n->n_out);
    print_key(f, &first, "attributes");
    putc('{', f);
    for (int i = 0; i < n->n_attr; i++) {
        print_key(f, &first_attr, n->attr[i].name);
        print_attr(f, &n->attr[i]);
    }
    putc('}', f);
    print_places(f, &first, n->replica, n->device);
    putc('}', f);
}

static void print_interface(FILE *f, const Graph *g)
{
    fputs("  \"inputs\": ", f);
    print_names(f, g, g->input, g->n_input);
    fputs(",\n  \"outputs\": [", f);
    for (int i = 0; i < g->n_output; i++) {
        fputs(i ? ", {\"name\": " : "{\"name\": ", f);
        json_write_string(f, g->output[i].name);
        fputs(", \"value\": ", f);
        json_write_string(f, value(g, g->output[i].value)->name);
        putc('}', f);
    }
    fputs("],\n  \"updates\": [", f);
    for (int i = 0; i < g->n_update; i++) {
        fputs(i ? ", {\"state\": " : "{\"state\": ", f);
        json_write_string(f, value(g, g->update[i].state)->name);
        fputs(", \"next\": ", f);
        json_write_string(f, value(g, g->update[i].next)->name);
        putc('}', f);
    }
    fputs("]\n", f);
}

Status graph_json(FILE *f, const Graph *g)
{
    bool first = true;

    fputs("{\n  \"name\": ", f);
    json_write_string(f, g->name);
    fputs(",\n  \"values\": [\n", f);
    for (uint32_t i = 1; i < g->n_value; i++) {
        if (!is_shown(g->value[i]))
            continue;
        fputs(first ? "" : ",\n", f);
        first = false;
        print_value(f, g->value[i]);
    }
    fputs("\n  ],\n  \"nodes\": [\n", f);
    first = true;
    FOR_NODES(g, n) {
        fputs(first ? "" : ",\n", f);
        first = false;
        fputs("    ", f);
        write_json_print_node(f, g, n);
    }
    fputs("\n  ],\n", f);
    print_interface(f, g);
    fputs("}\n", f);
    return ferror(f) ? FAIL(E_IO, "writing graph '%s' as JSON failed", g->name) : ST_OK;
}
