/* EmbeddingBag, which exporters write as a Loop over bags of rows: the Loop is recognised, and replaced by nodes that
 * reduce all bags at once (embedding_bag_reduce.c).
 *
 * The loop has one trip for each bag, and the file leaves the number of bags open.  Trip i computes
 *
 *     first, end = bounds[i], bounds[i + 1]
 *     result[i] = reduce(table[indices[first:end]])       with the legacy exporter
 *     result[i] = reduce(rows[first:end])                 with the default exporter, or 0 if first == end
 *
 * or it reduces those rows that an inner loop has found to be no padding.  With the default exporter, the last bag ends
 * with the last row.  Each part is recognised by what it computes, through Identity, casts, and reshapes of single
 * numbers.  A loop that computes anything else is unrolled as usual. */
#include "graph/onnx/embedding_bag.h"

#include <string.h>

#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"

enum { MAX_LOOKUPS = 4096, MAX_BODY = 128 }; /* names that are looked up; nodes of a body */

/* A subgraph inside the loop, and those around it up to the loop's body: the names that its nodes see. */
typedef struct View {
    const Onnx__GraphProto *g;
    const struct View *up;
} View;

/* The meaning of a name: a node's output (p), a subgraph's initializer (init), or neither.  `at` is the subgraph that
 * defines it; NULL: it comes from outside the loop. */
typedef struct {
    const View *at;
    const Onnx__NodeProto *p;
    const Onnx__TensorProto *init;
    const char *name;
} Term;

typedef struct {
    FlowImport *f;
    const char *index; /* name of the number of the trip */
    ValueId n;         /* number of bags */
    int lookups;       /* left */
} Matcher;

static bool fixed(int64_t *out, Matcher *k, const View *at, const char *name);

static const Onnx__GraphProto *subgraph(const Onnx__NodeProto *p, const char *name)
{
    const Onnx__AttributeProto *a = attribute_find(p, name);

    return a && a->g && !(a->ref_attr_name && *a->ref_attr_name) && a->g->n_node <= MAX_BODY ? a->g : NULL;
}

static const char *input(const Onnx__NodeProto *p, size_t i) { return i < p->n_input ? p->input[i] : ""; }
static bool is(Term t, const char *op) { return t.p && !strcmp(t.p->op_type, op) && !*text_or(t.p->domain, ""); }

static int64_t int_attribute(const Onnx__NodeProto *p, const char *name, int64_t absent)
{
    const Onnx__AttributeProto *a = attribute_find(p, name);

    return !a ? absent : a->ref_attr_name && *a->ref_attr_name ? INT64_MIN : a->i;
}

static Term defined(Matcher *k, const View *at, const char *name)
{
    for (; at && k->lookups-- > 0; at = at->up) {
        for (size_t i = 0; i < at->g->n_node; i++)
            for (size_t o = 0; o < at->g->node[i]->n_output; o++)
                if (!strcmp(at->g->node[i]->output[o], name))
                    return (Term){ at, at->g->node[i], NULL, name };
        for (size_t i = 0; i < at->g->n_initializer; i++)
            if (!strcmp(text_or(at->g->initializer[i]->name, ""), name))
                return (Term){ at, NULL, at->g->initializer[i], name };
        for (size_t i = 0; i < at->g->n_input; i++)
            if (!strcmp(text_or(at->g->input[i]->name, ""), name))
                return (Term){ at, NULL, NULL, name };
    }
    return (Term){ NULL, NULL, NULL, name };
}

/* Steps into the branch of t, an If: *at and *name become the branch's output that is t's output. */
static bool step_into(const View **at, const char **name, Matcher *k, Term t, bool taken)
{
    const Onnx__GraphProto *g = subgraph(t.p, taken ? "then_branch" : "else_branch");
    View *v = ARENA_NEW(k->f->im->scratch, View, 1);

    for (size_t o = 0; v && g && o < g->n_output && o < t.p->n_output; o++)
        if (!strcmp(t.p->output[o], t.name)) {
            *v = (View){ g, t.at };
            *at = v;
            *name = text_or(g->output[o]->name, "");
            return true;
        }
    return false;
}

