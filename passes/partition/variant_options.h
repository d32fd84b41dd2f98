/* The options that the graph of a shorter length is built with. */
#ifndef DPX_VARIANT_OPTIONS_H
#define DPX_VARIANT_OPTIONS_H

#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/inputs.h"
#include "passes/options/target.h"
#include "passes/partition/variants.h"

/* `build` points to the other members. */
typedef struct {
    BuildOptions build;
    BatchOptions batch;
    InputOptions inputs;
    TargetOptions target;
} VariantOptions;

/* Fills in the options of variant i. */
void variant_options(VariantOptions *out, const Variants *v, int i, const BuildOptions *opt);

#endif
