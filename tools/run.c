/* dpexec run: one forward pass on arrays from files; dpexec devices: what there is to run on, and what it can do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/base/outfile.h"
#include "tools/commands.h"
#include "tools/feed.h"
#include "tools/npy_write.h"
#include "tools/progress.h"
#include "tools/run_dir.h"
#include "tools/world.h"

static const Flag flags[] = {
    { "input", "NAME=FILE.npy",
      "array for an input of the model, once for each; FILE.npy alone for a model's only one" },
    { "out", "DIR", "folder for the outputs, NAME.npy each" },
    { "dry-run", NULL,
      "print what each device would execute and the memory it needs, and run nothing; no data is read" },
    { "quiet", NULL, "print nothing but errors" },
    { NULL, NULL, NULL },
};

const Command command_run = { "run",
                              "MODEL.onnx --input [NAME=]FILE.npy ... --out DIR [options]",
                              "Runs a model forward and writes its outputs.",
                              flags,
                              OPTIONS_TO_RUN,
                              1,
                              1 };

enum { MAX_ARRAYS = 64, MAX_PATH = 4096, MAX_NAME = 4096, LIST_TEXT = 800 };

typedef struct {
    dpx_model *model;
    dpx_trainer *trainer;
    int n, n_out;
    char *name[MAX_ARRAYS]; /* of the inputs */
    char *file[MAX_ARRAYS]; /* of the outputs */
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
    for (int i = 0; i < MAX_ARRAYS; i++)
        free(j->file[i]);
    dpx_trainer_free(j->trainer);
    dpx_model_free(j->model);
}

/* The array as elements of type `to`, in memory of its own. */
static Status convert(Job *j, const Array *a, dpx_dtype to)
{
    dpx_tensor *t = &j->input[j->n - 1];
    Array rows = *a; /* gathered as one sample */
    int64_t n = 1, zero = 0;

    for (int i = 0; i < a->rank; i++)
        n *= a->dim[i];
    rows.rank = 2;
    rows.dim[0] = 1;
    rows.dim[1] = n;
    TRY(array_check_convert(a, to, j->name[j->n - 1]));
    *t = (dpx_tensor){ .name = j->name[j->n - 1], .dtype = to, .rank = a->rank };
    memcpy(t->dim, a->dim, sizeof t->dim);
    if (!(t->data = j->converted[j->n - 1] = aligned_alloc(64, ((size_t)n * dpx_dtype_size(to) + 64) / 64 * 64)))
        return FAIL_NOMEM();
    if (n)
        array_gather(&rows, &zero, 1, to, t->data);
    return ST_OK;
}

static Status keep_name(Job *j, const char *name)
{
    if (j->n == MAX_ARRAYS)
        return FAIL(E_UNSUPPORTED, "more than %d inputs", MAX_ARRAYS);
    for (int i = 0; i < j->n; i++)
        if (!strcmp(j->name[i], name))
            return FAIL(E_INVALID, "--input %s is given twice", name);
    return (j->name[j->n++] = strdup(name)) ? ST_OK : FAIL_NOMEM();
}

/* "'x', 'mask'": the names of the model's inputs, as many as there is room for. */
static const char *list_inputs(char text[LIST_TEXT], const dpx_model *m)
{
    size_t len = 0;
    dpx_info in;

    *text = '\0';
    for (int i = 0; i < dpx_model_count(m, DPX_INPUT) && len < LIST_TEXT - 100; i++)
        if (!dpx_model_info(m, DPX_INPUT, i, &in))
            len += (size_t)snprintf(text + len, LIST_TEXT - len, "%s'%.80s'", len ? ", " : "", in.name);
    return text;
}

/* The input of NAME=FILE.npy, of FILE.npy the only one. */
static Status find_input(dpx_info *in, const dpx_model *m, const char *argument)
{
    const char *eq = strchr(argument, '=');
    char name[MAX_NAME], text[LIST_TEXT];

    if (eq == argument || (eq && !eq[1]) || !*argument)
        return FAIL(E_INVALID, "--input: expected NAME=FILE.npy, found '%s'", argument);
    if (!eq && dpx_model_count(m, DPX_INPUT) != 1)
        return FAIL(E_INVALID, "--input: expected NAME=FILE.npy, for the model has %d inputs, found '%s'",
                    dpx_model_count(m, DPX_INPUT), argument);
    if (!eq)
        return (Status)dpx_model_info(m, DPX_INPUT, 0, in);
    snprintf(name, sizeof name, "%.*s", (int)(eq - argument), argument);
    return feed_input(in, m, name)
               ? ST_OK
               : FAIL(E_INVALID, "--input %s: the model has no such input; it has %s", name, list_inputs(text, m));
}

static Status add_input(Job *j, const Args *args, const char *argument)
{
    const char *eq = strchr(argument, '='), *path = eq ? eq + 1 : argument;
    Array a = { .scale = 1, .std = 1 };
    dpx_info in;
    Status st;

    TRY(find_input(&in, j->model, argument));
    TRY(keep_name(j, in.name));
    TRY(mapped_open(&a.map, path));
    TRY(npy_parse(&a, path));
    st = convert(j, &a, feed_dtype(args, in.dtype));
    mapped_close(&a.map);
    return st;
}

