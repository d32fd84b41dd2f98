/* Options of the form of a step: seed, random and training modes, gradients as outputs, standard operators. */
#ifndef DPX_PASSES_OPTIONS_STEP_H
#define DPX_PASSES_OPTIONS_STEP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct BuildOptions BuildOptions;

typedef struct StepOptions {
    uint64_t seed;
    int64_t total_steps;  /* of the run: where schedules end that do; 0: not known */
    bool keep_gradients;  /* outputs "grad:NAME" stay in the graph (--verify) */
    bool keep_outputs;    /* training steps have the model's outputs that are no losses, as evaluations have */
    bool file_modes;      /* in inference, operators that training changes keep the mode that the file gives them */
    bool standard;        /* a step in operators of ai.onnx alone (passes/train/standard.c) */
    const char *in_force; /* the options that a --compat system stands for, for the report; NULL: none */
} StepOptions;

const StepOptions *step_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
