/* One official test of ONNX: a model, inputs, expected outputs. */
#ifndef DPX_TEST_OFFICIAL_H
#define DPX_TEST_OFFICIAL_H

#include <stdbool.h>

enum { OFFICIAL_OPS = 32, OFFICIAL_TEXT = 512 };

typedef enum {
    PASSED,     /* every data set gives the expected types, shapes and values */
    WRONG,      /* an answer that differs */
    REFUSED,    /* an error that does not say "unsupported" about a valid model */
    UNSUPPORTED /* E_UNSUPPORTED, with a message */
} Outcome;

typedef struct {
    char name[128];            /* "node/test_abs" */
    char path[512];            /* its folder */
    char op[OFFICIAL_OPS][64]; /* operators of the model, each once */
    long long opset;           /* of the default domain; 0: none */
    int n_op;                  /* OFFICIAL_OPS + 1 when there are more */
    Outcome outcome;
    char text[OFFICIAL_TEXT]; /* what went wrong */
} Official;

/* Fills in op, outcome and text.  `types_only`: values are random, only types and shapes are compared. */
void official_run(Official *t, bool types_only);

/* dpx_check by the interpreter, and dpx_interpret of the inputs of each data set, in the file's modes and in those of
 * inference: the former must give the expected outputs where the test passed, all must end without a fault of ours.
 * Else t->text tells why. */
bool official_interpret(Official *t, bool types_only);

/* import(export(import(model))) gives the same graph; true also when the model is not imported.  Else t->text tells
 * why. */
bool official_round_trip(Official *t);

#endif
