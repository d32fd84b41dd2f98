/* Traces of a simplifier (onnxsim) that rewrote the exported file: texts that the graph, and so each copy of it, keeps
 * as constants without readers. */
#ifndef DPX_SIMPLIFIER_TRACES_H
#define DPX_SIMPLIFIER_TRACES_H

#include "graph/ir/graph.h"

/* Lists in onnxsim's metadata, which end after some entries with "... (+5 more)". */
#define REMOVED_NODES "onnxsim.removed_nodes"   /* "Gemm (/b/Gemm), Relu (/b/Relu)" */
#define CHANGED_NODES "onnxsim.changed_nodes"   /* "Relu (/Relu) -> Relu (/Relu), ..." */
#define REMOVED_VALUES "onnxsim.removed_values" /* "b.bias, b.weight" */
#define SIMPLIFIER "dpexec.simplifier"          /* the tool's name: ONNXSIM if the lists are there, else "a tool" */
#define ONNXSIM "onnxsim"

Status simplified_set(Graph *g, const char *key, const char *text) CHECKED;
const char *simplified_text(const Graph *g, const char *key); /* "": there is none */

#endif
