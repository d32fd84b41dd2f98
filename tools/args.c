/* Reads a whole command line before judging it, so that one run lists everything that is wrong with it. */
#include "tools/args.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/help.h"

const Flag *args_flag(const Command *c, const char *name)
{
    for (const Flag *f = c->flags; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

static bool find_option(dpx_option_info *out, const Command *c, const char *name)
{
    for (int i = 0; c->takes && i < dpx_option_count(); i++)
        if (!strcmp((*out = dpx_option_at(i)).name, name))
            return true;
    return false;
}

bool args_known(const Command *c, const char *name, bool *takes_value)
{
    dpx_option_info option;
    const Flag *flag = args_flag(c, name);

    *takes_value = flag && flag->metavar;
    if (flag && !(flag->metavar && *flag->metavar == '['))
        return true;
    if (!find_option(&option, c, name) || option.derived)
        return flag != NULL;
    *takes_value = option.metavar != NULL;
    return true;
}

bool metavar_repeats(const char *metavar)
{
    const size_t n = metavar ? strlen(metavar) : 0;

    return n > 3 && !strcmp(metavar + n - 3, "...");
}

bool args_is_list(const Command *c, const char *name)
{
    dpx_option_info option;
    const Flag *flag = args_flag(c, name);

    if (flag && !(flag->metavar && *flag->metavar == '['))
        return metavar_repeats(flag->metavar);
    return find_option(&option, c, name) && (option.repeats || metavar_repeats(option.metavar));
}

/* The number of letters to insert, delete or change; INT_MAX when there are more than `most`, or a word is long. */
static int edits(const char *a, const char *b, int most)
{
    enum { LONGEST = 32 };
    size_t n = strlen(a), m = strlen(b);
    int row[LONGEST + 1];

    if (n > LONGEST || m > LONGEST)
        return INT_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int corner = row[0], least = (int)i;

        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int changed = corner + (a[i - 1] != b[j - 1]), added = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

            corner = row[j];
            row[j] = changed < added ? changed : added;
            least = row[j] < least ? row[j] : least;
        }
        if (least > most)
            return INT_MAX;
    }
    return row[m] <= most ? row[m] : INT_MAX;
}

/* The edits between two words.  The first four letters or more of a name count as 1, and so does a longer form of it,
 * "evaluate" for "eval", but not "train-data" for "train".  More than every fourth letter is INT_MAX, too far. */
static int distance(const char *name, const char *typed)
{
    size_t n = strlen(name), m = strlen(typed), shorter = n < m ? n : m, longer = n + m - shorter;
    int most = (int)(longer + 1) / 4;

    if (shorter >= (n < m ? 3 : 4) && !strncmp(name, typed, shorter) && typed[shorter] != '-')
        return 1;
    if (longer - shorter > (size_t)most) /* each of the letters that one of them lacks is an edit */
        return INT_MAX;
    return edits(name, typed, most);
}

void nearest_add(Nearest *best, const char *name, const char *typed)
{
    int d = distance(name, typed);

    if (d != INT_MAX && (!best->name || d < best->edits))
        *best = (Nearest){ name, d };
}

/* The flags of other programs, and those of dpexec that do the same.  Of several rows the first counts whose flag the
 * command has. */
