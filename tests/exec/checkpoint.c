/* Checkpoints survive damage: what does not verify is passed over or refused, never half read. */
#include "exec/state/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/harness/test.h"

static ino_t sync_fails; /* of what this inode names */

/* This program's. */
__attribute__((visibility("default"))) int fsync(int fd)
{
    struct stat s;

    if (sync_fails && !fstat(fd, &s) && s.st_ino == sync_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static char *temporary_folder(void)
{
    static char path[64];

    strcpy(path, "/tmp/dpexec-test-XXXXXX");
    return mkdtemp(path);
}

static void remove_tree(const char *path)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command))
        TEST_FAIL("cannot remove %s", path);
}

static float weights[6] = { 1, -2, 0.1f, 3e-42f, -0.0f, 7 };
static int64_t counter = 1234567890123;

static int two_tensors(NamedTensor list[2], float first)
{
    weights[0] = first;
    list[0] = (NamedTensor){ "layer/w \"1\"", { DT_FLOAT32, SHAPE(2, 3), weights } };
    list[1] = (NamedTensor){ "step", { DT_INT64, shape_scalar(), &counter } };
    return 2;
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    CU_ASSERT_FATAL(f != NULL);
    CU_ASSERT_EQUAL(fwrite(data, 1, n, f), n);
    fclose(f);
}

static Status read_again(Checkpoint *c, Arena *a, const char *dir)
{
    checkpoint_close(c);
    return checkpoint_read(c, a, dir, true, NULL);
}

static float first_number(const Checkpoint *c)
{
    float x = NAN;

    CHECK_OK(tensor_file_read(c->file, 0, &x, 0, sizeof x));
    return x;
}

static void test_round_trip(void)
{
    const char *dir = temporary_folder();
    Arena *a = arena_create();
    Checkpoint c = { 0 };
    NamedTensor list[2];
    float found[6];
    int64_t count;

    CHECK_OK(checkpoint_write(dir, 7, list, two_tensors(list, 5), NULL, NULL, "{\"epoch\":2}"));
    CHECK_OK(checkpoint_write(dir, 7, list, two_tensors(list, 6), NULL, NULL, "again"));
    CHECK_OK(read_again(&c, a, dir));
    CU_ASSERT_EQUAL(c.step, 7);
    CU_ASSERT_EQUAL(c.n, 2);
    CHECK_STR("again", c.note);
    CHECK_STR("layer/w \"1\"", c.tensor[0].name);
    CHECK_OK(tensor_file_read(c.file, 0, found, 0, sizeof found));
    CU_ASSERT_EQUAL(memcmp(found, weights, sizeof weights), 0);
    CHECK_OK(tensor_file_read(c.file, 1, &count, 0, sizeof count));
    CU_ASSERT_EQUAL(count, counter);
    CHECK_OK(tensor_file_read(c.file, 0, found, 2 * sizeof *found, sizeof *found)); /* a part */
    CU_ASSERT_EQUAL(found[0], weights[2]);
    checkpoint_close(&c);
    arena_free(a);
    remove_tree(dir);
}

static void test_newest_that_verifies(void)
{
    const char *dir = temporary_folder();
    char path[128];
    Arena *a = arena_create();
    Checkpoint c = { 0 };
    NamedTensor list[2];

    CHECK_FAILS(E_IO, "there is no checkpoint", read_again(&c, a, dir));
    CHECK_OK(checkpoint_write(dir, 9, list, two_tensors(list, 9), NULL, NULL, NULL));
    CHECK_OK(checkpoint_write(dir, 10, list, two_tensors(list, 10), NULL, NULL, NULL));
    snprintf(path, sizeof path, "%s/step-000000010/state.safetensors", dir);
    CU_ASSERT_EQUAL(truncate(path, 40), 0);
    CHECK_OK(read_again(&c, a, dir));
    CU_ASSERT_EQUAL(c.step, 9);
    CU_ASSERT_EQUAL_FATAL(c.n_skipped, 1);
    CU_ASSERT(strstr(c.skipped[0], "step-000000010/state.safetensors: 40 bytes, the manifest says ") != NULL);
    CU_ASSERT_EQUAL(first_number(&c), 9);
    snprintf(path, sizeof path, "%s/step-000000009/manifest.json", dir);
    write_file(path, "{", 1);
    CHECK_FAILS(E_IO, "no checkpoint verifies", read_again(&c, a, dir));
    checkpoint_close(&c);
    arena_free(a);
    remove_tree(dir);
}

