/* The placement rules that operators share. */
#include "graph/ir/placement_rules.h"

#include <string.h>

bool split_eq(const Split *a, const Split *b)
{
    if (a == b || !a || !b)
        return a == b;
    return a->by_device == b->by_device && a->n == b->n && a->total == b->total &&
           !memcmp(a->count, b->count, (size_t)a->n * sizeof *a->count) &&
           !memcmp(a->offset, b->offset, (size_t)a->n * sizeof *a->offset);
}

void place_set_all(Placement *p, Place have)
{
    for (int i = 0; i < p->node->n_out; i++)
        p->out[i] = have;
}

bool place_any(const Placement *p, PlaceKind kind)
{
    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && p->in[i].kind == kind)
            return true;
    return false;
}

void place_mixes(Placement *p, const char *why) { p->mixes = why; }

bool place_can_split(const Placement *p, const Shape *s, Place at)
{
    const Split *split = at.split ? at.split : p->split;
    int64_t dim = at.axis == AXIS_ELEMENTS ? shape_numel(s) : at.axis >= 0 && at.axis < s->rank ? s->dim[at.axis] : -1;

    if (dim < 0 || at.blocks < 1 || (at.blocks > 1 && s->rank >= MAX_RANK) || dim % at.blocks)
        return false;
    return split->total ? dim / at.blocks % split->total == 0 : dim == 0;
}

static const Shape *in_shape(const Placement *p, int i) { return in_value(p->g, p->node, i)->shape; }

static void need_b_from(Placement *p, int first)
{
    for (int i = first; i < p->node->n_in; i++)
        p->in[i] = PLACE_B;
}

Status place_all_b(Placement *p)
{
    if (place_any(p, PL_S))
        place_mixes(p, "it has no rule for a split input");
    need_b_from(p, 0);
    place_set_all(p, PLACE_B);
    return ST_OK;
}

/* ---- elementwise ---- */

/* The input whose split axis is farthest from the last axis, where broadcasting aligns shapes; -1: none is split. */
static int leading_split(const Placement *p)
{
    int best = -1, best_right = 0;

    for (int i = 0; i < p->node->n_in; i++) {
        int right = has_value(p->node->in[i]) && p->in[i].kind == PL_S ? in_shape(p, i)->rank - p->in[i].axis : 0;

        if (right > best_right) {
            best = i;
            best_right = right;
        }
    }
    return best;
}

/* The placement of input i when the output is split `right` axes from the end, where it has size `dim`: split, too,
 * unless the input is broadcast there.  A split axis of size 1 (a batch of one) may be broadcast: its parts have size 1
 * or 0, and become `dim` or 0.  If `dim` is 1, too, nothing is broadcast and all inputs are split, since an operator
 * that does not broadcast needs parts of one size; except an elementwise operator's inputs that carry no batch. */
static Place follow_split(const Placement *p, int i, int right, int64_t dim)
{
    const Shape *s = in_shape(p, i);
    int axis = s->rank - right;
    bool split_there = p->in[i].kind == PL_S && p->in[i].axis == axis;
    bool known_whole = in_value(p->g, p->node, i)->batch_axis == BATCH_NONE && p->split->total == 1 && dim == 1;

    if (axis < 0 || (known_whole && !split_there && p->node->op->elementwise))
        return PLACE_B;
    return split_there || s->dim[axis] == dim ? PLACE_S(axis) : PLACE_B;
}

/* A split by device, by elements: inputs of the output's shape are split like it, single numbers are whole.  If there
 * are inputs of other shapes, the pieces are gathered first. */
static Status split_elements(Placement *p)
{
    const Shape *y = value(p->g, p->node->out[0])->shape;
    bool fit = y->rank > 0;

    for (int i = 0; i < p->node->n_in; i++)
        fit &= !has_value(p->node->in[i]) || !in_shape(p, i)->rank || shape_eq(in_shape(p, i), y);
    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && (fit || p->in[i].kind == PL_S))
            p->in[i] = fit && in_shape(p, i)->rank ? PLACE_S(AXIS_ELEMENTS) : PLACE_B;
    if (!fit)
        return place_elementwise(p);
    place_set_all(p, PLACE_S(AXIS_ELEMENTS));
    return ST_OK;
}

