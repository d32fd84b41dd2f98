/* Strided copies on the device: shared by Transpose, Expand, Tile, Slice and similar operators. */
#ifndef DPX_CUDA_CUDA_MOVE_H
#define DPX_CUDA_CUDA_MOVE_H

#include "graph/tensor/shape.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/device/params.h"

enum { MOVE_WIDTHS = 5 }; /* units of 1, 2, 4, 8, 16 bytes: index log2 */

typedef enum { MOVE_NOTHING, MOVE_ALL, MOVE_UNITS, MOVE_SPLAT, MOVE_TILES } MoveKind;

/* A copy to[i . ts] = from[i . fs] for every i of a box, in elements of `size` bytes, dimensions innermost first. */
typedef struct {
    MoveKind kind;
    size_t size, unit; /* unit: bytes that the inner dimension and all strides are multiples of, at most 16 */
    int rank, a;       /* a: the dimension along which the source is contiguous */
    int64_t n, dim[MOVE_RANK], to[MOVE_RANK], from[MOVE_RANK];
    GpuKernel
        *kernel[MOVE_WIDTHS]; /* MOVE_UNITS: by width; MOVE_SPLAT: [0]; MOVE_TILES: [reads in vectors + 2 writes] */
} MovePlan;

/* A copy as an operator describes it: dimensions outermost first, the elements at which both sides begin. */
enum { MOVE_DIMS = 2 * MAX_RANK };
typedef struct {
    int rank;
    int64_t dim[MOVE_DIMS], to[MOVE_DIMS], from[MOVE_DIMS];
    int64_t to0, from0;
} MoveDims;

/* Strides are in elements; a source's may be 0 or negative.  False: after merging more
 * dimensions are left than a kernel takes. */
bool move_plan(MovePlan *out, size_t size, const MoveDims *d);
/* Finds the kernels that move_run will launch. */
Status move_prepare(MovePlan *p, const KernelCtx *ctx) CHECKED;
Status move_run(const KernelCtx *ctx, const MovePlan *p, void *to, const void *from) CHECKED;

/* n elements of `size` bytes. */
Status move_same(const KernelCtx *ctx, void *to, const void *from, size_t bytes) CHECKED;

Divisor divisor_of(int64_t d);
/* The widest unit of at most 16 bytes that divides all of these byte counts or addresses. */
static inline size_t unit_of(uint64_t bits) { return bits & 15 ? (size_t)(bits & -bits & 15) : 16; }
static inline int log2_of(size_t unit) { return unit == 16 ? 4 : unit == 8 ? 3 : unit == 4 ? 2 : unit == 2 ? 1 : 0; }
/* "<base>_<width>" for each width from `least` to `most` bytes. */
Status unit_kernels(GpuKernel *kernel[MOVE_WIDTHS], const KernelCtx *ctx, const char *base, size_t least,
                    size_t most) CHECKED;
/* Blocks for n units dealt to threads as first_unit() of device/index.cuh says. */
static inline unsigned move_blocks(int64_t n) { return cuda_blocks(n, MOVE_THREADS * MOVE_PER_THREAD, INT32_MAX); }

#endif
