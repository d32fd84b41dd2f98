/* A model's graph as TensorBoard shows it: a GraphDef of TensorFlow. */
#ifndef DPX_TOOLS_GRAPH_DEF_H
#define DPX_TOOLS_GRAPH_DEF_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/status.h"

/* Packs a graph that dpx_transform has written as "json"; the caller frees *bytes.  Inputs become nodes with operator
 * "Placeholder", stored tensors "Const".  Slashes in names are scopes.  `shaped` is the graph at a later stage, which
 * has the shapes of more of its values. */
Status graph_def_pack(uint8_t **bytes, size_t *n, const json_t *graph, const json_t *shaped) CHECKED;

#endif
