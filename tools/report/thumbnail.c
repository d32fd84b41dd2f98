/* Draws a tensor's sample and writes it by libpng. */
#include "tools/report/thumbnail.h"

#include <png.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tensor_number.h"

enum { MOST_SIDE = 64, N_COLOURS = 8 };

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

/* The sizes of a picture whose longer side has at most MOST_SIDE pixels. */
static png_image image_of(int64_t height, int64_t width, png_uint_32 format)
{
    png_image image = { .version = PNG_IMAGE_VERSION, .format = format };
    int64_t longer = height > width ? height : width;

    longer = longer < MOST_SIDE ? MOST_SIDE : longer;
    image.height = (png_uint_32)(height * MOST_SIDE / longer);
    image.width = (png_uint_32)(width * MOST_SIDE / longer);
    image.height += !image.height;
    image.width += !image.width;
    return image;
}

/* Writes pixels as a file in base64. */
static Status write_png(char **out, png_image *image, const uint8_t *pixel)
{
    png_alloc_size_t bytes = 0;
    uint8_t *file = NULL;

    if (png_image_write_get_memory_size(*image, bytes, 0, pixel, 0, NULL) && (file = malloc(bytes)) &&
        png_image_write_to_memory(image, file, &bytes, 0, pixel, 0, NULL))
        *out = encode_base64(file, bytes);
    free(file);
    return *out ? ST_OK : FAIL_NOMEM();
}

Status thumbnail_base64(char **out, const dpx_tensor *t, int64_t at)
{
    const bool known = t->dtype == DPX_FLOAT32 || t->dtype == DPX_FLOAT64 || t->dtype == DPX_UINT8;
    png_image image;
    uint8_t *pixel;
    Status st;

    *out = NULL;
    if (!known || t->rank != 4 || (t->dim[1] != 1 && t->dim[1] != 3) || t->dim[2] < 2 || t->dim[3] < 2)
        return ST_OK;
    image = image_of(t->dim[2], t->dim[3], t->dim[1] == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB);
    if (!(pixel = malloc(PNG_IMAGE_SIZE(image))))
        return FAIL_NOMEM();
    draw(pixel, (int)image.width, (int)image.height, t, at);
    st = write_png(out, &image, pixel);
    free(pixel);
    return st;
}

Status thumbnail_of_classes(char **out, const uint8_t *class_of, int64_t height, int64_t width)
{
    static const uint8_t colour[N_COLOURS][3] = { { 43, 47, 58 },    { 110, 160, 255 }, { 255, 154, 92 },
                                                  { 105, 209, 127 }, { 214, 140, 240 }, { 232, 192, 74 },
                                                  { 76, 196, 216 },  { 255, 133, 177 } };
    png_image image = image_of(height, width, PNG_FORMAT_RGB);
    uint8_t *pixel = malloc(PNG_IMAGE_SIZE(image));
    Status st;

    *out = NULL;
    if (!pixel)
        return FAIL_NOMEM();
    for (int64_t y = 0; y < image.height; y++)
        for (int64_t x = 0; x < image.width; x++) {
            const uint8_t c = class_of[y * height / image.height * width + x * width / image.width];

            for (int k = 0; k < 3; k++)
                pixel[(y * image.width + x) * 3 + k] = c == NO_CLASS ? 255 : colour[c % N_COLOURS][k];
        }
    st = write_png(out, &image, pixel);
    free(pixel);
    return st;
}
