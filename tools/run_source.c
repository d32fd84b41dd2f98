/* dpexec run MODEL.onnx SRC -o FILE.csv: one line of predictions for each sample of a source.
 *
 *     row,class,Bergen,Oslo          row: the line of a table, elsewhere the sample's number from 1; of images `file`
 *     2,Oslo,-0.31,1.72              class: the name with the largest score, where the run has names for all scores
 *
 * A model with one number for a sample gives the column `prediction`; other outputs give one for each element.
 *
 * With -o FOLDER/: the classes of pixels, a mask for each image (tools/predicted_masks.h).
 *
 * For a single image without -o: the likeliest classes, "0.8312  cat" a line. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/base/outfile.h"
#include "tools/commands.h"
#include "tools/data/image_list.h"
#include "tools/feed/feed.h"
#include "tools/feed/input_members.h"
#include "tools/feed/model_metadata.h"
#include "tools/findings.h"
#include "tools/predicted_masks.h"
#include "tools/progress.h"
#include "tools/run_source.h"
#include "tools/table/csv_reader.h"
#include "tools/tensor_number.h"

enum { MOST_CELLS = 4096, MOST_OUTPUTS = 64, NAME_TEXT = 512, MOST_LIKELY = 5, MOST_PATH = 4096 };

typedef struct {
    const Dataset *data;
    FILE *to;
    int64_t done;       /* samples written */
    const char *scores; /* what the model's metadata says that they are; NULL: nothing */
    const char *masks;  /* the folder that gets a mask for each image; NULL: none */
    bool likeliest;     /* prints the likeliest classes, no table */
} Predicted;

/* The elements of an output for one sample, or -1: its first axis is not that of the samples. */
static int64_t cells_of(const dpx_tensor *x, int64_t samples)
{
    int64_t n = 1;

    if (x->rank < 1 || x->dim[0] != samples)
        return -1;
    for (int i = 1; i < x->rank; i++)
        n *= x->dim[i];
    return n;
}

/* Whether the source's classes name the elements of the first output. */
static bool has_names(const Predicted *p, int64_t cells) { return cells > 1 && p->data->classes == cells; }

static Status write_header(const Predicted *p, const dpx_tensor *out, int n, int64_t samples)
{
    int64_t all = 0;

    fputs(p->data->source.format->file ? "file" : "row", p->to);
    for (int i = 0; i < n; i++) {
        const int64_t cells = cells_of(&out[i], samples);

        if (cells < 0)
            return FAIL(E_UNSUPPORTED,
                        "output '%s' does not have the samples along its first axis: dpexec run --input "
                        "--out writes it whole",
                        out[i].name);
        if ((all += cells) > MOST_CELLS)
            return FAIL(E_UNSUPPORTED, "more than %d predictions for a sample: dpexec eval --predictions writes arrays",
                        MOST_CELLS);
        if (!i && has_names(p, cells))
            fputs(",class", p->to);
        for (int64_t k = 0; k < cells; k++) {
            char name[NAME_TEXT];

            snprintf(name, sizeof name, cells == 1 ? "%.480s" : "%.480s.%lld",
                     n == 1 && cells == 1 ? "prediction" : out[i].name, (long long)k);
            putc(',', p->to);
            csv_write(p->to, !i && has_names(p, cells) ? p->data->class_name[k] : name, ',');
        }
    }
    putc('\n', p->to);
    return ST_OK;
}

static void write_sample(const Predicted *p, const dpx_tensor *out, int n, int64_t samples, int64_t at)
{
    const DataFormat *f = p->data->source.format;
    const int64_t row = dataset_row(p->data, p->done + at);
    char number[NUMBER_TEXT];

    if (f->file)
        csv_write(p->to, f->file(p->data, row), ',');
    else
        fprintf(p->to, "%lld", (long long)(f->line ? f->line(p->data, row) : row + 1));
    for (int i = 0; i < n; i++) {
        const int64_t cells = cells_of(&out[i], samples);
        int64_t best = 0;

        for (int64_t k = 1; k < cells; k++)
            if (tensor_number(&out[i], at * cells + k) > tensor_number(&out[i], at * cells + best))
                best = k;
        if (!i && has_names(p, cells)) {
            putc(',', p->to);
            csv_write(p->to, p->data->class_name[best], ',');
        }
        for (int64_t k = 0; k < cells; k++) {
            const double v = tensor_number(&out[i], at * cells + k);

            fprintf(p->to, ",%s",
                    out[i].dtype == DPX_FLOAT32 ? text_float32(number, (float)v) : text_float64(number, v));
        }
    }
    putc('\n', p->to);
}

