/* Draws a token from the scores of a language model. */
#ifndef DPX_TOOLS_SAMPLING_H
#define DPX_TOOLS_SAMPLING_H

#include <stdint.h>

#include "graph/base/status.h"

/* As Hugging Face's generate: scores are divided by the temperature, then the top_k largest stay, then the fewest of
 * the largest whose probabilities add up to top_p. */
typedef struct {
    double temperature; /* 0: the largest score, the first of equal ones */
    double top_p;       /* 1: all */
    int64_t top_k;      /* 0: all */
    uint64_t seed;
} Sampling;

/* A token with its score, then its probability. */
typedef struct {
    int64_t token;
    double weight;
} Candidate;

/* The token that follows; number `at` of the text that is written draws its own random number.  `room` holds n
 * candidates. */
int64_t sample_token(const Sampling *s, const double *score, int64_t n, int64_t at, Candidate *room);

#endif
