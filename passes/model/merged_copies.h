/* Tensors and nodes that a simplifier made one of several: what onnxsim lists, which module a reader is of by its name,
 * and which copies of a layer that shows (merged_copies.c). */
#ifndef DPX_MODEL_MERGED_COPIES_H
#define DPX_MODEL_MERGED_COPIES_H

#include "graph/ir/readers.h"
#include "passes/pass.h"

/* A node that onnxsim removed. */
typedef struct {
    const char *op, *name;
    bool taken;
} Removed;

/* What onnxsim lists of its work, in lists of their own; all are empty for other files. */
typedef struct {
    Removed *node;
    const char **changed, **value;
    int n_node, n_changed, n_value;
    bool listed, cut; /* there are lists; one is longer than what is written of it */
} Trace;

Status trace_read(Trace *out, const Graph *g, Arena *a) CHECKED;
bool trace_changed(const Trace *t, const char *node);
/* Is the name one of a removed tensor that the graph still lacks? */
bool trace_lacks(const Trace *t, const Graph *g, const char *name);

/* What modules call the parameter at this place of an operator ("weight"); NULL: it has no name of its own. */
const char *place_name(const Node *n, int in);
/* The path of the node's module, by the exporter's metadata or PyTorch's older exporter's name of the node
 * ("/encoder/layers.0/fc/Gemm"); "" is the model itself; NULL: unknown. */
Status node_scope(const char **out, const Node *n, Arena *a) CHECKED;

/* The parameter that a reader means where the file's own scopes do not tell. */
typedef struct {
    const char *name; /* NULL: the tensor's own */
    bool open;        /* it could be that one, or a copy of it */
} Meant;

/* Of each reader in `r`, in its order. */
Status copies_find(Meant **out, const Graph *g, const Uses *r, const Trace *t, Arena *a) CHECKED;
/* Warns of what may have been merged and was not made several again. */
Status copies_warn(const Graph *g, const Uses *r, const Meant *meant, const Trace *t, PassCtx *ctx) CHECKED;

#endif
