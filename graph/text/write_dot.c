/* Graphviz pictures: a box for each chain of nodes, and a shape for each input, state and output.  A box shows only the
 * number of its constants.  Boxes stand in frames: devices contain replicas, which contain phases.  A box has the
 * colour of its device, so that a partitioned graph shows its parts.
 *
 * A chain is a sequence of nodes of one frame.  Besides states and inputs, each node reads only results of the node
 * before it, and no other node reads these. */
#include "graph/text/write_dot.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/ir/body.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"

enum { LABEL_MAX = 60, CHAIN_MAX = 8 }; /* characters of a name; nodes listed in a box */

/* A chain, which is drawn as a box: its first node, and its frames, which are -1 for a collective. */
typedef struct {
    int frame[3]; /* device, replica, phase */
    uint32_t node;
} Chain;

typedef struct {
    FILE *f;
    const Graph *g;
    const char *prefix; /* of the names of boxes, because two graphs may stand in one picture */
    bool bare;          /* edges have no labels */
    uint8_t *phase;     /* by node index */
    uint32_t *chain;    /* by node index: the first node of its chain */
    uint32_t *next;     /* by node index: the next node of its chain, or the node itself */
    Chain *box;         /* [n_box], frame by frame */
    int n_box;
} Dot;

static const char *const colours[] = { "#dce9f7", "#fbe3d0", "#dff0d8", "#f3dff0",
                                       "#fff5cc", "#d9f0f0", "#f0dada", "#e6e6e6" };

/* The caller writes the "\l" and "\n" of labels. */
void dot_text(FILE *f, const char *s, size_t max)
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

/* Inner values of a model have no types before passes infer them. */
static bool is_typed(const Value *v) { return v->dtype != DT_NONE || shape_known(v->shape); }

static void print_type(FILE *f, const Value *v)
{
    char text[SHAPE_TEXT];

    fprintf(f, "%s%s", dtype_name(v->dtype), shape_text(v->shape, text));
}

static void write_dot_print_place(FILE *f, int replica, int device)
{
    if (replica >= 0)
        fprintf(f, " r%d", replica);
    if (device >= 0)
        fprintf(f, " d%d", device);
}

static void print_source(const Dot *d, uint32_t id, const char *shape)
{
    const Value *v = d->g->value[id];
    FILE *f = d->f;

    fprintf(f, "  %sv%u [shape=%s, style=filled, fillcolor=\"%s\", label=\"", d->prefix, id, shape, colour(v->device));
    dot_text(f, v->name, LABEL_MAX);
    fputs("\\n", f);
    print_type(f, v);
    write_dot_print_place(f, v->replica, v->device);
    fputs("\"];\n", f);
}

/* ---- chains ---- */

static bool is_collective(const Node *n) { return n->op->flags & OPF_COLLECTIVE; }

static bool same_frame(const Dot *d, const Node *a, const Node *b)
{
    return a->device == b->device && a->replica == b->replica && d->phase[a->index] == d->phase[b->index] &&
           is_collective(a) == is_collective(b);
}

/* The only node whose results n reads; NULL: there is none, or there are several. */
static const Node *only_source(const Graph *g, const Node *n)
{
    const Node *from = NULL;

    for (int i = 0; i < n->n_in; i++) {
        const Node *p = has_value(n->in[i]) ? value(g, n->in[i])->producer : NULL;

        if (p && from && p != from)
            return NULL;
        from = p ? p : from;
    }
    return from;
}

/* Does no other node read results of `from`?  `readers` counts the uses of each value. */
static bool is_only_reader(const Node *n, const Node *from, const int *readers)
{
    for (int o = 0; o < from->n_out; o++) {
        int uses = 0;

        for (int i = 0; i < n->n_in; i++)
            uses += value_eq(n->in[i], from->out[o]);
        if (has_value(from->out[o]) && readers[from->out[o].i] != uses)
            return false;
    }
    return true;
}

/* Sets d->chain and d->next; `readers` [n_value] is zeroed. */
static void find_chains(const Dot *d, int *readers)
{
    const Graph *g = d->g;

    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            readers[n->in[i].i]++;
    for (int i = 0; i < g->n_output; i++)
        readers[g->output[i].value.i] += 2; /* more than a node's uses */
    for (int i = 0; i < g->n_update; i++)
        readers[g->update[i].next.i] += 2;
    FOR_NODES(g, n) {
        const Node *from = only_source(g, n);

        d->chain[n->index] = d->next[n->index] = n->index;
        if (!from || is_collective(n) || !same_frame(d, from, n) || !is_only_reader(n, from, readers))
            continue;
        d->chain[n->index] = d->chain[from->index];
        d->next[from->index] = n->index;
    }
}

