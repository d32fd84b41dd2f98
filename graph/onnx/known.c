/* What conditions and trip counts are, where the file alone says it: integers and bools that come from its constants
 * and from sizes that it fixes, by the few operators that exporters compute them with.
 *
 * Numbers and short vectors only, element by element: of a shape [N, 3, 8] the 3 and the 8 are known.  Whatever is not
 * understood is not known, which is never wrong.  Results are kept by value, so that a counter that a loop carries
 * costs a step for each trip. */
#include <string.h>

#include "graph/onnx/internal.h"

enum { MAX_KNOWN = 32, MAX_STEPS = 200 };

typedef struct Known {
    int n;       /* elements; -1: nothing is known */
    bool vector; /* else a scalar */
    bool sized;  /* sizes of inputs have a part in it */
    int64_t v[MAX_KNOWN];
    bool is[MAX_KNOWN]; /* is the element known? */
} Known;

static const Known unknown = { .n = -1 };

static const Known *known_of(Importer *im, ValueId v, int steps);

/* ---- shapes ---- */

/* Infers the nodes read so far, those whose inputs have known shapes.  What fails here fails again in the pass that
 * infers all. */
static void infer_so_far(Importer *im)
{
    Graph *g = im->g;

    if (im->problems.n || g->status) /* what was refused may have left nodes that are not whole */
        return;
    for (; im->n_inferred < g->n_node; im->n_inferred++) {
        Node *n = g->node[im->n_inferred];

        if (n->op && node_infer(g, n))
            g->status = ST_OK;
    }
}

/* -1 for sizes that are open; rank -1: nothing is known. */
static Shape shape_so_far(Importer *im, ValueId v)
{
    const Graph *g = im->g;

    infer_so_far(im);
    while (value(g, v)->producer && !shape_known(&value(g, v)->shape)) {
        const Node *n = value(g, v)->producer;

        if (!n->op || n->n_in != 1 || !has_value(n->in[0]) || (!n->op->elementwise && n->op != &op_Identity))
            return shape_unknown();
        v = n->in[0];
    }
    return value(g, v)->shape;
}

/* ---- elements ---- */

static Known nothing(void) { return unknown; }

static void set(Known *k, int i, int64_t v)
{
    k->v[i] = v;
    k->is[i] = true;
}

static bool fits_int32(int64_t v) { return v >= INT32_MIN && v <= INT32_MAX; }

/* Sums and products beyond 32 bits may depend on the type, which is not known here. */
static void set_result(Known *k, int i, bool overflow, int64_t v)
{
    if (!overflow && fits_int32(v))
        set(k, i, v);
}

static Known of_constant(const Tensor *t)
{
    Known k = { .n = t->shape.rank == 1 ? (int)(t->shape.dim[0] > MAX_KNOWN ? -1 : t->shape.dim[0]) : 1,
                .vector = t->shape.rank == 1 };

    if (t->shape.rank > 1 || k.n < 0 || (t->dtype != DT_INT64 && t->dtype != DT_INT32 && t->dtype != DT_BOOL))
        return nothing();
    for (int i = 0; i < k.n; i++)
        set(&k, i, tensor_int(t, i));
    return k;
}

static Known of_shape(Importer *im, const Node *n)
{
    Shape s = shape_so_far(im, n->in[0]);
    int64_t start = node_int(n, "start"), end = node_int(n, "end");
    Known k = { .vector = true, .sized = true };

    if (s.rank < 0)
        return nothing();
    start = start < -s.rank ? 0 : start < 0 ? start + s.rank : start;
    end = end > s.rank ? s.rank : end < 0 ? end + s.rank : end;
    for (int64_t a = start; a < end; a++, k.n++)
        if (s.dim[a] >= 0)
            set(&k, k.n, s.dim[a]);
    return k;
}

static Known of_size(Importer *im, const Node *n)
{
    Shape s = shape_so_far(im, n->in[0]);
    Known k = { .n = 1, .sized = true };

    if (!shape_known(&s))
        return nothing();
    set(&k, 0, shape_numel(&s));
    return k;
}

