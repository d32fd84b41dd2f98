/* Opening of data sets, and conversion of samples on their way into a batch. */
#include "tools/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"
#include "graph/base/numtext.h"

enum { MOST_SAMPLE = 1 << 30 /* bytes of a sample that is made */ };

/* The folder of temporary files, on a disk if possible. */
static const char *temporary_folder(void)
{
    const char *given = getenv("TMPDIR");
    struct statfs about;

    if (given && *given)
        return given;
    return !statfs(P_tmpdir, &about) && about.f_type == TMPFS_MAGIC && !access("/var/tmp", W_OK) ? "/var/tmp"
                                                                                                 : P_tmpdir;
}

/* Opens an unnamed file in the folder; -1: errno says why not. */
static int open_unnamed(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char path[4096];

    if (fd >= 0 || snprintf(path, sizeof path, "%s/dpexec-XXXXXX", folder) >= (int)sizeof path)
        return fd;
    if ((fd = mkostemp(path, O_CLOEXEC)) >= 0) /* the file system knows no unnamed files */
        unlink(path);
    return fd;
}

Status temporary_open(FILE **out, uint64_t bytes, const char *label)
{
    const char *folder = temporary_folder();
    const int fd = open_unnamed(folder);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
    struct statvfs disk;

    if (!f) {
        const Status st =
            FAIL(E_IO, "%s: cannot make a temporary file in %s: %s; choose another folder with TMPDIR=DIR", label,
                 folder, strerror(errno));

        if (fd >= 0)
            close(fd);
        return st;
    }
    if (!fstatvfs(fileno(f), &disk) && disk.f_frsize && bytes / disk.f_frsize >= disk.f_bavail) {
        fclose(f);
        return FAIL(E_IO,
                    "%s: takes %" PRIu64 " bytes unpacked, but %s has %" PRIu64
                    " free: convert it to .npy, or choose another folder with TMPDIR=DIR",
                    label, bytes, folder, (uint64_t)disk.f_bavail * disk.f_frsize);
    }
    *out = f;
    return ST_OK;
}

Status map_stream(Mapped *out, FILE *f, const char *path)
{
    Status st = fflush(f) ? FAIL(E_IO, "%s: cannot unpack into a temporary file: %s", path, strerror(errno))
                          : mapped_fd(out, fileno(f), path);

    fclose(f);
    return st;
}

/* ---- data sets ---- */

Status dataset_add(Dataset *d, const Array *a, const char *path)
{
    int64_t bytes = (int64_t)dpx_dtype_size(a->dtype);
    Array *grown;
    Status st = ST_OK;

    for (int i = 1; a->fetch && i < a->rank; i++)
        if (__builtin_mul_overflow(bytes, a->dim[i], &bytes) || bytes > MOST_SAMPLE)
            st = FAIL(E_INVALID, "%s: array '%s': a sample has more than the %d bytes that are allowed", path, a->name,
                      MOST_SAMPLE);
    if (st)
        ;
    else if (*a->name && dataset_find(d, a->name))
        st = FAIL(E_IO, "%s: two arrays are called '%s'", path, a->name);
    else if (!(grown = heap_reserve(d->array, sizeof *grown, (size_t)d->n + 1, &d->room)))
        st = FAIL_NOMEM();
    if (st) {
        Mapped m = a->map;

        mapped_close(&m);
        if (a->file)
            close(a->file);
        free(a->memory);
        free(a->name);
        free(a->row);
        return st;
    }
    d->array = grown;
    d->array[d->n++] = *a;
    if (!a->rank)
        d->array[d->n - 1].dim[0] = 1;
    return ST_OK;
}

Status dataset_complete(Dataset *d, const char *source)
{
    TRY(sequences_pair(d, source));
    for (int i = 0; i < d->n && !d->samples; i++)
        if (!d->array[i].describes && d->array[i].rank)
            d->samples = d->array[i].dim[0];
    return d->samples ? ST_OK : FAIL(E_IO, "%s: there are no samples", source);
}

