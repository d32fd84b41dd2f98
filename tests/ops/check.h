/* The checks that every case goes through.  Each returns E_INTERNAL with a message when the operator or a kernel is
 * wrong, and counts what it compared: a case in which nothing was compared has not been tested. */
#ifndef DPX_TESTS_OPS_CHECK_H
#define DPX_TESTS_OPS_CHECK_H

#include "kernels/backend.h"
#include "tests/ops/case.h"

typedef struct {
    const Case *c;
    Arena *arena;
    int compared; /* tensors held against an independent result */
} Check;

enum { CHECK_OUTPUTS = 96 };

/* One way to evaluate the case: its graph, data of its inputs, and what came out. */
typedef struct {
    Graph *g;
    Tensor *in[CASE_ARGS];
    int n_out;
    const Tensor *out[CHECK_OUTPUTS];
} Eval;

/* Elements agree within `tol` of the largest expected one (at least of 1); integers exactly; NaN with NaN. */
Status check_equal(const Tensor *found, const Tensor *expected, double tol, const char *what) CHECKED;

/* |found - expected|_2 is at most tol |expected|_2, of the elements that are finite in both; which are not is
 * check_equal's. */
Status check_norm(const Tensor *found, const Tensor *expected, double tol, const char *what) CHECKED;

/* Runs a graph of the case (lowered or not) by the interpreter: outputs in the graph's order. */
Status eval_graph(Eval *e, Arena *a) CHECKED;
/* The case with its reference: by the operator's own kernel, else by lowering it. */
Status eval_reference(Eval *e, Check *k, DType f) CHECKED;
/* In place: lower, infer, fold. */
Status lower_graph(Graph *g) CHECKED;
void eval_free(Eval *e);

/* ---- whole graphs of up to so many inputs, which have an output "loss" ---- */
enum { CHECK_INPUTS = 7 };
extern const char *const gradient_names[CHECK_INPUTS];
/* Lowered, with the loss's gradients by the inputs as outputs of these names, in their order. */
Status graph_with_gradients(Graph **out, Arena *a, const char *text) CHECKED;

/* `e` evaluated in float32 and float64, by lowering, and against the expected values of the case. */
Status check_reference(Check *k) CHECKED;
/* One kernel on the data of `e`, guard bytes around every buffer, in place where OpDef allows it, with 1 and 3
 * threads, which give the same bits but for oneDNN's convolutions. */
Status check_kernel(Check *k, const Eval *e, const Kernel *kernel, double tol) CHECKED;
/* All candidates for the node; those of kernels/cpu and kernels_cuda count as compared. */
Status check_kernels(Check *k, const Eval *e) CHECKED;
Status check_cuda_kernels(Check *k, const Eval *e, double tol) CHECKED;
/* The CUDA kernels with "f" read as float16 and as bfloat16, against the float64 reference on the rounded inputs. */
Status check_half(Check *k) CHECKED;
/* Gradients of a random weighting of the outputs by every float64 input against central differences. */
Status check_gradient(Check *k, const Eval *e) CHECKED;
/* The case in a 16-bit type has a gradient, each part of it of the type of its input. */
Status check_half_gradient(Check *k, const Graph *g, DType type) CHECKED;
/* Every way to split one or two inputs, by the placement rules, over 2 and 3 replicas of uneven parts, against
 * e->out. */
Status check_split(const Check *k, const Eval *e) CHECKED;
/* Where a node's rule lets partial sums pass, the parts' results add up to the whole's. */
Status check_linear(const Check *k, const Eval *e) CHECKED;
/* What OpDef says of each node (same, moves, OPF_SUM, span_in) is so. */
Status check_claims(const Check *k, const Eval *e) CHECKED;
/* All of the above. */
Status check_case(Check *k) CHECKED;

#endif