/* Rewrites `from` to `to`, of the same length, in the manifest of step 3. */
static void edit_manifest(const char *dir, const char *from, const char *to)
{
    char path[128], text[2048] = { 0 }, *at;
    FILE *f;

    snprintf(path, sizeof path, "%s/step-000000003/manifest.json", dir);
    CU_ASSERT_FATAL((f = fopen(path, "rb")) != NULL);
    CU_ASSERT(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    CU_ASSERT_FATAL((at = strstr(text, from)) != NULL);
    memcpy(at, to, strlen(to));
    write_file(path, text, strlen(text));
}

static void test_edited_manifest(void)
{
    static const char *const edits[][2] = { { "at 12", "at 13" },
                                            { "\"step\": 3", "\"step\": 4" },
                                            { "note_xxh3_128\": \"", "note_xxh3_128\": \"x" } };
    const char *dir = temporary_folder();
    Arena *a = arena_create();
    Checkpoint c = { 0 };
    NamedTensor list[2];

    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        CHECK_OK(checkpoint_write(dir, 3, list, two_tensors(list, 9), NULL, NULL, "at 12"));
        edit_manifest(dir, edits[i][0], edits[i][1]);
        CHECK_FAILS(E_IO, "the hash of the note is not", read_again(&c, a, dir));
    }
    CHECK_OK(checkpoint_write(dir, 3, list, two_tensors(list, 9), NULL, NULL, "at 12"));
    edit_manifest(dir, "\"bytes\": ", "\"bytes\":-");
    CHECK_FAILS(E_IO, "bytes, the manifest says -", read_again(&c, a, dir));
    CHECK_OK(checkpoint_write(dir, 3, list, two_tensors(list, 9), NULL, NULL, "at 12"));
    edit_manifest(dir, "\"block\": 16384", "\"block\": 16385");
    CHECK_FAILS(E_IO, "of blocks of 16385, expected", read_again(&c, a, dir));
    CHECK_OK(checkpoint_write(dir, 3, list, two_tensors(list, 9), NULL, NULL, "at 12"));
    edit_manifest(dir, "note_xxh3_128", "n0te_xxh3_128"); /* as an earlier version wrote it */
    CHECK_OK(read_again(&c, a, dir));
    edit_manifest(dir, "\"step\": 3", "\"step\":-1");
    CHECK_FAILS(E_IO, "step is -1", read_again(&c, a, dir));
    checkpoint_close(&c);
    arena_free(a);
    remove_tree(dir);
}

/* ---- reading in parts ---- */

enum { NUMBERS = 3 * TENSOR_BLOCK / 8 + 5 }; /* float64: three blocks and 40 bytes */
static double numbers[NUMBERS];

static Checkpoint write_three(const char *dir, Arena *a, bool whole, int64_t *bytes)
{
    const NamedTensor list[] = { { "small", { DT_FLOAT32, SHAPE(2, 3), weights } },
                                 { "empty", { DT_FLOAT32, SHAPE(0), NULL } },
                                 { "large", { DT_FLOAT64, SHAPE(NUMBERS), numbers } } };
    Checkpoint c = { 0 };

    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i;
    CHECK_OK(checkpoint_write(dir, 3, list, 3, NULL, NULL, NULL));
    CHECK_OK(checkpoint_read(&c, a, dir, whole, bytes));
    return c;
}

static size_t read_file(unsigned char *to, size_t room, const char *dir, const char *name)
{
    char path[128];
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "%s/step-000000003/%s", dir, name);
    CU_ASSERT_FATAL((f = fopen(path, "rb")) != NULL);
    n = fread(to, 1, room, f);
    fclose(f);
    return n;
}

