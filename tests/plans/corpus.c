/* Reads tests/plans/corpus.txt. */
#include "tests/plans/corpus.h"

#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/train/options.h"

enum { MOST_SETS = 256, MOST_CHOICES = 24, MOST_AXES = 32, MOST_MODELS = 1000, MOST_PLANS = 200, MOST_SUITES = 16 };
enum { TRIES = 50 }; /* draws, until one contradicts nothing */

typedef struct {
    const char *name, *flags;
} FlagSet;

/* Flags of which a draw takes one; the empty text is no flag. */
typedef struct {
    const char *choice[MOST_CHOICES];
    int n;
} Axis;

typedef struct {
    Arena *a;
    Corpus *corpus;
    FlagSet set[MOST_SETS];
    int n_set;
    Axis axis[MOST_AXES];
    int n_axis;
    const char *place; /* "tests/plans/corpus.txt:7" */
} Reader;

/* ---- flags ---- */

static Status add_flag(PlanCase *c, const char *name, const char *value)
{
    if (c->n_flag == MOST_FLAGS)
        return FAIL(E_INVALID, "%s: more than %d flags", c->name, MOST_FLAGS);
    c->flag[c->n_flag++] = (PlanFlag){ name, value };
    return ST_OK;
}

/* Adds flags as a command line has them, "--loss mse --blocks". */
static Status add_flags(PlanCase *c, Arena *a, const char *text)
{
    char *rest = arena_printf(a, "%s", text), *word, *save = NULL;

    if (!rest)
        return FAIL_NOMEM();
    for (word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (!strncmp(word, "--", 2))
            TRY(add_flag(c, word + 2, NULL));
        else if (c->n_flag && !c->flag[c->n_flag - 1].value)
            c->flag[c->n_flag - 1].value = word;
        else
            return FAIL(E_INVALID, "'%s': expected a flag in front of it", word);
    }
    return ST_OK;
}

static bool is_option(const char *name)
{
    for (int i = 0; i < options_count(); i++)
        if (!strcmp(options_at(i).name, name))
            return true;
    return false;
}

/* Adds the flags of expected.json beside the model, as far as they are options and not the command's own. */
static Status add_own(PlanCase *c, Arena *a, const char *model)
{
    const char *folder = arena_printf(a, "%.*s", (int)(strrchr(model, '/') - model), model);
    const char *path = arena_printf(a, "%s/expected.json", folder);
    json_t *root = json_load_file(path, 0, NULL), *flags = json_object_get(root, "flags"), *word;
    bool wanted = false;
    Status st = ST_OK;
    size_t i;

    json_array_foreach(flags, i, word) {
        const char *text = json_string_value(word);
        const char *file = arena_printf(a, "%s/%s", folder, text);

        if (!strncmp(text, "--", 2)) {
            if ((wanted = is_option(text + 2)))
                st = st ? st : add_flag(c, arena_printf(a, "%s", text + 2), NULL);
        } else if (wanted) {
            c->flag[c->n_flag - 1].value = access(file, F_OK) ? arena_printf(a, "%s", text) : file;
        }
    }
    json_decref(root);
    return st;
}

/* ---- draws ---- */

/* FNV-1a of a text, from a state. */
static uint64_t mixed(uint64_t state, const char *text)
{
    for (; *text; text++)
        state = (state ^ (unsigned char)*text) * 0x100000001b3u;
    return state;
}

static bool contradicts(const PlanCase *c)
{
    Options *o = options_create();
    bool wrong = !o;

    for (int i = 0; i < c->n_flag && !wrong; i++)
        wrong =
            is_option(c->flag[i].name) && options_set(o, c->flag[i].name, c->flag[i].value ? c->flag[i].value : "true");
    wrong = wrong || options_check(o);
    options_free(o);
    return wrong;
}

/* Adds one choice of each axis.  They depend on the model's name and the draw's number alone. */
static Status draw(PlanCase *c, Reader *r, const char *model, int number)
{
    const int before = c->n_flag;

    for (int turn = 0; turn < TRIES; turn++) {
        c->n_flag = before;
        for (int k = 0; k < r->n_axis; k++) {
            uint64_t state = mixed(0xcbf29ce484222325u, model);

            state = (state ^ (uint64_t)(number * 1000003 + turn * 1009 + k)) * 0x9e3779b97f4a7c15u;
            state ^= state >> 29;
            state *= 0xbf58476d1ce4e5b9u;
            TRY(add_flags(c, r->a, r->axis[k].choice[(state >> 33) % (uint64_t)r->axis[k].n]));
        }
        if (!contradicts(c))
            return ST_OK;
    }
    return FAIL(E_INVALID, "%s: %d draws contradict themselves", c->name, TRIES);
}

