/* The state and steps of importing a control-flow node (flow.c): binding a body's inputs, reading it for a trip, and
 * stacking the results of all trips. */
#ifndef DPX_ONNX_FLOW_H
#define DPX_ONNX_FLOW_H

#include "graph/onnx/importer.h"

typedef struct {
    Importer *im;
    Body *b; /* the body that contains the node */
    const Onnx__NodeProto *p;
    const Onnx__GraphProto *gp;  /* Loop, Scan: the body */
    Body inner;                  /* the subgraph's body in the present trip */
    size_t n_carried, n_scanned; /* values carried from trip to trip; outputs that collect one value of each trip */
    ScopeEntry *carried;
    ValueId **scanned; /* [n_scanned][trips], each grown as needed */
    size_t *cap;
    size_t trips;   /* so far */
    ValueId active; /* Loop: condition on which the present trip counts; NO_VALUE: it counts */
    size_t bytes;   /* memory in use at the beginning */
    size_t nodes;   /* imported before the beginning */
    int problems;   /* number noted before the beginning */
} FlowImport;

/* ---- the node ---- */
/* The node's attribute `name`, which must be a subgraph. */
Status flow_subgraph(const Onnx__GraphProto **out, const Onnx__NodeProto *p, const char *name) CHECKED;
/* Element `i` of attribute `name`, a list of `n` integers from low to high; 0 if it is absent. */
Status flow_list_element(int64_t *out, const FlowImport *f, const char *name, size_t n, size_t i, int64_t low,
                         int64_t high) CHECKED;
/* The entry of the node's input; NULL: absent. */
const ScopeEntry *flow_input(const FlowImport *f, size_t i);
/* Makes the node's output i, if it has a name, an alias of `to`. */
void flow_set_output(const FlowImport *f, size_t i, const ScopeEntry *to);
/* Records that the import relied on v, `what` of this node and called `name`, being `is` (decided_number). */
Status flow_decided(const FlowImport *f, ValueId v, int64_t is, const char *what, const char *name) CHECKED;
/* Was a problem noted since the beginning?  Then further trips would only repeat it. */
bool flow_has_problems(const FlowImport *f);

/* ---- trips: begun with the carried values, then entered and bound one by one ---- */
/* `first`: number of outputs of the body before the carried values. */
Status flow_begin_trips(FlowImport *f, size_t n_carried, size_t first) CHECKED;
/* Takes the carried values' first values from the node's inputs `first`, `first` + 1, ... */
Status flow_carry_in(FlowImport *f, size_t first) CHECKED;
/* Makes f->inner a body for the subgraph's nodes; `trip` -1: not repeated. */
Status flow_enter(FlowImport *f, const Onnx__GraphProto *gp, int64_t trip) CHECKED;
/* Makes the subgraph's input `formal` an alias of `given`. */
Status flow_bind(FlowImport *f, const Onnx__ValueInfoProto *formal, const ScopeEntry *given) CHECKED;
/* Reads the body's nodes for one trip, after its inputs were bound; updates `carried`, `scanned` and `trips`. */
Status flow_run_trip(FlowImport *f, size_t first) CHECKED;
/* The node's first outputs become the carried values. */
void flow_set_carried(const FlowImport *f);
/* Stacks all trips' values of scanned output k along a new axis. */
Status flow_stack(ValueId *out, FlowImport *f, size_t k, int64_t axis, bool backward) CHECKED;
/* The stack of no trips, of length 0 along the axis: the body's output p must declare type and shape. */
Status flow_stack_nothing(ValueId *out, const FlowImport *f, const Onnx__ValueInfoProto *p, int64_t axis) CHECKED;
/* The node's output n_carried + k becomes the stack of scanned output k. */
Status flow_set_stacked(FlowImport *f, size_t first, size_t k, int64_t axis, bool backward) CHECKED;

Status flow_scan(FlowImport *f) CHECKED;
/* Replaces a Loop that computes EmbeddingBag over an open number of bags, and sets its outputs (embedding_bag.c).
 * *done: it was one. */
Status flow_embedding_bag(bool *done, FlowImport *f) CHECKED;

#endif
