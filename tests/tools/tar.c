/* Shards: names as bash and the package braceexpand expand them; archives that are cut off or changed at any place. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tools/data/data.h"
#include "tools/data/shard_paths.h"

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

/* Expands a pattern and compares the paths, which `expected` has with a space between them. */
static void expand(const char *pattern, const char *expected)
{
    ShardPaths s;
    char text[512] = "";

    if (!CHECK_OK(shard_paths_find(&s, pattern)))
        return;
    for (size_t i = 0; i < s.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", s.path[i]);
    CHECK_STR(expected, text);
    shard_paths_free(&s);
}

static void test_names(void)
{
    char pattern[256], expected[512];
    ShardPaths s;

    expand("/none/a-{008..011}.tar", "/none/a-008.tar /none/a-009.tar /none/a-010.tar /none/a-011.tar");
    expand("/none/{8..11}", "/none/8 /none/9 /none/10 /none/11");
    expand("/none/{2..00}", "/none/02 /none/01 /none/00");
    expand("/none/{a,b}{1..2}.tar", "/none/a1.tar /none/a2.tar /none/b1.tar /none/b2.tar");
    expand("/none/{a,b{1..2},}x", "/none/ax /none/b1x /none/b2x /none/x");
    expand("/none/{x}{1,2}", "/none/{x}1 /none/{x}2");
    expand("/none/a{1..", "/none/a{1..");
    make_folder();
    write_file("b.tar", "b", 1);
    write_file("B.tar", "B", 1);
    write_file("a{1..2}.tar", "a", 1);
    write_file("c.txt", "c", 1);
    snprintf(expected, sizeof expected, "%s/B.tar %s/a{1..2}.tar %s/b.tar", folder, folder, folder);
    expand(folder, expected);
    snprintf(pattern, sizeof pattern, "%s/*.tar", folder);
    expand(pattern, expected);
    snprintf(pattern, sizeof pattern, "%s/a{1..2}.tar", folder);
    expand(pattern, pattern);
    CHECK_FAILS(E_IO, "there are no such files", shard_paths_find(&s, path_of("x*.tar")));
    CHECK_FAILS(E_INVALID, "more than 65536 shards", shard_paths_find(&s, "/none/{0..65536}"));
    CHECK_FAILS(E_INVALID, "more than 65536 shards", shard_paths_find(&s, "/none/{0..999999999999999999}{1,2}"));
    remove_folder();
}

/* Sets the checksum of a header: the sum of its bytes, those of the checksum as spaces. */
static void sum_header(unsigned char *header)
{
    unsigned sum = 0;

    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
}

/* Adds a member with n bytes to an archive of `at` bytes. */
static size_t add_member(unsigned char *tar, size_t at, const char *name, const void *data, size_t n)
{
    unsigned char *header = tar + at;

    snprintf((char *)header, 100, "%s", name);
    snprintf((char *)header + 100, 8, "%07o", 0644);
    snprintf((char *)header + 124, 12, "%011o", (unsigned)n);
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    sum_header(header);
    memcpy(header + 512, data, n);
    return at + 512 + (n + 511) / 512 * 512;
}

enum { TAR = 6 * 512 + 1024 };

/* Two samples of an array and a label. */
static void make_tar(unsigned char tar[TAR])
{
    static const char dict[] = "\x93NUMPY\x01\x00\x39\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
    char npy[128] = "";
    size_t at = 0;

    memset(tar, 0, TAR);
    memcpy(npy, dict, sizeof dict - 1);
    memset(npy + sizeof dict - 1, ' ', 67 - (sizeof dict - 1));
    memcpy(npy + 67, "\5\6", 2);
    at = add_member(tar, at, "0.x.npy", npy, 69);
    at = add_member(tar, at, "0.cls", "3", 1);
    at = add_member(tar, at, "1.cls", " 4\n", 3);
    CU_ASSERT_EQUAL(at, 6 * 512);
}

static Status open_tar(Dataset **d, const unsigned char *tar, size_t n)
{
    write_file("a.tar", tar, n);
    return dataset_open(d, path_of("a.tar"), &plain);
}

static bool is_built_without(void) { return strstr(status_message(), "built without libarchive") != NULL; }

/* An archive that is cut off, or of which a byte of a header is another, is read or refused in a line that names it. */
static void test_damaged(void)
{
    static const unsigned char other[] = { 0, '7', ' ', 0x80, 0xff, 'L', 'x', 'S' };
    unsigned char tar[TAR];
    Dataset *d;

    make_folder();
    for (size_t n = 1; n < TAR; n += 37) {
        make_tar(tar);
        if (!open_tar(&d, tar, n))
            dataset_free(d);
        else if (is_built_without())
            break;
        else if (!strstr(status_message(), "a.tar"))
            TEST_FAIL("cut off after %zu bytes: %s", n, status_message());
    }
    for (size_t i = 0; i < 2 * 3 * 512; i++) {
        make_tar(tar);
        if (i / 512 % 2)
            continue;
        tar[i] = other[i % sizeof other];
        if (i % 512 < 148 || i % 512 >= 156)
            sum_header(tar + i / 512 * 512);
        if (!open_tar(&d, tar, TAR)) {
            dataset_free(d);
        } else if (is_built_without()) {
            break;
        } else if (!strstr(status_message(), "a.tar") || strchr(status_message(), '\n')) {
            TEST_FAIL("byte %zu: %s", i, status_message());
        }
    }
    remove_folder();
}

/* Elements and labels are those of the members; a sample that lacks a member may be left out. */
static void test_samples(void)
{
    SourceContext c = plain;
    unsigned char tar[TAR];
    uint8_t x[2];
    Dataset *d;

    make_folder();
    make_tar(tar);
    if (open_tar(&d, tar, TAR) && is_built_without()) {
        remove_folder();
        return;
    }
    CHECK_FAILS(E_IO, "1 of 2 samples are broken; --skip-broken leaves them out: ", open_tar(&d, tar, TAR));
    CHECK_FAILS(E_IO, "a.tar/1: has no 'x.npy'", open_tar(&d, tar, TAR));
    c.skip_broken = true;
    if (CHECK_OK(dataset_open(&d, path_of("a.tar"), &c))) {
        const Array *a = dataset_find(d, "x"), *label = dataset_find(d, "target");

        CU_ASSERT_FATAL(a && label && d->samples == 1);
        CHECK_OK(array_take(a, 0, &(SampleKey){ 0 }, DPX_UINT8, x, NULL));
        CU_ASSERT(x[0] == 5 && x[1] == 6 && *(const int64_t *)label->memory == 3);
        CHECK_STR("1 of 2 samples are broken and left out", d->note + strlen(path_of("a.tar")) + 2);
        dataset_free(d);
    }
    remove_folder();
}

DEFINE_SUITE(tar, { "names of shards", test_names }, { "samples", test_samples },
             { "cut off or changed at any place", test_damaged });
