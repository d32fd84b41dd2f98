/* Control flow.  An If becomes the nodes of the branch that is taken; a Loop, Scan or SequenceMap becomes the nodes of
 * all its trips.  So the graph holds only dataflow.
 *
 * Conditions and trip counts come from known_values.c.  If a condition depends on data, an If becomes both branches and
 * a choice of their results; a trip of a Loop becomes a choice of its results or its inputs (import_branch.c).  Other
 * uses of data are refused by name, unless the data are at hand (evaluate.c).  If the file fixes a condition, the other
 * branch is not read.
 *
 * A subgraph sees the names around its node and must not define one of them again.  The names of its nodes begin with
 * the node's name and the trip, "loop/3/".  Its constants are the same in all trips, so that a weight in a loop is one
 * parameter. */
#include "graph/onnx/flow.h"

#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

/* Limits of a Loop whose number of trips depends on data: all trips are computed. */
enum { MAX_DATA_TRIPS = 64, MAX_DATA_NODES = 1 << 15 };
static const size_t MAX_UNROLLED = (size_t)512 << 20; /* bytes of all trips, their names and attributes included */

/* ---- attributes ---- */

Status flow_subgraph(const Onnx__GraphProto **out, const Onnx__NodeProto *p, const char *name)
{
    const Onnx__AttributeProto *a = attribute_find(p, name);

    if (a && a->ref_attr_name && *a->ref_attr_name)
        return FAIL(E_UNSUPPORTED, "a subgraph that a function gets as attribute '%s'", name);
    if (!a || !a->g)
        return FAIL(E_MODEL, "attribute '%s', a subgraph, is missing", name);
    *out = a->g;
    return ST_OK;
}

Status flow_list_element(int64_t *out, const FlowImport *f, const char *name, size_t n, size_t i, int64_t low,
                         int64_t high)
{
    const Onnx__AttributeProto *a;

    *out = 0;
    TRY(attribute_given(&a, f->im, f->b, f->p, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS));
    if (!a || !a->n_ints)
        return ST_OK;
    if (a->n_ints != n)
        return FAIL(E_MODEL, "attribute '%s' has %zu numbers, expected %zu", name, a->n_ints, n);
    *out = a->ints[i];
    if (*out < low || *out > high)
        return FAIL(E_MODEL, "attribute '%s': %lld, expected %lld to %lld", name, (long long)*out, (long long)low,
                    (long long)high);
    return ST_OK;
}

/* ---- subgraphs ---- */

Status flow_enter(FlowImport *f, const Onnx__GraphProto *gp, int64_t trip)
{
    Importer *im = f->im;
    const Body *b = f->b;
    Scope kept = f->inner.scope;
    const char *name = text_or(f->p->name, f->p->op_type);

    scope_clear(&kept);
    kept.arena = im->scratch;
    f->inner = (Body){ .up = b,
                       .outer = b,
                       .function = b->function,
                       .bindings = b->bindings,
                       .scope = kept,
                       .site = b->site,
                       .n_node = gp->n_node,
                       .node = gp->node,
                       .n_opset = b->n_opset,
                       .opset = b->opset,
                       .repeated = b->repeated || trip >= 0 };
    f->inner.constants = arena_printf(im->scratch, "%s%s/", b->constants, name);
    f->inner.prefix = trip < 0 ? arena_printf(im->scratch, "%s%s/", b->prefix, name)
                               : arena_printf(im->scratch, "%s%s/%lld/", b->prefix, name, (long long)trip);
    if (!f->inner.prefix || !f->inner.constants)
        return FAIL_NOMEM();
    TRY(spend_nodes(im, 1 + (gp->n_input + gp->n_output + gp->n_initializer) / 16));
    return import_initializers(im, &f->inner, gp);
}

Status flow_bind(FlowImport *f, const Onnx__ValueInfoProto *formal, const ScopeEntry *given)
{
    ScopeEntry *e;

    TRY(declare(&e, &f->inner, formal->name, "input of the subgraph"));
    entry_copy(e, given);
    e->formal = true;
    return ST_OK;
}

/* Finds the entry of the subgraph's output p, which may be a name from outside. */
static Status flow_result(const ScopeEntry **out, const Body *inner, const Onnx__ValueInfoProto *p)
{
    const char *name = text_or(p->name, "");
    const ScopeEntry *e = *name ? body_find(inner, name) : NULL;

    if (!e || (!has_value(e->value) && !e->problem))
        return FAIL(E_MODEL, "output '%s' of the subgraph is made by no node", name);
    *out = e;
    return ST_OK;
}