static void compute(Known *out, int i, const OpDef *op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool overflow = op == &op_Add   ? __builtin_add_overflow(a, b, &r)
                    : op == &op_Sub ? __builtin_sub_overflow(a, b, &r)
                    : op == &op_Mul ? __builtin_mul_overflow(a, b, &r)
                                    : op == &op_Div && (!b || !fits_int32(a));

    if (op == &op_Div && !overflow)
        r = a / b;
    if (op == &op_Add || op == &op_Sub || op == &op_Mul || op == &op_Div)
        set_result(out, i, overflow, r);
    else
        set(out, i,
            op == &op_Equal            ? a == b
            : op == &op_Greater        ? a > b
            : op == &op_Less           ? a < b
            : op == &op_GreaterOrEqual ? a >= b
            : op == &op_LessOrEqual    ? a <= b
            : op == &op_And            ? a && b
            : op == &op_Or             ? a || b
            : op == &op_Xor            ? !a != !b
            : op == &op_Min            ? (a < b ? a : b)
                                       : (a > b ? a : b));
}

static bool is_binary(const OpDef *op)
{
    const OpDef *const list[] = { &op_Add,         &op_Sub,     &op_Mul,  &op_Div,
                                  &op_Equal,       &op_Greater, &op_Less, &op_GreaterOrEqual,
                                  &op_LessOrEqual, &op_And,     &op_Or,   &op_Xor,
                                  &op_Min,         &op_Max };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (op == list[i])
            return true;
    return false;
}

/* One side decides alone: false and anything, true or anything. */
static bool decided(const OpDef *op, const Known *k, int i)
{
    return k->is[i] && ((op == &op_And && !k->v[i]) || (op == &op_Or && k->v[i]));
}

static Known of_binary(const OpDef *op, const Known *a, const Known *b)
{
    Known k = { .n = a->n > b->n ? a->n : b->n, .vector = a->vector || b->vector };

    if (a->n < 0 || b->n < 0 || (a->n != b->n && a->n != 1 && b->n != 1))
        return nothing();
    if (!a->n || !b->n)
        k.n = 0;
    for (int i = 0; i < k.n; i++) {
        int ia = a->n == 1 ? 0 : i, ib = b->n == 1 ? 0 : i;

        if (a->is[ia] && b->is[ib])
            compute(&k, i, op, a->v[ia], b->v[ib]);
        else if (decided(op, a, ia) || decided(op, b, ib))
            set(&k, i, op == &op_Or);
    }
    return k;
}

static Known of_where(const Known *c, const Known *a, const Known *b)
{
    Known k = { .n = c->n, .vector = c->vector || a->vector || b->vector };

    if (c->n < 0 || a->n < 0 || b->n < 0 || a->n > c->n || b->n > c->n || (a->n != c->n && a->n != 1) ||
        (b->n != c->n && b->n != 1))
        return nothing();
    for (int i = 0; i < k.n; i++) {
        const Known *from = c->v[i] ? a : b;
        int at = from->n == 1 ? 0 : i;

        if (c->is[i] && from->is[at])
            set(&k, i, from->v[at]);
    }
    return k;
}

static Known of_cast(const Node *n, const Known *a)
{
    DType to = (DType)node_int(n, "to");
    Known k = *a;

    if (to != DT_INT64 && to != DT_INT32 && to != DT_BOOL)
        return nothing();
    for (int i = 0; i < k.n; i++) {
        k.is[i] = a->is[i] && (to != DT_INT32 || fits_int32(a->v[i]));
        k.v[i] = to == DT_BOOL ? a->v[i] != 0 : a->v[i];
    }
    return k;
}

static Known of_gather(const Known *x, const Known *index)
{
    Known k = { .n = index->n, .vector = index->vector };

    if (!x->vector || x->n < 0)
        return nothing();
    for (int i = 0; i < k.n; i++) {
        int64_t at = index->v[i] < 0 ? index->v[i] + x->n : index->v[i];

        if (index->is[i] && at >= 0 && at < x->n && x->is[at])
            set(&k, i, x->v[at]);
    }
    return k;
}

