/* Two graphs that must compute the same, run by the interpreter: a graph before and after a pass, a step with and
 * without one. */
#ifndef DPX_TESTS_COMPARE_H
#define DPX_TESTS_COMPARE_H

#include "graph/ir/graph.h"
#include "graph/ir/target.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    Arena *arena;
    const Tensor **values;
} Compared;

/* A training step in float64 with cross-entropy, whose outputs include all gradients. */
typedef struct {
    const char *name;     /* of models/NAME.onnx, or of the text */
    const char *text;     /* the model in the text form; or NULL */
    const char *settings; /* of the loss */
    int64_t batch, chunk_rows;
    int replicas; /* above 1, they lie on two devices [1] */
    BuildMode mode;
    double loss_scale; /* 0: none */
    bool accuracy, local_batch_norm;
    Target target;
} StepCase;

void compared_free(Compared *r);
/* The step as all passes make it, on random inputs that are the same for all options. */
Status compared_step(Compared *r, const StepCase *step) CHECKED;
/* Fails the running test where an output differs: in norm by more than `limit` and 1e-15 of the largest of all outputs,
 * or at all. */
void compare_outputs(const char *what, const Compared *found, const Compared *expected, double limit);
/* Likewise the next values of the states, of which 1e-15 counts as none. */
void compare_updates(const char *what, const Compared *found, const Compared *expected, double limit);
/* The graphs "before" of tests/passes/golden/NAME against what the pass makes of them, for two devices that fuse
 * everything; how many there are. */
int compare_golden(const char *name, const Pass *pass);

#endif
