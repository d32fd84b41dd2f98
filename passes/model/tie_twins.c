/* tie-twins: a tensor and its transpose, both in the file, are one parameter.
 *
 * Where an embedding is the output layer's weight too, exporters that fold constants write the table for Gather and its
 * transpose for MatMul: two tensors, which training would take apart.  The transpose is computed from the tensor again.
 *
 * Two matrices of other than one number that are each other's transposes to the bit are never so by accident, with one
 * exception: copies of a layer of which one was transposed.  Those are read by siblings ("layers.0", "layers.1"), and
 * left alone; so is what matches --untie.  The one that has a parameter's name stays, else the first.
 *
 * Candidates have one size and one diagonal, which transposing leaves as it is; of those, which are few, all numbers
 * are read, for two hashes, one by rows and one by columns, which change places when a matrix is transposed: sorted by
 * both, whichever is less first, twins stand side by side. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/layout.gen.h"
#include "graph/ir/rewrite.h"
#include "passes/names.h"
#include "passes/pass.h"
#include "passes/model/tie_twins.h"
#include "passes/report.h"

typedef struct {
    ValueId v;
    const Node *reader;  /* the first */
    int64_t few, many;   /* rows and columns, the smaller number first */
    uint64_t diagonal;   /* a hash of it */
    uint64_t less, more; /* of the two hashes; `more` is the one by rows of those that are turned; 0: it is alone */
    bool turned;
} Matrix;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static int compare_numbers(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int tie_twins_compare(const void *p, const void *q)
{
    const Matrix *a = p, *b = q;
    int c;

    if (a->few != b->few)
        return a->few < b->few ? -1 : 1;
    if (a->many != b->many)
        return a->many < b->many ? -1 : 1;
    if ((c = compare_numbers(a->diagonal, b->diagonal)) || (c = compare_numbers(a->less, b->less)) ||
        (c = compare_numbers(a->more, b->more)))
        return c;
    return a->v.i < b->v.i ? -1 : a->v.i > b->v.i;
}

static bool look_alike(const Matrix *a, const Matrix *b)
{
    return a->few == b->few && a->many == b->many && a->diagonal == b->diagonal;
}

static bool may_pair(const Matrix *a, const Matrix *b)
{
    return look_alike(a, b) && a->less == b->less && a->more == b->more;
}

static uint64_t bits_of(const Tensor *t, int64_t row, int64_t column)
{
    const size_t size = dtype_size(t->dtype);
    uint64_t bits = 0;

    memcpy(&bits, (const char *)t->data + (size_t)(row * t->shape.dim[1] + column) * size, size);
    return bits;
}

static uint64_t diagonal_of(const Tensor *t, int64_t n)
{
    uint64_t hash = 0;

    for (int64_t i = 0; i < n; i++)
        hash = mix(hash ^ bits_of(t, i, i));
    return hash;
}

/* A sum over the elements of a mixture (splitmix64's) of their bits and places, which no order changes. */
static void find_hashes(Matrix *m, const Tensor *t)
{
    uint64_t sum[2] = { 0, 0 };

    for (int64_t i = 0; i < t->shape.dim[0]; i++)
        for (int64_t k = 0; k < t->shape.dim[1]; k++) {
            const uint64_t bits = mix(bits_of(t, i, k));

            sum[0] += mix(mix(bits ^ (uint64_t)i) ^ (uint64_t)k);
            sum[1] += mix(mix(bits ^ (uint64_t)k) ^ (uint64_t)i);
        }
    m->turned = sum[0] > sum[1];
    m->less = sum[m->turned];
    m->more = sum[!m->turned];
}

static bool kept_apart(const BuildOptions *opt, const char *name)
{
    for (int i = 0; i < opt->n_untie; i++)
        if (!fnmatch(opt->untie[i], name, 0))
            return true;
    return false;
}

static bool may_be_twin(const Value *v)
{
    return v->kind == V_CONST && !v->next && dtype_is_float(v->dtype) && v->init && v->init->data &&
           v->init->shape.rank == 2 && tensor_numel(v->init) > 3 && !tensor_is_filled(v->init);
}

/* Of those that have others of their size and diagonal. */
static void find_all_hashes(Matrix *list, int n, const Graph *g)
{
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && look_alike(&list[end], &list[i]); end++)
            ;
        for (int k = i; end - i > 1 && k < end; k++)
            find_hashes(&list[k], value(g, list[k].v)->init);
    }
}

