/* Expansion: makes the graph of all replicas from one graph and its placements, in place.  Copies of every node and
 * value are appended, the first in the memory of the original; then the remaining originals are dropped.
 *
 * A node whose values are all B, or split by device, is copied once per device (each device has its state).  Every
 * other node is copied once per replica, with local shapes, and reads copies in the placement that its rule asked for.
 * Consumers come after producers, so the copies of a node's inputs exist when the node is copied.  Constants are
 * shared: they are the same everywhere and never written.
 *
 * Where a consumer needs another placement than the producer has, value_copies.c converts. */
#include "passes/partition/expand.h"

#include <string.h>

#include "graph/ir/emit.h"
#include "passes/partition/value_copies.h"

/* ---- one copy of a node ---- */

Status set_random_key(Expander *x, const Node *of, Node *n, int r)
{
    Place at = x->t->value[of->out[0].i];
    int64_t dim = x->of[of->out[0].i].shape->dim[at.axis];

    if (!node_attr(n, "split_axis"))
        return FAIL(E_UNSUPPORTED, "%s: its random numbers cannot be drawn in parts", node_text(x->g, of));
    node_set_int(x->g, n, "split_axis", at.axis);
    node_set_int(x->g, n, "split_offset", split_offset(at.split, dim, r));
    node_set_int(x->g, n, "split_dim", dim);
    return x->g->status;
}

/* Sets the number of elements in front of device d's piece of each input; the first device counts whole inputs. */
static void set_piece_starts(Expander *x, const Node *of, Node *n, int d)
{
    int64_t *from = ARENA_NEW(x->once, int64_t, n->n_in);
    int len;
    const int64_t *own = node_ints(of, "from", &len);

    if (!from) {
        x->g->status = FAIL_NOMEM();
        return;
    }
    for (int i = 0; i < n->n_in; i++) {
        Place at = x->t->want[of->index][i];
        int64_t numel = shape_numel(x->of[of->in[i].i].shape);
        bool empty = at.kind == PL_S && !split_count(at.split, numel, d), elsewhere = at.kind != PL_S && d;

        from[i] = empty || elsewhere || own[i] < 0 ? -1 : own[i];
        if (from[i] >= 0 && at.kind == PL_S)
            from[i] += split_offset(at.split, numel, d);
    }
    node_set_attr(x->g, n, &(Attr)INTS("from", n->n_in, from));
}

/* Checks the types and shapes of replica r's copy, or, r < 0, of device d's. */
static Status expand_check_outputs(const Expander *x, const Node *of, const Node *n, int r, int d)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    for (int i = 0; i < n->n_out; i++) {
        const Value *local;
        Shape expected;

        if (!has_value(of->out[i]))
            continue;
        local = value(x->g, n->out[i]);
        expected = local_shape(x, of->out[i], x->t->value[of->out[i].i], r < 0 ? d : r);
        if (of->op->flags & OPF_ANSWERS_L && !i)
            expected.dim[0] = in_value(x->g, n, 0)->shape->dim[0];
        if (local->dtype != x->of[of->out[i].i].dtype || !shape_eq(local->shape, &expected))
            return FAIL(E_UNSUPPORTED, "%s fixes the batch size: output %d of %s %d is %s, expected %s",
                        node_text(x->g, of), i, r < 0 ? "device" : "replica", r < 0 ? d : r,
                        shape_text(local->shape, a), shape_text(&expected, b));
    }
    return ST_OK;
}

/* Appends a copy of the node `of` for replica r on device d.  `first`, if not NULL, is the node itself, which the first
 * copy takes over. */