/* Resolves a name, through Identity and through branches that constants of the body choose. */
static Term term(Matcher *k, const View *at, const char *name)
{
    int64_t taken;
    Term t;

    for (;;) {
        t = defined(k, at, name);
        if (k->lookups <= 0)
            return (Term){ 0 };
        if (is(t, "Identity")) {
            at = t.at;
            name = input(t.p, 0);
        } else if (!is(t, "If") || !fixed(&taken, k, t.at, input(t.p, 0)) || !step_into(&at, &name, k, t, taken != 0)) {
            return t;
        }
    }
}

/* Resolves the name of a single number, also through nodes that change its type or shape. */
static Term number_term(Matcher *k, const View *at, const char *name)
{
    static const char *const passes[] = { "CastLike", "Reshape", "Unsqueeze", "Squeeze", "Cast" };
    Term t = term(k, at, name);

    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (is(t, passes[i])) {
            t = term(k, t.at, input(t.p, 0));
            i = (size_t)-1;
        }
    return t;
}

/* Resolves a name to a value from outside the loop. */
static bool outer(ValueId *out, Matcher *k, const View *at, const char *name)
{
    const Term t = term(k, at, name);
    const ScopeEntry *e = t.at || t.p || !t.name || !*t.name ? NULL : body_find(k->f->b, t.name);

    *out = e && !e->problem ? e->value : NO_VALUE;
    return has_value(*out);
}

static bool tensor_number(int64_t *out, Matcher *k, const Onnx__TensorProto *p)
{
    Tensor *t;

    if (!p || (p->n_dims && (p->n_dims > 1 || p->dims[0] != 1)) || tensor_decode(&t, &k->f->im->tensors, p, "a number"))
        return status_clear(), false;
    if (dtype_is_float(t->dtype))
        return false;
    *out = tensor_int(t, 0);
    return true;
}

/* Computes an integer or a bool from constants. */
static bool fixed(int64_t *out, Matcher *k, const View *at, const char *name)
{
    const Term t = number_term(k, at, name);
    int64_t x, y;
    ValueId v;

    if (t.init)
        return tensor_number(out, k, t.init);
    if (is(t, "Constant")) {
        const Onnx__AttributeProto *whole = attribute_find(t.p, "value"), *one = attribute_find(t.p, "value_int"),
                                   *list = attribute_find(t.p, "value_ints");

        if (whole)
            return whole->t && tensor_number(out, k, whole->t);
        if (one || (list && list->n_ints == 1))
            *out = one ? one->i : list->ints[0];
        return one || (list && list->n_ints == 1);
    }
    if (is(t, "Equal") && fixed(&x, k, t.at, input(t.p, 0)) && fixed(&y, k, t.at, input(t.p, 1))) {
        *out = x == y;
        return true;
    }
    return !t.p && outer(&v, k, at, t.name) && known_number(out, k->f->im, v);
}

static bool embedding_bag_is_fixed(Matcher *k, const View *at, const char *name, int64_t expected)
{
    int64_t v;

    return fixed(&v, k, at, name) && v == expected;
}

/* Is it the number of the trip plus a constant, *c? */
static bool index_of(int64_t *c, Matcher *k, const View *at, const char *name)
{
    const Term t = number_term(k, at, name);
    int64_t more;

    *c = 0;
    if (!t.p)
        return !t.init && t.name && !strcmp(t.name, k->index);
    if (!is(t, "Add"))
        return false;
    for (size_t i = 0; i < 2; i++)
        if (index_of(c, k, t.at, input(t.p, i)) && fixed(&more, k, t.at, input(t.p, 1 - i))) {
            *c += more;
            return true;
        }
    return false;
}

static bool is_index(Matcher *k, const View *at, const char *name, int64_t expected)
{
    int64_t c;

    return index_of(&c, k, at, name) && c == expected;
}

/* Is t a Slice along the first axis, with steps of 1? */
static bool along_first(Matcher *k, Term t)
{
    return is(t, "Slice") && (!*input(t.p, 3) || embedding_bag_is_fixed(k, t.at, t.p->input[3], 0)) &&
           (!*input(t.p, 4) || embedding_bag_is_fixed(k, t.at, t.p->input[4], 1));
}

