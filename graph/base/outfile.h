/* A file that is written whole or not at all.
 *
 * Beside a regular file, or where there is none, the data goes to a temporary file in the same folder, which takes the
 * name when all of it is on the disk; where the file system can, the temporary file has no name until then, so that a
 * process that is killed leaves nothing.  A symbolic link stays: what it points to is written.  What is neither a file
 * nor a folder (a terminal, a pipe, /dev/null, /dev/stdout) is written as the data comes. */
#ifndef DPX_BASE_OUTFILE_H
#define DPX_BASE_OUTFILE_H

#include <stdio.h>

#include "graph/base/status.h"

typedef struct OutFile OutFile;

/* E_IO names the path and says why it cannot be written.  A named pipe waits for its reader, as everywhere. */
Status outfile_open(OutFile **out, const char *path) CHECKED;
/* Where the data is written; what fails there is told by outfile_close. */
FILE *outfile_stream(OutFile *o);
/* Frees `o`, NULL too.  `st` is how writing went: with ST_OK the file gets its name, else what was written is dropped
 * and `st` returned. */
Status outfile_close(OutFile *o, Status st) CHECKED;

/* Could the path be written?  For work that is long before it writes; makes nothing. */
Status outfile_check(const char *path) CHECKED;

#endif
