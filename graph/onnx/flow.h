/* What the operators of control flow share (flow.c). */
#ifndef DPX_ONNX_FLOW_H
#define DPX_ONNX_FLOW_H

#include "graph/onnx/importer.h"

typedef struct {
    Importer *im;
    Body *b; /* of the node */
    const Onnx__NodeProto *p;
    const Onnx__GraphProto *gp;  /* Loop, Scan: the body */
    Body inner;                  /* of the trip at hand */
    size_t n_carried, n_scanned; /* values that go from trip to trip; outputs that keep one of each trip */
    ScopeEntry *carried;
    ValueId **scanned; /* [n_scanned][trips], each grown as needed */
    size_t *cap;
    size_t trips;
    ValueId goes_on; /* Loop: whether the trip at hand counts; NO_VALUE: it does, whatever the data */
    size_t bytes;    /* in use at the beginning */
    size_t nodes;    /* imported by then */
    int problems;    /* known at the beginning */
} Flow;

/* ---- the node ---- */
Status flow_subgraph(const Onnx__GraphProto **out, const Onnx__NodeProto *p, const char *name) CHECKED;
/* Element `i` of a list of `n`, each low to high; 0 where the list is absent. */
Status flow_list_element(int64_t *out, const Flow *f, const char *name, size_t n, size_t i, int64_t low,
                         int64_t high) CHECKED;
/* The node's input, with all that it stands for; NULL: absent. */
const ScopeEntry *flow_given(const Flow *f, size_t i);
void flow_set_output(const Flow *f, size_t i, const ScopeEntry *to);
/* `what` of this node was found to be this, as the name says. */
Status flow_decided(const Flow *f, ValueId v, int64_t is, const char *what, const char *name) CHECKED;
/* Something in the body is not supported: said once, not for each trip. */
bool flow_in_vain(const Flow *f);

/* ---- trips: begun with what they carry, entered and bound one by one ---- */
/* `first`: the body's outputs in front of those that are carried. */
Status flow_begin_trips(Flow *f, size_t n_carried, size_t first) CHECKED;
/* From the node's inputs from `first` on. */
Status flow_carry_in(Flow *f, size_t first) CHECKED;
/* Makes f->inner a body for the subgraph's nodes; `trip` -1: not repeated. */
Status flow_enter(Flow *f, const Onnx__GraphProto *gp, int64_t trip) CHECKED;
Status flow_bind(Flow *f, const Onnx__ValueInfoProto *formal, const ScopeEntry *given) CHECKED;
/* Reads the body's nodes for one trip; its inputs are bound. */
Status flow_run_trip(Flow *f, size_t first) CHECKED;
void flow_set_carried(const Flow *f);
/* What the trips made of output k, along a new axis. */
Status flow_stack(ValueId *out, Flow *f, size_t k, int64_t axis, bool backward) CHECKED;
/* No trip made one: the body must say what they would be. */
Status flow_stack_nothing(ValueId *out, const Flow *f, const Onnx__ValueInfoProto *p, int64_t axis) CHECKED;
/* Either, as the node's output behind those that are carried. */
Status flow_set_stacked(Flow *f, size_t first, size_t k, int64_t axis, bool backward) CHECKED;

Status flow_scan(Flow *f) CHECKED;
/* Does the Loop reduce bags of rows, of which the file leaves open how many?  Then its outputs are set (bags.c). */
Status flow_bags(bool *done, Flow *f) CHECKED;

#endif
