/* The corpus of plans: which models are planned with which flags (tests/plans/corpus.txt has the format). */
#ifndef DPX_TESTS_PLANS_CORPUS_H
#define DPX_TESTS_PLANS_CORPUS_H

#include "graph/base/arena.h"

enum { MOST_FLAGS = 64 };

typedef struct {
    const char *name, *value; /* "batch-size", "7"; value NULL: a flag without one */
} PlanFlag;

/* A model and the flags of one plan. */
typedef struct {
    const char *name; /* "models/mlp.onnx train+two" */
    PlanFlag flag[MOST_FLAGS];
    int n_flag;
} PlanCase;

/* A model with its plans. */
typedef struct {
    const char *path; /* a file below the root of the tree (.onnx, or .txt as in tests/passes/golden), or "chain:17" */
    PlanCase *plan;
    int n_plan;
} PlanModel;

typedef struct {
    const char *name;
    PlanModel *model;
    int n_model;
} PlanSuite;

typedef struct {
    PlanSuite *suite;
    int n_suite;
} Corpus;

/* Reads the corpus into `a`.  Paths are relative to the working directory, the root of the tree.  E_INVALID names the
 * line that is wrong. */
Status corpus_read(Corpus *out, const char *path, Arena *a) CHECKED;

#endif
