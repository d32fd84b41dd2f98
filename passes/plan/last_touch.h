/* The last step that touched any byte of a range, found in the logarithm of the line's length.
 *
 * Steps come in increasing numbers, so a new touch replaces the old one.  The line is a tree of its elementary pieces:
 * `whole` has the last step that touched all of a tree node, `any` the last that touched anything below it. */
#ifndef DPX_LAST_TOUCH_H
#define DPX_LAST_TOUCH_H

#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

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