static Node *append_copy(Expander *x, const Node *of, Node *first, const ValueId *in, int r, int d)
{
    const char **names = ARENA_NEW(x->once, const char *, of->n_out);
    const char **logical = ARENA_NEW(x->once, const char *, of->n_out);
    Node *copy = first;

    if (!names || !logical) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int i = 0; i < of->n_out; i++) {
        names[i] = has_value(of->out[i]) ? copy_name(x, of->out[i], r, d) : "";
        logical[i] = has_value(of->out[i]) ? value_logical_name(value(x->g, of->out[i])) : NULL;
    }
    if (first)
        graph_renew_node(x->g, first, in, names);
    else
        copy = graph_add_node_like(x->g, of, of->n_in, in, of->n_out, names);
    if (x->g->status)
        return NULL;
    copy->replica = r;
    copy->device = x->p->shown[d];
    for (int i = 0; i < of->n_out; i++)
        if (has_value(of->out[i]))
            mark_copy(x, copy->out[i], logical[i], r, d);
    return copy;
}

/* Gives replica r's copy of a PartMean its share of the batch's weight, and the number of parts that have samples. */
static void set_own_share(Expander *x, Node *n, int r)
{
    const Split *batch = &x->p->batch;
    int parts = batch->n;

    for (int i = 0; i < batch->n && node_int(n, "filled"); i++)
        parts -= !batch->count[i];
    node_set_int(x->g, n, "parts", parts ? parts : 1);
    if (node_int(n, "shared"))
        node_set_attr(x->g, n,
                      &(Attr)FLOAT("weight", node_float(n, "weight") * (double)batch->count[r] / (double)batch->total));
}

/* Makes a copy for replica r (or, r < 0, for device d) that reads in[].  Attributes are those of the graph of the
 * replica's length; a constant input that holds the output's shape becomes the local shape. */
static Node *clone_node(Expander *x, const Node *n, Node *first, const ValueId *in, int r, int d)
{
    bool split = r >= 0 && n->n_out && has_value(n->out[0]) && x->t->value[n->out[0].i].kind == PL_S;
    Node *copy = x->g->status ? NULL : append_copy(x, n, first, in, r, d);
    const Variant *own = r < 0 ? NULL : variant_of(x->p, r);

    if (!copy)
        return NULL;
    if (own && x->p->variants->differ[n->index])
        node_copy_attrs(x->g, copy, own->node[n->index]);
    if (split && n->op->shape_in) {
        Shape s = local_shape(x, n->out[0], x->t->value[n->out[0].i], r);

        node_set_input(x->g, copy, n->op->shape_in - 1, emit_shape_const(x->g, &s));
        if (node_attr(copy, "allowzero"))
            node_set_int(x->g, copy, "allowzero", 1); /* a part may be empty: 0 means none, not "as the input" */
    }
    if (split && (n->op->flags & OPF_RANDOM) && !x->g->status)
        x->g->status = set_random_key(x, n, copy, r);
    if (n->op->flags & OPF_PIECES && x->t->value[n->out[0].i].kind == PL_P)
        set_piece_starts(x, n, copy, d);
    if (r >= 0 && n->op->flags & OPF_OWN_SUMS)
        set_own_share(x, copy, r);
    if (!x->g->status && (x->g->status = node_infer(x->g, copy)))
        status_prefix(x->g->status, r < 0 ? "copy on device %d" : "part of replica %d", r < 0 ? d : r);
    if (!x->g->status && !(x->t->there && x->t->there[n->index]))
        x->g->status = expand_check_outputs(x, n, copy, r, d);
    return x->g->status ? NULL : copy;
}

/* ---- state ---- */

/* Where some states are in pieces, whose copies are all new values, so are those of all others: their order is the same
 * on every device, and with it that of the states in every process. */
static bool renews(const Expander *x, Place at) { return at.kind == PL_S || x->p->shard; }

