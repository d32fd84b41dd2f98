/* A checkpoint as one stream of bytes: a tar archive (POSIX ustar) of its folder, which `tar` unpacks to a checkpoint.
 *
 * What is read may be anything.  Only the three files are taken, once each, from one folder; the checkpoint they make
 * is then read and verified like any other. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/state/checkpoint.h"

enum { BLOCK = 512, N_FILES = 3, NAME_SIZE = 100 };
static const char *const files[N_FILES] = { STATE_FILE, DIGEST_FILE, MANIFEST_FILE };

/* A header of the archive.  Numbers are octal digits. */
typedef struct {
    char name[NAME_SIZE], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
        version[2], owner[32], group[32], major[8], minor[8], prefix[155], pad[12];
} TarHeader;
_Static_assert(sizeof(TarHeader) == BLOCK, "a header is a block");

static unsigned sum_of(const TarHeader *h)
{
    const size_t at = offsetof(TarHeader, checksum);
    unsigned sum = 0;

    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= at && i < at + sizeof h->checksum ? ' ' : ((const unsigned char *)h)[i];
    return sum;
}

/* ---- writing ---- */

/* Octal digits; 8 GiB and more as GNU tar writes them, in base 256. */
static void write_size(TarHeader *h, uint64_t bytes)
{
    char text[32];

    if (bytes < (uint64_t)1 << 33) {
        snprintf(text, sizeof text, "%011" PRIo64, bytes);
        memcpy(h->size, text, 11);
        return;
    }
    h->size[0] = (char)0x80;
    for (int i = 0; i < 8; i++)
        h->size[11 - i] = (char)(unsigned char)(bytes >> (8 * i));
}

static Status cannot_write(void) { return FAIL(E_IO, "a stream: cannot write: %s", strerror(errno)); }

static Status write_header(FILE *to, int64_t step, const char *file, int64_t bytes)
{
    TarHeader h = { .mode = "0000644",
                    .uid = "0000000",
                    .gid = "0000000",
                    .mtime = "00000000000",
                    .type = '0',
                    .magic = "ustar",
                    .version = { '0', '0' } };
    char text[NAME_SIZE];

    snprintf(text, sizeof text, STEP_FOLDER "%09" PRId64 "/%s", step, file);
    memcpy(h.name, text, strlen(text));
    write_size(&h, (uint64_t)bytes);
    snprintf(text, sizeof text, "%06o", sum_of(&h));
    memcpy(h.checksum, text, 6);
    h.checksum[7] = ' ';
    return fwrite(&h, 1, BLOCK, to) == BLOCK ? ST_OK : cannot_write();
}

static Status write_zeros(FILE *to, size_t n)
{
    static const char zeros[2 * BLOCK];

    return fwrite(zeros, 1, n, to) == n ? ST_OK : cannot_write();
}

static size_t padding(int64_t bytes) { return (size_t)(-bytes & (BLOCK - 1)); }

static Status write_file(FILE *to, int64_t step, const char *file, const void *data, size_t bytes)
{
    TRY(write_header(to, step, file, (int64_t)bytes));
    if (bytes && fwrite(data, 1, bytes, to) != bytes)
        return cannot_write();
    return write_zeros(to, padding((int64_t)bytes));
}

Status checkpoint_write_stream(FILE *to, int64_t step, const NamedTensor *list, int n, TensorSource *source, void *user,
                               const char *note)
{
    TensorDigests digests = { .n = 0 };
    char *manifest = NULL;
    int64_t bytes;
    Status st;

    TRY(safetensors_size(&bytes, list, n));
    TRY(write_header(to, step, STATE_FILE, bytes));
    TRY(safetensors_stream(to, "a stream", list, n, source, user, &digests));
    TRY_TO(done, st, write_zeros(to, padding(bytes)));
    TRY_TO(done, st, checkpoint_manifest(&manifest, step, note ? note : "", bytes, &digests));
    TRY_TO(done, st, write_file(to, step, DIGEST_FILE, digests.piece, digests.n * sizeof *digests.piece));
    TRY_TO(done, st, write_file(to, step, MANIFEST_FILE, manifest, strlen(manifest)));
    st = write_zeros(to, (size_t)2 * BLOCK);
done:
    free(digests.piece);
    free(manifest);
    return st;
}

/* ---- reading ---- */

typedef struct {
    FILE *from;
    uint64_t read; /* bytes of the stream */
    const char *directory;
    char folder[NAME_SIZE + 1]; /* "step-000000003"; "": none yet */
    bool seen[N_FILES];
} Unpacking;

/* Reads `bytes` bytes; *ended: the stream ended before the first. */
static Status read_exactly(Unpacking *u, void *to, size_t bytes, bool *ended, const char *what)
{
    const size_t n = fread(to, 1, bytes, u->from);

    u->read += n;
    if (ferror(u->from))
        return FAIL(E_IO, "a stream: cannot read %s: %s", what, strerror(errno));
    if (ended)
        *ended = !n;
    return n == bytes || (ended && !n) ? ST_OK
                                       : FAIL(E_IO, "a stream: it ends at byte %" PRIu64 ", within %s", u->read, what);
}

static Status read_size(uint64_t *out, const TarHeader *h)
{
    const unsigned char *p = (const unsigned char *)h->size;
    size_t i = 0;

    *out = 0;
    if (p[0] & 0x80) {
        for (i = 1; i < sizeof h->size; i++) {
            if (*out >> 55)
                return FAIL(E_IO, "a stream: the archive has a file of an impossible size");
            *out = *out << 8 | p[i];
        }
        return ST_OK;
    }
    while (i < sizeof h->size && p[i] == ' ')
        i++;
    for (; i < sizeof h->size && p[i] >= '0' && p[i] <= '7'; i++)
        *out = *out << 3 | (uint64_t)(p[i] - '0');
    return i == sizeof h->size || !p[i] || p[i] == ' '
               ? ST_OK
               : FAIL(E_IO, "a stream: the archive has a file whose size is no number");
}