/* ---- frames ---- */

enum { DEVICE, REPLICA, PHASE, N_FRAMES };

static int compare_boxes(const void *a, const void *b)
{
    const Chain *x = a, *y = b;

    for (int k = 0; k < N_FRAMES; k++)
        if (x->frame[k] != y->frame[k])
            return x->frame[k] < y->frame[k] ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static Status find_boxes(Dot *d, Arena *a)
{
    int *readers = ARENA_NEW(a, int, d->g->n_value);

    d->phase = graph_phases(d->g, a);
    d->chain = ARENA_NEW(a, uint32_t, d->g->n_node);
    d->next = ARENA_NEW(a, uint32_t, d->g->n_node);
    d->box = ARENA_NEW(a, Chain, d->g->n_node);
    if (!readers || !d->phase || !d->chain || !d->next || !d->box)
        return FAIL_NOMEM();
    find_chains(d, readers);
    FOR_NODES(d->g, n)
        if (d->chain[n->index] == n->index)
            d->box[d->n_box++] = is_collective(n) ? (Chain){ { -1, -1, -1 }, n->index }
                                                  : (Chain){ { n->device, n->replica, d->phase[n->index] }, n->index };
    if (d->n_box)
        qsort(d->box, (size_t)d->n_box, sizeof *d->box, compare_boxes);
    return ST_OK;
}

static bool is_source(const Value *v) { return v->kind == V_INPUT || v->kind == V_STATE; }

static bool has_frame(const Dot *d, int device)
{
    for (int i = 0; i < d->n_box; i++)
        if (d->box[i].frame[DEVICE] == device)
            return device >= 0;
    return false;
}

/* Prints inputs and states of a device; -1: those of the host, and of devices without a frame. */
static void print_sources(const Dot *d, int device)
{
    for (uint32_t i = 1; i < d->g->n_value; i++) {
        const Value *v = d->g->value[i];

        if (is_source(v) && (has_frame(d, v->device) ? v->device : -1) == device)
            print_source(d, i, v->kind == V_INPUT ? "ellipse" : "cylinder");
    }
}

static void open_frame(const Dot *d, const Chain *b, int level)
{
    static const char *const what[] = { "device", "replica" };

    fprintf(d->f, "  subgraph \"cluster_%s", d->prefix);
    for (int k = 0; k <= level; k++)
        fprintf(d->f, "%s%d", k ? "_" : "", b->frame[k]);
    fputs("\" {\n  color=\"#888888\"; label=\"", d->f);
    if (level == PHASE)
        fputs(phase_name(b->frame[level]), d->f);
    else
        fprintf(d->f, "%s %d", what[level], b->frame[level]);
    fputs("\";\n", d->f);
    if (level == DEVICE)
        print_sources(d, b->frame[level]);
}

/* Closes frames and opens those of `to` (NULL: none); `open` are the frames that are open, -1: none. */
static void change_frames(const Dot *d, const Chain *to, int open[N_FRAMES])
{
    int same = 0;

    while (same < N_FRAMES && to && open[same] == to->frame[same])
        same++;
    for (int k = N_FRAMES; k-- > same;) {
        if (open[k] >= 0)
            fputs("  }\n", d->f);
        open[k] = -1;
    }
    for (int k = same; to && k < N_FRAMES; k++) {
        open[k] = to->frame[k];
        if (open[k] >= 0)
            open_frame(d, to, k);
    }
}

/* ---- boxes ---- */

/* Prints a node's line in a box. */
static void write_dot_print_node(const Dot *d, const Node *n)
{
    char text[BODY_TEXT];
    int constants = 0;

    fprintf(d->f, "%s\\n", n->op->name);
    dot_text(d->f, n->name, LABEL_MAX);
    for (int i = 0; i < n->n_attr; i++)
        if (n->attr[i].type == A_GRAPH && n->attr[i].graph && body_operators(text, n->attr[i].graph))
            fprintf(d->f, "\\n%s", text);
    for (int i = 0; i < n->n_in; i++)
        constants += value_const(d->g, n->in[i]) != NULL;
    if (constants)
        fprintf(d->f, "\\n%d constant%s", constants, constants == 1 ? "" : "s");
}

static void print_box(const Dot *d, const Node *first)
{
    const Node *n = first;
    int lines = 0, left = 0;

    fprintf(d->f, "  %sn%u [shape=box, style=\"filled,rounded\", fillcolor=\"%s\", label=\"", d->prefix, first->index,
            colour(first->device));
    for (;; n = d->g->node[d->next[n->index]]) {
        if (lines++ < CHAIN_MAX) {
            fputs(lines > 1 ? "\\n" : "", d->f);
            write_dot_print_node(d, n);
        } else
            left++;
        if (d->next[n->index] == n->index)
            break;
    }
    if (left)
        fprintf(d->f, "\\n... %d more", left);
    write_dot_print_place(d->f, first->replica, first->device);
    fputs("\"];\n", d->f);
}

/* ---- edges ---- */

static void print_origin(const Dot *d, ValueId v)
{
    const Value *from = value(d->g, v);

    if (from->producer)
        fprintf(d->f, "  %sn%u", d->prefix, d->chain[from->producer->index]);
    else
        fprintf(d->f, "  %sv%u", d->prefix, v.i);
}

static void print_edge_label(const Dot *d, const Value *v)
{
    if (!is_typed(v)) {
        fputs(";\n", d->f);
        return;
    }
    fprintf(d->f, d->bare ? " [tooltip=\"" : " [label=\"");
    print_type(d->f, v);
    fputs("\"];\n", d->f);
}

static void print_edges(const Dot *d, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *from = has_value(n->in[i]) ? value(d->g, n->in[i])->producer : NULL;

        if (!has_value(n->in[i]) || value_const(d->g, n->in[i]) ||
            (from && d->chain[from->index] == d->chain[n->index]))
            continue;
        print_origin(d, n->in[i]);
        fprintf(d->f, " -> %sn%u", d->prefix, d->chain[n->index]);
        print_edge_label(d, value(d->g, n->in[i]));
    }
}

