/* The class with the largest score at each pixel, written by libpng (see the header). */
#include "tools/predicted_masks.h"

#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/base/outfile.h"
#include "tools/tensor_number.h"

enum { MOST_CLASSES = 256, MOST_PATH = 8192 };

/* The colours of PASCAL VOC's masks: the bits of a class number, three by three, are the upper bits of red, green and
 * blue. */
static void fill_palette(uint8_t palette[MOST_CLASSES][3])
{
    memset(palette, 0, MOST_CLASSES * 3);
    for (int c = 0; c < MOST_CLASSES; c++)
        for (int bit = 0; bit < 8; bit++)
            palette[c][bit % 3] |= (uint8_t)((c >> bit & 1) << (7 - bit / 3));
}

/* FOLDER/NAME.png for an image NAME.jpg; makes the folders that the name has. */
static Status make_path(char path[MOST_PATH], const char *folder, const char *name)
{
    const char *dot = strrchr(name, '.');
    const int n =
        snprintf(path, MOST_PATH, "%s/%.*s.png", folder, (int)(dot ? dot - name : (ptrdiff_t)strlen(name)), name);

    if (n >= MOST_PATH)
        return FAIL(E_INVALID, "%s: the path is too long", name);
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        if (mkdir(path, 0777) && errno != EEXIST)
            return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
        *at = '/';
    }
    return ST_OK;
}

static Status write_mask(const char *path, const uint8_t *pixel, int width, int height)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = (png_uint_32)width,
                        .height = (png_uint_32)height,
                        .format = PNG_FORMAT_RGB_COLORMAP,
                        .colormap_entries = MOST_CLASSES };
    uint8_t palette[MOST_CLASSES][3];
    OutFile *file;
    Status st = ST_OK;

    fill_palette(palette);
    TRY(outfile_open(&file, path));
    if (!png_image_write_to_stdio(&image, outfile_stream(file), 0, pixel, 0, palette))
        st = FAIL(E_IO, "%s: cannot write: %s", path, image.message);
    return outfile_close(file, st);
}

Status predicted_masks_write(const char *folder, const Dataset *data, const dpx_tensor *scores, int64_t samples,
                             int64_t from)
{
    const int64_t classes = scores->rank == 4 ? scores->dim[1] : 0, height = scores->dim[2], width = scores->dim[3],
                  n = height * width;
    uint8_t *pixel;
    Status st = ST_OK;

    if (classes < 2 || classes > MOST_CLASSES || scores->dim[0] != samples || !data->source.format->file)
        return FAIL(E_UNSUPPORTED,
                    "output '%s' makes no masks: expected images, and scores [N,C,H,W] of 2 to %d classes of pixels",
                    scores->name, MOST_CLASSES);
    if (!(pixel = malloc((size_t)n)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < samples && !st; i++) {
        char path[MOST_PATH];

        for (int64_t p = 0; p < n; p++) {
            int64_t best = 0;

            for (int64_t c = 1; c < classes; c++)
                if (tensor_number(scores, (i * classes + c) * n + p) >
                    tensor_number(scores, (i * classes + best) * n + p))
                    best = c;
            pixel[p] = (uint8_t)best;
        }
        st = make_path(path, folder, data->source.format->file(data, dataset_row(data, from + i)));
        if (!st)
            st = write_mask(path, pixel, (int)width, (int)height);
    }
    free(pixel);
    return st;
}
