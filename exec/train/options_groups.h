/* Parameter groups: --group 'PATTERN:KEY=VALUE,...', and --groups FILE with one a line; `to` is an Options. */
#ifndef DPX_OPTIONS_GROUPS_H
#define DPX_OPTIONS_GROUPS_H

#include "exec/train/options.h"
#include "passes/options/update.h"

/* --group: how the updates of its parameters differ. */
struct OptionGroup {
    const char *text, *pattern;
    const char *rate_name; /* the input of its learning rate */
    bool has_lr, has_clip;
    double lr;
    Clip clip;
    const ScheduleDef *schedule; /* NULL: the run's */
    RecipeSettings schedule_settings;
    const OptimizerDef *optimizer; /* NULL: the run's */
    const char *optimizer_args;
    const char *flags; /* of the optimizer, "momentum=0.9;" */
    const char *loss;  /* NULL: the run's */
};

Status options_add_group(const Setting *r, void *to, const char *value) CHECKED;
Status options_add_groups(const Setting *r, void *to, const char *path) CHECKED;
Status options_copy_groups(Options *copy, const Options *o) CHECKED;
/* Sets in all groups the settings that they share with the run's optimizer and flags to their present values. */
Status options_take_groups(Options *o) CHECKED;
/* Checks groups together with the other options. */
Status options_check_groups(const Options *o) CHECKED;

/* --no-decay: "norm", "bias" or both. */
Status options_set_no_decay(const Setting *r, void *to, const char *value) CHECKED;
Status options_set_clip_norm(const Setting *r, void *to, const char *value) CHECKED;

#endif
