/* Networks that were exported for one batch size (tests/passes/frozen_network.h). */
#include "tests/passes/frozen_network.h"

#include <string.h>

#include "exec/run/interp.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "passes/build_options.h"
#include "passes/passes.gen.h"

bool random_network_has_batch(const Value *input) { return strcmp(input->name, "table") != 0; }

void random_network_batch(Graph *g, int64_t batch)
{
    for (int i = 0; i < g->n_input; i++) {
        Value *v = value(g, g->input[i]);
        Shape s = *v->shape;

        if (!random_network_has_batch(v))
            continue;
        s.dim[0] = batch;
        value_set_shape(g, v, &s);
    }
}

Status frozen_network(char **out, const char *open, int64_t batch)
{
    static const Pass *const pass[] = { &pass_infer_shapes, &pass_fold_constants, &pass_dce };
    const BuildOptions opt = { .mode = BUILD_INFER };
    Graph *g = NULL;
    Status st = graph_parse(&g, open, strlen(open));

    if (!st)
        random_network_batch(g, batch);
    for (size_t i = 0; i < sizeof pass / sizeof *pass && !st; i++) {
        PassCtx ctx = { .scratch = arena_create(), .opt = &opt, .eval = interp_node };

        st = pass[i]->run(g, &ctx);
        arena_free(ctx.scratch);
    }
    if (!st)
        st = graph_text(out, g, NULL);
    graph_free(g);
    return st;
}
