/* Presets: the default that one option gives to another, by a table, and by the definitions of optimizers.  The order
 * in which options are set does not matter. */
#include "exec/train/options_presets.h"

#include <string.h>

#include "exec/train/options_store.h"
#include "graph/recipes/optimizer.h"
#include "passes/options/step.h"

#define NOT_NONE "*" /* any value but "none" */

static const struct Preset {
    const char *option, *value, *of, *to;
} presets[] = {
    { "plain-defaults", "true", "lr", "0.01" },
    { "plain-defaults", "true", "momentum", "0" },
    { "plain-defaults", "true", "weight-decay", "0" },
    { "compat", NOT_NONE, "lr", "0.01" },
    { "compat", NOT_NONE, "momentum", "0" },
    { "compat", NOT_NONE, "weight-decay", "0" },
    { "compat", "dp", "split", "chunk" },
    { "compat", "dp", "bn", "local" },
    { "compat", "ddp", "bn", "local" },
    { "compat", "ddp", "loss-scaling", "mean-of-means" },
    { "compat", "encoding", "split", "chunk" },
    { "compat", "encoding", "loss-scaling", "mean-of-means" },
    { "compat", "encoding", "mean-over", "filled" },
    { "compat", "encoding", "output-device", "each" },
    { "compat", "dp", "scalar-outputs", "each" },
    { "compat", "dp", "output-axis", "inputs" },
    { "strategy", "master", "shard", "parameters" },
    { "strategy", "master", "loss-at", "outputs" },
    { "bn-eps", "clamp", "bn-variance", "unbiased" },
    { "criterion", NULL, "loss", "output:loss" }, /* any file */
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

static bool holds(const Options *o, const struct Preset *p)
{
    const char *value = options_get(o, p->option);

    if (p->value && !strcmp(p->value, NOT_NONE))
        return strcmp(value, "none") != 0;
    return p->value ? !strcmp(value, p->value) : *value != '\0';
}

/* Whether the row is a setting of optimizers from before each optimizer had defaults of its own. */
static bool is_plain(const struct Preset *p)
{
    return !strcmp(p->option, "plain-defaults") || (p->value && !strcmp(p->value, NOT_NONE));
}

/* ---- those of optimizers, which come behind the table ---- */

static const char *const of_optimizer[] = { "lr", "eval-weights", "export-weights" };
enum { N_OF_OPTIMIZER = sizeof of_optimizer / sizeof *of_optimizer };

static bool is_of_optimizer(const char *option)
{
    bool any = false;

    for (int i = 0; i < N_OF_OPTIMIZER; i++)
        any |= !strcmp(of_optimizer[i], option);
    return any;
}

/* What the optimizer gives to one of these options; NULL: nothing. */
static const char *optimizer_default(const char *optimizer, const char *option)
{
    const OptimizerDef *def = (const OptimizerDef *)(const void *)recipe_find(optimizer_list, optimizer);

    if (!def || !is_of_optimizer(option))
        return NULL;
    return !strcmp(option, "lr") ? def->lr : def->averages ? "ema" : NULL;
}

/* ---- both ---- */

bool options_have_presets(const char *name)
{
    bool any = !strcmp(name, "optimizer");

    for (int i = 0; i < N_PRESETS; i++)
        any |= !strcmp(presets[i].option, name);
    return any;
}

const char *options_preset_flags(const Options *o)
{
    const char *all = "";

    for (int i = 0; all && i < N_PRESETS; i++)
        if (is_plain(&presets[i]) && strcmp(presets[i].of, "lr") != 0 && holds(o, &presets[i]))
            all = arena_printf(o->arena, "%s%s=%s;", all, presets[i].of, presets[i].to);
    return all;
}

const char *options_unset(const Options *o, const Setting *s)
{
    const char *to;

    for (int i = 0; i < N_PRESETS; i++)
        if (!strcmp(presets[i].of, s->name) && holds(o, &presets[i]))
            return presets[i].to;
    to = is_of_optimizer(s->name) ? optimizer_default(options_get(o, "optimizer"), s->name) : NULL;
    return to ? to : s->fallback;
}

const char *options_preset_default(const char *option, const char *choice, const Setting *s)
{
    bool any = !strcmp(option, "optimizer") && is_of_optimizer(s->name);

    if (any && optimizer_default(choice, s->name))
        return optimizer_default(choice, s->name);
    for (int i = 0; i < N_PRESETS; i++)
        if (!strcmp(presets[i].option, option) && !strcmp(presets[i].of, s->name)) {
            any = true;
            if (presets[i].value && !strcmp(presets[i].value, choice))
                return presets[i].to;
        }
    return any ? s->fallback : NULL;
}

/* Lists the options that `compat` has a default for, as they are in force: "--split chunk, --bn local". */
static Status list_compat(Options *o)
{
    const char *list = "";

    stored_step(o)->in_force = NULL;
    if (!o->compat)
        return ST_OK;
    for (int i = 0; list && i < N_PRESETS; i++) {
        bool before = strcmp(presets[i].option, "compat") != 0 || is_plain(&presets[i]);

        for (int k = 0; k < i; k++)
            before |= !strcmp(presets[k].of, presets[i].of);
        if (!before)
            list = arena_printf(o->arena, "%s%s--%s %s", list, *list ? ", " : "", presets[i].of,
                                options_get(o, presets[i].of));
    }
    return (stored_step(o)->in_force = list) ? ST_OK : FAIL_NOMEM();
}

/* Sets an option, unless it is given, to what it is by the others. */
static Status take_preset(Options *o, const char *option, const Setting *(*find)(const char *name))
{
    const Setting *s = options_given(o, option) ? NULL : find(option);

    return s ? setting_set(s, o, o->arena, options_unset(o, s)) : ST_OK; /* a recipe's flags are read with the recipe */
}

Status options_take_presets(Options *o, const char *name, const Setting *(*find)(const char *name))
{
    for (int i = 0; i < N_PRESETS; i++)
        if (!strcmp(presets[i].option, name))
            TRY(take_preset(o, presets[i].of, find));
    for (int i = 0; i < N_OF_OPTIMIZER && !strcmp(name, "optimizer"); i++)
        TRY(take_preset(o, of_optimizer[i], find));
    return list_compat(o);
}
