/* The note in a checkpoint of dpexec train: the position in the data, and the options that determine what is
 * computed. */
#ifndef DPX_TOOLS_CHECKPOINT_NOTE_H
#define DPX_TOOLS_CHECKPOINT_NOTE_H

#include "tools/feed/feed.h"
#include "tools/training/best_so_far.h"

enum { VAL_TEXT = DIGEST_TEXT + 24 };

/* Facts that determine, besides the model, what a run computes. */
typedef struct {
    const Args *args;
    int64_t samples, batches; /* of an epoch */
    int64_t epochs_of_step;   /* the most epochs that a step may end, at least 1 */
    int replicas;
    const char *isa; /* in use, which "auto" chose; NULL: noted as it was given */
    Monitor monitor;
    bool observes; /* a schedule follows evaluations */
    char data[DIGEST_TEXT], class_weights[DIGEST_TEXT], parameters[DIGEST_TEXT], criterion[DIGEST_TEXT],
        preprocess[DIGEST_TEXT], augment[DIGEST_TEXT], fitted[DIGEST_TEXT];
    char val[VAL_TEXT]; /* digest and number of the samples of --val; "": not given */
} RunFacts;

typedef struct {
    int64_t epoch, batch; /* the next to train on */
    double sum, weight;   /* of the losses in the epoch so far, where a schedule follows them; else 0 */
    BestSoFar best;
} Position;

/* Writes a note.  The caller frees the text; NULL: out of memory. */
char *note_write(const RunFacts *now, Position at);
/* Reads the position from the note of a checkpoint after `step` steps, and compares its facts with this run's.
 * E_INVALID lists what must be equal and is not.  Options that may change, above all the learning rate, go to `warn`
 * with both values.  E_IO, with the name `file`: the note is damaged. */
Status note_read(Position *out, const RunFacts *now, const char *note, int64_t step, const char *file, dpx_log_fn *warn,
                 void *user) CHECKED;

/* The value of an option in a checkpoint of the run in the folder, unchecked; the caller frees it.  NULL: there is
 * none. */
char *note_find(const char *folder, const char *name);
/* E_INVALID when the run that --resume names had another --input-value or --head.  To be called before the model is
 * read, whose inputs and tensors depend on it. */
Status note_check_model(const Args *a) CHECKED;

#endif
