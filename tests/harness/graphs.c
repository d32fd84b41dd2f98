#include "tests/harness/graphs.h"

#include <stdio.h>

#include "exec/run/interp.h"
#include "graph/onnx/onnx.h"
#include "tests/harness/test.h"

Graph *model_import(const char *name)
{
    char path[512];
    Graph *g = NULL;

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", name);
    CHECK_OK(onnx_import_file(&g, NULL, path, &(ImportOptions){ .eval = interp_node }));
    return g;
}

Graph *model_build(const char *name, const BuildOptions *opt)
{
    Graph *g = model_import(name);

    if (g && CHECK_OK(pipeline_run(g, opt, interp_node, NULL, NULL)))
        return g;
    graph_free(g);
    return NULL;
}

int count_nodes(const Graph *g, const OpDef *op)
{
    int count = 0;

    FOR_NODES(g, n)
        count += n->op == op;
    return count;
}
