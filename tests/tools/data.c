/* Data files: what numpy writes is read, what is damaged is refused by name. */
#include "tools/data.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/harness/test.h"
#include "tools/loader.h"

static const Normalisation plain = { 0, 1 };
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
    CHECK_FAILS(E_IO, why, dataset_open(&d, path_of("bad.npy"), plain));
}

static void test_folder(void)
{
    Dataset *d;
    int64_t index[2] = { 2, 0 }, ints[2];
    float floats[6];

    make_folder();
    write_npy("y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", 3);
    write_npy("x.npy", "{'descr': '>i2', 'fortran_order': False, 'shape': (3, 2, 1), }\n", 12);
    CHECK_OK(dataset_open(&d, folder, plain));
    CU_ASSERT_EQUAL(d->samples, 3);
    array_gather(dataset_find(d, "y"), index, 2, DPX_INT64, ints);
    CU_ASSERT_EQUAL(ints[0], 2);
    CU_ASSERT_EQUAL(ints[1], 0);
    CHECK_OK(array_check_convert(dataset_find(d, "x"), DPX_FLOAT32, "x"));
    array_gather(dataset_find(d, "x"), index, 2, DPX_FLOAT32, floats);
    CU_ASSERT_EQUAL(floats[0], 0x0809);         /* big-endian bytes 8, 9 */
    CU_ASSERT_EQUAL(floats[3], 0x0203);
    dataset_free(d);
    write_npy("z.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }\n", 4);
    CHECK_FAILS(E_IO, "4 samples", dataset_open(&d, folder, plain));
    remove_folder();
}

static void test_bad_npy(void)
{
    Dataset *d;
    unsigned char file[256];
    size_t n;

    make_folder();
    refuse_npy("the shape asks for", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 11);
    refuse_npy("the shape asks for", "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 9), }\n", 11);
    refuse_npy("Python objects", "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }\n", 24);
    refuse_npy("not supported", "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }\n", 24);
    refuse_npy("column-major", "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3), }\n", 12);
    refuse_npy("not a description", "{'descr': '<f4', 'fortran_order': False}\n", 12);
    refuse_npy("not a description", "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }\n", 12);
    refuse_npy("not a description", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }\n", 4);
    refuse_npy("no axis of samples", "{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", 4);
    refuse_npy("there are no samples", "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }\n", 0);
    n = make_npy(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 12);
    for (size_t i = 1; i < n; i++) {
        write_file("cut.npy", file, i);
        CHECK_FAILS(E_IO, "cut.npy", dataset_open(&d, path_of("cut.npy"), plain));
    }
    CHECK_FAILS(E_IO, "nowhere", dataset_open(&d, path_of("nowhere.npz"), plain));
    write_file("bad.npz", "PK\3\4 and nothing more", 20);
    CHECK_FAILS(E_IO, "bad.npz", dataset_open(&d, path_of("bad.npz"), plain));
    remove_folder();
}

static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 51, 255, 102, 204, 153 };
static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 };

static Status open_pair(Dataset **d, Normalisation norm)
{
    char source[256];

    snprintf(source, sizeof source, "idx:%s/images,%s/labels", folder, folder);
    return dataset_open(d, source, norm);
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
    CHECK_OK(open_pair(&d, (Normalisation){ 0.5, 0.25 }));
    CU_ASSERT_EQUAL(d->array[0].rank, 4);
    CU_ASSERT_EQUAL(d->array[0].dim[1], 1);
    array_gather(&d->array[0], index, 1, DPX_FLOAT32, x);
    CU_ASSERT_DOUBLE_EQUAL(x[0], (0.4 - 0.5) / 0.25, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(x[2], (0.6 - 0.5) / 0.25, 1e-6);
    dataset_free(d);
    CU_ASSERT_EQUAL(truncate(path_of("images"), 24), 0);
    CHECK_FAILS(E_IO, "images", open_pair(&d, plain));
    for (size_t n = 1; n < sizeof images; n++) {
        write_file("images", images, n);
        CHECK_FAILS(E_IO, "images", open_pair(&d, plain));
    }
    write_file("images", labels, sizeof labels - 1);
    CHECK_FAILS(E_IO, "images", open_pair(&d, plain));
    write_file("images", images, sizeof images);
    write_file("labels", "\0\0\10\1\0\0\0\3abc", 11);
    CHECK_FAILS(E_IO, "3 samples", open_pair(&d, plain));
    CHECK_FAILS(E_INVALID, "IMAGES,LABELS", dataset_open(&d, "idx:one", plain));
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
    CHECK_OK(dataset_open(&d, folder, plain));
    field.array = dataset_find(d, "y");
    CHECK_OK(loader_create(&l, d, &field, 1, (LoaderOptions){ B, true, false, 42 }));
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
    CU_ASSERT(same < N / 2);                    /* another epoch, another order */
    CHECK_OK(loader_start(l, 1, 3));            /* the middle of the epoch is where it was */
    CU_ASSERT_EQUAL(((int64_t *)loader_next(l)->tensor[0].data)[0], first[3 * B]);
    loader_free(l);
    dataset_free(d);
    remove_folder();
}

DEFINE_SUITE(data, { "a folder of .npy files", test_folder }, { "bad .npy files are refused", test_bad_npy },
    { "idx files, gzipped or damaged", test_idx }, { "the loader visits every sample once", test_loader });
