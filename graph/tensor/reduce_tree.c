/* Programs for the reduction tree: a part that spans a subtree is pushed, any other subtree is the sum of its halves.
 */
#include "graph/tensor/reduce_tree.h"

int64_t reduce_tree_mid(int64_t lo, int64_t hi)
{
    int64_t half = 1;

    while (half < hi - lo - half)
        half *= 2;
    return lo + half;
}

/* Appends the steps that sum [lo,hi) at *at, which moves on, as does *next, the next of n parts. */
static Status reduce_tree_build(int **at, int *next, const int64_t *spans, int n, int64_t lo, int64_t hi)
{
    const int64_t *part = &spans[2 * *next];
    int64_t mid;

    if (*next < n && part[0] == lo && part[1] == hi) {
        *(*at)++ = (*next)++;
        return ST_OK;
    }
    if (*next >= n || hi - lo < 2 || part[0] != lo || part[1] > hi)
        return FAIL(E_INVALID, "no part of the sum over replicas [%lld,%lld)", (long long)lo, (long long)hi);
    mid = reduce_tree_mid(lo, hi);
    TRY(reduce_tree_build(at, next, spans, n, lo, mid));
    TRY(reduce_tree_build(at, next, spans, n, mid, hi));
    *(*at)++ = TREE_ADD;
    return ST_OK;
}

Status reduce_tree_program(int *program, const int64_t *spans, int n)
{
    int next = 0;

    if (n < 1)
        return FAIL(E_INVALID, "a sum over replicas needs at least one part");
    for (int i = 0; i < n; i++)
        if (spans[2 * i + 1] <= spans[2 * i] || spans[2 * i] != (i ? spans[2 * i - 1] : 0))
            return FAIL(E_INVALID, "part %d of a sum over replicas is [%lld,%lld), expected to begin at %lld", i,
                        (long long)spans[2 * i], (long long)spans[2 * i + 1], (long long)(i ? spans[2 * i - 1] : 0));
    return reduce_tree_build(&program, &next, spans, n, 0, spans[2 * n - 1]);
}
