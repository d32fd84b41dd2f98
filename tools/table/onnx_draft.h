/* Drafting of ONNX models: nodes, constants, inputs and outputs are added one by one, and then written. */
#ifndef DPX_TOOLS_ONNX_DRAFT_H
#define DPX_TOOLS_ONNX_DRAFT_H

#include <onnx_proto.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

enum { DRAFT_INPUTS = 4, DRAFT_ATTRIBUTES = 8 /* of a node */ };

typedef struct {
    Arena *arena;
    Onnx__GraphProto graph; /* the caller adds inputs and outputs, by onnx_draft_value */
    int names;              /* given to values */
    bool failed;            /* out of memory; whatever is added then has no effect */
} OnnxDraft;

/* Opens a draft with room for so many nodes, constants, inputs and outputs each. */
Status onnx_draft_open(OnnxDraft *d, size_t room) CHECKED;
/* Frees the draft; one of zeros is legal. */
void onnx_draft_close(OnnxDraft *d);
/* Writes the model, for that opset. */
Status onnx_draft_write(OnnxDraft *d, int opset, const char *path) CHECKED;

/* Memory of the draft; NULL when there is none. */
void *onnx_draft_alloc(OnnxDraft *d, size_t size);
/* Adds a node of up to DRAFT_INPUTS inputs, as many as are not NULL; "": absent.  `attribute` may be NULL.  Returns the
 * name of its output: `output`, or with NULL a new one; NULL when out of memory. */
char *onnx_draft_node(OnnxDraft *d, const char *op, const char *const in[DRAFT_INPUTS], Onnx__AttributeProto *attribute,
                      const char *output);
/* Gives the newest node another attribute. */
void onnx_draft_give(OnnxDraft *d, Onnx__AttributeProto *attribute);
/* Attributes.  They return NULL when out of memory; texts and numbers are copied. */
Onnx__AttributeProto *onnx_draft_int_attribute(OnnxDraft *d, const char *name, int64_t v);
Onnx__AttributeProto *onnx_draft_ints_attribute(OnnxDraft *d, const char *name, const int64_t *v, size_t n);
Onnx__AttributeProto *onnx_draft_float_attribute(OnnxDraft *d, const char *name, float v);
Onnx__AttributeProto *onnx_draft_text_attribute(OnnxDraft *d, const char *name, const char *v);
/* Add a constant: float64 [1, n], one float32 [1, 1], strings [1, n] (the texts are lent), or int64 [n].  They return
 * its name. */
const char *onnx_draft_numbers(OnnxDraft *d, const double *v, size_t n);
const char *onnx_draft_float(OnnxDraft *d, float v);
const char *onnx_draft_texts(OnnxDraft *d, const char *const *text, size_t n);
const char *onnx_draft_ints(OnnxDraft *d, const int64_t *v, size_t n);
/* Describes an input or output of at most 4 axes.  A dimension with a name in `symbol` is open. */
Onnx__ValueInfoProto *onnx_draft_value(OnnxDraft *d, const char *name, int32_t type, int rank, const int64_t *dim,
                                       const char *const *symbol);

#endif
