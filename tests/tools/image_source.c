/* images:DIR: what a batch gets of image files.  Expected pixels are Pillow's (tests/tools/make_images.py). */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tools/data/data.h"
#include "tools/data/image_list.h"

#define FOLDER SOURCE_DIR "/tests/tools/images/"

static char folder[64];

/* A folder with cat/a.png, cat/b.jpg, dog/c.png, dog/d.txt, which is no image. */
static void make_folder(void)
{
    char command[2048];

    strcpy(folder, "/tmp/dpexec-test-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(folder) != NULL);
    snprintf(
        command, sizeof command,
        "cd %s && mkdir cat dog && cp " FOLDER "large.png cat/a.png && cp " FOLDER "large.jpg cat/b.jpg && cp " FOLDER
        "large.png dog/c.png && echo no >dog/d.txt && printf 'file,label\\n\"cat/a.png\",dog\\r\\ndog/c.png,ant\\n' "
        ">l.csv && printf 'cat/a.png,0.5,-1\\ncat/b.jpg,3,4e1\\n' >n.csv && printf 'dog\\nant\\ncat\\n' >classes && "
        "printf 'x,y\\ncat/a.png\\ncat/b.jpg,1\\n\"dog/c.png\",1,2\\n' >bad.csv",
        folder);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
}

static void remove_folder(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* Opens images:DIR with options; the model's input has these axes. */
static Status open_images(Dataset **out, const char *options, const int64_t dim[4], SourceContext c)
{
    dpx_info in = { .name = "x", .dtype = DPX_FLOAT32, .rank = 4 };
    char source[512];

    memcpy(in.dim, dim, 4 * sizeof *dim);
    c.input = &in;
    c.inputs = 1;
    if (!c.norm.channels)
        c.norm = (Normalisation){ .channels = 1, .scale = 1, .std = { 1 } };
    snprintf(source, sizeof source, "images:%s%s", folder, options);
    return dataset_open(out, source, &c);
}

/* Compares row `row` with a PPM file after (v / 255 - mean[c]) / std[c]. */
static void compare_row(const Dataset *d, int64_t row, const char *name, bool nhwc, const double mean[3],
                        const double std[3])
{
    const Array *a = &d->array[0];
    const size_t n = array_sample_elements(a);
    float *out = malloc(n * sizeof *out);
    char path[512];
    Mapped m;
    double worst = 0;

    snprintf(path, sizeof path, FOLDER "%s", name);
    CU_ASSERT_FATAL(!mapped_open(&m, path) && m.size > n);
    CHECK_OK(a->fetch(a, row, &(SampleKey){ 0 }, out));
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % 3, pixel = i / 3, at = nhwc ? i : c * (n / 3) + pixel;
        const double want = (m.data[m.size - n + i] / 255.0 - mean[c]) / std[c], differs = out[at] - want;

        worst = differs > worst ? differs : -differs > worst ? -differs : worst;
    }
    if (worst > 1e-6)
        TEST_FAIL("%s: differs by %g", name, worst);
    mapped_close(&m);
    free(out);
}

/* The file that holds the result of a line of cases.txt. */
static const char *result_of(const char *line)
{
    static char name[64];
    FILE *f = fopen(FOLDER "cases.txt", "r");
    char text[256];

    CU_ASSERT_FATAL(f != NULL);
    for (*name = '\0'; fgets(text, sizeof text, f);)
        if (!strncmp(text, line, strlen(line)))
            sscanf(text + strlen(line), "%63s", name);
    fclose(f);
    CU_ASSERT_FATAL(*name != '\0');
    return name;
}

static void test_pixels(void)
{
    const double none[] = { 0, 0, 0 }, one[] = { 1, 1, 1 }, mean[] = { 0.5, 0.25, 0.125 }, std[] = { 2, 4, 0.5 };
    SourceContext c = { .norm = { .channels = 3, .scale = 1, .mean = { 0.5, 0.25, 0.125 }, .std = { 2, 4, 0.5 } } };
    Dataset *d;

    make_folder();
    if (CHECK_OK(open_images(&d, "", (const int64_t[]){ -1, 3, 16, 16 }, (SourceContext){ 0 }))) {
        const int64_t *label = d->array[1].memory;

        CU_ASSERT(d->samples == 3 && label[0] == 0 && label[1] == 0 && label[2] == 1 && d->classes == 2);
        CU_ASSERT_STRING_EQUAL(d->class_name[1], "dog");
        compare_row(d, 2, result_of("large.png fit 16 16 bilinear"), false, none, one);
        dataset_free(d);
    }
    if (CHECK_OK(open_images(&d, ",filter=bicubic,size=20x40", (const int64_t[]){ -1, -1, -1, 3 }, c))) {
        CU_ASSERT(d->array[0].dim[1] == 20 && d->array[0].dim[2] == 40);
        compare_row(d, 0, result_of("large.png fit 40 20 bicubic"), true, mean, std);
        dataset_free(d);
    }
    if (CHECK_OK(open_images(&d, ",fit=stretch,size=9x12,cache=ram", (const int64_t[]){ -1, 3, -1, -1 }, c))) {
        for (int i = 0; i < 3; i++)
            compare_row(d, 0, result_of("large.png resize 0 0 50 34 12 9 bilinear"), false, mean, std);
        dataset_free(d);
    }
    remove_folder();
}

static void test_lists(void)
{
    const int64_t dim[] = { -1, 3, 16, 16 };
    char options[256];
    Dataset *d;

    make_folder();
    snprintf(options, sizeof options, ",list=%s/l.csv", folder);
    if (CHECK_OK(open_images(&d, options, dim, (SourceContext){ 0 }))) {
        const int64_t *label = d->array[1].memory;

        CU_ASSERT(d->samples == 2 && label[0] == 1 && label[1] == 0 && !strcmp(d->class_name[0], "ant"));
        dataset_free(d);
    }
    snprintf(options, sizeof options, ",list=%s/l.csv,classes=%s/classes", folder, folder);
    if (CHECK_OK(open_images(&d, options, dim, (SourceContext){ 0 }))) {
        const int64_t *label = d->array[1].memory;

        CU_ASSERT(d->classes == 3 && label[0] == 0 && label[1] == 1);
        dataset_free(d);
    }
    snprintf(options, sizeof options, ",list=%s/n.csv", folder);
    if (CHECK_OK(open_images(&d, options, dim, (SourceContext){ 0 }))) {
        const float *v = d->array[1].memory;

        CU_ASSERT(d->array[1].dim[1] == 2 && v[0] == 0.5f && v[1] == -1 && v[2] == 3 && v[3] == 40 && !d->classes);
        dataset_free(d);
    }
    snprintf(options, sizeof options, ",list=%s/bad.csv", folder);
    CU_ASSERT_EQUAL(open_images(&d, options, dim, (SourceContext){ 0 }), E_INVALID);
    CU_ASSERT(strstr(status_message(), "bad.csv: line 2") != NULL);
    remove_folder();
}

/* Evaluation takes what training fitted, and refuses classes that it did not see. */
static void test_fitted(void)
{
    const int64_t dim[] = { -1, 3, -1, -1 };
    json_t *fitted = json_object();
    char path[128];
    Dataset *d;

    make_folder();
    CU_ASSERT_EQUAL(open_images(&d, "", dim, (SourceContext){ .fitted = fitted }), E_INVALID);
    CU_ASSERT(strstr(status_message(), "give size=N") != NULL);
    if (CHECK_OK(
            open_images(&d, ",size=16", dim, (SourceContext){ .training = true, .augment = "flip", .fitted = fitted })))
        dataset_free(d);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(fitted, "classes")), 2);
    snprintf(path, sizeof path, "rm -r %s/cat", folder);
    CU_ASSERT_EQUAL(system(path), 0);
    if (CHECK_OK(open_images(&d, "", dim, (SourceContext){ .fitted = fitted }))) {
        CU_ASSERT(d->samples == 1 && *(const int64_t *)d->array[1].memory == 1 && d->array[0].dim[2] == 16);
        dataset_free(d);
    }
    snprintf(path, sizeof path, "mv %s/dog %s/bird", folder, folder);
    CU_ASSERT_EQUAL(system(path), 0);
    CU_ASSERT_EQUAL(open_images(&d, "", dim, (SourceContext){ .fitted = fitted }), E_INVALID);
    CU_ASSERT(strstr(status_message(), "'bird'") != NULL);
    json_decref(fitted);
    remove_folder();
}

