/* --shard: where sums of gradients are cut into the pieces that devices keep. */
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ops/view.gen.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/options/collectives.h"
#include "passes/options/replicas.h"
#include "tests/harness/test.h"

extern const Pass pass_partition;

static const char reshaped[] =
    "graph \"g\" {\n"
    "  input %x : float32[\"batch\"=4,2]\n"
    "  input %dy : float32[\"batch\"=4,3]\n"
    "  input %lr : float32[]\n"
    "  state %w trainable : float32[6] = all 1\n"
    "  state %m : float32[6] = all 0\n"
    "  const %to : int64[1] = {6}\n"
    "  %d = dpexec.BatchMatMul(%x, %dy) {transA=1}\n"
    "  %dw = Reshape(%d, %to)\n"
    "  %nw, %nm = dpexec.Update(%w, %m, %dw, %lr) {formula=graph(%w, %m, %g, %lr) { %n = Add(%m, %g) %s = Mul(%lr, %n) "
    "%v = Sub(%w, %s) return %v, %n }}\n"
    "  update %w := %nw\n"
    "  update %m := %nm\n"
    "}\n";

/* A device needs the gradient's piece that belongs to its piece of the moment: the replicas' parts are added behind the
 * Reshape, where they are cut.  Before the Reshape, all of the sum would travel to every device. */
static void test_through_views(void)
{
    const BuildOptions opt = { .mode = BUILD_TRAIN,
                               .replicas = &(ReplicaOptions){ .replicas = 2, .devices = 2 },
                               .collectives = &(CollectiveOptions){ .shard = SHARD_OPTIMIZER } };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };
    Graph *g = NULL;
    int sums = 0;

    if (CHECK_OK(graph_parse(&g, reshaped, strlen(reshaped)))) {
        g->node[2]->phase = PHASE_UPDATE;
        if (CHECK_OK(pass_partition.run(g, &ctx)))
            FOR_NODES(g, n) {
                if (!(n->op->flags & OPF_COLLECTIVE) || !exchange_of(n).sum)
                    continue;
                sums++;
                CHECK_STR("ReduceScatter", n->op->name);
                for (int i = 0; i < n->n_in; i++)
                    CU_ASSERT_PTR_EQUAL(in_value(g, n, i)->producer->op, &op_Reshape);
            }
        CU_ASSERT_EQUAL(sums, 1);
    }
    graph_free(g);
    arena_free(ctx.scratch);
}

DEFINE_SUITE(shard, { "sums are cut behind views", test_through_views });
