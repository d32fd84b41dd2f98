/* Moves of elements by strides.  Neighbouring dimensions that both tensors walk with one stride are merged first, so a
 * copy that is contiguous is one memcpy whatever the shapes. */
#include "kernels/ref/ref_move.h"

/* Drops dimensions of 1 and merges neighbours that both tensors walk with one stride; the empty shape becomes one
 * dimension. */
static void coalesce(Shape *dims, int64_t *ds, int64_t *ss)
{
    int n = 0;

    for (int i = 0; i < dims->rank; i++) {
        if (dims->dim[i] == 1)
            continue;
        if (n && ds[n - 1] == dims->dim[i] * ds[i] && ss[n - 1] == dims->dim[i] * ss[i]) {
            dims->dim[n - 1] *= dims->dim[i];
            ds[n - 1] = ds[i];
            ss[n - 1] = ss[i];
            continue;
        }
        dims->dim[n] = dims->dim[i];
        ds[n] = ds[i];
        ss[n++] = ss[i];
    }
    if (!n) {
        dims->dim[0] = 1;
        ds[0] = ss[0] = 1;
        n = 1;
    }
    dims->rank = n;
}

#define COPY_LINE(T)                \
    for (int64_t i = 0; i < n; i++) \
    ((T *)dst)[i * ds] = ((const T *)src)[i * ss]

static void copy_line(size_t size, int64_t n, char *dst, int64_t ds, const char *src, int64_t ss)
{
    if (ds == 1 && ss == 1) {
        memcpy(dst, src, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY_LINE(uint8_t); break;
    case 2: COPY_LINE(uint16_t); break;
    case 4: COPY_LINE(uint32_t); break;
    case 8: COPY_LINE(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds * (int64_t)size, src + i * ss * (int64_t)size, size);
    }
}

void ref_move(size_t size, const Shape *dims, void *dst, const int64_t *dst_stride, const void *src,
              const int64_t *src_stride)
{
    Shape s = *dims;
    int64_t ds[MAX_RANK] = { 0 }, ss[MAX_RANK] = { 0 }, at[MAX_RANK] = { 0 }, step = (int64_t)size;
    char *d = dst;
    const char *x = src;
    int last;

    if (shape_numel(dims) == 0)
        return;
    for (int i = 0; i < s.rank; i++) {
        ds[i] = dst_stride[i];
        ss[i] = src_stride[i];
    }
    coalesce(&s, ds, ss);
    last = s.rank - 1;
    for (int i = 0; i >= 0;) {
        copy_line(size, s.dim[last], d, ds[last], x, ss[last]);
        for (i = last - 1; i >= 0; i--) {
            d += ds[i] * step;
            x += ss[i] * step;
            if (++at[i] < s.dim[i])
                break;
            d -= at[i] * ds[i] * step;
            x -= at[i] * ss[i] * step;
            at[i] = 0;
        }
    }
}

void ref_fill(size_t size, int64_t n, void *dst, const void *element)
{
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)dst + (size_t)i * size, element, size);
}

Status ref_index_in(int64_t *out, const RefNode *p, const Tensor *t, int64_t i, int64_t d)
{
    int64_t x = ref_index(t, i);

    if (x < -d || x >= d)
        return FAIL(E_INVALID, "%s: index %lld (element %lld) is outside of an axis of %lld elements", p->what,
                    (long long)x, (long long)i, (long long)d);
    *out = x < 0 ? x + d : x;
    return ST_OK;
}
