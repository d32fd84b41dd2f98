/* What kernels/cuda/<family>.c hands to the kernels of movement and pooling by value: plain types, the same in C and CUDA C++.
 *
 * Dimensions stand innermost first.  Strides and sizes are in units: what one access moves, 1 to 16 bytes. */
#ifndef DPX_CUDA_PARAMS_H
#define DPX_CUDA_PARAMS_H

enum { MOVE_RANK = 8, JOIN_PARTS = 24, MOVE_PER_THREAD = 4, MOVE_THREADS = 256 };

/* Division of 0 <= n < 2^31 by d > 0: (mulhi(n, mul) + n) >> shift (Granlund and Montgomery 1994, with the round-up factor). */
typedef struct { unsigned int d, mul, shift; } Divisor;

/* A box of n units; element (i0, i1, ...) steps by to[k] and from[k] along dimension k. */
typedef struct {
    int rank;
    long long n;
    long long dim[MOVE_RANK], to[MOVE_RANK], from[MOVE_RANK];
    Divisor by[MOVE_RANK];
} MoveBox;

/* Tiles of `a` (innermost of the source) by `b` (innermost of the destination), once for each point of `outer`. */
typedef struct {
    MoveBox outer;
    long long a, b;
    long long from_b, to_a;         /* strides of b in the source, of a in the destination */
    Divisor tiles_a, tiles_b;       /* tiles along a and b */
} TileBox;

/* Rows of `whole` units in which parts stand side by side; part p is a dense tensor of rows of begin[p + 1] - begin[p]. */
typedef struct {
    int n_part;
    long long n;                    /* units of the rows in all */
    long long pitch, first;         /* of the whole tensor: row to row; where part 0 begins in a row */
    long long begin[JOIN_PARTS + 1];
    unsigned long long part[JOIN_PARTS];    /* addresses; 0: not wanted */
    Divisor by_row;                 /* begin[n_part] */
} JoinBox;

/* The destination's box; along dimension k position i shows the source's i - shift[k], within [0, size[k]). */
typedef struct {
    MoveBox box;
    long long shift[MOVE_RANK], size[MOVE_RANK];
    int mode;                       /* as PadMode of graph/ops/ranges.h */
    unsigned long long fill[2];     /* the unit that stands outside */
} PadBox;

#endif
