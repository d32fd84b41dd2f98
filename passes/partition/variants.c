/* Replicas whose samples reach less far than the batch's longest.
 *
 * A step's graph depends on the length: sizes of reshapes, folded masks and positions.  So each length that a replica
 * has takes all passes up to here like a batch of that length.  Each node of these graphs is the same node in all: they
 * are walked side by side, and if one has another form the longest is taken for all.  A replica's copy of a node then
 * has the attributes, constants and shapes of its graph.
 *
 * That is right where nothing brings together what differs.  A sample's part of a split value is what the model makes
 * of that sample at its length; a partial sum adds up such; what is whole differs by length and is each replica's own.
 * A node that needs all parts in one tensor of one shape, or a number that holds for the whole batch and follows its
 * length (a mean over all positions), is found here and named. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"
#include "passes/options/replicas.h"
#include "passes/partition/variant_options.h"

/* ---- which lengths there are ---- */

static bool same_reach(const BuildOptions *opt, int r, int s)
{
    const InputOptions *inputs = input_options(opt);

    for (int i = 0; i < inputs->n_reach; i++)
        if (inputs->reach[i].size[r] != inputs->reach[i].size[s])
            return false;
    return true;
}

static const Shape *bound_shape(const BuildOptions *opt, const char *name)
{
    const TargetOptions *target = target_options(opt);
    const BatchOptions *batch = batch_options(opt);

    for (int i = 0; i < batch->n_input_shape; i++)
        if (!strcmp(batch->input_shape[i].name, name))
            return &batch->input_shape[i].shape;
    return target->target_shape && !strcmp(name, target_name(opt)) ? target->target_shape : NULL;
}

static bool is_longest(const BuildOptions *opt, int r)
{
    const InputOptions *inputs = input_options(opt);

    for (int i = 0; i < inputs->n_reach; i++) {
        const Shape *s = bound_shape(opt, inputs->reach[i].name);

        if (s && inputs->reach[i].axis < s->rank && inputs->reach[i].size[r] < s->dim[inputs->reach[i].axis])
            return false;
    }
    return true;
}

static void shorten(Shape *s, const InputReach *x, int r)
{
    if (x->axis < s->rank && x->size[r] < s->dim[x->axis])
        s->dim[x->axis] = x->size[r];
}

/* Fills in the shapes of replica r's inputs and target. */
static Status variants_describe(Variant *k, const BuildOptions *opt, int r, Arena *a)
{
    const BatchOptions *batch = batch_options(opt);
    const TargetOptions *target = target_options(opt);
    const InputOptions *inputs = input_options(opt);

    if (!(k->input = arena_memdup(a, batch->input_shape, (size_t)batch->n_input_shape * sizeof *k->input)))
        return FAIL_NOMEM();
    k->target = target->target_shape ? *target->target_shape : shape_unknown();
    for (int i = 0; i < inputs->n_reach; i++) {
        const InputReach *reach = &inputs->reach[i];

        for (int n = 0; n < batch->n_input_shape; n++)
            if (!strcmp(k->input[n].name, reach->name))
                shorten(&k->input[n].shape, reach, r);
        if (target->target_shape && !strcmp(reach->name, target_name(opt)))
            shorten(&k->target, reach, r);
    }
    return ST_OK;
}

static Status find_lengths(Variants *v, const BuildOptions *opt)
{
    const int replicas = v->replicas = replica_count(opt);

    v->of = ARENA_NEW(v->arena, int, replicas);
    v->list = ARENA_NEW(v->arena, Variant, replicas);
    if (!v->of || !v->list)
        return FAIL_NOMEM();
    for (int r = 0; r < replicas; r++) {
        int like = 0;

        v->of[r] = -1;
        if (is_longest(opt, r))
            continue;
        while (like < r && !same_reach(opt, like, r))
            like++;
        v->of[r] = like < r ? v->of[like] : v->n;
        if (like == r)
            TRY(variants_describe(&v->list[v->n++], opt, r, v->arena));
    }
    return ST_OK;
}

