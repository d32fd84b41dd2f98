/* Computes parts of an interpreted model as planned programs. */
#ifndef DPX_INTERPRETED_PART_H
#define DPX_INTERPRETED_PART_H

#include "exec/train/session.h"
#include "graph/onnx/onnx.h"

typedef struct {
    const BuildOptions *build; /* of which what holds for any graph counts */
    const DeviceList *devices;
} PartOptions;

/* An OnnxCompute, of PartOptions: by a session of its own. */
Status part_compute(void *user, const Tensor **out, Arena *arena, const Graph *part, const Tensor *const *in) CHECKED;

#endif
