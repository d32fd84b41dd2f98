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

typedef struct {
    const int64_t *spans;
    int n, next, length; /* parts in all, used so far; steps written */
    int *program;
} Builder;

static Status reduce_tree_build(Builder *b, int64_t lo, int64_t hi)
{
    int64_t mid;

    if (b->next < b->n && b->spans[2 * b->next] == lo && b->spans[2 * b->next + 1] == hi) {
        b->program[b->length++] = b->next++;
        return ST_OK;
    }
    if (b->next >= b->n || hi - lo < 2 || b->spans[2 * b->next] != lo || b->spans[2 * b->next + 1] > hi)
        return FAIL(E_INVALID, "no part of the sum over replicas [%lld,%lld)", (long long)lo, (long long)hi);
    mid = reduce_tree_mid(lo, hi);
    TRY(reduce_tree_build(b, lo, mid));
    TRY(reduce_tree_build(b, mid, hi));
    b->program[b->length++] = TREE_ADD;
    return ST_OK;
}

Status reduce_tree_program(int *program, const int64_t *spans, int n)
{
    Builder b = { .spans = spans, .n = n, .program = program };

    if (n < 1)
        return FAIL(E_INVALID, "a sum over replicas needs at least one part");
    for (int i = 0; i < n; i++)
        if (spans[2 * i + 1] <= spans[2 * i] || spans[2 * i] != (i ? spans[2 * i - 1] : 0))
            return FAIL(E_INVALID, "part %d of a sum over replicas is [%lld,%lld), expected to begin at %lld", i,
                        (long long)spans[2 * i], (long long)spans[2 * i + 1], (long long)(i ? spans[2 * i - 1] : 0));
    return reduce_tree_build(&b, 0, spans[2 * n - 1]);
}
