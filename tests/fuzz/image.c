/* JPEG, PNG and WebP files, and masks: what is refused has a message, what is read can be decoded, resized and
 * augmented. */
#include "tests/fuzz/common/fuzz.h"
#include "tools/image/image_augment.h"

enum { MOST_PIXELS = 1 << 16 /* of a decoded image, to be quick */ };

static void use(const Image *image, const ImageHeader *h)
{
    const Augment all = { .crop = true, .flip = true, .rotate = 30, .color = 0.5, .randaugment = 9, .erase = true };
    Image out = { 0 }, spare = { 0 };
    AugmentDraw draw;

    MUST_DO(image_fit(&out, image, 7, 5, RESIZE_BICUBIC));
    augment_draw(&draw, &all, image->width, image->height, 6, 9, 1, 2, h->width);
    MUST_DO(augment_crop(&out, image, &draw, 6, 9, RESIZE_BILINEAR, 0));
    MUST(out.width == 6 && out.height == 9, "%d x %d", out.width, out.height);
    MUST_DO(augment_apply(&out, &spare, &draw));
    image_free(&out);
    image_free(&spare);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(size ? size : 1); /* a read behind the end is found */
    Image image = { 0 };
    ImageHeader h;
    Status st;

    MUST(file, "memory");
    memcpy(file, data, size);
    st = image_read_header(&h, file, size, "fuzz");
    if (st)
        fuzz_refused(st);
    else
        MUST(h.width > 0 && h.height > 0 && h.orientation >= 1 && h.orientation <= 8, "%d x %d", h.width, h.height);
    for (int k = 0; k < 4 && !st && (int64_t)h.width * h.height <= MOST_PIXELS; k++) {
        Status decoded = image_decode(&image, file, size, k & 1 ? 3 : 1, k & 2 ? 3 : 0, k & 2 ? 2 : 0, "fuzz");

        if (decoded)
            fuzz_refused(decoded);
        else
            use(&image, &h);
    }
    st = mask_decode(&image, file, size, "fuzz");
    if (st)
        fuzz_refused(st);
    else if ((int64_t)image.width * image.height <= MOST_PIXELS)
        use(&image, &h);
    image_free(&image);
    free(file);
    return 0;
}
