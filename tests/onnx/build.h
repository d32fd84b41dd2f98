/* Small ONNX models, made field by field so that tests can make wrong ones too. */
#ifndef DPX_TEST_ONNX_BUILD_H
#define DPX_TEST_ONNX_BUILD_H

#include "graph/onnx/importer.h"
#include "tests/harness/test.h"

typedef struct {
    Arena *arena;
    Onnx__ModelProto *model;
    Onnx__GraphProto *graph;
} Built;

Built built_create(int64_t opset); /* an empty graph named "g" */
void built_free(Built *b);
/* Lists are comma-separated names; "" is none. */
Onnx__NodeProto *built_node(Built *b, const char *op, const char *in, const char *out);
Onnx__NodeProto *node_make(Arena *a, const char *op, const char *in, const char *out);
void built_opset(Built *b, const char *domain, int64_t version);
/* Dimensions as text: "2,N,?" */
Onnx__ValueInfoProto *built_input(Built *b, const char *name, int dtype, const char *dims);
void built_output(Built *b, const char *name);
Onnx__TensorProto *tensor_make(Arena *a, const char *name, int dtype, const char *dims, size_t bytes, const void *raw);
Onnx__TensorProto *built_init(Built *b, const char *name, int dtype, const char *dims, size_t bytes, const void *raw);
Onnx__AttributeProto *attr_make(Arena *a, const char *name, Onnx__AttributeProto__AttributeType type);
void node_add_attr(Arena *a, Onnx__NodeProto *n, Onnx__AttributeProto *attr);
void node_attr_int(Arena *a, Onnx__NodeProto *n, const char *name, int64_t v);
/* A graph for attribute `name` of the node: to be filled by the same functions, not to be freed. */
Built built_subgraph(Built *b, Onnx__NodeProto *n, const char *name);
Onnx__FunctionProto *built_function(Built *b, const char *domain, const char *name, const char *in, const char *out,
                                    const char *attrs);
void function_node(Built *b, Onnx__FunctionProto *f, Onnx__NodeProto *n);
void function_opset(Built *b, Onnx__FunctionProto *f, const char *domain, int64_t version);
void tensor_external(Arena *a, Onnx__TensorProto *t, const char *key, const char *value);
/* x[2] -> Relu -> y. */
Built built_relu(void);

uint8_t *built_bytes(const Built *b, size_t *size); /* in the arena */
Status built_import(Graph **out, const Built *b);
/* Writes the model as FOLDER/model.onnx. */
void built_write(const Built *b, const char *folder);
/* A folder of its own for this test, emptied; lives in the build folder. */
const char *test_folder(const char *name);

#define ADD(a, array, count, item) built_push((a), (void ***)&(array), &(count), (item))
void built_push(Arena *a, void ***array, size_t *n, void *item);

/* Imports and expects this error; frees the model. */
#define REFUSED(b, code, text) refused(__FILE__, __LINE__, (b), (code), (text))
void refused(const char *file, int line, Built *b, Status code, const char *text);

#endif
