/* Control flow: an If becomes the nodes of the branch that is taken, a Loop, a Scan or a SequenceMap those of all its
 * trips, so that the graph holds dataflow alone.
 *
 * Conditions and trip counts are found by known.c.  Where data decide, an If becomes both branches and a choice
 * (branch.c); the rest is refused by name, but where the data are at hand (evaluate.c).  A subgraph sees the names
 * around its node and must not define one of them again.  Its nodes get the node's name as a prefix, "loop/3/": of trip
 * 3; its constants are the same in all trips, so that a weight in a loop is one parameter.  Where the file decides, the
 * branch that is not taken is not looked at. */
#include <stdio.h>
#include <string.h>

#include "graph/emit.h"
#include "graph/onnx/internal.h"

enum { MAX_NESTING = 64, MAX_SAMPLES = 65536 };
static const size_t MAX_UNROLLED = (size_t)512 << 20; /* bytes: attributes and names of a body count in each trip */

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
    size_t bytes; /* in use at the beginning */
    int problems; /* known at the beginning */
} Flow;

/* ---- attributes ---- */

static const Onnx__AttributeProto *find(const Onnx__NodeProto *p, const char *name)
{
    for (size_t i = 0; i < p->n_attribute; i++)
        if (!strcmp(text_or(p->attribute[i]->name, ""), name))
            return p->attribute[i];
    return NULL;
}

static Status subgraph(const Onnx__GraphProto **out, const Onnx__NodeProto *p, const char *name)
{
    const Onnx__AttributeProto *a = find(p, name);

    if (a && a->ref_attr_name && *a->ref_attr_name)
        return FAIL(E_UNSUPPORTED, "a subgraph that a function gets as attribute '%s'", name);
    if (!a || !a->g)
        return FAIL(E_MODEL, "attribute '%s', a subgraph, is missing", name);
    *out = a->g;
    return ST_OK;
}

