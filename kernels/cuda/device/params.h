/* The parameters that kernels/cuda/<family>.c passes by value to the kernels of movement and pooling: plain types, the
 * same in C and CUDA C++.
 *
 * Dimensions stand innermost first.  Strides and sizes are in units: what one access moves, 1 to 16 bytes. */
#ifndef DPX_CUDA_PARAMS_H
#define DPX_CUDA_PARAMS_H

enum { MOVE_RANK = 8, JOIN_PARTS = 24, MOVE_PER_THREAD = 4, MOVE_THREADS = 256 };

/* Division of 0 <= n < 2^31 by d > 0: (mulhi(n, mul) + n) >> shift (Granlund and Montgomery 1994, with the round-up
 * factor). */
typedef struct {
    unsigned int d, mul, shift;
} Divisor;

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
    long long from_b, to_a;   /* strides of b in the source, of a in the destination */
    Divisor tiles_a, tiles_b; /* tiles along a and b */
} TileBox;

/* Rows of `whole` units in which parts stand side by side; part p is a dense tensor of rows of begin[p + 1] -
 * begin[p]. */
typedef struct {
    int n_part;
    long long n;            /* units of the rows in all */
    long long pitch, first; /* of the whole tensor: row to row; where part 0 begins in a row */
    long long begin[JOIN_PARTS + 1];
    unsigned long long part[JOIN_PARTS]; /* addresses; 0: not wanted */
    Divisor by_row;                      /* begin[n_part] */
} JoinBox;

/* The padded tensor's box.  Along dimension k its position i shows the source's i - shift[k] within [0, size[k]), which
 * is what is left of cut[k] + size[k] + ... elements; elements beyond that follow from `mode` (PadMode of
 * graph/ops/ranges.h). */
typedef struct {
    MoveBox box;
    long long shift[MOVE_RANK], size[MOVE_RANK];
    int mode, element;          /* bytes of an element */
    unsigned long long fill[2]; /* the unit that stands outside */
} PadBox;

/* The source's box (to: its strides; from: those of the padded tensor), and along each dimension the padded tensor's
 * size. */
typedef struct {
    MoveBox box;
    long long shift[MOVE_RANK], size[MOVE_RANK], cut[MOVE_RANK], padded[MOVE_RANK];
    int mode;
} PadGradBox;

/* x [outer, d, inner], y [outer, indices, inner]; n units of y. */
typedef struct {
    long long n, d, inner, indices;
    Divisor by_inner, by_indices;
    int wide; /* indices are int64, else int32 */
} GatherBox;

/* Tuples of `k` indices into x [batch.., dim.., rest]; per_batch tuples for each point of the batch. */
typedef struct {
    long long n, per_batch, rows; /* rows: what x has before `rest`; it stands for a tuple that is out of range */
    long long dim[MOVE_RANK];     /* outermost first */
    int k, wide;
} TupleBox;

/* The destination's box (from: the strides of the indices, 0 along `axis`); where a coordinate is not below limit[], or
 * no index of its line names it, x stays. */
typedef struct {
    MoveBox box;
    long long limit[MOVE_RANK];
    long long line, step; /* indices of a line, and from one to the next */
    int axis, wide, how;  /* how: SCATTER_ */
} ScatterBox;

enum { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };
/* LIST_ROWS: the rows whose lists a block makes, by at most LIST_MAKERS warps.  In a block that sums rows, each of
 * LIST_WARPS warps has one row. */
enum { LIST_ROWS = 256, LIST_MAKERS = 32, LIST_WARPS = 8 };

/* Data [outer, channels, inner] or, with the channels last, [outer, inner, channels]. */
typedef struct {
    long long outer, channels, inner;
    long long units,
        part;         /* V elements each: of a channel (rows, when the channels are last), and of a chunk of them */
    int chunks, wide; /* wide: numbers of a channel are float32 where the data has 16 bits */
    double epsilon, count;       /* count: elements of a channel */
    Divisor by_run, by_channels; /* units of a run of one channel (of all channels, when they are last) */
} ChannelBox;

enum { NORM_THREADS = 256, NORM_GROUP = 4 }; /* units a thread has in flight */
/* Statistics and sums with the channels last: threads of a block, one block for a multiprocessor; NORM_COLUMNS of them
 * at most side by side. */
enum { NORM_STATS_THREADS = 1024, NORM_SUMS_THREADS = 512, NORM_COLUMNS = 16 };

/* Windows over data [lead, in.., trail] whose results are [lead, out.., trail]: planes of one channel with trail 1, or,
 * with the channels last, samples with trail C.  Three axes as in graph/ops/window.h; trail counts units of V
 * elements. */
typedef struct {
    long long n, trail; /* n: units of the tensor that is written */
    int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], pad_end[3];
    int include_pad, column_major;
    Divisor by_trail, by_in[3], by_out[3], by_stride[3];
} PoolBox;

enum { POOL_THREADS = 256 };

#endif
