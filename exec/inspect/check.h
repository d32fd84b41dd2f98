/* Golden data: what a model computes compared with what it is known to compute, in the layout of ONNX's own tests: a
 * folder with model.onnx and, in test_data_set_0, test_data_set_1 ..., a TensorProto for each input and output,
 * input_0.pb ... and output_0.pb ... */
#ifndef DPX_INSPECT_CHECK_H
#define DPX_INSPECT_CHECK_H

#include "exec/train/options.h"

/* Compares all data sets; stops at the first that differs.  A step of a program where all shapes are known before it,
 * which is tried with inputs of few elements as constants, too; else interpreted, as all is with `interpreter`.
 *
 * |found - expected| <= atol + rtol |expected|, 1e-7 and 1e-3 unless data.json in the folder says {"atol": ..., "rtol":
 * ...}; NaN equals NaN; integers are equal; types and shapes too. */
Status check_folder(dpx_check_result *out, const char *folder, const Options *o, bool interpreter) CHECKED;

#endif