/* Element `i` of a list of `n`, each low to high; 0 where the list is absent. */
static Status list_element(int64_t *out, const Flow *f, const char *name, size_t n, size_t i, int64_t low, int64_t high)
{
    const Onnx__AttributeProto *a = find(f->p, name);

    *out = 0;
    if (!a)
        return ST_OK;
    TRY(attribute_resolve(&a, f->im, f->b, f->p, a));
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

static Status check_depth(const Body *b)
{
    int depth = 0;

    for (; b; b = b->up)
        depth++;
    return depth > MAX_NESTING ? FAIL(E_MODEL, "subgraphs and functions nest more than %d deep", MAX_NESTING) : ST_OK;
}

/* Makes f->inner a body for the subgraph's nodes; `trip` -1: not repeated. */
static Status enter(Flow *f, const Onnx__GraphProto *gp, int64_t trip)
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

static Status bind(Flow *f, const Onnx__ValueInfoProto *formal, const ScopeEntry *given)
{
    ScopeEntry *e;

    TRY(declare(&e, &f->inner, formal->name, "input of the subgraph"));
    entry_take(e, given);
    e->formal = true;
    return ST_OK;
}

/* What the subgraph's output stands for; it may be something from outside. */
static Status result(const ScopeEntry **out, const Body *inner, const Onnx__ValueInfoProto *p)
{
    const char *name = text_or(p->name, "");
    const ScopeEntry *e = *name ? body_find(inner, name) : NULL;

    if (!e || (!has_value(e->value) && !e->problem))
        return FAIL(E_MODEL, "output '%s' of the subgraph is made by no node", name);
    *out = e;
    return ST_OK;
}

static Status tensor_result(ValueId *out, const Flow *f, const Onnx__ValueInfoProto *p)
{
    const ScopeEntry *e;

    TRY(result(&e, &f->inner, p));
    if (e->problem)
        return FAIL(E_UNSUPPORTED, "output '%s' of the subgraph: %s", p->name, e->problem);
    *out = e->value;
    return ST_OK;
}

/* The node's input, with all that it stands for; NULL: absent. */
static const ScopeEntry *given(const Flow *f, size_t i)
{
    return i < f->p->n_input && *f->p->input[i] ? body_find(f->b, f->p->input[i]) : NULL;
}

static void set_output(const Flow *f, size_t i, const ScopeEntry *to)
{
    if (i < f->p->n_output && *f->p->output[i])
        entry_take(scope_find(&f->b->scope, f->p->output[i]), to);
}

/* `what` of this node was found to be this, as the name says. */
static Status decided(const Flow *f, ValueId v, int64_t is, const char *what, const char *name)
{
    return decided_number(f->im, v, is,
                          arena_printf(f->im->scratch, "%s: %s '%.100s'", proto_text(f->im, f->p), what, name));
}

/* ---- If ---- */

/* What the outputs of the node are in that branch. */
static Status import_branch(ScopeEntry *out, Flow *f, const char *which)
{
    const Onnx__GraphProto *gp;
    const ScopeEntry *e;

    TRY(subgraph(&gp, f->p, which));
    if (gp->n_input || gp->n_output != f->p->n_output)
        return FAIL(E_MODEL, "a branch of %zu inputs and %zu outputs, expected 0 and %zu", gp->n_input, gp->n_output,
                    f->p->n_output);
    TRY(enter(f, gp, -1));
    TRY(import_body(f->im, &f->inner));
    for (size_t i = 0; i < gp->n_output; i++) {
        TRY(result(&e, &f->inner, gp->output[i]));
        entry_take(&out[i], e);
    }
    return ST_OK;
}

/* Something in the body is not supported: said once, not for each trip. */
static bool in_vain(const Flow *f) { return f->im->problems.n > f->problems; }

static Status import_both(ScopeEntry *out, Flow *f, ValueId condition)
{
    Importer *im = f->im;
    ScopeEntry *other = ARENA_NEW(im->scratch, ScopeEntry, f->p->n_output);
    const ValueId yes = branch_condition(im, condition, false, NO_VALUE);
    const ValueId no = branch_condition(im, condition, true, NO_VALUE);
    Branch b = branch_begin(im, yes);

    if (!other)
        return FAIL_NOMEM();
    TRY(import_branch(out, f, "then_branch"));
    TRY(branch_end(&b));
    b = branch_begin(im, no);
    TRY(import_branch(other, f, "else_branch"));
    TRY(branch_end(&b));
    for (size_t i = 0; i < f->p->n_output && !in_vain(f); i++)
        TRY(branch_choose(&out[i], im, yes, &other[i], body_name(im, f->b, text_or(f->p->name, "")),
                          body_name(im, f->b, f->p->output[i])));
    return im->g->status;
}

static Status import_if(Flow *f)
{
    ScopeEntry *out = ARENA_NEW(f->im->scratch, ScopeEntry, f->p->n_output);
    const ScopeEntry *c = given(f, 0);
    int64_t taken;

    if (f->p->n_input != 1 || !c)
        return FAIL(E_MODEL, "expected one input, the condition");
    if (c->problem)
        return FAIL(E_UNSUPPORTED, "its condition '%s': %s", f->p->input[0], c->problem);
    if (!out)
        return FAIL_NOMEM();
    if (known_number(&taken, f->im, c->value)) {
        TRY(decided(f, c->value, taken, "its condition", f->p->input[0]));
        TRY(import_branch(out, f, taken ? "then_branch" : "else_branch"));
    } else {
        TRY(import_both(out, f, c->value));
    }
    for (size_t i = 0; i < f->p->n_output; i++)
        set_output(f, i, &out[i]);
    return ST_OK;
}

/* ---- trips ---- */

static Status begin_trips(Flow *f, size_t n_carried, size_t first)
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
    return f->carried && f->scanned && f->cap ? ST_OK : FAIL_NOMEM();
}

static Status carry_in(Flow *f, size_t first)
{
    for (size_t i = 0; i < f->n_carried; i++) {
        const ScopeEntry *e = given(f, first + i);

        if (!e)
            return FAIL(E_MODEL, "input %zu, a value that trips hand on, is absent", first + i);
        entry_take(&f->carried[i], e);
    }
    return ST_OK;
}

