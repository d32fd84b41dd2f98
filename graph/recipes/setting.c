/* Parsers of settings. */
#include "graph/recipes/setting.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"

Status setting_bad(const Setting *s, const char *value, const char *expected)
{
    return FAIL(E_INVALID, "--%s: expected %s, found '%s'", s->name, expected, value);
}

Status setting_read_int(int64_t *out, const Setting *s, const char *value)
{
    char *end, range[96];
    long long v;

    errno = 0;
    v = strtoll(value, &end, 10);
    text_format(range, sizeof range, "a whole number from %.0f to %.10g", s->min, s->max);
    if (!*value || *end || errno || (double)v < s->min || (double)v > s->max)
        return setting_bad(s, value, range);
    *out = v;
    return ST_OK;
}

Status setting_read_real(double *out, const Setting *s, const char *value)
{
    char range[96];
    double v;

    text_format(range, sizeof range, "a number %s %g%s%.4g", s->above_min ? "above" : "from", s->min,
                s->above_min ? " up to " : " to ", s->max);
    if (!text_to_float64(&v, value, strlen(value)) || !isfinite(v) || v < s->min || (s->above_min && v == s->min) ||
        v > s->max)
        return setting_bad(s, value, range);
    *out = v;
    return ST_OK;
}

Status setting_read_choice(int *out, const Setting *s, const char *value)
{
    const char *c = s->choices;
    size_t len = strlen(value);

    for (int i = 0; c; i++, c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (len && !strncmp(c, value, len) && (c[len] == '|' || !c[len])) {
            *out = i;
            return ST_OK;
        }
    return setting_bad(s, value, s->choices);
}

Status setting_set(const Setting *s, void *to, Arena *arena, const char *value)
{
    void *field = (char *)to + s->at;
    const bool yes = !*value || !strcmp(value, "true") || !strcmp(value, "1");
    const char *copy;
    int64_t v;
    int choice;

    switch (s->kind) {
    case SETTING_CUSTOM: return s->set(s, to, value);
    case SETTING_FLAG:
        if (!yes && strcmp(value, "false") && strcmp(value, "0"))
            return setting_bad(s, value, "true or false");
        *(bool *)field = yes;
        return ST_OK;
    case SETTING_INT:
        TRY(setting_read_int(&v, s, value));
        if (v < INT32_MIN || v > INT32_MAX)
            return setting_bad(s, value, "a number of 32 bits");
        *(int *)field = (int)v;
        return ST_OK;
    case SETTING_INT64: return setting_read_int(field, s, value);
    case SETTING_REAL: return setting_read_real(field, s, value);
    case SETTING_TEXT:
        if (!*value)
            return setting_bad(s, value, s->metavar);
        if (!(copy = arena_strdup(arena, value)))
            return FAIL_NOMEM();
        *(const char **)field = copy;
        return ST_OK;
    case SETTING_CHOICE: return setting_read_choice(field, s, value);
    case SETTING_CHOICE_FLAG:
        TRY(setting_read_choice(&choice, s, value));
        *(bool *)field = choice != 0;
        return ST_OK;
    }
    return FAIL(E_INTERNAL, "--%s: no reader", s->name);
}
