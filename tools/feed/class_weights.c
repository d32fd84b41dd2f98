/* Class weights of the loss: a vector from a file, or balanced by the classes of the training set. */
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/feed/feed.h"

enum { MOST_CLASSES = 1 << 24, MOST_COUNTED = 4096 /* classes of pixels */ };

/* Puts n weights into the options. */
static Status set_weights(const Args *a, double *weight, int64_t n)
{
    const dpx_tensor t = { .name = "class weights", .dtype = DPX_FLOAT64, .rank = 1, .dim = { n }, .data = weight };

    return (Status)dpx_options_set_class_weights(a->options, &t);
}

/* Reads the file's vector. */
static Status weights_of_file(double **out, int64_t *n, const char *path, char *digest)
{
    const SourceContext plain = { .norm = { .channels = 0 } };
    double *weight = NULL;
    Dataset *d;
    Status st;

    TRY(dataset_open(&d, path, &plain));
    st = digest_check(d, path, NULL, SHARE_ALL);
    if (!st && (d->n != 1 || d->array[0].rank != 1 || d->array[0].fetch))
        st = FAIL(E_INVALID, "expected one vector");
    if (!st)
        st = array_check_convert(&d->array[0], DPX_FLOAT64, "weights");
    if (!st && !(weight = malloc((size_t)d->samples * sizeof *weight)))
        st = FAIL_NOMEM();
    for (int64_t i = 0; i < d->samples && !st; i++)
        array_gather(&d->array[0], &i, 1, DPX_FLOAT64, weight + i);
    if (!st && digest)
        st = digest_fields(digest, &(Field){ .name = "class weights", .array = &d->array[0] }, 1, NULL, SHARE_ALL);
    *n = d->samples;
    dataset_free(d);
    if (st)
        free(weight);
    else
        *out = weight;
    return st;
}

/* The number of classes: of the source, of the model's scores if that is known, or one more than the largest number. */
static int64_t count_classes(const Feed *f, const Args *a, int64_t largest)
{
    const int64_t scores = feed_scores(f, a, NULL);
    const int64_t n = scores > largest ? scores : f->data->classes;

    return n > largest ? n : largest + 1;
}

/* Counts the class numbers of targets that have several for a sample, as masks have; those that the loss ignores do not
 * count. */
static Status count_elements(int64_t count[MOST_COUNTED], const Feed *f, const Args *a, const Array *x)
{
    const char *ignored = dpx_options_get(a->options, "ignore-index");
    const SampleKey key = { .training = false };
    const size_t n = array_sample_elements(x);
    int64_t *value = malloc(n * sizeof *value + 1), left_out;
    void *scratch = malloc(array_scratch(x, DPX_INT64) + 1);
    Status st = value && scratch ? ST_OK : FAIL_NOMEM();

    if (!text_to_int64(&left_out, ignored))
        left_out = -1;
    for (int64_t i = 0; i < f->data->samples && !st; i++) {
        st = array_take(x, dataset_row(f->data, i), &key, DPX_INT64, value, scratch);
        if (st == E_IO && x->fetch) { /* another sample takes its place */
            st = ST_OK;
            continue;
        }
        for (size_t k = 0; k < n && !st; k++)
            if (value[k] >= MOST_COUNTED)
                st = FAIL(E_INVALID, "--class-weights balanced: the target has class %lld, expected less than %d",
                          (long long)value[k], MOST_COUNTED);
            else if (value[k] >= 0 && value[k] != left_out)
                count[value[k]]++;
    }
    free(value);
    free(scratch);
    return st;
}

