/* Finding which inputs select among how many entries, and looking at their elements: a pass over integers of a
 * batch. */
#include "exec/run/check_indices.h"

#include <stdio.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ops/generate.gen.h"

/* The input's elements first, first + step, first + 2 step, ... must be in [low, high), or `ignore`.  Step 2 is for
 * tuples of two, whose numbers select along axes of their own. */
struct IndexCheck {
    int input, first, step;
    const Node *node; /* NULL: ends the list */
    int64_t low, high, ignore;
    bool ignores;
};

/* Where the value comes from when its elements are only spread over devices or given another shape. */
static ValueId check_indices_source(const Graph *g, ValueId v)
{
    const Node *n = value(g, v)->producer;

    while (n && n->n_in) {
        const Exchange e = exchange_of(n);

        if (!exchange_distributes(&e) && !(n->op->flags & (OPF_VIEW | OPF_TRANSFER)))
            break;
        v = n->in[0];
        n = value(g, v)->producer;
    }
    return v;
}

static int input_of(const Graph *g, ValueId v)
{
    for (int i = 0; i < g->n_input; i++)
        if (value_eq(g->input[i], v))
            return i;
    return -1;
}

/* How many numbers each tuple has that input i of the node holds; 1 where an index stands alone. */
static int tuple_width(const Graph *g, const Node *n, int i)
{
    int k = 1;

    while (index_range_at(g, n, i, k) >= 0)
        k++;
    return k;
}

/* Are the tuples of `v` one behind the other in the input that it comes from?  Pieces along their own axis are not. */
static bool keeps_tuples(const Graph *g, ValueId v, ValueId input)
{
    const Shape *a = value(g, v)->shape, *b = value(g, input)->shape;

    return shape_eq(a, b) || (a->rank == b->rank && a->rank > 1 && a->dim[a->rank - 1] == b->dim[b->rank - 1]);
}

/* The most that any number of a tuple may be. */
static int64_t longest_range(const Graph *g, const Node *n, int i, int width)
{
    int64_t most = -1, range;

    for (int k = 0; k < width; k++)
        most = (range = index_range_at(g, n, i, k)) > most ? range : most;
    return most;
}

/* Number k of each tuple.  Indices count from the end below zero; labels do not. */
static bool find_range(IndexCheck *r, const Graph *g, const Node *n, int i, int k)
{
    const Attr *ignore = node_attr(n, "ignore_index");
    const bool is_index = has_in(n, i) && n->op->index_range && !n->op->index_misses;
    int64_t high = is_index ? index_range_at(g, n, i, k) : -1;
    const ValueId from = high < 0 ? NO_VALUE : check_indices_source(g, n->in[i]);
    int step = high < 0 ? 1 : tuple_width(g, n, i);

    if (high < 0)
        return false;
    if (step > 1 && !keeps_tuples(g, n->in[i], from)) {
        high = longest_range(g, n, i, step);
        step = 1;
        k = 0;
    }
    *r = (IndexCheck){ .input = input_of(g, from),
                       .first = k,
                       .step = step,
                       .node = n,
                       .low = ignore ? 0 : -high,
                       .high = high,
                       .ignore = ignore ? ignore->i : 0,
                       .ignores = ignore };
    return r->input >= 0;
}

/* Is an equal check known?  The nodes of replicas have equal ones. */
static bool check_indices_is_known(const IndexCheck *list, const IndexCheck *r)
{
    for (; list->node; list++)
        if (list->input == r->input && list->first == r->first && list->step == r->step && list->low == r->low &&
            list->high == r->high && list->ignores == r->ignores && list->ignore == r->ignore)
            return true;
    return false;
}

Status index_check_create(IndexCheck **out, Arena *a, const Graph *g)
{
    const int most = (int)g->n_node * MAX_RANK;
    IndexCheck *list = ARENA_NEW(a, IndexCheck, (size_t)most + 1), r;
    int count = 0;

    if (!list)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            for (int k = 0; k < MAX_RANK && count < most; k++)
                if (find_range(&r, g, n, i, k) && !check_indices_is_known(list, &r))
                    list[count++] = r;
    *out = list;
    return ST_OK;
}

static bool is_allowed(const IndexCheck *r, int64_t x)
{
    return (x >= r->low && x < r->high) || (r->ignores && x == r->ignore);
}

/* The first element that is not allowed; n or more if all are. */
#define DEFINE_FIRST_BAD(name, T)                                   \
    static int64_t name(const IndexCheck *r, const T *x, int64_t n) \
    {                                                               \
        int64_t i = r->first;                                       \
                                                                    \
        while (i < n && is_allowed(r, x[i]))                        \
            i += r->step;                                           \
        return i;                                                   \
    }

DEFINE_FIRST_BAD(first_bad_32, int32_t)
DEFINE_FIRST_BAD(first_bad_64, int64_t)

/* Refuses an index by the input and the operator.  A label's operator is the loss, whose node has no name of the user:
 * it is left out. */
static Status check_indices_refuse(const IndexCheck *r, const Prepared *p, const Tensor *t, int64_t i)
{
    const ValueId id = p->graph->input[r->input];
    const char *input = value(p->graph, id)->name;
    const long long x = tensor_int(t, i), at = input_part_element(&p->input_part[id.i], value(p->graph, id), i);
    char hint[96] = "", text[512];

    if (r->ignores && (x < 0 || x == UINT8_MAX)) /* as segmentation has it */
        snprintf(hint, sizeof hint, "; --ignore-index %lld leaves such labels out", x);
    else if (r->ignores)
        snprintf(hint, sizeof hint, "; classes count from 0 to %lld", (long long)r->high - 1);
    if (r->ignores) {
        (void)FAIL(E_INVALID, "element %lld of input '%s' is %lld, not one of %lld classes%s", at, input, x,
                   (long long)r->high, hint);
        snprintf(text, sizeof text, "%s label is %lld, not one of %lld classes%s", t->shape.rank > 1 ? "a" : "the", x,
                 (long long)r->high, hint);
    } else {
        (void)FAIL(E_INVALID, "%s: element %lld of input '%s' is %lld, not one of %lld", node_text(p->graph, r->node),
                   at, input, x, (long long)r->high);
        snprintf(text, sizeof text, "'%.300s' has %lld, not one of %lld", input, x, (long long)r->high);
    }
    status_set_element((const char *)t->data + (size_t)i * dtype_size(t->dtype), text);
    return E_INVALID;
}

/* Indices and labels are int32 or int64. */
static Status check_indices_check(const IndexCheck *r, const Prepared *p, const Tensor *t)
{
    const int64_t n = tensor_numel(t),
                  i = t->dtype == DT_INT64 ? first_bad_64(r, t->data, n) : first_bad_32(r, t->data, n);

    if (i >= n)
        return ST_OK;
    return check_indices_refuse(r, p, t, i);
}

Status index_check_run(const IndexCheck *c, const Prepared *p, const Tensor *input)
{
    for (; c->node; c++)
        TRY(check_indices_check(c, p, &input[c->input]));
    return ST_OK;
}
