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
#include "tools/data/source.h"

/* Opens an unnamed temporary file for `bytes` bytes.  E_IO, before anything is written, when there is no room for them.
 */
Status temporary_open(FILE **out, uint64_t bytes, const char *label) CHECKED;
/* Maps an unnamed temporary file, which it closes. */
Status map_stream(Mapped *out, FILE *f, const char *path) CHECKED;

/* The rows of a sequence: [from, from + n) of all stored rows. */
typedef struct {
    int64_t from, n;
} Rows;

/* What a random choice of a source that makes its samples may depend on, besides the sample's row. */
typedef struct {
    uint64_t seed;
    int64_t epoch; /* from 0 */
    bool training; /* the sample is trained on; false: evaluated */
} SampleKey;

typedef struct Array Array;

/* Writes row `row` of an array, dim[1..] elements of its type, to `out`.  Many threads call it at once.  The bytes
 * depend on the arguments and the source's files alone, so any number of threads and processes, and a resumed run, get
 * the same.  E_IO: this sample is broken, and the message names its file; the batch gets the next good one in its
 * place.  Any other failure ends the run. */
typedef Status SampleFetch(const Array *a, int64_t row, const SampleKey *key, void *out);

struct Array {
    char *name; /* "" when the format has none (idx) */
    dpx_dtype dtype;
    int rank;
    int64_t dim[DPX_MAX_RANK]; /* dim[0]: samples, 1 where the rank is 0 */
    const unsigned char *data; /* row-major; NULL: `fetch` makes the samples */
    void *memory;              /* on the heap, with `data` in it; NULL: none */
    SampleFetch *fetch;
    const void *maker; /* lent by the data set, for `fetch` */
    const char
        *shares; /* the array of class probabilities that a loss takes in place of these class numbers; NULL: none */
    uint64_t identity; /* with `fetch`: a digest of all that determines the samples: names, sizes, options */
    Rows *row; /* [dim[0]] the rows of each sample of sequences (tools/data/sequences.c), each row of dim[2..]; dim[1]
                * is the length of the longest.  NULL: every sample has all of dim[1..] */
    int64_t rows;   /* stored rows of sequences */
    int64_t pad_to; /* positions to which sequences are padded, where the model fixes none; 0: the source leaves it */
    double padding; /* number that pads them, unless --padding says another */
    bool describes; /* it is another array's offsets or lengths */
    bool swapped;   /* elements are big-endian */
    bool texts;     /* the caller takes strings, too, which have dtype DPX_STRING */
    int64_t width;  /* of strings: code points of an element (tools/data/npy_text.h) */
    Normalisation norm; /* when converted to a float type */
    Mapped map;         /* that `data` points into; empty when another array owns it */
    int file;           /* that is mapped, from which single samples are read, so that pages around them do not come to
                         * memory; 0: they are read from the mapping */
    int64_t unpacked;   /* bytes of the file that were read to unpack or reorder it; 0: its samples are read in place */
    Mapped summed;      /* a stretch of the file with a checksum, read in place; empty: there is none */
    uint32_t checksum;
};

/* What processes compare before one of them fits a source for all: "rows" and their number. */
typedef struct {
    const char *name;
    char text[160];
} DataFact;

enum { MOST_DATA_FACTS = 4 };

struct Dataset {
    Array *array;
    int n;
    size_t room;
    int64_t samples;
    int64_t limit;  /* samples to take at most, by the source's option */
    int64_t *index; /* [samples] the rows of the arrays that are samples; NULL: all rows */
    bool follows;   /* rows follow each other in time: --val-split holds back the last ones */
    bool lent;      /* arrays, and all that they point to, belong to another data set */
    Source source;
    char *note;        /* a line for the log, on the heap; NULL: none */
    char **class_name; /* [classes] names of the target's classes, in order; NULL: they have none */
    int64_t classes;
    DataFact fact[MOST_DATA_FACTS];
    int facts;
    void *maker; /* the format's own, which arrays with `fetch` share */
    void (*free_maker)(void *maker);
    Mapped archive; /* that arrays are read in */
};

