/* A counter with a limit, and how many hold it. */
#include "graph/base/budget.h"

#include <stdatomic.h>
#include <stdlib.h>

struct MemoryBudget {
    size_t limit;
    const char *flag;
    atomic_size_t used, refused; /* refused: the last request */
    atomic_int holders;
};

MemoryBudget *memory_budget_create(size_t bytes, const char *flag)
{
    MemoryBudget *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->limit = bytes;
    b->flag = flag;
    atomic_init(&b->used, 0);
    atomic_init(&b->refused, 0);
    atomic_init(&b->holders, 1);
    return b;
}

MemoryBudget *memory_budget_keep(MemoryBudget *b)
{
    if (b)
        atomic_fetch_add(&b->holders, 1);
    return b;
}

void memory_budget_free(MemoryBudget *b)
{
    if (b && atomic_fetch_sub(&b->holders, 1) == 1)
        free(b);
}

bool memory_budget_take(MemoryBudget *b, size_t bytes)
{
    size_t used;

    if (!b)
        return true;
    used = atomic_load(&b->used);
    do {
        if (bytes > b->limit || used > b->limit - bytes) {
            atomic_store(&b->refused, bytes);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&b->used, &used, used + bytes));
    return true;
}

void memory_budget_give(MemoryBudget *b, size_t bytes)
{
    if (b)
        atomic_fetch_sub(&b->used, bytes);
}

Status memory_budget_explain(const MemoryBudget *b, Status st)
{
    size_t asked = b ? atomic_load(&b->refused) : 0;

    if (st != E_NOMEM || !asked)
        return st;
    return status_prefix(
        st, "planning takes more memory than %s allows: of %.3f GB %.3f are taken, and %.3f more are asked for",
        b->flag, (double)b->limit / 1e9, (double)atomic_load(&b->used) / 1e9, (double)asked / 1e9);
}
