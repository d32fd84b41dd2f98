/* One line of tests/ops/cases/<family>.txt: an operator applied to inputs of given types and shapes.
 *
 *   Conv(f[2,3,5,5], f[4,3,3,3], _) {pads=[1,1,1,1]}
 *       f: float32 and float64; _: absent; attributes as in docs/internals/ir.md
 *
 *   Gather(f[5,3], i64[2,2] in 0..4) {axis=0}
 *       random values from that range, both ends included
 *
 *   Clip(f[3,4], f[] = -0.5, f[] = 1)
 *       given values (one stands for all): a constant of the graph
 *
 *   Split(f[6], i64[2] = 2,4) -> 2
 *       number of outputs, when more than the least; "| no=1": without this one
 *
 *   Add(i64[2] = 1,2, i64[2] = 3,4) => 4,6
 *       expected elements of output 0
 *
 * Types: f f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 b; s: that of statistics of f, float32 where f has 16 bits.
 * Without a range floats are in -2..2, integers in -9..9 or 0..9.
 *
 * What a check cannot be asked for stands behind a bar:
 *
 *   nograd, nosplit     no gradient, no parts
 *   nostandard          OpDef.standard declines, which is checked
 *   of=0,2  by=0,1      outputs that enter the gradient's loss, inputs whose gradient is checked
 *   tol=1e-3            float32 against float64
 *   cuda                only CUDA's kernels are compared, with the plain ones; a build without CUDA devices, simulated
 *                       or not, leaves the case out */
#ifndef DPX_TESTS_OPS_CASE_H
#define DPX_TESTS_OPS_CASE_H

#include "graph/ir/op.h"

enum { CASE_ARGS = 96, CASE_VALUES = 512, CASE_TEXT = 2048 };

typedef struct {
    bool absent;
    bool any_float; /* "f" */
    bool statistic; /* "s": float64 where "f" is, else float32 */
    DType dtype;
    Shape shape;
    bool has_range;
    double lo, hi;
    int n_value; /* given values: a constant */
    double value[CASE_VALUES];
} CaseArg;

typedef struct {
    char line[CASE_TEXT];
    char op[96]; /* "Conv", "dpexec.AllReduce" */
    int n_arg, n_out;
    CaseArg arg[CASE_ARGS];
    char attrs[CASE_TEXT]; /* with the braces, or "" */
    int n_expected;
    double expected[CASE_VALUES];
    bool nograd, nosplit, nostandard, cuda;
    unsigned of, by, no; /* bits */
    double tol;
} Case;

Status case_parse(Case *out, const char *line) CHECKED;
bool case_has_f(const Case *c);
/* The graph with one node; inputs %x0 %x1 ..., outputs %y0 ..., all of them listed.  "f" is read as `f`. */
Status case_graph(Graph **out, const Case *c, DType f) CHECKED;
/* Data of every input, the same numbers whatever `f` is (they are exact in float32); NULL for absent ones and
 * constants. */
Status case_inputs(Tensor **in, Arena *a, const Case *c, DType f) CHECKED;

/* Stores all that the node reads and writes and that has channels in the layout; false when there is nothing. */
bool case_set_layouts(const Graph *g, const Node *n, Layout to);
/* Stores its filters (OpDef.filter_in) by rows; false when they are. */
bool case_filters_by_rows(const Graph *g, const Node *n);

#endif
