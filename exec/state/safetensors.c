/* Tensors are written in the given order without padding, so the offsets in the header are running sums; they are read
 * by their offsets, all of a tensor or a part of it. */
#include "exec/state/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/foreign.h"
#include "graph/base/jsontext.h"

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

/* NULL: no memory. */
static json_t *describe(const Tensor *t, uint64_t from)
{
    json_t *shape = json_array();

    for (int i = 0; i < t->shape.rank; i++)
        if (json_array_append_new(shape, json_integer(t->shape.dim[i]))) {
            json_decref(shape);
            return NULL;
        }
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
    text = root && json_object_size(root) == (size_t)n ? json_text(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return NULL;
    *len = (strlen(text) + 7) / 8 * 8;
    if ((padded = malloc(*len + 1)))
        snprintf(padded, *len + 1, "%-*s", (int)*len, text);
    free(text);
    return padded;
}

typedef struct {
    const char *path;
    FILE *file;
    const NamedTensor *list;
    int n;
    TensorSource *source;
    void *user;
} Writer;

static Status cannot_write(const Writer *w) { return FAIL(E_IO, "%s: cannot write: %s", w->path, strerror(errno)); }

static Status write_header(const Writer *w, const char *header, size_t len)
{
    unsigned char size[8];

    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)len >> (8 * i));
    return fwrite(size, 1, 8, w->file) == 8 && fwrite(header, 1, len, w->file) == len ? ST_OK : cannot_write(w);
}

static Status write_tensor(const Writer *w, int i)
{
    const Tensor *t = &w->list[i].tensor;
    const size_t bytes = tensor_bytes(t);
    void *asked = NULL;
    Status st = ST_OK;

    if (!t->data && w->source) {
        if (!(asked = malloc(bytes + 1)))
            return FAIL_NOMEM();
        st = w->source(w->user, i, asked);
    }
    if (!st && bytes && fwrite(asked ? asked : t->data, 1, bytes, w->file) != bytes)
        st = cannot_write(w);
    free(asked);
    return st;
}

static Status write_all(const Writer *w)
{
    size_t len = 0;
    char *header = make_header(w->list, w->n, &len);
    Status st = header ? write_header(w, header, len) : FAIL(E_NOMEM, "%s: no memory for the header", w->path);

    free(header);
    for (int i = 0; i < w->n && !st; i++)
        st = write_tensor(w, i);
    return st ? st : fflush(w->file) || fsync(fileno(w->file)) ? cannot_write(w) : ST_OK;
}

/* The header is JSON, and that is UTF-8. */
static Status check_names(const char *path, const NamedTensor *list, int n)
{
    for (int i = 0; i < n; i++)
        if (!utf8_valid(list[i].name))
            return FAIL(E_INVALID, "%s: the name of tensor '%s' is not UTF-8", path, list[i].name);
    return ST_OK;
}

Status safetensors_write(const char *path, const NamedTensor *list, int n, TensorSource *source, void *user)
{
    Writer w = { path, NULL, list, n, source, user };
    Status st;

    TRY(check_names(path, list, n));
    if (!(w.file = fopen(path, "wbx")))
        return cannot_write(&w);
    st = write_all(&w);
    if (fclose(w.file) && !st)
        st = cannot_write(&w);
    return st;
}

/* ---- reading ---- */

struct TensorFile {
    Arena *arena;
    const char *path;
    int fd, n, users;
    uint64_t size, data; /* of the file; where in it the tensors begin */
    NamedTensor *list;
    uint64_t *at; /* [n] of each, behind `data` */
};

static Status read_bytes(const TensorFile *f, void *to, size_t bytes, uint64_t from)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(f->fd, (char *)to + done, bytes - done, (off_t)(from + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return FAIL(E_IO, "%s: cannot read: %s", f->path, n ? strerror(errno) : "the file became shorter");
        done += (size_t)n;
    }
    return ST_OK;
}

