/* Images: decoded, resized and augmented as Pillow and torchvision do it (tests/tools/make_images.py), refused by name
 * when they are broken. */
#include "tools/image/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/mapped.h"
#include "graph/base/numtext.h"
#include "tests/harness/test.h"
#include "tools/image/image_augment.h"

#define FOLDER SOURCE_DIR "/tests/tools/images/"

static Mapped open_file(const char *name)
{
    char path[1024];
    Mapped m = { 0 };

    snprintf(path, sizeof path, FOLDER "%s", name);
    CHECK_OK(mapped_open(&m, path));
    return m;
}

/* Compares with a PPM or PGM file, whose pixels are its end. */
static void compare(const Image *image, const char *name, int tolerance, const char *what)
{
    Mapped m = open_file(name);
    int w = 0, h = 0, channels = m.data[1] == '6' ? 3 : 1, worst = 0;
    size_t n;

    CU_ASSERT_EQUAL(sscanf((const char *)m.data, "P%*c %d %d 255", &w, &h), 2);
    n = (size_t)w * (size_t)h * (size_t)channels;
    if (image->width != w || image->height != h || image->channels != channels) {
        TEST_FAIL("%s: %d x %d x %d, expected %d x %d x %d", what, image->width, image->height, image->channels, w, h,
                  channels);
    } else {
        for (size_t i = 0; i < n; i++) {
            int d = abs(image->pixel[i] - m.data[m.size - n + i]);

            worst = d > worst ? d : worst;
        }
        if (worst > tolerance)
            TEST_FAIL("%s: a pixel differs by %d", what, worst);
    }
    mapped_close(&m);
}

static Status decode(Image *out, const char *name, int channels, int least_width, int least_height)
{
    Mapped m = open_file(name);
    Status st = image_decode(out, m.data, m.size, channels, least_width, least_height, name);

    mapped_close(&m);
    return st;
}

/* One line of cases.txt: INPUT OPERATION ARGUMENTS EXPECTED. */
static void run_case(const char *line)
{
    char input[64], operation[16], expected[64], filter[16] = "";
    const char *at = line;
    int n = 0, c = 3, w = 0, h = 0, flipped = 0;
    ImageBox b = { 0 };
    AugmentDraw d = { .cropped = true };
    Image image = { 0 }, out = { 0 };

    CU_ASSERT_EQUAL_FATAL(sscanf(line, "%63s %15s%n", input, operation, &n), 2);
    at += n;
    if (!strcmp(operation, "decode") || !strcmp(operation, "webp")) {
        CU_ASSERT_EQUAL_FATAL(sscanf(at, "%d %d %d %63s", &c, &w, &h, expected), 4);
        CHECK_OK(decode(&out, input, c, w, h));
        compare(&out, expected, 0, line);
        image_free(&out);
        return;
    }
    CHECK_OK(decode(&image, input, strstr(input, "gray") ? 1 : 3, 0, 0));
    if (!strcmp(operation, "resize")) {
        CU_ASSERT_EQUAL_FATAL(
            sscanf(at, "%d %d %d %d %d %d %15s %63s", &b.x, &b.y, &b.width, &b.height, &w, &h, filter, expected), 8);
        CHECK_OK(image_resize(&out, &image, b, w, h, *filter && filter[2] == 'c' ? RESIZE_BICUBIC : RESIZE_BILINEAR));
    } else if (!strcmp(operation, "fit")) {
        CU_ASSERT_EQUAL_FATAL(sscanf(at, "%d %d %15s %63s", &w, &h, filter, expected), 4);
        CHECK_OK(image_fit(&out, &image, w, h, filter[2] == 'c' ? RESIZE_BICUBIC : RESIZE_BILINEAR));
    } else if (!strcmp(operation, "crop")) {
        CU_ASSERT_EQUAL_FATAL(
            sscanf(at, "%d %d %d %d %d %d %63s", &d.crop.x, &d.crop.y, &d.crop.width, &d.crop.height, &w, &h, expected),
            7);
        CHECK_OK(augment_crop(&out, &image, &d, w, h, RESIZE_BILINEAR, 0));
    } else if (!strcmp(operation, "change")) {
        char amount[24];
        int kind;

        CU_ASSERT_EQUAL_FATAL(sscanf(at, "%d %23s %63s", &kind, amount, expected), 3);
        CU_ASSERT_FATAL(text_to_float64(&d.change[0].amount, amount, strlen(amount)));
        d.change[0].kind = (ChangeKind)kind;
        d.factor[0] = d.factor[1] = d.factor[2] = 1;
        CHECK_OK(augment_apply(&image, &out, &d));
        image_free(&out);
        out = image;
        image = (Image){ 0 };
    } else {
        char number[4][24];
        double *const to[] = { &d.angle, d.factor, d.factor + 1, d.factor + 2 };

        CU_ASSERT_EQUAL_FATAL(sscanf(at, "%d %23s %23s %23s %23s %d %d %d %63s", &flipped, number[0], number[1],
                                     number[2], number[3], d.order, d.order + 1, d.order + 2, expected),
                              9);
        for (int i = 0; i < 4; i++) /* whatever the locale */
            CU_ASSERT_FATAL(text_to_float64(to[i], number[i], strlen(number[i])));
        d.flip = flipped;
        CHECK_OK(augment_apply(&image, &out, &d));
        image_free(&out);
        out = image;
        image = (Image){ 0 };
    }
    compare(&out, expected, 0, line);
    image_free(&image);
    image_free(&out);
}