/* Is it element c + i of a vector from outside, in trip i? */
static bool position(BagPosition *out, Matcher *k, const View *at, const char *name)
{
    const Term t = number_term(k, at, name);

    if (!t.p || !outer(&out->vector, k, t.at, input(t.p, 0)) || !index_of(&out->c, k, t.at, input(t.p, 1)) ||
        out->c < 0)
        return false;
    return is(t, "Gather") ? int_attribute(t.p, "axis", 0) == 0
                           : along_first(k, t) && is_index(k, t.at, input(t.p, 2), out->c + 1);
}

static bool is_position(Matcher *k, const View *at, const char *name, const BagPosition *expected)
{
    BagPosition p;

    return position(&p, k, at, name) && p.vector.i == expected->vector.i && p.c == expected->c;
}

/* Is it the number of rows of x? */
static bool is_total(Matcher *k, const View *at, const char *name, ValueId x)
{
    Graph *g = k->f->im->g;
    const Term t = number_term(k, at, name);
    ValueId total, of;

    if (is(t, "Shape") && int_attribute(t.p, "start", 0) == 0 && int_attribute(t.p, "end", INT64_MAX) == 1 &&
        outer(&of, k, t.at, input(t.p, 0)))
        total = import_emit(g, &op_Shape, ATTRS(INT("start", 0), INT("end", 1)), 1, &of);
    else if (t.p || !outer(&total, k, at, t.name))
        return false;
    of = import_emit(g, &op_Shape, ATTRS(INT("start", 0), INT("end", 1)), 1, &x);
    return bags_equal(k->f->im, total, of);
}

/* ---- rows ---- */

/* Is t x[first:end], where x is a vector or matrix from outside? */
static bool part(ValueId *x, BagPosition *first, BagPosition *end, Matcher *k, Term t)
{
    return along_first(k, t) && outer(x, k, t.at, input(t.p, 0)) && position(first, k, t.at, input(t.p, 1)) &&
           position(end, k, t.at, input(t.p, 2));
}

/* Is it an If that takes its then-branch in the last trip? */
static bool last_trip(Matcher *k, Term t)
{
    const Term cond = is(t, "If") ? number_term(k, t.at, input(t.p, 0)) : (Term){ 0 };
    Term before;
    ValueId n;

    if (!is(cond, "Equal") || !is_index(k, cond.at, input(cond.p, 0), 0))
        return false;
    before = number_term(k, cond.at, input(cond.p, 1));
    return is(before, "Sub") && outer(&n, k, before.at, input(before.p, 0)) && n.i == k->n.i &&
           embedding_bag_is_fixed(k, before.at, input(before.p, 1), 1);
}

/* The output of a branch of t, an If, that is t's output. */
static Term branch(Matcher *k, Term t, bool taken)
{
    const View *at;
    const char *name;

    return step_into(&at, &name, k, t, taken) ? term(k, at, name) : (Term){ 0 };
}

static bool named(Term t, const char *name) { return !t.p && !t.init && t.name && !strcmp(t.name, name); }

/* An inner loop: for (j = first; j < end; j++) if (x[j] != pad) list = concat(list, j). */

/* Is t x[j], or x[j] + count where x[j] is negative?  Sets b->tested to x, and b->count.  The index of k is j. */
static bool tested(Bags *b, Matcher *k, Term t)
{
    Term cond = is(t, "If") ? number_term(k, t.at, input(t.p, 0)) : (Term){ 0 }, more, x;
    BagPosition p, same;

    if (!is(cond, "Less") || !embedding_bag_is_fixed(k, cond.at, input(cond.p, 1), 0) ||
        !position(&p, k, cond.at, input(cond.p, 0)) || p.c)
        return false;
    x = branch(k, t, false);
    more = branch(k, t, true);
    if (!x.p || !position(&same, k, x.at, x.name) || same.vector.i != p.vector.i || same.c || !is(more, "Add") ||
        !position(&same, k, more.at, input(more.p, 0)) || same.vector.i != p.vector.i || same.c)
        return false;
    b->tested = p.vector;
    return outer(&b->count, k, more.at, input(more.p, 1));
}

