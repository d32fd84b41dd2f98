/* A graph of one pass under test, stepped by the interpreter with its updates applied. */
#ifndef DPX_TESTS_STEP_H
#define DPX_TESTS_STEP_H

#include "graph/ir/graph.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    Arena *arena;
    const Tensor **values; /* after step_run: what every value was */
    const Tensor **state;  /* by value id: what every state is now */
} Step;

/* Runs one pass on `g`. */
Status step_pass(Graph *g, const Pass *pass, const BuildOptions *opt) CHECKED;
/* Takes the graph. */
Status step_open(Step *s, Graph *g) CHECKED;
void step_close(Step *s);
/* A float64 (int64) tensor of `like`'s shape in the arena. */
Tensor *step_floats(Step *s, const Shape *shape, const double *v);
Tensor *step_ints(Step *s, const Shape *shape, const long long *v);
void step_give(Step *s, const char *input, const Tensor *t);
Status step_run(Step *s) CHECKED;
/* An output of the last step, or a state now; NULL when there is none. */
const Tensor *step_output(const Step *s, const char *name);
const Tensor *step_state(const Step *s, const char *name);
/* Fails the running test when an element differs from `expected` by more than 1e-12 of the largest of them. */
void step_check(const char *what, const Tensor *found, const double *expected, int n);

#endif
