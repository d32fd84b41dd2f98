/* Checkpoints: all state of a run, written so that a crash at any moment leaves either the whole of one or none of
 * it. */
#ifndef DPX_CHECKPOINT_H
#define DPX_CHECKPOINT_H

#include "exec/state/safetensors.h"

typedef struct {
    int64_t step;
    const char *note; /* what the caller gave to checkpoint_write; "" when nothing */
    TensorFile *file;
    const NamedTensor *tensor; /* [n] what is in the file, without data */
    int n;
    char digest[33];      /* of the file, or of its digests */
    const char **skipped; /* [n_skipped] newer ones that do not verify: what is wrong with each */
    int n_skipped;
} Checkpoint;

/* Makes `directory`/step-NNNNNNNNN with state.safetensors, state.digests (TensorDigests.piece, one behind the other)
 * and manifest.json (step, note, size and xxh3 hash of each file, hash of the note): written under a temporary name in
 * `directory`, synced, renamed.  Replaces one of the same step.  On failure all is as it was, unless only the last
 * thing failed, which is to sync `directory`: then the new one has its name, and the one that it replaces is aside,
 * where checkpoint_read finds it should the name be lost.  `source` as safetensors_write has it. */
Status checkpoint_write(const char *directory, int64_t step, const NamedTensor *list, int n, TensorSource *source,
                        void *user, const char *note) CHECKED;
/* The newest checkpoint below `directory` that verifies: its manifest, digests and header, and with `whole` every byte;
 * else reading from `file` verifies what is read.  One of an earlier version, which has no digests but the whole
 * file's, is always read whole.  Damaged ones are passed over and told in `skipped`; E_IO when none is left, naming
 * what is wrong with each.  What is read of states and digests, now and from `file`, is added to `*bytes`, unless NULL.
 * To be closed. */
Status checkpoint_read(Checkpoint *out, Arena *arena, const char *directory, bool whole, int64_t *bytes) CHECKED;
int checkpoint_find(const Checkpoint *c, const char *name); /* which tensor; -1: none */
void checkpoint_close(Checkpoint *c);                       /* of one that was not read: nothing */

#endif
