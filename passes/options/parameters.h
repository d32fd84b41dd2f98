/* Options of the parameters: which are trained, untied or frozen, where no gradient passes, and the last layer's
 * outputs.
 */
#ifndef DPX_PASSES_OPTIONS_PARAMETERS_H
#define DPX_PASSES_OPTIONS_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct BuildOptions BuildOptions;

typedef struct ParameterOptions {
    const char *const *freeze, *const *train; /* fnmatch patterns on parameter names (passes/model/parameters_list.c) */
    int n_freeze, n_train;
    const struct ParameterList *parameters; /* the trained ones, all others are not; NULL: found (passes/model) */
    const char *const *untie; /* fnmatch patterns on names of constants that are untied whatever the file shows */
    int n_untie;
    const char *const *stop; /* names, or patterns of them, that no gradient passes (passes/model/stop_gradient.c) */
    int n_stop;
    bool qat_off;             /* no gradient passes quantisers (passes/model/straight_through.c) */
    const char *const *state; /* "BUFFER=VALUE": the value of a buffer after each step (passes/model/buffers.c) */
    int n_state;
    const char *head_name; /* the layer that gets head_outputs; NULL: the last one (passes/model/head.c) */
    int64_t head_outputs;  /* 0: all layers stay as they are */
} ParameterOptions;

const ParameterOptions *parameter_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