/* Changes a byte; `at` negative: from the end. */
static void damage(const char *dir, const char *name, long at)
{
    char path[128];
    FILE *f;
    int c;

    snprintf(path, sizeof path, "%s/step-000000003/%s", dir, name);
    CU_ASSERT_FATAL((f = fopen(path, "r+b")) != NULL);
    CU_ASSERT_EQUAL(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    c = getc(f);
    CU_ASSERT_EQUAL(fseek(f, -1, SEEK_CUR), 0);
    putc(c ^ 1, f);
    fclose(f);
}

/* The digests are those of the header and of each block of each tensor, in the file's order, as libxxhash has them. */
static void test_digests(void)
{
    static unsigned char file[1 << 19], digests[1024];
    const char *dir = temporary_folder();
    Arena *a = arena_create();
    Checkpoint c = write_three(dir, a, false, NULL);
    const size_t n = read_file(file, sizeof file, dir, "state.safetensors"), data = n - sizeof weights - sizeof numbers;
    const size_t from[] = { 0, data, data + 24, data + 24 + 16384, data + 24 + 2 * 16384, data + 24 + 3 * 16384, n };
    XXH64_canonical_t expected;

    checkpoint_close(&c);
    CU_ASSERT_EQUAL_FATAL(read_file(digests, sizeof digests, dir, "state.digests"), 6 * 8);
    for (int i = 0; i < 6; i++) {
        XXH64_canonicalFromHash(&expected, XXH3_64bits(file + from[i], from[i + 1] - from[i]));
        CU_ASSERT_EQUAL(memcmp(&expected, digests + 8 * i, 8), 0);
    }
    arena_free(a);
    remove_tree(dir);
}

/* What is read is what was asked for, and no more than its blocks are read for it. */
static void test_reads_blocks(void)
{
    static const int ranges[][2] = { { 0, NUMBERS },        { 0, 2048 },        { 2048, 2049 }, { 2047, 2049 },
                                     { 3 * 2048, NUMBERS }, { 1, NUMBERS - 1 }, { 5, 5 } };
    static double found[NUMBERS];
    const char *dir = temporary_folder();
    Arena *a = arena_create();
    int64_t bytes = 0, before;
    Checkpoint c = write_three(dir, a, false, &bytes);

    CU_ASSERT(bytes < 1024); /* header and digests */
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const size_t from = (size_t)ranges[i][0] * 8, to = (size_t)ranges[i][1] * 8;
        const size_t first = from / 16384 * 16384, last = (to + 16383) / 16384 * 16384;

        before = bytes;
        memset(found, 0, sizeof found);
        CHECK_OK(tensor_file_read(c.file, 2, found, from, to - from));
        CU_ASSERT_EQUAL(memcmp(found, numbers + ranges[i][0], to - from), 0);
        CU_ASSERT_EQUAL(bytes - before,
                        from == to ? 0 : (int64_t)((last < sizeof numbers ? last : sizeof numbers) - first));
    }
    before = bytes;
    CHECK_OK(tensor_file_read(c.file, 1, found, 0, 0));
    CU_ASSERT_EQUAL(bytes, before);
    CHECK_OK(tensor_file_verify(c.file));
    CU_ASSERT_EQUAL(bytes - before, sizeof weights + sizeof numbers);
    checkpoint_close(&c);
    arena_free(a);
    remove_tree(dir);
}

