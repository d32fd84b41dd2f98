/* Data files: what numpy writes is read, what is damaged is refused by name. */
#include "tools/data/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/harness/test.h"
#include "tools/feed/batch_loader.h"

static const SourceContext plain = { .norm = { 1, 1, { 0 }, { 1 } } };
static char folder[64];

static const char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/dpexec-test-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command))
        TEST_FAIL("cannot remove %s", folder);
}

static void write_file(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");

    CU_ASSERT_FATAL(f != NULL);
    CU_ASSERT_EQUAL(fwrite(data, 1, n, f), n);
    fclose(f);
}

/* A version 1 file with this dictionary and `bytes` bytes of data 0, 1, 2 ... */
static size_t make_npy(unsigned char *file, const char *dict, size_t bytes)
{
    size_t len = strlen(dict);

    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)len;
    file[9] = (unsigned char)(len >> 8);
    memcpy(file + 10, dict, len);
    for (size_t i = 0; i < bytes; i++)
        file[10 + len + i] = (unsigned char)i;
    return 10 + len + bytes;
}

static void write_npy(const char *name, const char *dict, size_t bytes)
{
    unsigned char file[1024];

    write_file(name, file, make_npy(file, dict, bytes));
}

static void refuse_npy(const char *why, const char *dict, size_t bytes)
{
    Dataset *d;

    write_npy("bad.npy", dict, bytes);
    CHECK_FAILS(E_IO, why, dataset_open(&d, path_of("bad.npy"), &plain));
}

static void test_folder(void)
{
    Dataset *d;
    int64_t index[2] = { 2, 0 }, ints[2];
    float floats[6];

    make_folder();
    write_npy("y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", 3);
    write_npy("x.npy", "{'descr': '>i2', 'fortran_order': False, 'shape': (3, 2, 1), }\n", 12);
    CHECK_OK(dataset_open(&d, folder, &plain));
    CU_ASSERT_EQUAL(d->samples, 3);
    array_gather(dataset_find(d, "y"), index, 2, DPX_INT64, ints);
    CU_ASSERT_EQUAL(ints[0], 2);
    CU_ASSERT_EQUAL(ints[1], 0);
    CHECK_OK(array_check_convert(dataset_find(d, "x"), DPX_FLOAT32, "x"));
    array_gather(dataset_find(d, "x"), index, 2, DPX_FLOAT32, floats);
    CU_ASSERT_EQUAL(floats[0], 0x0809); /* big-endian bytes 8, 9 */
    CU_ASSERT_EQUAL(floats[3], 0x0203);
    dataset_free(d);
    write_npy("z.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }\n", 4);
    CHECK_OK(dataset_open(&d, folder, &plain)); /* a model may take it whole (tools/feed/feed_roles.c) */
    CU_ASSERT_EQUAL(dataset_find(d, "z")->dim[0], 4);
    dataset_free(d);
    remove_folder();
}

/* Bytes 0, 1, 2 ... as [67, 2, 3] by columns: element (i, j, k) is i + 67 j + 134 k, modulo 256 as a byte. */
static void test_columns(void)
{
    enum { N = 67 };
    unsigned char file[1024];
    Dataset *d;
    int64_t index[N], got[N * 6];

    make_folder();
    write_file("x.npy", file,
               make_npy(file, "{'descr': '|u1', 'fortran_order': True, 'shape': (67, 2, 3), }\n", N * 6));
    CHECK_OK(dataset_open(&d, folder, &plain));
    for (int i = 0; i < N; i++)
        index[i] = i;
    array_gather(dataset_find(d, "x"), index, N, DPX_INT64, got);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 3; k++)
                CU_ASSERT_EQUAL(got[(i * 2 + j) * 3 + k], (i + N * j + 2 * N * k) % 256);
    dataset_free(d);
    remove_folder();
}

