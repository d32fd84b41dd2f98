/* Digests of data: XXH3 over types, shapes and pieces of the bytes.  It costs little beside one pass of training, and
 * is enough against mistakes. */
#include "tools/feed/digest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

/* 64 MiB of pieces at most for a digest, 1 MiB for a probe. */
enum { CHUNK = 1 << 16, CHUNKS = 1024, PROBES = 16 };

/* The sum of the digests of the share's pieces, each of which includes its number; so the sum over all processes does
 * not depend on how pieces are shared.  An array has at most `most` pieces, evenly spread; of sequences they are
 * samples, for bytes between samples do not count. */
static uint64_t sum_pieces(const Array *a, int64_t most, int field, Share share)
{
    const size_t bytes = array_bytes(a);
    const bool all = bytes <= (size_t)CHUNK * (size_t)most;
    const size_t stride = all ? CHUNK : (bytes - CHUNK) / (size_t)(most - 1);
    const int64_t n = a->row ? (a->dim[0] < most ? a->dim[0] : most)
                      : all  ? (int64_t)((bytes + CHUNK - 1) / CHUNK)
                             : most;
    unsigned char *room = NULL;
    uint64_t sum = 0;
    int64_t from, to;

    if (a->fetch) /* one process adds it for all */
        return share.rank ? 0 : XXH3_64bits_withSeed(&a->identity, sizeof a->identity, (uint64_t)field << 32);
    if (a->row && a->file) /* without room the mapping is read */
        room = malloc((size_t)a->dim[1] * array_position_elements(a) * dpx_dtype_size(a->dtype) + 1);
    share_range(share, n, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const int64_t sample = a->row ? i * (a->dim[0] / n) + i * (a->dim[0] % n) / n : 0;
        const size_t at = a->row ? array_sample_at(a, sample) : (size_t)i * stride,
                     left = a->row ? (size_t)array_sample_bytes(a, sample) : bytes - at;

        if (room)
            array_gather(a, &sample, 1, a->dtype, room);
        sum += XXH3_64bits_withSeed(room ? room : a->data + at, left < CHUNK ? left : CHUNK,
                                    ((uint64_t)field << 32) + (uint64_t)i);
    }
    free(room);
    return sum;
}

static void add_header(XXH3_state_t *state, const Field *f)
{
    const Array *a = f->array;
    const double scaling[] = { 1, 0, 1 };
    const int64_t how[] = { (int64_t)f->kind, f->fixed };
    const unsigned char swapped = a->swapped;

    XXH3_64bits_update(state, f->name, strlen(f->name) + 1);
    XXH3_64bits_update(state, &a->dtype, sizeof a->dtype);
    XXH3_64bits_update(state, &swapped, sizeof swapped);
    XXH3_64bits_update(state, a->norm.channels ? &a->norm.scale : scaling, sizeof *scaling);
    for (int i = 0; i < (a->norm.channels ? a->norm.channels : 1); i++) {
        XXH3_64bits_update(state, a->norm.channels ? &a->norm.mean[i] : scaling + 1, sizeof *scaling);
        XXH3_64bits_update(state, a->norm.channels ? &a->norm.std[i] : scaling + 2, sizeof *scaling);
    }
    XXH3_64bits_update(state, a->dim, (size_t)a->rank * sizeof *a->dim);
    if (!a->row)
        return;
    XXH3_64bits_update(state, how, sizeof how); /* not how far batches are padded, which is no property of the data */
    XXH3_64bits_update(state, &f->padding, sizeof f->padding);
    for (int64_t i = 0; i < a->dim[0]; i++)
        XXH3_64bits_update(state, &a->row[i].n, sizeof a->row[i].n);
}

static Status digest_finish(char text[DIGEST_TEXT], const Field *field, int n, uint64_t sum)
{
    XXH3_state_t *state = XXH3_createState();

    if (!state)
        return FAIL_NOMEM();
    XXH3_64bits_reset(state);
    for (int i = 0; i < n; i++)
        add_header(state, &field[i]);
    XXH3_64bits_update(state, &sum, sizeof sum);
    snprintf(text, DIGEST_TEXT, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    return ST_OK;
}

Status digest_fields(char text[DIGEST_TEXT], const Field *field, int n, dpx_world *world, Share share)
{
    uint64_t sum = 0;
    int64_t all;

    for (int i = 0; i < n; i++)
        sum += sum_pieces(field[i].array, CHUNKS, i, share);
    all = (int64_t)sum;
    if (world)
        TRY((Status)dpx_world_sum(world, (int64_t)sum, &all));
    return digest_finish(text, field, n, (uint64_t)all);
}

Status digest_probe(char text[DIGEST_TEXT], const Field *field, int n)
{
    uint64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += sum_pieces(field[i].array, PROBES, i, SHARE_ALL);
    return digest_finish(text, field, n, sum);
}

/* Makes *bits the exclusive or of all processes' bits.  Each of the 32 bits gets a lane of a sum, which has room for
 * the number of processes; the lowest bit of a lane is the exclusive or. */
static Status add_bits(uint32_t *bits, dpx_world *world)
{
    enum { LANE = 9, LANES = 7 };
    uint32_t all = 0;

    for (int from = 0; from < 32; from += LANES) {
        int64_t lanes = 0;

        for (int k = 0; k < LANES && from + k < 32; k++)
            lanes |= (int64_t)(*bits >> (from + k) & 1) << LANE * k;
        TRY((Status)dpx_world_sum(world, lanes, &lanes));
        for (int k = 0; k < LANES && from + k < 32; k++)
            all |= (uint32_t)(lanes >> LANE * k & 1) << (from + k);
    }
    *bits = all;
    return ST_OK;
}

/* Whether all processes have the same checksums to compare.  They have not where their data or its packing differ. */
static Status have_same(bool *same, const Dataset *d, dpx_world *world)
{
    uint64_t hash = 0;
    int64_t most, least;

    for (int i = 0; i < d->n; i++) {
        const uint64_t about[] = { (uint64_t)i, d->array[i].summed.size, d->array[i].checksum };

        hash = d->array[i].summed.size ? XXH3_64bits_withSeed(about, sizeof about, hash) : hash;
    }
    hash >>= 1;
    TRY((Status)dpx_world_max(world, (int64_t)hash, &most));
    TRY((Status)dpx_world_max(world, -(int64_t)hash, &least));
    *same = most == -least;
    return ST_OK;
}

/* The checksum of the whole is the sum of the processes' checksums, each shifted by the bytes behind its share. */
Status digest_check(const Dataset *d, const char *source, dpx_world *world, Share share)
{
    bool same = true;

    if (world)
        TRY(have_same(&same, d, world));
    for (int i = 0; i < d->n; i++) {
        const Array *a = &d->array[i];
        const int64_t bytes = (int64_t)a->summed.size;
        int64_t from, to;
        uint32_t sum;

        if (!bytes || !same)
            continue;
        share_range(share, bytes, &from, &to);
        sum = (uint32_t)crc32_z(0, a->summed.data + from, (size_t)(to - from));
        sum = (uint32_t)crc32_combine(sum, 0, bytes - to);
        if (world)
            TRY(add_bits(&sum, world));
        if (sum != a->checksum)
            return FAIL(E_IO, "%s: %s: damaged: the checksum is not the archive's", source, a->name);
    }
    return ST_OK;
}

void digest_bytes(char text[DIGEST_TEXT], const void *bytes, size_t n)
{
    snprintf(text, DIGEST_TEXT, "%016" PRIx64, (uint64_t)XXH3_64bits(bytes, n));
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
