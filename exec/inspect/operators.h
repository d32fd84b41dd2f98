/* The operators of ONNX that are taken, and what becomes of each. */
#ifndef DPX_INSPECT_OPERATORS_H
#define DPX_INSPECT_OPERATORS_H

#include <stdbool.h>
#include <stdio.h>

#include "graph/base/status.h"

/* As a table, or as JSON: an array of objects, ordered by name. */
Status operators_print(FILE *to, bool json) CHECKED;

#endif
