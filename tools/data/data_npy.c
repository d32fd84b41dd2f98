/* The .npy format: magic, version, the length of a Python dictionary in text, the dictionary, the data.
 *
 * The dictionary is {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }; a small scanner reads just that.  Data
 * in column-major (Fortran) order is first rewritten row-major into an unnamed temporary file: the elements of a sample
 * lie far apart in it, which every epoch would pay for. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/data/data.h"

static const struct {
    const char *descr;
    dpx_dtype dtype;
} types[] = {
    { "f4", DPX_FLOAT32 }, { "f8", DPX_FLOAT64 }, { "f2", DPX_FLOAT16 }, { "i1", DPX_INT8 },
    { "i2", DPX_INT16 },   { "i4", DPX_INT32 },   { "i8", DPX_INT64 },   { "u1", DPX_UINT8 },
    { "u2", DPX_UINT16 },  { "u4", DPX_UINT32 },  { "u8", DPX_UINT64 },  { "b1", DPX_BOOL },
};

typedef struct {
    const char *at, *end;
} Scanner;

static void skip_space(Scanner *s)
{
    while (s->at < s->end && *s->at && strchr(" \t\n\v\f\r", *s->at))
        s->at++;
}

static bool data_npy_take(Scanner *s, char c)
{
    skip_space(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool take_string(Scanner *s, char *out, size_t max)
{
    size_t n = 0;
    char quote;

    skip_space(s);
    if (s->at >= s->end || (*s->at != '\'' && *s->at != '"'))
        return false;
    for (quote = *s->at++; s->at < s->end && *s->at != quote; s->at++)
        if (n + 1 < max)
            out[n++] = *s->at;
    out[n] = '\0';
    return data_npy_take(s, quote);
}

static bool take_bool(bool *out, Scanner *s)
{
    skip_space(s);
    *out = s->end - s->at >= 4 && !strncmp(s->at, "True", 4);
    if (!*out && (s->end - s->at < 5 || strncmp(s->at, "False", 5)))
        return false;
    s->at += *out ? 4 : 5;
    return true;
}

static bool take_shape(Scanner *s, Array *out)
{
    if (!data_npy_take(s, '('))
        return false;
    for (out->rank = 0; !data_npy_take(s, ')');) {
        int64_t d = 0;

        skip_space(s);
        if (s->at >= s->end || !isdigit((unsigned char)*s->at) || out->rank == DPX_MAX_RANK)
            return false;
        for (; s->at < s->end && isdigit((unsigned char)*s->at); s->at++) {
            if (d > INT64_MAX / 10 - 9)
                return false;
            d = d * 10 + (*s->at - '0');
        }
        out->dim[out->rank++] = d;
        if (!data_npy_take(s, ',') && (s->at >= s->end || *s->at != ')'))
            return false;
    }
    return true;
}

enum { DESCR_TEXT = 64 };

/* Reads the dictionary: the element type as text, the order, and into *out the shape. */
static bool take_header(Scanner *s, char descr[DESCR_TEXT], bool *fortran, Array *out)
{
    bool has_descr = false, has_order = false, has_shape = false;
    char key[32];

    if (!data_npy_take(s, '{'))
        return false;
    while (!data_npy_take(s, '}')) {
        bool good;

        if (!take_string(s, key, sizeof key) || !data_npy_take(s, ':'))
            return false;
        if (!strcmp(key, "descr"))
            good = has_descr = take_string(s, descr, DESCR_TEXT);
        else if (!strcmp(key, "fortran_order"))
            good = has_order = take_bool(fortran, s);
        else
            good = has_shape = !strcmp(key, "shape") && take_shape(s, out);
        if (!good)
            return false;
        data_npy_take(s, ',');
    }
    return has_descr && has_order && has_shape;
}