const Array *dataset_find(const Dataset *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->array[i].name, name))
            return &d->array[i];
    return NULL;
}

void dataset_free(Dataset *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n && !d->lent; i++) {
        mapped_close(&d->array[i].map);
        if (d->array[i].file)
            close(d->array[i].file);
        free(d->array[i].memory);
        free(d->array[i].name);
        free(d->array[i].row);
    }
    if (!d->lent) {
        if (d->free_maker)
            d->free_maker(d->maker);
        for (int64_t i = 0; d->class_name && i < d->classes; i++)
            free(d->class_name[i]);
        free(d->class_name);
        free(d->note);
        mapped_close(&d->archive);
        free(d->array);
        source_free(&d->source);
    }
    free(d->index);
    free(d);
}

Status dataset_note(Dataset *d, const char *fmt, ...)
{
    char *text, *all = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return FAIL_NOMEM();
    n = asprintf(&all, "%s%s%s", d->note ? d->note : d->source.path, d->note ? "; " : ": ", text);
    free(text);
    if (n < 0)
        return FAIL_NOMEM();
    foreign_clean(all);
    free(d->note);
    d->note = all;
    return ST_OK;
}

Status dataset_read(Dataset **out, const char *source, const SourceContext *c)
{
    Dataset *d = calloc(1, sizeof *d);
    Status st = d ? source_parse(&d->source, source) : FAIL_NOMEM();

    if (!st)
        st = source_int(&d->limit, &d->source, "limit", INT64_MAX, 1, INT64_MAX);
    if (!st)
        st = d->source.format->read(d, &d->source, c);
    if (!st)
        st = dataset_complete(d, source);
    if (st) {
        dataset_free(d);
        return st;
    }
    *out = d;
    return ST_OK;
}

Status dataset_fit(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    return d->source.format && d->source.format->fit ? d->source.format->fit(d, c, row, n) : ST_OK;
}

Status dataset_open(Dataset **out, const char *source, const SourceContext *c)
{
    Dataset *d;
    Status st;

    TRY(dataset_read(&d, source, c));
    if ((st = dataset_fit(d, c, NULL, d->samples))) {
        dataset_free(d);
        return st;
    }
    *out = d;
    return ST_OK;
}

int64_t dataset_row(const Dataset *d, int64_t sample) { return d->index ? d->index[sample] : sample; }

Status dataset_view(Dataset **out, const Dataset *d, const int64_t *row, int64_t n)
{
    Dataset *view = malloc(sizeof *view);
    int64_t *index = malloc((size_t)n * sizeof *index + 1);

    if (!view || !index) {
        free(view);
        free(index);
        return FAIL_NOMEM();
    }
    *view = *d;
    view->lent = true;
    view->samples = n;
    view->index = memcpy(index, row, (size_t)n * sizeof *index);
    *out = view;
    return ST_OK;
}

/* ---- samples ---- */

void array_add_channel(Array *a)
{
    memmove(a->dim + 2, a->dim + 1, (size_t)(a->rank - 1) * sizeof *a->dim);
    a->dim[1] = 1;
    a->rank++;
}

size_t array_sample_elements(const Array *a)
{
    size_t n = 1;

    for (int i = 1; i < a->rank; i++)
        n *= (size_t)a->dim[i];
    return n;
}

size_t array_position_elements(const Array *a)
{
    size_t n = 1;

    for (int i = 2; i < a->rank; i++)
        n *= (size_t)a->dim[i];
    return n;
}

/* Elements [from, from + n) of an array. */
typedef struct {
    size_t from, n;
} Span;

static Span span_of(const Array *a, int64_t sample)
{
    const size_t unit = a->row ? array_position_elements(a) : array_sample_elements(a);

    return a->row ? (Span){ (size_t)a->row[sample].from * unit, (size_t)a->row[sample].n * unit }
                  : (Span){ (size_t)sample * unit, unit };
}

