/* images:DIR: JPEG, PNG and WebP files in folders, or in a list; or with their masks. */
#include "tools/data/image_samples.h"

static const DataOption options[] = {
    IMAGE_OPTIONS,
    { "list", "FILE.csv", "rows of a path in DIR and a class, or several numbers [a folder for each class]" },
    { "masks", "DIR", "PNG files of the images' names, whose values are the classes of pixels: the target" },
    { "values", "V+V+...", "values of masks that stand for classes 0, 1, ... [the class numbers]" },
    { NULL, NULL, NULL }
};

static void free_images(void *maker) { images_free(maker); }

/* Predictions need no targets: any folder of images will do, and a single file. */
static bool is_unlabelled(const Source *s, const SourceContext *c) { return c->predicts && !source_value(s, "list"); }

/* An ImageLister. */
static Status list_files(ImageList *out, const Source *s, const SourceContext *c, const char *const *known, int64_t n,
                         void *user)
{
    const char *classes = source_value(s, "classes"), *masks = source_value(s, "masks");

    (void)user;
    if (is_unlabelled(s, c))
        return image_list_find(out, s->path, NULL, known, n);
    if (!masks)
        return image_list_read(out, s->path, source_value(s, "list"), classes, known, n);
    TRY(image_list_find(out, s->path, classes, known, n));
    return image_list_add_masks(out, masks);
}

static Status read_images(Dataset *d, const Source *s, const SourceContext *c)
{
    Images *m;

    TRY(images_create(&m));
    d->maker = m;
    d->free_maker = free_images;
    return images_read(m, d, s, c, list_files, NULL);
}

static Status fit_images(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    (void)c;
    return images_fit(d->maker, row, n);
}

static const char *file_of(const Dataset *d, int64_t row) { return images_file(d->maker, row); }

DEFINE_DATA_FORMAT(images, .form = "images:DIR", .help = "JPEG, PNG and WebP files in a folder for each class",
                   .prefix = "images:", .scaled = true, .augmented = true, .laborious = true, .options = options,
                   .read = read_images, .fit = fit_images, .file = file_of);
