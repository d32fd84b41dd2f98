/* Decoders of JPEG (libjpeg-turbo) and PNG (libpng) files in memory; WebP is in image_webp.c.
 *
 * Both libraries leave a call by longjmp at the first error.  What has to be freed is kept in a struct of the caller of
 * the function that calls setjmp, so that the jump loses no value. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "tools/image/image_formats.h"

enum { MOST_SCANS = 500 };

static bool is_jpeg(const uint8_t *file, size_t size) { return size > 2 && file[0] == 0xff && file[1] == 0xd8; }
static bool is_png(const uint8_t *file, size_t size) { return size >= 8 && !png_sig_cmp(file, 0, 8); }

/* Turns an image by an EXIF orientation from 2 to 8: pixel (x, y) of the result is (sx, sy) of the stored image. */
static Status turn(Image *image, int orientation)
{
    const int w = image->width, h = image->height, c = image->channels;
    const bool swap = orientation >= 5;
    Image out = { 0 };
    uint8_t *to;

    TRY(image_reserve(&out, swap ? h : w, swap ? w : h, c));
    to = out.pixel;
    for (int y = 0; y < out.height; y++)
        for (int x = 0; x < out.width; x++, to += c) {
            int sx = swap ? y : x, sy = swap ? x : y;

            if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
                sx = w - 1 - sx;
            if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
                sy = h - 1 - sy;
            memcpy(to, image->pixel + ((size_t)sy * (size_t)w + (size_t)sx) * (size_t)c, (size_t)c);
        }
    image_free(image);
    *image = out;
    return ST_OK;
}

/* ---- JPEG ---- */

typedef struct {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr error;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    Status status;
    const char *path;
    size_t size;
    uint8_t *row; /* one row as the library gives it, where it is converted */
} Jpeg;

static void jpeg_failed(j_common_ptr info)
{
    Jpeg *j = info->client_data;
    char text[JMSG_LENGTH_MAX];

    info->err->format_message(info, text);
    j->status = info->err->msg_code == JERR_OUT_OF_MEMORY ? E_NOMEM : E_IO;
    (void)FAIL(j->status, "%s: broken JPEG file: %s (at byte %zu of %zu)", j->path, text,
               j->size - j->source.bytes_in_buffer, j->size);
    longjmp(j->failed, 1);
}

/* Warnings that say that pixels are lost are errors; bytes that nothing needs are not. */
static void jpeg_warned(j_common_ptr info, int level)
{
    switch (level < 0 ? info->err->msg_code : 0) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL: jpeg_failed(info);
    }
}

static boolean jpeg_ended(j_decompress_ptr info)
{
    Jpeg *j = info->client_data;

    j->status = FAIL(E_IO, "%s: truncated JPEG file: it ends after %zu bytes", j->path, j->size);
    longjmp(j->failed, 1);
}

static void jpeg_skip(j_decompress_ptr info, long n)
{
    if (n > 0 && (size_t)n > info->src->bytes_in_buffer)
        (void)jpeg_ended(info);
    if (n > 0) {
        info->src->next_input_byte += n;
        info->src->bytes_in_buffer -= (size_t)n;
    }
}

static void jpeg_nothing(j_decompress_ptr info) { (void)info; }

/* A small file may ask for thousands of passes over a large image. */
static void jpeg_progress(j_common_ptr info)
{
    Jpeg *j = info->client_data;

    if (j->info.input_scan_number <= MOST_SCANS)
        return;
    j->status = FAIL(E_IO, "%s: broken JPEG file: more than %d scans", j->path, MOST_SCANS);
    longjmp(j->failed, 1);
}