Status variants_create(Variants **out, const Graph *g, const BuildOptions *opt)
{
    Arena *a;
    Variants *v;
    Status st;

    *out = NULL;
    if (!input_options(opt)->n_reach || replica_count(opt) < 2 || replica_options(opt)->world ||
        build_mode(opt) == BUILD_APPLY)
        return ST_OK;
    a = arena_create_beside(g->arena);
    if (!a || !(v = ARENA_NEW(a, Variants, 1))) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    v->arena = a;
    st = find_lengths(v, opt);
    for (int i = 0; i < v->n && !st; i++)
        st = graph_clone_lending(&v->list[i].g, g);
    if (st || !v->n)
        variants_free(v);
    else
        *out = v;
    return st;
}

void variants_free(Variants *v)
{
    if (!v)
        return;
    for (int i = 0; v->list && i < v->n; i++)
        graph_free(v->list[i].g);
    arena_free(v->arena);
}

/* Removes a variant; the last takes its place. */
static void drop_one(Variants *v, int i)
{
    graph_free(v->list[i].g);
    v->n--;
    for (int r = 0; r < v->replicas; r++)
        v->of[r] = v->of[r] == i ? -1 : v->of[r] == v->n ? i : v->of[r];
    v->list[i] = v->list[v->n];
}

Status variants_drop(Variants *v, int i, Status why)
{
    if (!why || why == E_NOMEM)
        return why;
    snprintf(v->why, sizeof v->why, "%s", status_message());
    if (i >= 0)
        drop_one(v, i);
    while (i < 0 && v->n)
        drop_one(v, 0);
    return ST_OK;
}

void variant_options(VariantOptions *out, const Variants *v, int i, const BuildOptions *opt)
{
    *out = (VariantOptions){ *opt, *batch_options(opt), *input_options(opt), *target_options(opt) };
    out->batch.input_shape = v->list[i].input;
    out->inputs.n_reach = 0;
    out->inputs.reach_kept = NULL;
    out->target.target_shape = out->target.target_shape ? &v->list[i].target : NULL;
    out->target.class_axis_found = NULL;
    out->build.batch = &out->batch;
    out->build.inputs = &out->inputs;
    out->build.target = &out->target;
}

/* ---- side by side ---- */

static Status unlike(const Graph *g, const Node *n, const char *what)
{
    return FAIL(E_UNSUPPORTED, "%s: a shorter batch has another %s here", node_text(g, n), what);
}

static bool same_data(const Tensor *a, const Tensor *b)
{
    return shape_eq(&a->shape, &b->shape) &&
           (a->data == b->data || (a->data && b->data && !memcmp(a->data, b->data, tensor_bytes(a))));
}

/* Compares two constants.  A number of the loss that depends on the length holds for all positions of the batch. */
static Status match_constant(const Graph *g, bool *differ, const Node *n, const Value *a, const Value *b)
{
    if (b->kind != V_CONST || a->dtype != b->dtype)
        return unlike(g, n, "input");
    if (same_data(a->init, b->init))
        return ST_OK;
    if (n->phase == PHASE_CRITERION && dtype_is_float(a->dtype) && shape_eq(&a->init->shape, &b->init->shape))
        return FAIL(E_UNSUPPORTED, "%s: the loss is a mean over all positions of the batch", node_text(g, n));
    differ[n->index] = true;
    return ST_OK;
}

/* Two values that are the same one, when their kinds are. */
static Status variants_pair(const Graph *g, Variant *k, ValueId a, ValueId b, const char *what)
{
    const Value *x = value(g, a), *y = value(k->g, b);
    bool fits = x->kind == y->kind && x->dtype == y->dtype && x->shape->rank == y->shape->rank;

    if (fits && (x->kind == V_INPUT || x->kind == V_STATE))
        fits = !strcmp(x->name, y->name) && (x->kind == V_INPUT || shape_eq(x->shape, y->shape));
    if (!fits)
        return FAIL(E_UNSUPPORTED, "'%s': a shorter batch has another %s", x->name, what);
    k->of[a.i] = b;
    return ST_OK;
}