size_t array_bytes(const Array *a)
{
    return (a->row ? (size_t)a->rows * array_position_elements(a) : (size_t)a->dim[0] * array_sample_elements(a)) *
           dpx_dtype_size(a->dtype);
}

int64_t array_sample_bytes(const Array *a, int64_t sample)
{
    return (int64_t)(span_of(a, sample).n * dpx_dtype_size(a->dtype));
}

size_t array_sample_at(const Array *a, int64_t sample) { return span_of(a, sample).from * dpx_dtype_size(a->dtype); }

static bool is_float(dpx_dtype t)
{
    return t == DPX_FLOAT32 || t == DPX_FLOAT64 || t == DPX_FLOAT16 || t == DPX_BFLOAT16;
}

bool array_is_float(const Array *a) { return is_float(a->dtype); }

static void swap_bytes(unsigned char *p, size_t n, size_t size)
{
    for (; n; n--, p += size)
        for (size_t i = 0; i < size / 2; i++) {
            unsigned char t = p[i];

            p[i] = p[size - 1 - i];
            p[size - 1 - i] = t;
        }
}

#define EACH_NATIVE(X)      \
    X(DPX_FLOAT32, float)   \
    X(DPX_FLOAT64, double)  \
    X(DPX_INT8, int8_t)     \
    X(DPX_INT16, int16_t)   \
    X(DPX_INT32, int32_t)   \
    X(DPX_INT64, int64_t)   \
    X(DPX_UINT8, uint8_t)   \
    X(DPX_UINT16, uint16_t) \
    X(DPX_UINT32, uint32_t) \
    X(DPX_UINT64, uint64_t) \
    X(DPX_BOOL, uint8_t)

/* The value of a binary16 number: a sign, 5 bits of exponent, 10 of mantissa. */
static double half_value(const unsigned char *p)
{
    uint16_t bits;
    int exponent, mantissa;
    double v;

    memcpy(&bits, p, sizeof bits);
    exponent = bits >> 10 & 31;
    mantissa = bits & 1023;
    if (exponent == 31)
        v = mantissa ? (double)NAN : (double)INFINITY;
    else
        v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return bits >> 15 ? -v : v;
}

/* An element as the widest type of its kind.  It is copied, because a file's data need not be aligned. */
static double element_float(const unsigned char *p, dpx_dtype t)
{
    switch (t) {
    case DPX_FLOAT16: return half_value(p);
#define X(D, T)                  \
    case D: {                    \
        T v;                     \
        memcpy(&v, p, sizeof v); \
        return (double)v;        \
    }
        EACH_NATIVE(X)
#undef X
    default: return 0;
    }
}

static int64_t element_int(const unsigned char *p, dpx_dtype t)
{
    switch (t) {
    case DPX_FLOAT16: return (int64_t)half_value(p);
#define X(D, T)                  \
    case D: {                    \
        T v;                     \
        memcpy(&v, p, sizeof v); \
        return (int64_t)v;       \
    }
        EACH_NATIVE(X)
#undef X
    default: return 0;
    }
}

/* Copies element i in the machine's byte order. */
static void element_at(unsigned char e[8], const Array *a, const unsigned char *from, size_t i)
{
    size_t size = dpx_dtype_size(a->dtype);

    memcpy(e, from + i * size, size);
    if (a->swapped)
        swap_bytes(e, 1, size);
}

static bool is_signed(dpx_dtype t) { return t == DPX_INT8 || t == DPX_INT16 || t == DPX_INT32 || t == DPX_INT64; }

/* Whether an integer type of `bits` value bits, and with `sign` a sign, holds the element; if not, `number` receives
 * the element as text. */
typedef bool HoldsElement(char number[NUMBER_TEXT], const unsigned char *e, dpx_dtype from, int bits, bool sign);

