/* Feeds: which array of a data set goes to which input of the model. */
#ifndef DPX_TOOLS_FEED_H
#define DPX_TOOLS_FEED_H

#include "tools/args.h"
#include "tools/feed/digest.h"
#include "tools/progress.h"

typedef struct {
    const char *flag, *source; /* the data set was given as --flag source */
    Dataset *data;
    Dataset *held;          /* the samples that --val-split holds back, until feed_take_held; NULL: none */
    json_t *fitted;         /* the facts that sources fitted (SourceContext); NULL: not read yet */
    const dpx_model *model; /* lent */
    Share share;
    dpx_world *world; /* of training by several processes: rank 0 fits the source, and the others take it; lent */
    Field field[MAX_FIELDS];
    int n;
    const char *target;   /* the name of the target input, NULL when the loss needs none */
    const Array *guessed; /* feeds the model's only input, though it has another name; NULL: none */
    bool adds_up;         /* the losses of batches are sums, not means */
    bool lacks;           /* there is no array for some inputs, which only the model's own loss may need */
} Feed;

/* The flags for sequences, of every command that opens data. */
#define SEQUENCE_FLAGS                                                                                              \
    { "padding", "NAME=VALUE...", "value that pads the sequences of an input [0]" },                                \
        { "pad-multiple", "N", "pad sequences to a multiple of N positions [1]" },                                  \
        { "lengths", "INPUT[=ARRAY]...", "model input that gets the length of each sequence" },                     \
        { "mask", "INPUT[=ARRAY]...", "model input that gets 1 at the positions of a sequence, 0 at its padding" }, \
    {                                                                                                               \
        "padding-mask", "INPUT[=ARRAY]...", "model input that gets 1 at the padding of a sequence, else 0"          \
    }

/* The flags that choose and match data, of every command that opens data. */
#define SOURCE_FLAGS                                                                                               \
    { "map", "INPUT=ARRAY...", "array that feeds an input of another name" },                                      \
        { "mean", "LIST", "subtracted from images scaled to [0,1]: a number, one for each channel, or imagenet" }, \
        { "std", "LIST", "divides images after --mean is subtracted" },                                            \
        { "skip-broken", NULL, "leave out images that cannot be read, instead of stopping" },                      \
    {                                                                                                              \
        "workers", "N", "threads that read samples, in each process [1 up to 4 cores, else cores/8]"               \
    }

/* Checks, without reading data, that the flag names a source whose options exist and whose files are there, and that
 * --mean, --std and --augment go with it. */
Status feed_check_source(const Args *a, const char *flag) CHECKED;
Status feed_check_split(const Args *a) CHECKED; /* checks the form of --val-split */
const char *feed_split_group(const Args *a);    /* the array that --val-split F,group=ARRAY names; NULL: none */
/* Opens the flag's data set alone, unless f->data is there; feed_open takes it later.  model NULL: not known yet.
 * f->fitted, if it is NULL, becomes the facts of the run that is resumed or whose model is evaluated. */
Status feed_read(Feed *f, const Args *a, const char *flag, const dpx_model *model) CHECKED;
/* The same for a source that is not the flag's value. */
Status feed_read_source(Feed *f, const Args *a, const char *flag, const char *text, const dpx_model *model) CHECKED;
/* Opens the flag's data set, --data or --val, or takes the one that was read, and matches its arrays to the model's
 * inputs by name.  --mean and --std apply to images.  The model's only input, if no array has its name, gets the images
 * of an idx pair, or the one array besides the target that fits; this is noted in `log`, unless NULL.  The target is
 * the array named by --target, or else the one array that is left.
 *
 * E_INVALID lists every input without an array, with the arrays that there are, and every array that does not fit.
 * Whether numbers fit an integer type is checked for the samples of the share; other processes check the rest. */
Status feed_open(Feed *out, const Args *a, const char *flag, const dpx_model *model, Share share,
                 Progress *log) CHECKED;
void feed_close(Feed *f);
/* Makes a feed of arrays that the caller has read, which it takes over: sequences, and the inputs with their lengths
 * and masks.  Arrays without data name the inputs that are given otherwise.  E_INVALID, whose message begins with
 * `what`, lists what does not fit. */
Status feed_sequences(Feed *out, const Args *a, const dpx_model *model, Dataset *data, const char *what,
                      Progress *log) CHECKED;
/* If `st` is a failure that concerns one element of batch b, puts the data's source and the number of its sample in
 * front of the message.  Returns st. */
Status feed_name_sample(Status st, const Feed *f, const Loader *l, const Batch *b);
/* Sets --input-shape for inputs whose shape the model leaves open and the user does not give: the largest shape that a
 * batch may have. */
Status feed_input_shapes(const Args *a, const Feed *f, int64_t batch_size) CHECKED;
/* Gives the shape of a batch's targets to the options; must be called before feed_input_shapes. */
Status feed_target_shape(const Args *a, const Feed *f, int64_t batch_size) CHECKED;

/* Finds f->fitted, unless it is there: what the run of --resume, or training of the model, fitted. */
Status feed_load_fitted(Feed *f, const Args *a, const dpx_model *m) CHECKED;
/* Reads the facts of the run in the folder; an empty object where there is no file, or with `guessed` one that is not
 * dpexec's. */
