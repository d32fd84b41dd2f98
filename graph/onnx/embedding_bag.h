/* EmbeddingBag: the description of bags of rows that embedding_bag.c finds in a Loop, and that embedding_bag_reduce.c
 * makes nodes for. */
#ifndef DPX_ONNX_EMBEDDING_BAG_H
#define DPX_ONNX_EMBEDDING_BAG_H

#include "graph/onnx/flow.h"

/* Element c + i of a vector, in trip i. */
typedef struct {
    ValueId vector;
    int64_t c;
} BagPosition;

typedef enum { BAG_SUM, BAG_MEAN, BAG_MAX } BagReduction;

/* Bag i is the reduction of rows first(i), ..., end(i) - 1 of `rows`. */
typedef struct {
    ValueId rows;    /* [T, d], or a table if `indices` is given */
    ValueId indices; /* [T]: rows of the table; NO_VALUE: none */
    ValueId weights; /* [T], one for each row; NO_VALUE: none */
    BagPosition first, end;
    ValueId tested;     /* [T]: rows where this is the padding index are left out; NO_VALUE: all rows count */
    ValueId pad, count; /* the padding index, and the table's number of rows: a negative index counts from its end */
    BagReduction reduce;
    ValueId starts, each, ends; /* if bounds are Concat(Range(0, _, each), ends): the Range; otherwise NO_VALUE */
    bool zero_if_empty;         /* an empty bag is zeros; false: the reduction of no rows */
    bool last_to_end;           /* the last bag ends at T, whatever `end` is */
    bool keepdims;              /* a bag's result is [1, d]; false: [d] */
} Bags;

/* Emits nodes for the results of all `n` bags (a scalar), [n, d].  Each bag begins where the one before it ends. */
Status bags_reduce(ValueId *out, Importer *im, const Bags *b, ValueId n) CHECKED;

/* Are the two single numbers equal whatever the sizes that the file leaves open?  Emits nodes. */
bool bags_equal(Importer *im, ValueId x, ValueId y);

#endif
