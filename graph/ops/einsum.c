/* Einsum: products and sums by named axes, "bhqd,bhkd->bhqk".
 *
 * It becomes matrix products, each of one input and the product of those before it.  An axis of two factors is a batch
 * axis (both have it, and it is needed later), summed (both have it, and it is not needed later) or free (one has it);
 * axes that only one has and that are not needed later are summed first.  A product is [batch, free of the first, free
 * of the second] and keeps the inputs' axes separate, so a split of the samples passes through. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/grad.h"
#include "graph/ir/op.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/view.gen.h"

/* Names of axes: letters by their code; ELLIPSIS + i is the axis of "..." with i others after it. */
enum { ELLIPSIS = 128, NAMES = ELLIPSIS + MAX_RANK, MAX_TERMS = 32 };

/* The names of a value's axes. */
typedef struct {
    ValueId v;
    int n;
    unsigned char axis[MAX_RANK];
} Term;

typedef struct {
    Term in[MAX_TERMS], out;
    int n;
    int64_t size[NAMES];
    int ellipsis; /* greatest number of axes that "..." stands for in an input */
} Equation;

static Status wrong(const Graph *g, const Node *n, const char *what)
{
    return FAIL(E_MODEL, "%s: equation '%.200s': %s", node_text(g, n), node_string(n, "equation"), what);
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool term_has(const Term *t, int name) { return t->n && memchr(t->axis, name, (size_t)t->n); }

/* Reads one term up to `end`; `dots`: the number of axes of its "...". */
static Status read_term(Term *t, const Graph *g, const Node *n, const char *s, const char *end, int dots)
{
    bool dotted = false;

    t->n = 0;
    for (; s < end; s++) {
        int count = 1;

        if (*s == ' ')
            continue;
        if (*s == '.') {
            if (end - s < 3 || s[1] != '.' || s[2] != '.' || dotted)
                return wrong(g, n, "expected one '...' a term");
            dotted = true;
            s += 2;
            count = dots;
        } else if (!is_letter(*s)) {
            return wrong(g, n, "expected letters, ',', '...' and '->'");
        }
        if (t->n + count > MAX_RANK)
            return wrong(g, n, "a term has more than 8 axes");
        for (int i = 0; i < count; i++)
            t->axis[t->n++] = (unsigned char)(*s == '.' ? ELLIPSIS + dots - 1 - i : *s);
    }
    return ST_OK;
}

/* Without "->": the axes of "...", then each letter that occurs once, in order. */
static Status implied_output(Equation *e, const Graph *g, const Node *n)
{
    e->out.n = 0;
    for (int i = e->ellipsis - 1; i >= 0; i--)
        e->out.axis[e->out.n++] = (unsigned char)(ELLIPSIS + i);
    for (int name = 0; name < ELLIPSIS; name++) {
        int count = 0;

        for (int i = 0; i < e->n; i++)
            for (int k = 0; k < e->in[i].n; k++)
                count += e->in[i].axis[k] == name;
        if (count == 1) {
            if (e->out.n == MAX_RANK)
                return wrong(g, n, "the output has more than 8 axes");
            e->out.axis[e->out.n++] = (unsigned char)name;
        }
    }
    return ST_OK;
}

static Status note_sizes(Equation *e, const Graph *g, const Node *n, int i)
{
    const Shape *s = in_value(g, n, i)->shape;

    for (int k = 0; k < s->rank; k++) {
        int64_t *size = &e->size[e->in[i].axis[k]];

        if (*size >= 0 && *size != 1 && s->dim[k] != 1 && *size != s->dim[k])
            return FAIL(E_SHAPE, "%s: equation '%.200s': an axis of input %d has size %lld, expected %lld",
                        node_text(g, n), node_string(n, "equation"), i, (long long)s->dim[k], (long long)*size);
        if (*size < 0 || *size == 1)
            *size = s->dim[k];
    }
    return ST_OK;
}

static Status read_inputs(Equation *e, const Graph *g, const Node *n, const char *s, const char *arrow)
{
    for (int i = 0; i < n->n_in; i++) {
        const char *end = memchr(s, ',', (size_t)(arrow - s));
        int letters = 0, dots, rank = in_value(g, n, i)->shape->rank;
        bool dotted;

        if ((end == NULL) != (i == n->n_in - 1))
            return wrong(g, n, "the numbers of terms and inputs differ");
        end = end ? end : arrow;
        dotted = memchr(s, '.', (size_t)(end - s)) != NULL;
        for (const char *c = s; c < end; c++)
            letters += is_letter(*c);
        dots = dotted ? rank - letters : 0;
        if (letters + dots != rank || dots < 0)
            return FAIL(E_SHAPE, "%s: equation '%.200s': input %d has %d axes, its term %d", node_text(g, n),
                        node_string(n, "equation"), i, rank, letters);
        TRY(read_term(&e->in[i], g, n, s, end, dots));
        TRY(note_sizes(e, g, n, i));
        e->ellipsis = dots > e->ellipsis ? dots : e->ellipsis;
        s = end + 1;
    }
    return ST_OK;
}

static Status read_equation(Equation *e, const Graph *g, const Node *n)
{
    const char *s = node_string(n, "equation"), *arrow = strstr(s, "->");

    if (n->n_in > MAX_TERMS)
        return FAIL(E_UNSUPPORTED, "%s: %d inputs, at most %d", node_text(g, n), n->n_in, MAX_TERMS);
    *e = (Equation){ .n = n->n_in };
    for (int i = 0; i < NAMES; i++)
        e->size[i] = -1;
    TRY(read_inputs(e, g, n, s, arrow ? arrow : s + strlen(s)));
    if (!arrow)
        return implied_output(e, g, n);
    TRY(read_term(&e->out, g, n, arrow + 2, s + strlen(s), e->ellipsis));
    for (int k = 0; k < e->out.n; k++) {
        if (e->size[e->out.axis[k]] < 0)
            return wrong(g, n, "an axis of the output is in no input");
        if (memchr(e->out.axis + k + 1, e->out.axis[k], (size_t)(e->out.n - k - 1)))
            return wrong(g, n, "an axis is twice in the output");
    }
    return ST_OK;
}

static Status einsum_infer(Graph *g, Node *n)
{
    Equation e;
    Shape y = { 0 };

    TRY(infer_same_dtype(g, n, 0, n->n_in));
    TRY(read_equation(&e, g, n));
    for (int k = 0; k < e.out.n; k++)
        y.dim[y.rank++] = e.size[e.out.axis[k]];
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return ST_OK;
}

/* ---- lowering ---- */

static int64_t size_of(const Graph *g, const Term *x, int k) { return value(g, x->v)->shape->dim[k]; }

static int einsum_place_of(const Term *x, int name)
{
    for (int k = 0; k < x->n; k++)
        if (x->axis[k] == name)
            return k;
    return -1;
}

/* Transposes x to the order of `t`, a permutation of its axes. */
static void arrange(Graph *g, Term *x, const Term *t)
{
    const ValueId v = x->v;
    int64_t perm[MAX_RANK];

    for (int k = 0; k < t->n; k++)
        perm[k] = einsum_place_of(x, t->axis[k]);
    *x = *t;
    x->v = emit_transpose(g, v, t->n, perm);
}

/* Replaces an axis that occurs twice by its diagonal: the two axes of size d are joined at the end, and every (d +
 * 1)-th element is taken. */
static void take_diagonals(Graph *g, Term *x)
{
    for (int a = 0; a < x->n; a++)
        for (int b = a + 1; b < x->n && !g->status; b++) {
            int64_t perm[MAX_RANK], words[MAX_RANK] = { 0 }, d = size_of(g, x, b);
            Term rest = { 0 };

            if (x->axis[a] != x->axis[b])
                continue;
            for (int k = 0; k < x->n; k++)
                if (k != a && k != b) {
                    perm[rest.n] = k;
                    rest.axis[rest.n++] = x->axis[k];
                }
            perm[rest.n] = a;
            perm[rest.n + 1] = b;
            rest.axis[rest.n] = x->axis[a];
            words[rest.n] = d * d;
            x->v = emit_transpose(g, x->v, rest.n + 2, perm);
            x->v = EMIT(g, Reshape, NULL, x->v, emit_ints(g, rest.n + 1, words));
            x->v = emit_slice_by(g, x->v, rest.n, 0, d * d, d + 1);
            rest.n++;
            rest.v = x->v;
            *x = rest;
            a = -1;
            break;
        }
}

/* Sums over the axes that `keep` does not name; with `but`, only over those which `but` lacks too. */
static void sum_alone(Graph *g, Term *x, const bool *keep, const Term *but)
{
    int64_t axes[MAX_RANK];
    Term rest = { 0 };
    int n = 0;

    for (int k = 0; k < x->n; k++)
        if (!keep[x->axis[k]] && !(but && term_has(but, x->axis[k])))
            axes[n++] = k;
        else
            rest.axis[rest.n++] = x->axis[k];
    rest.v = emit_reduce_sum(g, x->v, n, axes, false);
    *x = rest;
}

/* An axis to be summed that has size 1 in one factor (a broadcast) is summed in the other first. */
static void sum_broadcast(Graph *g, Term *a, Term *b, const bool *keep)
{
    for (int k = 0; k < a->n; k++) {
        int other = einsum_place_of(b, a->axis[k]);

        if (keep[a->axis[k]] || other < 0 || g->status || size_of(g, a, k) == size_of(g, b, other))
            continue;
        if (size_of(g, a, k) == 1)
            b->v = emit_reduce_sum(g, b->v, 1, (int64_t[]){ other }, true);
        else
            a->v = emit_reduce_sum(g, a->v, 1, (int64_t[]){ k }, true);
    }
}

/* Joins the last `n` axes; n 0 adds an axis of size 1. */
static void merge_last(Graph *g, Term *x, int n)
{
    int64_t words[MAX_RANK] = { 0 };

    if (n == 1 || g->status)
        return;
    words[x->n - n] = shape_count(value(g, x->v)->shape, x->n - n, x->n);
    x->n -= n - 1;
    x->v = EMIT(g, Reshape, NULL, x->v, emit_ints(g, x->n, words));
}

/* Multiplies a and b, with axes [batch, free, summed], to a [batch, free of a, free of b]. */
static void einsum_multiply(Graph *g, Term *a, const Term *b, int batch, int summed)
{
    int free_a = a->n - batch - summed, free_b = b->n - batch - summed, rank = batch + free_a + free_b;
    int64_t ones[MAX_RANK], sizes[MAX_RANK], perm[MAX_RANK];
    Term x = *a, y = *b, product = { .n = rank };

    if (rank > MAX_RANK || batch + free_a + 2 > MAX_RANK) {
        g->status = FAIL(E_UNSUPPORTED, "Einsum: a product has more than %d axes", MAX_RANK);
        return;
    }
    memcpy(product.axis, a->axis, (size_t)(batch + free_a));
    memcpy(product.axis + batch + free_a, b->axis + batch, (size_t)free_b);
    for (int k = 0; k < free_b; k++)
        sizes[k] = size_of(g, b, batch + k);
    /* x: [batch, free, (1,) summed]; y: [batch, 1 ..., summed, free]. */
    merge_last(g, &x, summed);
    merge_last(g, &y, summed);
    for (int k = 0; k < batch + 1; k++)
        perm[k] = k;
    if (free_b != 1) { /* joins the free axes and puts them last: [batch, summed, free] */
        for (int k = 0; k < free_b; k++)
            perm[batch + 1 + k] = batch + k;
        perm[batch] = batch + free_b;
        y.v = emit_transpose(g, y.v, y.n, perm);
        y.n = batch + 1 + free_b;
        merge_last(g, &y, free_b);
    } else {
        perm[batch] = batch + 1;
        perm[batch + 1] = batch;
        y.v = emit_transpose(g, y.v, y.n, perm);
    }
    if (!free_a)
        x.v = EMIT(g, Unsqueeze, NULL, x.v, emit_ints(g, 1, (int64_t[]){ batch }));
    for (int k = 0; k < free_a - 1; k++)
        ones[k] = batch + k;
    if (free_a > 1)
        y.v = EMIT(g, Unsqueeze, NULL, y.v, emit_ints(g, free_a - 1, ones));
    product.v = EMIT(g, MatMul, NULL, x.v, y.v);
    if (!free_a)
        product.v = EMIT(g, Squeeze, NULL, product.v, emit_ints(g, 1, (int64_t[]){ batch }));
    if (free_b != 1) {
        int64_t words[MAX_RANK] = { 0 };

        memcpy(words + batch + free_a, sizes, (size_t)free_b * sizeof *sizes);
        product.v = EMIT(g, Reshape, NULL, product.v, emit_ints(g, rank, words));
    }
    *a = product;
}

/* Appends to `t` the axes of x for which "`other` has it" equals `both` and "needed later" equals `goes_on`. */
static int gather_axes(Term *t, const Term *x, const Term *other, bool both, const bool *keep, bool goes_on)
{
    int before = t->n;

    for (int k = 0; k < x->n; k++)
        if (term_has(other, x->axis[k]) == both && keep[x->axis[k]] == goes_on)
            t->axis[t->n++] = x->axis[k];
    return t->n - before;
}

/* a = a b; `keep`: the axes that are needed later. */
static void einsum_join(Graph *g, Term *a, Term *b, const bool *keep)
{
    Term ta = { 0 }, tb = { 0 };
    int batch, summed;

    sum_alone(g, a, keep, b);
    sum_alone(g, b, keep, a);
    sum_broadcast(g, a, b, keep);
    batch = gather_axes(&ta, a, b, true, keep, true);
    tb = ta;
    gather_axes(&ta, a, b, false, keep, true);
    gather_axes(&tb, b, a, false, keep, true);
    summed = gather_axes(&ta, a, b, true, keep, false);
    gather_axes(&tb, a, b, true, keep, false);
    arrange(g, a, &ta);
    arrange(g, b, &tb);
    if (!g->status)
        einsum_multiply(g, a, b, batch, summed);
}

static Status einsum_lower(Graph *g, Node *n)
{
    Equation e;
    Term y = { .n = 0 };

    TRY(read_equation(&e, g, n));
    for (int i = 0; i < n->n_in && !g->status; i++) {
        Term x = e.in[i];
        bool keep[NAMES] = { false };

        for (int k = 0; k < e.out.n; k++)
            keep[e.out.axis[k]] = true;
        for (int j = i + 1; j < n->n_in; j++)
            for (int k = 0; k < e.in[j].n; k++)
                keep[e.in[j].axis[k]] = true;
        x.v = n->in[i];
        take_diagonals(g, &x);
        if (i)
            einsum_join(g, &y, &x, keep);
        else
            y = x;
        if (n->n_in == 1 && !g->status)
            sum_alone(g, &y, keep, NULL);
    }
    if (!g->status)
        arrange(g, &y, &e.out);
    if (!g->status)
        graph_replace(g, n->out[0], y.v);
    return g->status;
}

DEFINE_OP(Einsum, .since = 12, .in_min = 1, .in_max = -1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_NUMERIC,
          .attrs = (const AttrDecl[]){ { "equation", A_STRING, .rule = ATTR_REQUIRED }, { 0 } },
          .doc = "products and sums by named axes", .infer = einsum_infer, .lower = einsum_lower);
