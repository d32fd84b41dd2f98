/* Lookup of recipes by name, and parsing of their settings. */
#include "graph/recipes/recipe.h"

#include <stdlib.h>
#include <string.h>

const Recipe *recipe_find(const Recipe *const *list, const char *text)
{
    const size_t n = strcspn(text, ":");

    for (; *list; list++)
        if (strlen((*list)->name) == n && !strncmp((*list)->name, text, n))
            return *list;
    return NULL;
}

const char *recipe_args(const char *text)
{
    const char *colon = strchr(text, ':');

    return colon ? colon + 1 : NULL;
}

const Setting *recipe_flag(const Recipe *r, const char *name)
{
    for (const Setting *s = r->flags; s && s->name; s++)
        if (!strcmp(s->name, name))
            return s;
    return NULL;
}

const char *recipe_form(const Recipe *r) { return r->form ? r->form : r->name; }

static Status set_defaults(RecipeSettings *out, const Setting *s, Arena *arena)
{
    for (; s && s->name; s++)
        if (s->fallback && *s->fallback)
            TRY(setting_set(s, out, arena, s->fallback));
    return ST_OK;
}

static Status wrong_args(const Recipe *r, const char *option, const char *args)
{
    return FAIL(E_INVALID, "--%s: expected %s, found '%s%s%s'", option, recipe_form(r), r->name, args ? ":" : "",
                args ? args : "");
}

static Status read_args(RecipeSettings *out, const Recipe *r, const char *option, const char *args, Arena *arena)
{
    const char *at = args;

    for (const Setting *s = r->args; s && s->name; s++) {
        const bool takes_all = s->kind == SETTING_TEXT && !s[1].name;
        const size_t n = at ? (takes_all ? strlen(at) : strcspn(at, ":")) : 0;
        const char *word;
        Setting named = *s;

        if (!at) {
            if (!s->fallback)
                return wrong_args(r, option, args);
            continue;
        }
        if (!n && *at == ':' && s->fallback) { /* "plateau::5": the first keeps its default */
            at++;
            continue;
        }
        if (!(word = arena_printf(arena, "%.*s", (int)n, at)) ||
            !(named.name = arena_printf(arena, "%s %s", option, r->name)))
            return FAIL_NOMEM();
        TRY(setting_set(&named, out, arena, word));
        at = at[n] ? at + n + 1 : NULL;
    }
    return at ? wrong_args(r, option, args) : ST_OK;
}

/* Finds the value of `name` in "name=value;name=value", and its length; NULL: there is none. */
static const char *flag_text(const char *flags, const char *name, size_t *length)
{
    const size_t n = strlen(name);

    for (const char *at = flags; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL)
        if (!strncmp(at, name, n) && at[n] == '=') {
            *length = strcspn(at + n + 1, ";");
            return at + n + 1;
        }
    return NULL;
}

bool recipe_given_int(int64_t *out, const char *flags, const char *name)
{
    size_t n;
    const char *text = flag_text(flags, name, &n);

    if (text)
        *out = strtoll(text, NULL, 10);
    return text != NULL;
}

Status recipe_read(RecipeSettings *out, const Recipe *r, const char *option, const char *args, const char *flags,
                   Arena *arena)
{
    RecipeSettings s;

    memset(&s, 0, sizeof s);
    TRY(set_defaults(&s, r->args, arena));
    TRY(set_defaults(&s, r->flags, arena));
    TRY(read_args(&s, r, option, args, arena));
    for (const Setting *flag = r->flags; flag && flag->name; flag++) {
        size_t n;
        const char *text = flag_text(flags, flag->name, &n), *word;

        if (!text)
            continue;
        if (!(word = arena_printf(arena, "%.*s", (int)n, text)))
            return FAIL_NOMEM();
        TRY(setting_set(flag, &s, arena, word));
    }
    *out = s;
    return ST_OK;
}

Status recipe_take(RecipeSettings *out, const Recipe *r, const char *option, const char *args, const char *flags,
                   Arena *arena)
{
    TRY(recipe_read(out, r, option, args, flags, arena));
    return r->check ? r->check(out) : ST_OK;
}
