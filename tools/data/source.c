/* Parses sources of data, finds their formats, and refuses what no format reads. */
#include "tools/data/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"

const DataOption source_options[] = { { "limit", "N", "take the first N samples" }, { NULL, NULL, NULL } };

bool ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);

    return a > b && !strcmp(s + a - b, end);
}

const char *data_forms(char text[DATA_FORMS])
{
    int n = 0;

    for (const DataFormat *const *f = data_formats; *f; f++)
        n += snprintf(text + n, (size_t)(n < DATA_FORMS ? DATA_FORMS - n : 0), "%s%s",
                      f == data_formats ? ""
                      : f[1]            ? ", "
                                        : " or ",
                      (*f)->form);
    return text;
}

/* The length of ",name=" at s; 0: there is none. */
static size_t option_begins(const char *s)
{
    size_t n = *s == ',' ? strspn(s + 1, "abcdefghijklmnopqrstuvwxyz-") : 0;

    return n && s[1] != '-' && s[n + 1] == '=' ? n + 2 : 0;
}

/* Copies up to the next option, without the backslashes of escapes, to *to, which moves behind the copy and its 0.
 * Returns where it stopped. */
static const char *copy_part(char **to, const char *from)
{
    for (; *from && !option_begins(from); from++) {
        if (*from == '\\' && from[1] && strchr(",:\\", from[1]))
            from++;
        *(*to)++ = *from;
    }
    *(*to)++ = '\0';
    return from;
}

/* Adds the option ",name=value" at *at, and moves on. */
static Status add_option(Source *s, const char **at, char **to, Problems *wrong)
{
    const size_t n = option_begins(*at);
    char *name = *to, *value = *to + n - 1;

    memcpy(name, *at + 1, n - 2);
    name[n - 2] = '\0';
    *to = value;
    *at = copy_part(to, *at + n);
    if (s->n == MAX_SOURCE_OPTIONS)
        return FAIL(E_INVALID, "%s: more than %d options", s->text, MAX_SOURCE_OPTIONS);
    if (source_value(s, name))
        problems_add(wrong, "%s is given twice", name);
    else if (!*value)
        problems_add(wrong, "%s has no value", name);
    s->option[s->n].name = name;
    s->option[s->n++].value = value;
    return ST_OK;
}

/* How files with a suffix can be read: by a prefix that the user did not write, and by statements of NumPy. */
typedef struct {
    const char *suffixes, *prefix; /* "": no format reads them */
    const char *lines;             /* set x and target; FILE is the path */
} Remedy;

static const Remedy *find_remedy(const char *path)
{
    static const char images[] =
        "from PIL import Image; x = np.stack([np.asarray(Image.open(f).convert('RGB').resize((64, 64))) "
        "for f in files]).transpose(0, 3, 1, 2) / np.float32(255); target = ...";
    static const Remedy remedies[] = {
        { ".tsv .tab", "csv:",
          "t = np.genfromtxt('FILE', delimiter='\\t', skip_header=1, dtype='f4'); x, target = t[:, :-1], t[:, -1]" },
        { ".txt", "text:",
          "t = np.frombuffer(open('FILE', 'rb').read(), 'u1').astype('i8'); n = len(t) // 65 * 65; "
          "x, target = t[:n].reshape(-1, 65)[:, :-1], t[:n].reshape(-1, 65)[:, 1:]" },
        { ".bin", "tokens:",
          "t = np.fromfile('FILE', 'u2').astype('i8'); n = len(t) // 65 * 65; "
          "x, target = t[:n].reshape(-1, 65)[:, :-1], t[:n].reshape(-1, 65)[:, 1:]" },
        { ".parquet .pq", "",
          "import pandas; t = pandas.read_parquet('FILE').to_numpy('f4'); x, target = t[:, :-1], t[:, -1]" },
        { ".pt .pth", "", "import torch; t = torch.load('FILE'); x, target = t['x'].numpy(), t['target'].numpy()" },
        { ".jpg .jpeg .png .bmp .webp .gif", "", images },
        { "", "", "x = ...; target = ..." },
    };
    static const Remedy folder = { "", "images:", images };
    enum { N = sizeof remedies / sizeof *remedies };
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const size_t n = dot ? strlen(dot) : 0;
    struct stat s;

    for (int i = 0; i < N; i++)
        for (const char *at = remedies[i].suffixes; n > 1 && *at; at += strcspn(at, " "), at += *at == ' ')
            if (strcspn(at, " ") == n && !ascii_casecmp(at, dot, n))
                return &remedies[i];
    return !stat(path, &s) && S_ISDIR(s.st_mode) ? &folder : &remedies[N - 1];
}

