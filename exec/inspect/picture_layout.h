/* Where the blocks of a step stand in a picture that does not move. */
#ifndef DPX_INSPECT_PICTURE_LAYOUT_H
#define DPX_INSPECT_PICTURE_LAYOUT_H

#include "exec/inspect/picture_tree.h"

enum {
    PAGE_MARGIN = 24,
    PAGE_HEAD = 110,  /* title, numbers, a legend of two lines */
    LEGEND_LINE = 18, /* a third one, of collectives */
    COLUMN_HEAD = 40, /* of several columns */
    PAGE_MOST = 1160, /* of several columns, unless they become too narrow */
    CARD_ONE = 640,   /* width of a card in the only column */
    CARD_MOST = 420,  /* in one of several */
    CARD_LEAST = 250,
    CARD_HEIGHT = 42, /* two lines; a narrow card has three */
    CARD_NARROW = 58,
    BAR_HEIGHT = 20,
    FRAME_HEAD = 26,
    INSET = 10, /* of a frame around its blocks */
    GAP = 14,   /* between blocks, for an arrow */
    TRACK = 9,  /* between lines beside the blocks */
    MOST_TRACKS = 16
};

typedef struct {
    int x, y, w, h; /* h 0: not drawn */
    bool open;      /* a frame around its blocks */
    bool arrow;     /* a value comes from the block above it */
    int parent, at; /* the frame around it, and its number there; parent -1: none */
    int depth;
    int seen; /* the block that is drawn for it: itself, or one that holds it */
} Box;

/* A value that passes other blocks: from one block to all in to[0..n). */
typedef struct {
    int from, track, n;
    const int *to;
} Bus;

typedef struct {
    const PictureTree *t;
    Box *box;          /* [n_block] */
    int column;        /* width of a column with the space beside it */
    int right;         /* edge of the cards */
    int width, height; /* of the page */
    Bus *bus;
    int n_bus, tracks;
} PageLayout;

/* Opens blocks of each phase, the outer ones first, as long as they fill not much more than a screen, and places all.
 */
Status layout_make(PageLayout *out, const PictureTree *t, Arena *a) CHECKED;
/* The lower edge of the title, the numbers and the legend. */
int layout_head(const PageLayout *l);
/* The blocks in an open block's frame; of a repeat those of its first iteration. */
Block *const *layout_children(const Block *b, int *n);

#endif