static void test_broken(void)
{
    const int64_t dim[] = { -1, 3, 8, 8 };
    char command[512];
    Dataset *d;

    make_folder();
    snprintf(command, sizeof command,
             "cd %s && echo broken >dog/e.jpg && head -c 90 cat/a.png >cat/f.png && : >cat/g.jpg", folder);
    CU_ASSERT_EQUAL(system(command), 0);
    CU_ASSERT_EQUAL(open_images(&d, "", dim, (SourceContext){ 0 }), E_IO);
    CU_ASSERT(strstr(status_message(), "dog/e.jpg") && strstr(status_message(), "cat/g.jpg") &&
              strstr(status_message(), "--skip-broken"));
    if (CHECK_OK(open_images(&d, "", dim, (SourceContext){ .skip_broken = true }))) {
        const Array *a = &d->array[0];
        float out[192];

        CU_ASSERT(d->samples == 3 || d->samples == 4); /* the cut PNG file has a good header */
        CU_ASSERT(d->note && strstr(d->note, "broken and left out"));
        for (int64_t i = 0; i < d->samples; i++) {
            Status st = a->fetch(a, i, &(SampleKey){ 0 }, out);

            CU_ASSERT(!st || st == E_IO);
        }
        dataset_free(d);
    }
    remove_folder();
}