/* Before anything is computed: every output has a file of its own. */
static Status name_files(Job *j, const char *folder)
{
    dpx_info info;

    j->n_out = dpx_model_count(j->model, DPX_OUTPUT);
    if (j->n_out > MAX_ARRAYS)
        return FAIL(E_UNSUPPORTED, "%d outputs, at most %d can be written", j->n_out, MAX_ARRAYS);
    for (int i = 0; i < j->n_out; i++) {
        TRY((Status)dpx_model_info(j->model, DPX_OUTPUT, i, &info));
        TRY(npy_file_name(&j->file[i], info.name));
        if (strlen(folder) + 1 + strlen(j->file[i]) >= MAX_PATH)
            return FAIL(E_INVALID, "--out: %.40s.../%.40s: a path has at most %d bytes", folder, j->file[i],
                        MAX_PATH - 1);
        for (int k = 0; k < i; k++)
            if (!strcmp(j->file[k], j->file[i]))
                return FAIL(E_INVALID, "output '%s' and another would both be written to %s", info.name, j->file[i]);
    }
    return ST_OK;
}

static Status write_outputs(Job *j, const char *folder)
{
    char path[MAX_PATH];

    if (mkdir(folder, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", folder, strerror(errno));
    for (int i = 0; i < j->n_out; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, j->file[i]);
        TRY(npy_write(path, &j->output[i]));
    }
    return ST_OK;
}

static Status run(Job *j, const Args *a)
{
    const char *folder = args_value(a, "out");

    if (args_has(a, "dry-run"))
        return print_plan(a, args_has(a, "quiet"));
    if (!folder)
        return FAIL(E_INVALID, "--out DIR is missing");
    TRY(run_dir_check_folder(folder));
    TRY((Status)dpx_model_load_within(&j->model, a->positional[0], a->options));
    for (int i = 0; args_nth(a, "input", i); i++)
        TRY(add_input(j, a, args_nth(a, "input", i)));
    TRY(name_files(j, folder));
    TRY((Status)dpx_trainer_create(&j->trainer, j->model, a->options, report_log, &j->progress));
    TRY((Status)dpx_run(j->trainer, j->input, j->n, j->output, j->n_out));
    return write_outputs(j, folder);
}

int run_run(const Args *a)
{
    Job j = { 0 };
    Status st;

    progress_start(&j.progress, true);
    st = run(&j, a);
    close_job(&j);
    return st ? args_failed(a, "dpexec", st) : EXIT_DONE;
}

/* ---- devices ---- */

static const Flag device_flags[] = {
    { "links", NULL,
      "measure what the devices and the links between them can do, for --simulate and --links, as JSON" },
    { "o", "FILE", "where to write that [standard output]" },
    { "devices", "LIST", "which devices to measure [cpu:0]" },
    { "threads", "N", "threads of each device's team [the cores are shared out]" },
    WORLD_FLAGS,
    { NULL, NULL, NULL },
};

const Command command_devices = { "devices",
                                  "[--links [options]]",
                                  "Lists the CPU and the GPUs of this machine, or measures devices and links.",
                                  device_flags,
                                  NO_OPTIONS,
                                  0,
                                  0 };

static void print_device(const dpx_device *d)
{
    const char *unit = d->capability ? "multiprocessor" : "core";

    printf("%s  %s, %d %s%s, %.1f GiB", d->name, d->description, d->cores, unit, d->cores == 1 ? "" : "s",
           (double)d->memory / (1 << 30));
    if (d->capability)
        printf(", compute capability %d.%d, driver for CUDA %d.%d", d->capability / 10, d->capability % 10,
               d->driver / 1000, d->driver % 1000 / 10);
    putchar('\n');
}

/* `to` NULL: nowhere. */
static void write_text(void *to, const char *text, size_t bytes)
{
    if (to)
        fwrite(text, 1, bytes, to);
}

static Status measure_to(const Args *a, bool writes)
{
    const char *path = args_value(a, "o");
    OutFile *file = NULL;
    Status st;

    if (writes && path)
        TRY(outfile_open(&file, path));
    st = (Status)dpx_measure(a->options, write_text, file ? outfile_stream(file) : writes ? stdout : NULL);
    return file ? outfile_close(file, st) : st;
}

static Status measure(const Args *a, ToolWorld *w)
{
    static const char *const names[] = { "devices", "threads" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (args_has(a, names[i]))
            TRY((Status)dpx_options_set(a->options, names[i], args_value(a, names[i])));
    TRY(world_open(w, a));
    return measure_to(a, !w->rank);
}

static int run_measure(const Args *given)
{
    Args a = *given;
    ToolWorld w = { .size = 1 };
    int code = EXIT_DONE;
    Status st = (a.options = dpx_options_create()) ? measure(&a, &w) : FAIL_NOMEM();

    if (!st && fflush(stdout))
        st = FAIL(E_IO, "cannot write: %s", strerror(errno));
    if (st)
        code = args_failed(&a, "dpexec", st);
    world_close(&w, code);
    dpx_options_free(a.options);
    return code;
}

static int list_devices(void)
{
    dpx_device list[64];
    int n;
    dpx_status no_gpu = dpx_devices(list, 64, &n);

    for (int i = 0; i < n && i < 64; i++)
        print_device(&list[i]);
    if (no_gpu)
        printf("no GPU: %s\n", dpx_error());
    return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

int run_devices(const Args *a)
{
    if (args_has(a, "links"))
        return run_measure(a);
    if (a->n_given)
        return args_failed(a, "dpexec", FAIL(E_INVALID, "--%s: is for --links", a->given[0].name));
    return list_devices();
}
