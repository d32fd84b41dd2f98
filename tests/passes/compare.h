/* Two graphs that must compute the same, run by the interpreter: a graph before and after a pass, a step with and
 * without one. */
#ifndef DPX_TESTS_COMPARE_H
#define DPX_TESTS_COMPARE_H

#include "graph/ir/graph.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    Arena *arena;
    const Tensor **values;
} Compared;

void compared_free(Compared *r);
/* A step of models/NAME.onnx, or of `text`, as all passes make it, on random inputs that are the same for all
 * options. */
Status compared_step(Compared *r, const char *name, const char *text, const BuildOptions *opt) CHECKED;
/* Fails the running test where an output differs: in norm by more than `limit` and 1e-15 of the largest of all outputs,
 * or at all. */
void compare_outputs(const char *what, const Compared *found, const Compared *expected, double limit);
/* Likewise the next values of the states, of which 1e-15 counts as none. */
void compare_updates(const char *what, const Compared *found, const Compared *expected, double limit);
/* The graphs "before" of tests/passes/golden/NAME against what the pass makes of them; how many there are. */
int compare_golden(const char *name, const Pass *pass, const BuildOptions *opt);

#endif