/* Does the body append j to its list unless x[j] is the padding index?  `at`: the list's place among the inputs. */
static bool grows_list(Bags *b, Matcher *k, const View *body, int at)
{
    const char *list = text_or(body->g->input[at]->name, "");
    const Term t = term(k, body, text_or(body->g->output[at - 1]->name, ""));
    Term keeps = is(t, "If") ? number_term(k, t.at, input(t.p, 0)) : (Term){ 0 }, longer;

    if (!is(keeps, "Not") || !named(branch(k, t, false), list))
        return false;
    keeps = number_term(k, keeps.at, input(keeps.p, 0));
    longer = branch(k, t, true);
    return is(keeps, "Equal") && outer(&b->pad, k, keeps.at, input(keeps.p, 1)) &&
           tested(b, k, number_term(k, keeps.at, input(keeps.p, 0))) && is(longer, "Concat") &&
           longer.p->n_input == 2 && named(term(k, longer.at, longer.p->input[0]), list) &&
           is_index(k, longer.at, longer.p->input[1], 0);
}

/* Is it an empty list? */
static bool empty(Matcher *k, const View *at, const char *name)
{
    const Term t = term(k, at, name);
    ValueId v;

    if (is(t, "Shape"))
        return int_attribute(t.p, "start", 0) == 0 && int_attribute(t.p, "end", 1) == 0;
    return t.init ? t.init->n_dims == 1 && !t.init->dims[0]
                  : outer(&v, k, at, name) && value_const(k->f->im->g, v) && !tensor_numel(value_const(k->f->im->g, v));
}

/* Is t the list of an inner loop: the rows of bag i that are no padding? */
static bool embedding_bag_listed(Bags *b, Matcher *k, Term t)
{
    const Onnx__GraphProto *g = is(t, "Loop") ? subgraph(t.p, "body") : NULL;
    const View body = { g, t.at };
    Matcher inner = *k;
    int list, j; /* places among the body's inputs: 2 and 3, in either order */
    Term cond, goes_on;

    if (!g || g->n_input != 4 || g->n_output != 3 || t.p->n_input != 4 || *t.p->input[0] || t.p->n_output != 2)
        return false;
    list = strcmp(t.name, t.p->output[0]) ? 3 : 2;
    j = 5 - list;
    inner.index = text_or(g->input[j]->name, "");
    cond = number_term(k, t.at, t.p->input[1]);
    goes_on = number_term(&inner, &body, text_or(g->output[0]->name, ""));
    return empty(k, t.at, t.p->input[list]) && is(cond, "Less") && position(&b->first, k, cond.at, input(cond.p, 0)) &&
           position(&b->end, k, cond.at, input(cond.p, 1)) && is_position(k, t.at, t.p->input[j], &b->first) &&
           is(goes_on, "Less") && is_index(&inner, goes_on.at, input(goes_on.p, 0), 1) &&
           is_position(k, goes_on.at, input(goes_on.p, 1), &b->end) &&
           is_index(&inner, &body, text_or(g->output[j - 1]->name, ""), 1) && grows_list(b, &inner, &body, list);
}

static bool same_bag(const Bags *b, ValueId rows, const BagPosition *first, const BagPosition *end)
{
    return b->rows.i == rows.i && b->first.vector.i == first->vector.i && b->first.c == first->c &&
           b->end.vector.i == end->vector.i && b->end.c == end->c;
}

/* Is t the rows of bag i, maybe each times a weight? */
static bool embedding_bag_rows_of(Bags *b, Matcher *k, Term t)
{
    BagPosition first, end;
    Term last, weight;
    ValueId same;

    if (part(&b->rows, &b->first, &b->end, k, t))
        return true;
    if (is(t, "Gather") && int_attribute(t.p, "axis", 0) == 0) {
        last = term(k, t.at, input(t.p, 1));
        return (part(&b->indices, &b->first, &b->end, k, last) || embedding_bag_listed(b, k, last)) &&
               outer(&b->rows, k, t.at, input(t.p, 0));
    }
    if (is(t, "Mul")) { /* by one weight for each row, [L, 1] */
        if (!embedding_bag_rows_of(b, k, term(k, t.at, input(t.p, 0))))
            return false;
        weight = term(k, t.at, input(t.p, 1));
        return !has_value(b->weights) && is(weight, "Unsqueeze") &&
               embedding_bag_is_fixed(k, weight.at, input(weight.p, 1), 1) &&
               part(&b->weights, &first, &end, k, term(k, weight.at, input(weight.p, 0))) &&
               same_bag(b, b->rows, &first, &end);
    }
    if (!last_trip(k, t) || !part(&b->rows, &b->first, &b->end, k, branch(k, t, false)))
        return false;
    last = branch(k, t, true);
    b->last_to_end = true;
    return along_first(k, last) && outer(&same, k, last.at, input(last.p, 0)) && same.i == b->rows.i &&
           is_position(k, last.at, input(last.p, 1), &b->first) && is_total(k, last.at, input(last.p, 2), b->rows);
}

