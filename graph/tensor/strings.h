/* Strings as elements of tensors.  An element of DT_STRING is a `const Text *`, NULL exactly where the string is empty,
 * so that operators that move elements move strings, and zeroed memory is a tensor of empty ones.
 *
 * What a handle points to is never changed, is UTF-8, which may hold bytes of 0, ends with one more, and lives in an
 * arena: that of the tensor, or one that outlives it.  Only the interpreter computes with strings. */
#ifndef DPX_STRINGS_H
#define DPX_STRINGS_H

#include <string.h>

#include "graph/tensor/tensor.h"

typedef struct {
    size_t n; /* bytes */
    const char *bytes;
} Text;

static inline Text text_of(const char *s) { return (Text){ strlen(s), s }; }

static inline Text text_at(const Tensor *t, int64_t i)
{
    const Text *x = ((const Text *const *)t->data)[i];

    return x ? *x : (Text){ 0, "" };
}

/* In the order of code points. */
int text_compare(Text a, Text b);
static inline bool text_same(Text a, Text b) { return a.n == b.n && !memcmp(a.bytes, b.bytes, a.n); }
bool text_is_utf8(Text t); /* of bytes that a 0 follows */

/* Element `i` of `t` becomes a string of n bytes in the arena, which the caller writes; NULL: out of memory. */
char *text_make(Tensor *t, int64_t i, Arena *a, size_t n);
/* ... becomes a copy. */
bool text_set(Tensor *t, int64_t i, Arena *a, Text from);
/* All of them, from a tensor of the same number of elements; false: out of memory. */
bool text_copy_all(Tensor *to, Arena *a, const Tensor *from);

/* ---- parts of a string ---- */

/* As StringSplit's. */
typedef struct {
    Text rest;
    Text by;      /* empty: runs of whitespace, which is none in front and behind */
    int64_t left; /* splits; < 0: any number */
    bool more;
} TextSplit;

TextSplit text_split(Text whole, Text by, int64_t most);
bool text_split_next(Text *part, TextSplit *s);

#endif