static const struct {
    const char *typed, *name, *value; /* value "": the user's own */
} elsewhere[] = {
    { "amp", "precision", " float16" },
    { "b", "batch-size", "" },
    { "batch", "batch-size", "" },
    { "bf16", "precision", " bfloat16" },
    { "bs", "batch-size", "" },
    { "bsz", "batch-size", "" },
    { "cfg", "config", "" },
    { "ckpt", "resume", "" },
    { "conf", "config", "" },
    { "data-dir", "data", "" },
    { "data-path", "data", "" },
    { "dataset", "data", "" },
    { "decay", "weight-decay", "" },
    { "early-stop", "patience", "" },
    { "early-stopping", "patience", "" },
    { "early-stopping-patience", "patience", "" },
    { "ema-decay", "ema", "" },
    { "eval-interval", "eval-every", "" },
    { "eval-iters", "eval-batches", "" },
    { "eval-metric", "metric", "" },
    { "eval-steps", "eval-every", "" },
    { "fp16", "precision", " float16" },
    { "gpu", "devices", " cuda" },
    { "gpus", "devices", " cuda" },
    { "grad-accum", "accumulate", "" },
    { "grad-clip", "clip-norm", "" },
    { "gradient-accumulation", "accumulate", "" },
    { "gradient-accumulation-steps", "accumulate", "" },
    { "gradient-clip-val", "clip-norm", "" },
    { "iterations", "steps", "" },
    { "iters", "steps", "" },
    { "j", "workers", "" },
    { "learning-rate", "lr", "" },
    { "limit-val-batches", "eval-batches", "" },
    { "lr-scheduler", "lr-schedule", "" },
    { "lr-scheduler-type", "lr-schedule", "" },
    { "lr0", "lr", "" },
    { "max-epochs", "epochs", "" },
    { "max-grad-norm", "clip-norm", "" },
    { "max-iters", "steps", "" },
    { "max-steps", "steps", "" },
    { "metric-for-best-model", "monitor", "" },
    { "mixed-precision", "precision", "" },
    { "n-epochs", "epochs", "" },
    { "num-epochs", "epochs", "" },
    { "num-steps", "steps", "" },
    { "num-train-epochs", "epochs", "" },
    { "num-workers", "workers", "" },
    { "o", "out", "" },
    { "opt", "optimizer", "" },
    { "out", "o", "" },
    { "output", "out", "" },
    { "output", "o", "" },
    { "output-dir", "out", "" },
    { "project", "out", "" },
    { "random-seed", "seed", "" },
    { "resume-from", "resume", "" },
    { "resume-from-checkpoint", "resume", "" },
    { "save-dir", "out", "" },
    { "save-every", "checkpoint-every", "" },
    { "save-period", "checkpoint-every", "" },
    { "save-steps", "checkpoint-every", "" },
    { "save-total-limit", "keep", "" },
    { "scheduler", "lr-schedule", "" },
    { "test-data", "val", "" },
    { "test-split", "val-split", "" },
    { "train-data", "data", "" },
    { "val-data", "val", "" },
    { "val-fraction", "val-split", "" },
    { "valid-split", "val-split", "" },
    { "validation-data", "val", "" },
    { "validation-split", "val-split", "" },
    { "warmup", "warmup-steps", "" },
    { "wd", "weight-decay", "" },
    { "world-size", "world", "" },
};

/* Reports an unknown flag, with the one that was probably meant. */
static void report_unknown(const Command *c, const char *name, int dashes, Problems *wrong)
{
    Nearest near = { 0 };
    const char *value = "";
    bool unused;

    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere && !near.name; i++)
        if (!strcmp(elsewhere[i].typed, name) && args_known(c, elsewhere[i].name, &unused)) {
            near.name = elsewhere[i].name;
            value = elsewhere[i].value;
        }
    if (!near.name) {
        for (const Flag *f = c->flags; f->name; f++)
            nearest_add(&near, f->name, name);
        for (int i = 0; c->takes && i < dpx_option_count(); i++)
            if (!dpx_option_at(i).derived)
                nearest_add(&near, dpx_option_at(i).name, name);
    }
    if (near.name)
        problems_add(wrong, "there is no option %s%s (did you mean %s%s%s?)", dashes == 1 ? "-" : "--", name,
                     strlen(near.name) > 1 ? "--" : "-", near.name, value);
    else
        problems_add(wrong, "there is no option %s%s", dashes == 1 ? "-" : "--", name);
}

/* Whether the text is a number between 0 and 1, both excluded. */
static bool is_fraction(const char *text)
{
    double x;

    return text_to_float64(&x, text, strlen(text)) && x > 0 && x < 1;
}

/* The text of an option that the user gave; NULL: none was. */
static const char *option_text(const Args *a, const char *name)
{
    const char *text = dpx_options_get(a->options, name);

    return text && *text ? text : NULL;
}

/* Reports a flag that was given before, with `before` (NULL: it was not), and is no list. */
static void check_repeated(const Command *c, const char *name, const char *before, const char *value, Problems *wrong)
{
    if (!before || args_is_list(c, name))
        return;
    if (*before || (value && *value))
        problems_add(wrong, "--%s is given twice, '%s' and '%s': give it once", name, before, value ? value : "");
    else
        problems_add(wrong, "--%s is given twice: give it once", name);
}

bool args_is_auto(const char *name, const char *value)
{
    return !strcmp(name, "batch-size") && !strncmp(value, "auto", strlen("auto"));
}

/* Does the command choose the value that is given as `auto`?  Commands that train do. */
static bool chooses(const Command *c, const char *name, const char *value)
{
    return args_flag(c, "epochs") && args_is_auto(name, value);
}