/* ---- results ---- */

/* Is t the sum, mean or maximum of the rows of bag i? */
static bool reduced(Bags *b, Matcher *k, Term t)
{
    static const char *const reduce[] = { [BAG_SUM] = "ReduceSum", [BAG_MEAN] = "ReduceMean", [BAG_MAX] = "ReduceMax" };
    const Onnx__AttributeProto *axes = t.p ? attribute_find(t.p, "axes") : NULL;

    for (size_t i = 0; i < sizeof reduce / sizeof *reduce; i++)
        if (is(t, reduce[i]) &&
            (axes ? axes->n_ints == 1 && !axes->ints[0] : embedding_bag_is_fixed(k, t.at, input(t.p, 1), 0))) {
            b->reduce = (BagReduction)i;
            b->keepdims = int_attribute(t.p, "keepdims", 1) != 0;
            return embedding_bag_rows_of(b, k, term(k, t.at, input(t.p, 0)));
        }
    return false;
}

/* Does the last bag end with the last row? */
static bool ends_with_rows(const Matcher *k, const Bags *b)
{
    Graph *g = k->f->im->g;
    const Node *all = value(g, b->end.vector)->producer;
    ValueId of;

    if (!all || all->op != &op_Concat || all->n_in != 2 || b->end.c != 1)
        return false;
    of = import_emit(g, &op_Shape, ATTRS(INT("start", 0), INT("end", 1)), 1, &b->rows);
    return bags_equal(k->f->im, all->in[1], of);
}

static bool is_sum(const Bags *x, const Bags *of)
{
    return x->reduce == BAG_SUM && x->keepdims == of->keepdims && same_bag(of, x->rows, &x->first, &x->end) &&
           x->indices.i == of->indices.i && x->weights.i == of->weights.i && x->tested.i == of->tested.i &&
           x->last_to_end == of->last_to_end;
}

/* Is t the mean of the last bag?  The exporter divides its sum by T - first if that is greater than 0. */
static bool last_mean(const Bags *b, Matcher *k, Term t)
{
    const Term cond = is(t, "If") ? number_term(k, t.at, input(t.p, 0)) : (Term){ 0 }, none = branch(k, t, false),
               some = branch(k, t, true);
    Term by;
    Bags plain = { 0 }, divided = { 0 };

    if (!is(cond, "Greater") || !embedding_bag_is_fixed(k, cond.at, input(cond.p, 1), 0) || !is(some, "Div"))
        return false;
    by = number_term(k, cond.at, input(cond.p, 0));
    return b->reduce == BAG_MEAN && is(by, "Sub") && is_total(k, by.at, input(by.p, 0), b->rows) &&
           is_position(k, by.at, input(by.p, 1), &b->first) && number_term(k, some.at, input(some.p, 1)).p == by.p &&
           reduced(&plain, k, none) && reduced(&divided, k, term(k, some.at, input(some.p, 0))) && is_sum(&plain, b) &&
           is_sum(&divided, b);
}

