/* For the decoders of tools/image: what files of all formats share. */
#ifndef DPX_TOOLS_IMAGE_FORMATS_H
#define DPX_TOOLS_IMAGE_FORMATS_H

#include "tools/image/image.h"

enum { IMAGE_MOST_SIDE = 65535 };
/* E_IO: an image of this size is not decoded. */
Status image_check_size(int64_t width, int64_t height, const char *path) CHECKED;
/* A whole number of so many bytes, the least first or last. */
uint32_t image_number(const uint8_t *p, int bytes, bool little);
/* The orientation that EXIF data (a TIFF file of tags) ask for; 1 where they are broken or have none. */
int exif_orientation(const uint8_t *exif, size_t n);
/* Converts n pixels between 1, 3 and 4 (inverted CMYK) channels to 1 or 3, as Pillow's Image.convert. */
void image_convert_row(uint8_t *to, int channels, uint8_t *from, int stored, int n);

bool is_webp(const uint8_t *file, size_t size);
/* Reads the header of a WebP file, and its pixels unless `out` is NULL.  E_IO: it is broken, or an animation, or dpexec
 * was built without libwebp. */
Status webp_read(ImageHeader *header, Image *out, const uint8_t *file, size_t size, int channels,
                 const char *path) CHECKED;

#endif
