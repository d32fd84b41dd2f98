/* Samples of images, for the formats that list them: decoded, resized, augmented and normalised; labels and masks. */
#ifndef DPX_TOOLS_IMAGE_SAMPLES_H
#define DPX_TOOLS_IMAGE_SAMPLES_H

#include "tools/data/data.h"
#include "tools/data/image_list.h"

/* What makes the samples.  It must live as long as the arrays. */
typedef struct Images Images;

/* Lists the images of a source.  known[0..n): names of the classes in order, from training; NULL: unknown. */
typedef Status ImageLister(ImageList *out, const Source *s, const SourceContext *c, const char *const *known, int64_t n,
                           void *user);

/* The options of a source that every format of images has. */
#define IMAGE_OPTIONS                                                                                    \
    { "size", "N|HEIGHTxWIDTH", "pixels of an image [those of the model's input]" },                     \
        { "fit", "crop|stretch", "shorter side to the size and the centre, or the whole image [crop]" }, \
        { "filter", "bilinear|bicubic", "how images are resized [bilinear]" },                           \
        { "decode", "full|fast", "fast: JPEG files at 1/2, 1/4 or 1/8, not below the size [full]" },     \
        { "classes", "FILE", "names of the classes in order, one a line [sorted]" },                     \
    {                                                                                                    \
        "cache", "ram|disk", "keep decoded images [none]"                                                \
    }

Status images_create(Images **out) CHECKED;
void images_free(Images *m); /* NULL is legal */
/* Reads the options, lists and checks the images, and adds the arrays: the images, and if the list has labels, numbers
 * or masks, `target`.  With --skip-broken, images_list lacks broken ones afterwards. */
Status images_read(Images *m, Dataset *d, const Source *s, const SourceContext *c, ImageLister *list,
                   void *user) CHECKED;
/* Adds the targets of a list alone: its files are not read as images. */
Status images_read_labels(Images *m, Dataset *d, const Source *s, const SourceContext *c, ImageLister *list,
                          void *user) CHECKED;
/* Keeps the rows that are trained on, one of which each sample is mixed with; DataFormat.fit. */
Status images_fit(Images *m, const int64_t *row, int64_t n) CHECKED;
const ImageList *images_list(const Images *m);
const char *images_file(const Images *m, int64_t row); /* DataFormat.file */
/* Has the model an input for images?  True if the model is unknown. */
bool images_fit_input(const SourceContext *c);

#endif
