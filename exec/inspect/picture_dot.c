/* The picture of a step for Graphviz.  Boxes and bars are nodes, in frames of phases, within frames of replicas, within
 * frames of devices; values between them are edges, and each row has a rank of its own.
 *
 * A deep network has thousands of nodes and values, which `dot` cannot lay out in bearable time; a picture has few
 * boxes, and a box's tooltip lists its nodes.  For the same reason, and for legibility, there are no edges from the
 * forward to the backward pass, and none from a repeated row back to itself. */
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/picture.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"
#include "graph/text/write_dot.h"

enum { LABEL_MAX = 400, LINE_CHARS = 36, NAME_MAX = 120, LABELLED_EDGES = 400 }; /* of more edges none has a label */

static const char *const fills[N_PHASES] = { "#ffffff", "#dbe9f6", "#fff2cc", "#f9e0d2", "#dcefd8" };

/* An edge between boxes and bars, which are numbered by place_of(), or from an input. */
typedef struct {
    int from, to;   /* from -1: an input */
    uint32_t value; /* the first value that passes */
    int count;      /* values */
} Edge;

/* The number of a row's box in a lane; lane -1: of its bar. */
static int place_of(const Picture *p, int row, int lane) { return row * (p->n_lane + 1) + lane + 1; }

static int place_of_node(const Picture *p, const Node *n)
{
    return place_of(p, p->row_of[n->index], p->lane_of[n->index]);
}

/* ---- edges ---- */