/* Reads the header, after setjmp. */
static Status jpeg_begin(Jpeg *j, const uint8_t *file, ImageHeader *out)
{
    j->source = (struct jpeg_source_mgr){ .next_input_byte = file,
                                          .bytes_in_buffer = j->size,
                                          .init_source = jpeg_nothing,
                                          .fill_input_buffer = jpeg_ended,
                                          .skip_input_data = jpeg_skip,
                                          .resync_to_restart = jpeg_resync_to_restart,
                                          .term_source = jpeg_nothing };
    j->progress.progress_monitor = jpeg_progress;
    j->info.src = &j->source;
    j->info.progress = &j->progress;
    jpeg_save_markers(&j->info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&j->info, TRUE);
    out->orientation = 1;
    for (jpeg_saved_marker_ptr m = j->info.marker_list; m; m = m->next)
        if (m->data_length > 6 && !memcmp(m->data, "Exif\0", 6)) {
            out->orientation = exif_orientation(m->data + 6, m->data_length - 6);
            break;
        }
    TRY(image_check_size(j->info.image_width, j->info.image_height, j->path));
    if (j->info.num_components != 1 && j->info.num_components != 3 && j->info.num_components != 4)
        return FAIL(E_IO, "%s: a JPEG file of %d components; 1, 3 or 4 are known", j->path, j->info.num_components);
    out->width = (int)j->info.image_width;
    out->height = (int)j->info.image_height;
    return ST_OK;
}

/* Decodes what jpeg_begin has begun, in the order of the file. */
static Status jpeg_pixels(Jpeg *j, Image *out, int channels, int least_width, int least_height)
{
    struct jpeg_decompress_struct *d = &j->info;
    unsigned scale = 1;

    while (least_width > 0 && least_height > 0 && scale < 8 && d->image_width / (2 * scale) >= (unsigned)least_width &&
           d->image_height / (2 * scale) >= (unsigned)least_height)
        scale *= 2;
    d->scale_num = 1;
    d->scale_denom = scale;
    d->out_color_space = d->num_components == 4                                                 ? JCS_CMYK
                         : d->num_components == 1                                               ? JCS_GRAYSCALE
                         : channels == 1 && least_width > 0 && d->jpeg_color_space == JCS_YCbCr ? JCS_GRAYSCALE
                                                                                                : JCS_RGB;
    jpeg_start_decompress(d);
    TRY(image_reserve(out, (int)d->output_width, (int)d->output_height, channels));
    if (d->output_components != channels && !(j->row = malloc((size_t)d->output_width * (size_t)d->output_components)))
        return FAIL_NOMEM();
    while (d->output_scanline < d->output_height) {
        uint8_t *to = out->pixel + (size_t)d->output_scanline * (size_t)out->width * (size_t)channels;
        JSAMPROW row = j->row ? j->row : to;

        if (jpeg_read_scanlines(d, &row, 1) && j->row)
            image_convert_row(to, channels, j->row, d->output_components, out->width);
    }
    return ST_OK;
}

/* Where `out` is NULL, the header alone is read. */
static Status jpeg_run(Jpeg *j, ImageHeader *header, Image *out, const uint8_t *file, int channels, int least_width,
                       int least_height)
{
    bool swap;

    if (setjmp(j->failed))
        return j->status;
    jpeg_create_decompress(&j->info);
    TRY(jpeg_begin(j, file, header));
    swap = header->orientation >= 5;
    return out ? jpeg_pixels(j, out, channels, swap ? least_height : least_width, swap ? least_width : least_height)
               : ST_OK;
}

static Status read_jpeg(ImageHeader *header, Image *out, const uint8_t *file, size_t size, int channels,
                        int least_width, int least_height, const char *path)
{
    Jpeg j = { .path = path, .size = size };
    Status st;

    j.info.err = jpeg_std_error(&j.error);
    j.error.error_exit = jpeg_failed;
    j.error.emit_message = jpeg_warned;
    j.info.client_data = &j;
    st = jpeg_run(&j, header, out, file, channels, least_width, least_height);
    jpeg_destroy_decompress(&j.info);
    free(j.row);
    return st;
}

/* ---- PNG ---- */

typedef struct {
    png_structp png;
    png_infop info;
    const char *path;
    const uint8_t *file;
    size_t size, at;
    Status status;
    bool ids;       /* values of the file are class numbers */
    uint8_t *pixel; /* [height][width][stored] where they are converted */
} Png;

