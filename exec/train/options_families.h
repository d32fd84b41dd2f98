/* Families of recipes that an option chooses from: losses, metrics, optimizers, learning-rate schedules. */
#ifndef DPX_OPTIONS_FAMILIES_H
#define DPX_OPTIONS_FAMILIES_H

#include "include/dpexec.h"
#include "passes/options/recipes.h"

typedef struct {
    const char *option;
    const Recipe *const *list;
    bool or_none;
    bool trains; /* only training reads the flags */
} Family;

enum { OF_LOSS, OF_METRIC, OF_OPTIMIZER, OF_SCHEDULE, N_FAMILIES };
extern const Family families[N_FAMILIES];

const Family *family_of(const char *option); /* NULL: the option chooses no recipe */
/* The first recipe that declares the flag; `of`, which may be NULL, receives its family. */
const Recipe *family_first_with(const char *flag, const Family **of);
/* The k-th recipe that an option's text names, "f1:micro" or a list "accuracy;f1"; NULL: there is none. */
const Recipe *family_recipe(const Family *f, const char *text, int k);
/* Fails: the text names no recipe of the family. */
Status family_unknown(const Family *f, const char *text) CHECKED;
/* Reads a list of metrics, "accuracy;f1" or "none"; `flags` as of recipe_read. */
Status family_read_metrics(MetricChoice out[MAX_METRICS + 1], const char *list, const char *flags,
                           Arena *arena) CHECKED;
/* Like dpx_choice_at. */
dpx_choice_info options_choice(const char *option, int index);

#endif