static Status tensor_result(ValueId *out, const FlowImport *f, const Onnx__ValueInfoProto *p)
{
    const ScopeEntry *e;

    TRY(flow_result(&e, &f->inner, p));
    if (e->problem)
        return FAIL(E_UNSUPPORTED, "output '%s' of the subgraph: %s", p->name, e->problem);
    *out = e->value;
    return ST_OK;
}

const ScopeEntry *flow_input(const FlowImport *f, size_t i)
{
    return i < f->p->n_input && *f->p->input[i] ? body_find(f->b, f->p->input[i]) : NULL;
}

void flow_set_output(const FlowImport *f, size_t i, const ScopeEntry *to)
{
    if (i < f->p->n_output && *f->p->output[i])
        entry_copy(scope_find(&f->b->scope, f->p->output[i]), to);
}

Status flow_decided(const FlowImport *f, ValueId v, int64_t is, const char *what, const char *name)
{
    return decided_number(f->im, v, is,
                          arena_printf(f->im->scratch, "%s: %s '%.100s'", proto_text(f->im, f->p), what, name));
}

/* ---- If ---- */

/* Reads the branch `which`, and sets `out` to its outputs. */
static Status import_branch(ScopeEntry *out, FlowImport *f, const char *which)
{
    const Onnx__GraphProto *gp;
    const ScopeEntry *e;

    TRY(flow_subgraph(&gp, f->p, which));
    if (gp->n_input || gp->n_output != f->p->n_output)
        return FAIL(E_MODEL, "a branch of %zu inputs and %zu outputs, expected 0 and %zu", gp->n_input, gp->n_output,
                    f->p->n_output);
    TRY(flow_enter(f, gp, -1));
    TRY(import_body(f->im, &f->inner));
    for (size_t i = 0; i < gp->n_output; i++) {
        TRY(flow_result(&e, &f->inner, gp->output[i]));
        entry_copy(&out[i], e);
    }
    return ST_OK;
}

bool flow_has_problems(const FlowImport *f) { return f->im->problems.n > f->problems; }

/* Reads both branches, and makes each output a choice. */
static Status import_both(ScopeEntry *out, FlowImport *f, ValueId condition)
{
    Importer *im = f->im;
    ScopeEntry *other = ARENA_NEW(im->scratch, ScopeEntry, f->p->n_output);
    const ValueId yes = branch_condition(im, condition, NO_VALUE);
    const ValueId no = import_emit(im->g, &op_Not, NULL, 1, &yes);
    const char *name = text_or(f->p->name, ""); /* of all nodes that choose */
    Branch b = branch_begin(im, yes);

    name = *name || !f->p->n_output ? name : text_or(f->p->output[0], "");
    if (!other)
        return FAIL_NOMEM();
    TRY(import_branch(out, f, "then_branch"));
    TRY(branch_end(&b));
    b = branch_begin(im, no);
    TRY(import_branch(other, f, "else_branch"));
    TRY(branch_end(&b));
    for (size_t i = 0; i < f->p->n_output && !flow_has_problems(f); i++)
        TRY(branch_choose(&out[i], im, yes, &other[i], body_name(im, f->b, name),
                          body_name(im, f->b, f->p->output[i])));
    return im->g->status;
}

/* Checks v, which is not known before the run, as far as its type and shape are: it must be one number of type
 * `expected`.  `what` and `name` name it in messages. */
static Status flow_check_number(const FlowImport *f, ValueId v, const char *what, const char *name,
                                const char *expected)
{
    const DType t = value(f->im->g, v)->dtype;
    const Shape *s = value(f->im->g, v)->shape;
    char text[SHAPE_TEXT];

    if (dtype_is_float(t))
        return FAIL(E_MODEL, "%s '%s' is of type %s, expected %s", what, name, dtype_name(t), expected);
    if (shape_known(s) && shape_numel(s) != 1)
        return FAIL(E_MODEL, "%s '%s' is of shape %s, expected one number", what, name, shape_text(s, text));
    return ST_OK;
}

