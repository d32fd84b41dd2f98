/* Options of groups of parameters (--group, --groups, --clip-norm).  A group takes the run's value of each setting that
 * it does not have itself; it takes the flags of the run's optimizer only if it has no optimizer of its own. */
#include "exec/train/options_groups.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/train/options_presets.h"
#include "exec/train/options_store.h"
#include "exec/train/parameter_list.h"
#include "passes/options/collectives.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "passes/options/update.h"
#include "passes/update_groups.h"

/* ---- clipping ---- */

/* "X[:P|:inf]" */
static Status read_clip_norm(Clip *out, const Setting *r, const char *value)
{
    const Setting norm = { .name = r->name, .min = 0, .max = SETTING_REAL_MAX };
    const Setting power = { .name = r->name, .min = 1, .max = 1000 };
    const char *colon = strchr(value, ':');
    char x[64];

    snprintf(x, sizeof x, "%.*s", (int)(colon ? colon - value : 63), value);
    TRY(setting_read_real(&out->norm, &norm, x));
    out->power = 0;
    if (colon && !strcmp(colon + 1, "inf"))
        out->power = INFINITY;
    else if (colon && setting_read_real(&out->power, &power, colon + 1))
        return setting_bad(r, value, "X, X:P with P from 1 to 1000, or X:inf");
    return ST_OK;
}

Status options_set_clip_norm(const Setting *r, void *to, const char *value)
{
    Clip clip = stored_update(to)->clip;

    TRY(read_clip_norm(&clip, r, value));
    stored_update(to)->clip = clip;
    return ST_OK;
}

/* ---- weight decay ---- */

Status options_set_no_decay(const Setting *r, void *to, const char *value)
{
    const char *at = value;
    unsigned kinds = 0;

    do {
        const size_t n = strcspn(at, ",");
        const bool norm = n == 4 && !strncmp(at, "norm", n), bias = n == 4 && !strncmp(at, "bias", n);

        if (!norm && !bias)
            return setting_bad(r, value, "norm, bias or norm,bias");
        kinds |= norm ? KIND_NORM : KIND_BIAS;
        at += n;
    } while (*at++);
    stored_update(to)->undecayed = kinds;
    return ST_OK;
}

/* ---- reading a group ---- */

/* The '=' of "KEY=" at `at`, or NULL. */
static const char *key_end(const char *at)
{
    const size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n && at[n] == '=' ? at + n : NULL;
}

/* The colon between the pattern and its settings: names may hold colons, too. */
static const char *last_colon(const char *text)
{
    const char *last = NULL;

    for (const char *c = strchr(text, ':'); c; c = strchr(c + 1, ':'))
        if (key_end(c + 1))
            last = c;
    return last;
}

/* The end of a value: values may hold commas. */
static const char *value_end(const char *at)
{
    const char *c = strchr(at, ',');

    while (c && !key_end(c + 1))
        c = strchr(c + 1, ',');
    return c ? c : at + strlen(at);
}

static Status unknown_key(const OptionGroup *g, const char *key)
{
    char keys[512];
    int n = snprintf(keys, sizeof keys, "lr, schedule, optimizer, loss, clip-norm, clip-value");

    for (const Recipe *const *r = optimizer_list; *r; r++)
        for (const Setting *s = (*r)->flags; s && s->name && n < (int)sizeof keys; s++) {
            bool seen = false;

            for (const Recipe *const *q = optimizer_list; q < r; q++)
                seen = seen || recipe_flag(*q, s->name);
            if (!seen)
                n += snprintf(keys + n, sizeof keys - (size_t)n, ", %s", s->name);
        }
    return FAIL(E_INVALID, "--group '%s': there is no key '%s', but %s", g->pattern, key, keys);
}

static Status set_recipe(const Recipe **out, RecipeSettings *settings, const OptionGroup *g, const char *key,
                         const Recipe *const *list, const char *value, Arena *a)
{
    char names[512];
    int n = 0;

    if (!(*out = recipe_find(list, value))) {
        for (; *list && n < (int)sizeof names; list++)
            n += snprintf(names + n, sizeof names - (size_t)n, "%s%s", n ? ", " : "", recipe_form(*list));
        return FAIL(E_INVALID, "--group '%s': %s: expected one of %s, found '%s'", g->pattern, key, names, value);
    }
    return status_prefix(recipe_read(settings, *out, key, recipe_args(value), NULL, a), "--group '%s'", g->pattern);
}

