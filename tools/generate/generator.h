/* Writes on a text by a language model: a model whose scores for a token depend on it and those before it alone. */
#ifndef DPX_TOOLS_GENERATOR_H
#define DPX_TOOLS_GENERATOR_H

#include "include/dpexec.h"
#include "tools/generate/sampling.h"
#include "tools/text/tokenizer.h"

typedef struct Generator Generator;

/* Model and trainer are lent.  `window`: the most tokens that the model sees at once, where its input leaves that open;
 * longer texts are seen by their end.  E_INVALID: the model does not take tokens [batch, T] and give scores
 * [batch, T, vocabulary] or [batch, vocabulary, T].  Inputs whose names contain "mask" get ones, those with "position"
 * the numbers from 0. */
Status generator_open(Generator **out, const dpx_model *model, dpx_trainer *trainer, int64_t window) CHECKED;
void generator_free(Generator *g); /* NULL is legal */
/* Receives a token that was written. */
typedef Status GeneratorSink(void *user, uint32_t token);
/* Writes n tokens behind those of `text`, which must have one, and adds them to it. */
Status generator_write(Generator *g, TokenIds *text, int64_t n, const Sampling *how, GeneratorSink *take,
                       void *user) CHECKED;

#endif
