/* Finds or writes the preprocessing of a run's data as an ONNX model. */
#include "tools/feed/export_preprocess.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/feed/image_graph.h"

enum { MOST_CHANNELS = 3, NAME_TEXT = 512 };

/* The input that takes images as floats (tools/data/data_images.c). */
static Status find_input(dpx_info *out, bool *nhwc, const dpx_model *m, const char *run)
{
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < dpx_model_count(m, DPX_INPUT); i++) {
            TRY((Status)dpx_model_info(m, DPX_INPUT, i, out));
            if (out->rank != 4 || (out->dim[last ? 3 : 1] != 1 && out->dim[last ? 3 : 1] != 3))
                continue;
            *nhwc = last;
            return out->dtype == DPX_FLOAT32 || out->dtype == DPX_FLOAT64 || out->dtype == DPX_FLOAT16
                       ? ST_OK
                       : FAIL(E_INVALID, "%s: the model's input '%s' takes bytes already", run, out->name);
        }
    return FAIL(E_INVALID, "%s: the model has no input for images", run);
}

static bool is_word(const json_t *images, const char *name, const char *word)
{
    const char *v = json_string_value(json_object_get(images, name));

    return v && !strcmp(v, word);
}

static Status write_images(const char *path, const dpx_model *m, const json_t *fitted, const char *run)
{
    const json_t *norm = json_object_get(fitted, "normalisation"), *means = json_object_get(norm, "mean"),
                 *stds = json_object_get(norm, "std");
    const json_t *images = json_object_get(fitted, "images");
    const char *size = json_string_value(json_object_get(images, "size"));
    const size_t n = json_array_size(means);
    double mean[MOST_CHANNELS], std[MOST_CHANNELS];
    char name[NAME_TEXT], *end;
    ImageGraph g = { .mean = mean, .std = std };
    dpx_info in;

    TRY(find_input(&in, &g.nhwc, m, run));
    snprintf(name, sizeof name, "%.480s_bytes", in.name);
    g.input = name;
    g.output = in.name;
    g.dtype = (int32_t)in.dtype;
    g.channels = in.dim[g.nhwc ? 3 : 1];
    g.height = strtoll(size, &end, 10);
    g.width = *end == 'x' ? strtoll(end + 1, NULL, 10) : g.height;
    g.stretch = is_word(images, "fit", "stretch");
    g.bicubic = is_word(images, "filter", "bicubic");
    for (size_t i = 0; i < (size_t)g.channels; i++) {
        const size_t k = i < n ? i : 0;

        mean[i] = norm ? json_number_value(json_array_get(means, k)) : 0;
        std[i] = norm ? json_number_value(json_array_get(stds, k)) : 1;
    }
    return image_graph_write(&g, path);
}

Status export_preprocess_find(char path[PREPROCESS_PATH], bool *temporary, const dpx_model *m, const json_t *fitted,
                              const char *run)
{
    int fd;

    *temporary = false;
    if (json_object_get(fitted, "table")) {
        snprintf(path, PREPROCESS_PATH, "%s/preprocess.onnx", run);
        return access(path, R_OK) ? FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno)) : ST_OK;
    }
    if (!json_string_value(json_object_get(json_object_get(fitted, "images"), "size")))
        return FAIL(E_INVALID, "--export-preprocess: the data of %s are arrays, which are taken as they are", run);
    snprintf(path, PREPROCESS_PATH, "%s/.preprocess-XXXXXX.onnx", run);
    if ((fd = mkstemps(path, (int)strlen(".onnx"))) < 0)
        return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
    close(fd);
    *temporary = true;
    return write_images(path, m, fitted, run);
}