/* The share of class 1 in row 0, the largest of 30 epochs, where the rows are trained on. */
static float most_of_class_1(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    const Array *x = dataset_find(d, "shares of classes");
    float most = 0;

    CU_ASSERT_FATAL(x != NULL && x->dim[1] == 2);
    CHECK_OK(dataset_fit(d, c, row, n));
    for (int64_t epoch = 0; epoch < 30; epoch++) {
        float shares[2];

        CHECK_OK(x->fetch(x, 0, &(SampleKey){ .epoch = epoch, .training = true }, shares));
        CU_ASSERT(shares[0] + shares[1] > 0.999999f && shares[0] + shares[1] < 1.000001f);
        most = shares[1] > most ? shares[1] : most;
    }
    CHECK_OK(x->fetch(x, 0, &(SampleKey){ .training = false }, (float[2]){ 0 }));
    return most;
}

/* Samples are mixed with those that are trained on, and with no others. */
static void test_partners(void)
{
    const dpx_info in = { .name = "x", .dtype = DPX_FLOAT32, .rank = 4, .dim = { -1, 3, 8, 8 } };
    const SourceContext c = { .input = &in,
                              .inputs = 1,
                              .training = true,
                              .augment = "mixup:1",
                              .target = DPX_TARGET_CLASSES,
                              .norm = { .channels = 1, .scale = 1, .std = { 1 } } };
    char source[128];
    Dataset *d;

    make_folder();
    snprintf(source, sizeof source, "images:%s", folder);
    if (CHECK_OK(dataset_read(&d, source, &c))) {
        CU_ASSERT_EQUAL(most_of_class_1(d, &c, (const int64_t[]){ 0, 1 }, 2), 0);
        CU_ASSERT(most_of_class_1(d, &c, (const int64_t[]){ 0, 2 }, 2) > 0.5f);
        dataset_free(d);
    }
    remove_folder();
}

/* Opens the images and masks of make_mask_folder. */
static Status open_masks(Dataset **out, const char *options, int height, int width, SourceContext c)
{
    char all[256];

    snprintf(all, sizeof all, "/photos,masks=%s/masks%s", folder, options);
    return open_images(out, all, (const int64_t[]){ -1, 1, height, width }, c);
}

