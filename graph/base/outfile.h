/* Files that are written whole or not at all.
 *
 * The data go to a temporary file in the same folder, which takes the name when all of it is on the disk.  Where the
 * file system allows, the temporary file has no name until then, so that a killed process leaves nothing.  A symbolic
 * link stays, and its target is written.  A terminal, a pipe, /dev/null or /dev/stdout is written in place. */
#ifndef DPX_BASE_OUTFILE_H
#define DPX_BASE_OUTFILE_H

#include <stdio.h>

#include "graph/base/status.h"

typedef struct OutFile OutFile;

/* Opens a file for writing.  E_IO names the path and the reason.  A named pipe waits for its reader, as usual. */
Status outfile_open(OutFile **out, const char *path) CHECKED;
/* The stream to write to; outfile_close reports its errors.  fseek works unless it is a terminal or a pipe. */
FILE *outfile_stream(OutFile *o);
/* Frees `o`; NULL is legal.  If `st`, the caller's result, is ST_OK the file gets its name; otherwise the data are
 * dropped and `st` is returned. */
Status outfile_close(OutFile *o, Status st) CHECKED;

/* Checks before long work that the path can be written; creates nothing. */
Status outfile_check(const char *path) CHECKED;

#endif
