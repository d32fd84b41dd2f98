/* Data sets: named arrays.  All arrays have the samples along their first axis, except those that a model takes whole.
 *
 * Files are mapped, so a data set may be larger than memory.  Compressed ones are first unpacked into an unnamed
 * temporary file, as far as the array's header asks for; a stream that is longer, or for which there is no room, is an
 * error. */
#ifndef DPX_TOOLS_DATA_H
#define DPX_TOOLS_DATA_H

#include <stdbool.h>
#include <stdio.h>

#include "graph/base/mapped.h"
#include "include/dpexec.h"

/* An unnamed temporary file for `bytes` bytes: E_IO, before anything is written, when there is no room for them. */
Status temporary_open(FILE **out, uint64_t bytes, const char *label) CHECKED;
/* Maps what was written to `f`, an unnamed temporary file; closes it. */
Status map_stream(Mapped *out, FILE *f, const char *path) CHECKED;

/* Positions of a sequence: [from, from + n) of all that are stored. */
typedef struct {
    int64_t from, n;
} Rows;

typedef struct {
    char *name; /* "" when the format has none (idx) */
    dpx_dtype dtype;
    int rank;
    int64_t dim[DPX_MAX_RANK]; /* dim[0]: samples, 1 where the rank is 0 */
    const unsigned char *data; /* row-major */
    Rows *row; /* [dim[0]] of sequences of unequal length (tools/sequences.c): the positions, each of dim[2..], that a
                * sample has; dim[1] is the most of them.  NULL: every sample has all of dim[1..] */
    int64_t rows;   /* positions that are stored */
    bool describes; /* it is another array's offsets or lengths */
    bool swapped;   /* elements are big-endian */
    bool texts;     /* asked for by who can take strings, which then are of dtype DPX_STRING */
    int64_t width;  /* of these: code points of an element (tools/npy_text.h) */
    double scale;   /* value = (element * scale - mean) / std, when converted to a float type */
    double mean, std;
    Mapped map; /* what `data` points into; empty when another array owns it */
    int64_t
        unpacked; /* bytes of the file that were read to unpack it, or put it in order; 0: its samples are read there */
    Mapped summed; /* a stretch that is read in place, and what its checksum is to be; empty: there is none */
    uint32_t checksum;
} Array;

typedef struct {
    Array *array;
    int n;
    int64_t samples;
    Mapped archive; /* that arrays are read in */
} Dataset;

typedef struct {
    double mean, std;
} Normalisation; /* of idx images */

/* A format of data sets: its file defines it with DEFINE_DATA_FORMAT, the build lists it, help and errors tell of it.
 * Whose source it is, is decided by what it begins with, else that it is a folder, else how it ends. */
typedef struct {
    const char *form, *help; /* "FILE.npz", and what is in it */
    const char *prefix;      /* "idx:"; what follows it is read */
    const char *suffix;      /* ".npz" */
    bool folder;
    bool scaled; /* by --mean and --std */
    Status (*read)(Dataset *d, const char *source, Normalisation norm);
} DataFormat;

#define DEFINE_DATA_FORMAT(n, ...) const DataFormat data_format_##n = { __VA_ARGS__ }

extern const DataFormat *const data_formats[]; /* by their names; NULL ends */
/* The format of a source, by how it is written; NULL when none is written so. */
const DataFormat *data_format_of(const char *source);
/* "FILE.npz, FILE.npy or idx:IMAGES,LABELS": all of them. */
enum { DATA_FORMS = 160 };
const char *data_forms(char text[DATA_FORMS]);

/* Errors name the file. */
Status dataset_open(Dataset **out, const char *source, Normalisation norm) CHECKED;
void dataset_free(Dataset *d);
/* The array of this name, else NULL. */
const Array *dataset_find(const Dataset *d, const char *name);

/* ---- for the formats: tools/data_*.c ---- */
Status dataset_add(Dataset *d, const Array *a, const char *path) CHECKED; /* takes the mapping and the name */
/* When all arrays have been added: which of them are sequences.  The samples are the first array's until the model says
 * which arrays hold them (tools/feed_roles.c). */
Status dataset_complete(Dataset *d, const char *source) CHECKED;
/* An array that has its offsets, NAME.offsets, or lengths, NAME.lengths, beside it becomes one of sequences.  E_IO:
 * these are no such. */
Status sequences_pair(Dataset *d, const char *source) CHECKED;
/* The .npy file in a->map, which it closes on failure; fills dtype, rank, dim, data.  `label` names the file or archive
 * member. */
Status npy_parse(Array *a, const char *label) CHECKED;
/* The same of a .npy file that lies in memory, and stays there; *fortran: its samples do not stand one by one. */
Status npy_view(Array *a, bool *fortran, const unsigned char *file, size_t size, const char *label) CHECKED;
/* How long the whole file is, by the header, which must lie in the first `n` bytes. */
Status npy_length(uint64_t *out, const unsigned char *file, size_t n, const char *label) CHECKED;
bool ends_with(const char *s, const char *end);

bool array_is_float(const Array *a);
void array_add_channel(Array *a);               /* samples [H, W] become [1, H, W] */
size_t array_sample_elements(const Array *a);   /* of sequences: of the longest */
size_t array_position_elements(const Array *a); /* of sequences: of one position */
size_t array_bytes(const Array *a);             /* all that is stored */
int64_t array_sample_bytes(const Array *a, int64_t sample);
size_t array_sample_at(const Array *a, int64_t sample); /* where they begin */
/* Of what processes share out among themselves, the part of one: neighbouring pieces, as even as possible. */
typedef struct {
    int rank, size;
} Share;

#define SHARE_ALL ((Share){ 0, 1 })

void share_range(Share s, int64_t n, int64_t *from, int64_t *to); /* of n pieces [from, to) */
/* E_INVALID, naming `what`, for conversions that lose meaning: what becomes integers must be whole numbers that their
 * type holds; where the types do not say so, all are looked at here. */
Status array_check_convert(const Array *a, dpx_dtype to, const char *what) CHECKED;
/* The same, looking at the samples of the share alone. */
Status array_check_share(const Array *a, dpx_dtype to, const char *what, Share share) CHECKED;
/* Of an array of which this process reads a part: from now on its file is read no further than array_expect says. */
void array_read_parts(const Array *a);
/* That samples index[0..n) will be read soon; neighbours are asked for together. */
void array_expect(const Array *a, const int64_t *index, int64_t n);
/* Copies samples index[0..n) into `out` as elements of type `to`, once that has been checked; each has room for the
 * longest, and what a sequence lacks of that stays as it is. */
void array_gather(const Array *a, const int64_t *index, int64_t n, dpx_dtype to, void *out);
/* n times `v`, which the type has (array_holds). */
void array_fill(dpx_dtype to, double v, size_t n, void *out);
bool array_holds(dpx_dtype t, double v);

#endif
