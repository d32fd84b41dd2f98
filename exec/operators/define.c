/* The functions of OpDef: types and shapes, placement, and the gradient that is a kernel. */
#include <string.h>

#include "exec/operators/operators.h"
#include "graph/ir/emit.h"
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"

/* ---- types and shapes ---- */

/* How many samples a gradient's node has at hand, by the first gradient that carries some; -1: none does. */
static int64_t samples_at_hand(const Graph *g, const Node *n)
{
    const dpx_operator *d = &node_role(n)->of->def;
    const Slots at = node_slots(n);

    for (int i = 0; d->flags & DPX_OPERATOR_PER_SAMPLE && i < at.n_out; i++)
        if (has_in(n, at.dout + i) && carries_samples(d->sample_outputs, i) &&
            in_value(g, n, at.dout + i)->shape->rank > d->sample_axis)
            return in_value(g, n, at.dout + i)->shape->dim[d->sample_axis];
    return -1;
}

/* The shape of input i whose value is not read: as it was for all samples, with the `here` samples at hand. */
static Status shape_unread(Shape *out, const Graph *g, const Node *n, int i, int64_t here)
{
    const dpx_operator *d = &node_role(n)->of->def;
    const int64_t all = node_int(n, ATTR_SAMPLES), *dim;
    int len, at = 0;

    dim = node_ints(n, ATTR_SHAPES, &len);
    for (int k = 0; k < i && at < len; k++)
        at += 1 + (int)dim[at];
    if (at >= len || dim[at] > MAX_RANK || at + dim[at] >= len)
        return FAIL(E_MODEL, "%s: '" ATTR_SHAPES "' lacks input %d", node_text(g, n), i);
    *out = shape_of((int)dim[at], dim + at + 1);
    if (here >= 0 && all > 0 && carries_samples(d->sample_inputs, i) && d->sample_axis < out->rank)
        out->dim[d->sample_axis] = out->dim[d->sample_axis] / all * here;
    return ST_OK;
}

static DType gradient_type(const Graph *g, const Node *n)
{
    const Slots at = node_slots(n);

    for (int i = at.dout; i < at.dout + at.n_out; i++)
        if (has_in(n, i))
            return in_value(g, n, i)->dtype;
    return DT_NONE;
}

static Status infer_gradient(Graph *g, Node *n)
{
    const Slots at = node_slots(n);
    const int answers = (at.answer >= 0) + (at.gradient_answer >= 0);
    const int64_t here = samples_at_hand(g, n);
    const DType t = gradient_type(g, n);

    if (n->n_in > at.dout + at.n_out + answers || n->n_out > at.n_in || t == DT_NONE)
        return FAIL(E_MODEL, "%s: %d inputs and %d outputs for %d and %d of the operator", node_text(g, n), n->n_in,
                    n->n_out, at.n_in, at.n_out);
    for (int i = 0; i < n->n_out; i++) {
        Shape s;

        if (!has_out(n, i))
            continue;
        if (has_in(n, i))
            s = *in_value(g, n, i)->shape;
        else
            TRY(shape_unread(&s, g, n, i, here));
        set_out(g, n, i, t, &s);
    }
    return ST_OK;
}

Status own_infer(Graph *g, Node *n)
{
    const Role r = node_role(n)->role;

    return r == ROLE_GRADIENT                     ? infer_gradient(g, n)
           : role_collects(r) || role_combines(r) ? own_infer_message(g, n)
                                                  : node_shape(NULL, g, n);
}

Status own_train(Graph *g, Node *n, const TrainMode *mode)
{
    (void)n, (void)mode;
    return g->status;
}

/* ---- placement ---- */

/* Does what the node reads at i carry samples?  Answers do not. */
static bool reads_samples(const dpx_operator *d, const Slots *at, int i)
{
    if (i < at->n_in)
        return carries_samples(d->sample_inputs, i);
    i -= at->n_in;
    if (i >= (at->dout < 0 ? 0 : 2 * at->n_out))
        return false;
    return carries_samples(d->sample_outputs, i < at->n_out ? i : i - at->n_out);
}