static Status set_key(OptionGroup *g, const char *key, const char *value, Arena *a)
{
    const Setting named = { .name = arena_printf(a, "group '%s': %s", g->pattern, key), .max = SETTING_REAL_MAX };
    const Setting *flag = NULL;
    const Recipe *r = NULL;
    RecipeSettings settings;

    if (!named.name)
        return FAIL_NOMEM();
    if (!strcmp(key, "lr"))
        return g->has_lr = true, setting_read_real(&g->lr, &named, value);
    if (!strcmp(key, "loss"))
        return (g->loss = arena_strdup(a, value)) ? ST_OK : FAIL_NOMEM();
    if (!strcmp(key, "clip-norm"))
        return g->has_clip = true, read_clip_norm(&g->clip, &named, value);
    if (!strcmp(key, "clip-value"))
        return g->has_clip = true, setting_read_real(&g->clip.value, &named, value);
    if (!strcmp(key, "schedule")) {
        TRY(set_recipe(&r, &g->schedule_settings, g, key, schedule_list, value, a));
        g->schedule = (const ScheduleDef *)(const void *)r;
        return ST_OK;
    }
    if (!strcmp(key, "optimizer")) {
        TRY(set_recipe(&r, &settings, g, key, optimizer_list, value, a));
        g->optimizer = (const OptimizerDef *)(const void *)r;
        g->optimizer_args = recipe_args(value);
        return ST_OK;
    }
    for (const Recipe *const *of = optimizer_list; *of && !flag; of++)
        flag = recipe_flag(*of, key);
    if (!flag)
        return unknown_key(g, key);
    TRY(status_prefix(setting_set(flag, &settings, a, value), "--group '%s'", g->pattern));
    return (g->flags = arena_printf(a, "%s%s=%s;", g->flags, key, value)) ? ST_OK : FAIL_NOMEM();
}

/* Is the key given before `until`? */
static bool given_before(const char *from, const char *until, const char *key)
{
    const size_t n = strlen(key);

    for (const char *at = from; at < until; at = value_end(at) + 1)
        if (!strncmp(at, key, n) && at[n] == '=')
            return true;
    return false;
}

static Status read_group(OptionGroup *out, const char *text, Arena *a)
{
    const char *colon = last_colon(text), *at = colon ? colon + 1 : NULL;

    if (!colon || colon == text)
        return FAIL(E_INVALID, "--group: expected PATTERN:KEY=VALUE,..., found '%s'", text);
    *out = (OptionGroup){ .text = arena_strdup(a, text),
                          .pattern = arena_printf(a, "%.*s", (int)(colon - text), text),
                          .flags = "" };
    if (!out->text || !out->pattern)
        return FAIL_NOMEM();
    while (at && *at) {
        const char *eq = key_end(at), *end = value_end(at);
        const char *key = eq ? arena_printf(a, "%.*s", (int)(eq - at), at) : NULL;
        const char *value = eq ? arena_printf(a, "%.*s", (int)(end - eq - 1), eq + 1) : NULL;

        if (!key || !value)
            return FAIL_NOMEM();
        if (given_before(colon + 1, at, key))
            return FAIL(E_INVALID, "--group '%s': %s is given twice", out->pattern, key);
        TRY(set_key(out, key, value, a));
        at = *end ? end + 1 : NULL;
    }
    return ST_OK;
}

/* ---- the list ---- */

Status options_take_groups(Options *o)
{
    const RecipeOptions *r = recipe_options(&o->build);
    const char *preset = options_preset_flags(o);
    UpdateGroup *u = ARENA_NEW(o->arena, UpdateGroup, o->n_group + 1);

    if (!u || !preset)
        return FAIL_NOMEM();
    for (int k = 0; k < o->n_group; k++) {
        const OptionGroup *g = &o->group[k];
        const bool own = g->optimizer != NULL;

        u[k] = (UpdateGroup){ .pattern = g->pattern,
                              .optimizer = own ? g->optimizer : r->optimizer,
                              .optimizer_args = own ? g->optimizer_args : r->optimizer_args,
                              .settings = arena_printf(o->arena, "%s%s", g->flags, own ? preset : r->settings),
                              .clip = g->has_clip ? &g->clip : NULL,
                              .loss = g->loss };
        if (!u[k].settings)
            return FAIL_NOMEM();
    }
    stored_update(o)->group = u;
    stored_update(o)->n_group = o->n_group;
    return ST_OK;
}

Status options_add_group(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    OptionGroup *grown = options_grow(o->arena, o->group, sizeof *grown, o->n_group);
    char name[GROUP_NAME];

    (void)r;
    if (!grown)
        return FAIL_NOMEM();
    if (o->n_group == MAX_GROUPS)
        return FAIL(E_INVALID, "--group: more than %d groups", MAX_GROUPS);
    TRY(read_group(&grown[o->n_group], value, o->arena));
    if (!(grown[o->n_group].rate_name = arena_strdup(o->arena, group_name(name, IN_LR, o->n_group + 1))))
        return FAIL_NOMEM();
    o->group = grown;
    o->n_group++;
    return options_take_groups(o);
}

