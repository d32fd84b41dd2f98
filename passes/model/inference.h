/* The model as it is used out of training: by evaluation and inference here, and by whoever reads the file that is
 * exported. */
#ifndef DPX_INFERENCE_H
#define DPX_INFERENCE_H

#include "graph/ir/graph.h"

/* ---- passes/model/stochastic_depth.c ---- */
/* A place where training drops a branch, or a part of one, at random: out of training `out` is `by`. */
typedef struct {
    ValueId out, by;
    const Node *node;
} DropSite;
typedef struct {
    DropSite *site;
    int n;
    size_t cap;
} DropSites;

/* In the order of the nodes, in `a`.  Shapes and types may be unknown. */
Status drop_sites_find(DropSites *out, const Graph *g, Arena *a) CHECKED;
/* The masks are dead then, if nothing else reads them. */
Status drop_sites_remove(Graph *g, const DropSites *sites, Arena *a) CHECKED;

/* ---- passes/model/inference.c ---- */
/* A whole model, which goes to other runtimes: no operator is in training mode, nothing is dropped, and what nothing
 * needs any more is gone.  Names, symbolic dimensions and types stay. */
Status inference_make(Graph *g) CHECKED;

#endif
