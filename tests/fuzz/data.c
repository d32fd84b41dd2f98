/* Data sets: .npz, .npy and IDX files, told apart by how they begin.  What is read is converted to every type that it
 * can become. */
#include "tests/fuzz/common/fuzz.h"
#include "tools/data.h"

enum { MOST_BYTES = 1 << 16 };

/* The first samples and the last, as a loader takes them. */
static void gather(const Array *a, dpx_dtype to)
{
    const int64_t index[] = { 0, a->dim[0] - 1, a->dim[0] / 2 };
    size_t bytes = array_sample_elements(a) * dpx_dtype_size(to);
    void *out;

    if (bytes > MOST_BYTES || array_check_convert(a, to, "fuzz"))
        return;
    MUST((out = malloc(3 * bytes + 1)), "memory");
    array_gather(a, index, 3, to, out);
    free(out);
}

static Status read_npy(Dataset *d, const uint8_t *data, size_t size)
{
    Array a = { .scale = 1, .std = 1 };
    uint8_t *copy;

    MUST((copy = malloc(size + !size)) && (a.name = strdup("x")), "memory");
    memcpy(copy, data, size);
    a.map = (Mapped){ copy, size };
    {
        Status st = npy_parse(&a, "fuzz.npy");

        if (st) {
            free(a.name);
            return st;
        }
    }
    return dataset_add(d, &a, "fuzz.npy");
}

extern const DataFormat data_format_npz, data_format_idx;

static Status read(Dataset *d, const uint8_t *data, size_t size)
{
    const Normalisation norm = { 0.5, 0.25 };
    char pair[9000];
    const char *file;

    if (size >= 2 && !memcmp(data, "PK", 2))
        return data_format_npz.read(d, fuzz_file("set.npz", data, size), norm);
    if (size >= 6 && !memcmp(data, "\x93NUMPY", 6))
        return read_npy(d, data, size);
    file = fuzz_file("set.idx", data, size);
    snprintf(pair, sizeof pair, "%s,%s", file, file);
    return data_format_idx.read(d, pair, norm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const dpx_dtype types[] = { DPX_FLOAT32, DPX_FLOAT64, DPX_INT64, DPX_INT32,
                                       DPX_UINT8,   DPX_UINT64,  DPX_BOOL,  DPX_FLOAT16 };
    Dataset *d = calloc(1, sizeof *d);
    Status st;

    MUST(d, "memory");
    st = read(d, data, size);
    if (st || (st = dataset_complete(d, "fuzz")))
        fuzz_refused(st);
    for (int i = 0; !st && i < d->n; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            gather(&d->array[i], types[t]);
    dataset_free(d);
    return 0;
}
