/* dpexec run: one forward pass on arrays from files; dpexec devices: what there is to run on, and what it can do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/folders.h"
#include "graph/base/outfile.h"
#include "tools/commands.h"
#include "tools/feed/feed.h"
#include "tools/feed/input_members.h"
#include "tools/data/npy_text.h"
#include "tools/data/npy_write.h"
#include "tools/progress.h"
#include "tools/run_source.h"
#include "tools/training/run_dir.h"
#include "tools/feed/trim_padding.h"
#include "tools/world.h"

static const Flag flags[] = {
    { "input", "NAME=FILE.npy...", "array for an input of the model; FILE.npy alone if the model has one input" },
    SEQUENCE_FLAGS,
    SOURCE_FLAGS,
    { "at", "best|last|STEP", "which model of a run, where MODEL.onnx is its folder [best, if there is one]" },
    { "out", "DIR", "folder for the outputs, each as NAME.npy" },
    { "o", "FILE.csv|FOLDER/",
      "file for the predictions of SRC, one line per sample, or folder for one mask per image [standard output]" },
    { "dry-run", NULL,
      "print what each device would execute and the memory it needs, and run nothing; no data is read" },
    { "verbose", NULL, "print also how sources are read, and how the model is divided over devices, input by input" },
    { "quiet", NULL, "print nothing but errors" },
    { NULL, NULL, NULL },
};

const Command command_run = {
    "run",
    "MODEL.onnx (SRC [-o FILE.csv|FOLDER/] | --input [NAME=]FILE.npy ... --out DIR) [options]",
    "Runs a model forward and writes its outputs.",
    flags,
    OPTIONS_TO_RUN,
    1,
    2,
    NULL
};

enum { MAX_ARRAYS = 64, MAX_PATH = 4096, MAX_NAME = 4096, LIST_TEXT = 800 };

typedef struct {
    dpx_model *model;
    dpx_trainer *trainer;
    int n, n_input, n_out;  /* n: inputs read as they are; n_input: with sequences */
    char *name[MAX_ARRAYS]; /* of the inputs */
    int room;
    char **file; /* [room] names of the outputs' files */
    dpx_tensor input[MAX_ARRAYS], *output;
    void *converted[MAX_ARRAYS];
    Feed sequences;     /* inputs that are sequences of unequal length, their lengths and masks */
    Loader *loader;     /* holds the one batch of these; NULL: there are none */
    const Batch *batch; /* lent by the loader */
    Progress progress;
} Job;

static void free_room(Job *j)
{
    for (int i = 0; j->file && i < j->room; i++)
        free(j->file[i]);
    free(j->file);
    free(j->output);
}

static void close_job(Job *j)
{
    for (int i = 0; i < j->n; i++) {
        free(j->name[i]);
        free(j->converted[i]);
    }
    free_room(j);
    loader_free(j->loader);
    feed_close(&j->sequences);
    dpx_trainer_free(j->trainer);
    dpx_model_free(j->model);
}

/* Makes the array the last input, with elements of type `to` in memory of its own. */
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
static const char *run_list_inputs(char text[LIST_TEXT], const dpx_model *m)
{
    size_t len = 0;
    dpx_info in;

    *text = '\0';
    for (int i = 0; i < dpx_model_count(m, DPX_INPUT) && len < LIST_TEXT - 100; i++)
        if (!dpx_model_info(m, DPX_INPUT, i, &in))
            len += (size_t)snprintf(text + len, LIST_TEXT - len, "%s'%.80s'", len ? ", " : "", in.name);
    return text;
}

/* The model's input that an argument NAME=FILE.npy, or FILE.npy for the only input, is for. */
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
               : FAIL(E_INVALID, "--input %s: the model has no such input; it has %s", name, run_list_inputs(text, m));
}

/* The name in an argument: "x" in x=FILE.npy, "" in FILE.npy. */
static void argument_name(char name[MAX_NAME], const char *argument)
{
    const char *eq = strchr(argument, '=');

    snprintf(name, MAX_NAME, "%.*s", eq ? (int)(eq - argument) : 0, argument);
}

/* Whether the argument gives offsets or lengths of sequences: of `name`, or with "" of any.  It is an array
 * NAME.offsets or NAME.lengths that is no input of the model. */
