/* Which axis of the scores counts the classes of a class loss: decided once in a run, for its losses and its metric. */
#ifndef DPX_CLASS_AXIS_H
#define DPX_CLASS_AXIS_H

#include "graph/ir/graph.h"

struct ClassAxis {
    int axis;     /* of the scores; 0: nothing is known yet */
    bool decided; /* by the flag, by the targets' shape, or because there is no other; false: assumed */
    Shape scores;
    unsigned
        open; /* a bit for each axis whose length the model's file leaves open: the weights fix the number of classes */
    int batch;          /* the axis that carries the batch */
    int64_t classes;    /* the number of class weights; -1: none are given */
    const char *output; /* the scores' name, borrowed */
};
typedef struct ClassAxis ClassAxis;

/* Decides by the shape of the targets: the axis k >= 1, not the batch's, without which the scores have the targets'
 * shape.  The length along the batch's axis does not count.  Where no axis fits, axes of one element do not count
 * either: targets [N,1] fit scores [N,C].  If several fit, axes of open length are left out.  E_INVALID: several
 * fit still; E_SHAPE: none does. */
Status class_axis_decide(ClassAxis *c, const Shape *target) CHECKED;
/* Is there an axis by which class_axis_decide may decide?  Uses the scores, the batch's axis and the number of classes.
 */
bool class_axis_exists(const ClassAxis *c, const Shape *target);
/* Without targets: the only possible axis.  If there are several, one is assumed: the only one of fixed length, or the
 * one without which the scores have the shape of an input of g, or axis 1. */
void class_axis_assume(ClassAxis *c, const Graph *g);
/* Sets the user's axis, counted from the end if negative.  E_INVALID: it cannot count classes. */
Status class_axis_set(ClassAxis *c, int axis) CHECKED;

#endif