static Status read_type(const char *descr, Array *out, const char *label)
{
    const char *d = descr;

    if (strchr("<>=|", *d) && *d) {
        out->swapped = *d == '>';
        d++;
    }
    if (*d == 'O')
        return FAIL(E_IO, "%s: holds Python objects, expected numbers", label);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].descr, d)) {
            out->dtype = types[i].dtype;
            return ST_OK;
        }
    if (*d == 'U' && out->texts && d[1] >= '1' && d[1] <= '9' && strlen(d) < 11) {
        out->dtype = DPX_STRING;
        out->width = strtoll(d + 1, NULL, 10);
        return ST_OK;
    }
    if (*d == 'U' || *d == 'S')
        return FAIL(
            E_IO, "%s: holds text ('%s'), expected bool, (u)int8 to 64 or float16, 32, 64; classes are numbered from 0",
            label, descr);
    return FAIL(E_IO, "%s: element type '%s' is not supported; expected bool, (u)int8 to 64 or float16, 32, 64", label,
                descr);
}

/* Bytes of the data; -1: more than can be counted. */
static int64_t data_bytes(const Array *a)
{
    int64_t n = a->dtype == DPX_STRING ? 4 * a->width : (int64_t)dpx_dtype_size(a->dtype);

    for (int i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(n, a->dim[i], &n))
            return -1;
    return n;
}

/* Reads the header of a file that begins with the `size` bytes at `file`; fills dtype, rank and dim.  *header is the
 * header's length, *bytes that of the data. */
static Status read_header(Array *a, bool *fortran, size_t *header, uint64_t *bytes, const unsigned char *file,
                          size_t size, const char *label)
{
    size_t at = 10, len;
    char descr[DESCR_TEXT];
    Scanner s;
    int64_t n;

    if (size < 12 || memcmp(file, "\x93NUMPY", 6) || file[6] < 1 || file[6] > 3)
        return FAIL(E_IO, "%s: not a .npy file%s", label,
                    size > 4 && !memcmp(file, "PK\3\4", 4)
                        ? ", but a zip archive: one of arrays is called .npz, and given as --data"
                        : "");
    len = file[8] | (size_t)file[9] << 8;
    if (file[6] >= 2) {
        len |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
        at = 12;
    }
    if (len > size - at)
        return FAIL(E_IO, "%s: the header should have %zu bytes, the file has %zu", label, len, size);
    s = (Scanner){ (const char *)file + at, (const char *)file + at + len };
    if (!take_header(&s, descr, fortran, a))
        return FAIL(E_IO, "%s: the header is not a description of an array of at most %d axes", label, DPX_MAX_RANK);
    TRY(read_type(descr, a, label));
    if ((n = data_bytes(a)) < 0)
        return FAIL(E_IO, "%s: the shape asks for more bytes than can be counted", label);
    *header = at + len;
    *bytes = (uint64_t)n;
    *fortran = *fortran && a->rank > 1;
    return ST_OK;
}

Status npy_length(uint64_t *out, const unsigned char *file, size_t n, const char *label)
{
    Array a = { .rank = 0 };
    bool fortran;
    size_t header;
    uint64_t bytes;

    TRY(read_header(&a, &fortran, &header, &bytes, file, n, label));
    *out = header + bytes;
    return ST_OK;
}

Status npy_view(Array *a, bool *fortran, const unsigned char *file, size_t size, const char *label)
{
    size_t header;
    uint64_t bytes;

    TRY(read_header(a, fortran, &header, &bytes, file, size, label));
    if (bytes != size - header)
        return FAIL(E_IO, "%s: the shape asks for %" PRIu64 " bytes of data, the file has %zu", label, bytes,
                    size - header);
    a->data = file + header;
    return ST_OK;
}

/* Writes samples first .. first + n of column-major data to `out`, row-major.  Element e of these samples lies together
 * in the file. */
static void reorder(const Array *a, int64_t first, int64_t n, unsigned char *out)
{
    size_t elements = array_sample_elements(a), size = dpx_dtype_size(a->dtype), at = 0;
    int64_t index[DPX_MAX_RANK] = { 0 };

    for (size_t e = 0; e < elements; e++) {
        const unsigned char *from = a->data + (at * (size_t)a->dim[0] + (size_t)first) * size;

        for (int64_t i = 0; i < n; i++)
            memcpy(out + ((size_t)i * elements + e) * size, from + (size_t)i * size, size);
        for (int i = a->rank - 1; i > 0 && ++index[i] == a->dim[i]; i--) /* the next element in row-major order, */
            index[i] = 0;
        at = 0; /* and how many elements of a column-major sample precede it */
        for (int i = a->rank - 1; i > 0; i--)
            at = at * (size_t)a->dim[i] + (size_t)index[i];
    }
}

