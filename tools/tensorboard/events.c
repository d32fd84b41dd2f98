/* Writes records as TFRecord files have them: length, its checksum, the message, its checksum.  A checksum is a CRC-32C
 * (Castagnoli), rotated by 15 bits, plus a constant, as TensorFlow's record_writer.cc has it. */
#include "tools/tensorboard/events.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "event.pb-c.h"
#include "tools/tensorboard/graph_def.h"
#include "tools/tensor_number.h"

enum { BUCKETS = 64, PATH = 4600 };
#define PREFIX "events.out.tfevents."

struct Events {
    FILE *file;
    char path[PATH];
};

static uint32_t masked_crc(const uint8_t *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Writes a number with its lowest byte first. */
static void write_number(FILE *f, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(v >> 8 * i & 255), f);
}

static Status write_event(Events *e, TensorboardEvent__Event *event)
{
    const size_t n = tensorboard_event__event__get_packed_size(event);
    uint8_t length[8], *bytes = malloc(n + 1);

    if (!bytes)
        return FAIL_NOMEM();
    tensorboard_event__event__pack(event, bytes);
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)n >> 8 * i);
    write_number(e->file, n, 8);
    write_number(e->file, masked_crc(length, 8), 4);
    fwrite(bytes, 1, n, e->file);
    write_number(e->file, masked_crc(bytes, n), 4);
    free(bytes);
    return ferror(e->file) ? FAIL(E_IO, "%s: cannot write: %s", e->path, strerror(errno)) : ST_OK;
}

/* Removes the event files of the folder. */
static Status remove_old(const char *folder)
{
    DIR *d = opendir(folder);
    Status st = ST_OK;

    if (!d)
        return FAIL(E_IO, "%s: cannot read: %s", folder, strerror(errno));
    for (const struct dirent *at; !st && (at = readdir(d));) {
        char path[PATH];

        snprintf(path, sizeof path, "%s/%s", folder, at->d_name);
        if (!strncmp(at->d_name, PREFIX, strlen(PREFIX)) && unlink(path))
            st = FAIL(E_IO, "%s: cannot remove: %s", path, strerror(errno));
    }
    closedir(d);
    return st;
}