static Status import_if(FlowImport *f)
{
    ScopeEntry *out = ARENA_NEW(f->im->scratch, ScopeEntry, f->p->n_output);
    const ScopeEntry *c = flow_input(f, 0);
    int64_t taken;

    if (f->p->n_input != 1 || !c)
        return FAIL(E_MODEL, "expected one input, the condition");
    if (c->problem)
        return FAIL(E_UNSUPPORTED, "its condition '%s': %s", f->p->input[0], c->problem);
    if (!out)
        return FAIL_NOMEM();
    if (known_number(&taken, f->im, c->value)) {
        TRY(flow_decided(f, c->value, taken, "its condition", f->p->input[0]));
        TRY(import_branch(out, f, taken ? "then_branch" : "else_branch"));
    } else {
        TRY(flow_check_number(f, c->value, "its condition", f->p->input[0], "bool"));
        TRY(import_both(out, f, c->value));
    }
    for (size_t i = 0; i < f->p->n_output; i++)
        flow_set_output(f, i, &out[i]);
    return ST_OK;
}

/* ---- trips ---- */

Status flow_begin_trips(FlowImport *f, size_t n_carried, size_t first)
{
    Arena *a = f->im->scratch;

    f->n_carried = n_carried;
    f->n_scanned = f->gp->n_output - (f->gp->n_output < n_carried + first ? f->gp->n_output : n_carried + first);
    if (f->gp->n_output < n_carried + first || f->p->n_output > n_carried + f->n_scanned)
        return FAIL(E_MODEL, "%zu outputs, of a body of %zu that carries %zu values", f->p->n_output, f->gp->n_output,
                    n_carried);
    f->carried = ARENA_NEW(a, ScopeEntry, n_carried);
    f->scanned = ARENA_NEW(a, ValueId *, f->n_scanned);
    f->cap = ARENA_NEW(a, size_t, f->n_scanned);
    f->bytes = arena_bytes(a) + arena_bytes(f->im->g->arena);
    f->nodes = f->im->n_done;
    return f->carried && f->scanned && f->cap ? ST_OK : FAIL_NOMEM();
}

Status flow_carry_in(FlowImport *f, size_t first)
{
    for (size_t i = 0; i < f->n_carried; i++) {
        const ScopeEntry *e = flow_input(f, first + i);

        if (!e)
            return FAIL(E_MODEL, "input %zu, a value carried from trip to trip, is absent", first + i);
        entry_copy(&f->carried[i], e);
    }
    return ST_OK;
}

Status flow_run_trip(FlowImport *f, size_t first)
{
    int64_t number;

    TRY(import_body(f->im, &f->inner));
    for (size_t i = 0; i < f->n_carried; i++) {
        const ScopeEntry *e;

        TRY(flow_result(&e, &f->inner, f->gp->output[first + i]));
        entry_copy(&f->carried[i], e);
        (void)known_number(&number, f->im, e->value); /* keeps a counter known while its chain is short */
    }
    for (size_t k = 0; k < f->n_scanned; k++) {
        ValueId *grown = arena_grow(f->im->scratch, f->scanned[k], sizeof *grown, f->trips, &f->cap[k]);

        if (!grown)
            return FAIL_NOMEM();
        f->scanned[k] = grown;
        TRY(tensor_result(&grown[f->trips], f, f->gp->output[first + f->n_carried + k]));
    }
    f->trips++;
    if (!f->im->run && arena_bytes(f->im->scratch) + arena_bytes(f->im->g->arena) - f->bytes > MAX_UNROLLED)
        return FAIL(E_MODEL, "the unrolled loop takes more than %zu MiB", MAX_UNROLLED >> 20);
    return ST_OK;
}

Status flow_stack_nothing(ValueId *out, const FlowImport *f, const Onnx__ValueInfoProto *p, int64_t axis)
{
    const Onnx__TypeProto *type = p->type;
    Shape s = shape_unknown(), whole;
    const char **params = NULL;
    Tensor *t;

    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
        !tensor_type_problem(type->tensor_type->elem_type, f->im->tensors.texts) && type->tensor_type->shape)
        TRY(type_shape_decode(&s, &params, f->im->scratch, type->tensor_type->shape, p->name));
    for (int i = 0; f->im->run && i < s.rank; i++)
        s.dim[i] = s.dim[i] < 0 ? 0 : s.dim[i]; /* open sizes stay unknown; the output has no elements anyway */
    if (!shape_known(&s) || s.rank == MAX_RANK)
        return FAIL(E_UNSUPPORTED, "the loop makes no trip, and its body gives output '%s' no shape", p->name);
    axis += axis < 0 ? s.rank + 1 : 0;
    if (axis < 0 || axis > s.rank)
        return FAIL(E_MODEL, "output '%s' of the body has no axis %lld", p->name, (long long)axis);
    whole = (Shape){ .rank = s.rank + 1 };
    for (int i = 0; i < whole.rank; i++)
        whole.dim[i] = i < axis ? s.dim[i] : i == axis ? 0 : s.dim[i - 1];
    if (!(t = tensor_create(f->im->g->arena, (DType)type->tensor_type->elem_type, &whole)))
        return FAIL_NOMEM();
    *out = graph_add_const_nocopy(f->im->g, p->name, t);
    return f->im->g->status;
}

