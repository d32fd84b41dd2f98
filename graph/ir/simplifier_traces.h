/* Signs of a tool that rewrote an exported file before it came here: texts, which the graph keeps as constants that
 * nothing reads, so that its copies have them too. */
#ifndef DPX_SIMPLIFIER_TRACES_H
#define DPX_SIMPLIFIER_TRACES_H

#include "graph/ir/graph.h"

/* Of onnxsim, which cuts each list after some entries ("... (+5 more)"). */
#define REMOVED_NODES "onnxsim.removed_nodes"   /* "Gemm (/b/Gemm), Relu (/b/Relu)" */
#define CHANGED_NODES "onnxsim.changed_nodes"   /* "Relu (/Relu) -> Relu (/Relu), ..." */
#define REMOVED_VALUES "onnxsim.removed_values" /* "b.bias, b.weight" */
#define SIMPLIFIER "dpexec.simplifier"          /* the tool's name: ONNXSIM where the lists are, or "a tool" */
#define ONNXSIM "onnxsim"

Status simplified_set(Graph *g, const char *key, const char *text) CHECKED;
const char *simplified_text(const Graph *g, const char *key); /* "": there is none */

#endif
