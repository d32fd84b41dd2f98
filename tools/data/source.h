/* Sources of data as the user writes them: [PREFIX:]PATH[,OPTION=VALUE]...; and the formats that read them. */
#ifndef DPX_TOOLS_SOURCE_H
#define DPX_TOOLS_SOURCE_H

#include <jansson.h>
#include <stdbool.h>

#include "graph/base/status.h"
#include "include/dpexec.h"

typedef struct DataFormat DataFormat;
typedef struct Dataset Dataset;

/* An option of a format, for the parser, --help and errors. */
typedef struct {
    const char *name, *metavar, *help;
} DataOption;

enum { MAX_SOURCE_OPTIONS = 32, MAX_CHANNELS = 8 };

/* A source that was parsed.  The path ends at the first ",name=" whose name is lower-case letters; an option's value
 * ends at the next one, so it may hold commas.  A backslash before `,`, `:` or `\` makes it a plain character.  A path
 * that exists as it is written is taken whole. */
typedef struct {
    char *text;               /* as the user wrote it, for messages */
    const DataFormat *format; /* NULL: unknown */
    char *path;               /* without prefix and options */
    char *buffer;             /* holds names and values */
    struct {
        const char *name, *value;
    } option[MAX_SOURCE_OPTIONS];
    int n;
} Source;

/* Value = (element * scale - mean[c]) / std[c] of channel c, when elements become floats; channels lie along axis 1. */
typedef struct {
    int channels; /* 1: all share the numbers; 0: elements are taken as they are */
    double scale, mean[MAX_CHANNELS], std[MAX_CHANNELS];
} Normalisation;

/* Facts beside the source that a format may need. */
typedef struct {
    const dpx_info *input; /* [inputs] of the model */
    int inputs;            /* 0: unknown */
    const bool *extent;    /* [inputs] whether it gets lengths or a mask where there are sequences; NULL: none does */
    const char *const *mapped; /* [inputs] the array that --map names; NULL: none, or for all inputs */
    Normalisation norm;        /* by --mean and --std, of at least one channel */
    bool training;             /* the source is --data of a training run */
    dpx_target_kind target;    /* that the loss takes */
    int64_t scores;            /* the number of classes that the model has scores for; 0: unknown */
    int64_t block;             /* tokens that the model reads at most, by its metadata; 0: unknown */
    const char *augment;       /* --augment; NULL: not given */
    const char *group;         /* the array that tells which samples --val-split keeps together; NULL: none */
    const dpx_info *output;    /* of the model, that the loss reads; NULL: unknown */
    int64_t ignored;           /* --ignore-index; below 0: not given */
    bool predicts;             /* a model takes the samples, and no loss needs targets */
    int threads;               /* that read and tokenise texts; 0: one */
    bool joined;               /* the model's file contains its preprocessing: it takes raw values */
    bool skip_broken;          /* --skip-broken: leave out samples that cannot be read */
    /* A JSON object with the facts that sources fitted on --data, a key for each: classes in their order, statistics,
     * sizes.  A format takes the facts that are there, and adds those that are missing: so --val, a resumed run and
     * `dpexec eval` of a run's model see what training saw.  NULL: nothing is kept. */
    json_t *fitted;
} SourceContext;

/* Receives a named value of a sample, as people read it. */
typedef Status SampleFact(void *user, const char *name, const char *text);

/* A format of data sets.  Its file defines it with DEFINE_DATA_FORMAT; the build lists it, and help and errors name it.
 * A source has the format whose prefix it begins with; or that of folders, if it is one; or the one whose suffix its
 * path ends with. */
struct DataFormat {
    const char *form, *help;   /* "FILE.npz", and its contents */
    const char *prefix;        /* "idx:" */
    const char *suffix;        /* ".npz" */
    bool folder;               /* reads folders that are given without a prefix */
    bool sharded;              /* its path is a pattern of several files (tools/data/shard_paths.h) */
    bool scaled;               /* by --mean and --std */
    bool augmented;            /* by --augment */
    bool laborious;            /* a sample takes a core's time to make, as an image that is decoded */
    const DataOption *options; /* ends with a NULL name; NULL: only those that every source has */
    /* Adds the arrays (dataset_add). */
    Status (*read)(Dataset *d, const Source *s, const SourceContext *c);
    /* (optional) Fits on rows row[0..n) of the training set, which ascend, or with NULL the first n; called once after
     * `read`, when it is known which rows are trained on.  Arrays may get their final shapes here.  Where several
     * processes train, rank 0 fits, and the others are called with its facts in c->fitted, which they take. */
    Status (*fit)(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n);
    /* (optional) The line of the source's file where a row begins, from 1. */
    int64_t (*line)(const Dataset *d, int64_t row);
    /* (optional) The file of a row, for formats that keep each sample in its own. */
    const char *(*file)(const Dataset *d, int64_t row);
    /* (optional) Describes a sample to people: the cells of a table's row, a text.  At most `bytes` of a text are
     * wanted. Formats whose samples are images need none. */
    Status (*describe)(Dataset *d, int64_t row, size_t bytes, SampleFact *take, void *user);
    /* (optional) Writes files beside a run's model, once it is fitted. */
    Status (*write)(const Dataset *d, const char *folder);
};

#define DEFINE_DATA_FORMAT(n, ...) const DataFormat data_format_##n = { __VA_ARGS__ }

extern const DataFormat *const data_formats[]; /* by their names; NULL ends */
extern const DataOption source_options[];      /* those of every source; NULL ends */
/* Lists all formats: "FILE.npz, FILE.npy or idx:IMAGES,LABELS". */
enum { DATA_FORMS = 1024 };
const char *data_forms(char text[DATA_FORMS]);

/* E_INVALID lists the options that the format has, or for an unknown format the sources that there are. */
Status source_parse(Source *out, const char *text) CHECKED;
void source_free(Source *s);
/* Fails for a path that no format reads: `why` ("the folder holds no .npy files"), the sources that there are, and the
 * statements of NumPy that make a .npz of such files. */
Status source_refuse(Status code, const char *path, const char *why) CHECKED;
const char *source_value(const Source *s, const char *name); /* NULL: not given */
/* The option's whole number in [min, max], or `fallback` when it is not given. */
Status source_int(int64_t *out, const Source *s, const char *name, int64_t fallback, int64_t min, int64_t max) CHECKED;
bool ends_with(const char *s, const char *end);

#endif