/* Reads the flag at argv[*i], which has `dashes` dashes before its name, and moves on over its value. */
static void parse_flag(Args *a, int argc, char **argv, int *i, int dashes, Problems *wrong)
{
    char *name = argv[*i] + dashes, *value = strchr(name, '=');
    dpx_option_info option = { 0 };
    const Flag *flag;
    bool is_option, takes_value, listing;
    int64_t whole;
    double real;

    if (value)
        *value++ = '\0';
    flag = args_flag(a->command, name);
    listing = flag && flag->metavar && *flag->metavar == '['; /* with a value it is the option of that name */
    flag = listing && value ? NULL : flag;
    is_option = !flag && find_option(&option, a->command, name);
    if ((!flag && !is_option) || (dashes == 1) != (strlen(name) == 1)) {
        report_unknown(a->command, name, dashes, wrong);
        return;
    }
    if (is_option && option.derived)
        problems_add(wrong, "--%s cannot be given, dpexec derives it: %s", name, option.help);
    takes_value = flag ? flag->metavar && !listing : option.metavar != NULL;
    if (takes_value && !value) {
        if (*i + 1 >= argc) {
            problems_add(wrong, "--%s needs a value", name);
            return;
        }
        value = argv[++*i];
    }
    if (flag && !takes_value && value)
        problems_add(wrong, "--%s takes no value", name);
    check_repeated(a->command, name, listing && value ? option_text(a, name) : args_value(a, name), value, wrong);
    if (is_option && !strcmp(name, "split") && is_fraction(value))
        problems_add(wrong, "--split %s: one weight, expected one for each device%s%s%s", value,
                     args_flag(a->command, "val-split") ? " (did you mean --val-split " : "",
                     args_flag(a->command, "val-split") ? value : "", args_flag(a->command, "val-split") ? "?)" : "");
    else if (is_option && !(value && chooses(a->command, name, value)) &&
             dpx_options_set(a->options, name, value ? value : ""))
        problems_add(wrong, "%s", dpx_error());
    a->given[a->n_given].name = listing && value ? "" : name;
    a->given[a->n_given++].value = value ? value : "";
    if (!flag || !takes_value) /* its reader checks the range of a number, too */
        return;
    if ((!strcmp(flag->metavar, "N") && args_int(&whole, a, flag->name, 0, 1, INT64_MAX)) ||
        (!strcmp(flag->metavar, "X") && args_real(&real, a, flag->name, 0)))
        problems_add(wrong, "%s", dpx_error());
}

/* Reads --help, with a group or flag behind "=" or as the next argument; returns 1 if it takes that.  A next argument
 * that is no word, such as a file, stands for itself. */
static int parse_help(Args *a, const char *arg, const char *next)
{
    const char *given = strchr(arg, '=');

    a->help = HELP_LONG;
    if (given)
        a->topic = given + 1;
    else if (next && (help_has(a->command, next) || !strpbrk(next, "./-:=")))
        a->topic = next;
    return !given && a->topic;
}

static Status check_topic(const Args *a)
{
    char groups[512];

    if (!a->topic || help_has(a->command, a->topic))
        return ST_OK;
    help_group_names(groups, a->command);
    return FAIL(E_INVALID, "--help %s: there is no such flag or group%s%s", a->topic, *groups ? "; groups: " : "",
                groups);
}

/* Reports a flag of the command that `launch` starts, where `--` is missing before that command. */
static bool lacks_separator(const Args *a, const char *flag, Problems *wrong)
{
    char name[80];
    bool takes_value;

    flag += strspn(flag, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(flag, "="), flag);
    if (!a->n_positional || !strstr(a->command->synopsis, " -- ") || args_known(a->command, name, &takes_value))
        return false;
    problems_add(wrong, "-- is missing before the command: dpexec %s ... -- %s ...", a->command->name,
                 a->positional[0]);
    return true;
}

