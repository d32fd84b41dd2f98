/* The model out of training: for evaluation and inference, and for exported files. */
#ifndef DPX_INFERENCE_H
#define DPX_INFERENCE_H

#include "graph/ir/graph.h"

/* ---- passes/model/stochastic_depth.c ---- */
/* A place where training drops a branch, or a part of one, at random; out of training `by` replaces `out`. */
typedef struct {
    ValueId out, by;
    const Node *node;
} DropSite;
typedef struct {
    DropSite *site;
    int n;
    size_t cap;
} DropSites;

/* Lists the sites in the order of the nodes, in `a`.  Shapes and types may be unknown. */
Status drop_sites_find(DropSites *out, const Graph *g, Arena *a) CHECKED;
/* Replaces each `out`.  Masks that no other node reads become dead. */
Status drop_sites_remove(Graph *g, const DropSites *sites, Arena *a) CHECKED;

/* ---- passes/model/inference.c ---- */
/* Prepares a whole model for other runtimes: puts every operator out of training mode, keeps all branches, and removes
 * dead nodes.  Names, symbolic dimensions and types stay. */
Status inference_make(Graph *g) CHECKED;

#endif