static bool is_extent(const Job *j, const char *argument, const char *name)
{
    char own[MAX_NAME];
    dpx_info in;
    const size_t n = strlen(name);

    argument_name(own, argument);
    if (feed_input(&in, j->model, own))
        return false;
    return !n ? ends_with(own, ".offsets") || ends_with(own, ".lengths")
              : !strncmp(own, name, n) && (!strcmp(own + n, ".offsets") || !strcmp(own + n, ".lengths"));
}

/* Adds an array to the sequences; without `maps` only its name, which is taken by another input. */
static Status add_sequence(Job *j, const char *name, const char *path, bool maps)
{
    Array a = { .rank = 1, .describes = !maps };

    if (!j->sequences.data && !(j->sequences.data = calloc(1, sizeof *j->sequences.data)))
        return FAIL_NOMEM();
    if (maps) {
        TRY(mapped_open(&a.map, path));
        TRY(npy_parse(&a, path));
    }
    if (!(a.name = strdup(name))) {
        mapped_close(&a.map);
        return FAIL_NOMEM();
    }
    return dataset_add(j->sequences.data, &a, path);
}

static Status add_input(Job *j, const Args *args, const char *argument)
{
    const char *eq = strchr(argument, '='), *path = eq ? eq + 1 : argument;
    Array a = { 0 };
    char name[MAX_NAME];
    dpx_info in;
    Status st;

    argument_name(name, argument);
    if (eq && eq[1] && is_extent(j, argument, ""))
        return add_sequence(j, name, path, true);
    TRY(find_input(&in, j->model, argument));
    for (int i = 0; *in.name && args_nth(args, "input", i); i++)
        if (is_extent(j, args_nth(args, "input", i), in.name))
            return add_sequence(j, in.name, path, true);
    TRY(keep_name(j, in.name));
    TRY(mapped_open(&a.map, path));
    TRY(npy_parse(&a, path));
    st = convert(j, &a, feed_dtype(args, in.dtype));
    mapped_close(&a.map);
    return st;
}

/* Adds the sequences as inputs: all samples as one batch. */
static Status add_sequences(Job *j, const Args *args)
{
    static const char *const flags_of[] = { "padding", "pad-multiple", "lengths", "mask", "padding-mask" };
    Dataset *data = j->sequences.data;
    Progress progress;
    const Batch *b;
    dpx_info in;

    for (size_t i = 0; i < sizeof flags_of / sizeof *flags_of && !data; i++)
        if (args_has(args, flags_of[i]))
            return FAIL(E_INVALID, "--%s is for sequences: no --input NAME.offsets or NAME.lengths is given",
                        flags_of[i]);
    if (!data)
        return ST_OK;
    progress_start(&progress, args_has(args, "quiet"));
    for (int i = 0; i < j->n; i++) /* these inputs have their data already */
        TRY(add_sequence(j, j->name[i], j->name[i], false));
    for (int i = 0; i < data->n; i++) {
        const char *name = data->array[i].name;
        char of[MAX_NAME];

        snprintf(of, sizeof of, "%.*s", (int)(strlen(name) - strlen(".offsets")), name); /* or ".lengths" */
        if (!feed_input(&in, j->model, name) && !dataset_find(data, of))
            return FAIL(E_INVALID, "--input %s: there is no --input %s", name, of);
    }
    TRY(dataset_complete(data, "--input"));
    TRY(feed_sequences(&j->sequences, args, j->model, data, "--input", &progress));
    TRY(loader_create(&j->loader, data, j->sequences.field, j->sequences.n,
                      (LoaderOptions){ .batch_size = data->samples }));
    TRY(loader_start(j->loader, 0, 0));
    if (!(j->batch = b = loader_next(j->loader)) || j->n + b->n > MAX_ARRAYS)
        return FAIL(E_UNSUPPORTED, "more than %d inputs", MAX_ARRAYS);
    memcpy(j->input + j->n, b->tensor, (size_t)b->n * sizeof *b->tensor);
    j->n_input = j->n + b->n;
    return ST_OK;
}

static Status run_make_room(Job *j, int n)
{
    free_room(j);
    j->n_out = j->room = n;
    j->output = calloc((size_t)n + 1, sizeof *j->output);
    j->file = calloc((size_t)n + 1, sizeof *j->file);
    return j->output && j->file ? ST_OK : FAIL_NOMEM();
}