Status flow_stack(ValueId *out, FlowImport *f, size_t k, int64_t axis, bool backward)
{
    Graph *g = f->im->g;
    ValueId *item = f->scanned[k], axes;

    TRY(spend_nodes(f->im, f->trips));
    axes = emit_ints(g, 1, &axis);
    for (size_t i = 0; i < f->trips; i++)
        item[i] = import_emit(g, &op_Unsqueeze, NULL, 2, (ValueId[]){ item[i], axes });
    for (size_t i = 0; backward && i < f->trips / 2; i++) {
        ValueId first = item[i];

        item[i] = item[f->trips - 1 - i];
        item[f->trips - 1 - i] = first;
    }
    *out = f->trips == 1 ? item[0] : import_emit(g, &op_Concat, ATTRS(INT("axis", axis)), (int)f->trips, item);
    return g->status;
}

Status flow_set_stacked(FlowImport *f, size_t first, size_t k, int64_t axis, bool backward)
{
    size_t i = f->n_carried + k;
    ScopeEntry e = { .node = -1 };

    if (i >= f->p->n_output || !*f->p->output[i])
        return ST_OK;
    if (f->trips)
        TRY(flow_stack(&e.value, f, k, axis, backward));
    else
        TRY(flow_stack_nothing(&e.value, f, f->gp->output[first + i], axis));
    graph_rename(f->im->g, e.value, body_name(f->im, f->b, f->p->output[i]));
    flow_set_output(f, i, &e);
    return f->im->g->status;
}

void flow_set_carried(const FlowImport *f)
{
    for (size_t i = 0; i < f->n_carried; i++)
        flow_set_output(f, i, &f->carried[i]);
}

/* ---- Loop ---- */

/* A constant for an input of the body: a scalar or, if it is declared so, a vector of one element. */
static ValueId number(FlowImport *f, const Onnx__ValueInfoProto *formal, DType dtype, int64_t v)
{
    bool vector = formal->type && formal->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                  formal->type->tensor_type->shape && formal->type->tensor_type->shape->n_dim == 1;
    Shape s = vector ? SHAPE(1) : shape_scalar();
    uint8_t truth = v != 0;
    Tensor t = { dtype, s, dtype == DT_BOOL ? (void *)&truth : (void *)&v };

    return graph_add_const(f->im->g, body_name(f->im, f->inner.prefix ? &f->inner : f->b, text_or(formal->name, "")),
                           &t);
}

/* Sets *why to the reason why v, which the number of trips depends on, is not known, and *remedy to advice. */
static void explain_unknown(const char **why, const char **remedy, const FlowImport *f, ValueId v)
{
    const bool open = known_by_open_sizes(f->im, v);

    *why = open ? "follows from a size that the file leaves open, such as the batch" : "depends on data";
    *remedy = open ? ": export the model with that size fixed, or without the loop (an EmbeddingBag with "
                     "include_last_offset=False, or as Embedding and a sum or mean)"
                   : "";
}

/* The Loop's trip count; INT64_MAX if it is absent. */
static Status trip_count(int64_t *out, const FlowImport *f)
{
    const ScopeEntry *e = flow_input(f, 0);
    const char *why, *remedy;

    *out = INT64_MAX;
    if (!e)
        return ST_OK;
    if (!known_number(out, f->im, e->value)) {
        TRY(flow_check_number(f, e->value, "its trip count", f->p->input[0], "int64"));
        explain_unknown(&why, &remedy, f, e->value);
        return FAIL(E_UNSUPPORTED,
                    "its trip count '%s' %s, expected one that constants and fixed sizes of the file give%s",
                    f->p->input[0], why, remedy);
    }
    return flow_decided(f, e->value, *out, "its trip count", f->p->input[0]);
}

