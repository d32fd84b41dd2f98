/* The .npy format: magic, version, the length of a Python dictionary in text, the dictionary, the data.
 * The dictionary is {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }; a small scanner reads just that. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/data.h"

static const struct { const char *descr; dpx_dtype dtype; } types[] = {
    { "f4", DPX_FLOAT32 }, { "f8", DPX_FLOAT64 }, { "f2", DPX_FLOAT16 }, { "i1", DPX_INT8 },   { "i2", DPX_INT16 },  { "i4", DPX_INT32 },
    { "i8", DPX_INT64 },   { "u1", DPX_UINT8 },   { "u2", DPX_UINT16 },  { "u4", DPX_UINT32 }, { "u8", DPX_UINT64 }, { "b1", DPX_BOOL },
};

typedef struct { const char *at, *end; } Scanner;

static void skip_space(Scanner *s)
{
    while (s->at < s->end && isspace((unsigned char)*s->at))
        s->at++;
}

static bool take(Scanner *s, char c)
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
    return take(s, quote);
}

static bool take_bool(Scanner *s, bool *out)
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
    if (!take(s, '('))
        return false;
    for (out->rank = 0; !take(s, ')'); ) {
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
        if (!take(s, ',') && (s->at >= s->end || *s->at != ')'))
            return false;
    }
    return true;
}

typedef struct { char descr[64]; bool fortran, has_descr, has_order, has_shape; } Header;

static bool take_header(Scanner *s, Header *h, Array *out)
{
    char key[32];

    if (!take(s, '{'))
        return false;
    while (!take(s, '}')) {
        bool good;

        if (!take_string(s, key, sizeof key) || !take(s, ':'))
            return false;
        if (!strcmp(key, "descr"))
            good = h->has_descr = take_string(s, h->descr, sizeof h->descr);
        else if (!strcmp(key, "fortran_order"))
            good = h->has_order = take_bool(s, &h->fortran);
        else
            good = h->has_shape = !strcmp(key, "shape") && take_shape(s, out);
        if (!good)
            return false;
        take(s, ',');
    }
    return h->has_descr && h->has_order && h->has_shape;
}

static Status read_type(const Header *h, Array *out, const char *label)
{
    const char *d = h->descr;

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
    return FAIL(E_IO, "%s: element type '%s' is not supported", label, h->descr);
}

/* Bytes of the data, or -1 when they overflow. */
static int64_t data_bytes(const Array *a)
{
    int64_t n = (int64_t)dpx_dtype_size(a->dtype);

    for (int i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(n, a->dim[i], &n))
            return -1;
    return n;
}

Status npy_parse(Array *out, const unsigned char *file, size_t size, const char *label)
{
    size_t at = 10, len;
    Header h = { 0 };
    Scanner s;
    int64_t bytes;

    if (size < 12 || memcmp(file, "\x93NUMPY", 6) || file[6] < 1 || file[6] > 3)
        return FAIL(E_IO, "%s: not a .npy file", label);
    len = file[8] | (size_t)file[9] << 8;
    if (file[6] >= 2) {
        len |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
        at = 12;
    }
    if (len > size - at)
        return FAIL(E_IO, "%s: the header is said to be %zu bytes long, the file has %zu", label, len, size);
    s = (Scanner){ (const char *)file + at, (const char *)file + at + len };
    if (!take_header(&s, &h, out))
        return FAIL(E_IO, "%s: the header is not a description of an array of at most %d axes", label, DPX_MAX_RANK);
    TRY(read_type(&h, out, label));
    if (h.fortran && out->rank > 1)
        return FAIL(E_IO, "%s: column-major (Fortran) order is not supported, save it with numpy.ascontiguousarray", label);
    bytes = data_bytes(out);
    if (bytes < 0 || (uint64_t)bytes != size - at - len)
        return FAIL(E_IO, "%s: the shape asks for %lld bytes of data, the file has %zu", label, (long long)bytes, size - at - len);
    out->data = file + at + len;
    return ST_OK;
}
