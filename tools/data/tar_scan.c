/* Reader of the headers of tar archives (see the header).
 *
 * libarchive understands the ustar, GNU and PAX forms of names and sizes.  It reads the archive in memory, so that a
 * file's bytes are where its reader stands behind the header. */
#include "tools/data/tar_scan.h"

#ifdef DPX_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <string.h>

enum { BLOCK = 512 };

/* How the archive is compressed; NULL: it is not. */
static const char *compression_of(const Mapped *m)
{
    static const struct {
        const char *begins, *name;
    } known[] = { { "\x1f\x8b", "gzip" },
                  { "BZh", "bzip2" },
                  { "\xfd"
                    "7zXZ",
                    "xz" },
                  { "\x28\xb5\x2f\xfd", "zstd" } };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (m->size > strlen(known[i].begins) && !memcmp(m->data, known[i].begins, strlen(known[i].begins)))
            return known[i].name;
    return NULL;
}

static bool is_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

static const char *name_of(struct archive_entry *e)
{
    const char *name = archive_entry_pathname_utf8(e); /* NULL: the name is no UTF-8 */

    name = name ? name : archive_entry_pathname(e);
    return name ? name : "";
}

/* Checks a member that is no folder, and gives it on; *end: where it ends. */
static Status take_entry(struct archive *a, struct archive_entry *e, size_t *end, const Mapped *m, const char *path,
                         TarFile *take, void *user)
{
    const char *name = name_of(e);
    const int64_t at = archive_filter_bytes(a, 0), size = archive_entry_size(e);

    if (!*name)
        return FAIL(E_IO, "%s: the member at byte %" PRId64 " has no name", path, archive_read_header_position(a));
    if (archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e))
        return FAIL(E_IO, "%s: member '%s' is a link or a device; pack files: tar --dereference --hard-dereference",
                    path, name);
    if (archive_entry_sparse_count(e))
        return FAIL(E_IO, "%s: member '%s' is a sparse file; pack it without --sparse", path, name);
    if (at < 0 || (uint64_t)at > m->size || size < 0 || (uint64_t)size > m->size - (uint64_t)at)
        return FAIL(E_IO, "%s: member '%s' should have %" PRId64 " bytes, and the archive ends after %" PRId64, path,
                    name, size, (int64_t)m->size - at);
    *end = (size_t)at + (size_t)size + (BLOCK - (size_t)size % BLOCK) % BLOCK;
    return take(user, name, m->data + at, (size_t)size);
}

/* Looks at what is behind the last member. */
static Status check_end(bool *ended, size_t end, const Mapped *m, const char *path)
{
    const size_t rest = end < m->size ? m->size - end : 0;

    *ended = rest >= BLOCK && is_zero(m->data + end, BLOCK);
    if (rest && !is_zero(m->data + end, rest))
        return FAIL(E_IO, "%s: data follows the end of the archive; join archives with tar --concatenate", path);
    return ST_OK;
}

static Status scan(struct archive *a, bool *ended, const Mapped *m, const char *path, TarFile *take, void *user)
{
    struct archive_entry *e;
    size_t end = 0;
    int code;

    archive_read_support_format_tar(a);
    code = archive_read_open_memory(a, m->data, m->size);
    while (code == ARCHIVE_OK || code == ARCHIVE_WARN) { /* names that this locale does not know are a warning */
        code = archive_read_next_header(a, &e);
        if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
            break;
        if (archive_entry_filetype(e) == AE_IFDIR)
            end = (size_t)archive_filter_bytes(a, 0);
        else
            TRY(take_entry(a, e, &end, m, path, take, user));
    }
    if (code != ARCHIVE_EOF)
        return FAIL(E_IO, "%s: %s tar archive: %s (at byte %" PRId64 " of %zu)", path, end ? "broken" : "no",
                    archive_error_string(a) ? archive_error_string(a) : "unknown error", archive_filter_bytes(a, 0),
                    m->size);
    return check_end(ended, end, m, path);
}

Status tar_scan(bool *ended, const Mapped *m, const char *path, TarFile *take, void *user)
{
    const char *compressed = compression_of(m);
    struct archive *a;
    Status st;

    if (compressed)
        return FAIL(E_IO, "%s: compressed by %s; decompress it, because samples are read in any order", path,
                    compressed);
    if (!(a = archive_read_new()))
        return FAIL_NOMEM();
    st = scan(a, ended, m, path, take, user);
    archive_read_free(a);
    return st;
}

#else

Status tar_scan(bool *ended, const Mapped *m, const char *path, TarFile *take, void *user)
{
    (void)ended, (void)m, (void)take, (void)user;
    return FAIL(E_UNSUPPORTED, "%s: dpexec was built without libarchive; install libarchive-dev and build it again",
                path);
}

#endif
