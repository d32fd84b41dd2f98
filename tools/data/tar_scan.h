/* Reader of the headers of tar archives, by libarchive where dpexec was built with it (DPX_ARCHIVE). */
#ifndef DPX_TOOLS_TAR_SCAN_H
#define DPX_TOOLS_TAR_SCAN_H

#include <stdbool.h>

#include "graph/base/mapped.h"

/* Receives a file of an archive: its name, and its bytes, which lie in the archive. */
typedef Status TarFile(void *user, const char *name, const uint8_t *data, size_t size);

/* Gives all files of a mapped archive to `take`, in order.  Folders are passed over.  *ended: the archive ends as tar
 * ends its archives; false: it may be cut off.  E_IO names the archive and the member: it is compressed, no tar, cut
 * off within a member, has links, sparse files, or a second archive behind its end.  E_UNSUPPORTED: there is no
 * libarchive.
 */
Status tar_scan(bool *ended, const Mapped *m, const char *path, TarFile *take, void *user) CHECKED;

#endif
