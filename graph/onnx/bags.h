/* Bags of rows: what a loop over them (bags.c) and the nodes that replace it (bags_reduce.c) share. */
#ifndef DPX_ONNX_BAGS_H
#define DPX_ONNX_BAGS_H

#include "graph/onnx/flow.h"

/* Element c + i of a vector, in trip i. */
typedef struct {
    ValueId vector;
    int64_t c;
} BagPosition;

typedef enum { BAG_SUM, BAG_MEAN, BAG_MAX } BagReduction;

/* Bag i is reduced over rows first(i) to end(i) of `rows`. */
typedef struct {
    ValueId rows;    /* [T, d], or a table if `indices` is given */
    ValueId indices; /* [T]: rows of the table; NO_VALUE: none */
    ValueId weights; /* [T], one for each row; NO_VALUE: none */
    BagPosition first, end;
    ValueId tested;     /* [T]: rows where this is the padding index are left out; NO_VALUE: none is */
    ValueId pad, count; /* the padding index, and how many rows the table has: a negative index counts from its end */
    BagReduction reduce;
    ValueId starts, each, ends; /* of bounds that are Concat(Range(0, _, each), ends): the Range; else NO_VALUE */
    bool zero_if_empty;         /* an empty bag is zeros; else the reduction of nothing */
    bool last_to_end;           /* the last bag ends at T, whatever `end` says */
    bool keeps;                 /* a bag's result is [1, d], else [d] */
} Bags;

/* The results of all `n` bags (a scalar), [n, d].  The bags follow each other. */
Status bags_reduce(ValueId *out, Importer *im, const Bags *b, ValueId n) CHECKED;

/* Are the two, each one number, the same whatever sizes the file leaves open? */
bool bags_same(Importer *im, ValueId x, ValueId y);

#endif
