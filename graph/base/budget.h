/* Memory budgets: a limit that several arenas share, from any thread.  An arena returns its share when it is freed. The
 * budget lives as long as its arenas. */
#ifndef DPX_BASE_BUDGET_H
#define DPX_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "graph/base/status.h"

typedef struct MemoryBudget MemoryBudget;

/* `flag` is the option that sets the limit, for messages; it must outlive the budget.  NULL when out of memory. */
MemoryBudget *memory_budget_create(size_t bytes, const char *flag);
MemoryBudget *memory_budget_keep(MemoryBudget *b); /* adds a holder, who must free it; NULL is legal */
void memory_budget_free(MemoryBudget *b);          /* NULL is legal */
/* Charges the bytes, unless that exceeds the limit: false.  Without a budget it always succeeds. */
bool memory_budget_take(MemoryBudget *b, size_t bytes);
void memory_budget_give(MemoryBudget *b, size_t bytes);
/* If st is E_NOMEM because the budget refused a request, puts the flag, the limit and the request before the message.
 * Returns st. */
Status memory_budget_explain(const MemoryBudget *b, Status st) CHECKED;

#endif
