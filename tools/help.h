/* Prints what a command takes: all of it, a group of flags, the most used flags, or a man page. */
#ifndef DPX_TOOLS_HELP_H
#define DPX_TOOLS_HELP_H

#include "tools/args.h"

/* Prints help to standard output, in the form that was asked for. */
void help_print(const Args *a, const char *program);
/* Whether --help NAME of the command shows something: a group, or a flag. */
bool help_has(const Command *c, const char *name);
/* Writes the names of the command's groups, with ", " between them. */
void help_group_names(char text[512], const Command *c);
/* Prints words from column `at` on, wrapped to the page; further lines begin in column `begin`. */
void help_words(const char *text, int at, int begin);
/* Prints a line of usage behind "usage: " or spaces; further lines are indented by 4 more. */
void help_usage(const char *before, const char *line);

#endif