static Status open_file(TensorFile *f)
{
    struct stat s;

    if ((f->fd = open(f->path, O_RDONLY | O_CLOEXEC)) < 0)
        return FAIL(E_IO, "%s: cannot read: %s", f->path, strerror(errno));
    if (fstat(f->fd, &s) || !S_ISREG(s.st_mode))
        return FAIL(E_IO, "%s: not a regular file", f->path);
    f->size = (uint64_t)s.st_size;
    return ST_OK;
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

static Status read_entry(TensorFile *f, int i, const char *name, const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *range = json_object_get(entry, "data_offsets");
    json_int_t from = json_integer_value(json_array_get(range, 0)), to = json_integer_value(json_array_get(range, 1));
    Tensor *t = &f->list[i].tensor;

    if (!type || !(t->dtype = type_parse(type)))
        return FAIL(E_IO, "%s: tensor '%s': unknown type '%s'", f->path, name, type ? type : "");
    TRY(read_shape(&t->shape, f->path, name, json_object_get(entry, "shape")));
    if (json_array_size(range) != 2 || from < 0 || to < from || (uint64_t)to > f->size - f->data ||
        (uint64_t)(to - from) != tensor_bytes(t))
        return FAIL(E_IO, "%s: tensor '%s': offsets %lld to %lld do not fit %zu bytes in %llu", f->path, name,
                    (long long)from, (long long)to, tensor_bytes(t), (unsigned long long)(f->size - f->data));
    f->at[i] = (uint64_t)from;
    return (f->list[i].name = arena_strdup(f->arena, name)) ? ST_OK : FAIL_NOMEM();
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

static Status read_entries(TensorFile *f, const json_t *root)
{
    const char *name;
    json_t *entry;

    f->list = ARENA_NEW(f->arena, NamedTensor, json_object_size(root));
    f->at = ARENA_NEW(f->arena, uint64_t, json_object_size(root));
    if (!f->list || !f->at)
        return FAIL_NOMEM();
    json_object_foreach((json_t *)(uintptr_t)root, name, entry) if (strcmp(name, "__metadata__"))
        TRY(read_entry(f, f->n++, name, entry));
    return check_cover(f->arena, f->path, root, f->size - f->data);
}

static Status parse_header(TensorFile *f, const char *text, size_t n)
{
    json_error_t why;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    Status st;

    if (!root && json_error_code(&why) == json_error_out_of_memory)
        return FAIL(E_NOMEM, "%s: no memory for the header", f->path);
    if (!json_is_object(root)) {
        json_decref(root);
        return FAIL(E_IO, "%s: the header is not a JSON object%s%s", f->path, root ? "" : ": ", root ? "" : why.text);
    }
    st = read_entries(f, root);
    json_decref(root);
    return st;
}

static Status read_header(TensorFile *f)
{
    unsigned char size[9] = { 0 };
    uint64_t header = 0;
    char *text;
    Status st;

    TRY(read_bytes(f, size, f->size < sizeof size ? (size_t)f->size : sizeof size, 0));
    for (int i = 0; i < 8 && f->size >= 8; i++)
        header |= (uint64_t)size[i] << (8 * i);
    if (f->size < 8 || header > MAX_HEADER || header > f->size - 8 || header < 2 || size[8] != '{')
        return FAIL(E_IO, "%s: not a safetensors file (%llu bytes, header of %llu)", f->path,
                    (unsigned long long)f->size, (unsigned long long)header);
    f->data = 8 + header;
    if (!(text = malloc((size_t)header)))
        return FAIL_NOMEM();
    st = read_bytes(f, text, (size_t)header, 8);
    if (!st)
        st = parse_header(f, text, (size_t)header);
    free(text);
    return st;
}

Status tensor_file_open(TensorFile **out, const char *path)
{
    Arena *a = arena_create();
    TensorFile *f = a ? ARENA_NEW(a, TensorFile, 1) : NULL;
    Status st;

    if (!f || !(f->path = arena_strdup(a, path))) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    f->arena = a;
    f->users = 1;
    if ((st = open_file(f)) || (st = read_header(f))) {
        tensor_file_release(f);
        return st;
    }
    *out = f;
    return ST_OK;
}

TensorFile *tensor_file_share(TensorFile *f)
{
    f->users++;
    return f;
}

void tensor_file_release(TensorFile *f)
{
    if (!f || --f->users)
        return;
    if (f->fd >= 0)
        close(f->fd);
    arena_free(f->arena);
}

const NamedTensor *tensor_file_list(const TensorFile *f, int *n)
{
    *n = f->n;
    return f->list;
}

Status tensor_file_read(const TensorFile *f, int i, void *to, size_t from, size_t bytes)
{
    return read_bytes(f, to, bytes, f->data + f->at[i] + from);
}

Status safetensors_read(NamedTensor **list, int *n, Arena *arena, const char *path)
{
    TensorFile *f;
    NamedTensor *t;
    Status st;

    TRY(tensor_file_open(&f, path));
    st = (t = ARENA_NEW(arena, NamedTensor, f->n)) ? ST_OK : FAIL_NOMEM();
    for (int i = 0; i < f->n && !st; i++) {
        t[i] = f->list[i];
        t[i].name = arena_strdup(arena, t[i].name);
        t[i].tensor.data = arena_alloc(arena, tensor_bytes(&t[i].tensor));
        st = t[i].name && t[i].tensor.data ? tensor_file_read(f, i, t[i].tensor.data, 0, tensor_bytes(&t[i].tensor))
                                           : FAIL_NOMEM();
    }
    if (!st) {
        *list = t;
        *n = f->n;
    }
    tensor_file_release(f);
    return st;
}
