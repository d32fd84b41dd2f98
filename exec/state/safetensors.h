/* The safetensors format: u64 little-endian length of a JSON header, the header, then the tensors' bytes.
 * Specified at https://huggingface.co/docs/safetensors. */
#ifndef DPX_SAFETENSORS_H
#define DPX_SAFETENSORS_H

#include "graph/tensor.h"

typedef struct {
    const char *name;
    Tensor tensor;
} NamedTensor;

/* The tensor of this name, or NULL. */
const Tensor *named_find(const NamedTensor *list, int n, const char *name);

/* Writes a new file and syncs it to disk.  E_IO names the path; a partial file may be left, which the caller
 * removes. */
Status safetensors_write(const char *path, const NamedTensor *list, int n) CHECKED;
/* Reads a whole file into `arena`.  Hostile files are refused: header over 100 MB, not JSON, duplicate names, unknown
 * types, offsets that overlap, leave holes or do not match shapes, trailing bytes. */
Status safetensors_read(NamedTensor **list, int *n, Arena *arena, const char *path) CHECKED;

#endif
