/* Which step was the last to touch any of some bytes: asked of pieces of a line, in the logarithm of its length.
 *
 * Steps are numbered by increasing numbers, so a piece that is touched again forgets who touched it before; the line
 * is a tree of its elementary pieces.  What touches a node of the tree whole stands in `whole`, the last that touched
 * anything below it in `any`. */
#ifndef DPX_LAST_TOUCH_H
#define DPX_LAST_TOUCH_H

#include "graph/base/arena.h"
#include "graph/base/status.h"

#include <stdint.h>

typedef struct {
    uint32_t n;       /* elementary pieces */
    int *whole, *any; /* [2n] 1 + the step; 0: none */
} LastTouch;

Status last_touch_create(LastTouch *out, uint32_t n, Arena *a) CHECKED;
/* `step` touches the pieces [from, to); no step before was of a greater number. */
void last_touch_set(LastTouch *t, uint32_t from, uint32_t to, int step);
/* The last step that touched one of them; -1: none. */
int last_touch_of(const LastTouch *t, uint32_t from, uint32_t to);

#endif
