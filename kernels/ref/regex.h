/* Regular expressions of RE2, which match in time that is linear in the text.  In C++, and of the library the only file
 * that knows RE2. */
#ifndef DPX_KERNELS_REGEX_H
#define DPX_KERNELS_REGEX_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REGEX_WHY = 200 };
typedef struct Regex Regex;

/* NULL: `why` names the pattern's fault, or is empty when there is no memory. */
Regex *regex_create(const char *pattern, char why[REGEX_WHY]);
void regex_free(Regex *r);
/* Does it match all of the text, which is UTF-8?  -1: out of memory. */
int regex_matches(const Regex *r, const char *text, size_t n);

#ifdef __cplusplus
}
#endif
#endif
