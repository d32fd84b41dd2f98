/* Digests of data, to tell whether two runs are given the same. */
#ifndef DPX_TOOLS_DIGEST_H
#define DPX_TOOLS_DIGEST_H

#include "tools/loader.h"

enum { DIGEST_TEXT = 17 };

/* Of the arrays of all fields, with the names that they have in the model and how they are scaled.  Of an array above
 * 64 MiB pieces are read.  Containers, compression and the order in a file do not count. */
Status digest_fields(char text[DIGEST_TEXT], const Field *field, int n) CHECKED;

/* Of a file's bytes; "" without one (NULL or ""). */
Status digest_file(char text[DIGEST_TEXT], const char *path) CHECKED;

#endif
