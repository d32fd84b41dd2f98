/* The groups in which --help shows flags, and the flags that -h shows. */
#ifndef DPX_TOOLS_HELP_GROUPS_H
#define DPX_TOOLS_HELP_GROUPS_H

typedef struct {
    const char *name, *title; /* "data", "Data": `--help data` shows the group alone */
    const char *flags;        /* their names in order, with spaces between them */
} HelpGroup;

/* In order; a NULL name ends.  A group may hold flags that a command lacks. */
extern const HelpGroup help_groups[];

/* A flag and its help in one line; without a flag, a title of those that follow. */
typedef struct {
    const char *flag, *help;
} ShortHelp;

/* What -h of a command shows; ends with a row of NULL.  NULL: -h shows the same as --help. */
const ShortHelp *help_most_used(const char *command);

#endif