/* The memory that this process has for itself, in bytes. */
static rlim_t data_size(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
        TEST_FAIL("cannot read /proc/self/statm");
    if (f)
        fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Columns become rows in little memory however large a sample is, and however many there are. */
static void test_columns_in_blocks(void)
{
    static const char *const shapes[] = { "(1, 1024, 1024)", "(40, 1024, 1024)" };
    static const size_t samples[] = { 1, 40 };
    static const rlim_t mib[] = { 16, 32 };
    struct rlimit before, less;
    char dict[128];

    CU_ASSERT_FATAL(getrlimit(RLIMIT_DATA, &before) == 0);
    make_folder();
    for (int i = 0; i < 2; i++) {
        size_t head = 10 + (size_t)snprintf(dict, sizeof dict,
                                            "{'descr': '|u1', 'fortran_order': True, 'shape': %s, }\n", shapes[i]);
        Dataset *d = NULL;

        write_npy("x.npy", dict, 0);
        CU_ASSERT_EQUAL(truncate(path_of("x.npy"), (off_t)(head + (samples[i] << 20))), 0);
        less = before;
        less.rlim_cur = data_size() + (mib[i] << 20);
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_DATA, &less), 0);
        CHECK_OK(dataset_open(&d, path_of("x.npy"), &plain));
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_DATA, &before), 0);
        dataset_free(d);
    }
    remove_folder();
}

/* binary16 by IEEE 754: 0x3c00 is 1, 0xc100 -2.5, 0x0001 the least subnormal 2^-24, 0x7bff 65504, 0xfc00 minus
 * infinity. */
static void test_half(void)
{
    static const unsigned char little[] = { 0x00, 0x3c, 0x00, 0xc1, 0x01, 0x00, 0xff, 0x7b, 0x00, 0xfc };
    static const float value[] = { 1, -2.5f, 0x1p-24f, 65504, -INFINITY };
    const char *dict[] = { "{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }\n",
                           "{'descr': '>f2', 'fortran_order': False, 'shape': (5,), }\n" };
    int64_t index[] = { 0, 1, 2, 3, 4 };
    unsigned char file[256];
    uint16_t same[5];
    float got[5];

    make_folder();
    for (int big = 0; big < 2; big++) {
        size_t n = make_npy(file, dict[big], sizeof little);
        Dataset *d;

        for (size_t i = 0; i < sizeof little; i++)
            file[n - sizeof little + i] = little[big ? i ^ 1 : i];
        write_file("x.npy", file, n);
        CHECK_OK(dataset_open(&d, path_of("x.npy"), &plain));
        CHECK_OK(array_check_convert(&d->array[0], DPX_FLOAT32, "x"));
        array_gather(&d->array[0], index, 5, DPX_FLOAT32, got);
        array_gather(&d->array[0], index, 5, DPX_FLOAT16, same);
        for (int i = 0; i < 5; i++)
            CU_ASSERT_EQUAL(got[i], value[i]);
        CU_ASSERT_EQUAL(memcmp(same, little, sizeof little), 0);
        CHECK_FAILS(E_INVALID,
                    "x: the data's float16 is converted to int64, which cannot hold the value of row 1, -2.5",
                    array_check_convert(&d->array[0], DPX_INT64, "x"));
        dataset_free(d);
    }
    remove_folder();
}