Status events_open(Events **out, const char *folder)
{
    TensorboardEvent__Event version = TENSORBOARD_EVENT__EVENT__INIT;
    char host[65] = "";
    Events *e;
    Status st;

    if (mkdir(folder, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", folder, strerror(errno));
    TRY(remove_old(folder));
    if (!(e = calloc(1, sizeof *e)))
        return FAIL_NOMEM();
    gethostname(host, sizeof host - 1);
    snprintf(e->path, sizeof e->path, "%.4000s/" PREFIX "%lld.%s.%ld", folder, (long long)time(NULL), host,
             (long)getpid());
    if (!(e->file = fopen(e->path, "w"))) {
        st = FAIL(E_IO, "%s: cannot write: %s", e->path, strerror(errno));
        free(e);
        return st;
    }
    version.wall_time = (double)time(NULL);
    version.what_case = TENSORBOARD_EVENT__EVENT__WHAT_FILE_VERSION;
    version.file_version = (char[]){ "brain.Event:2" };
    if ((st = write_event(e, &version))) {
        fclose(e->file);
        free(e);
        return st;
    }
    *out = e;
    return ST_OK;
}

Status events_flush(Events *e)
{
    return fflush(e->file) ? FAIL(E_IO, "%s: cannot write: %s", e->path, strerror(errno)) : ST_OK;
}

Status events_close(Events *e)
{
    Status st = ST_OK;

    if (e && fclose(e->file))
        st = FAIL(E_IO, "%s: cannot write: %s", e->path, strerror(errno));
    free(e);
    return st;
}

static Status write_value(Events *e, int64_t step, TensorboardEvent__Value *v)
{
    TensorboardEvent__Event event = TENSORBOARD_EVENT__EVENT__INIT;
    TensorboardEvent__Summary summary = TENSORBOARD_EVENT__SUMMARY__INIT;

    summary.n_value = 1;
    summary.value = (TensorboardEvent__Value *[]){ v };
    event.wall_time = (double)time(NULL);
    event.step = step;
    event.what_case = TENSORBOARD_EVENT__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return write_event(e, &event);
}

Status events_scalar(Events *e, int64_t step, const char *tag, double x)
{
    TensorboardEvent__Value v = TENSORBOARD_EVENT__VALUE__INIT;
    char name[256];

    snprintf(name, sizeof name, "%s", tag);
    v.tag = name;
    v.value_case = TENSORBOARD_EVENT__VALUE__VALUE_SIMPLE_VALUE;
    v.simple_value = (float)x;
    return write_value(e, step, &v);
}

Status events_histogram(Events *e, int64_t step, const char *tag, const dpx_tensor *t)
{
    TensorboardEvent__Value v = TENSORBOARD_EVENT__VALUE__INIT;
    TensorboardEvent__Histogram h = TENSORBOARD_EVENT__HISTOGRAM__INIT;
    double limit[BUCKETS], count[BUCKETS] = { 0 };
    char name[256];
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    h.min = (double)INFINITY;
    h.max = (double)-INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double x = tensor_number(t, i);

        if (!isfinite(x))
            continue;
        h.min = x < h.min ? x : h.min;
        h.max = x > h.max ? x : h.max;
        h.num++;
        h.sum += x;
        h.sum_squares += x * x;
    }
    if (!(h.num > 0))
        return ST_OK;
    for (int k = 0; k < BUCKETS; k++)
        limit[k] = k + 1 < BUCKETS ? h.min + (h.max - h.min) * (k + 1) / BUCKETS : h.max;
    for (int64_t i = 0; i < n; i++) {
        const double x = tensor_number(t, i);
        int k = h.max > h.min && isfinite(x) ? (int)((x - h.min) / (h.max - h.min) * BUCKETS) : 0;

        k = k < BUCKETS ? k : BUCKETS - 1;
        count[k] += isfinite(x);
    }
    h.n_bucket_limit = h.n_bucket = BUCKETS;
    h.bucket_limit = limit;
    h.bucket = count;
    snprintf(name, sizeof name, "%s", tag);
    v.tag = name;
    v.value_case = TENSORBOARD_EVENT__VALUE__VALUE_HISTO;
    v.histo = &h;
    return write_value(e, step, &v);
}

/* The bytes of a text in base64 (RFC 4648), which the caller frees; NULL: out of memory. */
static uint8_t *decode_base64(size_t *n, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *bytes = malloc(strlen(text) / 4 * 3 + 3);
    uint32_t bits = 0;
    int known = 0;

    *n = 0;
    for (const char *at, *c = text; bytes && *c && (at = strchr(digits, *c)); c++) {
        bits = bits << 6 | (uint32_t)(at - digits);
        known += 6;
        if (known >= 8)
            bytes[(*n)++] = (uint8_t)(bits >> (known -= 8));
    }
    return bytes;
}

/* The number at place `at` of a PNG file, whose highest byte is first. */
static int32_t png_number(const uint8_t *png, int at)
{
    return (int32_t)((uint32_t)png[at] << 24 | (uint32_t)png[at + 1] << 16 | (uint32_t)png[at + 2] << 8 | png[at + 3]);
}

Status events_image(Events *e, int64_t step, const char *tag, const char *png)
{
    enum { WIDTH = 16, HEIGHT = 20, COLOUR = 25, HEADER = 33, GRAY = 0 };
    TensorboardEvent__Value v = TENSORBOARD_EVENT__VALUE__INIT;
    TensorboardEvent__Image image = TENSORBOARD_EVENT__IMAGE__INIT;
    char name[256];
    size_t n;
    uint8_t *bytes = decode_base64(&n, png);
    Status st = !bytes ? FAIL_NOMEM() : n < HEADER ? FAIL(E_INTERNAL, "image '%s' is no PNG file", tag) : ST_OK;

    if (!st) {
        image.width = png_number(bytes, WIDTH);
        image.height = png_number(bytes, HEIGHT);
        image.colorspace = bytes[COLOUR] == GRAY ? 1 : 3;
        image.encoded_image_string = (ProtobufCBinaryData){ n, bytes };
        snprintf(name, sizeof name, "%s", tag);
        v.tag = name;
        v.value_case = TENSORBOARD_EVENT__VALUE__VALUE_IMAGE;
        v.image = &image;
        st = write_value(e, step, &v);
    }
    free(bytes);
    return st;
}

Status events_graph(Events *e, const json_t *graph, const json_t *shaped)
{
    TensorboardEvent__Event event = TENSORBOARD_EVENT__EVENT__INIT;
    uint8_t *bytes;
    size_t n;
    Status st;

    TRY(graph_def_pack(&bytes, &n, graph, shaped));
    event.wall_time = (double)time(NULL);
    event.what_case = TENSORBOARD_EVENT__EVENT__WHAT_GRAPH_DEF;
    event.graph_def = (ProtobufCBinaryData){ n, bytes };
    st = write_event(e, &event);
    free(bytes);
    return st;
}
