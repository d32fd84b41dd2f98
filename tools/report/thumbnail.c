/* Draws a tensor's sample and writes it by libpng. */
#include "tools/report/thumbnail.h"

#include <png.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tensor_number.h"

enum { MOST_SIDE = 64 };

/* RFC 4648; NULL: out of memory. */
static char *encode_base64(const uint8_t *bytes, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;

    for (size_t i = 0; text && i < n; i += 3) {
        const uint32_t three =
            (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) | (i + 2 < n ? bytes[i + 2] : 0u);

        *to++ = digit[three >> 18];
        *to++ = digit[three >> 12 & 63];
        *to++ = (char)(i + 1 < n ? digit[three >> 6 & 63] : '=');
        *to++ = (char)(i + 2 < n ? digit[three & 63] : '=');
    }
    if (text)
        *to = '\0';
    return text;
}

/* Picks the nearest pixels of a sample, stretched to all grays or colours: [height][width][channels]. */
static void draw(uint8_t *pixel, int width, int height, const dpx_tensor *t, int64_t at)
{
    const int64_t c = t->dim[1], h = t->dim[2], w = t->dim[3], from = at * c * h * w;
    double least = tensor_number(t, from), most = least;

    for (int64_t i = from; i < from + c * h * w; i++) {
        least = tensor_number(t, i) < least ? tensor_number(t, i) : least;
        most = tensor_number(t, i) > most ? tensor_number(t, i) : most;
    }
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int64_t k = 0; k < c; k++) {
                const double v = tensor_number(t, from + (k * h + y * h / height) * w + x * w / width);

                *pixel++ = (uint8_t)(most > least ? 255 * (v - least) / (most - least) + 0.5 : 0);
            }
}

Status thumbnail_base64(char **out, const dpx_tensor *t, int64_t at)
{
    const bool known = t->dtype == DPX_FLOAT32 || t->dtype == DPX_FLOAT64 || t->dtype == DPX_UINT8;
    png_image image = { .version = PNG_IMAGE_VERSION };
    int64_t longer;
    png_alloc_size_t bytes = 0;
    uint8_t *pixel, *file = NULL;

    *out = NULL;
    if (!known || t->rank != 4 || (t->dim[1] != 1 && t->dim[1] != 3) || t->dim[2] < 2 || t->dim[3] < 2)
        return ST_OK;
    longer = t->dim[2] > t->dim[3] ? t->dim[2] : t->dim[3];
    longer = longer < MOST_SIDE ? MOST_SIDE : longer;
    image.height = (png_uint_32)(t->dim[2] * MOST_SIDE / longer);
    image.width = (png_uint_32)(t->dim[3] * MOST_SIDE / longer);
    image.height += !image.height;
    image.width += !image.width;
    image.format = t->dim[1] == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    if (!(pixel = malloc(PNG_IMAGE_SIZE(image))))
        return FAIL_NOMEM();
    draw(pixel, (int)image.width, (int)image.height, t, at);
    if (png_image_write_get_memory_size(image, bytes, 0, pixel, 0, NULL) && (file = malloc(bytes)) &&
        png_image_write_to_memory(&image, file, &bytes, 0, pixel, 0, NULL))
        *out = encode_base64(file, bytes);
    free(file);
    free(pixel);
    return *out ? ST_OK : FAIL_NOMEM();
}