/* ---- words ---- */

static const char *find_set(const Reader *r, const char *name)
{
    for (int i = 0; i < r->n_set; i++)
        if (!strcmp(r->set[i].name, name))
            return r->set[i].flags;
    return NULL;
}

/* Adds a plan without flags. */
static Status new_plan(PlanCase **out, PlanModel *m, Reader *r, const char *word)
{
    if (m->n_plan == MOST_PLANS)
        return FAIL(E_INVALID, "%s: more than %d plans", m->path, MOST_PLANS);
    if (!(m->n_plan & (m->n_plan - 1))) { /* 0, 1, 2, 4 ... */
        PlanCase *more = ARENA_NEW(r->a, PlanCase, m->n_plan ? 2 * m->n_plan : 1);

        if (!more)
            return FAIL_NOMEM();
        if (m->n_plan)
            memcpy(more, m->plan, (size_t)m->n_plan * sizeof *more);
        m->plan = more;
    }
    *out = &m->plan[m->n_plan++];
    (*out)->name = arena_printf(r->a, "%s %s", m->path, word);
    for (int i = 0; i + 1 < m->n_plan; i++)
        if (!strcmp(m->plan[i].name, (*out)->name))
            return FAIL(E_INVALID, "'%s' is there twice", (*out)->name);
    return ST_OK;
}

/* Adds the plan of a word, sets joined by plus signs. */
static Status add_plan(PlanModel *m, Reader *r, const char *word)
{
    char *rest = arena_printf(r->a, "%s", word), *part, *save = NULL;
    PlanCase *c;

    TRY(new_plan(&c, m, r, word));
    for (part = strtok_r(rest, "+", &save); part; part = strtok_r(NULL, "+", &save)) {
        const char *flags = find_set(r, part);

        if (flags)
            TRY(add_flags(c, r->a, flags));
        else if (!strcmp(part, "own"))
            TRY(add_own(c, r->a, m->path));
        else if (!strncmp(part, "draw:", 5))
            TRY(draw(c, r, m->path, atoi(part + 5)));
        else
            return FAIL(E_INVALID, "there is no set '%s'", part);
    }
    return ST_OK;
}

/* Adds a plan for each operator in a file of operator cases. */
static Status add_operators(PlanModel *m, Reader *r)
{
    FILE *f = fopen(m->path, "r");
    char *line = NULL, *op;
    size_t cap = 0;
    PlanCase *c;
    Status st = f ? ST_OK : FAIL(E_IO, "%s cannot be read", m->path);

    while (!st && getline(&line, &cap, f) >= 0) {
        bool known = !strchr(line, '(') || *line == '#';

        for (int i = 0; !known && i < m->n_plan; i++)
            known = !strncmp(line, m->plan[i].flag[0].value, strcspn(line, "(")) &&
                    !m->plan[i].flag[0].value[strcspn(line, "(")];
        if (known)
            continue;
        op = arena_printf(r->a, "%.*s", (int)strcspn(line, "("), line);
        if (!(st = new_plan(&c, m, r, op)))
            st = add_flag(c, "operator", op);
    }
    free(line);
    if (f)
        fclose(f);
    return st;
}

/* Adds the plan of a word; draws:N stands for draw:1 to draw:N. */
static Status add_word(PlanModel *m, Reader *r, const char *word)
{
    const char *draws = strstr(word, "draws:");
    const int n = draws ? atoi(draws + 6) : 0;

    if (!strcmp(word, "operators"))
        return add_operators(m, r);
    if (!draws)
        return add_plan(m, r, word);
    for (int i = 1; i <= n; i++)
        TRY(add_plan(m, r, arena_printf(r->a, "%.*sdraw:%d", (int)(draws - word), word, i)));
    return ST_OK;
}

static Status add_model(PlanModel **out, PlanSuite *s, Reader *r, const char *path)
{
    for (int i = 0; i < s->n_model; i++)
        if (!strcmp(s->model[i].path, path)) {
            *out = &s->model[i];
            return ST_OK;
        }
    if (s->n_model == MOST_MODELS)
        return FAIL(E_INVALID, "more than %d models", MOST_MODELS);
    *out = &s->model[s->n_model++];
    **out = (PlanModel){ .path = arena_printf(r->a, "%s", path) };
    return (*out)->path ? ST_OK : FAIL_NOMEM();
}

