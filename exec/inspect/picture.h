/* A partitioned step as a picture that a person reads: time goes down, devices and replicas are lanes side by side, the
 * phases of the step are bands across them, and every collective is a bar over the lanes that meet in it.  What a lane
 * computes between two collectives is one box; boxes and bars that repeat are drawn once, with how often they come. */
#ifndef DPX_PICTURE_H
#define DPX_PICTURE_H

#include <stdio.h>

#include "graph/ir/graph.h"

typedef struct {
    int replica, device; /* replica -1: what a device's replicas share; device -1: the host */
} Lane;

typedef struct {
    const char *label; /* operators in a row, "Conv + Relu", repeats folded; NULL: nothing happens here */
    const char *of;    /* the parameters that are read, of a backward pass those whose gradients are made; NULL: none */
    int nodes;
} Cell;

typedef struct {
    int phase, repeats; /* repeats: of the group of rows that it begins or belongs to */
    int group;          /* rows that repeat together have the same number; 0: none */
    Cell *cell;         /* [n_lane], of a row of boxes */
    const Node *bar;    /* of a row with a collective: the first */
    int bars;           /* how many it stands for */
} Row;

typedef struct {
    const Graph *g;
    Lane *lane;
    Row *row;
    int n_lane, n_row;
    const uint8_t *phase;  /* by node index */
    int *row_of, *lane_of; /* by node index; lane -1: a collective */
    const Node *scatter;   /* which first shares an input out to replicas; NULL: none does */
} Picture;

/* In the arena. */
Status picture_fold(Picture *out, const Graph *g, Arena *a) CHECKED;
/* The samples of a replica, [from, from + n); n 0: it has none, or nothing says. */
void picture_samples(const Picture *p, int replica, int64_t *from, int64_t *n);
/* "Conv + Relu + (Conv + Add) x3" of the operators, at most `links` and "N more"; NULL: no memory. */
const char *picture_chain(Arena *a, const char *const *op, int n, int links);

/* `model`: what the step was made of, drawn beside it; may be NULL.  E_IO when writing failed. */
Status picture_svg(FILE *f, const Graph *g, const Graph *model) CHECKED;
/* The same with what one can ask of it: the way of a sample, a parameter, a gradient.  Needs nothing besides. */
Status picture_html(FILE *f, const Graph *g, const Graph *model) CHECKED;

/* Boxes and bars for Graphviz, with what goes from one to the other as edges. */
Status picture_dot(FILE *f, const Graph *g, const Graph *model) CHECKED;

/* ---- what they write ---- */
/* Text of an element or attribute; at most `max` characters, then "..." */
void picture_text(FILE *f, const char *s, size_t max);
Status picture_draw(FILE *f, const Picture *p, const Graph *model, Arena *a) CHECKED;
/* Bytes that the collective takes in. */
int64_t picture_bytes(const Graph *g, const Node *n);
/* "all-reduce bucket 1 (conv1.weight, fc.bias), 452.4 KiB", of a row with a collective; NULL: no memory. */
const char *picture_bar(Arena *a, const Picture *p, int row);
/* The names of its tensors, ": gradient of fc.weight, gradient of fc.bias", where there are several. */
void picture_tensors(FILE *f, const Graph *g, const Node *n, void (*write)(FILE *f, const char *s, size_t max));

#endif