static Status match_node(const Graph *g, Variant *k, bool *differ, const Node *n, const Node *o)
{
    bool same = n->n_attr == o->n_attr;

    if (n->op != o->op || n->n_in != o->n_in || n->n_out != o->n_out)
        return FAIL(E_UNSUPPORTED, "%s: a shorter batch has %s here", node_text(g, n), node_text(k->g, o));
    for (int i = 0; i < n->n_in; i++) {
        if (has_value(n->in[i]) != has_value(o->in[i]))
            return unlike(g, n, "input");
        if (!has_value(n->in[i]))
            continue;
        if (in_value(g, n, i)->kind == V_CONST)
            TRY(match_constant(g, differ, n, in_value(g, n, i), in_value(k->g, o, i)));
        else if (!value_eq(k->of[n->in[i].i], o->in[i]))
            return unlike(g, n, "input");
    }
    for (int i = 0; same && i < n->n_attr; i++)
        same = !strcmp(n->attr[i].name, o->attr[i].name) && n->attr[i].type == o->attr[i].type &&
               attr_same(&n->attr[i], &o->attr[i]);
    differ[n->index] |= !same;
    for (int i = 0; i < n->n_out; i++) {
        if (has_value(n->out[i]) != has_value(o->out[i]))
            return unlike(g, n, "output");
        if (has_value(n->out[i]))
            TRY(variants_pair(g, k, n->out[i], o->out[i], "value"));
    }
    k->node[n->index] = o;
    return ST_OK;
}

static bool same_end(const Graph *g, const Variant *k, ValueId a, ValueId b)
{
    const Value *x = value(g, a), *y = value(k->g, b);

    return x->kind == V_CONST ? y->kind == V_CONST && x->dtype == y->dtype && same_data(x->init, y->init)
                              : value_eq(k->of[a.i], b);
}

/* Pairs the values and nodes of both graphs, inputs and states by name, nodes by order.  Sets `differ` of nodes with
 * other attributes or constants. */
static Status match_one(const Graph *g, Variant *k, bool *differ)
{
    const Graph *h = k->g;
    bool fits = g->n_output == h->n_output && g->n_update == h->n_update;
    uint32_t at = 0;

    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];
        const ValueId other = v->kind == V_INPUT || v->kind == V_STATE ? graph_find(h, v->name) : NO_VALUE;

        if (has_value(other))
            TRY(variants_pair(g, k, (ValueId){ i }, other, "shape"));
    }
    FOR_NODES(g, n) {
        while (at < h->n_node && !h->node[at]->op)
            at++;
        if (at == h->n_node)
            return unlike(g, n, "end");
        TRY(match_node(g, k, differ, n, h->node[at++]));
    }
    while (at < h->n_node && !h->node[at]->op)
        at++;
    if (at < h->n_node)
        return unlike(h, h->node[at], "node");
    for (int i = 0; fits && i < g->n_output; i++)
        fits = !strcmp(g->output[i].name, h->output[i].name) && same_end(g, k, g->output[i].value, h->output[i].value);
    for (int i = 0; fits && i < g->n_update; i++)
        fits = same_end(g, k, g->update[i].state, h->update[i].state) &&
               same_end(g, k, g->update[i].next, h->update[i].next);
    return fits ? ST_OK : FAIL(E_UNSUPPORTED, "an output or a new state depends on the length of the batch");
}

Status variants_match(Variants *v, const Graph *g, Arena *a)
{
    if (!(v->differ = ARENA_NEW(a, bool, g->n_node)))
        return FAIL_NOMEM();
    for (int i = v->n; i-- > 0;) {
        Variant *k = &v->list[i];

        k->of = ARENA_NEW(a, ValueId, g->n_value);
        k->node = ARENA_NEW(a, const Node *, g->n_node);
        if (!k->of || !k->node)
            return FAIL_NOMEM();
        TRY(variants_drop(v, i, match_one(g, k, v->differ)));
    }
    return ST_OK;
}

/* ---- placements ---- */