static Known of_slice(const Known *in[5])
{
    Known k = { .vector = true };
    int64_t start, end, step = 1, n = in[0]->n;

    for (int i = 1; i < 5; i++)
        if (in[i] && (in[i]->n != 1 || !in[i]->is[0]))
            return nothing();
    if (n < 0 || !in[0]->vector || !in[1] || !in[2] || (in[3] && in[3]->v[0] != 0 && in[3]->v[0] != -1))
        return nothing();
    start = in[1]->v[0];
    end = in[2]->v[0];
    step = in[4] ? in[4]->v[0] : 1;
    if (step < 1 || step > MAX_KNOWN)
        return nothing();
    start = start < -n ? 0 : start < 0 ? start + n : start;
    end = end > n ? n : end < 0 ? end + n : end;
    for (; start < end; start += step, k.n++)
        if (in[0]->is[start])
            set(&k, k.n, in[0]->v[start]);
    return k;
}

static Known of_concat(Importer *im, const Node *n, int steps)
{
    Known k = { .vector = true };

    for (int i = 0; i < n->n_in; i++) {
        const Known *part = has_in(n, i) ? known_of(im, n->in[i], steps) : NULL;

        if (!part || part->n < 0 || !part->vector || k.n + part->n > MAX_KNOWN)
            return nothing();
        k.sized |= part->sized;
        memcpy(k.v + k.n, part->v, (size_t)part->n * sizeof *k.v);
        memcpy(k.is + k.n, part->is, (size_t)part->n * sizeof *k.is);
        k.n += part->n;
    }
    return k;
}

/* Squeeze, Unsqueeze and Reshape between a scalar and a vector. */
static Known of_view(const Node *n, const Known *x, const Known *arg)
{
    Known k = *x;

    if (n->op == &op_Reshape) {
        k.vector = arg && arg->n == 1;
        return arg && (k.vector || (arg->n == 0 && x->n == 1)) ? k : nothing();
    }
    k.vector = n->op == &op_Unsqueeze;
    return (k.vector ? !x->vector && arg && arg->n == 1 : x->vector && x->n == 1) ? k : nothing();
}

static Known of_unary(const Node *n, const Known *x)
{
    Known k = *x;

    for (int i = 0; i < k.n; i++) {
        k.is[i] &= n->op != &op_Neg || x->v[i] > INT32_MIN;
        k.v[i] = n->op == &op_Not ? !x->v[i] : k.is[i] && n->op == &op_Neg ? -x->v[i] : x->v[i];
    }
    return k;
}

/* By what the inputs are; each is known, or absent. */
static Known of_inputs(const Node *n, const Known *in[5])
{
    const OpDef *op = n->op;

    if (op == &op_Identity || op == &op_Not || op == &op_Neg)
        return of_unary(n, in[0]);
    if (op == &op_Cast)
        return of_cast(n, in[0]);
    if (op == &op_Squeeze || op == &op_Unsqueeze || op == &op_Reshape)
        return of_view(n, in[0], in[1]);
    if (op == &op_Gather)
        return of_gather(in[0], in[1]);
    if (op == &op_Slice)
        return of_slice(in);
    if (op == &op_Where)
        return of_where(in[0], in[1], in[2]);
    return is_binary(op) && n->n_in == 2 && in[1] ? of_binary(op, in[0], in[1]) : nothing();
}

static Known of_node(Importer *im, const Node *n, int steps)
{
    const Known *in[5] = { NULL };
    const OpDef *op = n->op;
    bool sized = false;
    Known k;

    if (!op || !n->n_in || !has_value(n->in[0]))
        return nothing();
    if (op == &op_Shape)
        return of_shape(im, n);
    if (op == &op_Size)
        return of_size(im, n);
    if (op == &op_Concat)
        return of_concat(im, n, steps);
    for (int i = 0; i < n->n_in && i < 5; i++) {
        if (has_in(n, i) && (!(in[i] = known_of(im, n->in[i], steps)) || in[i]->n < 0))
            return nothing();
        sized |= in[i] && in[i]->sized;
    }
    k = of_inputs(n, in);
    k.sized = sized;
    return k;
}

