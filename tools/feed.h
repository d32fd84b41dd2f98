/* Which array of a data set feeds which input of the model. */
#ifndef DPX_TOOLS_FEED_H
#define DPX_TOOLS_FEED_H

#include "tools/args.h"
#include "tools/digest.h"
#include "tools/progress.h"

typedef struct {
    const char *flag, *source; /* where it is from: --flag source */
    Dataset *data;
    const dpx_model *model; /* lent */
    Share share;
    Field field[MAX_FIELDS];
    int n;
    const char *target;   /* the name of the target input, NULL when the loss needs none */
    const Array *guessed; /* feeds the model's only input without having its name; NULL: none */
    bool adds_up;         /* the loss of several batches is the sum of theirs */
    bool lacks;           /* arrays for inputs that only losses of the model's own may need */
} Feed;

/* Of every command that opens data. */
#define SEQUENCE_FLAGS                                                                                              \
    { "padding", "NAME=VALUE", "what sequences of unequal length are padded with, for each input [0]" },            \
        { "pad-multiple", "N", "pad sequences to a multiple of so many positions [1]" },                            \
        { "lengths", "INPUT[=ARRAY]", "an input of the model that is told how long each sequence is" },             \
        { "mask", "INPUT[=ARRAY]", "an input that has 1 at what sequences have, and 0 at their padding" },          \
    {                                                                                                               \
        "padding-mask", "INPUT[=ARRAY]", "an input that has 1 at the padding of sequences, and 0 at what they have" \
    }

/* Opens the flag's data set alone, which feed_open then takes. */
Status feed_read(Feed *f, const Args *a, const char *flag) CHECKED;
/* Opens the flag's data set (--data or --val; --mean and --std apply to idx images) and matches its arrays to the
 * model's inputs by name.  A model's only input, where none has its name, is fed by an idx pair's images, or by the one
 * array besides the target that fits, which `log` is told (NULL: nobody).  The array named by --target, else the one
 * array left over, becomes the target.  E_INVALID lists every input without an array, with the arrays that there are,
 * and every array that does not fit.  Whether integers hold what becomes integers is looked for in the samples of the
 * share: other processes look at the rest. */
Status feed_open(Feed *out, const Args *a, const char *flag, const dpx_model *model, Share share,
                 Progress *log) CHECKED;
void feed_close(Feed *f);
/* Takes over a set of arrays, and names (which describe, and have no data) of inputs that are given otherwise: arrays
 * that are sequences, and what the model is told of them, become fields.  E_INVALID lists what does not fit; `what`
 * stands in front. */
Status feed_sequences(Feed *out, const Args *a, const dpx_model *model, Dataset *data, const char *what,
                      Progress *log) CHECKED;
/* Puts the file's name and the number of the sample that it is about in front of a failure of this batch, if it is
 * about one. */
Status feed_name_sample(Status st, const Feed *f, const Loader *l, const Batch *b);
/* Tells the options the shapes that a batch's inputs will have, the largest of them, where the model leaves them open
 * and
 * --input-shape does not say. */
Status feed_input_shapes(const Args *a, const Feed *f, int64_t batch_size) CHECKED;
/* Tells the options the shape that a batch's targets will have, before feed_input_shapes. */
Status feed_target_shape(const Args *a, const Feed *f, int64_t batch_size) CHECKED;

/* Whether an input takes the array whole: as the model says, and where it leaves that open as the array's shape does,
 * which the options are then told.  `samples`: how many there are (feed_samples). */
bool feed_is_whole(const Feed *f, const Args *a, const dpx_info *in, const Array *array, int64_t samples,
                   Problems *wrong);
/* How many samples the data have: as many as the arrays of inputs that carry the batch, or of the target. */
int64_t feed_samples(const Feed *f, const Args *a);
/* E_IO: arrays that are no whole ones have unlike numbers of samples; else those are what the data have. */
Status feed_check_samples(Feed *f, const char *source) CHECKED;
/* Inputs that may have been meant otherwise. */
void feed_say_roles(const Feed *f, const Args *a, Progress *log);
/* E_INVALID: an input tells the samples apart, and they are shuffled, or are more than one batch.  A feed that is not
 * open is right. */
Status feed_check_order(const Feed *f, const Args *a, int64_t batch_size, bool shuffled) CHECKED;

/* E_INVALID: the target's array has another name than in the training data; the model has one input for both. */
Status feed_check_target(const Feed *f, const Feed *train) CHECKED;

/* What an input that no array feeds is told of sequences (tools/feed_sequences.c): false: nothing.  `of`: which
 * array's, NULL: not said. */
bool feed_tells(FieldKind *kind, const char **of, const Feed *f, const Args *a, const char *input);
/* The fields of such inputs, behind all others; and to what sequences are padded, with what. */
void feed_add_sequences(Feed *f, const Args *a, Problems *wrong);
/* Which inputs tell of sequences; warnings where none does, and of more lengths than programs are kept. */
void feed_say_sequences(const Feed *f, const Args *a, Progress *log);
/* Appends it, if it is right. */
void feed_add(Feed *f, Field field, Problems *wrong);

/* The model's input of this name; false when it has none. */
bool feed_input(dpx_info *out, const dpx_model *m, const char *name);

/* The type in which a run with these options takes an input of type `t`: --dtype is that of every float. */
dpx_dtype feed_dtype(const Args *a, dpx_dtype t);

/* The axis of an input, or of the target, along which the samples are, of an array of that rank; outside of it where
 * --batch-input says so. */
int feed_axis(const dpx_model *m, const Args *a, const char *name, int rank);

/* --class-weights FILE.npy goes into the options, and its digest, "" without the flag, into `digest` unless that is
 * NULL. */
Status feed_class_weights(const Args *a, char digest[DIGEST_TEXT]) CHECKED;

#endif