/* Integers of another type keep their value or are refused, by row. */
static void test_narrowed(void)
{
    static const struct {
        int64_t v;
        dpx_dtype from, to;
        bool good;
    } cases[] = {
        { 300, DPX_INT64, DPX_UINT8, false },
        { -1, DPX_INT64, DPX_UINT8, false },
        { 255, DPX_INT64, DPX_UINT8, true },
        { 127, DPX_UINT8, DPX_INT8, true },
        { 128, DPX_UINT8, DPX_INT8, false },
        { -128, DPX_INT16, DPX_INT8, true },
        { -129, DPX_INT16, DPX_INT8, false },
        { -1, DPX_INT8, DPX_UINT64, false },
        { -1, DPX_INT8, DPX_INT64, true },
        { INT64_MAX, DPX_INT64, DPX_UINT64, true },
        { INT64_MIN, DPX_INT64, DPX_UINT64, false },
        { INT64_MIN, DPX_UINT64, DPX_INT64, false },
        { INT64_MIN, DPX_UINT64, DPX_INT32, false },
        { INT64_MAX, DPX_UINT64, DPX_INT64, true },
        { INT32_MAX, DPX_INT64, DPX_INT32, true },
        { (int64_t)INT32_MAX + 1, DPX_INT64, DPX_INT32, false },
        { (int64_t)1 << 32, DPX_INT64, DPX_UINT32, false },
        { UINT16_MAX, DPX_UINT16, DPX_INT32, true },
    };
    int64_t two[2] = { 300, -1 };
    Array labels = { .dtype = DPX_INT64, .rank = 1, .dim = { 2 }, .data = (const unsigned char *)two };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Array a = { .dtype = cases[i].from, .rank = 1, .dim = { 1 }, .data = (const unsigned char *)&cases[i].v };
        int64_t zero = 0, got = 0;

        if (!cases[i].good) {
            CHECK_FAILS(E_INVALID, "cannot hold the value of row 0,", array_check_convert(&a, cases[i].to, "y"));
            continue;
        }
        CHECK_OK(array_check_convert(&a, cases[i].to, "y"));
        array_gather(&a, &zero, 1, cases[i].to, &got);
        CU_ASSERT_EQUAL(memcmp(&got, &cases[i].v, dpx_dtype_size(cases[i].to)), 0);
    }
    CHECK_FAILS(E_INVALID, "y: the data's int64 is converted to uint8, which cannot hold the value of row 0, 300",
                array_check_convert(&labels, DPX_UINT8, "y"));
    two[0] = 5;
    CHECK_FAILS(E_INVALID, "y: the data's int64 is converted to uint8, which cannot hold the value of row 1, -1",
                array_check_convert(&labels, DPX_UINT8, "y"));
}

/* What an integer type holds, and what is just outside. */
static void test_whole_numbers(void)
{
    static const struct {
        double v;
        dpx_dtype to;
        bool good;
    } cases[] = {
        { -128, DPX_INT8, true },     { -129, DPX_INT8, false },    { 127, DPX_INT8, true },
        { 128, DPX_INT8, false },     { 255, DPX_UINT8, true },     { 256, DPX_UINT8, false },
        { -1, DPX_UINT8, false },     { -0.0, DPX_UINT8, true },    { 0x1p62, DPX_INT64, true },
        { -0x1p63, DPX_INT64, true }, { 0x1p63, DPX_INT64, false }, { 0.5, DPX_INT32, false },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Array a = { .dtype = DPX_FLOAT64, .rank = 1, .dim = { 1 }, .data = (const unsigned char *)&cases[i].v };
        int64_t zero = 0, got = 0;

        if (!cases[i].good) {
            CHECK_FAILS(E_INVALID, "cannot hold the value of row 0,", array_check_convert(&a, cases[i].to, "y"));
            continue;
        }
        CHECK_OK(array_check_convert(&a, cases[i].to, "y"));
        array_gather(&a, &zero, 1, DPX_INT64, &got);
        CU_ASSERT_EQUAL((double)got, cases[i].v);
    }
}

static void test_bad_npy(void)
{
    Dataset *d;
    unsigned char file[256];
    size_t n;

    make_folder();
    refuse_npy("the shape asks for", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 11);
    refuse_npy("the shape asks for", "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 9), }\n",
               11);
    refuse_npy("Python objects", "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }\n", 24);
    refuse_npy("not supported", "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }\n", 24);
    refuse_npy("the shape asks for", "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3), }\n", 11);
    refuse_npy("not a description", "{'descr': '<f4', 'fortran_order': False}\n", 12);
    refuse_npy("not a description", "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }\n", 12);
    refuse_npy("not a description", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }\n", 4);
    refuse_npy("there are no samples", "{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", 4);
    refuse_npy("there are no samples", "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }\n", 0);
    n = make_npy(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 12);
    for (size_t i = 1; i < n; i++) {
        write_file("cut.npy", file, i);
        CHECK_FAILS(E_IO, "cut.npy", dataset_open(&d, path_of("cut.npy"), &plain));
    }
    CHECK_FAILS(E_IO, "nowhere", dataset_open(&d, path_of("nowhere.npz"), &plain));
    write_file("bad.npz", "PK\3\4 and nothing more", 20);
    CHECK_FAILS(E_IO, "bad.npz", dataset_open(&d, path_of("bad.npz"), &plain));
    remove_folder();
}

