/* Data sets: the bytes are read as a file of every format that there is.  What is read is converted to every type that
 * it can become. */
#include "tests/fuzz/common/fuzz.h"
#include "tools/data/data.h"

enum { MOST_BYTES = 1 << 16 };

/* The first samples and the last, as a loader takes them. */
static void gather(const Array *a, dpx_dtype to)
{
    const int64_t index[] = { 0, a->dim[0] - 1, a->dim[0] / 2 };
    size_t bytes = array_sample_elements(a) * dpx_dtype_size(to);
    char *out, *scratch;

    if (bytes > MOST_BYTES || array_check_convert(a, to, "fuzz"))
        return;
    MUST((out = malloc(3 * bytes + 1)), "memory");
    MUST((scratch = malloc(array_scratch(a, to) + 1)), "memory");
    if (!a->fetch)
        array_gather(a, index, 3, to, out);
    for (size_t i = 0; i < 6 && a->fetch; i++) {
        const SampleKey key = { .seed = bytes, .epoch = to, .training = i > 2 };
        const Status st = array_take(a, index[i % 3], &key, to, out + i % 3 * bytes, scratch);

        if (st)
            fuzz_refused(st);
    }
    free(scratch);
    free(out);
}

/* Reads the bytes as the format's file; where a source names several files, `idx:IMAGES,LABELS`, all are this one. */
static Status read_as(Dataset *d, const DataFormat *f, const uint8_t *data, size_t size)
{
    const dpx_info input = { .name = "x", .dtype = DPX_INT64, .rank = 2, .dim = { -1, 4 } };
    const SourceContext c = { .input = &input, .inputs = 1, .norm = { 1, 1, { 0.5 }, { 0.25 } } };
    char source[9000], name[64];
    const char *file;
    size_t n;

    snprintf(name, sizeof name, "set%s", f->suffix ? f->suffix : "");
    file = fuzz_file(name, data, size);
    n = (size_t)snprintf(source, sizeof source, "%s", file);
    for (const char *s = f->form; (s = strchr(s, ',')); s++)
        n += (size_t)snprintf(source + n, sizeof source - n, ",%s", file);
    d->source = (Source){ .text = strdup(source), .path = strdup(source), .format = f };
    MUST(d->source.text && d->source.path, "memory");
    return f->read(d, &d->source, &c);
}

static void try_format(const DataFormat *f, const uint8_t *data, size_t size)
{
    static const dpx_dtype types[] = { DPX_FLOAT32, DPX_FLOAT64, DPX_INT64, DPX_INT32,
                                       DPX_UINT8,   DPX_UINT64,  DPX_BOOL,  DPX_FLOAT16 };
    Dataset *d = calloc(1, sizeof *d);
    Status st;

    MUST(d, "memory");
    st = read_as(d, f, data, size);
    if (st || (st = dataset_complete(d, "fuzz")))
        fuzz_refused(st);
    for (int i = 0; !st && i < d->n; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            gather(&d->array[i], types[t]);
    dataset_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (const DataFormat *const *f = data_formats; *f; f++)
        if (!(*f)->folder)
            try_format(*f, data, size);
    return 0;
}
