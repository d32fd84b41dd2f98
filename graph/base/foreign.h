/* Text that we did not write: names of models, data and files.  A terminal obeys what it is sent (escape sequences,
 * text that runs backwards), so such text is printed through these. */
#ifndef DPX_BASE_FOREIGN_H
#define DPX_BASE_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the UTF-8 sequence at `s` (not its end), 0 when it is none: overlong forms, surrogates and beyond U+10FFFF
 * are none. */
int utf8_length(const char *s);
bool utf8_valid(const char *s);
uint32_t utf8_code(const char *s); /* the code point of a sequence that is one */
/* Its bytes, at most 4, to `to` where that is not NULL; returns how many, 0 of what is no code point. */
size_t utf8_encode(char *to, uint32_t c);
/* Bytes of the character at `s` if it is one that may be shown, 0 if not: controls (C0, C1, delete), line and paragraph
 * separators, marks that turn the direction of text, bytes that are no UTF-8. */
int foreign_length(const char *s);

/* Each byte that may not be shown becomes a space; the length stays. */
void foreign_clean(char *s);
/* Such bytes appear as '?'. */
void foreign_print(FILE *f, const char *s);

/* strcasestr of ASCII letters, in every locale. */
const char *ascii_casestr(const char *s, const char *word);
/* strncasecmp of ASCII letters, in every locale. */
int ascii_casecmp(const char *a, const char *b, size_t n);

#endif
