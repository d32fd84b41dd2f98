/* What the fuzzing harnesses share. */
#ifndef DPX_TESTS_FUZZ_H
#define DPX_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/status.h"

/* libFuzzer calls it with each input; it returns 0, or does not return when something is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding: ends the process, and libFuzzer keeps the input. */
#define MUST(condition, ...)                                                              \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                                 \
            fprintf(stderr, "\n    the last message: %s\n", status_message());            \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

/* After a failure: there is a message of one line, and a terminal may be sent it. */
void fuzz_refused(Status st);
/* Nothing has failed that may not; E_NOMEM may anywhere. */
#define MUST_DO(call)                                     \
    do {                                                  \
        Status s_ = (call);                               \
        MUST(!s_ || s_ == E_NOMEM, "status %d", (int)s_); \
    } while (0)

/* A folder of this process's own, and the path of a file in it that holds these bytes; both texts are valid for
 * good. */
const char *fuzz_folder(void);
const char *fuzz_path(const char *name);
const char *fuzz_file(const char *name, const void *data, size_t size);

#endif
