/* Cache of decoded images, in memory or in an unnamed temporary file, which many threads fill and read at once. */
#ifndef DPX_TOOLS_IMAGE_CACHE_H
#define DPX_TOOLS_IMAGE_CACHE_H

#include "tools/image/image.h"

typedef struct ImageCache ImageCache;

/* Makes an empty cache of n images, of which image i has up to bytes[i] bytes of pixels.  `disk`: in a temporary file,
 * else in memory.  E_INVALID, E_IO: there is no room for all; `source` names them. */
Status image_cache_open(ImageCache **out, const int64_t *bytes, int64_t n, bool disk, const char *source) CHECKED;
void image_cache_free(ImageCache *c);
/* Lends image i, whose pixels must not be changed; false: it is not there. */
bool image_cache_find(const ImageCache *c, int64_t i, int channels, Image *out);
/* Stores a copy of image i, unless it is too large or is being stored. */
void image_cache_store(ImageCache *c, int64_t i, const Image *image);

#endif