/* Reads the body's nodes for one trip; its inputs are bound. */
static Status run_trip(Flow *f, size_t first)
{
    int64_t number;

    TRY(import_body(f->im, &f->inner));
    for (size_t i = 0; i < f->n_carried; i++) {
        const ScopeEntry *e;

        TRY(result(&e, &f->inner, f->gp->output[first + i]));
        entry_take(&f->carried[i], e);
        (void)known_number(&number, f->im, e->value); /* a counter is looked at while its chain is short */
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
        return FAIL(E_MODEL, "unrolled it takes more than %zu MiB", MAX_UNROLLED >> 20);
    return ST_OK;
}

/* No trip made one: the body must say what they would be. */
static Status stack_nothing(ValueId *out, const Flow *f, const Onnx__ValueInfoProto *p, int64_t axis)
{
    const Onnx__TypeProto *type = p->type;
    Shape s = shape_unknown(), whole;
    const char **params = NULL;
    Tensor *t;

    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
        !tensor_type_problem(type->tensor_type->elem_type) && type->tensor_type->shape)
        TRY(type_shape_decode(&s, &params, f->im->scratch, type->tensor_type->shape, p->name));
    for (int i = 0; f->im->run && i < s.rank; i++)
        s.dim[i] = s.dim[i] < 0 ? 0 : s.dim[i]; /* nothing will say, and there is nothing of it */
    if (!shape_known(&s) || s.rank == MAX_RANK)
        return FAIL(E_UNSUPPORTED, "no trip, and the body does not say what its output '%s' would be", p->name);
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

/* What the trips made, along a new axis. */
static Status stack(ValueId *out, Flow *f, size_t k, int64_t axis, bool backward)
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

static Status set_stacked(Flow *f, size_t first, size_t k, int64_t axis, bool backward)
{
    size_t i = f->n_carried + k;
    ScopeEntry e = { .node = -1 };

    if (i >= f->p->n_output || !*f->p->output[i])
        return ST_OK;
    if (f->trips)
        TRY(stack(&e.value, f, k, axis, backward));
    else
        TRY(stack_nothing(&e.value, f, f->gp->output[first + i], axis));
    graph_rename(f->im->g, e.value, body_name(f->im, f->b, f->p->output[i]));
    set_output(f, i, &e);
    return f->im->g->status;
}

static void set_carried(const Flow *f)
{
    for (size_t i = 0; i < f->n_carried; i++)
        set_output(f, i, &f->carried[i]);
}

/* ---- Loop ---- */

static ValueId number(Flow *f, const Onnx__ValueInfoProto *formal, DType dtype, int64_t v)
{
    bool vector = formal->type && formal->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                  formal->type->tensor_type->shape && formal->type->tensor_type->shape->n_dim == 1;
    Shape s = vector ? SHAPE(1) : shape_scalar();
    uint8_t truth = v != 0;
    Tensor t = { dtype, s, dtype == DT_BOOL ? (void *)&truth : (void *)&v };

    return graph_add_const(f->im->g, body_name(f->im, f->inner.prefix ? &f->inner : f->b, text_or(formal->name, "")),
                           &t);
}

/* Input 0 or 1; absent: for ever. */
static Status limit(int64_t *out, const Flow *f, size_t i, const char *what, int64_t absent)
{
    const ScopeEntry *e = given(f, i);

    *out = absent;
    if (e && !known_number(out, f->im, e->value))
        return FAIL(E_UNSUPPORTED,
                    "its %s '%s' depends on data, expected one that constants and fixed sizes of the file give", what,
                    f->p->input[i]);
    return e ? decided(f, e->value, *out, arena_printf(f->im->scratch, "its %s", what), f->p->input[i]) : ST_OK;
}

static Status loop_trip(Flow *f, const ScopeEntry *cond)
{
    ScopeEntry e = { .node = -1 };

    TRY(enter(f, f->gp, (int64_t)f->trips));
    e.value = number(f, f->gp->input[0], DT_INT64, (int64_t)f->trips);
    TRY(f->im->g->status);
    TRY(bind(f, f->gp->input[0], &e));
    TRY(bind(f, f->gp->input[1], cond));
    for (size_t i = 0; i < f->n_carried; i++)
        TRY(bind(f, f->gp->input[2 + i], &f->carried[i]));
    return run_trip(f, 1);
}

static Status import_loop(Flow *f)
{
    size_t n_carried = f->p->n_input > 2 ? f->p->n_input - 2 : 0;
    ScopeEntry cond = { .node = -1 };
    const ScopeEntry *e;
    int64_t count, go;

    TRY(subgraph(&f->gp, f->p, "body"));
    if (f->gp->n_input != n_carried + 2)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, n_carried + 2);
    TRY(begin_trips(f, n_carried, 1));
    TRY(limit(&count, f, 0, "trip count", INT64_MAX));
    TRY(limit(&go, f, 1, "condition", 1));
    TRY(carry_in(f, 2));
    if ((e = given(f, 1)))
        entry_take(&cond, e);
    else
        cond.value = number(f, f->gp->input[1], DT_BOOL, 1);
    while (go && (int64_t)f->trips < count) {
        TRY(loop_trip(f, &cond));
        if (in_vain(f))
            return ST_OK;
        TRY(tensor_result(&cond.value, f, f->gp->output[0]));
        if ((int64_t)f->trips < count && !known_number(&go, f->im, cond.value))
            return FAIL(E_UNSUPPORTED,
                        "whether it goes on after trip %zu ('%s') depends on data, expected a constant condition",
                        f->trips - 1, f->gp->output[0]->name);
        TRY(decided(f, cond.value, go, "whether it goes on,", f->gp->output[0]->name));
        cond = (ScopeEntry){ .value = cond.value, .node = -1 };
    }
    set_carried(f);
    for (size_t k = 0; k < f->n_scanned; k++)
        TRY(set_stacked(f, 1, k, 0, false));
    return ST_OK;
}

