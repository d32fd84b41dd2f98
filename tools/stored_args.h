/* Command lines made of stored flags: those of a run's args.json, and of a file for --config. */
#ifndef DPX_TOOLS_STORED_ARGS_H
#define DPX_TOOLS_STORED_ARGS_H

#include "tools/args.h"

typedef struct {
    char **arg; /* [n], for args_parse; they must live as long as what is parsed */
    int n;
    size_t room;
    char *temporary; /* a file to remove with the list; NULL: there is none */
} ArgList;

void arg_list_free(ArgList *l);

/* Each gives an empty list where there is nothing to expand.  Flags of `a` win over stored ones.  E_INVALID lists
 * stored names that are no flags, E_IO names a file that cannot be read. */

/* The command line of a with the flags of --config FILE.json: {NAME: value, ...}, where a value is a text, a number,
 * true for a flag without a value, or a list for a repeated one.  The args.json of a run will do, too. */
Status expand_config(ArgList *out, const Args *a) CHECKED;
/* RUN [changes]: the command line of dpexec train that continues the run in the folder RUN.  It has all flags that the
 * run was given but those that say where its processes meet. */
Status expand_resume(ArgList *out, const Args *a) CHECKED;
/* RUN ...: the command line of dpexec eval or run with the model of a run's folder, --at best, last or of a step, and
 * the flags that the run's data, loss and metric need. */
Status expand_run(ArgList *out, const Args *a) CHECKED;

/* Writes the model of a checkpoint of the run in the folder: `at` is "best", "last" or a step.  `joined`: with the
 * preprocessing of the run's data in front of it. */
Status export_checkpoint(const char *run, const char *at, bool joined, const char *to) CHECKED;

#endif