/* With those that match --untie, or without; sorted. */
static Status list_matrices(Matrix **out, int *n_out, const Graph *g, PassCtx *ctx, bool all)
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

        if (!reader[i] || !may_be_twin(g->value[i]) || (!all && kept_apart(ctx->opt, g->value[i]->name)))
            continue;
        rows = t->shape.dim[0];
        columns = t->shape.dim[1];
        list[n] = (Matrix){ .v = { i }, .reader = reader[i] };
        list[n].few = rows < columns ? rows : columns;
        list[n].many = rows < columns ? columns : rows;
        list[n].diagonal = diagonal_of(t, list[n].few);
        n++;
    }
    qsort(list, (size_t)n, sizeof *list, tie_twins_compare);
    find_all_hashes(list, n, g);
    qsort(list, (size_t)n, sizeof *list, tie_twins_compare);
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

/* Readers of `twin` are to read the transpose of `kept`. */
static Status tie(Graph *g, PassCtx *ctx, ValueId kept, ValueId twin)
{
    const int64_t perm[] = { 1, 0 };

    graph_replace(g, twin, EMIT(g, Transpose, ATTRS(INTS("perm", 2, perm)), kept));
    TRY(g->status);
    value(g, twin)->tied = true;
    ctx->n_changed++;
    return report_note(ctx->report, NOTE_OTHER, value(g, twin)->name,
                       "is the transpose of %s: one parameter (--untie '%s' makes them two)", value(g, kept)->name,
                       value(g, twin)->name);
}

/* The twins of m[i] among those behind it, until it is one itself; the others move up.  How many are left. */
static Status tie_one(Graph *g, PassCtx *ctx, Matrix *m, int i, int *n)
{
    int left = i + 1;

    for (int k = i + 1; k < *n; k++) {
        bool second = names_made_up(value(g, m[i].v)->name) && !names_made_up(value(g, m[k].v)->name);
        Matrix *kept = second ? &m[k] : &m[i], *twin = second ? &m[i] : &m[k];

        if (!m[i].reader || (m[k].turned == m[i].turned && m[k].less != m[k].more) ||
            !is_transpose(value(g, kept->v)->init, value(g, twin->v)->init) || are_copies(kept, twin)) {
            m[left++] = m[k];
            continue;
        }
        TRY(tie(g, ctx, kept->v, twin->v));
        twin->reader = NULL;
        if (second)
            m[left++] = m[k];
    }
    *n = left;
    return ST_OK;
}

static bool has_both(const Matrix *m, int n)
{
    for (int i = 1; i < n; i++)
        if (m[i].turned != m[0].turned || m[i].less == m[i].more)
            return true;
    return false;
}

static Status tie_among(Graph *g, PassCtx *ctx, Matrix *m, int n)
{
    for (; n > 1 && has_both(m, n); m++, n--)
        TRY(tie_one(g, ctx, m, 0, &n));
    return ST_OK;
}

Status twins_match(bool *out, const Graph *g, PassCtx *ctx, const char *pattern)
{
    Matrix *m;
    int n;

    *out = false;
    TRY(list_matrices(&m, &n, g, ctx, true));
    for (int i = 0, end; i < n; i = end) {
        bool any = false;

        for (end = i; end < n && may_pair(&m[end], &m[i]); end++)
            any |= !fnmatch(pattern, value(g, m[end].v)->name, 0);
        *out |= any && has_both(&m[i], end - i);
    }
    return ST_OK;
}

static Status tie_twins_run(Graph *g, PassCtx *ctx)
{
    Matrix *m;
    int n;

    TRY(list_matrices(&m, &n, g, ctx, false));
    TRY(rewrite_begin(g, ctx->scratch));
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && may_pair(&m[end], &m[i]); end++)
            ;
        TRY(tie_among(g, ctx, &m[i], end - i));
    }
    TRY(rewrite_end(g));
    return graph_sort(g);
}

const Pass pass_tie_twins = { .name = "tie-twins",
                              .summary = "a tensor and its transpose are one parameter",
                              .run = tie_twins_run };
