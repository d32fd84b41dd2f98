/* .npz: a zip archive of .npy files, opened with libzip.  Members are unpacked into unnamed temporary files. */
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "tools/data.h"

static Status copy_member(FILE *to, zip_file_t *from, const char *label)
{
    enum { CHUNK = 1 << 18 };
    char *buf = malloc(CHUNK);
    zip_int64_t n = 0;
    Status st = buf ? ST_OK : FAIL_NOMEM();

    while (!st && (n = zip_fread(from, buf, CHUNK)) > 0)
        if (fwrite(buf, 1, (size_t)n, to) != (size_t)n)
            st = FAIL(E_IO, "%s: cannot unpack into a temporary file", label);
    if (!st && n < 0)
        st = FAIL(E_IO, "%s: damaged: %s", label, zip_file_strerror(from));
    free(buf);
    return st;
}

static Status unpack_member(Mapped *out, zip_t *archive, zip_uint64_t i, const char *label)
{
    zip_file_t *member = zip_fopen_index(archive, i, 0);
    FILE *f = member ? tmpfile() : NULL;
    Status st;

    if (!member)
        return FAIL(E_IO, "%s: cannot open: %s", label, zip_strerror(archive));
    if (!f) {
        zip_fclose(member);
        return FAIL(E_IO, "%s: cannot make a temporary file", label);
    }
    st = copy_member(f, member, label);
    zip_fclose(member);
    if (st) {
        fclose(f);
        return st;
    }
    return map_stream(out, f, label);
}

static Status add_member(Dataset *d, zip_t *archive, zip_uint64_t i, const char *path)
{
    const char *name = zip_get_name(archive, i, 0);
    size_t len = name ? strlen(name) : 0;
    Array a = { .scale = 1, .std = 1 };
    char label[1024];

    if (len < 5 || strcmp(name + len - 4, ".npy"))
        return FAIL(E_IO, "%s: member '%s' is not a .npy file", path, name ? name : "");
    snprintf(label, sizeof label, "%s: %s", path, name);
    TRY(unpack_member(&a.map, archive, i, label));
    TRY(npy_parse(&a, label));
    if (!(a.name = strndup(name, len - 4))) {
        mapped_close(&a.map);
        return FAIL_NOMEM();
    }
    return dataset_add(d, &a, path);
}

Status npz_read(Dataset *d, const char *path)
{
    int why = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &why);
    zip_int64_t n;
    zip_error_t e;
    Status st;

    if (!archive) {
        zip_error_init_with_code(&e, why);
        st = FAIL(E_IO, "%s: not a .npz archive: %s", path, zip_error_strerror(&e));
        zip_error_fini(&e);
        return st;
    }
    n = zip_get_num_entries(archive, 0);
    st = n > 0 ? ST_OK : FAIL(E_IO, "%s: the archive is empty", path);
    for (zip_int64_t i = 0; i < n && !st; i++)
        st = add_member(d, archive, (zip_uint64_t)i, path);
    zip_discard(archive);
    return st;
}
