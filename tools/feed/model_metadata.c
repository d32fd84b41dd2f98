/* A model's metadata: keys with plain texts for any reader, and the facts of data.json for dpexec itself. */
#include "tools/feed/model_metadata.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/jsontext.h"
#include "graph/base/numtext.h"

#define METADATA_PREPROCESS "preprocess"
#define METADATA_FACTS "data.json"
enum { NUMBERS_TEXT = 1024 };

static Status set(dpx_model *m, const char *key, const char *value)
{
    return (Status)dpx_model_set_metadata(m, key, value);
}

/* Sets a key to a document, NULL: removes it. */
static Status set_json(dpx_model *m, const char *key, const json_t *j)
{
    char *text = j ? json_text(j, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
    Status st = j && !text ? FAIL_NOMEM() : set(m, key, text);

    free(text);
    return st;
}

const json_t *metadata_class_names(const json_t *fitted)
{
    const json_t *table = json_object_get(fitted, "table"), *column;
    const char *target = json_string_value(json_object_get(table, "target")), *name;
    size_t i;

    json_array_foreach(json_object_get(table, "columns"), i, column) {
        name = json_string_value(json_object_get(column, "name"));
        if (target && name && !strcmp(name, target))
            return json_object_get(column, "categories");
    }
    return json_object_get(fitted, "classes");
}

/* "0.485,0.456,0.406"; `fallback` without a list. */
static Status set_numbers(dpx_model *m, const char *key, const json_t *list, const char *fallback)
{
    char text[NUMBERS_TEXT] = "", number[NUMBER_TEXT];
    size_t i, n = 0;
    json_t *one;

    if (!list)
        return set(m, key, fallback);
    json_array_foreach(list, i, one) {
        text_float64(number, json_number_value(one));
        n += (size_t)snprintf(text + n, n < sizeof text ? sizeof text - n : 0, "%s%s", i ? "," : "", number);
        n = n < sizeof text ? n : sizeof text - 1;
    }
    return set(m, key, text);
}

static const char *task_of(const Args *a)
{
    if (dpx_target(a->options) == DPX_TARGET_CLASSES)
        return "classification";
    if (dpx_target(a->options) == DPX_TARGET_NONE)
        return NULL;
    return strncmp(dpx_options_get(a->options, "loss"), "bce", 3) ? "regression" : "binary classification";
}

Status metadata_write(dpx_model *m, const json_t *fitted, const Args *a, bool joined)
{
    const char *loss = dpx_options_get(a->options, "loss");
    const json_t *images = json_object_get(fitted, "images"), *norm = json_object_get(fitted, "normalisation"),
                 *names = dpx_target(a->options) == DPX_TARGET_CLASSES ? metadata_class_names(fitted) : NULL;
    json_t *own = fitted ? json_copy((json_t *)(uintptr_t)fitted) : NULL, *facts = NULL;
    Status st;

    json_object_del(own, "class weights"); /* no prediction needs them */
    if (joined) {
        json_object_del(own, "table");
        json_object_del(own, "normalisation");
    }
    if (json_object_size(own))
        facts = json_pack("{s:O}", "fitted", own);
    st = (fitted && !own) || (json_object_size(own) && !facts) ? FAIL_NOMEM() : set(m, "task", task_of(a));
    if (!st)
        st = set(m, METADATA_SCORES,
                 !strcmp(loss, "cross-entropy") ? "logits"
                 : !strcmp(loss, "nll")         ? "log-probabilities"
                                                : NULL);
    if (!st)
        st = set_json(m, "classes", json_array_size(names) ? names : NULL);
    if (!st)
        st = set(m, "size", json_string_value(json_object_get(images, "size")));
    if (!st)
        st = set_numbers(m, "mean", joined ? NULL : json_object_get(norm, "mean"), images && !joined ? "0" : NULL);
    if (!st)
        st = set_numbers(m, "std", joined ? NULL : json_object_get(norm, "std"), images && !joined ? "1" : NULL);
    if (!st)
        st = set(m, METADATA_PREPROCESS, joined ? "included" : NULL);
    if (!st)
        st = set_json(m, METADATA_FACTS, facts);
    json_decref(facts);
    json_decref(own);
    return st;
}

int64_t metadata_block(const dpx_model *m)
{
    const char *text = dpx_model_metadata(m, METADATA_BLOCK);
    int64_t block;

    return text && text_to_int64(&block, text) && block > 0 ? block : 0;
}

bool metadata_is_joined(const dpx_model *m) { return dpx_model_metadata(m, METADATA_PREPROCESS) != NULL; }

Status metadata_fitted(json_t **out, const dpx_model *m, const char *path)
{
    const char *text = dpx_model_metadata(m, METADATA_FACTS);
    json_error_t why = { 0 };
    json_t *j, *fitted;

    *out = NULL;
    if (!text)
        return ST_OK;
    j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    fitted = json_object_get(j, "fitted");
    if (json_is_object(fitted))
        *out = json_incref(fitted);
    json_decref(j);
    return *out ? ST_OK
                : FAIL(E_IO,
                       "%s: its metadata '" METADATA_FACTS
                       "' is not the preprocessing that training fitted on its data: %s",
                       path, *why.text ? why.text : "another JSON text");
}
