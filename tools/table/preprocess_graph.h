/* The preprocessing of a fitted table as an ONNX model, so that a deployed model takes raw columns. */
#ifndef DPX_TOOLS_PREPROCESS_GRAPH_H
#define DPX_TOOLS_PREPROCESS_GRAPH_H

#include "tools/table/table.h"

/* A tensor of float32 features [N, sum of the columns' widths]; or one of ids [N, n], or [N] for one column. */
typedef struct {
    const char *name;
    const int *column; /* [n] of the table, in the order of its features */
    int n;
    int id_bytes; /* 4 or 8: ids (table_id) as int32 or int64; 0: features */
    int rank;
} FeatureTensor;

/* Writes a model that computes the features as cell_features does, to the bit.  Its inputs are the columns [N,
 * 1], by their names: float64 where they are numeric (a missing one is NaN), string where they hold categories
 * (missing: a text of table_missing).  Ids are those of table_id.  It has operators of opset 19. */
Status preprocess_write(const Table *t, const FeatureTensor *tensor, int n, const char *path) CHECKED;

#endif
