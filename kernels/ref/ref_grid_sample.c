/* GridSample and its gradient: for each position a list of elements with their weights, which all channels share. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/grid_sample.gen.h"
#include "kernels/ref/ref.h"

enum { AXES_MAX = 3, CORNERS_MAX = 64 };
enum { NEAREST, LINEAR, CUBIC };
enum { ZEROS, BORDER, REFLECTION };

/* x[samples, channels, size], grid[samples, positions, axes], y[samples, channels, positions]. */
typedef struct {
    int64_t samples, channels, size, positions, dim[AXES_MAX];
    int axes, mode, padding, taps;
    bool align, elements, has_grid;
} Plan;

static Status ref_grid_sample_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool back = n->op == &op_GridSampleGrad;
    const Shape *x = in_value(g, n, back)->shape, *grid = in_value(g, n, back + 1)->shape;
    const char *mode = node_string(n, "mode"), *padding = node_string(n, "padding_mode");
    Plan p = { .samples = x->dim[0],
               .channels = x->dim[1],
               .size = shape_count(x, 2, x->rank),
               .positions = shape_count(grid, 1, grid->rank - 1),
               .axes = x->rank - 2,
               .mode = !strcmp(mode, "nearest")  ? NEAREST
                       : !strcmp(mode, "linear") ? LINEAR
                                                 : CUBIC,
               .padding = !strcmp(padding, "zeros")    ? ZEROS
                          : !strcmp(padding, "border") ? BORDER
                                                       : REFLECTION,
               .align = node_int(n, "align_corners") != 0,
               .elements = node_int(n, "elements") != 0,
               .has_grid = has_out(n, 1) };

    (void)ctx;
    p.taps = 1 << p.mode;
    for (int i = 0; i < p.axes; i++)
        p.dim[i] = x->dim[2 + i];
    return kernel_state(state, &p, sizeof p);
}

/* Which of a position's numbers is along axis a. */
static int number_of(const Plan *p, int a) { return p->elements ? a : p->axes - 1 - a; }

#define BODY "kernels/ref/ref_grid_sample.inc"
#include "kernels/each_type.inc"

#define GIVEN(t, has) (((const Plan *)state)->has ? (t).data : NULL)
RUN_FLOAT(run, sample, state, in[0].data, in[1].data, out[0].data)
RUN_FLOAT(run_back, sample_grad, state, in[0].data, in[1].data, in[2].data, out[0].data, GIVEN(out[1], has_grid))

static bool one_type(const Graph *g, const Node *n) { return in_value(g, n, 1)->dtype == in_value(g, n, 0)->dtype; }

#define COMMON .dtypes = DTYPES_F32_F64, .supports = one_type, .prepare = ref_grid_sample_prepare, .release = free

DEFINE_KERNEL(ref_grid_sample, .op = &op_GridSample, COMMON, .run = run);
DEFINE_KERNEL(ref_grid_sample_grad, .op = &op_GridSampleGrad, COMMON, .run = run_back);