static bool alike(Place a, Place b) { return a.kind == b.kind && a.axis == b.axis && !a.blocks == !b.blocks; }

/* Partitions the graph of variant k and compares its placements with those of the longest, `t`. */
static Status compare_one(const Variant *k, const Graph *g, const Placements *t, const BuildOptions *opt, Arena *a)
{
    Placements own;
    Partition p;

    TRY(partition_decide(&p, k->g, opt, a, NULL));
    TRY(place_graph(&own, k->g, &p, a, NULL));
    FOR_NODES(g, n) {
        const uint32_t other = k->node[n->index]->index;
        bool same = t->only_on[n->index] == own.only_on[other];

        for (int i = 0; i < n->n_in; i++)
            same &= alike(t->want[n->index][i], own.want[other][i]);
        for (int i = 0; i < n->n_out; i++)
            same &= !has_value(n->out[i]) || alike(t->value[n->out[i].i], own.value[k->of[n->out[i].i].i]);
        if (!same)
            return FAIL(E_UNSUPPORTED, "%s: a shorter batch is divided otherwise here", node_text(g, n));
    }
    return ST_OK;
}

Status variants_compare(Variants *v, const Graph *g, const Placements *t, PassCtx *ctx, Arena *a)
{
    for (int i = v->n; i-- > 0;) {
        VariantOptions own;

        variant_options(&own, v, i, ctx->opt);
        TRY(variants_drop(v, i, compare_one(&v->list[i], g, t, &own.build, a)));
    }
    return ST_OK;
}

static bool shape_varies(const Variants *v, const Graph *g, ValueId x)
{
    for (int i = 0; i < v->n; i++)
        if (has_value(v->list[i].of[x.i]) &&
            !shape_eq(value(g, x)->shape, value(v->list[i].g, v->list[i].of[x.i])->shape))
            return true;
    return false;
}

Status variants_spread(Placements *t, const Graph *g, const Partition *p, Arena *a)
{
    const Variants *v = p->variants;

    if (!v || !v->n)
        return ST_OK;
    t->varies = ARENA_NEW(a, bool, g->n_value);
    t->own = ARENA_NEW(a, bool, g->n_node);
    if (!t->varies || !t->own)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_input; i++)
        t->varies[g->input[i].i] = shape_varies(v, g, g->input[i]);
    FOR_NODES(g, n) {
        bool own = v->differ[n->index];

        for (int i = 0; i < n->n_in; i++)
            own |= t->varies[n->in[i].i] && t->value[n->in[i].i].kind != PL_S;
        t->own[n->index] = own;
        for (int o = 0; o < n->n_out; o++) {
            const PlaceKind kind = t->value[n->out[o].i].kind;

            t->varies[n->out[o].i] =
                has_value(n->out[o]) && (shape_varies(v, g, n->out[o]) || (own && (kind == PL_B || kind == PL_L)));
        }
    }
    return ST_OK;
}

/* ---- what brings together ---- */

static bool any_varies(const Placements *t, const Node *n)
{
    bool any = t->own[n->index];

    for (int i = 0; i < n->n_in; i++)
        any |= t->varies[n->in[i].i];
    return any;
}

/* By positions of the longest, of which a part is cut. */
static bool can_be_drawn(const Placements *t, const Graph *g, const Node *n)
{
    const Place at = t->value[n->out[0].i];

    return n->op->applies && n->n_out == 2 && has_value(n->out[1]) && at.kind == PL_S && at.blocks == 1 &&
           !place_by_device(at) && value(g, n->out[0])->shape->rank < MAX_RANK;
}

/* A sum over the batch times, or over, a number that follows the length is the whole batch's to make. */
static bool scales_sum(const Placements *t, const Graph *g, const Variants *v, const Node *n)
{
    bool sum = false, number = false;

    for (int i = 0; i < n->n_in; i++) {
        const Value *x = has_value(n->in[i]) ? in_value(g, n, i) : NULL;

        sum |= x && t->want[n->index][i].kind == PL_P;
        number |= x && dtype_is_float(x->dtype) && t->value[n->in[i].i].kind == PL_B &&
                  (x->kind == V_CONST ? v->differ[n->index] : t->varies[n->in[i].i]);
    }
    return sum && number;
}

