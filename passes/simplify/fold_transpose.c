/* fold-transpose: a matrix product reads an operand that was transposed as it was before.
 *
 * MatMul(A, Transpose(B)) is BatchMatMul(A, B, transB=1), and Gemm and BatchMatMul take their flags' opposite: the same
 * sum of the same products.  Only a Transpose that exchanges the last two axes is one of matrices; operands of MatMul
 * with fewer than two axes keep it as it is.  Before autodiff, for the gradient of such a product needs no transposed
 * copy either: logits by a tied embedding then move its table in neither direction.  The Transposes that nobody reads
 * any more are dce's. */
#include "graph/ir/readers.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "passes/pass.h"

/* What stands before the transposition of `v`'s matrices; NO_VALUE when there is none. */
static ValueId untransposed(const Graph *g, ValueId v)
{
    const Node *t = made_by(g, v, &op_Transpose);
    int rank;
    const int64_t *perm = t ? node_ints(t, "perm", &rank) : NULL;

    if (!perm || rank < 2 || perm[rank - 2] != rank - 1 || perm[rank - 1] != rank - 2)
        return NO_VALUE;
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i)
            return NO_VALUE;
    return t->in[0];
}

/* MatMul as the product that has flags. */
static Status flagged(Graph *g, Node *n)
{
    if (n->op != &op_MatMul)
        return ST_OK;
    n->op = &op_BatchMatMul;
    return node_normalise(g, n);
}

static Status fold_transpose_run(Graph *g, PassCtx *ctx)
{
    FOR_NODES(g, n) {
        bool product = n->op == &op_MatMul || n->op == &op_BatchMatMul || n->op == &op_Gemm;

        if (!product || in_value(g, n, 0)->shape->rank < 2 || in_value(g, n, 1)->shape->rank < 2)
            continue;
        for (int i = 0; i < 2; i++) {
            const char *flag = i ? "transB" : "transA";
            ValueId x;

            while (has_value(x = untransposed(g, n->in[i]))) {
                TRY(flagged(g, n));
                node_set_input(g, n, i, x);
                node_set_int(g, n, flag, !node_int(n, flag));
                ctx->n_changed++;
            }
        }
    }
    return g->status;
}

const Pass pass_fold_transpose = { .name = "fold-transpose",
                                   .summary = "let matrix products read transposed operands as they were",
                                   .run = fold_transpose_run };