static Status add_lines(Options *o, FILE *f, const char *path)
{
    char *line = NULL;
    size_t size = 0;
    int at = 0;
    Status st = ST_OK;

    while (!st && getline(&line, &size, f) >= 0) {
        const char *text = list_line(line);

        at++;
        if (text)
            st = options_set(o, "group", text);
    }
    if (st)
        st = status_prefix(st, "%s:%d", path, at);
    else if (ferror(f))
        st = FAIL(E_IO, "--groups %s: cannot read: %s", path, strerror(errno));
    free(line);
    return st;
}

/* The lines are tried on a copy first, so that none stays of a file that is refused. */
Status options_add_groups(const Setting *r, void *to, const char *path)
{
    FILE *f = fopen(path, "r");
    Options *o = to, *trial = NULL;
    Status st;

    if (!f)
        return FAIL(E_IO, "--%s %s: cannot read: %s", r->name, path, strerror(errno));
    if (!(st = options_copy(&trial, o)))
        st = add_lines(trial, f, path);
    fclose(f);
    for (int k = o->n_group; !st && k < trial->n_group; k++)
        st = options_set(o, "group", trial->group[k].text);
    options_free(trial);
    return st;
}

Status options_copy_groups(Options *copy, const Options *o)
{
    for (int k = 0; k < o->n_group; k++)
        TRY(options_add_group(NULL, copy, o->group[k].text));
    return ST_OK;
}

/* ---- checks of the whole list ---- */

static Status check_clip(const Clip *c, const char *pattern, const Options *o)
{
    const bool odd = c->norm > 0 && c->power && c->power != 2;
    const char *before = pattern ? "--group '" : "", *behind = pattern ? "': " : "", *name = pattern ? pattern : "";
    const char *dashes = pattern ? "" : "--";

    if (c->norm > 0 && c->value > 0)
        return FAIL(E_INVALID, "%s%s%s%sclip-norm and %sclip-value do not go together", before, name, behind, dashes,
                    dashes);
    if (odd && collective_options(&o->build)->shard)
        return FAIL(E_INVALID, "%s%s%s%sclip-norm with a power other than 2 needs whole gradients: give --shard none",
                    before, name, behind, dashes);
    return ST_OK;
}

/* Flags that the group gives and its optimizer lacks. */
static Status options_groups_check_flags(const OptionGroup *g, const OptimizerDef *def)
{
    PROBLEMS(wrong);

    for (const char *at = g->flags; *at; at = strchr(at, ';') + 1) {
        char key[64];

        snprintf(key, sizeof key, "%.*s", (int)strcspn(at, "="), at);
        if (!recipe_flag(&def->recipe, key))
            problems_add(&wrong, "%s", key);
    }
    return problems_fail(&wrong, E_INVALID, "--group '%s': optimizer %s does not have", g->pattern, def->recipe.name);
}

Status options_check_groups(const Options *o)
{
    const UpdateOptions *update = update_options(&o->build);
    bool own_loss = false;

    TRY(check_clip(&update->clip, NULL, o));
    if (update->undecayed && recipe_options(&o->build)->optimizer && recipe_options(&o->build)->optimizer->of_file)
        return FAIL(E_INVALID,
                    "--no-decay does not go with --optimizer file, which updates all tensors as the file says");
    for (int k = 0; k < o->n_group; k++)
        own_loss |= o->group[k].loss != NULL;
    if (update->turns && !own_loss)
        return FAIL(E_INVALID, "--turns needs groups with a loss of their own: give --group 'PATTERN:loss=NAME'");
    for (int k = 0; k < o->n_group; k++) {
        const OptionGroup *g = &o->group[k];
        const UpdateGroup *u = &update->group[k];
        RecipeSettings settings;

        TRY(options_groups_check_flags(g, u->optimizer));
        if (g->optimizer && g->optimizer->averages && !optimizer_averages(&o->build))
            return FAIL(E_INVALID,
                        "--group '%s': optimizer %s averages parameters, and evaluations use the mean of all or of "
                        "none: give --optimizer %s",
                        g->pattern, g->optimizer->recipe.name, g->optimizer->recipe.name);
        if (g->loss && !(has_loss(&o->build) && recipe_options(&o->build)->loss->logs))
            return FAIL(E_INVALID, "--group '%s': loss %s is an output of the model, which goes with --loss outputs",
                        g->pattern, g->loss);
        TRY(status_prefix(
            recipe_take(&settings, &u->optimizer->recipe, "optimizer", u->optimizer_args, u->settings, o->arena),
            "--group '%s'", g->pattern));
        if (g->has_clip)
            TRY(check_clip(&g->clip, g->pattern, o));
        if (g->schedule && g->schedule->recipe.check)
            TRY(status_prefix(g->schedule->recipe.check(&g->schedule_settings), "--group '%s'", g->pattern));
        if (g->schedule && g->schedule->ends && !step_options(&o->build)->total_steps)
            return FAIL(E_INVALID, "--group '%s': schedule %s needs the number of steps: give --steps or --epochs",
                        g->pattern, g->schedule->recipe.name);
    }
    return ST_OK;
}