Status feed_read_fitted(json_t **out, const char *folder, bool guessed) CHECKED;
/* Writes the facts that were fitted to data.json in the run's folder, if there are any. */
Status feed_write_fitted(const Feed *f, const char *folder) CHECKED;
/* Their digest; "" without any. */
Status feed_fitted_digest(const Feed *f, char digest[DIGEST_TEXT]) CHECKED;
/* Chooses the samples of the source that was read: the first limit=N, and with --data those that --val-split does not
 * hold back.  Of each class the same part is held back, drawn by --seed; or whole groups of samples, or the last ones.
 * Then fits the source on them. */
Status feed_choose_samples(Feed *f, const Args *a, const char *flag) CHECKED;
/* Leaves the first limit=N samples of the source. */
Status feed_limit(Feed *f, const Args *a, const char *flag) CHECKED;
Status feed_fit(Feed *f, const Args *a, const char *flag) CHECKED;
/* Makes a feed of the samples that were held back; close it before `train`. */
void feed_take_held(Feed *out, Feed *train);
/* The array for an input: the one that --map names, or else the one of its name; NULL: none. */
const Array *feed_array(const Feed *f, const Args *a, const char *input);
void feed_check_map(const Feed *f, const Args *a, Problems *wrong);
/* Adds images whose channels are not those of --mean and --std. */
void feed_check_channels(const Feed *f, Problems *wrong);
/* The samples by class, and the number of each class in ascending order, both freed by the caller.  Samples of negative
 * numbers are left out.  E_INVALID, with the flag: the target is not one class number for each sample. */
Status feed_strata(Strata *out, int64_t **number, const Feed *f, const Args *a, const char *flag) CHECKED;
void strata_free(Strata *s);
/* How many samples each class number from 0 has, freed by the caller.  *out NULL: the target is not one class number
 * for each sample, or there are more classes than are counted here. */
Status feed_count_classes(int64_t **out, int64_t *classes, const Feed *f, const Args *a) CHECKED;
/* E_IO: a class number of the target is not one of `scores` classes.  Targets of another form pass. */
Status feed_check_labels(const Feed *f, const Args *a, int64_t scores) CHECKED;
/* --workers, or its default.  Workers that make images get cores of their own: fewer are left to the devices' threads
 * unless --threads is given.  To be called before the trainer is created; `world` NULL: this process alone. */
Status feed_workers(int *out, const Args *a, const Feed *f, const dpx_world *world) CHECKED;
/* The same for a plan, which reads no data: by the form of --data. */
Status feed_plan_workers(const Args *a) CHECKED;

/* Whether an input takes its array whole.  The model decides; where it leaves that open, the array's shape does, which
 * is noted in the options.  `samples`: feed_samples. */
bool feed_is_whole(const Feed *f, const Args *a, const dpx_info *in, const Array *array, int64_t samples,
                   Problems *wrong);
/* The number of samples: the rows of an array for an input that carries the batch, or of the target. */
int64_t feed_samples(const Feed *f, const Args *a);
/* E_IO when arrays of samples have different numbers of them.  Sets the data's number of samples. */
Status feed_check_samples(Feed *f, const char *source) CHECKED;
/* Warns of inputs that take an array whole, which may have been meant as samples. */
void feed_warn_of_roles(const Feed *f, const Args *a, Progress *log);
/* E_INVALID when an input depends on the order of samples, and they are shuffled or are more than one batch.  A feed
 * that is not open passes. */
Status feed_check_order(const Feed *f, const Args *a, int64_t batch_size, bool shuffled) CHECKED;

/* E_INVALID when the target has another name than in the training data: the model has one input for both. */
Status feed_check_target(const Feed *f, const Feed *train) CHECKED;

/* Whether an input that no array feeds gets the lengths or a mask of sequences.  *of: the array of these; NULL: not
 * given. */
bool feed_is_extent(FieldKind *kind, const char **of, const Feed *f, const Args *a, const char *input);
/* Whether the flags say so, or the input has one of the names of such inputs. */
bool feed_names_extent(const Args *a, const char *input);
/* Adds fields for such inputs, behind all others, and sets how sequences are padded. */
void feed_add_sequences(Feed *f, const Args *a, Problems *wrong);
/* Logs which inputs get lengths and masks.  Warns when none does, and when sequences have more lengths than programs
 * are kept. */
void feed_log_sequences(const Feed *f, const Args *a, Progress *log);
/* Adds a field if it is right. */
void feed_add(Feed *f, Field field, Problems *wrong);

/* Finds the model's input of this name; false: it has none. */
bool feed_input(dpx_info *out, const dpx_model *m, const char *name);

/* The number of classes that the loss's output [N,classes] has scores for, by --head or by the model's file; 0:
 * unknown. *output, unless NULL, receives its name. */
int64_t feed_scores(const Feed *f, const Args *a, const char **output);
/* E_INVALID when a source names more classes than the model has scores for; warns when it names fewer. */
Status feed_check_classes(const Feed *f, const Args *a, Progress *log) CHECKED;

/* The type in which the run takes an input of type `t`: --dtype replaces every float type. */
dpx_dtype feed_dtype(const Args *a, dpx_dtype t);

/* The axis along which an array of that rank has the samples of an input or the target; it may be out of range when
 * --batch-input is wrong. */
int feed_axis(const dpx_model *m, const Args *a, const char *name, int rank);

/* Puts the vector of --class-weights, or for `balanced` the one of the feed's classes, into the options.  `digest`,
 * which may be NULL, receives its digest, or "" without the flag.  f NULL: no data is read, and `balanced` sets
 * nothing. */
Status feed_class_weights(const Args *a, const Feed *f, char digest[DIGEST_TEXT]) CHECKED;

#endif
