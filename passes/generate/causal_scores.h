/* What is known of attention scores of later keys, entries [.., query, .., key, ..] with key > query, and of a query's
 * own key, key = query. */
#ifndef DPX_PASS_CAUSAL_SCORES_H
#define DPX_PASS_CAUSAL_SCORES_H

#include "graph/ir/op.h"

/* Each entry of one of these sets is a number in [low, high]; with `any`, the sum of one and of an ordinary number. */
typedef struct {
    bool any;
    double low, high;
} Later;

#define LATER_ANY ((Later){ .any = true })

static inline bool later_is_zero(const Later *x) { return !x->any && x->low == 0 && x->high == 0; }

/* Where scores have their queries and keys: axes, counted from the last one, which is 1. */
typedef struct {
    int query, key;
} ScoreAxes;

/* The entries of a value that no token determines, broadcast to scores of these axes: those of later keys, or those of
 * own keys. */
Later later_of_constant(const Graph *g, ValueId v, ScoreAxes axes, bool own);
/* The entries of the node's output 0; in[i] are those of its inputs. */
Later later_of_node(const Graph *g, const Node *n, const Later *in);
/* Is each later key so low beside the query's own that a softmax along the keys makes it zero, and its sums what they
 * are without it? */
bool later_is_hidden(const Later *x, const Later *own);

#endif
