/* The storage of options: every Options is the beginning of one. */
#ifndef DPX_STORED_OPTIONS_H
#define DPX_STORED_OPTIONS_H

#include "exec/train/options_store.h"
#include "passes/build_parts.h"

typedef struct {
    Options options; /* options.build is parts.build */
    BuildParts parts;
} StoredOptions;

#endif
