/* One box per node, one ellipse per input, state and output; constants are left out but for their number, which a
 * node's label tells.  A node's colour is its device's, so that a partitioned graph shows its halves. */
#include "graph/dot.h"

#include <string.h>

#include "graph/base/foreign.h"
#include "graph/body.h"
#include "graph/op.h"

enum { LABEL_MAX = 60 }; /* of a user's name: longer ones are cut */

static const char *const colours[] = { "#dce9f7", "#fbe3d0", "#dff0d8", "#f3dff0",
                                       "#fff5cc", "#d9f0f0", "#f0dada", "#e6e6e6" };

/* Inside double quotes; "\l" and "\n" of labels are written by the caller. */
static void print_escaped(FILE *f, const char *s, size_t max)
{
    const char *end = s + max;

    for (int n; *s && s < end; s += n ? n : 1) {
        n = foreign_length(s);
        if (*s == '"' || *s == '\\')
            putc('\\', f);
        n ? (void)fwrite(s, 1, (size_t)n, f) : (void)putc('?', f);
    }
    if (*s)
        fputs("...", f);
}

static const char *colour(int device)
{
    return device < 0 ? "#ffffff" : colours[(size_t)device % (sizeof colours / sizeof *colours)];
}

static void print_type(FILE *f, const Value *v)
{
    char text[SHAPE_TEXT];

    fprintf(f, "%s%s", dtype_name(v->dtype), shape_text(v->shape, text));
}

static void print_place(FILE *f, int replica, int device)
{
    if (replica >= 0)
        fprintf(f, " r%d", replica);
    if (device >= 0)
        fprintf(f, " d%d", device);
}

static void print_source(FILE *f, const Graph *g, uint32_t id, const char *shape)
{
    const Value *v = g->value[id];

    fprintf(f, "  v%u [shape=%s, style=filled, fillcolor=\"%s\", label=\"", id, shape, colour(v->device));
    print_escaped(f, v->name, LABEL_MAX);
    fputs("\\n", f);
    print_type(f, v);
    print_place(f, v->replica, v->device);
    fputs("\"];\n", f);
}

static int count_constants(const Graph *g, const Node *n)
{
    int count = 0;

    for (int i = 0; i < n->n_in; i++)
        count += value_const(g, n->in[i]) != NULL;
    return count;
}

static void print_bodies(FILE *f, const Node *n)
{
    char text[BODY_TEXT];

    for (int i = 0; i < n->n_attr; i++)
        if (n->attr[i].type == A_GRAPH && n->attr[i].graph && body_operators(text, n->attr[i].graph))
            fprintf(f, "\\n%s", text);
}

static void print_node(FILE *f, const Graph *g, const Node *n)
{
    int constants = count_constants(g, n);

    fprintf(f, "  n%u [shape=box, style=\"filled,rounded\", fillcolor=\"%s\", label=\"%s\\n", n->index,
            colour(n->device), n->op->name);
    print_escaped(f, n->name, LABEL_MAX);
    print_bodies(f, n);
    if (constants)
        fprintf(f, "\\n%d constant%s", constants, constants == 1 ? "" : "s");
    print_place(f, n->replica, n->device);
    fputs("\"];\n", f);
}

static void print_origin(FILE *f, const Graph *g, ValueId v)
{
    const Value *from = value(g, v);

    fprintf(f, from->producer ? "  n%u" : "  v%u", from->producer ? from->producer->index : v.i);
}

static void print_edge_label(FILE *f, const Value *v)
{
    fputs(" [label=\"", f);
    print_type(f, v);
    fputs("\"];\n", f);
}

static void print_edges(FILE *f, const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        if (!has_value(n->in[i]) || value_const(g, n->in[i]))
            continue;
        print_origin(f, g, n->in[i]);
        fprintf(f, " -> n%u", n->index);
        print_edge_label(f, value(g, n->in[i]));
    }
}

static void print_ends(FILE *f, const Graph *g)
{
    for (int i = 0; i < g->n_output; i++) {
        fprintf(f, "  o%d [shape=ellipse, peripheries=2, label=\"", i);
        print_escaped(f, g->output[i].name, LABEL_MAX);
        fputs("\"];\n", f);
        print_origin(f, g, g->output[i].value);
        fprintf(f, " -> o%d", i);
        print_edge_label(f, value(g, g->output[i].value));
    }
    for (int i = 0; i < g->n_update; i++) {
        print_origin(f, g, g->update[i].next);
        fprintf(f, " -> v%u [style=dashed, constraint=false, label=\"update\"];\n", g->update[i].state.i);
    }
}

Status graph_dot(FILE *f, const Graph *g)
{
    fputs("digraph \"", f);
    print_escaped(f, g->name, LABEL_MAX);
    fputs("\" {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=10];\n  edge [fontname=\"Helvetica\", "
          "fontsize=8];\n",
          f);
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_INPUT || g->value[i]->kind == V_STATE)
            print_source(f, g, i, g->value[i]->kind == V_INPUT ? "ellipse" : "cylinder");
    for (int i = 0; i < g->n_output; i++)
        if (value_const(g, g->output[i].value))
            print_source(f, g, g->output[i].value.i, "note");
    FOR_NODES(g, n)
        print_node(f, g, n);
    FOR_NODES(g, n)
        print_edges(f, g, n);
    print_ends(f, g);
    fputs("}\n", f);
    return ferror(f) ? FAIL(E_IO, "writing the picture of graph '%s' failed", g->name) : ST_OK;
}