static Status split_elementwise(Placement *p, int split)
{
    int rank = 0, right = in_shape(p, split)->rank - p->in[split].axis;
    int64_t dim = 1; /* the output's size `right` axes from its end */

    for (int i = 0; i < p->node->n_in; i++) {
        const Shape *x = has_value(p->node->in[i]) ? in_shape(p, i) : NULL;

        if (x && x->rank >= right && x->dim[x->rank - right] != 1)
            dim = x->dim[x->rank - right];
    }
    for (int i = 0; i < p->node->n_in; i++) {
        if (!has_value(p->node->in[i]))
            continue;
        if (in_shape(p, i)->rank > rank)
            rank = in_shape(p, i)->rank;
        if (p->in[i].kind == PL_S && in_shape(p, i)->rank - p->in[i].axis != right)
            place_mixes(p, "its inputs are split along different axes");
        if (p->in[i].kind != PL_L || follow_split(p, i, right, dim).kind == PL_S)
            p->in[i] = follow_split(p, i, right, dim);
    }
    place_set_all(p, PLACE_S(rank - right));
    return ST_OK;
}

Status place_elementwise(Placement *p)
{
    int split = leading_split(p);

    if (split >= 0)
        return p->split->by_device ? split_elements(p) : split_elementwise(p, split);
    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_P)
            p->in[i] = PLACE_B;
    place_set_all(p, place_any(p, PL_L) ? PLACE_L : PLACE_B);
    return ST_OK;
}

Status place_update(Placement *p)
{
    return place_any(p, PL_S) && p->split->by_device ? place_elementwise(p) : place_all_b(p);
}

Status place_linear(Placement *p)
{
    need_b_from(p, 1);
    place_set_all(p, p->in[0]);
    return ST_OK;
}

/* A partial state (a sum kept from step to step) takes a whole addend as replica 0's part, so nothing is reduced. */
Status place_add(Placement *p)
{
    bool partial = p->node->n_in > 0, addends = true, state = false;

    for (int i = 0; i < p->node->n_in; i++) {
        const bool present = has_value(p->node->in[i]), is_p = p->in[i].kind == PL_P;

        partial &= !present || is_p;
        addends &= present && (is_p || p->in[i].kind == PL_B);
        state |= is_p && in_value(p->g, p->node, i)->partial;
    }
    if (!partial && !(addends && state))
        return place_elementwise(p);
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = PLACE_P;
    place_set_all(p, PLACE_P);
    return ST_OK;
}

Status place_mul(Placement *p)
{
    bool one_partial =
        (p->in[0].kind == PL_P && p->in[1].kind == PL_B) || (p->in[0].kind == PL_B && p->in[1].kind == PL_P);

    if (!one_partial)
        return place_elementwise(p);
    place_set_all(p, PLACE_P);
    return ST_OK;
}

Status place_div(Placement *p)
{
    if (p->in[0].kind != PL_P || p->in[1].kind == PL_S || p->in[1].kind == PL_L ||
        !dtype_is_float(in_value(p->g, p->node, 0)->dtype))
        return place_elementwise(p);
    p->in[1] = PLACE_B;
    place_set_all(p, PLACE_P);
    return ST_OK;
}

Status place_all_but_axis(Placement *p)
{
    int64_t axis = node_int(p->node, "axis");

    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_S && p->in[i].axis == axis) {
            place_mixes(p, "it works along the split axis");
            p->in[i] = PLACE_B;
        }
    return place_elementwise(p);
}

