/* dpexec run on a source of data instead of arrays. */
#ifndef DPX_TOOLS_RUN_SOURCE_H
#define DPX_TOOLS_RUN_SOURCE_H

#include "tools/args.h"
#include "tools/progress.h"

/* Writes what the model predicts for the samples of the source, the second argument, as CSV to -o FILE.csv or standard
 * output. */
Status run_on_source(const Args *a, Progress *progress) CHECKED;

#endif
