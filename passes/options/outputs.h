/* Options of outputs: where those of replicas are put together, and along which axis. */
#ifndef DPX_PASSES_OPTIONS_OUTPUTS_H
#define DPX_PASSES_OPTIONS_OUTPUTS_H

#include <stdbool.h>

typedef struct BuildOptions BuildOptions;

/* The axis along which the replicas' outputs are put together. */
typedef enum {
    JOIN_PLACED, /* each along its own */
    JOIN_INPUTS, /* along that of the inputs, where they have one */
    JOIN_AXIS
} OutputJoin;

typedef struct OutputOptions {
    int output_device;  /* the device that puts outputs together */
    bool loss_gathered; /* that device computes the loss from all samples' scores, not each replica from its own */
    bool numbers_apart; /* inference: an output of one number becomes a vector of the replicas' numbers */
    OutputJoin join;    /* inference (passes/partition/own_outputs.c) */
    int join_axis;      /* JOIN_AXIS: of each output, from its end where it is negative */
    bool outputs_apart; /* nothing is put together: each replica's part of an output is an output, NAME@r2 */
} OutputOptions;

const OutputOptions *output_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
