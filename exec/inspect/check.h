/* Golden data: what a model computes compared with what it is known to compute, in the layout of ONNX's own tests: a
 * folder with model.onnx and, in test_data_set_0, test_data_set_1 ..., a TensorProto for each input and output,
 * input_0.pb ... and output_0.pb ... */
#ifndef DPX_INSPECT_CHECK_H
#define DPX_INSPECT_CHECK_H

#include "exec/train/options.h"

/* How far numbers may be apart: |found - expected| <= atol + rtol |expected|. */
typedef struct {
    double atol, rtol;
} Tolerance;

/* A file of one tensor, to be compared with one of type `expected`. */
Status check_read(Tensor **out, Arena *a, const char *path, DType expected) CHECKED;
/* Is it another type, shape, or has it elements that are not close enough?  Then what differs is in `text`.  NaN equals
 * NaN; integers are equal.  `within` NULL: types and shapes alone. */
bool check_differs(char *text, size_t size, const char *name, const Tensor *found, const Tensor *expected,
                   const Tolerance *within);

/* Compares all data sets; stops at the first that differs.  A step of a program where all shapes are known before it,
 * which is tried with inputs of few elements as constants, too; else interpreted, as all is with `interpreter`.
 *
 * |found - expected| <= atol + rtol |expected|, 1e-7 and 1e-3 unless data.json in the folder says {"atol": ..., "rtol":
 * ...}; NaN equals NaN; integers are equal; types and shapes too. */
Status check_folder(dpx_check_result *out, const char *folder, const Options *o, bool interpreter) CHECKED;

#endif