/* Reads the body for one trip.  `cond` is its second input. */
static Status loop_trip(FlowImport *f, const ScopeEntry *cond)
{
    ScopeEntry e = { .node = -1 };

    TRY(flow_enter(f, f->gp, (int64_t)f->trips));
    e.value = number(f, f->gp->input[0], DT_INT64, (int64_t)f->trips);
    TRY(f->im->g->status);
    TRY(flow_bind(f, f->gp->input[0], &e));
    TRY(flow_bind(f, f->gp->input[1], cond));
    for (size_t i = 0; i < f->n_carried; i++)
        TRY(flow_bind(f, f->gp->input[2 + i], &f->carried[i]));
    return flow_run_trip(f, 1);
}

/* Reads a trip that counts only where f->active holds: otherwise it carries on the values that it was given. */
static Status loop_branch(FlowImport *f, const ScopeEntry *cond)
{
    const Branch b = branch_begin(f->im, f->active);
    ScopeEntry *before = ARENA_NEW(f->im->scratch, ScopeEntry, f->n_carried);

    if (!before)
        return FAIL_NOMEM();
    for (size_t i = 0; i < f->n_carried; i++)
        before[i] = f->carried[i];
    TRY(loop_trip(f, cond));
    TRY(branch_end(&b));
    for (size_t i = 0; i < f->n_carried && !flow_has_problems(f); i++)
        TRY(branch_choose(&f->carried[i], f->im, f->active, &before[i], f->inner.prefix, NULL));
    return ST_OK;
}

/* Sets *go: is there another trip, of `count` at most?  If that depends on data, there is, and `f->active` becomes the
 * condition on which the following trips count. */
static Status loop_condition(int64_t *go, FlowImport *f, ValueId cond, const char *name, int64_t count)
{
    const char *why, *remedy;

    if (known_number(go, f->im, cond))
        return flow_decided(f, cond, *go, "its condition", name);
    TRY(flow_check_number(f, cond, "its condition", name, "bool"));
    if (f->im->run || count > MAX_DATA_TRIPS) {
        explain_unknown(&why, &remedy, f, cond);
        return FAIL(E_UNSUPPORTED, "its condition '%s' %s, expected a constant condition or at most %d trips%s", name,
                    why, MAX_DATA_TRIPS, remedy);
    }
    for (size_t i = f->n_carried; i < f->p->n_output; i++)
        if (*f->p->output[i])
            return FAIL(E_UNSUPPORTED, "its condition '%s' depends on data, and so does the length of its output '%s'",
                        name, f->p->output[i]);
    f->active = branch_condition(f->im, cond, f->active);
    *go = 1;
    return f->im->g->status;
}

static Status import_loop(FlowImport *f)
{
    size_t n_carried = f->p->n_input > 2 ? f->p->n_input - 2 : 0;
    ScopeEntry cond = { .node = -1 };
    const ScopeEntry *e = flow_input(f, 1);
    int64_t count, go = 1;
    bool done;

    TRY(flow_subgraph(&f->gp, f->p, "body"));
    if (f->gp->n_input != n_carried + 2)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, n_carried + 2);
    TRY(flow_embedding_bag(&done, f));
    if (done)
        return ST_OK;
    TRY(flow_begin_trips(f, n_carried, 1));
    TRY(trip_count(&count, f));
    TRY(flow_carry_in(f, 2));
    if (e)
        entry_copy(&cond, e);
    else
        cond.value = number(f, f->gp->input[1], DT_BOOL, 1);
    if (e && count > 0)
        TRY(loop_condition(&go, f, cond.value, f->p->input[1], count));
    while (go && (int64_t)f->trips < count) {
        TRY(has_value(f->active) ? loop_branch(f, &cond) : loop_trip(f, &cond));
        if (has_value(f->active) && f->im->n_done - f->nodes > MAX_DATA_NODES)
            return FAIL(E_UNSUPPORTED, "data decides which of its trips count, and they take more than %d nodes",
                        MAX_DATA_NODES);
        if (flow_has_problems(f))
            return ST_OK;
        TRY(tensor_result(&cond.value, f, f->gp->output[0]));
        if ((int64_t)f->trips < count)
            TRY(loop_condition(&go, f, cond.value, f->gp->output[0]->name, count));
        cond = (ScopeEntry){ .value = cond.value, .node = -1 };
    }
    flow_set_carried(f);
    for (size_t k = 0; k < f->n_scanned; k++)
        TRY(flow_set_stacked(f, 1, k, 0, false));
    return ST_OK;
}

