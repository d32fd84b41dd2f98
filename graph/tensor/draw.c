/* First values of tensors, by Philox. */
#include "graph/tensor/draw.h"

#include <math.h>

#include "graph/base/hash.h"

enum {
    PHILOX_DRAW = 0x64616568, /* apart from the draws of steps */
    MOST_DRAWS = 64           /* of a truncated number; the last one is moved to the bound */
};

double draw_normal(const PhiloxBlock *block, int64_t i)
{
    const uint32_t *pair = block->word + (i % 4) / 2 * 2;
    double radius = sqrt(-2 * log(philox_uniform(pair[0]))), angle = 6.283185307179586476925 * philox_uniform(pair[1]);

    return radius * (i % 2 ? sin(angle) : cos(angle));
}

/* Element i, relative to the mean and not further from it than the bound.  The first draw is `block`'s. */
static double draw_truncated(PhiloxKey key, PhiloxBlock block, const Distribution *d, int64_t i)
{
    double x = d->spread * draw_normal(&block, i);

    for (int k = 1; k < MOST_DRAWS && fabs(x) > d->bound; k++) {
        key.step++;
        block = philox_block(key, i / 4);
        x = d->spread * draw_normal(&block, i);
    }
    return fabs(x) > d->bound ? copysign(d->bound, x) : x;
}

void tensor_draw(Tensor *t, const Distribution *d, uint64_t seed, const char *name)
{
    const uint64_t hash = hash_text(HASH_BEGIN, name);
    const PhiloxKey key = { seed, PHILOX_DRAW, (uint32_t)(hash ^ hash >> 32) };
    PhiloxBlock block = { { 0 } };

    for (int64_t i = 0, n = tensor_numel(t); i < n; i++) {
        double x = 0;

        if (i % 4 == 0 && d->kind != DRAW_CONSTANT)
            block = philox_block(key, i / 4);
        switch (d->kind) {
        case DRAW_CONSTANT: break;
        case DRAW_UNIFORM: x = (2 * philox_uniform(block.word[i % 4]) - 1) * d->spread; break;
        case DRAW_NORMAL: x = d->spread * draw_normal(&block, i); break;
        case DRAW_TRUNCATED_NORMAL: x = draw_truncated(key, block, d, i); break;
        }
        tensor_set_float(t, i, d->mean + x);
    }
}
