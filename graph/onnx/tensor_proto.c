/* Conversion of TensorProto and SparseTensorProto to tensors.  The number of elements in the data, whichever field
 * holds them, must equal the product of the dimensions; it is checked before memory of that size is allocated. */
#include <stdlib.h>
#include <string.h>

#include "graph/onnx/importer.h"
#include "graph/tensor/narrow_types.h"
#include "graph/tensor/strings.h"

const char *tensor_type_problem(int type, bool texts)
{
    if (type == DT_STRING && !texts)
        return "string tensors are supported only by the interpreter, without training";
    if (type == DT_COMPLEX64 || type == DT_COMPLEX128)
        return "complex tensors are not supported";
    if (type <= 0)
        return "the element type is not given";
    return type < DT_COUNT ? NULL : "the element type is not known";
}

/* Checks the n dimensions and their product with the element size for overflow. */
static Status dims_decode(Shape *out, size_t n, const int64_t *dim, size_t element_size, const char *name)
{
    Shape s;

    if (n > MAX_RANK)
        return FAIL(E_SHAPE, "tensor '%s': rank %zu, at most %d dimensions are supported", name, n, MAX_RANK);
    s = shape_of((int)n, dim);
    TRY(status_prefix(shape_check(&s, element_size), "tensor '%s'", name));
    *out = s;
    return ST_OK;
}

Status type_shape_decode(Shape *out, const char ***params, Arena *a, const Onnx__TensorShapeProto *s, const char *name)
{
    Shape shape = { .rank = (int)s->n_dim };
    int64_t sizes[MAX_RANK];

    if (s->n_dim > MAX_RANK)
        return FAIL(E_SHAPE, "'%s': rank %zu, at most %d dimensions are supported", name, s->n_dim, MAX_RANK);
    for (size_t i = 0; i < s->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
        bool fixed = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                     d->dim_value != -1; /* -1: Paddle's "?" */

        shape.dim[i] = fixed ? d->dim_value : -1;
        sizes[i] = fixed ? d->dim_value : 1;
        if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM || !*d->dim_param)
            continue;
        if (!*params && !(*params = ARENA_NEW(a, const char *, MAX_RANK)))
            return FAIL_NOMEM();
        if (!((*params)[i] = arena_strdup(a, d->dim_param)))
            return FAIL_NOMEM();
    }
    *out = shape;
    shape = shape_of(shape.rank, sizes);
    return status_prefix(shape_check(&shape, sizeof(double)), "'%s'", name);
}

/* ---- typed fields ---- */

/* Copies int32_data, which carries all types of 8 to 32 bits, float16 and bfloat16 as their bits. */
static Status from_int32(void *out, DType type, const int32_t *v, size_t n, const char *name)
{
    size_t size = dtype_size(type);
    bool is_signed = type == DT_INT8 || type == DT_INT16 || type == DT_INT32;
    int bits = type == DT_BOOL ? 1 : (int)size * 8;
    int64_t low = is_signed ? -((int64_t)1 << (bits - 1)) : 0, high = ((int64_t)1 << (bits - is_signed)) - 1;

    for (size_t i = 0; i < n; i++) {
        if (v[i] < low || v[i] > high)
            return FAIL(E_MODEL, "tensor '%s': element %zu is %d, out of range for %s", name, i, (int)v[i],
                        dtype_name(type));
        memcpy((char *)out + i * size, &v[i], size); /* the low bytes of a little-endian integer */
    }
    return ST_OK;
}

static Status from_uint64(void *out, DType type, const uint64_t *v, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (type == DT_UINT32 && v[i] > UINT32_MAX)
            return FAIL(E_MODEL, "tensor '%s': element %zu is out of range for uint32", name, i);
        memcpy((char *)out + i * dtype_size(type), &v[i], dtype_size(type));
    }
    return ST_OK;
}