/* Names the file of an output; E_INVALID: another output has it. */
static Status name_file(Job *j, int i, const char *output, const char *folder)
{
    TRY(npy_file_name(&j->file[i], output));
    if (strlen(folder) + 1 + strlen(j->file[i]) >= MAX_PATH)
        return FAIL(E_INVALID, "--out: %.40s.../%.40s: a path has at most %d bytes", folder, j->file[i], MAX_PATH - 1);
    for (int k = 0; k < i; k++)
        if (!strcmp(j->file[k], j->file[i]))
            return FAIL(E_INVALID, "output '%s' and another would both be written to %s", output, j->file[i]);
    return ST_OK;
}

/* Writes output i without padding, and NAME.offsets.npy beside it. */
static Status write_sequences(const Job *j, int i, const char *folder, const Array *of)
{
    char path[MAX_PATH + 16], *file;
    const dpx_tensor all = unpad_all(&j->output[i], of);
    OutFile *out;
    Status st = ST_OK;

    TRY(unpad_offsets_name(&file, j->output[i].name));
    snprintf(path, sizeof path, "%s/%s", folder, file);
    for (int k = 0; k < j->n_out && !st; k++)
        if (!strcmp(j->file[k], file))
            st = FAIL(E_INVALID, "outputs '%s' and '%s' would both be written to %s", j->output[i].name,
                      j->output[k].name, path);
    free(file);
    TRY(st);
    TRY(unpad_offsets(&out, path, of));
    TRY(outfile_close(out, ST_OK));
    snprintf(path, sizeof path, "%s/%s", folder, j->file[i]);
    TRY(npy_begin(&out, path, &all));
    unpad_write(outfile_stream(out), &j->output[i], of, 0);
    return outfile_close(out, ST_OK);
}

/* Computes the outputs.  How many there are with --output-device each is known afterwards. */
static Status compute_outputs(Job *j, const Args *a, const char *folder)
{
    const int n = j->n_out * dpx_trainer_replicas(j->trainer);

    if (j->loader)
        TRY(loader_give_lengths(j->loader, j->batch, j->trainer));
    if (strcmp(dpx_options_get(a->options, "output-device"), "each") != 0)
        return (Status)dpx_run(j->trainer, j->input, j->n_input, j->output, j->n_out);
    TRY(run_make_room(j, n));
    TRY((Status)dpx_run(j->trainer, j->input, j->n_input, j->output, n));
    for (j->n_out = 0; j->n_out < n && j->output[j->n_out].name; j->n_out++)
        TRY(name_file(j, j->n_out, j->output[j->n_out].name, folder));
    return ST_OK;
}

static Status write_outputs(Job *j, const char *folder)
{
    char path[MAX_PATH];

    TRY(make_folders(folder));
    for (int i = 0; i < j->n_out; i++) {
        const dpx_tensor *y = &j->output[i];
        const Array *of = NULL;
        int axis = -1;

        if (j->loader)
            TRY(unpad_samples_axis(&axis, &j->sequences, y, j->sequences.data->samples));
        if (!axis)
            TRY(unpad_find(&of, &j->sequences, y, 0, 0));
        snprintf(path, sizeof path, "%s/%s", folder, j->file[i]);
        TRY(of ? write_sequences(j, i, folder, of) : npy_write(path, y));
    }
    return ST_OK;
}

/* ---- interpreting a model, where the data determine shapes ---- */

/* Reads the array of an argument, which may be of strings. */
static Status read_array(dpx_data **out, Job *j, const char *argument)
{
    const char *eq = strchr(argument, '=');
    Array a = { .texts = true };
    const int i = j->n;
    char name[MAX_NAME];
    Status st;

    argument_name(name, argument);
    TRY(keep_name(j, name));
    TRY(mapped_open(&a.map, eq ? eq + 1 : argument));
    st = npy_parse(&a, eq ? eq + 1 : argument);
    if (!st && a.dtype == DPX_STRING) {
        j->input[i] = (dpx_tensor){ .name = j->name[i], .dtype = DPX_STRING, .rank = a.rank };
        memcpy(j->input[i].dim, a.dim, sizeof a.dim);
        st = npy_text_read(&j->converted[i], &a, eq ? eq + 1 : argument);
        j->input[i].data = j->converted[i];
    } else if (!st) {
        st = convert(j, &a, a.dtype);
    }
    mapped_close(&a.map);
    return st ? st : (Status)dpx_data_tensor(out, &j->input[j->n - 1]);
}

