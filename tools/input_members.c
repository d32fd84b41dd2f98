/* The library asks for the members of inputs while it reads the model's file.  The data set is opened at the first
 * question, so that models without such inputs need not wait for it. */
#include "tools/input_members.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

typedef struct {
    ArrayName *name;
    void *user;
    Progress *log;
} NameSource;

/* A dpx_members_fn: counts the arrays "INPUT.0", "INPUT.1", ... of a sequence.  One that is missing in between is an
 * error later, when inputs are matched with arrays. */
static int input_members_count_members(void *user, const char *input, int sequence, int optional)
{
    const NameSource *source = user;
    const char *name;
    char line[512];
    int n = 0;

    for (int i = 0; (name = source->name(source->user, i)); i++) {
        const size_t length = strlen(input);
        const char *digits = name + length + 1;
        int k = -1;

        if (!sequence)
            k = strcmp(name, input) ? -1 : 0;
        else if (!strncmp(name, input, length) && name[length] == '.' && *digits && strlen(digits) <= 6 &&
                 !digits[strspn(digits, "0123456789")] && (*digits != '0' || !digits[1]))
            k = (int)strtol(digits, NULL, 10);
        n = k + 1 > n ? k + 1 : n;
    }
    if (n || !optional)
        return n ? n : DPX_UNSAID;
    if (source->log && !source->log->quiet) {
        snprintf(line, sizeof line, "input '%.200s' is optional, and absent: no array is called '%.200s%s'", input,
                 input, sequence ? ".0" : "");
        foreign_clean(line);
        progress_line(source->log, "%s", line);
    }
    return DPX_ABSENT;
}

Status members_load(dpx_model **out, const Args *a, ArrayName *name, void *user, Progress *log)
{
    NameSource source = { name, user, log };
    Status st;

    dpx_options_set_members(a->options, input_members_count_members, &source);
    st = (Status)dpx_model_load_within(out, a->positional[0], a->options);
    dpx_options_set_members(a->options, NULL, NULL);
    return st;
}

typedef struct {
    Feed *feed;
    const Args *args;
    const char *flag;
    Status st;
    char why[512];
} FedNames;

/* An ArrayName. */
static const char *fed_name(void *user, int i)
{
    FedNames *f = user;

    if (!f->feed->data && !f->st && (f->st = feed_read(f->feed, f->args, f->flag)))
        snprintf(f->why, sizeof f->why, "%s", dpx_error());
    return f->feed->data && i < f->feed->data->n ? f->feed->data->array[i].name : NULL;
}

Status members_load_fed(dpx_model **out, Feed *f, const Args *a, const char *flag, Progress *log)
{
    FedNames names = { .feed = f, .args = a, .flag = flag };
    dpx_model *m;
    Status st = members_load(&m, a, fed_name, &names, log);

    if (names.st && !st)
        dpx_model_free(m);
    if (names.st) /* which is why the model was refused, or had too little */
        return FAIL(names.st, "%s", names.why);
    *out = st ? NULL : m;
    return st;
}
