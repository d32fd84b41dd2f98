/* Sequences of unequal length: the two ways that files hold them, what a batch has of them, and what is refused. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tools/feed/batch_loader.h"

static char folder[64];

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

/* NAME.npy of this type ("f4", "i8") and shape ("(3, 2)"). */
static void write_array(const char *name, const char *type, const char *shape, const void *data, size_t bytes)
{
    char path[256], dict[256];
    int n = snprintf(dict, sizeof dict, "{'descr': '<%s', 'fortran_order': False, 'shape': %s, }\n", type, shape);
    FILE *f;

    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    CU_ASSERT_FATAL((f = fopen(path, "wb")) != NULL);
    fwrite("\x93NUMPY\x01\x00", 1, 8, f);
    fputc(n & 255, f);
    fputc(n >> 8, f);
    fwrite(dict, 1, (size_t)n, f);
    fwrite(data, 1, bytes, f);
    fclose(f);
}

static void remove_array(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    unlink(path);
}

#define WRITE(name, type, shape, T, ...) \
    write_array(name, type, shape, (T[]){ __VA_ARGS__ }, sizeof((T[]){ __VA_ARGS__ }))

static Status open_folder(Dataset **d) { return dataset_open(d, folder, &(SourceContext){ .inputs = 0 }); }

/* Samples [1 2 3], [], [4], of two numbers each: n and 10 n. */
static void write_pairs(void)
{
    WRITE("x", "f4", "(4, 2)", float, 1, 10, 2, 20, 3, 30, 4, 40);
    WRITE("x.offsets", "i8", "(4,)", int64_t, 0, 3, 3, 4);
}

