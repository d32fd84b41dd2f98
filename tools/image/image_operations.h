/* Operations on the pixels of an image of 1 or 3 channels, in place; values are Pillow's.  `spare` is memory that is
 * reused. */
#ifndef DPX_TOOLS_IMAGE_OPERATIONS_H
#define DPX_TOOLS_IMAGE_OPERATIONS_H

#include "tools/image/image.h"

/* Where pixel (x, y) of a changed image comes from: m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]. */
typedef struct {
    double m[6];
} Affine;

/* What ImageEnhance leads away from: black, the mean gray, each pixel's gray. */
typedef enum { ENHANCE_BRIGHTNESS, ENHANCE_CONTRAST, ENHANCE_COLOR } Enhancement;

void image_flip(Image *image); /* left and right change places */
/* The map of Image.rotate(angle), degrees counter-clockwise. */
Affine affine_turn(int width, int height, double angle);
/* Image.transform(AFFINE, NEAREST): each pixel is the one at its place, outside of the image `fill`, one byte for each
 * channel. */
Status image_move(Image *image, Image *spare, Affine a, const uint8_t *fill) CHECKED;
/* Image.rotate(angle, BILINEAR): each pixel is interpolated between the four around its place, over black. */
Status image_rotate(Image *image, Image *spare, double angle) CHECKED;
/* ImageEnhance.Brightness, Contrast and Color; factor 1 changes nothing. */
void image_enhance(Image *image, Enhancement which, float factor);
Status image_sharpen(Image *image, Image *spare, float factor) CHECKED; /* ImageEnhance.Sharpness */
void image_posterize(Image *image, int bits);                           /* keeps the upper bits, ImageOps.posterize */
void image_solarize(Image *image, double threshold);                    /* inverts values from the threshold on */
void image_autocontrast(Image *image);                                  /* stretches each channel to 0 to 255 */
void image_equalize(Image *image);                                      /* ImageOps.equalize */

#endif
