/* The learning rate at which the loss of a range test falls fastest. */
#ifndef DPX_TOOLS_STEEPEST_FALL_H
#define DPX_TOOLS_STEEPEST_FALL_H

#include <stdint.h>

/* A step of --lr-find: its rate, loss, and the running mean of losses. */
typedef struct {
    double lr, loss, mean;
} LrFindStep;

/* Of n steps, the one at which the smoothed loss falls fastest on its way to its least, by central differences; -1: it
 * never falls. */
int64_t steepest_fall(const LrFindStep *step, int64_t n);

#endif
