/* Families of recipes that an option chooses from. */
#include "exec/train/options_families.h"

#include <stdio.h>
#include <string.h>

#include "graph/recipes/schedule.h"

_Static_assert((int)MAX_METRICS == (int)DPX_MAX_METRICS, "dpexec.h says how many metrics there may be");

const Family families[N_FAMILIES] = {
    [OF_LOSS] = { "loss", loss_list, true, false },
    [OF_METRIC] = { "metric", metric_list, true, false },
    [OF_OPTIMIZER] = { "optimizer", optimizer_list, false, true },
    [OF_SCHEDULE] = { "lr-schedule", schedule_list, false, true },
};

const Family *family_of(const char *option)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].option, option))
            return &families[i];
    return NULL;
}

const Recipe *family_first_with(const char *flag, const Family **of)
{
    for (int i = 0; i < N_FAMILIES; i++)
        for (const Recipe *const *r = families[i].list; *r; r++)
            if (recipe_flag(*r, flag)) {
                if (of)
                    *of = &families[i];
                return *r;
            }
    return NULL;
}

/* The k-th of a list of texts "accuracy;f1", or NULL past its end. */
static const char *member_of(const char *list, int k)
{
    for (; list && k; k--)
        list = strchr(list, ';') ? strchr(list, ';') + 1 : NULL;
    return list;
}

const Recipe *family_recipe(const Family *f, const char *text, int k)
{
    const bool is_list = f->list == metric_list;
    const char *at = is_list ? member_of(text, k) : k ? NULL : text;
    char one[64];

    if (!is_list || !at)
        return at ? recipe_find(f->list, at) : NULL;
    snprintf(one, sizeof one, "%.*s", (int)strcspn(at, ":;"), at);
    return recipe_find(f->list, one);
}

Status family_unknown(const Family *f, const char *text)
{
    char forms[512];
    int n = 0;

    for (const Recipe *const *r = f->list; *r && n < (int)sizeof forms; r++)
        n += snprintf(forms + n, sizeof forms - (size_t)n, "%s%s",
                      r == f->list         ? ""
                      : r[1] || f->or_none ? ", "
                                           : " or ",
                      recipe_form(*r));
    return FAIL(E_INVALID, "--%s: expected %s%s, found '%s'", f->option, forms, f->or_none ? " or none" : "", text);
}

Status family_read_metrics(MetricChoice out[MAX_METRICS + 1], const char *list, const char *flags, Arena *arena)
{
    const Family *f = family_of("metric");
    RecipeSettings unused;
    int n = 0;

    for (const char *at = strcmp(list, "none") ? list : NULL; at; at = member_of(at, 1)) {
        const char *name = arena_printf(arena, "%.*s", (int)strcspn(at, ";"), at);
        const Recipe *r = name ? recipe_find(f->list, name) : NULL;

        if (!name)
            return FAIL_NOMEM();
        if (!r)
            return family_unknown(f, name);
        if (n == MAX_METRICS)
            return FAIL(E_INVALID, "--metric: at most %d metrics are measured", MAX_METRICS);
        for (int i = 0; i < n; i++)
            if (!strcmp(out[i].name, name))
                return FAIL(E_INVALID, "--metric %s is given twice", name);
        TRY(recipe_read(&unused, r, f->option, recipe_args(name), flags, arena));
        out[n++] = (MetricChoice){ (const MetricDef *)(const void *)r, name, recipe_args(name) };
    }
    out[n] = (MetricChoice){ .def = NULL };
    return ST_OK;
}

dpx_choice_info options_choice(const char *option, int index)
{
    const Family *f = family_of(option);
    const Recipe *r;

    for (int i = 0; f && f->list[i]; i++)
        if (i == index) {
            r = f->list[i];
            return (dpx_choice_info){ r->name, recipe_form(r), r->help,
                                      f->list == schedule_list && ((const ScheduleDef *)(const void *)r)->ends
                                          ? "total-steps"
                                          : NULL };
        }
    return (dpx_choice_info){ .name = NULL };
}
