/* Scopes of layers in the names of nodes. */
#ifndef DPX_INSPECT_LAYER_NAME_H
#define DPX_INSPECT_LAYER_NAME_H

#include <stdbool.h>

enum { MOST_LAYER_NAME = 200 };

/* The scope in a node's name as PyTorch's exporter writes it: "layer1.0.relu" of "/layer1/layer1.0/relu/Relu".  false:
 * there is none. */
bool layer_name_scope(char out[MOST_LAYER_NAME], const char *node);

#endif