/* ---- the likeliest classes of one sample ---- */

/* Are they probabilities?  Where the file does not say, numbers from 0 on that add up to 1 are. */
static bool are_probabilities(const Predicted *p, const dpx_tensor *x, int64_t cells)
{
    double sum = 0;
    bool good = !p->scores;

    for (int64_t i = 0; i < cells && good; i++) {
        sum += tensor_number(x, i);
        good = tensor_number(x, i) >= 0;
    }
    return good && fabs(sum - 1) < 1e-3;
}

/* The logarithm of sum_i exp(x_i). */
static double log_sum_exp(const dpx_tensor *x, int64_t cells, double largest)
{
    double sum = 0;

    for (int64_t i = 0; i < cells; i++)
        sum += exp(tensor_number(x, i) - largest);
    return largest + log(sum);
}

/* Prints "0.8312  cat" for the likeliest classes of the first output. */
static Status print_likeliest(const Predicted *p, const dpx_tensor *x)
{
    const int64_t cells = cells_of(x, 1);
    int64_t shown[MOST_LIKELY];
    bool plain;
    double log_sum = 0;

    if (cells < 2)
        return FAIL(E_UNSUPPORTED, "output '%s' has no scores of classes: give -o FILE.csv", x->name);
    plain = are_probabilities(p, x, cells);
    for (int n = 0; n < MOST_LIKELY && n < cells; n++) {
        char name[NAME_TEXT], number[NUMBER_TEXT];
        int64_t best = -1;
        double v;

        for (int64_t i = 0; i < cells; i++) {
            bool taken = false;

            for (int k = 0; k < n; k++)
                taken |= shown[k] == i;
            if (!taken && (best < 0 || tensor_number(x, i) > tensor_number(x, best)))
                best = i;
        }
        shown[n] = best;
        v = tensor_number(x, best);
        if (!n && !plain)
            log_sum = log_sum_exp(x, cells, v);
        snprintf(name, sizeof name, "%.480s", has_names(p, cells) ? p->data->class_name[best] : "");
        if (!*name)
            snprintf(name, sizeof name, "class %lld", (long long)best);
        foreign_clean(name);
        text_format(number, sizeof number, "%.4f", plain ? v : exp(v - log_sum));
        fprintf(p->to, "%s  %s\n", number, name);
    }
    return ST_OK;
}

static Status predict(Predicted *p, dpx_trainer *t, const dpx_model *model, Loader *l)
{
    const int n = dpx_model_count(model, DPX_OUTPUT);
    dpx_tensor out[MOST_OUTPUTS];

    if (n > MOST_OUTPUTS)
        return FAIL(E_UNSUPPORTED, "%d outputs, at most %d can be written", n, MOST_OUTPUTS);
    TRY(loader_start(l, 0, 0));
    for (const Batch *b; (b = loader_next(l)); p->done += b->samples) {
        TRY(loader_give_lengths(l, b, t));
        TRY((Status)dpx_run(t, b->tensor, b->n, out, n));
        if (p->likeliest)
            return print_likeliest(p, out);
        if (p->masks) {
            TRY(predicted_masks_write(p->masks, p->data, out, b->samples, p->done));
            continue;
        }
        if (!p->done)
            TRY(write_header(p, out, n, b->samples));
        for (int64_t i = 0; i < b->samples; i++)
            write_sample(p, out, n, b->samples, i);
    }
    return loader_status(l);
}

/* The argument as a source, in `text`: a file of an image, and a folder where the model was trained on images, is
 * images:PATH. */