static void png_failed(png_structp png, png_const_charp text)
{
    Png *p = png_get_error_ptr(png);

    p->status = FAIL(E_IO, "%s: broken PNG file: %s (at byte %zu of %zu)", p->path, text, p->at, p->size);
    png_longjmp(png, 1);
}

static void png_warned(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void png_take(png_structp png, png_bytep to, size_t n)
{
    Png *p = png_get_io_ptr(png);

    if (n > p->size - p->at)
        png_error(png, "it is truncated");
    memcpy(to, p->file + p->at, n);
    p->at += n;
}

/* Finds the chunk with EXIF data.  libpng would allocate as much as the chunk claims to have. */
static int png_orientation(const uint8_t *file, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        const size_t n = image_number(file + at, 4, false);

        if (n > size - at - 12)
            return 1;
        if (!memcmp(file + at + 4, "eXIf", 4))
            return exif_orientation(file + at + 8, n);
        at += n + 12;
    }
    return 1;
}

/* Reads the header, after setjmp. */
static Status png_begin(Png *p, ImageHeader *out)
{
    png_set_user_limits(p->png, IMAGE_MOST_SIDE, IMAGE_MOST_SIDE);
    png_set_chunk_malloc_max(p->png, 1 << 24);
    png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* colour profiles, texts, EXIF */
    png_set_read_fn(p->png, p, png_take);
    png_read_info(p->png, p->info);
    out->width = (int)png_get_image_width(p->png, p->info);
    out->height = (int)png_get_image_height(p->png, p->info);
    out->orientation = png_orientation(p->file, p->size);
    return image_check_size(out->width, out->height, p->path);
}

/* Whether the values can be class numbers. */
static Status png_check_ids(const Png *p)
{
    const int kind = png_get_color_type(p->png, p->info), bits = png_get_bit_depth(p->png, p->info);

    if ((kind & PNG_COLOR_MASK_COLOR && kind != PNG_COLOR_TYPE_PALETTE) || bits > 8)
        return FAIL(E_IO,
                    "%s: a mask holds a class number for each pixel: expected a PNG file of a palette or of gray "
                    "with up to 8 bits, found %s of %d bits",
                    p->path, kind & PNG_COLOR_MASK_COLOR ? "colours" : "gray", bits);
    return ST_OK;
}

static Status png_numbers(Png *p, Image *out, const ImageHeader *header)
{
    int passes;

    png_set_packing(p->png);
    png_set_strip_alpha(p->png);
    passes = png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    if (png_get_rowbytes(p->png, p->info) != (size_t)header->width)
        return FAIL(E_IO, "%s: a PNG file of several channels", p->path);
    TRY(image_reserve(out, header->width, header->height, 1));
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < header->height; y++)
            png_read_row(p->png, out->pixel + (size_t)y * (size_t)header->width, NULL);
    png_read_end(p->png, p->info);
    return ST_OK;
}

static Status png_pixels(Png *p, Image *out, int channels, const ImageHeader *header)
{
    const int w = header->width, h = header->height;
    int stored, passes;
    uint8_t *all;

    png_set_expand_gray_1_2_4_to_8(p->png);
    if (png_get_color_type(p->png, p->info) == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(p->png);
    png_set_strip_16(p->png);
    png_set_strip_alpha(p->png);
    passes = png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    stored = (int)png_get_channels(p->png, p->info);
    if ((stored != 1 && stored != 3) || png_get_rowbytes(p->png, p->info) != (size_t)w * (size_t)stored)
        return FAIL(E_IO, "%s: a PNG file of %d channels, which is neither gray nor colour", p->path, stored);
    TRY(image_reserve(out, w, h, channels));
    if (stored != channels && !(p->pixel = malloc((size_t)w * (size_t)h * (size_t)stored)))
        return FAIL_NOMEM();
    all = p->pixel ? p->pixel : out->pixel;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < h; y++)
            png_read_row(p->png, all + (size_t)y * (size_t)w * (size_t)stored, NULL);
    for (int y = 0; p->pixel && y < h; y++)
        image_convert_row(out->pixel + (size_t)y * (size_t)w * (size_t)channels, channels,
                          p->pixel + (size_t)y * (size_t)w * (size_t)stored, stored, w);
    png_read_end(p->png, p->info);
    return ST_OK;
}

