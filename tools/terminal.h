/* What the terminal behind a file descriptor can show. */
#ifndef DPX_TOOLS_TERMINAL_H
#define DPX_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Columns of the terminal; 80 where it does not say.  0: this is no terminal. */
int terminal_width(int fd);
/* Whether escape sequences may be written: to a terminal whose TERM is not "dumb". */
bool terminal_moves(int fd);
/* Whether colours may be written: as terminal_moves, unless the environment has NO_COLOR (https://no-color.org). */
bool terminal_colour(int fd);
/* Whether the locale's characters are UTF-8. */
bool terminal_utf8(void);
/* Writes words from column `at` on, and a line feed, in lines of at most `width` columns (0: one line); further lines
 * begin in column `begin`. */
void terminal_wrap(FILE *to, const char *text, int at, int begin, int width);

#endif
