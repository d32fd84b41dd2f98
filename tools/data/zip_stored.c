/* Finds uncompressed members of zip archives.  libzip reads and checks archives, but does not say where a member lies.
 * So the directory is read a second time (PKWARE's APPNOTE.TXT, 4.3), for archives of one file without a comment, as
 * numpy writes them.  Every number is compared with the file's length; anything unexpected means that nothing is
 * found. */
#include "tools/data/zip_stored.h"

#include <string.h>

enum { END = 22, END_64 = 56, LOCATOR_64 = 20, ENTRY = 46, LOCAL = 30, EXTRA = 4, ZIP64 = 1, ENCRYPTED = 1 };

static uint64_t zip_stored_number(const uint8_t *p, int bytes)
{
    uint64_t n = 0;

    while (bytes--)
        n = n << 8 | p[bytes];
    return n;
}

/* The stretch [at, at + bytes) of the first `limit` bytes. */
static bool zip_stored_take(Mapped *out, const Mapped *f, uint64_t at, uint64_t bytes, uint64_t limit)
{
    if (at > limit || bytes > limit - at)
        return false;
    *out = (Mapped){ f->data + at, bytes };
    return true;
}

/* All entries of the directory, which are *n. */
static bool find_directory(Mapped *out, uint64_t *n, const Mapped *f)
{
    const uint64_t limit = f->size < END ? 0 : f->size - END;
    const uint8_t *end = f->data + limit;
    Mapped found;

    if (f->size < END || memcmp(end, "PK\5\6", 4) || zip_stored_number(end + 20, 2))
        return false;
    *n = zip_stored_number(end + 10, 2);
    if (*n < 0xffff && zip_stored_number(end + 12, 4) < 0xffffffff && zip_stored_number(end + 16, 4) < 0xffffffff)
        return zip_stored_take(out, f, zip_stored_number(end + 16, 4), zip_stored_number(end + 12, 4), limit);
    if (limit < LOCATOR_64 || memcmp(end - LOCATOR_64, "PK\6\7", 4) ||
        !zip_stored_take(&found, f, zip_stored_number(end - LOCATOR_64 + 8, 8), END_64, limit - LOCATOR_64) ||
        memcmp(found.data, "PK\6\6", 4))
        return false;
    *n = zip_stored_number(found.data + 32, 8);
    return zip_stored_take(out, f, zip_stored_number(found.data + 48, 8), zip_stored_number(found.data + 40, 8),
                           (uint64_t)(found.data - f->data));
}

/* Reads those of an entry's three numbers that have no room in it, from the extra field, where they stand in this
 * order.
 */
static bool read_wide(uint64_t *const number_of[3], Mapped extra)
{
    while (extra.size >= EXTRA) {
        const uint64_t bytes = zip_stored_number(extra.data + 2, 2);
        uint64_t at = EXTRA;

        if (bytes > extra.size - EXTRA)
            return false;
        for (int k = 0; zip_stored_number(extra.data, 2) == ZIP64 && k < 3; k++)
            if (*number_of[k] == 0xffffffff) {
                if (at + 8 > EXTRA + bytes)
                    return false;
                *number_of[k] = zip_stored_number(extra.data + at, 8);
                at += 8;
            }
        extra.data += EXTRA + bytes;
        extra.size -= EXTRA + bytes;
    }
    return true;
}

/* Entry `index`, with its name and extra field. */
static bool find_entry(Mapped *out, Mapped directory, uint64_t index)
{
    for (uint64_t k = 0;; k++) {
        const uint8_t *e = directory.data;
        uint64_t bytes;

        if (directory.size < ENTRY || memcmp(e, "PK\1\2", 4))
            return false;
        bytes = ENTRY + zip_stored_number(e + 28, 2) + zip_stored_number(e + 30, 2) + zip_stored_number(e + 32, 2);
        if (bytes > directory.size)
            return false;
        if (k == index) {
            *out = (Mapped){ e, bytes };
            return true;
        }
        directory.data += bytes;
        directory.size -= bytes;
    }
}

/* Whether a member is neither encrypted nor compressed.  `about` points to the flags and the method, which are in an
 * entry (at 8) and before the member (at 6). */
static bool is_stored(const uint8_t *about)
{
    return !(zip_stored_number(about, 2) & ENCRYPTED) && !zip_stored_number(about + 2, 2);
}

bool zip_stored(const uint8_t **out, const Mapped *archive, uint64_t index, uint64_t size, uint32_t crc)
{
    Mapped directory, entry, local, member;
    uint64_t n, packed, unpacked, at, name;

    if (!find_directory(&directory, &n, archive) || index >= n || !find_entry(&entry, directory, index))
        return false;
    packed = zip_stored_number(entry.data + 20, 4);
    unpacked = zip_stored_number(entry.data + 24, 4);
    at = zip_stored_number(entry.data + 42, 4);
    name = ENTRY + zip_stored_number(entry.data + 28, 2);
    if (!read_wide((uint64_t *const[]){ &unpacked, &packed, &at },
                   (Mapped){ entry.data + name, zip_stored_number(entry.data + 30, 2) }) ||
        !is_stored(entry.data + 8) || zip_stored_number(entry.data + 16, 4) != crc || packed != size ||
        unpacked != size || !zip_stored_take(&local, archive, at, LOCAL, (uint64_t)(directory.data - archive->data)) ||
        memcmp(local.data, "PK\3\4", 4) || !is_stored(local.data + 6) ||
        !zip_stored_take(&member, archive,
                         at + LOCAL + zip_stored_number(local.data + 26, 2) + zip_stored_number(local.data + 28, 2),
                         size, (uint64_t)(directory.data - archive->data)))
        return false;
    *out = member.data;
    return true;
}
