/* Windows of token ids: places and targets are those of the sequence 0, 1, 2 ..., in which an id is its own place. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tools/data/data.h"

enum { IDS = 1000, BLOCK = 7, WINDOWS = 142 /* of 7 ids and one more */ };

static char folder[64];
static const SourceContext plain = { .norm = { .channels = 1, .scale = 1, .std = { 1 } } };

static const char *source_of(const char *form, const char *name, const char *more)
{
    static char text[256];

    snprintf(text, sizeof text, "%s%s/%s%s", form, folder, name, more);
    return text;
}

static void write_file(const char *name, const void *head, size_t n_head, const void *data, size_t n)
{
    FILE *f = fopen(source_of("", name, ""), "wb");

    CU_ASSERT_FATAL(f != NULL);
    CU_ASSERT_EQUAL(fwrite(head, 1, n_head, f), n_head);
    CU_ASSERT_EQUAL(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void begin(void)
{
    uint16_t narrow[IDS];
    uint32_t wide[IDS];
    int32_t header[256] = { 20240520, 1, IDS };
    char npy[128] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<u4', 'fortran_order': False, 'shape': (1000,), }";

    for (int i = 0; i < IDS; i++) {
        narrow[i] = (uint16_t)i;
        wide[i] = (uint32_t)i;
    }
    strcpy(folder, "/tmp/dpexec-test-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(folder) != NULL);
    npy[8] = 118;
    memset(npy + 10 + strlen(npy + 10), ' ', 117 - strlen(npy + 10));
    npy[127] = '\n';
    write_file("raw.bin", "", 0, narrow, sizeof narrow);
    write_file("wide.bin", "", 0, wide, sizeof wide);
    write_file("ids.npy", npy, sizeof npy, wide, sizeof wide);
    write_file("llmc.bin", header, sizeof header, narrow, sizeof narrow);
    header[2] = IDS + 1;
    write_file("short.bin", header, sizeof header, narrow, sizeof narrow);
    header[0] = 20240801;
    header[1] = 7;
    header[2] = IDS;
    write_file("llmc32.bin", header, sizeof header, wide, sizeof wide);
    wide[500] = 0xfffffff0u;
    write_file("huge.bin", header, sizeof header, wide, sizeof wide);
}

static void end(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command))
        TEST_FAIL("cannot remove %s", folder);
}

/* The window as int64, and a check that the target is the next ids. */
static int64_t place_of(const Dataset *d, int64_t row, SampleKey key)
{
    int64_t x[BLOCK], y[BLOCK];
    char scratch[8 * BLOCK];

    CHECK_OK(array_take(&d->array[0], row, &key, DPX_INT64, x, scratch));
    CHECK_OK(array_take(&d->array[1], row, &key, DPX_INT64, y, scratch));
    for (int i = 0; i < BLOCK; i++) {
        CU_ASSERT_EQUAL(x[i], x[0] + i);
        CU_ASSERT_EQUAL(y[i], x[i] + 1);
    }
    return x[0];
}

/* All forms of the file hold the same windows. */
static void test_forms(void)
{
    static const char *const name[] = { "raw.bin", "wide.bin", "ids.npy", "llmc.bin", "llmc32.bin" };
    static const char *const more[] = { ",block=7", ",block=7,dtype=uint32", ",block=7", ",block=7", ",block=7" };

    begin();
    for (int i = 0; i < 5; i++) {
        Dataset *d;

        if (!CHECK_OK(dataset_open(&d, source_of("tokens:", name[i], more[i]), &plain)))
            continue;
        CU_ASSERT_EQUAL(d->n, 2);
        CU_ASSERT_STRING_EQUAL(d->array[1].name, "target");
        CU_ASSERT_EQUAL(d->samples, WINDOWS);
        CU_ASSERT_EQUAL(d->array[0].dim[1], BLOCK);
        CHECK_OK(array_check_convert(&d->array[0], DPX_INT64, "x"));
        CHECK_OK(array_check_convert(&d->array[0], DPX_INT32, "x"));
        for (int64_t row = 0; row < WINDOWS; row++)
            CU_ASSERT_EQUAL(place_of(d, row, (SampleKey){ .seed = 3 }), row * BLOCK);
        dataset_free(d);
    }
    end();
}

/* Windows of training lie anywhere, each epoch elsewhere, and not in rows that are held back. */
static void test_training(void)
{
    enum { TRAINED = 100, EPOCHS = 40 };
    int64_t row[TRAINED], highest = 0, lowest = IDS, moved = 0;
    const dpx_info input = { .name = "tokens", .dtype = DPX_INT64, .rank = 2, .dim = { -1, BLOCK } };
    SourceContext c = plain;
    Dataset *d;

    begin();
    c.input = &input;
    c.inputs = 1;
    for (int i = 0; i < TRAINED; i++)
        row[i] = i;
    if (CHECK_OK(dataset_read(&d, source_of("tokens:", "raw.bin", ""), &c))) {
        CHECK_OK(dataset_fit(d, &c, row, TRAINED));
        for (int e = 0; e < EPOCHS; e++)
            for (int i = 0; i < TRAINED; i++) {
                const SampleKey key = { .seed = 5, .epoch = e, .training = true };
                const int64_t at = place_of(d, i, key);

                CU_ASSERT_EQUAL(at, place_of(d, i, key));
                moved += at != place_of(d, i, (SampleKey){ .seed = 6, .epoch = e, .training = true });
                highest = at > highest ? at : highest;
                lowest = at < lowest ? at : lowest;
            }
        CU_ASSERT_EQUAL(highest, (TRAINED - 1) * BLOCK); /* of 694 places, in 4,000 draws */
        CU_ASSERT_EQUAL(lowest, 0);
        CU_ASSERT(moved > TRAINED * EPOCHS * 9 / 10);
        dataset_free(d);
    }
    end();
}

static void test_refusals(void)
{
    const dpx_info input = { .name = "tokens", .dtype = DPX_INT64, .rank = 2, .dim = { -1, BLOCK }, .rows = 997 };
    SourceContext c = plain;
    Dataset *d;

    begin();
    c.input = &input;
    c.inputs = 1;
    CHECK_FAILS(E_INVALID, "raw.bin: token 997 has id 997, but the model's input 'tokens' takes ids below 997",
                dataset_open(&d, source_of("tokens:", "raw.bin", ""), &c));
    CHECK_FAILS(E_INVALID, "ids.npy: token 997 has id 997", dataset_open(&d, source_of("tokens:", "ids.npy", ""), &c));
    CHECK_FAILS(E_INVALID, "block=T is missing", dataset_open(&d, source_of("tokens:", "raw.bin", ""), &plain));
    CHECK_FAILS(E_IO, "1000 tokens, expected more than block=1000",
                dataset_open(&d, source_of("tokens:", "raw.bin", ",block=1000"), &plain));
    CHECK_FAILS(E_INVALID, "dtype: expected uint16, uint32 or uint8, found 'int3'",
                dataset_open(&d, source_of("tokens:", "raw.bin", ",block=7,dtype=int3"), &plain));
    CHECK_FAILS(E_INVALID, "this one has llm.c's",
                dataset_open(&d, source_of("tokens:", "llmc.bin", ",block=7,dtype=uint16"), &plain));
    CHECK_FAILS(E_IO, "header counts 1001 tokens, and 2000 bytes follow",
                dataset_open(&d, source_of("tokens:", "short.bin", ",block=7"), &plain));
    CHECK_FAILS(E_IO, "token 500 is 4294967280",
                dataset_open(&d, source_of("tokens:", "huge.bin", ",block=7"), &plain));
    CHECK_FAILS(E_INVALID, "expected tokens=bytes or tokenizer=FILE.json",
                dataset_open(&d, source_of("text:", "raw.bin", ",block=7,tokens=words"), &plain));
    end();
}

/* The ids of a text, and a second reading, which needs the tokenizer's digest alone. */
static void test_text(void)
{
    static const char tokenizer[] = SOURCE_DIR "/tests/cli/tokenize/gpt2.json";
    static const char text[] = SOURCE_DIR "/tests/cli/tokenize/text.txt";
    static const char ids_of_text[] = SOURCE_DIR "/tests/cli/tokenize/gpt2.text.bin";
    char source[1024];
    uint16_t id[64], x[32];
    FILE *f = fopen(ids_of_text, "rb");
    Dataset *d;

    begin();
    CU_ASSERT_FATAL(f != NULL);
    CU_ASSERT_EQUAL(fread(id, 2, 64, f), 64);
    fclose(f);
    for (int again = 0; again < 2; again++) {
        const SampleKey key = { 0 };

        snprintf(source, sizeof source, "text:%s,tokenizer=%s,cache=%s,block=32", text, tokenizer, folder);
        if (!CHECK_OK(dataset_open(&d, source, &plain)))
            continue;
        CHECK_OK(d->array[1].fetch(&d->array[1], 0, &key, x));
        CU_ASSERT_EQUAL(memcmp(x, id + 1, sizeof x), 0);
        CHECK_OK(d->array[0].fetch(&d->array[0], 1, &key, x));
        CU_ASSERT_EQUAL(memcmp(x, id + 32, sizeof x), 0);
        dataset_free(d);
    }
    snprintf(source, sizeof source, "text:%s,block=4", text);
    if (CHECK_OK(dataset_open(&d, source, &plain))) {
        const SampleKey key = { 0 };
        unsigned char bytes[4], file[8];

        f = fopen(text, "rb");
        CU_ASSERT_FATAL(f != NULL);
        CU_ASSERT_EQUAL(fread(file, 1, 8, f), 8);
        fclose(f);
        CHECK_OK(d->array[0].fetch(&d->array[0], 1, &key, bytes));
        CU_ASSERT_EQUAL(memcmp(bytes, file + 4, 4), 0);
        dataset_free(d);
    }
    end();
}

DEFINE_SUITE(tokens, { "forms", test_forms }, { "training", test_training }, { "refusals", test_refusals },
             { "text", test_text });
