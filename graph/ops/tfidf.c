/* TfIdfVectorizer: the number of times that each n-gram of a pool occurs in a row. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"

static const char *pool_of(const Graph *g, const Node *n)
{
    return in_value(g, n, 0)->dtype == DT_STRING ? "pool_strings" : "pool_int64s";
}

/* Counts the n-grams of the pool, which has all 1-grams, then all 2-grams ...; ngram_counts lists where each begin. */
static Status count_grams(const Graph *g, const Node *n, int64_t *total)
{
    int sizes;
    const int64_t *from = node_ints(n, "ngram_counts", &sizes);
    const int items = node_attr(n, pool_of(g, n))->n;

    *total = 0;
    for (int k = 0; k < sizes; k++) {
        const int64_t end = k + 1 < sizes ? from[k + 1] : items;

        if (from[k] < 0 || from[k] > end || end > items || (end - from[k]) % (k + 1))
            return FAIL(E_MODEL, "%s: ngram_counts: from %lld to %lld of %d items are no %d-grams", node_text(g, n),
                        (long long)from[k], (long long)end, items, k + 1);
        *total += (end - from[k]) / (k + 1);
    }
    return ST_OK;
}

static Status check_lengths(const Graph *g, const Node *n, int64_t *columns)
{
    const Attr *weights = node_attr(n, "weights");
    const Attr *strings = node_attr(n, "pool_strings"), *numbers = node_attr(n, "pool_int64s");
    const int64_t least = node_int(n, "min_gram_length"), most = node_int(n, "max_gram_length");
    int indices, sizes;
    const int64_t *index = node_ints(n, "ngram_indexes", &indices);
    int64_t total;

    (void)node_ints(n, "ngram_counts", &sizes);
    if (node_attr(n, pool_of(g, n))->n < strings->n + numbers->n)
        return FAIL(E_MODEL, "%s: the pool is of %s, the input of %s", node_text(g, n),
                    !numbers->n   ? "strings"
                    : !strings->n ? "integers"
                                  : "strings and integers",
                    dtype_name(in_value(g, n, 0)->dtype));
    if (least < 1 || most < least || most > sizes)
        return FAIL(E_MODEL, "%s: n-grams of %lld to %lld items, ngram_counts has %d sizes", node_text(g, n),
                    (long long)least, (long long)most, sizes);
    TRY(count_grams(g, n, &total));
    if (total != indices)
        return FAIL(E_MODEL, "%s: ngram_indexes has %d numbers for %lld n-grams", node_text(g, n), indices,
                    (long long)total);
    *columns = 0;
    for (int i = 0; i < indices; i++) {
        if (index[i] < 0 || index[i] == INT64_MAX)
            return FAIL(E_MODEL, "%s: ngram_indexes: %lld, expected 0 or more", node_text(g, n), (long long)index[i]);
        *columns = index[i] >= *columns ? index[i] + 1 : *columns;
    }
    if (weights->n && weights->n != indices)
        return FAIL(E_MODEL, "%s: %d weights, expected one for each of %d n-grams", node_text(g, n), weights->n,
                    indices);
    return ST_OK;
}

static Status tfidf_infer(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t columns;
    Shape y;

    TRY(check_lengths(g, n, &columns));
    if (x->rank < 1 || x->rank > 2)
        return FAIL(E_SHAPE, "%s: %d dimensions, expected 1 or 2", node_text(g, n), x->rank);
    y = x->rank == 1 ? SHAPE(columns) : SHAPE(x->dim[0], columns);
    set_out(g, n, 0, DT_FLOAT32, &y);
    return g->status;
}

/* Rows are independent. */
static Status tfidf_place(Placement *p)
{
    const int rank = in_value(p->g, p->node, 0)->shape->rank, rows[MAX_RANK] = { rank == 2 ? 0 : -1, -1 };

    if (p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    return place_moved(p, rows, "it counts along the batch");
}

static const AttrDecl attrs[] = {
    { "max_gram_length", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
    { "max_skip_count", A_INT, .rule = ATTR_REQUIRED, .range = R_NATURAL },
    { "min_gram_length", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
    { "mode", A_STRING, .rule = ATTR_REQUIRED, .words = "TF IDF TFIDF" },
    { "ngram_counts", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
    { "ngram_indexes", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
    { "pool_int64s", A_INTS, .i = 0 },
    { "pool_strings", A_STRINGS, .i = 0 },
    { "weights", A_FLOATS, .i = 0 },
    { 0 },
};

DEFINE_OP(TfIdfVectorizer, .since = 9, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64) | DTYPES_TEXT, .attrs = attrs, .infer = tfidf_infer,
          .grad = grad_none, .place = tfidf_place,
          .doc = "how often each n-gram of a pool, of items that up to max_skip_count others part, is in "
                 "a row; whether it is; times its weight");
