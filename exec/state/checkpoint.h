/* Checkpoints: all state of a run, written so that a crash at any moment leaves either the whole of one or none of
 * it. */
#ifndef DPX_CHECKPOINT_H
#define DPX_CHECKPOINT_H

#include "exec/state/safetensors.h"

/* The files of a checkpoint's folder, which is called STEP_FOLDER and its step. */
#define STATE_FILE "state.safetensors"
#define DIGEST_FILE "state.digests"
#define MANIFEST_FILE "manifest.json"
#define STEP_FOLDER "step-"

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

/* Makes `directory`/step-NNNNNNNNN with state.safetensors, state.digests (TensorDigests.piece, concatenated) and
 * manifest.json (step, note, size and xxh3 hash of each file, hash of the note).  It is written under a temporary name
 * in `directory`, synced and renamed, and replaces a checkpoint of the same step.  A failure changes nothing, with one
 * exception: if the final sync of `directory` fails, the new checkpoint is in place and the replaced one is kept aside,
 * where checkpoint_read finds it.  `source` is that of safetensors_write. */
Status checkpoint_write(const char *directory, int64_t step, const NamedTensor *list, int n, TensorSource *source,
                        void *user, const char *note) CHECKED;
/* Opens the newest valid checkpoint below `directory`.  Manifest, digests and header are always verified; with `whole`
 * all bytes are too, otherwise blocks are verified when they are read from `file`.  A checkpoint of an earlier version,
 * which has only a digest of the whole file, is always read whole.  Damaged checkpoints are skipped and listed in
 * `skipped`.  E_IO if none is valid: the message names the damage of each.  `bytes` (NULL: not counted) counts the
 * bytes of states and digests that are read, now and later through `file`.  To be closed. */
Status checkpoint_read(Checkpoint *out, Arena *arena, const char *directory, bool whole, int64_t *bytes) CHECKED;
/* Opens the checkpoint of one step.  E_IO if there is none, or it does not verify. */
Status checkpoint_read_step(Checkpoint *out, Arena *arena, const char *directory, int64_t step, bool whole,
                            int64_t *bytes) CHECKED;
/* Removes the checkpoint of one step; one that is not there is no error.  A crash leaves all of it, or a folder under a
 * temporary name, which the next checkpoint_write removes. */
Status checkpoint_remove(const char *directory, int64_t step) CHECKED;
/* The manifest's text, to free(), for a state of so many bytes.  E_INVALID: the note is not UTF-8. */
Status checkpoint_manifest(char **out, int64_t step, const char *note, int64_t bytes, const TensorDigests *d) CHECKED;

/* ---- as one stream (checkpoint_stream.c) ---- */

/* Writes the files that checkpoint_write makes, with the same bytes, as a tar archive of the folder.  The caller checks
 * the stream and closes it. */
Status checkpoint_write_stream(FILE *to, int64_t step, const NamedTensor *list, int n, TensorSource *source, void *user,
                               const char *note) CHECKED;
/* Unpacks such an archive below `directory`, an existing folder, and sets *step: of its checkpoint, which is not
 * verified.  E_IO: the stream ends early, or is something else; files may be left. */
Status checkpoint_unpack(FILE *from, const char *directory, int64_t *step) CHECKED;
/* Removes what checkpoint_unpack has left, and the directory. */
void checkpoint_unpack_remove(const char *directory);

int checkpoint_find(const Checkpoint *c, const char *name); /* which tensor; -1: none */
void checkpoint_close(Checkpoint *c);                       /* of one that was not read: nothing */

#endif