static bool fits_split(const Placement *p, int i)
{
    const dpx_operator *d = &node_role(p->node)->of->def;

    return in_value(p->g, p->node, i)->shape->rank > d->sample_axis &&
           place_can_split(p, in_value(p->g, p->node, i)->shape, PLACE_S(d->sample_axis));
}

/* Splits all values with samples along their axis if one of them is split; all others are whole, or each replica's own.
 * A gradient splits all it can, like the node whose answers it reads. */
static bool place_samples(Placement *p, const dpx_operator *d, const Slots *at)
{
    bool split = at->dout >= 0 && at->answer >= 0, fits = true;

    for (int i = 0; i < p->node->n_in; i++) {
        const bool samples = has_in(p->node, i) && reads_samples(d, at, i);

        split |= samples && p->in[i].kind == PL_S && p->in[i].axis == d->sample_axis;
        fits &= !samples || fits_split(p, i);
    }
    for (int i = 0; i < p->node->n_in; i++) {
        const bool samples = has_in(p->node, i) && reads_samples(d, at, i);

        if (p->in[i].kind == PL_S && !(samples && fits && p->in[i].axis == d->sample_axis))
            place_mixes(p, samples ? "its samples are split along another axis" : "every sample reads what is split");
        if (samples && split && fits)
            p->in[i] = PLACE_S(d->sample_axis);
        else if (p->in[i].kind != PL_L)
            p->in[i] = PLACE_B;
    }
    return split && fits;
}

/* All copies' messages arrive together (OPF_STACKS_L), so the answers are the same everywhere. */
static void place_combine(Placement *p)
{
    if (p->in[0].kind != PL_L)
        p->in[0] = PLACE_B;
    place_set(p, 0, PLACE_B);
}

Status own_place(Placement *p)
{
    const RoleDef *r = node_role(p->node);
    const dpx_operator *d = &r->of->def;
    const Slots at = node_slots(p->node);
    bool split;

    if (role_combines(r->role)) {
        place_combine(p);
        return ST_OK;
    }
    if (!(d->flags & DPX_OPERATOR_PER_SAMPLE)) {
        TRY(place_all_b(p));
        if (p->mixes)
            place_mixes(p, "its operator is not one of single samples");
        return ST_OK;
    }
    split = place_samples(p, d, &at);
    for (int i = 0; i < p->node->n_out; i++) {
        const bool samples = !role_collects(r->role) &&
                             carries_samples(r->role == ROLE_GRADIENT ? d->sample_inputs : d->sample_outputs, i);

        if (split)
            place_set(p, i, samples ? PLACE_S(d->sample_axis) : r->role == ROLE_GRADIENT ? PLACE_P : PLACE_L);
        else
            place_set(p, i, place_any(p, PL_L) ? PLACE_L : PLACE_B);
    }
    return ST_OK;
}

/* ---- the gradient that is a kernel ---- */

Status own_check_flow(const Grad *gr)
{
    const dpx_operator *d = &node_role(gr->node)->of->def;

    for (int i = 0; i < gr->node->n_out; i++)
        if (has_value(gr->dout[i]) && d->flags & DPX_OPERATOR_PER_SAMPLE && !carries_samples(d->sample_outputs, i))
            return FAIL(E_UNSUPPORTED, "%s: a gradient comes through output %d, which carries no samples",
                        node_text(gr->g, gr->node), i);
    return ST_OK;
}

/* A kernel has one type. */
static Status define_check_types(const Grad *gr, int n_in)
{
    const Graph *g = gr->g;
    DType t = DT_NONE;

    for (int i = 0; i < gr->node->n_out && !t; i++)
        if (has_value(gr->dout[i]))
            t = value(g, gr->dout[i])->dtype;
    for (int i = 0; i < n_in; i++)
        if (gr->wanted[i] && value(g, gr->node->in[i])->dtype != t)
            return FAIL(E_UNSUPPORTED, "%s: input %d is %s, the gradient by an output %s", node_text(g, gr->node), i,
                        dtype_name(value(g, gr->node->in[i])->dtype), dtype_name(t));
    return ST_OK;
}