static bool holds_float(char number[NUMBER_TEXT], const unsigned char *e, dpx_dtype from, int bits, bool sign)
{
    double v = element_float(e, from), above = ldexp(1, bits), least = sign ? -above : 0;

    if (v >= least && v < above && v == floor(v))
        return true;
    if (from == DPX_FLOAT64)
        text_float64(number, v);
    else
        text_float32(number, (float)v); /* as the file's type writes it */
    return false;
}

/* A HoldsElement.  uint64 values from 2^63 on are negative as int64_t, and only uint64 holds them. */
static bool holds_int(char number[NUMBER_TEXT], const unsigned char *e, dpx_dtype from, int bits, bool sign)
{
    int64_t v = element_int(e, from), most = (int64_t)(((uint64_t)1 << bits) - 1), least = sign ? -most - 1 : 0;
    bool is_large = from == DPX_UINT64;

    if (v >= (is_large ? 0 : least) && v <= most)
        return true;
    if (is_large)
        snprintf(number, NUMBER_TEXT, "%" PRIu64, (uint64_t)v);
    else
        snprintf(number, NUMBER_TEXT, "%" PRId64, v);
    return false;
}

void share_range(Share s, int64_t n, int64_t *from, int64_t *to)
{
    *from = n / s.size * s.rank + n % s.size * s.rank / s.size;
    *to = n / s.size * (s.rank + 1) + n % s.size * (s.rank + 1) / s.size;
}

static Status check_elements(const Array *a, dpx_dtype to, const char *what, Share share, HoldsElement *holds)
{
    int bits = 8 * (int)dpx_dtype_size(to) - (is_signed(to) || to == DPX_UINT64); /* element_int gives an int64_t */
    int64_t from, to_sample;
    unsigned char e[8];
    char number[NUMBER_TEXT];

    if (a->fetch)
        return FAIL(E_INVALID, "%s: the data is %s, which cannot be converted to %s", what, dpx_dtype_name(a->dtype),
                    dpx_dtype_name(to));
    if (a->rank && !array_bytes(a)) /* however many samples that is */
        return ST_OK;
    share_range(share, a->rank ? a->dim[0] : 1, &from, &to_sample);
    for (int64_t s = from; s < to_sample; s++) {
        const Span span = span_of(a, s);

        for (size_t i = span.from; i < span.from + span.n; i++) {
            element_at(e, a, a->data, i);
            if (!holds(number, e, a->dtype, bits, is_signed(to)))
                return FAIL(E_INVALID,
                            "%s: the data's %s is converted to %s, which cannot hold the value of row %lld, %s", what,
                            dpx_dtype_name(a->dtype), dpx_dtype_name(to), (long long)s, number);
        }
    }
    return ST_OK;
}

Status array_check_share(const Array *a, dpx_dtype to, const char *what, Share share)
{
    const size_t wider = dpx_dtype_size(to), size = dpx_dtype_size(a->dtype);
    if (a->dtype == to)
        return ST_OK;
    if (to == DPX_FLOAT16 || to == DPX_BFLOAT16 || a->dtype == DPX_BFLOAT16 || to == DPX_BOOL)
        return FAIL(E_INVALID, "%s: the data's %s cannot become %s%s", what, dpx_dtype_name(a->dtype),
                    dpx_dtype_name(to),
                    to == DPX_FLOAT16 || to == DPX_BFLOAT16 ? "; --dtype float32 computes the model in float32" : "");
    if (is_float(to))
        return ST_OK;
    if (is_float(a->dtype))
        return check_elements(a, to, what, share, holds_float);
    if (is_signed(to) == is_signed(a->dtype) ? wider >= size : is_signed(to) && wider > size)
        return ST_OK; /* the type holds every value of the other */
    return check_elements(a, to, what, share, holds_int);
}

Status array_check_convert(const Array *a, dpx_dtype to, const char *what)
{
    return array_check_share(a, to, what, SHARE_ALL);
}

