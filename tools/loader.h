/* Batches of a data set in seeded order, prepared ahead by a thread. */
#ifndef DPX_TOOLS_LOADER_H
#define DPX_TOOLS_LOADER_H

#include "tools/data.h"

enum { MAX_FIELDS = 64 };

/* One tensor of every batch: which array it comes from and what it becomes. */
typedef struct {
    const char *name; /* of the graph input */
    const Array *array;
    dpx_dtype dtype;
    int axis;   /* of the tensor along which samples lie; of the array it is the first */
    bool split; /* processes share its samples */
} Field;

/* The dimensions of the field's tensor for so many samples; `dim` has room for the array's rank. */
void field_dims(int64_t *dim, const Field *f, int64_t samples);

typedef struct {
    int64_t batch_size;
    bool shuffle, drop_last;
    uint64_t seed;
} LoaderOptions;

typedef struct {
    int64_t index; /* of the batch in its epoch */
    int64_t samples;
    dpx_tensor tensor[MAX_FIELDS]; /* what this process needs of it (loader_share) */
    int n;
    dpx_part part;
    int64_t bytes, file_bytes; /* of samples as the arrays hold them; of those, read in the files that were given */
} Batch;

/* What was taken out of the arrays, as in Batch; file_bytes also counts what was read to unpack them. */
typedef struct {
    int64_t bytes, file_bytes;
} LoaderRead;

typedef struct Loader Loader;

Status loader_create(Loader **out, const Dataset *d, const Field *field, int n, LoaderOptions options) CHECKED;
void loader_free(Loader *l);
int64_t loader_batches(const Loader *l); /* of one epoch */
/* From the next start on, of every batch only the part of it that this process's replicas take (dpx_trainer_part) is
 * read, of the fields that are split. */
Status loader_share(Loader *l, const dpx_trainer *t) CHECKED;
LoaderRead loader_take_read(Loader *l); /* by the batches lent since the last call */
/* Begins epoch `epoch` (counted from 0, it keys the shuffling) at its batch `first`, from 0 to the number of batches;
 * the last gives an epoch without any. */
Status loader_start(Loader *l, int64_t epoch, int64_t first) CHECKED;
/* The number, counted from 0 as the arrays hold them, of the sample that has its element of the batch at this address;
 * -1: none has. */
int64_t loader_sample(const Loader *l, const Batch *b, const void *at);
/* The next batch of the epoch, valid until the next call; NULL after the last. */
const Batch *loader_next(Loader *l);

#endif