static int compare_edges(const void *a, const void *b)
{
    const Edge *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Lists one edge for all values between two ends, and one for each input.  Edges go down or across lanes; none leads
 * from the forward pass past the criterion. */
static Status find_edges(Edge **out, int *count, const Picture *p, Arena *a)
{
    const Graph *g = p->g;
    Edge *edge;
    int most = 0, n_edge = 0, kept = 0;

    FOR_NODES(g, n)
        most += n->n_in;
    if (!(edge = ARENA_NEW(a, Edge, most)))
        return FAIL_NOMEM();
    FOR_NODES(g, to)
        for (int i = 0; i < to->n_in; i++) {
            const Value *v = has_value(to->in[i]) ? value(g, to->in[i]) : NULL;
            const Node *from = v ? v->producer : NULL;
            const int down = from ? p->row_of[to->index] - p->row_of[from->index] : 0;

            if (from ? (down > 0 || (!down && p->lane_of[from->index] != p->lane_of[to->index])) &&
                           (p->phase[from->index] != PHASE_FORWARD || p->phase[to->index] <= PHASE_CRITERION)
                     : v && v->kind == V_INPUT)
                edge[n_edge++] = (Edge){ from ? place_of_node(p, from) : -1, place_of_node(p, to), to->in[i].i, 1 };
        }
    if (n_edge)
        qsort(edge, (size_t)n_edge, sizeof *edge, compare_edges);
    for (int i = 0; i < n_edge; i++) {
        Edge *last = kept ? &edge[kept - 1] : NULL;
        const Edge e = edge[i];

        if (last && last->to == e.to && last->from == e.from && (e.from >= 0 || last->value == e.value))
            last->count += last->value != e.value;
        else
            edge[kept++] = e;
    }
    *out = edge;
    *count = kept;
    return ST_OK;
}

static void print_edge(FILE *f, const Picture *p, const Edge *e, bool labelled)
{
    const Value *v = value(p->g, (ValueId){ e->value });
    const int lanes = p->n_lane + 1;
    char shape[SHAPE_TEXT];

    if (e->from < 0)
        fprintf(f, "  v%u", e->value);
    else
        fprintf(f, "  n%d", e->from);
    fprintf(f, " -> n%d [tooltip=\"", e->to);
    dot_text(f, v->name, NAME_MAX);
    fputs(labelled ? "\", label=\"" : ": ", f);
    if (e->count > 1)
        fprintf(f, "%d values", e->count);
    else
        fprintf(f, "%s%s", dtype_name(v->dtype), shape_text(v->shape, shape));
    fputs(e->from >= 0 && e->from / lanes == e->to / lanes && e->from > e->to ? "\", constraint=false];\n" : "\"];\n",
          f); /* up, to a replica */
}

/* ---- boxes and bars ---- */

/* Lines of at most LINE_CHARS bytes, broken at blanks. */
static void print_label(FILE *f, const char *s)
{
    for (size_t n, end; *s; s += n) {
        char line[LABEL_MAX];

        s += strspn(s, " ");
        n = strlen(s);
        for (end = LINE_CHARS; n > LINE_CHARS && end > 0 && s[end] != ' ';)
            end--;
        n = n <= LINE_CHARS ? n : end ? end : strcspn(s, " ");
        snprintf(line, sizeof line, "%.*s", (int)n, s);
        dot_text(f, line, LABEL_MAX);
        fputs("\\n", f);
    }
}

static void print_tooltip(FILE *f, const Picture *p, int place)
{
    fputs("\", tooltip=\"", f);
    FOR_NODES(p->g, n)
        if (place_of_node(p, n) == place) {
            dot_text(f, n->name, NAME_MAX);
            fprintf(f, " (%s", n->op->name);
            picture_tensors(f, p->g, n, dot_text);
            fputs(")\\n", f);
        }
    fputs("\"];\n", f);
}

static Status print_bar(FILE *f, const Picture *p, int row, Arena *a)
{
    const Exchange e = exchange_of(p->row[row].bar);
    const char *label = picture_bar(a, p, row);

    if (!label)
        return FAIL_NOMEM();
    fprintf(f, "  n%d [shape=box, style=\"filled,rounded\", fontcolor=\"#ffffff\", fillcolor=\"%s\", label=\"",
            place_of(p, row, -1), picture_bar_colour(&e));
    print_label(f, label);
    print_tooltip(f, p, place_of(p, row, -1));
    return ST_OK;
}

/* ---- frames ---- */

/* The boxes of a lane, in a frame for each phase. */
static void print_phases(FILE *f, const Picture *p, int lane)
{
    int open = -1;

    for (int k = 0; k < p->n_row; k++) {
        const Row *r = &p->row[k];

        if (!r->cell || !r->cell[lane].label)
            continue;
        if (open != r->phase) {
            fprintf(f, "%s  subgraph \"cluster_%d_%d\" {\n  color=\"#bbbbbb\"; label=\"%s\";\n",
                    open >= 0 ? "  }\n" : "", lane, r->phase, phase_name(r->phase));
            open = r->phase;
        }
        fprintf(f, "  n%d [shape=box, style=filled, fillcolor=\"%s\", label=\"", place_of(p, k, lane), fills[r->phase]);
        print_label(f, r->cell[lane].label);
        if (r->cell[lane].of)
            print_label(f, r->cell[lane].of);
        if (r->repeats > 1)
            fprintf(f, "x%d\\n", r->repeats);
        print_tooltip(f, p, place_of(p, k, lane));
    }
    fputs(open >= 0 ? "  }\n" : "", f);
}

static void print_lane(FILE *f, const Picture *p, int i)
{
    const Lane *lane = &p->lane[i];
    int64_t from, n;

    if (lane->replica < 0) {
        print_phases(f, p, i);
        return;
    }
    picture_samples(p, lane->replica, &from, &n);
    fprintf(f, "  subgraph \"cluster_r%d\" {\n  color=\"#888888\"; label=\"replica %d", lane->replica, lane->replica);
    if (p->scatter && !n)
        fputs(", no samples", f);
    else if (n)
        fprintf(f, n > 1 ? ", samples %lld to %lld" : ", sample %lld", (long long)from, (long long)(from + n - 1));
    fputs("\";\n", f);
    print_phases(f, p, i);
    fputs("  }\n", f);
}

/* All lanes; those of a device share a frame. */
static void print_lanes(FILE *f, const Picture *p)
{
    for (int i = 0; i < p->n_lane; i++) {
        const int device = p->lane[i].device;

        if (device >= 0 && (!i || p->lane[i - 1].device != device))
            fprintf(f, "  subgraph \"cluster_d%d\" {\n  color=\"#444444\"; label=\"device %d\";\n", device, device);
        print_lane(f, p, i);
        if (device >= 0 && (i + 1 == p->n_lane || p->lane[i + 1].device != device))
            fputs("  }\n", f);
    }
}

static bool is_shared(const Picture *p, int lane) { return lane >= 0 && p->lane[lane].replica < 0; }

/* Puts a row's bar, or its boxes, in one rank: those of replicas, or with `shared` those that a device's replicas
 * share.  Returns the number of the first; -1: there are none. */
static int print_rank(FILE *f, const Picture *p, int row, bool shared)
{
    const Row *r = &p->row[row];
    int first = r->bar && !shared ? place_of(p, row, -1) : -1;

    for (int i = 0; !r->bar && i < p->n_lane && first < 0; i++)
        if (r->cell[i].label && is_shared(p, i) == shared)
            first = place_of(p, row, i);
    if (first < 0)
        return -1;
    fprintf(f, "  {rank=same; n%d;", first);
    for (int i = 0; !r->bar && i < p->n_lane; i++)
        if (r->cell[i].label && is_shared(p, i) == shared && place_of(p, row, i) != first)
            fprintf(f, " n%d;", place_of(p, row, i));
    fputs("}\n", f);
    return first;
}

/* Lets time go down: each row gets a rank below the one before.  Nodes that a device's replicas share, above all the
 * sums of their gradients, stand below the replicas' in a rank of their own, for `dot` loses boxes of frames that have
 * an edge within a rank. */
static void print_ranks(FILE *f, const Picture *p)
{
    for (int k = 0, last = -1; k < 2 * p->n_row; k++) {
        const int first = print_rank(f, p, k / 2, k % 2);

        if (last >= 0 && first >= 0)
            fprintf(f, "  n%d -> n%d [style=invis];\n", last, first);
        last = first < 0 ? last : first;
    }
}

/* The inputs and outputs of the graph. */
static void print_ends(FILE *f, const Picture *p)
{
    const Graph *g = p->g;

    for (int i = 0; i < g->n_input; i++) {
        char shape[SHAPE_TEXT];
        const Value *v = value(g, g->input[i]);

        fprintf(f, "  v%u [shape=ellipse, label=\"", g->input[i].i);
        dot_text(f, v->name, NAME_MAX);
        fprintf(f, "\\n%s%s\"];\n", dtype_name(v->dtype), shape_text(v->shape, shape));
    }
    for (int i = 0; i < g->n_output; i++) {
        const Value *v = value(g, g->output[i].value);

        fprintf(f, "  o%d [shape=ellipse, peripheries=2, label=\"", i);
        dot_text(f, g->output[i].name, NAME_MAX);
        fputs("\"];\n", f);
        if (v->producer)
            fprintf(f, "  n%d -> o%d;\n", place_of_node(p, v->producer), i);
        else if (v->kind == V_INPUT)
            fprintf(f, "  v%u -> o%d;\n", g->output[i].value.i, i);
    }
}

static Status print_picture(FILE *f, const Picture *p, const Graph *model, Arena *a)
{
    Edge *edge;
    int n_edge;

    TRY(find_edges(&edge, &n_edge, p, a));
    fputs("digraph \"", f);
    dot_text(f, p->g->name, NAME_MAX);
    fputs("\" {\n  newrank=true;\n  ranksep=0.25;\n  nodesep=0.1;\n  node [fontname=\"Helvetica\", fontsize=10];\n  "
          "edge [fontname=\"Helvetica\", "
          "fontsize=8];\n",
          f);
    if (model) {
        fputs("  subgraph \"cluster_model\" {\n  label=\"the model, before\";\n", f);
        TRY(graph_dot_part(f, model, "m", n_edge > LABELLED_EDGES));
        fputs("  }\n", f);
    }
    for (int k = 0; k < p->n_row; k++)
        if (p->row[k].bar)
            TRY(print_bar(f, p, k, a));
    print_lanes(f, p);
    print_ranks(f, p);
    print_ends(f, p);
    for (int i = 0; i < n_edge; i++)
        print_edge(f, p, &edge[i], n_edge <= LABELLED_EDGES);
    fputs("}\n", f);
    return ferror(f) ? FAIL(E_IO, "writing the picture of graph '%s' failed", p->g->name) : ST_OK;
}

Status picture_dot(FILE *f, const Graph *g, const Graph *model)
{
    Arena *a = arena_create_beside(g->arena);
    Picture p;
    Status st = a ? picture_fold(&p, g, a) : FAIL_NOMEM();

    if (!st)
        st = print_picture(f, &p, model, a);
    arena_free(a);
    return st;
}