/* Copy i of state v, whose placement is `at`.  The first copy of a whole state is v itself, unless all are new. */
static ValueId state_copy(Expander *x, ValueId v, const char *logical, Place at, int i)
{
    const Value *of = value(x->g, v);
    int r = replica_of(at, i), d = device_of(x, at, i);
    const char *name =
        r >= 0 ? arena_printf(x->once, "%s@r%d", logical, r) : arena_printf(x->once, "%s@d%d", logical, d);
    ValueId copy = v;
    Value *c;

    if (!name)
        return NO_VALUE;
    if (at.kind == PL_S)
        copy = const_part(x, v, at, i);
    else if (i || renews(x, at))
        copy = graph_add_const_nocopy(x->g, name, of->init);
    if (!has_value(copy) || x->g->status)
        return NO_VALUE;
    if (!i || renews(x, at))
        graph_rename(x->g, copy, name);
    c = value(x->g, copy);
    c->kind = V_STATE;
    c->trainable = of->trainable;
    c->undecayed = of->undecayed;
    c->matrix = of->matrix;
    c->transient = of->transient;
    c->layout = of->layout;
    c->partial = of->partial;
    c->replica = r;
    c->device = x->p->shown[d];
    c->logical = logical;
    return copy;
}

/* Makes the copies of a state: whole, one per device with the same start, or of a partial sum one per replica; in
 * pieces, one per device, and the original is a state no more. */
