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
    int axis; /* of the tensor along which samples lie; of the array it is the first */
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
    dpx_tensor tensor[MAX_FIELDS];
    int n;
} Batch;

typedef struct Loader Loader;

Status loader_create(Loader **out, const Dataset *d, const Field *field, int n, LoaderOptions options) CHECKED;
void loader_free(Loader *l);
int64_t loader_batches(const Loader *l); /* of one epoch */
/* Begins epoch `epoch` (counted from 0, it keys the shuffling) at its batch `first`, from 0 to the number of batches;
 * the last gives an epoch without any. */
Status loader_start(Loader *l, int64_t epoch, int64_t first) CHECKED;
/* The number, counted from 0 as the arrays hold them, of the sample that has its element of the batch at this address;
 * -1: none has. */
int64_t loader_sample(const Loader *l, const Batch *b, const void *at);
/* The next batch of the epoch, valid until the next call; NULL after the last. */
const Batch *loader_next(Loader *l);

#endif
