/* Nodes that are equal to a kernel.  Deep chains hold thousands of them, and one prepared call serves all. */
#ifndef DPX_EQUAL_CALLS_H
#define DPX_EQUAL_CALLS_H

#include "exec/plan/prepared.h"

typedef struct EqualCalls EqualCalls;

EqualCalls *equal_calls_create(const Graph *g); /* NULL: out of memory */
void equal_calls_free(EqualCalls *a);           /* NULL is legal */
/* The call noted before that has this one's kernel and a node like its own: of the same attributes and constants, whose
 * values have the same types, shapes and layouts.  NULL: none has; then this one is noted. */
const Call *equal_calls_find(EqualCalls *a, const Call *c);

#endif
