/* The check of attribute values against their declarations, independent of shapes: a model may leave shapes unknown,
 * and rules that run all the same (placement, printing, conversion of types) index and multiply by attributes. */
#include <inttypes.h>
#include <string.h>

#include "graph/ir/op.h"

typedef struct {
    int max_n; /* greatest length of a list; 0: any */
    int64_t low, high;
    const char *text; /* the range in messages */
} Range;

static const Range ranges[] = {
    [R_ANY] = { 0, INT64_MIN, INT64_MAX, "any" },
    [R_AXIS] = { MAX_RANK, -MAX_RANK, MAX_RANK - 1, "an axis, -8 to 7" },
    [R_CUT] = { MAX_RANK, -MAX_RANK, MAX_RANK, "an axis, -8 to 8" },
    [R_RANK] = { MAX_RANK, 0, MAX_RANK, "0 to 8" },
    [R_PERM] = { MAX_RANK, 0, MAX_RANK - 1, "a permutation of 0, 1 ..." },
    [R_SIZES] = { MAX_RANK, 0, INT64_MAX, "0 or more" },
    [R_STEPS] = { MAX_RANK, 1, INT32_MAX, "1 to 2147483647" },
    [R_PADS] = { 2 * MAX_RANK, -INT32_MAX, INT32_MAX, "-2147483647 to 2147483647" },
    [R_COUNTS] = { 0, 0, INT64_MAX, "0 or more" },
    [R_DEVICES] = { 0, -1, MAX_DEVICES - 1, "a device, 0 to 255" },
    [R_NATURAL] = { 0, 0, INT64_MAX, "0 or more" },
    [R_POSITIVE] = { 0, 1, INT32_MAX, "1 to 2147483647" },
};

static Status attr_check_number(const Graph *g, const Node *n, const Attr *a, const Range *r, int64_t v)
{
    if (v < r->low || v > r->high)
        return FAIL(E_MODEL, "%s: %s %" PRId64 ", expected %s", node_text(g, n), a->name, v, r->text);
    return ST_OK;
}

static Status check_list(const Graph *g, const Node *n, const AttrDecl *d, const Attr *a, const Range *r)
{
    if (r->max_n && a->n > r->max_n)
        return FAIL(E_MODEL, "%s: %s has %d entries, at most %d are possible", node_text(g, n), a->name, a->n,
                    r->max_n);
    if (d->range == R_PADS && a->n % 2)
        return FAIL(E_MODEL, "%s: %s has %d entries, expected two for each axis", node_text(g, n), a->name, a->n);
    for (int i = 0; i < a->n; i++)
        TRY(attr_check_number(g, n, a, r, a->ints[i]));
    for (int i = 0; (d->range == R_PERM || d->range == R_AXIS) && i < a->n; i++) {
        bool wrong = d->range == R_PERM && a->ints[i] >= a->n;

        for (int k = 0; k < i; k++)
            wrong |= a->ints[k] == a->ints[i];
        if (wrong)
            return FAIL(E_MODEL, "%s: %s names axis %" PRId64 ", which %s", node_text(g, n), a->name, a->ints[i],
                        d->range == R_PERM ? "makes it no permutation" : "it names before");
    }
    return ST_OK;
}

static Status check_dtype(const Graph *g, const Node *n, const AttrDecl *d, const Attr *a)
{
    const unsigned types = d->range == R_HELD     ? DTYPES_STORED | DTYPES_TEXT
                           : d->range == R_STORED ? DTYPES_STORED
                                                  : DTYPES_ALL;
    bool held = a->i >= 0 && a->i < DT_COUNT && (types >> a->i & 1);

    if (!held && a->i != DT_NONE)
        return FAIL(E_UNSUPPORTED, "%s: %s %" PRId64 " is no type that tensors have here (%s)", node_text(g, n),
                    a->name, a->i, a->i > 0 && a->i < DT_COUNT ? dtype_name((DType)a->i) : "unknown");
    return ST_OK;
}

static Status check_word(const Graph *g, const Node *n, const AttrDecl *d, const Attr *a)
{
    size_t len = a->s ? strlen(a->s) : 0;

    for (const char *w = d->words; w && *w; w += strcspn(w, " "), w += *w == ' ')
        if (len && strcspn(w, " ") == len && !strncmp(w, a->s, len))
            return ST_OK;
    return FAIL(E_UNSUPPORTED, "%s: %s '%.100s', expected one of: %s", node_text(g, n), a->name, a->s ? a->s : "",
                d->words);
}

Status attr_check(const Graph *g, const Node *n, const AttrDecl *d, const Attr *a)
{
    if (d->rule != ATTR_REQUIRED && ((a->type == A_INT && a->i == d->i) || (a->type == A_STRING && a->s == d->s)))
        return ST_OK;
    if (a->type == A_STRING && d->words)
        return check_word(g, n, d, a);
    if (d->range == R_DTYPE || d->range == R_STORED || d->range == R_HELD)
        return check_dtype(g, n, d, a);
    if (d->range != R_ANY && a->type == A_INT)
        return attr_check_number(g, n, a, &ranges[d->range], a->i);
    return d->range != R_ANY && a->type == A_INTS ? check_list(g, n, d, a, &ranges[d->range]) : ST_OK;
}
