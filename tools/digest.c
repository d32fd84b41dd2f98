/* XXH3 over types, shapes and bytes: cheap beside one pass of training, and enough against mistakes. */
#include "tools/digest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { CHUNK = 1 << 16, CHUNKS = 1024 };

/* All of a small array; of a large one as many chunks as would be 64 MiB, evenly spread. */
static void add_data(XXH3_state_t *state, const Array *a)
{
    size_t bytes = (size_t)a->dim[0] * array_sample_elements(a) * dpx_dtype_size(a->dtype);

    if (bytes <= (size_t)CHUNK * CHUNKS) {
        XXH3_64bits_update(state, a->data, bytes);
        return;
    }
    for (size_t i = 0; i < CHUNKS; i++)
        XXH3_64bits_update(state, a->data + (bytes - CHUNK) / (CHUNKS - 1) * i, CHUNK);
}

static void add_array(XXH3_state_t *state, const char *name, const Array *a)
{
    const double scaling[] = { a->scale, a->mean, a->std };
    const unsigned char swapped = a->swapped;

    XXH3_64bits_update(state, name, strlen(name) + 1);
    XXH3_64bits_update(state, &a->dtype, sizeof a->dtype);
    XXH3_64bits_update(state, &swapped, sizeof swapped);
    XXH3_64bits_update(state, scaling, sizeof scaling);
    XXH3_64bits_update(state, a->dim, (size_t)a->rank * sizeof *a->dim);
    add_data(state, a);
}

Status digest_fields(char text[DIGEST_TEXT], const Field *field, int n)
{
    XXH3_state_t *state = XXH3_createState();

    if (!state)
        return FAIL_NOMEM();
    XXH3_64bits_reset(state);
    for (int i = 0; i < n; i++)
        add_array(state, field[i].name, field[i].array);
    snprintf(text, DIGEST_TEXT, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    return ST_OK;
}

Status digest_file(char text[DIGEST_TEXT], const char *path)
{
    XXH3_state_t *state = XXH3_createState();
    FILE *f = path && *path ? fopen(path, "rb") : NULL;
    char part[1 << 14];
    Status st = state ? ST_OK : FAIL_NOMEM();
    size_t n;

    *text = '\0';
    if (!st && path && *path && !f)
        st = FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    if (!st && f) {
        XXH3_64bits_reset(state);
        while ((n = fread(part, 1, sizeof part, f)))
            XXH3_64bits_update(state, part, n);
        if (ferror(f))
            st = FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
        else
            snprintf(text, DIGEST_TEXT, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
    }
    if (f)
        fclose(f);
    XXH3_freeState(state);
    return st;
}
