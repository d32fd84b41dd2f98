/* Writes predictions batch by batch, so they may be larger than memory.  An array's header has the number of samples
 * before they are computed: the data set has as many. */
#include "tools/feed/predictions.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/base/folders.h"
#include "tools/data/npy_write.h"
#include "tools/feed/trim_padding.h"

enum { MAX_PATH = 4096 };

typedef struct {
    char *name;
    OutFile *file;    /* NULL: it holds no samples */
    int axis;         /* along which its samples are given */
    const Array *of;  /* sequences whose positions its axis 1 has, or NULL */
    OutFile *offsets; /* then */
    dpx_tensor like;
} Prediction;

struct Predictions {
    char folder[MAX_PATH];
    const Feed *feed;
    int64_t samples, done;
    Progress *log;
    Prediction *at;
    int n;
};

Status predictions_open(Predictions **out, const char *folder, const Feed *feed, Progress *log)
{
    Predictions *p;
    struct stat s;

    if (strlen(folder) >= MAX_PATH)
        return FAIL(E_INVALID, "--predictions: a path has at most %d bytes", MAX_PATH - 1);
    if (!stat(folder, &s) && !S_ISDIR(s.st_mode))
        return FAIL(E_INVALID, "--predictions %s: not a folder", folder);
    TRY(make_folders(folder));
    if (!(p = calloc(1, sizeof *p)))
        return FAIL_NOMEM();
    memcpy(p->folder, folder, strlen(folder) + 1);
    p->feed = feed;
    p->samples = feed->data->samples;
    p->log = log;
    *out = p;
    return ST_OK;
}

/* Whether another output is written to a file of this name already; *by: its name. */
static bool find_same_file(const Predictions *p, const Prediction *to, const char *file, const char **by)
{
    for (const Prediction *other = p->at; other < to; other++) {
        char *taken[2] = { NULL, NULL };
        bool same = other->file && (npy_file_name(&taken[0], other->name) || !strcmp(taken[0], file));

        same |= other->offsets && (unpad_offsets_name(&taken[1], other->name) || !strcmp(taken[1], file));
        free(taken[0]);
        free(taken[1]);
        *by = other->name;
        if (same)
            return true;
    }
    return false;
}

/* FOLDER/FILE; E_INVALID: another output has this file. */
static Status make_path(char path[2 * MAX_PATH], const Predictions *p, const Prediction *to, const char *file)
{
    const char *by;

    if (find_same_file(p, to, file, &by))
        return FAIL(E_INVALID, "outputs '%s' and '%s' would both be written to %.200s", by, to->name, file);
    snprintf(path, 2 * MAX_PATH, "%s/%.4000s", p->folder, file);
    return ST_OK;
}

/* Opens the files of output x, which has its samples first, unless it has none. */
static Status open_file(Predictions *p, Prediction *to, const dpx_tensor *x)
{
    char path[2 * MAX_PATH], *file;
    dpx_tensor all = *x;
    Status st;

    if (!(to->name = strdup(x->name)))
        return FAIL_NOMEM();
    to->like = *x;
    if (to->axis < 0) {
        if (!p->log->quiet)
            progress_line(p->log, "output '%s' has no axis of samples: it is not written", x->name);
        return ST_OK;
    }
    TRY(unpad_find(&to->of, p->feed, x, to->axis, 0));
    all.dim[0] = p->samples;
    if (to->of)
        all = unpad_all(x, to->of);
    TRY(npy_file_name(&file, x->name));
    st = make_path(path, p, to, file);
    free(file);
    TRY(st ? st : npy_begin(&to->file, path, &all));
    if (!to->of)
        return ST_OK;
    TRY(unpad_offsets_name(&file, to->name));
    st = make_path(path, p, to, file);
    free(file);
    return st ? st : unpad_offsets(&to->offsets, path, to->of);
}

