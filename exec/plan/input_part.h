/* The part of each input that the devices of one process read, in a graph for all devices: if the input is scattered
 * along the batch, the pieces of their replicas, which follow one another.  A caller may give that part alone. */
#ifndef DPX_INPUT_PART_H
#define DPX_INPUT_PART_H

#include "graph/ir/graph.h"
#include "graph/tensor/tensor.h"

typedef struct {
    bool read;          /* by anybody */
    int axis;           /* along which this process reads a part; -1: it reads all */
    int64_t from, to;   /* of that axis */
    bool apart;         /* the part's bytes do not lie together in the whole: `axis` is not the outermost */
    Shape given;        /* of what the caller has of it for the present step */
    size_t skip, bytes; /* where that begins in the whole, and how long it is */
    bool partly;        /* it is less than the whole */
} InputPart;

/* Inputs of a step that are given in parts: each tensor has the shape of the whole, and data of [from, to) of its axis.
 */
typedef struct {
    int64_t from, to;
    const int *axis; /* [n] of the tensors; -1: all of it is given */
} GivenPart;

/* Finds the part of every input, by value id, for devices [first, first + n_local) of n_device. */
Status input_parts_find(InputPart **out, Arena *a, const Graph *g, int n_device, int first, int n_local) CHECKED;
/* Notes that input `v` is given as tensor k of `part`; NULL: whole.  E_INVALID: the graph reads another part of it. */
Status input_part_give(InputPart *w, const Value *v, const GivenPart *part, int k) CHECKED;
/* Copies what was given, where it lies apart, to its place in a copy of the whole. */
void input_part_spread(const InputPart *w, void *whole, const void *given, const Value *v);
/* The place in the whole of element `i` of the given data. */
int64_t input_part_element(const InputPart *w, const Value *v, int64_t i);
/* Where `bytes` at `offset` of the whole lie in what was given; NULL: nowhere. */
void *input_part_at(const InputPart *w, void *data, size_t offset, size_t bytes);

#endif
