/* Operators of an embedder for tests: Twice, Ramp (with a parameter and an attribute), Tap (impure) and Centre (of the
 * whole batch), in the models own.onnx and function.onnx of this folder; and a step of such a model. */
#ifndef DPX_TESTS_OPERATORS_BENCH_H
#define DPX_TESTS_OPERATORS_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "tests/operators/own.h"

enum { MOST = 11, WIDTH = 4, CLASSES = 3 };

typedef struct {
    atomic_int taps, twices, destroyed; /* calls of Tap's and Twice's kernels; ends of operators */
    dpx_status shape_status;            /* what Twice's shape function returns */
    bool wrong_shape;                   /* it sets a shape that is not its input's */
    bool silent;                        /* it sets none */
    dpx_status run_status;              /* what its kernels return */
    bool nodes;                         /* gradients are nodes */
    dpx_node_fn *shape, *make_gradient; /* Twice's, instead of its own; NULL: those */
    int asked;
    void (*meet)(dpx_node *n); /* what Tap does besides; NULL: nothing */
    bool older;                /* Twice is of a dpexec.h that ends with `destroy` */
} Bench;

/* `wide`: Twice has a kernel in float64. */
dpx_operators *bench_operators(Bench *b, bool wide);
/* Of one input and output of one shape. */
dpx_operator bench_operator(const char *name, const dpx_kernels *k, unsigned flags, Bench *b);
/* y = x, which is counted. */
extern const dpx_kernels bench_tap;

/* A batch in float64, the same whenever it is called. */
dpx_status bench_step(dpx_trainer *t, int samples, dpx_result *r);
dpx_status bench_evaluate(dpx_trainer *t, int samples, dpx_result *r);

#endif
