/* Options that stand for others, where these are not given themselves. */
#ifndef DPX_OPTIONS_PRESETS_H
#define DPX_OPTIONS_PRESETS_H

#include "exec/train/options.h"

/* Does the option stand for others? */
bool options_have_presets(const char *name);
/* The text of an option that is not given. */
const char *options_unsaid(const Options *o, const Setting *s);
/* After option `name` was set: what it stands for is set, and told in build.in_force. */
Status options_take_presets(Options *o, const char *name, const Setting *(*find)(const char *name)) CHECKED;

#endif
