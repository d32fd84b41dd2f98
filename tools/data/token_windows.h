/* Windows of a long row of token ids, as samples of a language model. */
#ifndef DPX_TOOLS_TOKEN_WINDOWS_H
#define DPX_TOOLS_TOKEN_WINDOWS_H

#include "tools/data/data.h"

/* Adds the arrays `x` (the model's only input) [windows, T] and `target` [windows, T], whose ids are the next ones.  In
 * evaluation window i begins at id i T.  In training it begins at a place that seed, epoch and i determine, any of them
 * equally often.  T is the source's block=, or the length that the model's input fixes or
 * its metadata state.
 *
 * `file` has the ids in place: mapped, of `dtype` uint8, uint16, int32, uint32 or int64.  Takes the mapping, also when
 * it fails.  `identity`: a digest of the ids and where they are from. */
Status token_windows_add(Dataset *d, Array *file, uint64_t identity, const Source *s, const SourceContext *c) CHECKED;
/* The `.fit` of such formats: training windows end where the rows that are trained on do. */
Status token_windows_fit(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n) CHECKED;
/* The `.describe` of a text: what its tokens stand for.  The source's tokenizer= says how texts become tokens. */
Status token_windows_describe(Dataset *d, int64_t row, size_t bytes, SampleFact *take, void *user) CHECKED;
/* The ids of a .npy file, or E_IO. */
Status token_windows_npy(Array *out, const char *path) CHECKED;

#define TOKEN_WINDOW_OPTIONS                                                                 \
    {                                                                                        \
        "block", "T", "tokens of a sample [as many as the model reads, if its file says it]" \
    }

#endif
