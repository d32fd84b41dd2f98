/* Batches of a data set in seeded order, prepared ahead by a thread. */
#ifndef DPX_TOOLS_BATCH_LOADER_H
#define DPX_TOOLS_BATCH_LOADER_H

#include "tools/data.h"

enum { MAX_FIELDS = 64 };

/* What a tensor has of its array: the samples; or of sequences how long they are, and where there is something (1) and
 * where there is padding (0), or the other way about. */
typedef enum {
    FIELD_SAMPLES,
    FIELD_LENGTHS,
    FIELD_MASK,
    FIELD_PADDING_MASK,
    FIELD_WHOLE /* all of the array, the same in every batch */
} FieldKind;

/* One tensor of every batch: which array it comes from and what it becomes. */
typedef struct {
    const char *name; /* of the graph input */
    const Array *array;
    dpx_dtype dtype;
    int axis;   /* of the tensor along which samples lie; of the array it is the first */
    bool split; /* processes share its samples */
    /* of sequences, which are padded at their ends to the longest of the batch: */
    FieldKind kind;
    int64_t fixed;    /* to so many positions instead, as the model says; 0: it does not */
    int64_t multiple; /* else to a multiple of this; 0: 1 */
    double padding;
} Field;

/* Of the field's tensor the number of axes; that of positions, -1: there is none; and the dimensions for so many
 * samples, of sequences padded to `length`. */
int field_rank(const Field *f);
int field_length_axis(const Field *f);
void field_dims(int64_t dim[DPX_MAX_RANK], const Field *f, int64_t samples, int64_t length);
/* To what sequences are padded of which the longest has so many positions. */
int64_t field_padded(const Field *f, int64_t longest);
int64_t field_longest(const Field *f); /* that of all samples */

typedef struct {
    int64_t batch_size;
    bool shuffle, drop_last;
    bool group_by_length; /* batches of samples whose sequences have like lengths */
    uint64_t seed;
} LoaderOptions;

typedef struct {
    int64_t index; /* of the batch in its epoch */
    int64_t samples;
    dpx_tensor tensor[MAX_FIELDS]; /* what this process needs of it (loader_share) */
    int n;
    int64_t *length[MAX_FIELDS]; /* [samples] of the whole batch: how long sequences are; NULL: it has none */
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
/* How long the batch's sequences are, for the trainer's next step. */
Status loader_tell_lengths(const Loader *l, const Batch *b, dpx_trainer *t) CHECKED;
/* The next batch of the epoch, valid until the next call; NULL after the last. */
const Batch *loader_next(Loader *l);

#endif