/* Converts n elements, of which floats become (element * scale - mean) / std. */
static void convert_elements(const Array *a, const unsigned char *from, size_t n, dpx_dtype to, void *out, double scale,
                             double mean, double std)
{
    unsigned char e[8];

    for (size_t i = 0; i < n; i++) {
        element_at(e, a, from, i);
        switch (to) {
        case DPX_FLOAT32: ((float *)out)[i] = (float)((element_float(e, a->dtype) * scale - mean) / std); break;
        case DPX_FLOAT64: ((double *)out)[i] = (element_float(e, a->dtype) * scale - mean) / std; break;
        case DPX_INT64: ((int64_t *)out)[i] = element_int(e, a->dtype); break;
        case DPX_INT32: ((int32_t *)out)[i] = (int32_t)element_int(e, a->dtype); break;
        case DPX_INT16: ((int16_t *)out)[i] = (int16_t)element_int(e, a->dtype); break;
        case DPX_INT8: ((int8_t *)out)[i] = (int8_t)element_int(e, a->dtype); break;
        case DPX_UINT8:
        case DPX_BOOL: ((uint8_t *)out)[i] = (uint8_t)element_int(e, a->dtype); break;
        case DPX_UINT16: ((uint16_t *)out)[i] = (uint16_t)element_int(e, a->dtype); break;
        case DPX_UINT32: ((uint32_t *)out)[i] = (uint32_t)element_int(e, a->dtype); break;
        case DPX_UINT64: ((uint64_t *)out)[i] = (uint64_t)element_int(e, a->dtype); break;
        case DPX_FLOAT16: memcpy((uint16_t *)out + i, e, sizeof(uint16_t)); break; /* of the same type: only swapped */
        default: break;
        }
    }
}

/* Converts the bytes of images to floats by a table of the 256 values. */
static void convert_bytes(const unsigned char *from, size_t n, float *out, double scale, double mean, double std)
{
    float table[256];

    for (int i = 0; i < 256; i++)
        table[i] = (float)((i * scale - mean) / std);
    for (size_t i = 0; i < n; i++)
        out[i] = table[from[i]];
}

/* Converts the n elements of a sample, or of the beginning of one; each channel by its own numbers. */
static void convert_sample(const Array *a, const unsigned char *from, size_t n, dpx_dtype to, void *out)
{
    const Normalisation *norm = &a->norm;
    const size_t plane = norm->channels > 1 ? array_sample_elements(a) / (size_t)norm->channels : n;

    for (size_t at = 0, c = 0; at < n; at += plane, c++) {
        const double scale = norm->channels ? norm->scale : 1, mean = norm->channels ? norm->mean[c] : 0,
                     std = norm->channels ? norm->std[c] : 1;
        const size_t own = n - at < plane ? n - at : plane;
        const unsigned char *source = from + at * dpx_dtype_size(a->dtype);
        char *target = (char *)out + at * dpx_dtype_size(to);

        if (a->dtype == DPX_UINT8 && to == DPX_FLOAT32)
            convert_bytes(source, own, (float *)(void *)target, scale, mean, std);
        else
            convert_elements(a, source, own, to, target, scale, mean, std);
    }
}

/* Whether elements become those of type `to` without a change. */
static bool is_plain(const Array *a, dpx_dtype to)
{
    bool plain = a->dtype == to && !a->swapped;

    for (int i = 0; is_float(to) && i < a->norm.channels; i++)
        plain &= a->norm.scale == 1 && a->norm.mean[i] == 0 && a->norm.std[i] == 1;
    return plain;
}

