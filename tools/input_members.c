/* A model's inputs are asked for while its file is read, and the data set is opened when the first asks: others need
 * not wait for it. */
#include "tools/input_members.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

typedef struct {
    ArrayName *name;
    void *user;
    Progress *log;
} Asked;

/* The number behind "NAME."; -1: the array is of something else. */
static int member_number(const char *array, const char *input)
{
    const size_t n = strlen(input);
    const char *digits = array + n + 1;

    if (strncmp(array, input, n) || array[n] != '.' || !*digits || strlen(digits) > 6 ||
        digits[strspn(digits, "0123456789")] || (*digits == '0' && digits[1]))
        return -1;
    return (int)strtol(digits, NULL, 10);
}

/* A dpx_members_fn.  A member that is missing in between is looked for, in vain, when inputs are given their arrays. */
static int input_members_count_members(void *user, const char *input, int sequence, int optional)
{
    const Asked *asked = user;
    const char *name;
    char line[512];
    int n = 0;

    for (int i = 0; (name = asked->name(asked->user, i)); i++) {
        const int k = sequence ? member_number(name, input) : strcmp(name, input) ? -1 : 0;

        n = k + 1 > n ? k + 1 : n;
    }
    if (n || !optional)
        return n ? n : DPX_UNSAID;
    if (asked->log && !asked->log->quiet) {
        snprintf(line, sizeof line, "input '%.200s' is optional, and absent: no array is called '%.200s%s'", input,
                 input, sequence ? ".0" : "");
        foreign_clean(line);
        progress_line(asked->log, "%s", line);
    }
    return DPX_ABSENT;
}

Status members_load(dpx_model **out, const Args *a, ArrayName *name, void *user, Progress *log)
{
    Asked asked = { name, user, log };
    Status st;

    dpx_options_set_members(a->options, input_members_count_members, &asked);
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
