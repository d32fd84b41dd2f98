/* Strings as elements of tensors.  An element of DT_STRING is a `const Text *`, NULL for the empty string, so that
 * operators which move elements can move strings, and zeroed memory is a tensor of empty strings.
 *
 * A Text never changes.  It is UTF-8, may contain bytes of 0, and is followed by one.  Its arena is the tensor's, or
 * outlives it.  Only the interpreter computes with strings. */
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

/* Compares in the order of code points, with the sign of memcmp. */
int text_compare(Text a, Text b);
static inline bool text_same(Text a, Text b) { return a.n == b.n && !memcmp(a.bytes, b.bytes, a.n); }
bool text_is_utf8(Text t); /* a byte of 0 must follow the text */

/* Makes element `i` of `t` a string of n bytes in the arena, which the caller writes; NULL: out of memory. */
char *text_make(Tensor *t, int64_t i, Arena *a, size_t n);
/* Makes element `i` of `t` a copy of `from` in the arena; false: out of memory. */
bool text_set(Tensor *t, int64_t i, Arena *a, Text from);
/* Copies all strings of a tensor with the same number of elements; false: out of memory. */
bool text_copy_all(Tensor *to, Arena *a, const Tensor *from);

/* ---- parts of a string ---- */

/* The parts of a string, as StringSplit defines them. */
typedef struct {
    Text rest;
    Text by;      /* empty: runs of whitespace, which is dropped at both ends */
    int64_t left; /* splits; < 0: any number */
    bool more;
} TextSplit;

TextSplit text_split(Text whole, Text by, int64_t most);
bool text_split_next(Text *part, TextSplit *s);

#endif
