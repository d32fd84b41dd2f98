/* Finds where uncompressed members of a .zip archive lie. */
#ifndef DPX_TOOLS_ZIP_STORED_H
#define DPX_TOOLS_ZIP_STORED_H

#include <stdbool.h>

#include "graph/base/mapped.h"

/* Finds the bytes of member `index`, in the order of the archive's directory, whose size and checksum libzip has
 * reported.  False when the archive is unusual; then libzip must read it. */
bool zip_stored(const uint8_t **out, const Mapped *archive, uint64_t index, uint64_t size, uint32_t crc);

#endif
