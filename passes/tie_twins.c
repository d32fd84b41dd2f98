/* tie-twins: a tensor and its transpose, both in the file, are one parameter.
 *
 * Where an embedding is the output layer's weight too, exporters that fold constants write the table for Gather and its
 * transpose for MatMul: two tensors, which training would take apart.  The transpose is computed from the tensor again.
 *
 * Two matrices of other than one number that are each other's transposes to the bit are never so by accident, with one
 * exception: copies of a layer of which one was transposed.  Those are read by siblings ("layers.0", "layers.1"), and
 * left alone; so is what matches --untie.  The one that has a parameter's name stays, else the first.
 *
 * Corners do not move when a matrix is transposed: sorted by size and corners, candidates stand side by side. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "graph/emit.h"
#include "passes/names.h"
#include "passes/pass.h"
#include "passes/report.h"

typedef struct {
    ValueId v;
    const Node *reader; /* the first */
    int64_t few, many;  /* rows and columns, the smaller number first */
    double first, last; /* corners */
} Matrix;

static int compare_numbers(double a, double b) { return (a > b) - (a < b); }

static int compare(const void *p, const void *q)
{
    const Matrix *a = p, *b = q;
    int c;

    if (a->few != b->few)
        return a->few < b->few ? -1 : 1;
    if (a->many != b->many)
        return a->many < b->many ? -1 : 1;
    if ((c = compare_numbers(a->first, b->first)) || (c = compare_numbers(a->last, b->last)))
        return c;
    return a->v.i < b->v.i ? -1 : a->v.i > b->v.i;
}

static bool kept_apart(const BuildOptions *opt, const char *name)
{
    for (int i = 0; i < opt->n_untie; i++)
        if (!fnmatch(opt->untie[i], name, 0))
            return true;
    return false;
}

static bool may_be_twin(const PassCtx *ctx, const Value *v)
{
    return v->kind == V_CONST && dtype_is_float(v->dtype) && v->init && v->init->data && v->init->shape.rank == 2 &&
           tensor_numel(v->init) > 3 && !tensor_is_filled(v->init) && !kept_apart(ctx->opt, v->name);
}

static Status list_matrices(Matrix **out, int *n_out, const Graph *g, PassCtx *ctx)
{
    const Node **reader = ARENA_NEW(ctx->scratch, const Node *, g->n_value);
    Matrix *list = ARENA_NEW(ctx->scratch, Matrix, g->n_value);
    int n = 0;

    if (!reader || !list)
        return FAIL_NOMEM();
    FOR_NODES(g, node)
        for (int i = 0; i < node->n_in; i++)
            if (!reader[node->in[i].i])
                reader[node->in[i].i] = node;
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Tensor *t = g->value[i]->init;
        int64_t rows, columns;

        if (!reader[i] || !may_be_twin(ctx, g->value[i]))
            continue;
        rows = t->shape.dim[0];
        columns = t->shape.dim[1];
        list[n++] = (Matrix){ { i },
                              reader[i],
                              rows < columns ? rows : columns,
                              rows < columns ? columns : rows,
                              tensor_float(t, 0),
                              tensor_float(t, tensor_numel(t) - 1) };
    }
    *out = list;
    *n_out = n;
    return ST_OK;
}

static bool is_transpose(const Tensor *a, const Tensor *b)
{
    int64_t rows = a->shape.dim[0], columns = a->shape.dim[1];
    size_t size = dtype_size(a->dtype);

    if (a->dtype != b->dtype || b->shape.dim[0] != columns || b->shape.dim[1] != rows)
        return false;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            if (memcmp((const char *)a->data + (size_t)(i * columns + k) * size,
                       (const char *)b->data + (size_t)(k * rows + i) * size, size))
                return false;
    return true;
}

static bool are_copies(const Matrix *a, const Matrix *b)
{
    const char *m = a->reader->module, *n = b->reader->module;

    return m && n && names_are_siblings(m, n);
}

static Status tie(Graph *g, PassCtx *ctx, ValueId kept, ValueId twin)
{
    const int64_t perm[] = { 1, 0 };
    ValueId turned = EMIT(g, Transpose, ATTRS(INTS("perm", 2, perm)), kept);

    TRY(g->status);
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (value_eq(n->in[i], twin))
                n->in[i] = turned;
    for (int i = 0; i < g->n_output; i++)
        if (value_eq(g->output[i].value, twin))
            g->output[i].value = turned;
    ctx->n_changed++;
    return report_note(ctx->report, NOTE_OTHER, value(g, twin)->name,
                       "is the transpose of %s: one parameter (--untie '%s' makes them two)", value(g, kept)->name,
                       value(g, twin)->name);
}

static Status tie_among(Graph *g, PassCtx *ctx, Matrix *m, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            bool second = names_made_up(value(g, m[i].v)->name) && !names_made_up(value(g, m[k].v)->name);
            Matrix *kept = second ? &m[k] : &m[i], *twin = second ? &m[i] : &m[k];

            if (!kept->reader || !twin->reader || !is_transpose(value(g, kept->v)->init, value(g, twin->v)->init) ||
                are_copies(kept, twin))
                continue;
            TRY(tie(g, ctx, kept->v, twin->v));
            twin->reader = NULL;
        }
    return ST_OK;
}

static Status run(Graph *g, PassCtx *ctx)
{
    Matrix *m;
    int n;

    TRY(list_matrices(&m, &n, g, ctx));
    qsort(m, (size_t)n, sizeof *m, compare);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && m[end].few == m[i].few && m[end].many == m[i].many && m[end].first == m[i].first &&
                          m[end].last == m[i].last;
             end++)
            ;
        TRY(tie_among(g, ctx, &m[i], end - i));
    }
    return graph_sort(g);
}

const Pass pass_tie_twins = { .name = "tie-twins",
                              .summary = "a tensor and its transpose are one parameter",
                              .run = run };
