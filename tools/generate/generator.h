/* Writes on a text by a language model: a model whose scores for a token depend on it and those before it alone. */
#ifndef DPX_TOOLS_GENERATOR_H
#define DPX_TOOLS_GENERATOR_H

#include "include/dpexec.h"
#include "tools/generate/sampling.h"
#include "tools/progress.h"
#include "tools/text/tokenizer.h"

typedef struct TextGenerator TextGenerator;

/* Model and trainer are lent; of the options, "class-axis" says where scores have the vocabulary, if shapes do not.
 * `window`: the most tokens that the model sees at once, where its input leaves that open; longer texts are seen by
 * their end.  Where the model fails on so many, it sees fewer, with a warning.  E_INVALID: the model does not take
 * tokens [batch, T] and give scores [batch, T, vocabulary] or [batch, vocabulary, T].  Inputs whose names contain
 * "mask" get ones, those with "position" the numbers from 0.  `progress` is told where all tokens are computed for each
 * one. */
Status text_generator_open(TextGenerator **out, const dpx_model *model, dpx_trainer *trainer, const dpx_options *o,
                           int64_t window, Progress *progress) CHECKED;
void text_generator_free(TextGenerator *g); /* NULL is legal */
/* Receives a token that was written. */
typedef Status TextGeneratorSink(void *user, uint32_t token);
/* Writes n tokens behind those of `text`, which must have one, and adds them to it. */
Status text_generator_write(TextGenerator *g, TokenIds *text, int64_t n, const Sampling *how, TextGeneratorSink *take,
                            void *user) CHECKED;

#endif
