/* fold-transpose: lets a matrix product read an operand from before its transposition.
 *
 * MatMul(A, Transpose(B)) becomes BatchMatMul(A, B, transB=1); Gemm and BatchMatMul get the opposite flag.  The product
 * adds the same terms in the same order.  Only a Transpose that swaps the last two axes counts, and only operands with
 * two axes or more.  The pass runs before autodiff, because the gradient of such a product needs no transposed copy
 * either: logits by a tied embedding then never copy its table.  dce removes the dead Transposes. */
#include "graph/ir/readers.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "passes/pass.h"

/* The operand v of a product before the transposition of its matrices; NO_VALUE: it is not transposed. */
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
                if (n->op == &op_MatMul) { /* which has no flags */
                    n->op = &op_BatchMatMul;
                    TRY(node_normalise(g, n));
                }
                node_set_input(g, n, i, x);
                node_set_int(g, n, flag, !node_int(n, flag));
                ctx->n_changed++;
            }
        }
    }
    return g->status;
}

const Pass pass_fold_transpose = { .name = "fold-transpose",
                                   .summary = "let matrix products read operands from before their transposition",
                                   .idempotent = true,
                                   .run = fold_transpose_run };