/* Whoever reads damaged bytes is told of which tensor; whoever does not is not. */
static void test_damaged_block(void)
{
    const char *dir = temporary_folder();
    Arena *a = arena_create();
    Checkpoint c = write_three(dir, a, true, NULL);
    float small;
    double found;

    damage(dir, "state.safetensors", -(long)sizeof numbers + 2 * 16384 + 7);
    CHECK_OK(tensor_file_read(c.file, 0, &small, 0, sizeof small));
    for (int k = 0; k < 4; k++) {
        const size_t at = k * (size_t)16384;

        if (k == 2)
            CHECK_FAILS(E_IO, "state.safetensors: tensor 'large' is damaged: bytes 32768 to 49151",
                        tensor_file_read(c.file, 2, &found, at + 800, sizeof found));
        else
            CHECK_OK(tensor_file_read(c.file, 2, &found, at + 16, sizeof found));
    }
    CHECK_FAILS(E_IO, "tensor 'large'", tensor_file_verify(c.file));
    checkpoint_close(&c);
    CHECK_OK(checkpoint_read(&c, a, dir, false, NULL));
    checkpoint_close(&c);
    CHECK_FAILS(E_IO, "tensor 'large' is damaged", checkpoint_read(&c, a, dir, true, NULL));
    damage(dir, "state.safetensors", -(long)sizeof numbers - 1);
    CHECK_FAILS(E_IO, "tensor 'small' is damaged: bytes 0 to 23", checkpoint_read(&c, a, dir, true, NULL));
    arena_free(a);
    remove_tree(dir);
}

/* Each byte of header and digests counts, whoever reads what. */
static void test_damaged_header(void)
{
    static unsigned char file[1 << 19];
    const char *dir = temporary_folder();
    Arena *a = arena_create();
    Checkpoint c = write_three(dir, a, false, NULL);
    const size_t header = read_file(file, sizeof file, dir, "state.safetensors") - sizeof weights - sizeof numbers;

    checkpoint_close(&c);
    for (size_t i = 0; i < header; i++) {
        damage(dir, "state.safetensors", (long)i);
        CHECK_FAILS(E_IO, i <= 8 ? "state.safetensors: " : "state.safetensors: the header is damaged",
                    checkpoint_read(&c, a, dir, false, NULL));
        damage(dir, "state.safetensors", (long)i);
    }
    for (long i = 0; i < 6 * 8; i++) {
        damage(dir, "state.digests", i);
        CHECK_FAILS(E_IO, "state.digests: the hash is not the manifest's", checkpoint_read(&c, a, dir, false, NULL));
        damage(dir, "state.digests", i);
    }
    CHECK_OK(checkpoint_read(&c, a, dir, false, NULL));
    checkpoint_close(&c);
    arena_free(a);
    remove_tree(dir);
}

/* Digests of other blocks than the header's tensors have, with the hash that they ought to have. */
static void test_other_digests(void)
{
    const char *dir = temporary_folder();
    char path[128];
    Arena *a = arena_create();
    Checkpoint c = write_three(dir, a, false, NULL);
    XXH64_canonical_t digests[7] = { 0 };
    TensorFile *f;

    checkpoint_close(&c);
    snprintf(path, sizeof path, "%s/step-000000003/state.safetensors", dir);
    CU_ASSERT_EQUAL(read_file((unsigned char *)digests, sizeof digests, dir, "state.digests"), 6 * 8);
    CHECK_FAILS(E_IO, "5 digests, expected one of the header and 5 of blocks",
                tensor_file_open(&f, path, digests, 5, NULL));
    CHECK_FAILS(E_IO, "7 digests, expected", tensor_file_open(&f, path, digests, 7, NULL));
    CHECK_FAILS(E_IO, "the header is damaged", tensor_file_open(&f, path, digests, 0, NULL));
    if (CHECK_OK(tensor_file_open(&f, path, digests, 6, NULL)))
        tensor_file_release(f);
    arena_free(a);
    remove_tree(dir);
}

/* An earlier version wrote the whole file's digest alone: all is read, and any damage is found at once. */
static void test_earlier_version(void)
{
    const char *dir = temporary_folder();
    char path[128];
    Arena *a = arena_create();
    int64_t bytes = 0;
    double found;
    Checkpoint c = write_three(dir, a, false, NULL);
    struct stat s;

    checkpoint_close(&c);
    edit_manifest(dir, "state.digests", "s.ate.digests");
    snprintf(path, sizeof path, "%s/step-000000003/state.digests", dir);
    CU_ASSERT_EQUAL(unlink(path), 0);
    snprintf(path, sizeof path, "%s/step-000000003/state.safetensors", dir);
    CU_ASSERT_EQUAL(stat(path, &s), 0);
    CHECK_OK(checkpoint_read(&c, a, dir, false, &bytes));
    CU_ASSERT(bytes >= s.st_size);
    CHECK_OK(tensor_file_read(c.file, 2, &found, 8 * 5000, sizeof found));
    CU_ASSERT_EQUAL(found, 5000);
    checkpoint_close(&c);
    damage(dir, "state.safetensors", -9);
    CHECK_FAILS(E_IO, "state.safetensors: the hash is not the manifest's", checkpoint_read(&c, a, dir, false, NULL));
    arena_free(a);
    remove_tree(dir);
}

