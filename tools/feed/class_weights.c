/* Class weights of the loss: a vector from a file, or balanced by the classes of the training set. */
#include <stdlib.h>
#include <string.h>

#include "tools/feed/feed.h"

enum { MOST_CLASSES = 1 << 24 };

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

/* The weight of class c is samples / (classes * samples of c), counting classes that have samples, as scikit-learn's
 * compute_class_weight does; classes without samples get 1. */
static Status weights_by_count(double **out, int64_t *n, const Feed *f, const Args *a)
{
    Strata s;
    int64_t *number;
    double *weight = NULL;
    Status st = ST_OK;

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
