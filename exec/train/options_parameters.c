/* Options about the model's parameters: which are trained, frozen or untied, where no gradient passes, and the last
 * layer's outputs. */
#include "exec/train/options_parameters.h"

#include <string.h>

#include "exec/train/options_store.h"
#include "exec/train/parameter_list.h"
#include "passes/options/parameters.h"

enum { MOST_OUTPUTS = 100000000 };

Status options_add_pattern(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    ParameterOptions *b = stored_parameters(o);
    const struct {
        const char *name;
        const char *const **list;
        int *n;
    } all[] = { { "freeze", &b->freeze, &b->n_freeze },
                { "train", &b->train, &b->n_train },
                { "untie", &b->untie, &b->n_untie },
                { "stop-gradient", &b->stop, &b->n_stop },
                { "state", &b->state, &b->n_state } };
    int k = 0;
    const char **grown;

    while (strcmp(all[k].name, r->name))
        k++;
    if (!*value)
        return setting_bad(r, value, "a pattern of names");
    if (!(grown = options_grow(o->arena, *all[k].list, sizeof *grown, *all[k].n)) ||
        !(grown[*all[k].n] = arena_strdup(o->arena, value)))
        return FAIL_NOMEM();
    *all[k].list = grown;
    (*all[k].n)++;
    return ST_OK;
}

Status options_add_state(const Setting *r, void *to, const char *value)
{
    const char *is = strchr(value, '=');

    return is && is > value && is[1] ? options_add_pattern(r, to, value) : setting_bad(r, value, "BUFFER=VALUE");
}

Status options_set_parameters(const Setting *r, void *to, const char *value)
{
    Options *o = to;

    return *value ? parameter_list_read(&stored_parameters(o)->parameters, o->arena, value)
                  : setting_bad(r, value, "a file");
}

Status options_set_head(const Setting *r, void *to, const char *value)
{
    static const Setting number = { .name = "head", .min = 1, .max = MOST_OUTPUTS };
    const char *eq = strrchr(value, '=');
    Options *o = to;
    ParameterOptions *b = stored_parameters(o);
    const char *name = NULL;
    int64_t n;

    if (eq == value || setting_read_int(&n, &number, eq ? eq + 1 : value))
        return setting_bad(r, value, "a number of outputs from 1 to 100000000, or NAME=N");
    if (eq && !(name = arena_printf(o->arena, "%.*s", (int)(eq - value), value)))
        return FAIL_NOMEM();
    b->head_name = name;
    b->head_outputs = n;
    return ST_OK;
}

static bool copy_patterns(Arena *a, const char *const **to, int *n_to, const char *const *from, int n)
{
    const char **list = arena_memdup(a, from, (size_t)n * sizeof *list);
    bool ok = list != NULL;

    for (int i = 0; ok && i < n; i++)
        ok = (list[i] = arena_strdup(a, from[i]));
    *to = list;
    *n_to = n;
    return ok;
}

Status options_copy_patterns(Options *copy, const Options *o)
{
    const ParameterOptions *from = parameter_options(&o->build);
    ParameterOptions *to = stored_parameters(copy);

    return copy_patterns(copy->arena, &to->freeze, &to->n_freeze, from->freeze, from->n_freeze) &&
                   copy_patterns(copy->arena, &to->train, &to->n_train, from->train, from->n_train) &&
                   copy_patterns(copy->arena, &to->untie, &to->n_untie, from->untie, from->n_untie) &&
                   copy_patterns(copy->arena, &to->stop, &to->n_stop, from->stop, from->n_stop) &&
                   copy_patterns(copy->arena, &to->state, &to->n_state, from->state, from->n_state)
               ? ST_OK
               : FAIL_NOMEM();
}
