/* The fixed binary tree by which partial sums of replicas are added.
 *
 * sum(lo, hi) = sum(lo, mid) + sum(mid, hi) with mid = lo + the largest power of two below hi - lo.  The tree depends
 * only on the number of replicas, so the bits do not depend on which device holds which replica or adds which subtree.
 */
#ifndef DPX_REDUCE_TREE_H
#define DPX_REDUCE_TREE_H

#include <stdint.h>

#include "graph/base/status.h"

/* The replica at which the sum over [lo, hi) is split; hi - lo >= 2. */
int64_t reduce_tree_mid(int64_t lo, int64_t hi);

enum { TREE_ADD = -1, TREE_DEPTH = 64 }; /* the stack of a program never holds more than TREE_DEPTH values */

/* `spans` holds n pairs (lo, hi), by increasing lo: part i is the sum over replicas [lo, hi).  Writes the 2n-1 steps
 * that make the whole sum, for a stack machine: i >= 0 pushes part i, TREE_ADD adds the two on top (the lower one
 * first). E_INVALID when the parts are not subtrees that cover [0, R) once. */
Status reduce_tree_program(int *program, const int64_t *spans, int n) CHECKED;

#endif
