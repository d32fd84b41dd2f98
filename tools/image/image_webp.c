/* Decoder of WebP files in memory, by libwebp where dpexec was built with it (DPX_WEBP). */
#include <stdlib.h>
#include <string.h>

#include "tools/image/image_formats.h"

bool is_webp(const uint8_t *file, size_t size)
{
    return size >= 12 && !memcmp(file, "RIFF", 4) && !memcmp(file + 8, "WEBP", 4);
}

#ifdef DPX_WEBP
#include <webp/decode.h>

/* The orientation of the chunk EXIF, which may begin as in JPEG files. */
static int webp_orientation(const uint8_t *file, size_t size)
{
    for (size_t at = 12; at + 8 <= size;) {
        const size_t n =
            (size_t)file[at + 4] | (size_t)file[at + 5] << 8 | (size_t)file[at + 6] << 16 | (size_t)file[at + 7] << 24;
        const uint8_t *data = file + at + 8;
        const size_t skip = n >= 6 && at + 14 <= size && !memcmp(data, "Exif\0", 6) ? 6 : 0;

        if (n > size - at - 8)
            return 1;
        if (!memcmp(file + at, "EXIF", 4))
            return exif_orientation(data + skip, n - skip);
        at += 8 + n + (n & 1);
    }
    return 1;
}

static Status broken(const char *path, VP8StatusCode code, size_t size)
{
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return FAIL_NOMEM();
    return code == VP8_STATUS_NOT_ENOUGH_DATA
               ? FAIL(E_IO, "%s: truncated WebP file: it ends after %zu bytes", path, size)
               : FAIL(E_IO, "%s: broken WebP file", path);
}

/* Decodes red, green and blue, and turns them to gray where one channel is wanted. */
static Status webp_pixels(Image *out, const uint8_t *file, size_t size, int channels, const char *path)
{
    WebPDecoderConfig c;
    Image colours = { 0 };
    Status st;

    if (!WebPInitDecoderConfig(&c))
        return FAIL(E_INTERNAL, "another libwebp than dpexec was built with");
    if (WebPGetFeatures(file, size, &c.input) != VP8_STATUS_OK)
        return broken(path, VP8_STATUS_BITSTREAM_ERROR, size);
    st = image_reserve(channels == 3 ? out : &colours, c.input.width, c.input.height, 3);
    if (!st && channels == 1)
        st = image_reserve(out, c.input.width, c.input.height, 1);
    if (!st) {
        const size_t row = (size_t)c.input.width * 3;
        uint8_t *pixel = channels == 3 ? out->pixel : colours.pixel;
        VP8StatusCode code;

        c.output.colorspace = MODE_RGB;
        c.output.is_external_memory = 1;
        c.output.u.RGBA.rgba = pixel;
        c.output.u.RGBA.stride = (int)row;
        c.output.u.RGBA.size = row * (size_t)c.input.height;
        if ((code = WebPDecode(file, size, &c)) != VP8_STATUS_OK)
            st = broken(path, code, size);
        for (int y = 0; y < c.input.height && channels == 1 && !st; y++)
            image_convert_row(out->pixel + (size_t)y * (size_t)c.input.width, 1, pixel + (size_t)y * row, 3,
                              c.input.width);
    }
    image_free(&colours);
    return st;
}

Status webp_read(ImageHeader *header, Image *out, const uint8_t *file, size_t size, int channels, const char *path)
{
    WebPBitstreamFeatures f;
    const VP8StatusCode code = WebPGetFeatures(file, size, &f);

    if (code != VP8_STATUS_OK)
        return broken(path, code, size);
    if (f.has_animation)
        return FAIL(E_IO, "%s: an animated WebP file; save one of its pictures", path);
    TRY(image_check_size(f.width, f.height, path));
    *header = (ImageHeader){ f.width, f.height, webp_orientation(file, size) };
    return out ? webp_pixels(out, file, size, channels, path) : ST_OK;
}

#else

Status webp_read(ImageHeader *header, Image *out, const uint8_t *file, size_t size, int channels, const char *path)
{
    (void)header, (void)out, (void)file, (void)size, (void)channels;
    return FAIL(E_IO, "%s: a WebP file, and dpexec was built without libwebp: convert it to JPEG or PNG", path);
}

#endif
