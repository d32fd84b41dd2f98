/* The softmax of the scores that are left, and a uniform number that picks from it. */
#include "tools/generate/sampling.h"

#include <math.h>
#include <stdlib.h>

#include "graph/base/philox.h"

static int by_weight(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;

    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight)
                                  : (x->token > y->token) - (x->token < y->token);
}

int64_t sample_token(const Sampling *s, const double *score, int64_t n, int64_t at, Candidate *room)
{
    const PhiloxBlock block = philox_block((PhiloxKey){ .seed = s->seed }, at);
    double sum = 0, most, u = philox_uniform(block.word[0]);
    int64_t best = 0, left = n;

    for (int64_t i = 1; i < n; i++)
        best = score[i] > score[best] ? i : best;
    if (!(s->temperature > 0))
        return best;
    most = score[best];
    for (int64_t i = 0; i < n; i++)
        room[i] = (Candidate){ i, exp((score[i] - most) / s->temperature) };
    if (s->top_k || s->top_p < 1)
        qsort(room, (size_t)n, sizeof *room, by_weight);
    if (s->top_k && s->top_k < n)
        left = s->top_k;
    for (int64_t i = 0; i < left; i++)
        sum += room[i].weight;
    if (s->top_p < 1) {
        double kept = 0;
        int64_t k = 0;

        while (k < left && kept < s->top_p * sum)
            kept += room[k++].weight;
        left = k ? k : 1;
        sum = k ? kept : room[0].weight;
    }
    for (int64_t i = 0; i < left; i++)
        if ((u -= room[i].weight / sum) <= 0)
            return room[i].token;
    return room[0].token; /* rounding left a rest */
}