/* ---- Scan ---- */

/* One element of x, the node's input `name`, for each trip, in the order of the trips; `*trips` -1: not known before.
 */
static Status cut(ValueId **out, int64_t *trips, Flow *f, ValueId x, const char *name, int64_t axis, bool backward)
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

static Status tensor_given(ValueId *out, const Flow *f, size_t i)
{
    const ScopeEntry *e = given(f, i);

    if (!e || e->problem)
        return FAIL(e ? E_UNSUPPORTED : E_MODEL, "input %zu: %s", i, e ? e->problem : "it is absent");
    *out = e->value;
    return ST_OK;
}

static Status cut_input(ValueId **out, int64_t *trips, Flow *f, size_t k, size_t n)
{
    const size_t i = f->n_carried + k;
    int64_t axis, backward;
    ValueId x;

    TRY(tensor_given(&x, f, i));
    TRY(list_element(&axis, f, "scan_input_axes", n, k, -MAX_RANK, MAX_RANK - 1));
    TRY(list_element(&backward, f, "scan_input_directions", n, k, 0, 1));
    return cut(out, trips, f, x, f->p->input[i], axis, backward != 0);
}

static Status scan_trip(Flow *f, ValueId *const *item, size_t n)
{
    TRY(enter(f, f->gp, (int64_t)f->trips));
    for (size_t i = 0; i < f->n_carried; i++)
        TRY(bind(f, f->gp->input[i], &f->carried[i]));
    for (size_t k = 0; k < n; k++) {
        ScopeEntry e = { .value = item[k][f->trips] };

        TRY(bind(f, f->gp->input[f->n_carried + k], &e));
    }
    return run_trip(f, 0);
}

static Status scan_outputs(Flow *f)
{
    set_carried(f);
    for (size_t k = 0; k < f->n_scanned; k++) {
        int64_t axis, backward;

        TRY(list_element(&axis, f, "scan_output_axes", f->n_scanned, k, -MAX_RANK, MAX_RANK - 1));
        TRY(list_element(&backward, f, "scan_output_directions", f->n_scanned, k, 0, 1));
        TRY(set_stacked(f, 0, k, axis, backward));
    }
    return ST_OK;
}