/* Splits "step-000000003/manifest.json"; *file: its number. */
static Status take_name(Unpacking *u, const TarHeader *h, int *file)
{
    char name[NAME_SIZE + 1], *slash;
    size_t digits;

    snprintf(name, sizeof name, "%.*s", NAME_SIZE, h->name);
    slash = strchr(name, '/');
    digits = strncmp(name, STEP_FOLDER, strlen(STEP_FOLDER)) ? 0 : strspn(name + strlen(STEP_FOLDER), "0123456789");
    if (!slash || h->prefix[0] || !digits || digits > 18 || name + strlen(STEP_FOLDER) + digits != slash)
        return FAIL(E_IO, "a stream: the archive has '%.100s', expected files of a folder " STEP_FOLDER "N", name);
    *slash++ = '\0';
    if (*u->folder && strcmp(u->folder, name) != 0)
        return FAIL(E_IO, "a stream: the archive has files of %s and of %s, expected one checkpoint", u->folder, name);
    snprintf(u->folder, sizeof u->folder, "%s", name);
    for (*file = 0; *file < N_FILES && strcmp(files[*file], slash) != 0;)
        ++*file;
    if (*file < N_FILES ? u->seen[*file] : h->type != '5' || *slash)
        return FAIL(E_IO, "a stream: the archive has '%s/%.60s' %s", u->folder, slash,
                    *file < N_FILES ? "twice" : "which no checkpoint has");
    return ST_OK;
}

static Status copy_file(Unpacking *u, const char *path, const char *name, uint64_t bytes)
{
    enum { ROOM = 1 << 16 };
    char *buffer = malloc(ROOM);
    FILE *f = buffer ? fopen(path, "wbx") : NULL;
    Status st = !buffer ? FAIL_NOMEM() : f ? ST_OK : FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));

    for (uint64_t left = bytes, n; left && !st; left -= n) {
        n = left < ROOM ? left : ROOM;
        st = read_exactly(u, buffer, (size_t)n, NULL, name);
        if (!st && fwrite(buffer, 1, (size_t)n, f) != n)
            st = FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));
    }
    if (!st && padding((int64_t)(bytes % BLOCK)))
        st = read_exactly(u, buffer, padding((int64_t)(bytes % BLOCK)), NULL, name);
    if (f && fclose(f) && !st)
        st = FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));
    free(buffer);
    return st;
}

static Status unpack_entry(Unpacking *u, const TarHeader *h)
{
    char path[PATH_MAX];
    uint64_t bytes;
    int file;

    if (memcmp(h->magic, "ustar", 5) != 0 || strtoul(h->checksum, NULL, 8) != sum_of(h))
        return FAIL(E_IO, "a stream: expected the header of a file of a tar archive before byte %" PRIu64, u->read);
    TRY(read_size(&bytes, h));
    TRY(take_name(u, h, &file));
    if (h->type == '5' && !bytes) /* the folder itself */
        return ST_OK;
    if ((h->type != '0' && h->type) || file == N_FILES)
        return FAIL(E_IO, "a stream: the archive has something else than files in %s", u->folder);
    if (snprintf(path, sizeof path, "%s/%s", u->directory, u->folder) >= (int)sizeof path - 64)
        return FAIL(E_IO, "%.60s...: the path is too long", u->directory);
    if (mkdir(path, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
    strcat(strcat(path, "/"), files[file]);
    u->seen[file] = true;
    return copy_file(u, path, files[file], bytes);
}

static bool is_zero(const TarHeader *h)
{
    const char *p = (const char *)h;

    for (int i = 0; i < BLOCK; i++)
        if (p[i])
            return false;
    return true;
}

Status checkpoint_unpack(FILE *from, const char *directory, int64_t *step)
{
    Unpacking u = { .from = from, .directory = directory };
    bool ended = false, zeros = false;
    TarHeader h;

    for (;;) {
        TRY(read_exactly(&u, &h, BLOCK, &ended, "a header"));
        if (ended)
            break;
        if (zeros && !is_zero(&h))
            return FAIL(E_IO, "a stream: something follows the end of the archive before byte %" PRIu64, u.read);
        if (!zeros && !(zeros = is_zero(&h)))
            TRY(unpack_entry(&u, &h));
    }
    if (!zeros)
        return FAIL(E_IO, "a stream: it ends at byte %" PRIu64 ", before the end of the archive", u.read);
    for (int i = 0; i < N_FILES; i++)
        if (!u.seen[i])
            return FAIL(E_IO, "a stream: the archive has no %s", files[i]);
    *step = strtoll(u.folder + strlen(STEP_FOLDER), NULL, 10);
    return ST_OK;
}

void checkpoint_unpack_remove(const char *directory)
{
    char path[PATH_MAX];
    struct dirent *e;
    DIR *d = opendir(directory);

    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, STEP_FOLDER, strlen(STEP_FOLDER)) != 0)
            continue;
        for (int i = 0; i < N_FILES; i++) {
            snprintf(path, sizeof path, "%s/%s/%s", directory, e->d_name, files[i]);
            unlink(path);
        }
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        rmdir(path);
    }
    if (d)
        closedir(d);
    rmdir(directory);
}
