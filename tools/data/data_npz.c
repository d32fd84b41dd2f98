/* .npz: a zip archive of .npy files, opened with libzip.  Members that are stored uncompressed are read in place,
 * others are unpacked into unnamed temporary files. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "tools/data/data.h"
#include "tools/data/zip_stored.h"

enum { MAX_MEMBERS = 4096 /* of one archive */, CHUNK = 1 << 18 };

/* Reads a chunk of the member, or the rest of it. */
static Status read_chunk(char *buf, size_t *n, zip_file_t *from, const char *label)
{
    zip_int64_t got = 1;

    for (*n = 0; *n < CHUNK && got > 0; *n += (size_t)got)
        if ((got = zip_fread(from, buf + *n, CHUNK - *n)) < 0)
            return FAIL(E_IO, "%s: damaged: %s", label, zip_file_strerror(from));
    return ST_OK;
}

/* Unpacks a member.  Its length by the array's header, which lies in the first chunk, must be that in the archive, and
 * that of the data. */
static Status copy_member(FILE **out, zip_file_t *from, char *buf, uint64_t by_archive, const char *label)
{
    uint64_t length, done = 0;
    FILE *to;
    size_t n;
    Status st;

    TRY(read_chunk(buf, &n, from, label));
    TRY(npy_length(&length, (const unsigned char *)buf, n, label));
    if (length != by_archive)
        return FAIL(E_IO, "%s: the array has %" PRIu64 " bytes by its header, %" PRIu64 " by the archive", label,
                    length, by_archive);
    TRY(temporary_open(&to, length, label));
    for (st = ST_OK; !st && n; st = st ? st : read_chunk(buf, &n, from, label))
        if ((done += n) > length)
            st = FAIL(E_IO, "%s: unpacks to more than the %" PRIu64 " bytes that its header asks for", label, length);
        else if (fwrite(buf, 1, n, to) != n)
            st = FAIL(E_IO, "%s: cannot unpack into a temporary file: %s", label, strerror(errno));
    if (st)
        fclose(to);
    else
        *out = to;
    return st;
}

/* Unpacks member i and maps it; *read: the bytes of the archive that it takes. */
static Status unpack_member(Mapped *out, int64_t *read, zip_t *archive, zip_uint64_t i, const char *label)
{
    zip_stat_t about;
    zip_file_t *member;
    char *buf;
    FILE *f = NULL;
    Status st;

    if (zip_stat_index(archive, i, 0, &about) || !(about.valid & ZIP_STAT_SIZE))
        return FAIL(E_IO, "%s: the archive does not say how long it is", label);
    if (!(member = zip_fopen_index(archive, i, 0)))
        return FAIL(E_IO, "%s: cannot open: %s", label, zip_strerror(archive));
    buf = malloc(CHUNK);
    st = buf ? copy_member(&f, member, buf, about.size, label) : FAIL_NOMEM();
    free(buf);
    zip_fclose(member);
    *read = (int64_t)(about.valid & ZIP_STAT_COMP_SIZE ? about.comp_size : about.size);
    return st ? st : map_stream(out, f, label);
}

/* Reads member i in place; *found: it is stored uncompressed, row by row. */
static Status view_member(bool *found, Array *a, Dataset *d, zip_t *archive, zip_uint64_t i, const char *path,
                          const char *label)
{
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_CRC | ZIP_STAT_COMP_METHOD;
    zip_stat_t about;
    const uint8_t *at;
    Array seen = *a;
    bool fortran;

    *found = false;
    if (zip_stat_index(archive, i, 0, &about) || (about.valid & needed) != needed || about.comp_method != ZIP_CM_STORE)
        return ST_OK;
    if (!d->archive.data)
        TRY(mapped_open(&d->archive, path));
    if (!zip_stored(&at, &d->archive, i, about.size, about.crc))
        return ST_OK;
    TRY(npy_view(&seen, &fortran, at, (size_t)about.size, label));
    if (fortran)
        return ST_OK;
    *a = seen;
    a->summed = (Mapped){ at, (size_t)about.size };
    a->checksum = about.crc;
    *found = true;
    return ST_OK;
}

static Status add_member(Dataset *d, zip_t *archive, zip_uint64_t i, const char *path)
{
    const char *name = zip_get_name(archive, i, 0);
    size_t len = name ? strlen(name) : 0;
    Array a = { 0 };
    char label[1024];
    bool found;

    if (len < 5 || strcmp(name + len - 4, ".npy"))
        return FAIL(E_IO, "%s: member '%s' is not a .npy file", path, name ? name : "");
    snprintf(label, sizeof label, "%s: %s", path, name);
    TRY(view_member(&found, &a, d, archive, i, path, label));
    if (!found) {
        TRY(unpack_member(&a.map, &a.unpacked, archive, i, label));
        TRY(npy_parse(&a, label));
    }
    if (!(a.name = strndup(name, len - 4))) {
        mapped_close(&a.map);
        return FAIL_NOMEM();
    }
    return dataset_add(d, &a, path);
}

static Status read_archive(Dataset *d, const Source *s, const SourceContext *c)
{
    const char *path = s->path;
    int why = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &why);
    zip_int64_t n;
    zip_error_t e;
    Status st;

    (void)c;
    if (!archive) {
        zip_error_init_with_code(&e, why);
        st = FAIL(E_IO, "%s: not a .npz archive: %s", path, zip_error_strerror(&e));
        zip_error_fini(&e);
        return st;
    }
    n = zip_get_num_entries(archive, 0);
    st = n > 0 ? ST_OK : FAIL(E_IO, "%s: the archive is empty", path);
    if (n > MAX_MEMBERS)
        st = FAIL(E_IO, "%s: the archive has %lld members, at most %d are read", path, (long long)n, MAX_MEMBERS);
    for (zip_int64_t i = 0; i < n && !st; i++)
        st = add_member(d, archive, (zip_uint64_t)i, path);
    zip_discard(archive);
    return st;
}

DEFINE_DATA_FORMAT(npz, .form = "FILE.npz", .help = "arrays by name; stored or deflated", .suffix = ".npz",
                   .read = read_archive);
