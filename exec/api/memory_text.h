/* Text that is printed to memory, within a budget: what is more is refused, and what was printed until then is gone. */
#ifndef DPX_API_MEMORY_TEXT_H
#define DPX_API_MEMORY_TEXT_H

#include <stdio.h>

#include "graph/base/budget.h"

typedef struct {
    char *data; /* NULL: none */
    size_t n, room;
    MemoryBudget *budget;
} MemoryText;

/* A stream that appends to `t`, whose budget is set; NULL when out of memory. */
FILE *memory_text_open(MemoryText *t);
/* Closes the stream.  E_NOMEM when not all of it could be kept, unless `st` is a failure already. */
Status memory_text_close(FILE *f, Status st) CHECKED;
void memory_text_free(MemoryText *t);

#endif