/* A line of cases.txt whose operation is one of masks. */
static void run_mask_case(const char *line)
{
    char input[64], operation[16], expected[64], angle[24];
    int n = 0, w = 0, h = 0, fill = 0, flipped = 0;
    AugmentDraw d = { .cropped = true };
    Image mask = { 0 }, out = { 0 };
    ImageBox b;
    Mapped m;

    CU_ASSERT_EQUAL_FATAL(sscanf(line, "%63s %15s%n", input, operation, &n), 2);
    line += n;
    m = open_file(input);
    CHECK_OK(mask_decode(&mask, m.data, m.size, input));
    mapped_close(&m);
    if (!strcmp(operation, "nearest")) {
        CU_ASSERT_EQUAL_FATAL(sscanf(line, "%d %d %d %d %d %d %63s", &b.x, &b.y, &b.width, &b.height, &w, &h, expected),
                              7);
        CHECK_OK(image_resize(&out, &mask, b, w, h, RESIZE_NEAREST));
    } else if (!strcmp(operation, "nearest_fit")) {
        CU_ASSERT_EQUAL_FATAL(sscanf(line, "%d %d %63s", &w, &h, expected), 3);
        CHECK_OK(image_fit(&out, &mask, w, h, RESIZE_NEAREST));
    } else if (!strcmp(operation, "ids_crop")) {
        CU_ASSERT_EQUAL_FATAL(sscanf(line, "%d %d %d %d %d %d %d %63s", &d.crop.x, &d.crop.y, &d.crop.width,
                                     &d.crop.height, &w, &h, &fill, expected),
                              8);
        CHECK_OK(augment_crop(&out, &mask, &d, w, h, RESIZE_NEAREST, fill));
    } else {
        if (!strcmp(operation, "ids_apply")) {
            CU_ASSERT_EQUAL_FATAL(sscanf(line, "%d %23s %d %63s", &flipped, angle, &fill, expected), 4);
            CU_ASSERT_FATAL(text_to_float64(&d.angle, angle, strlen(angle)));
            d.flip = flipped;
            CHECK_OK(augment_apply_mask(&mask, &out, &d, fill));
        } else {
            CU_ASSERT_EQUAL_FATAL(sscanf(line, "%63s", expected), 1);
        }
        image_free(&out);
        out = mask;
        mask = (Image){ 0 };
    }
    compare(&out, expected, 0, line);
    image_free(&mask);
    image_free(&out);
}