static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 51, 255, 102, 204, 153 };
static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 };

static Status open_pair(Dataset **d, const SourceContext *c)
{
    char source[256];

    snprintf(source, sizeof source, "idx:%s/images,%s/labels", folder, folder);
    return dataset_open(d, source, c);
}

static void test_idx(void)
{
    Dataset *d;
    int64_t index[1] = { 1 };
    float x[3];
    gzFile gz;

    make_folder();
    gz = gzopen(path_of("images"), "wb");
    CU_ASSERT_EQUAL(gzwrite(gz, images, sizeof images), sizeof images);
    gzclose(gz);
    write_file("labels", labels, sizeof labels);
    CHECK_OK(open_pair(&d, &(SourceContext){ .norm = { 1, 1, { 0.5 }, { 0.25 } } }));
    CU_ASSERT_EQUAL(d->array[0].rank, 3);
    array_add_channel(&d->array[0]);
    CU_ASSERT_EQUAL(d->array[0].rank, 4);
    CU_ASSERT_EQUAL(d->array[0].dim[0], 2);
    CU_ASSERT_EQUAL(d->array[0].dim[1], 1);
    array_gather(&d->array[0], index, 1, DPX_FLOAT32, x);
    CU_ASSERT_DOUBLE_EQUAL(x[0], (0.4 - 0.5) / 0.25, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(x[2], (0.6 - 0.5) / 0.25, 1e-6);
    dataset_free(d);
    CU_ASSERT_EQUAL(truncate(path_of("images"), 24), 0);
    CHECK_FAILS(E_IO, "images", open_pair(&d, &plain));
    for (size_t n = 1; n < sizeof images; n++) {
        write_file("images", images, n);
        CHECK_FAILS(E_IO, "images", open_pair(&d, &plain));
    }
    write_file("images", labels, sizeof labels - 1);
    CHECK_FAILS(E_IO, "images", open_pair(&d, &plain));
    write_file("images", images, sizeof images);
    write_file("labels", "\0\0\10\1\0\0\0\3abc", 11);
    CHECK_OK(open_pair(&d, &plain)); /* who reads both as samples tells them apart (tools/feed/feed_roles.c) */
    dataset_free(d);
    CHECK_FAILS(E_INVALID, "IMAGES,LABELS", dataset_open(&d, "idx:one", &plain));
    remove_folder();
}

static void test_loader(void)
{
    enum { N = 23, B = 5 };
    unsigned char file[1024];
    Dataset *d;
    Loader *l;
    Field field = { .name = "y", .dtype = DPX_INT64 };
    int64_t first[N], n = 0, same = 0;

    make_folder();
    write_file("y.npy", file, make_npy(file, "{'descr': '|u1', 'fortran_order': False, 'shape': (23,), }\n", N));
    CHECK_OK(dataset_open(&d, folder, &plain));
    field.array = dataset_find(d, "y");
    CHECK_OK(loader_create(&l, d, &field, 1, (LoaderOptions){ .batch_size = B, .shuffle = true, .seed = 42 }));
    CU_ASSERT_EQUAL(loader_batches(l), 5);
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[N] = { 0 };

        CHECK_OK(loader_start(l, epoch, 0));
        n = 0;
        for (const Batch *b; (b = loader_next(l));)
            for (int64_t i = 0; i < b->samples; i++, n++) {
                int64_t v = ((int64_t *)b->tensor[0].data)[i];

                seen[v]++;
                same += epoch && first[n] == v;
                first[n] = v;
            }
        CU_ASSERT_EQUAL(n, N);
        for (int i = 0; i < N; i++)
            CU_ASSERT_EQUAL(seen[i], 1);
    }
    CU_ASSERT(same < N / 2);         /* another epoch, another order */
    CHECK_OK(loader_start(l, 1, 3)); /* the middle of the epoch is where it was */
    CU_ASSERT_EQUAL(((int64_t *)loader_next(l)->tensor[0].data)[0], first[3 * B]);
    CHECK_OK(loader_start(l, 1, 5)); /* its end */
    CU_ASSERT_PTR_NULL(loader_next(l));
    CHECK_FAILS(E_INVALID, "an epoch has 5 batches", loader_start(l, 1, 6));
    CHECK_FAILS(E_INVALID, "an epoch has 5 batches", loader_start(l, 1, -1));
    loader_free(l);
    dataset_free(d);
    remove_folder();
}

