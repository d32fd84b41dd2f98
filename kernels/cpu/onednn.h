/* The interface to oneDNN: a primitive made once from dense tensors, run many times without allocating.
 *
 * Where a primitive is faster in another layout than a tensor's, the conversions are part of the object and their
 * buffers part of the kernel's scratch.  An object belongs to one thread at a time; it has
 * an engine and a stream of its own (both are small, and oneDNN's cache of generated code is shared by all), so it
 * needs nothing from the device but its team: primitives are made for, and run by, KernelCtx.n_threads OpenMP
 * threads. */
#ifndef DPX_CPU_ONEDNN_H
#define DPX_CPU_ONEDNN_H

#include "graph/ops/window.h"
#include "kernels/backend.h"

typedef struct Onednn Onednn;

typedef enum { ONEDNN_CONV_FORWARD, ONEDNN_CONV_INPUT, ONEDNN_CONV_WEIGHT } OnednnConv;

typedef struct {
    Window win;
    int64_t batch, group, in_channels, out_channels; /* of all groups together */
    bool bias;                                       /* ONEDNN_CONV_FORWARD only */
    Layout x, y;                                     /* as these are stored; weights are by rows */
} OnednnConvShape;

/* Is there a primitive's layout for it? */
bool onednn_stores(Layout l);
/* The blocks of channels that primitives of this processor work on. */
Layout onednn_blocked(void);

/* float32 convolution.  E_UNSUPPORTED when oneDNN has no implementation.  Raises ctx->scratch_bytes. */
Status onednn_conv(Onednn **out, KernelCtx *ctx, OnednnConv what, const OnednnConvShape *s) CHECKED;
/* In the roles of the forward pass: x, w, b (NULL without bias), y. */
Status onednn_conv_run(Onednn *d, KernelCtx *ctx, void *x, void *w, void *b, void *y) CHECKED;
/* A float32 tensor from one layout to another, both of them stored by onednn_stores(). */
Status onednn_reorder(Onednn **out, KernelCtx *ctx, const Shape *s, Layout from, Layout to) CHECKED;
Status onednn_reorder_run(Onednn *d, KernelCtx *ctx, void *x, void *y) CHECKED;
void onednn_free(Onednn *d); /* NULL is legal */

/* So many threads may be given to a product without changing its bits. */
int64_t onednn_sgemm_threads(int64_t m, int64_t n, int64_t k);
/* Whether a thread alone copies the operands of a product into blocks.  The two ways may round differently. */
bool onednn_sgemm_copies(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                         int64_t ldc);
/* c [m, n] = alpha * op(a) op(b) + beta * c, row-major, float32; lda ... are row lengths. */
Status onednn_sgemm(KernelCtx *ctx, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                    const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                    int64_t ldc) CHECKED;

#endif