/* Rewrites the samples of an array that is not empty, a block at a time: as many as fit, but at least one. */
static Status write_rows(const Array *a, FILE *to, const char *label)
{
    enum { BLOCK = 64 /* samples */, BLOCK_BYTES = 16 << 20 };
    size_t bytes = array_sample_elements(a) * dpx_dtype_size(a->dtype);
    const int64_t fit = BLOCK_BYTES / bytes ? (int64_t)(BLOCK_BYTES / bytes) : 1;
    const int64_t wanted = a->dim[0] < BLOCK ? a->dim[0] : BLOCK, most = wanted < fit ? wanted : fit;
    unsigned char *block = malloc(bytes * (size_t)most);
    Status st = block ? ST_OK : FAIL_NOMEM();

    for (int64_t i = 0; i < a->dim[0] && !st; i += most) {
        int64_t n = a->dim[0] - i < most ? a->dim[0] - i : most;

        reorder(a, i, n, block);
        if (fwrite(block, bytes, (size_t)n, to) != (size_t)n)
            st = FAIL(E_IO, "%s: cannot reorder into a temporary file: %s", label, strerror(errno));
    }
    free(block);
    return st;
}

static Status make_row_major(Array *a, const char *label)
{
    FILE *f;
    Mapped rows;
    Status st;

    if (!data_bytes(a))
        return ST_OK;
    TRY(temporary_open(&f, a->map.size, label));
    if ((st = write_rows(a, f, label))) {
        fclose(f);
        return st;
    }
    TRY(map_stream(&rows, f, label));
    a->unpacked = a->unpacked ? a->unpacked : (int64_t)a->map.size;
    mapped_close(&a->map);
    a->map = rows;
    a->data = rows.data;
    return ST_OK;
}

Status npy_parse(Array *a, const char *label)
{
    bool fortran = false;
    Status st = npy_view(a, &fortran, a->map.data, a->map.size, label);

    if (!st && fortran && a->dtype == DPX_STRING)
        st = FAIL(E_UNSUPPORTED, "%s: strings in Fortran order", label);
    if (!st && fortran)
        st = make_row_major(a, label);
    if (st)
        mapped_close(&a->map);
    return st;
}

/* ---- files and folders of them ---- */

/* Adds one array, which is named after the file, without .npy. */
static Status add_file(Dataset *d, const char *path)
{
    Array a = { 0 };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    TRY(mapped_open(&a.map, path));
    TRY(npy_parse(&a, path));
    if (!(a.name = strndup(name, strlen(name) - 4))) {
        mapped_close(&a.map);
        return FAIL_NOMEM();
    }
    return dataset_add(d, &a, path);
}

static Status read_file(Dataset *d, const Source *s, const SourceContext *c)
{
    (void)c;
    return add_file(d, s->path);
}

static int is_npy(const struct dirent *e) { return ends_with(e->d_name, ".npy"); }

static Status read_folder(Dataset *d, const Source *s, const SourceContext *c)
{
    const char *folder = s->path;
    struct dirent **entry;
    int n = scandir(folder, &entry, is_npy, alphasort);
    char path[PATH_MAX];
    Status st = ST_OK;

    (void)c;
    if (n < 0)
        return FAIL(E_IO, "%s: cannot read: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!st && snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name) >= (int)sizeof path)
            st = FAIL(E_IO, "%s: the path is too long", folder);
        if (!st)
            st = add_file(d, path);
        free(entry[i]);
    }
    free(entry);
    return st || n ? st : source_refuse(E_IO, folder, "the folder holds no .npy files; ");
}

DEFINE_DATA_FORMAT(npy, .form = "FILE.npy", .help = "one array, called like the file", .suffix = ".npy",
                   .read = read_file);
DEFINE_DATA_FORMAT(npy_folder, .form = "FOLDER", .help = "of .npy files, an array each", .folder = true,
                   .read = read_folder);
