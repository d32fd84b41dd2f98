/* The library asks for the members of inputs while it reads the model's file.  The data set is opened at the first
 * question, so that models without such inputs need not wait for it. */
#include "tools/feed/input_members.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

/* Where the arrays are. */
typedef struct {
    const Args *args;
    Feed *feed;       /* NULL: --input gives them */
    const char *flag; /* names the data set */
    Progress *log;
    Status st; /* why the data set cannot be opened */
    char why[512];
} NameSource;

/* The name of given array i, which has *length bytes; NULL: there are no more. */
static const char *name_of_array(NameSource *s, int i, size_t *length)
{
    const char *name;

    if (!s->feed) {
        name = args_nth(s->args, "input", i); /* NAME=FILE; without a name it is "" */
        *length = name && strchr(name, '=') ? strcspn(name, "=") : 0;
        return name;
    }
    if (!s->feed->data && !s->st && (s->st = feed_read(s->feed, s->args, s->flag, NULL)))
        snprintf(s->why, sizeof s->why, "%s", dpx_error());
    name = s->feed->data && i < s->feed->data->n ? s->feed->data->array[i].name : NULL;
    *length = name ? strlen(name) : 0;
    return name;
}

/* A dpx_members_fn: counts the arrays "INPUT.0", "INPUT.1", ... of a sequence.  One that is missing in between is an
 * error later, when inputs are matched with arrays. */
static int input_members_count_members(void *user, const char *input, int sequence, int optional)
{
    NameSource *source = user;
    const size_t length = strlen(input);
    const char *name;
    char line[512];
    size_t has;
    int n = 0;

    for (int i = 0; (name = name_of_array(source, i, &has)); i++) {
        const bool begins = has >= length && !strncmp(name, input, length);
        const char *digits = name + length + 1;
        const size_t n_digit = has > length ? has - length - 1 : 0;
        int k = -1;

        if (!sequence)
            k = begins && has == length ? 0 : -1;
        else if (begins && n_digit && name[length] == '.' && n_digit <= 6 && strspn(digits, "0123456789") >= n_digit &&
                 (*digits != '0' || n_digit == 1))
            k = (int)strtol(digits, NULL, 10);
        n = k + 1 > n ? k + 1 : n;
    }
    if (n || !optional)
        return n ? n : DPX_UNSET;
    if (source->log && !source->log->quiet) {
        snprintf(line, sizeof line, "input '%.200s' is optional, and absent: no array is called '%.200s%s'", input,
                 input, sequence ? ".0" : "");
        foreign_clean(line);
        progress_line(source->log, "%s", line);
    }
    return DPX_ABSENT;
}

Status members_load(dpx_model **out, const Args *a, Feed *f, const char *flag, Progress *log)
{
    NameSource source = { .args = a, .feed = f, .flag = flag, .log = log };
    dpx_model *m;
    Status st;

    dpx_options_set_members(a->options, input_members_count_members, &source);
    st = (Status)dpx_model_load_within(&m, a->positional[0], a->options);
    dpx_options_set_members(a->options, NULL, NULL);
    if (source.st && !st)
        dpx_model_free(m);
    if (source.st) /* which is why the model was refused, or had too little */
        return FAIL(source.st, "%s", source.why);
    if (!st)
        *out = m;
    return st;
}
