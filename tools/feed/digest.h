/* Digests of data, to find out whether two runs have the same data. */
#ifndef DPX_TOOLS_DIGEST_H
#define DPX_TOOLS_DIGEST_H

#include "tools/feed/batch_loader.h"

enum { DIGEST_TEXT = 17 };

/* The digest of the arrays of all fields, with their names in the model and their scaling.  Arrays above 64 MiB are
 * read only in pieces.  It does not depend on containers, compression, the order in a file or the number of processes.
 * All processes call this and each reads the pieces of its share; `world` NULL: this process reads all. */
Status digest_fields(char text[DIGEST_TEXT], const Field *field, int n, dpx_world *world, Share share) CHECKED;
/* The digest of at most 1 MiB of each array, spread evenly, which every process can compute alone. */
Status digest_probe(char text[DIGEST_TEXT], const Field *field, int n) CHECKED;

/* Compares the checksums of what is read in place with those in its file, `source`.  All processes call this, and each
 * reads its share; nothing is compared if their files differ.  E_IO, in all processes: the data is damaged. */
Status digest_check(const Dataset *d, const char *source, dpx_world *world, Share share) CHECKED;

void digest_bytes(char text[DIGEST_TEXT], const void *bytes, size_t n);
/* The digest of a file's bytes; "" when the path is NULL or "". */
Status digest_file(char text[DIGEST_TEXT], const char *path) CHECKED;

#endif