static bool is_zeros(Matcher *k, Term t)
{
    const Onnx__AttributeProto *a;
    Tensor *decoded = NULL;
    const Tensor *x = NULL;
    ValueId v;

    if (is(t, "Expand"))
        t = term(k, t.at, input(t.p, 0));
    if (is(t, "Constant") && (a = attribute_find(t.p, "value_floats")))
        return a->n_floats == 1 && a->floats[0] == 0;
    a = is(t, "Constant") ? attribute_find(t.p, "value") : NULL;
    if (t.init || (a && a->t)) {
        if (tensor_decode(&decoded, &k->f->im->tensors, t.init ? t.init : a->t, "zeros"))
            return status_clear(), false;
        x = decoded;
    } else if (!t.p && outer(&v, k, t.at, t.name)) {
        x = value_const(k->f->im->g, v);
    }
    for (int64_t i = 0; x && i < tensor_numel(x); i++)
        if (!dtype_is_float(x->dtype) || tensor_float(x, i) != 0)
            return false;
    return x;
}

/* Is the condition that the bag has no rows? */
static bool if_empty(const Bags *b, Matcher *k, Term cond)
{
    Term size;
    Bags found = { 0 };

    if (!is(cond, "Equal"))
        return false;
    size = number_term(k, cond.at, input(cond.p, 0));
    if (is(size, "Size"))
        return embedding_bag_is_fixed(k, cond.at, input(cond.p, 1), 0) &&
               embedding_bag_listed(&found, k, term(k, size.at, input(size.p, 0))) &&
               same_bag(b, b->rows, &found.first, &found.end) && has_value(b->tested);
    return !has_value(b->tested) && is_position(k, cond.at, input(cond.p, 0), &b->first) &&
           is_position(k, cond.at, input(cond.p, 1), &b->end);
}

/* Is t the result of bag i? */
static bool result_of(Bags *b, Matcher *k, Term t)
{
    const Term cond = is(t, "If") ? number_term(k, t.at, input(t.p, 0)) : (Term){ 0 };
    Term other;

    if (!is(t, "If"))
        return reduced(b, k, t);
    other = branch(k, t, false);
    if (last_trip(k, t))
        return reduced(b, k, other) && ends_with_rows(k, b) && last_mean(b, k, branch(k, t, true));
    b->zero_if_empty = true;
    return result_of(b, k, other) && is_zeros(k, branch(k, t, true)) && if_empty(b, k, cond);
}

/* ---- loops ---- */

/* Is the Loop for (i = 0; i < n; i++) yield result(i)? */
static bool counted_loop(Bags *b, Matcher *k, const View *body)
{
    const Onnx__GraphProto *g = body->g;
    const ScopeEntry *count = flow_input(k->f, 0), *cond = flow_input(k->f, 1);
    int64_t yes = 1;

    if (!count || g->n_input != 2 || g->n_output != 2 || k->f->p->n_output != 1 || !has_value(count->value) ||
        (cond && (!known_number(&yes, k->f->im, cond->value) || !yes)))
        return false;
    k->n = count->value;
    k->index = text_or(g->input[0]->name, "");
    return fixed(&yes, k, body, text_or(g->output[0]->name, "")) && yes &&
           result_of(b, k, term(k, body, text_or(g->output[1]->name, ""))) && !b->keepdims;
}

/* Is ConcatFromSequence along axis 0 the only reader of the sequence? */
static bool joined(const FlowImport *f, const char *name)
{
    const Onnx__GraphProto *g = f->im->model->graph;
    bool found = false;

    for (size_t i = 0; i < f->b->n_node; i++) {
        const Onnx__NodeProto *p = f->b->node[i];

        for (size_t j = 0; j < p->n_input; j++)
            if (!strcmp(p->input[j], name)) {
                if (strcmp(p->op_type, "ConcatFromSequence") || int_attribute(p, "axis", -1) ||
                    int_attribute(p, "new_axis", 0))
                    return false;
                found = true;
            }
    }
    for (size_t i = 0; g && i < g->n_output; i++)
        found &= strcmp(text_or(g->output[i]->name, ""), name) != 0;
    return found;
}

