/* Which columns of a table feed which input of the model, and in which form. */
#ifndef DPX_TOOLS_CSV_INPUTS_H
#define DPX_TOOLS_CSV_INPUTS_H

#include "tools/data/csv_text.h"
#include "tools/table/preprocess_graph.h"

enum { MOST_INPUTS = 64 };

typedef struct TableSource TableSource;

/* The `maker` of an array of features. */
typedef struct {
    const TableSource *s;
    const FeatureTensor *to;
} TensorMaker;

/* A table, and the tensors that it feeds: tensor[i] is array i of the data set. */
struct TableSource {
    Table *t;
    bool fitted; /* by the training data */
    int n;
    FeatureTensor tensor[MOST_INPUTS];
    const char *array[MOST_INPUTS]; /* the name of each, lent */
    TensorMaker maker[MOST_INPUTS];
    int *column; /* [t->n] of all tensors, one behind the other */
    bool listed; /* --map or the training run says the columns of an input */
    TextColumn text;
};

/* Divides the columns among the model's inputs; without a model all feed the array "".  An input gets the columns that
 * --map lists for it, or those of the training run; else the column that is called so; and the input that is left gets
 * all other columns.  A column of texts goes to the input of integers that is left.  E_INVALID lists what cannot be. */
Status csv_divide(TableSource *s, const SourceContext *c) CHECKED;
/* The lists of columns, as JSON to be kept: {"user": "id", "rest": "age+size"}.  NULL: no memory. */
json_t *csv_lists(const TableSource *s);
/* The elements of a tensor along axis 1. */
int csv_width(const TableSource *s, const FeatureTensor *to);
/* The model's input of that name; NULL: unknown. */
const dpx_info *csv_input(const SourceContext *c, const char *name);
/* Checks a tensor against the model's input, and the ids of the first `rows` rows against its embedding. */
Status csv_check(const TableSource *s, const FeatureTensor *to, const SourceContext *c, int64_t rows) CHECKED;
/* A SampleFetch. */
Status csv_fetch(const Array *a, int64_t row, const SampleKey *key, void *out) CHECKED;

#endif