static const char *name_source(char text[2 * MOST_PATH + 16], const char *argument, const json_t *fitted)
{
    struct stat about;
    size_t n = strlen("images:");

    if (stat(argument, &about) || strlen(argument) > MOST_PATH ||
        !(S_ISDIR(about.st_mode) ? json_object_get(fitted, "images") != NULL : image_list_takes(argument)))
        return argument;
    memcpy(text, "images:", n);
    for (const char *from = argument; *from; from++) {
        if (strchr(",:\\", *from))
            text[n++] = '\\';
        text[n++] = *from;
    }
    text[n] = '\0';
    return text;
}

/* Opens the source as --data of a command without a loss. */
static Status open_source(Feed *feed, const dpx_model *model, dpx_trainer **trainer, Loader **loader, const Args *a,
                          Progress *progress)
{
    LoaderOptions how = { .log = report_log, .user = progress };

    if (!*dpx_options_get(a->options, "batch-size"))
        TRY((Status)dpx_options_set(a->options, "batch-size", "32"));
    how.batch_size = strtoll(dpx_options_get(a->options, "batch-size"), NULL, 10);
    TRY(feed_open(feed, a, "data", model, SHARE_ALL, progress));
    TRY(feed_check_order(feed, a, how.batch_size, false));
    TRY(feed_input_shapes(a, feed, how.batch_size));
    TRY(args_join_outputs(a, "predictions are put together"));
    TRY(feed_workers(&how.workers, a, feed, NULL));
    TRY((Status)dpx_trainer_create(trainer, model, a->options, report_log, progress));
    return loader_create(loader, feed->data, feed->field, feed->n, how);
}

/* The arguments with the source as --data. */
static Args with_source(const Args *a)
{
    Args own = *a;

    own.given[own.n_given].name = "data"; /* there is room: the source is an argument, too */
    own.given[own.n_given++].value = a->positional[1];
    return own;
}

void find_run_files(Findings *f, const Args *a)
{
    Args own;

    findings_add_file(f, "", a->positional[0]);
    if (a->n_positional < 2 || !access(a->positional[1], R_OK))
        return;
    own = with_source(a);
    findings_add(f, feed_check_source(&own, "data"));
}

static bool is_folder(const char *path)
{
    const size_t n = strlen(path);
    struct stat about;

    return (n && path[n - 1] == '/') || (!stat(path, &about) && S_ISDIR(about.st_mode));
}

Status run_on_source(const Args *a, Progress *progress)
{
    const char *given = args_value(a, "o"), *masks = given && is_folder(given) ? given : NULL,
               *path = masks ? NULL : given;
    dpx_trainer *trainer = NULL;
    dpx_model *model = NULL;
    Loader *loader = NULL;
    Feed feed = { 0 };
    Args own;
    OutFile *file = NULL;
    Predicted p = { .to = stdout };
    char text[2 * MOST_PATH + 16];
    Findings missing = { 0 };
    Status st;

    if (args_has(a, "input") || args_has(a, "out"))
        return FAIL(
            E_INVALID,
            "%s: a source is written to -o FILE.csv or -o FOLDER/, or to standard output; --input and --out are for "
            "arrays",
            a->positional[1]);
    own = with_source(a);
    find_run_files(&missing, a);
    if (path && outfile_check(path))
        findings_add(&missing, FAIL(E_IO, "-o %s", status_message()));
    TRY(findings_fail(&missing));
    st = members_load(&model, &own, &feed, "data", progress);
    if (!st && !(st = feed_load_fitted(&feed, &own, model)))
        own.given[own.n_given - 1].value = name_source(text, a->positional[1], feed.fitted);
    if (!st)
        st = open_source(&feed, model, &trainer, &loader, &own, progress);
    if (!st && path)
        st = outfile_open(&file, path);
    if (!st) {
        p.data = feed.data;
        p.to = file ? outfile_stream(file) : stdout;
        p.scores = dpx_model_metadata(model, METADATA_SCORES);
        p.masks = masks;
        p.likeliest = !given && image_list_takes(a->positional[1]) && feed.data->source.format->file;
        st = predict(&p, trainer, model, loader);
    }
    if (file)
        st = outfile_close(file, st);
    loader_free(loader);
    feed_close(&feed);
    dpx_trainer_free(trainer);
    dpx_model_free(model);
    return st;
}
