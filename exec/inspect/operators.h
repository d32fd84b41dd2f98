/* Prints the operators that models may use, and how each is computed, differentiated and partitioned. */
#ifndef DPX_INSPECT_OPERATORS_H
#define DPX_INSPECT_OPERATORS_H

#include <stdbool.h>
#include <stdio.h>

#include "graph/base/status.h"

/* Prints a table, or with `json` an array of objects, ordered by name.  E_IO: writing failed. */
Status operators_print(FILE *to, bool json) CHECKED;

#endif