/* A crash while one of the same step is replaced leaves the one before aside, or both; the next one is written all the
 * same. */
static void test_crash_between_renames(void)
{
    const char *dir = temporary_folder();
    char path[128], aside[128], other[128], elsewhere[192];
    Arena *a = arena_create();
    Checkpoint c = { 0 };
    NamedTensor list[2];

    snprintf(path, sizeof path, "%s/step-000000010", dir);
    snprintf(aside, sizeof aside, "%s/.old-step-000000010", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(elsewhere, sizeof elsewhere, "%s/step-000000010", other);
    CHECK_OK(checkpoint_write(dir, 9, list, two_tensors(list, 9), NULL, NULL, NULL));
    CHECK_OK(checkpoint_write(dir, 10, list, two_tensors(list, 5), NULL, NULL, NULL));
    CU_ASSERT_EQUAL(rename(path, aside), 0);
    CHECK_OK(read_again(&c, a, dir));
    CU_ASSERT_EQUAL(c.step, 10);
    for (int again = 0; again < 2; again++) {
        CHECK_OK(checkpoint_write(dir, 10, list, two_tensors(list, (float)again), NULL, NULL, NULL));
        CHECK_OK(read_again(&c, a, dir));
        CU_ASSERT_EQUAL(first_number(&c), again);
        CU_ASSERT_NOT_EQUAL(access(aside, F_OK), 0);
    }
    CU_ASSERT_EQUAL(rename(path, aside), 0); /* both: the one in place is the new one, and complete */
    CHECK_OK(checkpoint_write(other, 10, list, two_tensors(list, 8), NULL, NULL, NULL));
    CU_ASSERT_EQUAL(rename(elsewhere, path), 0);
    CHECK_OK(read_again(&c, a, dir));
    CU_ASSERT_EQUAL(first_number(&c), 8);
    checkpoint_close(&c);
    arena_free(a);
    remove_tree(dir);
}

/* A process of another container is known by no number here, or by that of another: its lock tells. */
static void test_left_in_a_container(void)
{
    const char *dir = temporary_folder();
    char left[160], held[160], path[200];
    NamedTensor list[2];
    int lock;

    snprintf(left, sizeof left, "%s/.tmp-1-9", dir); /* there is always a process 1 */
    snprintf(held, sizeof held, "%s/.tmp-1999999999-9", dir);
    CU_ASSERT(!mkdir(left, 0777) && !mkdir(held, 0777));
    snprintf(path, sizeof path, "%s/state.safetensors", left);
    write_file(path, "x", 1);
    lock = open(held, O_RDONLY | O_DIRECTORY);
    CU_ASSERT(lock >= 0 && !flock(lock, LOCK_EX));
    CHECK_OK(checkpoint_write(dir, 9, list, two_tensors(list, 9), NULL, NULL, NULL));
    CU_ASSERT(access(left, F_OK) && !access(held, F_OK));
    close(lock);
    CHECK_OK(checkpoint_write(dir, 10, list, two_tensors(list, 9), NULL, NULL, NULL));
    CU_ASSERT(access(held, F_OK) != 0);
    remove_tree(dir);
}

/* What a crashed process of the same number left neither blocks nor is taken. */
static void test_left_by_a_crash(void)
{
    const char *dir = temporary_folder();
    char path[160];
    Arena *a = arena_create();
    Checkpoint c = { 0 };
    NamedTensor list[2];

    CHECK_OK(checkpoint_write(dir, 9, list, two_tensors(list, 9), NULL, NULL, NULL));
    snprintf(path, sizeof path, "%s/.tmp-%ld-9", dir, (long)getpid());
    CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/.tmp-%ld-9/state.safetensors", dir, (long)getpid());
    write_file(path, "x", 1);
    snprintf(path, sizeof path, "%s/.old-step-000000009", dir);
    CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/.old-step-000000009/state.safetensors", dir);
    write_file(path, "x", 1);
    CHECK_OK(checkpoint_write(dir, 9, list, two_tensors(list, 4), NULL, NULL, NULL));
    CHECK_OK(read_again(&c, a, dir));
    CU_ASSERT_EQUAL(first_number(&c), 4);
    checkpoint_close(&c);
    snprintf(path, sizeof path, "%s/.tmp-%ld-9", dir, (long)getpid());
    CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/.tmp-%ld-9/state.safetensors", dir, (long)getpid());
    write_file(path, "x", 1);
    CHECK_OK(checkpoint_remove(dir, 9));
    snprintf(path, sizeof path, "%s/step-000000009", dir);
    CU_ASSERT(access(path, F_OK) != 0);
    arena_free(a);
    remove_tree(dir);
}

/* The one that is replaced may be what a crash leaves, so it stays until the new one's name is on disk. */
static void test_name_not_on_disk(void)
{
    const char *dir = temporary_folder();
    char aside[128], final[128], lost[128];
    Arena *a = arena_create();
    Checkpoint c = { 0 };
    NamedTensor list[2];
    struct stat s;

    snprintf(aside, sizeof aside, "%s/.old-step-000000009", dir);
    snprintf(final, sizeof final, "%s/step-000000009", dir);
    snprintf(lost, sizeof lost, "%s/lost", dir);
    CHECK_OK(checkpoint_write(dir, 9, list, two_tensors(list, 9), NULL, NULL, NULL));
    CU_ASSERT_EQUAL_FATAL(stat(dir, &s), 0);
    sync_fails = s.st_ino;
    CHECK_FAILS(E_IO, "cannot sync", checkpoint_write(dir, 9, list, two_tensors(list, 4), NULL, NULL, NULL));
    sync_fails = 0;
    CHECK_OK(read_again(&c, a, dir));
    CU_ASSERT_EQUAL(first_number(&c), 4);
    CU_ASSERT_EQUAL(rename(final, lost), 0); /* the crash */
    if (CHECK_OK(read_again(&c, a, dir)))
        CU_ASSERT_EQUAL(first_number(&c), 9);
    CU_ASSERT_EQUAL(access(aside, F_OK), 0);
    checkpoint_close(&c);
    arena_free(a);
    remove_tree(dir);
}

static int until_failure; /* of jansson's allocations, when positive */

static void *allocate(size_t n) { return until_failure > 0 && !--until_failure ? NULL : malloc(n); }

/* Whichever allocation of the header fails, there is a whole file or an error: the shape once lost an axis. */
static void test_no_memory_for_header(void)
{
    const char *dir = temporary_folder();
    char path[128];
    NamedTensor list[2], *back;
    bool reached = true;
    int tried = 0, n;

    snprintf(path, sizeof path, "%s/state", dir);
    list[0] = (NamedTensor){ "w", { DT_FLOAT32, SHAPE(1, 2, 1, 3), weights } };
    list[1] = (NamedTensor){ "step", { DT_INT64, shape_scalar(), &counter } };
    for (; reached; tried++) {
        Arena *a = arena_create();
        Status st;

        json_set_alloc_funcs(allocate, free);
        until_failure = tried + 1;
        st = safetensors_write(path, list, 2, NULL, NULL, NULL);
        reached = !until_failure;
        until_failure = 0;
        json_set_alloc_funcs(malloc, free);
        CU_ASSERT(st == E_NOMEM || !st);
        if (!st && CHECK_OK(safetensors_read(&back, &n, a, path)))
            CU_ASSERT(n == 2 && shape_eq(&back[0].tensor.shape, &list[0].tensor.shape));
        unlink(path);
        arena_free(a);
    }
    CU_ASSERT(tried > 10);
    remove_tree(dir);
}

static void test_unwritable_folder(void)
{
    NamedTensor list[2];

    CHECK_FAILS(E_IO, "/proc/nowhere",
                checkpoint_write("/proc/nowhere", 1, list, two_tensors(list, 1), NULL, NULL, NULL));
}

static void refuse(const char *dir, const char *text, const char *header, size_t data)
{
    char path[128], file[1024] = { 0 };
    Arena *a = arena_create();
    NamedTensor *list;
    int n;

    file[0] = (char)strlen(header);
    memcpy(file + 8, header, strlen(header));
    snprintf(path, sizeof path, "%s/bad", dir);
    write_file(path, file, 8 + strlen(header) + data);
    CHECK_FAILS(E_IO, text, safetensors_read(&list, &n, a, path));
    arena_free(a);
}

static void test_hostile_headers(void)
{
    const char *dir = temporary_folder();

    refuse(dir, "not a safetensors file", "", 0);
    refuse(dir, "not a JSON object", "{]", 0);
    refuse(dir, "overlap or leave a hole",
           "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
           "\"data_offsets\":[1,3]}}",
           3);
    refuse(dir, "overlap or leave a hole", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3);
    refuse(dir, "the header covers", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 3);
    refuse(dir, "do not fit", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    refuse(dir, "do not fit", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0]}}", 2);
    refuse(dir, "do not fit", "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", 2);
    refuse(dir, "is not a count", "{\"a\":{\"dtype\":\"U8\",\"shape\":[-2],\"data_offsets\":[0,2]}}", 2);
    refuse(dir, "unknown type", "{\"a\":{\"dtype\":\"X\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    refuse(dir, "not a JSON object", "{\"a\":1,\"a\":2}", 0);
    remove_tree(dir);
}

/* An empty tensor stands anywhere, also where another begins. */
static void test_empty_tensor(void)
{
    static const char header[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    const char *dir = temporary_folder();
    char path[128], file[256] = { 0 };
    Arena *a = arena_create();
    NamedTensor *list;
    int n;

    file[0] = (char)strlen(header);
    memcpy(file + 8, header, strlen(header));
    snprintf(path, sizeof path, "%s/empty", dir);
    write_file(path, file, 8 + strlen(header) + 2);
    if (CHECK_OK(safetensors_read(&list, &n, a, path)))
        CU_ASSERT_EQUAL(n, 2);
    arena_free(a);
    remove_tree(dir);
}

static void test_every_truncation(void)
{
    const char *dir = temporary_folder();
    char path[128];
    NamedTensor list[2], *back;
    struct stat s;
    int n;

    snprintf(path, sizeof path, "%s/state", dir);
    CHECK_OK(safetensors_write(path, list, two_tensors(list, 1), NULL, NULL, NULL));
    CU_ASSERT_EQUAL(stat(path, &s), 0);
    for (off_t size = s.st_size - 1; size >= 0; size--) {
        Arena *a = arena_create();

        CU_ASSERT_EQUAL(truncate(path, size), 0);
        CHECK_FAILS(E_IO, path, safetensors_read(&back, &n, a, path));
        arena_free(a);
    }
    remove_tree(dir);
}

DEFINE_SUITE(checkpoint, { "round trip", test_round_trip },
             { "the newest that verifies is read", test_newest_that_verifies },
             { "an edited manifest is refused", test_edited_manifest }, { "digests of blocks", test_digests },
             { "no more is read than blocks", test_reads_blocks }, { "a damaged block", test_damaged_block },
             { "a damaged header", test_damaged_header }, { "digests that do not belong", test_other_digests },
             { "a checkpoint of an earlier version", test_earlier_version },
             { "a crash between two renames", test_crash_between_renames },
             { "what a crash left", test_left_by_a_crash }, { "what a container left", test_left_in_a_container },
             { "a name that is not on disk", test_name_not_on_disk },
             { "no memory for the header", test_no_memory_for_header },
             { "an unwritable folder is named", test_unwritable_folder },
             { "hostile headers are refused", test_hostile_headers },
             { "an empty tensor at another's beginning", test_empty_tensor },
             { "every truncation is refused", test_every_truncation });
