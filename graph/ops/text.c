/* Operators of strings.  The size of their results depends on data, so only the interpreter computes them. */
#include "graph/base/foreign.h"
#include "graph/ir/grad.h"
#include "graph/ops/string_filter.h"

#define ON_STRINGS .dtypes = DTYPES_TEXT, .flags = OPF_DYNAMIC, .grad = grad_none, .out_min = 1

/* ---- StringConcat ---- */

static Status infer_concat(Graph *g, Node *n) { return infer_broadcast(g, n, DT_NONE); }

DEFINE_OP(StringConcat, ON_STRINGS, .since = 20, .in_min = 2, .in_max = 2, .out_max = 1, .infer = infer_concat,
          .doc = "a followed by b");

/* ---- RegexFullMatch ---- */

static Status infer_match(Graph *g, Node *n)
{
    set_out(g, n, 0, DT_BOOL, in_value(g, n, 0)->shape);
    return g->status;
}

DEFINE_OP(RegexFullMatch, ON_STRINGS, .since = 20, .in_min = 1, .in_max = 1, .out_max = 1,
          .attrs = (const AttrDecl[]){ { "pattern", A_STRING, .rule = ATTR_REQUIRED }, { 0 } }, .infer = infer_match,
          .doc = "does the whole of x match the pattern, in RE2's syntax?");

/* ---- StringSplit: a new last axis, as long as the largest number of parts ---- */

static int64_t most_parts(const Node *n, const Tensor *x)
{
    const Text by = text_of(node_string(n, "delimiter"));
    int64_t most = 0;
    Text part;

    for (int64_t i = 0; i < tensor_numel(x); i++) {
        TextSplit s = text_split(text_at(x, i), by, node_int(n, "maxsplit"));
        int64_t parts = 0;

        while (text_split_next(&part, &s))
            parts++;
        most = parts > most ? parts : most;
    }
    return most;
}

static Status infer_split(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const Tensor *t = in_const(g, n, 0);
    Shape y = shape_unknown();

    if (x->rank == MAX_RANK)
        return FAIL(E_SHAPE, "%s: %d dimensions, at most %d are possible", node_text(g, n), x->rank, MAX_RANK - 1);
    if (!utf8_valid(node_string(n, "delimiter")))
        return FAIL(E_MODEL, "%s: the delimiter is no UTF-8", node_text(g, n));
    if (t) {
        y = *x;
        y.dim[y.rank++] = most_parts(n, t);
    }
    set_out(g, n, 0, DT_STRING, &y);
    set_out(g, n, 1, DT_INT64, x);
    return g->status;
}

DEFINE_OP(StringSplit, ON_STRINGS, .since = 20, .in_min = 1, .in_max = 1, .out_max = 2,
          .attrs = (const AttrDecl[]){ { "delimiter", A_STRING, .s = "" }, { "maxsplit", A_INT, .i = -1 }, { 0 } },
          .infer = infer_split,
          .doc = "the parts of x between delimiters, or runs of whitespace, and empty strings behind the last; how "
                 "many there are");

/* ---- StringNormalizer: [C] or [1, C] without stop words; one empty string if none is left ---- */

static Status count_kept(int64_t *out, const Graph *g, const Node *n, const Tensor *x)
{
    TextFilter *f;
    Status st;

    TRY(text_filter_create(&f, g, n));
    *out = 0;
    st = ST_OK;
    for (int64_t i = 0; i < tensor_numel(x) && !st; i++) {
        bool drops;

        if (!(st = text_filter_drops(&drops, f, text_at(x, i))))
            *out += !drops;
    }
    text_filter_free(f);
    return st;
}

static Status infer_normalizer(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const Tensor *t = in_const(g, n, 0);
    Shape y = shape_unknown();
    char text[SHAPE_TEXT];

    if (x->rank < 1 || x->rank > 2 || (x->rank == 2 && x->dim[0] != 1))
        return FAIL(E_SHAPE, "%s: x is %s, expected [C] or [1,C]", node_text(g, n), shape_text(x, text));
    if (t) {
        y = *x;
        TRY(count_kept(&y.dim[y.rank - 1], g, n, t));
        y.dim[y.rank - 1] += !y.dim[y.rank - 1];
    }
    set_out(g, n, 0, DT_STRING, &y);
    return g->status;
}

DEFINE_OP(StringNormalizer, ON_STRINGS, .since = 10, .in_min = 1, .in_max = 1, .out_max = 1,
          .attrs = (const AttrDecl[]){ { "case_change_action", A_STRING, .s = "NONE", .words = "LOWER UPPER NONE" },
                                       { "is_case_sensitive", A_INT, .i = 0 },
                                       { "locale", A_STRING, .s = "" },
                                       { "stopwords", A_STRINGS, .i = 0 },
                                       { 0 } },
          .infer = infer_normalizer, .doc = "x without stop words, in another case");
