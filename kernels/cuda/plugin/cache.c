/* The cache on disk of compiled code and measurements: one file an entry, "<kind>-<hash of its key>.bin".
 *
 * A file is a header (the key's hash again, the length and hash of what follows) and the bytes.  It is written under a
 * name of its own and renamed: readers never see half of it, and the last of several writers of the same key wins. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "graph/base/folders.h"
#include "kernels/cuda/plugin/plugin.h"

enum { PATH_SIZE = 4096, ENTRY_MAX = 1 << 30 };

typedef struct {
    char magic[8];
    uint64_t key_low, key_high;
    uint64_t bytes, check;
} EntryHeader;
static const char MAGIC[8] = { 'd', 'p', 'x', 'c', 'a', 'c', 'h', '1' };

static EntryHeader header_of(const void *key, size_t n_key, const void *data, size_t n)
{
    XXH128_hash_t k = XXH3_128bits(key, n_key);
    EntryHeader h = { .key_low = k.low64, .key_high = k.high64, .bytes = n, .check = XXH3_64bits(data, n) };

    memcpy(h.magic, MAGIC, sizeof MAGIC);
    return h;
}

/* The path of an entry; false when it is too long. */
static bool entry_path(char path[PATH_SIZE], const GpuDevice *d, const char *kind, const void *key, size_t n_key,
                       const char *ending)
{
    XXH128_hash_t k = XXH3_128bits(key, n_key);
    int n = snprintf(path, PATH_SIZE, "%s/%s-%016llx%016llx.%s", d->cache_dir, kind, (unsigned long long)k.high64,
                     (unsigned long long)k.low64, ending);

    return n > 0 && n < PATH_SIZE;
}

static bool read_all(int fd, void *to, size_t n)
{
    for (char *p = to; n;) {
        ssize_t got = read(fd, p, n);

        if (got <= 0) {
            if (got < 0 && errno == EINTR)
                continue;
            return false;
        }
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *from, size_t n)
{
    for (const char *p = from; n;) {
        ssize_t put = write(fd, p, n);

        if (put <= 0) {
            if (put < 0 && errno == EINTR)
                continue;
            return false;
        }
        p += put;
        n -= (size_t)put;
    }
    return true;
}

/* The entry's bytes, malloc'ed, with a zero after them; NULL when there is none that is whole.  `*st`: E_NOMEM at
 * most. */
static void *read_entry(int fd, const void *key, size_t n_key, size_t *n, Status *st)
{
    EntryHeader h, expected;
    struct stat info;
    void *data;

    if (fstat(fd, &info) || !S_ISREG(info.st_mode) || !read_all(fd, &h, sizeof h) || h.bytes > ENTRY_MAX ||
        (uint64_t)info.st_size != sizeof h + h.bytes)
        return NULL;
    if (!(data = calloc(1, h.bytes + 1))) {
        *st = FAIL_NOMEM();
        return NULL;
    }
    if (read_all(fd, data, h.bytes)) {
        expected = header_of(key, n_key, data, h.bytes);
        if (!memcmp(&h, &expected, sizeof h)) {
            *n = h.bytes;
            return data;
        }
    }
    free(data);
    return NULL;
}

Status cache_read(const GpuDevice *d, const char *kind, const void *key, size_t n_key, void **out, size_t *n)
{
    char path[PATH_SIZE];
    Status st = ST_OK;
    int fd;

    *out = NULL;
    *n = 0;
    if (!d->cache_dir || !entry_path(path, d, kind, key, n_key, "bin") ||
        (fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return ST_OK;
    *out = read_entry(fd, key, n_key, n, &st);
    close(fd);
    return st;
}

void cache_write(const GpuDevice *d, const char *kind, const void *key, size_t n_key, const void *data, size_t n)
{
    char path[PATH_SIZE], draft[PATH_SIZE];
    EntryHeader h;
    bool written;
    int fd;

    if (!d->cache_dir || n > ENTRY_MAX || !entry_path(path, d, kind, key, n_key, "bin") ||
        !entry_path(draft, d, kind, key, n_key, "XXXXXX"))
        return;
    if (make_folders(d->cache_dir) || (fd = mkstemp(draft)) < 0)
        return;
    h = header_of(key, n_key, data, n);
    written = write_all(fd, &h, sizeof h) && write_all(fd, data, n) && !fchmod(fd, 0644);
    if (close(fd) || !written || rename(draft, path))
        (void)unlink(draft);
}