static Status add_words(PlanSuite *s, Reader *r, const char *path, const char *words)
{
    char *rest = arena_printf(r->a, "%s", words), *word, *save = NULL;
    PlanModel *m;

    TRY(add_model(&m, s, r, path));
    for (word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save))
        TRY(add_word(m, r, word));
    return ST_OK;
}

/* "chain:0-149" and the like: a model for each number. */
static Status add_range(PlanSuite *s, Reader *r, const char *pattern, const char *words)
{
    const char *colon = strchr(pattern, ':');
    int from, to;

    if (sscanf(colon + 1, "%d-%d", &from, &to) != 2)
        return FAIL(E_INVALID, "'%s': expected NAME:FROM-TO", pattern);
    for (int i = from; i <= to; i++)
        TRY(add_words(s, r, arena_printf(r->a, "%.*s:%d", (int)(colon - pattern), pattern, i), words));
    return ST_OK;
}

/* "PATTERN...: WORD..." */
static Status add_use(Reader *r, char *line)
{
    char *words = strstr(line, ": "), *pattern, *save = NULL;
    PlanSuite *s = &r->corpus->suite[r->corpus->n_suite - 1];

    if (!words || !r->corpus->n_suite)
        return FAIL(E_INVALID, "expected 'PATTERN...: WORD...' in a suite");
    *words = '\0';
    for (pattern = strtok_r(line, " ", &save); pattern; pattern = strtok_r(NULL, " ", &save)) {
        glob_t found;

        if (strchr(pattern, ':')) {
            TRY(add_range(s, r, pattern, words + 2));
            continue;
        }
        if (glob(pattern, 0, NULL, &found))
            return FAIL(E_INVALID, "no file is called '%s'", pattern);
        for (size_t i = 0; i < found.gl_pathc; i++)
            TRY(add_words(s, r, found.gl_pathv[i], words + 2));
        globfree(&found);
    }
    return ST_OK;
}

/* ---- lines ---- */

/* "set NAME FLAGS" */
static Status add_set(Reader *r, char *line)
{
    char *flags = strchr(line, ' ');

    if (r->n_set == MOST_SETS)
        return FAIL(E_INVALID, "more than %d sets", MOST_SETS);
    if (flags)
        *flags++ = '\0';
    r->set[r->n_set++] = (FlagSet){ line, flags ? flags : "" };
    return ST_OK;
}

/* "axis FLAGS | FLAGS ..." */
static Status add_axis(Reader *r, char *line)
{
    Axis *x = &r->axis[r->n_axis++];

    if (r->n_axis == MOST_AXES)
        return FAIL(E_INVALID, "more than %d axes", MOST_AXES - 1);
    for (char *at = line; at;) {
        if (x->n == MOST_CHOICES)
            return FAIL(E_INVALID, "more than %d choices", MOST_CHOICES);
        x->choice[x->n++] = strsep(&at, "|");
    }
    return ST_OK;
}

static Status add_suite(Reader *r, const char *name)
{
    PlanSuite *s = &r->corpus->suite[r->corpus->n_suite++];

    if (r->corpus->n_suite > MOST_SUITES)
        return FAIL(E_INVALID, "more than %d suites", MOST_SUITES);
    *s = (PlanSuite){ .name = name, .model = ARENA_NEW(r->a, PlanModel, MOST_MODELS) };
    return s->model ? ST_OK : FAIL_NOMEM();
}

static Status add_line(Reader *r, const char *text)
{
    char *line = arena_printf(r->a, "%.*s", (int)strcspn(text, "\n"), text);

    if (!line)
        return FAIL_NOMEM();
    if (!*line || *line == '#')
        return ST_OK;
    if (!strncmp(line, "suite ", 6))
        return add_suite(r, line + 6);
    if (!strncmp(line, "set ", 4))
        return add_set(r, line + 4);
    return strncmp(line, "axis ", 5) ? add_use(r, line) : add_axis(r, line + 5);
}

Status corpus_read(Corpus *out, const char *path, Arena *a)
{
    Reader *r = ARENA_NEW(a, Reader, 1);
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    int number = 0;
    Status st = r && f ? ST_OK : FAIL(E_IO, "%s cannot be read", path);

    out->suite = ARENA_NEW(a, PlanSuite, MOST_SUITES);
    for (*r = (Reader){ .a = a, .corpus = out }; !st && getline(&line, &cap, f) >= 0;) {
        number++;
        if ((st = add_line(r, line)))
            st = status_prefix(st, "%s:%d", path, number);
    }
    free(line);
    if (f)
        fclose(f);
    return st;
}