/* Each channel by its own numbers: (element / 255 - mean) / std, worked out here. */
static void test_channels(void)
{
    static const unsigned char bytes[] = { 0, 255, 51, 102, 255, 0, 204, 153, 0, 0, 255, 51 };
    const Array a = { .dtype = DPX_UINT8,
                      .rank = 3,
                      .dim = { 2, 3, 2 },
                      .data = bytes,
                      .norm = { 3, 1 / 255.0, { 0.5, 0.2, 0 }, { 0.5, 0.1, 2 } } };
    static const double expected[] = { -1, 1, 0, 2, 0.5, 0, 0.6, 0.2, -2, -2, 0.5, 0.1 };
    float narrow[12];
    double wide[12];

    array_gather(&a, (int64_t[]){ 0, 1 }, 2, DPX_FLOAT32, narrow);
    array_gather(&a, (int64_t[]){ 0, 1 }, 2, DPX_FLOAT64, wide);
    for (int i = 0; i < 12; i++) {
        CU_ASSERT_DOUBLE_EQUAL(wide[i], expected[i], 1e-15);
        CU_ASSERT_DOUBLE_EQUAL(narrow[i], expected[i], 1e-6);
    }
}

static void test_sources(void)
{
    static const struct {
        const char *text, *path, *limit, *suffix;
    } cases[] = {
        { "a.npz", "a.npz", NULL, ".npz" },
        { "a.npz,limit=5", "a.npz", "5", ".npz" },
        { "a\\,limit=5.npz", "a,limit=5.npz", NULL, ".npz" },
        { "a,b.npy,limit=1,2", "a,b.npy", "1,2", ".npy" },
        { "idx\\:b.npz", "idx:b.npz", NULL, ".npz" },
        { "idx:a,b,limit=3", "a,b", "3", NULL },
        { "c\\d\\\\e.npy,limit=\\,x", "c\\d\\e.npy", ",x", ".npy" },
    };
    Source s;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *limit;

        if (!CHECK_OK(source_parse(&s, cases[i].text)))
            continue;
        limit = source_value(&s, "limit");
        CU_ASSERT_STRING_EQUAL(s.path, cases[i].path);
        CU_ASSERT(limit ? cases[i].limit && !strcmp(limit, cases[i].limit) : !cases[i].limit);
        CU_ASSERT(cases[i].suffix ? s.format->suffix && !strcmp(s.format->suffix, cases[i].suffix)
                                  : !!s.format->prefix);
        source_free(&s);
    }
    CHECK_FAILS(E_INVALID,
                "a.npz,size=3,limit=2,limit=3: limit is given twice; there is no option size; expected limit=N",
                source_parse(&s, "a.npz,size=3,limit=2,limit=3"));
    CHECK_FAILS(E_INVALID, "limit has no value", source_parse(&s, "a.npz,limit="));
    CHECK_FAILS(E_IO, "nothing.parquet: cannot open", source_parse(&s, "nothing.parquet"));
    CHECK_FAILS(E_IO, "nothing.parquet: cannot open", source_parse(&s, "nothing.parquet,limit=2,limit=3"));
}

DEFINE_SUITE(data, { "options of sources", test_sources }, { "channels", test_channels },
             { "a folder of .npy files", test_folder }, { "bad .npy files are refused", test_bad_npy },
             { "columns before rows", test_columns }, { "columns of large samples", test_columns_in_blocks },
             { "integers of another type", test_narrowed }, { "16-bit floats", test_half },
             { "floats that are whole numbers", test_whole_numbers }, { "idx files, gzipped or damaged", test_idx },
             { "the loader visits every sample once", test_loader });
