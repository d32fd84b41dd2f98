/* report.html: what a run has come to, or several beside each other, as one page that loads nothing. */
#ifndef DPX_TOOLS_PAGE_H
#define DPX_TOOLS_PAGE_H

#include "tools/report/history.h"

/* Writes the page of n runs.  The rest of what it shows is read from their folders: args.json, data.json, log.txt,
 * evaluation.json, memory.json, checkpoints/best.  What a folder lacks is left out. */
Status page_write(const char *path, History *const *runs, int n) CHECKED;

#endif