/* ---- Scan of opset 8: the same for each sample of a batch, along axis 1 ---- */

/* Sample `at` of the node's input. */
static Status sample(ValueId *out, const Flow *f, size_t i, int64_t at)
{
    Graph *g = f->im->g;
    Shape scalar = shape_scalar();
    ValueId x, index;

    TRY(tensor_given(&x, f, i));
    index = graph_add_const(g, "sample", &(Tensor){ DT_INT64, scalar, &at });
    *out = import_emit(g, &op_Gather, ATTRS(INT("axis", 0)), 2, (ValueId[]){ x, index });
    TRY(g->status);
    return f->im->run ? evaluate_read(f->im) : ST_OK;
}

/* How many trips a sample has; those behind them are not told by the operator, and zeros here. */
static Status trips_of(int64_t *out, const Flow *f, int64_t at, int64_t most)
{
    ValueId v;

    *out = most;
    if (!given(f, 0))
        return ST_OK;
    TRY(sample(&v, f, 0, at));
    if (!known_number(out, f->im, v))
        return FAIL(E_UNSUPPORTED, "its lengths '%s' depend on data", f->p->input[0]);
    if (*out < 0 || *out > most)
        return FAIL(E_MODEL, "a length of %lld, of at most %lld", (long long)*out, (long long)most);
    return decided(f, v, *out, "its lengths", f->p->input[0]);
}

static Status scan_sample(Flow *f, ValueId *out, int64_t at, size_t n)
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
        TRY(list_element(&backward, f, "directions", n, k, 0, 1));
        if (backward && given(f, 0))
            return FAIL(E_UNSUPPORTED, "lengths of what is scanned backwards");
        TRY(cut(&item[k], &most, f, x, f->p->input[1 + f->n_carried + k], 0, backward != 0));
    }
    TRY(trips_of(&trips, f, at, most));
    while ((int64_t)f->trips < trips) {
        TRY(scan_trip(f, item, n));
        if (in_vain(f))
            return ST_OK;
    }
    for (size_t i = 0; i < f->n_carried; i++)
        out[i] = f->carried[i].value;
    for (size_t k = 0; k < f->n_scanned; k++) {
        ValueId *to = &out[f->n_carried + k];
        const int64_t pads[2] = { 0, most - trips }, axis = 0;

        TRY(trips ? stack(to, f, k, 0, false) : stack_nothing(to, f, f->gp->output[f->n_carried + k], 0));
        if (trips < most)
            *to =
                import_emit(f->im->g, &op_Pad, NULL, 4,
                            (ValueId[]){ *to, emit_ints(f->im->g, 2, pads), NO_VALUE, emit_ints(f->im->g, 1, &axis) });
    }
    return f->im->g->status;
}

static Status import_batched_scan(Flow *f, size_t n)
{
    const size_t n_out = f->gp->n_output;
    Graph *g = f->im->g;
    int64_t samples, axis = 0;
    ValueId **each, x, axes;

    if (f->gp->n_input + 1 != f->p->n_input)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, f->p->n_input - 1);
    TRY(begin_trips(f, f->p->n_input - 1 - n, 0));
    TRY(tensor_given(&x, f, f->p->n_input - 1));
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
        if (in_vain(f))
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
        set_output(f, o, &to);
    }
    return g->status;
}

static Status import_scan(Flow *f)
{
    const Onnx__AttributeProto *a = find(f->p, "num_scan_inputs");
    int64_t trips = -1;
    ValueId **item;
    size_t n;

    if (a)
        TRY(attribute_resolve(&a, f->im, f->b, f->p, a));
    if (!a || a->i < 1 || (uint64_t)a->i > f->p->n_input)
        return FAIL(E_MODEL, "attribute 'num_scan_inputs' is missing, or not between 1 and the number of inputs");
    n = (size_t)a->i;
    TRY(subgraph(&f->gp, f->p, "body"));
    if (opset_of(f->b, NULL) < 9)
        return import_batched_scan(f, n);
    if (f->gp->n_input != f->p->n_input)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, f->p->n_input);
    TRY(begin_trips(f, f->p->n_input - n, 0));
    TRY(carry_in(f, 0));
    if (!(item = ARENA_NEW(f->im->scratch, ValueId *, n)))
        return FAIL_NOMEM();
    for (size_t k = 0; k < n; k++)
        TRY(cut_input(&item[k], &trips, f, k, n));
    while ((int64_t)f->trips < trips) {
        TRY(scan_trip(f, item, n));
        if (in_vain(f))
            return ST_OK;
    }
    return scan_outputs(f);
}

