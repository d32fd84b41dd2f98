/* Equal tensors and nodes that a simplifier merged: onnxsim's lists of its work, the module of a node, and the readers
 * that meant copies (merged_copies.c). */
#ifndef DPX_MODEL_MERGED_COPIES_H
#define DPX_MODEL_MERGED_COPIES_H

#include "graph/ir/readers.h"
#include "passes/pass.h"

/* A node that onnxsim removed. */
typedef struct {
    const char *op, *name;
    bool taken;
} Removed;

/* onnxsim's lists of its work; for other files all are empty. */
typedef struct {
    Removed *node;
    const char **changed, **value;
    int n_node, n_changed, n_value;
    bool listed, cut; /* there are lists; one is written incompletely */
} SimplifierTrace;

/* Reads the lists from the file's metadata. */
Status trace_read(SimplifierTrace *out, const Graph *g, Arena *a) CHECKED;
/* Did onnxsim change an input of the node of this name? */
bool trace_changed(const SimplifierTrace *t, const char *node);
/* Is it the name of a removed parameter that the graph still lacks? */
bool trace_lacks(const SimplifierTrace *t, const Graph *g, const char *name);

/* The name that modules give to the parameter at this input of an operator ("weight"); NULL: there is no common name.
 */
const char *place_name(const Node *n, int in);
/* The path of the node's module, by the exporter's metadata or PyTorch's older exporter's name of the node
 * ("/encoder/layers.0/fc/Gemm"); "" is the model itself; NULL: unknown. */
Status node_scope(const char **out, const Node *n, Arena *a) CHECKED;

/* The parameter that a reader means, if the exporter's own record does not show it. */
typedef struct {
    const char *name; /* NULL: the tensor's own */
    bool open;        /* the tensor itself or a copy: the file does not show which */
} Meant;

/* *out: an array with an entry for each reader in `r`, in its order. */
Status copies_find(Meant **out, const Graph *g, const Uses *r, const SimplifierTrace *t, Arena *a) CHECKED;
/* Warns of tensors and nodes that may have been merged and stay one. */
Status copies_warn(const Graph *g, const Uses *r, const Meant *meant, const SimplifierTrace *t, PassCtx *ctx) CHECKED;

#endif
