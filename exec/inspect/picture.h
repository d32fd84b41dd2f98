/* A partitioned step as a picture.  Time goes down; devices and replicas are lanes side by side; the phases of the step
 * are bands across them; every collective is a bar over the lanes that take part.  A box is what a lane computes
 * between two collectives.  Boxes and bars that repeat are drawn once, with how often they come. */
#ifndef DPX_PICTURE_H
#define DPX_PICTURE_H

#include <stdio.h>

#include "graph/ir/collective.h"
#include "passes/report.h"

/* Colours of collectives by what they do: give what the caller has, gather, sum. */
#define COLOUR_GIVEN "#3f6e8c"
#define COLOUR_JOINED "#6a4c93"
#define COLOUR_SUM "#a33c2a"

static inline const char *picture_bar_colour(const Exchange *e)
{
    return e->sum ? COLOUR_SUM : e->joined ? COLOUR_JOINED : COLOUR_GIVEN;
}

typedef struct {
    int replica, device; /* replica -1: nodes that a device's replicas share; device -1: the host */
} Lane;

typedef struct {
    const char *label; /* operators in a row, "Conv + Relu", repeats folded; NULL: the lane is idle */
    const char *of;    /* the parameters that are read, or whose gradients are computed; NULL: none */
    int nodes;
} Cell;

typedef struct {
    int phase, repeats; /* repeats: how often the row's group comes */
    int group;          /* rows that repeat together have the same number; 0: none */
    Cell *cell;         /* [n_lane]; NULL: a row with a collective */
    const Node *bar;    /* the first collective of the row; NULL: a row of boxes */
    int bars;           /* how many collectives it stands for */
} Row;

typedef struct {
    const Graph *g;
    Lane *lane;
    Row *row;
    int n_lane, n_row;
    const uint8_t *phase;  /* by node index */
    int *row_of, *lane_of; /* by node index; lane -1: a collective */
    const Node *scatter;   /* the first node that splits an input over replicas; NULL: none does */
} Picture;

/* A node's place in time and space. */
typedef struct {
    uint32_t node;
    int phase, after, lane; /* after: collectives on a path to it; lane: n_lane for a collective, which follows boxes */
} Place;

/* Finds lanes, phases and the first scatter of a step; there are no rows yet. */
Status picture_lanes(Picture *out, const Graph *g, Arena *a) CHECKED;
/* The places of all nodes, in the order of the picture; fills lane_of. */
Status picture_places(Place **out, int *count, Picture *p, Arena *a) CHECKED;
/* Folds a step into a picture; all of it is in the arena. */
Status picture_fold(Picture *out, const Graph *g, Arena *a) CHECKED;
/* The samples of a replica, [from, from + n); n 0: it has none, or no input is split. */
void picture_samples(const Picture *p, int replica, int64_t *from, int64_t *n);
/* "Conv + Relu + (Conv + Add) x3": the n operators, repeats folded, at most `links` links and "N more".  NULL: out of
 * memory. */
const char *picture_chain(Arena *a, const char *const *op, int n, int links);

/* Writes the step as SVG, folded into about a screen or two.  `r`, a report of g with predicted seconds, may be NULL.
 * E_IO: writing failed. */
Status picture_svg(FILE *f, const Graph *g, const Report *r) CHECKED;
/* Writes a page, which loads nothing, of the same picture: it folds and unfolds, searches, and shows the path of a
 * sample, a parameter or a gradient. */
Status picture_html(FILE *f, const Graph *g, const Report *r) CHECKED;

/* Writes the picture for Graphviz: boxes and bars as nodes, values between them as edges.  `model`, the graph that the
 * step was made from, is drawn beside it; NULL: it is not. */
Status picture_dot(FILE *f, const Graph *g, const Graph *model) CHECKED;

/* ---- shared by the formats ---- */

/* Writes text of an XML element or attribute: at most `max` bytes, then "..." */
void picture_text(FILE *f, const char *s, size_t max);
/* The bytes that a collective reads. */
int64_t picture_bytes(const Graph *g, const Node *n);
/* The label of a row with a collective, "all-reduce bucket 1 (conv1.weight, fc.bias), 452.4 KiB"; NULL: out of memory.
 */
const char *picture_bar(Arena *a, const Picture *p, int row);
/* Writes the names of a collective's tensors, if it has several: ": gradient of fc.weight, gradient of fc.bias". */
void picture_tensors(FILE *f, const Graph *g, const Node *n, void (*write)(FILE *f, const char *s, size_t max));

#endif
