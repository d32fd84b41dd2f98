/* The safetensors format: u64 little-endian length of a JSON header, the header, then the tensors' bytes.
 * Specified at https://huggingface.co/docs/safetensors. */
#ifndef DPX_SAFETENSORS_H
#define DPX_SAFETENSORS_H

#include <stdio.h>
#include <xxhash.h>

#include "graph/tensor/tensor.h"

typedef struct {
    const char *name;
    Tensor tensor;
} NamedTensor;

/* The place of the tensor of this name in the list; -1: there is none. */
int named_place(const NamedTensor *list, int n, const char *name);
/* The tensor of this name, or NULL. */
const Tensor *named_find(const NamedTensor *list, int n, const char *name);

/* Gives the data of a tensor of the list, row-major, into `to`. */
typedef Status TensorSource(void *user, const NamedTensor *wanted, void *to);

/* Digests of a file: of all of it, XXH3 of 128 bits, and those by which a part can be checked, XXH3 of 64 bits: first
 * of the header with its length, then of each TENSOR_BLOCK bytes of every tensor, as they follow one another in the
 * file; the last block of a tensor may be shorter.  Pieces that "shard" cuts end where blocks do. */
enum { TENSOR_BLOCK = 1 << 14 };
typedef struct {
    XXH128_hash_t whole;
    XXH64_canonical_t *piece; /* [n] */
    size_t n;
} TensorDigests;

/* Writes a new file and syncs it to disk.  Data that are NULL are asked of `source`, one tensor after another in the
 * list's order, so that no more than one is held; it may be NULL when there are none.  `digests`, unless NULL, receives
 * those of what was written, `piece` to free().  E_IO names the path; a partial file may be left, which the caller
 * removes. */
Status safetensors_write(const char *path, const NamedTensor *list, int n, TensorSource *source, void *user,
                         TensorDigests *digests) CHECKED;
/* Writes the same bytes to a stream, which the caller checks, syncs and closes.  `name` stands in messages. */
Status safetensors_stream(FILE *to, const char *name, const NamedTensor *list, int n, TensorSource *source, void *user,
                          TensorDigests *digests) CHECKED;
/* How many bytes these are. */
Status safetensors_size(int64_t *out, const NamedTensor *list, int n) CHECKED;
/* Reads a whole file into `arena`.  Hostile files are refused: header over 100 MB, not JSON, duplicate names, unknown
 * types, offsets that overlap, leave holes or do not match shapes, trailing bytes. */
Status safetensors_read(NamedTensor **list, int *n, Arena *arena, const char *path) CHECKED;

/* ---- in parts ---- */

/* An open file, shared by those who read it; it stays what it was when another takes its name. */
typedef struct TensorFile TensorFile;

/* Refuses what safetensors_read does.  `pieces`, those of TensorDigests or NULL, are copied: the header, and each block
 * of which something is read, must have its digest; E_IO names the tensor.  Counts the bytes that are read from the
 * file in `*bytes`, which outlives it, unless NULL. */
Status tensor_file_open(TensorFile **out, const char *path, const XXH64_canonical_t *pieces, size_t n,
                        int64_t *bytes) CHECKED;
TensorFile *tensor_file_share(TensorFile *f);
void tensor_file_release(TensorFile *f);                          /* NULL is legal */
const NamedTensor *tensor_file_list(const TensorFile *f, int *n); /* without their data */
/* `bytes` bytes of tensor i, from byte `from` of its row-major data on. */
Status tensor_file_read(const TensorFile *f, int i, void *to, size_t from, size_t bytes) CHECKED;
/* Reads all of it, for the digests' sake. */
Status tensor_file_verify(const TensorFile *f) CHECKED;

#endif
