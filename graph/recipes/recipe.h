/* Recipes: losses, metrics, optimizers and learning-rate schedules that a run chooses by name, with their settings.
 *
 * A recipe is one file, graph/recipes/<kind>/NAME.c, with its settings, their defaults, help texts and checks; the
 * build lists it (cmake/generate_lists.cmake).  A run chooses NAME or NAME:ARGUMENT..., such as "step:10:0.5".  A
 * recipe's flags are options of the run; recipes may share a flag, each with its own default. */
#ifndef DPX_RECIPE_H
#define DPX_RECIPE_H

#include "graph/recipes/setting.h"

typedef struct {
    const char *name;
    const char *form; /* "step:EVERY[:GAMMA]"; NULL: the name alone */
    const char *help;
    const Setting *args, *flags;           /* end with a NULL name; NULL: none */
    size_t bytes;                          /* size of the structure that holds the settings */
    Status (*check)(const void *settings); /* checks settings against each other; NULL: nothing to check */
} Recipe;

/* Room for any recipe's settings. */
enum { RECIPE_BYTES = 128 };
typedef union {
    max_align_t align;
    char bytes[RECIPE_BYTES];
} RecipeSettings;

/* .name = ..., .bytes = ... of a recipe whose settings are a `Struct`. */
#define RECIPE_SETTINGS(Struct)                                                                                      \
    .bytes =                                                                                                         \
        sizeof(Struct) + 0 * sizeof(struct {                                                                         \
                             _Static_assert(sizeof(Struct) <= RECIPE_BYTES, "settings have more than RECIPE_BYTES"); \
                             int unused;                                                                             \
                         })

/* Generated lists, ordered by name; NULL ends them.  Each recipe is the first member of a LossDef, MetricDef, ... */
extern const Recipe *const loss_list[], *const metric_list[], *const optimizer_list[], *const schedule_list[];

/* Finds the recipe that `text` names, up to the first colon; NULL: there is none. */
const Recipe *recipe_find(const Recipe *const *list, const char *text);
/* The text after the first colon, or NULL. */
const char *recipe_args(const char *text);
const Setting *recipe_flag(const Recipe *r, const char *name); /* NULL: it has no such flag */
const char *recipe_form(const Recipe *r);

/* Parses the settings: defaults, then `args` ("10:0.5"; the last one, if a text, takes the rest), then those of `flags`
 * ("momentum=0.9;nesterov=true") that the recipe has.  `args` and `flags` may be NULL.  Texts are copied to `arena`.
 * `option` is the option that chose the recipe, for messages. */
Status recipe_read(RecipeSettings *out, const Recipe *r, const char *option, const char *args, const char *flags,
                   Arena *arena) CHECKED;
/* Calls recipe_read, then the recipe's check. */
Status recipe_take(RecipeSettings *out, const Recipe *r, const char *option, const char *args, const char *flags,
                   Arena *arena) CHECKED;

/* Sets *out to the integer that `flags` give the flag `name`; false: they do not. */
bool recipe_given_int(int64_t *out, const char *flags, const char *name);

#endif
