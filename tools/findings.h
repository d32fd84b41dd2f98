/* Checks before work begins: one message lists all that is wrong. */
#ifndef DPX_TOOLS_FINDINGS_H
#define DPX_TOOLS_FINDINGS_H

#include <stdbool.h>

#include "graph/base/status.h"

/* What is wrong so far; { 0 }: nothing. */
typedef struct {
    Problems wrong;
    bool invalid;
} Findings;

/* Adds the last message if `st` is a failure. */
void findings_add(Findings *f, Status st);
/* Adds a file that cannot be read.  `flag` names it, "" if none does; a path that is NULL or empty is none. */
void findings_add_file(Findings *f, const char *flag, const char *path);
/* E_INVALID, or E_IO when there is nothing wrong but files and folders. */
Status findings_fail(Findings *f) CHECKED;

#endif