/* Runs the cases whose operation is in the list, which has a space in front of and behind each. */
static void run_cases(const char *operations, void (*run)(const char *line))
{
    FILE *f = fopen(FOLDER "cases.txt", "r");
    char line[256], operation[16], word[24];
    int n = 0;

    CU_ASSERT_FATAL(f != NULL);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        CU_ASSERT_EQUAL_FATAL(sscanf(line, "%*s %15s", operation), 1);
        snprintf(word, sizeof word, " %s ", operation);
        if (strstr(operations, word)) {
            run(line);
            n++;
        }
    }
    fclose(f);
    CU_ASSERT(n > 7);
}

static void test_decoded(void) { run_cases(" decode ", run_case); }
static void test_resized(void) { run_cases(" resize fit ", run_case); }
static void test_augmented(void) { run_cases(" crop apply ", run_case); }
static void test_changed(void) { run_cases(" change ", run_case); }
/* Without libwebp a WebP file is refused. */
static void test_webp(void)
{
#ifdef DPX_WEBP
    run_cases(" webp ", run_case);
#else
    Image out = { 0 };

    CU_ASSERT_EQUAL(decode(&out, "lossy.webp", 3, 0, 0), E_IO);
    CU_ASSERT(strstr(status_message(), "lossy.webp: a WebP file, and dpexec was built without libwebp") != NULL);
#endif
}

static void test_masks(void) { run_cases(" ids nearest nearest_fit ids_crop ids_apply ", run_mask_case); }

/* The header alone says the size as the image is shown. */
static void test_headers(void)
{
    static const char *const name[] = { "rgb.jpg", "turned6.jpg", "turned.png", "palette.png" };
    static const int want[][3] = { { 17, 11, 1 }, { 11, 17, 6 }, { 11, 17, 6 }, { 17, 11, 1 } };

    for (int i = 0; i < 4; i++) {
        Mapped m = open_file(name[i]);
        ImageHeader h;

        CHECK_OK(image_read_header(&h, m.data, m.size, name[i]));
        CU_ASSERT_EQUAL(h.width, want[i][0]);
        CU_ASSERT_EQUAL(h.height, want[i][1]);
        CU_ASSERT_EQUAL(h.orientation, want[i][2]);
        mapped_close(&m);
    }
}

/* Every file that is cut off anywhere before its last pixel is refused in one line that names it. */
static void test_truncated(void)
{
    static const char *const name[] = { "sub.jpg",     "progressive.jpg", "rgb.png",
                                        "palette.png", "lossy.webp",      "lossless.webp" };

    for (int i = 0; i < 6; i++) {
        Mapped m = open_file(name[i]);

        for (size_t n = 0; n + 2 < m.size; n++) {
            unsigned char *copy = malloc(n + 1); /* a read behind the end is found in a build with ASan */
            Image out = { 0 };

            memcpy(copy, m.data, n);
            if (image_decode(&out, copy, n, 3, 0, 0, "cut") != E_IO)
                TEST_FAIL("%s is read with %zu of %zu bytes", name[i], n, m.size);
            else if (strncmp(status_message(), "cut: ", 5) != 0)
                TEST_FAIL("%s: %s", name[i], status_message());
            image_free(&out);
            free(copy);
        }
        mapped_close(&m);
    }
}

/* A header that asks for too much is refused before anything is allocated. */
static void test_too_large(void)
{
    Mapped m = open_file("rgb.jpg");
    unsigned char *copy = malloc(m.size);
    Image out = { 0 };

    memcpy(copy, m.data, m.size);
    for (size_t i = 0; i + 9 < m.size; i++)
        if (copy[i] == 0xff && copy[i + 1] == 0xc0)
            memcpy(copy + i + 5, "\xea\x60\xea\x60", 4);
    CHECK_FAILS(
        E_IO, "large.jpg: 60000 x 60000 pixels are more than the 89478485 that dpexec decodes; make the image smaller",
        image_decode(&out, copy, m.size, 3, 0, 0, "large.jpg"));
    CU_ASSERT(out.pixel == NULL);
    CHECK_FAILS(E_IO, "a.jpg: neither a JPEG nor a PNG nor a WebP file; convert it to one of them",
                image_decode(&out, (const unsigned char *)"GIF89a..", 8, 3, 0, 0, "a.jpg"));
    CHECK_FAILS(E_IO, "a.webp: a mask is a PNG file, whose values are exact; this is a WebP file",
                mask_decode(&out, (const unsigned char *)"RIFF\0\0\0\0WEBPVP8 ", 16, "a.webp"));
    free(copy);
    mapped_close(&m);
}

