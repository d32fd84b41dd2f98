/* The .npy format, version 1: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. */
#include "tools/data/npy_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/data/npy_text.h"

static const char *descr(dpx_dtype t)
{
    switch (t) {
    case DPX_FLOAT32: return "<f4";
    case DPX_FLOAT64: return "<f8";
    case DPX_FLOAT16: return "<f2";
    case DPX_INT8: return "|i1";
    case DPX_INT16: return "<i2";
    case DPX_INT32: return "<i4";
    case DPX_INT64: return "<i8";
    case DPX_UINT8: return "|u1";
    case DPX_UINT16: return "<u2";
    case DPX_UINT32: return "<u4";
    case DPX_UINT64: return "<u8";
    case DPX_BOOL: return "|b1";
    default: return NULL; /* numpy has no bfloat16 */
    }
}

size_t npy_header(char out[NPY_HEADER_MOST], const char *type, const int64_t *dim, int rank)
{
    int n = 10 + snprintf(out + 10, 400, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    size_t padded;

    for (int i = 0; i < rank; i++)
        n += snprintf(out + n, 32, "%lld,%s", (long long)dim[i], i + 1 < rank ? " " : "");
    n += snprintf(out + n, 32, "), }");
    padded = ((size_t)n + 1 + 63) / 64 * 64;
    memset(out + n, ' ', padded - (size_t)n);
    out[padded - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((padded - 10) & 255);
    out[9] = (char)((padded - 10) >> 8);
    return padded;
}

Status npy_begin(OutFile **out, const char *path, const dpx_tensor *like)
{
    char header[NPY_HEADER_MOST];
    size_t len;

    if (!descr(like->dtype))
        return FAIL(E_UNSUPPORTED, "%s: .npy has no type %s", path, dpx_dtype_name(like->dtype));
    len = npy_header(header, descr(like->dtype), like->dim, like->rank);
    TRY(outfile_open(out, path));
    fwrite(header, 1, len, outfile_stream(*out));
    return ST_OK;
}

static Status write_texts(const char *path, const dpx_tensor *t)
{
    char header[NPY_HEADER_MOST], type[32];
    int64_t n = 1;
    size_t width;
    OutFile *file;

    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    TRY(npy_text_width(&width, t->data, n, path));
    snprintf(type, sizeof type, "<U%zu", width);
    TRY(outfile_open(&file, path));
    fwrite(header, 1, npy_header(header, type, t->dim, t->rank), outfile_stream(file));
    npy_text_write(outfile_stream(file), t->data, n, width);
    return outfile_close(file, ST_OK);
}

Status npy_write(const char *path, const dpx_tensor *t)
{
    size_t bytes = dpx_dtype_size(t->dtype);
    OutFile *file;

    if (t->dtype == DPX_STRING)
        return write_texts(path, t);
    for (int i = 0; i < t->rank; i++)
        bytes *= (size_t)t->dim[i];
    TRY(npy_begin(&file, path, t));
    fwrite(t->data, 1, bytes, outfile_stream(file));
    return outfile_close(file, ST_OK);
}

Status npy_file_name(char **out, const char *name)
{
    size_t len = strlen(name) + sizeof ".npy";

    if (!(*out = malloc(len)))
        return FAIL_NOMEM();
    snprintf(*out, len, "%s.npy", name);
    for (char *c = *out; *c; c++)
        if (*c == '/')
            *c = '_';
    return ST_OK;
}