static void print_ends(const Dot *d)
{
    const Graph *g = d->g;

    for (int i = 0; i < g->n_output; i++) {
        fprintf(d->f, "  %so%d [shape=ellipse, peripheries=2, label=\"", d->prefix, i);
        dot_text(d->f, g->output[i].name, LABEL_MAX);
        fputs("\"];\n", d->f);
        print_origin(d, g->output[i].value);
        fprintf(d->f, " -> %so%d", d->prefix, i);
        print_edge_label(d, value(g, g->output[i].value));
    }
    for (int i = 0; i < g->n_update; i++) {
        print_origin(d, g->update[i].next);
        fprintf(d->f, " -> %sv%u [style=dashed, constraint=false, label=\"update\"];\n", d->prefix,
                g->update[i].state.i);
    }
}

static Status print_graph(FILE *f, const Graph *g, const char *prefix, bool bare, Arena *a)
{
    Dot d = { .f = f, .g = g, .prefix = prefix, .bare = bare };
    int open[N_FRAMES] = { -1, -1, -1 };

    TRY(find_boxes(&d, a));
    print_sources(&d, -1);
    for (int i = 0; i < g->n_output; i++)
        if (value_const(g, g->output[i].value))
            print_source(&d, g->output[i].value.i, "note");
    for (int i = 0; i < d.n_box; i++) {
        change_frames(&d, &d.box[i], open);
        print_box(&d, g->node[d.box[i].node]);
    }
    change_frames(&d, NULL, open);
    FOR_NODES(g, n)
        print_edges(&d, n);
    print_ends(&d);
    return ST_OK;
}

Status graph_dot_part(FILE *f, const Graph *g, const char *prefix, bool bare)
{
    Arena *a = arena_create_beside(g->arena);
    Status st = a ? print_graph(f, g, prefix, bare, a) : FAIL_NOMEM();

    arena_free(a);
    return st;
}

Status graph_dot(FILE *f, const Graph *g, const Graph *model)
{
    Status st = ST_OK;

    fputs("digraph \"", f);
    dot_text(f, g->name, LABEL_MAX);
    fputs("\" {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=10];\n  edge [fontname=\"Helvetica\", "
          "fontsize=8];\n",
          f);
    if (model) {
        fputs("  subgraph \"cluster_model\" {\n  label=\"the model\";\n", f);
        st = graph_dot_part(f, model, "m", false);
        fputs("  }\n", f);
    }
    if (!st)
        st = graph_dot_part(f, g, "", false);
    fputs("}\n", f);
    return st ? st : ferror(f) ? FAIL(E_IO, "writing the picture of graph '%s' failed", g->name) : ST_OK;
}