/* Is the Loop i = 0; while (i < n) { sequence = insert(sequence, result(i)); i++; }?  Output *out is the sequence. */
static bool while_loop(int *out, Bags *b, Matcher *k, const View *body)
{
    const FlowImport *f = k->f;
    const Onnx__GraphProto *g = body->g;
    const ScopeEntry *cond = flow_input(f, 1);
    const bool list_first = flow_input(f, 2) && flow_input(f, 2)->sequence;
    const int at = list_first ? 2 : 3;
    const ScopeEntry *i = flow_input(f, 5 - at), *list = flow_input(f, at);
    const Node *less = cond && has_value(cond->value) ? value(f->im->g, cond->value)->producer : NULL;
    const ValueId *item;
    ValueId bound;
    int64_t zero;
    int n;
    Term t;

    if (flow_input(f, 0) || f->p->n_input != 4 || g->n_input != 4 || g->n_output != 3 || f->p->n_output != 2 || !less ||
        less->op != &op_Less || !i || !known_number(&zero, f->im, i->value) || zero ||
        !known_number(&zero, f->im, less->in[0]) || zero || !list || !list->sequence ||
        !joined(f, f->p->output[at - 2]))
        return false;
    if (sequence_items(&item, &n, f->im, list->sequence, "a list"))
        return status_clear(), false;
    k->n = less->in[1];
    k->index = text_or(g->input[5 - at]->name, "");
    *out = at - 2;
    t = number_term(k, body, text_or(g->output[0]->name, ""));
    if (n || !is(t, "Less") || !is_index(k, t.at, input(t.p, 0), 1) || !outer(&bound, k, t.at, input(t.p, 1)) ||
        bound.i != k->n.i)
        return false;
    t = term(k, body, text_or(g->output[at - 1]->name, ""));
    return is_index(k, body, text_or(g->output[4 - at]->name, ""), 1) && is(t, "SequenceInsert") && t.p->n_input == 2 &&
           named(term(k, t.at, t.p->input[0]), text_or(g->input[at]->name, "")) &&
           result_of(b, k, term(k, t.at, t.p->input[1])) && b->keepdims;
}

/* Does each bag begin where the one before it ends? */
static bool contiguous(Importer *im, const Bags *b)
{
    const BagPosition *first = &b->first, *end = &b->end;
    const Node *after = value(im->g, end->vector)->producer;
    int64_t start, step;

    if (first->vector.i == end->vector.i)
        return end->c == first->c + 1;
    return after && after->op == &op_Slice && after->in[0].i == first->vector.i && end->c == first->c &&
           known_number(&start, im, after->in[1]) && start == 1 &&
           (!has_in(after, 4) || (known_number(&step, im, after->in[4]) && step == 1));
}

/* Sets starts, each and ends if the bounds are Concat(Range(0, _, each), ends). */
static void find_range(Bags *b, Importer *im)
{
    const Node *all = value(im->g, b->first.vector)->producer, *starts;
    int64_t start;

    if (!all || all->op != &op_Concat || all->n_in != 2)
        return;
    starts = value(im->g, all->in[0])->producer;
    if (!starts || starts->op != &op_Range || !known_number(&start, im, starts->in[0]) || start)
        return;
    b->starts = starts->out[0];
    b->each = starts->in[2];
    b->ends = all->in[1];
}

Status flow_embedding_bag(bool *done, FlowImport *f)
{
    const View body = { f->gp, NULL };
    Matcher k = { .f = f, .index = "", .lookups = MAX_LOOKUPS };
    Bags b = { 0 };
    ScopeEntry e = { .node = -1 }, trips = { .node = -1 };
    int64_t n;
    int out = 0;
    bool listing;
    ValueId all;

    *done = false;
    if (f->im->run || f->gp->n_node > MAX_BODY)
        return ST_OK;
    listing = while_loop(&out, &b, &k, &body);
    if (!listing) {
        b = (Bags){ 0 };
        out = 0;
        if (!counted_loop(&b, &k, &body))
            return f->im->g->status;
    }
    if (known_number(&n, f->im, k.n) || !contiguous(f->im, &b))
        return f->im->g->status;
    find_range(&b, f->im);
    TRY(bags_reduce(&all, f->im, &b, k.n));
    *done = true;
    graph_rename(f->im->g, all, body_name(f->im, f->b, f->p->output[out]));
    e.value = all;
    if (listing) {
        TRY(sequence_set(&e, f->im, 1, &all));
        trips.value = k.n;
        flow_set_output(f, 1 - (size_t)out, &trips);
    }
    flow_set_output(f, (size_t)out, &e);
    return f->im->g->status;
}
