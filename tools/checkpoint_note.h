/* The note in a checkpoint of train: the place in the data, and the options that decide what is computed. */
#ifndef DPX_TOOLS_CHECKPOINT_NOTE_H
#define DPX_TOOLS_CHECKPOINT_NOTE_H

#include "tools/feed.h"

/* What a run computes, as far as its model does not say. */
typedef struct {
    const Args *args;
    int64_t samples, batches; /* of an epoch */
    int64_t epochs_of_step;   /* the most that a step may end, at least 1 */
    int replicas;             /* in force */
    bool observes;            /* some schedule follows evaluations */
    char data[DIGEST_TEXT], class_weights[DIGEST_TEXT], parameters[DIGEST_TEXT], criterion[DIGEST_TEXT],
        preprocess[DIGEST_TEXT];
} RunFacts;

typedef struct {
    int64_t epoch, batch; /* the next to take */
    double sum, weight;   /* of the losses of the epoch's steps so far, where a schedule follows them; else 0 */
} Position;

/* The text, to be freed; NULL when memory ran out. */
char *note_write(const RunFacts *now, Position at);
/* Where the run stood that wrote the note of a checkpoint after `step` steps.  E_INVALID names all that is not as it
 * was; what may be changed on the way, the learning rate above all, goes to `warn` with both values.  E_IO, naming
 * `file`: damaged. */
Status note_read(Position *out, const RunFacts *now, const char *note, int64_t step, const char *file, dpx_log_fn *warn,
                 void *user) CHECKED;

/* What the run in the folder has of the option, as one of its checkpoints says, unchecked, to be freed; NULL: there is
 * none that says. */
char *note_find(const char *folder, const char *name);
/* E_INVALID: the run that --resume names gave inputs other values.  For use before the model is read, which has other
 * inputs and tensors then. */
Status note_check_model(const Args *a) CHECKED;

#endif
