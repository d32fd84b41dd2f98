/* join-biases: biases added to the parts of a divided product are added, as one, before it is divided.
 *
 * Queries, keys and values are often one product, cut into three by Split, each with a bias of its own:
 *
 *   Split(X W) = p, q ...; p + b, q + c ...      becomes      Split(X W + Concat(b, c ...))
 *
 * The same sums.  A product then takes the addition in (passes/fuse/fuse_product.c), and the gradients of all biases
 * are the parts of one sum over rows, which the product that makes the gradient of W takes in too.  Joining and
 * dividing vectors costs little against that.  Legal where each part is read by the addition of a row and nothing else;
 * the rows are parameters or constants, which wait for nothing.  Before precision, which would stand conversions in
 * between, and before autodiff. */
#include "graph/ir/emit.h"
#include "graph/ir/readers.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/product.gen.h"
#include "passes/pass.h"

/* Does n divide the columns of a product that can take a bias in: of two matrices, the first perhaps with rows along
 * several axes? */
static bool divides_product(const Uses *u, const Node *n)
{
    const Graph *g = u->g;
    const Node *p = n->op == &op_Split ? inner_maker(u, n->in[0]) : NULL;

    return p && (p->op == &op_MatMul || p->op == &op_BatchMatMul || (p->op == &op_Gemm && !has_in(p, 2))) &&
           in_value(g, p, 1)->shape->rank == 2 && node_int(n, "axis") == in_value(g, n, 0)->shape->rank - 1;
}

/* The Add of a row to output o of a Split; *row: its input that is the row.  NULL: there is none. */
static Node *bias_of(const Uses *u, const Node *split, int o, int *row)
{
    const Graph *g = u->g;
    const ValueId part = split->out[o];
    Node *add = only_reader(u, part);
    const Value *b;

    if (!add || add->op != &op_Add)
        return NULL;
    *row = value_eq(add->in[0], part);
    b = in_value(g, add, *row);
    return !b->producer && b->kind != V_INPUT && b->shape->rank == 1 && shape_known(value(g, part)->shape) &&
                   b->shape->dim[0] == value(g, part)->shape->dim[value(g, part)->shape->rank - 1]
               ? add
               : NULL;
}

static Status join_biases_join(Graph *g, const Uses *u, Node *split, Arena *a, bool *done)
{
    ValueId *rows = ARENA_NEW(a, ValueId, split->n_out), sum;
    Node **add = ARENA_NEW(a, Node *, split->n_out);
    int row;

    *done = false;
    if (!rows || !add)
        return FAIL_NOMEM();
    for (int o = 0; o < split->n_out; o++) {
        if (!(add[o] = bias_of(u, split, o, &row)))
            return ST_OK;
        rows[o] = add[o]->in[row];
    }
    sum = EMIT(g, Add, NULL, split->in[0], emit(g, &op_Concat, ATTRS(INT("axis", 0)), split->n_out, rows));
    TRY(g->status);
    node_set_input(g, split, 0, sum);
    for (int o = 0; o < split->n_out; o++) {
        graph_replace(g, add[o]->out[0], split->out[o]);
        graph_remove(g, add[o]);
    }
    *done = true;
    return g->status;
}

static Status join_biases_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node;
    bool done;
    Uses u;

    if (!target_fuses(build_target(ctx->opt), &op_Product))
        return ST_OK;
    TRY(uses_find(&u, g, ctx->scratch));
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++) {
        rewrite_read(g, g->node[i]);
        if (g->node[i]->op && divides_product(&u, g->node[i])) {
            TRY(join_biases_join(g, &u, g->node[i], ctx->scratch, &done));
            ctx->n_changed += done;
        }
    }
    TRY(rewrite_end(g));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_join_biases = { .name = "join-biases",
                                .summary = "add the biases of a divided product before it is divided",
                                .run = join_biases_run };
