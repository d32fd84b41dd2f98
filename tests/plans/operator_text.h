/* The text of what the graph side knows of an operator: shapes, gradient, standard form, placements, FLOPs, messages.
 */
#ifndef DPX_TESTS_PLANS_OPERATOR_TEXT_H
#define DPX_TESTS_PLANS_OPERATOR_TEXT_H

#include <stdio.h>

#include "graph/base/status.h"

/* Writes it for each case of the operator in a file of tests/ops/cases, in sections that begin "== NAME". */
Status operator_case_text(FILE *to, const char *path, const char *op) CHECKED;

#endif
