/* Reads .npz archives in memory with libzip (see the header).  Their arrays are read in place, so they must be stored
 * uncompressed, as numpy.savez stores them. */
#include "tools/data/npz_member.h"

#include <stdio.h>
#include <string.h>
#include <zip.h>

#include "tools/data/source.h"
#include "tools/data/zip_stored.h"

/* Opens the archive; zip_discard closes it. */
static Status open_archive(zip_t **out, const Mapped *npz, const char *label)
{
    zip_error_t e;
    zip_source_t *from;
    Status st = ST_OK;

    zip_error_init(&e);
    from = zip_source_buffer_create(npz->data, npz->size, 0, &e);
    *out = from ? zip_open_from_source(from, ZIP_RDONLY, &e) : NULL;
    if (!*out) {
        st = FAIL(E_IO, "%s: not a .npz archive: %s", label, zip_error_strerror(&e));
        zip_source_free(from);
    }
    zip_error_fini(&e);
    return st;
}

Status npz_member_names(const Mapped *npz, const char *label, NpzName *take, void *user)
{
    zip_t *archive;
    Status st;

    TRY(open_archive(&archive, npz, label));
    st = zip_get_num_entries(archive, 0) > 0 ? ST_OK : FAIL(E_IO, "%s: the archive is empty", label);
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0) && !st; i++) {
        const char *name = zip_get_name(archive, (zip_uint64_t)i, 0);
        char array[256];

        if (!name || !ends_with(name, ".npy") || strlen(name) >= sizeof array)
            st = FAIL(E_IO, "%s: member '%s' is not a .npy file", label, name ? name : "");
        else
            snprintf(array, sizeof array, "%.*s", (int)strlen(name) - 4, name);
        st = st ? st : take(user, array);
    }
    zip_discard(archive);
    return st;
}

static Status find_array(Mapped *out, zip_t *archive, const Mapped *npz, const char *name, const char *label)
{
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_CRC | ZIP_STAT_COMP_METHOD;
    char file[260];
    zip_int64_t i;
    zip_stat_t about;

    snprintf(file, sizeof file, "%s.npy", name);
    if ((i = zip_name_locate(archive, file, 0)) < 0)
        return FAIL(E_IO, "%s: has no array '%s'", label, name);
    if (zip_stat_index(archive, (zip_uint64_t)i, 0, &about) || (about.valid & needed) != needed)
        return FAIL(E_IO, "%s: the archive does not say how long array '%s' is", label, name);
    if (about.comp_method != ZIP_CM_STORE)
        return FAIL(E_IO, "%s: array '%s' is compressed; numpy.savez stores arrays as they are", label, name);
    if (!zip_stored(&out->data, npz, (uint64_t)i, about.size, about.crc))
        return FAIL(E_IO, "%s: array '%s' cannot be read in place; write the archive by numpy.savez", label, name);
    out->size = (size_t)about.size;
    return ST_OK;
}

Status npz_member_find(Mapped *out, const Mapped *npz, const char *name, const char *label)
{
    zip_t *archive;
    Status st;

    TRY(open_archive(&archive, npz, label));
    st = find_array(out, archive, npz, name, label);
    zip_discard(archive);
    return st;
}
