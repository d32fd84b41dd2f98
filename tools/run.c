/* dpexec run: one forward pass on arrays from files; dpexec devices: what there is to run on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/commands.h"
#include "tools/feed.h"
#include "tools/npy_write.h"
#include "tools/progress.h"

static const Flag flags[] = {
    { "input", "NAME=FILE.npy", "array for an input of the model; once for each" },
    { "out", "DIR", "folder for the outputs, NAME.npy each" },
    { "dry-run", NULL, "print what each device would execute and the memory it needs, and run nothing; no data is read" },
    { "quiet", NULL, "print nothing but errors" },
    { NULL, NULL, NULL },
};

const Command command_run = { "run", "MODEL.onnx --input NAME=FILE.npy ... --out DIR [options]", "Runs a model forward and writes its outputs.",
                              flags, true, 1, 1 };

enum { MAX_ARRAYS = 64 };

typedef struct {
    dpx_model *model;
    dpx_trainer *trainer;
    int n;
    char *name[MAX_ARRAYS];
    dpx_tensor input[MAX_ARRAYS], output[MAX_ARRAYS];
    void *converted[MAX_ARRAYS];
    Progress progress;
} Job;

static void close_job(Job *j)
{
    for (int i = 0; i < j->n; i++) {
        free(j->name[i]);
        free(j->converted[i]);
    }
    dpx_trainer_free(j->trainer);
    dpx_model_free(j->model);
}

/* The array as the type that the input has, in memory of its own. */
static Status convert(Job *j, const Array *a, const dpx_info *in)
{
    dpx_tensor *t = &j->input[j->n - 1];
    Array rows = *a;
    int64_t n = 1, zero = 0;

    if (rows.rank) {                            /* gathered as one sample */
        memmove(rows.dim + 1, rows.dim, sizeof *rows.dim * (size_t)(rows.rank < DPX_MAX_RANK ? rows.rank : DPX_MAX_RANK - 1));
        for (int i = 0; i < a->rank; i++)
            n *= a->dim[i];
        rows.rank = 2;
        rows.dim[1] = n;
    } else {
        rows.rank = 1;
    }
    rows.dim[0] = 1;
    TRY(array_check_convert(a, in->dtype, in->name));
    *t = (dpx_tensor){ .name = j->name[j->n - 1], .dtype = in->dtype, .rank = a->rank };
    memcpy(t->dim, a->dim, sizeof t->dim);
    if (!(t->data = j->converted[j->n - 1] = aligned_alloc(64, ((size_t)n * dpx_dtype_size(in->dtype) + 64) / 64 * 64)))
        return FAIL_NOMEM();
    if (n)
        array_gather(&rows, &zero, 1, in->dtype, t->data);
    return ST_OK;
}

static Status add_input(Job *j, const char *argument)
{
    const char *eq = strchr(argument, '=');
    Array a = { .scale = 1, .std = 1 };
    dpx_info in;
    Status st;

    if (!eq || eq == argument || !eq[1])
        return FAIL(E_INVALID, "--input: expected NAME=FILE.npy, found '%s'", argument);
    if (j->n == MAX_ARRAYS)
        return FAIL(E_UNSUPPORTED, "more than %d inputs", MAX_ARRAYS);
    if (!(j->name[j->n++] = strndup(argument, (size_t)(eq - argument))))
        return FAIL_NOMEM();
    if (!feed_input(&in, j->model, j->name[j->n - 1]))
        return FAIL(E_INVALID, "--input %s: the model has no such input", j->name[j->n - 1]);
    TRY(mapped_open(&a.map, eq + 1));
    TRY(npy_parse(&a, eq + 1));
    st = convert(j, &a, &in);
    mapped_close(&a.map);
    return st;
}

static Status write_outputs(Job *j, const char *folder, int n)
{
    if (mkdir(folder, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[4096];
        int at = snprintf(path, sizeof path, "%s/", folder);

        snprintf(path + at, sizeof path - (size_t)at, "%s.npy", j->output[i].name);
        for (char *c = path + at; *c; c++)      /* names of values may be paths */
            if (*c == '/')
                *c = '_';
        TRY(npy_write(path, &j->output[i]));
    }
    return ST_OK;
}

static Status run(Job *j, const Args *a)
{
    const char *folder = args_value(a, "out");
    int n;

    if (args_has(a, "dry-run"))
        return print_plan(a, args_has(a, "quiet"));
    if (!folder)
        return FAIL(E_INVALID, "--out DIR is missing");
    TRY((Status)dpx_model_load(&j->model, a->positional[0]));
    for (int i = 0; args_nth(a, "input", i); i++)
        TRY(add_input(j, args_nth(a, "input", i)));
    n = dpx_model_count(j->model, DPX_OUTPUT);
    if (n > MAX_ARRAYS)
        return FAIL(E_UNSUPPORTED, "%d outputs, at most %d can be written", n, MAX_ARRAYS);
    TRY((Status)dpx_trainer_create(&j->trainer, j->model, a->options, report_log, &j->progress));
    TRY((Status)dpx_run(j->trainer, j->input, j->n, j->output, n));
    return write_outputs(j, folder, n);
}

int run_run(const Args *a)
{
    Job j = { 0 };
    Status st;

    progress_start(&j.progress, true);
    st = run(&j, a);
    close_job(&j);
    return st ? report_failure(st) : EXIT_DONE;
}

/* ---- devices ---- */

static const Flag no_flags[] = { { NULL, NULL, NULL } };

const Command command_devices = { "devices", "", "Lists the CPU and the GPUs of this machine.", no_flags, false, 0, 0 };

static void print_device(const dpx_device *d)
{
    const char *unit = d->capability ? "multiprocessor" : "core";

    printf("%s  %s, %d %s%s, %.1f GiB", d->name, d->description, d->cores, unit, d->cores == 1 ? "" : "s", (double)d->memory / (1 << 30));
    if (d->capability)
        printf(", compute capability %d.%d, driver for CUDA %d.%d", d->capability / 10, d->capability % 10, d->driver / 1000,
               d->driver % 1000 / 10);
    putchar('\n');
}

int run_devices(const Args *a)
{
    dpx_device list[64];
    int n;
    dpx_status no_gpu = dpx_devices(list, 64, &n);

    (void)a;
    for (int i = 0; i < n && i < 64; i++)
        print_device(&list[i]);
    if (no_gpu)
        printf("no GPU: %s\n", dpx_error());
    return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}