Status place_batch0(Placement *p)
{
    need_b_from(p, 1);
    if (p->in[0].kind == PL_S && p->in[0].axis != 0)
        place_mixes(p, "it is split along another axis than the batch");
    if (p->in[0].kind != PL_L && (p->in[0].kind != PL_S || p->in[0].axis != 0))
        p->in[0] = PLACE_B;
    place_set_all(p, p->in[0]);
    return ST_OK;
}

/* ---- axes that move ---- */

Status place_moved(Placement *p, const int to[MAX_RANK], const char *why)
{
    Place x = p->in[0];

    need_b_from(p, 1);
    if (x.kind == PL_S && to[x.axis] < 0) {
        place_mixes(p, why);
        p->in[0] = x = PLACE_B;
    }
    place_set_all(p, x.kind == PL_S ? PLACE_S(to[x.axis]) : x);
    return ST_OK;
}

Status place_reduce(Placement *p, unsigned mask, bool keepdims, bool sum)
{
    int to[MAX_RANK], n = 0;

    need_b_from(p, 1);
    if (sum && p->in[0].kind == PL_S && (mask >> p->in[0].axis & 1)) {
        place_set_all(p, PLACE_P);
        return ST_OK;
    }
    if (!sum && p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    for (int i = 0; i < in_shape(p, 0)->rank; i++) {
        bool gone = mask >> i & 1;

        to[i] = gone ? -1 : n;
        n += !gone || keepdims;
    }
    return place_moved(p, to, "it reduces along the split axis");
}

/* A batch of one sample fits any axis.  Then: 1 + the axis of the node's result that grows with the batch, as marked,
 * else the one with -1 in the target shape; 0: unknown, or a larger batch. */
static int growing_axis(const Placement *p)
{
    const Tensor *target = in_const(p->g, p->node, 1);
    int8_t marked = value(p->g, p->node->out[0])->batch_axis;

    if (p->split->total != 1 || marked != BATCH_UNKNOWN)
        return p->split->total == 1 && marked > 0 ? marked : 0;
    for (int64_t i = 0; target && i < tensor_numel(target); i++)
        if (tensor_int(target, i) == -1)
            return (int)i + 1;
    return 0;
}

static bool same_size(Place to, const Shape *y, Place at, const Shape *x)
{
    return to.blocks == 1 && y->dim[to.axis] == x->dim[at.axis];
}

/* x is split at `at`; y has the same elements in the same order.  Returns the split of y that gives every replica the
 * same elements; axis -1: there is none.  x is split anew for each index of the axes before at.axis and each block, so
 * y must have as many blocks, each a multiple of the batch.  Among several splits the axis that grows with the batch is
 * best, then an axis of the same size in one block, then the fewest blocks.  For example x [4,N,3], split along axis 1,
 * as y [4*N,3]: axis 0 in 4 blocks. */
static Place reshaped(const Placement *p, const Shape *x, Place at, const Shape *y)
{
    int64_t rounds = shape_count(x, 0, at.axis) * at.blocks, here = 1;
    Place found = PLACE_ROWS(-1, 0);
    int grows = growing_axis(p);
    bool same = false;

    for (int b = 0; b < y->rank && here > 0; here *= y->dim[b++]) {
        Place to = PLACE_ROWS(b, rounds % here ? 0 : rounds / here);

        if (!place_can_split(p, y, to))
            continue;
        if (grows == b + 1)
            return to;
        if (found.axis < 0 || (!same && (same_size(to, y, at, x) || to.blocks < found.blocks))) {
            found = to;
            same = same_size(to, y, at, x);
        }
    }
    return found;
}

Status place_reshape(Placement *p)
{
    const Shape *x = in_shape(p, 0), *y = value(p->g, p->node->out[0])->shape;
    Place to = p->in[0];

    need_b_from(p, 1);
    if (to.kind == PL_S)
        to = shape_known(y) ? reshaped(p, x, to, y) : PLACE_S(-1);
    if (to.kind == PL_S && to.axis < 0) {
        place_mixes(p, "the new shape tears the batch apart");
        p->in[0] = to = PLACE_B;
    }
    place_set_all(p, to);
    return ST_OK;
}

Status place_expand(Placement *p)
{
    const Shape *x = in_shape(p, 0), *y = value(p->g, p->node->out[0])->shape;
    int to[MAX_RANK];

    for (int a = 0; a < x->rank; a++)
        to[a] = shape_known(y) && y->rank >= x->rank ? y->rank - x->rank + a : -1;
    return place_moved(p, to, "the shape is not known");
}

/* ---- the preparation for all rules ---- */

/* Finds the first number of blocks above 1 and gathers inputs that are split in other blocks; if the rule does not pass
 * blocks on, gathers all that are split in blocks.  Returns the number of blocks. */
static int64_t agree_on_blocks(Placement *p, bool pass)
{
    int64_t blocks = 1;

    for (int i = 0; i < p->node->n_in && blocks == 1; i++)
        if (has_value(p->node->in[i]) && p->in[i].kind == PL_S)
            blocks = p->in[i].blocks;
    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_S && blocks > 1 && (!pass || p->in[i].blocks != blocks)) {
            place_mixes(p, pass ? "its inputs are split along different axes"
                                : "the batch is not the first of the axes that were joined");
            p->in[i] = PLACE_B;
        }
    return blocks;
}

