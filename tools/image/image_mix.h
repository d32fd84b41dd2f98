/* Mixup and CutMix: samples and their labels are mixed with those of a partner, as torchvision.transforms.v2 does.
 *
 * torchvision mixes all of a batch by one draw, and takes the next sample as the partner.  Here each sample has a draw
 * and a partner of its own, which depend on seed, epoch and sample alone. */
#ifndef DPX_TOOLS_IMAGE_MIX_H
#define DPX_TOOLS_IMAGE_MIX_H

#include "tools/image/image.h"

/* The parameters alpha of the distributions Beta(alpha, alpha); 0: it is not done.  With both, every other sample gets
 * the one or the other. */
typedef struct {
    double mixup, cutmix;
} Mix;

typedef struct {
    int64_t partner; /* its number among the partners */
    bool cut;        /* `box` is the partner's; else all is blended */
    double own;      /* the sample's share of the label, and of the blend */
    ImageBox box;
} MixDraw;

/* Draws for an image of width x height, and one of `partners` partners. */
void mix_draw(MixDraw *out, const Mix *mix, int64_t partners, int width, int height, uint64_t seed, int64_t epoch,
              int64_t sample);
/* Cuts the box of CutMix around pixel (x, y) for the drawn number `own`, which becomes the share of the pixels that
 * stay.
 */
void mix_cut(MixDraw *draw, double own, int x, int y, int width, int height);
/* Mixes the partner's pixels into `x`: float [channels][height][width], or with `nhwc` [height][width][channels]. */
void mix_pixels(float *x, const float *partner, const MixDraw *draw, int channels, int width, int height, bool nhwc);
/* Writes the mixed label: [classes] shares that add up to 1. */
void mix_label(float *out, int64_t classes, int64_t label, int64_t partner, double own);

#endif
