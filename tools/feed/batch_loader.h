/* Batches of a data set in seeded order, prepared ahead by threads. */
#ifndef DPX_TOOLS_BATCH_LOADER_H
#define DPX_TOOLS_BATCH_LOADER_H

#include "tools/data/data.h"

enum { MAX_FIELDS = 64 };

/* The content of a tensor. */
typedef enum {
    FIELD_SAMPLES,
    FIELD_LENGTHS,      /* the length of each sequence */
    FIELD_MASK,         /* 1 at the positions of a sequence, 0 at its padding */
    FIELD_PADDING_MASK, /* 0 at the positions of a sequence, 1 at its padding */
    FIELD_WHOLE         /* all of the array, the same in every batch */
} FieldKind;

/* One tensor of every batch, and the array that it comes from. */
typedef struct {
    const char *name; /* of the graph input */
    const Array *array;
    dpx_dtype dtype;
    int axis;   /* along which samples lie in the tensor; in the array they lie along the first */
    bool split; /* each process reads a part of the samples */
    FieldKind kind;
    /* Sequences are padded at their ends to the longest of the batch, rounded up to `multiple` (0: 1), or to `fixed`
     * positions where the model fixes that (0: it does not). */
    int64_t fixed, multiple;
    double padding;
} Field;

int field_rank(const Field *f);        /* axes of the tensor */
int field_length_axis(const Field *f); /* the axis of positions; -1: there is none */
/* The tensor's dimensions for `samples` samples, with sequences padded to `length`. */
void field_dims(int64_t dim[DPX_MAX_RANK], const Field *f, int64_t samples, int64_t length);
/* The length to which sequences are padded when the longest has `longest` positions. */
int64_t field_padded(const Field *f, int64_t longest);
int64_t field_longest(const Field *f); /* the same for all samples */

/* The samples of each class: those of class c are sample[begin[c]], ..., sample[begin[c + 1] - 1]. */
typedef struct {
    int64_t classes;
    int64_t *begin;  /* [classes + 1] */
    int64_t *sample; /* numbers in the data set's order of samples */
} Strata;

typedef struct {
    int64_t batch_size;
    bool shuffle, drop_last;
    bool group_by_length; /* put samples of similar length into a batch */
    uint64_t seed;
    int64_t most_batches;   /* full batches of an epoch, of samples that lie evenly over the data; 0: all batches.  Only
                             * without `shuffle` */
    bool training;          /* samples are made for training (SampleKey) */
    int workers;            /* threads that fill batches; 0: 1.  Their number changes no byte */
    const Strata *balanced; /* draw samples with replacement, each class as often as any other; NULL: take each once */
    dpx_log_fn *log;        /* gets a line for each of the first broken samples; NULL: none */
    void *user;
} LoaderOptions;

typedef struct {
    int64_t index; /* of the batch in its epoch */
    int64_t samples;
    dpx_tensor tensor[MAX_FIELDS]; /* the part that this process needs (loader_share) */
    int n;
    int64_t *length[MAX_FIELDS]; /* [samples] lengths of sequences in the whole batch; NULL: the field has none */
    dpx_part part;
    int64_t bytes, file_bytes; /* of samples in the arrays; of these, bytes read from the given files */
} Batch;

/* Bytes read, as in Batch; file_bytes includes those read to unpack files, but not those of samples that are made. */
typedef struct {
    int64_t bytes, file_bytes;
} LoaderRead;

typedef struct Loader Loader;

/* Creates a loader of the n fields.  The data set is lent, the fields are copied. */
Status loader_create(Loader **out, const Dataset *d, const Field *field, int n, LoaderOptions options) CHECKED;
void loader_free(Loader *l);
int64_t loader_batches(const Loader *l); /* of one epoch */
/* The samples of an epoch in batches of that size, at most `most` of them (0: all), from `all` samples. */
int64_t loader_epoch_samples(int64_t all, int64_t batch_size, int64_t most);
/* Makes the loader read, from the next loader_start on, only the part of each batch that this process's replicas take
 * (dpx_trainer_part), of the fields that are split. */
Status loader_share(Loader *l, const dpx_trainer *t) CHECKED;
/* The same for given parts of a full batch and of the last, smaller one. */
void loader_take_part(Loader *l, dpx_part full, dpx_part last);
LoaderRead loader_take_read(Loader *l); /* of the batches lent since the last call */
/* Begins epoch `epoch`, from 0, at its batch `first`, from 0 to the number of batches; with that number the epoch has
 * no batch.  The epoch and the seed determine the order. */
Status loader_start(Loader *l, int64_t epoch, int64_t first) CHECKED;
/* The row in the arrays of the sample with an element at address `at` of the batch; -1: none
 * has. */
int64_t loader_sample(const Loader *l, const Batch *b, const void *at);
/* Gives the lengths of the batch's sequences to the trainer, for its next step. */
Status loader_give_lengths(const Loader *l, const Batch *b, dpx_trainer *t) CHECKED;
/* The next batch of the epoch, valid until the next call; NULL after the last, and when a sample could not be made,
 * which loader_status tells. */
const Batch *loader_next(Loader *l);
Status loader_status(const Loader *l) CHECKED;
int64_t loader_replaced(const Loader *l); /* broken samples of the batches lent so far, in whose place others came */

#endif
