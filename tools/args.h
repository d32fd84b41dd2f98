/* Command lines: flags of the command itself, and the library's options by their own names. */
#ifndef DPX_TOOLS_ARGS_H
#define DPX_TOOLS_ARGS_H

#include <stdbool.h>

#include "graph/base/status.h"
#include "include/dpexec.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct {
    const char *name;
    const char *metavar; /* NULL: takes no value; "N": a whole number from 1; "X": a real number; "[=TEXT]": without a
                          * value a flag, with one the library's option of that name; "...": ends that of a flag that
                          * may be repeated */
    const char *help;
} Flag;

/* Which of the library's options a command takes.  OPTIONS_TO_RUN takes all of them, so that the options of a training
 * run can be given again, but shows only those that it reads. */
typedef enum { NO_OPTIONS, OPTIONS_TO_RUN, ALL_OPTIONS } CommandOptions;

/* The names of which the first argument is one. */
typedef struct {
    const char *title;                            /* "Networks (NETWORK)", for help */
    const char *(*at)(int index, char help[512]); /* NULL past the end */
} FirstArgument;

typedef struct {
    const char *name;     /* "train" */
    const char *synopsis; /* the text after the name: "MODEL.onnx --data SRC [options]" */
    const char *summary;
    const Flag *flags;    /* ends with a NULL name */
    CommandOptions takes; /* which of the library's options are flags too */
    int min_positional, max_positional;
    const FirstArgument *first; /* NULL: it is a file, or there is none */
} Command;

typedef enum { HELP_NONE, HELP_SHORT, HELP_LONG, HELP_MAN } HelpForm; /* -h, --help, --man */

typedef struct {
    const Command *command;
    int n_positional, n_given;
    const char **positional;
    struct {
        const char *name, *value;
    } * given;            /* in order; value "" for flags without one */
    dpx_options *options; /* NULL with NO_OPTIONS */
    HelpForm help;        /* print help in this form */
    const char *topic;    /* of HELP_LONG: the group or flag to print; NULL: all */
    bool debug;           /* failures print where in the sources they arose */
} Args;

/* Reads the arguments behind the command's name.  E_INVALID lists everything that is wrong.  Strings are those of argv.
 * The caller frees *out in any case. */
Status args_parse(Args *out, const Command *c, int argc, char **argv) CHECKED;
void args_free(Args *a);
/* Prints "PROGRAM: MESSAGE" of a failed status; returns the exit status: 2 for usage errors, 1 for all others. */
int args_failed(const Args *a, const char *program, Status s);
/* Whether args_failed printed the failure of a device, or of a process of the world. */
bool args_device_failed(void);
bool args_has(const Args *a, const char *name);
/* Whether the command has such a flag or option, and whether that takes a value. */
bool args_known(const Command *c, const char *name, bool *takes_value);
/* Whether the flag or option may be repeated; any other is refused when it is given twice. */
bool args_is_list(const Command *c, const char *name);
/* The command's own flag; NULL: it has none of this name. */
const Flag *args_flag(const Command *c, const char *name);
/* Whether a flag with this metavar may be repeated: it ends with "...". */
bool metavar_repeats(const char *metavar);
/* Whether --help of the command shows the library's option of this number. */
bool args_shows(const Command *c, int option);
/* Replaces the last value of a flag; NULL: takes the flag away. */
/* Does `auto` or auto:… stand for a number that the run chooses by its data (tools/training/batch_auto.c)? */
bool args_is_auto(const char *name, const char *value);
void args_replace(const Args *a, const char *name, const char *value);
/* Whether the user gave --output-device each, which --compat may also set. */
bool args_want_parts(const Args *a);
/* Joins outputs on the first device where --compat leaves them on each; E_INVALID with `why` where the user does. */
Status args_join_outputs(const Args *a, const char *why) CHECKED;
const char *args_value(const Args *a, const char *name);          /* the last value given; NULL: none */
const char *args_nth(const Args *a, const char *name, int index); /* value `index` of a repeated flag; NULL: none */
/* Joins the values of a repeated flag: "a,b" and "c" become "a,b,c", which the caller frees; NULL: it was not given. */
Status args_list(char **out, const Args *a, const char *name) CHECKED;
/* The flag's whole number in [min, max], or `fallback` when it was not given. */
Status args_int(int64_t *out, const Args *a, const char *name, int64_t fallback, int64_t min, int64_t max) CHECKED;
/* Sets an option of the run to the number n. */
Status args_count(const Args *a, const char *option, int64_t n) CHECKED;
Status args_real(double *out, const Args *a, const char *name, double fallback) CHECKED;
/* The name nearest to the typed one, of those that were added; begins as { 0 }, none. */
typedef struct {
    const char *name;
    int edits;
} Nearest;
/* Takes `name` if it is nearer than the best so far, and no more than every fourth letter differs: a wrong guess helps
 * less than none. */
void nearest_add(Nearest *best, const char *name, const char *typed);

#endif
