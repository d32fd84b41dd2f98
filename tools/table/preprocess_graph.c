/* A fitted table's preprocessing in ONNX's operators.  Neighbouring numeric columns are computed together:
 *
 *     x = Concat(age, height)                 double [N, 2]
 *     y = Cast((Where(IsNaN(x), medians, x) - means) / scales)
 *
 * and each column of categories by comparison with all of them:
 *
 *     y = Cast(city == ["Bergen", "Oslo"])    string [N, 1] == string [1, 2]
 *
 * A missing category, whose indicator comes first, is ReduceMax(Cast(city == ["", "NA", ...])).
 *
 * The id of a category is n + ReduceSum(indicators * [-n, 1 - n, ..., -1]): n where no indicator is set. */
#include "tools/table/preprocess_graph.h"

#include <onnx_proto.h>

#include "tools/table/onnx_draft.h"

enum { OPSET = 19, NODES_OF_COLUMN = 16 };

#define TYPE(t) ONNX__TENSOR_PROTO__DATA_TYPE__##t
#define NODE(d, op, attribute, ...) \
    onnx_draft_node((d), (op), (const char *const[DRAFT_INPUTS]){ __VA_ARGS__ }, (attribute), NULL)

static const int64_t one = 1;

/* Describes an input or output [N, width], or [N] of rank 1. */
static Onnx__ValueInfoProto *describe(OnnxDraft *d, const char *name, int32_t type, int rank, int64_t width)
{
    return onnx_draft_value(d, name, type, rank, (const int64_t[]){ -1, width }, (const char *const[]){ "N", NULL });
}

static char *concatenate(OnnxDraft *d, char *const *part, int n, const char *output)
{
    Onnx__NodeProto *last;
    char *out;

    if (n == 1 && !output)
        return part[0];
    out = onnx_draft_node(d, "Concat", (const char *const[DRAFT_INPUTS]){ NULL },
                          onnx_draft_int_attribute(d, "axis", 1), output);
    if (d->failed)
        return NULL;
    last = d->graph.node[d->graph.n_node - 1];
    last->n_input = (size_t)n;
    if ((last->input = arena_memdup(d->arena, part, (size_t)n * sizeof *part)))
        return out;
    d->failed = true;
    last->n_input = 0;
    return out;
}

/* The features of n numeric columns that follow each other in an output. */
static char *draft_numbers(OnnxDraft *d, const Table *t, const int *column, int n)
{
    double *v = onnx_draft_alloc(d, 3 * (size_t)n * sizeof *v);
    char **name = onnx_draft_alloc(d, (size_t)n * sizeof *name), *x;

    if (!v || !name)
        return NULL;
    for (int i = 0; i < n; i++) {
        const Column *col = &t->column[column[i]];

        v[i] = col->median;
        v[n + i] = col->mean;
        v[2 * n + i] = col->scale;
        d->failed |= !(name[i] = arena_strdup(d->arena, col->name));
    }
    x = concatenate(d, name, n, NULL);
    x = NODE(d, "Where", NULL, NODE(d, "IsNaN", NULL, x), onnx_draft_numbers(d, v, (size_t)n), x);
    x = NODE(d, "Sub", NULL, x, onnx_draft_numbers(d, v + n, (size_t)n));
    x = NODE(d, "Div", NULL, x, onnx_draft_numbers(d, v + 2 * n, (size_t)n));
    return NODE(d, "Cast", onnx_draft_int_attribute(d, "to", TYPE(FLOAT)), x);
}

static char *draft_indicators(OnnxDraft *d, const char *of, const char *const *text, size_t n)
{
    return NODE(d, "Cast", onnx_draft_int_attribute(d, "to", TYPE(FLOAT)),
                NODE(d, "Equal", NULL, of, onnx_draft_texts(d, text, n)));
}

/* An indicator of a missing category. */
static char *draft_missing(OnnxDraft *d, const Column *col)
{
    size_t n = 0;

    while (table_missing[n])
        n++;
    return NODE(d, "ReduceMax", NULL, draft_indicators(d, col->name, table_missing, n), onnx_draft_ints(d, &one, 1));
}

/* The indicators of a column of categories, of which there is one. */
static char *draft_categories(OnnxDraft *d, const Column *col)
{
    const char **text = onnx_draft_alloc(d, ((size_t)col->n_known + 1) * sizeof *text);
    char *part[2];
    int n = 0;

    for (int i = 0; text && i < col->n_known; i++)
        text[i] = col->known[i]->text;
    if (!text)
        return NULL;
    if (!*text[0])
        part[n++] = draft_missing(d, col);
    if (n < col->n_known) {
        part[n] = draft_indicators(d, col->name, text + n, (size_t)(col->n_known - n));
        n++;
    }
    return concatenate(d, part, n, NULL);
}

