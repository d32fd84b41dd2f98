/* Reads descriptions of GPUs: an object whose keys are the fields of GpuInfo.  An unknown key is an error, because it
 * is probably misspelt. */
#include "exec/device/describe.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1 << 16 };

typedef struct {
    const char *name;
    size_t at; /* offset in GpuInfo */
    bool wide; /* int64_t, else int */
    int64_t least, most;
} Field;

#define SMALL(field, least, most)                            \
    {                                                        \
#field, offsetof(GpuInfo, field), false, least, most \
    }
#define BYTES(field, least)                                             \
    {                                                                   \
#field, offsetof(GpuInfo, field), true, least, INT64_C(1) << 50 \
    }
static const Field fields[] = {
    SMALL(multiprocessors, 1, 100000),
    SMALL(warp_size, 32, 32),
    SMALL(max_threads_per_block, 32, 65536),
    SMALL(max_threads_per_multiprocessor, 32, 65536),
    BYTES(memory, 1),
    BYTES(l2, 0),
    BYTES(shared_per_block, 1),
    BYTES(shared_per_multiprocessor, 1),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static void describe_read_number(GpuInfo *out, const json_t *root, const Field *f, Problems *wrong)
{
    const json_t *v = json_object_get(root, f->name);
    int64_t n = json_integer_value(v);

    if (!v)
        problems_add(wrong, "'%s' is missing", f->name);
    else if (!json_is_integer(v) || n < f->least || n > f->most)
        problems_add(wrong, "'%s': expected a whole number from %lld to %lld", f->name, (long long)f->least,
                     (long long)f->most);
    else if (f->wide)
        *(int64_t *)((char *)out + f->at) = n;
    else
        *(int *)((char *)out + f->at) = (int)n;
}

static void read_name(GpuInfo *out, const json_t *root, Problems *wrong)
{
    const json_t *v = json_object_get(root, "name");
    const char *s = json_string_value(v);

    if (!v)
        problems_add(wrong, "'name' is missing");
    else if (!s || !*s || strlen(s) >= GPU_NAME)
        problems_add(wrong, "'name': expected a text of 1 to %d bytes", GPU_NAME - 1);
    else
        snprintf(out->name, sizeof out->name, "%s", s);
}

static void read_capability(GpuInfo *out, const json_t *root, Problems *wrong)
{
    const json_t *v = json_object_get(root, "capability");
    const char *s = json_string_value(v);
    int major, minor, end = -1;

    if (!v)
        problems_add(wrong, "'capability' is missing");
    else if (!s || sscanf(s, "%2d.%1d%n", &major, &minor, &end) < 2 || end < 0 || s[end] || major < 1 || minor < 0)
        problems_add(wrong, "'capability': expected a text such as \"9.0\"");
    else
        out->capability = 10 * major + minor;
}

static Status read_fields(GpuInfo *out, json_t *root, const char *path)
{
    PROBLEMS(wrong);
    const char *key;
    json_t *v;

    *out = (GpuInfo){ .driver = 0 };
    if (!json_is_object(root))
        return FAIL(E_INVALID, "%s: expected an object that describes a device", path);
    read_name(out, root, &wrong);
    read_capability(out, root, &wrong);
    for (int i = 0; i < N_FIELDS; i++)
        describe_read_number(out, root, &fields[i], &wrong);
    json_object_foreach(root, key, v) {
        bool expected = !strcmp(key, "name") || !strcmp(key, "capability");

        for (int i = 0; i < N_FIELDS; i++)
            expected |= !strcmp(key, fields[i].name);
        if (!expected)
            problems_add(&wrong, "'%s' is not a property of a device", key);
    }
    return problems_fail(&wrong, E_INVALID, "%s: the description of the device is wrong", path);
}

/* The file's text, of less than MAX_TEXT bytes; the caller frees it. */
static Status load_text(char **out, const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(MAX_TEXT) : NULL;
    size_t n = text ? fread(text, 1, MAX_TEXT, f) : 0;
    bool good = text && !ferror(f) && n < MAX_TEXT;
    int why = errno;

    if (f)
        fclose(f);
    if (!good) {
        free(text);
        return n == MAX_TEXT ? FAIL(E_IO, "%s: too long for the description of a device", path)
                             : FAIL(E_IO, "%s: cannot be read: %s", path, strerror(why));
    }
    text[n] = '\0';
    *out = text;
    return ST_OK;
}

Status describe_read(GpuInfo *out, char **text, const char *path)
{
    json_error_t why;
    json_t *root;
    char *own;
    Status st;

    TRY(load_text(&own, path));
    root = json_loads(own, JSON_REJECT_DUPLICATES, &why);
    st = root ? read_fields(out, root, path) : FAIL(E_INVALID, "%s:%d: %s", path, why.line, why.text);
    json_decref(root);
    if (st || !text)
        free(own);
    else
        *text = own;
    return st;
}
