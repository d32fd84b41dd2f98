#include "graph/dot.h"

#include "graph/op.h"

/* A name inside double quotes. */
static void put_quoted(FILE *f, const char *s)
{
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else
            fputc((unsigned char)*s < ' ' ? ' ' : *s, f);
}

static const char *kind_style(ValueKind k)
{
    return k == V_INPUT ? "shape=ellipse,fillcolor=lightblue" : k == V_STATE ? "shape=box3d,fillcolor=khaki"
                                                                             : "shape=plaintext,fillcolor=white";
}

static void put_value_label(FILE *f, const Value *v)
{
    char shape[SHAPE_TEXT];

    put_quoted(f, v->name);
    fprintf(f, "\\n%s%s", dtype_name(v->dtype), shape_text(&v->shape, shape));
}

/* Inputs, state and constants that a node reads. */
static void put_leaves(FILE *f, const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (v->kind == V_TEMP)
            continue;
        fprintf(f, "  v%u [style=filled,%s,label=\"", i, kind_style(v->kind));
        put_value_label(f, v);
        fprintf(f, "\"];\n");
    }
}

static void put_node(FILE *f, const Node *n)
{
    fprintf(f, "    n%u [shape=box,style=\"rounded,filled\",fillcolor=%s,label=\"%s\\n", n->index,
            n->op->flags & OPF_COLLECTIVE ? "salmon" : "white", n->op->name);
    put_quoted(f, n->name);
    if (n->replica >= 0)
        fprintf(f, "\\nreplica %d", n->replica);
    fprintf(f, "\"];\n");
}

/* One cluster per device; -1 holds what belongs to none. */
static void put_device(FILE *f, const Graph *g, int device)
{
    if (device >= 0)
        fprintf(f, "  subgraph cluster_%d {\n    label=\"device %d\";\n", device, device);
    FOR_NODES(g, n)
        if (n->device == device)
            put_node(f, n);
    if (device >= 0)
        fprintf(f, "  }\n");
}

static void put_edges(FILE *f, const Graph *g)
{
    char shape[SHAPE_TEXT];

    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++) {
            const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;

            if (v && v->producer)
                fprintf(f, "  n%u -> n%u [label=\"%s\"];\n", v->producer->index, n->index, shape_text(&v->shape, shape));
            else if (v)
                fprintf(f, "  v%u -> n%u;\n", n->in[i].i, n->index);
        }
}

static void put_results(FILE *f, const Graph *g)
{
    for (int i = 0; i < g->n_output; i++) {
        const Value *v = value(g, g->output[i].value);

        fprintf(f, "  o%d [shape=ellipse,style=filled,fillcolor=lightgreen,label=\"", i);
        put_quoted(f, g->output[i].name);
        if (v->producer)
            fprintf(f, "\"];\n  n%u -> o%d;\n", v->producer->index, i);
        else
            fprintf(f, "\"];\n  v%u -> o%d;\n", g->output[i].value.i, i);
    }
    for (int i = 0; i < g->n_update; i++) {
        const Value *next = value(g, g->update[i].next);

        if (next->producer)
            fprintf(f, "  n%u -> v%u [style=dashed,constraint=false];\n", next->producer->index, g->update[i].state.i);
    }
}

Status graph_dot(FILE *f, const Graph *g)
{
    int last = -1;

    FOR_NODES(g, n)
        if (n->device > last)
            last = n->device;
    fprintf(f, "digraph \"");
    put_quoted(f, g->name);
    fprintf(f, "\" {\n  rankdir=TB;\n  node [fontname=\"sans-serif\",fontsize=10];\n  edge [fontsize=8];\n");
    put_leaves(f, g);
    for (int d = -1; d <= last; d++)
        put_device(f, g, d);
    put_edges(f, g);
    put_results(f, g);
    fprintf(f, "}\n");
    return ferror(f) ? FAIL(E_IO, "cannot write the graph") : ST_OK;
}
