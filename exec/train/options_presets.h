/* Presets: options that set the defaults of other options. */
#ifndef DPX_OPTIONS_PRESETS_H
#define DPX_OPTIONS_PRESETS_H

#include "exec/train/options.h"

/* Does the option set defaults of others? */
bool options_have_presets(const char *name);
/* The default of an option: that of the presets in force, or its own. */
const char *options_unset(const Options *o, const Setting *s);
/* The default that `choice` of `option` gives to an option of the table; NULL: the option's default does not depend on
 * the choice. */
const char *options_preset_default(const char *option, const char *choice, const Setting *s);
/* "momentum=0;": the flags of optimizers that presets set, in the options' arena; NULL: no memory. */
const char *options_preset_flags(const Options *o);
/* To be called after option `name` was set.  Sets the options whose defaults follow from it, and lists the defaults of
 * `compat` in the step's options (in_force). */
Status options_take_presets(Options *o, const char *name, const Setting *(*find)(const char *name)) CHECKED;

#endif
