/* A stream of which the C library hands on what was printed; the buffer doubles, and is charged before it grows. */
#include "exec/api/memory_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `bytes` bytes in all; false when memory or the budget does not suffice. */
static bool reserve(MemoryText *t, size_t bytes)
{
    size_t room = t->room ? t->room : 4096;
    char *grown;

    while (room < bytes)
        if (__builtin_mul_overflow(room, (size_t)2, &room))
            return false;
    if (room == t->room)
        return true;
    if (!memory_budget_take(t->budget, room - t->room))
        return false;
    if (!(grown = realloc(t->data, room))) {
        memory_budget_give(t->budget, room - t->room);
        return false;
    }
    t->data = grown;
    t->room = room;
    return true;
}

static ssize_t memory_text_take(void *cookie, const char *text, size_t n)
{
    MemoryText *t = cookie;

    if (n > SIZE_MAX - t->n || !reserve(t, t->n + n))
        return 0;
    memcpy(t->data + t->n, text, n);
    t->n += n;
    return (ssize_t)n;
}

FILE *memory_text_open(MemoryText *t)
{
    return fopencookie(t, "w", (cookie_io_functions_t){ .write = memory_text_take });
}

Status memory_text_close(FILE *f, Status st)
{
    bool lost = fflush(f) != 0;

    lost |= ferror(f) != 0;
    lost |= fclose(f) != 0;
    return !st && lost ? FAIL_NOMEM() : st;
}

void memory_text_free(MemoryText *t)
{
    free(t->data);
    memory_budget_give(t->budget, t->room);
    *t = (MemoryText){ .budget = t->budget };
}
