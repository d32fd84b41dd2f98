/* Graphs of the user's own around a model: in front of it (--preprocess; --augment-graph, in training only), and behind
 * it the loss (--criterion).  docs/reference/semantics.md says how they are bound. */
#ifndef DPX_ATTACH_H
#define DPX_ATTACH_H

#include "exec/train/options.h"
#include "graph/onnx/onnx.h"

/* Do the options name one? */
static inline bool attaches_graphs(const Options *o) { return o->preprocess || o->augment || o->criterion; }

/* A copy of the model with the graphs that the options name; NULL: they name none.  `onnx`: what its file declares;
 * `own`, which may be NULL, outlives it.  E_INVALID, too: the options give a value to an input that no file has. */
Status attach_graphs(Graph **out, const Graph *model, const OnnxModel *onnx, const Options *o,
                     const OperatorList *own) CHECKED;
/* A copy of the model with the graph of `path` in front of it, for export: it may take strings.  *opset: that of its
 * file, whose types an older one may not have. */
Status attach_preprocess(Graph **out, int *opset, const Graph *model, const OnnxModel *onnx, const Options *o,
                         const OperatorList *own, const char *path) CHECKED;

#endif