/* ---- SequenceMap ---- */

static Status items(const ValueId **item, int *n, const Flow *f, const ScopeEntry *e)
{
    return sequence_items(item, n, f->im, e->sequence,
                          arena_printf(f->im->scratch, "%s: the length of a sequence", proto_text(f->im, f->p)));
}

/* An input of the body: of a sequence the trip's tensor, else the same in all trips. */
static Status bind_mapped(Flow *f, size_t i)
{
    const ScopeEntry *e = given(f, i);
    ScopeEntry one = { .node = -1 };
    const ValueId *item;
    int n;

    if (!e)
        return FAIL(E_MODEL, "input %zu is absent", i);
    if (!e->sequence)
        return bind(f, f->gp->input[i], e);
    TRY(items(&item, &n, f, e));
    if ((size_t)n <= f->trips)
        return FAIL(E_MODEL, "sequence '%s' has %d tensors, the first one more", f->p->input[i], n);
    one.value = item[f->trips];
    return bind(f, f->gp->input[i], &one);
}

static Status import_map(Flow *f)
{
    const ScopeEntry *e = given(f, 0);
    const ValueId *item;
    int n;

    TRY(subgraph(&f->gp, f->p, "body"));
    if (f->gp->n_input != f->p->n_input)
        return FAIL(E_MODEL, "a body of %zu inputs, expected %zu", f->gp->n_input, f->p->n_input);
    if (!e || !e->sequence)
        return FAIL(E_UNSUPPORTED, "input 0 is no sequence that the file itself gives");
    TRY(items(&item, &n, f, e));
    TRY(begin_trips(f, 0, 0));
    while (f->trips < (size_t)n) {
        TRY(enter(f, f->gp, (int64_t)f->trips));
        for (size_t i = 0; i < f->p->n_input; i++)
            TRY(bind_mapped(f, i));
        TRY(run_trip(f, 0));
        if (in_vain(f))
            return ST_OK;
    }
    for (size_t k = 0; k < f->p->n_output; k++) {
        ScopeEntry to = { .node = -1 };

        TRY(sequence_set(&to, f->im, n, f->scanned[k]));
        set_output(f, k, &to);
    }
    return ST_OK;
}

/* ---- all ---- */

static const struct {
    const char *name;
    Status (*import)(Flow *);
} operators[] = {
    { "If", import_if }, { "Loop", import_loop }, { "Scan", import_scan }, { "SequenceMap", import_map }
};

static Status (*find_import(const char *name))(Flow *)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(operators[i].name, name))
            return operators[i].import;
    return NULL;
}

bool is_flow_operator(const char *name) { return find_import(name) != NULL; }

/* After problems in a body some outputs may stand for nothing: later nodes are looked at all the same. */
static Status leave_rest(const Flow *f)
{
    Shape unknown = shape_unknown();

    for (size_t i = 0; i < f->p->n_output; i++) {
        ScopeEntry *e = *f->p->output[i] ? scope_find(&f->b->scope, f->p->output[i]) : NULL;

        if (e && !entry_made(e))
            e->value = graph_add_value(f->im->g, V_TEMP, "", DT_NONE, &unknown);
    }
    return f->im->g->status;
}

Status import_flow(Importer *im, Body *b, const Onnx__NodeProto *p)
{
    Flow f = { .im = im, .b = b, .p = p, .problems = im->problems.n };
    Status st = check_depth(b);

    if (!st)
        st = find_import(p->op_type)(&f);
    TRY(status_prefix(st, "%s", proto_text(im, p)));
    return leave_rest(&f);
}
