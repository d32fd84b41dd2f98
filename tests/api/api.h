/* What the suites of tests/api share: models/mlp.onnx on a small batch. */
#ifndef DPX_TESTS_API_H
#define DPX_TESTS_API_H

#include "include/dpexec.h"
#include "tests/harness/test.h"

enum { SAMPLES = 6, PIXELS = 64, CLASSES = 10 };

typedef struct {
    float x[SAMPLES][PIXELS];
    int64_t label[SAMPLES];
    dpx_tensor tensor[2]; /* x, target */
} Batch;

#define MLP SOURCE_DIR "/models/mlp.onnx"

/* Checks DPX_OK, and prints the message when it is not. */
#define CHECK_DPX(e) CHECK_OK((Status)(e))
#define CHECK_DPX_FAILS(code, text, e) CHECK_FAILS((Status)(code), (text), (Status)(e))

void make_batch(Batch *b, unsigned seed);
/* A trainer of models/mlp.onnx with the given "name=value" options (NULL ends them); NULL and a failed check if it
 * cannot be made. */
dpx_trainer *make_trainer(const char *const *settings);
/* A model of the graph's text, by way of a file; NULL and a failed check if it cannot be read. */
dpx_model *model_of_text(const char *text);
/* A new, empty folder below the system's temporary one; `buf` holds its path.  remove_folder deletes it with all it
 * holds. */
void make_folder(char buf[256]);
void remove_folder(const char *path);
/* The text of dpexec.h and its parts on worlds and data, to be freed. */
char *read_header(void);
/* The first line at or after `at` that declares a function of dpexec.h; NULL: none. */
char *header_function(char *at);

#endif
