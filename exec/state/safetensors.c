/* Tensors are written in the given order without padding, so the offsets in the header are running sums. */
#include "exec/state/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/foreign.h"

static const uint64_t MAX_HEADER = 100 * 1000 * 1000;

static const struct {
    DType dtype;
    const char *name;
} types[] = {
    { DT_FLOAT32, "F32" }, { DT_FLOAT64, "F64" }, { DT_FLOAT16, "F16" }, { DT_BFLOAT16, "BF16" }, { DT_BOOL, "BOOL" },
    { DT_INT8, "I8" },     { DT_INT16, "I16" },   { DT_INT32, "I32" },   { DT_INT64, "I64" },     { DT_UINT8, "U8" },
    { DT_UINT16, "U16" },  { DT_UINT32, "U32" },  { DT_UINT64, "U64" },
};
enum { N_TYPES = sizeof types / sizeof *types };

const Tensor *named_find(const NamedTensor *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i].tensor;
    return NULL;
}

static const char *type_name(DType t)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].dtype == t)
            return types[i].name;
    return NULL;
}

static DType type_parse(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].name, name))
            return types[i].dtype;
    return DT_NONE;
}

/* ---- writing ---- */

static json_t *describe(const Tensor *t, uint64_t from)
{
    json_t *shape = json_array();

    for (int i = 0; i < t->shape.rank; i++)
        json_array_append_new(shape, json_integer(t->shape.dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(t->dtype), "shape", shape, "data_offsets",
                     (json_int_t)from, (json_int_t)(from + tensor_bytes(t)));
}

/* The header, padded with spaces to a multiple of 8 so that the data is aligned. */
static char *make_header(const NamedTensor *list, int n, size_t *len)
{
    json_t *root = json_object();
    uint64_t at = 0;
    char *text, *padded;

    for (int i = 0; i < n; i++) {
        if (json_object_set_new(root, list[i].name, describe(&list[i].tensor, at)))
            break;
        at += tensor_bytes(&list[i].tensor);
    }
    text = root && json_object_size(root) == (size_t)n ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return NULL;
    *len = (strlen(text) + 7) / 8 * 8;
    if ((padded = malloc(*len + 1)))
        snprintf(padded, *len + 1, "%-*s", (int)*len, text);
    free(text);
    return padded;
}

static bool write_all(FILE *f, const char *header, size_t len, const NamedTensor *list, int n)
{
    unsigned char size[8];

    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)len >> (8 * i));
    if (fwrite(size, 1, 8, f) != 8 || fwrite(header, 1, len, f) != len)
        return false;
    for (int i = 0; i < n; i++) {
        size_t bytes = tensor_bytes(&list[i].tensor);

        if (bytes && fwrite(list[i].tensor.data, 1, bytes, f) != bytes)
            return false;
    }
    return !fflush(f) && !fsync(fileno(f));
}

/* The header is JSON, and that is UTF-8. */
static Status check_names(const char *path, const NamedTensor *list, int n)
{
    for (int i = 0; i < n; i++)
        if (!utf8_valid(list[i].name))
            return FAIL(E_INVALID, "%s: the name of tensor '%s' is not UTF-8", path, list[i].name);
    return ST_OK;
}

Status safetensors_write(const char *path, const NamedTensor *list, int n)
{
    size_t len = 0;
    char *header;
    FILE *f;
    bool good;
    int why;

    TRY(check_names(path, list, n));
    header = make_header(list, n, &len);
    f = header ? fopen(path, "wbx") : NULL;
    good = f && write_all(f, header, len, list, n);
    why = errno;

    free(header);
    if (!header)
        return FAIL(E_NOMEM, "%s: no memory for the header", path);
    if (f && fclose(f) && good) {
        good = false;
        why = errno;
    }
    return good ? ST_OK : FAIL(E_IO, "%s: cannot write: %s", path, strerror(why));
}

/* ---- reading ---- */

static Status read_file(Arena *arena, const char *path, unsigned char **data, uint64_t *size)
{
    FILE *f = fopen(path, "rb");
    struct stat s;
    Status st = ST_OK;

    if (!f)
        return FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    if (fstat(fileno(f), &s) || !S_ISREG(s.st_mode))
        st = FAIL(E_IO, "%s: not a regular file", path);
    else if (!(*data = arena_alloc(arena, (size_t)s.st_size + 1)))
        st = FAIL_NOMEM();
    else if (fread(*data, 1, (size_t)s.st_size, f) != (size_t)s.st_size)
        st = FAIL(E_IO, "%s: cannot read: %s", path, ferror(f) ? strerror(errno) : "the file became shorter");
    *size = st ? 0 : (uint64_t)s.st_size;
    fclose(f);
    return st;
}