/* Copies elements of less than 8 bits: each element of int32_data holds one byte of packed elements. */
static Status from_packed(Tensor *to, const Onnx__TensorProto *t, const char *name)
{
    const size_t n = packed_bytes(to->dtype, tensor_numel(to));
    uint8_t *bytes = malloc(n + 1);
    Status st = bytes ? from_int32(bytes, DT_UINT8, t->int32_data, n, name) : FAIL_NOMEM();

    if (!st)
        packed_read(to, bytes);
    free(bytes);
    return st;
}

/* The number of elements in the field for the tensor's type, and the field's name. */
static size_t typed_count(const Onnx__TensorProto *t, const char **field)
{
    switch (t->data_type) {
    case DT_FLOAT32: *field = "float_data"; return t->n_float_data;
    case DT_FLOAT64: *field = "double_data"; return t->n_double_data;
    case DT_INT64: *field = "int64_data"; return t->n_int64_data;
    case DT_UINT32:
    case DT_UINT64: *field = "uint64_data"; return t->n_uint64_data;
    case DT_STRING: *field = "string_data"; return t->n_string_data;
    default: *field = "int32_data"; return t->n_int32_data;
    }
}

static Status from_strings(Tensor *to, Arena *a, const ProtobufCBinaryData *s, const char *name)
{
    for (int64_t i = 0; i < tensor_numel(to); i++) {
        if (!text_set(to, i, a, (Text){ s[i].len, (const char *)s[i].data }))
            return FAIL_NOMEM();
        if (!text_is_utf8(text_at(to, i)))
            return FAIL(E_MODEL, "tensor '%s': string %lld is no UTF-8", name, (long long)i);
    }
    return ST_OK;
}

static Status from_typed(Tensor *to, Arena *a, const Onnx__TensorProto *t, const char *name)
{
    size_t n = (size_t)tensor_numel(to);

    if (!n)
        return ST_OK;
    switch (to->dtype) {
    case DT_FLOAT32: memcpy(to->data, t->float_data, n * 4); return ST_OK;
    case DT_FLOAT64: memcpy(to->data, t->double_data, n * 8); return ST_OK;
    case DT_INT64: memcpy(to->data, t->int64_data, n * 8); return ST_OK;
    case DT_UINT32:
    case DT_UINT64: return from_uint64(to->data, to->dtype, t->uint64_data, n, name);
    case DT_STRING: return from_strings(to, a, t->string_data, name);
    default:
        return dtype_bits(to->dtype) < 8 ? from_packed(to, t, name)
                                         : from_int32(to->data, to->dtype, t->int32_data, n, name);
    }
}

/* ---- dense ---- */

/* A tensor that takes over the unpacked raw data without a copy; NULL: they must be copied. */
static Tensor *take_raw(const TensorReader *r, const Onnx__TensorProto *t, const Shape *shape)
{
    Tensor *to;

    if (!r->unpacked || t->data_type == DT_BOOL || dtype_bits((DType)t->data_type) < 8 ||
        !arena_move(r->arena, r->unpacked, t->raw_data.data, t->raw_data.len) ||
        !(to = tensor_zeros(r->arena, (DType)t->data_type, shape)))
        return NULL;
    to->data = t->raw_data.data;
    return to;
}

