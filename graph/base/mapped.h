/* Files mapped into memory, read only. */
#ifndef DPX_BASE_MAPPED_H
#define DPX_BASE_MAPPED_H

#include <stddef.h>
#include <stdint.h>

#include "graph/base/status.h"

typedef struct {
    const uint8_t *data;
    size_t size;
} Mapped;

/* Map a file; E_IO unless it is a regular file and not empty. */
Status mapped_open(Mapped *out, const char *path) CHECKED;
Status mapped_fd(Mapped *out, int fd, const char *path) CHECKED; /* leaves fd open; `path` is for errors */
/* Releases the memory of pages that were read; they are read from the file again when they are needed. */
void mapped_forget(const Mapped *m);
void mapped_close(Mapped *m); /* { 0 } is legal */

#endif