/* Reads elements of the array's file; false: they are in its mapping only. */
static bool read_span(const Array *a, Span span, void *out)
{
    const size_t size = dpx_dtype_size(a->dtype), lead = (size_t)(a->data - a->map.data);
    size_t done = 0;

    while (a->file && done < span.n * size) {
        const ssize_t n =
            pread(a->file, (char *)out + done, span.n * size - done, (off_t)(lead + span.from * size + done));

        if (n <= 0 && !(n && errno == EINTR))
            return false; /* the mapping tells what is wrong */
        done += n > 0 ? (size_t)n : 0;
    }
    return a->file != 0;
}

void array_gather(const Array *a, const int64_t *index, int64_t n, dpx_dtype to, void *out)
{
    size_t elements = array_sample_elements(a), size = dpx_dtype_size(a->dtype), to_size = dpx_dtype_size(to);
    const bool plain = is_plain(a, to);

    for (int64_t i = 0; i < n; i++) {
        const Span span = span_of(a, index[i]);
        const unsigned char *from = a->data + span.from * size;
        char *to_row = (char *)out + (size_t)i * elements * to_size;
        unsigned char *room;

        if (plain && !read_span(a, span, to_row))
            memcpy(to_row, from, span.n * size);
        if (plain)
            continue;
        room = a->file ? malloc(span.n * size + 1) : NULL;
        convert_sample(a, room && read_span(a, span, room) ? room : from, span.n, to, to_row);
        free(room);
    }
}

size_t array_scratch(const Array *a, dpx_dtype to)
{
    return a->fetch && !is_plain(a, to) ? array_sample_elements(a) * dpx_dtype_size(a->dtype) + 1 : 0;
}

Status array_take(const Array *a, int64_t row, const SampleKey *key, dpx_dtype to, void *out, void *scratch)
{
    const bool direct = is_plain(a, to);

    if (!a->fetch) {
        array_gather(a, &row, 1, to, out);
        return ST_OK;
    }
    TRY(a->fetch(a, row, key, direct ? out : scratch));
    if (!direct)
        convert_sample(a, scratch, array_sample_elements(a), to, out);
    return ST_OK;
}

bool array_holds(dpx_dtype t, double v)
{
    const int bits = 8 * (int)dpx_dtype_size(t) - is_signed(t);
    unsigned char e[8];
    char number[NUMBER_TEXT];

    if (t == DPX_FLOAT32 || t == DPX_FLOAT64)
        return true;
    if (is_float(t) || t == DPX_BOOL)
        return v == 0 || (v == 1 && t == DPX_BOOL);
    memcpy(e, &v, sizeof e);
    return holds_float(number, e, DPX_FLOAT64, bits, is_signed(t));
}

void array_fill(dpx_dtype to, double v, size_t n, void *out)
{
    const Array one = { .dtype = DPX_FLOAT64, .rank = 1 };
    const size_t size = dpx_dtype_size(to);
    unsigned char e[8] = { 0 }, from[8];

    memcpy(from, &v, sizeof from);
    if (v != 0)
        convert_sample(&one, from, 1, to, e);
    for (size_t i = 0; i < n; i++)
        memcpy((unsigned char *)out + i * size, e, size);
}

/* ---- reading ahead ---- */

/* Advises the kernel, for whole pages. */
static void advise(const unsigned char *from, size_t bytes, int advice)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), lead = (uintptr_t)from % page;

    if (bytes)
        (void)!madvise((void *)(uintptr_t)(from - lead), bytes + lead, advice);
}

void array_read_parts(const Array *a) { advise(a->data, a->data ? array_bytes(a) : 0, MADV_RANDOM); }

void array_expect(const Array *a, const int64_t *index, int64_t n)
{
    const size_t size = dpx_dtype_size(a->dtype);
    int64_t run;

    for (int64_t i = 0; a->data && i < n; i += run) {
        for (run = 1; i + run < n && index[i + run] == index[i] + run;)
            run++;
        const Span first = span_of(a, index[i]), last = span_of(a, index[i + run - 1]);

        advise(a->data + first.from * size, (last.from + last.n - first.from) * size, MADV_WILLNEED);
    }
}
