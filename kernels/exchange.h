/* The work of collectives on memory, on any machine: sums by the tree of graph/tensor/reduce_tree.h, and pieces of a
 * whole tensor. */
#ifndef DPX_KERNELS_EXCHANGE_H
#define DPX_KERNELS_EXCHANGE_H

#include "graph/tensor/tensor.h"

/* ---- sums ---- */

enum { SUM_BLOCK = 1024 }; /* elements that are added at a time: a stack of blocks stays in the cache */

/* The work space of exchange_sum; `program` is reduce_tree_program's of so many parts. */
size_t exchange_sum_bytes(const int *program, int parts, DType t);
/* The sum of elements [at, at + len) of the parts, at most SUM_BLOCK of them: in `space`, or one part's own.  16-bit
 * floats are added in float32 and rounded once. */
const void *exchange_sum(const int *program, int parts, void *space, const Tensor *in, int64_t at, size_t len);

/* The first of n elements that a member adds up when they are shared out in order; of rank `members`: n.  Shares begin
 * at whole cache lines. */
int64_t exchange_share(int64_t n, int rank, int members);

/* ---- pieces ---- */

/* A piece along an axis: `rows` runs of `row` bytes, of which the whole has `wide` each. */
typedef struct {
    size_t rows, row, wide;
} Piece;

Piece piece_of(const Tensor *part, const Tensor *whole, int axis);
/* Copies the part to (join) or from its place in the whole, `offset` bytes into each of its rows. */
void piece_copy(const Piece *p, const Tensor *part, const Tensor *whole, size_t offset, bool join);

/* ---- pieces along one axis that become pieces along another ---- */

/* The elements that two pieces of one tensor share: `from` is a piece along an axis, `to` a piece along `cut`. */
Shape box_of(const Tensor *from, const Tensor *to, int cut);

/* How it lies in memory: `rounds` times `rows` rows of `row` bytes. */
typedef struct {
    size_t rounds, rows, row;
    size_t from, to;             /* bytes before the first row, */
    size_t from_wide, to_wide;   /* from one row to the next, */
    size_t from_round, to_round; /* from one round to the next */
} Box;

/* From element `from_at` of `from` along `cut` to element `to_at` of `to` along `axis`; all of what either has along
 * the other axis. */
Box box_lines(const Shape *box, const Tensor *to, int axis, int64_t to_at, const Tensor *from, int cut,
              int64_t from_at);
void box_copy(const Shape *box, const Tensor *to, int axis, int64_t to_at, const Tensor *from, int cut,
              int64_t from_at);

#endif
