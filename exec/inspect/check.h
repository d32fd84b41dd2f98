/* Golden data: compares what a model computes with expected outputs, in the layout of ONNX's own tests.  A folder has
 * model.onnx and data sets test_data_set_0, test_data_set_1 ...; each of these has a TensorProto for each input and
 * output, input_0.pb ... and output_0.pb ... */
#ifndef DPX_INSPECT_CHECK_H
#define DPX_INSPECT_CHECK_H

#include "exec/train/options.h"

/* Numbers are equal when |found - expected| <= atol + rtol |expected|. */
typedef struct {
    double atol, rtol;
} Tolerance;

/* Reads a file of one tensor of type `expected` into the arena. */
Status check_read(Tensor **out, Arena *a, const char *path, DType expected) CHECKED;
/* Returns whether `found` has another type, shape or elements than `expected`, and writes the first difference to
 * `text`.  NaN equals NaN; integers must be equal.  `within` NULL: compares types and shapes only. */
bool check_differs(char *text, size_t size, const char *name, const Tensor *found, const Tensor *expected,
                   const Tolerance *within);

/* Compares all data sets of a folder and stops at the first that differs.  A data set runs as a program where all
 * shapes are known beforehand, if need be with inputs of few elements made constants; otherwise, and always with
 * `interpreter`, it is interpreted.
 *
 * The tolerance is atol 1e-7 and rtol 1e-3 unless the folder's data.json says {"atol": ..., "rtol": ...}.  NaN equals
 * NaN; integers, types and shapes must be equal.  A failed run is a result, with its message in out->text; errors are
 * returned for the folder itself. */
Status check_folder(dpx_check_result *out, const char *folder, const Options *o, bool interpreter) CHECKED;

#endif
