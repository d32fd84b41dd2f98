/* Options and the JSON of a run.  What begins with '{' is the note of a checkpoint, the description of a device and a
 * line of metrics; else each line is an argument of `dpexec train`,
 * whose value is also read as a source of data and as a list of --augment. */
#include "exec/device/describe.h"
#include "exec/train/options.h"
#include "tests/fuzz/common/fuzz.h"
#include "tools/args.h"
#include "tools/commands.h"
#include "tools/data/source.h"
#include "tools/image/image_augment.h"
#include "tools/training/checkpoint_note.h"
#include "tools/training/run_dir.h"

enum { MOST_ARGUMENTS = 64 };

/* What the tools' code calls of tools/dpexec.c, which has a main of its own; nothing here gets there. */
void report_log(void *user, int level, const char *line)
{
    (void)user, (void)level;
    MUST(!line, "a run has begun");
}

static void silent(void *user, int level, const char *line)
{
    (void)user, (void)level;
    MUST(*line, "an empty warning");
}

static void read_note(const char *text)
{
    static char words[][16] = { "model.onnx", "--data=x.npz", "--loss=mse", "--lr=0.1",
                                "--batch-size=8" }; /* which are cut at '=' */
    static char *argv[] = { words[0], words[1], words[2], words[3], words[4] };
    static Args a;
    const RunFacts now = { .args = &a, .samples = 100, .batches = 13, .epochs_of_step = 1, .replicas = 1 };
    Position at;
    Status st;

    if (!a.command)
        MUST_DO(args_parse(&a, &command_train, sizeof argv / sizeof *argv, argv));
    if ((st = note_read(&at, &now, text, 40, "fuzz", silent, NULL)))
        fuzz_refused(st);
    else
        MUST(at.epoch >= 0 && at.epoch <= 40 && at.batch >= 0 && at.batch <= 13, "epoch %lld", (long long)at.epoch);
}

static void read_json(const char *text, size_t size)
{
    RunDir dir = { .lock = -1 };
    bool evaluated;
    GpuInfo gpu;
    Status st;

    read_note(text);
    if ((st = describe_read(&gpu, NULL, fuzz_file("device.json", text, size))))
        fuzz_refused(st);
    fuzz_file("metrics.jsonl", text, size);
    snprintf(dir.path, sizeof dir.path, "%s", fuzz_folder());
    MUST_DO(run_dir_rewind(&dir, 20, true, &evaluated));
}

static void check_options(const Options *o)
{
    DeviceList devices;
    Options *copy;
    Status st = options_check(o);

    if (st)
        fuzz_refused(st);
    MUST_DO(options_copy(&copy, o));
    for (int64_t step = 0; step < 4000; step += 999) {
        double rate = options_group_rate(o, 0, step, NULL), same = options_group_rate(copy, 0, step, NULL);

        MUST(rate == same, "the rate of step %lld is %g, with a copy of the options %g", (long long)step, rate, same);
    }
    for (int i = 0; i < options_count(); i++) {
        const char *name = options_at(i).name;

        MUST(!strcmp(options_get(o, name), options_get(copy, name)), "--%s was '%s', its copy is '%s'", name,
             options_get(o, name), options_get(copy, name));
    }
    options_free(copy);
    if (!strstr(options_get(o, "devices"), "all") && (st = options_devices(&devices, o)))
        fuzz_refused(st);
}

/* Each in a block of just its size, so that a read behind its end is seen.  Files of this machine are none of a
 * fuzzer's business: what names a path is passed over. */
static int split(char **argv, char *text)
{
    int n = 0;
    char *rest;

    for (char *line = strtok_r(text, "\n", &rest); line && n < MOST_ARGUMENTS; line = strtok_r(NULL, "\n", &rest))
        if (!strchr(line, '/'))
            MUST(argv[n++] = strdup(line), "memory");
    return n;
}

/* The value of a flag as a source of data and as a list of --augment. */
static void read_value(const char *text)
{
    Augment a;
    Source s;
    size_t n;
    Status st = source_parse(&s, text);

    if (st) {
        fuzz_refused(st);
    } else {
        MUST(s.format && s.path && !strcmp(s.text, text), "source '%s'", text);
        source_free(&s);
    }
    if ((st = augment_parse(&a, text, "--augment")))
        fuzz_refused(st);
    else
        MUST(augment_of_images(text) || augment_graph(&n, text), "--augment %s asks for nothing", text);
}

static void read_arguments(char *text)
{
    char *argv[MOST_ARGUMENTS];
    int n = split(argv, text);
    int64_t number;
    double real;
    Args a = { 0 };
    Status st = args_parse(&a, &command_train, n, argv);

    for (int i = 0; i < n; i++)
        read_value(strchr(argv[i], '=') ? strchr(argv[i], '=') + 1 : argv[i]);
    if (st)
        fuzz_refused(st);
    else if (a.options) {
        check_options((const Options *)a.options);
        if ((st = args_int(&number, &a, "epochs", 1, 1, 1000)) || (st = args_real(&real, &a, "mean", 0)))
            fuzz_refused(st);
    }
    args_free(&a);
    while (n > 0)
        free(argv[--n]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    MUST(text, "memory");
    memcpy(text, data, size);
    text[size] = '\0';
    if (*text == '{')
        read_json(text, size);
    else
        read_arguments(text);
    free(text);
    return 0;
}