Status args_parse(Args *out, const Command *c, int argc, char **argv)
{
    Args a = { .command = c };
    PROBLEMS(wrong);
    bool flags_end = false;

    a.positional = calloc((size_t)argc + 1, sizeof *a.positional);
    a.given = calloc((size_t)argc + 1, sizeof *a.given);
    a.options = c->takes ? dpx_options_create() : NULL;
    *out = a;
    if (!a.positional || !a.given || (c->takes && !a.options))
        return FAIL_NOMEM();
    for (int i = 0; i < argc; i++) {
        if (!flags_end && (!strcmp(argv[i], "--help") || !strncmp(argv[i], "--help=", 7)))
            i += parse_help(&a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        else if (!flags_end && !strcmp(argv[i], "-h"))
            a.help = HELP_SHORT;
        else if (!flags_end && !strcmp(argv[i], "--man"))
            a.help = HELP_MAN;
        else if (!flags_end && !strcmp(argv[i], "--debug"))
            a.debug = true;
        else if (!flags_end && !strcmp(argv[i], "--"))
            flags_end = true;
        else if (!flags_end && argv[i][0] == '-' && argv[i][1] && lacks_separator(&a, argv[i], &wrong))
            break;
        else if (!flags_end && argv[i][0] == '-' && argv[i][1])
            parse_flag(&a, argc, argv, &i, argv[i][1] == '-' ? 2 : 1, &wrong);
        else
            a.positional[a.n_positional++] = argv[i];
    }
    *out = a;
    if (a.help)
        return check_topic(&a);
    if (a.n_positional < c->min_positional)
        problems_add(&wrong, "expected %s %s", c->name, c->synopsis);
    for (int i = c->max_positional; i < a.n_positional; i++)
        problems_add(&wrong, "unexpected argument '%s'", a.positional[i]);
    return problems_fail(&wrong, E_INVALID, "%s", *c->name ? c->name : "the command line");
}

void args_free(Args *a)
{
    free(a->positional);
    free(a->given);
    dpx_options_free(a->options);
    *a = (Args){ 0 };
}

static bool device_failed;

bool args_device_failed(void) { return device_failed; }

int args_failed(const Args *a, const char *program, Status s)
{
    device_failed |= s == E_DEVICE;
    fprintf(stderr, "%s: %s\n", program, status_message());
    if (a->debug)
        fprintf(stderr, "%s: %s, at %s\n", program, status_name(s), status_trace());
    return s == E_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

const char *args_nth(const Args *a, const char *name, int index)
{
    for (int i = 0; i < a->n_given; i++)
        if (!strcmp(a->given[i].name, name) && index-- == 0)
            return a->given[i].value;
    return NULL;
}

Status args_list(char **out, const Args *a, const char *name)
{
    const char *text;
    size_t size = 0;

    for (int i = 0; (text = args_nth(a, name, i)); i++)
        size += strlen(text) + 1;
    *out = NULL;
    if (!size)
        return ST_OK;
    if (!(*out = calloc(size, 1)))
        return FAIL_NOMEM();
    for (int i = 0; (text = args_nth(a, name, i)); i++) {
        if (i)
            strcat(*out, ",");
        strcat(*out, text);
    }
    return ST_OK;
}

const char *args_value(const Args *a, const char *name)
{
    for (int i = a->n_given; i-- > 0;)
        if (!strcmp(a->given[i].name, name))
            return a->given[i].value;
    return NULL;
}

void args_replace(const Args *a, const char *name, const char *value)
{
    for (int i = a->n_given; i-- > 0;)
        if (!strcmp(a->given[i].name, name)) {
            if (value)
                a->given[i].value = value;
            else
                a->given[i].name = "";
            return;
        }
}

bool args_has(const Args *a, const char *name) { return args_value(a, name) != NULL; }

static bool outputs_apart(const Args *a) { return !strcmp(dpx_options_get(a->options, "output-device"), "each"); }

bool args_want_parts(const Args *a) { return args_has(a, "output-device") && outputs_apart(a); }

Status args_join_outputs(const Args *a, const char *why)
{
    if (args_want_parts(a))
        return FAIL(E_INVALID, "%s: --output-device each does not go with it", why);
    return outputs_apart(a) ? (Status)dpx_options_set(a->options, "output-device", "0") : ST_OK;
}

Status args_count(const Args *a, const char *option, int64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)n);
    return (Status)dpx_options_set(a->options, option, text);
}

Status args_int(int64_t *out, const Args *a, const char *name, int64_t fallback, int64_t min, int64_t max)
{
    const char *text = args_value(a, name);
    int64_t v;

    *out = fallback;
    if (!text)
        return ST_OK;
    if (!text_to_int64(&v, text) || v < min || v > max)
        return FAIL(E_INVALID, "--%s: expected a whole number from %lld to %lld, found '%s'", name, (long long)min,
                    (long long)max, text);
    *out = v;
    return ST_OK;
}

Status args_real(double *out, const Args *a, const char *name, double fallback)
{
    const char *text = args_value(a, name);

    *out = fallback;
    if (!text)
        return ST_OK;
    return text_to_float64(out, text, strlen(text)) && isfinite(*out)
               ? ST_OK
               : FAIL(E_INVALID, "--%s: expected a number, found '%s'", name, text);
}

bool args_shows(const Command *c, int option)
{
    const dpx_option_info o = dpx_option_at(option);

    return c->takes && o.name && !args_flag(c, o.name) && !o.derived && !(c->takes == OPTIONS_TO_RUN && o.trains);
}
