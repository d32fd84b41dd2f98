/* Scan: the scanned inputs are split into one element for each trip (flow.c). */
#include "graph/ir/emit.h"
#include "graph/onnx/flow.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/view.gen.h"

enum { MAX_SAMPLES = 65536 };

/* Splits x, the node's input `name`, along the axis: `*out` gets one element for each trip, in the order of trips.  The
 * length must be `*trips`, unless that is -1; then it is set. */
static Status flow_scan_split(ValueId **out, int64_t *trips, FlowImport *f, ValueId x, const char *name, int64_t axis,
                              bool backward)
{
    Graph *g = f->im->g;
    int64_t size, *ones;
    ValueId axes;
    Node *split;

    TRY(status_prefix(known_size(&size, f->im, x, axis), "input '%s'", name));
    if (size < 0)
        return FAIL(E_UNSUPPORTED, "the length of '%s' along axis %lld, which is scanned, is not fixed in the file",
                    name, (long long)axis);
    if (*trips >= 0 && size != *trips)
        return FAIL(E_MODEL, "'%s' has length %lld, another scanned input %lld", name, (long long)size,
                    (long long)*trips);
    *trips = size;
    TRY(decided_size(
        f->im, x, axis, size,
        arena_printf(f->im->scratch, "%s: the length of '%.100s', which is scanned,", proto_text(f->im, f->p), name)));
    TRY(spend_nodes(f->im, (size_t)size));
    if (!size)
        return ST_OK;
    *out = ARENA_NEW(f->im->scratch, ValueId, size);
    ones = ARENA_NEW(f->im->scratch, int64_t, size);
    if (!*out || !ones)
        return FAIL_NOMEM();
    for (int64_t t = 0; t < size; t++)
        ones[t] = 1;
    split = graph_add_node(g, &op_Split, NULL, ATTRS(INT("axis", axis)), 2,
                           (ValueId[]){ x, emit_ints(g, (int)size, ones) }, (int)size, NULL);
    if (!split)
        return g->status;
    TRY(node_normalise(g, split));
    axes = emit_ints(g, 1, &axis);
    for (int64_t t = 0; t < size; t++)
        (*out)[backward ? size - 1 - t : t] = import_emit(g, &op_Squeeze, NULL, 2, (ValueId[]){ split->out[t], axes });
    return g->status;
}

/* Reads the body for one trip; item[k] lists the elements of scanned input k. */
static Status scan_trip(FlowImport *f, ValueId *const *item, size_t n)
{
    TRY(flow_enter(f, f->gp, (int64_t)f->trips));
    for (size_t i = 0; i < f->n_carried; i++)
        TRY(flow_bind(f, f->gp->input[i], &f->carried[i]));
    for (size_t k = 0; k < n; k++) {
        ScopeEntry e = { .value = item[k][f->trips] };

        TRY(flow_bind(f, f->gp->input[f->n_carried + k], &e));
    }
    return flow_run_trip(f, 0);
}

/* ---- Scan of opset 8: the same for each sample of a batch, along axis 1 ---- */

/* Emits sample `at` of the node's input i. */
static Status sample(ValueId *out, const FlowImport *f, size_t i, int64_t at)
{
    Graph *g = f->im->g;
    Shape scalar = shape_scalar();
    ValueId x, index;

    TRY(tensor_input(&x, f->b, f->p, i));
    index = graph_add_const(g, "sample", &(Tensor){ DT_INT64, scalar, &at });
    *out = import_emit(g, &op_Gather, ATTRS(INT("axis", 0)), 2, (ValueId[]){ x, index });
    TRY(g->status);
    return f->im->run ? evaluate_read(f->im, f->b) : ST_OK;
}

/* The number of trips of sample `at`, `most` unless lengths are given.  The operator leaves outputs of later trips
 * open; here they are zeros. */
static Status sample_trips(int64_t *out, const FlowImport *f, int64_t at, int64_t most)
{
    ValueId v;

    *out = most;
    if (!flow_input(f, 0))
        return ST_OK;
    TRY(sample(&v, f, 0, at));
    if (!known_number(out, f->im, v))
        return FAIL(E_UNSUPPORTED, "its lengths '%s' depend on data", f->p->input[0]);
    if (*out < 0 || *out > most)
        return FAIL(E_MODEL, "a length of %lld, expected 0 to %lld", (long long)*out, (long long)most);
    return flow_decided(f, v, *out, "its lengths", f->p->input[0]);
}

