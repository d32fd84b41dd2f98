/* Orders for qsort. */
#ifndef DPX_BASE_ORDER_H
#define DPX_BASE_ORDER_H

/* Doubles, the smallest first; none is NaN. */
static inline int order_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#endif
