/* A step as a tree for pictures that fold: phases, scopes of layers, repeats, layers and collectives.
 *
 * A layer is what one device computes in a row under one name: "h.0.attn" of a parameter h.0.attn.weight, a module or a
 * scope.  Layers with a common beginning of their names form a scope.  What repeats as a sequence, such as the blocks
 * of a deep network, forms a repeat.  Lanes that compute the same, such as the replicas of a batch, share a column. */
#ifndef DPX_INSPECT_PICTURE_TREE_H
#define DPX_INSPECT_PICTURE_TREE_H

#include "exec/inspect/picture.h"

/* Of one lane of a column. */
typedef struct {
    const char *ops;    /* operators of a layer in a row, "MatMul + Softmax"; NULL: the lane is idle, or no layer */
    const Value *out;   /* the last node's output; NULL: idle */
    int64_t parameters; /* elements of trained states that the forward pass reads, each state once */
    double flops, bytes, seconds; /* bytes: read and written; seconds: predicted, 0: unknown */
    int nodes, lanes;             /* lanes: how many of the column compute it */
} Part;

typedef enum { BLOCK_PHASE, BLOCK_SCOPE, BLOCK_REPEAT, BLOCK_LAYER, BLOCK_BAR } BlockKind;

typedef struct Block Block;
struct Block {
    BlockKind kind;
    int phase;
    int index, end;    /* in PictureTree.block; those of all that it holds are in [index, end) */
    const char *path;  /* the whole name; "" where there is none */
    const char *title; /* the name without that of the scope around it, or the operators of an unnamed layer */
    bool unnamed;      /* nothing is left of the name: each column shows its operators */
    Block *parent, **child;
    int n_child;       /* of a repeat: how often it comes */
    Part *part;        /* [n_column], of all that it holds; a bar has none */
    const Node *bar;   /* BLOCK_BAR: the collective */
    int bars;          /* how many collectives it holds */
    double sent, wire; /* bytes that go into them; their seconds */
    uint64_t looks;    /* equal for blocks that are drawn alike but for their names */
};

typedef struct {
    int first, lanes;  /* first: its first lane */
    const char *title; /* "4 replicas" */
    const char *note;  /* their devices and samples */
} Column;

typedef struct {
    Picture picture; /* lanes and phases; no rows */
    Block root;      /* its children are the phases */
    Block **block;   /* [n_block] parents before children */
    int n_block;
    Column *column;
    int n_column, n_drawn; /* drawn: at most MOST_COLUMNS */
    int *block_of;         /* by node index: the layer or bar */
    int *column_of;        /* by node index; -1: a collective */
} PictureTree;

enum { MOST_COLUMNS = 8 };

/* Makes the tree of a step; all of it is in the arena.  `seconds`, by node index, may be NULL. */
Status picture_tree(PictureTree *out, const Graph *g, const double *seconds, Arena *a) CHECKED;

/* ---- its parts ---- */

/* A row of the picture: a layer, or a collective. */
typedef struct {
    const char *path, *title;
    int phase;
    const Node *bar;
    int next; /* in the order of the picture; -1: it is the last */
} LayerRow;

/* Gives every node a path: by node index; "" where it has none (picture_paths.c). */
Status picture_paths(const char ***out, const Picture *p, const Place *place, int n, Arena *a) CHECKED;
/* Builds t->root and t->block from rows in order; part: [n_row] arrays by column.  *block_of_row: the block of each row
 * (picture_blocks.c). */
Status picture_blocks(int **block_of_row, PictureTree *t, const LayerRow *row, Part **part, int n_row,
                      const double *seconds, Arena *a) CHECKED;
/* The bytes of the components that both paths begin with, without the last point. */
size_t picture_common_scope(const char *x, const char *y);
/* "h.0" and "h.11" are "h.0 … 11". */
const char *picture_span(Arena *a, const char *first, const char *last);

#endif
