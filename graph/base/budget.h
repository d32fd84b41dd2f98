/* How much memory something may take: the arenas that are made within a budget share it, from any thread, and give back
 * what they had when they are freed.  It lives as long as they do. */
#ifndef DPX_BASE_BUDGET_H
#define DPX_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "graph/base/status.h"

typedef struct MemoryBudget MemoryBudget;

MemoryBudget *memory_budget_create(size_t bytes,
                                   const char *flag); /* `flag` sets it, and is kept; NULL when out of memory */
MemoryBudget *memory_budget_keep(MemoryBudget *b);    /* one more that frees it; NULL is legal */
void memory_budget_free(MemoryBudget *b);             /* NULL is legal */
/* Is there room for so many bytes more?  Then they are taken.  Without a budget there always is. */
bool memory_budget_take(MemoryBudget *b, size_t bytes);
void memory_budget_give(MemoryBudget *b, size_t bytes);
/* A failure for lack of memory, when the budget refused some, says so first: the flag, its size, what was asked for.
 * `st` otherwise. */
Status memory_budget_explain(const MemoryBudget *b, Status st) CHECKED;

#endif