static void check_floats(const dpx_tensor *t, int rank, const int64_t *dim, const float *value)
{
    int64_t n = 1;

    CU_ASSERT_EQUAL_FATAL(t->rank, rank);
    for (int i = 0; i < rank; i++) {
        CU_ASSERT_EQUAL(t->dim[i], dim[i]);
        n *= dim[i];
    }
    for (int64_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(((float *)t->data)[i], value[i]);
}

#define CHECK_TENSOR(t, dims, ...) \
    check_floats(t, (int)(sizeof((int64_t[])dims) / sizeof(int64_t)), (int64_t[])dims, (float[]){ __VA_ARGS__ })
#define DIMS(...)   \
    {               \
        __VA_ARGS__ \
    }

static void test_offsets(void)
{
    Dataset *d;
    const Array *x;
    float got[6] = { 0, 0, 0, 0, 0, 0 };

    make_folder();
    write_pairs();
    WRITE("y", "i4", "(3,)", int32_t, 7, 8, 9);
    CHECK_OK(open_folder(&d));
    CU_ASSERT_EQUAL(d->samples, 3);
    x = dataset_find(d, "x");
    CU_ASSERT_EQUAL(x->rank, 3);
    CU_ASSERT_EQUAL(x->dim[0], 3);
    CU_ASSERT_EQUAL(x->dim[1], 3);
    CU_ASSERT_EQUAL(x->dim[2], 2);
    array_gather(x, (int64_t[]){ 2 }, 1, DPX_FLOAT32, got);
    CU_ASSERT_EQUAL(got[0], 4);
    CU_ASSERT_EQUAL(got[1], 40);
    CU_ASSERT_EQUAL(got[2], 0); /* what it lacks of the longest is left */
    dataset_free(d);
    remove_folder();
}

/* A padded array: what stands behind the lengths is not looked at, here no whole numbers. */
static void test_lengths(void)
{
    Dataset *d;
    int64_t got[4] = { -1, -1, -1, -1 };

    make_folder();
    WRITE("x", "f4", "(2, 3)", float, 1, 2, 0.5f, 3, 0.25f, 0.75f);
    WRITE("x.lengths", "u1", "(2,)", uint8_t, 2, 1);
    CHECK_OK(open_folder(&d));
    CU_ASSERT_EQUAL(d->samples, 2);
    CU_ASSERT_EQUAL(dataset_find(d, "x")->dim[1], 2);
    CHECK_OK(array_check_convert(dataset_find(d, "x"), DPX_INT64, "x"));
    array_gather(dataset_find(d, "x"), (int64_t[]){ 1, 0 }, 2, DPX_INT64, got);
    CU_ASSERT_EQUAL(got[0], 3);
    CU_ASSERT_EQUAL(got[1], -1);
    CU_ASSERT_EQUAL(got[2], 1);
    CU_ASSERT_EQUAL(got[3], 2);
    dataset_free(d);
    remove_folder();
}

/* Batches of two, in order: [1 2 3] and [], then [4]. */
static void check_batches(bool from_file)
{
    char path[256];
    Dataset *d;
    Loader *l;
    const Batch *b;

    make_folder();
    write_pairs();
    CHECK_OK(open_folder(&d));
    Array *x = (Array *)(uintptr_t)dataset_find(d, "x");

    snprintf(path, sizeof path, "%s/x.npy", folder);
    if (from_file)
        CU_ASSERT_FATAL((x->file = open(path, O_RDONLY)) > 0);
    const Field field[] = {
        { .name = "x", .array = x, .dtype = DPX_FLOAT32, .padding = -1 },
        { .name = "t", .array = x, .dtype = DPX_FLOAT32, .axis = 1, .padding = 5 },
        { .name = "wide", .array = x, .dtype = DPX_FLOAT32, .multiple = 2 },
        { .name = "n", .array = x, .dtype = DPX_FLOAT32, .kind = FIELD_LENGTHS },
        { .name = "there", .array = x, .dtype = DPX_FLOAT32, .kind = FIELD_MASK, .fixed = 4 },
        { .name = "pad", .array = x, .dtype = DPX_FLOAT32, .kind = FIELD_PADDING_MASK, .axis = 1 },
    };

    CHECK_OK(loader_create(&l, d, field, 6, (LoaderOptions){ .batch_size = 2 }));
    CHECK_OK(loader_start(l, 0, 0));
    b = loader_next(l);
    CHECK_TENSOR(&b->tensor[0], DIMS(2, 3, 2), 1, 10, 2, 20, 3, 30, -1, -1, -1, -1, -1, -1);
    CHECK_TENSOR(&b->tensor[1], DIMS(3, 2, 2), 1, 10, 5, 5, 2, 20, 5, 5, 3, 30, 5, 5);
    CHECK_TENSOR(&b->tensor[2], DIMS(2, 4, 2), 1, 10, 2, 20, 3, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    CHECK_TENSOR(&b->tensor[3], DIMS(2), 3, 0);
    CHECK_TENSOR(&b->tensor[4], DIMS(2, 4), 1, 1, 1, 0, 0, 0, 0, 0);
    CHECK_TENSOR(&b->tensor[5], DIMS(3, 2), 0, 1, 0, 1, 0, 1);
    CU_ASSERT_EQUAL(b->bytes, 3 * 3 * 8); /* what the array has, for each of three fields */
    CU_ASSERT_EQUAL(loader_sample(l, b, (float *)b->tensor[1].data + 3), 1);
    b = loader_next(l);
    CHECK_TENSOR(&b->tensor[0], DIMS(1, 1, 2), 4, 40); /* the longest of this batch */
    CHECK_TENSOR(&b->tensor[2], DIMS(1, 2, 2), 4, 40, 0, 0);
    CHECK_TENSOR(&b->tensor[4], DIMS(1, 4), 1, 0, 0, 0);
    CU_ASSERT_PTR_NULL(loader_next(l));
    loader_free(l);
    dataset_free(d);
    remove_folder();
}

static void test_batches(void)
{
    check_batches(false);
    check_batches(true);
}

/* Sequences that are all empty have one position, all padding: no axis of a model is of no positions. */
static void test_empty(void)
{
    Dataset *d;
    Loader *l;

    make_folder();
    write_array("x", "f4", "(0, 2)", "", 0);
    WRITE("x.offsets", "i8", "(3,)", int64_t, 0, 0, 0);
    CHECK_OK(open_folder(&d));
    const Field field = { .name = "x", .array = dataset_find(d, "x"), .dtype = DPX_FLOAT32, .padding = 3 };

    CHECK_OK(loader_create(&l, d, &field, 1, (LoaderOptions){ .batch_size = 2 }));
    CHECK_OK(loader_start(l, 0, 0));
    CHECK_TENSOR(&loader_next(l)->tensor[0], DIMS(2, 1, 2), 3, 3, 3, 3);
    loader_free(l);
    dataset_free(d);
    remove_folder();
}

static void test_refused(void)
{
    Dataset *d;

    make_folder();
    write_pairs();
    WRITE("x.offsets", "i8", "(4,)", int64_t, 1, 3, 3, 4);
    CHECK_FAILS(E_IO, "'x.offsets' begins with 1, expected 0", open_folder(&d));
    WRITE("x.offsets", "i8", "(4,)", int64_t, 0, 3, 2, 4);
    CHECK_FAILS(E_IO, "falls from 3 to 2 at element 2", open_folder(&d));
    WRITE("x.offsets", "i8", "(4,)", int64_t, 0, 3, 3, 5);
    CHECK_FAILS(E_IO, "ends with 5, expected the 4 rows of 'x'", open_folder(&d));
    WRITE("x.offsets", "f4", "(4,)", float, 0, 3, 3, 4);
    CHECK_FAILS(E_IO, "'x.offsets' of rank 1 and type float32: expected a vector of integers", open_folder(&d));
    WRITE("x.offsets", "i8", "(2, 2)", int64_t, 0, 3, 3, 4);
    CHECK_FAILS(E_IO, "expected a vector of integers", open_folder(&d));
    write_array("x.offsets", "i8", "(0,)", "", 0);
    CHECK_FAILS(E_IO, "'x.offsets' has 0 elements", open_folder(&d));
    WRITE("x.offsets", "i8", "(4,)", int64_t, 0, 3, 3, 4);
    WRITE("x.lengths", "i8", "(4,)", int64_t, 0, 1, 2, 1);
    CHECK_FAILS(E_IO, "'x' has both offsets and lengths", open_folder(&d));
    remove_array("x.offsets");
    CHECK_OK(open_folder(&d));
    dataset_free(d);
    WRITE("x.lengths", "i8", "(4,)", int64_t, 0, 1, 3, 1);
    CHECK_FAILS(E_IO, "has length 3 for sample 2, expected 0 to 2, the positions of 'x'", open_folder(&d));
    WRITE("x.lengths", "i8", "(4,)", int64_t, 0, -1, 2, 1);
    CHECK_FAILS(E_IO, "has length -1 for sample 1", open_folder(&d));
    WRITE("x.lengths", "i8", "(3,)", int64_t, 0, 1, 2);
    CHECK_FAILS(E_IO, "has 3 elements, expected the 4 samples of 'x'", open_folder(&d));
    WRITE("x", "f4", "(3,)", float, 1, 2, 3);
    CHECK_FAILS(E_IO, "'x' has rank 1, and so no axis of positions", open_folder(&d));
    remove_array("x.lengths");
    WRITE("y", "f4", "(2,)", float, 1, 2);
    CHECK_OK(open_folder(&d)); /* one of them may be taken whole (tools/feed/feed_roles.c) */
    dataset_free(d);
    remove_folder();
}

/* Looking at all of them would take as long as there are samples. */
static void test_nothing(void)
{
    Dataset *d;

    make_folder();
    write_array("x", "f4", "(1152921504606846976, 0)", "", 0);
    CHECK_OK(open_folder(&d));
    CHECK_OK(array_check_convert(dataset_find(d, "x"), DPX_INT64, "x"));
    dataset_free(d);
    remove_folder();
}

static void test_fill(void)
{
    int8_t bytes[2] = { 0, 0 };
    double one = 0;

    CU_ASSERT(array_holds(DPX_INT8, -100) && !array_holds(DPX_INT8, -129) && !array_holds(DPX_UINT8, -1));
    CU_ASSERT(!array_holds(DPX_INT64, 0.5) && array_holds(DPX_FLOAT32, 0.5));
    CU_ASSERT(array_holds(DPX_BOOL, 1) && !array_holds(DPX_BOOL, 2) && !array_holds(DPX_FLOAT16, 1));
    array_fill(DPX_INT8, -100, 2, bytes);
    CU_ASSERT(bytes[0] == -100 && bytes[1] == -100);
    array_fill(DPX_FLOAT64, -0.1, 1, &one);
    CU_ASSERT_EQUAL(one, -0.1);
}

DEFINE_SUITE(sequences, { "one behind the other", test_offsets }, { "padded, with lengths", test_lengths },
             { "batches of sequences", test_batches }, { "sequences without positions", test_empty },
             { "offsets and lengths that are none", test_refused }, { "padding of each type", test_fill },
             { "samples of nothing", test_nothing });
