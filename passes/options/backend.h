/* Options of the backend: what the devices compute, fuse and store. */
#ifndef DPX_PASSES_OPTIONS_BACKEND_H
#define DPX_PASSES_OPTIONS_BACKEND_H

#include "graph/ir/target.h"

typedef struct BuildOptions BuildOptions;

typedef struct BackendOptions {
    Target backend; /* the devices' capabilities */
    bool tf32;      /* accelerators: products of float32 may round their inputs to TF32 */
    bool blocks;    /* CPUs: float32 convolutions store their values in blocks of channels */
    bool fuse;      /* CPUs: elementwise operators are computed together */
} BackendOptions;

const BackendOptions *backend_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