static void test_list(void)
{
    Augment a;

    CHECK_OK(augment_parse(&a, "crop,flip,rotate:15,color:0.4,erase", "--augment"));
    CU_ASSERT(a.crop && a.flip && a.rotate == 15 && a.color == 0.4 && a.erase);
    CHECK_OK(augment_parse(&a, "flip", "--augment"));
    CU_ASSERT(!a.crop && a.flip && a.rotate == 0 && a.color == 0 && !a.erase);
    CU_ASSERT_EQUAL(augment_parse(&a, "flop,rotate,rotate:x,color:2,flip:1,erase,erase,", "--augment"), E_INVALID);
    for (const char *const *w =
             (const char *const[]){ "--augment", "'flop'", "'rotate'", "rotate is given twice", "'color:2'",
                                    "flip takes no number", "erase is given twice", "''", NULL };
         *w; w++)
        if (!strstr(status_message(), *w))
            TEST_FAIL("'%s' is not in: %s", *w, status_message());
}

/* Draws depend on seed, epoch and sample alone, lie within the image, and one change does not move another's draw. */
static void test_draws(void)
{
    const Augment all = { .crop = true, .flip = true, .rotate = 15, .color = 0.4, .erase = true },
                  some = { .rotate = 15, .color = 0.4 };
    AugmentDraw d, e;
    int flips = 0, erased = 0, orders[27] = { 0 };
    double area = 0;

    for (int i = 0; i < 3000; i++) {
        augment_draw(&d, &all, 40, 60, 24, 20, 5, 2, i);
        augment_draw(&e, &some, 40, 60, 24, 20, 5, 2, i);
        CU_ASSERT(d.angle == e.angle && d.factor[0] == e.factor[0] && d.angle >= -15 && d.angle < 15 && !e.cropped);
        CU_ASSERT(d.crop.x >= 0 && d.crop.x + d.crop.width <= 40 && d.crop.y >= 0 && d.crop.y + d.crop.height <= 60);
        CU_ASSERT(d.erase.x + d.erase.width <= 24 && d.erase.y + d.erase.height <= 20);
        for (int k = 0; k < 3; k++)
            CU_ASSERT(d.factor[k] >= 0.6 && d.factor[k] < 1.4);
        orders[9 * d.order[0] + 3 * d.order[1] + d.order[2]]++;
        flips += d.flip;
        erased += d.erase.width > 0;
        area += d.crop.width * d.crop.height / 2400.0;
    }
    CU_ASSERT(abs(flips - 1500) < 150 && abs(erased - 1500) < 150 && area > 900 && area < 1700);
    for (int i = 0; i < 27; i++)
        CU_ASSERT(i == 5 || i == 7 || i == 11 || i == 15 || i == 19 || i == 21 ? abs(orders[i] - 500) < 120
                                                                               : !orders[i]);
    augment_draw(&e, &all, 40, 60, 24, 20, 5, 3, 2999);
    CU_ASSERT(e.angle != d.angle);
    augment_draw(&e, &all, 32, 32, 32, 32, 5, 3, 1);
    CU_ASSERT(e.crop.width == 32 && e.crop.height == 32 && abs(e.crop.x) <= 4 && abs(e.crop.y) <= 4);
}

DEFINE_SUITE(images, { "files are decoded as by Pillow", test_decoded },
             { "images are resized as by Pillow and torchvision", test_resized },
             { "images are augmented as by torchvision", test_augmented },
             { "RandAugment's operations are Pillow's", test_changed },
             { "masks are read and moved as by Pillow", test_masks },
             { "WebP files are decoded as by Pillow", test_webp }, { "headers", test_headers },
             { "truncated files are refused", test_truncated },
             { "a size that is too large is refused", test_too_large }, { "the list of --augment", test_list },
             { "draws", test_draws });
