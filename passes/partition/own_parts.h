/* Copies of nodes for each replica's own part of the batch, in the graph of the whole batch, before shapes are known;
 * shared by passes/partition/own_outputs.c and passes/partition/part_losses.c. */
#ifndef DPX_OWN_PARTS_H
#define DPX_OWN_PARTS_H

#include "passes/model/rebatch.h"
#include "passes/partition/place.h"

enum { OWN_TRIALS = 2 };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    uint32_t n_value, n_node; /* before the pass */
    TrialModel trial[OWN_TRIALS];
    bool *depends;                    /* by value id: on samples, or on their number */
    bool *mixed;                      /* by value id: a sample's part of it depends on others of the batch */
    bool *needed;                     /* by value id: it is needed of a part's own copies */
    ValueId *own;                     /* by value id: its copy for the part at hand */
    ValueId **piece;                  /* by value id: [parts] its pieces; NULL: it is not cut */
    int64_t offset[MAX_REPLICAS + 1]; /* of each replica's samples */
    int part, parts;                  /* at hand, in all: some have no samples */
} OwnParts;

/* own_parts_close is due even on failure.  The graph is sorted.  o->parts is 0 where the batch's size is not known. */
Status own_parts_open(OwnParts *o, Graph *g, PassCtx *ctx) CHECKED;
void own_parts_close(OwnParts *o);

/* The axis along which a value can be cut because its samples are there one by one, each the same in any batch (except
 * for batch-norm).  -1: none. */
int own_parts_axis(const OwnParts *o, ValueId v);
/* The value's only axis that is a multiple of the batch; -1: none. */
int own_parts_growing(const OwnParts *o, ValueId v);
/* The value's shape and type for a batch of some size. */
const Value *own_parts_value(const OwnParts *o, ValueId v);

/* Marks the values that the values in o->needed depend on and that must be copied, back to those with samples along an
 * axis. */
void own_parts_find(OwnParts *o);
/* E_UNSUPPORTED lists nodes that must be copied and cannot: they draw random numbers, or differ in training; `why`
 * begins the message. */
Status own_parts_check(const OwnParts *o, const char *why) CHECKED;
/* The copy of a value for the part that own_parts_collect visits. */
ValueId own_parts_of(OwnParts *o, ValueId v);
/* Calls `take` for the outputs that `wanted` marks and each part that has samples: (*of)[i * o->parts + k] is its
 * result for the k-th of *filled such parts.  Adds to ctx->n_changed. */
typedef ValueId OwnTake(OwnParts *o, int output);
Status own_parts_collect(ValueId **of, int *filled, OwnParts *o, const bool *wanted, OwnTake *take) CHECKED;

/* Emits a node of one output before types are inferred. */
ValueId emit_untyped(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in);

#endif
