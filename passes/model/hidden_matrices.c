/* Which parameters are hidden matrices, for --optimizer muon: W in x W, as MatMul, Gemm, convolutions and recurrent
 * cells write it, perhaps behind a Transpose or operators that cut and join rows, except those of last layers.
 *
 * A layer is a last one if no other layer follows on a path to an output.  A parameter that anything else reads as
 * well, such as an embedding that is also the last layer's weight, is no hidden matrix. */
#include "graph/ir/op.h"
#include "passes/model/parameters.h"

enum { OTHER_USE = MATRIX_FLAT + 1 };

/* Do the outputs consist of rows or columns of the inputs, whole and in their places? */
static bool keeps_rows(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;

    return n->op->rows == ROWS_KEPT ||
           (n->op->rows == ROWS_SHAPED && x->rank > 1 && y->rank > 1 && x->dim[x->rank - 1] == y->dim[y->rank - 1] &&
            x->dim[x->rank - 2] == y->dim[y->rank - 2]);
}

/* The use of node n's input when its output is used as `kind`. */
static int behind(const Graph *g, const Node *n, int kind)
{
    int rank = in_value(g, n, 0)->shape->rank, count;
    const int64_t *perm;

    if (keeps_rows(g, n))
        return kind;
    if (n->op->rows != ROWS_PERMUTED || kind == MATRIX_FLAT || kind == OTHER_USE || rank < 2)
        return OTHER_USE;
    perm = node_ints(n, "perm", &count);
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i)
            return OTHER_USE;
    return perm[rank - 1] == rank - 1 ? kind : kind == MATRIX_IN_OUT ? MATRIX_OUT_IN : MATRIX_IN_OUT;
}

/* The use of what is used in both ways; 0: not at all. */
static uint8_t join_uses(int a, int b) { return (uint8_t)(!a || a == b ? b : !b ? a : OTHER_USE); }

/* Notes how node n uses its constant inputs.  `last`: it leads to an output without another layer in between.  Returns
 * whether it is a layer. */
static bool note_node(uint8_t *kind, const Reach *r, const Node *n, bool last)
{
    bool layer = false, constant = false;
    uint8_t use = 0;

    for (int k = 0; k < n->n_out; k++)
        if (has_value(n->out[k])) {
            constant |= r->constant[n->out[k].i];
            use = join_uses(use, kind[n->out[k].i]);
        }
    for (int k = 0; k < n->n_in; k++) {
        const MatrixKind of = n->op->matrix_in ? n->op->matrix_in(n, k) : MATRIX_NONE;

        if (!has_value(n->in[k]) || !r->constant[n->in[k].i])
            continue;
        layer |= of != MATRIX_NONE;
        kind[n->in[k].i] =
            join_uses(kind[n->in[k].i], constant ? (op_moves(n->op, k) ? behind(r->g, n, use) : OTHER_USE)
                                        : of == MATRIX_NONE || last ? OTHER_USE
                                                                    : (int)of);
    }
    return layer && !constant;
}

Status hidden_matrices_find(uint8_t **out, const Reach *r, Arena *a)
{
    const Graph *g = r->g;
    uint8_t *kind = ARENA_NEW(a, uint8_t, g->n_value);
    bool *last = ARENA_NEW(a, bool, g->n_value);

    if (!kind || !last)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++)
        last[g->output[i].value.i] = true;
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];
        bool leads = false;

        if (!n->op || !r->live[i] || n->op->flags & OPF_SHAPE_ONLY)
            continue;
        for (int k = 0; k < n->n_out; k++)
            leads |= has_value(n->out[k]) && last[n->out[k].i];
        if (note_node(kind, r, n, leads))
            continue;
        for (int k = 0; k < n->n_in; k++)
            last[n->in[k].i] |= leads && has_value(n->in[k]);
    }
    for (uint32_t i = 1; i < g->n_value; i++)
        if (kind[i] == OTHER_USE || g->value[i]->shape->rank < 2)
            kind[i] = MATRIX_NONE;
    *out = kind;
    return ST_OK;
}
