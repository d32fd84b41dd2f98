/* tie-twins: a tensor and its transpose, both in the file, become one parameter.
 *
 * Where an output layer shares its weight with an embedding, exporters that fold constants write the table for Gather
 * and its transpose for MatMul.  Trained as two tensors they would drift apart.  The pass computes the transpose from
 * the table again.
 *
 * Two matrices that hold more than one distinct number are not transposes of each other to the bit by accident, with
 * one exception: copies of a layer, one of them transposed.  Sibling modules ("layers.0", "layers.1") read those, and
 * the pass leaves them alone; it also leaves alone every tensor that matches --untie.  The matrix with a parameter's
 * name stays; if neither or both have one, the first stays.
 *
 * The search is linear but for sorting.  Twins have the same size and the same diagonal, which transposing does not
 * move.  Only matrices that agree in both are hashed in full, once by rows and once by columns.  Transposing swaps the
 * two hashes, so after sorting by the lower and then the higher hash, twins are neighbours. */
#include "passes/model/tie_twins.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"
#include "graph/ir/emit.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/layout.gen.h"
#include "passes/names.h"
#include "passes/options/parameters.h"
#include "passes/pass.h"
#include "passes/report.h"

typedef struct {
    ValueId v;
    const Node *reader;           /* its first reader; NULL: it is tied already */
    int64_t shorter, longer;      /* the numbers of rows and columns, in order of size */
    uint64_t diagonal;            /* hash of the diagonal */
    uint64_t low_hash, high_hash; /* the hashes by rows and by columns, in order of size; 0: not hashed */
    bool columns_first;           /* low_hash is the hash by columns */
} Matrix;

static uint64_t splitmix64(uint64_t x) { return hash_mix(x + HASH_GOLDEN); }

static int compare_hashes(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int tie_twins_compare(const void *p, const void *q)
{
    const Matrix *a = p, *b = q;
    int c;

    if (a->shorter != b->shorter)
        return a->shorter < b->shorter ? -1 : 1;
    if (a->longer != b->longer)
        return a->longer < b->longer ? -1 : 1;
    if ((c = compare_hashes(a->diagonal, b->diagonal)) || (c = compare_hashes(a->low_hash, b->low_hash)) ||
        (c = compare_hashes(a->high_hash, b->high_hash)))
        return c;
    return a->v.i < b->v.i ? -1 : a->v.i > b->v.i;
}

static bool same_size_and_diagonal(const Matrix *a, const Matrix *b)
{
    return a->shorter == b->shorter && a->longer == b->longer && a->diagonal == b->diagonal;
}

static bool same_hashes(const Matrix *a, const Matrix *b)
{
    return same_size_and_diagonal(a, b) && a->low_hash == b->low_hash && a->high_hash == b->high_hash;
}

static uint64_t element_bits(const Tensor *t, int64_t row, int64_t column)
{
    const size_t size = dtype_size(t->dtype);
    uint64_t bits = 0;

    memcpy(&bits, (const char *)t->data + (size_t)(row * t->shape.dim[1] + column) * size, size);
    return bits;
}

/* Each hash is a sum over the elements, of splitmix64 of the bits and the place; a sum has no order. */
static void hash_matrix(Matrix *m, const Tensor *t)
{
    uint64_t by_rows = 0, by_columns = 0;

    for (int64_t i = 0; i < t->shape.dim[0]; i++)
        for (int64_t k = 0; k < t->shape.dim[1]; k++) {
            const uint64_t bits = splitmix64(element_bits(t, i, k));

            by_rows += splitmix64(splitmix64(bits ^ (uint64_t)i) ^ (uint64_t)k);
            by_columns += splitmix64(splitmix64(bits ^ (uint64_t)k) ^ (uint64_t)i);
        }
    m->columns_first = by_rows > by_columns;
    m->low_hash = m->columns_first ? by_columns : by_rows;
    m->high_hash = m->columns_first ? by_rows : by_columns;
}

static bool kept_apart(const BuildOptions *opt, const char *name)
{
    const ParameterOptions *parameters = parameter_options(opt);

    for (int i = 0; i < parameters->n_untie; i++)
        if (!fnmatch(parameters->untie[i], name, 0))
            return true;
    return false;
}

/* Lists the float matrices of the file that may have a twin, hashed where several agree in size and diagonal, and
 * sorted.  `all`: includes those that match --untie. */
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
        const Value *v = g->value[i];
        const Tensor *t = v->init;
        int64_t rows, columns;
        Matrix m = { .v = { i }, .reader = reader[i] };

        if (!reader[i] || v->kind != V_CONST || v->next || !dtype_is_float(v->dtype) || !t || !t->data ||
            t->shape.rank != 2 || tensor_numel(t) <= 3 || tensor_is_filled(t) ||
            (!all && kept_apart(ctx->opt, v->name)))
            continue;
        rows = t->shape.dim[0];
        columns = t->shape.dim[1];
        m.shorter = rows < columns ? rows : columns;
        m.longer = rows < columns ? columns : rows;
        for (int64_t k = 0; k < m.shorter; k++)
            m.diagonal = splitmix64(m.diagonal ^ element_bits(t, k, k));
        list[n++] = m;
    }
    qsort(list, (size_t)n, sizeof *list, tie_twins_compare);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_size_and_diagonal(&list[end], &list[i]); end++)
            ;
        for (int k = i; end - i > 1 && k < end; k++)
            hash_matrix(&list[k], value(g, list[k].v)->init);
    }
    qsort(list, (size_t)n, sizeof *list, tie_twins_compare);
    *out = list;
    *n_out = n;
    return ST_OK;
}

