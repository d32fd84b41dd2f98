/* FlexAttention: attention with graphs of the file that modify scores and probabilities (graph/onnx/flow.c imports them
 * between these nodes).  Q, K, V and Y are [batch, heads, tokens, depth]:
 *
 *   S = (r Q)(r K)^T,   P = softmax(score_mod(S)),   Y = prob_mod(P) V,   r = sqrt(scale)
 *
 * S and P have a type of their own; r is computed in float32.  If queries have more heads, those of a group share a
 * head of K and V. */
#include "graph/ops/flex_attention.h"

#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

#define NODE(g, Op, attrs, ...) import_emit((g), &op_##Op, (attrs), EMIT_N(__VA_ARGS__), (ValueId[]){ __VA_ARGS__ })

static ValueId cast(Graph *g, ValueId x, DType from, DType to)
{
    return from == to ? x : NODE(g, Cast, ATTRS(INT("to", to)), x);
}

static ValueId sizes(Graph *g, ValueId x, int64_t from, int64_t to)
{
    return NODE(g, Shape, ATTRS(INT("start", from), INT("end", to)), x);
}

/* Repeats each head of x for the heads of q that share it. */
static ValueId repeat_heads(Graph *g, const FlexAttention *a, ValueId x, ValueId q)
{
    ValueId one, share, heads, batch, rest, times, whole;

    if (!a->shared)
        return x;
    one = emit_ints(g, 1, (int64_t[]){ 1 });
    heads = sizes(g, q, 1, 2);
    share = NODE(g, Div, NULL, heads, sizes(g, x, 1, 2));
    times = NODE(g, Concat, ATTRS(INT("axis", 0)), one, one, share, one, one);
    batch = sizes(g, x, 0, 1);
    rest = sizes(g, x, 2, 4);
    whole = NODE(g, Concat, ATTRS(INT("axis", 0)), batch, heads, rest);
    x = NODE(g, Expand, NULL, NODE(g, Unsqueeze, NULL, x, emit_ints(g, 1, (int64_t[]){ 2 })), times);
    return NODE(g, Reshape, ATTRS(INT("allowzero", 1)), x, whole);
}

ValueId flex_scores(Graph *g, const FlexAttention *a, ValueId q, ValueId k)
{
    ValueId root;

    if (a->scaled)
        root = emit_scalar(g, a->type, sqrtf(a->scale));
    else {
        root = NODE(g, Sqrt, NULL, cast(g, sizes(g, q, 3, 4), DT_INT64, DT_FLOAT32));
        root = NODE(g, Sqrt, NULL, NODE(g, Reciprocal, NULL, root));
        root = cast(g, root, DT_FLOAT32, a->type);
    }
    k = NODE(g, Mul, NULL, repeat_heads(g, a, k, q), root);
    k = NODE(g, Transpose, ATTRS(INTS("perm", 4, ((int64_t[]){ 0, 1, 3, 2 }))), k);
    q = NODE(g, Mul, NULL, q, root);
    return cast(g, NODE(g, MatMul, NULL, q, k), a->type, a->soft);
}

ValueId flex_probabilities(Graph *g, ValueId scores) { return NODE(g, Softmax, ATTRS(INT("axis", -1)), scores); }

ValueId flex_values(Graph *g, const FlexAttention *a, ValueId probabilities, ValueId v, ValueId q)
{
    v = cast(g, repeat_heads(g, a, v, q), a->type, a->soft);
    return cast(g, NODE(g, MatMul, NULL, probabilities, v), a->soft, a->type);
}