static Status check_node(const Placements *t, const Graph *g, const Variants *v, const Node *n)
{
    const char *why = NULL;

    if (!any_varies(t, n))
        return ST_OK;
    for (int i = 0; i < n->n_in && !why; i++) {
        const Place want = t->want[n->index][i], at = t->value[n->in[i].i];
        const bool constant = has_value(n->in[i]) && in_value(g, n, i)->kind == V_CONST;

        if (constant && v->differ[n->index] && (want.kind == PL_P || place_by_device(want) != (want.kind == PL_B)))
            why = "adds up a constant that follows the length";
        else if (!constant && t->varies[n->in[i].i] && !place_eq(want, at) && !(want.kind == PL_S && at.kind == PL_B))
            why = "needs the parts of all replicas as one";
    }
    for (int o = 0; o < n->n_out && !why; o++) {
        const Place at = t->value[n->out[o].i];

        if (has_value(n->out[o]) && at.kind == PL_L)
            why = "measures all positions of a part, padding too";
        else if (has_value(n->out[o]) && at.kind != PL_B && place_by_device(at))
            why = "makes a piece of a state of what follows the length";
    }
    if (!why && scales_sum(t, g, v, n))
        why = "scales a sum over the batch by a number that follows its length";
    if (!why && n->op->flags & (OPF_STACKS_L | OPF_SHARES))
        why = "shares what it computes of each part";
    if (!why && t->only_on[n->index])
        why = "is computed of one part alone";
    if (!why && n->op->flags & OPF_RANDOM && !can_be_drawn(t, g, n))
        why = "draws random numbers by where they are in the batch";
    return why ? FAIL(E_UNSUPPORTED, "%s %s", node_text(g, n), why) : ST_OK;
}

/* Parts of unlike lengths are padded to be put together: along axes of their own. */
static bool can_be_given(const Placements *t, const Graph *g, const Variants *v, ValueId x)
{
    const Place at = t->value[x.i];

    if (at.kind != PL_S || at.blocks != 1 || place_by_device(at) || value(g, x)->kind == V_INPUT)
        return false;
    for (int i = 0; i < v->n; i++)
        if (value(v->list[i].g, v->list[i].of[x.i])->shape->dim[at.axis] != value(g, x)->shape->dim[at.axis])
            return false;
    return true;
}

Status variants_check(const Placements *t, const Graph *g, const Partition *p)
{
    const Variants *v = p->variants;

    if (p->loss_device >= 0)
        return FAIL(E_UNSUPPORTED, "--loss-at outputs takes the outputs of all replicas as one");
    for (int i = 0; i < g->n_input; i++)
        if (t->varies[g->input[i].i] && t->value[g->input[i].i].kind != PL_S)
            return FAIL(E_UNSUPPORTED, "input '%s' is given to every replica in full", value(g, g->input[i])->name);
    FOR_NODES(g, n)
        TRY(check_node(t, g, v, n));
    for (int i = 0; i < g->n_output; i++)
        if (t->varies[g->output[i].value.i] && !can_be_given(t, g, v, g->output[i].value))
            return FAIL(E_UNSUPPORTED, "output '%s' cannot be joined from parts of different lengths",
                        g->output[i].name);
    for (int i = 0; i < g->n_update; i++)
        if (t->varies[g->update[i].next.i])
            return FAIL(E_UNSUPPORTED, "state '%s' would follow the length", value(g, g->update[i].state)->name);
    return ST_OK;
}

void variants_settle(Placements *t, const Graph *g)
{
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (t->varies[n->in[i].i] && t->want[n->index][i].kind == PL_B)
                t->want[n->index][i] = PLACE_L;
    for (uint32_t i = 1; i < g->n_value; i++)
        if (t->varies[i] && t->value[i].kind == PL_B)
            t->value[i] = PLACE_L;
}