/* The ids of a column [N, 1], in double. */
static char *draft_id(OnnxDraft *d, const Column *col)
{
    double *place = onnx_draft_alloc(d, ((size_t)col->n_known + 1) * sizeof *place);
    const double n = col->n_known;
    char *x = arena_strdup(d->arena, col->name);

    d->failed |= !x;
    if (d->failed || col->kind == COLUMN_NUMERIC)
        return x;
    for (int i = 0; i < col->n_known; i++)
        place[i] = i - n;
    x = NODE(d, "Cast", onnx_draft_int_attribute(d, "to", TYPE(DOUBLE)), draft_categories(d, col));
    x = NODE(d, "Mul", NULL, x, onnx_draft_numbers(d, place, (size_t)col->n_known));
    x = NODE(d, "ReduceSum", NULL, x, onnx_draft_ints(d, &one, 1));
    return NODE(d, "Add", NULL, x, onnx_draft_numbers(d, &n, 1));
}

static void draft_ids(OnnxDraft *d, const Table *t, const FeatureTensor *to)
{
    const int32_t type = to->id_bytes == 4 ? TYPE(INT32) : TYPE(INT64);
    char **part = onnx_draft_alloc(d, ((size_t)to->n + 1) * sizeof *part), *x = NULL;

    for (int i = 0; part && i < to->n; i++)
        part[i] = draft_id(d, &t->column[to->column[i]]);
    if (part && !d->failed)
        x = concatenate(d, part, to->n, NULL);
    if (x && to->rank == 1)
        x = NODE(d, "Squeeze", NULL, x, onnx_draft_ints(d, &one, 1));
    (void)onnx_draft_node(d, "Cast", (const char *const[DRAFT_INPUTS]){ x }, onnx_draft_int_attribute(d, "to", type),
                          to->name);
    d->graph.output[d->graph.n_output++] = describe(d, to->name, type, to->rank, to->n);
}

static void draft_tensor(OnnxDraft *d, const Table *t, const FeatureTensor *to)
{
    char **part = onnx_draft_alloc(d, ((size_t)to->n + 1) * sizeof *part);
    int n = 0, width = 0;

    for (int i = 0, run; part && i < to->n; i += run) {
        const Column *col = &t->column[to->column[i]];

        for (run = 1;
             col->kind == COLUMN_NUMERIC && i + run < to->n && t->column[to->column[i + run]].kind == COLUMN_NUMERIC;)
            run++;
        part[n++] = col->kind == COLUMN_NUMERIC ? draft_numbers(d, t, &to->column[i], run) : draft_categories(d, col);
    }
    for (int i = 0; i < to->n; i++)
        width += t->column[to->column[i]].width;
    if (part)
        (void)concatenate(d, part, n, to->name);
    d->graph.output[d->graph.n_output++] = describe(d, to->name, TYPE(FLOAT), 2, width);
}

static Status draft_graph(OnnxDraft *d, const Table *t, const FeatureTensor *tensor, int n)
{
    TRY(onnx_draft_open(d, NODES_OF_COLUMN * ((size_t)t->n + (size_t)n)));
    for (int i = 0; i < t->n; i++) {
        const Column *col = &t->column[i];

        for (int k = 0; k < n && col->width; k++) /* a column that is in no tensor is no input */
            for (int c = 0; c < tensor[k].n; c++)
                if (tensor[k].column[c] == i)
                    d->graph.input[d->graph.n_input++] =
                        describe(d, col->name, col->kind == COLUMN_NUMERIC ? TYPE(DOUBLE) : TYPE(STRING), 2, 1);
    }
    for (int k = 0; k < n && !d->failed; k++)
        (tensor[k].id_bytes ? draft_ids : draft_tensor)(d, t, &tensor[k]);
    return d->failed ? FAIL_NOMEM() : ST_OK;
}

Status preprocess_write(const Table *t, const FeatureTensor *tensor, int n, const char *path)
{
    OnnxDraft d = { 0 };
    Status st = draft_graph(&d, t, tensor, n);

    st = st ? st : onnx_draft_write(&d, OPSET, path);
    onnx_draft_close(&d);
    return st;
}