static void set_blocks(Place *at, int n, int64_t blocks)
{
    for (int i = 0; i < n; i++)
        if (at[i].kind == PL_S)
            at[i].blocks = blocks;
}

/* Chooses one Split for all split inputs and gathers the others.  If an input is split by replica, or is L, that is the
 * batch's, or else the first one by replica; inputs with other slices are gathered and mixed.  Inputs split by device
 * stay split only if no input is split by replica and the operator computes element by element. */
static void agree_on_split(Placement *p, bool by_element)
{
    const Split *found = NULL;
    bool per_replica = !by_element || place_any(p, PL_L);

    for (int i = 0; i < p->node->n_in; i++)
        if (has_value(p->node->in[i]) && p->in[i].kind == PL_S && !place_by_device(p->in[i])) {
            per_replica = true;
            found = split_eq(p->in[i].split, p->split) ? p->split : found;
        }
    for (int i = 0; i < p->node->n_in; i++) {
        if (!has_value(p->node->in[i]) || p->in[i].kind != PL_S)
            continue;
        if (place_by_device(p->in[i]) && (per_replica || (found && !split_eq(found, p->in[i].split))))
            p->in[i] = PLACE_B;
        else if (!found)
            p->split = found = p->in[i].split;
        else if (!split_eq(found, p->in[i].split)) {
            place_mixes(p, "its inputs are split along different axes");
            p->in[i] = PLACE_B;
        }
    }
}

static void set_split(Place *at, int n, const Split *split)
{
    for (int i = 0; i < n; i++)
        if (at[i].kind == PL_S && !at[i].split)
            at[i].split = split;
}

Status place_by_rule(Placement *p)
{
    const OpDef *op = p->node->op;
    bool rule = op->place && node_inputs_known(p->g, p->node);
    bool own = rule && op->blocks == BLOCKS_OWN, pass = rule && (op->blocks == BLOCKS_PASS || op->elementwise);
    int64_t blocks = own ? 1 : agree_on_blocks(p, pass);

    if (!rule || !(op->flags & OPF_PIECES))
        agree_on_split(p, rule && ((op->elementwise && !op->channel_in) || op->flags & OPF_ELEMENTS));
    TRY((rule ? op->place : place_all_b)(p));
    if (pass && blocks > 1) {
        set_blocks(p->in, p->node->n_in, blocks);
        set_blocks(p->out, p->node->n_out, blocks);
    }
    set_split(p->in, p->node->n_in, p->split);
    set_split(p->out, p->node->n_out, p->split);
    return ST_OK;
}
