/* What decoders of all formats share: memory of images, their limits, EXIF's orientation, and channels. */
#include "tools/image/image_formats.h"

#include <stdlib.h>
#include <string.h>

enum { ORIENTATION = 0x0112 };

Status image_reserve(Image *image, int width, int height, int channels)
{
    size_t n = (size_t)width * (size_t)height * (size_t)channels;
    uint8_t *p = n <= image->room ? image->pixel : malloc(n);

    if (!p)
        return FAIL_NOMEM();
    if (p != image->pixel) {
        free(image->pixel);
        image->room = n;
    }
    image->pixel = p;
    image->width = width;
    image->height = height;
    image->channels = channels;
    return ST_OK;
}

void image_free(Image *image)
{
    free(image->pixel);
    *image = (Image){ 0 };
}

Status image_check_size(int64_t width, int64_t height, const char *path)
{
    if (width < 1 || height < 1)
        return FAIL(E_IO, "%s: an image of %lld x %lld pixels", path, (long long)width, (long long)height);
    if (width > IMAGE_MOST_SIDE || height > IMAGE_MOST_SIDE || 3 * width * height > IMAGE_MOST_BYTES)
        return FAIL(E_IO, "%s: %lld x %lld pixels are more than the %d that dpexec decodes; make the image smaller",
                    path, (long long)width, (long long)height, IMAGE_MOST_BYTES / 3);
    return ST_OK;
}

uint32_t image_number(const uint8_t *p, int bytes, bool little)
{
    uint32_t v = 0;

    for (int i = 0; i < bytes; i++)
        v = v << 8 | p[little ? bytes - 1 - i : i];
    return v;
}

int exif_orientation(const uint8_t *exif, size_t n)
{
    bool little = n >= 8 && exif[0] == 'I';
    size_t at, entries;

    if (n < 8 || (memcmp(exif, "II*\0", 4) != 0 && memcmp(exif, "MM\0*", 4) != 0))
        return 1;
    at = image_number(exif + 4, 4, little);
    if (at > n - 2)
        return 1;
    entries = image_number(exif + at, 2, little);
    for (at += 2; entries-- && at + 12 <= n; at += 12) {
        uint32_t type = image_number(exif + at + 2, 2, little), v;

        if (image_number(exif + at, 2, little) != ORIENTATION)
            continue;
        v = image_number(exif + at + 8, type == 4 ? 4 : type == 3 ? 2 : 1, little);
        return v >= 1 && v <= 8 ? (int)v : 1;
    }
    return 1;
}

static uint8_t gray_of(const uint8_t *p)
{
    return (uint8_t)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
}

void image_convert_row(uint8_t *to, int channels, uint8_t *from, int stored, int n)
{
    for (int i = 0; i < n; i++, to += channels, from += stored) {
        if (stored == 4) {
            for (int c = 0; c < 3; c++) {
                int t = (255 - from[c]) * from[3] + 128, v = from[3] - (((t >> 8) + t) >> 8);

                from[c] = (uint8_t)(v < 0 ? 0 : v);
            }
        }
        if (channels == 1)
            *to = stored == 1 ? *from : gray_of(from);
        else
            for (int c = 0; c < 3; c++)
                to[c] = from[stored == 1 ? 0 : c];
    }
}
