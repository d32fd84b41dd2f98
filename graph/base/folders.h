/* Makes folders, and finds that of files which later runs take again: compiled kernels, token ids. */
#ifndef DPX_BASE_FOLDERS_H
#define DPX_BASE_FOLDERS_H

#include <limits.h>

#include "graph/base/status.h"

/* $DPEXEC_CACHE_DIR, or else the user's cache folder, which need not be there.  NULL: none, as with an empty
 * $DPEXEC_CACHE_DIR. */
const char *cache_folder(char text[PATH_MAX]);
/* Makes a folder and those above it, unless they are there.  E_IO names the one that cannot be made. */
Status make_folders(const char *folder) CHECKED;

#endif