/* For ATTR_SHAPES and ATTR_SAMPLES. */
static const int64_t *shapes_of(const Grad *gr, const dpx_operator *d, int n_in, int *len, int64_t *samples)
{
    const Node *n = gr->node;
    int64_t *dim = ARENA_NEW(gr->g->arena, int64_t, (size_t)n_in * (1 + MAX_RANK));

    *len = 0;
    *samples = 0;
    for (int i = 0; dim && i < n_in; i++) {
        const Shape none = shape_scalar(), *s = has_in(n, i) ? in_value(gr->g, n, i)->shape : &none;

        dim[(*len)++] = s->rank;
        for (int k = 0; k < s->rank; k++)
            dim[(*len)++] = s->dim[k];
    }
    for (int i = 0; d->flags & DPX_OPERATOR_PER_SAMPLE && i < n->n_out && !*samples; i++)
        if (has_value(gr->dout[i]) && value(gr->g, gr->dout[i])->shape->rank > d->sample_axis)
            *samples = value(gr->g, gr->dout[i])->shape->dim[d->sample_axis];
    return dim;
}

/* Lists what the kernel reads, but for answers: the declared inputs and outputs, and the gradients.  Returns how many.
 */
static int list_reads(const Grad *gr, const Slots *at, ValueId *in)
{
    const dpx_operator *d = &node_role(gr->node)->of->def;
    const Node *n = gr->node;
    int k = 0;

    for (int i = 0; i < at->n_in; i++)
        in[k++] = bit_of(d->gradient_inputs, i) ? n->in[i] : NO_VALUE;
    for (int i = 0; i < at->n_out; i++)
        in[k++] = bit_of(d->gradient_outputs, i) ? n->out[i] : NO_VALUE;
    for (int i = 0; i < at->n_out; i++)
        in[k++] = gr->dout[i];
    return k;
}

/* Adds the answers that it reads, that of the gradient's own messages among them. */
static Status list_answers(Grad *gr, const Slots *at, const Attr *more, ValueId *in, int *n_in)
{
    const Operator *o = node_role(gr->node)->of;
    SharedSizes sizes;

    if (at->answer < 0)
        return ST_OK;
    in[(*n_in)++] = gr->node->in[at->answer];
    if (!o->gradient_shares)
        return ST_OK;
    TRY(node_shape(&sizes, gr->g, (Node *)(uintptr_t)gr->node));
    in[*n_in] =
        node_share(gr->g, gr->node, ROLE_GRADIENT_COLLECT, ROLE_GRADIENT_COMBINE, more, sizes.gradient, *n_in, in);
    ++*n_in;
    return gr->g->status;
}

Status own_grad_kernel(Grad *gr)
{
    const Operator *o = node_role(gr->node)->of;
    const Slots at = node_slots(gr->node);
    const Node *n = gr->node;
    Graph *g = gr->g;
    ValueId *in = ARENA_NEW(g->arena, ValueId, at.n_in + 2 * at.n_out + 2);
    const char **names = ARENA_NEW(g->arena, const char *, at.n_in);
    int64_t samples;
    int len, n_in;
    const int64_t *shapes = shapes_of(gr, &o->def, at.n_in, &len, &samples);
    const Attr *more = ATTRS(INT(ATTR_INPUTS, at.n_in), INT(ATTR_OUTPUTS, at.n_out), INTS(ATTR_SHAPES, len, shapes),
                             INT(ATTR_SAMPLES, samples)),
               *attrs = node_attrs_with(g, n, more);
    Node *made;

    TRY(own_check_flow(gr));
    TRY(define_check_types(gr, at.n_in));
    if (!in || !names || !shapes || !attrs)
        return FAIL_NOMEM();
    for (int i = 0; i < at.n_in; i++)
        names[i] = gr->wanted[i] ? NULL : "";
    n_in = list_reads(gr, &at, in);
    TRY(list_answers(gr, &at, more, in, &n_in));
    if (!(made = graph_add_node(g, &o->role[ROLE_GRADIENT].op, NULL, attrs, n_in, in, at.n_in, names)))
        return g->status;
    TRY(node_normalise(g, made));
    TRY(node_infer(g, made));
    for (int i = 0; i < made->n_out; i++)
        if (has_out(made, i))
            grad_set(gr, i, made->out[i]);
    return g->status;
}