static Status run_add_output(Job *j, const char *folder, const char *name, const dpx_data *one)
{
    TRY((Status)dpx_data_view(one, &j->output[j->n_out]));
    TRY(name_file(j, j->n_out, name, folder));
    j->n_out++;
    return ST_OK;
}

/* Writes the outputs in the map; a sequence y as y.0, y.1, ... */
static Status write_values(Job *j, const dpx_data *map, const char *folder)
{
    char name[MAX_NAME];
    int n = 0;

    for (int i = 0; i < dpx_data_count(map); i++)
        n += dpx_data_kind_of(dpx_data_at(map, i)) == DPX_DATA_LIST ? dpx_data_count(dpx_data_at(map, i)) : 1;
    TRY(run_make_room(j, n));
    j->n_out = 0;
    for (int i = 0; i < dpx_data_count(map); i++) {
        const dpx_data *v = dpx_data_at(map, i);
        const bool list = dpx_data_kind_of(v) == DPX_DATA_LIST;

        if (!list)
            TRY(run_add_output(j, folder, dpx_data_key(map, i), v));
        for (int k = 0; list && k < dpx_data_count(v); k++) {
            snprintf(name, sizeof name, "%.*s.%d", MAX_NAME - 16, dpx_data_key(map, i), k);
            TRY(run_add_output(j, folder, name, dpx_data_at(v, k)));
        }
    }
    return write_outputs(j, folder);
}

/* Interprets a model that was `refused` because the data determine its shapes, unless an option needs a plan. */
static Status run_interpreted(Job *j, const Args *a, const char *folder, Status refused)
{
    static const char *const planned[] = { "preprocess", "dtype" };
    dpx_data *array[MAX_ARRAYS] = { NULL }, *map = NULL, *out = NULL;
    Status st = ST_OK;

    for (size_t i = 0; i < sizeof planned / sizeof *planned; i++)
        if (*dpx_options_get(a->options, planned[i]))
            return refused;
    if (args_want_parts(a) || j->loader)
        return refused;
    progress_line(&j->progress, "dpexec: warning: interpreted: %s", dpx_error());
    close_job(j);
    *j = (Job){ .progress = j->progress };
    for (int i = 0; args_nth(a, "input", i) && !st; i++)
        st = i < MAX_ARRAYS ? read_array(&array[i], j, args_nth(a, "input", i))
                            : FAIL(E_UNSUPPORTED, "more than %d inputs", MAX_ARRAYS);
    st = st ? st : (Status)dpx_data_map(&map, (const char *const *)j->name, (const dpx_data *const *)array, j->n);
    st = st ? st : (Status)dpx_interpret(&out, a->positional[0], a->options, map);
    for (int i = 0; i < MAX_ARRAYS; i++)
        dpx_data_free(array[i]);
    dpx_data_free(map);
    st = st ? st : write_values(j, out, folder);
    dpx_data_free(out);
    return st;
}

static Status run_planned(Job *j, const Args *a, const char *folder)
{
    char text[LIST_TEXT];
    dpx_info info;
    int n;

    TRY(members_load(&j->model, a, NULL, NULL, &j->progress));
    n = dpx_model_count(j->model, DPX_OUTPUT);
    for (int i = 0; args_nth(a, "input", i); i++)
        TRY(add_input(j, a, args_nth(a, "input", i)));
    j->n_input = j->n;
    TRY(add_sequences(j, a));
    if (n > MAX_ARRAYS)
        return FAIL(E_UNSUPPORTED, "%d outputs, at most %d can be written", n, MAX_ARRAYS);
    TRY(run_make_room(j, n));
    for (int i = 0; i < n; i++) {
        TRY((Status)dpx_model_info(j->model, DPX_OUTPUT, i, &info));
        TRY(name_file(j, i, info.name, folder));
    }
    if (j->loader)
        TRY(args_join_outputs(a, "outputs of sequences are put together, to be written without padding"));
    TRY((Status)dpx_trainer_create(&j->trainer, j->model, a->options, report_log, &j->progress));
    if (!args_has(a, "input") && !args_has(a, "input-members") && dpx_model_count(j->model, DPX_INPUT))
        return FAIL(E_INVALID, "--input NAME=FILE.npy is missing: the model has %s", run_list_inputs(text, j->model));
    TRY(compute_outputs(j, a, folder));
    return write_outputs(j, folder);
}

