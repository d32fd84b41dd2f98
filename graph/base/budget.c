/* Memory budgets: a counter with a limit, and a count of holders. */
#include "graph/base/budget.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct MemoryBudget {
    size_t limit;
    const char *flag;
    atomic_size_t used, refused; /* refused: size of the last request that was refused */
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

/* Prints a number of bytes in a fitting unit: "10.000 kB". */
static const char *amount(char text[32], size_t bytes)
{
    static const char *const unit[] = { "bytes", "kB", "MB", "GB", "TB" };
    size_t scale = 1;
    int u = 0;

    for (; u < 4 && bytes / scale >= 1000; u++)
        scale *= 1000;
    if (u)
        snprintf(text, 32, "%zu.%03zu %s", bytes / scale, bytes % scale / (scale / 1000), unit[u]);
    else
        snprintf(text, 32, "%zu %s", bytes, unit[0]);
    return text;
}

Status memory_budget_explain(const MemoryBudget *b, Status st)
{
    size_t asked = b ? atomic_load(&b->refused) : 0;
    char limit[32], used[32], more[32];

    if (st != E_NOMEM || !asked)
        return st;
    return status_prefix(st, "planning needs more memory than %s allows: %s allowed, %s in use, %s more needed",
                         b->flag, amount(limit, b->limit), amount(used, atomic_load(&b->used)), amount(more, asked));
}
