/* Random changes of training images: which (Augment), with what parameters (AugmentDraw), and the change itself.
 *
 * The parameters are drawn apart from their use.  They depend on the seed, the epoch and the sample's number alone, so
 * that any number of threads, processes and replicas, and a resumed run, see the same images. */
#ifndef DPX_TOOLS_IMAGE_AUGMENT_H
#define DPX_TOOLS_IMAGE_AUGMENT_H

#include "tools/image/image_mix.h"

/* What --augment asks for; { 0 }: nothing.  The changes are made in the order of the fields. */
typedef struct {
    bool crop; /* a random part, resized: torchvision's RandomResizedCrop(scale=(0.08, 1), ratio=(3/4, 4/3)).  An image
                * that has the model's size is moved instead by up to an eighth of it, over black: RandomCrop(size,
                * padding=size/8), as is usual for 32 x 32 */
    bool flip; /* mirrors every other image: RandomHorizontalFlip */
    double rotate;   /* most degrees in either direction, bilinear, over black: RandomRotation; 0: none */
    double color;    /* ColorJitter(brightness=color, contrast=color, saturation=color); 0: none */
    int randaugment; /* the magnitude, 1 to 30, of RandAugment(num_ops=2, num_magnitude_bins=31); 0: none */
    bool erase;      /* of every other image, a rectangle of 2 to 33 % becomes 0 after normalisation: RandomErasing */
    Mix mix;         /* with another sample, behind all other changes */
} Augment;

enum { RANDAUGMENT_CHANGES = 2, RANDAUGMENT_MAGNITUDE = 9 /* torchvision's default */ };

/* Operations of RandAugment, in torchvision's order. */
typedef enum {
    CHANGE_NONE,
    CHANGE_IDENTITY,
    CHANGE_SHEAR_X,
    CHANGE_SHEAR_Y,
    CHANGE_TRANSLATE_X,
    CHANGE_TRANSLATE_Y,
    CHANGE_ROTATE,
    CHANGE_BRIGHTNESS,
    CHANGE_COLOR,
    CHANGE_CONTRAST,
    CHANGE_SHARPNESS,
    CHANGE_POSTERIZE,
    CHANGE_SOLARIZE,
    CHANGE_AUTOCONTRAST,
    CHANGE_EQUALIZE,
    CHANGE_KINDS
} ChangeKind;

typedef struct {
    ChangeKind kind;
    double amount; /* a shear, pixels, degrees, a factor, bits, or a threshold */
} ImageChange;

/* The first word of the list that names a graph, FILE.onnx, and its length; NULL: there is none. */
const char *augment_graph(size_t *length, const char *text);
/* Has the list a word that names none? */
bool augment_of_images(const char *text);
/* Has the list mixup or cutmix?  NULL: no. */
bool augment_mixes(const char *text);
/* Parses the list `crop,flip,rotate:15,color:0.4,randaugment:9,erase,mixup:0.2,cutmix:1`, without the graph.  E_INVALID
 * with all that is wrong with it; `flag` names it. */
Status augment_parse(Augment *out, const char *text, const char *flag) CHECKED;

/* The parameters for one image. */
typedef struct {
    ImageBox crop;    /* of the decoded image; may reach beyond the edges only where it is as large as the result */
    bool cropped;     /* false: the image is fitted as it is without --augment */
    bool flip;        /* left and right change places */
    double angle;     /* degrees, counter-clockwise */
    double factor[3]; /* of brightness, contrast, saturation; 1: unchanged */
    int order[3];     /* in which they are applied: 0 brightness, 1 contrast, 2 saturation */
    ImageBox erase;   /* of the result; width 0: nothing */
    ImageChange change[RANDAUGMENT_CHANGES]; /* behind the colours */
} AugmentDraw;

/* Draws the parameters for sample `sample` in epoch `epoch`, an image of iw x ih pixels that becomes width x height. */
void augment_draw(AugmentDraw *out, const Augment *a, int iw, int ih, int width, int height, uint64_t seed,
                  int64_t epoch, int64_t sample);
/* Makes the image of width x height from the decoded one: crops and resizes.  Only for a draw that is `cropped`.  What
 * lies outside of the image becomes `fill`, of images 0. */
Status augment_crop(Image *out, const Image *image, const AugmentDraw *draw, int width, int height, ResizeFilter filter,
                    int fill) CHECKED;
/* Flips, rotates, colours and changes an image in place; `spare` is memory that is reused.  Erasing is the caller's: it
 * is done behind the normalisation. */
Status augment_apply(Image *image, Image *spare, const AugmentDraw *draw) CHECKED;
/* Moves the pixels of a mask as augment_apply moves those of its image: flips it and moves it to the nearest pixel.
 */
Status augment_apply_mask(Image *mask, Image *spare, const AugmentDraw *draw, int fill) CHECKED;

#endif
