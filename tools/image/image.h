/* Images of 8 bits a channel in memory: JPEG, PNG and WebP files decoded, resized, cropped, augmented; masks likewise.
 *
 * All values are those of Pillow and torchvision for the same arguments (tests/interop/images.py compares them). */
#ifndef DPX_TOOLS_IMAGE_H
#define DPX_TOOLS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/status.h"

/* Pixels in rows from the top, without padding: pixel[(y * width + x) * channels + c].  { 0 } is an empty image.  The
 * memory is kept when another image is stored in the same place, so that a thread allocates once. */
typedef struct {
    int width, height, channels; /* channels: 1 (gray) or 3 (red, green, blue) */
    uint8_t *pixel;
    size_t room; /* bytes at `pixel` */
} Image;

/* The most bytes that a decoded image may have, at 3 bytes a pixel: 2^28, about 9,459 x 9,459 pixels. */
enum { IMAGE_MOST_BYTES = 1 << 28 };

/* Makes room for an image of this size, whose pixels are not set.  E_NOMEM. */
Status image_reserve(Image *image, int width, int height, int channels) CHECKED;
void image_free(Image *image); /* leaves { 0 } */

/* ---- image_decode.c ---- */

typedef struct {
    int width, height; /* of the image as it is shown: orientations 5 to 8 exchange them */
    int orientation;   /* EXIF: 1 (as stored) to 8 */
} ImageHeader;

/* Reads the header of a JPEG, PNG or WebP file in memory.  `path` names the file in errors.  E_IO: it is no such file,
 * the header is broken, or the decoded image would have more than IMAGE_MOST_BYTES. */
Status image_read_header(ImageHeader *out, const uint8_t *file, size_t size, const char *path) CHECKED;
/* Decodes a file into `channels` channels (1 or 3), turned as its EXIF orientation asks.  Values are those of Pillow:
 * ImageOps.exif_transpose(Image.open(path)).convert("RGB"), or "L".  Alpha is dropped, 16 bits keep their upper 8, CMYK
 * is taken as inverted when the file has four channels, as Adobe writes it.
 *
 * With least_width and least_height > 0, a JPEG file may be decoded at 1/2, 1/4 or 1/8 of its size as long as the
 * result is not smaller than that, and gray is its luma: Pillow's Image.draft.  0, 0: the full size. E_IO: the file is
 * broken, or ends early. */
Status image_decode(Image *out, const uint8_t *file, size_t size, int channels, int least_width, int least_height,
                    const char *path) CHECKED;
/* Reads the header of a mask: a PNG file of a palette or of gray, with up to 8 bits.  E_IO: it is another file. */
Status mask_read_header(ImageHeader *out, const uint8_t *file, size_t size, const char *path) CHECKED;
/* Decodes a mask into one channel: the numbers of the palette or the gray values as the file holds them, so that 1 of a
 * file with one bit is 1, turned as its EXIF orientation asks. */
Status mask_decode(Image *out, const uint8_t *file, size_t size, const char *path) CHECKED;

/* ---- image_resize.c ---- */

typedef enum { RESIZE_BILINEAR, RESIZE_BICUBIC, RESIZE_NEAREST } ResizeFilter; /* nearest: the pixel below the centre */

/* A rectangle of pixels. */
typedef struct {
    int x, y, width, height;
} ImageBox;

/* Resizes `box` of an image to width x height into `out`, another image, which is antialiased, or with RESIZE_NEAREST
 * picked: Pillow's image.crop(box).resize((width, height), filter).  The box lies within the image.  E_NOMEM. */
Status image_resize(Image *out, const Image *image, ImageBox box, int width, int height, ResizeFilter filter) CHECKED;
/* Resizes an image so that its shorter side fits and cuts out the centre, into `out`: torchvision's Resize and
 * CenterCrop.  For a target that is no square the side is the one that leaves no border.  Only the pixels that are cut
 * out are computed. */
Status image_fit(Image *out, const Image *image, int width, int height, ResizeFilter filter) CHECKED;

#endif
