/* The options that a stage of the pipeline is built with. */
#ifndef DPX_TRANSFORM_BUILD_H
#define DPX_TRANSFORM_BUILD_H

#include "exec/train/options.h"
#include "passes/build_parts.h"

/* Complete options of passes.  `parts` points into this struct, which therefore must not move. */
typedef struct {
    BuildParts parts; /* without a target */
    bool cuda;        /* the devices are accelerators */
    double weight[MAX_REPLICAS];
    SumCost cost;
} TransformBuild;

/* Completes the options for one mode by looking at the devices that they name. */
Status transform_options(TransformBuild *out, const Options *o, BuildMode mode) CHECKED;

#endif
