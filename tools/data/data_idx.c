/* The IDX format of MNIST: 0, 0, a type, the rank, big-endian sizes, big-endian elements; often gzipped.  The first
 * file of a pair holds images: bytes are scaled to [0, 1], and [N, H, W] gets a channel axis.  The second holds labels.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/data/data.h"

enum { CHUNK = 1 << 18 };

/* Reads the header of a file that begins with the `size` bytes at `file`; fills dtype, rank, dim and swapped.  *bytes
 * is the length of the whole file. */
static Status data_idx_read_header(Array *a, size_t *header, size_t *bytes, const unsigned char *file, size_t size,
                                   const char *path)
{
    static const dpx_dtype types[16] = {
        [8] = DPX_UINT8, [9] = DPX_INT8, [11] = DPX_INT16, [12] = DPX_INT32, [13] = DPX_FLOAT32, [14] = DPX_FLOAT64
    };
    size_t n;

    if (size < 8 || file[0] || file[1] || file[2] > 14 || !types[file[2]] || file[3] < 1)
        return FAIL(E_IO, "%s: not an IDX file", path);
    if (file[3] >= DPX_MAX_RANK)
        return FAIL(E_IO, "%s: %d axes, at most %d are supported", path, file[3], DPX_MAX_RANK - 1);
    a->dtype = types[file[2]];
    a->rank = file[3];
    *header = 4 + 4 * (size_t)a->rank;
    n = dpx_dtype_size(a->dtype);
    a->swapped = n > 1;
    if (size < *header)
        return FAIL(E_IO, "%s: the file ends in its header", path);
    for (int i = 0; i < a->rank; i++) {
        const unsigned char *p = file + 4 + 4 * i;

        a->dim[i] = (int64_t)((uint64_t)p[0] << 24 | (uint64_t)p[1] << 16 | (uint64_t)p[2] << 8 | p[3]);
        if (__builtin_mul_overflow(n, (size_t)a->dim[i], &n))
            return FAIL(E_IO, "%s: the size overflows", path);
    }
    if (__builtin_add_overflow(n, *header, bytes))
        return FAIL(E_IO, "%s: the size overflows", path);
    return ST_OK;
}

/* Unpacks a stream whose first n bytes are in `buf`.  It must have `length` bytes, as its header says. */
static Status copy_stream(FILE *to, gzFile in, char *buf, int n, uint64_t length, const char *path)
{
    uint64_t done = 0;
    int code;

    for (; n > 0; n = gzread(in, buf, CHUNK))
        if ((done += (uint64_t)n) > length)
            return FAIL(E_IO, "%s: unpacks to more than the %" PRIu64 " bytes that its header asks for", path, length);
        else if (fwrite(buf, 1, (size_t)n, to) != (size_t)n)
            return FAIL(E_IO, "%s: cannot unpack into a temporary file: %s", path, strerror(errno));
    if (n < 0)
        return FAIL(E_IO, "%s: damaged: %s", path, gzerror(in, &code));
    return gzeof(in) ? ST_OK : FAIL(E_IO, "%s: the compressed data ends early", path);
}

/* Unpacks a stream into a temporary file. */
static Status unpack(FILE **out, gzFile in, char *buf, const char *path)
{
    Array a = { .rank = 0 };
    size_t header, length;
    int code, n = gzread(in, buf, CHUNK);
    Status st;

    if (n < 0)
        return FAIL(E_IO, "%s: damaged: %s", path, gzerror(in, &code));
    TRY(data_idx_read_header(&a, &header, &length, (const unsigned char *)buf, (size_t)n, path));
    TRY(temporary_open(out, length, path));
    if ((st = copy_stream(*out, in, buf, n, length, path)))
        fclose(*out);
    return st;
}

/* Maps and reads one file, which is unpacked first if it is gzipped. */
static Status read_array(Array *a, const char *path)
{
    size_t header, bytes;
    Status st;

    TRY(mapped_open(&a->map, path));
    if (a->map.size > 2 && a->map.data[0] == 0x1f && a->map.data[1] == 0x8b) {
        gzFile in = gzopen(path, "rb");
        char *buf = in ? malloc(CHUNK) : NULL;
        FILE *f = NULL;

        a->unpacked = (int64_t)a->map.size;
        mapped_close(&a->map);
        st = buf ? unpack(&f, in, buf, path) : FAIL(E_IO, "%s: cannot unpack: %s", path, strerror(errno));
        free(buf);
        if (in && gzclose(in) != Z_OK && !st) {
            fclose(f);
            st = FAIL(E_IO, "%s: the compressed data is damaged or ends early", path);
        }
        TRY(st);
        TRY(map_stream(&a->map, f, path));
    }
    st = data_idx_read_header(a, &header, &bytes, a->map.data, a->map.size, path);
    if (!st && bytes != a->map.size)
        st = FAIL(E_IO, "%s: the header asks for %zu bytes of data, the file has %zu", path, bytes - header,
                  a->map.size - header);
    if (!st && !(a->name = strdup("")))
        st = FAIL_NOMEM();
    if (st)
        mapped_close(&a->map);
    else
        a->data = a->map.data + header;
    return st;
}

static Status read_source(Dataset *d, const Source *s, const SourceContext *c)
{
    const char *files = s->path, *comma = strchr(files, ',');
    Array x = { 0 }, y = x;
    char *images;
    Status st;

    if (!comma || comma == files || !comma[1] || strchr(comma + 1, ','))
        return FAIL(E_INVALID, "idx:%s: expected idx:IMAGES,LABELS", files);
    if (!(images = strndup(files, (size_t)(comma - files))))
        return FAIL_NOMEM();
    if (!(st = read_array(&x, images))) {
        x.norm = c->norm;
        x.norm.scale = x.dtype == DPX_UINT8 ? 1 / 255.0 : 1;
        st = dataset_add(d, &x, images);
    }
    free(images);
    TRY(st);
    TRY(read_array(&y, comma + 1));
    free(y.name);
    y.name = strdup("target");
    return y.name ? dataset_add(d, &y, comma + 1) : FAIL_NOMEM();
}

DEFINE_DATA_FORMAT(idx, .form = "idx:IMAGES,LABELS", .help = "as MNIST has it, gzip or not",
                   .prefix = "idx:", .scaled = true, .read = read_source);