/* Copies x with its samples along axis 0 into memory *held, which the caller frees; NULL: they are there already. */
static Status predictions_turn(dpx_tensor *out, void **held, const dpx_tensor *x, int axis)
{
    size_t before = 1, behind = dpx_dtype_size(x->dtype);

    *out = *x;
    *held = NULL;
    if (axis < 1 || axis >= x->rank)
        return ST_OK;
    for (int k = 0; k < x->rank; k++)
        *(k < axis ? &before : &behind) *= k == axis ? 1 : (size_t)x->dim[k];
    if (!(*held = malloc(before * (size_t)x->dim[axis] * behind + 1)))
        return FAIL_NOMEM();
    for (size_t n = 0; n < (size_t)x->dim[axis]; n++)
        for (size_t k = 0; k < before; k++)
            memcpy((char *)*held + (n * before + k) * behind,
                   (const char *)x->data + (k * (size_t)x->dim[axis] + n) * behind, behind);
    memmove(out->dim + 1, x->dim, (size_t)axis * sizeof *out->dim);
    out->dim[0] = x->dim[axis];
    out->data = *held;
    return ST_OK;
}

static Status predictions_begin(Predictions *p, const dpx_result *r)
{
    if (!(p->at = calloc((size_t)r->n_outputs + 1, sizeof *p->at)))
        return FAIL_NOMEM();
    while (p->n < r->n_outputs) {
        Prediction *to = &p->at[p->n++];
        dpx_tensor x;
        void *held;
        Status st;

        TRY(unpad_samples_axis(&to->axis, p->feed, &r->outputs[p->n - 1], r->samples));
        TRY(predictions_turn(&x, &held, &r->outputs[p->n - 1], to->axis));
        st = open_file(p, to, &x);
        free(held);
        TRY(st);
    }
    return ST_OK;
}

/* Appends a batch of one output.  Its shape must be as before but for the samples, and for the positions of sequences.
 */
static Status add(const Predictions *p, const Prediction *to, const dpx_tensor *x, int64_t samples)
{
    bool same = x->rank == to->like.rank && x->dim[0] == samples;
    size_t bytes = dpx_dtype_size(x->dtype);
    const Array *of = NULL;

    for (int k = 0; k < x->rank; k++)
        bytes *= (size_t)x->dim[k];
    for (int k = to->of ? 2 : 1; same && k < x->rank; k++)
        same = x->dim[k] == to->like.dim[k];
    if (same && to->of)
        TRY(unpad_find(&of, p->feed, x, to->axis, p->done));
    if (!same || of != to->of)
        return FAIL(E_SHAPE, "--predictions: output '%s' has another shape in this batch than in those before",
                    x->name);
    if (of)
        unpad_write(outfile_stream(to->file), x, of, p->done);
    else
        fwrite(x->data, 1, bytes, outfile_stream(to->file));
    return ST_OK;
}

Status predictions_add(Predictions *p, const dpx_result *r)
{
    if (!p->at)
        TRY(predictions_begin(p, r));
    for (int i = 0; i < p->n; i++) {
        dpx_tensor x;
        void *held;
        Status st;

        if (!p->at[i].file)
            continue;
        TRY(predictions_turn(&x, &held, &r->outputs[i], p->at[i].axis));
        st = add(p, &p->at[i], &x, r->samples);
        free(held);
        TRY(st);
    }
    p->done += r->samples;
    return ST_OK;
}

Status predictions_close(Predictions *p, Status st)
{
    if (!p)
        return st;
    if (!st && p->done != p->samples)
        st = FAIL(E_INTERNAL, "predictions of %lld samples, expected %lld", (long long)p->done, (long long)p->samples);
    for (int i = 0; i < p->n; i++) {
        if (p->at[i].file)
            st = outfile_close(p->at[i].file, st);
        if (p->at[i].offsets)
            st = outfile_close(p->at[i].offsets, st);
        free(p->at[i].name);
    }
    free(p->at);
    free(p);
    return st;
}
