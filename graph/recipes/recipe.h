/* A recipe: one of the losses, metrics, optimizers or learning-rate schedules that a run chooses by name, with settings
 * of its own.
 *
 * It is one file, graph/recipes/<kind>/NAME.c, with its settings, their defaults, help text and checks; the build lists
 * it (cmake/generate_lists.cmake).  It is chosen as NAME or NAME:ARGUMENT..., e.g. "step:10:0.5"; its flags are options
 * of the run, which several recipes may share, each with a default of its own. */
#ifndef DPX_RECIPE_H
#define DPX_RECIPE_H

#include "graph/recipes/setting.h"

typedef struct {
    const char *name;
    const char *form; /* "step:EVERY[:GAMMA]"; NULL: the name alone */
    const char *help;
    const Setting *args, *flags;           /* end with a NULL name; NULL: none */
    size_t bytes;                          /* of the structure of settings, to which fields of args and flags belong */
    Status (*check)(const void *settings); /* of several settings together; NULL: nothing to check */
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

/* Generated, ordered by name; end with NULL.  Each is the first member of what its kind defines. */
extern const Recipe *const loss_list[], *const metric_list[], *const optimizer_list[], *const schedule_list[];

/* The recipe that `text` names, which goes to the end or to the first colon; NULL when there is none. */
const Recipe *recipe_find(const Recipe *const *list, const char *text);
/* What follows the colon, or NULL. */
const char *recipe_args(const char *text);
const Setting *recipe_flag(const Recipe *r, const char *name); /* NULL: it has no such flag */
const char *recipe_form(const Recipe *r);

/* Reads the settings: defaults, then `args` ("10:0.5", NULL: none; the last one, if a text, holds all that is left) and
 * of `flags` ("momentum=0.9;nesterov=true", NULL: none) those that the recipe has. Texts are copied to
 * `arena`.  `option` is for messages: what chose the recipe. */
Status recipe_read(RecipeSettings *out, const Recipe *r, const char *option, const char *args, const char *flags,
                   Arena *arena) CHECKED;
/* Reads them and checks what they say together. */
Status recipe_take(RecipeSettings *out, const Recipe *r, const char *option, const char *args, const char *flags,
                   Arena *arena) CHECKED;

/* The whole number that `flags` give the flag `name`; false: none. */
bool recipe_given_int(int64_t *out, const char *flags, const char *name);

#endif