/* Opens a source and fits it on all of its samples.  Errors name the file. */
Status dataset_open(Dataset **out, const char *source, const SourceContext *c) CHECKED;
/* The same in two steps: reads, and, once it is known which rows are trained on, fits. */
Status dataset_read(Dataset **out, const char *source, const SourceContext *c) CHECKED;
Status dataset_fit(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n) CHECKED;
void dataset_free(Dataset *d);
/* The array of this name, else NULL. */
const Array *dataset_find(const Dataset *d, const char *name);
int64_t dataset_row(const Dataset *d, int64_t sample); /* the row of a sample in the arrays */
/* A data set of the rows row[0..n), which are copied, of the same arrays; free it before d. */
Status dataset_view(Dataset **out, const Dataset *d, const int64_t *row, int64_t n) CHECKED;

/* ---- for the formats: tools/data/data_*.c ---- */
/* Takes the mapping, its file, the memory, the name and the rows of sequences, also when it fails. */
Status dataset_add(Dataset *d, const Array *a, const char *path) CHECKED;
/* Adds "PATH: TEXT" to the line for the log, or "; TEXT" if there is one. */
Status dataset_note(Dataset *d, const char *fmt, ...) __attribute__((format(printf, 2, 3))) CHECKED;
/* Completes the set when all arrays have been added: finds the sequences.  The number of samples is that of the first
 * array, until the model says which arrays hold samples (tools/feed/feed_roles.c). */
Status dataset_complete(Dataset *d, const char *source) CHECKED;
/* Makes arrays that have NAME.offsets or NAME.lengths beside them sequences.  E_IO when these do not fit. */
Status sequences_pair(Dataset *d, const char *source) CHECKED;
/* Parses the .npy file in a->map, which it closes on failure; fills dtype, rank, dim and data.  `label` names the file
 * or the archive's member in errors. */
Status npy_parse(Array *a, const char *label) CHECKED;
/* Parses a .npy file that stays in memory; *fortran: it is column-major. */
Status npy_view(Array *a, bool *fortran, const unsigned char *file, size_t size, const char *label) CHECKED;
/* The length of the whole file by its header, which must lie in the first n bytes. */
Status npy_length(uint64_t *out, const unsigned char *file, size_t n, const char *label) CHECKED;

bool array_is_float(const Array *a);
void array_add_channel(Array *a);               /* samples [H, W] become [1, H, W] */
size_t array_sample_elements(const Array *a);   /* of sequences: of the longest */
size_t array_position_elements(const Array *a); /* of sequences: of one position */
size_t array_bytes(const Array *a);             /* all that is stored */
int64_t array_sample_bytes(const Array *a, int64_t sample);
size_t array_sample_at(const Array *a, int64_t sample); /* where they begin */
/* The share of one process: neighbouring pieces, as evenly as possible. */
typedef struct {
    int rank, size;
} Share;

#define SHARE_ALL ((Share){ 0, 1 })

void share_range(Share s, int64_t n, int64_t *from, int64_t *to); /* of n pieces [from, to) */
/* E_INVALID, with the name `what`, for conversions that lose meaning.  Numbers that become integers must be whole and
 * fit the type; where the types do not guarantee that, all elements are checked, and arrays with `fetch` are refused.
 */
Status array_check_convert(const Array *a, dpx_dtype to, const char *what) CHECKED;
/* Does the same for the samples of the share only. */
Status array_check_share(const Array *a, dpx_dtype to, const char *what, Share share) CHECKED;
/* Ends the kernel's reading ahead, for an array of which this process reads a part; array_expect announces reads. */
void array_read_parts(const Array *a);
/* Announces to the kernel that samples index[0..n) will be read soon. */
void array_expect(const Array *a, const int64_t *index, int64_t n);
/* Copies samples index[0..n) to `out` as elements of type `to`, which array_check_convert has allowed.  Each sample has
 * room for the longest; the rest of a shorter sequence is left alone.  Not for arrays with `fetch`. */
void array_gather(const Array *a, const int64_t *index, int64_t n, dpx_dtype to, void *out);
/* Does the same for one row of any array.  With `fetch`, `scratch` has room for array_scratch bytes, and failures are
 * those of the fetch. */
Status array_take(const Array *a, int64_t row, const SampleKey *key, dpx_dtype to, void *out, void *scratch) CHECKED;
size_t array_scratch(const Array *a, dpx_dtype to);
/* Fills `out` with n times v, which the type must hold (array_holds). */
void array_fill(dpx_dtype to, double v, size_t n, void *out);
bool array_holds(dpx_dtype t, double v);

#endif
