/* Digests of data, to tell whether two runs are given the same. */
#ifndef DPX_TOOLS_DIGEST_H
#define DPX_TOOLS_DIGEST_H

#include "tools/batch_loader.h"

enum { DIGEST_TEXT = 17 };

/* Of the arrays of all fields, with the names that they have in the model and how they are scaled.  Of an array above
 * 64 MiB pieces are read.  Containers, compression and the order in a file do not count, nor does the number of
 * processes: each reads the pieces of its share, and all call it.  `world` NULL: this process reads all of them. */
Status digest_fields(char text[DIGEST_TEXT], const Field *field, int n, dpx_world *world, Share share) CHECKED;
/* Of at most 1 MiB of each array, spread evenly: what every process can compare with the others' without reading all.
 */
Status digest_probe(char text[DIGEST_TEXT], const Field *field, int n) CHECKED;

/* Compares checksums of what is read in place with those that its file, `source`, has.  All processes call it, and each
 * reads its share, unless their files differ: then nothing is compared.  E_IO in all of them. */
Status digest_check(const Dataset *d, const char *source, dpx_world *world, Share share) CHECKED;

/* Of a file's bytes; "" without one (NULL or ""). */
Status digest_file(char text[DIGEST_TEXT], const char *path) CHECKED;

#endif