/* The same weights for such targets: elements / (classes * elements of c). */
static Status weights_of_elements(double **out, int64_t *n, const Feed *f, const Args *a, const Array *x)
{
    int64_t count[MOST_COUNTED] = { 0 }, all = 0, classes = 0, largest = 0;
    double *weight;

    TRY(count_elements(count, f, a, x));
    for (int64_t c = 0; c < MOST_COUNTED; c++) {
        all += count[c];
        classes += count[c] > 0;
        largest = count[c] ? c : largest;
    }
    *n = count_classes(f, a, largest);
    if (!(weight = malloc((size_t)*n * sizeof *weight)))
        return FAIL_NOMEM();
    for (int64_t c = 0; c < *n; c++)
        weight[c] = c < MOST_COUNTED && count[c] ? (double)all / ((double)classes * (double)count[c]) : 1;
    *out = weight;
    return ST_OK;
}

/* The weight of class c is samples / (classes * samples of c), counting classes that have samples, as scikit-learn's
 * compute_class_weight does; classes without samples get 1. */
static Status weights_by_count(double **out, int64_t *n, const Feed *f, const Args *a)
{
    const Array *x = f->target ? dataset_find(f->data, f->target) : NULL;
    Strata s;
    int64_t *number;
    double *weight = NULL;
    Status st = ST_OK;

    if (x && x->rank > 2 && !x->row && !array_is_float(x) && dpx_target(a->options) == DPX_TARGET_CLASSES)
        return weights_of_elements(out, n, f, a, x);
    TRY(feed_strata(&s, &number, f, a, "class-weights balanced"));
    if (number[s.classes - 1] >= MOST_CLASSES)
        st = FAIL(E_INVALID, "--class-weights balanced: the target has class %lld, expected less than %d",
                  (long long)number[s.classes - 1], MOST_CLASSES);
    *n = st ? 0 : count_classes(f, a, number[s.classes - 1]);
    if (!st && !(weight = malloc((size_t)*n * sizeof *weight)))
        st = FAIL_NOMEM();
    for (int64_t c = 0; c < *n && !st; c++)
        weight[c] = 1;
    for (int64_t c = 0; c < s.classes && !st; c++)
        weight[number[c]] = (double)s.begin[s.classes] / ((double)s.classes * (double)(s.begin[c + 1] - s.begin[c]));
    free(number);
    strata_free(&s);
    *out = weight;
    return st;
}

/* Stores the weights in the facts of the feed, for evaluations of the run's model; or takes them from there. */
static Status keep_weights(double **weight, int64_t *n, const Feed *f, const Args *a)
{
    json_t *kept = json_object_get(f->fitted, "class weights");
    bool good = true;

    if (!kept && strcmp(a->command->name, "train") != 0)
        return FAIL(E_INVALID, "--class-weights balanced counts the training set: give the model in the folder of its "
                               "run, or --class-weights FILE.npy");
    if (!kept) {
        TRY(weights_by_count(weight, n, f, a));
        good = (kept = json_array()) != NULL;
        for (int64_t c = 0; c < *n; c++)
            good &= !json_array_append_new(kept, json_real((*weight)[c]));
        good &= !json_object_set_new(f->fitted, "class weights", kept);
        return good ? ST_OK : FAIL_NOMEM();
    }
    *n = (int64_t)json_array_size(kept);
    if (!(*weight = malloc((size_t)*n * sizeof **weight + 1)))
        return FAIL_NOMEM();
    for (int64_t c = 0; c < *n; c++)
        (*weight)[c] = json_number_value(json_array_get(kept, (size_t)c));
    return ST_OK;
}

Status feed_class_weights(const Args *a, const Feed *f, char digest[DIGEST_TEXT])
{
    const char *path = args_value(a, "class-weights");
    double *weight = NULL;
    int64_t n = 0;
    Status st;

    if (digest)
        *digest = '\0';
    if (!path || (!f && !strcmp(path, "balanced")))
        return ST_OK;
    if (!strcmp(path, "balanced")) {
        st = keep_weights(&weight, &n, f, a);
        if (!st && digest)
            digest_bytes(digest, weight, (size_t)n * sizeof *weight);
    } else {
        st = status_prefix(weights_of_file(&weight, &n, path, digest), "--class-weights %s", path);
    }
    if (!st)
        st = status_prefix(set_weights(a, weight, n), "--class-weights %s", path);
    free(weight);
    return st;
}
