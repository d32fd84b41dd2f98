/* Predictions are written batch by batch, so that there may be more of them than memory.  An array's header says how
 * many samples it has before they are there: the data set knows. */
#include "tools/predictions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/npy_write.h"

enum { MAX_PATH = 4096 };

typedef struct {
    char *name;
    OutFile *file; /* NULL: it holds no samples */
    dpx_tensor like;
} Prediction;

struct Predictions {
    char folder[MAX_PATH];
    int64_t samples, done;
    Progress *log;
    Prediction *at;
    int n;
};

Status predictions_open(Predictions **out, const char *folder, int64_t samples, Progress *log)
{
    Predictions *p;
    struct stat s;

    if (strlen(folder) >= MAX_PATH)
        return FAIL(E_INVALID, "--predictions: a path has at most %d bytes", MAX_PATH - 1);
    if (mkdir(folder, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", folder, strerror(errno));
    if (stat(folder, &s) || !S_ISDIR(s.st_mode))
        return FAIL(E_INVALID, "--predictions %s: is no folder", folder);
    if (!(p = calloc(1, sizeof *p)))
        return FAIL_NOMEM();
    memcpy(p->folder, folder, strlen(folder) + 1);
    p->samples = samples;
    p->log = log;
    *out = p;
    return ST_OK;
}

static Status open_file(Predictions *p, Prediction *to, const dpx_tensor *x, int64_t samples)
{
    char path[2 * MAX_PATH];
    char *file;

    if (!(to->name = strdup(x->name)))
        return FAIL_NOMEM();
    to->like = *x;
    if (!x->rank || x->dim[0] != samples) {
        if (!p->log->quiet)
            progress_line(p->log, "output '%s' has not the samples along its first axis: it is not written", x->name);
        return ST_OK;
    }
    to->like.dim[0] = p->samples;
    TRY(npy_file_name(&file, x->name));
    for (const Prediction *other = p->at; other < to; other++) {
        char *taken;
        bool same;

        TRY(npy_file_name(&taken, other->name));
        same = other->file && !strcmp(taken, file);
        free(taken);
        if (same) {
            free(file);
            return FAIL(E_INVALID, "outputs '%s' and '%s' would both be written to one file", other->name, x->name);
        }
    }
    snprintf(path, sizeof path, "%s/%.4000s", p->folder, file);
    free(file);
    return npy_begin(&to->file, path, &to->like);
}

static Status begin(Predictions *p, const dpx_result *r)
{
    if (!(p->at = calloc((size_t)r->n_outputs + 1, sizeof *p->at)))
        return FAIL_NOMEM();
    while (p->n < r->n_outputs) {
        Prediction *to = &p->at[p->n++];

        TRY(open_file(p, to, &r->outputs[p->n - 1], r->samples));
    }
    return ST_OK;
}

Status predictions_add(Predictions *p, const dpx_result *r)
{
    if (!p->at)
        TRY(begin(p, r));
    for (int i = 0; i < p->n; i++) {
        const dpx_tensor *x = &r->outputs[i];
        size_t bytes = dpx_dtype_size(x->dtype);
        bool same = x->rank == p->at[i].like.rank && (!x->rank || x->dim[0] == r->samples);

        for (int k = 0; k < x->rank; k++)
            bytes *= (size_t)x->dim[k];
        for (int k = 1; k < x->rank; k++)
            same &= x->dim[k] == p->at[i].like.dim[k];
        if (p->at[i].file && !same)
            return FAIL(E_SHAPE, "--predictions: output '%s' has another shape in this batch than in those before",
                        x->name);
        if (p->at[i].file)
            fwrite(x->data, 1, bytes, outfile_stream(p->at[i].file));
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
        free(p->at[i].name);
    }
    free(p->at);
    free(p);
    return st;
}
