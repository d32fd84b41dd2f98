/* Foreign text: names of models, data and files that dpexec did not write.  It may contain escape sequences, which a
 * terminal obeys, and marks that reverse text, so it is printed through these functions. */
#ifndef DPX_BASE_FOREIGN_H
#define DPX_BASE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The number of bytes of the UTF-8 sequence at `s` (not the text's end); 0: it is invalid.  Overlong forms, surrogates
 * and codes beyond U+10FFFF are invalid. */
int utf8_length(const char *s);
/* The bytes of the character at `s`, of which n > 0 bytes are left.  Where they are no UTF-8, *valid is false, and the
 * result is the length of the part that one U+FFFD replaces: a beginning of a character that goes on wrongly, or one
 * byte (Unicode 15, section 3.9, "maximal subpart"; Python's errors="replace"). */
size_t utf8_step(const uint8_t *s, size_t n, bool *valid);
bool utf8_valid(const char *s);
uint32_t utf8_code(const char *s); /* the code point of a valid sequence */
/* Writes the bytes of a code point, at most 4, to `to` unless that is NULL.  Returns their number; 0: no code point. */
size_t utf8_encode(char *to, uint32_t c);
/* The number of bytes of the character at `s`; 0 if it must not be shown: controls (C0, C1, delete), line and paragraph
 * separators, direction marks, bytes that are no UTF-8. */
int foreign_length(const char *s);

/* Replaces each byte that must not be shown by a space; the length stays. */
void foreign_clean(char *s);
/* Prints the text with '?' for each such byte. */
void foreign_print(FILE *f, const char *s);

/* strcasestr for ASCII letters, independent of the locale. */
const char *ascii_casestr(const char *s, const char *word);
/* strncasecmp for ASCII letters, independent of the locale. */
int ascii_casecmp(const char *a, const char *b, size_t n);

#endif
