/* Where, by the size of the element (nothing is computed), and Clip. */
#include "kernels/ref/elementwise.h"

#define SELECT(T)                                                                                         \
    do {                                                                                                  \
        T *ys = out->data;                                                                                \
        for (WALK(w, &out->shape, 3, in)) {                                                               \
            const uint8_t *cs = (const uint8_t *)in[0].data + w.offset[0];                                \
            const T *as = (const T *)in[1].data + w.offset[1], *bs = (const T *)in[2].data + w.offset[2]; \
            for (int64_t i = 0; i < w.row; i++)                                                           \
                *ys++ = cs[i * w.row_stride[0]] ? as[i * w.row_stride[1]] : bs[i * w.row_stride[2]];      \
        }                                                                                                 \
    } while (0)

static Status run_where(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    (void)state;
    switch (dtype_size(out->dtype)) {
    case 1: SELECT(uint8_t); break;
    case 2: SELECT(uint16_t); break;
    case 4: SELECT(uint32_t); break;
    default: SELECT(uint64_t); break;
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_where, .op = &op_Where, .dtypes = DTYPES_BOOL, .run = run_where);

/* An absent bound has no data (and does not bound). */
#define CLIP(D, T)                                                                                            \
    case D: {                                                                                                 \
        const T *xs = in[0].data, *lo = p->has_min ? in[1].data : NULL, *hi = p->has_max ? in[2].data : NULL; \
        T *ys = out->data;                                                                                    \
        for (int64_t i = 0; i < count; i++) {                                                                 \
            T v = lo && xs[i] < *lo ? *lo : xs[i];                                                            \
            ys[i] = hi && v > *hi ? *hi : v;                                                                  \
        }                                                                                                     \
        return ST_OK;                                                                                         \
    }

typedef struct {
    bool has_min, has_max;
} Bounds;

static Status prepare_clip(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Bounds *b = malloc(sizeof *b);

    (void)ctx;
    (void)g;
    if (!b)
        return FAIL_NOMEM();
    *b = (Bounds){ has_in(n, 1), has_in(n, 2) };
    *state = b;
    return ST_OK;
}

static Status run_clip(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Bounds *p = state;
    const int64_t count = tensor_numel(out);

    (void)ctx;
    switch (in[0].dtype) {
        EACH_NUMERIC(CLIP)
    default: return FAIL(E_INTERNAL, "Clip: no kernel for type %s", dtype_name(in[0].dtype));
    }
}

DEFINE_KERNEL(ref_clip, .op = &op_Clip, .dtypes = DTYPES_F32_F64 | DTYPES_INT, .prepare = prepare_clip, .run = run_clip,
              .release = free);