/* photos/ and masks/ with the same file of gray values, so that an image shows where its mask's pixels went. */
static void make_mask_folder(const char *more)
{
    char command[1024];

    strcpy(folder, "/tmp/dpexec-test-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(folder) != NULL);
    snprintf(command, sizeof command,
             "cd %s && mkdir -p photos/x masks/x && cp " FOLDER "mask_gray.png photos/a.png && cp " FOLDER
             "mask_gray.png masks/a.png && cp " FOLDER "mask_gray.png photos/x/b.png && cp " FOLDER
             "mask_gray.png masks/x/b.png && printf '0\n1\n2\n3\n4\n5\n6\n7\n8\n' >classes %s",
             folder, more);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
}

/* The share of pixels of row 0 where the image shows another class than the mask has. */
static double share_apart(const Dataset *d, int64_t epoch, int height, int width)
{
    const SampleKey key = { .seed = 3, .epoch = epoch, .training = true };
    const int n = height * width;
    float *image = malloc((size_t)n * sizeof *image);
    uint8_t *mask = malloc((size_t)n);
    int apart = 0;

    CHECK_OK(d->array[0].fetch(&d->array[0], 0, &key, image));
    CHECK_OK(d->array[1].fetch(&d->array[1], 0, &key, mask));
    for (int i = 0; i < n; i++)
        apart += (int)(image[i] * 255 + 0.5f) != mask[i];
    free(image);
    free(mask);
    return (double)apart / n;
}

static void test_masks(void)
{
    SourceContext c = { .training = true, .augment = "crop,flip", .ignored = -1 };
    Dataset *d;

    make_mask_folder("");
    if (CHECK_OK(open_masks(&d, "", 34, 50, c))) { /* of the model's size: moved, and mirrored */
        CU_ASSERT(d->samples == 2 && d->array[1].dim[1] == 34 && d->array[1].dim[2] == 50);
        for (int64_t epoch = 0; epoch < 20; epoch++)
            CU_ASSERT_EQUAL(share_apart(d, epoch, 34, 50), 0);
        dataset_free(d);
    }
    c.augment = "crop,flip,rotate:40";
    if (CHECK_OK(open_masks(&d, ",fit=stretch", 48, 64, c))) { /* the image is interpolated, so its edges differ */
        for (int64_t epoch = 0; epoch < 20; epoch++) {
            const double apart = share_apart(d, epoch, 48, 64);

            CU_ASSERT(apart > 0 && apart < 0.5);
        }
        dataset_free(d);
    }
    remove_folder();
}

/* Fails to open, and says `text`. */
static void refuse_masks(const char *options, const char *text, SourceContext c)
{
    Dataset *d;

    CU_ASSERT(open_masks(&d, options, 34, 50, c) != ST_OK);
    if (!strstr(status_message(), text))
        TEST_FAIL("%s: expected '%s', found '%s'", options, text, status_message());
}

static void test_mask_values(void)
{
    const SourceContext none = { .ignored = -1 },
                        ignored = { .ignored = 255, .target = DPX_TARGET_CLASSES, .training = true };
    uint8_t mask[34 * 50];
    char classes[128];
    Dataset *d;

    make_mask_folder("&& cp " FOLDER "rgb.png photos/c.png && cp " FOLDER "gray.png masks/c.png && cp " FOLDER
                     "mask.png photos/e.png && cp " FOLDER "large.jpg masks/e.png && cp " FOLDER
                     "mask.png photos/f.png && cp " FOLDER "large.png masks/f.png && cp " FOLDER
                     "mask.png photos/d.png && cp " FOLDER "mask_few.png photos/g.png && cp " FOLDER
                     "mask_turned.png masks/g.png");
    refuse_masks("", "4 of 7 images are broken", none);
    refuse_masks("", "masks/d.png: No such file", none);
    refuse_masks("", "this is a JPEG file", none);
    refuse_masks("", "expected a PNG file of a palette or of gray with up to 8 bits, found colours", none);
    refuse_masks("", "masks/g.png has 34 x 50 pixels, but its image", none);
    remove_folder();
    make_mask_folder("");
    snprintf(classes, sizeof classes, ",classes=%s/classes", folder);
    if (CHECK_OK(open_masks(&d, classes, 34, 50, ignored))) {
        CU_ASSERT(d->classes == 9 && !strcmp(d->class_name[8], "8"));
        CHECK_OK(d->array[1].fetch(&d->array[1], 0, &(SampleKey){ 0 }, mask));
        CU_ASSERT(mask[3 * 50 + 20] == 255 && mask[0] == 0);
        dataset_free(d);
    }
    if (CHECK_OK(open_masks(&d, classes, 34, 50, (SourceContext){ .ignored = -1, .target = DPX_TARGET_CLASSES }))) {
        CU_ASSERT_EQUAL(d->array[1].fetch(&d->array[1], 0, &(SampleKey){ 0 }, mask), E_INVALID);
        CU_ASSERT(strstr(status_message(),
                         "a.png: the pixel in row 3, column 20 is 255, which is no class: expected 0 to 8; "
                         "--ignore-index 255") != NULL);
        dataset_free(d);
    }
    if (CHECK_OK(open_masks(&d, ",values=8+7+6+5+4+3+2+1+0+255", 34, 50, none))) {
        CHECK_OK(d->array[1].fetch(&d->array[1], 0, &(SampleKey){ 0 }, mask));
        CU_ASSERT(mask[3 * 50 + 20] == 9 && mask[0] == 8);
        dataset_free(d);
    }
    refuse_masks(",values=0+1+1", "values: expected different numbers from 0 to 255", none);
    refuse_masks(",list=x.csv", "list= and masks= both give targets: leave one out", none);
    remove_folder();
}

DEFINE_SUITE(image_source, { "pixels are Pillow's", test_pixels }, { "lists", test_lists },
             { "what training fitted", test_fitted }, { "broken files", test_broken },
             { "partners of mixed samples", test_partners }, { "masks move with their images", test_masks },
             { "values of masks", test_mask_values });