static Status read_shape(Shape *out, const char *path, const char *name, const json_t *dims)
{
    size_t i;
    json_t *d;

    out->rank = 0;
    if (!json_is_array(dims) || json_array_size(dims) > MAX_RANK)
        return FAIL(E_IO, "%s: tensor '%s': shape is not a list of at most %d numbers", path, name, MAX_RANK);
    json_array_foreach(dims, i, d)
    {
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return FAIL(E_IO, "%s: tensor '%s': dimension %zu is not a count", path, name, i);
        out->dim[out->rank++] = json_integer_value(d);
    }
    return shape_check(out, 16);
}

static Status read_tensor(Arena *arena, const char *path, const char *name, const json_t *entry,
                          const unsigned char *data, uint64_t size, NamedTensor *out)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *range = json_object_get(entry, "data_offsets");
    json_int_t from = json_integer_value(json_array_get(range, 0)), to = json_integer_value(json_array_get(range, 1));

    if (!type || !(out->tensor.dtype = type_parse(type)))
        return FAIL(E_IO, "%s: tensor '%s': unknown type '%s'", path, name, type ? type : "");
    TRY(read_shape(&out->tensor.shape, path, name, json_object_get(entry, "shape")));
    if (json_array_size(range) != 2 || from < 0 || to < from || (uint64_t)to > size ||
        (uint64_t)(to - from) != tensor_bytes(&out->tensor))
        return FAIL(E_IO, "%s: tensor '%s': offsets %lld to %lld do not fit %zu bytes in %llu", path, name,
                    (long long)from, (long long)to, tensor_bytes(&out->tensor), (unsigned long long)size);
    out->name = arena_strdup(arena, name);
    out->tensor.data =
        arena_memdup(arena, data + from, (size_t)(to - from)); /* aligned, whatever the file's offsets are */
    return out->name && out->tensor.data ? ST_OK : FAIL_NOMEM();
}

static int by_offset(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* Every byte belongs to exactly one tensor. */
static Status check_cover(Arena *arena, const char *path, const json_t *root, uint64_t size)
{
    size_t n = json_object_size(root), k = 0;
    int64_t(*range)[2] = arena_array(arena, sizeof *range, n), end = 0;
    const char *name;
    json_t *entry;

    if (!range)
        return FAIL_NOMEM();
    json_object_foreach((json_t *)(uintptr_t)root, name, entry)
    {
        const json_t *offsets = json_object_get(entry, "data_offsets");

        if (strcmp(name, "__metadata__")) {
            range[k][0] = json_integer_value(json_array_get(offsets, 0));
            range[k++][1] = json_integer_value(json_array_get(offsets, 1));
        }
    }
    qsort(range, k, sizeof *range, by_offset);
    for (size_t i = 0; i < k; end = range[i++][1])
        if (range[i][0] != end)
            return FAIL(E_IO, "%s: tensors overlap or leave a hole at byte %lld", path, (long long)end);
    return (uint64_t)end == size ? ST_OK
                                 : FAIL(E_IO, "%s: %llu bytes of data, the header covers %lld", path,
                                        (unsigned long long)size, (long long)end);
}

static Status read_entries(Arena *arena, const char *path, const json_t *root, const unsigned char *data, uint64_t size,
                           NamedTensor **list, int *n)
{
    NamedTensor *t = ARENA_NEW(arena, NamedTensor, json_object_size(root));
    int count = 0;
    const char *name;
    json_t *entry;

    if (!t)
        return FAIL_NOMEM();
    json_object_foreach((json_t *)(uintptr_t)root, name, entry) if (strcmp(name, "__metadata__"))
        TRY(read_tensor(arena, path, name, entry, data, size, &t[count++]));
    TRY(check_cover(arena, path, root, size));
    *list = t;
    *n = count;
    return ST_OK;
}

Status safetensors_read(NamedTensor **list, int *n, Arena *arena, const char *path)
{
    unsigned char *file;
    uint64_t size, header = 0;
    json_error_t why;
    json_t *root;
    Status st;

    TRY(read_file(arena, path, &file, &size));
    for (int i = 0; i < 8 && size >= 8; i++)
        header |= (uint64_t)file[i] << (8 * i);
    if (size < 8 || header > MAX_HEADER || header > size - 8 || header < 2 || file[8] != '{')
        return FAIL(E_IO, "%s: not a safetensors file (%llu bytes, header of %llu)", path, (unsigned long long)size,
                    (unsigned long long)header);
    root = json_loadb((char *)file + 8, (size_t)header, JSON_REJECT_DUPLICATES, &why);
    if (!root && json_error_code(&why) == json_error_out_of_memory)
        return FAIL(E_NOMEM, "%s: no memory for the header", path);
    if (!json_is_object(root)) {
        json_decref(root);
        return FAIL(E_IO, "%s: the header is not a JSON object%s%s", path, root ? "" : ": ", root ? "" : why.text);
    }
    st = read_entries(arena, path, root, file + 8 + header, size - 8 - header, list, n);
    json_decref(root);
    return st;
}
