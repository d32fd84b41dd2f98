/* Command lines: flags of the command itself, and the library's options by their own names. */
#ifndef DPX_TOOLS_ARGS_H
#define DPX_TOOLS_ARGS_H

#include <stdbool.h>

#include "graph/base/status.h"
#include "include/dpexec.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct {
    const char *name, *metavar,
        *help; /* metavar NULL: takes no value; "N": a number from 1; "X": a real one;
                * "[=TEXT]": without a value a flag, with one the library's option of that name */
} Flag;

/* OPTIONS_TO_RUN: what only training reads is taken too, so that a run's own options can be given, and not shown. */
typedef enum { NO_OPTIONS, OPTIONS_TO_RUN, ALL_OPTIONS } CommandOptions;

typedef struct {
    const char *name;     /* "train" */
    const char *synopsis; /* what follows the name: "MODEL.onnx --data SRC [options]" */
    const char *summary;
    const Flag *flags;    /* ends with a NULL name */
    CommandOptions takes; /* which of the library's options are flags too */
    int min_positional, max_positional;
} Command;

typedef struct {
    const Command *command;
    int n_positional, n_given;
    const char **positional;
    struct {
        const char *name, *value;
    } * given;            /* in order; value "" for flags without one */
    dpx_options *options; /* NULL with NO_OPTIONS */
    bool help, man;       /* man: the help is asked for as a man page */
    bool debug;           /* a failure says where in the sources it arose */
} Args;

/* E_INVALID lists everything that is wrong.  Strings are those of argv. */
Status args_parse(Args *out, const Command *c, int argc, char **argv) CHECKED;
void args_free(Args *a);
/* Prints "PROGRAM: MESSAGE" of a failed status; returns the exit status: 2 of usage errors, 1 of all others. */
int args_failed(const Args *a, const char *program, Status s);
/* Was a failure told by it that of a device, or of a process of the world? */
bool args_device_failed(void);
bool args_has(const Args *a, const char *name);
/* Whether --output-device each was given, and not made of --compat. */
bool args_want_parts(const Args *a);
/* Has outputs put together on the first device where --compat leaves them apart; E_INVALID with `why` where the user
 * does. */
Status args_join_outputs(const Args *a, const char *why) CHECKED;
const char *args_value(const Args *a, const char *name);          /* the last one given, or NULL */
const char *args_nth(const Args *a, const char *name, int index); /* of a repeated flag, or NULL */
/* "a,b" and "c" of a repeated flag as "a,b,c", to be freed; NULL: it was not given. */
Status args_list(char **out, const Args *a, const char *name) CHECKED;
/* The flag's whole number in [min, max], or `fallback` when it was not given. */
Status args_int(int64_t *out, const Args *a, const char *name, int64_t fallback, int64_t min, int64_t max) CHECKED;
/* Sets an option of the run to a number. */
Status args_count(const Args *a, const char *option, int64_t n) CHECKED;
Status args_real(double *out, const Args *a, const char *name, double fallback) CHECKED;
/* The nearest to what was typed of the names that were looked at: begins as { 0 }, none. */
typedef struct {
    const char *name;
    int edits;
} Nearest;
/* Is `name` nearer than the best so far?  Names that are too far count as none. */
void args_nearer(Nearest *best, const char *name, const char *typed);
void args_help(const Args *a, const char *program); /* to standard output, in the form asked for */

#endif