/* Runs all trips of sample `at`; `out` gets its carried values, then its stacked outputs. */
static Status scan_sample(FlowImport *f, ValueId *out, int64_t at, size_t n)
{
    ValueId **item = ARENA_NEW(f->im->scratch, ValueId *, n), x;
    int64_t most = -1, trips, backward;

    if (!item)
        return FAIL_NOMEM();
    f->trips = 0;
    for (size_t i = 0; i < f->n_carried; i++) {
        f->carried[i] = (ScopeEntry){ .node = -1 };
        TRY(sample(&f->carried[i].value, f, 1 + i, at));
    }
    for (size_t k = 0; k < n; k++) {
        TRY(sample(&x, f, 1 + f->n_carried + k, at));
        TRY(flow_list_element(&backward, f, "directions", n, k, 0, 1));
        if (backward && flow_input(f, 0))
            return FAIL(E_UNSUPPORTED, "lengths of inputs that are scanned backwards");
        TRY(flow_scan_split(&item[k], &most, f, x, f->p->input[1 + f->n_carried + k], 0, backward != 0));
    }
    TRY(sample_trips(&trips, f, at, most));
    while ((int64_t)f->trips < trips) {
        TRY(scan_trip(f, item, n));
        if (flow_has_problems(f))
            return ST_OK;
    }
    for (size_t i = 0; i < f->n_carried; i++)
        out[i] = f->carried[i].value;
    for (size_t k = 0; k < f->n_scanned; k++) {
        ValueId *to = &out[f->n_carried + k];
        const int64_t pads[2] = { 0, most - trips }, axis = 0;

        TRY(trips ? flow_stack(to, f, k, 0, false) : flow_stack_nothing(to, f, f->gp->output[f->n_carried + k], 0));
        if (trips < most) {
            const ValueId widths = emit_ints(f->im->g, 2, pads), axes = emit_ints(f->im->g, 1, &axis);

            *to = import_emit(f->im->g, &op_Pad, NULL, 4, (ValueId[]){ *to, widths, NO_VALUE, axes });
        }
    }
    return f->im->g->status;
}

static Status import_batched_scan(FlowImport *f, size_t n)
{
    const size_t n_out = f->gp->n_output;
    Graph *g = f->im->g;
    int64_t samples, axis = 0;
    ValueId **each, x, axes;

    if (f->gp->n_input + 1 != f->p->n_input)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, f->p->n_input - 1);
    TRY(flow_begin_trips(f, f->p->n_input - 1 - n, 0));
    TRY(tensor_input(&x, f->b, f->p, f->p->n_input - 1));
    TRY(status_prefix(known_size(&samples, f->im, x, 0), "input '%s'", f->p->input[f->p->n_input - 1]));
    if (samples < 1 || samples > MAX_SAMPLES)
        return FAIL(E_UNSUPPORTED, "a batch whose size is not fixed in the file, or not 1 to %d", MAX_SAMPLES);
    TRY(decided_size(f->im, x, 0, samples, arena_printf(f->im->scratch, "%s: its batch", proto_text(f->im, f->p))));
    if (!(each = ARENA_NEW(f->im->scratch, ValueId *, samples)))
        return FAIL_NOMEM();
    for (int64_t b = 0; b < samples; b++) {
        if (!(each[b] = ARENA_NEW(f->im->scratch, ValueId, n_out)))
            return FAIL_NOMEM();
        TRY(scan_sample(f, each[b], b, n));
        if (flow_has_problems(f))
            return ST_OK;
    }
    axes = emit_ints(g, 1, &axis);
    for (size_t o = 0; o < n_out; o++) {
        ValueId *list = ARENA_NEW(f->im->scratch, ValueId, samples);
        ScopeEntry to = { .node = -1 };

        for (int64_t b = 0; list && b < samples; b++)
            list[b] = import_emit(g, &op_Unsqueeze, NULL, 2, (ValueId[]){ each[b][o], axes });
        if (!list)
            return FAIL_NOMEM();
        to.value = import_emit(g, &op_Concat, ATTRS(INT("axis", 0)), (int)samples, list);
        flow_set_output(f, o, &to);
    }
    return g->status;
}

Status flow_scan(FlowImport *f)
{
    const Onnx__AttributeProto *a;
    int64_t trips = -1, axis, backward;
    ValueId **item, x;
    size_t n;

    TRY(attribute_given(&a, f->im, f->b, f->p, "num_scan_inputs", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT));
    if (!a || a->i < 1 || (uint64_t)a->i > f->p->n_input)
        return FAIL(E_MODEL, "attribute 'num_scan_inputs' is missing, or not between 1 and the number of inputs");
    n = (size_t)a->i;
    TRY(flow_subgraph(&f->gp, f->p, "body"));
    if (opset_of(f->b, NULL) < 9)
        return import_batched_scan(f, n);
    if (f->gp->n_input != f->p->n_input)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, f->p->n_input);
    TRY(flow_begin_trips(f, f->p->n_input - n, 0));
    TRY(flow_carry_in(f, 0));
    if (!(item = ARENA_NEW(f->im->scratch, ValueId *, n)))
        return FAIL_NOMEM();
    for (size_t k = 0; k < n; k++) {
        TRY(tensor_input(&x, f->b, f->p, f->n_carried + k));
        TRY(flow_list_element(&axis, f, "scan_input_axes", n, k, -MAX_RANK, MAX_RANK - 1));
        TRY(flow_list_element(&backward, f, "scan_input_directions", n, k, 0, 1));
        TRY(flow_scan_split(&item[k], &trips, f, x, f->p->input[f->n_carried + k], axis, backward != 0));
    }
    while ((int64_t)f->trips < trips) {
        TRY(scan_trip(f, item, n));
        if (flow_has_problems(f))
            return ST_OK;
    }
    flow_set_carried(f);
    for (size_t k = 0; k < f->n_scanned; k++) {
        TRY(flow_list_element(&axis, f, "scan_output_axes", f->n_scanned, k, -MAX_RANK, MAX_RANK - 1));
        TRY(flow_list_element(&backward, f, "scan_output_directions", f->n_scanned, k, 0, 1));
        TRY(flow_set_stacked(f, 0, k, axis, backward != 0));
    }
    return ST_OK;
}