/* ---- by value ---- */

static bool make_room(Importer *im)
{
    uint32_t n = im->g->n_value * 2;
    const Known **grown;

    if (im->n_known >= im->g->n_value)
        return true;
    if (!(grown = ARENA_NEW(im->scratch, const Known *, n)))
        return false;
    if (im->n_known)
        memcpy(grown, im->known, im->n_known * sizeof *grown);
    im->known = grown;
    im->n_known = n;
    return true;
}

/* NULL: too long a chain, or out of memory; else kept. */
static const Known *known_of(Importer *im, ValueId v, int steps)
{
    const Value *x = value(im->g, v);
    const Node *n = x->producer;
    const Known *kept;
    Known k = nothing();

    if (!steps || !make_room(im))
        return NULL;
    if (im->known[v.i])
        return im->known[v.i];
    if (x->kind == V_CONST)
        k = of_constant(x->init);
    else if (n && x->out_index == 0)
        k = of_node(im, n, steps - 1);
    if (k.n < 0)
        return im->known[v.i] = &unknown;
    if (!(kept = arena_memdup(im->scratch, &k, sizeof k)))
        return NULL;
    return im->known[v.i] = kept;
}

bool known_number(int64_t *out, Importer *im, ValueId v)
{
    const Known *k = has_value(v) ? known_of(im, v, MAX_STEPS) : NULL;

    if (!k || k->n != 1 || !k->is[0])
        return false;
    *out = k->v[0];
    return true;
}

bool known_by_size(const Importer *im, ValueId v)
{
    return v.i < im->n_known && im->known[v.i] && im->known[v.i]->sized;
}

void known_forget(Importer *im)
{
    Shape open = shape_unknown();

    for (uint32_t i = 1; i < im->g->n_value && im->n_inferred; i++)
        if (im->g->value[i]->kind == V_TEMP) {
            im->g->value[i]->dtype = DT_NONE;
            im->g->value[i]->shape = open;
        }
}

/* Of values that other open sizes keep from being inferred: what trips made, stacked.  -1: not known. */
static int64_t size_along(Importer *im, ValueId v, int64_t axis, int steps)
{
    const Node *n = value(im->g, v)->producer;
    Shape s = shape_so_far(im, v);
    const Known *axes;
    int64_t sum = 0, part;

    if (s.rank >= 0)
        return axis < s.rank ? s.dim[axis] : -1;
    if (!steps || !n || !n->op || !has_in(n, 0))
        return -1;
    if (n->op == &op_Unsqueeze) {
        axes = known_of(im, n->in[1], MAX_STEPS);
        if (!axes || axes->n != 1 || !axes->is[0] || axes->v[0] < 0)
            return -1;
        return axes->v[0] == axis ? 1 : size_along(im, n->in[0], axis - (axes->v[0] < axis), steps - 1);
    }
    if (n->op != &op_Concat || node_int(n, "axis") != axis)
        return -1;
    for (int i = 0; i < n->n_in && sum >= 0; i++) {
        part = size_along(im, n->in[i], axis, i ? 1 : steps - 1);
        sum = part < 0 || sum > INT32_MAX ? -1 : sum + part;
    }
    return sum;
}

Status known_size(int64_t *out, Importer *im, ValueId v, int64_t axis)
{
    Shape s = shape_so_far(im, v);

    *out = s.rank < 0 && axis >= 0 ? size_along(im, v, axis, MAX_STEPS) : -1;
    if (s.rank < 0)
        return ST_OK;
    if (axis < -s.rank || axis >= s.rank)
        return FAIL(E_MODEL, "axis %lld of %d dimensions", (long long)axis, s.rank);
    *out = s.dim[axis < 0 ? axis + s.rank : axis];
    return ST_OK;
}
