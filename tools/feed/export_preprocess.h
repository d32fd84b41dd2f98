/* The preprocessing that --export-preprocess joins to an exported model. */
#ifndef DPX_TOOLS_EXPORT_PREPROCESS_H
#define DPX_TOOLS_EXPORT_PREPROCESS_H

#include <jansson.h>
#include <stdbool.h>

#include "graph/base/status.h"
#include "include/dpexec.h"

enum { PREPROCESS_PATH = 4096 };

/* Finds the preprocessing of a run's data as an ONNX model: a table's is in the folder of the run; that of images is
 * written to a temporary file there, which the caller removes (*temporary).  E_INVALID: the data had none. */
Status export_preprocess_find(char path[PREPROCESS_PATH], bool *temporary, const dpx_model *m, const json_t *fitted,
                              const char *run) CHECKED;

#endif