/* Where `out` is NULL, the header alone is read. */
static Status png_run(Png *p, ImageHeader *header, Image *out, int channels)
{
    if (setjmp(png_jmpbuf(p->png)))
        return p->status;
    TRY(png_begin(p, header));
    TRY(p->ids ? png_check_ids(p) : ST_OK);
    if (out && p->ids)
        return png_numbers(p, out, header);
    return out ? png_pixels(p, out, channels, header) : ST_OK;
}

/* `channels` 0: the values are class numbers. */
static Status read_png(ImageHeader *header, Image *out, const uint8_t *file, size_t size, int channels,
                       const char *path)
{
    Png p = { .path = path, .file = file, .size = size, .ids = !channels };
    Status st;

    p.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &p, png_failed, png_warned);
    p.info = p.png ? png_create_info_struct(p.png) : NULL;
    st = p.info ? png_run(&p, header, out, channels) : FAIL_NOMEM();
    png_destroy_read_struct(&p.png, &p.info, NULL);
    free(p.pixel);
    return st;
}

/* ---- masks ---- */

static Status read_mask(ImageHeader *header, Image *out, const uint8_t *file, size_t size, const char *path)
{
    if (!is_png(file, size))
        return FAIL(E_IO, "%s: a mask is a PNG file, whose values are exact%s", path,
                    is_jpeg(file, size)   ? "; this is a JPEG file"
                    : is_webp(file, size) ? "; this is a WebP file"
                                          : "");
    return read_png(header, out, file, size, 0, path);
}

/* The size of an image as it is shown. */
static ImageHeader shown(ImageHeader h)
{
    return h.orientation < 5 ? h : (ImageHeader){ h.height, h.width, h.orientation };
}

Status mask_read_header(ImageHeader *out, const uint8_t *file, size_t size, const char *path)
{
    ImageHeader h = { 0, 0, 1 };

    TRY(read_mask(&h, NULL, file, size, path));
    *out = shown(h);
    return ST_OK;
}

Status mask_decode(Image *out, const uint8_t *file, size_t size, const char *path)
{
    ImageHeader h = { 0, 0, 1 };

    TRY(read_mask(&h, out, file, size, path));
    return h.orientation == 1 ? ST_OK : turn(out, h.orientation);
}

/* ---- images of all kinds ---- */

static Status read_image(ImageHeader *header, Image *out, const uint8_t *file, size_t size, int channels,
                         int least_width, int least_height, const char *path)
{
    if (is_jpeg(file, size))
        return read_jpeg(header, out, file, size, channels, least_width, least_height, path);
    if (is_png(file, size))
        return read_png(header, out, file, size, channels, path);
    if (is_webp(file, size))
        return webp_read(header, out, file, size, channels, path);
    return FAIL(E_IO, "%s: neither a JPEG nor a PNG nor a WebP file; convert it to one of them", path);
}

Status image_read_header(ImageHeader *out, const uint8_t *file, size_t size, const char *path)
{
    ImageHeader h = { 0, 0, 1 };

    TRY(read_image(&h, NULL, file, size, 3, 0, 0, path));
    *out = shown(h);
    return ST_OK;
}

Status image_decode(Image *out, const uint8_t *file, size_t size, int channels, int least_width, int least_height,
                    const char *path)
{
    ImageHeader h = { 0, 0, 1 };

    TRY(read_image(&h, out, file, size, channels, least_width, least_height, path));
    return h.orientation == 1 ? ST_OK : turn(out, h.orientation);
}
