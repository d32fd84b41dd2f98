/* Where members of a .zip archive lie that are stored as they are. */
#ifndef DPX_TOOLS_ZIP_STORED_H
#define DPX_TOOLS_ZIP_STORED_H

#include <stdbool.h>

#include "graph/base/mapped.h"

/* The bytes of member `index`, in the order of the archive's directory, of which libzip says how many there are and
 * their checksum.  False where the archive does not say so plainly: then libzip is to read it. */
bool zip_stored(const uint8_t **out, const Mapped *archive, uint64_t index, uint64_t size, uint32_t crc);

#endif
