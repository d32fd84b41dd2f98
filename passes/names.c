/* Comparison of names.  Siblings are the entries of one list of modules: their paths differ in one or several numbers.
 */
#include "passes/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *names_last(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? dot + 1 : name;
}

static bool is_number(const char *s, size_t n) { return n && strspn(s, "0123456789") >= n; }

bool names_siblings(const char *a, const char *b, int *order, size_t prefix[2])
{
    const char *a0 = a, *b0 = b;

    for (*order = 0;; a++, b++) {
        size_t na = strcspn(a, "."), nb = strcspn(b, ".");

        if (na != nb || strncmp(a, b, na)) {
            if (!is_number(a, na) || !is_number(b, nb))
                return false;
            if (!*order) {
                *order = strtoull(a, NULL, 10) < strtoull(b, NULL, 10) ? -1 : 1;
                prefix[0] = (size_t)(a + na - a0);
                prefix[1] = (size_t)(b + nb - b0);
            }
        }
        a += na;
        b += nb;
        if (!*a || !*b)
            return !*a && !*b && *order;
    }
}

bool names_are_siblings(const char *a, const char *b)
{
    size_t prefix[2];
    int order;

    return names_siblings(a, b, &order, prefix);
}

bool names_made_up(const char *name) { return !strchr(name, '.') || strstr(name, "::"); }

/* The parameter whose gradient or update a node's name mentions: "conv1.weight" in "all-reduce of gradient of
 * conv1.weight". */
static const char *subject_of(const char *purpose)
{
    static const char of[] = " of ";

    for (const char *next; (next = strstr(purpose, of));)
        purpose = next + strlen(of);
    return purpose;
}

const char *names_of_group(Arena *a, const char *head, Node *const *list, int n)
{
    enum { SHOWN = 3, LONGEST = 60 };
    char text[SHOWN * (LONGEST + 2) + 1];
    size_t len = 0;

    for (int i = 0; i < n && i < SHOWN; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", i ? ", " : "", LONGEST,
                                subject_of(list[i]->name));
    return n > SHOWN ? arena_printf(a, "%s (%s ... %d in all)", head, text, n) : arena_printf(a, "%s (%s)", head, text);
}