static Status expand_state(Expander *x, ValueId v)
{
    Place at = x->t->value[v.i];
    int n = copies_in(x, at);
    const char *logical = value(x->g, v)->name;

    if (!(x->native[v.i] = ARENA_NEW(x->a, ValueId, n)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        const int like = copy_like(x, at, i);

        if (like != i) {
            x->native[v.i][i] = stand_in(x, v, at, i, x->native[v.i][like]);
            continue;
        }
        x->native[v.i][i] = state_copy(x, v, logical, at, i);
        if (!has_value(x->native[v.i][i]))
            return fail_or_nomem(x);
        if (at.kind == PL_S) {
            Shard *p = ARENA_NEW(x->g->arena, Shard, 1);

            if (!p)
                return FAIL_NOMEM();
            *p = (Shard){ *value(x->g, v)->shape, split_offset(at.split, shape_numel(value(x->g, v)->shape), i) };
            value(x->g, x->native[v.i][i])->shard = p;
        }
    }
    if (renews(x, at)) {
        value_make_temp(value(x->g, v));
        if (at.kind == PL_S && !(x->gathered[v.i] = ARENA_NEW(x->a, ValueId *, 2 * x->turns)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

/* ---- nodes ---- */

static bool runs_per_replica(const Expander *x, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && !place_by_device(x->t->value[n->out[i].i]))
            return true;
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && !place_by_device(x->t->want[n->index][i]) && !(n->op->flags & OPF_STACKS_L))
            return true;
    return false;
}

static Status expand_gather_inputs(Expander *x, const Node *n, bool per_replica, const ValueId **lists)
{
    for (int i = 0; i < n->n_in; i++) {
        Place want = x->t->want[n->index][i];

        if (!has_value(n->in[i]) || (want.kind == PL_B && is_gathered(x, n->in[i])))
            continue;
        lists[i] = want.kind == PL_L && !per_replica ? stacked(x, n->in[i]) : copies_of(x, n->in[i], want);
        if (!lists[i])
            return fail_or_nomem(x);
    }
    return ST_OK;
}

/* Output o of the copies [n] in its placement: a device's output of copies per replica is taken from its first. */
static Status record_output(Expander *x, const Node *n, Node *const *copy, bool per_replica, int o)
{
    ValueId v = n->out[o];
    Place at = x->t->value[v.i];
    bool by_device = place_by_device(at);
    int count = copies_in(x, at);

    if (!(x->native[v.i] = ARENA_NEW(x->a, ValueId, count)))
        return FAIL_NOMEM();
    for (int i = 0; i < count; i++)
        x->native[v.i][i] = stand_in(x, v, at, i, copy[by_device && per_replica ? x->p->first_replica[i] : i]->out[o]);
    return x->g->status;
}

/* The node, if its first copy takes its place and that of its outputs; NULL where parts of the outputs may be made from
 * what it reads (value_copies.c, made_in_parts). */
static Node *to_renew(Node *n) { return n->op->shape_in ? NULL : n; }

/* The node as it was before its first copy took its place. */
static Status remember(Expander *x, Node *out, const Node *n)
{
    *out = *n;
    out->in = arena_memdup(x->once, n->in, (size_t)n->n_in * sizeof *n->in);
    return out->in || !n->n_in ? ST_OK : FAIL_NOMEM();
}

static Status expand_copy_node(Expander *x, Node *n, const Node *was, const ValueId *const *lists, bool per_replica,
                               Node **copy)
{
    const int count = per_replica ? x->p->replicas : x->p->devices;
    ValueId *in = ARENA_NEW(x->once, ValueId, was->n_in);
    Node *first = to_renew(n);

    if (!in)
        return FAIL_NOMEM();
    for (int k = 0; k < count; k++) {
        int d = per_replica ? x->p->device_of[k] : k, like = per_replica ? replica_like(x->p, k) : x->p->like[k];

        if (like != k) {
            copy[k] = copy[like];
            continue;
        }
        for (int i = 0; i < was->n_in; i++) {
            const bool anew = !lists[i] && has_value(was->in[i]);
            const ValueId *list = anew ? gathered_for(x, was->in[i], was, per_replica ? k : -1) : lists[i];

            if (anew && !list)
                return fail_or_nomem(x);
            in[i] = !list ? NO_VALUE : list[place_by_device(x->t->want[was->index][i]) ? d : k];
        }
        for (int i = 0; per_replica && i < was->n_in; i++) { /* constants of the replica's length */
            const ValueId own = own_constant(x, was, i, k);

            TRY(x->g->status);
            in[i] = has_value(own) ? own : in[i];
        }
        if (!(copy[k] = clone_node(x, was, first, in, per_replica ? k : -1, d)))
            return fail_or_nomem(x);
        first = NULL;
    }
    return ST_OK;
}

/* Copies a random node: each replica's outputs are the positions that it has of a part of the longest length. */
static Status expand_drawn(Expander *x, Node *n)
{
    const ValueId **lists = ARENA_NEW(x->once, const ValueId *, n->n_in);
    ValueId *in = ARENA_NEW(x->once, ValueId, n->n_in);

    if (!lists || !in)
        return FAIL_NOMEM();
    TRY(expand_gather_inputs(x, n, true, lists));
    for (int o = 0; o < 2; o++)
        if (!(x->native[n->out[o].i] = ARENA_NEW(x->a, ValueId, x->p->replicas)))
            return FAIL_NOMEM();
    for (int r = 0; r < x->p->replicas; r++) {
        ValueId out[2];
        Node *drawn;

        for (int i = 0; i < n->n_in; i++)
            in[i] = lists[i][place_by_device(x->t->want[n->index][i]) ? x->p->device_of[r] : r];
        if (variant_of(x->p, r)) {
            TRY(draw_part(x, n, in, r, out));
        } else {
            if (!(drawn = clone_node(x, n, NULL, in, r, x->p->device_of[r])))
                return fail_or_nomem(x);
            memcpy(out, drawn->out, sizeof out);
        }
        for (int o = 0; o < 2; o++)
            x->native[n->out[o].i][r] = out[o];
    }
    return x->g->status;
}

/* Makes one copy, on the device of the loss, that reads whole values. */
static Status expand_there(Expander *x, Node *n)
{
    const int d = x->p->like[x->p->loss_device];
    ValueId *in = ARENA_NEW(x->once, ValueId, n->n_in);
    Node was, *copy;

    if (!in)
        return FAIL_NOMEM();
    TRY(remember(x, &was, n));
    for (int i = 0; i < was.n_in; i++) {
        const ValueId *list = NULL;

        if (!has_value(was.in[i]))
            continue;
        if (is_gathered(x, was.in[i]))
            list = gathered_for(x, was.in[i], &was, -1);
        in[i] = list ? list[d] : whole_there(x, was.in[i]);
        if (!has_value(in[i]))
            return fail_or_nomem(x);
    }
    if (!(copy = clone_node(x, &was, to_renew(n), in, -1, d)))
        return fail_or_nomem(x);
    for (int o = 0; o < was.n_out; o++)
        if (has_value(was.out[o])) {
            x->there[was.out[o].i] = copy->out[o];
            x->made_there[was.out[o].i] = true;
        }
    return x->g->status;
}

/* ---- of one replica's part ---- */

/* Replica r's copy of a value that every replica has, or r alone. */
static ValueId on_replica(Expander *x, ValueId v, int r)
{
    const ValueId *list;

    if (x->t->value_only_on[v.i])
        return x->there[v.i];
    list = copies_of(x, v, PLACE_B);
    return list ? list[x->p->device_of[r]] : NO_VALUE;
}

static Status expand_on_replica(Expander *x, Node *n, int r)
{
    ValueId *in = ARENA_NEW(x->once, ValueId, n->n_in);
    Node was, *copy;

    if (!in)
        return FAIL_NOMEM();
    TRY(remember(x, &was, n));
    for (int i = 0; i < was.n_in; i++)
        if (has_value(was.in[i]) && !has_value(in[i] = on_replica(x, was.in[i], r)))
            return fail_or_nomem(x);
    if (!(copy = clone_node(x, &was, to_renew(n), in, r, x->p->device_of[r])))
        return fail_or_nomem(x);
    for (int o = 0; o < was.n_out; o++)
        if (has_value(was.out[o])) {
            x->there[was.out[o].i] = copy->out[o];
            x->made_there[was.out[o].i] = true;
        }
    return x->g->status;
}

static Status expand_one(Expander *x, Node *n)
{
    bool per_replica = runs_per_replica(x, n);
    const ValueId **lists = ARENA_NEW(x->once, const ValueId *, n->n_in);
    Node **copy = ARENA_NEW(x->once, Node *, per_replica ? x->p->replicas : x->p->devices), was;

    if (!lists || !copy)
        return FAIL_NOMEM();
    TRY(remember(x, &was, n));
    TRY(expand_gather_inputs(x, &was, per_replica, lists));
    TRY(expand_copy_node(x, n, &was, lists, per_replica, copy));
    for (int o = 0; o < was.n_out; o++)
        if (has_value(was.out[o])) {
            TRY(record_output(x, &was, copy, per_replica, o));
            if (x->t->early[was.out[o].i] && !copies_of(x, was.out[o], place_early(x->t, was.out[o])))
                return fail_or_nomem(x);
        }
    return ST_OK;
}

static Status expand_node(Expander *x, Node *n)
{
    const int only_on = x->t->only_on[n->index];

    if (only_on == PARTS_CUT) { /* each replica's part becomes its copy of that output */
        const ValueId *list = copies_of(x, n->in[0], x->t->want[n->index][0]);

        if (!list)
            return fail_or_nomem(x);
        for (int r = 0; r < n->n_out; r++) {
            x->there[n->out[r].i] = list[r];
            x->made_there[n->out[r].i] = true;
        }
        return ST_OK;
    }
    if (only_on == PARTS_JOINED) { /* the inputs become the replicas' copies of the output */
        ValueId *list = ARENA_NEW(x->a, ValueId, n->n_in);

        if (!list)
            return FAIL_NOMEM();
        for (int r = 0; r < n->n_in; r++)
            if (!has_value(list[r] = on_replica(x, n->in[r], r)))
                return fail_or_nomem(x);
        x->native[n->out[0].i] = list;
        return ST_OK;
    }
    if (only_on)
        return expand_on_replica(x, n, only_on - 1);
    if (n->op->flags & OPF_RANDOM && varies(x, n->out[0]))
        return expand_drawn(x, n);
    return x->t->there && x->t->there[n->index] ? expand_there(x, n) : expand_one(x, n);
}

/* ---- the rest ---- */

static Status expand_updates(Expander *x)
{
    Graph *g = x->g;
    int n = g->n_update;
    Update *old = arena_memdup(x->a, g->update, (size_t)n * sizeof *old);

    if (n && !old)
        return FAIL_NOMEM();
    g->n_update = 0;
    for (int i = 0; i < n; i++) {
        Place at = x->t->value[old[i].state.i];
        const ValueId *next = copies_of(x, old[i].next, at), *state = x->native[old[i].state.i];

        if (!next)
            return fail_or_nomem(x);
        for (int k = 0; k < copies_in(x, at); k++)
            if (copy_like(x, at, k) == k)
                graph_add_update(g, state[k], next[k]);
    }
    return g->status;
}

/* Adds an output, whole or as the parts of the replicas that the graph shows. */
static Status expand_output(Expander *x, const Output *o)
{
    Place at;
    const ValueId *part = x->p->outputs_apart ? own_parts(x, o->value, &at) : NULL;
    const ValueId whole = part || x->g->status ? NO_VALUE : given_out(x, o->value);

    if (!part && !has_value(whole))
        return fail_or_nomem(x);
    if (!part) {
        graph_add_output(x->g, o->name, whole);
        if (!x->g->status)
            x->g->output[x->g->n_output - 1].dim_param = o->dim_param;
        return x->g->status;
    }
    for (int i = 0; i < at.split->n; i++) {
        const char *name = arena_printf(x->once, "%s@r%d", o->name, i);

        if (!name)
            return FAIL_NOMEM();
        if (copy_like(x, at, i) == i)
            graph_add_output(x->g, name, part[i]);
    }
    return x->g->status;
}

static Status expand_nodes(Expander *x)
{
    const uint32_t n_old = x->g->n_node;
    const int n_output = x->g->n_output;
    const Output *output;

    for (uint32_t i = 1; i < x->n_value; i++)
        if (x->g->value[i]->kind == V_STATE) {
            arena_clear(x->once);
            TRY(expand_state(x, (ValueId){ i }));
        }
    for (uint32_t i = 0; i < n_old; i++)
        if (x->g->node[i]->op) {
            arena_clear(x->once);
            TRY(expand_node(x, x->g->node[i]));
        }
    TRY(expand_updates(x));
    if (!(output = arena_memdup(x->a, x->g->output, (size_t)n_output * sizeof *output)) && n_output)
        return FAIL_NOMEM();
    x->g->n_output = 0;
    for (int i = 0; i < n_output; i++)
        TRY(expand_output(x, &output[i]));
    for (uint32_t i = 0; i < n_old; i++)
        if (x->g->node[i]->op)
            graph_remove(x->g, x->g->node[i]);
    return x->g->status;
}

Status expand_graph(Graph *g, const Partition *p, const Placements *t, Arena *a)
{
    Expander x = { .g = g, .a = a, .once = arena_create_beside(a), .p = p, .t = t, .n_value = g->n_value };
    Whole *of = ARENA_NEW(a, Whole, g->n_value);
    Status st;

    for (int d = 0; d < p->devices; d++)
        if (p->first_replica[d + 1] - p->first_replica[d] > x.turns)
            x.turns = p->first_replica[d + 1] - p->first_replica[d];
    x.backward = p->shard ? find_backward(g, a) : NULL;
    x.of = of;
    for (uint32_t i = 1; of && i < g->n_value; i++)
        of[i] = (Whole){ g->value[i]->shape, g->value[i]->dtype };
    x.gathered = ARENA_NEW(a, ValueId **, x.n_value);
    x.borrowed = p->variants && p->variants->n ? ARENA_NEW(a, ValueId *, p->variants->n) : NULL;
    x.native = ARENA_NEW(a, ValueId *, x.n_value);
    x.there = ARENA_NEW(a, ValueId, x.n_value);
    x.made_there = ARENA_NEW(a, bool, x.n_value);
    x.whole = ARENA_NEW(a, ValueId *, x.n_value);
    x.split = ARENA_NEW(a, SplitCopies *, x.n_value);
    x.other = ARENA_NEW(a, ValueId *, x.n_value);
    st = x.once && x.of && x.native && x.there && x.made_there && x.whole && x.split && x.other && x.gathered &&
                 !(p->shard && !x.backward) && !(p->variants && p->variants->n && !x.borrowed)
             ? expand_nodes(&x)
             : FAIL_NOMEM();
    arena_free(x.once);
    return st;
}