static Status run(Job *j, const Args *a)
{
    const char *folder = args_value(a, "out");
    Status st;

    if (args_has(a, "dry-run"))
        return print_plan(a, args_has(a, "quiet"));
    if (a->n_positional > 1)
        return run_on_source(a, &j->progress);
    if (args_has(a, "o"))
        return FAIL(E_INVALID, "-o is for the predictions of a source: dpexec run MODEL.onnx SRC -o FILE.csv");
    if (!folder)
        return FAIL(E_INVALID, "--out DIR is missing");
    TRY(run_dir_check_folder(folder));
    st = run_planned(j, a, folder);
    return st == E_UNSUPPORTED ? run_interpreted(j, a, folder, st) : st;
}

int run_run(const Args *a)
{
    Job j = { 0 };
    Status st;

    progress_start(&j.progress, !args_has(a, "verbose") || args_has(a, "quiet"));
    j.progress.verbose = args_has(a, "verbose");
    st = run(&j, a);
    close_job(&j);
    return st ? args_failed(a, "dpexec", st) : EXIT_DONE;
}

/* ---- devices ---- */

static const Flag device_flags[] = {
    { "links", NULL, "measure the speed of devices and of the links between them, as JSON for --simulate and --links" },
    { "o", "FILE", "where to write the measurement [standard output]" },
    { "devices", "LIST", "which devices to measure [cpu:0]" },
    { "threads", "N", "CPU threads of each device [an equal share of the cores]" },
    { "isa", "SET", "instruction set of the CPU kernels, as in train [auto]" },
    WORLD_FLAGS,
    { NULL, NULL, NULL },
};

const Command command_devices = { "devices",
                                  "[--links [options]]",
                                  "Lists the CPU and the GPUs of this machine, or measures devices and links.",
                                  device_flags,
                                  NO_OPTIONS,
                                  0,
                                  0,
                                  NULL };

/* A dpx_write_fn; `to` NULL: writes nothing. */
static void write_text(void *to, const char *text, size_t bytes)
{
    if (to)
        fwrite(text, 1, bytes, to);
}

/* Measures devices and links; rank 0 writes the result. */
static Status measure(const Args *a, ToolWorld *w)
{
    static const char *const names[] = { "devices", "threads", "isa" };
    const char *path = args_value(a, "o");
    OutFile *file = NULL;
    Status st;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (args_has(a, names[i]))
            TRY((Status)dpx_options_set(a->options, names[i], args_value(a, names[i])));
    TRY(world_open(w, a));
    if (!w->rank && path)
        TRY(outfile_open(&file, path));
    st = (Status)dpx_measure(a->options, write_text, file ? outfile_stream(file) : !w->rank ? stdout : NULL);
    return file ? outfile_close(file, st) : st;
}

int run_devices(const Args *a)
{
    dpx_device list[64];
    int n, code = EXIT_DONE;
    Status st;

    if (args_has(a, "links")) {
        Args own = *a;
        ToolWorld w = { .size = 1 };

        st = (own.options = dpx_options_create()) ? measure(&own, &w) : FAIL_NOMEM();
        if (st)
            code = args_failed(&own, "dpexec", st);
        world_close(&w, code);
        dpx_options_free(own.options);
        return code;
    }
    if (a->n_given)
        return args_failed(a, "dpexec", FAIL(E_INVALID, "--%s: is for --links", a->given[0].name));
    st = (Status)dpx_devices(list, 64, &n);
    for (int i = 0; i < n && i < 64; i++) {
        const dpx_device *d = &list[i];

        printf("%s  %s, %d %s%s, %.1f GiB", d->name, d->description, d->cores,
               d->capability ? "multiprocessor" : "core", d->cores == 1 ? "" : "s", (double)d->memory / (1 << 30));
        if (d->capability)
            printf(", compute capability %d.%d, driver for CUDA %d.%d", d->capability / 10, d->capability % 10,
                   d->driver / 1000, d->driver % 1000 / 10);
        putchar('\n');
    }
    if (st)
        printf("no GPU: %s\n", dpx_error());
    return EXIT_DONE;
}