static bool is_transpose(const Tensor *a, const Tensor *b)
{
    const int64_t rows = a->shape.dim[0], columns = a->shape.dim[1];

    if (a->dtype != b->dtype || b->shape.dim[0] != columns || b->shape.dim[1] != rows)
        return false;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            if (element_bits(a, i, k) != element_bits(b, k, i))
                return false;
    return true;
}

/* May the matrices of equal hashes include a transposed pair?  A symmetric hash pair gives no orientation. */
static bool has_both_orientations(const Matrix *m, int n)
{
    for (int i = 1; i < n; i++)
        if (m[i].columns_first != m[0].columns_first || m[i].low_hash == m[i].high_hash)
            return true;
    return false;
}

/* Lets the readers of `twin` read the transpose of `kept`. */
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

/* Ties the twins among n matrices of equal hashes.  Each round compares m[0] with the others, and compacts the list of
 * those that stay.  A round in which m[0] becomes a twin itself leaves the rest for the next round. */
static Status tie_all(Graph *g, PassCtx *ctx, Matrix *m, int n)
{
    for (; n > 1 && has_both_orientations(m, n); m++, n--) {
        int left = 1;

        for (int k = 1; k < n; k++) {
            const bool second = names_made_up(value(g, m[0].v)->name) && !names_made_up(value(g, m[k].v)->name);
            Matrix *kept = second ? &m[k] : &m[0], *twin = second ? &m[0] : &m[k];
            const bool same_orientation = m[k].columns_first == m[0].columns_first && m[k].low_hash != m[k].high_hash;
            const char *a = kept->reader ? kept->reader->module : NULL, *b = twin->reader ? twin->reader->module : NULL;

            if (!m[0].reader || same_orientation || !is_transpose(value(g, kept->v)->init, value(g, twin->v)->init) ||
                (a && b && names_are_siblings(a, b))) {
                m[left++] = m[k];
                continue;
            }
            TRY(tie(g, ctx, kept->v, twin->v));
            twin->reader = NULL;
            if (second)
                m[left++] = m[k];
        }
        n = left;
    }
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

        for (end = i; end < n && same_hashes(&m[end], &m[i]); end++)
            any |= !fnmatch(pattern, value(g, m[end].v)->name, 0);
        *out |= any && has_both_orientations(&m[i], end - i);
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
        for (end = i + 1; end < n && same_hashes(&m[end], &m[i]); end++)
            ;
        TRY(tie_all(g, ctx, &m[i], end - i));
    }
    TRY(rewrite_end(g));
    return graph_sort(g);
}

const Pass pass_tie_twins = { .name = "tie-twins",
                              .summary = "a tensor and its transpose are one parameter",
                              .run = tie_twins_run };