Status source_refuse(Status code, const char *path, const char *why)
{
    const Remedy *r = find_remedy(path);
    char forms[DATA_FORMS];

    return FAIL(code,
                "%s: %sexpected %s%s%s%s; NumPy makes a FILE.npz of it: import numpy as np; %s; "
                "np.savez('data.npz', x=x, target=target)",
                path, why, data_forms(forms), *r->prefix ? ", such as " : "", r->prefix, *r->prefix ? path : "",
                r->lines);
}

static Status check_names(const Source *s, Problems *wrong)
{
    const DataOption *const lists[] = { s->format->options, source_options };
    char known[512] = "";
    size_t len = 0;
    bool all = true;

    for (int i = 0; i < s->n; i++) {
        bool found = false;

        for (int k = 0; k < 2; k++)
            for (const DataOption *o = lists[k]; o && o->name; o++)
                found |= !strcmp(o->name, s->option[i].name);
        if (!found)
            problems_add(wrong, "there is no option %s", s->option[i].name);
        all &= found;
    }
    for (int k = 0; k < 2 && !all; k++)
        for (const DataOption *o = lists[k]; o && o->name && len < sizeof known; o++)
            len += (size_t)snprintf(known + len, sizeof known - len, "%s%s=%s", len ? ", " : "", o->name, o->metavar);
    if (!all)
        problems_add(wrong, "expected %s", known);
    return problems_fail(wrong, E_INVALID, "%s", s->text);
}

/* Finds the format of a path without a prefix; NULL: unknown. */
static const DataFormat *format_of_path(const char *path)
{
    struct stat s;
    const bool folder = !stat(path, &s) && S_ISDIR(s.st_mode);

    for (const DataFormat *const *f = data_formats; *f; f++)
        if (folder ? (*f)->folder : (*f)->suffix && ends_with(path, (*f)->suffix))
            return *f;
    return NULL;
}

/* Fails for a path that has no format: a file of another kind; or there is none, and it may be a word. */
static Status refuse_unknown(const char *path)
{
    char why[128];
    struct stat about;

    if (!stat(path, &about))
        return source_refuse(E_INVALID, path, "");
    snprintf(why, sizeof why, "cannot open: %s; ", strerror(errno));
    return source_refuse(E_IO, path, why);
}

static Status parse(Source *s, const char *rest, Problems *wrong)
{
    const char *at = rest;
    char *to = s->path;
    struct stat about;

    if (!stat(rest, &about)) {
        strcpy(s->path, rest);
    } else {
        at = copy_part(&to, at);
        for (to = s->buffer; *at;)
            TRY(add_option(s, &at, &to, wrong));
    }
    if (!s->format)
        s->format = format_of_path(s->path);
    return s->format ? check_names(s, wrong) : refuse_unknown(s->path);
}

Status source_parse(Source *out, const char *text)
{
    const size_t size = strlen(text) + 2;
    Source s = { .text = strdup(text), .path = malloc(size), .buffer = malloc(size) };
    PROBLEMS(wrong);
    Status st;

    for (const DataFormat *const *f = data_formats; *f && !s.format; f++)
        if ((*f)->prefix && !strncmp(text, (*f)->prefix, strlen((*f)->prefix)))
            s.format = *f;
    st = s.text && s.path && s.buffer ? parse(&s, text + (s.format ? strlen(s.format->prefix) : 0), &wrong)
                                      : FAIL_NOMEM();
    if (st) {
        source_free(&s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void source_free(Source *s)
{
    free(s->text);
    free(s->path);
    free(s->buffer);
    *s = (Source){ 0 };
}

const char *source_value(const Source *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->option[i].name, name))
            return s->option[i].value;
    return NULL;
}

Status source_int(int64_t *out, const Source *s, const char *name, int64_t fallback, int64_t min, int64_t max)
{
    const char *text = source_value(s, name);
    int64_t v;

    *out = fallback;
    if (!text)
        return ST_OK;
    if (!text_to_int64(&v, text) || v < min || v > max)
        return FAIL(E_INVALID, "%s: %s: expected a whole number from %lld to %lld, found '%s'", s->text, name,
                    (long long)min, (long long)max, text);
    *out = v;
    return ST_OK;
}