Status tensor_decode(Tensor **out, TensorReader *r, const Onnx__TensorProto *t, const char *name)
{
    const char *problem = tensor_type_problem(t->data_type, r->texts), *field = "raw_data";
    const uint8_t *bytes = NULL;
    size_t numel, size;
    Tensor *to;
    Shape shape;

    if (problem)
        return FAIL(E_UNSUPPORTED, "tensor '%s': %s", name, problem);
    if (t->segment)
        return FAIL(E_UNSUPPORTED, "tensor '%s': data in segments is not supported", name);
    if (t->data_type == DT_STRING &&
        (t->has_raw_data || t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL))
        return FAIL(E_MODEL, "tensor '%s': expected its strings in string_data", name);
    TRY(dims_decode(&shape, t->n_dims, t->dims, dtype_size((DType)t->data_type), name));
    numel = (size_t)shape_numel(&shape);
    size = packed_bytes((DType)t->data_type, (int64_t)numel);
    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        if (!r->external)
            return FAIL(E_UNSUPPORTED, "tensor '%s': external data needs a model in a file", name);
        TRY(external_bytes(&bytes, r->external, t, size));
    } else if (t->has_raw_data && (t->raw_data.len || typed_count(t, &field) == 0)) {
        if (t->raw_data.len != size)
            return FAIL(E_MODEL, "tensor '%s': raw_data of %zu bytes, expected %zu", name, t->raw_data.len, size);
        bytes = t->raw_data.data;
        if ((to = take_raw(r, t, &shape))) {
            *out = to;
            return ST_OK;
        }
    } else {
        size_t found = typed_count(t, &field), expected = dtype_bits((DType)t->data_type) < 8 ? size : numel;

        if (found != expected)
            return FAIL(E_MODEL, "tensor '%s': %zu elements in %s, expected %zu", name, found, field, expected);
    }
    if (!(to = tensor_create(r->arena, (DType)t->data_type, &shape)))
        return FAIL_NOMEM();
    if (bytes)
        packed_read(to, bytes);
    else
        TRY(from_typed(to, r->arena, t, name));
    for (size_t i = 0; bytes && to->dtype == DT_BOOL && i < numel; i++)
        ((uint8_t *)to->data)[i] = ((uint8_t *)to->data)[i] != 0;
    *out = to;
    return ST_OK;
}

/* ---- sparse: values [n] at indices [n] into the flattened tensor, or [n, rank] ---- */

/* The position of element i in the flattened tensor. */
static Status sparse_offset(int64_t *out, const Tensor *indices, int64_t i, const Shape *dense, const char *name)
{
    int64_t at = 0, width = indices->shape.rank == 2 ? indices->shape.dim[1] : 1;
    const int64_t *index = (const int64_t *)indices->data + i * width;

    for (int64_t k = 0; k < width; k++) {
        int64_t bound = indices->shape.rank == 2 ? dense->dim[k] : shape_numel(dense);

        if (index[k] < 0 || index[k] >= bound)
            return FAIL(E_MODEL, "sparse tensor '%s': index %lld is outside 0..%lld", name, (long long)index[k],
                        (long long)bound - 1);
        at = indices->shape.rank == 2 ? at * bound + index[k] : index[k];
    }
    *out = at;
    return ST_OK;
}

Status tensor_decode_sparse(Tensor **out, TensorReader *r, const Onnx__SparseTensorProto *t, const char *name)
{
    Tensor *values, *indices, *to;
    int64_t bytes, at, last = -1;
    size_t size;
    Shape shape;
    bool linear, by_axis;

    if (!t->values || !t->indices)
        return FAIL(E_MODEL, "sparse tensor '%s': values and indices are required", name);
    TRY(tensor_decode(&values, r, t->values, name));
    TRY(tensor_decode(&indices, r, t->indices, name));
    size = dtype_size(values->dtype);
    TRY(dims_decode(&shape, t->n_dims, t->dims, size, name));
    linear = indices->shape.rank == 1;
    by_axis = indices->shape.rank == 2 && indices->shape.dim[1] == shape.rank;
    if (values->shape.rank != 1 || indices->dtype != DT_INT64 || (!linear && !by_axis) ||
        indices->shape.dim[0] != values->shape.dim[0])
        return FAIL(E_MODEL, "sparse tensor '%s': values and indices do not fit each other", name);
    bytes = (int64_t)layout_bytes(values->dtype, LAYOUT_ROWS, &shape);
    if (bytes > r->dense_left)
        return FAIL(E_UNSUPPORTED, "sparse tensor '%s': too large to be made dense", name);
    r->dense_left -= bytes;
    if (!(to = tensor_create(r->arena, values->dtype, &shape)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(values); i++, last = at) {
        TRY(sparse_offset(&at, indices, i, &shape, name));
        if (at <= last)
            return FAIL(E_MODEL, "sparse tensor '%s': indices must be in ascending order, without repetition", name);
        memcpy((char *)to->data + (size_t)at * size, (const char *)values->data + (size_t)i * size, size);
    }
    *out = to;
    return ST_OK;
}
