/* A typed, shaped view of memory: dense, row-major.  It does not own its data. */
#ifndef DPX_TENSOR_H
#define DPX_TENSOR_H

#include "graph/base/arena.h"
#include "graph/tensor/dtype.h"
#include "graph/tensor/shape.h"

typedef struct {
    DType dtype;
    Shape shape;
    void *data; /* NULL for an absent optional input, a tensor of no elements, and tensor_zeros */
} Tensor;

size_t tensor_bytes(const Tensor *t); /* shape and type must be known */
int64_t tensor_numel(const Tensor *t);
bool tensor_same(const Tensor *a, const Tensor *b); /* equal to the last bit */
bool tensor_is_filled(const Tensor *t);             /* all elements are the same number */
/* Creates a tensor with zeroed data in the arena; NULL when out of memory. */
Tensor *tensor_create(Arena *a, DType dtype, const Shape *shape);
Tensor *tensor_copy(Arena *a, const Tensor *t); /* copies the texts of strings, too */
/* Creates a tensor of zeros without data, for the first value of a state (Value.init). */
Tensor *tensor_zeros(Arena *a, DType dtype, const Shape *shape);
/* Element `i` of any real type.  tensor_int truncates floats toward zero, saturates, and makes 0 of NaN, because a file
 * may hold any number where a size is expected.  A string is 1 unless it is empty. */
int64_t tensor_int(const Tensor *t, int64_t i);
double tensor_float(const Tensor *t, int64_t i);
void tensor_set_int(Tensor *t, int64_t i, int64_t v);
void tensor_set_float(Tensor *t, int64_t i, double v);

/* IEEE binary16 and bfloat16, round to nearest even. */
float half_to_float(uint16_t h);
uint16_t half_from_double(double d);
float bfloat_to_float(uint16_t b);
uint16_t bfloat_from_float(float f);

#endif