/* ---- SequenceMap ---- */

/* The tensors of a sequence. */
static Status items(const ValueId **item, int *n, const FlowImport *f, const ScopeEntry *e)
{
    return sequence_items(item, n, f->im, e->sequence,
                          arena_printf(f->im->scratch, "%s: the length of a sequence", proto_text(f->im, f->p)));
}

/* Binds input i of the body: the trip's tensor of a sequence, or a tensor that is the same in all trips. */
static Status bind_mapped(FlowImport *f, size_t i)
{
    const ScopeEntry *e = flow_input(f, i);
    ScopeEntry one = { .node = -1 };
    const ValueId *item;
    int n;

    if (!e)
        return FAIL(E_MODEL, "input %zu is absent", i);
    if (!e->sequence)
        return flow_bind(f, f->gp->input[i], e);
    TRY(items(&item, &n, f, e));
    if ((size_t)n <= f->trips)
        return FAIL(E_MODEL, "sequence '%s' has %d tensors, the first one more", f->p->input[i], n);
    one.value = item[f->trips];
    return flow_bind(f, f->gp->input[i], &one);
}

static Status import_map(FlowImport *f)
{
    const ScopeEntry *e = flow_input(f, 0);
    const ValueId *item;
    int n;

    TRY(flow_subgraph(&f->gp, f->p, "body"));
    if (f->gp->n_input != f->p->n_input)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, f->p->n_input);
    if (!e || !e->sequence)
        return FAIL(E_UNSUPPORTED, "input 0 is no sequence that the file itself gives");
    TRY(items(&item, &n, f, e));
    TRY(flow_begin_trips(f, 0, 0));
    while (f->trips < (size_t)n) {
        TRY(flow_enter(f, f->gp, (int64_t)f->trips));
        for (size_t i = 0; i < f->p->n_input; i++)
            TRY(bind_mapped(f, i));
        TRY(flow_run_trip(f, 0));
        if (flow_has_problems(f))
            return ST_OK;
    }
    for (size_t k = 0; k < f->p->n_output; k++) {
        ScopeEntry to = { .node = -1 };

        TRY(sequence_set(&to, f->im, n, f->scanned[k]));
        flow_set_output(f, k, &to);
    }
    return ST_OK;
}

/* ---- a subgraph that is a function ---- */

Status import_applied(ValueId *x, Importer *im, Body *b, const Onnx__NodeProto *p, const char *name)
{
    FlowImport f = { .im = im, .b = b, .p = p, .problems = im->problems.n };
    const ScopeEntry e = { .value = *x, .node = -1 };

    if (!attribute_find(p, name))
        return ST_OK;
    TRY(body_check_depth(b));
    TRY(flow_subgraph(&f.gp, p, name));
    if (f.gp->n_input != 1 || f.gp->n_output != 1)
        return FAIL(E_MODEL, "attribute '%s': %zu inputs and %zu outputs, expected one of each", name, f.gp->n_input,
                    f.gp->n_output);
    TRY(flow_enter(&f, f.gp, -1));
    TRY(flow_bind(&f, f.gp->input[0], &e));
    TRY(import_body(im, &f.inner));
    return flow_has_problems(&f) ? ST_OK : tensor_result(x, &f, f.gp->output[0]);
}

/* ---- all ---- */

static const struct {
    const char *name;
    Status (*import)(FlowImport *);
} operators[] = { { "If", import_if }, { "Loop", import_loop }, { "Scan", flow_scan }, { "SequenceMap", import_map } };

static Status (*find_import(const char *name))(FlowImport *)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(operators[i].name, name))
            return operators[i].import;
    return NULL;
}

bool is_flow_operator(const char *name) { return find_import(name) != NULL; }

Status import_flow(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    FlowImport f = { .im = im, .b = b, .p = p, .problems = im->problems.n };
    const Shape unknown = shape_unknown();
    Status st = body_check_depth(b);

    if (!st)
        st = find_import(p->op_type)(&f);
    TRY(status_prefix(st, "%s", proto_text(im, p)));
    for (size_t i = 0; i < p->n_output; i++) { /* after problems in a body, outputs of unknown type for later nodes */
        ScopeEntry *e = *p->output[i] ? scope_find(&b->scope, p->output[i]) : NULL;

        if (e && !entry_made(e))
            e->value = graph_add_value(im->g, V_TEMP, "", DT_NONE, &unknown);
    }
    return im->g->status;
}
